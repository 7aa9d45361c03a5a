//! The I/O budget: how fast flush, compaction and all other work in the background may move bytes now.
//!
//! ```text
//!  memtables, level 0, compaction ─▶ debt 0 … 1 ──┐
//!                                                 ├─▶ RateController ─▶ IoBudget ─▶ RocksDB's limiter
//!  late commits, reads, syncs ─────▶ squeeze ─────┘                              └▶ `pace.rs`: all others
//!                                                                                   (copies, builds, TTL)
//! ```
//! While nothing is owed, flush and compaction get somewhat more than they have needed lately and spread what
//! they write. The further they are behind, the more they get, up to the most long before commits are paced.
//! While clients wait longer than the target, everything gets less; but what is owed takes the squeeze back,
//! so that debt never grows without end because of it. Beyond the most the gate paces commits (`gate/`).
//! Compaction has the same of the processors' time.
//!
//! This file decides from what it is given, the time included; the governor asks it each tick. See
//! `docs/design/io-budget.md`.

mod calm;
pub(crate) mod govern;
pub(crate) mod latency;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::engine::{MemtableState, Pressure};
use crate::gate::{Band, GateLimits};
use calm::{CalmBounds, CalmRate};
use latency::Lateness;

/// However late clients are answered, flush and compaction get this.
const SQUEEZED_MIN: u64 = 4 << 20;
/// The least that a squeeze leaves.
const SQUEEZE_MIN: f64 = 1.0 / 8.0;
/// What is left after each look at which too much was late; …
const SQUEEZE_STEP: f64 = 0.7;
/// … and what comes back at each other one: all of it within five seconds.
const RELAX_STEP: f64 = 0.02;
/// How often the latency is judged.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What flush and compaction write per second while nothing is owed, …
const CALM_BYTES: CalmBounds = CalmBounds { headroom: 1.5, share: 8, least: 16 << 20 };
/// … and what compaction takes of the processors, in microseconds.
const CALM_PROCESSORS: CalmBounds = CalmBounds { headroom: 1.2, share: 1, least: 250_000 };
/// Level-0 files from which on they count: RocksDB begins to compact.
const LEVEL0_FROM: u64 = 4;
/// Everything is given when a figure is this part of the way to where commits are paced.
const EARLY: f64 = 0.8;
/// Pending compaction counts from this part of where commits are paced, and fully from half of it.
const PENDING_FROM: f64 = 0.125;
const PENDING_FULL: f64 = 0.5;

/// Why the budget is what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum BudgetReason {
    /// Nothing is owed and nobody is late: what is written is spread.
    #[default]
    Calm = 0,
    /// Flush or compaction are behind.
    Debt = 1,
    /// Clients wait longer than the target.
    Latency = 2,
    /// Both: the debt takes back what the latency would squeeze.
    DebtAndLatency = 3,
    /// Somebody waits for flush or compaction, or the disk has little room.
    Asked = 4,
}

impl BudgetReason {
    /// The name in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            BudgetReason::Calm => "calm",
            BudgetReason::Debt => "debt",
            BudgetReason::Latency => "latency",
            BudgetReason::DebtAndLatency => "debt and latency",
            BudgetReason::Asked => "asked for",
        }
    }

    fn of(code: u8) -> BudgetReason {
        match code {
            0 => BudgetReason::Calm,
            1 => BudgetReason::Debt,
            2 => BudgetReason::Latency,
            3 => BudgetReason::DebtAndLatency,
            _ => BudgetReason::Asked,
        }
    }
}

/// What may be moved now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// By everything together, in bytes per second; 0 is no limit.
    pub(crate) total: u64,
    /// By flush and compaction.
    pub(crate) engine: u64,
    pub(crate) debt: f64,
    pub(crate) squeeze: f64,
    pub(crate) reason: BudgetReason,
}

/// The budget in force, for all who read it.
#[derive(Debug, Default)]
pub(crate) struct IoBudget {
    total: AtomicU64,
    engine: AtomicU64,
    /// Thousandths.
    debt: AtomicU64,
    squeeze: AtomicU64,
    reason: AtomicU8,
    /// Those who wait for a flush or a compaction.
    hurried: AtomicUsize,
    /// Of these, those who wait for a compaction.
    compaction_hurried: AtomicUsize,
    /// What compaction may write of what is the engine's, where nothing forbids to hold it; 0 is no limit.
    compaction_wanted: AtomicU64,
    /// The same as it is in force.
    compaction: AtomicU64,
    /// What compaction may take of the processors, in microseconds per second; 0 is no limit.
    processors: AtomicU64,
}

impl IoBudget {
    pub(crate) fn new(most: u64) -> IoBudget {
        let budget = IoBudget::default();
        budget.set(Rates { total: most, engine: most, squeeze: 1.0, ..Rates::default() });
        budget
    }

    pub(crate) fn set(&self, rates: Rates) {
        let thousandths = |share: f64| (share * 1000.0).round() as u64;
        self.total.store(rates.total, Ordering::Relaxed);
        self.engine.store(rates.engine, Ordering::Relaxed);
        self.debt.store(thousandths(rates.debt), Ordering::Relaxed);
        self.squeeze.store(thousandths(rates.squeeze), Ordering::Relaxed);
        self.reason.store(rates.reason as u8, Ordering::Relaxed);
    }

    pub(crate) fn rates(&self) -> Rates {
        let share = |thousandths: &AtomicU64| thousandths.load(Ordering::Relaxed) as f64 / 1000.0;
        Rates {
            total: self.total.load(Ordering::Relaxed),
            engine: self.engine.load(Ordering::Relaxed),
            debt: share(&self.debt),
            squeeze: share(&self.squeeze),
            reason: BudgetReason::of(self.reason.load(Ordering::Relaxed)),
        }
    }

    /// Until the guard goes, somebody waits for what flush or compaction write.
    pub(crate) fn hurry(&self) -> Hurry<'_> {
        self.hurried.fetch_add(1, Ordering::Relaxed);
        Hurry { budget: self, waits_for_compaction: false }
    }

    /// The same for who waits for a compaction: it has no rate of its own meanwhile.
    pub(crate) fn hurry_compaction(&self) -> Hurry<'_> {
        self.hurried.fetch_add(1, Ordering::Relaxed);
        self.compaction_hurried.fetch_add(1, Ordering::Relaxed);
        Hurry { budget: self, waits_for_compaction: true }
    }

    pub(crate) fn is_hurried(&self) -> bool {
        self.hurried.load(Ordering::Relaxed) > 0
    }

    /// What compaction is to write per second from now on; 0 is no limit of its own.
    pub(crate) fn want_compaction(&self, bytes_per_second: u64) {
        self.compaction_wanted.store(bytes_per_second, Ordering::Relaxed);
    }

    /// What compaction may write per second; 0 is no limit of its own. It has none while somebody waits for
    /// it, and none while it may not wait (`is_bound` is false).
    pub(crate) fn decide_compaction(&self, is_bound: bool) -> u64 {
        let is_free = !is_bound || self.compaction_hurried.load(Ordering::Relaxed) > 0;
        let rate = if is_free { 0 } else { self.compaction_wanted.load(Ordering::Relaxed) };
        self.compaction.store(rate, Ordering::Relaxed);
        rate
    }

    pub(crate) fn compaction_wanted(&self) -> u64 {
        self.compaction_wanted.load(Ordering::Relaxed)
    }

    pub(crate) fn compaction(&self) -> u64 {
        self.compaction.load(Ordering::Relaxed)
    }

    pub(crate) fn set_processors(&self, us_per_second: u64) {
        self.processors.store(us_per_second, Ordering::Relaxed);
    }

    pub(crate) fn processors(&self) -> u64 {
        self.processors.load(Ordering::Relaxed)
    }
}

/// See [`IoBudget::hurry`].
pub(crate) struct Hurry<'b> {
    budget: &'b IoBudget,
    waits_for_compaction: bool,
}

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.budget.hurried.fetch_sub(1, Ordering::Relaxed);
        if self.waits_for_compaction {
            self.budget.compaction_hurried.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// How far flush and compaction are behind: 0 is not at all, 1 as far as they may be before everything is
/// given to them. It reaches 1 before the gate paces commits.
pub(crate) fn debt(
    pressure: &Pressure,
    memtables: &[MemtableState],
    gate: &GateLimits,
    dirty_target: u64,
) -> f64 {
    let way = |value: f64, from: f64, full: f64| ((value - from) / (full - from).max(1e-9)).clamp(0.0, 1.0);
    let paced = |band: Band| band.paced as f64;
    // A memtable that is full and one that is half full are half a memtable beyond what is usual.
    let waiting = memtables.iter().filter(|memtable| memtable.immutables > 0).map(|memtable| {
        let fill = memtable.active_bytes as f64 / memtable.full_bytes.max(1) as f64;
        memtable.immutables as f64 + fill.min(1.0) - 1.0
    });
    let memtables_full = EARLY * (paced(gate.immutable_memtables) - 1.0).max(1.0);
    let unflushed = way(waiting.fold(0.0, f64::max), 0.0, memtables_full);
    let dirty = way(pressure.unflushed_bytes as f64, dirty_target as f64, 1.5 * dirty_target as f64);
    let level0_full = EARLY * paced(gate.level0_files);
    let level0 = way(pressure.level0_files as f64, LEVEL0_FROM as f64, level0_full);
    let pending_paced = paced(gate.pending_compaction_bytes);
    let pending = way(
        pressure.pending_compaction_bytes as f64,
        PENDING_FROM * pending_paced,
        PENDING_FULL * pending_paced,
    );
    unflushed.max(dirty).max(level0).max(pending)
}

/// Decides the rates, tick by tick.
#[derive(Debug)]
pub(crate) struct RateController {
    calm: CalmRate,
    calm_processors: CalmRate,
    squeeze: f64,
    looked: Option<Instant>,
}

impl RateController {
    pub(crate) fn new() -> RateController {
        RateController {
            calm: CalmRate::new(CALM_BYTES),
            calm_processors: CalmRate::new(CALM_PROCESSORS),
            squeeze: 1.0,
            looked: None,
        }
    }

    /// Whether nothing would change if nobody looked any more, as long as nothing is written or read.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.squeeze >= 1.0
    }

    /// The rates from now on, of at most `most` bytes per second (0 is no limit). Flush and compaction have
    /// written `moved` bytes since the start. `lateness` is asked for what was late since the last time it
    /// was asked.
    pub(crate) fn decide(
        &mut self,
        most: u64,
        debt: f64,
        is_hurried: bool,
        moved: impl FnOnce() -> u64,
        lateness: impl FnOnce() -> Option<Lateness>,
        now: Instant,
    ) -> Rates {
        if self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LOOK_EVERY) {
            self.looked = Some(now);
            match lateness() {
                Some(Lateness::TooLate) => self.squeeze = (self.squeeze * SQUEEZE_STEP).max(SQUEEZE_MIN),
                None => {}
                Some(Lateness::OnTime) => self.squeeze = (self.squeeze + RELAX_STEP).min(1.0),
            }
        }
        assert!((0.0..=1.0).contains(&debt), "a debt of {debt} is beyond its bounds");
        let (is_late, owes) = (self.squeeze < 1.0, debt > 0.0);
        let reason = match (is_hurried, owes, is_late) {
            (true, ..) => BudgetReason::Asked,
            (_, true, true) => BudgetReason::DebtAndLatency,
            (_, true, _) => BudgetReason::Debt,
            (_, _, true) => BudgetReason::Latency,
            _ => BudgetReason::Calm,
        };
        let left = self.left(debt);
        let most_now = most as f64;
        let calm = self.calm.of(most, moved, now);
        let wanted = if is_hurried { most_now } else { beyond_calm(calm, most_now, debt) };
        let least = SQUEEZED_MIN.min(most);
        Rates {
            total: ((most_now * left) as u64).max(least),
            engine: ((wanted * left) as u64).max(least),
            debt,
            squeeze: self.squeeze,
            reason,
        }
    }

    /// What the squeeze leaves, as far as the debt does not take it back.
    fn left(&self, debt: f64) -> f64 {
        self.squeeze + (1.0 - self.squeeze) * debt
    }

    /// What compaction may take of the processors from now on, in microseconds per second, of at most `most`;
    /// 0 is no limit. It has spent `spent` since the start.
    pub(crate) fn decide_processors(
        &mut self,
        most: u64,
        debt: f64,
        is_hurried: bool,
        spent: impl FnOnce() -> u64,
        now: Instant,
    ) -> u64 {
        let calm = self.calm_processors.of(most, spent, now);
        let wanted = (beyond_calm(calm, most as f64, debt) * self.left(debt)) as u64;
        if is_hurried || wanted >= most { 0 } else { wanted.max(CALM_PROCESSORS.least) }
    }
}

/// Each step of debt is worth the same factor: compaction that is a little behind is not let loose.
fn beyond_calm(calm: f64, most: f64, debt: f64) -> f64 {
    calm * (most / calm.max(1.0)).powf(debt)
}
