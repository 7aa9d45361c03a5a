//! Checksums of what RocksDB writes as text and does not check itself: its options and its name.
//!
//! ```text
//!  engine/checksums:  "crc32c <8 hex digits> <file>", a line for each
//!                     "crc32c <8 hex digits> of the lines above"
//! ```
//! Written whenever RocksDB has written such a file: at the start, and when options change. A file that is
//! younger than a crash in between has no line and is not checked.

use std::io;
use std::path::Path;

use super::examine::file_name;
use crate::check::FileDefect;
use crate::files::{checksum, sync_names};
use crate::vault::Vault;

const FILE: &str = "checksums";
const LAST_LINE: &str = "of the lines above";

fn is_text(name: &str) -> bool {
    name == "IDENTITY" || name.starts_with("OPTIONS-") && !name.ends_with(".dbtmp")
}

/// Writes the checksums of the files that are there.
pub(super) fn note(engine: &Path, vault: &Vault) -> io::Result<()> {
    let mut lines = String::new();
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(engine)? {
        names.push(file_name(&entry?.path()));
    }
    names.sort_unstable();
    for name in names.iter().filter(|name| is_text(name)) {
        match vault.read(&engine.join(name)) {
            Ok(bytes) => lines.push_str(&line(checksum(&bytes), name)),
            // RocksDB removes old ones when it likes.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    lines.push_str(&line(checksum(lines.as_bytes()), LAST_LINE));
    let draft = engine.join("checksums.new");
    vault.write(&draft, lines.as_bytes())?.sync_all()?;
    std::fs::rename(draft, engine.join(FILE))?;
    sync_names(engine)
}

fn line(sum: u32, name: &str) -> String {
    format!("crc32c {sum:08x} {name}\n")
}

/// Compares them with the files.
pub(crate) fn check(engine: &Path, vault: &Vault, found: &mut Vec<FileDefect>) -> io::Result<()> {
    let bytes = match vault.read(&engine.join(FILE)) {
        // Of an older release, or of a checkpoint.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            found.push(FileDefect::new(FILE, error.to_string()));
            return Ok(());
        }
        bytes => bytes?,
    };
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    let without_last = text.strip_suffix('\n').and_then(|text| text.rfind('\n')).map_or(0, |end| end + 1);
    let (lines, last) = text.split_at_checked(without_last).unwrap_or_default();
    if last != line(checksum(lines.as_bytes()), LAST_LINE) {
        found.push(FileDefect::new(FILE, "its own checksum does not agree".to_owned()));
        return Ok(());
    }
    for noted in lines.lines() {
        let name = noted.splitn(3, ' ').nth(2).unwrap_or_default();
        match vault.read(&engine.join(name)) {
            Ok(bytes) if line(checksum(&bytes), name).trim_end() == noted => {}
            Ok(_) => found.push(FileDefect::new(name, "its checksum does not agree".to_owned())),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                found.push(FileDefect::new(name, error.to_string()));
            }
            // Replaced by a newer one.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defects(engine: &Path) -> Vec<String> {
        let mut found = Vec::new();
        check(engine, &Vault::default(), &mut found).unwrap();
        found.into_iter().map(|defect| defect.file).collect()
    }

    #[test]
    fn every_flipped_byte_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let engine = directory.path();
        assert!(defects(engine).is_empty(), "of an older release");
        for (name, text) in [("IDENTITY", "abc"), ("OPTIONS-000007", "[x]\n"), ("LOG", "words")] {
            std::fs::write(engine.join(name), text).unwrap();
        }
        note(engine, &Vault::default()).unwrap();
        assert!(defects(engine).is_empty());
        for name in ["IDENTITY", "OPTIONS-000007", FILE] {
            let whole = std::fs::read(engine.join(name)).unwrap();
            for at in 0..whole.len() {
                let mut flipped = whole.clone();
                flipped[at] ^= 1;
                std::fs::write(engine.join(name), flipped).unwrap();
                assert_eq!(defects(engine), [name], "byte {at}");
            }
            std::fs::write(engine.join(name), whole).unwrap();
        }
    }
}
