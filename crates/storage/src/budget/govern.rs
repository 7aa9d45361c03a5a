//! What the governor does for the budget at each tick: seals what is due, keeps syncs small, sets the rates.

use std::time::{Duration, Instant};

use super::{RateController, debt};
use crate::engine::{Memtables, Pressure};
use crate::gate::GateLimits;
use crate::journal_tail::JournalTail;
use crate::knobs::StorageKnobs;
use crate::seal::{self, SealLimits};
use crate::space::SpaceState;
use crate::store::StoreInner;

/// The journal is synced after so many bytes, if its interval has not ended by then.
const SYNC_BYTES: u64 = 8 << 20;
/// The number of threads changes no more often: it is written to a file.
const JOBS_FOR: Duration = Duration::from_secs(10);

const US_PER_SECOND: u64 = 1_000_000;

/// What the governor knows from one tick to the next.
#[derive(Debug)]
pub(crate) struct BudgetGovernor {
    controller: RateController,
    /// When the latency was last judged.
    judged: Option<Instant>,
    tail: JournalTail,
    /// The journal at the last tick, and where it was when the last sync began.
    journal_bytes: u64,
    unsynced_from: u64,
    synced: u64,
    /// Whether a memtable was sealed at the last tick: what comes of it is to be looked at.
    has_sealed: bool,
    engine_rate: u64,
    compaction_rate: u64,
    jobs: Option<(u32, Instant)>,
    /// Threads that can run at a time.
    parallelism: usize,
    /// What was applied when deletions in tables were last looked for.
    tidied: u64,
}

/// What recovery would have to do, for statistics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecoveryFigures {
    pub(crate) journal_bytes: u64,
    pub(crate) oldest_at: Option<Instant>,
}

impl BudgetGovernor {
    pub(crate) fn new(now: Instant) -> BudgetGovernor {
        BudgetGovernor {
            controller: RateController::new(),
            judged: None,
            tail: JournalTail::new(now),
            journal_bytes: 0,
            unsynced_from: 0,
            synced: 0,
            has_sealed: false,
            engine_rate: u64::MAX,
            compaction_rate: 0,
            jobs: None,
            parallelism: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            tidied: 0,
        }
    }

    /// Returns the gate's limits of the moment.
    pub(crate) fn tick(&mut self, store: &StoreInner, pressure: &Pressure, now: Instant) -> GateLimits {
        if !store.has_gate {
            // RocksDB as it comes, for comparisons: nobody governs it.
            return store.gate_limits;
        }
        let knobs = store.knobs();
        let memtables = store.engine.memtables();
        self.seal(store, &knobs, &memtables, pressure, now);
        self.sync(store, memtables.journal_bytes);
        let debt = debt(pressure, &memtables.of, &store.gate_limits, knobs.dirty_target());
        self.set_rates(store, &knobs, debt, now);
        self.set_compaction_rate(store, pressure);
        self.set_jobs(store, &knobs, debt, now);
        self.tidy(store, debt);
        let lent = store.memory_bound.lock().memtables_band(knobs.shape.memtable_bytes);
        let asked = knobs.dirty_band();
        let unflushed_bytes = if lent.paced < asked.paced { lent } else { asked };
        GateLimits { unflushed_bytes, ..store.gate_limits }
    }

    /// Whether nothing changes as long as nothing is written: nobody is behind, late or waits, and all that
    /// was sealed is flushed.
    pub(crate) fn is_at_rest(&self, store: &StoreInner) -> bool {
        let rates = store.budget.rates();
        let is_even = self.controller.is_at_rest() && rates.debt <= 0.0;
        let holds_compaction = self.compaction_rate == store.budget.compaction_wanted();
        let has_sealed = self.has_sealed || self.tail.awaits_flush();
        is_even && holds_compaction && !has_sealed && !store.budget.is_hurried()
    }

    /// When a memtable is due that nothing more is written to.
    pub(crate) fn next_seal(&self, store: &StoreInner) -> Option<Instant> {
        let interval = Some(store.knobs().flush_interval).filter(|interval| !interval.is_zero());
        interval.and_then(|interval| self.tail.oldest_active_at()?.checked_add(interval))
    }

    fn seal(
        &mut self,
        store: &StoreInner,
        knobs: &StorageKnobs,
        memtables: &Memtables,
        pressure: &Pressure,
        now: Instant,
    ) {
        self.tail.observe(memtables, now);
        *store.recovery.lock() =
            RecoveryFigures { journal_bytes: self.tail.bytes(), oldest_at: self.tail.oldest_at() };
        let limits = SealLimits {
            dirty_target: knobs.dirty_target(),
            journal_bytes: knobs.journal_bytes_max,
            age: knobs.flush_interval,
        };
        let due = seal::due(memtables, pressure.unflushed_bytes, &self.tail, &limits, now);
        // A store that is full of them seals no more, nor does one whose log waits for room.
        self.has_sealed = !due.is_empty() && !pressure.engine_stalled && !pressure.out_of_space;
        if !self.has_sealed {
            return;
        }
        if let Err(error) = store.engine.seal(&due) {
            tracing::debug!(%error, ?due, "memtables are not set aside now");
        }
    }

    fn sync(&mut self, store: &StoreInner, journal_bytes: u64) {
        let synced = store.journal.synced();
        if synced != self.synced {
            (self.synced, self.unsynced_from) = (synced, self.journal_bytes);
        }
        self.journal_bytes = journal_bytes;
        if journal_bytes.saturating_sub(self.unsynced_from) >= SYNC_BYTES {
            self.unsynced_from = journal_bytes;
            store.signal.request_sync();
        }
    }

    fn set_rates(&mut self, store: &StoreInner, knobs: &StorageKnobs, debt: f64, now: Instant) {
        let has_room = store.space.state() == SpaceState::Normal;
        let is_hurried = store.budget.is_hurried() || !has_room;
        let lateness = || store.latency.judge(&mut self.judged, now);
        let most = knobs.io_budget_bytes_per_second;
        let moved = || store.engine.io_bytes();
        let rates = self.controller.decide(most, debt, is_hurried, moved, lateness, now);
        store.budget.set(rates);
        if rates.engine != self.engine_rate {
            self.engine_rate = rates.engine;
            store.engine.set_io_rate(rates.engine);
        }
        let threads = (knobs.background_jobs_max as usize).min(self.parallelism) as u64;
        let spent = || store.engine.compaction_us();
        // Whoever lifts the limit of bytes lifts this one.
        let most = if most == 0 { 0 } else { threads * US_PER_SECOND };
        let processors = self.controller.decide_processors(most, debt, is_hurried, spent, now);
        if processors != store.budget.processors() {
            store.budget.set_processors(processors);
            store.engine.set_compaction_processors(processors);
        }
    }

    /// Its own rate holds compaction while nothing says that it must not be held: the bound of the calendar,
    /// looked at here at each tick.
    fn set_compaction_rate(&mut self, store: &StoreInner, pressure: &Pressure) {
        let has_room = store.space.state() == SpaceState::Normal;
        let is_bound = has_room && !store.gate_limits.forbids_deferring(pressure);
        let rate = store.budget.decide_compaction(is_bound);
        if rate != self.compaction_rate {
            self.compaction_rate = rate;
            store.engine.set_compaction_rate(rate);
        }
    }

    /// Once all that was written is in tables, and compaction has nothing to do by itself.
    fn tidy(&mut self, store: &StoreInner, debt: f64) {
        let applied = store.applied();
        let is_due = self.tidied != applied && self.tail.is_empty() && debt <= 0.0;
        if is_due && !store.reclaim.is_deferred() {
            self.tidied = applied;
            store.reclaim.request_tidying();
        }
    }

    fn set_jobs(&mut self, store: &StoreInner, knobs: &StorageKnobs, debt: f64, now: Instant) {
        let (least, most) = (knobs.background_jobs_min, knobs.background_jobs_max);
        let wanted = if debt > 0.0 { most } else { least };
        let is_due = |since: Instant| now.saturating_duration_since(since) >= JOBS_FOR;
        let changes = match self.jobs {
            // As the engine was opened with.
            None => least != most,
            Some((jobs, since)) => jobs != wanted && is_due(since),
        };
        if changes {
            self.jobs = Some((wanted, now));
            store.reclaim.request_jobs(wanted);
        }
    }
}
