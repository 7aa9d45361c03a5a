//! Updates of one document that go on from each other before they are written. Schedules are explored in
//! `tests/model`.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use storage::{
    CommitError, CommitFuture, EnqueuedVersion, HeldLatches, Keyspace, LatchGuard, LatchTable, QueuePlace,
    Queueing, Receipt, Store, WriteUnit,
};

use crate::faults::{Fault, faulty_store};
use crate::for_each_store;
use crate::turns::deferred;

const KEY: &[u8] = b"document";

fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

pub(crate) fn poll(commit: &mut CommitFuture) -> Option<Result<Receipt, CommitError>> {
    poll_once(commit)
}

pub(crate) fn stored(store: &Store) -> Vec<u8> {
    store.write_view().get(Keyspace::Documents, KEY).unwrap().map(|value| value.to_vec()).unwrap_or_default()
}

pub(crate) fn latch(table: &LatchTable) -> Option<(LatchGuard, Option<QueuePlace>)> {
    poll_once(table.lock_latest(LatchTable::hash(KEY), Queueing::Together))
}

/// A unit that appends a byte to the latest version, and whether that is one that is not stored yet.
pub(crate) fn append(store: &Store, table: &LatchTable, byte: u8) -> (WriteUnit, bool) {
    let (latch, place) = latch(table).expect("nobody is building a unit");
    let enqueued = place.map(|place| store.enqueued_version(place, Keyspace::Documents, KEY));
    let (mut value, place) = match enqueued {
        None | Some(EnqueuedVersion::Settled) => (stored(store), None),
        Some(EnqueuedVersion::Value(value)) => (value, place),
        Some(EnqueuedVersion::OutOfReach) => panic!("the unit puts the key"),
    };
    value.push(byte);
    let mut unit = WriteUnit::new();
    unit.put(Keyspace::Documents, KEY, &value);
    if let Some(place) = place {
        unit.follow(place);
    }
    let mut latches = HeldLatches::default();
    latches.add_document(latch);
    unit.hold(latches);
    (unit, place.is_some())
}

/// As many appends as there are bytes, each enqueued.
pub(crate) fn enqueue(store: &Store, table: &LatchTable, bytes: &[u8]) -> Vec<CommitFuture> {
    let enqueue = |&byte: &u8| {
        let mut commit = store.commit(append(store, table, byte).0);
        assert!(poll(&mut commit).is_none(), "polling does not write");
        commit
    };
    bytes.iter().map(enqueue).collect()
}

fn results(commits: &mut [CommitFuture]) -> Vec<bool> {
    commits.iter_mut().map(|commit| poll(commit).expect("settled").is_ok()).collect()
}

#[test]
fn one_group_carries_many_updates_of_a_document() {
    for_each_store(|store| {
        let table = LatchTable::new();
        deferred(|| {
            let mut commits = enqueue(&store, &table, b"abcdefgh");
            assert!(table.try_lock(KEY).is_none(), "alone only when all of them are written");
            store.turn_ended();
            assert_eq!(results(&mut commits), [true; 8]);
            let counts = store.statistics().commit;
            assert_eq!((counts.groups, counts.group_units_max), (1, 8));
            assert_eq!(stored(&store), b"abcdefgh");
            assert!(table.try_lock(KEY).is_some());
        });
    });
}

#[test]
fn a_refused_update_takes_along_what_went_on_from_it() {
    for fault in [Fault::Fail, Fault::NoSpace] {
        let (engine, store) = faulty_store();
        let table = LatchTable::new();
        deferred(|| {
            let mut commits = enqueue(&store, &table, b"a");
            store.turn_ended();
            commits.extend(enqueue(&store, &table, b"bc"));
            // Built before the failure and enqueued after it.
            let (late, follows) = append(&store, &table, b'd');
            assert!(follows);
            *engine.write_fault.lock() = fault;
            store.turn_ended();
            *engine.write_fault.lock() = Fault::None;
            assert!(latch(&table).is_none(), "the late one is being built");
            let mut late = store.commit(late);
            let refusal = poll(&mut late).expect("it is not even enqueued").unwrap_err();
            let before = poll(&mut commits[1]).expect("settled").unwrap_err();
            assert_eq!(refusal, before, "the same failure");
            let mut last = commits.split_off(2);
            assert_eq!((results(&mut last), results(&mut commits[..1])), (vec![false], vec![true]));
            assert_eq!(stored(&store), b"a");
            assert_eq!(store.statistics().commit.commits_failed, 3);
            let mut commits = enqueue(&store, &table, b"ef");
            store.turn_ended();
            assert_eq!(results(&mut commits), [true, true]);
            assert_eq!(stored(&store), b"aef");
        });
    }
}

#[test]
fn followers_in_later_groups_are_refused_as_well_and_others_are_not() {
    let (engine, store) = faulty_store();
    let table = LatchTable::new();
    deferred(|| {
        // One group: the leader takes no more bytes.
        let mut commits = enqueue(&store, &table, b"a");
        let mut heavy = WriteUnit::new();
        heavy.put(Keyspace::Indexes, b"heavy", &vec![0; 8 << 20]);
        let mut heavy = store.commit(heavy);
        assert!(poll(&mut heavy).is_none());
        commits.extend(enqueue(&store, &table, b"bcd"));
        let mut unrelated = store.commit(crate::document("unrelated"));
        assert!(poll(&mut unrelated).is_none());
        engine.failures.store(1, Ordering::SeqCst);
        store.turn_ended();
        assert_eq!(results(&mut commits), [false; 4]);
        assert!(poll(&mut heavy).is_some_and(|result| result.is_err()), "it was in the group");
        assert!(poll(&mut unrelated).is_some_and(|result| result.is_ok()), "it follows nobody");
        assert_eq!(stored(&store), b"");
        assert!(table.try_lock(KEY).is_some());
    });
}

#[test]
fn a_failure_of_others_refuses_nobody() {
    let (engine, store) = faulty_store();
    let table = LatchTable::new();
    deferred(|| {
        let mut heavy = WriteUnit::new();
        heavy.put(Keyspace::Indexes, b"heavy", &vec![0; 8 << 20]);
        let mut heavy = store.commit(heavy);
        assert!(poll(&mut heavy).is_none());
        let mut commits = enqueue(&store, &table, b"ab");
        let (late, follows) = append(&store, &table, b'c');
        assert!(follows);
        engine.failures.store(1, Ordering::SeqCst);
        store.turn_ended();
        assert!(poll(&mut heavy).is_some_and(|result| result.is_err()), "a group by itself");
        let mut late = store.commit(late);
        assert!(poll(&mut late).is_none(), "it is enqueued: the one that it follows is written");
        store.turn_ended();
        commits.push(late);
        assert_eq!(results(&mut commits), [true; 3], "they followed nobody of it");
        assert_eq!(stored(&store), b"abc");
    });
}

#[test]
fn who_wants_the_latch_alone_waits_for_what_is_enqueued_and_is_not_passed_by() {
    for_each_store(|store| {
        let table = LatchTable::new();
        let hash = LatchTable::hash(KEY);
        deferred(|| {
            let mut commits = enqueue(&store, &table, b"a");
            let mut alone = Box::pin(table.lock(KEY));
            assert!(poll_once(alone.as_mut()).is_none(), "a unit is enqueued");
            for queueing in [Queueing::InOrder, Queueing::Together] {
                let mut late = Box::pin(table.lock_latest(hash, queueing));
                assert!(poll_once(late.as_mut()).is_none(), "behind the one that came before");
            }
            let mut late = Box::pin(table.lock_latest(hash, Queueing::InOrder));
            assert!(poll_once(late.as_mut()).is_none());
            drop(alone);
            let (guard, place) = poll_once(late.as_mut()).expect("who held it up has gone");
            assert!(place.is_some(), "the unit is still enqueued");
            let mut alone = Box::pin(table.lock(KEY));
            assert!(poll_once(alone.as_mut()).is_none());
            drop(guard);
            assert!(poll_once(alone.as_mut()).is_none(), "the unit is still enqueued");
            store.turn_ended();
            assert_eq!(results(&mut commits), [true]);
            assert!(poll_once(alone.as_mut()).is_some());
        });
    });
}

#[test]
fn a_stalled_group_keeps_its_order() {
    let (engine, store) = faulty_store();
    let table = LatchTable::new();
    deferred(|| {
        let commits = enqueue(&store, &table, b"abc");
        engine.stalls.store(2, Ordering::SeqCst);
        store.turn_ended();
        let (late, follows) = append(&store, &table, b'd');
        assert!(follows, "what has come back can be gone on from");
        // The gate is closed now: this one waits in front of it, with the latch.
        let mut late = store.commit(late);
        assert!(poll(&mut late).is_none() && latch(&table).is_none());
        for commit in commits {
            commit.wait().unwrap();
        }
        late.wait().unwrap();
        assert_eq!(stored(&store), b"abcd");
    });
}

#[test]
fn who_is_dropped_while_he_builds_leaves_what_was_there() {
    for_each_store(|store| {
        let table = LatchTable::new();
        deferred(|| {
            let mut commits = enqueue(&store, &table, b"ab");
            drop(append(&store, &table, b'x').0);
            drop(store.commit(append(&store, &table, b'y').0));
            let mut dropped = store.commit(append(&store, &table, b'c').0);
            assert!(poll(&mut dropped).is_none());
            drop(dropped);
            commits.extend(enqueue(&store, &table, b"d"));
            store.turn_ended();
            assert_eq!(results(&mut commits), [true; 3]);
            assert_eq!(stored(&store), b"abcd", "what was enqueued is written, and nothing else");
        });
    });
}

#[test]
fn only_what_the_unit_puts_can_be_gone_on_from() {
    for_each_store(|store| {
        let table = LatchTable::new();
        deferred(|| {
            let mut commits = enqueue(&store, &table, b"a");
            let (guard, place) = latch(&table).unwrap();
            let place = place.expect("there is an enqueued unit");
            let look = |keyspace, key| store.enqueued_version(place, keyspace, key);
            assert_eq!(look(Keyspace::Documents, KEY), EnqueuedVersion::Value(b"a".to_vec()));
            assert_eq!(look(Keyspace::Documents, b"same hash"), EnqueuedVersion::OutOfReach);
            assert_eq!(look(Keyspace::Indexes, KEY), EnqueuedVersion::OutOfReach);
            store.turn_ended();
            assert_eq!(look(Keyspace::Documents, KEY), EnqueuedVersion::Settled);
            assert_eq!(results(&mut commits), [true]);
            // Its slot is used again.
            let mut next = store.commit(crate::document("another"));
            assert!(poll(&mut next).is_none());
            assert_eq!(look(Keyspace::Documents, b"another"), EnqueuedVersion::Settled);
            drop(guard);
            let mut large = WriteUnit::new();
            large.put(Keyspace::Documents, KEY, &vec![0; 300 << 10]);
            let mut latches = HeldLatches::default();
            latches.add_document(table.try_lock(KEY).unwrap());
            large.hold(latches);
            let mut large = store.commit(large);
            assert!(poll(&mut large).is_none());
            let (_guard, place) = latch(&table).expect("the latch is passed on all the same");
            let version = store.enqueued_version(place.unwrap(), Keyspace::Documents, KEY);
            assert_eq!(version, EnqueuedVersion::OutOfReach, "too large to be copied");
            store.turn_ended();
        });
    });
}
