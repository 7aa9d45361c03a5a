//! Sealing memtables where nobody waits for it. RocksDB seals a full one in the next write: that creates a
//! file of the log, sets room aside for it, and at times writes the MANIFEST and syncs it, all while the
//! writer waits, who may be an event loop. So the governor seals them ahead ([`crate::seal`]), with the log
//! for itself: a write that comes meanwhile goes back to its queue, and the governor lets it go on.

use std::sync::atomic::{AtomicU64, Ordering};

use rocksdb::WriteBatch;

use super::{Database, raw};
use crate::engine::EngineFailure;
use crate::error::StorageError;
use crate::keyspace::Keyspace;
use crate::pipeline::turn::commits_are_deferred;

/// A loop writes no more than this share of a memtable before the governor has looked again: half of what
/// there is between the size at which it seals and the one at which RocksDB does, for what is written takes
/// more room in memory than in the log.
const UNSEEN_SHARE: u64 = 4;

/// What was written since somebody looked at the memtables, and figures.
#[derive(Debug)]
pub(super) struct Seals {
    journal_bytes: AtomicU64,
    /// As above, when the memtables were last looked at.
    seen: AtomicU64,
    unseen_max: AtomicU64,
    turned_back: AtomicU64,
    us_max: AtomicU64,
}

impl Seals {
    pub(super) fn new(memtable_bytes: u64) -> Seals {
        Seals {
            journal_bytes: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            unseen_max: AtomicU64::new(memtable_bytes / UNSEEN_SHARE),
            turned_back: AtomicU64::new(0),
            us_max: AtomicU64::new(0),
        }
    }

    /// Whether RocksDB will not seal in a write that comes now, or may.
    #[inline]
    pub(super) fn lets_write(&self) -> bool {
        let unseen = self.journal_bytes().saturating_sub(self.seen.load(Ordering::Relaxed));
        unseen <= self.unseen_max.load(Ordering::Relaxed) || !commits_are_deferred()
    }

    /// Memtables are of another size now.
    pub(super) fn set_memtable_bytes(&self, memtable_bytes: u64) {
        self.unseen_max.store(memtable_bytes / UNSEEN_SHARE, Ordering::Relaxed);
    }

    /// A write goes back to its queue.
    #[cold]
    pub(super) fn turn_back(&self) -> EngineFailure {
        self.turned_back.fetch_add(1, Ordering::Relaxed);
        EngineFailure::Stalled
    }

    #[inline]
    pub(super) fn written(&self, bytes: u64) {
        self.journal_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn journal_bytes(&self) -> u64 {
        self.journal_bytes.load(Ordering::Relaxed)
    }

    /// The memtables were looked at; what is full is sealed next.
    pub(super) fn looked(&self) {
        self.seen.store(self.journal_bytes(), Ordering::Relaxed);
    }

    pub(super) fn turned_back(&self) -> u64 {
        self.turned_back.load(Ordering::Relaxed)
    }

    pub(super) fn us_max(&self) -> u64 {
        self.us_max.load(Ordering::Relaxed)
    }
}

impl Database {
    pub(super) fn seal(&self, keyspaces: &[Keyspace]) -> Result<(), StorageError> {
        let _alone = self.log_access.write();
        if self.out_of_space.load(Ordering::Acquire) {
            // The log that failed is replaced by RocksDB's own recovery, and by nothing else.
            return Ok(());
        }
        let began = ambient::now();
        for keyspace in keyspaces {
            raw::seal(&self.rocks, self.family(*keyspace))
                .map_err(|error| StorageError::Engine(error.into()))?;
        }
        // The first write to a file of the log sets room aside for all of it. An entry without content does.
        let mut first = WriteBatch::default();
        first.put_log_data([]);
        let written = self.write_to_log(first);
        let took = ambient::elapsed(began).as_micros() as u64;
        self.seals.us_max.fetch_max(took, Ordering::Relaxed);
        match written {
            Ok(()) | Err(EngineFailure::Stalled) => Ok(()),
            Err(failure) => Err(failure.into_error()),
        }
    }

    pub(super) fn set_options(&self, options: &[(&str, &str)]) -> Result<(), StorageError> {
        raw::set_options(&self.rocks, options).map_err(|error| StorageError::Engine(error.into()))?;
        self.note_text_files();
        Ok(())
    }
}
