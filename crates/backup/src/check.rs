//! Checking a backup, or a data directory that nobody uses.

use crate::manifest::{BackupManifest, generation_path, generations, sum_text};
use crate::{About, BackupError};
use catalog::{Catalog, CatalogEntry};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use storage::files::{checkpoint_files, checksum_of_file};
use storage::{FileDefect, MasterKey, OpenError, Scratch, StorageOptions, Store};

/// What a check has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// What is wrong with files.
    pub files: Vec<FileDefect>,
    /// What is wrong with documents, indexes and counters, a sentence for each.
    pub contents: Vec<String>,
    /// The names of collections by their ids, as far as they are known.
    pub names: HashMap<u32, String>,
    /// Collections whose documents were compared with their indexes.
    pub collections: u64,
    /// Documents in them.
    pub documents: u64,
    /// Why documents were not looked at, if they were to be.
    pub not_opened: Option<String>,
}

impl CheckReport {
    /// Whether everything is as it was written.
    pub fn is_clean(&self) -> bool {
        let is_harmed = self.files.iter().any(|defect| !defect.is_harmless);
        !is_harmed && self.contents.is_empty() && self.not_opened.is_none()
    }
}

/// The generation of this number, or the newest one.
pub(crate) fn choose(
    backups: &Path,
    generation: Option<u64>,
) -> Result<(PathBuf, BackupManifest), BackupError> {
    let known = generations(backups)?;
    let chosen = match generation {
        Some(wanted) => known.contains(&wanted).then_some(wanted),
        None => known.last().copied(),
    };
    let Some(chosen) = chosen else {
        let which = generation.map_or_else(String::new, |wanted| format!(" {wanted}"));
        return Err(BackupError::Refused(format!(
            "there is no generation{which} in {}: there are {known:?}",
            backups.display()
        )));
    };
    let path = generation_path(backups, chosen);
    let manifest = BackupManifest::read(&path)?;
    Ok((path, manifest))
}

/// Files of a generation that are not what its manifest says, and why.
pub(crate) fn broken_files(
    generation: &Path,
    manifest: &BackupManifest,
) -> Result<Vec<(String, String)>, BackupError> {
    let mut broken = Vec::new();
    for file in &manifest.files {
        let path = generation.join(&file.name);
        if !path.is_file() {
            broken.push((file.name.clone(), "it is missing".to_owned()));
            continue;
        }
        let (bytes, sum) = checksum_of_file(&path, |_| Ok::<_, BackupError>(()))?;
        if bytes != file.bytes {
            broken.push((file.name.clone(), format!("it has {bytes} bytes, and had {}", file.bytes)));
        } else if sum_text(sum) != file.crc32c {
            let what = format!("its checksum is {}, and was {}", sum_text(sum), file.crc32c);
            broken.push((file.name.clone(), what));
        }
    }
    let known = |name: &str| manifest.files.iter().any(|file| file.name == name);
    for file in checkpoint_files(generation).about(generation)? {
        if !known(&file.name) {
            broken.push((file.name, "it is none of the backup's files".to_owned()));
        }
    }
    Ok(broken)
}

/// Checks a generation, the newest one if none is given: every byte, and with `deep` documents against
/// indexes. `say` is told what is read next. What is encrypted needs its key.
///
/// # Errors
/// [`BackupError`]: nothing can be said then.
pub fn check_backup(
    backups: &Path,
    generation: Option<u64>,
    master: Option<&MasterKey>,
    deep: Option<&StorageOptions>,
    say: &mut dyn FnMut(&str),
) -> Result<CheckReport, BackupError> {
    let (path, manifest) = choose(backups, generation)?;
    let broken = broken_files(&path, &manifest)?;
    let mut report = check_data(&path, master, deep.filter(|_| broken.is_empty()), say)?;
    report.files.extend(broken.into_iter().map(|(file, defect)| FileDefect {
        file,
        defect,
        range: None,
        is_harmless: false,
    }));
    Ok(report)
}

/// Checks a data directory, without changing it: every file, and with `deep` documents against indexes,
/// opened with these options. `say` is told what is read next. What is encrypted needs its key.
///
/// # Errors
/// [`OpenError::Locked`] where a server uses it; nothing can be said then.
pub fn check_data(
    data: &Path,
    master: Option<&MasterKey>,
    deep: Option<&StorageOptions>,
    say: &mut dyn FnMut(&str),
) -> Result<CheckReport, BackupError> {
    let files = storage::check_files::<BackupError>(data, master, |file| {
        say(file);
        Ok(())
    })?;
    let mut report = CheckReport { files, ..CheckReport::default() };
    if let Some(options) = deep {
        match compare_contents(data, options, &mut report, say) {
            Ok(()) => {}
            Err(error) => report.not_opened = Some(error.to_string()),
        }
    }
    Ok(report)
}

/// Opens a copy made of links, and validates every collection.
fn compare_contents(
    data: &Path,
    options: &StorageOptions,
    report: &mut CheckReport,
    say: &mut dyn FnMut(&str),
) -> Result<(), BackupError> {
    let scratch = Scratch::make(data).about(data)?;
    let staged = scratch.path().join("data");
    storage::stage(data, &staged).about(&staged)?;
    let store = Store::open(&staged, options)?;
    let failed = |error: catalog::CatalogError| BackupError::Damaged(error.to_string());
    let catalog = Catalog::open(store.clone()).map_err(failed)?;
    let state = catalog.state();
    for database in state.databases() {
        for (namespace, entry) in state.entries(&database) {
            let CatalogEntry::Collection(collection) = entry else { continue };
            say(&namespace.to_string());
            report.names.insert(collection.id(), namespace.to_string());
            report.collections += 1;
            match pollster::block_on(collection.validate(|| store.pinned_view())) {
                Ok(found) => {
                    report.documents += found.records;
                    let of_indexes = found.indexes.iter().flat_map(|index| {
                        index.errors.iter().map(|error| format!("{namespace}, index {}: {error}", index.name))
                    });
                    report.contents.extend(found.errors.iter().map(|error| format!("{namespace}: {error}")));
                    report.contents.extend(of_indexes);
                }
                Err(error) => report.contents.push(format!("{namespace}: {error}")),
            }
        }
    }
    drop(catalog);
    store.close().map_err(|error| OpenError::Corrupt { path: data.to_owned(), detail: error.to_string() })?;
    Ok(())
}
