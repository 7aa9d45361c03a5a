//! Threads that serve many tasks in turns: commits polled there are written at the end of the turn.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use storage::{
    CommitError, CommitFuture, HeldLatches, LatchTable, Receipt, SharedLatch, StorageOptions, Store,
    WriteUnit,
};

use crate::faults::{Fault, faulty_store};
use crate::{COUNT, document, exists, for_each_store};

/// Runs `body` as a thread that serves many tasks, on this thread.
pub(crate) fn deferred<T>(body: impl FnOnce() -> T) -> T {
    storage::defer_commits();
    let result = body();
    storage::commit_inline();
    result
}

/// Counts wake-ups and ends the sleep of the thread that made it.
struct Bell {
    wakes: AtomicUsize,
    thread: Thread,
}

impl Bell {
    fn new() -> Arc<Bell> {
        Arc::new(Bell { wakes: AtomicUsize::new(0), thread: std::thread::current() })
    }

    fn wakes(&self) -> usize {
        self.wakes.load(Ordering::SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

fn poll<F: Future + Unpin>(future: &mut F, bell: &Arc<Bell>) -> Poll<F::Output> {
    let waker = Waker::from(Arc::clone(bell));
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

/// Polls until the commit is through, asleep in between.
fn wait<F: Future + Unpin>(commit: &mut F, bell: &Arc<Bell>) -> F::Output {
    loop {
        match poll(commit, bell) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// As a loop with this one task does it: polls, ends the turn, sleeps.
fn drive(store: &Store, mut commit: CommitFuture) -> Result<Receipt, CommitError> {
    let bell = Bell::new();
    loop {
        if let Poll::Ready(result) = poll(&mut commit, &bell) {
            return result;
        }
        store.turn_ended();
        std::thread::park();
    }
}

/// Commits of as many documents, named by their numbers; nobody has polled them.
fn commits(store: &Store, count: usize) -> Vec<CommitFuture> {
    (0..count).map(|number| store.commit(document(&number.to_string()))).collect()
}

#[test]
fn a_turn_is_written_as_one_group_when_it_ends() {
    for_each_store(|store| {
        deferred(|| {
            let bell = Bell::new();
            let mut commits = commits(&store, 20);
            assert!(commits.iter_mut().all(|commit| poll(commit, &bell).is_pending()));
            assert!(!exists(&store, "0"), "polling does not write");
            store.turn_ended();
            assert_eq!(bell.wakes(), 20, "each owner is woken once");
            assert_eq!(store.counter(COUNT), 20);
            assert!(commits.iter_mut().all(|commit| matches!(poll(commit, &bell), Poll::Ready(Ok(_)))));
            let counts = store.statistics().commit;
            assert_eq!((counts.groups, counts.group_units_max), (1, 20));
            store.turn_ended();
            assert_eq!(store.statistics().commit.groups, 1, "nothing was owed");
        });
        assert!(!storage::commits_are_deferred());
    });
}

#[test]
fn a_long_turn_is_written_in_several_groups() {
    for_each_store(|store| {
        deferred(|| {
            let bell = Bell::new();
            let mut commits = commits(&store, 100);
            let ready = commits.iter_mut().filter_map(|commit| match poll(commit, &bell) {
                Poll::Ready(receipt) => Some(receipt.unwrap()),
                Poll::Pending => None,
            });
            assert_eq!(ready.count(), 3, "the one that completes a group is written in its poll");
            assert_eq!(
                (store.counter(COUNT), bell.wakes()),
                (96, 93),
                "the last four wait for the turn's end"
            );
            store.turn_ended();
            assert_eq!((store.counter(COUNT), bell.wakes()), (100, 97));
            let counts = store.statistics().commit;
            assert_eq!((counts.groups, counts.group_units_max), (4, 32));
        });
    });
}

#[test]
fn a_journaled_commit_never_syncs_where_commits_are_deferred() {
    let (engine, store) = faulty_store();
    store.set_journal_interval(std::time::Duration::from_millis(500));
    engine.hold_syncs(true);
    deferred(|| {
        let bell = Bell::new();
        let journaled = async |number: usize| {
            let receipt = store.commit(document(&number.to_string())).await?;
            store.journaled(receipt).await
        };
        let mut commits: Vec<_> = (0..50).map(|number| Box::pin(journaled(number))).collect();
        assert!(commits.iter_mut().all(|commit| poll(commit, &bell).is_pending()));
        store.turn_ended();
        // Were one of these polls to sync, it would wait here for ever.
        assert!(commits.iter_mut().all(|commit| poll(commit, &bell).is_pending()), "applied, not synced");
        assert!(exists(&store, "0"));
        engine.hold_syncs(false);
        for commit in &mut commits {
            let receipt = wait(commit, &bell).unwrap();
            assert!(engine.synced.load(Ordering::SeqCst) >= receipt.sequence, "no false acknowledgement");
        }
    });
    let syncs = engine.syncs_begun.load(Ordering::SeqCst);
    assert!(syncs <= 2, "twenty commits shared {syncs} syncs");
}

#[test]
fn a_thread_that_waits_for_its_own_commit_writes_it() {
    for_each_store(|store| {
        deferred(|| {
            let receipt = store.commit(document("a")).wait().unwrap();
            store.journaled(receipt).wait().unwrap();
            store.sync_journal().unwrap();
        });
    });
}

#[test]
fn a_thread_that_ends_pays_what_it_owes() {
    for_each_store(|store| {
        let owner = store.clone();
        let mut commit = std::thread::spawn(move || {
            storage::defer_commits();
            let mut commit = owner.commit(document("a"));
            assert!(poll(&mut commit, &Bell::new()).is_pending());
            commit
        })
        .join()
        .unwrap();
        assert!(matches!(poll(&mut commit, &Bell::new()), Poll::Ready(Ok(_))), "written by the thread's end");
    });
}

#[test]
fn one_thread_can_owe_two_stores() {
    let stores = [(); 2].map(|()| Store::in_memory(&StorageOptions::small()).unwrap());
    deferred(|| {
        let bell = Bell::new();
        let mut commits: Vec<_> = stores.iter().map(|store| store.commit(document("a"))).collect();
        assert!(commits.iter_mut().all(|commit| poll(commit, &bell).is_pending()));
        for (store, commit) in stores.iter().zip(&mut commits) {
            assert!(!exists(store, "a"), "each store is paid by itself");
            store.turn_ended();
            assert!(poll(commit, &bell).is_ready());
        }
    });
}

#[test]
fn blocking_threads_need_not_wait_for_the_end_of_a_turn() {
    let store = Store::in_memory(&StorageOptions::small()).unwrap();
    deferred(|| {
        let bell = Bell::new();
        let mut commit = store.commit(document("loop"));
        assert!(poll(&mut commit, &bell).is_pending());
        let inline = store.clone();
        let thread = std::thread::spawn(move || {
            inline.commit(document("thread")).wait().unwrap();
        });
        thread.join().unwrap();
        assert_eq!(bell.wakes(), 1, "the other thread wrote the waiting unit with its own");
        assert!(poll(&mut commit, &bell).is_ready());
        store.turn_ended();
    });
}

#[test]
fn a_dropped_commit_is_written_at_the_end_of_the_turn() {
    let store = Store::in_memory(&StorageOptions::small()).unwrap();
    deferred(|| {
        let mut commit = store.commit(document("dropped"));
        assert!(poll(&mut commit, &Bell::new()).is_pending());
        drop(commit);
        assert!(!exists(&store, "dropped"), "dropping does not write where commits are deferred");
        store.turn_ended();
        assert!(exists(&store, "dropped"));
    });
}

#[test]
fn stalls_and_failures_reach_deferred_commits() {
    let (engine, store) = faulty_store();
    deferred(|| {
        engine.stalls.store(2, Ordering::SeqCst);
        drive(&store, store.commit(document("stalled"))).unwrap();
        assert!(exists(&store, "stalled"));
        assert_eq!(store.statistics().commit.engine_stalls, 2);
        *engine.write_fault.lock() = Fault::Fail;
        let refused = drive(&store, store.commit(document("refused")));
        assert_eq!(refused, Err(CommitError::Engine("made to fail".into())));
    });
}

#[test]
fn closing_writes_what_waits_for_the_end_of_a_turn() {
    for_each_store(|store| {
        deferred(|| {
            let bell = Bell::new();
            let mut commit = store.commit(document("a"));
            assert!(poll(&mut commit, &bell).is_pending());
            store.close().unwrap();
            assert!(matches!(poll(&mut commit, &bell), Poll::Ready(Ok(_))), "enqueued before the end");
            let mut late = store.commit(document("b"));
            assert_eq!(poll(&mut late, &bell), Poll::Ready(Err(CommitError::Closed)));
        });
    });
}

/// A unit that holds the latch of its key and a share of `collection`.
fn latched(key: &str, table: &LatchTable, collection: &SharedLatch) -> WriteUnit {
    let mut latches = HeldLatches::default();
    latches.add_key(table.try_lock(key.as_bytes()).expect("the key's latch is free"));
    latches.add_shared(collection.try_shared().expect("the collection's latch is free"));
    let mut unit = document(key);
    unit.hold(latches);
    unit
}

#[test]
fn a_unit_holds_its_latches_until_it_is_written_whoever_dropped_the_commit() {
    for_each_store(|store| {
        let (table, collection) = (LatchTable::new(), SharedLatch::new());
        deferred(|| {
            let mut commit = store.commit(latched("a", &table, &collection));
            assert!(poll(&mut commit, &Bell::new()).is_pending());
            drop(commit);
            assert!(table.try_lock(b"a").is_none(), "dropped, and still to be written");
            assert!(collection.try_exclusive().is_none());
            store.turn_ended();
            assert!(exists(&store, "a"));
            assert!(table.try_lock(b"a").is_some() && collection.try_exclusive().is_some());
        });
    });
}

#[test]
fn a_unit_that_is_refused_or_withdrawn_gives_up_its_latches() {
    let (engine, store) = faulty_store();
    let (table, collection) = (LatchTable::new(), SharedLatch::new());
    let free = || table.try_lock(b"a").is_some() && collection.try_exclusive().is_some();
    let commit = |unit| store.commit(unit);
    for fault in [Fault::Fail, Fault::NoSpace] {
        *engine.write_fault.lock() = fault;
        assert!(commit(latched("a", &table, &collection)).wait().is_err());
        assert!(free(), "refused by {fault:?}");
    }
    *engine.write_fault.lock() = Fault::None;
    drop(commit(latched("a", &table, &collection)));
    assert!(free(), "never polled");
    // The engine asks to wait for as long as the gate is watched: the next commit stays in front of it.
    engine.stalls.store(usize::MAX, Ordering::SeqCst);
    let mut stalled = commit(document("stalled"));
    assert!(poll(&mut stalled, &Bell::new()).is_pending());
    let mut held = commit(latched("a", &table, &collection));
    assert!(poll(&mut held, &Bell::new()).is_pending());
    assert!(!free());
    engine.stalls.store(0, Ordering::SeqCst);
    drop(held);
    store.close().unwrap();
    assert!(free(), "withdrawn, or written after all");
    assert!(commit(latched("a", &table, &collection)).wait().is_err());
    assert!(free(), "refused by a closed store");
}
