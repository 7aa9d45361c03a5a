//! The files of a checkpoint: which they are, and how it is known that they came whole. Initial sync and
//! backups copy them.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::vault::KEYRING;

/// The directory of the engine's files.
const ENGINE: &str = "engine/";
/// Read at once.
const READ_BYTES: usize = 1 << 20;

/// A file of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointFile {
    /// Its path within the directory, `FORMAT`, `encryption` or `engine/…`.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// Whether a file is one of a data directory: its format, its keys, or one of the engine's own.
pub fn is_checkpoint_file(name: &str) -> bool {
    let of_engine = name.strip_prefix(ENGINE);
    name == "FORMAT"
        || name == KEYRING
        || of_engine.is_some_and(|name| {
            !name.is_empty() && !name.starts_with('.') && !name.contains('/') && !name.contains('\0')
        })
}

/// Whether a file of a checkpoint never changes while it exists, so that copies may be links.
pub fn is_table_file(name: &str) -> bool {
    name.ends_with(".sst")
}

/// The files of a checkpoint, in the order of their names.
///
/// # Errors
/// What the file system says.
pub fn checkpoint_files(directory: &Path) -> io::Result<Vec<CheckpointFile>> {
    let mut files = files_of(directory, "")?;
    files.extend(files_of(&directory.join(ENGINE), ENGINE)?);
    Ok(files)
}

/// The files of a directory, their names behind `prefix`.
fn files_of(directory: &Path, prefix: &str) -> io::Result<Vec<CheckpointFile>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = std::fs::metadata(entry.path())?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if metadata.is_file() && is_checkpoint_file(&name) {
            files.push(CheckpointFile { name, bytes: metadata.len() });
        }
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

/// The checksum by which it is known that bytes came whole: CRC-32C, that of the engine's tables and of the
/// messages of initial sync.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// The checksum of bytes that follow others with the checksum `before`.
pub fn extend_checksum(before: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(before, bytes)
}

/// The size and checksum of a file, read in pieces; `look` is told the size of each.
///
/// # Errors
/// What the file system or `look` says.
pub fn checksum_of_file<E: From<io::Error>>(
    path: &Path,
    look: impl FnMut(u64) -> Result<(), E>,
) -> Result<(u64, u32), E> {
    checksum_of(&mut File::open(path)?, look)
}

/// The same of what a reader has.
///
/// # Errors
/// What the reader or `look` says.
pub fn checksum_of<E: From<io::Error>>(
    file: &mut impl Read,
    mut look: impl FnMut(u64) -> Result<(), E>,
) -> Result<(u64, u32), E> {
    let mut piece = vec![0; READ_BYTES];
    let (mut bytes, mut sum) = (0, 0);
    loop {
        let read = match file.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        let read = piece.get(..read).unwrap_or_default();
        if read.is_empty() {
            return Ok((bytes, sum));
        }
        sum = extend_checksum(sum, read);
        bytes += read.len() as u64;
        look(read.len() as u64)?;
    }
}

/// Syncs a directory, so that the names in it are there after a power loss.
///
/// # Errors
/// What the file system says.
pub fn sync_names(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Removes a directory with all that is in it; one that is not there is removed.
///
/// # Errors
/// What the file system says.
pub fn remove_tree(directory: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_a_data_directory_are_copied() {
        for (name, expect) in [
            ("FORMAT", true),
            ("encryption", true),
            ("engine/000012.sst", true),
            ("engine/CURRENT", true),
            ("journal-mark", false),
            ("engine/", false),
            ("engine/.x", false),
            ("engine/a/b", false),
            ("../engine/CURRENT", false),
        ] {
            assert_eq!(is_checkpoint_file(name), expect, "{name}");
        }
    }

    #[test]
    fn a_checksum_in_pieces_is_that_of_the_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..3 * READ_BYTES + 17).map(|at| (at % 251) as u8).collect();
        std::fs::write(file.path(), &bytes).unwrap();
        let mut looks = 0;
        let sum = checksum_of_file(file.path(), |_| {
            looks += 1;
            io::Result::Ok(())
        });
        assert_eq!(sum.unwrap(), (bytes.len() as u64, checksum(&bytes)));
        assert!(looks >= 4, "it can be ended in between: {looks}");
    }
}
