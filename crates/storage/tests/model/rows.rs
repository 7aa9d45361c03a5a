//! The row cache's protocol: whatever the schedule, a reader sees what the engine would have answered.

use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

use super::row_table::{AsOf, Lookup, RowTable};
use super::{PREEMPTIONS, SCHEDULES};

/// Keys of one bucket.
const KEYS: [&[u8]; 2] = [b"a", b"b"];
const HASHES: [u64; 2] = [7 << 32 | 7, 7 << 32 | 8];
const A: usize = 0;
const B: usize = 1;
/// The bodies are short and their races rare.
const TIMES: usize = 5;
/// What the engine holds before the cache: nothing newer than this.
const OPENED: u64 = 10;

fn check(body: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(body.clone(), TIMES * SCHEDULES);
    shuttle::check_pct(body, TIMES * SCHEDULES, PREEMPTIONS);
}

/// A value is the sequence number of its write; zero is no value.
type Values = [u64; 2];

/// An engine that remembers all of its states, and the cache before it.
struct Engine {
    rows: RowTable,
    /// The sequence number of each batch, and the values after it.
    states: Mutex<Vec<(u64, Values)>>,
    leading: Mutex<()>,
}

impl Engine {
    fn new() -> Arc<Engine> {
        Arc::new(Engine {
            rows: RowTable::new(1 << 20, OPENED),
            states: Mutex::new(vec![(OPENED, [1; 2])]),
            leading: Mutex::new(()),
        })
    }

    fn newest(&self) -> (u64, Values) {
        *self.states.lock().unwrap().last().unwrap()
    }

    fn at(&self, sequence: u64) -> Values {
        let states = self.states.lock().unwrap();
        states.iter().rev().find(|(batch, _)| *batch <= sequence).unwrap().1
    }

    /// As `CachedReader::get`. Returns whether it was a hit as well.
    fn read_with(&self, key: usize, lookup: Lookup, ask: impl FnOnce() -> u64) -> (u64, bool) {
        let as_of = match lookup {
            Lookup::Hit(row) => return (u64::from_le_bytes(row.value().try_into().unwrap()), true),
            Lookup::Miss(as_of) => Some(as_of),
            Lookup::Bypass => None,
        };
        let value = ask();
        if let Some(as_of) = as_of.filter(|_| value > 0) {
            self.rows.fill(HASHES[key], KEYS[key], &value.to_le_bytes(), as_of, true);
        }
        (value, false)
    }

    fn read(&self, key: usize) -> u64 {
        let lookup = self.rows.lookup(HASHES[key], KEYS[key]);
        self.read_with(key, lookup, || self.newest().1[key]).0
    }

    /// As `CachedReader::pinned`.
    fn view(&self) -> AsOf {
        let removals = self.rows.removals().ended();
        AsOf { sequence: self.newest().0, removals }
    }

    fn read_at(&self, view: AsOf, key: usize) -> bool {
        let lookup = self.rows.lookup_at(HASHES[key], KEYS[key], view);
        let expect = self.at(view.sequence)[key];
        let (value, hit) = self.read_with(key, lookup, || expect);
        assert_eq!(value, expect, "what the view at {} sees (hit: {hit})", view.sequence);
        hit
    }

    /// As the leader's write of a batch of some operations, one for each key; an engine that fails changes
    /// nothing.
    fn write(&self, keys: &[usize], fails: bool) {
        let _leading = self.leading.lock().unwrap();
        keys.iter().for_each(|key| self.rows.begin_write(HASHES[*key]));
        let (before, mut values) = self.newest();
        let sequence = (!fails).then_some(before + keys.len() as u64);
        if let Some(sequence) = sequence {
            keys.iter().for_each(|key| values[*key] = sequence);
            self.states.lock().unwrap().push((sequence, values));
            self.rows.applied(sequence);
        }
        for key in keys {
            let value = sequence.map(u64::to_le_bytes);
            self.rows.end_write(HASHES[*key], KEYS[*key], value.as_ref().map(<[u8; 8]>::as_slice), sequence);
        }
    }

    /// As the leader's removal of the range that holds `a`.
    fn remove_a(&self) {
        let _leading = self.leading.lock().unwrap();
        self.rows.removals().begin(b"a", b"b");
        let (before, mut values) = self.newest();
        values[A] = 0;
        self.states.lock().unwrap().push((before + 1, values));
        self.rows.applied(before + 1);
        self.rows.removals().end();
    }

    fn spawn(self: &Arc<Engine>, body: impl FnOnce(&Engine) + Send + 'static) -> thread::JoinHandle<()> {
        let engine = Arc::clone(self);
        thread::spawn(move || body(&engine))
    }
}

#[test]
fn reads_through_the_row_cache_never_go_back() {
    check(|| {
        let engine = Engine::new();
        let writers = [false, true].map(|fails| engine.spawn(move |engine| engine.write(&[A, B], fails)));
        let last = engine.spawn(|engine| engine.write(&[A], false));
        let readers = [A, A].map(|key| {
            engine.spawn(move |engine| {
                let mut seen = 0;
                for _ in 0..3 {
                    let value = engine.read(key);
                    assert!(value >= seen, "{value} is read after {seen}");
                    // What another way of reading shows, such as a cursor.
                    seen = value.max(engine.newest().1[key]);
                }
            })
        });
        for thread in writers.into_iter().chain(readers).chain([last]) {
            thread.join().unwrap();
        }
        for key in [A, B, A, B] {
            assert_eq!(engine.read(key), engine.newest().1[key]);
        }
    });
}

#[test]
fn a_removed_range_does_not_come_back() {
    check(|| {
        let engine = Engine::new();
        let remover = engine.spawn(Engine::remove_a);
        let reader = engine.spawn(|engine| {
            let mut gone = false;
            for _ in 0..4 {
                let value = engine.read(A);
                assert!(!(gone && value > 0), "a removed row is read again");
                gone = value == 0 || engine.newest().1[A] == 0;
                assert_eq!(engine.read(B), 1, "a row beside the range is what it was");
            }
        });
        remover.join().unwrap();
        reader.join().unwrap();
        assert_eq!((engine.read(A), engine.read(B)), (0, 1));
        engine.write(&[A], false);
        assert_eq!((engine.read(A), engine.read(A)), (engine.newest().0, engine.newest().0));
    });
}

#[test]
fn a_view_never_sees_a_row_of_another_time() {
    check(|| {
        let engine = Engine::new();
        let writer = engine.spawn(|engine| {
            engine.write(&[A], false);
            engine.write(&[B, A], false);
        });
        let failing = engine.spawn(|engine| engine.write(&[B], true));
        let remover = engine.spawn(Engine::remove_a);
        let viewers = [A, B].map(|first| {
            engine.spawn(move |engine| {
                let early = engine.view();
                engine.read_at(early, first);
                engine.read(first);
                let late = engine.view();
                for key in [A, B] {
                    engine.read_at(late, key);
                    engine.read_at(early, key);
                }
            })
        });
        for thread in viewers.into_iter().chain([writer, failing, remover]) {
            thread.join().unwrap();
        }
        let now = engine.view();
        for key in [A, B] {
            engine.read_at(now, key);
            assert_eq!(
                engine.read_at(now, key),
                engine.at(now.sequence)[key] > 0,
                "what the view has read is kept"
            );
        }
    });
}
