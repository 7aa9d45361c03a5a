//! How one cell is measured in one round.

use super::arguments::Settings;
use super::column::{CONNECTED, Column, GENERATOR, RATE};
use super::definition::{ConnectionNumber, GroupDefinition, Kind, On, Pace, Special, Step};
use super::findings::{Measurement, Row};
use super::load::Load;
use super::subject::{Served, Subject};
use crate::error::BenchError;
use crate::generator::{Arrivals, Fleet, GroupSpec, Outcome, Pacing, RunOutcome, Window};
use crate::process::{processor_time, resident_bytes};
use crate::spinners::Spinners;
use crate::workload::WorkloadSource;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

/// What comes of a cell in a round; `None` where a bare echo has nothing to say.
pub(crate) type Measured = Result<Option<Measurement>, BenchError>;

/// Share of the rate reached in the closed loop that an open loop asks for.
const OPEN_LOOP_SHARE: f64 = 0.8;
/// Requests of the monitor a second.
const MONITOR_RATE: f64 = 20.0;
/// Requests a second of an open loop, at any scale.
pub(super) const LEAST_RATE: f64 = 50.0;
/// As `nice` counts.
const HIGHEST_PRIORITY: i32 = -20;

// Of idle connections.
const MEMORY: Column = Column::other("KiB each", 2);
const IDLE: Column = Column::other("idle %", 2);
const ALONE: Column = Column::other("alone/s", 0);
const SHARE: Column = Column::other("of alone", 3);
/// Connections that work before and among the idle ones.
const WORKING: usize = 64;
/// Until a server has closed or settled connections; shorter when even the measured idle time is.
const SETTLE: Duration = Duration::from_secs(1);
/// All idle connections have had their one reply by then; the run ends as soon as they have.
const CALLING: Duration = Duration::from_secs(60);

impl Settings {
    /// One cell in one round.
    pub(crate) fn measure(&self, row: Row, subject: Subject, round: u32) -> Measured {
        let visit = Visit { settings: self, subject, connections: row.connections, round };
        match row.kind.special {
            Some(Special::Idle) => visit.idle().map(Some),
            Some(Special::Cachegrind) => visit.cachegrind().map(Some),
            Some(Special::Steady) => visit.steady().map(Some),
            // Only the server itself has windows and knobs.
            Some(Special::Expiry | Special::Knobs) if subject == Subject::EngineDefaults => Ok(None),
            Some(Special::Expiry) => visit.expiry().map(Some),
            Some(Special::Knobs) => visit.knobs().map(Some),
            None => visit.steps(row.kind),
        }
    }
}

pub(super) struct Visit<'s> {
    pub(super) settings: &'s Settings,
    pub(super) subject: Subject,
    pub(super) connections: usize,
    round: u32,
}

impl Visit<'_> {
    fn steps(&self, kind: &Kind) -> Measured {
        let mut measurement = Measurement::default();
        let mut place: Option<(On, Served)> = None;
        // Of the first group, which later steps go by.
        let mut first: Option<Outcome> = None;
        for step in kind.steps.iter() {
            let (load, rate) = (step.load(), self.paced(first.as_ref()));
            if !self.makes(kind, step, first.as_ref()) {
                continue;
            }
            if place.as_ref().is_none_or(|(on, _)| *on != step.on) {
                // What was served before ends first.
                drop(place.take());
                let reply_bytes = first.as_ref().map_or(0, |first| first.reply_bytes);
                place = Some((step.on, self.serve(step.on, load, reply_bytes)?));
            }
            let Some((_, served)) = &mut place else { continue };
            let spinners =
                step.beside_spinners.then(|| self.settings.rig.pin.with_server_cores(Spinners::start));
            let spinners = spinners.transpose()?;
            let groups = step.groups.iter().map(|group| self.group(group, step.on, rate, served.secondary()));
            let groups = groups.collect::<Result<Vec<GroupSpec>, BenchError>>()?;
            let monitors = usize::from(step.is_watched());
            let (outcomes, busy) = self.run(served, groups, monitors, &self.window(load))?;
            drop(spinners);
            if let Some(column) = step.behind
                && let Some(behind) = served.secondary_behind(&self.settings.rig.interrupt)?
            {
                measurement = measurement.with([(column, behind.as_secs_f64() * 1_000.0)]);
            }
            for (group, outcome) in step.groups.iter().zip(outcomes) {
                measurement = self.add(measurement, group, &outcome, busy);
                first = first.or(Some(outcome));
            }
        }
        let ratios = kind.ratios.iter().filter_map(|ratio| {
            let percent = if ratio.name.name.starts_with('%') { 100.0 } else { 1.0 };
            let [of, to] = [ratio.of, ratio.to].map(|column| measurement.figure(column));
            Some((ratio.name, percent * of? / to?.max(f64::MIN_POSITIVE)))
        });
        let ratios: Vec<(Column, f64)> = ratios.collect();
        Ok(first.map(|_| measurement.with(ratios)))
    }

    /// Whether a step has anything to say of the subject.
    fn makes(&self, kind: &Kind, step: &Step, first: Option<&Outcome>) -> bool {
        let asked = &self.settings.asked;
        if step.groups.iter().any(|group| group.pace == Pace::Paced) && self.paced(first) < 1.0 {
            return false;
        }
        match step.on {
            On::Subject => true,
            On::Database => self.subject.is_database() && !(asked.no_find && kind.goes(On::Echo)),
            On::Echo => !matches!(self.subject, Subject::Given(_)),
            On::BareEcho => !asked.no_echo && first.is_some_and(|first| first.operations() > 0),
        }
    }

    /// Requests a second of an open loop.
    fn paced(&self, first: Option<&Outcome>) -> f64 {
        let share = || first.map_or(0.0, |first| OPEN_LOOP_SHARE * first.rate());
        self.settings.asked.fast_rate.unwrap_or_else(share)
    }

    fn serve(&self, on: On, load: Load, reply_bytes: usize) -> Result<Served, BenchError> {
        match on {
            On::Subject | On::Database => self.settings.serve(self.subject, load),
            On::Echo => self.settings.serve_echo(self.subject, self.settings.echo_bytes()?),
            On::BareEcho => self.settings.serve_echo(Subject::ThreadEcho, reply_bytes),
        }
    }

    fn group(
        &self,
        wanted: &GroupDefinition,
        on: On,
        rate: f64,
        secondary: Option<SocketAddr>,
    ) -> Result<GroupSpec, BenchError> {
        let connections = match wanted.connections {
            ConnectionNumber::Row => self.connections,
            ConnectionNumber::Slow => self.settings.slow_connections,
            ConnectionNumber::One => 1,
            ConnectionNumber::Fixed(usual) => self.settings.asked.scale.connections(usual),
        };
        // An echo's replies hold nothing of what a load expects.
        let expects = self.subject.is_database() && matches!(on, On::Subject | On::Database);
        let mut group = self.closed(wanted.load, connections, self.settings.stored, expects)?;
        if wanted.of_secondary {
            group.options.addresses = secondary.into_iter().collect();
        }
        match wanted.pace {
            Pace::Closed => {}
            Pace::PerSecond(usual) => {
                let rate = (usual * self.settings.asked.scale.0.min(1.0)).max(LEAST_RATE);
                group.pacing = Pacing::Open(Arrivals::constant(rate));
            }
            Pace::Short => group.options.operations_per_connection = Some(1),
            Pace::Paced => group.pacing = Pacing::Open(Arrivals::constant(rate)),
            Pace::Monitor => group.pacing = Pacing::Open(Arrivals::constant(MONITOR_RATE)),
        }
        Ok(group)
    }

    pub(super) fn closed(
        &self,
        load: Load,
        connections: usize,
        records: u64,
        expects: bool,
    ) -> Result<GroupSpec, BenchError> {
        let workload = load.workload(records, self.settings.document_bytes);
        let source = WorkloadSource::new(&workload, &load.concerns())?;
        let source = if expects { source } else { source.expecting_nothing() };
        Ok(GroupSpec::new(connections, source, Pacing::Closed))
    }

    pub(super) fn open(&self, served: &Served, mut groups: Vec<GroupSpec>) -> Result<Fleet, BenchError> {
        let Settings { rig, asked, .. } = self.settings;
        groups.iter_mut().for_each(|group| group.options.security = served.security.clone());
        rig.fleet(served.address, groups, &asked.measure, self.round)
    }

    /// One run of these groups on connections of their own, the first ones on a thread of theirs that waits
    /// for no other, and how busy the others' generator was, in percent.
    fn run(
        &self,
        served: &mut Served,
        mut groups: Vec<GroupSpec>,
        monitors: usize,
        window: &Window,
    ) -> Result<(Vec<Outcome>, f64), BenchError> {
        let others = groups.split_off(monitors);
        let mut monitor = (monitors > 0).then(|| self.open(served, groups)).transpose()?;
        let mut fleet = self.open(served, others)?;
        let (monitored, run) = thread::scope(|scope| {
            let monitored = monitor.as_mut().map(|fleet| {
                scope.spawn(move || {
                    // Of this thread and those that it starts, and without the right to it the priority stays
                    // as it is.
                    let _ = rustix::process::setpriority_process(None, HIGHEST_PRIORITY);
                    fleet.run(window, &mut |_| ())
                })
            });
            let run = fleet.run(window, &mut |_| ());
            (monitored.map(thread::ScopedJoinHandle::join), run)
        });
        let panicked =
            |_| BenchError::Program { program: "the monitor's thread", problem: "it panicked".to_owned() };
        let monitored: Option<RunOutcome> = monitored.map(|run| run.map_err(panicked)?).transpose()?;
        let (run, mut outcomes) = (run?, Vec::new());
        let busy = 100.0 * run.busiest();
        for run in monitored.into_iter().chain([run]) {
            if run.interrupted {
                return Err(BenchError::Interrupted);
            }
            run.failures.iter().for_each(|failure| eprintln!("warning: {failure}"));
            outcomes.extend(run.groups);
        }
        served.check_alive()?;
        Ok((outcomes, busy))
    }

    /// A run of one group alone.
    pub(super) fn run_one(
        &self,
        served: &mut Served,
        group: GroupSpec,
        window: &Window,
    ) -> Result<Outcome, BenchError> {
        let [outcome] = self.open(served, vec![group])?.run(window, &mut |_| ())?.split()?;
        served.check_alive()?;
        Ok(outcome)
    }

    /// Finds by `_id`, to an echo.
    pub(super) fn echoed(&self) -> Result<GroupSpec, BenchError> {
        self.closed(Load::Read, self.connections, self.settings.stored, false)
    }

    /// Adds what a group saw.
    fn add(
        &self,
        measurement: Measurement,
        group: &GroupDefinition,
        outcome: &Outcome,
        busy: f64,
    ) -> Measurement {
        let (latencies, documents) =
            (outcome.latencies(), group.load.documents_per_request(self.settings.stored));
        let figure = |column: &Column| match *column {
            GENERATOR => (GENERATOR, busy),
            column => (column, column.of_group(outcome, &latencies, documents)),
        };
        let by_kind = outcome.kinds.iter().flat_map(|kind| {
            let columns = group.by_kind.get(&kind.name).into_iter().flatten();
            columns.map(|column| (*column, column.of(&kind.latencies)))
        });
        measurement.counting(outcome).with(group.columns.iter().map(figure)).with(by_kind)
    }

    /// The window of a load. One whose requests take a millisecond of a core each is long enough for every
    /// connection to get several replies.
    fn window(&self, load: Load) -> Window {
        /// Of one connection's share of the warm-up and of the measured time.
        const WARM_UP: Duration = Duration::from_micros(300);
        const MEASURED: Duration = Duration::from_millis(1);
        let Settings { mut warm_up, mut duration, .. } = *self.settings;
        if load.is_slow() {
            let connections = u32::try_from(self.connections).unwrap_or(u32::MAX);
            duration = duration.max(MEASURED * connections);
            if !warm_up.is_zero() {
                warm_up = warm_up.max(WARM_UP * connections);
            }
        }
        Window::lasting(warm_up, duration)
    }

    fn idle(&self) -> Result<Measurement, BenchError> {
        let interrupt = &self.settings.rig.interrupt;
        let mut served = self.settings.serve(self.subject, Load::Read)?;
        let pid = served.process.as_ref().map_or(0, |process| process.pid());
        let settle = SETTLE.min(self.settings.idle);
        let before = self.work(&mut served)?;
        // The working connections belong to the number, so that all are within the server's limit.
        let resting = self.connections.saturating_sub(WORKING).max(1);
        // One request each, always the same one: connections are where working ones are, and caches stay as
        // they are.
        let once = self.closed(Load::Read, resting, 1, self.subject.is_database())?;
        let once = GroupSpec { pacing: Pacing::Once, ..once };
        interrupt.pause(settle)?;
        let base = resident_bytes(pid)?;
        let mut idle = self.open(&served, vec![once])?;
        let [called] = idle.run(&Window::lasting(Duration::ZERO, CALLING), &mut |_| ())?.split()?;
        interrupt.pause(settle)?;
        let memory = resident_bytes(pid)?.saturating_sub(base) as f64 / 1024.0;
        let (used, begun) = (processor_time(pid)?, Instant::now());
        interrupt.pause(self.settings.idle)?;
        let used = processor_time(pid)?.saturating_sub(used);
        let share_of_core = used.as_secs_f64() / begun.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
        let among = self.work(&mut served)?;
        drop(idle);
        interrupt.pause(settle)?;
        let after = self.work(&mut served)?;
        let alone = f64::midpoint(before.rate(), after.rate());
        let connected = called.timed() as f64;
        let counted = [&called, &before, &among, &after];
        Ok(counted.into_iter().fold(Measurement::default(), Measurement::counting).with([
            (CONNECTED, connected),
            (MEMORY, memory / connected.max(1.0)),
            (IDLE, share_of_core * 100.0),
            (ALONE, alone),
            (RATE, among.rate()),
            (SHARE, among.rate() / alone.max(f64::MIN_POSITIVE)),
        ]))
    }

    /// A closed loop of fast requests.
    fn work(&self, served: &mut Served) -> Result<Outcome, BenchError> {
        let group = self.closed(Load::Read, WORKING, self.settings.stored, self.subject.is_database())?;
        self.run_one(served, group, &self.window(Load::Read))
    }
}

impl Step {
    /// Whether what the first group sees is to be the server's doing alone, beside whatever the others send.
    fn is_watched(&self) -> bool {
        let first = self.groups.first().filter(|_| self.groups.len() > 1);
        first.is_some_and(|group| group.pace == Pace::Monitor || group.of_secondary)
    }

    /// What the documents are loaded for: the load that is measured, not a monitor's.
    fn load(&self) -> Load {
        let groups = self.groups.iter().filter(|group| group.pace != Pace::Monitor);
        groups.map(|group| group.load).next().unwrap_or(Load::Read)
    }
}
