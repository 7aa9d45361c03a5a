//! A store's options that change while it is open, and what the budget tells of itself.

use std::sync::Arc;

use super::Hurry;
use crate::error::StorageError;
use crate::knobs::StorageKnobs;
use crate::options::StorageOptions;
use crate::statistics::BudgetStatistics;
use crate::store::{Store, StoreInner};

impl Store {
    /// Notes what the options would be by default, for statistics; once.
    pub fn note_default_knobs(&self, knobs: StorageKnobs) {
        let _ = self.inner.default_knobs.set(knobs);
    }

    /// The options in force that can change while the store is open.
    pub fn knobs(&self) -> StorageKnobs {
        self.inner.knobs()
    }

    /// Changes them. They count at once, but for the sizes of caches, memtables, tables and the log, which a
    /// thread of its own brings into effect; on a small file system what is written stays within what suits
    /// it.
    ///
    /// # Errors
    /// When they contradict each other, in a sentence. Nothing has changed then.
    pub fn set_knobs(&self, mut knobs: StorageKnobs) -> Result<(), String> {
        knobs.validate()?;
        let inner = &self.inner;
        let disk_bytes = inner.space.statistics().total_bytes;
        if disk_bytes > 0 {
            knobs.shape = StorageOptions::shape_fitting(disk_bytes, knobs.shape);
            let memtable_bytes = knobs.shape.memtable_bytes;
            let fitting = StorageOptions::journal_bytes_fitting(disk_bytes, memtable_bytes);
            knobs.journal_bytes_max = knobs.journal_bytes_max.min(fitting);
        }
        let before = std::mem::replace(&mut *inner.knobs.lock(), knobs);
        inner.latency.set_target(knobs.latency_target);
        inner.builds.set_each(knobs.build_memory_bytes);
        inner.signal.changed();
        let sizes = |knobs: StorageKnobs| {
            (knobs.cache_bytes, knobs.row_cache_bytes, knobs.journal_bytes_max, knobs.shape)
        };
        if sizes(before) == sizes(knobs) {
            return Ok(());
        }
        let store = Arc::clone(&self.inner);
        let started =
            std::thread::Builder::new().name("heddle-settings".into()).spawn(move || store.resize());
        started.map(drop).map_err(|error| format!("no thread can be started that changes the sizes: {error}"))
    }
}

impl Store {
    /// Has compaction write no more than so many bytes per second from now on, whatever flushes do; 0 is no
    /// limit but the I/O budget. It does not count while compaction is behind, the disk has little room or
    /// somebody waits for a compaction.
    pub fn set_compaction_rate(&self, bytes_per_second: u64) {
        self.inner.budget.want_compaction(bytes_per_second);
        self.inner.signal.changed();
    }

    /// Has compaction put off what need not be done yet (three times as many files gather on level 0), or do
    /// it again as it comes. Compaction that is behind goes on either way.
    ///
    /// # Errors
    /// What the engine reports.
    pub fn defer_compaction(&self, is_deferred: bool) -> Result<(), StorageError> {
        self.inner.reclaim.defer(is_deferred);
        self.inner.signal.changed();
        self.inner.open()?.engine.defer_compaction(is_deferred)
    }

    /// Whether compaction is so far behind that it must not be put off.
    pub fn is_compaction_behind(&self) -> bool {
        self.inner.gate_limits.forbids_deferring(&self.inner.engine.pressure())
    }

    /// Whether clients wait no longer than the latency that the store aims at.
    pub fn answers_in_time(&self) -> bool {
        self.inner.budget.rates().squeeze >= 1.0
    }

    /// What compaction was told last, whether or not it counts now.
    pub fn compaction_rate(&self) -> u64 {
        self.inner.budget.compaction_wanted()
    }
}

impl StoreInner {
    pub(crate) fn knobs(&self) -> StorageKnobs {
        *self.knobs.lock()
    }

    /// Flush and compaction get all there is until the guard goes.
    pub(crate) fn hurry(&self) -> Hurry<'_> {
        let hurry = self.budget.hurry();
        self.signal.changed();
        hurry
    }

    /// The same for who waits for a compaction.
    pub(crate) fn hurry_compaction(&self) -> Hurry<'_> {
        let hurry = self.budget.hurry_compaction();
        self.signal.changed();
        hurry
    }

    /// Brings the sizes in force into effect. The last ones count.
    fn resize(&self) {
        self.apply_memory();
        let StorageKnobs { journal_bytes_max, shape, .. } = self.knobs();
        if let Err(error) = self.engine.reshape(shape) {
            tracing::warn!(%error, ?shape, "memtables and tables could not be made otherwise");
        }
        if let Err(error) = self.engine.bound_journal(journal_bytes_max) {
            tracing::warn!(%error, journal_bytes_max, "the size of the log could not be changed");
        }
    }

    pub(crate) fn budget_statistics(&self) -> BudgetStatistics {
        let (rates, recovery) = (self.budget.rates(), *self.recovery.lock());
        let (late, squeezed) = self.latency.figures();
        BudgetStatistics {
            bytes_per_second: rates.total,
            engine_bytes_per_second: rates.engine,
            compaction_bytes_per_second: self.budget.compaction(),
            compaction_processors: self.budget.processors() as f64 / 1e6,
            debt: rates.debt,
            squeeze: rates.squeeze,
            reason: rates.reason,
            late,
            squeezed,
            replay_bytes: recovery.journal_bytes,
            oldest_unflushed: recovery.oldest_at.map(ambient::elapsed),
            knobs: self.knobs(),
            default_knobs: self.default_knobs.get().copied().unwrap_or_else(|| self.knobs()),
        }
    }
}
