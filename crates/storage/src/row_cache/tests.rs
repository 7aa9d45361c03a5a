use super::*;
use crate::engine::Engine;
use crate::engine::memory::MemoryEngine;
use crate::unit::OperationLog;

const KIB: u64 = 1 << 10;

/// A cache before an engine in memory.
struct Rig {
    engine: MemoryEngine,
    cache: Arc<RowCache>,
    reader: CachedReader,
}

fn rig(bytes: u64) -> Rig {
    let (engine, cache) = (MemoryEngine::new(), Arc::new(RowCache::new(bytes)));
    let reader = CachedReader::new(Arc::clone(&cache), engine.reader(), true);
    Rig { engine, cache, reader }
}

impl Rig {
    fn write(&self, change: impl FnOnce(&mut WriteUnit)) {
        let mut unit = WriteUnit::new();
        change(&mut unit);
        let units = [unit];
        let log = OperationLog::default();
        self.cache.write_with(&units, || self.engine.write(&units, &log)).expect("memory does not fail");
    }

    /// Puts a value into the engine as if it had been there before the cache.
    fn stored(&self, key: &str, value: &[u8]) {
        let mut unit = WriteUnit::new();
        unit.put(Keyspace::Documents, key.as_bytes(), value);
        self.engine.write(&[unit], &OperationLog::default()).expect("memory does not fail");
    }

    fn put(&self, key: &str, value: &[u8]) {
        self.write(|unit| unit.put(Keyspace::Documents, key.as_bytes(), value));
    }

    fn get(&self, key: &str) -> Option<Vec<u8>> {
        let found = self.reader.get(Keyspace::Documents, key.as_bytes(), ReadTier::Any).expect("a read");
        found.map(|bytes| bytes.to_vec())
    }

    /// Reads a key, expects a value, and says whether the cache gave it.
    fn check(&self, key: &str, expect: Option<&[u8]>) -> bool {
        let before = self.cache.statistics().hits;
        assert_eq!(self.get(key).as_deref(), expect, "for {key}");
        self.cache.statistics().hits > before
    }
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
    let writer = CachedReader::new(Arc::clone(&rig.cache), rig.engine.reader(), false);
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
    let log = OperationLog::default();
    let write = |values: &[&[u8]]| {
        let units = values.iter().map(|value| {
            let mut unit = WriteUnit::new();
            unit.put(Keyspace::Documents, b"a", value);
            unit
        });
        let units: Vec<_> = units.collect();
        rig.cache.write_with(&units, || rig.engine.write(&units, &log)).expect("memory does not fail");
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
    assert!(!rig.check("b1", Some(b"y")), "rows of before are forgotten");
    assert!(rig.check("b1", Some(b"y")), "and come back");
    rig.write(|unit| unit.delete_range(Keyspace::Indexes, b"a", b"z"));
    assert!(rig.check("b1", Some(b"y")), "other keyspaces do not matter");
}

#[test]
fn a_failed_write_leaves_the_engines_value() {
    let rig = rig(64 * KIB);
    rig.put("a", b"one");
    rig.get("a");
    let mut unit = WriteUnit::new();
    unit.put(Keyspace::Documents, b"a", b"two");
    unit.delete_range(Keyspace::Documents, b"x", b"y");
    let units = [unit];
    assert_eq!(rig.cache.write_with(&units, || Err::<(), _>("refused")), Err("refused"));
    rig.check("a", Some(b"one"));
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        rig.cache.write_with(&units, || -> Result<(), ()> { panic!("in the engine") })
    }));
    assert!(panics.is_err());
    rig.check("a", Some(b"one"));
    assert!(rig.check("a", Some(b"one")), "the cache works on after a panic");
}

#[test]
fn while_a_write_is_under_way_the_engine_answers() {
    let rig = rig(64 * KIB);
    rig.put("a", b"one");
    rig.get("a");
    let mut unit = WriteUnit::new();
    unit.put(Keyspace::Documents, b"a", b"two");
    let units = [unit];
    let log = OperationLog::default();
    let write = || {
        assert!(!rig.check("a", Some(b"one")), "before it is written");
        let written = rig.engine.write(&units, &log);
        assert!(!rig.check("a", Some(b"two")), "as soon as it can be seen");
        written
    };
    rig.cache.write_with(&units, write).expect("memory does not fail");
    assert!(rig.check("a", Some(b"two")));
}

#[test]
fn the_budget_holds_and_what_is_asked_for_stays() {
    let rig = rig(256 * KIB);
    let value = [7; 1_000];
    for key in 0..2_000 {
        rig.stored(&format!("key{key}"), &value);
    }
    rig.get("key0");
    for key in 1..2_000 {
        // Twice: when the cache is full, a row must be asked for again to push others out.
        rig.get(&format!("key{key}"));
        rig.get(&format!("key{key}"));
        rig.get("key0");
        let bytes = rig.cache.statistics().bytes;
        assert!(bytes <= 260 * KIB, "{bytes} bytes with a budget of 256 KiB");
    }
    assert!(rig.cache.statistics().bytes > 200 * KIB, "the budget is used");
    assert!(rig.check("key0", Some(&value)), "a hot row is not pushed out");
    let recent = (1_900..2_000).filter(|key| rig.check(&format!("key{key}"), Some(&value))).count();
    assert!(recent > 50, "of the last hundred rows {recent} are still there");
}

#[test]
fn the_budget_holds_while_rows_grow() {
    let rig = rig(256 * KIB);
    let put = |length: usize| (0..200).for_each(|key| rig.put(&format!("key{key}"), &vec![7; length]));
    put(1_000);
    (0..200).for_each(|key| drop(rig.get(&format!("key{key}"))));
    assert!(rig.cache.statistics().bytes > 200 * KIB, "most of them have room");
    for length in [2_000, 5_000, 20_000] {
        put(length);
        let bytes = rig.cache.statistics().bytes;
        assert!(bytes <= 260 * KIB, "{bytes} bytes with a budget of 256 KiB");
    }
}

#[test]
fn one_pass_over_everything_pushes_nothing_out() {
    let rig = rig(128 * KIB);
    let value = [7; 1_000];
    for key in 0..2_000 {
        rig.stored(&format!("key{key}"), &value);
    }
    let hot = || (0..100).map(|key| format!("key{key}"));
    for _ in 0..3 {
        hot().for_each(|key| drop(rig.get(&key)));
    }
    for key in 100..2_000 {
        rig.get(&format!("key{key}"));
    }
    let kept = hot().filter(|key| rig.check(key, Some(&value))).count();
    assert!(kept > 80, "{kept} of 100 hot rows are left after a pass over 1,900 cold ones");
}

#[test]
fn what_is_read_to_be_written_over_enters_the_second_time() {
    let rig = rig(64 * KIB);
    let writer = CachedReader::new(Arc::clone(&rig.cache), rig.engine.reader(), false);
    rig.stored("a", b"one");
    let read = || {
        let found = writer.get(Keyspace::Documents, b"a", ReadTier::Any).expect("a read");
        assert_eq!(found.as_deref(), Some(b"one".as_slice()));
    };
    read();
    assert_eq!(rig.cache.statistics().bytes, 0, "the write that follows will bring it in");
    read();
    assert!(rig.cache.statistics().bytes > 0, "that write had no room");
    read();
    assert_eq!(rig.cache.statistics().hits, 1);
}

#[test]
fn large_values_stay_with_the_engine() {
    let rig = rig(1024 * KIB);
    let large = vec![1; 65 << 10];
    rig.put("a", &large);
    rig.get("a");
    assert!(!rig.check("a", Some(&large)));
    rig.put("a", b"small");
    rig.get("a");
    assert!(rig.check("a", Some(b"small")));
    rig.put("a", &large);
    assert!(!rig.check("a", Some(&large)), "a row that has grown too large is not kept");
    assert_eq!(rig.cache.statistics().bytes, 0);
}

#[test]
fn keys_spread_over_buckets() {
    let mut counts = vec![0_u32; 4_096];
    for id in 0..40_960_u32 {
        let mut key = 1_u32.to_be_bytes().to_vec();
        key.push(0x10);
        key.extend_from_slice(&id.to_be_bytes());
        let bucket = ((hash(&key) >> 32) * counts.len() as u64) >> 32;
        counts[bucket as usize] += 1;
    }
    let longest = counts.iter().max().copied().unwrap_or_default();
    assert!(longest <= 40, "ten keys a bucket on average, {longest} in the longest");
}

#[test]
fn a_bucket_is_one_cache_line() {
    assert_eq!(size_of::<table::LockedBucket>(), crate::prefetch::CACHE_LINE_BYTES);
}
