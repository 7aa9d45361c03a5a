//! The run queue: an owner that goes to sleep, and others that wake its tasks at that moment.

use crate::check;
use crate::run_queue::RunQueue;
use crate::task::TaskQueue;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::thread;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// Lets one task go on, whoever comes first.
#[derive(Default)]
pub(crate) struct Signal {
    set: AtomicBool,
    /// Never locked across a scheduling point.
    waker: Mutex<Option<Waker>>,
}

impl Signal {
    pub(crate) fn set(&self) {
        self.set.store(true, Ordering::SeqCst);
        self.wake();
    }

    pub(crate) fn wake(&self) {
        let waker = self.waker.lock().expect("no panic").take();
        waker.into_iter().for_each(Waker::wake);
    }

    pub(crate) async fn wait(&self) {
        poll_fn(|context| {
            *self.waker.lock().expect("no panic") = Some(context.waker().clone());
            if self.set.swap(false, Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Runs what is queued, and sleeps when there is nothing, until `done`.
pub(crate) fn drive(queue: &Arc<RunQueue>, done: impl Fn() -> bool) {
    let ownership = queue.own();
    loop {
        ownership.run_batch(2);
        if done() {
            return;
        }
        if ownership.prepare_sleep() {
            thread::park();
        }
        ownership.awake();
    }
}

/// A queue whose owner is the calling thread.
pub(crate) fn own_queue() -> Arc<RunQueue> {
    let owner = thread::current();
    RunQueue::new(move || owner.unpark())
}

fn spawn(queue: &Arc<RunQueue>, future: impl Future<Output = ()> + Send + 'static) {
    let first = Arc::clone(queue);
    let queue = Arc::clone(queue);
    let (task, handle) = async_task::spawn(future, move |task| queue.push(task));
    handle.detach();
    first.push_newcomer(task);
}

#[test]
fn no_wake_up_is_lost_when_the_owner_goes_to_sleep() {
    check(|| {
        let queue = own_queue();
        let finished = Arc::new(AtomicUsize::new(0));
        let signals = [(); 2].map(|()| Arc::new(Signal::default()));
        for signal in &signals {
            let (signal, finished) = (Arc::clone(signal), Arc::clone(&finished));
            spawn(&queue, async move {
                signal.wait().await;
                finished.fetch_add(1, Ordering::SeqCst);
            });
        }
        let others = signals.map(|signal| thread::spawn(move || signal.set()));
        drive(&queue, || finished.load(Ordering::SeqCst) == 2);
        others.into_iter().for_each(|other| other.join().expect("no panic"));
    });
}

#[test]
fn tasks_that_others_bring_are_run() {
    check(|| {
        let queue = own_queue();
        let finished = Arc::new(AtomicUsize::new(0));
        let others = [(); 2].map(|()| {
            let (queue, finished) = (Arc::clone(&queue), Arc::clone(&finished));
            thread::spawn(move || {
                spawn(&queue, async move {
                    finished.fetch_add(1, Ordering::SeqCst);
                });
            })
        });
        drive(&queue, || finished.load(Ordering::SeqCst) == 2);
        others.into_iter().for_each(|other| other.join().expect("no panic"));
    });
}

#[test]
fn an_owner_that_ends_leaves_nothing_behind() {
    check(|| {
        let queue = own_queue();
        let kept = Arc::new(());
        let ownership = queue.own();
        let waiting = Arc::new(Signal::default());
        let (signal, mine) = (Arc::clone(&waiting), Arc::clone(&kept));
        spawn(&queue, async move {
            signal.wait().await;
            drop(mine);
        });
        ownership.run_batch(1);
        // One brings a new task, another wakes a known one, before, while and after the owner ends.
        let bringing = {
            let (queue, kept) = (Arc::clone(&queue), Arc::clone(&kept));
            thread::spawn(move || spawn(&queue, async move { drop(kept) }))
        };
        let waking = thread::spawn(move || waiting.set());
        drop(ownership);
        bringing.join().expect("no panic");
        waking.join().expect("no panic");
        assert_eq!(Arc::strong_count(&kept), 1, "a task outlives its loop");
    });
}

#[test]
fn who_is_there_already_does_not_wait_for_all_newcomers() {
    // There is one order.
    let body = || {
        let queue = own_queue();
        let ownership = queue.own();
        let ran = Arc::new(Mutex::new(Vec::new()));
        let note = |name: &'static str| {
            let ran = Arc::clone(&ran);
            move || ran.lock().expect("no panic").push(name)
        };
        let signal = Arc::new(Signal::default());
        let (waiting, served) = (Arc::clone(&signal), note("served"));
        spawn(&queue, async move {
            waiting.wait().await;
            served();
        });
        assert_eq!(ownership.run_batch(64), 1);
        for _ in 0..10 {
            let arrived = note("arrived");
            spawn(&queue, async move { arrived() });
        }
        let waking = thread::spawn(move || signal.set());
        waking.join().expect("no panic");
        assert_eq!(ownership.run_batch(64), 5, "one in sixteen of a full batch");
        assert_eq!(ownership.run_batch(64), 4);
        assert!(!ownership.prepare_sleep(), "there are newcomers left");
        assert_eq!(ownership.run_batch(64), 2);
        let ran = ran.lock().expect("no panic");
        assert_eq!((ran.first(), ran.len()), (Some(&"served"), 11));
    };
    shuttle::check_random(body, 1);
}
