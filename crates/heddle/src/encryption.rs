//! The key of encryption at rest: where it comes from, `heddle rotate-key` and `heddle engine-log`.

use crate::{EXIT_OPTIONS, fail};
use clap::{Arg, ArgMatches, Command, value_parser};
use dispatch::parameters::{Parameter, Parameters};
use rustix::fs::Mode;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use storage::{EngineLogError, InvalidMasterKey, MasterKey, rotate_master_key, write_engine_logs};
use zeroize::Zeroizing;

/// A key in base64 and white space around it: a larger file is another one.
const BYTES_MAX: u64 = 4 << 10;
const KEY_FILE: &str = "encryptionKeyFile";
const KEY_COMMAND: &str = "encryptionKeyCommand";
const NEW_KEY_FILE: &str = "newEncryptionKeyFile";
const NEW_KEY_COMMAND: &str = "newEncryptionKeyCommand";
const DBPATH: &str = "dbpath";
/// Exit status where the keys of a directory are as they were.
const EXIT_NOT_ROTATED: u8 = 1;
/// Exit status where not all logs could be told.
const EXIT_NOT_TOLD: u8 = 1;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EncryptionKeyError {
    #[error("Error reading file {path}: {error}")]
    Unreadable { path: String, error: io::Error },
    #[error("permissions on {path} are too open")]
    TooOpen { path: String },
    #[error("the command of security.encryptionKeyCommand cannot be run: {0}")]
    NotRun(io::Error),
    #[error("the command of security.encryptionKeyCommand ended with {0} and gave no key")]
    Failed(std::process::ExitStatus),
    #[error("{origin}: {error}")]
    Invalid { origin: String, error: InvalidMasterKey },
    #[error("give the new key with --{NEW_KEY_FILE} or --{NEW_KEY_COMMAND}")]
    NoNewKey,
}

fn read_text(from: impl Read) -> io::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::with_capacity(BYTES_MAX as usize));
    from.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn parse(text: &str, origin: &str) -> Result<MasterKey, EncryptionKeyError> {
    MasterKey::parse(text).map_err(|error| EncryptionKeyError::Invalid { origin: origin.to_owned(), error })
}

/// Reads a file that its owner alone may use.
fn of_file(path: &str) -> Result<MasterKey, EncryptionKeyError> {
    let unreadable = |error| EncryptionKeyError::Unreadable { path: path.to_owned(), error };
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    if mode & (Mode::RWXG | Mode::RWXO).bits() != 0 {
        return Err(EncryptionKeyError::TooOpen { path: path.to_owned() });
    }
    parse(&read_text(file).map_err(unreadable)?, path)
}

/// Runs a command of the shell that prints the key; what it says beside it goes where this process's does.
fn of_command(command: &str) -> Result<MasterKey, EncryptionKeyError> {
    let mut shell = std::process::Command::new("/bin/sh");
    let started = shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = started.map_err(EncryptionKeyError::NotRun)?;
    let output = child.stdout.take().expect("it is piped");
    let text = read_text(output).map_err(EncryptionKeyError::NotRun);
    let status = child.wait().map_err(EncryptionKeyError::NotRun)?;
    match status.success() {
        true => parse(&text?, "security.encryptionKeyCommand"),
        false => Err(EncryptionKeyError::Failed(status)),
    }
}

fn read(file: &str, command: &str) -> Result<Option<MasterKey>, EncryptionKeyError> {
    match (file.is_empty(), command.is_empty()) {
        (false, _) => of_file(file).map(Some),
        (true, false) => of_command(command).map(Some),
        (true, true) => Ok(None),
    }
}

/// The key of a server; `None` without `security.enableEncryption`.
///
/// # Errors
/// There is to be one, and there is none.
pub(crate) fn master_key(parameters: &Parameters) -> Result<Option<MasterKey>, EncryptionKeyError> {
    if !parameters.is_on(Parameter::EnableEncryption) {
        return Ok(None);
    }
    let text = |parameter| parameters.text(parameter);
    read(&text(Parameter::EncryptionKeyFile), &text(Parameter::EncryptionKeyCommand))
}

fn key_arguments(file: &'static str, command: &'static str, what: &str) -> [Arg; 2] {
    [
        Arg::new(file).long(file).value_name("FILE").help(format!("File with {what}")),
        Arg::new(command)
            .long(command)
            .value_name("CMD")
            .conflicts_with(file)
            .help(format!("Command that prints {what}")),
    ]
}

/// What the subcommands are told that read a data directory which is encrypted.
pub(crate) fn arguments() -> [Arg; 2] {
    key_arguments(KEY_FILE, KEY_COMMAND, "the key of data that are encrypted")
}

fn given_key(given: &ArgMatches, file: &str, command: &str) -> Result<Option<MasterKey>, EncryptionKeyError> {
    let text = |name| given.get_one::<String>(name).map_or("", String::as_str);
    read(text(file), text(command))
}

/// The key that a subcommand was given.
///
/// # Errors
/// It cannot be read, or is none.
pub(crate) fn key_of(given: &ArgMatches) -> Result<Option<MasterKey>, EncryptionKeyError> {
    given_key(given, KEY_FILE, KEY_COMMAND)
}

fn dbpath() -> Arg {
    let path = Arg::new(DBPATH).long(DBPATH).value_name("DIR").value_parser(value_parser!(PathBuf));
    path.required(true).help("The data directory")
}

/// `heddle rotate-key` and `heddle engine-log`.
pub(crate) fn commands() -> [Command; 2] {
    let rotate = Command::new("rotate-key")
        .about("Encrypts the keys of a data directory that no server uses with another key")
        .arg(dbpath())
        .args(key_arguments(KEY_FILE, KEY_COMMAND, "the key that it has"))
        .args(key_arguments(NEW_KEY_FILE, NEW_KEY_COMMAND, "the key that it gets"));
    let log = Command::new("engine-log")
        .about("Prints what the storage engine of a data directory has logged, the oldest first")
        .arg(dbpath())
        .args(arguments());
    [rotate, log]
}

/// Replaces the key of a data directory.
pub(crate) fn run_rotate(given: &ArgMatches) -> ExitCode {
    let new = given_key(given, NEW_KEY_FILE, NEW_KEY_COMMAND)
        .and_then(|key| key.ok_or(EncryptionKeyError::NoNewKey));
    let (old, new) = match key_of(given).and_then(|old| Ok((old, new?))) {
        Err(error) => return fail(&error, EXIT_OPTIONS),
        Ok(keys) => keys,
    };
    let path = given.get_one::<PathBuf>(DBPATH).cloned().unwrap_or_default();
    match rotate_master_key(&path, old.as_ref(), &new) {
        Err(error) => fail(&error, EXIT_NOT_ROTATED),
        Ok(()) => {
            let line = format!("{} is encrypted with the key {} from now on", path.display(), new.id());
            let _ = writeln!(io::stdout(), "{line}");
            ExitCode::SUCCESS
        }
    }
}

/// Prints the engine's logs, also while a server uses the directory.
pub(crate) fn run_engine_log(given: &ArgMatches) -> ExitCode {
    let key = match key_of(given) {
        Err(error) => return fail(&error, EXIT_OPTIONS),
        Ok(key) => key,
    };
    let path = given.get_one::<PathBuf>(DBPATH).cloned().unwrap_or_default();
    match write_engine_logs(&path, key.as_ref(), &mut io::stdout().lock()) {
        // Whoever reads has seen enough.
        Err(EngineLogError::NotWritten(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(&error, EXIT_NOT_TOLD),
        Ok(()) => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    const KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

    #[test]
    fn a_key_comes_from_a_file_that_its_owner_alone_may_use() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key").to_string_lossy().into_owned();
        let with = |text: &str, mode: u32| {
            std::fs::write(&path, text).expect("written");
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("ours");
            of_file(&path).map(|key| key.id().to_owned()).map_err(|error| error.to_string())
        };
        let id = with(&format!("{KEY}\n"), 0o600).expect("a key");
        assert_eq!(with(KEY, 0o400), Ok(id.clone()));
        assert_eq!(with(KEY, 0o640), Err(format!("permissions on {path} are too open")));
        assert_eq!(with(KEY, 0o604), Err(format!("permissions on {path} are too open")));
        let short = with("MDEyMzQ1Njc4OTAx", 0o600).expect_err("it is short");
        assert!(short.contains("expected a key of 32 bytes in base64"), "{short}");
        assert!(of_file("/nowhere/key").is_err());
        assert_eq!(of_command(&format!("echo {KEY}")).map(|key| key.id().to_owned()).ok(), Some(id));
    }

    #[test]
    fn a_command_that_fails_gives_no_key() {
        let failed = of_command(&format!("echo {KEY}; exit 3")).expect_err("it fails");
        assert!(failed.to_string().contains("exit status: 3"), "{failed}");
        let wordy = of_command("echo no key").expect_err("that is none");
        assert!(matches!(wordy, EncryptionKeyError::Invalid { .. }), "{wordy}");
    }
}
