//! Views in time: what is published, how far back one can be opened, and what rows they find in the cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use storage::{Direction, KeyRange, Keyspace, ReadView, StorageOptions, Store, WatchedView, WriteUnit};

use crate::faults::{faulty_engine, faulty_store};
use crate::for_each_store;

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// Runs `body` on each kind of store, with and without a cache of rows.
fn for_each(body: impl Fn(&Store)) {
    for_each_store(|store| body(&store));
    for row_cache_bytes in [0, 1 << 20] {
        let options = StorageOptions { row_cache_bytes, ..StorageOptions::small() };
        body(&Store::with_engine(Arc::new(faulty_engine().1), &options).unwrap());
    }
}

fn put(store: &Store, keys: &[&str], value: &str) -> u64 {
    let mut unit = WriteUnit::new();
    keys.iter().for_each(|key| unit.put(Keyspace::Documents, key.as_bytes(), value.as_bytes()));
    store.commit(unit).wait().unwrap().sequence
}

fn remove(store: &Store, change: impl FnOnce(&mut WriteUnit)) -> u64 {
    let mut unit = WriteUnit::new();
    change(&mut unit);
    store.commit(unit).wait().unwrap().sequence
}

/// The values of all keys, "-" where there is none.
fn values(view: &ReadView) -> String {
    let value = |key: &str| {
        let value = view.get(Keyspace::Documents, key.as_bytes()).unwrap();
        value.map_or("-".to_owned(), |value| String::from_utf8(value.to_vec()).unwrap())
    };
    KEYS.map(value).join(" ")
}

#[track_caller]
fn check(view: &ReadView, expect: &str) {
    // The second time rows may come from the cache.
    for time in ["first", "second", "third"] {
        assert_eq!(values(view), expect, "the {time} time");
    }
}

#[test]
fn readers_go_on_with_the_view_before_until_the_next_is_published() {
    for_each(|store| {
        assert!(store.published_view().is_none());
        put(store, &KEYS, "1");
        store.publish_view();
        put(store, &["a", "b"], "2");
        put(store, &["c"], "2");
        check(&store.published_view().unwrap(), "1 1 1 1");
        check(&store.read_view(), "2 2 2 1");
        let held = store.published_view().unwrap();
        store.publish_view();
        check(&store.published_view().unwrap(), "2 2 2 1");
        check(&held, "1 1 1 1");
        assert_eq!(store.published_view().unwrap().sequence(), store.sequence());
    });
}

#[test]
fn what_is_refused_is_in_no_view() {
    let (engine, store) = faulty_store();
    let first = put(&store, &KEYS, "1");
    let before = store.publish_view();
    check(&before, "1 1 1 1");
    engine.failures.store(1, Ordering::SeqCst);
    let mut refused = WriteUnit::new();
    refused.put(Keyspace::Documents, b"a", b"refused");
    refused.delete_range(Keyspace::Documents, b"c", b"d");
    store.commit(refused).wait().unwrap_err();
    assert_eq!(store.publish_view().sequence(), first, "nothing has happened since");
    put(&store, &["b"], "2");
    check(&store.publish_view(), "1 2 1 1");
    check(&before, "1 1 1 1");
    check(&store.read_view(), "1 2 1 1");
}

#[test]
fn views_near_the_present_find_rows_in_the_cache() {
    for_each_store(|store| {
        put(&store, &KEYS, "1");
        check(&store.read_view(), "1 1 1 1");
        let view = store.publish_view();
        put(&store, &["a"], "2");
        let hits = || store.statistics().row_cache.hits;
        let before = hits();
        assert_eq!(values(&view), "1 1 1 1");
        assert_eq!(hits() - before, 3, "all but the row that was written since");
        remove(&store, |unit| unit.delete_range(Keyspace::Documents, b"b", b"c"));
        let before = hits();
        assert_eq!(values(&view), "1 1 1 1");
        assert_eq!(hits() - before, 2, "all but that and the removed one");
        let before = hits();
        assert_eq!(values(&store.read_view()), "2 - 1 1");
        assert_eq!(hits() - before, 3, "a removal makes its own rows invisible and no others");
    });
}

#[test]
fn views_hold_while_others_write() {
    const ROUNDS: u32 = 300;
    for_each(|store| {
        let written = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    put(store, &KEYS, &round.to_string());
                    if round % 7 == 0 {
                        remove(store, |unit| unit.delete_range(Keyspace::Documents, b"a", b"z"));
                    }
                    store.publish_view();
                }
                written.store(true, Ordering::SeqCst);
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut held = Vec::new();
                    while !written.load(Ordering::SeqCst) {
                        let Some(view) = store.published_view() else { continue };
                        let seen = values(&view);
                        let first = seen.split(' ').next().unwrap().to_owned();
                        assert_eq!(seen, [&*first; 4].join(" "), "a batch is seen whole or not at all");
                        held.push((view, seen));
                        for (view, seen) in held.iter().rev().take(4) {
                            assert_eq!(values(view), *seen, "a view goes on seeing what it saw");
                        }
                        if held.len() > 50 {
                            held.clear();
                        }
                    }
                });
            }
        });
    });
}

/// The newest write of each key that the view does not see.
fn newest(view: &WatchedView) -> [Option<u64>; 4] {
    KEYS.map(|key| view.newest_sequence(Keyspace::Documents, key.as_bytes()).unwrap())
}

#[test]
fn a_watched_view_tells_what_was_written_since() {
    for_each(|store| {
        put(store, &KEYS, "1");
        let first = store.watched_view();
        assert_eq!(newest(&first), [None; 4], "what the view sees is no write since");
        let same = put(store, &["a", "b"], "1");
        assert_eq!(
            newest(&first),
            [Some(same), Some(same), None, None],
            "a write of the same value is a write"
        );
        let second = store.watched_view();
        let again = put(store, &["b"], "2");
        let deleted = remove(store, |unit| unit.delete(Keyspace::Documents, b"c"));
        let removed = remove(store, |unit| unit.delete_range(Keyspace::Documents, b"d", b"e"));
        let elsewhere = remove(store, |unit| unit.put(Keyspace::Indexes, b"a", b""));
        assert_eq!(newest(&first), [Some(same), Some(again), Some(deleted), Some(removed)]);
        assert_eq!(newest(&second), [None, Some(again), Some(deleted), Some(removed)]);
        assert_eq!(second.newest_sequence(Keyspace::Indexes, b"a").unwrap(), Some(elsewhere));
        assert_eq!(values(second.view()), "1 1 1 1");
        drop(first);
        let back = put(store, &["d"], "3");
        assert_eq!(newest(&second), [None, Some(again), Some(deleted), Some(back)]);
        drop(second);
        put(store, &KEYS, "4");
        assert_eq!(newest(&store.watched_view()), [None; 4]);
    });
}

#[test]
fn what_no_reader_needs_is_kept_for_nobody() {
    for_each(|store| {
        let kept = || store.statistics().engine.snapshots;
        for round in 0..3 {
            put(store, &KEYS, &round.to_string());
            store.publish_view();
            assert_eq!(kept(), 1, "the views before it went with their last reader");
        }
        let reader = store.published_view().unwrap();
        store.withdraw_view();
        assert!(store.published_view().is_none());
        assert_eq!((kept(), values(&reader)), (1, "2 2 2 2".to_owned()));
        drop(reader);
        assert_eq!(kept(), 0);
    });
}

#[test]
fn the_age_of_what_readers_hold_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), &StorageOptions::small()).unwrap();
    let oldest = || store.statistics().engine.oldest_snapshot_at;
    assert_eq!(oldest(), 0);
    let view = store.pinned_view();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!(oldest().abs_diff(now) <= 60, "{} at {now}", oldest());
    drop(view);
    assert_eq!(oldest(), 0);
}

#[test]
fn a_refused_write_is_no_write_since() {
    let (engine, store) = faulty_store();
    put(&store, &KEYS, "1");
    let view = store.watched_view();
    engine.failures.store(1, Ordering::SeqCst);
    let mut unit = WriteUnit::new();
    unit.put(Keyspace::Documents, b"a", b"refused");
    store.commit(unit).wait().unwrap_err();
    let since = put(&store, &["b"], "2");
    assert_eq!(newest(&view), [None, Some(since), None, None]);
}

#[test]
fn too_much_to_remember_is_said_to_be_too_much() {
    let store = Store::in_memory(&StorageOptions::small()).unwrap();
    let old = store.watched_view();
    let mut last = 0;
    for batch in 0..6_u32 {
        last = remove(&store, |unit| {
            (0..100_000_u32).for_each(|key| {
                unit.delete(Keyspace::Documents, &[batch, key].map(u32::to_be_bytes).concat())
            });
        });
    }
    assert!(old.newest_sequence(Keyspace::Documents, b"a").is_err());
    let recent = store.watched_view();
    put(&store, &["a"], "1");
    assert!(recent.newest_sequence(Keyspace::Documents, b"a").unwrap().is_some_and(|newest| newest > last));
    assert_eq!(recent.newest_sequence(Keyspace::Documents, b"b").unwrap(), None);
}

#[test]
fn no_write_of_ones_own_key_is_missed_while_others_write() {
    const ROUNDS: u32 = 500;
    for_each(|store| {
        std::thread::scope(|scope| {
            for key in KEYS {
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let view = store.watched_view();
                        let written = (round % 3 != 0).then(|| put(store, &[key], "x"));
                        let newest = view.newest_sequence(Keyspace::Documents, key.as_bytes()).unwrap();
                        assert_eq!(newest, written, "the newest write of {key} in round {round}");
                    }
                });
            }
        });
    });
}

/// All entries of a walk over a range, from where it was sought.
fn walk(
    view: &ReadView,
    range: &KeyRange,
    direction: Direction,
    from: Option<&[u8]>,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = view.cursor(Keyspace::Documents, range.clone(), direction).unwrap();
    if let Some(from) = from {
        cursor.seek(from);
    }
    let mut entries = Vec::new();
    while let Some((key, value)) = cursor.next().unwrap() {
        entries.push((key.to_vec(), value.to_vec()));
    }
    entries
}

#[test]
fn a_view_with_units_above_it_is_what_their_commit_makes_of_it() {
    for_each(|store| {
        let mut random = fastrand::Rng::with_seed(11);
        for round in 0..40 {
            let key = |random: &mut fastrand::Rng| vec![random.u8(..6), random.u8(..6)];
            put(store, &["zz"], "between");
            let base = store.pinned_view();
            let units: Vec<WriteUnit> = (0..random.usize(..4))
                .map(|_| {
                    let mut unit = WriteUnit::new();
                    for _ in 0..random.usize(..8) {
                        let key = key(&mut random);
                        match random.bool() {
                            true => unit.put(Keyspace::Documents, &key, &[round, random.u8(..)]),
                            false => unit.delete(Keyspace::Documents, &key),
                        }
                    }
                    unit
                })
                .collect();
            let layered = base.with(&units);
            put(store, &["a"], "not in either");
            for unit in units {
                store.commit(unit).wait().unwrap();
            }
            remove(store, |unit| unit.delete(Keyspace::Documents, b"a"));
            let without_a = |entries: Vec<(Vec<u8>, Vec<u8>)>| -> Vec<_> {
                entries.into_iter().filter(|(key, _)| key != b"a").collect()
            };
            let committed = store.read_view();
            for _ in 0..20 {
                let bound = |random: &mut fastrand::Rng| random.bool().then(|| key(random));
                let range = KeyRange { lower: bound(&mut random), upper: bound(&mut random) };
                let from = bound(&mut random);
                for direction in [Direction::Forward, Direction::Backward] {
                    let expect = without_a(walk(&committed, &range, direction, from.as_deref()));
                    let found = without_a(walk(&layered, &range, direction, from.as_deref()));
                    assert_eq!(found, expect, "{range:?} {direction:?} from {from:?}");
                }
                let key = key(&mut random);
                let get = |view: &ReadView| {
                    view.get(Keyspace::Documents, &key).unwrap().map(|found| found.to_vec())
                };
                assert_eq!(get(&layered), get(&committed), "{key:?}");
            }
        }
    });
}
