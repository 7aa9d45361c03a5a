//! How the process's file descriptors are shared out between clients and files.

use transport::raise_descriptor_limit;

/// The part of all descriptors that is kept back for files and the server's own needs.
const RESERVED_PART: u64 = 20;
/// The least that is kept back: a small store opens some dozens of files.
const RESERVE_MIN: u64 = 256;
/// The most: a store that keeps more table files open wins little, they are opened again when they are
/// needed.
const RESERVE_MAX: u64 = TABLE_FILES_MAX + OWN_NEEDS_MAX;
/// What remains of the reserve beside table files: log, journal, listeners, event loops, files of sorts,
/// connections that are being refused.
const OWN_NEEDS_MAX: u64 = 256;
const TABLE_FILES_MAX: u64 = 4096;
/// Fewer, and the store would open and close files all the time.
const TABLE_FILES_MIN: u64 = 64;

/// What the descriptors are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DescriptorBudget {
    /// Connections at one time.
    pub(crate) connections: usize,
    /// Table files that the store keeps open.
    pub(crate) table_files: i32,
}

impl DescriptorBudget {
    /// Raises the process's soft limit to the hard one and shares out what it then may open.
    pub(crate) fn of_process() -> Self {
        Self::of(raise_descriptor_limit())
    }

    fn of(limit: u64) -> Self {
        let reserve = (limit / RESERVED_PART).clamp(RESERVE_MIN, RESERVE_MAX).min(limit / 2);
        let own_needs = (reserve / 3).min(OWN_NEEDS_MAX);
        let table_files = (reserve - own_needs).clamp(TABLE_FILES_MIN, TABLE_FILES_MAX);
        DescriptorBudget {
            connections: usize::try_from(limit - reserve).unwrap_or(usize::MAX).max(1),
            table_files: i32::try_from(table_files).unwrap_or(i32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(limit: u64, connections: usize, table_files: i32) {
        assert_eq!(DescriptorBudget::of(limit), DescriptorBudget { connections, table_files }, "of {limit}");
    }

    #[test]
    fn most_descriptors_are_for_clients() {
        check(20_000, 19_000, 744);
        check(1_024, 768, 171);
        check(1_048_576, 1_044_224, 4_096);
        check(100, 50, 64);
    }

    #[test]
    fn the_shares_never_exceed_the_whole() {
        for limit in (400..2_000_000).step_by(997) {
            let budget = DescriptorBudget::of(limit);
            let given = budget.connections as u64 + u64::from(budget.table_files.unsigned_abs());
            assert!(given < limit, "{budget:?} of {limit}");
        }
    }
}
