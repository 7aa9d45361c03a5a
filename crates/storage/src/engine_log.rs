//! What the engine says of itself, `engine/LOG` and the files `LOG.old.<microseconds>` of starts before,
//! encrypted as all else is where the data directory is.

use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use crate::OpenError;
use crate::directory::ENGINE_DIRECTORY;
use crate::vault::{MasterKey, Vault};

const LOG: &str = "LOG";
const OLD: &str = "LOG.old.";
/// Copied at once, in bytes.
const STEP_BYTES: usize = 64 << 10;

/// Why a log was not told to its end.
#[derive(Debug, thiserror::Error)]
pub enum EngineLogError {
    /// The data directory cannot be read, or not with this key.
    #[error(transparent)]
    Directory(#[from] OpenError),
    /// A file cannot be read, or is damaged.
    #[error("{path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said; `InvalidData`: what is damaged.
        source: io::Error,
    },
    /// The output takes no more.
    #[error("the log cannot be written: {0}")]
    NotWritten(io::Error),
}

/// Writes the engine's logs of a data directory, the oldest first, as plain text. A server may use the
/// directory meanwhile. A file that the engine has removed is left out.
///
/// # Errors
/// A key that is missing or wrong; a file that cannot be read, behind what could.
pub fn write_engine_logs(
    path: &Path,
    master: Option<&MasterKey>,
    output: &mut impl Write,
) -> Result<(), EngineLogError> {
    let vault = Vault::of(path, master)?;
    let engine = path.join(ENGINE_DIRECTORY);
    for name in names(&engine)? {
        let path = engine.join(name);
        let opened = vault.open(&path);
        let mut reader = match opened {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(source) => return Err(EngineLogError::Unreadable { path, source }),
            Ok(reader) => reader,
        };
        let mut step = vec![0; STEP_BYTES];
        loop {
            let count = match reader.read(&mut step) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(source) => return Err(EngineLogError::Unreadable { path, source }),
            };
            let bytes = step.get(..count).expect("a reader fills no more than it is given");
            output.write_all(bytes).map_err(EngineLogError::NotWritten)?;
        }
    }
    output.flush().map_err(EngineLogError::NotWritten)
}

/// In the order of time.
fn names(engine: &Path) -> Result<Vec<String>, EngineLogError> {
    let unreadable = |source| EngineLogError::Unreadable { path: engine.to_owned(), source };
    let mut old: Vec<(u64, String)> = Vec::new();
    for entry in std::fs::read_dir(engine).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned();
        let since = name.strip_prefix(OLD).and_then(|since| since.parse().ok());
        old.extend(since.map(|since| (since, name)));
    }
    old.sort_unstable();
    let old = old.into_iter().map(|(_, name)| name);
    Ok(old.chain(std::iter::once(LOG.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

    fn told(path: &Path, master: Option<&MasterKey>) -> (String, Option<String>) {
        let mut output = Vec::new();
        let error = write_engine_logs(path, master, &mut output).err().map(|error| error.to_string());
        (String::from_utf8(output).unwrap(), error)
    }

    #[test]
    fn logs_are_told_in_the_order_of_time_with_the_key_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (path, key) = (directory.path(), MasterKey::parse(KEY).unwrap());
        let vault = Vault::make(path, Some(&key)).unwrap();
        let engine = path.join(ENGINE_DIRECTORY);
        std::fs::create_dir(&engine).unwrap();
        for (name, text) in [
            ("LOG", "third\n"),
            ("LOG.old.999", "first\n"),
            ("LOG.old.1000", "second\n"),
            ("LOG.old.x", "no log\n"),
            ("OPTIONS-000007", "no log\n"),
        ] {
            vault.write(&engine.join(name), text.as_bytes()).unwrap();
        }
        assert_eq!(told(path, Some(&key)), ("first\nsecond\nthird\n".to_owned(), None));
        let (nothing, error) = told(path, None);
        assert!(nothing.is_empty() && error.unwrap().contains("encrypted"), "without the key");
        // What is damaged is told behind what is not.
        let newest = engine.join("LOG");
        let mut bytes = std::fs::read(&newest).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&newest, bytes).unwrap();
        let (text, error) = told(path, Some(&key));
        assert_eq!(text, "first\nsecond\n");
        assert!(error.unwrap().contains("LOG: "), "the file is named");
    }
}
