//! Slices: how long a walk may go on before others are let in, and how far it may read meanwhile.

use query::aggregate::YieldPolicy;
use query::checkpoint;
use std::time::{Duration, Instant};
use storage::ReadTier;

/// How long one slice of a test lasts.
#[cfg(test)]
const SLICE: Duration = Duration::from_millis(5);
/// What it takes to come to a document or an entry, in steps of [`checkpoint::pass`]: what is computed on it
/// is counted there.
const STEPS_PER_DOCUMENT: u64 = 16;
/// How many steps are made between two looks at the clock: those of 16 short documents, or of one on which
/// much is computed.
const STEPS_PER_LOOK: u64 = 20 * STEPS_PER_DOCUMENT;

/// One slice of time.
#[derive(Debug)]
pub(crate) struct Slice {
    length: Duration,
    tier: ReadTier,
    /// When it began; `None` before the first look at the clock.
    began: Option<Instant>,
    /// Steps since the last look at the clock.
    steps: u64,
    steps_per_look: u64,
    /// What the thread had counted when this was asked last; another thread than that counts otherwise, and
    /// the clock is looked at.
    counted: u64,
    let_others_run: fn(Instant),
}

impl Slice {
    /// A slice of the usual length.
    #[cfg(test)]
    pub(crate) fn begin() -> Self {
        Self::lasting(SLICE, |_| {})
    }

    /// A slice of this length, in which [`Host::let_others_run`](dispatch::host::Host) is called at each look
    /// at the clock. The first look comes after some steps.
    pub(crate) fn lasting(length: Duration, let_others_run: fn(Instant)) -> Self {
        Slice {
            length,
            tier: ReadTier::Any,
            began: None,
            steps: 0,
            steps_per_look: STEPS_PER_LOOK,
            counted: checkpoint::steps(),
            let_others_run,
        }
    }

    /// A slice in which nothing is read that is not in memory. It begins now.
    pub(crate) fn in_memory(length: Duration) -> Self {
        Slice { tier: ReadTier::BlockCache, began: Some(ambient::now()), ..Self::lasting(length, |_| {}) }
    }

    /// A slice that is over after so many documents on which hardly anything is computed.
    #[cfg(test)]
    pub(crate) fn of_steps(steps: u32, tier: ReadTier) -> Self {
        let steps_per_look = u64::from(steps) * STEPS_PER_DOCUMENT;
        Slice { tier, began: ambient::now().checked_sub(SLICE), steps_per_look, ..Self::begin() }
    }

    /// How far reads may go.
    pub(crate) const fn tier(&self) -> ReadTier {
        self.tier
    }

    #[cold]
    fn look(&mut self) -> bool {
        self.steps = 0;
        let now = ambient::now();
        (self.let_others_run)(now);
        let began = *self.began.get_or_insert(now);
        now.saturating_duration_since(began) >= self.length
    }
}

impl YieldPolicy for Slice {
    #[inline]
    fn should_yield(&mut self) -> bool {
        let counted = checkpoint::steps();
        let done = counted.wrapping_sub(self.counted).saturating_add(STEPS_PER_DOCUMENT);
        self.counted = counted;
        self.steps = self.steps.saturating_add(done);
        self.steps >= self.steps_per_look && self.look()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_ends_by_the_clock() {
        let mut slice = Slice::lasting(Duration::from_secs(3600), |_| {});
        assert!((0..100).all(|_| !slice.should_yield()), "a hundred steps are no hour");
        let mut slice = Slice { began: Instant::now().checked_sub(SLICE), ..Slice::begin() };
        assert_eq!((1..100).find(|_| slice.should_yield()), Some(20), "the clock is looked at now and then");
    }

    #[test]
    fn what_is_computed_counts() {
        let documents_of = |steps: usize| {
            let mut slice = Slice { began: Instant::now().checked_sub(SLICE), ..Slice::begin() };
            (1..100).find(|_| {
                checkpoint::pass(steps).expect("nobody watches");
                slice.should_yield()
            })
        };
        assert_eq!(documents_of(4), Some(16));
        assert_eq!(documents_of(100), Some(3));
        assert_eq!(documents_of(1_000), Some(1), "the clock is looked at behind each costly document");
    }
}
