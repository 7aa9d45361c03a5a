//! Putting a generation into a data directory.
//!
//! ```text
//!  every checksum ─▶ restoring/store/: links or copies ─▶ out of its set ─▶ restoring/whole
//!                 ─▶ keys, engine/ and FORMAT move up ─▶ restoring/ goes: from here on a server starts
//! ```

use crate::check::{broken_files, choose};
use crate::manifest::{BackupManifest, BackupPlace};
use crate::{About, BackupError};
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use storage::files::{is_table_file, remove_tree, sync_names};
use storage::{KEYRING, RESTORING, StorageOptions, Store, Vault};

/// Within the directory of the work: the data directory that is made.
const STORE: &str = "store";
/// What a restore makes beside the engine's files.
const OWN_FILES: [&str; 3] = ["FORMAT", "FORMAT.new", KEYRING];

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreReport {
    /// Of which generation.
    pub manifest: BackupManifest,
    /// The set that its server was a member of, and to which these data do not belong any more.
    pub left: Option<BackupPlace>,
}

/// Restores a generation, the newest one if none is given, of the backups in `backups` into the data
/// directory `data`, which is empty or holds what an earlier restore has left that was ended. `say` is told
/// each step.
///
/// # Errors
/// [`BackupError`]; a server refuses to start with `data` then, until a restore has come to its end.
pub fn restore(
    backups: &Path,
    generation: Option<u64>,
    data: &Path,
    options: &StorageOptions,
    say: &mut dyn FnMut(&str),
) -> Result<RestoreReport, BackupError> {
    let (source, manifest) = choose(backups, generation)?;
    // Before anything is made: with another key, or without one, nothing can be opened.
    Vault::of(&source, options.master_key.as_ref())?;
    say(&format!("checking {} files of {} bytes", manifest.files.len(), manifest.bytes()));
    let broken = broken_files(&source, &manifest)?;
    if !broken.is_empty() {
        let broken: Vec<String> = broken.iter().map(|(file, what)| format!("{file}: {what}")).collect();
        return Err(BackupError::Damaged(format!(
            "{} is damaged, nothing was restored: {}",
            source.display(),
            broken.join("; ")
        )));
    }
    let work = data.join(RESTORING);
    make_room(data, &work)?;
    let store = work.join(STORE);
    copy(&source, &manifest, &store, say)?;
    say("opening the data");
    let opened = Store::open(&store, options)?;
    let left = leave_set(&opened)?;
    opened.close()?;
    drop(opened);
    say("moving the data into place");
    storage::copy_keys(&store, data).about(data)?;
    let engine = data.join("engine");
    std::fs::rename(store.join("engine"), &engine).about(&engine)?;
    sync_names(data).about(data)?;
    storage::mark_ready(data).about(data)?;
    remove_work(data, &work)?;
    Ok(RestoreReport { left: manifest.place.clone().filter(|_| left), manifest })
}

/// What is half removed still keeps a server from starting, and what is removed first is what it has moved.
fn remove_work(data: &Path, work: &Path) -> Result<(), BackupError> {
    remove_tree(&work.join(STORE)).about(work)?;
    remove_tree(work).about(work)?;
    sync_names(data).about(data)
}

/// Begins: from now on no server starts in the directory.
fn make_room(data: &Path, work: &Path) -> Result<(), BackupError> {
    std::fs::create_dir_all(data).about(data)?;
    let is_again = work.exists();
    for entry in std::fs::read_dir(data).about(data)? {
        let name = entry.about(data)?.file_name().to_string_lossy().into_owned();
        let is_own = is_again && (name == "engine" || OWN_FILES.contains(&name.as_str()));
        let is_harmless = name == "lost+found" || Path::new(&name) == work.strip_prefix(data).unwrap_or(work);
        if !is_own && !is_harmless {
            return Err(BackupError::Refused(format!(
                "directory {} is not empty (it contains {name}): restore into an empty one",
                data.display()
            )));
        }
    }
    if is_again {
        // In this order: without them the directory still says that it is not whole.
        remove_tree(&data.join("engine")).about(data)?;
        for name in OWN_FILES {
            match std::fs::remove_file(data.join(name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(crate::failed(data, error)),
                _ => {}
            }
        }
        remove_tree(&work.join(STORE)).about(work)?;
    }
    std::fs::create_dir_all(work).about(work)?;
    sync_names(data).about(data)
}

fn copy(
    source: &Path,
    manifest: &BackupManifest,
    store: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), BackupError> {
    let engine = store.join("engine");
    std::fs::create_dir_all(&engine).about(&engine)?;
    say("copying the files");
    for file in &manifest.files {
        let (from, to) = (source.join(&file.name), store.join(&file.name));
        // The backup stays as it is, whatever the server does.
        if is_table_file(&file.name) && std::fs::hard_link(&from, &to).is_ok() {
            continue;
        }
        std::fs::copy(&from, &to).about(&to)?;
        File::open(&to).and_then(|file| file.sync_all()).about(&to)?;
    }
    sync_names(&engine).about(&engine)?;
    sync_names(store).about(store)
}

/// Whether the data were those of a member; they are nobody's afterwards.
fn leave_set(store: &Store) -> Result<bool, BackupError> {
    let left = pollster::block_on(replication::leave_set(store));
    left.map_err(|error| BackupError::Damaged(format!("the log of the set cannot be removed: {error}")))
}
