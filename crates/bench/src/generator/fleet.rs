//! The load of one process or of several: one process may have too few descriptors or addresses for all
//! connections.
//!
//! ```text
//!   Fleet ──orders──▶ worker process ──▶ Crew ──▶ Generator per thread
//!         ◀─reports──                 (with one process the crew is this one's)
//! ```

use crate::error::BenchError;
use crate::generator::clock::monotonic;
use crate::generator::crew::{Crew, Load};
use crate::generator::outcome::RunOutcome;
use crate::generator::progress::{Gauge, Snapshot, snapshot_of};
use crate::generator::spec::Window;
use crate::generator::worker::{Order, Report};
use crate::interrupt::Interrupt;
use crate::threads::run_all;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between the order to run and the start: longer than an order takes to arrive.
const LEAD: Duration = Duration::from_millis(100);
/// How often the interrupt is looked at.
const NAP: Duration = Duration::from_millis(50);
/// How often somebody is told about progress.
const TICK: Duration = Duration::from_secs(1);
/// How long after the interrupt outcomes are waited for.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// What starts a generator process: this program with the words of its hidden command.
#[derive(Debug, Clone)]
pub(crate) struct WorkerCommand {
    pub(crate) words: Vec<String>,
}

impl Default for WorkerCommand {
    fn default() -> Self {
        WorkerCommand { words: ["bench", "worker"].map(str::to_owned).to_vec() }
    }
}

/// Everything that generates one load, with its connections open.
#[derive(Debug)]
pub(crate) enum Fleet {
    Here(Box<Crew>),
    Elsewhere(Workers),
}

impl Fleet {
    /// Opens all connections. One that is refused counts as an error of its group.
    ///
    /// # Errors
    /// When processes cannot be started, one of them fails, or Ctrl-C is pressed.
    pub(crate) fn open(
        load: Load,
        command: &WorkerCommand,
        interrupt: &Interrupt,
    ) -> Result<Self, BenchError> {
        let load = load.bounded();
        if load.processes == 1 {
            return Ok(Fleet::Here(Box::new(Crew::open(&load, 0, interrupt)?)));
        }
        Workers::open(&load, command, interrupt).map(Fleet::Elsewhere)
    }

    /// Runs the load; `observe` is called once a second meanwhile. May be called again; connections stay
    /// open. Ctrl-C ends it with what was seen until then, and the outcome says so.
    ///
    /// # Errors
    /// When nothing was seen at all. A process that fails on the way is named in the outcome.
    pub(crate) fn run(
        &mut self,
        window: &Window,
        observe: &mut dyn FnMut(&Snapshot),
    ) -> Result<RunOutcome, BenchError> {
        match self {
            Fleet::Here(crew) => {
                let gauges = crew.gauges();
                crew.run(window, TICK, &mut || observe(&snapshot_of(&gauges)))
            }
            Fleet::Elsewhere(workers) => workers.run(window, observe),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Workers {
    workers: Vec<Worker>,
    /// To end them whatever they do.
    processes: Vec<OwnedFd>,
    interrupt: Interrupt,
}

#[derive(Debug)]
struct Worker {
    number: u32,
    child: Child,
    orders: Option<ChildStdin>,
    reports: Lines<BufReader<ChildStdout>>,
    gauge: Arc<Gauge>,
    /// Why nothing more is to be expected of it.
    failure: Option<String>,
}

impl Workers {
    fn open(load: &Load, command: &WorkerCommand, interrupt: &Interrupt) -> Result<Self, BenchError> {
        let mut all = Workers { workers: Vec::new(), processes: Vec::new(), interrupt: interrupt.clone() };
        for number in 0..load.processes {
            let worker = Worker::start(command, number)?;
            let process = pidfd_open(Pid::from_child(&worker.child), PidfdFlags::empty());
            all.processes.push(process.map_err(|error| BenchError::io("watch a process")(error.into()))?);
            all.workers.push(worker);
        }
        let order = |process| Order::Open { load: Box::new(load.clone()), process };
        all.ask(&order, Duration::ZERO, &mut |_| ())?;
        interrupt.check()?;
        let failure = all.failures().next();
        match failure {
            Some(problem) => Err(BenchError::Program { program: "a generator process", problem }),
            None => Ok(all),
        }
    }

    fn failures(&self) -> impl Iterator<Item = String> {
        self.workers.iter().filter_map(|worker| worker.failure.clone())
    }

    /// What the processes report on an order. After Ctrl-C they have so much time to end by themselves.
    fn ask(
        &mut self,
        order: &(dyn Fn(u32) -> Order + Sync),
        patience: Duration,
        observe: &mut dyn FnMut(&Snapshot),
    ) -> Result<Vec<Report>, BenchError> {
        let gauges: Vec<Arc<Gauge>> = self.workers.iter().map(|worker| Arc::clone(&worker.gauge)).collect();
        let interrupt = &self.interrupt;
        let able = self.workers.iter_mut().filter(|worker| worker.failure.is_none());
        let tasks = able.map(|worker| move || Ok(worker.carry_out(&order(worker.number), interrupt)));
        let (mut told, mut stopped) = (Instant::now(), None::<Instant>);
        let reports = run_all(tasks, NAP, &mut || {
            if told.elapsed() >= TICK {
                told = Instant::now();
                observe(&snapshot_of(&gauges));
            }
            if interrupt.check().is_err() && stopped.get_or_insert_with(Instant::now).elapsed() >= patience {
                for process in &self.processes {
                    // It may have ended.
                    let _ = pidfd_send_signal(process, Signal::KILL);
                }
            }
        })?;
        Ok(reports.into_iter().flatten().collect())
    }

    fn run(&mut self, window: &Window, observe: &mut dyn FnMut(&Snapshot)) -> Result<RunOutcome, BenchError> {
        let start_at = monotonic() + LEAD.as_nanos() as u64;
        let reports = self.ask(&|_| Order::Run { window: *window, start_at }, LAST_WORDS, observe)?;
        let outcomes = reports.into_iter().filter_map(|report| match report {
            Report::Outcome(outcome) => Some(*outcome),
            _ => None,
        });
        let Some(mut sum) = outcomes.reduce(RunOutcome::merged) else {
            let problem = self.failures().collect::<Vec<_>>().join("; ");
            return Err(BenchError::Program { program: "the generator processes", problem });
        };
        sum.interrupted |= self.interrupt.check().is_err();
        sum.failures.extend(self.failures());
        Ok(sum)
    }
}

impl Worker {
    fn start(command: &WorkerCommand, number: u32) -> Result<Self, BenchError> {
        let program = std::env::current_exe().map_err(BenchError::io("find this program's file"))?;
        let mut child = Command::new(program)
            .args(&command.words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is this process's, which passes it on: otherwise nobody could tell the first one from
            // the second.
            .process_group(0)
            .spawn()
            .map_err(BenchError::io("start a generator process"))?;
        let (orders, output) = (child.stdin.take(), child.stdout.take());
        let no_output = || BenchError::Usage("a generator process has no output".to_owned());
        let reports = BufReader::new(output.ok_or_else(no_output)?).lines();
        Ok(Worker { number, child, orders, reports, gauge: Arc::default(), failure: None })
    }

    /// Gives an order and waits for what becomes of it; `None` when the process fails.
    fn carry_out(&mut self, order: &Order, interrupt: &Interrupt) -> Option<Report> {
        self.order(order);
        let mut stopped = false;
        let problem = loop {
            let Some(Ok(line)) = self.reports.next() else { break self.ending() };
            match serde_json::from_str(&line) {
                Ok(Report::Progress(snapshot)) => self.gauge.set_all(snapshot),
                Ok(Report::Failed(problem)) => break problem,
                Ok(report) => return Some(report),
                // Other lines are not for us.
                Err(_) => {}
            }
            if !stopped && interrupt.check().is_err() {
                stopped = true;
                self.order(&Order::Stop);
            }
        };
        self.failure = Some(format!("generator process {}: {problem}", self.number + 1));
        self.gauge.set_all(Snapshot::default());
        None
    }

    /// A process that takes no orders any more is noticed by the end of its output.
    fn order(&mut self, order: &Order) {
        if let Some(orders) = &mut self.orders
            && let Ok(mut line) = serde_json::to_vec(order)
        {
            line.push(b'\n');
            let _ = orders.write_all(&line).and_then(|()| orders.flush());
        }
    }

    /// How the process ended, whose output has.
    fn ending(&mut self) -> String {
        match self.child.wait() {
            Ok(status) => format!("it ended early: {status}"),
            Err(error) => format!("it ended early, and nobody knows how: {error}"),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The end of its input ends it; a process that is stuck is killed.
        self.orders = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::echo::EchoInTest;
    use crate::generator::{GroupSpec, Pacing, serve_worker};
    use crate::workload::pings;
    use rustix::process::kill_process;

    /// Not a test: what this program does as a generator process of the tests below.
    #[test]
    #[ignore = "run by the tests of fleets"]
    fn worker_process() {
        println!();
        serve_worker().expect("serves");
    }

    fn open(echo: &EchoInTest, interrupt: &Interrupt) -> Fleet {
        let groups = vec![GroupSpec::new(11, pings(), Pacing::Closed)];
        let load = Load { address: echo.address, groups, threads: 2, processes: 2, seed: 1 };
        let words = ["--exact", "generator::fleet::tests::worker_process", "--ignored", "--nocapture"];
        let command = WorkerCommand { words: words.map(str::to_owned).to_vec() };
        Fleet::open(load, &command, interrupt).expect("opens")
    }

    fn counted(operations: u64) -> Window {
        Window { warm_up: Duration::ZERO, duration: Duration::from_secs(60), operations: Some(operations) }
    }

    const HOUR: Window = Window::lasting(Duration::ZERO, Duration::from_secs(3_600));

    #[test]
    fn processes_share_the_load() {
        let echo = EchoInTest::start(200);
        let mut fleet = open(&echo, &Interrupt::default());
        for _ in 0..2 {
            let run = fleet.run(&counted(2_003), &mut |_| ()).expect("runs");
            assert_eq!((run.busy.len(), run.interrupted), (4, false), "two threads in each of two processes");
            assert_eq!(run.failures, Vec::<String>::new());
            assert!(run.resident_bytes > 0, "the processes' memory is not known");
            let [outcome] = run.split().expect("one group");
            assert_eq!((outcome.operations(), outcome.connected, outcome.timed()), (2_003, 11, 2_003));
        }
    }

    #[test]
    fn a_process_that_dies_is_named_and_the_other_one_counts() {
        let echo = EchoInTest::start(200);
        let interrupt = Interrupt::default();
        let mut fleet = open(&echo, &interrupt);
        let Fleet::Elsewhere(workers) = &fleet else { panic!("one process") };
        let victim = Pid::from_child(&workers.workers[1].child);
        let mut seen = 0;
        let run = fleet.run(&HOUR, &mut |snapshot| {
            seen += 1;
            if seen == 1 {
                assert_eq!(snapshot.open, 11, "all connections are open");
                kill_process(victim, Signal::KILL).expect("kills");
            } else {
                interrupt.raise();
            }
        });
        let run = run.expect("the other process goes on");
        let [failure] = run.failures.as_slice() else { panic!("{:?}", run.failures) };
        assert!(failure.starts_with("generator process 2: it ended early: signal: 9"), "{failure}");
        assert!(run.interrupted && run.groups[0].operations() > 0);
        assert_eq!(run.groups[0].connected, 6);
    }

    #[test]
    fn a_process_that_cannot_begin_is_an_error() {
        let echo = EchoInTest::start(200);
        let load = Load { address: echo.address, groups: Vec::new(), threads: 1, processes: 2, seed: 1 };
        let command = WorkerCommand { words: vec!["--no-such-option".to_owned()] };
        let opened = Workers::open(&load, &command, &Interrupt::default());
        assert!(matches!(opened, Err(BenchError::Program { .. })), "{opened:?}");
    }
}
