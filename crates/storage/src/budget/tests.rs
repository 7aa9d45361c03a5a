use std::time::{Duration, Instant};

use super::latency::{ForegroundLatency, Lateness};
use super::{BudgetReason, IoBudget, RateController, debt};
use crate::engine::{MemtableState, Pressure};
use crate::gate::{Band, GateLimits};

const MIB: u64 = 1 << 20;
const MOST: u64 = 512 * MIB;
const TICK: Duration = Duration::from_millis(10);

fn owed(pressure: Pressure, documents: MemtableState) -> f64 {
    debt(&pressure, &[MemtableState::default(), documents], &GateLimits::default(), u64::MAX)
}

fn memtables(active_bytes: u64, immutables: u64) -> MemtableState {
    MemtableState { active_bytes, full_bytes: 100, immutables, ..MemtableState::default() }
}

#[test]
fn debt_counts_early_and_fully_before_commits_are_paced() {
    let none = Pressure::default();
    assert_eq!(owed(none, memtables(99, 0)), 0.0, "one memtable that fills is no debt");
    assert_eq!(owed(none, memtables(0, 1)), 0.0, "one that is flushed while the next one begins is none");
    let half = owed(none, memtables(60, 1));
    assert!(half > 0.3 && half < 0.5, "{half}: the next one fills before the last one is flushed");
    assert_eq!(owed(none, memtables(80, 2)), 1.0, "the third is where commits are paced");
    let level0 = |files| owed(Pressure { level0_files: files, ..none }, memtables(0, 0));
    assert_eq!((level0(4), level0(12)), (0.0, 1.0));
    assert!(level0(6) > 0.2 && level0(6) < level0(8));
    let pending = |gib: u64| owed(Pressure { pending_compaction_bytes: gib << 30, ..none }, memtables(0, 0));
    assert_eq!((pending(2), pending(8)), (0.0, 1.0));
    let small = GateLimits { immutable_memtables: Band { paced: 2, closed: 4 }, ..GateLimits::default() };
    assert_eq!(debt(&none, &[memtables(80, 1)], &small, u64::MAX), 1.0, "sooner in small memory");
    let dirty = Pressure { unflushed_bytes: 150, ..none };
    assert_eq!(debt(&dirty, &[], &small, 100), 1.0, "beyond the dirty target");
}

/// The rate of flush and compaction after so long, with a debt, while clients are late or not, and while much
/// is written.
fn engine_rate(debt: f64, lateness: Option<Lateness>, lasting: Duration) -> (u64, u64, BudgetReason) {
    let (mut controller, began) = (RateController::new(), Instant::now());
    let mut now = began;
    loop {
        let moved = || MOST * (now - began).as_millis() as u64 / 1_000;
        let rates = controller.decide(MOST, debt, false, moved, || lateness, now);
        if now >= began + lasting {
            return (rates.engine, rates.total, rates.reason);
        }
        now += TICK;
    }
}

#[test]
fn the_rate_rises_with_debt_and_falls_with_latency() {
    let long = Duration::from_secs(5);
    let on_time = Some(Lateness::OnTime);
    let calm = engine_rate(0.0, on_time, long);
    assert_eq!(calm, (MOST / 8, MOST, BudgetReason::Calm), "copies are not held back by a calm engine");
    let (half, _, reason) = engine_rate(0.5, on_time, long);
    assert!(half > 2 * calm.0 && half < 4 * calm.0 && reason == BudgetReason::Debt, "{half}");
    assert_eq!(engine_rate(1.0, on_time, long).0, MOST);
    let late = engine_rate(0.0, Some(Lateness::TooLate), long);
    assert_eq!(late, (MOST / 64, MOST / 8, BudgetReason::Latency), "copies get less as well");
    let soon = engine_rate(0.0, Some(Lateness::TooLate), Duration::from_millis(400));
    assert!(soon.0 < calm.0 / 4, "{} half a second after the first that was late", soon.0);
    let both = engine_rate(1.0, Some(Lateness::TooLate), long);
    assert_eq!(both, (MOST, MOST, BudgetReason::DebtAndLatency), "what is owed takes the squeeze back");
}

#[test]
fn a_squeeze_ends_when_nobody_is_late_any_more_and_lasts_while_nothing_is_known() {
    let (mut controller, began) = (RateController::new(), Instant::now());
    let mut at = |milliseconds: u64, lateness: Option<Lateness>| {
        controller
            .decide(MOST, 0.0, false, || 0, || lateness, began + Duration::from_millis(milliseconds))
            .total
    };
    let squeezed = at(0, Some(Lateness::TooLate));
    assert!(squeezed < MOST);
    assert_eq!(at(50, Some(Lateness::TooLate)), squeezed, "it is judged every tenth of a second");
    assert_eq!(at(100, None), squeezed);
    let later = (2..50).map(|tenth| at(100 * tenth, Some(Lateness::OnTime))).last();
    assert_eq!(later, Some(MOST));
    assert!(controller.is_at_rest());
}

#[test]
fn small_and_no_budgets_stay_what_they_are() {
    let mut controller = RateController::new();
    let mut rates =
        |most| controller.decide(most, 0.0, false, || 0, || Some(Lateness::TooLate), Instant::now());
    assert_eq!(
        (rates(MIB).engine, rates(MIB).total),
        (MIB, MIB),
        "below the least there is nothing to squeeze"
    );
    assert_eq!((rates(0).engine, rates(0).total), (0, 0), "no limit");
}

#[test]
fn a_calm_engine_gets_somewhat_more_than_it_has_needed_lately() {
    let (mut controller, mut now, mut moved) = (RateController::new(), Instant::now(), 0);
    let mut after = |seconds: u64, per_second: u64| {
        for _ in 0..seconds {
            (now, moved) = (now + Duration::from_secs(1), moved + per_second);
            controller.decide(MOST, 0.0, false, || moved, || None, now);
        }
        controller.decide(MOST, 0.0, false, || moved, || None, now).engine / MIB
    };
    assert_eq!(after(1, 0), 64, "an eighth, as long as nothing is known");
    assert_eq!(after(400, 20 * MIB), 30);
    assert_eq!(after(30, 25 * MIB), 32, "not at once");
    assert_eq!(after(400, 500 * MIB), 64, "no more than an eighth");
    assert_eq!(after(400, 0), 16, "the least");
    let small = RateController::new().decide(8 * MIB, 0.0, false, || 0, || None, now);
    assert_eq!(small.engine, 8 * MIB, "no more than there is");
}

/// What a compaction that needs so much of two processors may take after so many seconds with this debt, in
/// hundredths of one.
fn processors(needed: f64, debt: f64, is_hurried: bool, lateness: Lateness, seconds: u64) -> u64 {
    let (mut controller, mut now, most) = (RateController::new(), Instant::now(), 2_000_000);
    let (mut spent, mut limit) = (0, 0);
    for _ in 0..seconds * 100 {
        let share = if limit == 0 { most } else { limit };
        spent += share.min((needed * 1e6) as u64) / 100;
        now += TICK;
        controller.decide(MOST, debt, is_hurried, || 0, || Some(lateness), now);
        limit = controller.decide_processors(most, debt, is_hurried, || spent, now);
    }
    limit / 10_000
}

#[test]
fn compaction_takes_somewhat_more_of_the_processors_than_it_has_needed_lately() {
    let calm = |needed: f64, debt: f64| processors(needed, debt, false, Lateness::OnTime, 600);
    assert_eq!(processors(0.5, 0.0, false, Lateness::OnTime, 1), 0, "no limit, as long as nothing is known");
    assert_eq!((calm(0.5, 0.0), calm(0.8, 0.0)), (60, 96));
    assert_eq!(calm(0.01, 0.0), 25, "the least");
    assert_eq!(calm(2.0, 0.0), 0, "all there is");
    assert_eq!(calm(0.5, 0.5), 109, "what is owed");
    assert_eq!(calm(0.5, 1.0), 0);
    assert_eq!(processors(0.5, 0.0, true, Lateness::OnTime, 600), 0, "somebody waits for it");
    assert_eq!(processors(0.5, 0.0, false, Lateness::TooLate, 600), 25);
    let both = processors(0.5, 0.9, false, Lateness::TooLate, 600);
    assert!(both > 120, "{both}: what is owed takes the squeeze back");
    assert_eq!(RateController::new().decide_processors(0, 0.0, false, || 0, Instant::now()), 0, "no budget");
}

#[test]
fn who_waits_for_a_flush_gets_everything() {
    let rates = RateController::new().decide(MOST, 0.0, true, || 0, || None, Instant::now());
    assert_eq!((rates.engine, rates.reason), (MOST, BudgetReason::Asked));
}

/// A store that is written to at a rate, each byte of which flush and compaction write so many times, while
/// clients are always late: the debt in MiB after so many seconds, and the rate at the end.
fn model(inflow: u64, amplification: u64, seconds: u64) -> (u64, u64) {
    let (mut controller, mut now) = (RateController::new(), Instant::now());
    // What is owed fully, for this model: 1 GiB of writes of the engine.
    let (full, mut behind, mut rate, mut moved) = (1_024.0 * MIB as f64, 0.0_f64, 0, 0.0);
    for _ in 0..seconds * 100 {
        behind += (inflow * amplification) as f64 / 100.0;
        let step = behind.min(rate as f64 / 100.0);
        (behind, moved) = (behind - step, moved + step);
        let owed = (behind / full).min(1.0);
        rate = controller.decide(MOST, owed, false, || moved as u64, || Some(Lateness::TooLate), now).engine;
        now += TICK;
    }
    (behind as u64 / MIB, rate)
}

#[test]
fn however_late_clients_are_debt_does_not_grow_without_end() {
    for (inflow, amplification) in [(3, 4), (10, 10), (50, 8), (100, 5)] {
        let needed = inflow * MIB * amplification;
        let (soon, _) = model(inflow * MIB, amplification, 600);
        let (later, rate) = model(inflow * MIB, amplification, 3_600);
        assert!(soon < 1_024 && later <= soon + 1, "{soon} MiB are owed after ten minutes, {later} after 60");
        assert!(rate.abs_diff(needed) < needed / 20 + 5 * MIB, "{rate} for {needed}");
    }
    // More than there is: the gate's to pace.
    assert_eq!(model(200 * MIB, 5, 60).1, MOST);
}

#[test]
fn too_many_are_late_from_one_in_a_hundred_and_two_on() {
    let (latency, began) = (ForegroundLatency::new(Duration::from_millis(5)), Instant::now());
    let mut since = None;
    let mut judged = |late: u64, counted: u64, seconds: u64| {
        (0..late).for_each(|_| latency.note(5_001));
        (late..counted).for_each(|_| latency.note(5_000));
        latency.judge(&mut since, began + Duration::from_secs(seconds))
    };
    assert_eq!(judged(0, 0, 0), Some(Lateness::OnTime));
    assert_eq!(judged(10, 10, 0), None, "ten say nothing yet");
    assert_eq!(judged(0, 0, 1), Some(Lateness::TooLate), "after a second they do");
    assert_eq!(judged(1, 32, 1), Some(Lateness::OnTime), "one is none");
    assert_eq!(judged(2, 200, 1), Some(Lateness::OnTime));
    assert_eq!(judged(3, 200, 1), Some(Lateness::TooLate));
    latency.set_target(Duration::from_millis(6));
    assert_eq!(judged(200, 200, 1), Some(Lateness::OnTime), "the target can change");
    assert_eq!(latency.figures(), (10 + 1 + 2 + 3, 2));
}

#[test]
fn who_works_in_the_background_squeezes_nothing() {
    let (latency, began) = (ForegroundLatency::new(Duration::from_millis(5)), Instant::now());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            super::latency::work_in_background();
            (0..100).for_each(|_| latency.note(5_001));
        });
    });
    assert_eq!(latency.judge(&mut None, began), Some(Lateness::OnTime));
    assert_eq!(latency.figures(), (0, 0));
    (0..100).for_each(|_| latency.note(5_001));
    assert_eq!(latency.judge(&mut None, began), Some(Lateness::TooLate), "other threads count");
}

#[test]
fn compaction_has_its_own_rate_unless_it_is_behind_or_waited_for() {
    let budget = IoBudget::new(MOST);
    assert_eq!(budget.decide_compaction(true), 0, "no limit of its own");
    budget.want_compaction(MIB);
    assert_eq!((budget.decide_compaction(true), budget.compaction()), (MIB, MIB));
    assert_eq!((budget.decide_compaction(false), budget.compaction()), (0, 0), "it is behind");
    {
        let _flush = budget.hurry();
        assert_eq!(budget.decide_compaction(true), MIB, "who waits for a flush waits for no compaction");
        let _compact = budget.hurry_compaction();
        assert_eq!(budget.decide_compaction(true), 0);
        assert!(budget.is_hurried());
    }
    assert_eq!((budget.decide_compaction(true), budget.is_hurried()), (MIB, false));
}
