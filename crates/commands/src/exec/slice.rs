//! Slices: how long a walk may go on before others are let in, and how far it may read meanwhile.

use query::aggregate::YieldPolicy;
use std::time::{Duration, Instant};
use storage::ReadTier;

/// How long one slice of a test lasts.
#[cfg(test)]
const SLICE: Duration = Duration::from_millis(5);
/// How many steps are made between two looks at the clock.
const STEPS_PER_LOOK: u32 = 16;

/// One slice of time.
#[derive(Debug)]
pub(crate) struct Slice {
    length: Duration,
    tier: ReadTier,
    /// When it began; `None` before the first look at the clock.
    began: Option<Instant>,
    steps_left: u32,
    let_others_run: fn(Instant),
}

impl Slice {
    /// A slice of the usual length.
    #[cfg(test)]
    pub(crate) const fn begin() -> Self {
        Self::lasting(SLICE, |_| {})
    }

    /// A slice of this length, in which [`Host::let_others_run`](dispatch::host::Host) is called at each look
    /// at the clock. The first look comes after some steps.
    pub(crate) const fn lasting(length: Duration, let_others_run: fn(Instant)) -> Self {
        Slice { length, tier: ReadTier::Any, began: None, steps_left: STEPS_PER_LOOK, let_others_run }
    }

    /// A slice in which nothing is read that is not in memory. It begins now.
    pub(crate) fn in_memory(length: Duration) -> Self {
        Slice { tier: ReadTier::BlockCache, began: Some(ambient::now()), ..Self::lasting(length, |_| {}) }
    }

    /// A slice that is over after so many steps.
    #[cfg(test)]
    pub(crate) fn of_steps(steps: u32, tier: ReadTier) -> Self {
        Slice { tier, began: ambient::now().checked_sub(SLICE), steps_left: steps, ..Self::begin() }
    }

    /// How far reads may go.
    pub(crate) const fn tier(&self) -> ReadTier {
        self.tier
    }

    #[cold]
    fn look(&mut self) -> bool {
        self.steps_left = STEPS_PER_LOOK;
        let now = ambient::now();
        (self.let_others_run)(now);
        let began = *self.began.get_or_insert(now);
        now.saturating_duration_since(began) >= self.length
    }
}

impl YieldPolicy for Slice {
    #[inline]
    fn should_yield(&mut self) -> bool {
        self.steps_left -= 1;
        self.steps_left == 0 && self.look()
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
        let first = (1..=STEPS_PER_LOOK).find(|_| slice.should_yield());
        assert_eq!(first, Some(STEPS_PER_LOOK), "the clock is looked at now and then");
    }
}
