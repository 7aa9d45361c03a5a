//! Slices of time: how long a walk may go on before others have their turn.

use std::time::{Duration, Instant};

/// How long one slice lasts.
const SLICE: Duration = Duration::from_millis(5);
/// How many steps are made between two looks at the clock.
const STEPS_PER_LOOK: u32 = 16;

/// One slice of time.
#[derive(Debug)]
pub(crate) struct Slice {
    /// When it began; `None` before the first look at the clock.
    began: Option<Instant>,
    steps_left: u32,
}

/// Why a walk paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The sink wanted it.
    Stopped,
    /// The slice is used up.
    Sliced,
    /// There is nothing more (for a tailable walk: for now).
    End,
}

impl Slice {
    /// A slice that begins now. The clock is not read before the first steps are made.
    pub(crate) const fn begin() -> Self {
        Slice { began: None, steps_left: STEPS_PER_LOOK }
    }

    /// A slice that is over after so many steps.
    #[cfg(test)]
    pub(crate) fn of_steps(steps: u32) -> Self {
        Slice { began: Instant::now().checked_sub(SLICE), steps_left: steps }
    }

    /// Counts a step. True when the slice is over.
    #[inline]
    pub(crate) fn step(&mut self) -> bool {
        self.steps_left -= 1;
        self.steps_left == 0 && self.look()
    }

    #[cold]
    fn look(&mut self) -> bool {
        self.steps_left = STEPS_PER_LOOK;
        let now = Instant::now();
        let began = *self.began.get_or_insert(now);
        now.saturating_duration_since(began) >= SLICE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_ends_by_the_clock() {
        let mut slice = Slice::begin();
        assert!((0..100).all(|_| !slice.step()), "a hundred steps are no five milliseconds");
        std::thread::sleep(SLICE);
        assert!((0..STEPS_PER_LOOK).any(|_| slice.step()), "the time has passed");
    }
}
