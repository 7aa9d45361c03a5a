//! The member whose files are copied.

use super::plan::{CopyPlan, is_id};
use crate::LocalState;
use crate::entry::{LogIndex, MemberId};
use crate::set::SetError;
use ambient::elapsed;
use document::{DocumentBuf, DocumentBuilder, ObjectId, RawDocument, RawValue};
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use storage::files::{checksum, is_checkpoint_file};
use storage::{KEYRING, Store};
use wire::ErrorCode;

/// Within the data directory: a directory for each copy.
const DIRECTORY: &str = "copies";
/// What nobody has read from for so long is removed.
const KEPT_FOR: Duration = Duration::from_secs(600);
/// Bytes of one answer.
pub(super) const CHUNK_BYTES_MAX: u64 = 4 << 20;
/// BSON's binary subtype of bytes.
const GENERIC: u8 = 0;

/// Makes checkpoints of a store for others, and reads from them.
#[derive(Debug)]
pub struct CopySource {
    store: Store,
    /// `None`: the store is in memory.
    directory: Option<PathBuf>,
    /// When each was read from last.
    used: Mutex<HashMap<String, Instant>>,
}

impl CopySource {
    /// Of this store, in the data directory `data`. Checkpoints that were made before a restart are still
    /// there.
    pub fn new(store: Store, data: Option<&Path>) -> Self {
        let directory = data.map(|path| path.join(DIRECTORY));
        let mut used = HashMap::new();
        for entry in directory.iter().filter_map(|path| std::fs::read_dir(path).ok()).flatten().flatten() {
            used.insert(entry.file_name().to_string_lossy().into_owned(), ambient::now());
        }
        CopySource { store, directory, used: Mutex::new(used) }
    }

    /// Answers `_heddleCopy`. Blocks: it reads files, and writes memtables to them.
    ///
    /// # Errors
    /// `BadValue`; `NoSuchKey` for a checkpoint that is not there; what the store and the file system say.
    pub fn answer(&self, request: RawDocument<'_>) -> Result<DocumentBuf, SetError> {
        let directory = self.directory.as_deref();
        let directory = directory.ok_or_else(|| failed("a store in memory has no files"))?;
        let text = |name: &str| request.get(name).and_then(RawValue::as_str);
        if let Some(id) = text("end") {
            self.end(directory, id);
            return Ok(DocumentBuf::default());
        }
        match (text("id"), text("file")) {
            (Some(id), Some(file)) => {
                let offset = request.get("offset").and_then(RawValue::as_i64_exact);
                let offset = offset.and_then(|offset| u64::try_from(offset).ok()).unwrap_or(0);
                self.read(directory, id, file, offset)
            }
            _ if request.contains("begin") => {
                let (receiver, at) = self.check_is_of_use(request)?;
                self.begin(directory, receiver, at)
            }
            _ => Err(SetError::new(ErrorCode::BadValue, "expected what to do with a copy")),
        }
    }

    /// The member that asks, where a copy of the data as they are now brings it further, and where they are.
    fn check_is_of_use(&self, request: RawDocument<'_>) -> Result<(MemberId, LogIndex), SetError> {
        let wanted = |name: &str| {
            let number = request.get(name).and_then(RawValue::as_i64_exact);
            number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
        };
        let local = LocalState::new(self.store.clone());
        if local.identity().map_err(failed)?.is_some_and(|identity| identity.is_arbiter) {
            return Err(failed("an arbiter has no data"));
        }
        let data = local.applied().map_err(failed)?.unwrap_or_default();
        if data.position.index >= wanted("at") && data.membership.members().contains(&wanted("for")) {
            return Ok((wanted("for"), data.position.index));
        }
        Err(SetError::new(ErrorCode::NotYetInitialized, "the data here have not come so far yet"))
    }

    /// A member has one copy at a time: it asks for another one where it cannot use the one before.
    fn begin(&self, directory: &Path, receiver: MemberId, at: LogIndex) -> Result<DocumentBuf, SetError> {
        self.expire();
        let of_receiver = format!("{receiver}x");
        let before: Vec<String> =
            self.used.lock().keys().filter(|id| id.starts_with(&of_receiver)).cloned().collect();
        before.iter().for_each(|id| self.end(directory, id));
        std::fs::create_dir_all(directory).map_err(failed)?;
        let id = format!("{of_receiver}{}", ObjectId::new());
        let path = directory.join(&id);
        self.used.lock().insert(id.clone(), ambient::now());
        self.store.checkpoint(&path).map_err(failed)?;
        let mut files = storage::files::checkpoint_files(&path).map_err(failed)?;
        // Who copies encrypts with keys of its own, or not at all.
        files.retain(|file| file.name != KEYRING);
        for file in &mut files {
            file.bytes = self.store.vault().length(&path.join(&file.name)).map_err(failed)?;
        }
        let plan = CopyPlan { id, host: String::new(), at, files };
        tracing::info!(
            copy = plan.id,
            files = plan.files.len(),
            bytes = plan.bytes(),
            "a member copies the data"
        );
        Ok(plan.encode())
    }

    fn read(&self, directory: &Path, id: &str, name: &str, offset: u64) -> Result<DocumentBuf, SetError> {
        let is_known = is_id(id) && is_checkpoint_file(name);
        if !is_known {
            return Err(SetError::new(ErrorCode::BadValue, "expected a file of a copy"));
        }
        let unreadable = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => {
                SetError::new(ErrorCode::NoSuchKey, format!("there is no copy '{id}'"))
            }
            _ => failed(error),
        };
        let (path, vault) = (directory.join(id).join(name), super::vault_of(name, &self.store));
        let mut file = vault.open(&path).map_err(unreadable)?;
        self.used.lock().insert(id.to_owned(), ambient::now());
        let left = vault.length(&path).map_err(unreadable)?.saturating_sub(offset);
        let mut data = vec![0; left.min(CHUNK_BYTES_MAX) as usize];
        file.seek_to(offset).and_then(|()| file.read_exact(&mut data)).map_err(failed)?;
        let mut bytes = Vec::with_capacity(data.len() + 64);
        let mut builder = DocumentBuilder::new(&mut bytes);
        builder.append("crc32c", i64::from(checksum(&data)));
        let pause = self.store.background_pause(data.len() as u64);
        builder.append("pauseMillis", i64::try_from(pause.as_millis()).unwrap_or(i64::MAX));
        builder.append("data", RawValue::Binary { subtype: GENERIC, bytes: &data });
        builder.finish();
        Ok(DocumentBuf::trusted(bytes))
    }

    fn end(&self, directory: &Path, id: &str) {
        self.used.lock().remove(id);
        if is_id(id)
            && let Err(error) = super::remove(&directory.join(id))
        {
            tracing::warn!(%error, copy = id, "a checkpoint could not be removed");
        }
    }

    /// Removes checkpoints that nobody reads from. Cheap where there are none.
    pub fn expire(&self) {
        let mut expired = Vec::new();
        self.used.lock().retain(|id, used| {
            let is_used = elapsed(*used) < KEPT_FOR;
            if !is_used {
                expired.push(id.clone());
            }
            is_used
        });
        if let Some(directory) = &self.directory {
            expired.iter().for_each(|id| self.end(directory, id));
        }
    }
}

fn failed(error: impl ToString) -> SetError {
    SetError::new(ErrorCode::OperationFailed, error.to_string())
}
