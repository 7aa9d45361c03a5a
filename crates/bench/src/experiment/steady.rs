//! S4, first part: inserts and updates for minutes at a share of the most that the server takes, told second
//! by second, and beside them what the disk itself does.
//!
//! ```text
//!   load the documents ─▶ closed loop: the most it sustains ─▶ open loop at 70 % of it, for minutes
//!                                                  └ a thread: append, fdatasync, ten times a second
//! ```

use super::Subject;
use super::column::{Column, GENERATOR, RATE};
use super::findings::Measurement;
use super::load::Load;
use super::measure::{LEAST_RATE, Visit};
use super::subject::Served;
use super::sync_probe::SyncProbe;
use super::trace::{LONGEST, Trace};
use crate::error::BenchError;
use crate::generator::{Arrivals, Fleet, GroupSpec, Outcome, Pacing, Second, Window};
use crate::result::median;
use std::time::Duration;

/// Of the most that the server takes.
const SHARE_OF_MOST: f64 = 0.7;
/// A second with less than this share of the median rate counts.
const HALF: f64 = 0.5;
/// No answer should take longer.
const SPIKE_US: u64 = 50_000;
/// The colour of the disk's own line.
const GREY: (u8, u8, u8) = (0x80, 0x80, 0x80);

const MOST: Column = Column::other("maximum/s", 0);
const UNDER_HALF: Column = Column::other("seconds under half", 0);
const SLOWEST: Column = Column::other("slowest second of median", 2);
const SPIKES: Column = Column::other("seconds over 50 ms", 0);
pub(super) const LATENCIES: [&str; 5] = ["mean ms", "p50 ms", "p99 ms", "p99.9 ms", "max ms"];
const SYNCS: [&str; 4] = ["fdatasync p50 ms", "fdatasync p99 ms", "fdatasync p99.9 ms", "fdatasync max ms"];

/// All operations of a load, second by second.
#[derive(Debug, Default)]
pub(crate) struct Seconds(pub(crate) Vec<Second>);

impl From<&Outcome> for Seconds {
    /// A last second that is no whole one is left out, unless it is the only one.
    fn from(outcome: &Outcome) -> Self {
        let mut all: Vec<Second> = Vec::new();
        for (number, second) in outcome.kinds.iter().flat_map(|kind| kind.seconds.iter().enumerate()) {
            match all.get_mut(number) {
                Some(sum) => sum.merge(second),
                None => all.push(second.clone()),
            }
        }
        all.truncate((outcome.elapsed.as_secs_f64() + 0.01).max(1.0) as usize);
        Seconds(all)
    }
}

impl Seconds {
    fn median_rate(&self) -> f64 {
        let rates: Vec<f64> = self.0.iter().map(|second| second.operations as f64).collect();
        if rates.is_empty() { 0.0 } else { median(rates) }
    }

    /// The least rate over the median one.
    pub(super) fn slowest_of_median(&self) -> f64 {
        let least = self.0.iter().map(|second| second.operations).min().unwrap_or_default();
        least as f64 / self.median_rate().max(1.0)
    }

    fn under_half(&self) -> usize {
        let least = HALF * self.median_rate();
        self.0.iter().filter(|second| (second.operations as f64) < least).count()
    }

    fn spikes(&self) -> usize {
        self.0.iter().filter(|second| second.max_us > SPIKE_US).count()
    }
}

impl Visit<'_> {
    pub(super) fn steady(&self) -> Result<Measurement, BenchError> {
        let mut served = self.settings.serve_beyond_cache(self.subject, Load::Writes)?;
        let most = self.most(&mut served)?;
        let rate = self.share_of(most, SHARE_OF_MOST);
        let is_ours = !matches!(self.subject, Subject::Given(_));
        let probe = is_ours
            .then(|| SyncProbe::start(&self.settings.data_directory(), self.settings.journaled_bytes(rate)));
        let probe = probe.transpose()?;
        let mut fleet = self.open(&served, vec![self.writes(rate)?])?;
        let window = Window::lasting(self.settings.warm_up, self.settings.long);
        let run = fleet.run(&window, &mut |_| ())?;
        let busy = 100.0 * run.busiest();
        let [outcome] = run.split()?;
        served.check_alive()?;
        let measurement = self.told(&outcome, most).with([(GENERATOR, busy)]);
        let Some(syncs) = probe.map(SyncProbe::finish).transpose()? else { return Ok(measurement) };
        let figures = SYNCS.map(Column::named).map(|column| (column, column.of(&syncs.latencies)));
        let disk = Trace {
            chart: LONGEST,
            line: "the disk's own fdatasync",
            colour: Some(GREY),
            points: syncs.longest_by_second(self.settings.warm_up),
        };
        // The disk's line is the same whoever wrote beside it: one is enough in a chart of several.
        let is_first = self.settings.subjects.first() == Some(&self.subject);
        Ok(measurement.with(figures).tracing(is_first.then_some(disk)))
    }

    fn told(&self, outcome: &Outcome, most: f64) -> Measurement {
        let (latencies, seconds) = (outcome.latencies(), Seconds::from(outcome));
        let rates = [(MOST, most), (RATE, outcome.rate())];
        let of_seconds = [
            (UNDER_HALF, seconds.under_half() as f64),
            (SLOWEST, seconds.slowest_of_median()),
            (SPIKES, seconds.spikes() as f64),
        ];
        let latencies = LATENCIES.map(Column::named).map(|column| (column, column.of(&latencies)));
        let measurement = Measurement::default().counting(outcome);
        measurement.with(rates).with(latencies).with(of_seconds).tracing(seconds.traces(0.0, None))
    }

    /// What the server takes in a closed loop, a second, once it has written for as long before.
    pub(super) fn most(&self, served: &mut Served) -> Result<f64, BenchError> {
        let group = self.closed(Load::Writes, self.connections, self.settings.stored, true)?;
        let long = self.settings.long_enough_for_most();
        let window = Window::lasting(long, long);
        Ok(self.run_one(served, group, &window)?.rate())
    }

    /// The rate of an open loop.
    pub(super) fn share_of(&self, most: f64, share: f64) -> f64 {
        self.settings.asked.fast_rate.unwrap_or(share * most).max(LEAST_RATE)
    }

    /// Inserts and updates at this rate.
    pub(super) fn writes(&self, rate: f64) -> Result<GroupSpec, BenchError> {
        let group = self.closed(Load::Writes, self.connections, self.settings.stored, true)?;
        Ok(GroupSpec { pacing: Pacing::Open(Arrivals::constant(rate)), ..group })
    }

    /// One part of a load whose connections stay.
    pub(super) fn part(
        &self,
        fleet: &mut Fleet,
        duration: Duration,
        observe: &mut dyn FnMut(),
    ) -> Result<Outcome, BenchError> {
        let window = Window::lasting(Duration::ZERO, duration);
        let [outcome] = fleet.run(&window, &mut |_| observe())?.split()?;
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::KindOutcome;

    fn outcome(rates: &[u64], elapsed_seconds: f64) -> Outcome {
        let second = |&operations: &u64| Second { operations, max_us: operations * 100, ..Second::default() };
        let kind = KindOutcome {
            name: "insert".into(),
            operations: rates.iter().sum(),
            errors: crate::generator::Errors::new(),
            latencies: crate::generator::Latencies::default(),
            seconds: rates.iter().map(second).collect(),
        };
        Outcome {
            elapsed: Duration::from_secs_f64(elapsed_seconds),
            connected: 1,
            kinds: vec![kind.clone(), kind],
            connection_errors: crate::generator::Errors::new(),
            connections: crate::generator::ConnectionCounts::default(),
            open_by_second: Vec::new(),
            reply_bytes: 0,
        }
    }

    #[test]
    fn seconds_that_fall_short_are_counted() {
        let seconds = Seconds::from(&outcome(&[300, 310, 149, 0, 600, 20], 5.2));
        assert_eq!(seconds.0.len(), 5, "the last one is no whole second");
        assert_eq!(seconds.0[0].operations, 600, "of both kinds together");
        assert_eq!((seconds.under_half(), seconds.slowest_of_median()), (2, 0.0));
        assert_eq!(seconds.spikes(), 1, "60 ms is more than 50");
        assert_eq!(Seconds::from(&outcome(&[7], 0.2)).0.len(), 1);
    }
}
