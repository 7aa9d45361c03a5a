//! Reading ahead of a walk: what it comes to next is read by other threads, many keys at a time, into the
//! caches. A walk over an index that is followed to documents on the disk waits for the disk once in a while
//! and not once for each of them.
//!
//! ```text
//!  walk:       …  7 8 9 │10 11 12 … 40      asks for the keys in front of it, a batch at a time
//!                       └──────┬─────┘
//!  queue ◀─────────────────────┘            bounded: what does not fit is read by the walk itself
//!    └─▶ up to 16 threads, each one read at a time; they end when nobody has wanted anything for a second
//! ```
//! It is a hint: what is read ahead is thrown away, the walk reads it again, from memory then.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::keyspace::Keyspace;
use crate::statistics::ReadAheadStatistics;
use crate::store::Store;
use crate::view::ReadView;

/// Reads under way at most: more do not fill a disk more, and each has a thread.
const THREADS_MAX: usize = 16;
/// Keys that wait for their turn at most, of all walks together.
const QUEUED_MAX: usize = 1024;
/// A thread ends when nothing was wanted for so long.
const IDLE: Duration = Duration::from_secs(1);
/// A read that takes longer has been to the disk; one that has not takes a fifth of it.
const SLOW: Duration = Duration::from_micros(80);

/// What was asked for at once, as the walk may look at it later.
#[derive(Debug, Default)]
pub struct AheadBatch {
    left: AtomicUsize,
    was_slow: AtomicBool,
}

impl AheadBatch {
    /// Whether everything was in memory already, as far as it is known: whoever walks there need not ask.
    pub fn was_in_memory(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0 && !self.was_slow.load(Ordering::Relaxed)
    }
}

struct WantedRead {
    view: ReadView,
    keyspace: Keyspace,
    key: Vec<u8>,
    batch: Arc<AheadBatch>,
}

/// The threads of a store that read ahead, and what they have to read.
#[derive(Default)]
pub(crate) struct ReadAhead {
    state: Mutex<AheadState>,
    wanted: Condvar,
    asked: AtomicU64,
    slow: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Default)]
struct AheadState {
    /// Not before the store has threads, nor once it is about to be closed.
    is_open: bool,
    queue: VecDeque<WantedRead>,
    threads: Vec<JoinHandle<()>>,
    running: usize,
    idle: usize,
}

impl ReadAhead {
    pub(crate) fn open(&self) {
        self.state.lock().is_open = true;
    }

    /// Forgets what is wanted and waits for the reads under way.
    pub(crate) fn stop(&self) {
        let threads = {
            let mut state = self.state.lock();
            state.is_open = false;
            state.queue.clear();
            std::mem::take(&mut state.threads)
        };
        self.wanted.notify_all();
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a storage thread had panicked");
            }
        }
    }

    pub(crate) fn statistics(&self) -> ReadAheadStatistics {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ReadAheadStatistics { asked: read(&self.asked), slow: read(&self.slow), dropped: read(&self.dropped) }
    }

    fn ask(self: &Arc<Self>, view: &ReadView, keyspace: Keyspace, keys: Vec<Vec<u8>>) -> Arc<AheadBatch> {
        let batch = Arc::new(AheadBatch::default());
        let mut state = self.state.lock();
        let room = if state.is_open { QUEUED_MAX.saturating_sub(state.queue.len()) } else { 0 };
        let (wanted, dropped) = (keys.len().min(room), keys.len().saturating_sub(room));
        batch.left.store(wanted, Ordering::Relaxed);
        self.asked.fetch_add(wanted as u64, Ordering::Relaxed);
        self.dropped.fetch_add(dropped as u64, Ordering::Relaxed);
        if dropped > 0 {
            // Nobody knows of them, and the walk is to go on asking.
            batch.was_slow.store(true, Ordering::Relaxed);
        }
        let reads = keys.into_iter().take(wanted);
        let reads =
            reads.map(|key| WantedRead { view: view.clone(), keyspace, key, batch: Arc::clone(&batch) });
        state.queue.extend(reads);
        let missing = state.queue.len().saturating_sub(state.idle);
        let more = missing.min(THREADS_MAX.saturating_sub(state.running));
        for _ in 0..more {
            self.start_one(&mut state);
        }
        drop(state);
        for _ in 0..wanted.min(THREADS_MAX) {
            self.wanted.notify_one();
        }
        batch
    }

    fn start_one(self: &Arc<Self>, state: &mut AheadState) {
        state.threads.retain(|thread| !thread.is_finished());
        let ahead = Arc::clone(self);
        let started = std::thread::Builder::new().name("heddle-ahead".into()).spawn(move || ahead.run());
        match started {
            Ok(thread) => {
                state.running += 1;
                state.threads.push(thread);
            }
            // The walk reads by itself what nobody reads ahead.
            Err(error) => tracing::debug!(%error, "no thread can be started that reads ahead"),
        }
    }

    fn run(&self) {
        crate::budget::latency::work_in_background();
        let mut state = self.state.lock();
        while state.is_open {
            if let Some(read) = state.queue.pop_front() {
                drop(state);
                self.read(&read);
                drop(read);
                state = self.state.lock();
                continue;
            }
            state.idle += 1;
            let waited = self.wanted.wait_for(&mut state, IDLE);
            state.idle -= 1;
            if waited.timed_out() && state.queue.is_empty() {
                break;
            }
        }
        state.running -= 1;
    }

    fn read(&self, read: &WantedRead) {
        let began = ambient::now();
        // What is wrong with it the walk will be told, where it matters.
        drop(read.view.get(read.keyspace, &read.key));
        if ambient::elapsed(began) >= SLOW {
            self.slow.fetch_add(1, Ordering::Relaxed);
            read.batch.was_slow.store(true, Ordering::Relaxed);
        }
        read.batch.left.fetch_sub(1, Ordering::Release);
    }
}

impl Store {
    /// Whether a read that took so long has been to the disk.
    pub fn was_slow(elapsed: Duration) -> bool {
        elapsed >= SLOW
    }

    /// Has these keys read into the caches by other threads, in this order, while the caller goes on. A hint:
    /// nothing is answered, nothing fails, and what is too much is left out.
    pub fn read_ahead(&self, view: &ReadView, keyspace: Keyspace, keys: Vec<Vec<u8>>) -> Arc<AheadBatch> {
        self.inner.ahead.ask(view, keyspace, keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StorageOptions, WriteUnit};

    fn store_of(count: u32) -> Store {
        let store = Store::in_memory(&StorageOptions::small()).expect("a store in memory opens");
        let mut unit = WriteUnit::new();
        for number in 0..count {
            unit.put(Keyspace::Documents, &number.to_be_bytes(), b"value");
        }
        store.commit(unit).wait().expect("the commit passes");
        store
    }

    fn keys(numbers: std::ops::Range<u32>) -> Vec<Vec<u8>> {
        numbers.map(|number| number.to_be_bytes().to_vec()).collect()
    }

    fn await_reads(batch: &AheadBatch) {
        let began = std::time::Instant::now();
        while batch.left.load(Ordering::Acquire) > 0 {
            assert!(began.elapsed() < Duration::from_secs(30), "nobody reads ahead");
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_is_asked_for_is_read_and_threads_go_when_nobody_asks() {
        let store = store_of(100);
        let view = store.read_view();
        let hits = store.statistics().row_cache;
        let batch = store.read_ahead(&view, Keyspace::Documents, keys(0..100));
        await_reads(&batch);
        let after = store.statistics();
        assert_eq!(after.read_ahead.asked, 100);
        assert_eq!(after.row_cache.hits + after.row_cache.misses - hits.hits - hits.misses, 100, "read");
        let threads = || store.inner.ahead.state.lock().running;
        assert!((1..=THREADS_MAX).contains(&threads()), "{} threads", threads());
        let began = std::time::Instant::now();
        while threads() > 0 {
            assert!(began.elapsed() < Duration::from_secs(30), "the threads stay");
            std::thread::sleep(Duration::from_millis(20));
        }
        // And come back.
        await_reads(&store.read_ahead(&view, Keyspace::Documents, keys(0..3)));
    }

    #[test]
    fn what_is_too_much_is_left_out_and_a_closed_store_reads_nothing() {
        let store = store_of(3);
        let view = store.read_view();
        let most = u32::try_from(QUEUED_MAX).expect("few");
        let batch = store.read_ahead(&view, Keyspace::Documents, keys(0..most + 10));
        let found = store.statistics().read_ahead;
        assert_eq!((found.asked, found.dropped), (u64::from(most), 10));
        assert!(!batch.was_in_memory(), "ten are not known");
        store.close().expect("it closes");
        let refused = store.read_ahead(&view, Keyspace::Documents, keys(0..3));
        assert_eq!(refused.left.load(Ordering::Relaxed), 0);
        assert_eq!(store.statistics().read_ahead.dropped, 13);
        assert_eq!(store.inner.ahead.state.lock().running, 0, "no thread outlives it");
    }
}
