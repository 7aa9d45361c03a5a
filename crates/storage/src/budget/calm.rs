//! What flush and compaction get while nothing is owed: somewhat more than they have needed lately, of bytes
//! or of the processors' time, so that the same work is spread over the whole time instead of filling a
//! processor and the disk now and then.

use std::time::{Duration, Instant};

/// How far back "lately" reaches: the weight of what was falls to a third in so long.
const LATELY: Duration = Duration::from_secs(60);
/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How much more than was needed, and between which bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct CalmBounds {
    /// So many times what was needed lately.
    pub(super) headroom: f64,
    /// At most this share of the most, which is what counts until something is known, …
    pub(super) share: u64,
    /// … and at least this, where the most allows it.
    pub(super) least: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct CalmRate {
    bounds: CalmBounds,
    /// Per second; infinite: nothing is known.
    lately: f64,
    looked: Option<(Instant, u64)>,
}

impl CalmRate {
    pub(super) const fn new(bounds: CalmBounds) -> CalmRate {
        CalmRate { bounds, lately: f64::INFINITY, looked: None }
    }

    /// Per second, of at most `most` for everything together (0 is no limit, and the answer then). `spent` is
    /// how much was needed since the start.
    pub(super) fn of(&mut self, most: u64, spent: impl FnOnce() -> u64, now: Instant) -> f64 {
        let CalmBounds { headroom, share, least } = self.bounds;
        let least = least.min(most) as f64;
        let highest = ((most / share) as f64).max(least);
        let passed = self.looked.map(|(looked, _)| now.saturating_duration_since(looked));
        if passed.is_none_or(|passed| passed >= LOOK_EVERY) {
            let spent = spent();
            if let (Some(passed), Some((_, before))) = (passed, self.looked) {
                assert!(spent >= before, "{spent} was needed, and {before} before");
                let rate = (spent - before) as f64 / passed.as_secs_f64();
                let kept = (-passed.as_secs_f64() / LATELY.as_secs_f64()).exp();
                self.lately = self.lately.min(highest / headroom) * kept + rate * (1.0 - kept);
            }
            self.looked = Some((now, spent));
        }
        (headroom * self.lately).clamp(least, highest)
    }
}
