//! Taking a backup of a store that is in use.

use crate::manifest::{
    BackupManifest, BackupPlace, INCOMPLETE, ManifestFile, generation_path, generations, sum_text,
};
use crate::{About, BackupError};
use replication::LocalState;
use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use storage::files::{
    CheckpointFile, checkpoint_files, checksum, checksum_of, checksum_of_file, extend_checksum,
    is_table_file, remove_tree, sync_names,
};
use storage::{Store, Vault};

/// Within the data directory: the checkpoint, as long as it is taken from.
const CHECKPOINT: &str = "backup-checkpoint";
/// Within the backup directory: who writes to it holds its lock.
const LOCK: &str = "lock";
/// Two tables of one name and size that end with so many equal bytes are one: the engine writes there which
/// process made it, and as which file.
const TAIL_BYTES: u64 = 16 << 10;
const PIECE_BYTES: usize = 1 << 20;

/// What is wanted.
#[derive(Debug, Clone, Copy)]
pub struct BackupRequest<'r> {
    /// Where the generations are; it is made where it is not there.
    pub directory: &'r Path,
    /// So many generations stay, the new one included; `None`: all.
    pub keep: Option<usize>,
    /// The release that takes it.
    pub release: &'r str,
}

/// How far a backup is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupProgress {
    /// Bytes that are there.
    pub done: u64,
    /// Of so many.
    pub total: u64,
}

/// What was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReport {
    /// Its manifest.
    pub manifest: BackupManifest,
    /// Bytes of files that the generation before did not have.
    pub bytes_new: u64,
    /// Bytes of files that it shares with the generation before.
    pub bytes_shared: u64,
    /// Of the new ones, bytes that are links to the server's files and take no room yet.
    pub bytes_linked: u64,
}

/// Removes what a backup has left in a data directory that was ended by the death of the process.
///
/// # Errors
/// What the file system says.
pub fn remove_unfinished(data: &Path) -> std::io::Result<()> {
    remove_tree(&data.join(CHECKPOINT))
}

/// Takes a new generation. `look` is told how far it is, and ends it with an error. Blocks: it reads and
/// writes files, within the I/O budget of the store.
///
/// # Errors
/// [`BackupError`]; nothing is left then that looks like a backup.
pub fn take(
    store: &Store,
    request: BackupRequest<'_>,
    look: &mut dyn FnMut(BackupProgress) -> Result<(), BackupError>,
) -> Result<BackupReport, BackupError> {
    let data =
        store.path().ok_or_else(|| BackupError::Refused("a store in memory has no files".to_owned()))?;
    let directory = request.directory;
    if directory.starts_with(data) || data.starts_with(directory) {
        let message = "the backup directory and the data directory must not be within each other";
        return Err(BackupError::Refused(message.to_owned()));
    }
    std::fs::create_dir_all(directory).about(directory)?;
    let _lock = lock(directory)?;
    clean_up(directory)?;
    let known = generations(directory)?;
    let generation = known.last().map_or(1, |last| last + 1);
    let checkpoint = Checkpoint::of(store, data)?;
    let incomplete = directory.join(format!("{INCOMPLETE}{generation:06}"));
    let mut taking = Taking {
        store,
        checkpoint: &checkpoint.path,
        incomplete: &incomplete,
        progress: BackupProgress { done: 0, total: checkpoint.files.iter().map(|file| file.bytes).sum() },
        report: (0, 0, 0),
        look,
    };
    let taken = taking.run(&checkpoint, Before::of(directory, known.last().copied())?, generation, request);
    let (new, shared, linked) = taking.report;
    let manifest = match taken {
        Ok(manifest) => manifest,
        Err(error) => {
            remove_tree(&incomplete).about(&incomplete)?;
            return Err(error);
        }
    };
    let path = generation_path(directory, generation);
    std::fs::rename(&incomplete, &path).about(&path)?;
    sync_names(directory).about(directory)?;
    if let Some(keep) = request.keep {
        let surplus = (known.len() + 1).saturating_sub(keep.max(1));
        for old in known.into_iter().take(surplus) {
            remove_generation(directory, old)?;
        }
    }
    Ok(BackupReport { manifest, bytes_new: new, bytes_shared: shared, bytes_linked: linked })
}

/// One process takes a backup into a directory at a time.
fn lock(directory: &Path) -> Result<File, BackupError> {
    let path = directory.join(LOCK);
    let foreign = std::fs::read_dir(directory).about(directory)?.filter_map(Result::ok).find(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        ![LOCK, "lost+found"].contains(&name.as_str())
            && ![INCOMPLETE, "generation-"].iter().any(|own| name.starts_with(own))
    });
    if let Some(foreign) = foreign {
        return Err(BackupError::Refused(format!(
            "directory {} is no backup directory (it contains {}): choose an empty one",
            directory.display(),
            foreign.file_name().to_string_lossy()
        )));
    }
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let file = opened.about(&path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(BackupError::Busy(directory.to_owned())),
        Err(TryLockError::Error(source)) => Err(BackupError::File { path, source }),
    }
}

/// Removes what backups have left that were ended.
fn clean_up(directory: &Path) -> Result<(), BackupError> {
    for entry in std::fs::read_dir(directory).about(directory)? {
        let path = entry.about(directory)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(INCOMPLETE) {
            remove_tree(&path).about(&path)?;
        }
    }
    Ok(())
}

/// What is half removed has no name of a generation.
fn remove_generation(directory: &Path, generation: u64) -> Result<(), BackupError> {
    let (path, doomed) =
        (generation_path(directory, generation), directory.join(format!("{INCOMPLETE}{generation:06}")));
    std::fs::rename(&path, &doomed).about(&path)?;
    sync_names(directory).about(directory)?;
    remove_tree(&doomed).about(&doomed)
}

/// The state of the store that is taken.
struct Checkpoint {
    path: PathBuf,
    files: Vec<CheckpointFile>,
    /// The checksums of what tables hold as they were written.
    born: HashMap<String, u32>,
    vault: Vault,
    sequence: u64,
    place: Option<BackupPlace>,
    began: Duration,
}

impl Checkpoint {
    fn of(store: &Store, data: &Path) -> Result<Self, BackupError> {
        let path = data.join(CHECKPOINT);
        remove_tree(&path).about(&path)?;
        let (sequence, place, began) = (store.sequence(), place_of(store)?, ambient::since_epoch());
        store.checkpoint(&path)?;
        let files = checkpoint_files(&path).about(&path)?;
        let vault = store.vault();
        let born = storage::table_checksums(&path, &vault).about(&path)?.into_iter().collect();
        Ok(Checkpoint { path, files, born, vault, sequence, place, began })
    }
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "a checkpoint could not be removed");
        }
    }
}

fn place_of(store: &Store) -> Result<Option<BackupPlace>, BackupError> {
    let local = LocalState::new(store.clone());
    let damaged = |error: replication::LogError| BackupError::Damaged(error.to_string());
    let Some(identity) = local.identity().map_err(damaged)? else { return Ok(None) };
    let applied = local.applied().map_err(damaged)?.unwrap_or_default();
    Ok(Some(BackupPlace {
        set: identity.set_name,
        term: applied.position.term,
        index: applied.position.index,
        time: applied.timestamp.time,
        increment: applied.timestamp.increment,
    }))
}

/// The generation before, as far as it can be shared.
struct Before {
    directory: PathBuf,
    files: HashMap<String, ManifestFile>,
}

impl Before {
    fn of(backups: &Path, generation: Option<u64>) -> Result<Option<Self>, BackupError> {
        let Some(generation) = generation else { return Ok(None) };
        let directory = generation_path(backups, generation);
        let manifest = match BackupManifest::read(&directory) {
            // A new one is whole without it.
            Err(BackupError::Damaged(what)) => {
                tracing::warn!(what, "the backup before is damaged and shares nothing");
                return Ok(None);
            }
            manifest => manifest?,
        };
        let files = manifest.files.into_iter().map(|file| (file.name.clone(), file)).collect();
        Ok(Some(Before { directory, files }))
    }

    /// The file of this generation that is the same table.
    fn same(&self, checkpoint: &Path, file: &CheckpointFile) -> Option<&ManifestFile> {
        let known = self.files.get(&file.name).filter(|known| known.bytes == file.bytes)?;
        let (own, new) = (self.directory.join(&file.name), checkpoint.join(&file.name));
        let is_same = is_table_file(&file.name) && tail(&own).ok()? == tail(&new).ok()?;
        is_same.then_some(known)
    }
}

/// The size of a file and the checksum of its end.
fn tail(path: &Path) -> std::io::Result<(u64, u32)> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL_BYTES)))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    Ok((bytes, checksum(&end)))
}

/// A backup under way.
struct Taking<'t> {
    store: &'t Store,
    checkpoint: &'t Path,
    incomplete: &'t Path,
    progress: BackupProgress,
    /// Bytes that are new, shared and linked.
    report: (u64, u64, u64),
    look: &'t mut dyn FnMut(BackupProgress) -> Result<(), BackupError>,
}

impl Taking<'_> {
    fn run(
        &mut self,
        checkpoint: &Checkpoint,
        before: Option<Before>,
        generation: u64,
        request: BackupRequest<'_>,
    ) -> Result<BackupManifest, BackupError> {
        let engine = self.incomplete.join("engine");
        std::fs::create_dir_all(&engine).about(&engine)?;
        let mut files = Vec::new();
        for file in &checkpoint.files {
            (self.look)(self.progress)?;
            let shared =
                before.as_ref().and_then(|before| Some((before, before.same(self.checkpoint, file)?)));
            let taken = match shared {
                Some((before, known)) => self.share(before, known)?,
                None => self.add(file)?,
            };
            self.check_born(checkpoint, &taken, shared.is_none())?;
            files.push(taken);
        }
        sync_names(&engine).about(&engine)?;
        let manifest = BackupManifest {
            heddle_backup: BackupManifest::VERSION,
            generation,
            began_millis: u64::try_from(checkpoint.began.as_millis()).unwrap_or(u64::MAX),
            release: request.release.to_owned(),
            sequence: checkpoint.sequence,
            place: checkpoint.place.clone(),
            files,
            crc32c: String::new(),
        };
        let manifest = manifest.write(self.incomplete)?;
        sync_names(self.incomplete).about(self.incomplete)?;
        Ok(manifest)
    }

    /// Makes sure that a table holds what it was written with. What an encrypted one holds was looked at when
    /// it was new.
    fn check_born(
        &mut self,
        checkpoint: &Checkpoint,
        taken: &ManifestFile,
        is_new: bool,
    ) -> Result<(), BackupError> {
        let name = &taken.name;
        let Some(born) = checkpoint.born.get(name).map(|born| sum_text(*born)) else { return Ok(()) };
        let sum = match checkpoint.vault.is_on() {
            false => taken.crc32c.clone(),
            true if !is_new => return Ok(()),
            true => self.opened_sum(checkpoint, name)?,
        };
        if sum == born {
            return Ok(());
        }
        Err(BackupError::Damaged(format!(
            "{name} is damaged and was not backed up: its checksum is {sum}, and was {born} when it was \
            written"
        )))
    }

    /// The checksum of what an encrypted file holds.
    fn opened_sum(&mut self, checkpoint: &Checkpoint, name: &str) -> Result<String, BackupError> {
        let path = self.incomplete.join(name);
        let damaged = |source: std::io::Error| match source.kind() {
            ErrorKind::InvalidData => {
                BackupError::Damaged(format!("{name} is damaged and was not backed up: {source}"))
            }
            _ => crate::failed(&path, source),
        };
        let mut file = checkpoint.vault.open(&path).map_err(damaged)?;
        let (store, progress, look) = (self.store, self.progress, &mut self.look);
        let sum = checksum_of(&mut file, |bytes| store.await_background(bytes, || look(progress)));
        match sum {
            Err(BackupError::File { source, .. }) => Err(damaged(source)),
            sum => Ok(sum_text(sum?.1)),
        }
    }

    fn share(&mut self, before: &Before, known: &ManifestFile) -> Result<ManifestFile, BackupError> {
        let to = self.incomplete.join(&known.name);
        std::fs::hard_link(before.directory.join(&known.name), &to).about(&to)?;
        self.report.1 += known.bytes;
        self.progress.done += known.bytes;
        Ok(known.clone())
    }

    fn add(&mut self, file: &CheckpointFile) -> Result<ManifestFile, BackupError> {
        let (from, to) = (self.checkpoint.join(&file.name), self.incomplete.join(&file.name));
        let is_linked = is_table_file(&file.name)
            && match std::fs::hard_link(&from, &to) {
                Ok(()) => true,
                // Another file system, or one without links.
                Err(error) if error.kind() != ErrorKind::StorageFull => false,
                Err(error) => return Err(crate::failed(&to, error)),
            };
        let (bytes, sum) = match is_linked {
            true => checksum_of_file(&to, |bytes| self.moved(bytes))?,
            false => self.copy(&from, &to)?,
        };
        self.report.0 += bytes;
        self.report.2 += if is_linked { bytes } else { 0 };
        Ok(ManifestFile { name: file.name.clone(), bytes, crc32c: sum_text(sum) })
    }

    fn copy(&mut self, from: &Path, to: &Path) -> Result<(u64, u32), BackupError> {
        let (mut source, mut target) = (File::open(from).about(from)?, File::create(to).about(to)?);
        let mut piece = vec![0; PIECE_BYTES];
        let (mut bytes, mut sum) = (0, 0);
        loop {
            let read = source.read(&mut piece).about(from)?;
            let read = piece.get(..read).unwrap_or_default();
            if read.is_empty() {
                target.sync_all().about(to)?;
                return Ok((bytes, sum));
            }
            target.write_all(read).about(to)?;
            sum = extend_checksum(sum, read);
            bytes += read.len() as u64;
            self.moved(read.len() as u64)?;
        }
    }

    /// So many bytes were read or copied: waits as long as the I/O budget wants.
    fn moved(&mut self, bytes: u64) -> Result<(), BackupError> {
        self.progress.done += bytes;
        let (store, progress) = (self.store, self.progress);
        store.await_background(bytes, || (self.look)(progress))
    }
}
