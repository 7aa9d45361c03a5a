//! S4, second part: documents that expire beside a load of inserts and updates. Outside of their window they
//! stay, and within it they go at the window's rate.
//!
//! ```text
//!  N: nothing has expired   E: all have, window elsewhere   (collMod changes one into the other)
//!  load │ N │ E │ E │ N │ N │ E │ window here: deleted at its rate │ N: nothing is left │
//!                               setCalendar                        ▼ gone?
//! ```
//! A load's latency changes within minutes, whatever expires: so the phases come in turns, and medians are
//! compared.

use super::column::{Column, RATE};
use super::findings::Measurement;
use super::load::{Load, of_file};
use super::measure::Visit;
use super::steady::Seconds;
use super::trace::Trace;
use crate::chart;
use crate::command_client::{CommandClient, is_ok, message_of};
use crate::error::BenchError;
use crate::generator::{Fleet, Outcome};
use crate::result::median;
use crate::run::{LoadMode, load};
use crate::workload::{DATABASE, unix_milliseconds};
use document::{Document, Value, doc};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Of the most that the server takes.
const SHARE_OF_MOST: f64 = 0.5;
/// Connections that load documents.
const LOADERS: usize = 4;
/// Longer than the deletion should take, by this factor and this time.
const LONGER: f64 = 1.15;
const LONGER_BY: Duration = Duration::from_secs(3);
/// For what is late then.
const PATIENCE: Duration = Duration::from_secs(60);
const REPLY_PATIENCE: Duration = Duration::from_secs(60);

const COLLECTION: &str = "expiring";
const INDEX: &str = "at_1";
/// Seconds after which nothing expires while this runs.
const A_YEAR: i64 = 31_536_000;
/// In the past, and far from expired until `collMod` says otherwise.
const EXPIRING: &str = r#"
collection = "expiring"
[document]
at = { gen = "fromNow", min = -3600, max = -60 }
text = { gen = "string", length = 64 }
[[indexes]]
key = { at = 1 }
expireAfterSeconds = 31_536_000
[[operations]]
name = "read"
command = { find = "expiring", filter = { _id = { gen = "key" } }, limit = 1 }
"#;

const DELETED: &str = "Documents that the TTL monitor deletes a second";
/// What a phase of the load is beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Nothing,
    Elsewhere,
    Here,
}

impl Phase {
    const fn line(self) -> &'static str {
        match self {
            Phase::Nothing => "nothing has expired",
            Phase::Elsewhere => "window elsewhere",
            Phase::Here => "window here",
        }
    }
}

/// Before the window opens, so that what grows or shrinks evenly is in both alike.
const IN_TURNS: [Phase; 6] =
    [Phase::Nothing, Phase::Elsewhere, Phase::Elsewhere, Phase::Nothing, Phase::Nothing, Phase::Elsewhere];

const ELSEWHERE_DELETED: Column = Column::other("deleted elsewhere", 0);
const LEFT: Column = Column::other("left in the end", 0);
const DELETED_RATE: Column = Column::other("deleted/s", 0);
/// Latencies, medians of a kind of phase, and their ratios to those while nothing had expired.
const FIGURES: [(&str, Phase); 8] = [
    ("mean ms", Phase::Nothing),
    ("p99 ms", Phase::Nothing),
    ("elsewhere mean ms", Phase::Elsewhere),
    ("elsewhere p99 ms", Phase::Elsewhere),
    ("here mean ms", Phase::Here),
    ("here p99 ms", Phase::Here),
    ("here p99.9 ms", Phase::Here),
    ("here max ms", Phase::Here),
];
const RATIOS: [(&str, &str, &str); 4] = [
    ("elsewhere mean ratio", "elsewhere mean ms", "mean ms"),
    ("elsewhere p99 ratio", "elsewhere p99 ms", "p99 ms"),
    ("here mean ratio", "here mean ms", "mean ms"),
    ("here p99 ratio", "here p99 ms", "p99 ms"),
];

impl Visit<'_> {
    pub(super) fn expiry(&self) -> Result<Measurement, BenchError> {
        let settings = self.settings;
        let mut served = settings.serve_beyond_cache(self.subject, Load::Writes)?;
        let workload = of_file(COLLECTION, EXPIRING.to_owned());
        let workload = crate::workload::Settings { records: Some(settings.expiring), ..workload }.build()?;
        let (interrupt, seed) = (&settings.rig.interrupt, settings.asked.measure.seed);
        load(&workload, served.address, LoadMode::Fresh, LOADERS, seed, interrupt, &mut |_| ())?;
        let mut monitor = TtlClient::connect(served.address)?;
        monitor.ask(&doc! { "setParameter": 1, "ttlMonitorSleepSecs": 1, "$db": "admin" })?;
        let rate = self.share_of(self.most(&mut served)?, SHARE_OF_MOST);
        let mut fleet = self.open(&served, vec![self.writes(rate)?])?;
        let part = settings.part_of_long();
        let mut watch = Watch { begun: Instant::now(), samples: Vec::new() };
        monitor.window(Some(ELSEWHERE), None)?;
        let mut phases = Vec::new();
        for kind in IN_TURNS {
            monitor.expire_after(if kind == Phase::Elsewhere { 0 } else { A_YEAR })?;
            phases.push((kind, self.phase(&mut fleet, part, &mut watch, &mut monitor)?));
        }
        let deleted_elsewhere = monitor.deleted()?;
        // The last phase left everything expired.
        monitor.window(None, Some(settings.ttl_rate))?;
        let needed = settings.expiring as f64 / f64::from(settings.ttl_rate);
        let long = Duration::from_secs_f64(needed * LONGER) + LONGER_BY;
        phases.push((Phase::Here, self.phase(&mut fleet, long, &mut watch, &mut monitor)?));
        let late = Instant::now();
        while monitor.deleted()? < settings.expiring && late.elapsed() < PATIENCE {
            interrupt.pause(Duration::from_millis(200))?;
            watch.look(&mut monitor)?;
        }
        let left = monitor.count()?;
        phases.push((Phase::Nothing, self.phase(&mut fleet, part, &mut watch, &mut monitor)?));
        served.check_alive()?;
        let own = [
            (ELSEWHERE_DELETED, deleted_elsewhere as f64),
            (DELETED_RATE, watch.rate()),
            (LEFT, left as f64),
        ];
        Ok(told(&phases).with(own).tracing([watch.trace()]))
    }

    /// What the load saw, and the second at which it began.
    fn phase(
        &self,
        fleet: &mut Fleet,
        duration: Duration,
        watch: &mut Watch,
        monitor: &mut TtlClient,
    ) -> Result<(f64, Outcome), BenchError> {
        let from = watch.begun.elapsed().as_secs_f64();
        watch.look(monitor)?;
        let outcome = self.part(fleet, duration, &mut || {
            // A sample that fails is missing in a chart; what counts is asked for again.
            let _ = watch.look(monitor);
        })?;
        watch.look(monitor)?;
        Ok((from, outcome))
    }
}

/// What the phases' loads saw, each with the second at which it began.
fn told(phases: &[(Phase, (f64, Outcome))]) -> Measurement {
    let mut measurement = Measurement::default();
    for (kind, (from, outcome)) in phases {
        let traces = Seconds::from(outcome).traces(*from, Some((kind.line(), chart::colour(*kind as usize))));
        measurement = measurement.counting(outcome).tracing(traces);
    }
    let of_kind = |wanted: Phase, figure: &dyn Fn(&Outcome) -> f64| {
        let of_phase =
            |(kind, (_, outcome)): &(Phase, (f64, Outcome))| (*kind == wanted).then(|| figure(outcome));
        median(phases.iter().filter_map(of_phase).collect())
    };
    let rate = (RATE, of_kind(Phase::Nothing, &Outcome::rate));
    let figures = FIGURES.map(|(name, kind)| {
        let column = Column::named(name);
        (column, of_kind(kind, &|outcome| column.of(&outcome.latencies())))
    });
    let measurement = measurement.with([rate]).with(figures);
    let ratios = RATIOS.into_iter().filter_map(|(name, of, to)| {
        let [of, to] = [of, to].map(|name| measurement.figure(Column::named(name)));
        Some((Column::other(name, 2), of? / to?.max(f64::MIN_POSITIVE)))
    });
    let ratios: Vec<(Column, f64)> = ratios.collect();
    measurement.with(ratios)
}

/// Documents that were deleted until some moments.
struct Watch {
    begun: Instant,
    samples: Vec<(f64, u64)>,
}

impl Watch {
    fn look(&mut self, monitor: &mut TtlClient) -> Result<(), BenchError> {
        let deleted = monitor.deleted()?;
        self.samples.push((self.begun.elapsed().as_secs_f64(), deleted));
        Ok(())
    }

    /// Deleted a second, between the last sample without any and the first one with all of them.
    fn rate(&self) -> f64 {
        let all = self.samples.last().map_or(0, |&(_, deleted)| deleted);
        let begin = self.samples.iter().rev().find(|&&(_, deleted)| deleted == 0);
        let end = self.samples.iter().find(|&&(_, deleted)| deleted == all);
        match (begin, end) {
            (Some((begin, _)), Some((end, _))) if end > begin => all as f64 / (end - begin),
            _ => 0.0,
        }
    }

    fn trace(&self) -> Trace {
        let pairs = self.samples.iter().zip(self.samples.iter().skip(1));
        // Two samples right after each other say nothing.
        let pairs = pairs.filter(|(before, after)| after.0 - before.0 > 0.5);
        let point = |(before, after): (&(f64, u64), &(f64, u64))| {
            (after.0, after.1.saturating_sub(before.1) as f64 / (after.0 - before.0))
        };
        Trace { chart: DELETED, line: "", colour: None, points: pairs.map(point).collect() }
    }
}

/// A window that does not come soon.
const ELSEWHERE: Duration = Duration::from_secs(6 * 3_600);

/// What tells the server when documents expire, and asks it how many have gone.
struct TtlClient(CommandClient);

impl TtlClient {
    fn connect(address: SocketAddr) -> Result<Self, BenchError> {
        Ok(TtlClient(CommandClient::connect_within(address, REPLY_PATIENCE)?))
    }

    fn ask(&mut self, command: &Document) -> Result<Document, BenchError> {
        let reply = self.0.command(command)?;
        if is_ok(&reply) {
            return Ok(reply);
        }
        let problem = message_of(&reply);
        Err(BenchError::Program { program: "the server", problem })
    }

    /// A window of two hours around now, or as long after now.
    fn window(&mut self, after: Option<Duration>, rate: Option<u32>) -> Result<(), BenchError> {
        let now = unix_milliseconds() / 60_000 + after.map_or(0, |after| after.as_secs() / 60);
        let mut window = doc! { "start": (clock(now + 23 * 60)), "stop": (clock(now + 60)) };
        if let Some(rate) = rate {
            window.push("documentsPerSecond", i64::from(rate));
        }
        self.ask(&doc! { "setCalendar": 1, "ttl": window, "$db": "admin" }).map(drop)
    }

    fn expire_after(&mut self, seconds: i64) -> Result<(), BenchError> {
        let index = doc! { "name": INDEX, "expireAfterSeconds": seconds };
        self.ask(&doc! { "collMod": COLLECTION, "index": index, "$db": DATABASE }).map(drop)
    }

    fn deleted(&mut self) -> Result<u64, BenchError> {
        let status = self.ask(&doc! { "serverStatus": 1, "$db": "admin" })?;
        let metrics = status.get("metrics").and_then(Value::as_document);
        let ttl = metrics.and_then(|metrics| metrics.get("ttl")).and_then(Value::as_document);
        Ok(ttl.and_then(|ttl| ttl.get("deletedDocuments")).map_or(0, number))
    }

    fn count(&mut self) -> Result<u64, BenchError> {
        let reply = self.ask(&doc! { "count": COLLECTION, "$db": DATABASE })?;
        Ok(reply.get("n").map_or(0, number))
    }
}

fn number(value: &Value) -> u64 {
    match value {
        Value::Int32(number) => u64::try_from(*number).unwrap_or_default(),
        Value::Int64(number) => u64::try_from(*number).unwrap_or_default(),
        Value::Double(number) => *number as u64,
        _ => 0,
    }
}

/// The time of day of a minute since 1970, in UTC.
fn clock(minutes: u64) -> String {
    let of_day = minutes % (24 * 60);
    format!("{:02}:{:02}", of_day / 60, of_day % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_around_a_moment() {
        assert_eq!([0, 59, 61, 24 * 60 + 5].map(clock), ["00:00", "00:59", "01:01", "00:05"]);
    }

    #[test]
    fn phases_come_in_turns_and_leave_everything_expired() {
        for half in IN_TURNS.chunks(IN_TURNS.len() / 2) {
            let of = |wanted| half.iter().filter(|phase| **phase == wanted).count();
            assert!(
                of(Phase::Nothing).abs_diff(of(Phase::Elsewhere)) == 1 && of(Phase::Here) == 0,
                "{half:?}"
            );
        }
        assert_eq!(IN_TURNS.last(), Some(&Phase::Elsewhere), "the window is all that is missing");
    }

    #[test]
    fn the_rate_is_that_of_the_time_in_which_documents_went() {
        let samples = vec![(0.0, 0), (9.0, 0), (10.0, 400), (11.0, 900), (12.0, 1_000), (30.0, 1_000)];
        let watch = Watch { begun: Instant::now(), samples };
        assert_eq!(watch.rate(), 1_000.0 / 3.0);
        assert_eq!(watch.trace().points[1], (10.0, 400.0));
        let none = Watch { begun: Instant::now(), samples: vec![(0.0, 0), (1.0, 0)] };
        assert_eq!(none.rate(), 0.0);
    }
}
