//! OpTimes: when an operation was, by the clock of the leader that logged it.
//!
//! Source: MongoDB manual, "replSetGetStatus", `optimes`.

use crate::entry::Term;
use document::Timestamp;
use std::time::Duration;

/// The place of an operation in the log as clients see it: `ts` and `t` of its oplog entry. Along the log
/// both grow, `timestamp` strictly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct OpTime {
    /// When; unique in the log.
    pub timestamp: Timestamp,
    /// The term of the leader that logged it.
    pub term: Term,
}

/// Gives timestamps that are later than all that this member has seen, in entries (those that were
/// truncated afterwards as well) or from others.
///
/// That is how a new leader goes on where the one before it ended: it has every committed entry, so its next
/// timestamp is later than theirs even where its own clock is behind.
#[derive(Debug, Default)]
pub(crate) struct TimestampClock {
    latest: Timestamp,
}

impl TimestampClock {
    pub(crate) fn observe(&mut self, timestamp: Timestamp) {
        self.latest = self.latest.max(timestamp);
    }

    /// The next timestamp, at `wall` after 1970: the clock's second if that is later, or else the next
    /// increment.
    pub(crate) fn next(&mut self, wall: Duration) -> Timestamp {
        let seconds = u32::try_from(wall.as_secs()).expect("the clock shows a time before the year 2106");
        let first = Timestamp { time: seconds, increment: 1 };
        let next = Timestamp::from_u64(self.latest.as_u64() + 1);
        self.latest = first.max(next);
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_grow_whatever_the_clock_does() {
        let mut clock = TimestampClock::default();
        let mut next = |wall| clock.next(Duration::from_millis(wall));
        let at = |time, increment| Timestamp { time, increment };
        assert_eq!(next(5_000), at(5, 1));
        assert_eq!(next(5_999), at(5, 2));
        assert_eq!(next(9_000), at(9, 1));
        assert_eq!(next(3_000), at(9, 2), "a clock that went back");
    }

    #[test]
    fn what_was_seen_of_another_leader_is_earlier() {
        let mut clock = TimestampClock::default();
        clock.observe(Timestamp { time: 70, increment: 3 });
        clock.observe(Timestamp { time: 60, increment: 9 });
        assert_eq!(clock.next(Duration::from_secs(50)), Timestamp { time: 70, increment: 4 });
    }
}
