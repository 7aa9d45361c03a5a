//! The store's threads: one brings the journal to stable storage every interval and when somebody waits for
//! it, one governs the gate and watches the disk, one gives room back (`reclaim.rs`).
//!
//! They are apart because a slow disk keeps the first and the last one busy exactly when the second one is
//! needed. All rest, without a clock, while nothing is written: an idle store wakes nobody.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::budget::govern::BudgetGovernor;
use crate::engine::Pressure;
use crate::gate::queue::Admission;
use crate::gate::{GateLimits, assess};
use crate::reclaim;
use crate::space::SpaceState;
use crate::store::StoreInner;

/// How often the gate is set while writes come in or the gate is not open.
const GOVERNOR_TICK: Duration = Duration::from_millis(10);
/// So soon after a look comes the next one when a group was sent back.
const HASTENED_TICK: Duration = Duration::from_millis(1);
/// How often the disk is looked at while it has little room and nothing is written.
const SPACE_TICK: Duration = Duration::from_millis(250);
/// Memtables are flushed this often while the disk has little room and something is written.
const FLUSH_PAUSE: Duration = Duration::from_secs(1);

/// What the threads sleep on: the end, a new interval, somebody who waits for a sync, the first write
/// after a pause.
pub(crate) struct Signal {
    state: Mutex<SignalState>,
    journal: Condvar,
    governor: Condvar,
    /// Whether some thread rests until the next write. Set before that thread looks for writes a last time,
    /// read after a write was counted: one of the two sees the other.
    resting: AtomicBool,
    /// Whether a setting has changed since the governor began its last tick.
    has_changed: AtomicBool,
}

#[derive(Default)]
struct SignalState {
    stop: bool,
    journal_interval: Duration,
    sync_requested: bool,
    journal_rests: bool,
    governor_rests: bool,
    hastened: bool,
}

/// What a thread does after it has slept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Work,
    Stop,
}

impl Signal {
    pub(crate) fn new(journal_interval: Duration) -> Signal {
        Signal {
            state: Mutex::new(SignalState { journal_interval, ..SignalState::default() }),
            journal: Condvar::new(),
            governor: Condvar::new(),
            resting: AtomicBool::new(false),
            has_changed: AtomicBool::new(false),
        }
    }

    pub(crate) fn stop(&self) {
        self.state.lock().stop = true;
        self.journal.notify_all();
        self.governor.notify_all();
    }

    pub(crate) fn set_journal_interval(&self, interval: Duration) {
        self.state.lock().journal_interval = interval;
        self.journal.notify_all();
    }

    pub(crate) fn journal_interval(&self) -> Duration {
        self.state.lock().journal_interval
    }

    /// Whether somebody waits for a sync by the journal thread; asked once.
    fn take_sync_request(&self) -> bool {
        std::mem::take(&mut self.state.lock().sync_requested)
    }

    /// Makes the journal thread sync at once.
    pub(crate) fn request_sync(&self) {
        let mut state = self.state.lock();
        state.sync_requested = true;
        state.journal_rests = false;
        self.journal.notify_one();
    }

    /// A group was sent back, and nothing is written until the governor has looked: it looks soon.
    pub(crate) fn hasten(&self) {
        self.state.lock().hastened = true;
        self.governor.notify_all();
    }

    /// Something was written, or the engine has sent a group back: the threads have work.
    #[inline]
    pub(crate) fn written(&self) {
        fence(Ordering::SeqCst);
        if self.resting.load(Ordering::Relaxed) {
            self.rouse();
        }
    }

    /// A setting is another one: the governor looks at all of them, also where it was about to rest and
    /// nothing is written.
    pub(crate) fn changed(&self) {
        self.has_changed.store(true, Ordering::Release);
        self.written();
    }

    #[cold]
    fn rouse(&self) {
        let mut state = self.state.lock();
        self.resting.store(false, Ordering::Relaxed);
        state.journal_rests = false;
        state.governor_rests = false;
        self.journal.notify_all();
        self.governor.notify_all();
    }

    /// Whether both threads sleep until the next write.
    #[cfg(test)]
    fn all_rest(&self) -> bool {
        let state = self.state.lock();
        state.journal_rests && state.governor_rests
    }

    /// Rests on `condvar` until something is written or the time has come, unless `work` says there is
    /// something to do already.
    fn rest(
        &self,
        condvar: &Condvar,
        until: Option<Instant>,
        rests: fn(&mut SignalState) -> &mut bool,
        work: impl FnOnce() -> bool,
    ) -> Next {
        let mut state = self.state.lock();
        *rests(&mut state) = true;
        self.resting.store(true, Ordering::Relaxed);
        drop(state);
        fence(Ordering::SeqCst);
        let works = work();
        let mut state = self.state.lock();
        while !works && *rests(&mut state) && !state.stop {
            match until {
                None => condvar.wait(&mut state),
                Some(until) if ambient::now() < until => drop(condvar.wait_until(&mut state, until)),
                Some(_) => break,
            }
        }
        *rests(&mut state) = false;
        next(&state)
    }

    /// Waits one journal interval from `since` on, also when the interval changes meanwhile, or until a sync
    /// is requested.
    fn wait_journal(&self, since: Instant) -> Next {
        let mut state = self.state.lock();
        loop {
            let deadline = since + state.journal_interval;
            if state.stop || std::mem::take(&mut state.sync_requested) || ambient::now() >= deadline {
                return next(&state);
            }
            self.journal.wait_until(&mut state, deadline);
        }
    }

    fn wait_tick(&self, tick: Duration) -> Next {
        let began = ambient::now();
        let mut state = self.state.lock();
        loop {
            let pause = if state.hastened { tick.min(HASTENED_TICK) } else { tick };
            if state.stop || ambient::now() >= began + pause {
                state.hastened = false;
                return next(&state);
            }
            self.governor.wait_until(&mut state, began + pause);
        }
    }
}

fn next(state: &MutexGuard<'_, SignalState>) -> Next {
    if state.stop { Next::Stop } else { Next::Work }
}

/// What a thread does until the store is closed.
type ThreadWork = fn(&StoreInner);

/// Starts the threads; they end at [`Signal::stop`] and [`crate::reclaim::Reclaim::stop`].
pub(crate) fn start(store: &Arc<StoreInner>) -> std::io::Result<Vec<JoinHandle<()>>> {
    let threads: [(&'static str, ThreadWork); 3] =
        [("heddle-journal", keep_journal), ("heddle-governor", govern), ("heddle-reclaim", reclaim::run)];
    let start = |(name, work): (&'static str, ThreadWork)| {
        let inner = Arc::clone(store);
        std::thread::Builder::new().name(name.into()).spawn(move || {
            // Without it the journal would grow unsynced, or the gate stay as it is, and nobody would know
            // why.
            if catch_unwind(AssertUnwindSafe(|| work(&inner))).is_err() {
                inner.break_down(&format!("the thread {name} panicked"));
            }
        })
    };
    let started: std::io::Result<Vec<_>> = threads.into_iter().map(start).collect();
    store.ahead.open();
    if started.is_err() {
        store.ahead.stop();
        store.signal.stop();
        store.reclaim.stop();
    }
    started
}

fn keep_journal(store: &StoreInner) {
    let signal = &store.signal;
    let behind = || store.journal.is_behind(store.applied());
    let mut last = ambient::now();
    loop {
        if !behind() {
            if signal.rest(&signal.journal, None, |state| &mut state.journal_rests, behind) == Next::Stop {
                return;
            }
            last = ambient::now();
        }
        if signal.wait_journal(last) == Next::Stop {
            return;
        }
        last = ambient::now();
        store.journal.sync_now(store);
    }
}

fn govern(store: &StoreInner) {
    let signal = &store.signal;
    let mut governor = Governor::new();
    loop {
        let seen = governor.seen;
        let budget = &governor.budget;
        let busy = || {
            let has_changed = signal.has_changed.load(Ordering::Relaxed);
            has_changed || Some(store.applied()) != seen || !is_calm(store) || !budget.is_at_rest(store)
        };
        let until = budget.next_seal(store);
        if !busy()
            && signal.rest(&signal.governor, until, |state| &mut state.governor_rests, busy) == Next::Stop
        {
            return;
        }
        let has_changed = signal.has_changed.load(Ordering::Relaxed);
        let only_space = Some(store.applied()) == seen && gate_is_calm(store) && !has_changed;
        if signal.wait_tick(if only_space { SPACE_TICK } else { GOVERNOR_TICK }) == Next::Stop {
            return;
        }
        // Before the settings are read.
        signal.has_changed.swap(false, Ordering::AcqRel);
        governor.tick(store);
    }
}

/// What the governor knows from one tick to the next.
struct Governor {
    last: Instant,
    /// What was applied at the last tick.
    seen: Option<u64>,
    flushed: Flushed,
    budget: BudgetGovernor,
}

impl Governor {
    fn new() -> Governor {
        let now = ambient::now();
        Governor { last: now, seen: None, flushed: Flushed::default(), budget: BudgetGovernor::new(now) }
    }

    fn tick(&mut self, store: &StoreInner) {
        self.seen = Some(store.applied());
        let elapsed = ambient::elapsed(self.last);
        self.last = ambient::now();
        let pressure = store.engine.pressure();
        watch_space(store, &pressure, &mut self.flushed);
        let limits = self.budget.tick(store, &pressure, self.last);
        set_gate(store, &pressure, &limits, elapsed);
    }
}

/// The work of the threads for a store that has none: a simulation decides when each would come to it. See
/// [`Store::without_threads`](crate::Store::without_threads).
pub struct StoreTasks {
    store: Arc<StoreInner>,
    governor: Governor,
}

impl StoreTasks {
    pub(crate) fn new(store: Arc<StoreInner>) -> StoreTasks {
        StoreTasks { store, governor: Governor::new() }
    }

    /// Whether somebody waits for [`StoreTasks::sync_journal`]; asked once.
    pub fn take_sync_request(&self) -> bool {
        self.store.signal.take_sync_request()
    }

    /// What the journal thread does at each interval and when somebody waits for it.
    pub fn sync_journal(&self) {
        self.store.journal.sync_now(&*self.store);
    }

    /// One tick of the governor.
    pub fn govern(&mut self) {
        self.governor.tick(&self.store);
    }

    /// One piece of the work of giving room back, if there is any.
    pub fn reclaim(&self) {
        reclaim::run_once(&self.store);
    }
}

impl std::fmt::Debug for StoreTasks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StoreTasks").finish_non_exhaustive()
    }
}

/// Whether debt cannot grow and nobody waits for it to shrink, nor for room, as long as nothing is written.
fn is_calm(store: &StoreInner) -> bool {
    gate_is_calm(store) && store.space.state() == SpaceState::Normal
}

fn gate_is_calm(store: &StoreInner) -> bool {
    store.gate.is_open() && !store.group.is_paused()
}

/// The last flush for want of room.
#[derive(Default)]
struct Flushed {
    at: Option<Instant>,
    /// What it covered.
    sequence: u64,
}

/// Looks at the disk.
pub(crate) fn look_at_room(store: &StoreInner, pressure: &Pressure) {
    let memtable_bytes = store.knobs().shape.memtable_bytes;
    store.space.look(pressure, memtable_bytes, ambient::now());
}

fn watch_space(store: &StoreInner, pressure: &Pressure, flushed: &mut Flushed) {
    let before = store.space.state();
    look_at_room(store, pressure);
    if store.space.state() == SpaceState::Normal {
        return;
    }
    if before == SpaceState::Normal {
        store.reclaim.add_small_ones();
    }
    // Deletions free nothing before they are in a file, and until then the log grows.
    let applied = store.applied();
    if flushed.sequence != applied && flushed.at.is_none_or(|at| ambient::elapsed(at) >= FLUSH_PAUSE) {
        *flushed = Flushed { at: Some(ambient::now()), sequence: applied };
        store.reclaim.request_flush();
    }
}

fn set_gate(store: &StoreInner, pressure: &Pressure, limits: &GateLimits, elapsed: Duration) {
    if store.breakdown().is_some() {
        // Whoever waits hears of it.
        store.gate.set(Admission::Open, elapsed);
        store.group.resume(store);
        return;
    }
    let admission = if store.has_gate { assess(pressure, limits) } else { Admission::Open };
    // No flush opens a gate that waits for room which nobody makes: who waits there hears of it.
    let is_in_vain = admission == Admission::Closed && store.space.is_exhausted(pressure, ambient::now());
    store.space.refuse_all(is_in_vain);
    let admission = if is_in_vain { Admission::Open } else { admission };
    if store.gate.is_open() && admission != Admission::Open {
        tracing::warn!(?pressure, ?admission, "commits are slowed while flush and compaction catch up");
    } else if !store.gate.is_open() && admission == Admission::Open && !is_in_vain {
        tracing::info!(?pressure, "commits run at full speed again");
    }
    store.gate.set(admission, elapsed);
    if !pressure.engine_stalled
        && !store.space.holds_commits(ambient::now(), || store.engine.accepts_writes())
    {
        store.group.resume(store);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Keyspace, StorageKnobs, StorageOptions, Store, WriteUnit};

    #[test]
    fn an_idle_store_wakes_nobody_and_a_write_rouses_both_threads() {
        let store = Store::in_memory(&StorageOptions::small()).expect("a store in memory opens");
        for round in 0..3_u8 {
            while !store.inner.signal.all_rest() {
                std::thread::yield_now();
            }
            assert_eq!(store.sequence(), store.synced_sequence(), "round {round}: nothing is left to sync");
            let mut unit = WriteUnit::new();
            unit.put(Keyspace::Documents, &[round], b"");
            let receipt = store.commit(unit).wait().expect("the commit passes");
            assert!(!store.inner.signal.all_rest(), "round {round}: the write has roused the threads");
            while store.synced_sequence() < receipt.sequence {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn a_setting_that_changes_while_the_governor_goes_to_rest_counts() {
        const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
        let directory = tempfile::tempdir().expect("a directory can be made");
        let store = Store::open(directory.path(), &StorageOptions::small()).expect("the store opens");
        let mut unit = WriteUnit::new();
        unit.put(Keyspace::Documents, b"in no table", &vec![7; 800_000]);
        store.commit(unit).wait().expect("the commit passes");
        let open = store.knobs();
        let closed = StorageKnobs { dirty_trigger_bytes: Some(100_000), ..open };
        for round in 0..200 {
            // The gate is the last thing that a tick sets: what follows at once falls between tick and rest.
            for (knobs, gate) in [(closed, "closed"), (open, "open")] {
                store.set_knobs(knobs).expect("both are allowed");
                let began = std::time::Instant::now();
                while store.statistics().commit.gate != gate {
                    assert!(began.elapsed() < PATIENCE, "round {round}: the gate is not {gate}");
                    std::hint::spin_loop();
                }
            }
        }
    }
}
