//! A store on a disk that the test fills: what is refused, what goes on, and that it comes back by itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use storage::{CommitError, Disk, Growth, Keyspace, Room, SpaceState, StorageOptions, Store, WriteUnit};

use crate::faults::{Fault, Faults, faulty_engine};
use crate::{commit, exists, journal};
use shelf::Shelf;

mod shelf;

const MIB: u64 = 1 << 20;
const RESERVE: u64 = 100 * MIB;

fn store() -> (Arc<Shelf>, Arc<Faults>, Store) {
    let (shelf, (faults, engine)) = (Arc::new(Shelf::default()), faulty_engine());
    *shelf.free.lock() = 1000 * MIB;
    let options = StorageOptions { disk_reserve_bytes: Some(RESERVE), ..StorageOptions::small() };
    let disk = Arc::clone(&shelf) as Arc<dyn Disk>;
    let store = Store::with_engine_and_disk(Arc::new(engine), disk, &options).unwrap();
    (shelf, faults, store)
}

#[track_caller]
fn await_state(store: &Store, state: SpaceState) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while store.statistics().space.state != state {
        assert!(
            Instant::now() < deadline,
            "the store does not become {state:?}: {:?}",
            store.statistics().space
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn replace(store: &Store, key: &str, growth: Growth) -> Result<(), CommitError> {
    let mut unit = WriteUnit::new();
    unit.put(Keyspace::Documents, key.as_bytes(), b"other");
    unit.set_growth(growth);
    store.commit(unit).wait().map(drop)
}

fn remove(store: &Store, key: &str) -> Result<(), CommitError> {
    let mut unit = WriteUnit::new();
    unit.delete(Keyspace::Documents, key.as_bytes());
    unit.delete(Keyspace::Indexes, key.as_bytes());
    store.commit(unit).wait().map(drop)
}

#[test]
fn what_grows_is_refused_until_there_is_room_again() {
    let (shelf, engine, store) = store();
    for key in ["a", "b", "c"] {
        journal(&store, key).unwrap();
    }
    *shelf.free.lock() = 90 * MIB;
    // The next write rouses the watch.
    journal(&store, "d").unwrap();
    await_state(&store, SpaceState::Low);
    let refusal = commit(&store, "e").unwrap_err();
    assert!(matches!(refusal, CommitError::NoSpace(_)), "{refusal}");
    assert!(!exists(&store, "e"));
    replace(&store, "a", Growth::Keeps).unwrap();
    remove(&store, "a").unwrap();
    let flushed = engine.flushes.load(Ordering::SeqCst);
    *shelf.free.lock() = 10 * MIB;
    await_state(&store, SpaceState::Full);
    assert!(shelf.reserve() < RESERVE, "the reserve is given up: {} bytes", shelf.reserve());
    assert!(replace(&store, "b", Growth::Keeps).is_err());
    replace(&store, "b", Growth::Shrinks).unwrap();
    remove(&store, "b").unwrap();
    assert!(exists(&store, "c"), "reads go on");
    let deadline = Instant::now() + Duration::from_secs(60);
    while engine.flushes.load(Ordering::SeqCst) == flushed {
        assert!(Instant::now() < deadline, "what was deleted is flushed");
        std::thread::sleep(Duration::from_millis(1));
    }
    *shelf.free.lock() = 1000 * MIB;
    await_state(&store, SpaceState::Normal);
    assert_eq!(shelf.reserve(), RESERVE, "the reserve is there again");
    journal(&store, "e").unwrap();
    store.close().unwrap();
}

#[test]
fn a_write_that_finds_the_disk_full_waits_for_the_reserve() {
    let (shelf, engine, store) = store();
    *engine.write_fault.lock() = Fault::NoSpace;
    let writer = {
        let store = store.clone();
        std::thread::spawn(move || remove(&store, "a"))
    };
    await_state(&store, SpaceState::Full);
    assert!(shelf.reserve() < RESERVE);
    assert!(!writer.is_finished(), "it waits for the engine");
    *engine.write_fault.lock() = Fault::None;
    writer.join().unwrap().unwrap();
    await_state(&store, SpaceState::Normal);
    journal(&store, "b").unwrap();
}

#[test]
fn without_a_reserve_left_a_full_disk_refuses_at_once() {
    let (shelf, engine, store) = store();
    shelf.set_reserve(0).unwrap();
    *engine.write_fault.lock() = Fault::NoSpace;
    let refusal = remove(&store, "a").unwrap_err();
    assert!(matches!(&refusal, CommitError::NoSpace(detail) if &**detail == "made to be full"), "{refusal}");
    *engine.write_fault.lock() = Fault::None;
    await_state(&store, SpaceState::Normal);
    assert_eq!(shelf.reserve(), RESERVE);
    store.close().unwrap();
}
