//! The member that copies.

use super::plan::{CopyPlan, is_in};
use super::status::{Attempts, CopyProgress, CopyStatus};
use super::{COPY, COPY_COMMAND, CopyError, DIRECTORY, READY, discard, sync_directory};
use crate::Peers;
use crate::entry::{LogIndex, MemberId};
use document::{Document, DocumentBuf, RawValue, doc};
use parking_lot::Mutex;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};
use storage::Store;
use storage::files::{CheckpointFile, checksum};
use wire::ErrorCode;

/// For one answer; making a checkpoint takes longest.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);
/// Between tries.
const PAUSE: Duration = Duration::from_secs(1);
/// So often in a row the source may not answer: then another one is asked.
const TRIES: u32 = 60;
/// So often a secondary is asked that has not come far enough yet: then the leader is.
const BEGIN_TRIES: u32 = 10;
/// Longer than this the source cannot have this member wait before the next chunk.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How often the log tells how far it is.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// A source whose copy had no room here is asked again after this time: it may have less by then.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(600);

/// What a member is to copy that the log cannot bring up to date.
#[derive(Debug, Clone)]
pub struct CopyWanted {
    /// The leader, who knows of the others.
    pub leader: String,
    /// As what the member is known: a copy that does not know it is of no use.
    pub number: MemberId,
    /// The copy must have come so far.
    pub at: LogIndex,
}

/// Fetches the files of another member.
#[derive(Debug)]
pub struct Receiver {
    data: PathBuf,
    store: Store,
    peers: Arc<dyn Peers>,
    own_hosts: Vec<String>,
    attempts: Mutex<Attempts>,
    /// Of the copy that is made; 0: there is none.
    place: AtomicU64,
    ends: AtomicBool,
}

/// What came instead of an answer.
enum Failure {
    /// The source does not have the copy.
    Gone,
    /// The source has not come far enough for one.
    NotYet,
    Other(CopyError),
}

impl<E: Into<CopyError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Other(error.into())
    }
}

impl Receiver {
    /// Into the data directory `data` of a server at one of `own_hosts`; `store`, which is open meanwhile,
    /// tells what the disk can take, and how fast.
    pub fn new(data: PathBuf, store: Store, peers: Arc<dyn Peers>, own_hosts: Vec<String>) -> Self {
        let begun = CopyPlan::load(&data.join(DIRECTORY)).map_or(0, |plan| plan.at);
        let (attempts, place, ends) = (Mutex::default(), AtomicU64::new(begun), AtomicBool::new(false));
        Receiver { data, store, peers, own_hosts, attempts, place, ends }
    }

    /// Of which place of the log the copy is that is made, or that was begun before the last start: what is
    /// behind it has to come by the log. `None` where there is no copy, or no room for one.
    pub fn place(&self) -> Option<LogIndex> {
        Some(self.place.load(Ordering::Relaxed)).filter(|place| *place > 0)
    }

    fn set_place(&self, place: LogIndex) {
        self.place.store(place, Ordering::Relaxed);
    }

    /// How it goes, from its beginning on.
    pub fn status(&self) -> Option<CopyStatus> {
        self.attempts.lock().status()
    }

    /// Ends [`Receiver::fetch`] soon.
    pub fn stop(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    /// Waits, unless it is to end.
    pub(crate) async fn rest(&self, time: Duration) {
        const STEP: Duration = Duration::from_millis(100);
        let began = ambient::now();
        while !self.ends.load(Ordering::Relaxed) {
            match time.saturating_sub(ambient::elapsed(began)) {
                Duration::ZERO => return,
                left => self.peers.pause(STEP.min(left)).await,
            }
        }
    }

    /// Fetches all files from whom the leader names, or from whom an initial sync was begun with that is not
    /// at its end; the next start takes them for its data. What is between two answers or pauses blocks.
    ///
    /// # Errors
    /// The source does not answer any more: ask again, with another one. There is no room. What the file
    /// system says.
    pub async fn fetch(&self, wanted: &CopyWanted) -> Result<(), CopyError> {
        self.attempts.lock().begin(&wanted.leader);
        let fetched = self.try_fetch(wanted).await;
        match &fetched {
            Ok(()) => self.attempts.lock().end(),
            Err(error) => self.attempts.lock().fail(error),
        }
        fetched
    }

    async fn try_fetch(&self, wanted: &CopyWanted) -> Result<(), CopyError> {
        let directory = self.data.join(DIRECTORY);
        if directory.join(READY).exists() {
            return Ok(());
        }
        let plan = match CopyPlan::load(&directory) {
            Some(plan) => plan,
            None => self.begin(&directory, wanted).await?,
        };
        if let Err(error) = self.check_room(&directory, &plan).await {
            // It may be for ever.
            self.set_place(0);
            return Err(error);
        }
        self.set_place(plan.at);
        let (bytes, files) = (plan.bytes(), plan.files.len());
        tracing::info!(source = plan.host, bytes, files, "copying the data");
        match self.fetch_files(&directory, &plan).await {
            Ok(()) => {}
            Err(Failure::Gone | Failure::NotYet) => {
                self.set_place(0);
                discard(&self.data)?;
                return Err(CopyError(format!("{} does not have its copy any more", plan.host)));
            }
            Err(Failure::Other(error)) => return Err(error),
        }
        File::create(directory.join(READY))?.sync_all()?;
        sync_directory(&directory)?;
        self.end(&plan).await;
        tracing::info!(source = plan.host, bytes, "the data are copied");
        Ok(())
    }

    /// The source need not keep the copy any longer.
    async fn end(&self, plan: &CopyPlan) {
        drop(self.ask(&plan.host, doc! { "end": (plan.id.as_str()) }).await);
    }

    /// With a secondary that the leader names, so that clients of the leader do not notice; with the leader
    /// where there is none.
    async fn begin(&self, directory: &Path, wanted: &CopyWanted) -> Result<CopyPlan, CopyError> {
        discard(&self.data)?;
        // The leader keeps its log from now on.
        self.set_place(wanted.at);
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let request =
            doc! { "chooseSource": true, "for": (number(wanted.number)), "at": (number(wanted.at)) };
        let named = self.ask(&wanted.leader, request).await.ok();
        let named = named.and_then(|answer| Some(answer.as_raw().get("source")?.as_str()?.to_owned()));
        let named = named.filter(|host| *host != wanted.leader && !self.own_hosts.contains(host));
        let mut begun = None;
        if let Some(host) = named {
            let with = self.begin_with(&host, wanted).await;
            begun =
                with.inspect_err(|error| tracing::info!(%error, "the leader is copied from instead")).ok();
        }
        let plan = match begun {
            Some(plan) => plan,
            None => self.begin_with(&wanted.leader, wanted).await?,
        };
        std::fs::create_dir_all(directory.join(COPY).join("engine"))?;
        plan.store(directory)?;
        sync_directory(&self.data)?;
        Ok(plan)
    }

    async fn begin_with(&self, host: &str, wanted: &CopyWanted) -> Result<CopyPlan, CopyError> {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        for _ in 0..BEGIN_TRIES {
            let request = doc! { "begin": true, "for": (number(wanted.number)), "at": (number(wanted.at)) };
            match self.ask(host, request).await {
                Ok(answer) => {
                    return Ok(CopyPlan { host: host.to_owned(), ..CopyPlan::decode(answer.as_raw())? });
                }
                Err(Failure::Other(error)) => return Err(error),
                Err(Failure::Gone) => break,
                Err(Failure::NotYet) => self.rest(PAUSE).await,
            }
        }
        Err(CopyError(format!("{host} makes no copy")))
    }

    /// Copies nothing that the disk cannot hold beside what is there.
    async fn check_room(&self, directory: &Path, plan: &CopyPlan) -> Result<(), CopyError> {
        let copy = directory.join(COPY);
        let vault = self.store.vault();
        let missing = plan.files.iter().filter(|file| !is_in(file, &copy, &vault));
        let wanted: u64 = missing.map(|file| file.bytes).sum();
        let room = self.store.room_beside_data();
        if wanted <= room {
            return Ok(());
        }
        self.end(plan).await;
        let asked = std::fs::metadata(directory).and_then(|metadata| metadata.modified());
        let asked = asked.ok().and_then(|asked| asked.duration_since(SystemTime::UNIX_EPOCH).ok());
        if asked.is_some_and(|asked| ambient::since_epoch().saturating_sub(asked) > ASKED_AGAIN_AFTER) {
            discard(&self.data)?;
        }
        Err(CopyError(format!(
            "the data of {} need {wanted} bytes beside what is here, and the disk has room for {room}: make \
             room, or give this member a larger disk",
            plan.host
        )))
    }

    async fn fetch_files(&self, directory: &Path, plan: &CopyPlan) -> Result<(), Failure> {
        let copy = directory.join(COPY);
        let began = ambient::now();
        let source = plan.host.clone();
        self.attempts.lock().copies(CopyProgress { source, bytes: 0, bytes_total: plan.bytes(), began });
        let mut told = began;
        for file in &plan.files {
            // It gets its name when it is whole and on the disk.
            if is_in(file, &copy, &self.store.vault()) {
                self.attempts.lock().copied(file.bytes);
                continue;
            }
            self.fetch_file(plan, file, &copy.join(&file.name), &mut told).await?;
        }
        sync_directory(&copy.join("engine"))?;
        sync_directory(&copy)?;
        Ok(())
    }

    async fn fetch_file(
        &self,
        plan: &CopyPlan,
        file: &CheckpointFile,
        path: &Path,
        told: &mut Instant,
    ) -> Result<(), Failure> {
        let part = path.with_added_extension("part");
        let mut written = super::vault_of(&file.name, &self.store).create(&part)?;
        let mut offset = 0;
        while offset < file.bytes {
            let Chunk { data, pause } = self.fetch_chunk(plan, file, offset).await?;
            written.write_all(&data)?;
            // A whole file at once would hold up other syncs of this disk.
            written.file().sync_data()?;
            offset += data.len() as u64;
            let progress = self.attempts.lock().copied(data.len() as u64);
            if ambient::elapsed(*told) >= TOLD_EVERY {
                *told = ambient::now();
                let percent = progress.percent();
                tracing::info!(source = plan.host, bytes = progress.bytes, percent, "copying the data");
            }
            self.rest(pause.max(self.store.background_pause(data.len() as u64))).await;
        }
        written.finish()?.sync_all()?;
        Ok(std::fs::rename(part, path)?)
    }

    /// A chunk that came as it was sent, however often it takes.
    async fn fetch_chunk(
        &self,
        plan: &CopyPlan,
        file: &CheckpointFile,
        offset: u64,
    ) -> Result<Chunk, Failure> {
        let request = doc! {
            "id": (plan.id.as_str()), "file": (file.name.as_str()),
            "offset": (i64::try_from(offset).unwrap_or(i64::MAX)),
        };
        let mut failed = 0;
        loop {
            if self.ends.load(Ordering::Relaxed) {
                return Err(CopyError("this member stops".to_owned()).into());
            }
            match self.ask(&plan.host, request.clone()).await.and_then(|answer| chunk(&answer)) {
                Ok(chunk) if chunk.is_within(file.bytes - offset) => return Ok(chunk),
                Ok(_) | Err(Failure::Gone | Failure::NotYet) => return Err(Failure::Gone),
                Err(Failure::Other(error)) if failed == TRIES => {
                    tracing::warn!(%error, source = plan.host, "the source of the copy does not answer");
                    return Err(Failure::Gone);
                }
                Err(Failure::Other(error)) => {
                    tracing::debug!(%error, source = plan.host, file = file.name, "asking again");
                    failed += 1;
                    self.rest(PAUSE).await;
                }
            }
        }
    }

    async fn ask(&self, host: &str, request: Document) -> Result<DocumentBuf, Failure> {
        let mut command = doc! { COPY_COMMAND: 1 };
        command.extend(request);
        command.push("$db", "admin");
        let answer = self.peers.ask(host, command.to_buf(), ANSWER_WITHIN).await;
        let answer = answer.map_err(|error| CopyError(error.to_string()))?;
        let found = |name: &str| answer.as_raw().get(name);
        if found("ok").and_then(RawValue::as_f64) == Some(1.0) {
            return Ok(answer);
        }
        let code = found("code").and_then(RawValue::as_i64_exact);
        if code == Some(ErrorCode::NoSuchKey as i64) {
            return Err(Failure::Gone);
        }
        if code == Some(ErrorCode::NotYetInitialized as i64) {
            return Err(Failure::NotYet);
        }
        let reason = found("errmsg").and_then(RawValue::as_str).unwrap_or("no reason");
        Err(CopyError(format!("{host} says: {reason}")).into())
    }
}

/// A part of a file.
struct Chunk {
    data: Vec<u8>,
    /// What the source wants before the next one.
    pause: Duration,
}

impl Chunk {
    fn is_within(&self, left: u64) -> bool {
        !self.data.is_empty() && self.data.len() as u64 <= left
    }
}

fn chunk(answer: &DocumentBuf) -> Result<Chunk, Failure> {
    let answer = answer.as_raw();
    match (answer.get("data"), answer.get("crc32c")) {
        (Some(RawValue::Binary { bytes, .. }), Some(sum))
            if sum.as_i64_exact() == Some(i64::from(checksum(bytes))) =>
        {
            let pause = answer.get("pauseMillis").and_then(RawValue::as_i64_exact).unwrap_or(0);
            let pause = Duration::from_millis(pause.max(0).unsigned_abs()).min(PAUSE_MAX);
            Ok(Chunk { data: bytes.to_vec(), pause })
        }
        _ => Err(CopyError("a chunk came damaged".to_owned()).into()),
    }
}
