use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::queue::{Admission, Gate, GateBudget};
use super::{Band, GateLimits, assess};
use crate::engine::Pressure;

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

const PACED: Admission = Admission::Paced { bytes_per_second: 10_000 };

#[test]
fn a_paced_gate_passes_what_was_refilled_and_wakes_the_rest() {
    let gate = Gate::new();
    let mut tickets = [None, None, None];
    gate.set(PACED, Duration::from_millis(100));
    assert!(gate.poll_admit(900, 0, &mut tickets[0], Waker::noop()).is_ready());
    assert!(gate.poll_admit(900, 0, &mut tickets[1], Waker::noop()).is_ready(), "100 bytes were left");
    assert!(gate.poll_admit(900, 0, &mut tickets[2], Waker::noop()).is_pending(), "overdrawn");
    assert_eq!((gate.waiting(), gate.held()), (1, 1));
    gate.set(Admission::Open, Duration::ZERO);
    assert!(gate.poll_admit(900, 0, &mut tickets[2], Waker::noop()).is_ready());
    assert_eq!(gate.waiting(), 0);
}

#[test]
fn a_refill_wakes_the_oldest_and_only_those_it_is_enough_for() {
    let gate = Gate::new();
    gate.set(Admission::Closed, Duration::ZERO);
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut tickets = [None; 5];
    for ticket in &mut tickets {
        assert!(gate.poll_admit(500, 0, ticket, &waker).is_pending());
    }
    gate.set(PACED, Duration::from_millis(100));
    assert_eq!((count.0.load(Ordering::SeqCst), gate.waiting()), (2, 3), "1,000 bytes are two commits");
    let mut late = None;
    assert!(gate.poll_admit(1, 0, &mut late, &waker).is_pending(), "who comes late queues behind the others");
    let ready: Vec<bool> =
        tickets.iter_mut().map(|ticket| gate.poll_admit(500, 0, ticket, &waker).is_ready()).collect();
    assert_eq!(ready, [true, true, false, false, false], "the oldest pass");
}

#[test]
fn an_abandoned_place_is_freed() {
    let gate = Gate::new();
    gate.set(Admission::Closed, Duration::ZERO);
    let (mut ticket, mut next) = (None, None);
    assert!(gate.poll_admit(1, 0, &mut ticket, Waker::noop()).is_pending());
    assert!(gate.poll_admit(1, 0, &mut next, Waker::noop()).is_pending());
    gate.abandon(&mut ticket);
    assert_eq!(gate.waiting(), 1);
    gate.set(PACED, Duration::from_millis(20));
    gate.abandon(&mut next);
    let mut heir = None;
    assert!(gate.poll_admit(200, 0, &mut heir, Waker::noop()).is_ready(), "the admission was not used up");
}

/// What passes without waiting, of a connection.
fn passes(gate: &Gate, bytes: usize, connection: u64) -> bool {
    let mut ticket = None;
    let passes = gate.poll_admit(bytes, connection, &mut ticket, Waker::noop()).is_ready();
    gate.abandon(&mut ticket);
    passes
}

const MIB: usize = 1 << 20;

fn window(taken: u64, room: usize) -> Admission {
    Admission::Window { taken, room: room as u64, room_for_small: 0, budget: None }
}

/// With room for anything, and bytes that are paid for before.
fn budget(taken: u64, bytes: usize) -> Admission {
    let budget = Some(GateBudget { bytes: bytes as u64, enough: MIB as u64 });
    Admission::Window { taken, room: u64::MAX, room_for_small: 0, budget }
}

#[test]
fn who_has_brought_the_most_waits_and_others_pass() {
    let gate = Gate::new();
    gate.set(window(5, MIB), Duration::ZERO);
    let mut loads = [None, None, None];
    for load in &mut loads[..2] {
        assert!(gate.poll_admit(MIB - 1, 1, load, Waker::noop()).is_ready(), "there was room before it");
    }
    assert!(gate.poll_admit(MIB, 1, &mut loads[2], Waker::noop()).is_pending());
    let mut small = [None; 100];
    for (connection, small) in (2..).zip(&mut small) {
        assert!(gate.poll_admit(1_000, connection, small, Waker::noop()).is_pending(), "the window is full");
    }
    assert_eq!((gate.waiting(), gate.waiting_bytes().first()), (101, Some(&(1, MIB as u64))));
    let enqueued = 2 * (MIB as u64 - 1);
    gate.set(window(5 + enqueued, 100_000), Duration::ZERO);
    for small in &mut small {
        assert!(gate.poll_admit(1_000, 2, small, Waker::noop()).is_ready(), "who brings little is first");
    }
    assert!(gate.poll_admit(MIB, 1, &mut loads[2], Waker::noop()).is_pending());
    gate.set(window(5 + enqueued + 1, 100_000), Duration::ZERO);
    assert!(gate.poll_admit(MIB, 1, &mut loads[2], Waker::noop()).is_ready(), "one byte of room is enough");
    gate.set(Admission::Open, Duration::ZERO);
    assert_eq!((gate.waiting(), gate.waiting_bytes()), (0, vec![]));
}

#[test]
fn what_is_small_has_room_behind_what_is_large_and_before_the_next() {
    let gate = Gate::new();
    let full = |taken| Admission::Window { taken, room: 0, room_for_small: 70_000, budget: None };
    gate.set(full(0), Duration::ZERO);
    let mut load = None;
    assert!(gate.poll_admit(4 * MIB, 1, &mut load, Waker::noop()).is_pending());
    assert!(passes(&gate, 1_000, 2) && passes(&gate, 64 << 10, 3));
    assert!(!passes(&gate, 5_000, 4), "there is no more room for small ones");
    gate.set(full(66_536), Duration::ZERO);
    assert!(passes(&gate, 5_000, 4) && !passes(&gate, (64 << 10) + 1, 5), "what is not small has no room");
    assert_eq!(gate.waiting(), 1);
}

#[test]
fn what_passes_the_gate_by_takes_no_room_for_ever() {
    let gate = Gate::new();
    gate.set(window(0, MIB), Duration::ZERO);
    // Enqueued while it was open, and taken since.
    gate.set(window(10 * MIB as u64, MIB), Duration::ZERO);
    assert!(passes(&gate, MIB, 1));
    assert!(!passes(&gate, 1_000, 2), "the window is full");
}

#[test]
fn connections_that_bring_the_same_take_turns_and_nobody_starves() {
    let gate = Gate::new();
    gate.set(window(0, 0), Duration::ZERO);
    let (mut small, mut large): (Vec<_>, Vec<_>) = (vec![None; 40], vec![None; 3]);
    for ticket in &mut large {
        assert!(gate.poll_admit(10_000, 1, ticket, Waker::noop()).is_pending());
    }
    for ticket in &mut small {
        assert!(gate.poll_admit(1_000, 2, ticket, Waker::noop()).is_pending());
    }
    gate.set(window(0, 41_000), Duration::ZERO);
    let count = |tickets: &mut Vec<Option<usize>>, bytes, connection| {
        let admitted = |ticket: &mut Option<usize>| {
            ticket.is_none() || gate.poll_admit(bytes, connection, ticket, Waker::noop()).is_ready()
        };
        tickets.iter_mut().map(admitted).filter(|is_admitted| *is_admitted).count()
    };
    assert_eq!((count(&mut large, 10_000, 1), count(&mut small, 1_000, 2)), (2, 21));
}

#[test]
fn what_is_not_paid_for_yet_holds_up_nobody_who_brings_less() {
    let gate = Gate::new();
    gate.set(window(0, 0), Duration::ZERO);
    let (mut large, mut small) = (None, None);
    assert!(gate.poll_admit(4 * MIB, 1, &mut large, Waker::noop()).is_pending());
    assert!(gate.poll_admit(1_000, 2, &mut small, Waker::noop()).is_pending());
    gate.set(budget(0, MIB / 2), Duration::ZERO);
    assert!(gate.poll_admit(1_000, 2, &mut small, Waker::noop()).is_ready());
    assert!(passes(&gate, 1_000, 3) && gate.poll_admit(4 * MIB, 1, &mut large, Waker::noop()).is_pending());
    gate.set(budget(2_000, MIB), Duration::ZERO);
    assert!(gate.poll_admit(4 * MIB, 1, &mut large, Waker::noop()).is_ready(), "it has paid enough");
    assert!(!passes(&gate, 1_000, 3), "what was paid is used up");
}

#[test]
fn several_that_load_are_no_more_in_the_way_than_one() {
    let gate = Gate::new();
    gate.set(window(0, 0), Duration::ZERO);
    let mut loads = [None; 4];
    for (connection, load) in loads.iter_mut().enumerate() {
        assert!(gate.poll_admit(4 * MIB, connection as u64, load, Waker::noop()).is_pending());
    }
    gate.set(window(0, MIB), Duration::ZERO);
    assert_eq!(gate.waiting(), 3, "one passes");
    let mut small = None;
    assert!(gate.poll_admit(1_000, 9, &mut small, Waker::noop()).is_pending());
    gate.set(window(4 * MIB as u64, MIB), Duration::ZERO);
    assert!(gate.poll_admit(1_000, 9, &mut small, Waker::noop()).is_ready(), "it is before those that wait");
}

fn check(pressure: Pressure, expect: impl Fn(Admission) -> bool) {
    let admission = assess(&pressure, &GateLimits::default());
    assert!(expect(admission), "{pressure:?} led to {admission:?}");
}

#[test]
fn debt_slows_and_then_closes() {
    check(Pressure::default(), |admission| admission == Admission::Open);
    check(Pressure { level0_files: 13, ..Pressure::default() }, |admission| admission == Admission::Open);
    let pace = |files| match assess(
        &Pressure { level0_files: files, ..Pressure::default() },
        &GateLimits::default(),
    ) {
        Admission::Paced { bytes_per_second } => bytes_per_second,
        other => panic!("{files} level-0 files led to {other:?}"),
    };
    assert!(pace(14) > 2 * pace(24) && pace(24) > 2 * pace(31), "more debt, less rate");
    check(Pressure { level0_files: 32, ..Pressure::default() }, |admission| admission == Admission::Closed);
    check(Pressure { immutable_memtables: 6, ..Pressure::default() }, |admission| {
        admission == Admission::Closed
    });
    check(Pressure { engine_stalled: true, ..Pressure::default() }, |admission| {
        admission == Admission::Closed
    });
}

#[test]
fn the_dirty_trigger_slows_commits_only_where_it_is_set() {
    let dirty = Pressure { unflushed_bytes: 1 << 40, ..Pressure::default() };
    check(dirty, |admission| admission == Admission::Open);
    let limits = GateLimits { unflushed_bytes: Band { paced: 100, closed: 150 }, ..GateLimits::default() };
    let admission = |unflushed_bytes| assess(&Pressure { unflushed_bytes, ..dirty }, &limits);
    assert_eq!(admission(99), Admission::Open);
    assert!(
        matches!(admission(100), Admission::Paced { .. })
            && matches!(admission(149), Admission::Paced { .. })
    );
    assert_eq!(admission(150), Admission::Closed);
}

#[test]
fn compaction_is_put_off_until_shortly_before_commits_are_paced() {
    let limits = GateLimits::default();
    let forbids = |pressure: Pressure| limits.forbids_deferring(&pressure);
    let files = |level0_files| Pressure { level0_files, ..Pressure::default() };
    let pending = |pending_compaction_bytes| Pressure { pending_compaction_bytes, ..Pressure::default() };
    assert!(!forbids(files(12)) && forbids(files(13)));
    assert!(!forbids(pending((8 << 30) - 1)) && forbids(pending(8 << 30)));
    for pressure in [files(13), pending(8 << 30)] {
        assert_eq!(assess(&pressure, &limits), Admission::Open, "nobody is paced yet");
    }
}
