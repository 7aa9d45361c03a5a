//! The member that copies.

use super::plan::{CopiedFile, Plan};
use super::{COPY, COPY_COMMAND, CopyError, DIRECTORY, READY, discard, sync_directory};
use crate::Peers;
use document::{Document, DocumentBuf, RawValue, doc};
use parking_lot::Mutex;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::ErrorCode;

/// Bytes a second, so that the source's clients do not suffer.
const BYTES_PER_SECOND_MAX: u64 = 128 << 20;
/// For one answer; making a checkpoint takes longest.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);
/// Between tries.
const PAUSE: Duration = Duration::from_secs(1);
/// So often in a row the source may not answer: then another one is asked.
const TRIES: u32 = 60;

/// How far an initial sync is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyProgress {
    /// From whom.
    pub source: String,
    /// Bytes that are here.
    pub bytes: u64,
    /// Of so many.
    pub bytes_total: u64,
    /// Since when, on the clock of [`ambient::now`].
    pub began: Instant,
}

/// Fetches the files of another member.
#[derive(Debug)]
pub struct Receiver {
    data: PathBuf,
    peers: Arc<dyn Peers>,
    progress: Mutex<Option<CopyProgress>>,
    bytes: AtomicU64,
    ends: AtomicBool,
}

/// What came instead of an answer.
enum Failure {
    /// The source does not have the copy.
    Gone,
    Other(CopyError),
}

impl<E: Into<CopyError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Other(error.into())
    }
}

impl Receiver {
    /// Into the data directory `data`.
    pub fn new(data: PathBuf, peers: Arc<dyn Peers>) -> Self {
        Receiver {
            data,
            peers,
            progress: Mutex::new(None),
            bytes: AtomicU64::new(0),
            ends: AtomicBool::new(false),
        }
    }

    /// How far it is, while it copies.
    pub fn progress(&self) -> Option<CopyProgress> {
        let bytes = self.bytes.load(Ordering::Relaxed);
        self.progress.lock().clone().map(|progress| CopyProgress { bytes, ..progress })
    }

    /// Ends [`Receiver::fetch`] soon.
    pub fn stop(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    /// Waits, unless it is to end.
    pub(crate) fn rest(&self, time: Duration) {
        const STEP: Duration = Duration::from_millis(100);
        let began = ambient::now();
        while ambient::elapsed(began) < time && !self.ends.load(Ordering::Relaxed) {
            std::thread::sleep(STEP.min(time));
        }
    }

    /// Fetches all files from `host`, or from whom an initial sync was begun with that is not at its end; the next
    /// start takes them for its data. Blocks for as long as it takes.
    ///
    /// # Errors
    /// The source does not answer any more: ask again, with another one. What the file system says.
    pub fn fetch(&self, host: &str) -> Result<(), CopyError> {
        let directory = self.data.join(DIRECTORY);
        if directory.join(READY).exists() {
            return Ok(());
        }
        let plan = match Plan::load(&directory) {
            Some(plan) => plan,
            None => self.begin(&directory, host)?,
        };
        tracing::info!(
            source = plan.host,
            bytes = plan.bytes(),
            files = plan.files.len(),
            "copying the data"
        );
        let fetched = self.fetch_files(&directory, &plan);
        *self.progress.lock() = None;
        match fetched {
            Ok(()) => {}
            Err(Failure::Gone) => {
                discard(&self.data)?;
                return Err(CopyError(format!("{} does not have its copy any more", plan.host)));
            }
            Err(Failure::Other(error)) => return Err(error),
        }
        File::create(directory.join(READY))?.sync_all()?;
        sync_directory(&directory)?;
        drop(self.ask(&plan.host, doc! { "end": (plan.id.as_str()) }));
        tracing::info!(source = plan.host, bytes = plan.bytes(), "the data are copied");
        Ok(())
    }

    fn begin(&self, directory: &Path, host: &str) -> Result<Plan, CopyError> {
        discard(&self.data)?;
        let answer = self.ask(host, doc! { "begin": true }).map_err(|failure| match failure {
            Failure::Gone => CopyError(format!("{host} makes no copy")),
            Failure::Other(error) => error,
        })?;
        let plan = Plan { host: host.to_owned(), ..Plan::decode(answer.as_raw())? };
        std::fs::create_dir_all(directory.join(COPY).join("engine"))?;
        plan.store(directory)?;
        sync_directory(&self.data)?;
        Ok(plan)
    }

    fn fetch_files(&self, directory: &Path, plan: &Plan) -> Result<(), Failure> {
        let copy = directory.join(COPY);
        let began = ambient::now();
        let bytes_total = plan.bytes();
        self.bytes.store(0, Ordering::Relaxed);
        *self.progress.lock() =
            Some(CopyProgress { source: plan.host.clone(), bytes: 0, bytes_total, began });
        let mut fetched = 0;
        for file in &plan.files {
            let path = copy.join(&file.name);
            // It gets its name when it is whole and on the disk.
            if std::fs::metadata(&path).is_ok_and(|found| found.len() == file.bytes) {
                self.bytes.fetch_add(file.bytes, Ordering::Relaxed);
                continue;
            }
            self.fetch_file(plan, file, &path, (began, &mut fetched))?;
        }
        sync_directory(&copy.join("engine"))?;
        sync_directory(&copy)?;
        Ok(())
    }

    fn fetch_file(
        &self,
        plan: &Plan,
        file: &CopiedFile,
        path: &Path,
        (began, fetched): (Instant, &mut u64),
    ) -> Result<(), Failure> {
        let part = path.with_added_extension("part");
        let mut written = File::create(&part)?;
        let mut offset = 0;
        while offset < file.bytes {
            let data = self.fetch_chunk(plan, file, offset)?;
            written.write_all(&data)?;
            offset += data.len() as u64;
            *fetched += data.len() as u64;
            self.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
            let earliest = Duration::from_secs_f64(*fetched as f64 / BYTES_PER_SECOND_MAX as f64);
            std::thread::sleep(earliest.saturating_sub(ambient::elapsed(began)));
        }
        written.sync_all()?;
        Ok(std::fs::rename(part, path)?)
    }

    /// A chunk that came as it was sent, however often it takes.
    fn fetch_chunk(&self, plan: &Plan, file: &CopiedFile, offset: u64) -> Result<Vec<u8>, Failure> {
        let request = doc! {
            "id": (plan.id.as_str()), "file": (file.name.as_str()),
            "offset": (i64::try_from(offset).unwrap_or(i64::MAX)),
        };
        let mut failed = 0;
        loop {
            if self.ends.load(Ordering::Relaxed) {
                return Err(CopyError("this member stops".to_owned()).into());
            }
            match self.ask(&plan.host, request.clone()).and_then(|answer| chunk(&answer)) {
                Ok(data) if !data.is_empty() && offset + data.len() as u64 <= file.bytes => return Ok(data),
                Ok(_) => return Err(Failure::Gone),
                Err(Failure::Gone) => return Err(Failure::Gone),
                Err(Failure::Other(error)) if failed == TRIES => {
                    tracing::warn!(%error, source = plan.host, "the source of the copy does not answer");
                    return Err(Failure::Gone);
                }
                Err(Failure::Other(error)) => {
                    tracing::debug!(%error, source = plan.host, file = file.name, "asking again");
                    failed += 1;
                    self.rest(PAUSE);
                }
            }
        }
    }

    fn ask(&self, host: &str, request: Document) -> Result<DocumentBuf, Failure> {
        let mut command = doc! { COPY_COMMAND: 1 };
        command.extend(request);
        command.push("$db", "admin");
        let answer = self.peers.ask(host, command.to_buf(), ANSWER_WITHIN);
        let answer = pollster::block_on(answer).map_err(|error| CopyError(error.to_string()))?;
        let found = |name: &str| answer.as_raw().get(name);
        if found("ok").and_then(RawValue::as_f64) == Some(1.0) {
            return Ok(answer);
        }
        if found("code").and_then(RawValue::as_i64_exact) == Some(ErrorCode::NoSuchKey as i64) {
            return Err(Failure::Gone);
        }
        let reason = found("errmsg").and_then(RawValue::as_str).unwrap_or("no reason");
        Err(CopyError(format!("{host} says: {reason}")).into())
    }
}

fn chunk(answer: &DocumentBuf) -> Result<Vec<u8>, Failure> {
    let fields = (answer.as_raw().get("data"), answer.as_raw().get("crc32c"));
    match fields {
        (Some(RawValue::Binary { bytes, .. }), Some(sum))
            if sum.as_i64_exact() == Some(i64::from(crc32c::crc32c(bytes))) =>
        {
            Ok(bytes.to_vec())
        }
        _ => Err(CopyError("a chunk came damaged".to_owned()).into()),
    }
}
