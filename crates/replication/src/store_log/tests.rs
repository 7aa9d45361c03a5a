use super::*;
use crate::entry::MemberId;
use crate::log::Checkpoint;
use crate::membership::Membership;
use document::{ObjectId, Timestamp, doc};
use storage::StorageOptions;

const SIZE_BYTES: u64 = 1 << 16;

fn catalog() -> Arc<Catalog> {
    let store = Store::in_memory(&StorageOptions::small()).expect("a store in memory");
    Catalog::open(store).expect("an empty catalog")
}

fn open(catalog: &Arc<Catalog>, recent_bytes: u64) -> StoreLog {
    let options = LogOptions { size_bytes: SIZE_BYTES, recent_bytes, ..LogOptions::default() };
    StoreLog::open(catalog, options).expect("a log")
}

fn operation(index: LogIndex, term: Term) -> LogEntry {
    let timestamp = Timestamp { time: index as u32, increment: 1 };
    let wall = document::Value::DateTime(0);
    let data = doc! { "op": "n", "ts": timestamp, "t": (term as i64), "v": 2_i64, "wall": wall };
    let data = data.to_buf().into_bytes().into();
    let position = LogPosition { term, index };
    LogEntry { position, kind: LogEntryKind::Operation(timestamp), data, context: Bytes::new() }
}

fn other(index: LogIndex, term: Term, kind: LogEntryKind) -> LogEntry {
    let (data, context) = (Bytes::from_static(b"data"), Bytes::from_static(b"context"));
    LogEntry { position: LogPosition { term, index }, kind, data, context }
}

fn append(log: &mut StoreLog, entries: &[LogEntry]) {
    log.write(LogWrite { entries: entries.to_vec(), ..LogWrite::default() }).expect("a write");
}

fn check(log: &StoreLog, expected: &[LogEntry]) {
    let first = log.compacted().index + 1;
    assert_eq!(log.entries(first, log.last() + 1, u64::MAX).expect("entries"), expected);
    for entry in expected {
        assert_eq!(log.term(entry.position.index).expect("a term"), entry.position.term);
    }
    let operations = expected.iter().filter(|entry| matches!(entry.kind, LogEntryKind::Operation(_))).count();
    assert_eq!(log.collection.document_count(), operations as u64);
}

#[test]
fn a_log_is_what_was_written_from_memory_and_from_the_store() {
    for recent_bytes in [0, 100, 1 << 20] {
        let catalog = catalog();
        let mut log = open(&catalog, recent_bytes);
        let mut entries = vec![
            other(1, 1, LogEntryKind::LeaderElected),
            operation(2, 1),
            other(3, 1, LogEntryKind::Membership),
            operation(4, 1),
            operation(5, 1),
        ];
        append(&mut log, &entries);
        check(&log, &entries);
        assert_eq!(log.entries(2, 6, 1).expect("one"), entries[1..2]);
        // A later leader has others.
        entries.truncate(3);
        entries.extend([other(4, 2, LogEntryKind::LeaderElected), operation(5, 2)]);
        append(&mut log, &entries[3..]);
        check(&log, &entries);
        check(&open(&catalog, recent_bytes), &entries);
        log.compact(LogPosition { term: 1, index: 2 }).expect("it is compacted");
        check(&log, &entries[2..]);
        check(&open(&catalog, recent_bytes), &entries[2..]);
        let place = LogPosition { term: 3, index: 4 };
        log.write(LogWrite { reset: Some(place), entries: vec![operation(5, 3)], ..LogWrite::default() })
            .expect("a reset");
        check(&log, &[operation(5, 3)]);
        assert_eq!(open(&catalog, recent_bytes).compacted(), place);
    }
}

#[test]
fn promises_are_kept_and_what_is_committed_costs_no_write() {
    let catalog = catalog();
    let mut log = open(&catalog, 0);
    let undecided = HardState { term: 4, ..HardState::default() };
    log.write(LogWrite { hard_state: Some(undecided), ..LogWrite::default() }).expect("a write");
    let promised = HardState { term: 4, vote: 2, committed: 1 };
    log.write(LogWrite { hard_state: Some(promised), ..LogWrite::default() }).expect("a write");
    let sequence = catalog.store().sequence();
    let later = HardState { committed: 9, ..promised };
    log.write(LogWrite { hard_state: Some(later), ..LogWrite::default() }).expect("no write");
    assert_eq!((log.hard_state(), catalog.store().sequence()), (later, sequence));
    assert_eq!(open(&catalog, 0).hard_state(), promised);
    append(&mut log, &[operation(1, 4)]);
    assert_eq!(open(&catalog, 0).hard_state(), later, "the next write tells");
}

#[test]
fn an_operation_tells_its_own_place() {
    let catalog = catalog();
    let mut log = open(&catalog, 0);
    let mut strange = operation(1, 4);
    strange.position.term = 5;
    assert!(log.write(LogWrite { entries: vec![strange], ..LogWrite::default() }).is_err());
    assert!(log.check(&operation(1, 4)).is_ok());
    let (place, wall) = (Timestamp { time: 1, increment: 1 }, document::Value::DateTime(0));
    for first in [Timestamp { time: 2, increment: 1 }, place] {
        let twice =
            doc! { "ts": first, "op": "n", "ts": place, "t": 4_i64, "v": 2_i64, "wall": (wall.clone()) };
        let entry = LogEntry { data: twice.to_buf().into_bytes().into(), ..operation(1, 4) };
        assert_eq!(log.check(&entry).is_ok(), first == place, "{twice:?}");
    }
}

#[test]
fn the_oldest_go_in_segments() {
    let catalog = catalog();
    let mut log = open(&catalog, 0);
    for index in 1..=5_000 {
        append(&mut log, &[operation(index, 1)]);
    }
    let wall = Duration::from_secs(5_000);
    let trimmed = log.trim_through(5_000, wall).expect("there is too much");
    assert!(log.trim_through(trimmed - 1, wall).is_none_or(|earlier| earlier < trimmed));
    log.oplog().set_retention(Some(Duration::from_secs(4_900)));
    assert!(log.trim_through(5_000, wall).is_none_or(|old| old <= 100), "what is young stays");
    log.oplog().set_retention(None);
    log.compact(LogPosition { term: 1, index: trimmed }).expect("it is compacted");
    let bytes = log.collection.data_bytes();
    assert!((SIZE_BYTES..SIZE_BYTES + 8192).contains(&bytes), "{bytes} bytes are left of {SIZE_BYTES}");
    check(&open(&catalog, 0), &(trimmed + 1..=5_000).map(|index| operation(index, 1)).collect::<Vec<_>>());
    assert_eq!(open(&catalog, 0).segments.closed, log.segments.closed);
    pollster::block_on(log.oplog().resize(SIZE_BYTES / 2)).expect("another size");
    assert!(log.trim_through(5_000, wall) > Some(trimmed));
    assert_eq!(open(&catalog, 0).oplog().size_bytes(), SIZE_BYTES / 2);
}

#[test]
fn readers_see_what_is_applied() {
    let catalog = catalog();
    let mut log = open(&catalog, 0);
    append(&mut log, &[other(1, 1, LogEntryKind::LeaderElected), operation(2, 1), operation(3, 1)]);
    let find = |time| log.oplog().find_timestamp(Timestamp { time, increment: 0 }).expect("a search");
    assert_eq!(find(0), None);
    log.oplog().show_up_to(2);
    assert_eq!((find(0), find(3)), (Some(2), None));
    log.oplog().show_up_to(3);
    assert_eq!(find(3), Some(3));
}

#[test]
fn the_local_state_comes_back() {
    let catalog = catalog();
    let state = LocalState::new(catalog.store().clone());
    assert_eq!((state.identity().expect("none"), state.applied().expect("none")), (None, None));
    let identity = Identity {
        set_name: "rs0".to_owned(),
        set_id: ObjectId::from_bytes([7; 12]),
        number: 3,
        genesis: 1,
        needs_copy: true,
        forced_through: 7,
        is_arbiter: true,
    };
    let members = |ids: &[MemberId]| ids.to_vec();
    let applied = Checkpoint {
        position: LogPosition { term: 2, index: 9 },
        timestamp: Timestamp { time: 5, increment: 6 },
        membership: Membership {
            voters: members(&[1, 2]),
            learners: members(&[3]),
            voters_outgoing: members(&[4]),
            learners_next: members(&[5]),
        },
    };
    let set = doc! { "config": { "_id": "rs0" } }.to_buf();
    let mut unit = WriteUnit::new();
    LocalState::put_identity(&mut unit, &identity);
    LocalState::put_applied(&mut unit, &applied);
    LocalState::put_set_state(&mut unit, set.as_raw());
    catalog.store().commit(unit).wait().expect("a write");
    assert_eq!(state.identity().expect("an identity"), Some(identity));
    assert_eq!(state.applied().expect("a mark"), Some(applied));
    assert_eq!(state.set_state().expect("a state"), Some(set));
}
