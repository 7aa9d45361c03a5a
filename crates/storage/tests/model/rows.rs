//! The row cache's protocol: whatever the schedule, a reader sees what the engine would have answered.

use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

use super::row_table::{Lookup, RowTable};
use super::{PREEMPTIONS, SCHEDULES};

const KEY: &[u8] = b"key";
const HASH: u64 = 7 << 32 | 7;
/// The bodies are short and their races rare.
const TIMES: usize = 15;

fn check(body: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(body.clone(), TIMES * SCHEDULES);
    shuttle::check_pct(body, TIMES * SCHEDULES, PREEMPTIONS);
}

/// One key's value in an engine: a number that only grows; zero is no value.
struct Engine {
    rows: RowTable,
    value: AtomicU64,
    /// What writers have been told.
    acknowledged: AtomicU64,
    leading: Mutex<()>,
}

impl Engine {
    fn new() -> Arc<Engine> {
        Arc::new(Engine {
            rows: RowTable::new(1 << 20),
            value: AtomicU64::new(1),
            acknowledged: AtomicU64::new(1),
            leading: Mutex::new(()),
        })
    }

    /// As `CachedReader::get`.
    fn read(&self) -> u64 {
        let ticket = match self.rows.lookup(HASH, KEY) {
            Lookup::Hit(row) => return u64::from_le_bytes(row.value().try_into().unwrap()),
            Lookup::Miss(ticket) => Some(ticket),
            Lookup::Bypass => None,
        };
        let value = self.value.load(Ordering::SeqCst);
        if let Some(ticket) = ticket.filter(|_| value > 0) {
            self.rows.fill(HASH, KEY, &value.to_le_bytes(), ticket, true);
        }
        value
    }

    /// As the leader's write of a batch.
    fn write(&self, value: u64) {
        let leading = self.leading.lock().unwrap();
        self.rows.begin_write(HASH);
        self.value.store(value, Ordering::SeqCst);
        self.rows.end_write(HASH, KEY, Some(&value.to_le_bytes()));
        drop(leading);
        self.acknowledged.fetch_max(value, Ordering::SeqCst);
    }

    /// As the leader's removal of a range.
    fn remove(&self) {
        let leading = self.leading.lock().unwrap();
        self.rows.begin_removal();
        self.value.store(0, Ordering::SeqCst);
        self.rows.end_removal();
        drop(leading);
    }
}

#[test]
fn reads_through_the_row_cache_never_go_back() {
    check(|| {
        let engine = Engine::new();
        let writers: Vec<_> = [2, 3]
            .map(|value| {
                let engine = Arc::clone(&engine);
                // In their order, so that values grow.
                thread::spawn(move || {
                    while engine.acknowledged.load(Ordering::SeqCst) + 1 < value {
                        thread::yield_now();
                    }
                    engine.write(value);
                })
            })
            .into();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let engine = Arc::clone(&engine);
                thread::spawn(move || {
                    let mut seen = 0;
                    for _ in 0..3 {
                        let acknowledged = engine.acknowledged.load(Ordering::SeqCst);
                        let value = engine.read();
                        assert!(value >= acknowledged, "{acknowledged} was acknowledged, {value} is read");
                        assert!(value >= seen, "{value} is read after {seen}");
                        // What another way of reading shows, such as a cursor.
                        seen = value.max(engine.value.load(Ordering::SeqCst));
                    }
                })
            })
            .collect();
        for thread in writers.into_iter().chain(readers) {
            thread.join().unwrap();
        }
        assert_eq!(engine.read(), 3);
        assert_eq!(engine.read(), 3);
    });
}

#[test]
fn a_removed_range_does_not_come_back() {
    check(|| {
        let engine = Engine::new();
        let remover = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || engine.remove())
        };
        let reader = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                let mut gone = false;
                for _ in 0..4 {
                    let value = engine.read();
                    assert!(!(gone && value > 0), "a removed row is read again");
                    gone = value == 0 || engine.value.load(Ordering::SeqCst) == 0;
                }
            })
        };
        remover.join().unwrap();
        reader.join().unwrap();
        assert_eq!(engine.read(), 0);
    });
}
