//! The gate: where commits wait while flush and compaction catch up.
//!
//! RocksDB answers too many memtables, too many level-0 files or too much compaction debt by slowing
//! writers inside its write call and then by stopping them, sometimes for minutes. The governor thread
//! looks at the same figures every few milliseconds and acts earlier and more smoothly:
//!
//! ```text
//!  debt:      0 ─────────── paced ─────────────────── closed ───── engine's own limits (never reached)
//!  commits:   pass          pass at a falling rate    wait
//! ```
//! This file decides; [`queue`] lets commits through and keeps those that wait.

pub(crate) mod queue;
#[cfg(test)]
mod tests;

use queue::Admission;

use crate::engine::Pressure;

/// Below `paced` a figure does not matter; from there to `closed` commits are slowed; beyond they wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// The first value at which commits are slowed.
    pub paced: u64,
    /// The first value at which they wait.
    pub closed: u64,
}

/// The gate's thresholds, all well below the engine's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateLimits {
    /// Full memtables of one keyspace waiting for their flush.
    pub immutable_memtables: Band,
    /// Table files on level 0 of one keyspace.
    pub level0_files: Band,
    /// Bytes of one keyspace that compaction should have rewritten already.
    pub pending_compaction_bytes: Band,
    /// Bytes of all keyspaces that are in no table file yet.
    pub unflushed_bytes: Band,
    /// What passes in bytes per second when pacing begins.
    pub pace_fastest: u64,
    /// What passes in bytes per second just before the gate closes.
    pub pace_slowest: u64,
}

impl Default for GateLimits {
    fn default() -> GateLimits {
        GateLimits {
            immutable_memtables: Band { paced: 3, closed: 6 },
            level0_files: Band { paced: 14, closed: 32 },
            pending_compaction_bytes: Band { paced: 16 << 30, closed: 64 << 30 },
            unflushed_bytes: Band::NEVER,
            pace_fastest: 128 << 20,
            pace_slowest: 1 << 20,
        }
    }
}

/// So many files gather on level 0 while compaction is deferred: fewer than those from which on commits are
/// paced, so that nobody waits for what was put off.
pub(crate) const DEFERRED_LEVEL0_FILES: i32 = 12;

impl GateLimits {
    /// Whether compaction is so far behind that it cannot be put off: half way to where commits are paced by
    /// its bytes, or with more files on level 0 than gather until it goes on by itself.
    pub(crate) fn forbids_deferring(&self, pressure: &Pressure) -> bool {
        pressure.level0_files > u64::from(DEFERRED_LEVEL0_FILES.unsigned_abs())
            || pressure.pending_compaction_bytes >= self.pending_compaction_bytes.paced / 2
    }
}

impl Band {
    /// Never reached.
    pub const NEVER: Band = Band { paced: u64::MAX - 1, closed: u64::MAX };

    /// 0 at `paced`, 1 at `closed`.
    fn severity(self, value: u64) -> f64 {
        if value < self.paced {
            return 0.0;
        }
        // One step above zero: reaching `paced` already counts.
        (value - self.paced + 1) as f64 / (self.closed - self.paced + 1) as f64
    }
}

/// Decides from the engine's debt.
pub(crate) fn assess(pressure: &Pressure, limits: &GateLimits) -> Admission {
    let severity = limits
        .immutable_memtables
        .severity(pressure.immutable_memtables)
        .max(limits.level0_files.severity(pressure.level0_files))
        .max(limits.pending_compaction_bytes.severity(pressure.pending_compaction_bytes))
        .max(limits.unflushed_bytes.severity(pressure.unflushed_bytes));
    if pressure.engine_stalled || severity >= 1.0 {
        return Admission::Closed;
    }
    if severity <= 0.0 {
        return Admission::Open;
    }
    // Geometric between the two rates: each further step of debt takes away the same share.
    let (fastest, slowest) = (limits.pace_fastest as f64, limits.pace_slowest as f64);
    Admission::Paced { bytes_per_second: (fastest * (slowest / fastest).powf(severity)) as u64 }
}
