//! What of newly written files goes into the block cache at once, and what of replaced ones leaves it.
//!
//! An event loop answers a read from memory and moves it elsewhere when a block is missing. Flushes and
//! compactions replace files that were in the cache by ones that are not, so that under writes reads would
//! miss again and again although everything fits. While it fits, both put what they write into the cache;
//! beyond that only flushes do, for young data is read most. Blocks of a file that is gone can never be asked
//! for again. They leave with it: until the cache was full it grew by everything that was ever written, each
//! block in fresh memory.

use rocksdb::{ColumnFamily, DB};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// RocksDB goes through the blocks of a replaced file while more than one in twenty is still in the cache.
const UNCACHE: &str = "300";
/// Looks at the size are this many calls apart: some seconds of writing.
const CALLS_PER_LOOK: u32 = 256;
/// Blocks in the cache are uncompressed, files are not: text often halves.
const COMPRESSION: u64 = 3;

const FLUSHES: u8 = 1;
const FLUSHES_AND_COMPACTIONS: u8 = 2;

/// The choice in force.
#[derive(Debug, Default)]
pub(super) struct Warming {
    chosen: AtomicU8,
    calls: AtomicU32,
}

impl Warming {
    /// Looks now and then whether all data fits into the cache, and sets RocksDB accordingly; whether that
    /// was another choice.
    pub(super) fn review<'d>(
        &self,
        rocks: &DB,
        families: impl Iterator<Item = &'d ColumnFamily> + Clone,
        cache_bytes: u64,
    ) -> bool {
        if !self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(CALLS_PER_LOOK) {
            return false;
        }
        let size =
            |family| rocks.property_int_value_cf(family, "rocksdb.total-sst-files-size").ok().flatten();
        let stored: u64 = families.clone().filter_map(size).sum();
        let fits = stored.saturating_mul(COMPRESSION) <= cache_bytes;
        let wanted = if fits { FLUSHES_AND_COMPACTIONS } else { FLUSHES };
        if self.chosen.swap(wanted, Ordering::Relaxed) == wanted {
            return false;
        }
        let setting = if fits { "kFlushAndCompaction" } else { "kFlushOnly" };
        let setting = format!("{{prepopulate_block_cache={setting};}}");
        for family in families {
            if let Err(error) = rocks.set_options_cf(
                family,
                &[("block_based_table_factory", &*setting), ("uncache_aggressiveness", UNCACHE)],
            ) {
                tracing::warn!(target: "storage", %error, "cannot choose what goes into the block cache");
            }
        }
        true
    }
}
