//! Repairing a data directory: what can be read of it becomes a new store, which then takes its place.
//!
//! ```text
//!  damaged store ─▶ repairing/store: a new one ─▶ repairing/whole: what was lost
//!    ─▶ the old files move to damaged-N/ ─▶ the new ones move into their place ─▶ repairing/ goes
//! ```
//! Killed before `whole` is there, nothing has changed, and it begins anew. From then on no server starts
//! until it was run again, which only moves what is left to be moved.

use crate::{About, BackupError};
use catalog::{CatalogError, SalvageReport, Writer};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use storage::files::{remove_tree, sync_names};
use storage::{
    DamagedRange, DirectoryLock, FileDefect, Keyspace, REPAIRED, REPAIRING, Salvage, StorageOptions, Store,
};

/// Within the directory of the work: the data directory that is made.
const STORE: &str = "store";
const ENGINE: &str = "engine";
/// What belongs to the engine's files of before and is kept with them.
const BESIDE: [&str; 2] = ["FORMAT", "journal-mark"];
const KEPT: &str = "damaged-";
/// What was lost, beside the files in which it was.
const LIST: &str = "REPAIR";

/// How a data directory is to be repaired.
#[derive(Debug, Clone, Copy)]
pub struct RepairRequest<'r> {
    /// The data directory, which no server uses.
    pub data: &'r Path,
    /// Only tells what would be lost.
    pub is_dry: bool,
    /// Data of a member of which something is lost become those of a server of no set.
    pub leaves_set: bool,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// What is lost, a sentence for each.
    pub lost: Vec<String>,
    /// What is to be known and is no loss.
    pub notes: Vec<String>,
    /// What there is now.
    pub summary: String,
    /// Where the files of before are; `None`: where they were.
    pub kept: Option<PathBuf>,
    /// Why nothing was changed though it was to be.
    pub refused: Option<String>,
}

impl RepairReport {
    fn to_text(&self) -> String {
        let mut text = String::new();
        let lines = self.lost.iter().map(|line| ("lost", line));
        for (kind, line) in lines.chain(self.notes.iter().map(|line| ("note", line))) {
            let _ = writeln!(text, "{kind}: {}", line.replace('\n', " "));
        }
        let _ = writeln!(text, "there: {}", self.summary);
        text
    }

    fn from_text(text: &str) -> RepairReport {
        let mut report = RepairReport::default();
        for (kind, line) in text.lines().filter_map(|line| line.split_once(": ")) {
            match kind {
                "lost" => report.lost.push(line.to_owned()),
                "note" => report.notes.push(line.to_owned()),
                _ => line.clone_into(&mut report.summary),
            }
        }
        report
    }
}

/// Repairs a data directory, or ends a repair that was ended halfway. `say` is told each step.
///
/// # Errors
/// [`BackupError`]; the directory is as it was, or a repair of it is to be run again.
pub fn repair(
    request: RepairRequest<'_>,
    options: &StorageOptions,
    say: &mut dyn FnMut(&str),
) -> Result<RepairReport, BackupError> {
    let RepairRequest { data, is_dry, leaves_set } = request;
    let work = data.join(REPAIRING);
    if work.join(REPAIRED).exists() {
        if is_dry {
            let detail = format!("a repair of {} was ended halfway: run it again", data.display());
            return Err(BackupError::Refused(detail));
        }
        let _lock = DirectoryLock::take(data)?;
        say("ending the repair that was begun");
        return put_in_place(data, &work);
    }
    say("looking for what can be read");
    let salvage = Salvage::open(data, options.master_key.as_ref())?;
    remove_tree(&work).about(&work)?;
    if is_dry {
        let found = catalog::copy_salvaged(&salvage, None, say).map_err(failed)?;
        let mut report = report_of(&salvage, &found);
        report.refused = refusal(&found, &report, leaves_set);
        return Ok(report);
    }
    let made = make_store(&salvage, (data, work.as_path()), leaves_set, options, say);
    match made {
        Ok(report) if report.refused.is_none() => {
            // The engine leaves the end of its log to whoever opens it next; here that comes after a rename.
            sync_tree(&work.join(STORE)).about(&work)?;
            let mut list = File::create(work.join("whole.new")).about(&work)?;
            list.write_all(report.to_text().as_bytes()).and_then(|()| list.sync_all()).about(&work)?;
            std::fs::rename(work.join("whole.new"), work.join(REPAIRED)).about(&work)?;
            sync_names(&work).and_then(|()| sync_names(data)).about(&work)?;
            say("putting the new files into the place of the old ones");
            put_in_place(data, &work)
        }
        made => {
            remove_tree(&work).about(&work)?;
            made
        }
    }
}

/// Why data of a member are not repaired as they are.
fn refusal(found: &SalvageReport, report: &RepairReport, leaves_set: bool) -> Option<String> {
    let refused = found.is_member && !report.lost.is_empty() && !leaves_set;
    refused.then(|| {
        "these are the data of a member of a replica set, which has told others that it has what is lost: \
        empty its directory, so that it copies from another member; or, if none has the data, give \
        --leaveSet, which makes them those of a server of no set"
            .to_owned()
    })
}

fn make_store(
    salvage: &Salvage,
    (data, work): (&Path, &Path),
    leaves_set: bool,
    options: &StorageOptions,
    say: &mut dyn FnMut(&str),
) -> Result<RepairReport, BackupError> {
    let path = work.join(STORE);
    std::fs::create_dir_all(&path).about(&path)?;
    storage::copy_keys(data, &path).about(&path)?;
    let store = Store::open(&path, options)?;
    let mut found = catalog::copy_salvaged(salvage, Some(&store), say).map_err(failed)?;
    let report = report_of(salvage, &found);
    if let Some(reason) = refusal(&found, &report, leaves_set) {
        return Ok(RepairReport { refused: Some(reason), ..report });
    }
    let leaves = found.is_member && leaves_set;
    if leaves {
        say("leaving the set");
        leave(&store, &mut found)?;
    }
    let writer = if found.is_member && !leaves { Writer::Replication } else { Writer::Client };
    pollster::block_on(found.build_indexes(&store, writer, say)).map_err(failed)?;
    store.close()?;
    Ok(report_of(salvage, &found))
}

/// Takes the data out of their set, also where its log cannot be read.
fn leave(store: &Store, found: &mut SalvageReport) -> Result<(), BackupError> {
    let left = pollster::block_on(replication::leave_set(store));
    if !matches!(left, Ok(true)) {
        pollster::block_on(replication::forget_set(store)).map_err(|error| {
            BackupError::Damaged(format!("the log of the set cannot be removed: {error}"))
        })?;
        found.lost.push("what the log of the set said that was not applied yet".to_owned());
    }
    found.notes.push("the data belong to no set any more: initiate one, and add empty members".to_owned());
    Ok(())
}

fn failed(error: CatalogError) -> BackupError {
    match error {
        CatalogError::Storage(error) => error.into(),
        error => BackupError::Damaged(error.to_string()),
    }
}

fn report_of(salvage: &Salvage, found: &SalvageReport) -> RepairReport {
    let mut report = RepairReport::default();
    for defect in salvage.defects() {
        let line = describe_defect(defect, &found.names);
        match defect.is_harmless {
            true => report.notes.push(line),
            false => report.lost.push(line),
        }
    }
    for (range, detail) in &found.ranges {
        let file = table_in(detail).unwrap_or("a table").to_owned();
        let defect = "a block cannot be read".to_owned();
        let defect = FileDefect { file, defect, range: Some(range.clone()), is_harmless: false };
        report.lost.push(describe_defect(&defect, &found.names));
    }
    report.lost.extend(found.lost.iter().cloned());
    report.notes.extend(found.notes.iter().cloned());
    report.summary = format!(
        "{} collections and views, {} documents, {} indexes beside _id_",
        found.collections, found.documents, found.indexes
    );
    report
}

/// The name of a table in what RocksDB says.
fn table_in(detail: &str) -> Option<&str> {
    let end = detail.find(".sst")?;
    let begin = detail.get(..end)?.rfind(|letter: char| !letter.is_ascii_digit()).map_or(0, |at| at + 1);
    detail.get(begin..end + ".sst".len())
}

/// A line that tells what is wrong with a file, and with which keys.
pub fn describe_defect(defect: &FileDefect, names: &HashMap<u32, String>) -> String {
    let FileDefect { file, defect, range, .. } = defect;
    let keys = range.as_ref().map_or_else(String::new, |range| describe_range(range, names));
    format!("{file}: {defect}{keys}")
}

fn describe_range(range: &DamagedRange, names: &HashMap<u32, String>) -> String {
    let key = |key: &Option<Vec<u8>>| match key.as_deref() {
        None => "the end".to_owned(),
        Some(key) if matches!(range.keyspace, Keyspace::Documents | Keyspace::Indexes) => {
            describe_key(key, names)
        }
        Some(key) => key.escape_ascii().to_string(),
    };
    format!(" [{}: {} to {}]", range.keyspace.name(), key(&range.from), key(&range.to))
}

/// A stored key by the name of its collection, where that is known, and its `_id`.
fn describe_key(key: &[u8], names: &HashMap<u32, String>) -> String {
    let (collection, rest) = catalog::describe_key(key);
    match names.get(&collection) {
        Some(name) => format!("{name} {rest}"),
        None => format!("collection {collection} {rest}"),
    }
}

/// Moves the old files away and the new ones into their place. It can be done again from wherever it was
/// ended; what tells so, `whole`, goes last.
fn put_in_place(data: &Path, work: &Path) -> Result<RepairReport, BackupError> {
    let whole = work.join(REPAIRED);
    let text = std::fs::read_to_string(&whole).about(&whole)?;
    let (new, engine) = (work.join(STORE).join(ENGINE), data.join(ENGINE));
    let kept = kept_directory(data, new.exists())?;
    if new.exists() {
        std::fs::create_dir_all(&kept).about(&kept)?;
        if engine.exists() {
            std::fs::rename(&engine, kept.join(ENGINE)).about(&engine)?;
        }
        for name in BESIDE {
            move_if_there(&data.join(name), &kept.join(name))?;
        }
        // Both are encrypted with the same keys.
        storage::copy_keys(data, &kept).about(&kept)?;
        let list = kept.join(LIST);
        std::fs::copy(&whole, &list).and_then(|_| File::open(&list)?.sync_all()).about(&list)?;
        sync_names(&kept).and_then(|()| sync_names(data)).about(data)?;
        std::fs::rename(&new, &engine).about(&engine)?;
        sync_names(data).about(data)?;
    }
    storage::mark_ready(data).about(data)?;
    remove_tree(&work.join(STORE)).about(work)?;
    std::fs::remove_file(&whole).about(&whole)?;
    remove_tree(work).about(work)?;
    sync_names(data).about(data)?;
    Ok(RepairReport { kept: Some(kept), ..RepairReport::from_text(&text) })
}

/// Where the files of before go, or have gone: the last directory of theirs if they are not all there yet, or
/// all of the work is done but for its traces.
fn kept_directory(data: &Path, is_under_way: bool) -> Result<PathBuf, BackupError> {
    let mut last = 0;
    for entry in std::fs::read_dir(data).about(data)? {
        let name = entry.about(data)?.file_name().to_string_lossy().into_owned();
        last = last.max(name.strip_prefix(KEPT).and_then(|number| number.parse::<u64>().ok()).unwrap_or(0));
    }
    let path = |number: u64| data.join(format!("{KEPT}{number:06}"));
    // What was begun has no list yet, which is written before the new files come.
    let is_begun =
        last > 0 && (!is_under_way || !path(last).join(LIST).exists() || !data.join(ENGINE).exists());
    Ok(path(if is_begun { last } else { last + 1 }))
}

fn move_if_there(from: &Path, to: &Path) -> Result<(), BackupError> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(crate::failed(from, error)),
        _ => Ok(()),
    }
}

/// Syncs every file below a directory, and its names.
fn sync_tree(directory: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        match path.is_dir() {
            true => sync_tree(&path)?,
            false => File::open(&path)?.sync_all()?,
        }
    }
    sync_names(directory)
}
