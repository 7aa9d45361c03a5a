//! How one cell is measured in one round.

use super::arguments::Settings;
use super::findings::{CONNECTED, Column, GENERATOR, LONGEST, MEAN, Measurement, P50, P99, RATE, Row, USUAL};
use super::load::Load;
use super::subject::{Served, Subject};
use super::{raw, s1};
use crate::error::BenchError;
use crate::generator::{Arrivals, Fleet, GroupSpec, Outcome, Pacing, Window};
use crate::process::{processor_time, resident_bytes};
use crate::spinners::Spinners;
use crate::workload::WorkloadSource;
use std::time::{Duration, Instant};

/// What a kind of measurement does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// Every connection sends its next request when the reply to the last one is there.
    Closed(Load),
    /// The same, and right after it a bare echo of the same sizes.
    BesideEcho(Load),
    /// Finds by `_id`, and one more connection with unsynced updates, as db_bench's `readwhilewriting` has
    /// one writer.
    ReadWhileWriting,
    /// A connection for each request: how many a second, and how long from the first packet to the reply.
    Storm,
    /// Fast requests beside slow ones.
    Mixed,
    /// Idle connections: memory, processor time, and work among them.
    Idle,
    /// Monitoring requests while every worker is busy.
    Lane,
    /// An echo behind the thread model, and finds beside it.
    Transport,
    /// YCSB A.
    Ycsb,
    /// An echo behind the thread model, under valgrind.
    Cachegrind,
}

/// What comes of a cell in a round; `None` where a bare echo has nothing to say.
pub(crate) type Measured = Result<Option<Measurement>, BenchError>;

const WRITTEN: &[Column] = &[Column::rate("written/s"), Column::p99("write p99 ms")];

// Of `Mixed`.
const FAST: &[Column] = &[Column::rate("fast/s"), Column::p99("fast p99 ms"), Column::longest("fast max ms")];
const SLOW_RATE: Column = Column::rate("slow/s");
const SLOW: &[Column] = &[SLOW_RATE, Column::p99("slow p99 ms")];
const PACED_ALONE: &[Column] = &[Column::p99("paced p99 alone ms")];
const PACED_SPUN: &[Column] = &[Column::p99("paced p99 beside spinners ms")];
const PACED_BESIDE: &[Column] = &[Column::rate("paced fast/s"), Column::p99("paced p99 beside slow ms")];
const TIMES: Column = Column::other("times alone", 2);
const TIMES_SPUN: Column = Column::other("times spinners", 2);
/// Share of the rate reached in the closed loop that the open loop asks for.
const OPEN_LOOP_SHARE: f64 = 0.8;

// Of `Idle`.
const CALLED: Column = Column::answered("connected");
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

// Of `Lane`.
const MONITORED: &[Column] = &[
    Column::answered("monitor replies"),
    Column::p50("monitor p50 ms"),
    Column::p99("monitor p99 ms"),
    Column::longest("monitor max ms"),
];
const PUSHED: &[Column] = &[Column::rate("pushed/s"), Column::p99("pushed p99 ms")];
/// Requests of the monitor a second.
const MONITOR_RATE: f64 = 20.0;
/// As `nice` counts.
const HIGHEST_PRIORITY: i32 = -20;

impl Settings {
    /// One cell in one round.
    pub(crate) fn measure(&self, row: Row, subject: Subject, round: u32) -> Measured {
        let visit = Visit { settings: self, subject, connections: row.connections, round };
        let measured = match row.kind.what {
            What::Closed(load) => visit.closed(load),
            What::Storm => visit.storm(),
            What::Idle => visit.idle(),
            What::Cachegrind => visit.cachegrind(),
            What::Transport => return visit.transport(),
            _ if !subject.is_database() => return Ok(None),
            What::BesideEcho(load) => visit.beside_echo(load),
            What::ReadWhileWriting => visit.read_while_writing(),
            What::Mixed => visit.mixed(),
            What::Lane => visit.lane(),
            What::Ycsb => visit.ycsb(),
        };
        measured.map(Some)
    }
}

pub(super) struct Visit<'s> {
    pub(super) settings: &'s Settings,
    pub(super) subject: Subject,
    pub(super) connections: usize,
    round: u32,
}

impl Visit<'_> {
    fn serve(&self, load: Load) -> Result<Served, BenchError> {
        self.settings.serve(self.subject, load)
    }

    /// A closed loop of the subject's. An echo's replies hold nothing of what a load expects.
    fn group(&self, load: Load, connections: usize) -> Result<GroupSpec, BenchError> {
        self.group_of(load, connections, self.settings.stored, self.subject.is_database())
    }

    /// A closed loop of an echo's.
    pub(super) fn echoed(&self, load: Load) -> Result<GroupSpec, BenchError> {
        self.group_of(load, self.connections, self.settings.stored, false)
    }

    fn group_of(
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

    fn open(&self, served: &Served, groups: Vec<GroupSpec>) -> Result<Fleet, BenchError> {
        let Settings { rig, asked, .. } = self.settings;
        rig.fleet(served.address, groups, &asked.measure, self.round)
    }

    /// One run of these groups on connections of their own, and how busy the generator was.
    pub(super) fn run<const N: usize>(
        &self,
        served: &mut Served,
        groups: [GroupSpec; N],
        window: &Window,
    ) -> Result<([Outcome; N], (Column, f64)), BenchError> {
        let run = self.open(served, groups.to_vec())?.run(window, &mut |_| ())?;
        run.failures.iter().for_each(|failure| eprintln!("warning: {failure}"));
        served.check_alive()?;
        let busy = 100.0 * run.busiest();
        Ok((run.split()?, (GENERATOR, busy)))
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

    fn closed(&self, load: Load) -> Result<Measurement, BenchError> {
        let group = self.group(load, self.connections)?;
        let ([outcome], busy) = self.run(&mut self.serve(load)?, [group], &self.window(load))?;
        Ok(Measurement::of(&outcome, USUAL).with([busy]))
    }

    fn storm(&self) -> Result<Measurement, BenchError> {
        let mut group = self.group(Load::Read, self.connections)?;
        group.options.operations_per_connection = Some(1);
        let window = self.window(Load::Read);
        let ([outcome], busy) = self.run(&mut self.serve(Load::Read)?, [group], &window)?;
        let columns = USUAL.iter().copied().filter(|column| *column != CONNECTED);
        Ok(Measurement::of(&outcome, &columns.collect::<Vec<_>>()).with([busy]))
    }

    fn beside_echo(&self, load: Load) -> Result<Measurement, BenchError> {
        let (mut served, window) = (self.serve(load)?, self.window(load));
        let ([server], _) = self.run(&mut served, [self.group(load, self.connections)?], &window)?;
        drop(served);
        let documents = load.documents_per_request(self.settings.stored) as f64;
        let mut measurement =
            Measurement::of(&server, &[RATE]).with([(raw::DOCUMENTS, server.rate() * documents / 1e6)]);
        // An echo of a scan's empty reply says nothing about a scan.
        if !(self.settings.asked.no_echo || load == Load::Search || server.operations() == 0) {
            let mut echo = self.settings.serve_echo(Subject::ThreadEcho, server.reply_bytes)?;
            let ([echo], _) = self.run(&mut echo, [self.echoed(load)?], &window)?;
            let of_echo = 100.0 * server.rate() / echo.rate();
            measurement = measurement.with([(raw::ECHO, echo.rate()), (raw::OF_ECHO, of_echo)]);
        }
        let latencies = server.latencies();
        Ok(measurement.with([MEAN, P50, P99, LONGEST].map(|column| (column, column.of(&latencies)))))
    }

    fn read_while_writing(&self) -> Result<Measurement, BenchError> {
        let groups = [self.group(Load::Read, self.connections)?, self.group(Load::Update, 1)?];
        let window = self.window(Load::Read);
        let ([read, written], busy) = self.run(&mut self.serve(Load::Read)?, groups, &window)?;
        Ok(Measurement::of(&read, USUAL).and(&written, WRITTEN).with([busy]))
    }

    fn ycsb(&self) -> Result<Measurement, BenchError> {
        let group = self.group(Load::Ycsb, self.connections)?;
        let window = self.window(Load::Ycsb);
        let ([outcome], busy) = self.run(&mut self.serve(Load::Ycsb)?, [group], &window)?;
        let of_kinds = outcome.kinds.iter().flat_map(|kind| {
            let columns = if kind.name == "read" { s1::OF_READS } else { s1::OF_UPDATES };
            columns.iter().map(|column| (*column, column.of(&kind.latencies)))
        });
        Ok(Measurement::of(&outcome, USUAL).with(of_kinds).with([busy]))
    }

    /// Echo and finds, as far as the subject has them: a given server has no echo.
    fn transport(&self) -> Measured {
        let has_finds = self.subject.is_database() && !self.settings.asked.no_find;
        let mut measurement = Measurement::default();
        if !matches!(self.subject, Subject::Given(_)) {
            let mut served = self.settings.serve_echo(self.subject, self.settings.echo_bytes()?)?;
            let group = self.echoed(Load::Read)?;
            let ([echo], busy) = self.run(&mut served, [group], &self.window(Load::Read))?;
            measurement = Measurement::of(&echo, USUAL).with([busy]);
        } else if !has_finds {
            return Ok(None);
        }
        if has_finds {
            let own_echo = measurement.figure(RATE).filter(|rate| *rate > 0.0);
            let group = self.group(Load::Read, self.connections)?;
            let window = self.window(Load::Read);
            let ([found], _) = self.run(&mut self.serve(Load::Read)?, [group], &window)?;
            let share = own_echo.map(|own_echo| (s1::OF_OWN_ECHO, found.rate() / own_echo));
            measurement = measurement.and(&found, &[s1::FINDS, s1::FINDS_P99]).with(share);
        }
        Ok(Some(measurement))
    }

    /// A closed loop says how many fast requests get through; it says little about their latency, because
    /// fewer are sent when they wait. So an open loop follows: fast requests at one rate, timed from their
    /// intended starts, alone, beside the slow ones, and beside threads that only spin, at the priority of
    /// the server's pool threads. The spinning ones touch no server: what they cost is the price of a busy
    /// machine, and what the slow ones cost beyond it is the server's.
    fn mixed(&self) -> Result<Measurement, BenchError> {
        let (mut served, window) = (self.serve(Load::Read)?, self.window(Load::Read));
        let fast = self.group(Load::Read, self.connections)?;
        let slow = self.group(Load::Range, self.settings.slow_connections)?;
        let ([closed, closed_slow], _) = self.run(&mut served, [fast.clone(), slow.clone()], &window)?;
        let measurement = Measurement::of(&closed, FAST).and(&closed_slow, SLOW);
        let rate = self.settings.asked.fast_rate.unwrap_or(OPEN_LOOP_SHARE * closed.rate());
        if rate < 1.0 {
            return Ok(measurement);
        }
        let paced = GroupSpec { pacing: Pacing::Open(Arrivals::constant(rate)), ..fast };
        let ([alone], _) = self.run(&mut served, [paced.clone()], &window)?;
        let spinners = self.settings.rig.pin.with_server_cores(Spinners::start)?;
        let ([spun], _) = self.run(&mut served, [paced.clone()], &window)?;
        drop(spinners);
        let ([beside, beside_slow], _) = self.run(&mut served, [paced, slow], &window)?;
        let times = |base: &Outcome| {
            let [beside, base] = [&beside, base].map(|outcome| P99.of(&outcome.latencies()));
            beside / base.max(f64::MIN_POSITIVE)
        };
        let times = [(TIMES, times(&alone)), (TIMES_SPUN, times(&spun))];
        let open = measurement.and(&alone, PACED_ALONE).and(&spun, PACED_SPUN).and(&beside, PACED_BESIDE);
        Ok(open.and(&beside_slow, &[]).with(times))
    }

    fn idle(&self) -> Result<Measurement, BenchError> {
        let interrupt = &self.settings.rig.interrupt;
        let mut served = self.serve(Load::Read)?;
        let pid = served.process.as_ref().map_or(0, |process| process.pid());
        let settle = SETTLE.min(self.settings.idle);
        let before = self.work(&mut served)?;
        // The working connections belong to the number, so that all are within the server's limit.
        let resting = self.connections.saturating_sub(WORKING).max(1);
        // One request each, always the same one: connections are where working ones are, and caches stay as
        // they are.
        let once = self.group_of(Load::Read, resting, 1, self.subject.is_database())?;
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
        let figures = [
            (MEMORY, memory / (called.timed() as f64).max(1.0)),
            (IDLE, share_of_core * 100.0),
            (ALONE, alone),
            (SHARE, among.rate() / alone.max(f64::MIN_POSITIVE)),
        ];
        let runs = Measurement::of(&called, &[CALLED]).and(&before, &[]).and(&after, &[]);
        Ok(runs.with(figures).and(&among, &[RATE]))
    }

    /// A closed loop of fast requests.
    fn work(&self, served: &mut Served) -> Result<Outcome, BenchError> {
        let group = self.group(Load::Read, WORKING)?;
        let ([outcome], _) = self.run(served, [group], &self.window(Load::Read))?;
        Ok(outcome)
    }

    /// Every worker is stuck in slow requests and thousands of clients push, and a monitor asks. The monitor
    /// has a thread of its own, with the highest priority it is allowed, so that the pushing clients delay it
    /// in the server only.
    fn lane(&self) -> Result<Measurement, BenchError> {
        let mut served = self.serve(Load::Read)?;
        let pacing = Pacing::Open(Arrivals::constant(MONITOR_RATE));
        let monitor = GroupSpec { pacing, ..self.group(Load::Monitor, 1)? };
        let mut monitor = self.open(&served, vec![monitor])?;
        let scans = self.group(Load::Search, self.settings.slow_connections)?;
        let mut pushing = self.open(&served, vec![scans, self.group(Load::Read, self.connections)?])?;
        let window = self.window(Load::Read);
        let (monitored, pushed) = std::thread::scope(|scope| {
            let monitor = scope.spawn(|| {
                // Of this thread and those that it starts, and without the right to it the priority stays as
                // it is.
                let _ = rustix::process::setpriority_process(None, HIGHEST_PRIORITY);
                monitor.run(&window, &mut |_| ())
            });
            let pushed = pushing.run(&window, &mut |_| ());
            (monitor.join(), pushed)
        });
        let ended =
            BenchError::Program { program: "the monitor's thread", problem: "it panicked".to_owned() };
        let [monitored] = monitored.map_err(|_| ended)??.split()?;
        let [slow, pushed] = pushed?.split()?;
        served.check_alive()?;
        Ok(Measurement::of(&monitored, MONITORED).and(&pushed, PUSHED).and(&slow, &[SLOW_RATE]))
    }
}
