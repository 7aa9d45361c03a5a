//! Several generator threads in one process, which begin together and whose outcomes are one.

use crate::error::BenchError;
use crate::generator::engine::Generator;
use crate::generator::outcome::RunOutcome;
use crate::generator::progress::Gauge;
use crate::generator::spec::{GroupSpec, Window};
use crate::generator::traffic::Share;
use crate::interrupt::Interrupt;
use crate::process::resident_bytes;
use crate::threads::run_all;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// What is to be sent to whom, and by how many.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Load {
    /// Where connections go whose group names no addresses.
    pub(crate) address: SocketAddr,
    pub(crate) groups: Vec<GroupSpec>,
    /// Generator threads in each process.
    pub(crate) threads: u32,
    /// Processes; 1: this one.
    pub(crate) processes: u32,
    pub(crate) seed: u64,
}

impl Load {
    /// With at least one thread and process, and no more of them than one group has connections: a thread
    /// without any could not send its part.
    pub(crate) fn bounded(mut self) -> Self {
        let most = self.groups.iter().map(|group| group.connections).max().unwrap_or_default().max(1);
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        self.processes = self.processes.clamp(1, most);
        self.threads = self.threads.clamp(1, most / self.processes);
        self
    }

    /// The share of one thread of one process, both counted from 0.
    pub(crate) fn share(&self, process: u32, thread: u32) -> Share {
        let index = process * self.threads + thread;
        Share {
            index,
            of: self.processes * self.threads,
            seed: self.seed.wrapping_add(u64::from(index) << 32),
        }
    }
}

/// The generator threads of this process, with their connections.
#[derive(Debug)]
pub(crate) struct Crew {
    generators: Vec<(Generator, Share)>,
    resident_bytes: u64,
    connections_bytes: u64,
}

impl Crew {
    /// Opens the connections of this process's part of the load, each thread its own.
    pub(crate) fn open(load: &Load, process: u32, interrupt: &Interrupt) -> Result<Self, BenchError> {
        let before = memory();
        let shares = (0..load.threads).map(|thread| load.share(process, thread));
        let open = |share| {
            move || {
                let opened = Generator::connect(load.address, &load.groups, share, interrupt);
                opened.map(|generator| (generator, share))
            }
        };
        let generators = run_all(shares.map(open), Duration::MAX, &mut || ())?;
        let after = memory();
        Ok(Crew { generators, resident_bytes: after, connections_bytes: after.saturating_sub(before) })
    }

    pub(crate) fn gauges(&self) -> Vec<Arc<Gauge>> {
        self.generators.iter().map(|(generator, _)| generator.gauge()).collect()
    }

    /// Runs all threads together. Meanwhile this thread calls `tick` every `interval`.
    pub(crate) fn run(
        &mut self,
        window: &Window,
        interval: Duration,
        tick: &mut dyn FnMut(),
    ) -> Result<RunOutcome, BenchError> {
        let barrier = &Barrier::new(self.generators.len());
        let tasks = self.generators.iter_mut().map(|(generator, share)| {
            let window = window.share(*share);
            move || {
                barrier.wait();
                generator.run(&window)
            }
        });
        let outcomes = run_all(tasks, interval, tick)?;
        let no_thread = || BenchError::Usage("a load has at least one thread".to_owned());
        let mut sum = outcomes.into_iter().reduce(RunOutcome::merged).ok_or_else(no_thread)?;
        (sum.resident_bytes, sum.connections_bytes) = (self.resident_bytes, self.connections_bytes);
        Ok(sum)
    }
}

/// Resident memory of this process; 0 where the kernel does not tell.
fn memory() -> u64 {
    resident_bytes(std::process::id()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::echo::EchoInTest;
    use crate::generator::Pacing;
    use crate::generator::progress::snapshot_of;
    use crate::workload::pings;

    fn load(address: SocketAddr, connections: usize, pacing: Pacing, threads: u32) -> Load {
        let groups = vec![GroupSpec::new(connections, pings(), pacing)];
        Load { address, groups, threads, processes: 1, seed: 1 }.bounded()
    }

    fn run(load: &Load, window: &Window) -> RunOutcome {
        let mut crew = Crew::open(load, 0, &Interrupt::default()).expect("opens");
        crew.run(window, Duration::from_secs(1), &mut || ()).expect("runs")
    }

    #[test]
    fn threads_share_connections_and_operations() {
        let echo = EchoInTest::start(200);
        for (connections, threads, busy) in [(10, 3, 3), (2, 8, 2), (1, 4, 1)] {
            let load = load(echo.address, connections, Pacing::Closed, threads);
            let window = Window {
                warm_up: Duration::ZERO,
                duration: Duration::from_secs(60),
                operations: Some(1_001),
            };
            let run = run(&load, &window);
            assert_eq!(run.busy.len(), busy, "threads of {connections} connections");
            let [outcome] = run.split().expect("one group");
            assert_eq!((outcome.operations(), outcome.connected), (1_001, connections), "{threads} threads");
            assert_eq!(outcome.error_count(), 0);
        }
    }

    #[test]
    fn threads_share_an_open_loop() {
        let echo = EchoInTest::start(200);
        let pacing = Pacing::Open("2000".parse().expect("arrivals"));
        let window = Window::lasting(Duration::ZERO, Duration::from_millis(100));
        // Three connections on two threads: the starts are shared all the same.
        let [outcome] = run(&load(echo.address, 3, pacing, 2), &window).split().expect("one group");
        assert_eq!((outcome.timed(), outcome.error_count()), (200, 0));
    }

    #[test]
    fn progress_is_seen_while_threads_run() {
        let echo = EchoInTest::start(200);
        let load = load(echo.address, 4, Pacing::Closed, 2);
        let mut crew = Crew::open(&load, 0, &Interrupt::default()).expect("opens");
        let gauges = crew.gauges();
        let mut seen = Vec::new();
        let window = Window::lasting(Duration::ZERO, Duration::from_millis(300));
        crew.run(&window, Duration::from_millis(20), &mut || seen.push(snapshot_of(&gauges))).expect("runs");
        assert!(seen.iter().any(|snapshot| snapshot.open == 4 && snapshot.operations > 0), "{seen:?}");
        assert!(seen.is_sorted_by_key(|snapshot| snapshot.operations), "operations go back: {seen:?}");
    }

    #[test]
    fn an_interrupt_ends_all_threads_with_what_was_seen() {
        let echo = EchoInTest::start(200);
        let load = load(echo.address, 4, Pacing::Closed, 2);
        let interrupt = Interrupt::default();
        let mut crew = Crew::open(&load, 0, &interrupt).expect("opens");
        let gauges = crew.gauges();
        let mut tick = || {
            if snapshot_of(&gauges).operations > 0 {
                interrupt.raise();
            }
        };
        let window = Window::lasting(Duration::ZERO, Duration::from_secs(3_600));
        let outcome = crew.run(&window, Duration::from_millis(10), &mut tick).expect("runs");
        assert!(outcome.interrupted, "it ran for an hour");
        let group = outcome.groups.first().expect("a group");
        assert!(group.operations() > 0 && group.elapsed < Duration::from_secs(3_600), "{:?}", group.elapsed);
        assert_eq!(group.error_count(), 0);
    }
}
