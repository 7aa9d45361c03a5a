use super::*;
use crate::entry::{LogEntry, LogEntryKind, LogPosition};
use crate::log::{Checkpoint, HardState, Log, LogWrite};
use crate::membership::Membership;
use crate::peers::{Answer, PeerError};
use crate::set::SetError;
use crate::{Identity, LocalState, LogOptions, Peers, StoreLog};
use bytes::Bytes;
use catalog::{Catalog, OperationContext, Receipts};
use document::{DocumentBuf, DocumentBuilder, ObjectId, RawDocument, RawValue, Timestamp, doc};
use parking_lot::Mutex;
use pollster::block_on;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use storage::{Disk, MemoryEngine, OpenError, ReadTier, Room, StorageOptions, Store, WriteUnit};
use tempfile::TempDir;

const DOCUMENTS: i32 = 60;

/// A data directory and what is open of it.
struct Server {
    directory: TempDir,
    catalog: Arc<Catalog>,
}

impl Server {
    fn path(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn open(directory: TempDir) -> Self {
        let store = Store::open(directory.path().join("data"), &StorageOptions::small()).expect("a store");
        Server { directory, catalog: Catalog::open(store).expect("a catalog") }
    }

    fn close(self) -> TempDir {
        self.catalog.store().close().expect("it closes");
        self.directory
    }

    fn log(&self) -> StoreLog {
        StoreLog::open(&self.catalog, LogOptions::default()).expect("a log")
    }

    fn local(&self) -> LocalState {
        LocalState::new(self.catalog.store().clone())
    }

    /// With this number, its data at the index `applied` and its log two entries further.
    fn member(number: u64, term: u64, applied: u64, members: &[u64]) -> Self {
        let server = Server::open(tempfile::tempdir().expect("a directory"));
        let mut unit = WriteUnit::new();
        LocalState::put_identity(&mut unit, &identity(number, number > 1));
        let position = LogPosition { term, index: applied };
        let membership = Membership::of(members);
        LocalState::put_applied(&mut unit, &Checkpoint { position, membership, ..Checkpoint::default() });
        server.catalog.store().commit(unit).wait().expect("a write");
        let hard_state = Some(HardState { term: term + 1, vote: number, committed: applied });
        let entries = (1..=applied + 2).map(|index| operation(index, term)).collect();
        server.log().write(LogWrite { hard_state, entries, reset: None }).expect("a log");
        server
    }

    fn fill(&self) {
        let receipts = Receipts::default();
        let context = OperationContext::writing(self.catalog.store(), &receipts);
        let made = block_on(self.catalog.collection_or_create(&context, "test", "c"));
        let collection = made.expect("a collection");
        let mut random = fastrand::Rng::with_seed(7);
        for id in 0..DOCUMENTS {
            let text: String = (0..200_000).map(|_| random.alphanumeric()).collect();
            let document = doc! { "_id": id, "text": text }.to_buf();
            block_on(collection.insert(&context, document.as_raw())).expect("an insert");
        }
    }

    fn documents(&self) -> u64 {
        let Some(collection) = self.catalog.collection("test", "c") else { return 0 };
        let view = self.catalog.store().read_view();
        let is_there =
            |id: &i32| collection.get(&view, RawValue::Int32(*id), ReadTier::Any).expect("a read").is_some();
        assert!((0..DOCUMENTS).all(|id| is_there(&id)), "a document is missing");
        collection.document_count()
    }
}

fn identity(number: u64, needs_copy: bool) -> Identity {
    let set_id = ObjectId::from_bytes([1; 12]);
    Identity {
        set_name: "rs".to_owned(),
        set_id,
        number,
        genesis: 1,
        needs_copy,
        forced_through: 0,
        is_arbiter: false,
    }
}

fn operation(index: u64, term: u64) -> LogEntry {
    let timestamp = Timestamp { time: index as u32, increment: 1 };
    let wall = document::Value::DateTime(0);
    let data = doc! { "op": "n", "ts": timestamp, "t": (term as i64), "v": 2_i64, "wall": wall };
    let data = data.to_buf().into_bytes().into();
    let position = LogPosition { term, index };
    LogEntry { position, kind: LogEntryKind::Operation(timestamp), data, context: Bytes::new() }
}

/// A way to one source, with troubles.
#[derive(Debug, Default)]
struct Transfer {
    source: Mutex<Option<CopySource>>,
    /// So many answers come; then whoever asks is stopped.
    answers: Mutex<usize>,
    receiver: Mutex<Option<Arc<Receiver>>>,
    damages_next: Mutex<bool>,
    read: Mutex<u64>,
    /// Whom the leader names to be copied from, and whether that one is there.
    named: Mutex<Option<(String, bool)>>,
    /// Who was read from.
    sources: Mutex<Vec<String>>,
    /// What the source wants between reads.
    pause_ms: Mutex<i64>,
}

impl Transfer {
    fn to(source: &Server) -> Arc<Self> {
        let transfer = Arc::new(Transfer::default());
        *transfer.source.lock() = Some(copy_source(source));
        *transfer.answers.lock() = usize::MAX;
        transfer
    }

    fn receiver(self: &Arc<Self>, data: PathBuf, store: Store) -> Arc<Receiver> {
        let own_hosts = vec!["member:1".to_owned()];
        let receiver = Arc::new(Receiver::new(data, store, Arc::<Transfer>::clone(self), own_hosts));
        *self.receiver.lock() = Some(Arc::clone(&receiver));
        receiver
    }

    fn fetch(self: &Arc<Self>, member: &Server) -> Result<(), CopyError> {
        let receiver = self.receiver(member.path(), member.catalog.store().clone());
        let fetched = block_on(receiver.fetch(&wanted()));
        drop(receiver);
        // It keeps the data open.
        *self.receiver.lock() = None;
        fetched
    }

    fn answer(&self, host: &str, command: RawDocument<'_>) -> DocumentBuf {
        let named = self.named.lock().clone();
        if command.contains("chooseSource") {
            assert_eq!(host, "source:1", "the leader is asked");
            let mut answer = doc! { "ok": 1.0 };
            named.into_iter().for_each(|(host, _)| answer.push("source", host));
            return answer.to_buf();
        }
        let is_away = named.is_some_and(|(named, is_there)| named == host && !is_there);
        if command.contains("file") {
            self.sources.lock().push(host.to_owned());
        }
        let answer = match &*self.source.lock() {
            Some(source) if !is_away => source.answer(command),
            _ => Err(SetError::new(wire::ErrorCode::HostUnreachable, "away")),
        };
        let mut bytes = Vec::new();
        let mut builder = DocumentBuilder::new(&mut bytes);
        match answer {
            Ok(answer) => {
                builder.append("pauseMillis", *self.pause_ms.lock());
                if let Some(RawValue::Binary { bytes, .. }) = answer.as_raw().get("data") {
                    *self.read.lock() += bytes.len() as u64;
                }
                builder.append_all(answer.as_raw()).append("ok", 1.0)
            }
            Err(error) => builder.append("ok", 0.0).append("code", error.code as i32),
        };
        builder.finish();
        if std::mem::take(&mut *self.damages_next.lock()) {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }
        DocumentBuf::trusted(bytes)
    }
}

impl Peers for Transfer {
    fn send(&self, _: &str, _: DocumentBuf) {}

    fn ask(&self, host: &str, command: DocumentBuf, _: Duration) -> Answer {
        let mut left = self.answers.lock();
        let answer = match *left {
            0 => {
                self.receiver.lock().as_ref().expect("somebody asks").stop();
                Err(PeerError::TimedOut { host: host.to_owned() })
            }
            _ => Ok(self.answer(host, command.as_raw())),
        };
        *left = left.saturating_sub(1);
        Box::pin(std::future::ready(answer))
    }
}

fn copy_source(of: &Server) -> CopySource {
    CopySource::new(of.catalog.store().clone(), Some(&of.path()))
}

fn open(path: &Path) -> Result<Store, OpenError> {
    Store::open(path, &StorageOptions::small())
}

fn wanted() -> CopyWanted {
    CopyWanted { leader: "source:1".to_owned(), number: 1, at: 0 }
}

fn adopt(data: &TempDir) -> bool {
    adopt_copy(&data.path().join("data"), &open).expect("no failure")
}

#[test]
fn a_copy_survives_both_ends_and_becomes_the_members_own() {
    let source = Server::member(1, 5, 9, &[1, 2]);
    source.fill();
    let member = Server::member(2, 3, 2, &[1, 2]);
    let (transfer, data) = (Transfer::to(&source), member.path());
    *transfer.answers.lock() = 5;
    assert!(transfer.fetch(&member).is_err(), "the member dies");
    let member = member.close();
    assert!(!adopt(&member), "half a copy is none");
    // The source begins again, with other data than its checkpoint.
    *transfer.source.lock() = None;
    source.log().write(LogWrite { entries: vec![operation(12, 6)], ..LogWrite::default() }).expect("a write");
    let source = Server::open(source.close());
    *transfer.source.lock() = Some(copy_source(&source));
    *transfer.answers.lock() = usize::MAX;
    *transfer.damages_next.lock() = true;
    let member = Server::open(member);
    transfer.fetch(&member).expect("the rest is copied");
    let member = member.close();
    let copied: u64 = files(&data.join(DIRECTORY).join(COPY)).iter().map(|(_, bytes)| bytes).sum();
    assert!(*transfer.read.lock() < copied + copied / 2, "{} bytes read for {copied}", *transfer.read.lock());
    assert_eq!(files(&source.path().join("copies")), [], "the checkpoint goes");
    assert!(adopt(&member));
    assert!(!adopt(&member), "once");
    let member = Server::open(member);
    assert_eq!(member.documents(), DOCUMENTS as u64);
    assert_eq!(member.local().identity().expect("an identity"), Some(identity(2, true)));
    assert_eq!(member.local().applied().expect("a mark").expect("a mark").position.index, 9);
    let log = member.log();
    assert_eq!(
        (log.last(), log.hard_state().vote, log.hard_state().term),
        (11, 0, 5),
        "{:?}",
        log.hard_state()
    );
    assert!(!member.path().join(DIRECTORY).exists() && !member.path().join(RUBBISH).exists());
}

#[test]
fn promises_are_kept() {
    let source = Server::member(1, 5, 9, &[1, 2]);
    let member = Server::member(2, 7, 2, &[1, 2]);
    Transfer::to(&source).fetch(&member).expect("a copy");
    let member = member.close();
    assert!(adopt(&member));
    let promised = Server::open(member).log().hard_state();
    assert_eq!(promised, HardState { term: 8, vote: 2, committed: 9 });
}

#[test]
fn a_copy_of_no_use_is_dropped() {
    // It does not know the member; the member has come further; the member has its entry.
    let cases = [(5, 9, &[1, 3][..], 3, 2), (5, 9, &[1, 2], 6, 20), (5, 9, &[1, 2], 5, 8)];
    for (term, applied, members, own_term, own_applied) in cases {
        let source = Server::member(1, term, applied, members);
        let member = Server::member(2, own_term, own_applied, &[1, 2]);
        Transfer::to(&source).fetch(&member).expect("a copy");
        let member = member.close();
        assert!(!adopt(&member), "a copy at {applied} for {own_applied}");
        let member = Server::open(member);
        assert_eq!(member.local().applied().expect("a mark").expect("a mark").position.index, own_applied);
        assert!(!member.path().join(DIRECTORY).exists());
    }
}

#[test]
fn a_crash_between_the_renamings_is_made_good() {
    let source = Server::member(1, 5, 9, &[1, 2]);
    let member = Server::member(2, 3, 2, &[1, 2]);
    Transfer::to(&source).fetch(&member).expect("a copy");
    let data = member.path();
    let member = member.close();
    let copy = data.join(DIRECTORY).join(COPY);
    super::adopt::prepare(&data, &copy, &open).expect("it is prepared");
    std::fs::rename(data.join("engine"), copy.join("replaced")).expect("a renaming");
    assert!(adopt(&member));
    let member = Server::open(member);
    assert_eq!(member.local().identity().expect("an identity"), Some(identity(2, true)));
    assert_eq!(member.log().last(), 11);
}

#[test]
fn a_source_that_is_gone_is_not_waited_for() {
    let source = Server::member(1, 5, 9, &[1, 2]);
    let member = Server::member(2, 3, 2, &[1, 2]);
    let transfer = Transfer::to(&source);
    *transfer.answers.lock() = 3;
    assert!(transfer.fetch(&member).is_err());
    std::fs::remove_dir_all(source.path().join("copies")).expect("the copy is lost");
    *transfer.answers.lock() = usize::MAX;
    assert!(transfer.fetch(&member).is_err());
    transfer.fetch(&member).expect("another copy");
}

#[test]
fn a_source_reads_nothing_but_copies() {
    let source = Server::member(1, 5, 9, &[1, 2]);
    let reads = copy_source(&source);
    let begin = |number: i64, at: i64| doc! { "begin": true, "for": number, "at": at }.to_buf();
    for (number, at) in [(3, 0), (2, 10)] {
        let refused = reads.answer(begin(number, at).as_raw()).expect_err("a copy of no use");
        assert_eq!(refused.code, wire::ErrorCode::NotYetInitialized, "for {number} at {at}");
    }
    assert!(reads.answer(doc! { "other": 1 }.to_buf().as_raw()).is_err());
    assert_eq!(files(&source.path().join("copies")), [], "none of these is one");
    let copy = reads.answer(begin(2, 9).as_raw()).expect("a copy");
    let id = copy.as_raw().get("id").and_then(RawValue::as_str).expect("an id").to_owned();
    let read = |id: &str, file: &str| {
        reads.answer(doc! { "id": id, "file": file, "offset": 0 }.to_buf().as_raw()).map(drop)
    };
    assert_eq!(read(&id, "engine/CURRENT"), Ok(()));
    for (id, file) in [
        (&*id, "engine/../../../heddle.lock"),
        (&*id, "/etc/passwd"),
        (&*id, "engine/../FORMAT"),
        ("..", "engine/CURRENT"),
        ("", "engine/CURRENT"),
    ] {
        assert!(read(id, file).is_err(), "{id} {file}");
    }
    // Whoever asks again has no use for the one before.
    let again = reads.answer(begin(2, 9).as_raw()).expect("another copy");
    assert!(read(&id, "engine/CURRENT").is_err());
    let id = again.as_raw().get("id").and_then(RawValue::as_str).expect("an id").to_owned();
    assert_eq!(read(&id, "engine/CURRENT"), Ok(()));
    reads.answer(doc! { "end": (id.as_str()) }.to_buf().as_raw()).expect("an end");
    assert!(read(&id, "engine/CURRENT").is_err());
}

#[test]
fn a_secondary_is_copied_from_where_the_leader_names_one_that_is_there() {
    let cases = [
        (Some(("other:1", true)), "other:1"),
        (Some(("other:1", false)), "source:1"),
        (Some(("member:1", true)), "source:1"),
        (None, "source:1"),
    ];
    for (named, expected) in cases {
        let source = Server::member(1, 5, 9, &[1, 2]);
        let member = Server::member(2, 3, 2, &[1, 2]);
        let transfer = Transfer::to(&source);
        *transfer.named.lock() = named.map(|(host, is_there)| (host.to_owned(), is_there));
        transfer.fetch(&member).expect("a copy");
        let sources = transfer.sources.lock().clone();
        assert!(!sources.is_empty() && sources.iter().all(|host| host == expected), "{named:?}: {sources:?}");
    }
}

#[derive(Debug)]
struct SmallDisk(Mutex<u64>);

impl Disk for SmallDisk {
    fn room(&self) -> std::io::Result<Room> {
        Ok(Room { total: 1 << 40, free: *self.0.lock() })
    }

    fn set_reserve(&self, _: u64) -> std::io::Result<()> {
        Ok(())
    }

    fn reserve(&self) -> u64 {
        0
    }
}

#[test]
fn nothing_is_copied_that_the_disk_cannot_hold() {
    let source = Server::member(1, 5, 9, &[1, 2]);
    source.fill();
    let (transfer, data) = (Transfer::to(&source), tempfile::tempdir().expect("a directory"));
    let disk = Arc::new(SmallDisk(Mutex::new(1 << 20)));
    let engine = Arc::new(MemoryEngine::new());
    let store = Store::with_engine_and_disk(engine, Arc::clone(&disk) as _, &StorageOptions::small());
    let receiver = transfer.receiver(data.path().to_owned(), store.expect("a store"));
    for failed in 1..3 {
        let refused = block_on(receiver.fetch(&wanted())).expect_err("there is no room").to_string();
        assert!(refused.contains("the disk has room for 1048576"), "{refused}");
        let status = receiver.status().expect("an initial sync");
        assert_eq!((status.failed, status.progress), (failed, None));
        assert!(status.failures.last().is_some_and(|failure| failure.reason == refused));
    }
    assert_eq!(*transfer.read.lock(), 0, "nothing was read");
    assert_eq!(files(&source.path().join("copies")), [], "the source does not keep the copy");
    *disk.0.lock() = 1 << 30;
    assert!(block_on(receiver.fetch(&wanted())).is_err(), "the copy it was told of is gone");
    block_on(receiver.fetch(&wanted())).expect("another one");
    let progress = receiver.status().and_then(|status| status.progress).expect("a copy");
    assert_eq!((progress.bytes, progress.percent()), (progress.bytes_total, 100.0));
    assert_eq!(*transfer.read.lock(), progress.bytes_total);
}

#[test]
fn a_copy_keeps_to_the_pace_of_either_side() {
    let source = Server::member(1, 5, 9, &[1, 2]);
    let pace = |budget: u64, pause_ms: i64| {
        let (transfer, data) = (Transfer::to(&source), tempfile::tempdir().expect("a directory"));
        *transfer.pause_ms.lock() = pause_ms;
        let options = StorageOptions { io_budget_bytes_per_second: budget, ..StorageOptions::small() };
        let receiver =
            transfer.receiver(data.path().to_owned(), Store::in_memory(&options).expect("a store"));
        let began = ambient::now();
        block_on(receiver.fetch(&wanted())).expect("a copy");
        (ambient::elapsed(began).as_secs_f64(), *transfer.read.lock(), transfer.sources.lock().len())
    };
    let (seconds, bytes, _) = pace(2 << 20, 0);
    let least = bytes as f64 / f64::from(256 << 10);
    assert!(seconds >= least && least > 0.05, "{bytes} bytes in {seconds} s");
    let (seconds, _, reads) = pace(0, 30);
    assert!(seconds >= reads as f64 * 0.03, "{reads} reads in {seconds} s");
}

/// All files below a directory, and their sizes.
fn files(directory: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.metadata().expect("a file") {
            metadata if metadata.is_dir() => found.extend(files(&entry.path())),
            metadata => found.push((entry.path(), metadata.len())),
        }
    }
    found
}
