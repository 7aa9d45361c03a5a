//! Which memtables are sealed now, by the governor and ahead of RocksDB: it would do so in the write of a
//! leader, who may be an event loop, and begin a file of the log there.

use std::time::{Duration, Instant};

use crate::engine::{MemtableState, Memtables};
use crate::journal_tail::JournalTail;
use crate::keyspace::Keyspace;

/// For the dirty target a memtable is not sealed with less than this share of its size: files would be small.
const WORTH_IT: u64 = 8;
/// Of what a target allows, a memtable that is sealed for it has at least this share.
const SHARE_OF_TARGET: u64 = 4;

/// What unflushed writes may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SealLimits {
    /// In bytes, in all memtables together.
    pub(crate) dirty_target: u64,
    /// In bytes of the journal that a start would replay.
    pub(crate) journal_bytes: u64,
    /// In age; zero is no bound.
    pub(crate) age: Duration,
}

/// The keyspaces whose memtable is to be sealed, each once.
pub(crate) fn due(
    memtables: &Memtables,
    unflushed_bytes: u64,
    tail: &JournalTail,
    limits: &SealLimits,
    now: Instant,
) -> Vec<Keyspace> {
    let mut due = [false; Keyspace::ALL.len()];
    let mut mark = |keyspace: Keyspace| {
        if let Some(is_due) = due.get_mut(keyspace as usize) {
            *is_due = true;
        }
    };
    let all = || Keyspace::ALL.into_iter().zip(memtables.of);
    let is_full = |memtable: &MemtableState| {
        memtable.active_entries > 0 && memtable.active_bytes >= memtable.full_bytes.max(1)
    };
    all().filter(|(_, memtable)| is_full(memtable)).for_each(|(keyspace, _)| mark(keyspace));
    let waiting: u64 = memtables.of.iter().map(|memtable| memtable.immutables).sum();
    if unflushed_bytes >= limits.dirty_target && waiting == 0 {
        let largest = all().max_by_key(|(_, memtable)| memtable.active_bytes);
        let is_worth_it = |memtable: &MemtableState| {
            let least = (memtable.full_bytes / WORTH_IT).min(limits.dirty_target / SHARE_OF_TARGET);
            memtable.active_entries > 0 && memtable.active_bytes >= least
        };
        largest
            .filter(|(_, memtable)| is_worth_it(memtable))
            .into_iter()
            .for_each(|(keyspace, _)| mark(keyspace));
    }
    if tail.bytes() >= limits.journal_bytes {
        tail.in_oldest_file().for_each(&mut mark);
    }
    if !limits.age.is_zero() {
        tail.older_than(limits.age, now).for_each(&mut mark);
    }
    Keyspace::ALL.into_iter().zip(due).filter(|(_, is_due)| *is_due).map(|(keyspace, _)| keyspace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SealLimits =
        SealLimits { dirty_target: u64::MAX, journal_bytes: u64::MAX, age: Duration::ZERO };

    /// Documents with so many bytes of 100, and counters with one.
    fn memtables(documents: u64, immutables: u64) -> Memtables {
        let mut memtables = Memtables { journal_bytes: documents, ..Memtables::default() };
        memtables.of[Keyspace::Documents as usize] = MemtableState {
            active_bytes: documents,
            active_entries: documents,
            full_bytes: 100,
            immutables,
            ..MemtableState::default()
        };
        memtables.of[Keyspace::Internal as usize] =
            MemtableState { active_bytes: 1, active_entries: 1, full_bytes: 16, ..MemtableState::default() };
        memtables
    }

    #[track_caller]
    fn check(memtables: &Memtables, limits: SealLimits, passed: Duration, expect: &[Keyspace]) {
        let began = Instant::now();
        let mut tail = JournalTail::new(began);
        tail.observe(memtables, began);
        let unflushed = memtables.of.iter().map(|memtable| memtable.active_bytes).sum();
        assert_eq!(due(memtables, unflushed, &tail, &limits, began + passed), expect);
    }

    #[test]
    fn what_is_full_old_or_holds_too_much_of_the_log_is_sealed() {
        let (documents, both) = ([Keyspace::Documents], [Keyspace::Internal, Keyspace::Documents]);
        check(&memtables(99, 0), LIMITS, Duration::ZERO, &[]);
        check(&memtables(100, 0), LIMITS, Duration::ZERO, &documents);
        check(&memtables(50, 0), SealLimits { journal_bytes: 51, ..LIMITS }, Duration::ZERO, &[]);
        check(&memtables(51, 0), SealLimits { journal_bytes: 51, ..LIMITS }, Duration::ZERO, &both);
        let old = SealLimits { age: Duration::from_secs(25), ..LIMITS };
        check(&memtables(1, 0), old, Duration::from_secs(24), &[]);
        check(&memtables(1, 0), old, Duration::from_secs(25), &both);
    }

    #[test]
    fn the_dirty_target_seals_the_largest_unless_a_flush_is_under_way() {
        let target = SealLimits { dirty_target: 40, ..LIMITS };
        check(&memtables(38, 0), target, Duration::ZERO, &[]);
        check(&memtables(39, 0), target, Duration::ZERO, &[Keyspace::Documents]);
        check(&memtables(39, 1), target, Duration::ZERO, &[]);
        check(
            &memtables(8, 0),
            SealLimits { dirty_target: 4, ..LIMITS },
            Duration::ZERO,
            &[Keyspace::Documents],
        );
        check(
            &memtables(9, 0),
            SealLimits { dirty_target: 1, ..LIMITS },
            Duration::ZERO,
            &[Keyspace::Documents],
        );
    }
}
