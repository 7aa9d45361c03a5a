//! The data directory: who may use it, what format it has, what the journal must contain.
//!
//! ```text
//!  <dbpath>/
//!    encryption     of a directory that is encrypted: its keys (`vault/keyring.rs`)
//!    heddle.lock    held with an advisory lock while a server runs; contains its process id
//!    FORMAT         "heddle storage format 1\nstate ready\n"; 2 with encryption
//!    journal-mark   8 bytes: the sequence number up to which the journal has been synced, and 8 check bytes
//!    disk-reserve   room set aside, given up when the disk is full
//!    engine/        RocksDB's files
//! ```
//! See `docs/design/on-disk-layout.md` for what is found after a crash at each point.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::check::FileDefect;
use crate::error::{OpenError, StorageError};
use crate::vault::{KEYRING, MasterKey, Vault, has_keys};

/// The newest on-disk format this build reads and writes: an encrypted one, otherwise as the one before it.
const FORMAT_VERSION: u32 = 2;
const FORMAT_IN_CLEAR: u32 = 1;
const FORMAT_FILE: &str = "FORMAT";
const FORMAT_INTRODUCTION: &str = "heddle storage format ";
const STATE_NEW: &str = "state new";
const STATE_READY: &str = "state ready";
const LOCK_FILE: &str = "heddle.lock";
const MARK_FILE: &str = "journal-mark";
pub(crate) const ENGINE_DIRECTORY: &str = "engine";
/// The check bytes of the journal mark are the number, inverted and turned.
const MARK_ROTATION: u32 = 17;

/// A locked data directory; the lock goes with it.
pub(crate) struct DataDirectory {
    path: PathBuf,
    is_new: bool,
    mark: File,
    vault: Vault,
    /// Held for its advisory lock.
    _lock: File,
}

impl DataDirectory {
    /// Creates or checks the directory and locks it. What is new is encrypted if there is a key.
    pub(crate) fn open(path: &Path, master: Option<&MasterKey>) -> Result<DataDirectory, OpenError> {
        Self::open_with(path, master, sync_directory)
    }

    /// As [`DataDirectory::open`], with what syncs a directory.
    fn open_with(
        path: &Path,
        master: Option<&MasterKey>,
        sync: impl FnMut(&Path) -> std::io::Result<()>,
    ) -> Result<DataDirectory, OpenError> {
        std::fs::create_dir_all(path).map_err(|source| unusable(path, source))?;
        // Before the lock file is created: a directory of something else must stay as it is.
        refuse_unfinished(path)?;
        let format = read_format(path)?;
        let has_data = format.is_some() || has_keys(path);
        let opened = has_data.then(|| Vault::of(path, master)).transpose()?;
        let lock = take_lock(path)?;
        let vault = opened.map_or_else(|| Vault::make(path, master), Ok)?;
        let is_new = match format {
            None => {
                write_format(path, STATE_NEW).map_err(|source| unusable(path, source))?;
                true
            }
            Some(ready) => !ready,
        };
        if is_new {
            sync_above(path, sync).map_err(|source| unusable(path, source))?;
        }
        let engine = path.join(ENGINE_DIRECTORY);
        if !is_new && !engine.join("CURRENT").exists() {
            let detail = format!("{} holds no database", engine.display());
            return Err(OpenError::Corrupt { path: path.to_owned(), detail });
        }
        let mark_path = path.join(MARK_FILE);
        let mark = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&mark_path);
        let mark = mark.map_err(|source| unusable(&mark_path, source))?;
        Ok(DataDirectory { path: path.to_owned(), is_new, mark, vault, _lock: lock })
    }

    /// Locks a directory whose files may be damaged, to save what can be read.
    pub(crate) fn open_damaged(path: &Path, master: Option<&MasterKey>) -> Result<DataDirectory, OpenError> {
        if !path.join(ENGINE_DIRECTORY).is_dir() {
            let detail = format!("{} holds no database", path.join(ENGINE_DIRECTORY).display());
            return Err(OpenError::Corrupt { path: path.to_owned(), detail });
        }
        refuse_unfinished(path)?;
        if let Err(newer @ OpenError::NewerVersion { .. }) = read_format(path) {
            return Err(newer);
        }
        let vault = Vault::of(path, master)?;
        let lock = take_lock(path)?;
        let mark = File::open("/dev/null").map_err(|source| unusable(path, source))?;
        Ok(DataDirectory { path: path.to_owned(), is_new: false, mark, vault, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn engine_path(&self) -> PathBuf {
        self.path.join(ENGINE_DIRECTORY)
    }

    pub(crate) fn vault(&self) -> &Vault {
        &self.vault
    }

    /// Whether the engine's files may have to be created.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// From now on missing engine files are damage and not a new directory.
    pub(crate) fn mark_ready(&self) -> Result<(), OpenError> {
        if self.is_new {
            write_format(&self.path, STATE_READY).map_err(|source| unusable(&self.path, source))?;
        }
        Ok(())
    }

    /// Refuses a journal that ends before a point that had been synced.
    pub(crate) fn check_journal_mark(&self, found: u64) -> Result<(), OpenError> {
        let mut bytes = [0; 16];
        let mut mark = &self.mark;
        let read = mark.seek(SeekFrom::Start(0)).and_then(|_| mark.read_exact(&mut bytes));
        match read {
            Ok(()) => {}
            // New, or the machine lost power before the mark itself was written: nothing is known.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(source) => return Err(unusable(&self.path.join(MARK_FILE), source)),
        }
        match decode_mark(bytes) {
            Some(synced) if synced > found => {
                Err(OpenError::JournalDamaged { path: self.path.clone(), found, synced })
            }
            Some(_) => Ok(()),
            None => {
                tracing::warn!(file = %self.path.join(MARK_FILE).display(),
                    "the journal mark is damaged: it is not known whether the journal is whole");
                Ok(())
            }
        }
    }

    /// Notes that the journal has been synced up to `synced`. Not synced itself: after the death of the
    /// process the kernel still has it, and after a power loss an older mark only checks less.
    pub(crate) fn write_journal_mark(&self, synced: u64) {
        if let Err(error) = self.mark.write_all_at(&encode_mark(synced), 0) {
            tracing::warn!(%error, "the journal mark could not be written");
        }
    }

    /// Makes a directory that [`DataDirectory::open`] accepts, with what `fill` puts into the engine's, and
    /// the keys of the directory that this is a copy of.
    pub(crate) fn create_copy(
        path: &Path,
        of: Option<&Path>,
        fill: impl FnOnce(&Path) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let io = |error: std::io::Error| StorageError::Engine(format!("{}: {error}", path.display()).into());
        std::fs::create_dir_all(path).map_err(io)?;
        if std::fs::read_dir(path).map_err(io)?.next().is_some() {
            return Err(StorageError::Engine(format!("{} is not empty", path.display()).into()));
        }
        fill(&path.join(ENGINE_DIRECTORY))?;
        of.map_or(Ok(()), |of| copy_keys(of, path)).map_err(io)?;
        write_format(path, STATE_READY).map_err(io)?;
        sync_above(path, sync_directory).map_err(io)
    }
}

/// The directory within a data directory that is there as long as a restore into it is not done.
pub const RESTORING: &str = "restoring";

/// The directory within a data directory in which a repair makes new data.
pub const REPAIRING: &str = "repairing";
/// The file in it that is there from when the new data are whole until they are in the place of the old ones.
pub const REPAIRED: &str = "whole";

/// A data directory that no server uses as long as this lives.
#[derive(Debug)]
pub struct DirectoryLock {
    _lock: File,
}

impl DirectoryLock {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`OpenError::Locked`], and what the file system says.
    pub fn take(path: &Path) -> Result<DirectoryLock, OpenError> {
        Ok(DirectoryLock { _lock: take_lock(path)? })
    }
}

/// Refuses a data directory in which something was begun and not ended.
///
/// # Errors
/// [`OpenError::Unfinished`].
fn refuse_unfinished(path: &Path) -> Result<(), OpenError> {
    let unfinished = |work| Err(OpenError::Unfinished { path: path.to_owned(), work });
    match () {
        () if path.join(RESTORING).exists() => unfinished("heddle restore"),
        () if path.join(REPAIRING).join(REPAIRED).exists() => unfinished("heddle repair"),
        () => Ok(()),
    }
}

/// Makes sure that no server uses a directory as long as the result lives; `None` where none ever has.
pub(crate) fn lock_to_read(path: &Path) -> Result<Option<File>, OpenError> {
    if !path.join(ENGINE_DIRECTORY).exists() && !path.join(FORMAT_FILE).exists() {
        let detail = "it is no data directory".to_owned();
        return Err(OpenError::Corrupt { path: path.to_owned(), detail });
    }
    match File::open(path.join(LOCK_FILE)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(unusable(path, source)),
        Ok(lock) => match lock.try_lock_shared() {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => {
                let holder = std::fs::read_to_string(path.join(LOCK_FILE)).unwrap_or_default();
                let holder = format!("process {}", holder.trim());
                Err(OpenError::Locked { path: path.to_owned(), holder })
            }
            Err(TryLockError::Error(source)) => Err(unusable(path, source)),
        },
    }
}

/// Checks the files of the directory itself.
pub(crate) fn check_own_files(path: &Path, found: &mut Vec<FileDefect>) -> std::io::Result<()> {
    if !path.join(FORMAT_FILE).exists() {
        found.push(FileDefect::new(FORMAT_FILE, "it is missing".to_owned()));
    } else if let Err(error) = read_format(path) {
        found.push(FileDefect::new(FORMAT_FILE, error.to_string()));
    }
    match std::fs::read(path.join(MARK_FILE)) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        // Made, and never written to.
        Ok(mark) if mark.is_empty() => {}
        Ok(mark) if mark.first_chunk().copied().and_then(decode_mark).is_some() && mark.len() == 16 => {}
        Ok(_) => found.push(FileDefect::new(MARK_FILE, "its check bytes do not agree".to_owned())),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Up to which write the journal was synced, where that is known.
pub(crate) fn synced_of(path: &Path) -> Option<u64> {
    std::fs::read(path.join(MARK_FILE)).ok()?.first_chunk().copied().and_then(decode_mark)
}

/// Makes a directory that [`Store::open`](crate::Store::open) accepts of one with an engine's files, by
/// writing its `FORMAT`.
///
/// # Errors
/// What the file system says.
pub fn mark_ready(path: &Path) -> std::io::Result<()> {
    write_format(path, STATE_READY)?;
    sync_above(path, sync_directory)
}

/// Gives a directory the keys of another one, if that has some, on stable storage.
///
/// # Errors
/// What the file system says.
pub fn copy_keys(from: &Path, to: &Path) -> std::io::Result<()> {
    if has_keys(from) {
        let copied = to.join(KEYRING);
        std::fs::copy(from.join(KEYRING), &copied)?;
        File::open(copied)?.sync_all()?;
        sync_directory(to)?;
    }
    Ok(())
}

/// Puts the engine's files of the directory `copy` in the place of those of `path`, which nobody may have
/// open. A crash leaves the old ones, the new ones, or none in `path` and the new ones in `copy`: then call
/// it again.
///
/// # Errors
/// [`OpenError::Locked`], and what the file system says.
pub fn replace_engine(path: &Path, copy: &Path) -> Result<(), OpenError> {
    let _lock = take_lock(path)?;
    let (engine, copied, replaced) =
        (path.join(ENGINE_DIRECTORY), copy.join(ENGINE_DIRECTORY), copy.join("replaced"));
    let rename = || {
        if engine.exists() {
            std::fs::rename(&engine, &replaced)?;
        }
        // It tells of the journal that is gone.
        match std::fs::remove_file(path.join(MARK_FILE)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        File::open(path)?.sync_all()?;
        std::fs::rename(&copied, &engine)?;
        File::open(copy)?.sync_all()?;
        File::open(path)?.sync_all()
    };
    rename().map_err(|source| unusable(path, source))
}

/// Syncs the directories above a new one, so that its name is there after a power loss: whether this start
/// made it, one that died before it came so far, or somebody who does not sync.
fn sync_above(path: &Path, sync: impl FnMut(&Path) -> std::io::Result<()>) -> std::io::Result<()> {
    std::path::absolute(path)?.ancestors().skip(1).try_for_each(sync)
}

fn sync_directory(path: &Path) -> std::io::Result<()> {
    match File::open(path).and_then(|directory| directory.sync_all()) {
        // Somebody else's, which this user may pass and not read, or of a file system that does not sync
        // directories.
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput) => {
            tracing::info!(path = %path.display(), %error, "a directory above the data could not be synced");
            Ok(())
        }
        synced => synced,
    }
}

fn encode_mark(synced: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    let (number, check) = bytes.split_at_mut(8);
    number.copy_from_slice(&synced.to_le_bytes());
    check.copy_from_slice(&(!synced).rotate_left(MARK_ROTATION).to_le_bytes());
    bytes
}

fn decode_mark(bytes: [u8; 16]) -> Option<u64> {
    let (number, _) = bytes.split_first_chunk::<8>()?;
    let synced = u64::from_le_bytes(*number);
    (encode_mark(synced) == bytes).then_some(synced)
}

fn unusable(path: &Path, source: std::io::Error) -> OpenError {
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            OpenError::NoSpace { path: path.to_owned(), detail: source.to_string() }
        }
        _ => OpenError::Unreadable { path: path.to_owned(), source },
    }
}

fn take_lock(path: &Path) -> Result<File, OpenError> {
    let lock_path = path.join(LOCK_FILE);
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&lock_path);
    let mut lock = opened.map_err(|source| unusable(&lock_path, source))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let holder = match lock.read_to_string(&mut holder) {
                Ok(_) if !holder.trim().is_empty() => format!("process {}", holder.trim()),
                _ => "another process".to_owned(),
            };
            return Err(OpenError::Locked { path: path.to_owned(), holder });
        }
        Err(TryLockError::Error(source)) => return Err(unusable(&lock_path, source)),
    }
    let written = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
    match written {
        // The lock holds without its text, and a full disk must not keep the server from starting.
        Err(source) if source.kind() != ErrorKind::StorageFull => Err(unusable(&lock_path, source)),
        _ => Ok(lock),
    }
}

/// `None` for a directory without a format file that may become a heddle one; else whether it is ready.
fn read_format(path: &Path) -> Result<Option<bool>, OpenError> {
    let text = match std::fs::read_to_string(path.join(FORMAT_FILE)) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return check_empty(path).map(|()| None),
        Err(source) => return Err(unusable(&path.join(FORMAT_FILE), source)),
    };
    let mut lines = text.lines();
    let version = lines
        .next()
        .and_then(|line| line.strip_prefix(FORMAT_INTRODUCTION))
        .and_then(|number| number.parse().ok());
    match version {
        None => {
            let detail = format!(
                "{FORMAT_FILE} does not begin with \"{}\" and a number",
                FORMAT_INTRODUCTION.trim_end()
            );
            Err(OpenError::Corrupt { path: path.to_owned(), detail })
        }
        Some(found) if found > FORMAT_VERSION => {
            Err(OpenError::NewerVersion { path: path.to_owned(), found, supported: FORMAT_VERSION })
        }
        Some(version) => {
            let is_new = lines.next() == Some(STATE_NEW);
            if text == format_text(version, if is_new { STATE_NEW } else { STATE_READY }) && version > 0 {
                return Ok(Some(!is_new));
            }
            let detail = format!("{FORMAT_FILE} is not as it was written");
            Err(OpenError::Corrupt { path: path.to_owned(), detail })
        }
    }
}

fn format_text(version: u32, state: &str) -> String {
    format!("{FORMAT_INTRODUCTION}{version}\n{state}\n")
}

/// Whether a directory without a format file may become a heddle one.
fn check_empty(path: &Path) -> Result<(), OpenError> {
    for entry in std::fs::read_dir(path).map_err(|source| unusable(path, source))? {
        let entry = entry.map_err(|source| unusable(path, source))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // A mount point's own entry, hidden files, a log or a socket put there by configuration, and what
        // an interrupted first start leaves behind.
        let harmless = name == "lost+found"
            || name.starts_with('.')
            || name == LOCK_FILE
            || name == format!("{FORMAT_FILE}.new")
            || name == KEYRING
            || name == format!("{KEYRING}.new")
            || [".log", ".sock", ".pid", ".conf", ".yaml", ".yml"]
                .iter()
                .any(|ending| name.ends_with(ending));
        if !harmless {
            return Err(OpenError::NotHeddle { path: path.to_owned(), found: name });
        }
    }
    Ok(())
}

/// Replaces the format file so that a crash leaves the old one or the new one.
fn write_format(path: &Path, state: &str) -> std::io::Result<()> {
    let draft = path.join(format!("{FORMAT_FILE}.new"));
    let mut file = File::create(&draft)?;
    let version = if has_keys(path) { FORMAT_VERSION } else { FORMAT_IN_CLEAR };
    file.write_all(format_text(version, state).as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&draft, path.join(FORMAT_FILE))?;
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(prepare: impl FnOnce(&Path), expect: impl FnOnce(Result<DataDirectory, OpenError>)) {
        let directory = tempfile::tempdir().unwrap();
        prepare(directory.path());
        expect(DataDirectory::open(directory.path(), None));
    }

    #[test]
    fn an_empty_directory_becomes_new() {
        check(|_| {}, |opened| assert!(opened.unwrap().is_new()));
        check(
            |path| std::fs::write(path.join("heddle.log"), "x").unwrap(),
            |opened| assert!(opened.unwrap().is_new()),
        );
    }

    #[test]
    fn directories_above_are_created() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/c");
        assert!(DataDirectory::open(&path, None).unwrap().is_new());
        assert!(path.join(FORMAT_FILE).exists());
        DataDirectory::open(&path, None).unwrap();
    }

    #[test]
    fn the_name_of_a_new_directory_is_synced_in_all_above_until_it_is_ready() {
        let directory = tempfile::tempdir().unwrap();
        let above = directory.path().join("a");
        let path = above.join("b");
        let synced_by_opening = || {
            let mut synced = Vec::new();
            let opened = DataDirectory::open_with(&path, None, |synced_now| {
                synced.push(synced_now.to_owned());
                Ok(())
            });
            (opened.unwrap(), synced)
        };
        let expect: Vec<PathBuf> = path.ancestors().skip(1).map(Path::to_owned).collect();
        assert!(expect.starts_with(&[above.clone(), directory.path().to_owned()]));
        assert_eq!(synced_by_opening().1, expect, "made by this start");
        let (opened, synced) = synced_by_opening();
        assert_eq!(synced, expect, "the start before may have died in between");
        std::fs::create_dir(opened.engine_path()).unwrap();
        std::fs::write(opened.engine_path().join("CURRENT"), "").unwrap();
        opened.mark_ready().unwrap();
        drop(opened);
        assert_eq!(synced_by_opening().1, Vec::<PathBuf>::new(), "ready long ago");
        let failing = directory.path().join("c");
        let opened = DataDirectory::open_with(&failing, None, |_| Err(ErrorKind::Other.into()));
        assert!(
            matches!(opened.err().unwrap(), OpenError::Unreadable { .. }),
            "what is not synced is no data"
        );
    }

    #[test]
    fn somebody_elses_directory_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("WiredTiger"), "").unwrap();
        let error = DataDirectory::open(directory.path(), None).err().unwrap();
        assert!(matches!(&error, OpenError::NotHeddle { found, .. } if found == "WiredTiger"), "{error}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing was added");
    }

    #[test]
    fn a_newer_version_is_refused_with_both_numbers() {
        check(
            |path| std::fs::write(path.join(FORMAT_FILE), "heddle storage format 7\nstate ready\n").unwrap(),
            |opened| {
                let error = opened.err().unwrap();
                assert!(
                    matches!(error, OpenError::NewerVersion { found: 7, supported: FORMAT_VERSION, .. }),
                    "{error}"
                );
                assert!(
                    error.to_string().contains("version 7") && error.to_string().contains("up to 2"),
                    "{error}"
                );
            },
        );
    }

    #[test]
    fn a_ready_directory_without_its_engine_is_damaged() {
        check(
            |path| write_format(path, STATE_READY).unwrap(),
            |opened| assert!(matches!(opened.err().unwrap(), OpenError::Corrupt { .. })),
        );
        check(
            |path| std::fs::write(path.join(FORMAT_FILE), "something").unwrap(),
            |opened| assert!(matches!(opened.err().unwrap(), OpenError::Corrupt { .. })),
        );
    }

    #[test]
    fn a_file_in_the_way_is_unreadable() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(
            DataDirectory::open(file.path(), None).err().unwrap(),
            OpenError::Unreadable { .. }
        ));
    }

    #[test]
    fn the_journal_mark_refuses_a_shorter_journal() {
        let directory = tempfile::tempdir().unwrap();
        let opened = DataDirectory::open(directory.path(), None).unwrap();
        assert!(opened.check_journal_mark(0).is_ok(), "no mark yet");
        opened.write_journal_mark(42);
        assert!(opened.check_journal_mark(42).is_ok());
        let error = opened.check_journal_mark(41).unwrap_err();
        assert!(matches!(error, OpenError::JournalDamaged { found: 41, synced: 42, .. }), "{error}");
        opened.mark.write_all_at(b"torn", 4).unwrap();
        assert!(opened.check_journal_mark(1).is_ok(), "a damaged mark says nothing");
    }
}
