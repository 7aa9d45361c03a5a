//! What the block cache holds while documents are written again and again.

use std::time::{Duration, Instant};
use storage::{KeyRange, Keyspace, StorageOptions, Store, WriteUnit};

const DOCUMENTS: u32 = 1_000;
const VALUE_BYTES: usize = 1_000;
const ROUNDS: u8 = 6;

/// Bytes that do not compress, different in each round.
fn value(document: u32, round: u8) -> Vec<u8> {
    let mut state = u64::from(document) << 8 | u64::from(round) | 1 << 40;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..VALUE_BYTES).map(next).collect()
}

#[test]
fn blocks_of_replaced_files_leave_the_cache() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), &StorageOptions::small()).unwrap();
    let cached = || store.statistics().engine.cache_usage_bytes;
    let before = cached();
    for round in 0..ROUNDS {
        for document in 0..DOCUMENTS {
            let mut unit = WriteUnit::new();
            unit.put(Keyspace::Documents, &document.to_be_bytes(), &value(document, round));
            store.commit(unit).wait().unwrap();
        }
        store.flush().unwrap();
        store.compact(Keyspace::Documents, &KeyRange::all(), &mut || true).unwrap();
    }
    let once = u64::from(DOCUMENTS) * VALUE_BYTES as u64;
    assert!(cached() - before >= once, "what a compaction has written is in the cache");
    // Files go when the last reader has let go of them, which may be a moment later.
    let deadline = Instant::now() + Duration::from_secs(20);
    while cached() - before > 2 * once {
        assert!(Instant::now() < deadline, "{} bytes for documents of {once}", cached() - before);
        std::thread::sleep(Duration::from_millis(10));
    }
}
