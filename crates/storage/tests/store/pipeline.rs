//! Commits under contention, faults and drops.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use storage::{CommitError, CounterId, Keyspace, WriteUnit};

use crate::faults::{Fault, faulty_store};
use crate::{COUNT, commit, document, exists, for_each_store, journal};

fn poll_once(future: &mut (impl Future + Unpin)) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not happen within ten seconds");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_uncontended_commit_finishes_in_its_first_poll() {
    for_each_store(|store| {
        let mut future = store.commit(document("a"));
        assert!(!exists(&store, "a"), "nothing happens before the poll");
        assert!(poll_once(&mut future));
        assert!(exists(&store, "a"));
        let receipt = commit(&store, "b").unwrap();
        assert!(poll_once(&mut store.journaled(receipt)), "whoever may be held up syncs at once");
        assert!(store.synced_sequence() >= receipt.sequence);
    });
}

#[test]
fn acknowledged_commits_are_visible_under_many_threads() {
    for_each_store(|store| {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let store = &store;
                scope.spawn(move || {
                    for number in 0..100 {
                        let key = format!("{thread}/{number}");
                        let is_journaled = number % 20 == 0;
                        let write = if is_journaled { journal } else { commit };
                        let receipt = write(store, &key).unwrap();
                        assert!(exists(store, &key), "{key} was acknowledged");
                        assert!(store.read_view().sequence() >= receipt.sequence);
                        if is_journaled {
                            assert!(store.synced_sequence() >= receipt.sequence, "{key} is not synced");
                        }
                    }
                });
            }
        });
        assert_eq!(store.counter(COUNT), 800);
        let commits = store.statistics().commit;
        assert_eq!(commits.commits, 800);
        assert_eq!(commits.commits_failed, 0);
        assert!(commits.groups <= 800);
    });
}

#[test]
fn waiting_commits_share_a_group() {
    let (engine, store) = faulty_store();
    *engine.write_delay.lock() = Duration::from_millis(2);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let store = &store;
            scope.spawn(move || {
                (0..10).for_each(|number| {
                    commit(store, &format!("{thread}/{number}")).unwrap();
                })
            });
        }
    });
    let commits = store.statistics().commit;
    assert_eq!((commits.commits, store.counter(COUNT)), (80, 80));
    assert!(commits.group_units_max > 1 && commits.groups < 80, "{commits:?}");
    assert_eq!(commits.group_units_histogram.iter().sum::<u64>(), commits.groups);
}

#[test]
fn dropped_commits_are_written() {
    let (engine, store) = faulty_store();
    *engine.write_delay.lock() = Duration::from_millis(50);
    let slow = store.clone();
    let leader = std::thread::spawn(move || commit(&slow, "leader"));
    std::thread::sleep(Duration::from_millis(10));
    let mut future = store.commit(document("dropped"));
    assert!(!poll_once(&mut future), "another one leads");
    drop(future);
    let never_polled = store.commit(document("never polled"));
    drop(never_polled);
    leader.join().unwrap().unwrap();
    eventually("the dropped unit", || exists(&store, "dropped"));
    commit(&store, "next").unwrap();
    assert!(!exists(&store, "never polled"));
}

#[test]
fn a_refused_group_leaves_nothing_and_the_next_one_passes() {
    let (engine, store) = faulty_store();
    for (fault, expect) in [
        (Fault::Fail, CommitError::Engine("made to fail".into())),
        (Fault::NoSpace, CommitError::NoSpace("made to be full".into())),
    ] {
        *engine.write_fault.lock() = fault;
        assert_eq!(commit(&store, "refused"), Err(expect));
        assert!(!exists(&store, "refused"));
        assert_eq!(store.counter(COUNT), 0, "a refused unit counts nothing");
    }
    *engine.write_fault.lock() = Fault::None;
    journal(&store, "accepted").unwrap();
    assert_eq!(store.counter(COUNT), 1);
}

#[test]
fn applied_commits_do_not_wait_for_a_sync() {
    let (engine, store) = faulty_store();
    engine.hold_syncs(true);
    let syncing = store.clone();
    let first = std::thread::spawn(move || journal(&syncing, "journaled"));
    eventually("the sync", || engine.syncs_begun.load(Ordering::SeqCst) > 0);
    for number in 0..100 {
        commit(&store, &format!("{number}")).unwrap();
    }
    let late = store.clone();
    let second = std::thread::spawn(move || journal(&late, "late"));
    eventually("the second write", || exists(&store, "late"));
    assert!(!first.is_finished() && !second.is_finished(), "journaled commits wait");
    engine.hold_syncs(false);
    for thread in [first, second] {
        let receipt = thread.join().unwrap().unwrap();
        assert!(engine.synced.load(Ordering::SeqCst) >= receipt.sequence, "no false acknowledgement");
    }
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged() {
    let (engine, store) = faulty_store();
    journal(&store, "before").unwrap();
    *engine.sync_fault.lock() = Fault::Fail;
    let failed = |result| matches!(result, Err(CommitError::JournalFailed(_)));
    assert!(failed(journal(&store, "during")));
    *engine.sync_fault.lock() = Fault::None;
    assert!(failed(journal(&store, "after")), "a later sync cannot repair an earlier one");
    assert!(failed(commit(&store, "after")));
    assert!(store.statistics().commit.breakdown.is_some_and(|reason| reason.contains("could not be synced")));
    assert!(exists(&store, "before"), "reads go on");
    assert!(store.close().is_err());
}

#[test]
fn a_sync_on_a_full_disk_is_made_up_for_later() {
    let (engine, store) = faulty_store();
    *engine.sync_fault.lock() = Fault::NoSpace;
    let journaled = store.clone();
    let waiting = std::thread::spawn(move || journal(&journaled, "a"));
    eventually("some attempts", || engine.syncs_begun.load(Ordering::SeqCst) > 2);
    assert!(!waiting.is_finished(), "neither acknowledged nor refused");
    *engine.sync_fault.lock() = Fault::None;
    let receipt = waiting.join().unwrap().unwrap();
    assert!(engine.synced.load(Ordering::SeqCst) >= receipt.sequence);
}

#[test]
fn whoever_waits_for_the_journal_of_a_store_that_closes_is_told() {
    for room_comes in [false, true] {
        let (engine, store) = faulty_store();
        *engine.sync_fault.lock() = Fault::NoSpace;
        let journaled = store.clone();
        let waiting = std::thread::spawn(move || journal(&journaled, "a"));
        eventually("some attempts", || engine.syncs_begun.load(Ordering::SeqCst) > 2);
        if room_comes {
            *engine.sync_fault.lock() = Fault::None;
        }
        assert_eq!(store.close().is_ok(), room_comes, "what is not on stable storage is told");
        eventually("the answer", || waiting.is_finished());
        let answer = waiting.join().unwrap();
        assert_eq!(answer.is_ok(), room_comes, "{answer:?}");
    }
}

#[test]
fn a_stalled_engine_delays_commits_without_failing_them() {
    let (engine, store) = faulty_store();
    engine.stalls.store(3, Ordering::SeqCst);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let store = &store;
            scope.spawn(move || commit(store, &format!("{number}")).unwrap());
        }
    });
    assert_eq!(store.counter(COUNT), 4);
    let commits = store.statistics().commit;
    assert_eq!((commits.engine_stalls, commits.gate), (3, "open"));
}

#[test]
fn the_journal_thread_syncs_by_itself_at_a_changeable_interval() {
    let (engine, store) = faulty_store();
    store.set_journal_interval(Duration::from_millis(500));
    let receipt = commit(&store, "a").unwrap();
    store.set_journal_interval(Duration::from_millis(1));
    assert_eq!(store.journal_interval(), Duration::from_millis(1));
    eventually("the sync", || store.synced_sequence() >= receipt.sequence);
    let syncs = engine.syncs_begun.load(Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(engine.syncs_begun.load(Ordering::SeqCst), syncs, "there is nothing to sync");
    store.set_journal_interval(Duration::from_secs(9));
    assert_eq!(store.journal_interval(), Duration::from_millis(500), "moved into the range");
}

#[test]
fn counters_add_up_within_a_group_and_can_go() {
    for_each_store(|store| {
        let mut unit = WriteUnit::new();
        unit.add_counter(CounterId(1), 5);
        unit.add_counter(CounterId(1), -2);
        unit.add_counter(CounterId(2), 9);
        store.commit(unit).wait().unwrap();
        assert_eq!(
            (store.counter(CounterId(1)), store.counter(CounterId(2)), store.counter(CounterId(3))),
            (3, 9, 0)
        );
        let mut unit = WriteUnit::new();
        unit.remove_counter(CounterId(1));
        unit.remove_counter(CounterId(2));
        unit.add_counter(CounterId(2), 4);
        store.commit(unit).wait().unwrap();
        assert_eq!((store.counter(CounterId(1)), store.counter(CounterId(2))), (0, 4));
    });
}

#[test]
fn an_empty_unit_is_a_point_in_time() {
    for_each_store(|store| {
        let before = commit(&store, "a").unwrap();
        let receipt = store.commit(WriteUnit::new()).wait().unwrap();
        assert_eq!(receipt, before);
        store.journaled(receipt).wait().unwrap();
        assert!(store.synced_sequence() >= before.sequence);
    });
}

#[test]
fn a_closed_store_refuses_commits_and_still_reads() {
    for_each_store(|store| {
        commit(&store, "a").unwrap();
        store.close().unwrap();
        store.close().unwrap();
        assert_eq!(commit(&store, "b"), Err(CommitError::Closed));
        assert!(exists(&store, "a"));
        assert!(store.flush().is_err());
        let value = store.pinned_view().get(Keyspace::Documents, b"a").unwrap();
        assert_eq!(value.unwrap(), *b"document");
    });
}
