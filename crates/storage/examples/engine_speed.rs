//! Prints what one thread gets out of the store:
//! `cargo run --release -p storage --example engine_speed [directory]`.

#![expect(clippy::unwrap_used, reason = "a measuring program may stop at the first surprise")]

use std::hint::black_box;
use std::time::Instant;

use storage::{
    CounterId, Direction, KeyRange, Keyspace, LatchTable, ReadTier, SharedLatch, StorageOptions, Store,
    WriteUnit,
};

const DOCUMENTS: u64 = 100_000;
const VALUE_BYTES: usize = 1000;
const SYNCED: u64 = 200;

fn key(number: u64) -> [u8; 12] {
    let mut key = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    // An odd factor scatters the numbers over the key space, each one once.
    key[4..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

/// Nanoseconds this thread has spent on a processor: what a measurement is worth on a shared machine.
fn processor_ns() -> u64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    statistics.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

fn report(what: &str, count: u64, started: Instant, processor_ns_before: u64) {
    let elapsed = started.elapsed().as_nanos() as f64 / count as f64;
    let processor = (processor_ns() - processor_ns_before) as f64 / count as f64;
    println!("{what:<44} {elapsed:>10.0} ns each, {processor:>8.0} ns of processor");
}

fn measure(what: &str, count: u64, mut body: impl FnMut(u64)) {
    let (started, before) = (Instant::now(), processor_ns());
    (0..count).for_each(&mut body);
    report(what, count, started, before);
}

fn put(number: u64, value: &[u8]) -> WriteUnit {
    let mut unit = WriteUnit::with_capacity(VALUE_BYTES + 64);
    unit.put(Keyspace::Documents, &key(number), value);
    unit
}

fn main() {
    let directory = std::env::args().nth(1).map_or_else(
        || std::env::temp_dir().join(format!("engine-speed-{}", std::process::id())),
        Into::into,
    );
    let store = Store::open(&directory, &StorageOptions::default()).unwrap();
    let value: Vec<u8> = (0..VALUE_BYTES).map(|index| (index * 7 % 251) as u8).collect();
    println!("{DOCUMENTS} documents of {VALUE_BYTES} bytes in {}", directory.display());

    measure("commit of one put", DOCUMENTS / 2, |number| {
        store.commit(put(number, &value)).wait().unwrap();
    });
    measure("commit of one put and two counters", DOCUMENTS / 2, |number| {
        let mut unit = put(number + DOCUMENTS / 2, &value);
        unit.add_counter(CounterId(1), 1);
        unit.add_counter(CounterId(2), VALUE_BYTES as i64);
        store.commit(unit).wait().unwrap();
    });
    measure("journaled commit of one put", SYNCED, |number| {
        let receipt = store.commit(put(number, &value)).wait().unwrap();
        store.journaled(receipt).wait().unwrap();
    });
    let view = store.read_view();
    let get = |tier| {
        let view = &view;
        move |number: u64| {
            let number = number.wrapping_mul(7919) % DOCUMENTS;
            black_box(view.get_tier(Keyspace::Documents, &key(number), tier).unwrap().unwrap().len());
        }
    };
    measure("get, memtables and new files", DOCUMENTS, get(ReadTier::Any));
    measure("get of a key that is not there", DOCUMENTS, |number| {
        black_box(view.exists(Keyspace::Documents, &key(number + DOCUMENTS)).unwrap());
    });
    store.flush().unwrap();
    store.compact(Keyspace::Documents, &KeyRange::all(), &mut || true).unwrap();
    let scan = |direction, upper: u64| {
        let mut cursor = view.cursor(Keyspace::Documents, KeyRange::all(), direction).unwrap();
        for _ in 0..upper {
            black_box(cursor.next().unwrap());
        }
    };
    scan(Direction::Forward, DOCUMENTS);
    measure("get, block cache", DOCUMENTS, get(ReadTier::Any));
    measure("get, block cache tier", DOCUMENTS, get(ReadTier::BlockCache));
    for direction in [Direction::Forward, Direction::Backward] {
        let (started, before) = (Instant::now(), processor_ns());
        scan(direction, DOCUMENTS);
        report(&format!("iterate {direction:?}"), DOCUMENTS, started, before);
    }
    measure("open a cursor and read one entry", 20_000, |number| {
        let mut cursor =
            view.cursor(Keyspace::Documents, KeyRange::starting_at(key(number)), Direction::Forward).unwrap();
        black_box(cursor.next().unwrap());
    });
    measure("pinned view and one get", 20_000, |number| {
        black_box(store.pinned_view().get(Keyspace::Documents, &key(number)).unwrap().unwrap().len());
    });
    let (table, latch) = (LatchTable::new(), SharedLatch::new());
    measure("document latch, uncontended", 1_000_000, |number| drop(black_box(table.try_lock(&key(number)))));
    measure("collection latch, shared, uncontended", 1_000_000, |_| drop(black_box(latch.try_shared())));

    let started = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (store, value) = (&store, &value);
            scope.spawn(move || {
                for number in 0..5000 {
                    store.commit(put(thread * 5000 + number, value)).wait().unwrap();
                }
            });
        }
    });
    let commits = store.statistics().commit;
    println!(
        "{:<52} {:>9.0} ns each",
        "commits of eight threads",
        started.elapsed().as_nanos() as f64 / 40_000.0
    );
    println!("{commits:#?}");
    store.close().unwrap();
    drop((view, store));
    if std::env::args().nth(1).is_none() {
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
