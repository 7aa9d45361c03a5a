//! Reads: views with and without a snapshot, cursors, pinned values.
//!
//! The RocksDB crate ties snapshots, iterators and pinned slices to a borrow of the database. Views and
//! cursors travel between threads and outlive the call that made them, so here they own a share of the
//! database instead. This is the one file that extends those borrows; the rule that makes it sound is
//! the order of fields: what borrows is declared, and so dropped, before the share it borrows from.
#![expect(unsafe_code, reason = "borrows of the database that are longer than they look")]

use std::ops::Deref;
use std::sync::Arc;

use rocksdb::{DB, DBPinnableSlice, DBRawIterator, ReadOptions, Snapshot};

use super::Database;
use super::errors::storage_error;
use crate::engine::{EngineCursor, EngineReader};
use crate::error::StorageError;
use crate::keyspace::{CursorOptions, Direction, KeyRange, Keyspace, ReadTier};
use crate::prefetch::{CACHE_LINE_BYTES, prefetch};
use crate::view::{KeyValue, PinnedBytes};

/// What lies between two values: the next key and the lengths.
const ENTRY_HEADER_BYTES: usize = CACHE_LINE_BYTES;

/// A borrow of the database for as long as the caller keeps `database`.
///
/// # Safety
/// Whatever is made from the result must be dropped before the last clone of `database` is.
unsafe fn extend(database: &Arc<Database>) -> &'static DB {
    // SAFETY: the allocation behind the `Arc` does not move, and the caller keeps it alive.
    unsafe { &*std::ptr::from_ref(&database.rocks) }
}

/// A value in a block of the cache or in a buffer of RocksDB's.
pub(crate) struct PinnedSlice {
    slice: DBPinnableSlice<'static>,
    _database: Arc<Database>,
}

impl Deref for PinnedSlice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.slice
    }
}

/// A snapshot and the share of the database it belongs to.
struct HeldSnapshot {
    snapshot: Snapshot<'static>,
    _database: Arc<Database>,
}

pub(super) struct RocksReader {
    any: ReadOptions,
    block_cache: ReadOptions,
    /// After the options that point to it, so that it is dropped last.
    snapshot: Option<Arc<HeldSnapshot>>,
    database: Arc<Database>,
}

impl RocksReader {
    pub(super) fn latest(database: Arc<Database>) -> RocksReader {
        let (any, block_cache) =
            (read_options(ReadTier::Any, None), read_options(ReadTier::BlockCache, None));
        RocksReader { any, block_cache, snapshot: None, database }
    }

    pub(super) fn pinned(database: Arc<Database>) -> RocksReader {
        // SAFETY: `HeldSnapshot` drops the snapshot before its share of the database.
        let snapshot = unsafe { extend(&database) }.snapshot();
        let snapshot = Arc::new(HeldSnapshot { snapshot, _database: Arc::clone(&database) });
        let any = read_options(ReadTier::Any, Some(&snapshot));
        let block_cache = read_options(ReadTier::BlockCache, Some(&snapshot));
        RocksReader { any, block_cache, snapshot: Some(snapshot), database }
    }

    fn options(&self, tier: ReadTier) -> &ReadOptions {
        match tier {
            ReadTier::Any => &self.any,
            ReadTier::BlockCache => &self.block_cache,
        }
    }

    fn pin(&self, slice: DBPinnableSlice<'static>) -> PinnedBytes {
        PinnedBytes::block(PinnedSlice { slice, _database: Arc::clone(&self.database) })
    }
}

fn read_options(tier: ReadTier, snapshot: Option<&Arc<HeldSnapshot>>) -> ReadOptions {
    let mut options = ReadOptions::default();
    if tier == ReadTier::BlockCache {
        options.set_read_tier(rocksdb::ReadTier::BlockCache);
    }
    if let Some(held) = snapshot {
        options.set_snapshot(&held.snapshot);
    }
    options
}

impl EngineReader for RocksReader {
    fn get(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        tier: ReadTier,
    ) -> Result<Option<PinnedBytes>, StorageError> {
        // SAFETY: `pin` puts the slice beside a share of the database that outlives it.
        let rocks = unsafe { extend(&self.database) };
        let family = self.database.family(keyspace);
        let latency = self.database.latency.get().filter(|_| tier == ReadTier::Any);
        let began = latency.and_then(|latency| latency.begin_read());
        let slice = rocks.get_pinned_cf_opt(family, key, self.options(tier));
        if let Some(latency) = latency {
            latency.end_read(began);
        }
        let told = |error| self.database.tell_damage(keyspace, Some(key), storage_error(error));
        let slice = slice.map_err(told)?;
        Ok(slice.map(|slice| self.pin(slice)))
    }

    fn cursor(
        &self,
        keyspace: Keyspace,
        range: KeyRange,
        direction: Direction,
        options: CursorOptions,
    ) -> Result<Box<dyn EngineCursor>, StorageError> {
        let mut read = read_options(options.tier, self.snapshot.as_ref());
        read.fill_cache(options.fill_cache);
        let empty = range.is_empty();
        let lower = range.lower.clone().unwrap_or_default();
        if let Some(lower) = range.lower {
            read.set_iterate_lower_bound(lower);
        }
        if let Some(upper) = range.upper {
            read.set_iterate_upper_bound(upper);
        }
        // SAFETY: `RocksCursor` drops the iterator before its snapshot and its share of the database.
        let rocks = unsafe { extend(&self.database) };
        let iterator = rocks.raw_iterator_cf_opt(self.database.family(keyspace), read);
        Ok(Box::new(RocksCursor {
            iterator,
            _snapshot: self.snapshot.clone(),
            database: Arc::clone(&self.database),
            keyspace,
            lower,
            direction,
            position: if empty { Position::End } else { Position::Start },
            empty,
        }))
    }

    fn sequence(&self) -> u64 {
        match &self.snapshot {
            Some(held) => held.snapshot.sequence_number(),
            None => self.database.rocks.latest_sequence_number(),
        }
    }
}

enum Position {
    /// Nothing read yet.
    Start,
    /// The iterator stands on the entry that comes next.
    Sought,
    /// The iterator stands on the entry lent last.
    Lent,
    End,
}

struct RocksCursor {
    iterator: DBRawIterator<'static>,
    _snapshot: Option<Arc<HeldSnapshot>>,
    database: Arc<Database>,
    keyspace: Keyspace,
    lower: Vec<u8>,
    direction: Direction,
    position: Position,
    /// RocksDB does not promise anything about bounds that run backwards.
    empty: bool,
}

impl EngineCursor for RocksCursor {
    fn seek(&mut self, key: &[u8]) {
        if self.empty {
            return;
        }
        match self.direction {
            Direction::Forward => self.iterator.seek(key.max(self.lower.as_slice())),
            Direction::Backward => self.iterator.seek_for_prev(key),
        }
        self.position = Position::Sought;
    }

    fn next(&mut self) -> Result<Option<KeyValue<'_>>, StorageError> {
        match (&self.position, self.direction) {
            (Position::Start, Direction::Forward) => self.iterator.seek_to_first(),
            (Position::Start, Direction::Backward) => self.iterator.seek_to_last(),
            (Position::Sought, _) => {}
            (Position::Lent, Direction::Forward) => self.iterator.next(),
            (Position::Lent, Direction::Backward) => self.iterator.prev(),
            (Position::End, _) => return Ok(None),
        }
        if let Some(entry) = self.iterator.item() {
            self.position = Position::Lent;
            if self.direction == Direction::Forward {
                prefetch_behind(entry.1);
            }
            return Ok(Some(entry));
        }
        self.position = Position::End;
        let told = |error| self.database.tell_damage(self.keyspace, None, storage_error(error));
        self.iterator.status().map_err(told)?;
        Ok(None)
    }
}

/// Has the processor fetch what follows a value in memory. Entries of a block lie one behind the other, and
/// so do those that were inserted in order into a memtable: walks over documents wait for memory most of all.
#[inline]
fn prefetch_behind(value: &[u8]) {
    prefetch(value.as_ptr().wrapping_add(value.len()), value.len() + ENTRY_HEADER_BYTES);
}
