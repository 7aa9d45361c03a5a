//! How long clients wait for what storage does for them, counted where it is known anyway: groups of commits,
//! syncs that somebody waits for, and a sample of the reads that may go to the disk.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One in so many reads is timed: what that costs does not show.
const READS_PER_SAMPLE: u32 = 16;
/// So many have to be counted before they say anything, …
const COUNTED_MIN: u64 = 32;
/// … or this long.
const COUNTED_FOR: Duration = Duration::from_secs(1);
/// More than one in so many, and more than one: too many are late.
const LATE_IN: u64 = 100;

thread_local! {
    static WORKS_IN_BACKGROUND: Cell<bool> = const { Cell::new(false) };
}

/// What this thread waits for counts for no client's latency from now on: work in the background that is
/// late because it yields would have the I/O budget squeezed for itself.
pub fn work_in_background() {
    WORKS_IN_BACKGROUND.set(true);
}

/// What was counted and not judged yet.
#[derive(Debug, Default)]
pub struct ForegroundLatency {
    target_us: AtomicU64,
    counted: AtomicU64,
    late: AtomicU64,
    /// Since the store was opened.
    late_ever: AtomicU64,
    squeezed: AtomicU64,
}

/// How what was counted is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lateness {
    OnTime,
    TooLate,
}

impl ForegroundLatency {
    pub(crate) fn new(target: Duration) -> ForegroundLatency {
        let latency = ForegroundLatency::default();
        latency.set_target(target);
        latency
    }

    pub(crate) fn set_target(&self, target: Duration) {
        self.target_us.store(target.as_micros() as u64, Ordering::Relaxed);
    }

    /// Somebody waited for so long; nothing is noted of who works in the background.
    #[inline]
    pub(crate) fn note(&self, waited_us: u64) {
        if WORKS_IN_BACKGROUND.get() {
            return;
        }
        self.counted.fetch_add(1, Ordering::Relaxed);
        if waited_us > self.target_us.load(Ordering::Relaxed) {
            self.late.fetch_add(1, Ordering::Relaxed);
            self.late_ever.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// When a read begins, if it is one of the sample.
    #[inline]
    pub(crate) fn begin_read(&self) -> Option<Instant> {
        thread_local! {
            static READS: Cell<u32> = const { Cell::new(0) };
        }
        let reads = READS.with(|reads| reads.replace(reads.get().wrapping_add(1)));
        reads.is_multiple_of(READS_PER_SAMPLE).then(ambient::now)
    }

    /// A read ends that began so.
    #[inline]
    pub(crate) fn end_read(&self, began: Option<Instant>) {
        if let Some(began) = began {
            self.note(ambient::elapsed(began).as_micros() as u64);
        }
    }

    /// Judges what was counted, and begins anew; `None` while that is too little to say anything. `since` is
    /// when it was last judged.
    pub(crate) fn judge(&self, since: &mut Option<Instant>, now: Instant) -> Option<Lateness> {
        let counted = self.counted.load(Ordering::Relaxed);
        if counted == 0 {
            *since = Some(now);
            return Some(Lateness::OnTime);
        }
        let began = *since.get_or_insert(now);
        if counted < COUNTED_MIN && now.saturating_duration_since(began) < COUNTED_FOR {
            return None;
        }
        *since = Some(now);
        self.counted.fetch_sub(counted, Ordering::Relaxed);
        let late = self.late.swap(0, Ordering::Relaxed);
        if late > 1 && late * LATE_IN > counted {
            self.squeezed.fetch_add(1, Ordering::Relaxed);
            return Some(Lateness::TooLate);
        }
        Some(Lateness::OnTime)
    }

    /// What was late since the store was opened, and how often that was too much.
    pub(crate) fn figures(&self) -> (u64, u64) {
        (self.late_ever.load(Ordering::Relaxed), self.squeezed.load(Ordering::Relaxed))
    }
}
