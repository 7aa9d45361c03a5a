//! The rules with a clock of the test's own, and the pool with real threads.

use super::offer::OFFER_EVERY;
use super::queue::Decision;
use super::*;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Barrier, Mutex};
use std::task::Poll;

/// Long enough for any machine; only a broken pool lets it pass.
const PATIENCE: Duration = Duration::from_secs(30);

fn options(min_threads: usize, max_threads: usize) -> PoolOptions {
    PoolOptions { min_threads, max_threads, idle: Duration::ZERO }
}

/// A queue for a machine with two cores, and the time that its test makes pass.
struct Ruled {
    queue: PoolQueue<u32>,
    start: Instant,
}

impl Ruled {
    fn new(min_threads: usize, max_threads: usize) -> Self {
        Self::with(TaskLength::Any, min_threads, max_threads)
    }

    fn with(length: TaskLength, min_threads: usize, max_threads: usize) -> Self {
        let queue = PoolQueue::new(options(min_threads, max_threads), 2, length);
        Self { queue, start: Instant::now() }
    }

    fn at(&self, micros: u64) -> Instant {
        self.start + Duration::from_micros(micros)
    }

    fn push(&self, task: u32, micros: u64) {
        assert!(self.queue.push(task, self.at(micros)).is_ok(), "the pool has not stopped");
    }

    /// The controller wants a thread, and it is started.
    fn starts(&self, micros: u64, unblocked: Option<usize>) -> Worker {
        assert!(self.queue.watch(&|| self.at(micros), &|| unblocked), "the pool has not stopped");
        Worker::new()
    }

    fn next(&self, worker: &mut Worker, micros: u64) -> Option<u32> {
        self.queue.next(worker, &|| self.at(micros))
    }

    /// Two threads, each with a task of so many.
    fn two_at_work(&self, tasks: u32) -> [Worker; 2] {
        let mut workers = [self.starts(0, None), self.starts(0, None)];
        (0..tasks).for_each(|task| self.push(task, 0));
        for worker in &mut workers {
            assert!(self.next(worker, 0).is_some(), "there is a task for it");
        }
        workers
    }

    /// What the controller does without being told who runs.
    fn decides(&self, micros: u64, expected: Decision) {
        assert_eq!(self.queue.decision(self.at(micros)), expected, "after {micros} µs");
    }
}

fn pause(micros: u64) -> Decision {
    Decision::Sleep(Some(Duration::from_micros(micros)))
}

#[test]
fn as_many_threads_as_cores_are_started_at_once() {
    let ruled = Ruled::new(0, 4);
    ruled.decides(0, Decision::Sleep(None));
    for task in 0..4 {
        ruled.push(task, 0);
    }
    let (mut first, mut second) = (ruled.starts(0, None), ruled.starts(0, None));
    ruled.decides(0, pause(1_000));
    assert_eq!(ruled.next(&mut first, 10), Some(0), "tasks run in their order");
    assert_eq!(ruled.next(&mut second, 10), Some(1), "tasks run in their order");
    ruled.decides(999, pause(1));
    ruled.decides(1_000, Decision::AskWhoRuns);
}

#[test]
fn the_minimum_is_started_without_work() {
    let ruled = Ruled::new(2, 4);
    let _workers = [ruled.starts(0, None), ruled.starts(0, None)];
    ruled.decides(0, Decision::Sleep(None));
}

#[test]
fn blocked_threads_are_replaced_one_in_an_interval() {
    let ruled = Ruled::new(2, 4);
    let _workers = ruled.two_at_work(5);
    let mut third = ruled.starts(1_000, Some(1));
    assert_eq!(ruled.next(&mut third, 1_000), Some(2));
    ruled.decides(1_999, pause(1));
    let mut fourth = ruled.starts(2_000, Some(0));
    assert_eq!(ruled.next(&mut fourth, 2_000), Some(3));
    // The maximum: the last task waits for one of the four.
    assert!(!ruled.queue.after_asking(Some(0), ruled.at(100_000)), "a fifth thread where four are allowed");
    assert_eq!(ruled.queue.counts().0.started_for_blocked, 2);
}

#[test]
fn threads_beyond_the_cores_end_once_they_compute() {
    let ruled = Ruled::new(2, 16);
    let mut workers = ruled.two_at_work(100);
    let mut third = ruled.starts(1_000, Some(1));
    let mut fourth = ruled.starts(2_000, Some(0));
    assert!(ruled.next(&mut third, 2_000).is_some() && ruled.next(&mut fourth, 2_000).is_some());
    assert!(!ruled.queue.after_asking(Some(2), ruled.at(10_000)));
    assert!(ruled.next(&mut third, 10_000).is_some(), "as many compute as there are cores");
    assert!(!ruled.queue.after_asking(Some(3), ruled.at(20_000)));
    assert_eq!(ruled.next(&mut third, 20_000), None, "three compute on two cores");
    assert!(ruled.next(&mut fourth, 20_000).is_some(), "one ends for each look");
    assert!(!ruled.queue.after_asking(Some(3), ruled.at(30_000)));
    assert_eq!(ruled.next(&mut fourth, 30_000), None);
    assert!(!ruled.queue.after_asking(Some(3), ruled.at(40_000)));
    for worker in &mut workers {
        assert!(ruled.next(worker, 40_000).is_some(), "a core each");
    }
}

#[test]
fn threads_for_what_is_short_stay_when_they_are_seen_computing() {
    let ruled = Ruled::with(TaskLength::Short, 2, 4);
    let _workers = ruled.two_at_work(100);
    let mut third = ruled.starts(1_000, Some(1));
    assert!(ruled.next(&mut third, 1_000).is_some());
    assert!(!ruled.queue.after_asking(Some(3), ruled.at(10_000)), "enough compute");
    assert!(ruled.next(&mut third, 10_000).is_some(), "three compute for a moment");
    let mut fourth = ruled.starts(20_000, Some(1));
    assert!(ruled.next(&mut fourth, 20_000).is_some());
    ruled.decides(50_000, Decision::Sleep(None));
}

#[test]
fn computing_threads_are_not_joined_by_others() {
    let ruled = Ruled::new(2, 16);
    let _workers = ruled.two_at_work(100);
    let mut now = 1_000;
    for _ in 0..3 {
        assert!(!ruled.queue.after_asking(Some(2), ruled.at(now)), "a third thread for two cores at work");
        ruled.decides(now, pause(1_000));
        now += 1_000;
    }
    assert!(ruled.queue.after_asking(Some(1), ruled.at(now)), "a core is free, and a task waits");
}

#[test]
fn where_nothing_is_known_a_standstill_counts_as_blocked() {
    let ruled = Ruled::new(1, 16);
    let mut worker = ruled.starts(0, None);
    for task in 0..100 {
        ruled.push(task, 0);
    }
    let mut second = ruled.starts(0, None);
    ruled.next(&mut worker, 0);
    ruled.next(&mut second, 5_000);
    assert!(!ruled.queue.after_asking(None, ruled.at(14_999)), "a task was taken within 10 ms");
    assert!(ruled.queue.after_asking(None, ruled.at(23_000)), "nobody has taken a task for 18 ms");
}

#[test]
fn a_thread_that_cannot_be_started_is_asked_for_later() {
    let ruled = Ruled::new(0, 4);
    ruled.push(0, 0);
    drop(ruled.starts(0, None));
    ruled.queue.not_started(ruled.at(0));
    ruled.decides(0, pause(100_000));
    let mut worker = ruled.starts(100_000, None);
    assert_eq!(ruled.next(&mut worker, 100_500), Some(0));
    let (counts, _) = ruled.queue.counts();
    assert_eq!((counts.not_started, counts.longest_wait), (1, Duration::from_micros(100_500)));
}

#[test]
fn threads_beyond_a_smaller_maximum_end() {
    let ruled = Ruled::new(2, 2);
    let (mut first, mut second) = (ruled.starts(0, None), ruled.starts(0, None));
    for task in 0..4 {
        ruled.push(task, 0);
    }
    assert_eq!(ruled.next(&mut first, 0), Some(0));
    assert_eq!(ruled.next(&mut second, 0), Some(1));
    ruled.queue.set_options(options(5, 0));
    assert_eq!(ruled.next(&mut second, 50), None, "the maximum is one");
    assert_eq!(ruled.next(&mut first, 60), Some(2), "the last thread stays");
    let (counts, options) = ruled.queue.counts();
    assert_eq!((options.min_threads, options.max_threads), (1, 1), "limits are bounded by each other");
    assert_eq!((counts.threads, counts.executed), (1, 2));
    assert_eq!(counts.executing, Duration::from_micros(110));
}

fn spawn(pool: &Arc<Pool>, future: impl Future<Output = ()> + Send + 'static) {
    let pool = Arc::downgrade(pool);
    let schedule = async_task::WithInfo(move |task: Task, info: async_task::ScheduleInfo| {
        let Some(pool) = pool.upgrade() else { return };
        if info.woken_while_running { pool.push_again(task) } else { pool.push(task) }
    });
    let (task, handle) = async_task::spawn(future, schedule);
    handle.detach();
    task.schedule();
}

fn start(options: PoolOptions) -> Arc<Pool> {
    Pool::start("testpool", options, 2, 0, TaskLength::Any).expect("the system has threads left")
}

fn receive<T>(receiver: &Receiver<T>) -> T {
    receiver.recv_timeout(PATIENCE).expect("the pool has lost a task")
}

fn stop(pool: &Pool) {
    pool.stop();
    assert_eq!(pool.wait_stopped(Instant::now() + PATIENCE), 0, "threads do not end");
}

fn figure(pool: &Pool, wanted: &str) -> u64 {
    match pool.statistics().iter().find(|(name, _)| *name == wanted) {
        Some((_, Figure::Count(count))) => *count,
        other => panic!("{wanted} is {other:?}"),
    }
}

async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[test]
fn blocked_tasks_do_not_hold_up_others() {
    let pool = start(options(0, 8));
    let (sender, done) = mpsc::channel();
    let barrier = Arc::new(Barrier::new(8));
    for _ in 0..8 {
        let (sender, barrier) = (sender.clone(), Arc::clone(&barrier));
        // Only eight threads at once get past this.
        spawn(&pool, async move {
            barrier.wait();
            sender.send(()).expect("the test waits");
        });
    }
    (0..8).for_each(|_| receive(&done));
    assert_eq!(figure(&pool, "threadsStarted"), 8);
    stop(&pool);
    assert_eq!(figure(&pool, "executed"), 8);
    assert_eq!(figure(&pool, "threadsEnded"), 8);
}

#[test]
fn tasks_that_yield_take_turns() {
    let pool = start(options(1, 1));
    let turns = Arc::new(Mutex::new(Vec::new()));
    let (sender, done) = mpsc::channel();
    let (open, gate) = mpsc::channel::<()>();
    // Holds the only thread until all are queued.
    spawn(&pool, async move { assert!(gate.recv().is_err(), "nobody sends anything") });
    for number in 0..3 {
        let (turns, sender) = (Arc::clone(&turns), sender.clone());
        spawn(&pool, async move {
            for _ in 0..4 {
                turns.lock().expect("no panic").push(number);
                yield_once().await;
            }
            sender.send(()).expect("the test waits");
        });
    }
    drop(open);
    (0..3).for_each(|_| receive(&done));
    assert_eq!(
        *turns.lock().expect("no panic"),
        [0, 1, 2].repeat(4),
        "a task runs twice before others run once"
    );
    stop(&pool);
}

#[test]
fn the_thread_that_ran_last_is_called_first() {
    let pool = start(options(2, 2));
    let idle = |wanted| {
        let deadline = Instant::now() + PATIENCE;
        while figure(&pool, "threadsIdle") != wanted {
            assert!(Instant::now() < deadline, "{:?}", pool.statistics());
            thread::yield_now();
        }
    };
    let (sender, ran_on) = mpsc::channel();
    let [first, second] = [(); 2].map(|()| {
        let (open, gate) = mpsc::channel::<()>();
        let sender = sender.clone();
        spawn(&pool, async move {
            assert!(gate.recv().is_err(), "nobody sends anything");
            sender.send(thread::current().id()).expect("the test waits");
        });
        open
    });
    idle(0);
    drop(second);
    idle(1);
    drop(first);
    idle(2);
    let last = [receive(&ran_on), receive(&ran_on)][1];
    for _ in 0..3 {
        let sender = sender.clone();
        spawn(&pool, async move { sender.send(thread::current().id()).expect("the test waits") });
        assert_eq!(receive(&ran_on), last, "the work goes round, and no thread ever times out");
        idle(2);
    }
    stop(&pool);
}

#[test]
fn a_panic_ends_its_task_only() {
    let pool = start(options(1, 1));
    let (sender, done) = mpsc::channel();
    spawn(&pool, async { panic!("meant by the test") });
    spawn(&pool, async move { sender.send(()).expect("the test waits") });
    receive(&done);
    assert_eq!(figure(&pool, "panicked"), 1);
    assert_eq!(figure(&pool, "threadsStarted"), 1, "the thread had to be replaced");
    stop(&pool);
}

#[test]
fn idle_threads_end_down_to_the_minimum() {
    let pool = start(options(1, 4));
    let barrier = Arc::new(Barrier::new(4));
    for _ in 0..4 {
        let barrier = Arc::clone(&barrier);
        spawn(&pool, async move {
            barrier.wait();
        });
    }
    let deadline = Instant::now() + PATIENCE;
    while figure(&pool, "threadsEnded") < 3 || figure(&pool, "threadsIdle") < 1 {
        assert!(Instant::now() < deadline, "{:?}", pool.statistics());
        thread::yield_now();
    }
    assert_eq!(figure(&pool, "threadsRunning"), 1);
    stop(&pool);
}

#[test]
fn stopping_runs_what_is_queued_and_drops_what_comes_later() {
    let pool = start(options(1, 1));
    let (sender, done) = mpsc::channel();
    let (open, gate) = mpsc::channel::<()>();
    spawn(&pool, async move { assert!(gate.recv().is_err(), "nobody sends anything") });
    for number in 0..100 {
        let sender = sender.clone();
        spawn(&pool, async move { sender.send(number).expect("the test waits") });
    }
    pool.stop();
    let late = sender.clone();
    spawn(&pool, async move { late.send(1_000).expect("the test waits") });
    drop((open, sender));
    assert_eq!(pool.wait_stopped(Instant::now() + PATIENCE), 0);
    // The channel's end shows that the late task's future is gone.
    assert!(done.iter().eq(0..100), "queued tasks are lost, or late ones run");
}

#[test]
fn what_computes_for_long_yields_to_others_and_what_is_short_does_not() {
    let own_niceness = || rustix::process::getpriority_process(None).expect("Linux says");
    let usual = own_niceness();
    let pools = Pools::start(options(1, 1), 2).expect("the system has threads left");
    for (placement, niceness) in [(Placement::Brief, usual), (Placement::Long, (usual + NICENESS).min(19))] {
        let (sender, done) = mpsc::channel();
        let pool = if placement == Placement::Brief { &pools.brief } else { &pools.long };
        spawn(pool, async move { sender.send(own_niceness()).expect("the test waits") });
        assert_eq!(receive(&done), niceness, "{placement:?}");
    }
    assert_eq!(own_niceness(), usual, "the whole process was slowed");
    stop(&pools.brief);
    stop(&pools.long);
}

#[test]
fn threads_of_the_pool_have_short_slices() {
    let usual = niceness::slice();
    let pool = start(options(1, 1));
    let (sender, done) = mpsc::channel();
    spawn(&pool, async move { sender.send(niceness::slice()).expect("the test waits") });
    let own = receive(&done);
    // Kernels before 6.12 know no slices of one's own.
    assert!(own == SLICE || usual.is_zero(), "{own:?}, elsewhere {usual:?}");
    assert_eq!(niceness::slice(), usual, "the slices of the whole process were changed");
    stop(&pool);
}

#[test]
fn threads_of_the_pool_offer_the_processor_now_and_then() {
    // Whether this thread offers the processor after so long.
    let offers_after = |computed: Duration| {
        let since = offer::last()?;
        let_others_run(since + computed);
        Some(offer::last() > Some(since))
    };
    let offered = move || [OFFER_EVERY - Duration::from_nanos(1), OFFER_EVERY].map(offers_after);
    let pool =
        Pool::start("testpool", options(1, 1), 2, 0, TaskLength::Any).expect("the system has threads left");
    let (sender, done) = mpsc::channel();
    spawn(&pool, async move { sender.send(offered()).expect("the test waits") });
    assert_eq!(receive(&done), [Some(false), Some(true)]);
    assert_eq!(offered(), [None; 2], "other threads are left alone");
    stop(&pool);
}
