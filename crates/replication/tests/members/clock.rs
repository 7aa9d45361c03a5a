//! The clocks of a machine.

use std::time::Duration;

/// In thousandths of the world's.
pub(crate) const RATES: std::ops::Range<u32> = 900..1_100;

/// One that only goes on, faster or slower than that of the world, and one that is set now and then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// On that of the world, when it was last given another rate.
    since: Duration,
    /// What it showed then.
    shown: Duration,
    /// Of each second of the world it shows so many thousandths.
    rate: u32,
    /// How much later it is since 1970 than on the one that only goes on.
    pub(crate) wall_offset: Duration,
}

impl Clock {
    pub(crate) fn new(wall_offset: Duration) -> Self {
        Clock { since: Duration::ZERO, shown: Duration::ZERO, rate: 1_000, wall_offset }
    }

    /// What it shows: on the clock that only goes on, and since 1970.
    pub(crate) fn read(&self, now: Duration) -> (Duration, Duration) {
        let monotonic = self.shown + (now - self.since) * self.rate / 1_000;
        (monotonic, monotonic + self.wall_offset)
    }

    /// How much time of the world may have passed when any of them shows so much.
    pub(crate) fn real(shown: Duration) -> Duration {
        shown * 1_000 / RATES.start + Duration::from_micros(2)
    }

    /// When it shows this, in the time of the world.
    pub(crate) fn reaches(&self, shown: Duration) -> Duration {
        const ROUNDED: Duration = Duration::from_micros(1);
        self.since + shown.saturating_sub(self.shown) * 1_000 / self.rate + ROUNDED
    }

    /// It drifts from now on.
    pub(crate) fn drift(&mut self, now: Duration, rate: u32) {
        self.shown = self.read(now).0;
        (self.since, self.rate) = (now, rate);
    }
}
