//! `heddle backup`, `heddle restore`, `heddle check` and `heddle repair`.

use crate::encryption::{self, EncryptionKeyError};
use crate::server_uri::{ServerUri, URI, uri_argument};
use crate::{EXIT_OPTIONS, fail};
use backup::{CheckReport, RepairRequest, check_backup, check_data, describe_defect, repair, restore};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use document::{Document, DocumentBuf, RawValue, doc};
use replication::network::TcpPeers;
use replication::{PeerError, Peers};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use storage::StorageOptions;

const DIRECTORY: &str = "directory";
const KEEP: &str = "keep";
const GENERATION: &str = "generation";
const DBPATH: &str = "dbpath";
const BACKUP: &str = "backup";
const FILES_ONLY: &str = "filesOnly";
const DRY_RUN: &str = "dryRun";
const LEAVE_SET: &str = "leaveSet";
const NOW: &str = "now";

/// A backup may take days.
const BACKUP_LIMIT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How often a backup's progress is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Exit status where something is damaged.
const EXIT_DAMAGED: u8 = 1;
/// Exit status where nothing was repaired.
const EXIT_NOT_REPAIRED: u8 = 2;

fn directory(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name("DIR").value_parser(value_parser!(PathBuf)).help(help)
}

fn generation() -> Arg {
    Arg::new(GENERATION)
        .long(GENERATION)
        .value_name("N")
        .value_parser(value_parser!(u64))
        .help("Which backup; without it the newest one")
}

/// The subcommands.
pub(crate) fn commands() -> [Command; 4] {
    let backup = Command::new("backup")
        .about("Backs a running server's data up into a directory on its machine; only what is new is copied")
        .arg(directory(DIRECTORY, "Where the backups are, on the server's machine").required(true))
        .arg(uri_argument())
        .arg(
            Arg::new(KEEP)
                .long(KEEP)
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..))
                .help("How many backups stay, this one included; without it all do"),
        )
        .arg(
            Arg::new(NOW)
                .long(NOW)
                .action(ArgAction::SetTrue)
                .help("Does not wait for its window in the calendar, nor keep to its rate there"),
        );
    let restore = Command::new("restore")
        .about("Restores a backup into an empty data directory, as that of a server of no set")
        .arg(directory(BACKUP, "Where the backups are").required(true))
        .arg(directory(DBPATH, "The data directory").long(DBPATH).required(true))
        .args(encryption::arguments())
        .arg(generation());
    let check = Command::new("check")
        .about("Checks every byte of a data directory that no server uses, or of a backup")
        .arg(directory(BACKUP, "A backup"))
        .arg(
            directory(DBPATH, "A data directory")
                .long(DBPATH)
                .conflicts_with(BACKUP)
                .required_unless_present(BACKUP),
        )
        .arg(generation().requires(BACKUP))
        .args(encryption::arguments())
        .arg(
            Arg::new(FILES_ONLY)
                .long(FILES_ONLY)
                .action(ArgAction::SetTrue)
                .help("Does not compare documents with indexes"),
        );
    let repair = Command::new("repair")
        .about("Makes a data directory anew of what can be read of it, and lists what is lost")
        .arg(directory(DBPATH, "The data directory").long(DBPATH).required(true))
        .args(encryption::arguments())
        .arg(
            Arg::new(DRY_RUN)
                .long(DRY_RUN)
                .alias("dry-run")
                .action(ArgAction::SetTrue)
                .help("Only tells what would be lost"),
        )
        .arg(
            Arg::new(LEAVE_SET)
                .long(LEAVE_SET)
                .action(ArgAction::SetTrue)
                .help("Makes a member's data, of which something is lost, those of a server of no set"),
        );
    [backup, restore, check, repair]
}

/// Why there is no answer of the server's.
#[derive(Debug, thiserror::Error)]
enum BackupCommandError {
    #[error(transparent)]
    Uri(#[from] bench::BenchError),
    #[error("{0}")]
    Peer(#[from] PeerError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("the server refuses: {0}")]
    Refused(String),
    #[error("nothing was changed: {0}")]
    NotRepaired(String),
}

fn path(given: &ArgMatches, name: &str) -> PathBuf {
    given.get_one::<PathBuf>(name).cloned().unwrap_or_default()
}

/// Asks the server and shows how far it is.
pub(crate) fn run_backup(given: &ArgMatches) -> ExitCode {
    match ask_for_backup(given) {
        Ok(line) => {
            say(&line);
            ExitCode::SUCCESS
        }
        Err(error @ BackupCommandError::Uri(_)) => fail(&error, EXIT_OPTIONS),
        Err(error) => fail(&error, 1),
    }
}

fn ask_for_backup(given: &ArgMatches) -> Result<String, BackupCommandError> {
    let server = ServerUri::parse(given.get_one::<String>(URI).map_or("", String::as_str))?;
    let host = server.host.clone();
    let directory = std::path::absolute(path(given, DIRECTORY))?.to_string_lossy().into_owned();
    let mut command = doc! { "heddleBackup": 1, "directory": (directory.as_str()) };
    if let Some(keep) = given.get_one::<u32>(KEEP) {
        command.push("keep", i64::from(*keep));
    }
    if given.get_flag(NOW) {
        command.push(NOW, true);
    }
    command.push("$db", "admin");
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&ends))?;
    }
    let (sender, answers) = channel();
    let asked = host.clone();
    let asker = server.peers()?;
    std::thread::spawn(move || {
        let answer = pollster::block_on(asker.ask(&asked, command.to_buf(), BACKUP_LIMIT));
        let _ = sender.send(answer);
    });
    let watcher = server.peers()?;
    let mut told = String::new();
    let answer = loop {
        match answers.recv_timeout(LOOK_EVERY) {
            Ok(answer) => break answer?,
            Err(RecvTimeoutError::Disconnected) => return Err(PeerError::Stopped.into()),
            Err(RecvTimeoutError::Timeout) => watch(&watcher, &host, &directory, &ends, &mut told),
        }
    };
    report(&answer)
}

/// Shows how far the backup is, and has it ended where that is asked for.
fn watch(watcher: &TcpPeers, host: &str, directory: &str, ends: &AtomicBool, told: &mut String) {
    let ask = |command: Document| pollster::block_on(watcher.ask(host, command.to_buf(), ANSWER_LIMIT)).ok();
    let running =
        doc! { "currentOp": 1, "command.heddleBackup": 1, "command.directory": directory, "$db": "admin" };
    let Some(answer) = ask(running) else { return };
    let operations = answer.as_raw().get("inprog").and_then(RawValue::as_array);
    let Some(operation) = operations.and_then(|all| all.iter().next()).and_then(|one| one.as_document())
    else {
        return;
    };
    if let Some(message) = operation.get("msg").and_then(RawValue::as_str)
        && message != told
    {
        say(message);
        message.clone_into(told);
    }
    let number = operation.get("opid").and_then(RawValue::as_i64_exact);
    if let Some(number) = number.filter(|_| ends.load(Ordering::Relaxed)) {
        say("ending the backup");
        ask(doc! { "killOp": 1, "op": number, "$db": "admin" });
    }
}

fn report(answer: &DocumentBuf) -> Result<String, BackupCommandError> {
    let answer = answer.as_raw();
    let number = |name: &str| answer.get(name).and_then(RawValue::as_i64_exact).unwrap_or_default();
    if answer.get("ok").and_then(RawValue::as_f64) != Some(1.0) {
        let reason = answer.get("errmsg").and_then(RawValue::as_str).unwrap_or("no reason");
        return Err(BackupCommandError::Refused(reason.to_owned()));
    }
    Ok(format!(
        "generation {}: {} bytes in {} files, {} of them new ({} as links), {} shared",
        number("generation"),
        number("bytes"),
        number("files"),
        number("bytesNew"),
        number("bytesLinked"),
        number("bytesShared")
    ))
}

/// How data are opened that no server serves: nothing is set aside on the disk.
fn options(given: &ArgMatches) -> Result<StorageOptions, EncryptionKeyError> {
    let master_key = encryption::key_of(given)?;
    Ok(StorageOptions { disk_reserve_bytes: Some(0), master_key, ..StorageOptions::default() })
}

/// Puts a backup into a data directory.
pub(crate) fn run_restore(given: &ArgMatches) -> ExitCode {
    let generation = given.get_one::<u64>(GENERATION).copied();
    let options = match options(given) {
        Err(error) => return fail(&error, EXIT_OPTIONS),
        Ok(options) => options,
    };
    match restore(&path(given, BACKUP), generation, &path(given, DBPATH), &options, &mut say) {
        Err(error) => fail(&error, 1),
        Ok(report) => {
            let (number, sequence) = (report.manifest.generation, report.manifest.sequence);
            say(&format!("restored generation {number}: everything up to write {sequence} is there"));
            if let Some(place) = report.left {
                say(&format!(
                    "it was a member's of the set '{}', at {}:{}: it belongs to no set now; start it with \
                    --replSet and initiate a set, or add members that copy from it",
                    place.set, place.time, place.increment
                ));
            }
            ExitCode::SUCCESS
        }
    }
}

/// Checks a backup or a data directory.
pub(crate) fn run_check(given: &ArgMatches) -> ExitCode {
    let options = match options(given) {
        Err(error) => return fail(&error, EXIT_OPTIONS),
        Ok(options) => options,
    };
    let master = options.master_key.as_ref();
    let deep = (!given.get_flag(FILES_ONLY)).then_some(&options);
    let mut quiet = |_: &str| {};
    let checked = match given.get_one::<PathBuf>(BACKUP) {
        Some(backups) => {
            let generation = given.get_one::<u64>(GENERATION).copied();
            check_backup(backups, generation, master, deep, &mut quiet)
        }
        None => check_data(&path(given, DBPATH), master, deep, &mut quiet),
    };
    match checked {
        Err(error) => fail(&error as &dyn Error, EXIT_DAMAGED),
        Ok(report) => {
            tell(&report);
            if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_DAMAGED) }
        }
    }
}

fn tell(report: &CheckReport) {
    for defect in &report.files {
        let kind = if defect.is_harmless { "note" } else { "damaged" };
        say(&format!("{kind}: {}", describe_defect(defect, &report.names)));
    }
    report.contents.iter().for_each(|line| say(&format!("damaged: {line}")));
    if let Some(reason) = &report.not_opened {
        say(&format!("damaged: documents could not be looked at: {reason}"));
    }
    let verdict = if report.is_clean() { "nothing is damaged" } else { "there is damage" };
    say(&format!("{} collections with {} documents: {verdict}", report.collections, report.documents));
}

/// Repairs a data directory.
pub(crate) fn run_repair(given: &ArgMatches) -> ExitCode {
    let data = path(given, DBPATH);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let options = match options(given) {
        Err(error) => return fail(&error, EXIT_OPTIONS),
        Ok(options) => StorageOptions { build_threads: threads, ..options },
    };
    let is_dry = given.get_flag(DRY_RUN);
    let request = RepairRequest { data: &data, is_dry, leaves_set: given.get_flag(LEAVE_SET) };
    let report = match repair(request, &options, &mut say) {
        Err(error) => return fail(&error as &dyn Error, EXIT_NOT_REPAIRED),
        Ok(report) => report,
    };
    report.notes.iter().for_each(|line| say(&format!("note: {line}")));
    report.lost.iter().for_each(|line| say(&format!("lost: {line}")));
    if let Some(reason) = report.refused {
        return fail(&BackupCommandError::NotRepaired(reason), EXIT_NOT_REPAIRED);
    }
    say(&format!(
        "{}: {}",
        report.summary,
        if report.lost.is_empty() { "nothing is lost" } else { "what is listed is lost" }
    ));
    match &report.kept {
        Some(kept) => say(&format!(
            "the files of before are in {}, with this list: remove them when you do not need them",
            kept.display()
        )),
        None => say("nothing was changed"),
    }
    if report.lost.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_DAMAGED) }
}

fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
