//! When an open loop is to send.

const NANOSECONDS: f64 = 1e9;

/// Intended starts at even distances from `begin` until `end`. Time is given by the caller, in nanoseconds since any origin.
#[derive(Debug)]
pub(crate) struct Schedule {
    begin: u64,
    end: u64,
    distance: f64,
    taken: u64,
}

impl Schedule {
    /// `rate` starts a second.
    pub(crate) fn new(rate: f64, begin: u64, end: u64) -> Self {
        Schedule { begin, end, distance: NANOSECONDS / rate, taken: 0 }
    }

    /// The next intended start, be it due or not; `None` once all are taken.
    pub(crate) fn next(&self) -> Option<u64> {
        let start = self.begin + (self.taken as f64 * self.distance) as u64;
        (start < self.end).then_some(start)
    }

    /// Takes the next intended start when it is due. Starts that were missed come one after the other, each with the time at
    /// which it should have been.
    pub(crate) fn take_due(&mut self, now: u64) -> Option<u64> {
        let start = self.next().filter(|&start| start <= now)?;
        self.taken += 1;
        Some(start)
    }

    /// Starts until the end that nobody has taken.
    pub(crate) fn left(&self) -> u64 {
        let whole = ((self.end.saturating_sub(self.begin)) as f64 / self.distance).ceil() as u64;
        whole.saturating_sub(self.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    /// All starts that are due at `now`.
    fn due(schedule: &mut Schedule, now: u64) -> Vec<u64> {
        std::iter::from_fn(|| schedule.take_due(now)).collect()
    }

    #[test]
    fn starts_come_at_even_distances() {
        let mut schedule = Schedule::new(1_000.0, 5 * MILLISECOND, 9 * MILLISECOND);
        assert_eq!(due(&mut schedule, 4 * MILLISECOND), Vec::<u64>::new());
        assert_eq!(due(&mut schedule, 5 * MILLISECOND), [5 * MILLISECOND]);
        assert_eq!(schedule.next(), Some(6 * MILLISECOND));
        assert_eq!(schedule.left(), 3);
    }

    #[test]
    fn a_pause_is_made_up_for_with_the_intended_times() {
        let mut schedule = Schedule::new(1_000.0, 0, 1_000 * MILLISECOND);
        assert_eq!(due(&mut schedule, 0), [0]);
        let after_pause = due(&mut schedule, 500 * MILLISECOND);
        assert_eq!(after_pause.len(), 500, "nothing of the pause is left out");
        assert_eq!(after_pause.first(), Some(&MILLISECOND), "the first missed start keeps its time");
    }

    #[test]
    fn nothing_starts_at_the_end() {
        let mut schedule = Schedule::new(1_000.0, 0, 3 * MILLISECOND);
        assert_eq!(schedule.left(), 3);
        assert_eq!(due(&mut schedule, u64::MAX).len(), 3);
        assert_eq!((schedule.next(), schedule.left()), (None, 0));
    }

    #[test]
    fn rates_do_not_drift() {
        let mut schedule = Schedule::new(30_000.0, 0, 10_000 * MILLISECOND);
        assert_eq!(due(&mut schedule, u64::MAX).len(), 300_000);
    }
}
