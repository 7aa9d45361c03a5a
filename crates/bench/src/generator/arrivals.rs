//! When an open loop is to send: pure functions of time, in nanoseconds since the load begins.

use serde::{Deserialize, Serialize};
use std::str::FromStr;
use std::time::Duration;

const NANOSECONDS: f64 = 1e9;

/// The intended starts of a group's operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Arrivals {
    /// At rates that change with time; the last one holds on.
    Rates(Vec<Stretch>),
    /// So many at once, again and again.
    Bursts { count: u32, every: Duration },
}

/// A time during which the rate is constant or changes evenly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stretch {
    pub(crate) lasts: Duration,
    /// Starts a second at its beginning; 0 is a pause.
    pub(crate) from: f64,
    /// Starts a second at its end.
    pub(crate) to: f64,
}

impl Stretch {
    /// Starts of the whole stretch; not whole, since a start may lie across its end.
    fn starts(&self) -> f64 {
        self.lasts.as_secs_f64() * f64::midpoint(self.from, self.to)
    }

    /// When `starts` have come, in seconds since the stretch began: the inverse of
    /// `from·t + (to − from)·t²/2·lasts`, written so that nothing cancels out.
    fn time_of(&self, starts: f64) -> f64 {
        if starts <= 0.0 {
            return 0.0;
        }
        let steepness = (self.to - self.from) / self.lasts.as_secs_f64();
        let root = (self.from * self.from + 2.0 * steepness * starts).max(0.0).sqrt();
        2.0 * starts / (self.from + root)
    }
}

impl Arrivals {
    pub(crate) fn constant(rate: f64) -> Self {
        Arrivals::Rates(vec![Stretch { lasts: Duration::MAX, from: rate, to: rate }])
    }
}

impl FromStr for Arrivals {
    type Err = String;

    /// `1000` a second; `10s@1000,5s@0,60s@1000..5000` steps, pauses and ramps; `500/2s` bursts.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((count, every)) = text.split_once('/') {
            let (count, every) = (count.trim().parse(), duration(every)?);
            return match count {
                Ok(count) if count > 0 && !every.is_zero() => Ok(Arrivals::Bursts { count, every }),
                _ => Err(format!("'{text}' is no burst; expected a number and a time, such as 500/2s")),
            };
        }
        if !text.contains('@') {
            return rate(text).and_then(|rate| match rate {
                0.0 => Err("a rate of 0 sends nothing".to_owned()),
                rate => Ok(Arrivals::constant(rate)),
            });
        }
        let stretches = text.split(',').map(stretch).collect::<Result<Vec<_>, _>>()?;
        if stretches.iter().all(|stretch| stretch.from == 0.0 && stretch.to == 0.0) {
            return Err(format!("'{text}' sends nothing"));
        }
        Ok(Arrivals::Rates(stretches))
    }
}

fn stretch(text: &str) -> Result<Stretch, String> {
    let Some((lasts, rates)) = text.split_once('@') else {
        return Err(format!("'{text}' has no rate; expected a time and a rate, such as 10s@1000"));
    };
    let lasts = duration(lasts)?;
    if lasts.is_zero() {
        return Err(format!("'{text}' takes no time"));
    }
    let (from, to) = match rates.split_once("..") {
        Some((from, to)) => (rate(from)?, rate(to)?),
        None => (rate(rates)?, rate(rates)?),
    };
    Ok(Stretch { lasts, from, to })
}

fn rate(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(rate) if rate >= 0.0 && rate.is_finite() => Ok(rate),
        _ => Err(format!("'{text}' is no rate; expected operations a second, such as 1000")),
    }
}

/// A time such as `500ms`, `10s`, `2m` or `1h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let span = text.trim().parse::<jiff::SignedDuration>().ok();
    span.and_then(|span| Duration::try_from(span).ok())
        .ok_or_else(|| format!("'{text}' is no time; expected a number and us, ms, s, m or h"))
}

/// The intended starts of one generator thread: every `of`-th one of the group's, so that all threads
/// together make the whole.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    arrivals: Arrivals,
    begin: u64,
    end: u64,
    /// The next start's number in the whole group.
    number: u64,
    of: u64,
    /// The stretch of the next start, and what came before it: starts and seconds.
    stretch: usize,
    starts_before: f64,
    seconds_before: f64,
    upcoming: Option<u64>,
}

impl Schedule {
    /// From `begin` until `end`, in nanoseconds since any origin; thread `index` of `of`.
    pub(crate) fn new(arrivals: &Arrivals, begin: u64, end: u64, index: u32, of: u32) -> Self {
        let mut schedule = Schedule {
            arrivals: arrivals.clone(),
            begin,
            end,
            number: index.into(),
            of: of.max(1).into(),
            stretch: 0,
            starts_before: 0.0,
            seconds_before: 0.0,
            upcoming: None,
        };
        schedule.upcoming = schedule.start_of_number();
        schedule
    }

    /// The next intended start, be it due or not; `None` once all are taken.
    #[inline]
    pub(crate) const fn next(&self) -> Option<u64> {
        self.upcoming
    }

    /// Takes the next intended start when it is due. Starts that were missed come one after the other, each
    /// with the time at which it should have been.
    #[inline]
    pub(crate) fn take_due(&mut self, now: u64) -> Option<u64> {
        let start = self.upcoming.filter(|&start| start <= now)?;
        self.number += self.of;
        self.upcoming = self.start_of_number();
        Some(start)
    }

    /// Starts until the end that nobody has taken.
    pub(crate) fn left(&self) -> u64 {
        let mut rest = self.clone();
        std::iter::from_fn(|| rest.take_due(u64::MAX)).count() as u64
    }

    fn start_of_number(&mut self) -> Option<u64> {
        let after = match &self.arrivals {
            Arrivals::Bursts { count, every } => {
                let burst = self.number / u64::from((*count).max(1));
                every.as_nanos() as u64 * burst
            }
            Arrivals::Rates(_) => (self.seconds_of_number()? * NANOSECONDS) as u64,
        };
        Some(self.begin.saturating_add(after)).filter(|&start| start < self.end)
    }

    fn seconds_of_number(&mut self) -> Option<f64> {
        let Arrivals::Rates(stretches) = &self.arrivals else { return None };
        let number = self.number as f64;
        while let Some(stretch) = stretches.get(self.stretch) {
            let starts = number - self.starts_before;
            if starts < stretch.starts() {
                return Some(self.seconds_before + stretch.time_of(starts));
            }
            self.starts_before += stretch.starts();
            self.seconds_before += stretch.lasts.as_secs_f64();
            self.stretch += 1;
        }
        let rate = stretches.last()?.to;
        (rate > 0.0).then(|| self.seconds_before + (number - self.starts_before) / rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MILLISECOND;

    fn schedule(text: &str, begin: u64, end: u64) -> Schedule {
        Schedule::new(&text.parse().expect("arrivals"), begin, end, 0, 1)
    }

    /// All starts that are due at `now`.
    fn due(schedule: &mut Schedule, now: u64) -> Vec<u64> {
        std::iter::from_fn(|| schedule.take_due(now)).collect()
    }

    /// How many starts lie in each second.
    fn check(text: &str, expect: &[usize]) {
        let starts = due(&mut schedule(text, 0, expect.len() as u64 * SECOND), u64::MAX);
        let found: Vec<usize> = (0..expect.len() as u64)
            .map(|second| starts.iter().filter(|&&start| start / SECOND == second).count())
            .collect();
        assert_eq!(found, expect, "starts in each second of {text}");
        assert!(starts.is_sorted(), "{text} goes back in time");
    }

    #[test]
    fn starts_come_at_even_distances() {
        let mut schedule = schedule("1000", 5 * MILLISECOND, 9 * MILLISECOND);
        assert_eq!(due(&mut schedule, 4 * MILLISECOND), Vec::<u64>::new());
        assert_eq!(due(&mut schedule, 5 * MILLISECOND), [5 * MILLISECOND]);
        assert_eq!(schedule.next(), Some(6 * MILLISECOND));
        assert_eq!(schedule.left(), 3);
    }

    #[test]
    fn a_pause_is_made_up_for_with_the_intended_times() {
        let mut schedule = schedule("1000", 0, SECOND);
        assert_eq!(due(&mut schedule, 0), [0]);
        let after_pause = due(&mut schedule, 500 * MILLISECOND);
        assert_eq!(after_pause.len(), 500, "nothing of the pause is left out");
        assert_eq!(after_pause.first(), Some(&MILLISECOND), "the first missed start keeps its time");
    }

    #[test]
    fn nothing_starts_at_the_end() {
        let mut schedule = schedule("1000", 0, 3 * MILLISECOND);
        assert_eq!(schedule.left(), 3);
        assert_eq!(due(&mut schedule, u64::MAX).len(), 3);
        assert_eq!((schedule.next(), schedule.left()), (None, 0));
    }

    #[test]
    fn rates_do_not_drift() {
        let mut schedule = schedule("30000", 0, 10 * SECOND);
        assert_eq!(due(&mut schedule, u64::MAX).len(), 300_000);
    }

    #[test]
    fn steps_ramps_pauses_and_bursts() {
        check("1s@10,2s@100,1s@0,1s@20", &[10, 100, 100, 0, 20]);
        check("1s@10,1s@30", &[10, 30, 30, 30]);
        check("1s@10,1s@0", &[10, 0, 0]);
        check("4s@0..400", &[50, 150, 250, 350, 400]);
        check("2s@300..100,1s@100", &[250, 150, 100]);
        check("7/1s", &[7, 7, 7]);
        check("5/500ms", &[10, 10]);
    }

    #[test]
    fn a_ramp_rises_evenly() {
        let starts = due(&mut schedule("10s@0..1000", 0, 10 * SECOND), u64::MAX);
        assert_eq!(starts.len(), 5_000);
        for (number, start) in starts.iter().enumerate() {
            let seconds = *start as f64 / 1e9;
            let reached = 50.0 * seconds * seconds;
            assert!((reached - number as f64).abs() < 0.01, "start {number} comes at {seconds} s");
        }
    }

    #[test]
    fn threads_share_the_starts() {
        for text in ["1000", "1s@10,1s@333", "2s@5..999", "10/100ms"] {
            let arrivals: Arrivals = text.parse().expect("arrivals");
            let of_thread =
                |index, of| due(&mut Schedule::new(&arrivals, 7, 2 * SECOND, index, of), u64::MAX);
            let mut together: Vec<u64> = (0..3).flat_map(|index| of_thread(index, 3)).collect();
            together.sort_unstable();
            assert_eq!(together, of_thread(0, 1), "three threads send {text} differently from one");
        }
    }

    #[test]
    fn descriptions_that_make_no_sense_are_refused() {
        for text in [
            "",
            "x",
            "-1",
            "0",
            "inf",
            "10s",
            "10s@",
            "10@5",
            "0s@5",
            "1s@0,1s@0",
            "0/1s",
            "5/0s",
            "5/x",
            "1s@5..x",
        ] {
            assert!(text.parse::<Arrivals>().is_err(), "'{text}' was taken");
        }
    }
}
