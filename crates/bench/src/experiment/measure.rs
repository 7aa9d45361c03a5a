//! How one cell is measured in one round.

use super::arguments::Settings;
use super::findings::{CONNECTED, Column, GENERATOR, LONGEST, MEAN, Measurement, P50, P99, RATE, Row};
use super::load::Load;
use super::subject::{Served, Subject};
use super::{raw, s1};
use crate::error::BenchError;
use crate::generator::{Arrivals, Fleet, GroupSpec, Outcome, Pacing, RunOutcome, Window};
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
}

/// What comes of a cell in a round; `None` where a bare echo has nothing to say.
pub(crate) type Measured = Result<Option<Measurement>, BenchError>;

const WRITTEN: Column = Column::median("written/s", 0);
const WRITE_P99: Column = Column::median("write p99 ms", 2);

// Of `Mixed`.
const FAST_RATE: Column = Column::median("fast/s", 0);
const FAST_P99: Column = Column::median("fast p99 ms", 2);
const FAST_LONGEST: Column = Column::most("fast max ms", 1);
const SLOW_RATE: Column = Column::median("slow/s", 0);
const SLOW_P99: Column = Column::median("slow p99 ms", 1);
const PACED_RATE: Column = Column::median("paced fast/s", 0);
const P99_ALONE: Column = Column::median("paced p99 alone ms", 2);
const P99_BESIDE: Column = Column::median("paced p99 beside slow ms", 2);
const TIMES: Column = Column::median("times alone", 2);
const P99_SPUN: Column = Column::median("paced p99 beside spinners ms", 2);
const TIMES_SPUN: Column = Column::median("times spinners", 2);
/// Share of the rate reached in the closed loop that the open loop asks for.
const OPEN_LOOP_SHARE: f64 = 0.8;

// Of `Idle`.
const MEMORY: Column = Column::median("KiB each", 2);
const IDLE: Column = Column::median("idle %", 2);
const ALONE: Column = Column::median("alone/s", 0);
const SHARE: Column = Column::median("of alone", 3);
/// Connections that work before and among the idle ones.
const WORKING: usize = 64;
/// Until a server has closed or settled connections; shorter when even the measured idle time is.
const SETTLE: Duration = Duration::from_secs(1);
/// All idle connections have had their one reply by then; the run ends as soon as they have.
const CALLING: Duration = Duration::from_secs(60);

// Of `Lane`.
const MONITORED: Column = Column::median("monitor replies", 0);
const MONITOR_P50: Column = Column::median("monitor p50 ms", 2);
const MONITOR_P99: Column = Column::median("monitor p99 ms", 2);
const MONITOR_LONGEST: Column = Column::most("monitor max ms", 1);
const PUSHED: Column = Column::median("pushed/s", 0);
const PUSHED_P99: Column = Column::median("pushed p99 ms", 1);
const SLOW: Column = Column::median("slow/s", 1);
/// Requests of the monitor a second.
const MONITOR_RATE: f64 = 20.0;
/// As `nice` counts.
const HIGHEST_PRIORITY: i32 = -20;

impl Settings {
    /// One cell in one round.
    pub(crate) fn measure(&self, row: Row, subject: Subject, round: u64) -> Measured {
        let visit = Visit { settings: self, subject, connections: row.connections, seed: self.seed + round };
        let measured = match row.kind.what {
            What::Closed(load) => visit.alone(load, None),
            What::Storm => visit.alone(Load::Read, Some(1)).map(|storm| storm.without(CONNECTED)),
            What::Idle => visit.idle(),
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

struct Visit<'s> {
    settings: &'s Settings,
    subject: Subject,
    connections: usize,
    seed: u64,
}

impl Visit<'_> {
    fn serve(&self, load: Load) -> Result<Served, BenchError> {
        self.settings.serve(self.subject, load)
    }

    /// A closed loop of the subject's. An echo's replies hold nothing of what a load expects.
    fn group(&self, load: Load, connections: usize) -> Result<GroupSpec, BenchError> {
        self.closed(load, connections, self.settings.stored, self.subject.is_database())
    }

    fn closed(
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
        let Settings { rig, threads, processes, .. } = self.settings;
        rig.fleet(served.address, groups, (*threads, *processes), self.seed)
    }

    /// One run of these groups on connections of their own.
    fn run(
        &self,
        served: &mut Served,
        groups: Vec<GroupSpec>,
        window: &Window,
    ) -> Result<RunOutcome, BenchError> {
        let run = self.open(served, groups)?.run(window, &mut |_| ())?;
        run.failures.iter().for_each(|failure| eprintln!("warning: {failure}"));
        served.check_alive()?;
        Ok(run)
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

    fn alone(&self, load: Load, operations_per_connection: Option<u32>) -> Result<Measurement, BenchError> {
        let mut served = self.serve(load)?;
        let mut group = self.group(load, self.connections)?;
        group.options.operations_per_connection = operations_per_connection;
        let run = self.run(&mut served, vec![group], &self.window(load))?;
        let busy = run.busiest();
        let [outcome] = run.split()?;
        Ok(Measurement::of(&outcome).with(GENERATOR, busy * 100.0))
    }

    fn beside_echo(&self, load: Load) -> Result<Measurement, BenchError> {
        let (mut served, window) = (self.serve(load)?, self.window(load));
        let [server] = self.run(&mut served, vec![self.group(load, self.connections)?], &window)?.split()?;
        drop(served);
        let documents = load.documents_per_request(self.settings.stored) as f64;
        let mut measurement = Measurement::default()
            .with_all([(RATE, server.rate()), (raw::DOCUMENTS, server.rate() * documents / 1e6)])
            .counting([&server]);
        // An echo of a scan's empty reply says nothing about a scan.
        if !(self.settings.no_echo || load == Load::Search || server.operations() == 0) {
            let mut echo = self.settings.serve_echo(Subject::ThreadEcho, server.reply_bytes)?;
            let [echo] = self
                .run(
                    &mut echo,
                    vec![self.closed(load, self.connections, self.settings.stored, false)?],
                    &window,
                )?
                .split()?;
            let of_echo = 100.0 * server.rate() / echo.rate();
            measurement = measurement.with_all([(raw::ECHO, echo.rate()), (raw::OF_ECHO, of_echo)]);
        }
        Ok(measurement.with_all([
            (MEAN, server.latencies().mean_ms()),
            (P50, server.latencies().quantile_ms(0.5)),
            (P99, server.latencies().quantile_ms(0.99)),
            (LONGEST, server.latencies().longest_ms()),
        ]))
    }

    fn read_while_writing(&self) -> Result<Measurement, BenchError> {
        let mut served = self.serve(Load::Read)?;
        let groups = vec![self.group(Load::Read, self.connections)?, self.group(Load::Update, 1)?];
        let run = self.run(&mut served, groups, &self.window(Load::Read))?;
        let busy = run.busiest();
        let [read, written] = run.split()?;
        let figures = [
            (WRITTEN, written.rate()),
            (WRITE_P99, written.latencies().quantile_ms(0.99)),
            (GENERATOR, busy * 100.0),
        ];
        Ok(Measurement::of(&read).counting([&written]).with_all(figures))
    }

    fn ycsb(&self) -> Result<Measurement, BenchError> {
        let mut served = self.serve(Load::Ycsb)?;
        let groups = vec![self.group(Load::Ycsb, self.connections)?];
        let run = self.run(&mut served, groups, &self.window(Load::Ycsb))?;
        let busy = run.busiest();
        let [outcome] = run.split()?;
        let mut measurement = Measurement::of(&outcome);
        for kind in &outcome.kinds {
            let (p99_ms, longest_ms) = (kind.latencies.quantile_ms(0.99), kind.latencies.longest_ms());
            measurement = match kind.name.as_str() {
                "read" => measurement.with(s1::READ_P99, p99_ms),
                _ => measurement.with_all([(s1::UPDATE_P99, p99_ms), (s1::UPDATE_LONGEST, longest_ms)]),
            };
        }
        Ok(measurement.with(GENERATOR, busy * 100.0))
    }

    /// Echo and finds, as far as the subject has them: a given server has no echo.
    fn transport(&self) -> Measured {
        let is_given = matches!(self.subject, Subject::Given(_));
        if is_given && self.settings.no_find {
            return Ok(None);
        }
        let echo = if is_given { Measurement::default() } else { self.echo()? };
        if self.settings.no_find || !self.subject.is_database() {
            return Ok(Some(echo));
        }
        let mut served = self.serve(Load::Read)?;
        let groups = vec![self.group(Load::Read, self.connections)?];
        let [found] = self.run(&mut served, groups, &self.window(Load::Read))?.split()?;
        let own_echo = echo.figure(RATE).filter(|rate| *rate > 0.0);
        let figures = [(s1::FINDS, found.rate()), (s1::FINDS_P99, found.latencies().quantile_ms(0.99))];
        let share = own_echo.map(|own_echo| (s1::OF_OWN_ECHO, found.rate() / own_echo));
        Ok(Some(echo.with_all(figures).counting([&found]).with_all(share)))
    }

    fn echo(&self) -> Result<Measurement, BenchError> {
        let reply_bytes = self.settings.reply_bytes.map_or_else(|| self.settings.bytes_of(Load::Read), Ok)?;
        let mut served = self.settings.serve_echo(self.subject, reply_bytes)?;
        let run = self.run(
            &mut served,
            vec![self.closed(Load::Read, self.connections, self.settings.stored, false)?],
            &self.window(Load::Read),
        )?;
        let busy = run.busiest();
        let [outcome] = run.split()?;
        Ok(Measurement::of(&outcome).with(GENERATOR, busy * 100.0))
    }

    /// A closed loop says how many fast requests get through; it says little about their latency, because
    /// fewer are sent when they wait. So an open loop follows: fast requests at one rate, timed from their
    /// intended starts, alone, beside the slow ones, and beside threads that only spin, at the priority of
    /// the server's pool threads. The spinning ones touch no server: what they cost is the price of a busy
    /// machine, and what the slow ones cost beyond it is the server's.
    fn mixed(&self) -> Result<Measurement, BenchError> {
        let mut served = self.serve(Load::Read)?;
        let window = self.window(Load::Read);
        let fast = self.group(Load::Read, self.connections)?;
        let slow = self.group(Load::Range, self.settings.slow_connections)?;
        let groups = vec![fast.clone(), slow.clone()];
        let [fast_outcome, slow_outcome] = self.run(&mut served, groups, &window)?.split()?;
        let figures = [
            (FAST_RATE, fast_outcome.rate()),
            (FAST_P99, fast_outcome.latencies().quantile_ms(0.99)),
            (FAST_LONGEST, fast_outcome.latencies().longest_ms()),
            (SLOW_RATE, slow_outcome.rate()),
            (SLOW_P99, slow_outcome.latencies().quantile_ms(0.99)),
        ];
        let measurement = Measurement::default().with_all(figures).counting([&fast_outcome, &slow_outcome]);
        let rate = self.settings.fast_rate.unwrap_or(OPEN_LOOP_SHARE * fast_outcome.rate());
        if rate < 1.0 {
            return Ok(measurement);
        }
        let paced = GroupSpec { pacing: Pacing::Open(Arrivals::constant(rate)), ..fast };
        let [alone] = self.run(&mut served, vec![paced.clone()], &window)?.split()?;
        let spinners = self.settings.rig.pin.with_server_cores(Spinners::start)?;
        let [spun] = self.run(&mut served, vec![paced.clone()], &window)?.split()?;
        drop(spinners);
        let [beside, slow_outcome] = self.run(&mut served, vec![paced, slow], &window)?.split()?;
        let p99 = |outcome: &Outcome| outcome.latencies().quantile_ms(0.99);
        let times = |base: &Outcome| p99(&beside) / p99(base).max(f64::MIN_POSITIVE);
        let figures = [
            (PACED_RATE, beside.rate()),
            (P99_ALONE, p99(&alone)),
            (P99_SPUN, p99(&spun)),
            (P99_BESIDE, p99(&beside)),
            (TIMES, times(&alone)),
            (TIMES_SPUN, times(&spun)),
        ];
        Ok(measurement.with_all(figures).counting([&alone, &spun, &beside, &slow_outcome]))
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
        let figures = [
            (CONNECTED, connected),
            (MEMORY, memory / connected.max(1.0)),
            (IDLE, share_of_core * 100.0),
            (ALONE, alone),
            (RATE, among.rate()),
            (SHARE, among.rate() / alone.max(f64::MIN_POSITIVE)),
        ];
        Ok(Measurement::default().with_all(figures).counting([&called, &before, &among, &after]))
    }

    /// A closed loop of fast requests.
    fn work(&self, served: &mut Served) -> Result<Outcome, BenchError> {
        let groups = vec![self.group(Load::Read, WORKING)?];
        let [outcome] = self.run(served, groups, &self.window(Load::Read))?.split()?;
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
        let figures = [
            (MONITORED, monitored.timed() as f64),
            (MONITOR_P50, monitored.latencies().quantile_ms(0.5)),
            (MONITOR_P99, monitored.latencies().quantile_ms(0.99)),
            (MONITOR_LONGEST, monitored.latencies().longest_ms()),
            (PUSHED, pushed.rate()),
            (PUSHED_P99, pushed.latencies().quantile_ms(0.99)),
            (SLOW, slow.rate()),
        ];
        Ok(Measurement::default().with_all(figures).counting([&monitored, &pushed, &slow]))
    }
}
