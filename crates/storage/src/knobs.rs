//! What of a store's options can change while it is open.

use std::time::Duration;

use crate::engine::EngineShape;
use crate::gate::Band;
use crate::options::StorageOptions;

const MIB: u64 = 1 << 20;
const MEMTABLE_BYTES_MIN: u64 = 64 << 10;
/// Beyond the dirty trigger commits are slowed; from this many hundredths of it on they wait.
const DIRTY_CLOSED_PERCENT: u64 = 150;

/// The values in force; those of the start come from [`StorageOptions::knobs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageKnobs {
    /// See [`StorageOptions::cache_bytes`].
    pub cache_bytes: u64,
    /// See [`StorageOptions::row_cache_bytes`]. A cache that was off at the start stays off.
    pub row_cache_bytes: u64,
    /// See [`StorageOptions::memtable_bytes`] and [`StorageOptions::filters_in_parts`].
    pub shape: EngineShape,
    /// See [`StorageOptions::build_memory_bytes`].
    pub build_memory_bytes: usize,
    /// See [`StorageOptions::io_budget_bytes_per_second`].
    pub io_budget_bytes_per_second: u64,
    /// See [`StorageOptions::latency_target`].
    pub latency_target: Duration,
    /// See [`StorageOptions::dirty_target_bytes`].
    pub dirty_target_bytes: Option<u64>,
    /// See [`StorageOptions::dirty_trigger_bytes`].
    pub dirty_trigger_bytes: Option<u64>,
    /// See [`StorageOptions::background_jobs_min`].
    pub background_jobs_min: u32,
    /// See [`StorageOptions::background_jobs`]; not 0 here.
    pub background_jobs_max: u32,
    /// See [`StorageOptions::journal_bytes_max`].
    pub journal_bytes_max: u64,
    /// See [`StorageOptions::flush_interval`].
    pub flush_interval: Duration,
}

impl StorageKnobs {
    /// Checks the rules across fields.
    ///
    /// # Errors
    /// A sentence that names the field, its value and what is allowed.
    pub fn validate(&self) -> Result<(), String> {
        if self.cache_bytes < MIB {
            return Err(format!("cache_bytes is {}, expected at least {MIB}", self.cache_bytes));
        }
        if self.shape.memtable_bytes < MEMTABLE_BYTES_MIN {
            let bytes = self.shape.memtable_bytes;
            return Err(format!("memtable_bytes is {bytes}, expected at least {MEMTABLE_BYTES_MIN}"));
        }
        if self.latency_target.is_zero() {
            return Err("latency_target is 0, expected some time".to_owned());
        }
        let (least, most) = (self.background_jobs_min, self.background_jobs_max);
        if most == 0 || least > most {
            return Err(format!(
                "the background threads are {least} at least and {most} at most, expected 0 < least <= most"
            ));
        }
        if self.dirty_target_bytes == Some(0) || self.dirty_trigger_bytes == Some(0) {
            return Err("the dirty target or trigger is 0, expected some bytes or none".to_owned());
        }
        if let (Some(target), Some(trigger)) = (self.dirty_target_bytes, self.dirty_trigger_bytes)
            && target > trigger
        {
            return Err(format!(
                "the dirty target must be lower than the dirty trigger: {target} bytes are more than \
                {trigger}"
            ));
        }
        if self.journal_bytes_max < MIB {
            return Err(format!("journal_bytes_max is {}, expected at least {MIB}", self.journal_bytes_max));
        }
        Ok(())
    }

    /// Unflushed bytes from which memtables are sealed before they are full.
    pub(crate) fn dirty_target(&self) -> u64 {
        self.dirty_target_bytes.unwrap_or(u64::MAX)
    }

    /// Unflushed bytes from which commits are slowed, and wait.
    pub(crate) fn dirty_band(&self) -> Band {
        match self.dirty_trigger_bytes {
            None => Band::NEVER,
            Some(paced) => Band { paced, closed: (paced / 100 * DIRTY_CLOSED_PERCENT).max(paced + 1) },
        }
    }
}

impl StorageOptions {
    pub(crate) fn shape(&self) -> EngineShape {
        EngineShape { memtable_bytes: self.memtable_bytes, filters_in_parts: self.filters_in_parts }
    }

    /// Those of the options that can change while the store is open.
    pub fn knobs(&self) -> StorageKnobs {
        let background_jobs_max = self.background_jobs_or_default();
        StorageKnobs {
            cache_bytes: self.cache_bytes,
            row_cache_bytes: self.row_cache_bytes,
            shape: self.shape(),
            build_memory_bytes: self.build_memory_bytes,
            io_budget_bytes_per_second: self.io_budget_bytes_per_second,
            latency_target: self.latency_target,
            dirty_target_bytes: self.dirty_target_bytes,
            dirty_trigger_bytes: self.dirty_trigger_bytes,
            background_jobs_min: match self.background_jobs_min {
                0 => background_jobs_max,
                least => least,
            },
            background_jobs_max,
            journal_bytes_max: self.journal_bytes_max,
            flush_interval: self.flush_interval,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_contradicts_itself_is_refused() {
        let knobs = StorageOptions::small().knobs();
        knobs.validate().expect("the defaults agree");
        let refused = |knobs: StorageKnobs| knobs.validate().expect_err("it contradicts itself");
        let dirty = StorageKnobs { dirty_target_bytes: Some(5), dirty_trigger_bytes: Some(4), ..knobs };
        assert!(refused(dirty).contains("lower than the dirty trigger"));
        StorageKnobs { dirty_target_bytes: Some(5), ..knobs }.validate().expect("one alone is fine");
        let threads = StorageKnobs { background_jobs_min: 9, background_jobs_max: 8, ..knobs };
        assert!(refused(threads).contains("9 at least and 8 at most"));
        assert!(refused(StorageKnobs { cache_bytes: 5, ..knobs }).contains("cache_bytes is 5"));
        let shape = EngineShape { memtable_bytes: 5, ..knobs.shape };
        assert!(refused(StorageKnobs { shape, ..knobs }).contains("memtable_bytes is 5, expected at least"));
    }

    #[test]
    fn the_dirty_trigger_paces_before_it_closes() {
        let knobs = StorageKnobs { dirty_trigger_bytes: Some(1), ..StorageOptions::small().knobs() };
        let band = knobs.dirty_band();
        assert!(band.paced < band.closed, "{band:?}");
    }
}
