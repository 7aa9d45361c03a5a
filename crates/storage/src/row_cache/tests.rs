use super::*;
use crate::engine::Engine;
use crate::engine::memory::MemoryEngine;
use crate::unit::MutationLog;

const KIB: u64 = 1 << 10;

/// A cache before an engine in memory.
struct Rig {
    engine: MemoryEngine,
    cache: Arc<RowCache>,
    reader: CachedReader<Latest>,
}

fn rig(bytes: u64) -> Rig {
    let (engine, cache) = (MemoryEngine::new(), Arc::new(RowCache::new(bytes, 0)));
    let reader = CachedReader::latest(Arc::clone(&cache), engine.reader(), true);
    Rig { engine, cache, reader }
}

impl Rig {
    fn write(&self, change: impl FnOnce(&mut WriteUnit)) {
        let mut unit = WriteUnit::new();
        change(&mut unit);
        self.write_all(&[unit]);
    }

    fn write_all(&self, units: &[WriteUnit]) {
        let log = MutationLog::default();
        let written =
            self.write_with(units, || Ok(self.engine.write(units, &log).expect("memory does not fail")));
        written.expect("nobody refuses it");
    }

    fn write_with(
        &self,
        units: &[WriteUnit],
        write: impl FnOnce() -> Result<u64, &'static str>,
    ) -> Result<u64, &'static str> {
        self.cache.write_with(units, write)
    }

    /// A view of this moment.
    fn view(&self) -> CachedReader<AsOf> {
        CachedReader::pinned(Arc::clone(&self.cache), || self.engine.pinned_reader())
    }

    /// Puts a value into the engine as if it had been there before the cache.
    fn stored(&self, key: &str, value: &[u8]) {
        let mut unit = WriteUnit::new();
        unit.put(Keyspace::Documents, key.as_bytes(), value);
        self.engine.write(&[unit], &MutationLog::default()).expect("memory does not fail");
    }

    fn put(&self, key: &str, value: &[u8]) {
        self.write(|unit| unit.put(Keyspace::Documents, key.as_bytes(), value));
    }

    fn get(&self, key: &str) -> Option<Vec<u8>> {
        get(&self.reader, key)
    }

    /// Reads a key, expects a value, and says whether the cache gave it.
    fn check(&self, key: &str, expect: Option<&[u8]>) -> bool {
        self.check_in(&self.reader, key, expect)
    }

    fn check_in(&self, reader: &dyn EngineReader, key: &str, expect: Option<&[u8]>) -> bool {
        let before = self.cache.statistics().hits;
        assert_eq!(get(reader, key).as_deref(), expect, "for {key}");
        self.cache.statistics().hits > before
    }
}

fn get(reader: &dyn EngineReader, key: &str) -> Option<Vec<u8>> {
    let found = reader.get(Keyspace::Documents, key.as_bytes(), ReadTier::Any).expect("a read");
    found.map(|bytes| bytes.to_vec())
}

#[test]
fn a_row_is_found_once_it_was_read() {
    let rig = rig(64 * KIB);
    rig.stored("a", b"one");
    assert!(!rig.check("a", Some(b"one")));
    assert!(rig.check("a", Some(b"one")));
    assert!(!rig.check("absent", None) && !rig.check("absent", None), "what is not there is not kept");
    let statistics = rig.cache.statistics();
    assert_eq!((statistics.hits, statistics.misses), (1, 1));
}

#[test]
fn what_is_read_and_written_over_enters_while_there_is_room() {
    let rig = rig(64 * KIB);
    let writer = CachedReader::latest(Arc::clone(&rig.cache), rig.engine.reader(), false);
    let read = |key: &str| drop(writer.get(Keyspace::Documents, key.as_bytes(), ReadTier::Any));
    read("new");
    rig.put("new", b"one");
    assert_eq!(rig.cache.statistics().bytes, 0, "what was not there before is not kept");
    let value = [7; 1_000];
    let keys = || (0..200).map(|key| format!("key{key}"));
    for key in keys() {
        rig.stored(&key, &[6; 1_000]);
        read(&key);
        rig.put(&key, &value);
    }
    assert!(rig.cache.statistics().bytes <= 64 * KIB);
    assert!(rig.check("key0", Some(&value)), "writes alone push nothing out");
    let bytes = rig.cache.statistics().bytes;
    assert!(bytes > 50 * KIB, "{bytes} bytes are used where 64 KiB have room");
}

#[test]
fn a_write_renews_rows_and_a_delete_removes_them() {
    let rig = rig(64 * KIB);
    rig.put("a", b"one");
    rig.get("a");
    for value in [b"two".as_slice(), b"a longer one", b""] {
        rig.put("a", value);
        assert!(rig.check("a", Some(value)), "the new value is there without a read of the engine");
    }
    rig.write(|unit| unit.delete(Keyspace::Documents, b"a"));
    assert!(!rig.check("a", None));
    assert_eq!(rig.cache.statistics().bytes, 0);
}

#[test]
fn the_last_write_of_a_batch_counts() {
    let rig = rig(64 * KIB);
    rig.put("a", b"old");
    rig.get("a");
    rig.write(|unit| {
        unit.put(Keyspace::Documents, b"a", b"first");
        unit.delete(Keyspace::Documents, b"a");
        unit.put(Keyspace::Documents, b"a", b"third");
        unit.put(Keyspace::Indexes, b"a", b"elsewhere");
    });
    rig.check("a", Some(b"third"));
    rig.check("a", Some(b"third"));
    rig.write(|unit| {
        unit.put(Keyspace::Documents, b"a", b"fourth");
        unit.delete(Keyspace::Documents, b"a");
    });
    rig.check("a", None);
}

#[test]
fn several_units_of_a_batch_may_write_one_row() {
    let rig = rig(64 * KIB);
    rig.put("a", b"old");
    rig.get("a");
    let write = |values: &[&[u8]]| {
        let units = values.iter().map(|value| {
            let mut unit = WriteUnit::new();
            unit.put(Keyspace::Documents, b"a", value);
            unit
        });
        rig.write_all(&units.collect::<Vec<_>>());
    };
    write(&[b"one", b"longer", b"two"]);
    assert!(rig.check("a", Some(b"two")), "the last unit's value is there without a read of the engine");
    let large = vec![7; 65 << 10];
    write(&[b"one", &large]);
    assert!(!rig.check("a", Some(&large)), "it is not kept, and the one before it is not found");
    write(&[&large, b"two", b"six"]);
    rig.check("a", Some(b"six"));
    assert!(rig.check("a", Some(b"six")));
}

#[test]
fn a_removed_range_takes_its_rows_along() {
    let rig = rig(64 * KIB);
    rig.put("a1", b"x");
    rig.put("b1", b"y");
    rig.get("a1");
    rig.get("b1");
    rig.write(|unit| {
        unit.put(Keyspace::Documents, b"a2", b"z");
        unit.delete_range(Keyspace::Documents, b"a", b"b");
    });
    assert!(!rig.check("a1", None));
    assert!(!rig.check("a2", None));
    assert!(rig.check("b1", Some(b"y")), "other rows stay");
    rig.put("a1", b"again");
    assert!(rig.check("a1", Some(b"again")), "what is put after the removal is there at once");
    rig.write(|unit| unit.delete_range(Keyspace::Indexes, b"a", b"z"));
    assert!(rig.check("a1", Some(b"again")), "other keyspaces do not matter");
}

#[test]
fn rows_outlive_many_removals_of_other_ranges_while_they_are_asked_for() {
    let rig = rig(64 * KIB);
    for key in ["asked for", "forgotten"] {
        rig.put(key, b"x");
        rig.get(key);
    }
    for _ in 0..150 {
        rig.write(|unit| unit.delete_range(Keyspace::Documents, b"z1", b"z2"));
        assert!(rig.check("asked for", Some(b"x")));
    }
    assert!(!rig.check("forgotten", Some(b"x")), "nobody knows all removals since");
    assert!(rig.check("forgotten", Some(b"x")), "it comes back");
}

#[test]
fn a_view_finds_what_has_not_changed_since() {
    let rig = rig(64 * KIB);
    for key in ["same", "changed", "deleted"] {
        rig.put(key, b"old");
        rig.get(key);
    }
    let view = rig.view();
    rig.put("changed", b"new");
    rig.put("later", b"new");
    rig.get("later");
    rig.write(|unit| unit.delete(Keyspace::Documents, b"deleted"));
    let check = |key, expect| rig.check_in(&view, key, expect);
    assert!(check("same", Some(b"old")), "what other rows have seen since does not matter");
    for _ in 0..2 {
        assert!(!check("changed", Some(b"old")), "the row is newer than the view");
        assert!(!check("deleted", Some(b"old")), "it is not there any more");
        assert!(!check("later", None), "it was not there yet");
    }
    assert!(rig.check("changed", Some(b"new")), "the view has left the row as it was");
    assert!(!rig.check("deleted", None), "nor has it brought one back");
    let now = rig.view();
    for (key, value) in [("same", b"old"), ("changed", b"new"), ("later", b"new")] {
        assert!(rig.check_in(&now, key, Some(value)), "a view of now finds {key}");
    }
}

#[test]
fn a_view_brings_rows_in_that_nobody_has_written_since() {
    let rig = rig(1024 * KIB);
    let keys = || (0..40).map(|key| format!("key{key}"));
    keys().for_each(|key| rig.put(&key, b"old"));
    let (before, view) = (rig.view(), rig.view());
    rig.put("key0", b"new");
    keys().skip(1).for_each(|key| assert!(!rig.check_in(&view, &key, Some(b"old"))));
    let hits = |reader: &dyn EngineReader| {
        keys().skip(1).filter(|key| rig.check_in(reader, key, Some(b"old"))).count()
    };
    // One bucket in 256 was written to meanwhile.
    assert!(hits(&rig.reader) >= 35 && hits(&view) >= 35, "what the view has read is found by all");
    assert!(hits(&before) >= 35, "also by one of the same time");
    assert!(!rig.check_in(&view, "key0", Some(b"old")));
    assert!(!rig.check("key0", Some(b"new")), "the old version has not entered");
}

#[test]
fn a_view_brings_nothing_back_that_was_removed_since() {
    let rig = rig(64 * KIB);
    rig.put("a1", b"x");
    rig.put("b1", b"y");
    let view = rig.view();
    rig.write(|unit| unit.delete_range(Keyspace::Documents, b"a", b"b"));
    for _ in 0..3 {
        assert!(!rig.check_in(&view, "a1", Some(b"x")), "the view sees it in the engine");
        assert!(!rig.check("a1", None));
    }
    rig.check_in(&view, "b1", Some(b"y"));
    assert!(rig.check_in(&view, "b1", Some(b"y")), "other rows are found");
}

#[test]
fn rows_of_a_write_whose_outcome_is_unknown_stay_with_the_engine() {
    let rig = rig(1024 * KIB);
    rig.put("a", b"one");
    rig.put("b", b"one");
    rig.get("a");
    rig.get("b");
    let view = rig.view();
    let mut unit = WriteUnit::new();
    unit.put(Keyspace::Documents, b"a", b"two");
    let units = [unit];
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        rig.write_with(&units, || {
            rig.engine.write(&units, &MutationLog::default()).expect("memory does not fail");
            panic!("after it was written")
        })
    }));
    assert!(panics.is_err());
    for _ in 0..3 {
        assert!(!rig.check("a", Some(b"two")) && !rig.check_in(&view, "a", Some(b"one")));
        assert!(rig.check("b", Some(b"one")), "others are found");
    }
}

#[test]
fn a_smaller_cache_gives_back_at_once() {
    let rig = rig(1024 * KIB);
    let keys = || (0..100).map(|key| format!("key{key}"));
    keys().for_each(|key| rig.put(&key, &[0; 4 << 10]));
    for _ in 0..2 {
        keys().for_each(|key| drop(rig.get(&key)));
    }
    assert!(rig.cache.bytes() > 300 * 1024, "{} bytes", rig.cache.bytes());
    rig.cache.set_capacity(64 * KIB);
    assert!(rig.cache.bytes() <= 64 * KIB, "{} bytes", rig.cache.bytes());
    assert_eq!(rig.cache.statistics().capacity_bytes, 64 * KIB);
    rig.cache.set_capacity(1024 * KIB);
    for _ in 0..2 {
        keys().for_each(|key| drop(rig.get(&key)));
    }
    assert!(rig.cache.bytes() > 300 * 1024, "it grows again: {} bytes", rig.cache.bytes());
}
