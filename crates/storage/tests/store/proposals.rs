//! Units with entries: handed to an owner, written when he says so or not at all. Schedules are explored in
//! `tests/model`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use storage::{
    CommitError, CommitFuture, ENTRY_BYTES_MAX, EnqueuedVersion, HeldLatches, Keyspace, LatchTable,
    ProposalWindow, Proposals, ProposedGroup, Queueing, Store, WriteUnit,
};

use crate::faults::{Fault, Faults, faulty_store};
use crate::handover::{append, enqueue, latch, poll, stored};
use crate::pipeline::eventually;
use crate::{COUNT, commit, document, exists, for_each_store};

/// The owner's end, and how often he was told.
fn own(store: &Store) -> (Proposals, Arc<AtomicUsize>) {
    let told = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&told);
    let notify = move || {
        counted.fetch_add(1, Ordering::SeqCst);
    };
    (store.take_proposals(Arc::new(notify)), told)
}

fn accepting(store: &Store) -> Proposals {
    let (proposals, _) = own(store);
    proposals.accept();
    proposals
}

fn faulty() -> (Arc<Faults>, Store, Proposals) {
    let (engine, store) = faulty_store();
    let proposals = accepting(&store);
    (engine, store, proposals)
}

/// A unit that puts one document, counts it and has an entry.
fn logged(key: &str) -> WriteUnit {
    let mut unit = document(key);
    *unit.entries_mut() = vec![key.as_bytes().to_vec()];
    unit
}

/// A commit that waits for the owner.
fn propose(store: &Store, unit: WriteUnit) -> CommitFuture {
    let mut commit = store.commit(unit);
    assert!(poll(&mut commit).is_none(), "the owner decides");
    commit
}

/// As `append`, with the byte as its entry.
fn append_logged(store: &Store, table: &LatchTable, byte: u8) -> CommitFuture {
    let (mut unit, _) = append(store, table, byte);
    *unit.entries_mut() = vec![vec![byte]];
    propose(store, unit)
}

fn beside(key: &str) -> WriteUnit {
    let mut unit = WriteUnit::new();
    unit.put(Keyspace::Meta, key.as_bytes(), b"");
    unit
}

fn write(group: ProposedGroup) {
    group.write(beside("mark"), drop).expect("the engine takes it");
}

fn failure(commit: &mut CommitFuture) -> CommitError {
    poll(commit).expect("it is settled").expect_err("it is refused")
}

fn is_written(commit: &mut CommitFuture) -> bool {
    poll(commit).expect("it is settled").is_ok()
}

fn entries(group: &mut ProposedGroup) -> Vec<Vec<u8>> {
    group.entries_mut().map(|entry| entry.clone()).collect()
}

#[test]
fn the_owner_writes_what_has_entries_and_nobody_else() {
    for_each_store(|store| {
        let (proposals, told) = own(&store);
        assert_eq!(store.commit(logged("early")).wait(), Err(CommitError::NotPrimary));
        assert_eq!(told.load(Ordering::SeqCst), 0);
        proposals.accept();
        let mut waiting = [propose(&store, logged("a")), propose(&store, logged("b"))];
        assert_eq!(told.load(Ordering::SeqCst), 1, "told once");
        commit(&store, "without entries").expect("it waits for nobody");
        assert!(!exists(&store, "a"), "nobody leads here");
        let mut group = proposals.next_group().expect("two units");
        assert_eq!((entries(&mut group), group.entry_count()), (vec![b"a".to_vec(), b"b".to_vec()], 2));
        assert!(proposals.next_group().is_none());
        waiting.iter_mut().for_each(|commit| assert!(poll(commit).is_none(), "not even when it is taken"));
        let mut late = propose(&store, logged("c"));
        assert_eq!(told.load(Ordering::SeqCst), 2, "told again when there was nothing left");
        let mut applied = None;
        let told = |receipt| {
            assert!(exists(&store, "b"), "it can be read");
            waiting.iter_mut().for_each(|commit| assert!(poll(commit).is_none(), "and nobody knows it yet"));
            applied = Some(receipt);
        };
        let receipt = group.write(beside("mark"), told).expect("the engine takes it");
        assert_eq!(applied, Some(receipt));
        for commit in &mut waiting {
            assert_eq!(poll(commit).expect("it is settled"), Ok(receipt));
        }
        assert!(poll(&mut late).is_none(), "the next group");
        assert!(exists(&store, "a") && exists(&store, "b") && !exists(&store, "c"));
        assert!(store.read_view().exists(Keyspace::Meta, b"mark").expect("reads go on"));
        assert_eq!(store.counter(COUNT), 3);
        write(proposals.next_group().expect("the late one"));
        assert!(is_written(&mut late) && exists(&store, "c"));
    });
}

#[test]
fn who_brings_the_most_waits_for_room_before_the_queue() {
    for_each_store(|store| {
        let proposals = accepting(&store);
        let of = |connection: u64, key: &str, bytes: usize| {
            let mut unit = logged(key);
            *unit.entries_mut() = vec![vec![0; bytes]];
            unit.set_connection(connection);
            propose(&store, unit)
        };
        let count = || {
            proposals.next_group().map_or(0, |group| {
                let cost = group.cost();
                write(group);
                cost
            })
        };
        let window = ProposalWindow { room: 900, room_for_small: 0, budget: None };
        proposals.set_window(Some(window));
        let mut first = of(1, "load 1", 800);
        let mut small = of(2, "small", 150);
        let mut loads = [of(1, "load 2", 900), of(1, "load 3", 900)];
        assert!(proposals.are_held());
        let held = store.held_proposals();
        assert_eq!((held.held, held.connections), (2, vec![(1, 1_800)]));
        assert_eq!(count(), 950, "the first one and the small one");
        assert!(is_written(&mut first) && is_written(&mut small));
        assert!(poll(&mut loads[0]).is_none());
        assert_eq!(count(), 0, "nobody has made room");
        proposals.set_window(Some(window));
        assert!(loads.iter_mut().all(|load| poll(load).is_none()));
        assert_eq!(count(), 900);
        assert!(is_written(&mut loads[0]) && poll(&mut loads[1]).is_none());
        proposals.refuse(CommitError::SteppedDown);
        assert_eq!(failure(&mut loads[1]), CommitError::NotPrimary, "who waits for room is refused as well");
        assert!(exists(&store, "load 2") && !exists(&store, "load 3"));
        assert!(!proposals.are_held());
    });
}

#[test]
fn what_is_large_is_no_group_with_what_is_small() {
    for_each_store(|store| {
        let proposals = accepting(&store);
        let of = |key: &str, bytes: usize| {
            let mut unit = logged(key);
            *unit.entries_mut() = vec![vec![0; bytes]];
            propose(&store, unit)
        };
        let sizes = [100, 100, 4 << 20, 100, 100_000, 100_000, 100_000];
        let keys = ["a", "b", "c", "d", "e", "f", "g"];
        let mut commits: Vec<_> = keys.iter().zip(sizes).map(|(key, bytes)| of(key, bytes)).collect();
        let mut groups = Vec::new();
        while let Some(group) = proposals.next_group() {
            groups.push(group.unit_count());
            write(group);
        }
        assert_eq!(groups, [2, 1, 3, 1], "in their order, each with 256 KiB or one unit");
        assert!(commits.iter_mut().all(is_written));
    });
}

#[test]
fn what_is_in_flight_can_be_gone_on_from_and_is_written_in_order() {
    for_each_store(|store| {
        let (proposals, table) = (accepting(&store), LatchTable::new());
        let mut commits = vec![append_logged(&store, &table, b'a')];
        let first = proposals.next_group().expect("one unit");
        commits.push(append_logged(&store, &table, b'b'));
        let second = proposals.next_group().expect("another one");
        commits.push(append_logged(&store, &table, b'c'));
        assert!(table.try_lock(b"document").is_none(), "alone only when all of them are written");
        write(first);
        assert_eq!(stored(&store), b"a");
        write(second);
        write(proposals.next_group().expect("the last one"));
        assert!(commits.iter_mut().all(is_written));
        assert_eq!(stored(&store), b"abc");
        assert!(table.try_lock(b"document").is_some());
    });
}

#[test]
fn a_refused_group_takes_along_what_follows_it_and_nothing_else() {
    let (_, store, proposals) = faulty();
    let (table, others) = (LatchTable::new(), CommitError::SteppedDown);
    let mut first = append_logged(&store, &table, b'a');
    let group = proposals.next_group().expect("one unit");
    let mut second = append_logged(&store, &table, b'b');
    let (mut late, follows) = append(&store, &table, b'c');
    *late.entries_mut() = vec![b"c".to_vec()];
    assert!(follows);
    let mut unrelated = propose(&store, logged("unrelated"));
    group.refuse(others.clone());
    assert_eq!([failure(&mut first), failure(&mut second)], [others.clone(), others.clone()]);
    assert_eq!(store.commit(late).wait(), Err(others), "not even enqueued");
    assert!(poll(&mut unrelated).is_none());
    let mut group = proposals.next_group().expect("the unrelated one");
    assert_eq!(entries(&mut group), [b"unrelated"]);
    write(group);
    assert!(is_written(&mut unrelated));
    assert_eq!(stored(&store), b"");
    assert_eq!(store.statistics().commit.commits_failed, 3);
}

#[test]
fn a_group_that_is_refused_early_is_settled_in_its_turn() {
    for_each_store(|store| {
        let (proposals, table) = (accepting(&store), LatchTable::new());
        let mut commits = vec![append_logged(&store, &table, b'a')];
        let first = proposals.next_group().expect("one unit");
        commits.push(append_logged(&store, &table, b'b'));
        proposals.next_group().expect("another one").refuse(CommitError::SteppedDown);
        commits.push(append_logged(&store, &table, b'c'));
        commits.iter_mut().for_each(|commit| assert!(poll(commit).is_none(), "the first one is in flight"));
        write(first);
        assert!(is_written(&mut commits[0]));
        for commit in &mut commits[1..] {
            assert_eq!(failure(commit), CommitError::SteppedDown);
        }
        assert!(proposals.next_group().is_none());
        assert_eq!(stored(&store), b"a");
        assert!(table.try_lock(b"document").is_some());
    });
}

#[test]
fn a_group_behind_a_refused_one_is_not_written() {
    let (_, store, proposals) = faulty();
    let mut commits = Vec::new();
    let mut groups = ["a", "b"].map(|key| {
        commits.push(propose(&store, logged(key)));
        proposals.next_group()
    });
    let [first, second] = groups.each_mut().map(|group| group.take().expect("one unit each"));
    first.refuse(CommitError::SteppedDown);
    let refused = second.write(beside("mark"), drop);
    let Err(CommitError::Broken(reason)) = refused else { panic!("it was written: {refused:?}") };
    assert!(reason.contains("may follow a refused one"), "{reason}");
    assert!(!exists(&store, "b"));
    assert_eq!(commits.iter_mut().filter_map(|commit| poll(commit)?.ok()).count(), 0);
}

#[test]
fn stepping_down_refuses_what_waits_and_what_comes_and_leaves_what_is_in_flight() {
    for_each_store(|store| {
        let (proposals, table) = (accepting(&store), LatchTable::new());
        let mut in_flight = append_logged(&store, &table, b'a');
        let group = proposals.next_group().expect("one unit");
        let mut waiting = append_logged(&store, &table, b'b');
        proposals.refuse(CommitError::SteppedDown);
        assert_eq!(store.commit(logged("late")).wait(), Err(CommitError::NotPrimary));
        assert!(proposals.next_group().is_none());
        assert!(poll(&mut in_flight).is_none());
        assert!(poll(&mut waiting).is_none(), "nobody may take the version before it for the latest one");
        write(group);
        assert!(is_written(&mut in_flight));
        assert_eq!(failure(&mut waiting), CommitError::SteppedDown);
        commit(&store, "without entries").expect("the log has nothing to do with it");
        proposals.accept();
        let mut again = append_logged(&store, &table, b'c');
        write(proposals.next_group().expect("the new one"));
        assert!(is_written(&mut again));
        assert_eq!(stored(&store), b"ac");
    });
}

#[test]
fn who_went_on_from_a_refused_unit_is_refused_in_the_next_term_too() {
    let (_, store, proposals) = faulty();
    let table = LatchTable::new();
    let mut waiting = append_logged(&store, &table, b'a');
    let (mut late, _) = append(&store, &table, b'b');
    *late.entries_mut() = vec![b"b".to_vec()];
    proposals.refuse(CommitError::SteppedDown);
    assert_eq!(failure(&mut waiting), CommitError::SteppedDown);
    proposals.accept();
    let mut others = propose(&store, logged("takes the slot"));
    assert_eq!(store.commit(late).wait(), Err(CommitError::SteppedDown));
    write(proposals.next_group().expect("the other one"));
    assert!(is_written(&mut others));
}

#[test]
fn what_is_told_of_a_proposal_waits_for_it() {
    for_each_store(|store| {
        let (proposals, table) = (accepting(&store), LatchTable::new());
        let mut changed = append_logged(&store, &table, b'a');
        let first = proposals.next_group().expect("one unit");
        let (guard, place) = latch(&table).expect("it is passed on");
        drop(guard);
        let mut told = WriteUnit::new();
        told.follow(place.expect("it is in flight"));
        let mut told = propose(&store, told);
        let mut second = proposals.next_group().expect("the one that follows");
        assert_eq!((second.entry_count(), second.entries_mut().count()), (0, 0));
        write(first);
        assert!(is_written(&mut changed) && poll(&mut told).is_none());
        write(second);
        assert!(is_written(&mut told));
    });
}

#[test]
fn units_of_the_other_queue_are_not_gone_on_from() {
    let (_, store, _proposals) = faulty();
    let table = LatchTable::new();
    crate::turns::deferred(|| {
        let mut plain = enqueue(&store, &table, b"a").remove(0);
        let (_guard, place) = latch(&table).expect("it is passed on");
        let place = place.expect("it is enqueued");
        let version = || store.enqueued_version(place, Keyspace::Documents, b"document");
        assert_eq!(version(), EnqueuedVersion::OutOfReach);
        store.turn_ended();
        assert!(is_written(&mut plain));
        assert_eq!(version(), EnqueuedVersion::Settled);
    });
}

#[test]
fn a_dropped_proposal_is_written_and_gives_up_its_latches_then() {
    for_each_store(|store| {
        let (proposals, table) = (accepting(&store), LatchTable::new());
        drop(append_logged(&store, &table, b'a'));
        let group = proposals.next_group().expect("it belongs to the queue");
        drop(append_logged(&store, &table, b'b'));
        assert!(table.try_lock(b"document").is_none());
        write(group);
        write(proposals.next_group().expect("it belongs to the queue"));
        assert_eq!(stored(&store), b"ab");
        assert!(table.try_lock(b"document").is_some());
    });
}

#[test]
fn what_is_committed_waits_for_room_and_for_the_engine() {
    for fault in [None, Some(Fault::NoSpace)] {
        let (engine, store, proposals) = faulty();
        let mut commit = propose(&store, logged("a"));
        let group = proposals.next_group().expect("one unit");
        match fault {
            None => engine.stalls.store(3, Ordering::SeqCst),
            Some(fault) => *engine.write_fault.lock() = fault,
        }
        let writing = std::thread::spawn(move || group.write(beside("mark"), drop));
        let own = store.clone();
        let owned = std::thread::spawn(move || own.write_now(beside("own")));
        if fault.is_some() {
            std::thread::sleep(std::time::Duration::from_millis(10));
            assert!(!writing.is_finished() && !owned.is_finished(), "neither written nor refused");
            assert!(poll(&mut commit).is_none() && !exists(&store, "a"));
            *engine.write_fault.lock() = Fault::None;
        }
        for written in [writing, owned] {
            written.join().expect("no panic").expect("it is written in the end");
        }
        assert!(is_written(&mut commit) && exists(&store, "a"));
        eventually("the gate", || store.statistics().commit.gate == "open");
    }
}

#[test]
fn the_gate_does_not_hold_back_the_owner() {
    let (engine, store, _proposals) = faulty();
    engine.immutable_memtables.store(100, Ordering::SeqCst);
    // A write rouses who looks at the engine.
    commit(&store, "before it").expect("the gate is open");
    eventually("the gate", || store.statistics().commit.gate == "closed");
    let waiting = store.clone();
    let waiting = std::thread::spawn(move || commit(&waiting, "behind the gate"));
    std::thread::sleep(std::time::Duration::from_millis(10));
    store.write_now(beside("own")).expect("it passes");
    assert!(!waiting.is_finished());
    engine.immutable_memtables.store(0, Ordering::SeqCst);
    waiting.join().expect("no panic").expect("it passes in the end");
}

#[test]
fn what_is_committed_and_cannot_be_written_breaks_the_store() {
    for (fault, words) in [(Fault::Fail, "made to fail"), (Fault::Panic, "made to panic")] {
        let (engine, store, proposals) = faulty();
        let mut commit = propose(&store, logged("a"));
        let group = proposals.next_group().expect("one unit");
        *engine.write_fault.lock() = fault;
        let refused = group.write(beside("mark"), drop).expect_err("the engine does not take it");
        assert!(matches!(&refused, CommitError::Broken(reason) if reason.contains(words)), "{refused}");
        *engine.write_fault.lock() = Fault::None;
        assert_eq!(failure(&mut commit), refused);
        assert_eq!(store.write_now(beside("own")), Err(refused.clone()));
        assert_eq!(store.commit(document("plain")).wait(), Err(refused.clone()));
        proposals.accept();
        assert_eq!(store.commit(logged("b")).wait(), Err(refused));
        assert!(!exists(&store, "a") && !exists(&store, "b"));
    }
}

#[test]
fn an_own_write_that_panics_breaks_the_store() {
    let (engine, store, _proposals) = faulty();
    *engine.write_fault.lock() = Fault::Panic;
    let refused = store.write_now(beside("own")).expect_err("the engine does not take it");
    assert!(matches!(&refused, CommitError::Broken(reason) if reason.contains("made to panic")));
    *engine.write_fault.lock() = Fault::None;
    assert_eq!(commit(&store, "later"), Err(refused));
}

#[test]
fn an_owner_that_dies_breaks_the_store() {
    let (_, store, proposals) = faulty();
    let mut waiting = propose(&store, logged("a"));
    let owner = std::thread::spawn(move || {
        let _group = proposals.next_group();
        panic!("a planted bug");
    });
    assert!(owner.join().is_err());
    assert!(matches!(failure(&mut waiting), CommitError::Broken(_)));
    assert!(matches!(commit(&store, "later"), Err(CommitError::Broken(_))));
    assert!(!exists(&store, "a") && !exists(&store, "later"));
}

#[test]
fn an_owner_that_goes_leaves_nobody_waiting() {
    let (_, store, proposals) = faulty();
    let mut waiting = propose(&store, logged("a"));
    drop(proposals);
    assert_eq!(failure(&mut waiting), CommitError::Closed);
    assert_eq!(store.commit(logged("later")).wait(), Err(CommitError::Closed));
    commit(&store, "without entries").expect("the store goes on");
}

#[test]
fn closing_refuses_what_waits_and_what_is_in_flight() {
    for_each_store(|store| {
        let proposals = accepting(&store);
        let mut in_flight = propose(&store, logged("in flight"));
        let group = proposals.next_group().expect("one unit");
        let mut waiting = propose(&store, logged("waiting"));
        store.close().expect("the disk is there");
        for commit in [&mut in_flight, &mut waiting] {
            assert_eq!(failure(commit), CommitError::Closed);
        }
        assert_eq!(group.write(beside("mark"), drop), Err(CommitError::Closed));
        assert!(proposals.next_group().is_none());
        proposals.accept();
        assert_eq!(store.commit(logged("later")).wait(), Err(CommitError::Closed));
        assert!(!exists(&store, "in flight") && !exists(&store, "waiting") && !exists(&store, "later"));
    });
}

#[test]
fn the_owner_and_those_who_commit_write_one_at_a_time() {
    for_each_store(|store| {
        let (stop, rung) = (Arc::new(AtomicUsize::new(0)), std::thread::current());
        let proposals = store.take_proposals(Arc::new(move || rung.unpark()));
        proposals.accept();
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let (store, stop) = (&store, Arc::clone(&stop));
                scope.spawn(move || {
                    for number in 0..50 {
                        let unit = if thread % 2 == 0 { logged } else { document };
                        store.commit(unit(&format!("{thread}/{number}"))).wait().expect("it is written");
                    }
                    stop.fetch_add(1, Ordering::SeqCst);
                });
            }
            while stop.load(Ordering::SeqCst) < 6 {
                while let Some(group) = proposals.next_group() {
                    store.write_now(beside("log")).expect("it is written");
                    write(group);
                }
                std::thread::park_timeout(std::time::Duration::from_millis(1));
            }
        });
        assert_eq!(store.counter(COUNT), 300, "no count is lost");
    });
}

#[test]
fn latches_are_passed_on_when_a_proposal_is_enqueued() {
    for_each_store(|store| {
        let (proposals, table) = (accepting(&store), LatchTable::new());
        let mut unit = logged("document");
        let mut latches = HeldLatches::default();
        latches.add_document(table.try_lock(b"document").expect("it is free"));
        unit.hold(latches);
        let mut next = Box::pin(table.lock_latest(LatchTable::hash(b"document"), Queueing::InOrder));
        let mut polled = || {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            next.as_mut().poll(&mut context).is_ready()
        };
        assert!(!polled());
        let mut commit = propose(&store, unit);
        assert!(polled(), "before anything is written");
        write(proposals.next_group().expect("one unit"));
        assert!(is_written(&mut commit));
    });
}

#[test]
fn an_entry_that_could_not_be_sent_is_refused() {
    for_each_store(|store| {
        let proposals = accepting(&store);
        let of_length = |key: &str, bytes: usize| {
            let mut unit = document(key);
            *unit.entries_mut() = vec![vec![0], vec![0; bytes]];
            unit
        };
        let long = store.commit(of_length("long", ENTRY_BYTES_MAX + 1)).wait();
        assert_eq!(long, Err(CommitError::EntryTooLarge(ENTRY_BYTES_MAX + 1)));
        assert!(proposals.next_group().is_none(), "the owner does not see it");
        let mut longest = propose(&store, of_length("longest", ENTRY_BYTES_MAX));
        write(proposals.next_group().expect("it is taken"));
        assert!(is_written(&mut longest));
        assert!(!exists(&store, "long"));
    });
}
