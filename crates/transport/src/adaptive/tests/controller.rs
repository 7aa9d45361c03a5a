//! Each rule of the controller, with the time given.

use crate::AdaptiveOptions;
use crate::adaptive::controller::{Controller, Snapshot, Step, is_idle, jittered, percent_of};
use crate::adaptive::options::MOST_THREADS;
use crate::adaptive::roster::Cause;
use std::time::Duration;

const STUCK: Duration = Duration::from_millis(250);
const LATENCY: Duration = Duration::from_micros(500);

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn options() -> AdaptiveOptions {
    AdaptiveOptions { reserved_threads: 2, ..AdaptiveOptions::default() }
}

/// A server whose figures a test changes as its time goes by.
struct Server {
    controller: Controller,
    options: AdaptiveOptions,
    seen: Snapshot,
}

impl Server {
    /// With as many threads as reserved, none in use, nothing queued.
    fn new(options: AdaptiveOptions) -> Self {
        let seen = Snapshot { running: options.reserved(), ..Snapshot::default() };
        Self { controller: Controller::default(), options, seen }
    }

    /// Lets time pass in which the threads are busy for a share of it.
    fn pass(&mut self, time: Duration, busy_percent: u32) {
        let running = time * self.seen.running as u32;
        self.seen.now += time;
        self.seen.running_time += running;
        self.seen.executing_time += running * busy_percent / 100;
    }

    fn step(&mut self) -> Step {
        self.controller.step(&self.seen, &self.options)
    }

    /// Busy for two stuck time-outs, so that utilisation is above the threshold whatever came before.
    fn make_busy(&mut self) {
        for _ in 0..2 {
            self.pass(STUCK, 100);
            self.step();
        }
        self.pass(STUCK, 100);
    }
}

#[track_caller]
fn assert_starts(step: Step, expected: usize, because: Cause) {
    match step {
        Step::Start { threads, cause, .. } if threads == expected && cause == because => {}
        other => panic!("expected {expected} to be started because of {because:?}, got {other:?}"),
    }
}

#[track_caller]
fn assert_listens(step: Step) {
    assert!(matches!(step, Step::Listen { .. }), "nothing is to be done, but the step is {step:?}");
}

#[test]
fn an_idle_pool_wakes_the_controller_once_per_stuck_time_out() {
    let mut server = Server::new(options());
    for _ in 0..10 {
        server.pass(STUCK, 0);
        assert_eq!(server.step(), Step::Listen { deaf: LATENCY * 10, most: STUCK });
    }
}

#[test]
fn one_thread_is_added_when_all_are_stuck() {
    let mut server = Server::new(options());
    server.seen.in_use = 2;
    server.seen.latest_begin = ms(100);
    server.seen.now = ms(349);
    assert!(!matches!(server.step(), Step::Start { .. }), "249 ms are not a whole stuck time-out");
    server.controller = Controller::default();
    server.seen.now = ms(350);
    assert_starts(server.step(), 1, Cause::StuckDetection);
}

#[test]
fn a_free_thread_a_pending_one_or_a_short_task_is_not_stuck() {
    for change in [
        (|seen| seen.in_use = 1) as fn(&mut Snapshot),
        |seen| seen.pending = 1,
        |seen| seen.latest_begin = ms(9_900),
    ] {
        let mut server = Server::new(options());
        server.seen.in_use = 2;
        server.seen.now = ms(10_000);
        change(&mut server.seen);
        assert_listens(server.step());
    }
}

#[test]
fn the_controller_comes_back_when_threads_would_be_stuck() {
    let mut server = Server::new(options());
    server.seen.in_use = 2;
    server.seen.latest_begin = ms(900);
    server.seen.now = ms(1_000);
    assert_eq!(server.step(), Step::Listen { deaf: LATENCY * 10, most: ms(150) });
}

#[test]
fn the_reserve_is_refilled_at_once() {
    let mut server = Server::new(AdaptiveOptions { reserved_threads: 8, ..options() });
    server.seen.running = 3;
    server.seen.pending = 1;
    assert_starts(server.step(), 4, Cause::BelowReserve);
    server.seen.pending = 5;
    assert_listens(server.step());
}

#[test]
fn a_million_reserved_threads_are_not_obeyed() {
    let mut server = Server::new(AdaptiveOptions { reserved_threads: 1_000_000, ..options() });
    server.seen.running = 10;
    assert_starts(server.step(), MOST_THREADS - 10, Cause::BelowReserve);
    server.seen.running = MOST_THREADS;
    server.seen.in_use = MOST_THREADS;
    server.seen.now = ms(10_000);
    assert!(!matches!(server.step(), Step::Start { .. }), "the pool grows beyond its bound");
}

#[test]
fn threads_that_panicked_are_replaced() {
    let mut server = Server::new(options());
    server.seen.running = 0;
    server.seen.crashed = 2;
    assert_starts(server.step(), 2, Cause::Replacement);
}

#[test]
fn below_the_idle_threshold_nothing_is_done() {
    let mut server = Server::new(options());
    server.seen.queued = 1_000;
    server.seen.in_use = 1;
    for _ in 0..10 {
        server.pass(STUCK, 59);
        assert_listens(server.step());
    }
}

#[test]
fn one_thread_is_added_when_tasks_starve() {
    let mut server = Server::new(options());
    server.make_busy();
    server.seen.in_use = 2;
    server.seen.latest_begin = server.seen.now;
    server.seen.queued = 1;
    assert_eq!(server.step(), Step::Sleep(LATENCY), "tasks get the queue latency before they count");
    server.pass(LATENCY, 100);
    assert_starts(server.step(), 1, Cause::Starvation);
    // With the new thread free, the task is not starved any more.
    server.seen.running = 3;
    assert_eq!(server.step(), Step::Sleep(LATENCY));
    server.pass(LATENCY, 100);
    assert_listens(server.step());
}

#[test]
fn tasks_that_were_taken_meanwhile_do_not_starve() {
    let mut server = Server::new(options());
    server.make_busy();
    server.seen.in_use = 2;
    server.seen.latest_begin = server.seen.now;
    server.seen.queued = 5;
    server.step();
    server.pass(LATENCY, 100);
    server.seen.queued = 0;
    assert_listens(server.step());
}

#[test]
fn pending_threads_are_waited_for_up_to_the_stuck_time_out() {
    let mut server = Server::new(options());
    server.make_busy();
    server.seen.in_use = 2;
    server.seen.queued = 9;
    server.seen.pending = 1;
    let began = server.seen.now;
    while server.seen.now - began < STUCK {
        server.seen.latest_begin = server.seen.now;
        assert_eq!(server.step(), Step::Sleep(LATENCY), "a thread is on its way");
        server.pass(LATENCY, 100);
    }
    assert_listens(server.step());
    // It has arrived, and tasks wait still.
    server.step();
    server.seen.pending = 0;
    server.seen.running = 3;
    server.seen.in_use = 3;
    server.seen.latest_begin = server.seen.now;
    server.pass(LATENCY, 100);
    assert_starts(server.step(), 1, Cause::Starvation);
}

#[test]
fn a_pool_that_only_computes_does_not_grow() {
    let mut server = Server::new(options());
    server.make_busy();
    server.seen.in_use = 2;
    server.seen.queued = 1_000;
    server.seen.processors_are_the_limit = true;
    for _ in 0..100 {
        server.seen.latest_begin = server.seen.now;
        let step = server.step();
        assert!(!matches!(step, Step::Start { .. }), "another thread would only take turns: {step:?}");
        server.pass(ms(10), 100);
    }
}

#[test]
fn utilisation_forgets_the_past() {
    let mut server = Server::new(options());
    for _ in 0..10_000 {
        server.pass(STUCK, 0);
        server.step();
    }
    server.make_busy();
    server.seen.in_use = 2;
    server.seen.latest_begin = server.seen.now;
    server.seen.queued = 1;
    assert_eq!(server.step(), Step::Sleep(LATENCY), "hours of idling hide that the pool is busy now");
}

#[test]
fn options_count_from_the_next_step_on() {
    let mut server = Server::new(options());
    server.pass(STUCK, 59);
    assert_listens(server.step());
    server.options.idle_threshold_percent = 50;
    server.pass(STUCK, 59);
    assert_eq!(server.step(), Step::Sleep(LATENCY));
    server.options.reserved_threads = 5;
    server.pass(LATENCY, 0);
    assert_listens(server.step());
    assert_starts(server.step(), 3, Cause::BelowReserve);
}

#[test]
fn workers_end_under_the_threshold_only() {
    let options = options();
    assert!(is_idle(ms(599), ms(1000), &options));
    assert!(!is_idle(ms(600), ms(1000), &options));
    assert!(is_idle(Duration::ZERO, Duration::ZERO, &options));
    assert_eq!(percent_of(ms(3), ms(2)), 100);
}

#[test]
fn run_times_differ_by_the_jitter() {
    let options = AdaptiveOptions { run_time: ms(100), run_time_jitter: ms(10), ..options() };
    let times: Vec<_> = (0..20_001_u64).map(|random| jittered(&options, random)).collect();
    assert_eq!(times.iter().min(), Some(&ms(90)));
    assert_eq!(times.iter().max(), Some(&ms(110)));
    let exact = AdaptiveOptions { run_time_jitter: Duration::ZERO, ..options };
    assert_eq!(jittered(&exact, u64::MAX), ms(100));
}
