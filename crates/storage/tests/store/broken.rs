//! What is broken stops: after a panic where commits are written no write is taken, nobody waits in vain, and
//! reads go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use storage::{CommitError, HeldLatches, LatchTable, Receipt, Store};

use crate::faults::{Fault, Faults, faulty_store};
use crate::pipeline::eventually;
use crate::{commit, document, exists, journal};

/// The reason, when a commit was refused because the store is broken.
fn reason<T: std::fmt::Debug>(result: Result<T, CommitError>) -> String {
    match result {
        Err(CommitError::Broken(reason)) => reason.to_string(),
        other => panic!("expected a broken store: {other:?}"),
    }
}

fn assert_broken(store: &Store, expect: &str) {
    let reason = reason(commit(store, "later"));
    assert!(reason.contains(expect), "{reason}");
    assert!(!exists(store, "later"), "a refused unit is nowhere");
    let told = store.statistics().commit.breakdown.expect("it tells");
    assert!(told.contains(expect) && told.contains("until the server has been restarted"), "{told}");
    assert!(store.close().is_err(), "nobody is told that all is well");
}

#[test]
fn a_panic_in_the_engine_breaks_the_store() {
    let (engine, store) = faulty_store();
    journal(&store, "before").unwrap();
    *engine.write_delay.lock() = Duration::from_millis(50);
    *engine.write_fault.lock() = Fault::Panic;
    let committing: Vec<_> = (0..4)
        .map(|number| {
            let store = store.clone();
            std::thread::spawn(move || commit(&store, &format!("during {number}")))
        })
        .collect();
    for thread in committing {
        assert!(reason(thread.join().unwrap()).contains("made to panic"));
    }
    let (table, mut latches) = (LatchTable::new(), HeldLatches::default());
    latches.add_key(table.try_lock(b"key").unwrap());
    let mut unit = document("latched");
    unit.hold(latches);
    let mut refused = store.commit(unit);
    assert!(poll_with(&mut refused, Waker::noop()), "nobody waits");
    assert!(table.try_lock(b"key").is_some(), "a refused unit gives up its latches");
    *engine.write_fault.lock() = Fault::None;
    assert!(exists(&store, "before") && !exists(&store, "during 0"), "reads go on");
    assert_broken(&store, "made to panic");
}

struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics");
    }
}

#[derive(Default)]
struct Called(AtomicBool);

impl Wake for Called {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> bool {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(waker)).is_ready()
}

#[test]
fn a_leader_that_dies_behind_the_write_leaves_nobody_waiting() {
    let (engine, store) = faulty_store();
    *engine.write_delay.lock() = Duration::from_millis(500);
    let leading = store.clone();
    let leader = std::thread::spawn(move || commit(&leading, "leader"));
    eventually("the leader's write", || engine.writes_begun.load(Ordering::SeqCst) > 0);
    let mut planted = store.commit(document("planted"));
    assert!(!poll_with(&mut planted, &Waker::from(Arc::new(PanickingWaker))), "another one leads");
    let called = Arc::new(Called::default());
    let mut other = store.commit(document("other"));
    assert!(!poll_with(&mut other, &Waker::from(Arc::clone(&called))), "another one leads");
    leader.join().unwrap().expect("it was written before that");
    eventually("the waker behind the one that panicked", || called.0.load(Ordering::SeqCst));
    other.wait().expect("it was written before that");
    planted.wait().expect("it was written before that");
    assert!(exists(&store, "planted") && exists(&store, "other"));
    assert_broken(&store, "a waker that panics");
}

/// A unit that is written, and a thread whose sync for it is held.
fn begin_sync(engine: &Faults, store: &Store) -> (Receipt, JoinHandle<Result<Receipt, CommitError>>) {
    let receipt = store.commit(document("written")).wait().unwrap();
    engine.hold_syncs(true);
    let syncing = store.clone();
    let leader = std::thread::spawn(move || syncing.journaled(receipt).wait());
    eventually("the sync", || engine.syncs_begun.load(Ordering::SeqCst) > 0);
    (receipt, leader)
}

#[test]
fn a_sync_that_meets_a_waker_that_panics_answers_the_others() {
    let (engine, store) = faulty_store();
    let (receipt, leader) = begin_sync(&engine, &store);
    let mut planted = store.journaled(receipt);
    assert!(!poll_with(&mut planted, &Waker::from(Arc::new(PanickingWaker))), "another one syncs");
    let called = Arc::new(Called::default());
    let mut other = store.journaled(receipt);
    assert!(!poll_with(&mut other, &Waker::from(Arc::clone(&called))), "another one syncs");
    engine.hold_syncs(false);
    assert!(leader.join().is_err(), "the waker panics where it is called");
    assert!(called.0.load(Ordering::SeqCst), "the one behind it is woken all the same");
    other.wait().expect("it was synced before that");
}

#[test]
fn whoever_waits_for_the_journal_of_a_broken_store_is_told() {
    let (engine, store) = faulty_store();
    let (receipt, leader) = begin_sync(&engine, &store);
    let called = Arc::new(Called::default());
    let mut waiting = store.journaled(receipt);
    assert!(!poll_with(&mut waiting, &Waker::from(Arc::clone(&called))), "another one syncs");
    engine.pressure_panics.store(true, Ordering::SeqCst);
    let _ = commit(&store, "what wakes the governor");
    eventually("the governor's death", || store.statistics().commit.breakdown.is_some());
    eventually("the waker, though the sync goes on", || called.0.load(Ordering::SeqCst));
    assert!(reason(waiting.wait()).contains("the thread heddle-governor panicked"));
    engine.hold_syncs(false);
    leader.join().unwrap().expect("its sync went well");
}

#[test]
fn a_thread_of_the_store_that_dies_breaks_the_store() {
    let (engine, store) = faulty_store();
    engine.pressure_panics.store(true, Ordering::SeqCst);
    let _ = commit(&store, "before");
    eventually("the governor's death", || store.statistics().commit.breakdown.is_some());
    assert_broken(&store, "the thread heddle-governor panicked");
}
