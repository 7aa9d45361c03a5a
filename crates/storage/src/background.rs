//! The store's two threads: one brings the journal to stable storage every interval, one governs the gate.
//!
//! They are apart because a slow disk keeps the first one busy exactly when the second one is needed.

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::gate::{Admission, assess};
use crate::store::StoreInner;

/// How often the gate is set while writes come in or the gate is not open.
const GOVERNOR_TICK_BUSY: Duration = Duration::from_millis(10);
/// How often it is looked at when nothing is written: debt cannot grow then.
const GOVERNOR_TICK_IDLE: Duration = Duration::from_millis(50);

/// Tells the threads to stop, and the journal thread that its interval has changed.
pub(crate) struct Signal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

struct SignalState {
    stop: bool,
    journal_interval: Duration,
}

impl Signal {
    pub(crate) fn new(journal_interval: Duration) -> Signal {
        Signal { state: Mutex::new(SignalState { stop: false, journal_interval }), changed: Condvar::new() }
    }

    pub(crate) fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
    }

    pub(crate) fn set_journal_interval(&self, interval: Duration) {
        self.state.lock().journal_interval = interval;
        self.changed.notify_all();
    }

    pub(crate) fn journal_interval(&self) -> Duration {
        self.state.lock().journal_interval
    }

    /// Waits one journal interval from `since` on, also when the interval changes meanwhile. Returns
    /// whether to go on.
    fn wait_journal(&self, since: Instant) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.stop {
                return false;
            }
            let deadline = since + state.journal_interval;
            if Instant::now() >= deadline {
                return true;
            }
            self.changed.wait_until(&mut state, deadline);
        }
    }

    /// Waits for `tick`; returns whether to go on.
    fn wait_tick(&self, tick: Duration) -> bool {
        let deadline = Instant::now() + tick;
        let mut state = self.state.lock();
        while !state.stop {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return !state.stop;
            }
        }
        false
    }
}

/// Starts both threads; they hold the store only while they work, so they never keep it alive.
pub(crate) fn start(store: &Arc<StoreInner>) -> std::io::Result<Vec<JoinHandle<()>>> {
    let (signal, weak) = (Arc::clone(&store.signal), Arc::downgrade(store));
    let journal = std::thread::Builder::new()
        .name("heddle-journal".into())
        .spawn(move || keep_journal(&signal, &weak))?;
    let (signal, weak) = (Arc::clone(&store.signal), Arc::downgrade(store));
    let governor =
        std::thread::Builder::new().name("heddle-governor".into()).spawn(move || govern(&signal, &weak));
    match governor {
        Ok(governor) => Ok(vec![journal, governor]),
        Err(error) => {
            store.signal.stop();
            Err(error)
        }
    }
}

fn keep_journal(signal: &Signal, store: &Weak<StoreInner>) {
    let mut last = Instant::now();
    while signal.wait_journal(last) {
        last = Instant::now();
        let Some(store) = store.upgrade() else { return };
        store.journal.sync_now(&*store);
    }
}

fn govern(signal: &Signal, store: &Weak<StoreInner>) {
    let mut last = Instant::now();
    let mut seen = 0;
    let mut tick = GOVERNOR_TICK_IDLE;
    while signal.wait_tick(tick) {
        let Some(store) = store.upgrade() else { return };
        let applied = store.applied();
        let quiet = applied == seen && store.gate.is_open() && !store.group.is_paused();
        seen = applied;
        let elapsed = last.elapsed();
        last = Instant::now();
        tick = if quiet { GOVERNOR_TICK_IDLE } else { GOVERNOR_TICK_BUSY };
        if !quiet {
            set_gate(&store, elapsed);
        }
    }
}

fn set_gate(store: &StoreInner, elapsed: Duration) {
    let pressure = store.engine.pressure();
    let admission = assess(&pressure, &store.gate_limits);
    if store.gate.is_open() && admission != Admission::Open {
        tracing::warn!(?pressure, ?admission, "commits are slowed while flush and compaction catch up");
    } else if !store.gate.is_open() && admission == Admission::Open {
        tracing::info!(?pressure, "commits run at full speed again");
    }
    store.gate.set(admission, elapsed);
    if !pressure.engine_stalled {
        store.group.resume(store);
    }
}
