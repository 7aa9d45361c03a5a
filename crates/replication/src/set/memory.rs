//! What a member keeps in memory for the others, and may keep.

use crate::set::participant::Participant;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a member keeps in memory, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemberMemory {
    /// Logged here, and not on the disks of a majority; as of the last turn.
    pub uncommitted: u64,
    /// The end of the log, for members that keep up; as of the last turn.
    pub recent: u64,
    /// Committed, and waiting to be applied.
    pub unapplied: u64,
    /// Of other members, and waiting for the next turn.
    pub received: u64,
}

impl MemberMemory {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.uncommitted + self.recent + self.unapplied + self.received
    }
}

/// What the driver tells of itself, and is told.
#[derive(Debug)]
pub(crate) struct KeptMemory {
    uncommitted: AtomicU64,
    recent: AtomicU64,
    uncommitted_max: AtomicU64,
}

impl Default for KeptMemory {
    /// Without a bound but that of the log itself.
    fn default() -> Self {
        let (uncommitted, recent) = Default::default();
        KeptMemory { uncommitted, recent, uncommitted_max: AtomicU64::new(u64::MAX) }
    }
}

impl KeptMemory {
    /// What is known as of the last turn.
    pub(crate) fn figures(&self) -> MemberMemory {
        MemberMemory {
            uncommitted: self.uncommitted.load(Ordering::Relaxed),
            recent: self.recent.load(Ordering::Relaxed),
            ..MemberMemory::default()
        }
    }

    /// Changes what may wait for a majority.
    pub(crate) fn set_uncommitted_max(&self, bytes: u64) {
        self.uncommitted_max.store(bytes, Ordering::Relaxed);
    }
}

impl Participant {
    /// Tells what the log has in memory.
    pub(crate) fn tell_memory(&self) {
        let kept = &self.links.shared.kept_memory;
        kept.uncommitted.store(self.member.uncommitted_bytes(), Ordering::Relaxed);
        kept.recent.store(self.member.log().recent_bytes(), Ordering::Relaxed);
    }

    /// Whether the process has memory for a group of so many bytes, which stays there until it is committed
    /// and applied; for one alone in any case.
    pub(super) fn has_memory_for(&self, bytes: u64) -> bool {
        let waiting = self.member.uncommitted_bytes();
        let most = self.links.shared.kept_memory.uncommitted_max.load(Ordering::Relaxed);
        (waiting == 0 || waiting.saturating_add(bytes) <= most) && self.links.queue.takes(bytes)
    }
}
