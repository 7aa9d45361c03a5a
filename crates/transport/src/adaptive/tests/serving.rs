//! The running model, fed with tasks that are no connections.

use crate::AdaptiveOptions;
use crate::adaptive::Adaptive;
use crate::event_loop::LoopHooks;
use crate::statistics::Figure;
use crate::task::TaskQueue;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const STACK: usize = 256 * 1024;

/// Short times, so that what takes seconds in a server takes milliseconds here.
fn options() -> AdaptiveOptions {
    AdaptiveOptions {
        reserved_threads: 1,
        run_time: Duration::from_millis(20),
        run_time_jitter: Duration::from_millis(5),
        stuck_thread_timeout: Duration::from_millis(20),
        queues: 2,
        ..AdaptiveOptions::default()
    }
}

#[derive(Default)]
struct Hooks {
    rests: AtomicUsize,
}

impl LoopHooks for Hooks {
    fn loop_started(&self) {}
    fn turn_ended(&self) {}
    fn thread_rests(&self) {
        self.rests.fetch_add(1, Ordering::SeqCst);
    }
}

fn start(options: AdaptiveOptions) -> Adaptive {
    Adaptive::start(options, STACK, Arc::new(Hooks::default())).expect("threads and descriptors")
}

/// Has a worker run something.
fn run(model: &Adaptive, queue: usize, what: impl FnOnce() + Send + 'static) {
    let home = Arc::clone(&model.homes[queue]);
    let (task, handle) = async_task::spawn(async move { what() }, move |task| home.push(task));
    handle.detach();
    task.schedule();
}

fn figure(model: &Adaptive, path: &[&str]) -> u64 {
    let mut figures = model.statistics().figures;
    for name in path {
        match figures.into_iter().find(|(known, _)| known == name) {
            Some((_, Figure::Count(count))) => return count,
            Some((_, Figure::Group(group))) => figures = group,
            _ => break,
        }
    }
    panic!("no figure {path:?}");
}

#[track_caller]
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not happen within 20 s");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Holds up who waits at it until it is opened.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().expect("no panic") = true;
        self.opened.notify_all();
    }

    fn wait(&self) {
        let open = self.open.lock().expect("no panic");
        drop(self.opened.wait_while(open, |open| !*open));
    }
}

#[test]
fn blocked_workers_are_joined_by_others_that_end_when_it_is_over() {
    let model = start(options());
    let gate = Arc::new(Gate::default());
    let blocked = Arc::new(AtomicUsize::new(0));
    for number in 0..5 {
        let (gate, blocked) = (Arc::clone(&gate), Arc::clone(&blocked));
        run(&model, number % 2, move || {
            blocked.fetch_add(1, Ordering::SeqCst);
            gate.wait();
        });
    }
    eventually("a thread for each blocked task", || blocked.load(Ordering::SeqCst) == 5);
    assert!(figure(&model, &["threadsInUse"]) >= 5);
    let stuck = figure(&model, &["threadCreationCauses", "stuckDetection"]);
    let starved = figure(&model, &["threadCreationCauses", "starvation"]);
    assert!(
        stuck + starved >= 4,
        "{stuck} threads because of stuck ones and {starved} because of starvation"
    );
    gate.open();
    eventually("back to the reserve", || figure(&model, &["threadsRunning"]) == 1);
    assert!(figure(&model, &["threadsEndedIdle"]) >= 4);
    eventually("all counted", || figure(&model, &["totalExecuted"]) == 5);
    assert_eq!(figure(&model, &["metricsByTask", "resumeMessage", "totalExecuted"]), 5);
    assert_eq!(figure(&model, &["tasksQueued"]), 0);
}

#[test]
fn a_worker_that_a_panic_ends_is_replaced() {
    let model = start(options());
    run(&model, 0, || panic!("the test's own panic"));
    eventually("a replacement", || figure(&model, &["threadCreationCauses", "replacement"]) == 1);
    let done = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&done);
    run(&model, 0, move || counted.store(1, Ordering::SeqCst));
    eventually("the next task", || done.load(Ordering::SeqCst) == 1);
    eventually("back to the reserve", || figure(&model, &["threadsRunning"]) == 1);
}

#[test]
fn the_reserve_can_be_changed_while_running() {
    let slow_to_end = AdaptiveOptions { run_time: Duration::from_hours(1), ..options() };
    let model = start(slow_to_end);
    model.set_options(AdaptiveOptions { reserved_threads: 6, ..slow_to_end }).expect("valid options");
    eventually("six threads", || figure(&model, &["threadsRunning"]) == 6);
    assert_eq!(figure(&model, &["threadCreationCauses", "belowReserve"]), 6);
    model.set_options(AdaptiveOptions { reserved_threads: 2, ..options() }).expect("valid options");
    eventually("two threads", || figure(&model, &["threadsRunning"]) == 2);
    let absurd = AdaptiveOptions { reserved_threads: 1_000_000, ..options() };
    let refused = model.set_options(absurd).expect_err("a million threads");
    assert!(refused.to_string().contains("ReservedThreads"), "unclear message: {refused}");
    assert_eq!(model.core.options().reserved_threads, 2, "refused options change nothing");
}

#[test]
fn tasks_that_nobody_runs_are_dropped_with_the_model() {
    let model = start(options());
    let gate = Arc::new(Gate::default());
    let held = Arc::clone(&gate);
    run(&model, 0, move || held.wait());
    eventually("the worker to be held", || figure(&model, &["threadsInUse"]) == 1);
    let core = Arc::downgrade(&model.core);
    let token = Arc::new(());
    for queue in 0..2 {
        let token = Arc::clone(&token);
        run(&model, queue, move || drop(token));
    }
    gate.open();
    drop(model);
    assert_eq!(Arc::strong_count(&token), 1, "a task was neither run nor dropped");
    eventually("the end of all threads", || core.strong_count() == 0);
}

#[test]
fn options_that_are_not_valid_start_nothing() {
    let absurd = AdaptiveOptions { reserved_threads: 1_000_000, ..options() };
    assert!(Adaptive::start(absurd, STACK, Arc::new(Hooks::default())).is_err());
}

#[test]
fn a_worker_that_rests_is_told_once() {
    let hooks = Arc::new(Hooks::default());
    let told: Arc<dyn LoopHooks> = Arc::<Hooks>::clone(&hooks);
    let model = Adaptive::start(options(), STACK, told).expect("threads and descriptors");
    for rests in 1..3 {
        // Long enough to be seen among nanoseconds.
        run(&model, 0, || thread::sleep(Duration::from_millis(1)));
        let deadline = Instant::now() + Duration::from_secs(20);
        while hooks.rests.load(Ordering::SeqCst) < rests {
            assert!(Instant::now() < deadline, "rest {rests} was not told");
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(100));
        assert_eq!(hooks.rests.load(Ordering::SeqCst), rests, "told again and again");
    }
}
