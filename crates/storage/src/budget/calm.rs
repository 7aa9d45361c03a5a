//! What flush and compaction get while nothing is owed: somewhat more than they have written lately, so that
//! the same work is spread over the whole time instead of filling a processor and the disk now and then.

use std::time::{Duration, Instant};

/// So many times what was written lately.
const HEADROOM: f64 = 1.5;
/// How far back "lately" reaches: the weight of what was falls to a third in so long.
const LATELY: Duration = Duration::from_secs(60);
/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// At most this share of the most, which is what counts until something is known, …
const SHARE: u64 = 8;
/// … and at least this, where the most allows it.
const LEAST: u64 = 16 << 20;

/// See the module.
#[derive(Debug)]
pub(super) struct CalmRate {
    /// Bytes per second; infinite: nothing is known.
    lately: f64,
    looked: Option<(Instant, u64)>,
}

impl CalmRate {
    pub(super) const fn new() -> CalmRate {
        CalmRate { lately: f64::INFINITY, looked: None }
    }

    /// Bytes per second, of at most `most` for everything together (0 is no limit, and the answer then).
    /// `moved` is how many bytes were written since the start.
    pub(super) fn of(&mut self, most: u64, moved: impl FnOnce() -> u64, now: Instant) -> f64 {
        let least = LEAST.min(most) as f64;
        let highest = ((most / SHARE) as f64).max(least);
        let passed = self.looked.map(|(looked, _)| now.saturating_duration_since(looked));
        if passed.is_none_or(|passed| passed >= LOOK_EVERY) {
            let moved = moved();
            if let (Some(passed), Some((_, before))) = (passed, self.looked) {
                assert!(moved >= before, "{moved} bytes were written, and {before} before");
                let rate = (moved - before) as f64 / passed.as_secs_f64();
                let kept = (-passed.as_secs_f64() / LATELY.as_secs_f64()).exp();
                self.lately = self.lately.min(highest / HEADROOM) * kept + rate * (1.0 - kept);
            }
            self.looked = Some((now, moved));
        }
        (HEADROOM * self.lately).clamp(least, highest)
    }
}
