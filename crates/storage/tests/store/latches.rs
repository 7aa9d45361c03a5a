//! Latches: fair, exclusive, cancel-safe. Schedules are explored in `tests/model.rs`.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use storage::{LatchTable, Queueing, SharedLatch};

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[test]
fn waiters_get_the_latch_in_their_order() {
    let table = LatchTable::new();
    let held = poll(pin!(table.lock(b"key"))).expect("nobody else is there");
    let other = poll(pin!(table.lock(b"other"))).expect("another key is another latch");
    let (mut first, mut second) = (pin!(table.lock(b"key")), pin!(table.lock(b"key")));
    assert!(poll(first.as_mut()).is_none() && poll(second.as_mut()).is_none());
    drop(held);
    assert!(table.try_lock(b"key").is_none(), "nobody barges in between release and wake-up");
    assert!(poll(second.as_mut()).is_none(), "the first one's turn");
    let held = poll(first.as_mut()).expect("its turn");
    assert!(poll(second.as_mut()).is_none());
    drop(held);
    assert!(poll(second.as_mut()).is_some());
    drop(other);
    assert!(table.try_lock(b"other").is_some());
}

#[test]
fn a_dropped_waiter_passes_its_turn_on() {
    let table = LatchTable::new();
    let held = poll(pin!(table.lock(b"key"))).unwrap();
    let mut first = Box::pin(table.lock(b"key"));
    let mut second = pin!(table.lock(b"key"));
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    assert!(poll(first.as_mut()).is_none());
    assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(held);
    assert_eq!(wakes.0.load(Ordering::SeqCst), 0);
    drop(first);
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1, "the latch had been granted to the dropped one");
    assert!(poll(second.as_mut()).is_some());
}

#[test]
fn those_who_wait_together_are_called_at_once_and_come_before_who_is_behind_them() {
    let table = LatchTable::new();
    let latest = |queueing| Box::pin(table.lock_latest(LatchTable::hash(b"key"), queueing));
    let held = poll(pin!(table.lock(b"key"))).unwrap();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut together: Vec<_> = (0..4).map(|_| latest(Queueing::Together)).collect();
    for waiting in &mut together {
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    let (mut behind, mut last) = (latest(Queueing::InOrder), latest(Queueing::Together));
    assert!(behind.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(last.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(held);
    assert_eq!(wakes.0.load(Ordering::SeqCst), 4, "all four, and not the one behind them");
    assert!(table.try_lock(b"key").is_none(), "somebody waits");
    let (guard, _) = poll(together[2].as_mut()).expect("whoever is polled first has it");
    assert!(poll(together[0].as_mut()).is_none(), "the latch is held");
    drop(guard);
    assert!(poll(behind.as_mut()).is_none(), "one that came in vain comes before it");
    let (guard, _) = poll(together[0].as_mut()).expect("it was called again");
    drop(guard);
    assert!(poll(together[1].as_mut()).is_none(), "now the one behind them has it");
    let (guard, _) = poll(behind.as_mut()).expect("its turn");
    drop(guard);
    drop(together);
    let (guard, _) = poll(last.as_mut()).expect("those before it have gone");
    drop(guard);
    assert!(table.try_lock(b"key").is_some());
}

#[test]
fn one_that_was_called_and_goes_lets_the_next_one_pass() {
    let table = LatchTable::new();
    let latest = |queueing| Box::pin(table.lock_latest(LatchTable::hash(b"key"), queueing));
    let held = poll(pin!(table.lock(b"key"))).unwrap();
    let (mut called, mut next) = (latest(Queueing::Together), latest(Queueing::InOrder));
    assert!(poll(called.as_mut()).is_none() && poll(next.as_mut()).is_none());
    drop(held);
    assert!(poll(next.as_mut()).is_none(), "behind the one that was called");
    drop(called);
    assert!(poll(next.as_mut()).is_some());
}

#[test]
fn exclusive_requests_are_not_starved() {
    let latch = SharedLatch::new();
    let reader = latch.try_shared().unwrap();
    let second_reader = latch.try_shared().expect("shared holds go together");
    let mut writer = Box::pin(latch.exclusive());
    assert!(poll(writer.as_mut()).is_none());
    let mut late = Box::pin(latch.shared());
    assert!(poll(late.as_mut()).is_none(), "behind the exclusive request");
    assert!(latch.try_shared().is_none());
    drop((reader, second_reader));
    assert!(poll(late.as_mut()).is_none());
    let exclusive = poll(writer.as_mut()).expect("its turn");
    drop(exclusive);
    assert!(poll(late.as_mut()).is_some());
}

#[test]
fn an_exclusive_request_that_leaves_lets_the_others_pass() {
    let latch = SharedLatch::new();
    let reader = latch.try_shared().unwrap();
    let mut writer = Box::pin(latch.exclusive());
    assert!(poll(writer.as_mut()).is_none());
    let mut late = Box::pin(latch.shared());
    assert!(poll(late.as_mut()).is_none());
    drop(writer);
    assert!(poll(late.as_mut()).is_some());
    drop(reader);
    assert!(latch.try_exclusive().is_some(), "all holds are gone");
}
