//! How far apart moments are, and what is folded at most.

use super::*;
use catalog::{OperationContext, Receipts};
use document::doc;
use storage::StorageOptions;

const MIB: u64 = 1 << 20;

fn catalog() -> Arc<Catalog> {
    let store = Store::in_memory(&StorageOptions::small()).expect("a store in memory");
    Catalog::open(store).expect("an empty catalog")
}

fn time(seconds: u64) -> Timestamp {
    Timestamp { time: seconds as u32, increment: 1 }
}

/// So many seconds with so many bytes of operations each: how many moments are kept of them.
fn kept_of(history: &History, seconds: std::ops::Range<u64>, bytes: u64) -> u64 {
    let before = history.figures().kept;
    for second in seconds {
        history.advance(Duration::from_secs(second));
        history.add_bytes(bytes);
        history.note(LogPosition { term: 1, index: second }, time(second));
    }
    history.figures().kept - before
}

#[test]
fn moments_are_near_each_other_while_somebody_reads_the_past() {
    let history = History::new(catalog());
    kept_of(&history, 1..2, 0);
    assert_eq!(kept_of(&history, 2..66, MIB), 2, "one each 30 s");
    assert_eq!(kept_of(&history, 66..98, 16 * MIB), 8, "one each 64 MiB");
    // There is no oplog to compute it from: that somebody wants it counts.
    assert!(history.at(Timestamp { time: 70, increment: 7 }, true).is_err());
    assert_eq!(kept_of(&history, 98..130, 16 * MIB), 32, "one each 16 MiB");
    kept_of(&history, 130..131 + WINDOW_MS / 1_000, 0);
    let later = 131 + WINDOW_MS / 1_000;
    assert_eq!(kept_of(&history, later..later + 32, 16 * MIB), 8, "nobody has read for as long as is kept");
}

#[test]
fn what_is_read_now_and_again_is_not_the_past() {
    let history = History::new(catalog());
    kept_of(&history, 1..2, 0);
    let known = Moment { timestamp: time(1), view: history.store().pinned_view() };
    history.remember(known, 0);
    history.at(time(1), true).expect("a moment that was asked for");
    assert_eq!(kept_of(&history, 2..34, 16 * MIB), 8);
}

#[test]
fn what_is_remembered_has_a_bound() {
    let history = History::new(catalog());
    let remember = |second: u64, bytes: u64| {
        history.remember(Moment { timestamp: time(second), view: history.store().pinned_view() }, bytes);
        let moments = history.moments.lock();
        moments.asked.iter().map(|asked| u64::from(asked.moment.timestamp.time)).collect::<Vec<_>>()
    };
    assert_eq!(remember(1, FOLDED_BYTES_MAX / 2), [1]);
    assert_eq!(remember(2, FOLDED_BYTES_MAX / 2), [1, 2]);
    assert_eq!(remember(1, 0), [2, 1], "asked for again");
    assert_eq!(remember(3, FOLDED_BYTES_MAX / 2), [1, 3], "the one that nobody has asked for lately goes");
    assert_eq!(remember(4, 2 * FOLDED_BYTES_MAX), [4], "who reads keeps what it reads");
    assert_eq!((5..5 + 2 * ASKED_MAX as u64).map(|second| remember(second, 0).len()).max(), Some(ASKED_MAX));
}

#[test]
fn what_is_folded_has_a_bound() {
    let catalog = catalog();
    let receipts = Receipts::default();
    let context = OperationContext::writing(catalog.store(), &receipts);
    let made = pollster::block_on(catalog.collection_or_create(&context, "past", "things"));
    let collection = made.expect("a collection");
    let target =
        Target { namespace: catalog::Namespace::new("past", "things"), uuid: Some(collection.uuid()) };
    let view = catalog.store().read_view();
    let mut replayed = Replayed::over(&catalog, &view, 10_000);
    let mut insert = |id: i32, bytes: usize| {
        let document = doc! { "_id": id, "filler": ("x".repeat(bytes)) }.to_buf();
        replayed.replay(&Operation::Insert { target: target.clone(), document })
    };
    for _ in 0..100 {
        insert(1, 4_000).expect("one document, again and again");
    }
    insert(2, 4_000).expect("two documents");
    insert(1, 100).expect("a smaller one in its place");
    insert(3, 4_000).expect("as much as before");
    let refused = insert(4, 4_000).expect_err("more than may be folded");
    assert_eq!(refused.code, ErrorCode::SnapshotUnavailable);
}
