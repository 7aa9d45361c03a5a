use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::queue::{Admission, Gate};
use super::{GateLimits, assess};
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
    Admission::Window { taken, room: room as u64, window: MIB as u64 }
}

#[test]
fn who_has_brought_the_most_waits_and_others_pass() {
    let gate = Gate::new();
    gate.set(window(5, MIB), Duration::ZERO);
    assert!(passes(&gate, MIB / 2, 1));
    let mut loads = [None, None];
    for load in &mut loads {
        assert!(gate.poll_admit(MIB, 1, load, Waker::noop()).is_pending());
    }
    assert_eq!((gate.waiting(), gate.waiting_bytes()), (2, vec![(1, 2 * MIB as u64)]));
    for connection in 2..102 {
        assert!(passes(&gate, 1_000, connection), "connection {connection} has brought nothing yet");
    }
    // Half of a window and what the small ones took are on their way.
    gate.set(window(5, MIB), Duration::ZERO);
    assert_eq!(gate.waiting(), 2, "there is no room for what is large");
    gate.set(window(5 + MIB as u64 / 2 + 100_000, MIB), Duration::ZERO);
    assert!(gate.poll_admit(MIB, 1, &mut loads[0], Waker::noop()).is_ready());
    assert!(gate.poll_admit(MIB, 1, &mut loads[1], Waker::noop()).is_pending());
    assert!(!passes(&gate, 1_000, 2), "the window is full");
    gate.set(Admission::Open, Duration::ZERO);
    assert!(gate.poll_admit(MIB, 1, &mut loads[1], Waker::noop()).is_ready());
    assert_eq!(gate.waiting_bytes(), []);
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
fn what_has_no_room_yet_holds_up_nobody_who_brings_less() {
    let gate = Gate::new();
    gate.set(window(0, 0), Duration::ZERO);
    let (mut large, mut small) = (None, None);
    assert!(gate.poll_admit(4 * MIB, 1, &mut large, Waker::noop()).is_pending());
    assert!(gate.poll_admit(1_000, 2, &mut small, Waker::noop()).is_pending());
    gate.set(window(0, MIB / 2), Duration::ZERO);
    assert!(gate.poll_admit(1_000, 2, &mut small, Waker::noop()).is_ready());
    assert!(passes(&gate, 1_000, 3) && gate.poll_admit(4 * MIB, 1, &mut large, Waker::noop()).is_pending());
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
    assert_eq!(gate.waiting(), 3, "one passes alone");
    let mut small = None;
    assert!(gate.poll_admit(1_000, 9, &mut small, Waker::noop()).is_pending());
    gate.set(window(4 * MIB as u64, MIB), Duration::ZERO);
    assert!(gate.poll_admit(1_000, 9, &mut small, Waker::noop()).is_ready(), "it is before those that wait");
}

#[test]
fn a_commit_larger_than_the_window_passes_alone() {
    let gate = Gate::new();
    gate.set(window(0, MIB), Duration::ZERO);
    assert!(passes(&gate, 1_000, 1));
    assert!(!passes(&gate, 4 * MIB, 2), "something is on its way");
    gate.set(window(1_000, MIB), Duration::ZERO);
    assert!(passes(&gate, 4 * MIB, 2));
    assert!(!passes(&gate, 1_000, 1));
    gate.set(window(1_000 + 4 * MIB as u64, MIB), Duration::ZERO);
    assert!(passes(&gate, 1_000, 1));
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
