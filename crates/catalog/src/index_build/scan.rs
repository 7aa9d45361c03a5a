//! The first step of a build: all documents are read, each by whoever has its part of the collection, and
//! their entries collected in sorted runs.

use super::BuildProgress;
use super::run::{BUFFER_BYTES, EntryBuffer, FileRun, Run};
use super::saved::{SavedScan, SavedStage, remove_unnamed};
use crate::collection::Collection;
use crate::definition::IndexDefinition;
use crate::index_keys::{KeyScratch, MultikeyPaths};
use crate::{CatalogError, keys};
use document::RawDocument;
use parking_lot::Mutex;
use query::checkpoint;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use storage::{
    BuildMemory, BuildPart, Cursor, CursorOptions, Direction, KeyRange, Keyspace, ReadTier, StorageError,
    Store,
};

/// Documents of one step.
const STEP_DOCUMENTS: usize = 256;
/// Bytes of documents of one step.
const STEP_BYTES: usize = 1 << 20;
/// Parts of the collection for each thread: so that none waits long for the last one.
const PARTS_PER_THREAD: u64 = 8;
/// A part of fewer documents is not worth a cursor of its own.
const DOCUMENTS_PER_PART: u64 = 4096;
/// How often the middle of a part's keys is moved towards that of its bytes.
const BISECTIONS: u32 = 20;

/// Less than this of a run is not read at a time, however many are merged.
const READ_BYTES_MIN: usize = 8 << 10;

/// Documents, and bytes of them, between two looks at the pace of builds.
const PACED_DOCUMENTS: u64 = 2048;
const PACED_BYTES: u64 = 1 << 20;
/// How often who rests looks whether the build goes on.
const REST_LOOK: Duration = Duration::from_millis(50);

/// What is shared by all who scan for one build.
pub(super) struct Scan {
    pub(super) store: Store,
    pub(super) indexes: Vec<Arc<IndexDefinition>>,
    pub(super) progress: Arc<BuildProgress>,
    ledger: Mutex<Ledger>,
    /// Held while the state is written down, so that a newer one is never replaced by an older one. Before
    /// `ledger` in the lock order.
    saving: Mutex<()>,
    /// What all who scan may hold of entries.
    memory: Arc<BuildMemory>,
    threads: usize,
    /// Whether it fails for documents that an index cannot hold, and for want of room.
    pub(super) keeps_rules: bool,
    next_file: AtomicU64,
}

/// What is scanned and what is not. A leaf in the lock order.
#[derive(Default)]
struct Ledger {
    /// Parts that nobody has begun.
    parts: Vec<KeyRange>,
    /// For each who scans, what no run of his on the disk covers.
    unsaved: Vec<Vec<KeyRange>>,
    /// Documents that the runs on the disk cover.
    saved_documents: u64,
    /// For each index its runs so far.
    runs: Vec<Vec<Arc<Run>>>,
    /// Where arrays were met, for each index.
    multikey: Vec<MultikeyPaths>,
}

impl Scan {
    /// Begins a scan, or goes on where a process before this one was.
    pub(super) fn new(
        collection: &Collection,
        progress: &Arc<BuildProgress>,
        (threads, keeps_rules): (usize, bool),
        saved: Option<SavedScan>,
    ) -> Result<Scan, CatalogError> {
        let store = collection.store.clone();
        let definition = collection.definition();
        let ids = progress.index_ids();
        let indexes: Vec<_> =
            definition.indexes.iter().filter(|index| ids.contains(&index.id)).cloned().collect();
        let mut ledger = Ledger {
            runs: vec![Vec::new(); indexes.len()],
            multikey: indexes.iter().map(|index| vec![0; index.spec.fields.len()]).collect(),
            unsaved: vec![Vec::new(); threads.max(1)],
            ..Ledger::default()
        };
        let mut next_file = 0;
        if let Some(directory) = progress.directory() {
            std::fs::create_dir_all(directory).map_err(|error| super::run::unusable(&error))?;
            let records = saved.iter().flat_map(|saved| saved.runs.iter().flatten());
            let named: Vec<&str> = records.map(|record| record.file.as_str()).collect();
            remove_unnamed(directory, &named);
            if let Some(saved) = saved {
                next_file = ledger.go_on(progress, &store, directory, saved);
            }
        }
        if ledger.saved_documents == 0 {
            ledger.parts = parts(collection, threads)?;
        }
        progress.begin_scan(ledger.saved_documents);
        let has_runs = ledger.saved_documents > 0;
        let scan = Scan {
            ledger: Mutex::new(ledger),
            saving: Mutex::new(()),
            memory: store.build_memory(),
            threads: threads.max(1),
            progress: Arc::clone(progress),
            next_file: AtomicU64::new(next_file),
            store,
            indexes,
            keeps_rules,
        };
        // A power loss before the first run may take it: there is nothing in it yet.
        scan.save(has_runs)?;
        Ok(scan)
    }

    /// A name for a file of the build that no other one has.
    pub(super) fn new_path(&self, kind: &str) -> PathBuf {
        let number = self.next_file.fetch_add(1, Ordering::Relaxed);
        let directory = self.progress.directory().unwrap_or(Path::new(""));
        directory.join(format!("{kind}-{number}"))
    }

    /// What one who scans may hold of entries now.
    fn share(&self) -> usize {
        self.memory.bytes() / self.threads
    }

    /// What to read at a time of each of so many runs that are merged by each thread, and an account for it.
    pub(super) fn lend_readers(&self, runs: usize) -> (usize, BuildPart) {
        // The other half is for runs that are in memory.
        let each = (self.share() / 2 / runs.max(1)).clamp(READ_BYTES_MIN, BUFFER_BYTES);
        let mut account = self.memory.part();
        account.set(each * runs);
        (each, account)
    }

    /// Where arrays were met, for each index, and its runs.
    pub(super) fn results(&self) -> (Vec<MultikeyPaths>, Vec<Vec<Arc<Run>>>) {
        let mut ledger = self.ledger.lock();
        (ledger.multikey.clone(), std::mem::take(&mut ledger.runs))
    }

    /// Writes down what is scanned, where there are files; `synced`: and on stable storage.
    fn save(&self, synced: bool) -> Result<(), CatalogError> {
        let _saving = self.saving.lock();
        let scan = self.ledger.lock().saved();
        self.progress.save(&self.store, SavedStage::Scan(scan), synced)
    }

    /// Waits as long as what was written costs of the I/O budget, and fails when there is no room for more.
    pub(super) fn pay(&self, bytes: u64) -> Result<(), StorageError> {
        // Who is told to stop pays no more; that it has been told is found by the next look.
        let is_going_on = || if self.progress.is_stopped() { Err(()) } else { Ok(()) };
        let _ = self.store.await_background(bytes, is_going_on);
        if self.keeps_rules { self.store.check_room() } else { Ok(()) }
    }
}

impl Ledger {
    /// Takes over the runs of a process that is gone. Nothing, where one of them is damaged: then all is
    /// scanned again. Returns a number that no file has.
    fn go_on(&mut self, progress: &BuildProgress, store: &Store, directory: &Path, saved: SavedScan) -> u64 {
        let Some(left) = saved.left.filter(|_| saved.runs.len() == self.runs.len()) else { return 0 };
        let (mut next_file, vault) = (0, store.vault());
        let mut runs = Vec::new();
        for records in &saved.runs {
            let mut of_index = Vec::new();
            for record in records {
                match FileRun::reopen(directory, record, &vault) {
                    Ok(run) => of_index.push(Arc::new(Run::File(run))),
                    Err(error) => {
                        tracing::warn!(target: "INDEX", id = 8_800_202, indexes = ?progress.names(),
                            file = record.file, %error,
                            "A sorted run of an index build cannot be read: the collection is scanned anew");
                        return 0;
                    }
                }
                let number = record.file.rsplit('-').next().and_then(|number| number.parse().ok());
                next_file = next_file.max(number.map_or(0, |number: u64| number + 1));
            }
            runs.push(of_index);
        }
        self.runs = runs;
        self.saved_documents = saved.documents;
        self.parts = left;
        self.widen(&saved.multikey);
        next_file
    }

    fn saved(&self) -> SavedScan {
        let of_files = |runs: &Vec<Arc<Run>>| runs.iter().filter_map(|run| run.record()).collect();
        let left = self.parts.iter().chain(self.unsaved.iter().flatten());
        SavedScan {
            documents: self.saved_documents,
            left: (self.saved_documents > 0).then(|| left.cloned().collect()),
            runs: self.runs.iter().map(of_files).collect(),
            multikey: self.multikey.clone(),
        }
    }
}

/// One who scans.
pub(super) struct Scanner {
    scan: Arc<Scan>,
    /// His place in the ledger.
    number: usize,
    /// The part he is at: its cursor, its end, and the last key that he has read.
    part: Option<Part>,
    /// Documents in no run on the disk.
    unsaved_documents: u64,
    /// Documents and bytes of them that were read since the pace was looked at.
    unpaced: (u64, u64),
    scratch: KeyScratch,
    /// For each index the entries that are in no run yet.
    buffers: Vec<EntryBuffer>,
    multikey: Vec<MultikeyPaths>,
}

struct Part {
    cursor: Cursor,
    upper: Option<Vec<u8>>,
    last: Vec<u8>,
}

impl Part {
    /// What is not read of it.
    fn rest(&self) -> KeyRange {
        KeyRange { lower: Some([self.last.as_slice(), &[0]].concat()), upper: self.upper.clone() }
    }
}

impl Scanner {
    pub(super) fn new(scan: &Arc<Scan>, number: usize) -> Scanner {
        let buffer = |_| EntryBuffer::with_account(scan.memory.part());
        let buffers = scan.indexes.iter().map(buffer).collect();
        let multikey = scan.indexes.iter().map(|index| vec![0; index.spec.fields.len()]).collect();
        Scanner {
            scan: Arc::clone(scan),
            number,
            part: None,
            unsaved_documents: 0,
            unpaced: (0, 0),
            scratch: KeyScratch::default(),
            buffers,
            multikey,
        }
    }

    /// Does all that is left to be done.
    pub(super) fn run(mut self) -> Result<(), CatalogError> {
        while self.step()? {
            if self.scan.progress.is_stopped() {
                return self.scan.progress.check_going_on();
            }
        }
        self.finish();
        Ok(())
    }

    /// Reads some documents; whether there may be more.
    pub(super) fn step(&mut self) -> Result<bool, CatalogError> {
        let Some(mut part) = self.part.take().map_or_else(|| self.next_part(), |part| Ok(Some(part)))? else {
            return Ok(false);
        };
        let (mut documents, mut bytes, mut is_over) = (0, 0, false);
        while documents < STEP_DOCUMENTS && bytes < STEP_BYTES {
            let Some((key, value)) = part.cursor.next()? else {
                is_over = true;
                break;
            };
            self.take(keys::behind_collection(key), value)?;
            documents += 1;
            bytes += value.len();
            if documents == STEP_DOCUMENTS || bytes >= STEP_BYTES {
                part.last.clear();
                part.last.extend_from_slice(key);
            }
        }
        self.scan.progress.advance(documents as u64);
        let is_asked = self.rest_after(documents as u64, bytes as u64);
        self.unsaved_documents += documents as u64;
        self.part = (!is_over).then_some(part);
        self.spill_if_full()?;
        if is_asked && self.scan.progress.is_to_pause() {
            self.pause()?;
        }
        Ok(true)
    }

    /// Stands still until the build may go on. What it has is in files meanwhile, as far as there are any,
    /// and no old state of the store is kept for it: it goes on from a newer one.
    fn pause(&mut self) -> Result<(), CatalogError> {
        self.spill()?;
        let range = self.part.take().map(|part| part.rest());
        self.scan.progress.pause();
        self.part = range.map(|range| self.open(range)).transpose()?;
        Ok(())
    }

    /// Keeps to the pace that is set for builds, which is asked now and then: whether it was.
    fn rest_after(&mut self, documents: u64, bytes: u64) -> bool {
        self.unpaced.0 += documents;
        self.unpaced.1 += bytes;
        if self.unpaced.0 < PACED_DOCUMENTS && self.unpaced.1 < PACED_BYTES {
            return false;
        }
        let (documents, bytes) = std::mem::take(&mut self.unpaced);
        let mut rest = self.scan.progress.rest_after(documents, bytes);
        while !rest.is_zero() && !self.scan.progress.is_stopped() && checkpoint::look().is_ok() {
            std::thread::sleep(rest.min(REST_LOOK));
            rest = rest.saturating_sub(REST_LOOK);
        }
        true
    }

    fn next_part(&self) -> Result<Option<Part>, CatalogError> {
        let range = {
            let mut ledger = self.scan.ledger.lock();
            let Some(range) = ledger.parts.pop() else { return Ok(None) };
            ledger.unsaved.get_mut(self.number).expect("each has his place").push(range.clone());
            range
        };
        self.open(range).map(Some)
    }

    fn open(&self, range: KeyRange) -> Result<Part, CatalogError> {
        let options = CursorOptions { tier: ReadTier::Any, fill_cache: false };
        let view = self.scan.store.read_view();
        let upper = range.upper.clone();
        let cursor = view.cursor_with(Keyspace::Documents, range, Direction::Forward, options)?;
        Ok(Part { cursor, upper, last: Vec::new() })
    }

    fn take(&mut self, document_key: &[u8], document: &[u8]) -> Result<(), CatalogError> {
        let document = RawDocument::trusted(document);
        let all = self.scan.indexes.iter().zip(&mut self.buffers).zip(&mut self.multikey);
        for ((index, buffer), multikey) in all {
            let mut take = |key: &[u8], value: &[u8]| buffer.push(key, value);
            match index.generator.each_entry(document, document_key, &mut self.scratch, &mut take) {
                Ok(Some(found)) => multikey.iter_mut().zip(found).for_each(|(known, more)| *known |= more),
                Ok(None) => {}
                // Whether a document that has changed since is why, nobody knows; as MongoDB does.
                Err(error) if self.scan.keeps_rules => return Err(error.into()),
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn spill_if_full(&mut self) -> Result<(), CatalogError> {
        self.buffers.iter_mut().for_each(EntryBuffer::settle);
        let held: usize = self.buffers.iter().map(EntryBuffer::held_bytes).sum();
        let share = self.scan.share();
        // A step's documents may have many entries each.
        let has_place = self.buffers.iter().all(|buffer| buffer.has_place(1 << 31));
        if held < share && has_place { Ok(()) } else { self.spill() }
    }

    /// Makes runs of what is in memory, where there are files, and writes down how far it is.
    fn spill(&mut self) -> Result<(), CatalogError> {
        if self.scan.progress.directory().is_none() || self.unsaved_documents == 0 {
            return Ok(());
        }
        let (share, vault) = (self.scan.share(), self.scan.store.vault());
        let mut runs = Vec::new();
        for (position, buffer) in self.buffers.iter_mut().enumerate().filter(|(_, buffer)| !buffer.is_empty())
        {
            buffer.sort();
            let run: FileRun = buffer.spill(self.scan.new_path("run"), &vault)?;
            self.scan.pay(run.bytes)?;
            runs.push((position, run));
            buffer.keep(share / self.scan.indexes.len().max(1));
        }
        let mut ledger = self.scan.ledger.lock();
        for (position, run) in runs {
            ledger.add_run(position, Run::File(run));
        }
        ledger.widen(&self.multikey);
        ledger.saved_documents += std::mem::take(&mut self.unsaved_documents);
        let unsaved = ledger.unsaved.get_mut(self.number).expect("each has his place");
        *unsaved = self.part.iter().map(Part::rest).collect();
        drop(ledger);
        self.scan.save(true)
    }

    /// Adds what is left in memory to the runs.
    pub(super) fn finish(mut self) {
        let mut ledger = self.scan.ledger.lock();
        for (position, mut buffer) in self.buffers.drain(..).enumerate() {
            if !buffer.is_empty() {
                buffer.sort();
                buffer.keep(buffer.held_bytes());
                ledger.add_run(position, Run::Memory(buffer));
            }
        }
        ledger.widen(&self.multikey);
    }
}

impl Ledger {
    fn add_run(&mut self, position: usize, run: Run) {
        self.runs.get_mut(position).expect("each index has its runs").push(Arc::new(run));
    }

    fn widen(&mut self, multikey: &[MultikeyPaths]) {
        for (known, more) in self.multikey.iter_mut().zip(multikey) {
            known.iter_mut().zip(more).for_each(|(known, more)| *known |= more);
        }
    }
}

/// Divides a collection into parts of about as many bytes each.
fn parts(collection: &Collection, threads: usize) -> Result<Vec<KeyRange>, CatalogError> {
    let whole = keys::document_range(collection.id());
    let most = PARTS_PER_THREAD * threads as u64;
    let wanted = (collection.document_count() / DOCUMENTS_PER_PART).min(most).max(1);
    let mut ends = Vec::new();
    for direction in [Direction::Forward, Direction::Backward] {
        let mut cursor =
            collection.store.read_view().cursor(Keyspace::Documents, whole.clone(), direction)?;
        let Some((key, _)) = cursor.next()? else { return Ok(vec![whole]) };
        ends.push(key.to_vec());
    }
    let (Some(first), Some(last)) = (ends.first(), ends.last()) else { return Ok(vec![whole]) };
    let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let keys = KeyLine { collection, common: first.get(..common).unwrap_or_default() };
    let (from, to) = (place(first, common), place(last, common));
    let mut cuts = Vec::new();
    keys.cut((from, to), wanted.next_power_of_two().ilog2(), &mut cuts);
    cuts.dedup();
    let mut parts = Vec::new();
    let mut lower = whole.lower.clone();
    for cut in cuts {
        let cut = keys.at(cut);
        parts.push(KeyRange { lower: lower.replace(cut.clone()), upper: Some(cut) });
    }
    parts.push(KeyRange { lower, upper: whole.upper });
    Ok(parts)
}

/// The eight bytes behind those that all keys have in common, as a number.
fn place(key: &[u8], common: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(key.iter().skip(common)).for_each(|(byte, of_key)| *byte = *of_key);
    u64::from_be_bytes(bytes)
}

struct KeyLine<'c> {
    collection: &'c Collection,
    common: &'c [u8],
}

impl KeyLine<'_> {
    fn at(&self, place: u64) -> Vec<u8> {
        [self.common, &place.to_be_bytes()].concat()
    }

    fn bytes(&self, from: u64, to: u64) -> u64 {
        let range = KeyRange { lower: Some(self.at(from)), upper: Some(self.at(to)) };
        self.collection.store.range_bytes(Keyspace::Documents, &range).total()
    }

    /// Adds the places that halve a range, and its halves, so many times, in order. The halves of what an
    /// estimate says are any: each document is in one part.
    fn cut(&self, (from, to): (u64, u64), times: u32, cuts: &mut Vec<u64>) {
        if times == 0 || to - from < 2 {
            return;
        }
        let all = self.bytes(from, to);
        let (mut low, mut high) = (from, to);
        for _ in 0..BISECTIONS {
            let middle = low + (high - low) / 2;
            match self.bytes(from, middle) < all / 2 {
                true => low = middle,
                false => high = middle,
            }
        }
        if high <= from || high >= to {
            return;
        }
        self.cut((from, high), times - 1, cuts);
        cuts.push(high);
        self.cut((high, to), times - 1, cuts);
    }
}
