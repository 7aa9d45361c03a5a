//! The real disk: the file system of the data directory, and a file on it whose blocks are set aside.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use super::{Disk, Room};

const RESERVE_FILE: &str = "disk-reserve";
/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// The file system of a data directory.
pub(crate) struct DataDisk {
    directory: PathBuf,
}

impl DataDisk {
    pub(crate) fn of(directory: &Path) -> DataDisk {
        DataDisk { directory: directory.to_owned() }
    }

    fn reserve_path(&self) -> PathBuf {
        self.directory.join(RESERVE_FILE)
    }
}

impl Disk for DataDisk {
    fn room(&self) -> std::io::Result<Room> {
        let volume = statvfs(&self.directory)?;
        let bytes = |blocks: u64| blocks.saturating_mul(volume.f_frsize);
        Ok(Room { total: bytes(volume.f_blocks), free: bytes(volume.f_bavail) })
    }

    fn set_reserve(&self, bytes: u64) -> std::io::Result<()> {
        let path = self.reserve_path();
        if bytes == 0 {
            return match std::fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
        let set_aside = set_aside(&file, bytes);
        if set_aside.is_err() && file.metadata().is_ok_and(|found| found.blocks() * BLOCK_BYTES < bytes) {
            // A part of a reserve on a disk without room would only be in the way.
            drop(std::fs::remove_file(&path));
        }
        set_aside
    }

    fn reserve(&self) -> u64 {
        // Blocks, not the length: a copied file may have lost them.
        std::fs::metadata(self.reserve_path())
            .map_or(0, |found| found.len().min(found.blocks() * BLOCK_BYTES))
    }
}

fn set_aside(file: &File, bytes: u64) -> std::io::Result<()> {
    file.set_len(bytes)?;
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(error) => Err(Error::from(error)),
        Ok(()) => Ok(()),
    }
}
