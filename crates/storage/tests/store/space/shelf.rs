//! A disk whose free bytes the test decides, for the tests of the watch and for those of stores.

use parking_lot::Mutex;

use super::{Disk, Room};

const MIB: u64 = 1 << 20;

#[derive(Default)]
pub(crate) struct Shelf {
    pub(crate) free: Mutex<u64>,
    pub(crate) reserve: Mutex<u64>,
}

impl Disk for Shelf {
    fn room(&self) -> std::io::Result<Room> {
        Ok(Room { total: 10_000 * MIB, free: *self.free.lock() })
    }

    fn set_reserve(&self, bytes: u64) -> std::io::Result<()> {
        let (mut free, mut reserve) = (self.free.lock(), self.reserve.lock());
        let left = (*free + *reserve).checked_sub(bytes).ok_or(std::io::ErrorKind::StorageFull)?;
        (*free, *reserve) = (left, bytes);
        Ok(())
    }

    fn reserve(&self) -> u64 {
        *self.reserve.lock()
    }
}
