//! The file of `security.keyFile`.

use access::{AccessError, MemberKeys};
use rustix::fs::Mode;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Two keys, and white space between all their characters: a larger file is another one.
const BYTES_MAX: u64 = 16 << 10;

/// A file that is no such one. The messages are those of `mongod`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyFileError {
    #[error("Error reading file {path}: {error}")]
    Unreadable { path: String, error: io::Error },
    #[error("permissions on {path} are too open")]
    TooOpen { path: String },
    #[error(transparent)]
    Keys(#[from] AccessError),
}

/// Reads the keys; none where no file is given.
///
/// # Errors
/// A file that others than its owner may use, or that has no keys.
pub(crate) fn read(path: &str) -> Result<Option<MemberKeys>, KeyFileError> {
    if path.is_empty() {
        return Ok(None);
    }
    let unreadable = |error| KeyFileError::Unreadable { path: path.to_owned(), error };
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    if mode & (Mode::RWXG | Mode::RWXO).bits() != 0 {
        return Err(KeyFileError::TooOpen { path: path.to_owned() });
    }
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text).map_err(unreadable)?;
    Ok(Some(MemberKeys::parse(&text, path)?))
}

/// Makes a file with a key, for its owner alone; one that is there stays as it is.
///
/// # Errors
/// The system has no room, or no random bytes.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    const KEY_BYTES: usize = 96;
    let mut random = [0; KEY_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made?.write_all(MemberKeys::text_of(&random).as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    #[test]
    fn only_what_the_owner_alone_may_read_is_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("key");
        let path = file.to_str().expect("text");
        let check = |mode: u32, expect: Result<usize, String>| {
            std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
            let found = read(path).map(|keys| keys.expect("it was given").passwords().len());
            assert_eq!(found.map_err(|error| error.to_string()), expect, "{mode:o}");
        };
        std::fs::write(&file, "secret\n").expect("written");
        for mode in [0o600, 0o400] {
            check(mode, Ok(1));
        }
        for mode in [0o640, 0o604, 0o610] {
            check(mode, Err(format!("permissions on {path} are too open")));
        }
        std::fs::write(&file, "short").expect("written");
        check(0o600, Err(format!("security key in {path} has length 5, must be between 6 and 1024 chars")));
        let made = directory.path().join("made");
        make(&made).expect("there is room");
        let keys = read(made.to_str().expect("text")).expect("ours alone");
        make(&made).expect("it is there");
        assert_eq!(read(made.to_str().expect("text")).expect("ours alone"), keys, "it stays");
        assert_eq!(read("").expect("nothing is given"), None);
        let error = read("/nowhere").expect_err("it is not there").to_string();
        assert!(error.starts_with("Error reading file /nowhere: No such file"), "{error}");
    }
}
