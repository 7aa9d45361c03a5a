//! How fast work beside the engine's own moves bytes: what flush and compaction leave of the I/O budget of
//! the moment (`budget/`).

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// At most this share of the budget is taken, so that flush and compaction never wait for long, …
const SHARE: u64 = 8;
/// … and this one in any case, however much they write: what is copied must end.
const SHARE_MIN: u64 = 16;
/// So much is paid for in advance at most by who comes later: whoever moves much for nobody is not in the way
/// for ever.
const AHEAD_MAX: Duration = Duration::from_secs(10);
/// Over how long the engine's own rate is taken.
const WINDOW: Duration = Duration::from_secs(1);

/// Shared by all that move bytes for others than clients.
#[derive(Debug, Default)]
pub(crate) struct BackgroundPace {
    state: Mutex<PaceState>,
}

#[derive(Debug, Default)]
struct PaceState {
    /// When the engine's bytes were looked at, and how many there were.
    looked: Option<(Instant, u64)>,
    /// Bytes a second of flush and compaction.
    engine_rate: u64,
    /// When everything is paid for that was moved.
    free_at: Option<Instant>,
}

impl BackgroundPace {
    /// How long to wait after so many bytes were moved, within so many per second of all that moves any (0 is
    /// no bound), while flush and compaction have written so many since the store was opened.
    pub(crate) fn pause_after(
        &self,
        budget: u64,
        bytes: u64,
        engine_written: impl FnOnce() -> u64,
        now: Instant,
    ) -> Duration {
        if budget == 0 {
            return Duration::ZERO;
        }
        let mut state = self.state.lock();
        let since = state.looked.map(|(at, written)| (now.saturating_duration_since(at), written));
        if since.is_none_or(|(passed, _)| passed >= WINDOW) {
            let written = engine_written();
            let rate = since.map(|(passed, before)| {
                written.saturating_sub(before) as f64 / passed.as_secs_f64().max(f64::MIN_POSITIVE)
            });
            state.engine_rate = rate.map_or(0, |rate| rate as u64);
            state.looked = Some((now, written));
        }
        let left = budget.saturating_sub(state.engine_rate);
        let rate = left.min(budget / SHARE).max(budget / SHARE_MIN).max(1);
        let from = state.free_at.map_or(now, |free_at| free_at.clamp(now, now + AHEAD_MAX));
        let free_at = from + Duration::from_secs_f64(bytes as f64 / rate as f64);
        state.free_at = Some(free_at);
        free_at.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Bytes moved in so many seconds by who waits as long as he is told, while the engine writes at a rate.
    fn moved(budget: u64, engine_rate: u64, seconds: u64) -> u64 {
        let pace = BackgroundPace::default();
        let began = Instant::now();
        let (mut passed, mut moved) = (Duration::ZERO, 0);
        while passed < Duration::from_secs(seconds) {
            let written = || (passed.as_secs_f64() * engine_rate as f64) as u64;
            passed += pace.pause_after(budget, MIB, written, began + passed);
            moved += MIB;
        }
        moved
    }

    #[track_caller]
    fn check(budget: u64, engine_rate: u64, expected: u64) {
        let rate = moved(budget, engine_rate, 20) / 20;
        assert!(rate.abs_diff(expected) < expected / 5, "{rate} of {budget} beside {engine_rate}");
    }

    #[test]
    fn what_is_moved_is_what_flush_and_compaction_leave() {
        check(512 * MIB, 0, 64 * MIB);
        check(512 * MIB, 256 * MIB, 64 * MIB);
        check(512 * MIB, 464 * MIB, 48 * MIB);
        check(512 * MIB, 600 * MIB, 32 * MIB);
        check(40 * MIB, 0, 5 * MIB);
    }

    #[test]
    fn two_share_and_without_a_budget_nobody_waits() {
        let (pace, now, budget) = (BackgroundPace::default(), Instant::now(), 8 * MIB);
        assert_eq!(pace.pause_after(budget, MIB, || 0, now), Duration::from_secs(1));
        assert_eq!(pace.pause_after(budget, MIB, || 0, now), Duration::from_secs(2), "behind the other one");
        for _ in 0..1_000 {
            pace.pause_after(budget, MIB, || 0, now);
        }
        assert_eq!(
            pace.pause_after(budget, MIB, || 0, now),
            AHEAD_MAX + Duration::from_secs(1),
            "not for ever"
        );
        assert_eq!(pace.pause_after(0, MIB, || 0, now), Duration::ZERO);
    }
}
