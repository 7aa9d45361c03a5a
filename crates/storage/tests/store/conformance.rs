//! What every engine must do: one suite, run on each.

use std::sync::Arc;

use storage::{
    CursorOptions, Direction, Engine, EngineCursor, EngineReader, KeyRange, Keyspace, MemoryEngine,
    MutationLog, ReadTier, RocksEngine, StorageError, StorageOptions, TableRows, WriteUnit,
};

use crate::faults::faulty_engine;

const DOCUMENTS: Keyspace = Keyspace::Documents;

/// Runs `body` on a new engine of each kind.
fn for_each_engine(body: impl Fn(&dyn Engine)) {
    body(&MemoryEngine::new());
    body(&faulty_engine().1);
    let directory = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(directory.path(), &StorageOptions::small(), true, false).unwrap();
    body(&engine);
}

fn write(engine: &dyn Engine, fill: impl FnOnce(&mut WriteUnit)) -> u64 {
    let mut unit = WriteUnit::new();
    fill(&mut unit);
    engine.write(&[unit], &MutationLog::default()).unwrap()
}

fn put_all(engine: &dyn Engine, keys: &[&str]) {
    write(engine, |unit| {
        for key in keys {
            unit.put(DOCUMENTS, key.as_bytes(), format!("{key}!").as_bytes());
        }
    });
}

fn cursor(reader: &Arc<dyn EngineReader>, range: KeyRange, direction: Direction) -> Box<dyn EngineCursor> {
    reader.cursor(DOCUMENTS, range, direction, CursorOptions::default()).unwrap()
}

fn rest(cursor: &mut dyn EngineCursor) -> Vec<String> {
    let mut keys = Vec::new();
    while let Some((key, value)) = cursor.next().unwrap() {
        let key = String::from_utf8(key.to_vec()).unwrap();
        assert_eq!(value, format!("{key}!").as_bytes(), "the value of {key}");
        keys.push(key);
    }
    assert!(cursor.next().unwrap().is_none(), "the end stays the end");
    keys
}

/// Reads a range in both directions, sought or not, and compares with `expect` ("a b c").
fn check(engine: &dyn Engine, range: KeyRange, seek: Option<&str>, direction: Direction, expect: &str) {
    let mut cursor = cursor(&engine.reader(), range.clone(), direction);
    if let Some(key) = seek {
        cursor.seek(key.as_bytes());
    }
    let expect: Vec<&str> = expect.split_whitespace().collect();
    assert_eq!(
        rest(&mut *cursor),
        expect,
        "{} {direction:?} {range:?} from {seek:?}",
        engine.statistics().engine
    );
}

#[test]
fn reads_see_what_was_written() {
    for_each_engine(|engine| {
        put_all(engine, &["a", "b"]);
        write(engine, |unit| {
            unit.put(Keyspace::Indexes, b"a", b"other keyspace");
            unit.delete(DOCUMENTS, b"b");
            unit.delete(DOCUMENTS, b"never there");
            unit.put(DOCUMENTS, b"empty", b"");
        });
        let reader = engine.reader();
        let get = |keyspace, key: &[u8]| {
            reader.get(keyspace, key, ReadTier::Any).unwrap().map(|value| value.to_vec())
        };
        assert_eq!(get(DOCUMENTS, b"a").as_deref(), Some(b"a!".as_slice()));
        assert_eq!(get(Keyspace::Indexes, b"a").as_deref(), Some(b"other keyspace".as_slice()));
        assert_eq!(get(DOCUMENTS, b"b"), None);
        assert_eq!(get(DOCUMENTS, b"empty").as_deref(), Some(b"".as_slice()));
    });
}

#[test]
fn later_mutations_of_a_batch_win() {
    for_each_engine(|engine| {
        put_all(engine, &["k1", "k2", "k3"]);
        write(engine, |unit| {
            unit.put(DOCUMENTS, b"x", b"first");
            unit.delete(DOCUMENTS, b"x");
            unit.put(DOCUMENTS, b"x", b"x!");
            unit.put(DOCUMENTS, b"k4", b"k4!");
            unit.delete_range(DOCUMENTS, b"k1", b"k3");
            unit.put(DOCUMENTS, b"k2", b"k2!");
        });
        check(engine, KeyRange::all(), None, Direction::Forward, "k2 k3 k4 x");
    });
}

#[test]
fn cursors_keep_to_their_range_and_direction() {
    for_each_engine(|engine| {
        put_all(engine, &["a", "b", "ba", "c", "d"]);
        for direction in [Direction::Forward, Direction::Backward] {
            let check = |range, seek, forward: &str, backward: &str| {
                let expect = if direction == Direction::Forward { forward } else { backward };
                check(engine, range, seek, direction, expect);
            };
            let b_to_d = || KeyRange::new(*b"b", *b"d");
            check(KeyRange::all(), None, "a b ba c d", "d c ba b a");
            check(b_to_d(), None, "b ba c", "c ba b");
            check(KeyRange::prefix(*b"b"), None, "b ba", "ba b");
            check(KeyRange::starting_at(*b"c"), None, "c d", "d c");
            check(KeyRange::new(*b"x", *b"z"), None, "", "");
            check(KeyRange::new(*b"d", *b"b"), None, "", "");
            check(KeyRange::new(*b"d", *b"b"), Some("c"), "", "");
            check(KeyRange::all(), Some("b"), "b ba c d", "b a");
            check(KeyRange::all(), Some("bb"), "c d", "ba b a");
            check(b_to_d(), Some("a"), "b ba c", "");
            check(b_to_d(), Some("x"), "", "c ba b");
            check(b_to_d(), Some("d"), "", "c ba b");
            check(KeyRange::all(), Some(""), "a b ba c d", "");
        }
    });
}

#[test]
fn a_cursor_can_be_sought_again() {
    for_each_engine(|engine| {
        put_all(engine, &["a", "b", "c"]);
        let mut cursor = cursor(&engine.reader(), KeyRange::all(), Direction::Forward);
        assert_eq!(rest(&mut *cursor), ["a", "b", "c"]);
        cursor.seek(b"b");
        assert_eq!(cursor.next().unwrap().unwrap().0, b"b");
        cursor.seek(b"b");
        assert_eq!(rest(&mut *cursor), ["b", "c"]);
    });
}

#[test]
fn views_and_cursors_see_one_state() {
    for_each_engine(|engine| {
        put_all(engine, &["a", "b", "c"]);
        let pinned = engine.pinned_reader();
        let mut latest_cursor = cursor(&engine.reader(), KeyRange::all(), Direction::Forward);
        assert_eq!(latest_cursor.next().unwrap().unwrap().0, b"a");
        let sequence = pinned.sequence();
        assert_eq!(sequence, engine.sequence());
        write(engine, |unit| {
            unit.put(DOCUMENTS, b"a", b"changed");
            unit.delete(DOCUMENTS, b"b");
            unit.put(DOCUMENTS, b"bb", b"bb!");
            unit.delete_range(DOCUMENTS, b"c", b"d");
        });
        put_all(engine, &["d"]);
        assert_eq!(pinned.get(DOCUMENTS, b"a", ReadTier::Any).unwrap().unwrap(), *b"a!");
        assert!(pinned.get(DOCUMENTS, b"d", ReadTier::Any).unwrap().is_none());
        assert_eq!(rest(&mut *cursor(&pinned, KeyRange::all(), Direction::Forward)), ["a", "b", "c"]);
        assert_eq!(rest(&mut *cursor(&pinned, KeyRange::all(), Direction::Backward)), ["c", "b", "a"]);
        assert_eq!(rest(&mut *latest_cursor), ["b", "c"], "a cursor keeps the state of its creation");
        let now = engine.reader();
        assert_eq!(now.get(DOCUMENTS, b"a", ReadTier::Any).unwrap().unwrap(), *b"changed");
        assert!(engine.sequence() > sequence);
        assert_eq!(pinned.sequence(), sequence);
    });
}

/// The keys of a reader, by its cursors and by single reads.
fn keys_of(reader: &Arc<dyn EngineReader>) -> Vec<String> {
    let keys = rest(&mut *cursor(reader, KeyRange::all(), Direction::Forward));
    let mut backward = rest(&mut *cursor(reader, KeyRange::all(), Direction::Backward));
    backward.reverse();
    assert_eq!(keys, backward, "both directions see the same");
    for number in 0..10 {
        let key = format!("k{number}");
        let value = reader.get(DOCUMENTS, key.as_bytes(), ReadTier::Any).unwrap();
        assert_eq!(value.is_some(), keys.contains(&key), "{key} in {keys:?}");
    }
    keys
}

#[test]
fn several_views_each_see_their_own_time() {
    for_each_engine(|engine| {
        let mut views = Vec::new();
        for round in 0..12_u64 {
            let key = |number: u64| format!("k{}", number % 10).into_bytes();
            let value = |key: &[u8]| [key, b"!"].concat();
            write(engine, |unit| {
                for number in [round, round * 7 + 3] {
                    unit.put(DOCUMENTS, &key(number), &value(&key(number)));
                }
                unit.delete(DOCUMENTS, &key(round * 3 + 1));
                if round % 4 == 3 {
                    unit.delete_range(DOCUMENTS, b"k2", b"k5");
                }
            });
            let view = engine.pinned_reader();
            assert_eq!(view.sequence(), engine.sequence(), "a view is taken between two batches");
            let keys = keys_of(&view);
            views.push((view, keys));
            match round % 3 {
                0 => engine.flush().unwrap(),
                1 => engine.compact(DOCUMENTS, &KeyRange::all(), &mut || true).unwrap(),
                _ => {}
            }
        }
        assert!(views.iter().any(|(_, keys)| *keys != views[0].1), "the states differ");
        // Given up in no order.
        while !views.is_empty() {
            drop(views.remove(views.len() * 2 / 3));
            engine.compact(DOCUMENTS, &KeyRange::all(), &mut || true).unwrap();
            for (view, keys) in &views {
                assert_eq!(keys_of(view), *keys, "at {}", view.sequence());
            }
        }
        assert_eq!(engine.statistics().snapshots, 0, "no state is kept");
    });
}

#[test]
fn sequence_numbers_grow_with_each_batch() {
    for_each_engine(|engine| {
        let first = write(engine, |unit| unit.put(DOCUMENTS, b"a", b"1"));
        let second = write(engine, |unit| unit.put(DOCUMENTS, b"a", b"2"));
        assert!(second > first && engine.sequence() == second);
    });
}

#[test]
fn units_and_counters_are_one_batch() {
    for_each_engine(|engine| {
        let unit = |key: &[u8]| {
            let mut unit = WriteUnit::new();
            unit.put(DOCUMENTS, key, b"");
            unit
        };
        let mut counters = MutationLog::default();
        counters.put(Keyspace::Internal, b"counter", b"2");
        let before = engine.pinned_reader();
        engine.write(&[unit(b"one"), unit(b"two")], &counters).unwrap();
        let after = engine.reader();
        for (keyspace, key) in [(DOCUMENTS, "one"), (DOCUMENTS, "two"), (Keyspace::Internal, "counter")] {
            assert!(before.get(keyspace, key.as_bytes(), ReadTier::Any).unwrap().is_none());
            assert!(after.get(keyspace, key.as_bytes(), ReadTier::Any).unwrap().is_some(), "{key}");
        }
    });
}

#[test]
fn bytes_outlive_their_engine_handle() {
    let directory = tempfile::tempdir().unwrap();
    let engines: [Box<dyn Engine>; 3] = [
        Box::new(MemoryEngine::new()),
        Box::new(faulty_engine().1),
        Box::new(RocksEngine::open(directory.path(), &StorageOptions::small(), true, false).unwrap()),
    ];
    for engine in engines {
        put_all(&*engine, &["a", "b"]);
        engine.flush().unwrap();
        let reader = engine.pinned_reader();
        let value = reader.get(DOCUMENTS, b"a", ReadTier::Any).unwrap().unwrap();
        let mut cursor = cursor(&reader, KeyRange::all(), Direction::Forward);
        assert!(cursor.next().unwrap().is_some());
        drop(reader);
        drop(engine);
        assert_eq!(value, *b"a!");
        assert_eq!(rest(&mut *cursor), ["b"]);
    }
}

#[test]
fn maintenance_keeps_the_data() {
    for_each_engine(|engine| {
        put_all(engine, &["a", "b", "c"]);
        engine.flush().unwrap();
        write(engine, |unit| unit.delete(DOCUMENTS, b"b"));
        engine.sync_journal(false).unwrap();
        engine.sync_journal(true).unwrap();
        engine.flush().unwrap();
        engine.compact(DOCUMENTS, &KeyRange::all(), &mut || true).unwrap();
        check(engine, KeyRange::all(), None, Direction::Forward, "a c");
        assert!(engine.range_bytes(DOCUMENTS, &KeyRange::all()).total() > 0);
        assert_eq!(engine.range_bytes(DOCUMENTS, &KeyRange::starting_at(*b"x")).total(), 0);
        assert!(!engine.pressure().engine_stalled);
    });
}

#[test]
fn a_range_has_a_size_before_it_is_flushed() {
    for_each_engine(|engine| {
        for number in 0..1000_u16 {
            write(engine, |unit| unit.put(DOCUMENTS, &number.to_be_bytes(), &[7; 100]));
        }
        let all = engine.range_bytes(DOCUMENTS, &KeyRange::all());
        assert_eq!(all.tables, 0, "nothing was flushed");
        assert!((40_000..300_000).contains(&all.memtables), "1000 entries of 102 bytes: {all:?}");
        let half = engine.range_bytes(DOCUMENTS, &KeyRange::starting_at(500_u16.to_be_bytes()));
        assert!((15_000..200_000).contains(&half.memtables), "about half of {all:?}: {half:?}");
    });
}

#[test]
fn flushes_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(directory.path(), &StorageOptions::small(), true, false).unwrap();
    let before = engine.statistics().flushes;
    put_all(&engine, &["a"]);
    engine.flush().unwrap();
    assert_eq!(engine.statistics().flushes, before + 1, "one keyspace had something to flush");
}

#[test]
fn the_cache_tier_says_when_it_would_block() {
    let directory = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(directory.path(), &StorageOptions::small(), true, false).unwrap();
    put_all(&engine, &["a"]);
    let tiered = |engine: &RocksEngine| engine.reader().get(DOCUMENTS, b"a", ReadTier::BlockCache);
    assert_eq!(tiered(&engine).unwrap().unwrap(), *b"a!", "memtables are memory");
    engine.flush().unwrap();
    drop(engine);
    let engine = RocksEngine::open(directory.path(), &StorageOptions::small(), false, false).unwrap();
    assert_eq!(tiered(&engine).err(), Some(StorageError::WouldBlock));
    let options = CursorOptions { tier: ReadTier::BlockCache, fill_cache: true };
    let mut cursor = engine.reader().cursor(DOCUMENTS, KeyRange::all(), Direction::Forward, options).unwrap();
    assert_eq!(cursor.next().err(), Some(StorageError::WouldBlock));
    engine.reader().get(DOCUMENTS, b"a", ReadTier::Any).unwrap();
    assert_eq!(tiered(&engine).unwrap().unwrap(), *b"a!", "now it is in the cache");
}

/// Rows for tables: these keys, as `put_all` has them.
struct Rows<'r> {
    rest: std::slice::Iter<'r, &'r str>,
    value: String,
}

impl TableRows for Rows<'_> {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>, StorageError> {
        let Some(key) = self.rest.next() else { return Ok(None) };
        self.value = format!("{key}!");
        Ok(Some((key.as_bytes(), self.value.as_bytes())))
    }
}

#[test]
fn tables_become_part_at_once_and_views_before_do_not_see_them() {
    for_each_engine(|engine| {
        let directory = tempfile::tempdir().unwrap();
        let tables = |name: &str, keys: &[&str]| {
            let mut rows = Rows { rest: keys.iter(), value: String::new() };
            engine.write_tables(DOCUMENTS, &mut rows, &directory.path().join(name)).unwrap()
        };
        put_all(engine, &["a", "z"]);
        let (before, open) =
            (engine.pinned_reader(), &mut *cursor(&engine.reader(), KeyRange::all(), Direction::Forward));
        let sequence = engine.sequence();
        let mut both = tables("first", &["b", "c"]);
        both.extend(tables("second", &["d", "e"]));
        check(engine, KeyRange::all(), None, Direction::Forward, "a z");
        engine.ingest(DOCUMENTS, &both).unwrap();
        drop(both);
        assert!(engine.sequence() >= sequence);
        check(engine, KeyRange::all(), None, Direction::Forward, "a b c d e z");
        assert_eq!(rest(&mut *cursor(&before, KeyRange::all(), Direction::Forward)), ["a", "z"]);
        assert!(before.get(DOCUMENTS, b"c", ReadTier::Any).unwrap().is_none(), "it is younger");
        assert_eq!(rest(open), ["a", "z"], "a cursor sees one state");
        write(engine, |unit| unit.delete(DOCUMENTS, b"c"));
        check(engine, KeyRange::all(), None, Direction::Backward, "z e d b a");
        drop(tables("never taken in", &["x"]));
        engine.ingest(DOCUMENTS, &tables("empty", &[])).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "no file is left");
    });
}
