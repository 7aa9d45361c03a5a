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
    assert!(gate.poll_admit(900, &mut tickets[0], Waker::noop()).is_ready());
    assert!(gate.poll_admit(900, &mut tickets[1], Waker::noop()).is_ready(), "100 bytes were left");
    assert!(gate.poll_admit(900, &mut tickets[2], Waker::noop()).is_pending(), "overdrawn");
    assert_eq!((gate.waiting(), gate.held()), (1, 1));
    gate.set(Admission::Open, Duration::ZERO);
    assert!(gate.poll_admit(900, &mut tickets[2], Waker::noop()).is_ready());
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
        assert!(gate.poll_admit(500, ticket, &waker).is_pending());
    }
    gate.set(PACED, Duration::from_millis(100));
    assert_eq!((count.0.load(Ordering::SeqCst), gate.waiting()), (2, 3), "1,000 bytes are two commits");
    let mut late = None;
    assert!(gate.poll_admit(1, &mut late, &waker).is_pending(), "who comes late queues behind the others");
    let ready: Vec<bool> =
        tickets.iter_mut().map(|ticket| gate.poll_admit(500, ticket, &waker).is_ready()).collect();
    assert_eq!(ready, [true, true, false, false, false], "the oldest pass");
}

#[test]
fn an_abandoned_place_is_freed() {
    let gate = Gate::new();
    gate.set(Admission::Closed, Duration::ZERO);
    let (mut ticket, mut next) = (None, None);
    assert!(gate.poll_admit(1, &mut ticket, Waker::noop()).is_pending());
    assert!(gate.poll_admit(1, &mut next, Waker::noop()).is_pending());
    gate.abandon(&mut ticket);
    assert_eq!(gate.waiting(), 1);
    gate.set(PACED, Duration::from_millis(20));
    gate.abandon(&mut next);
    let mut heir = None;
    assert!(gate.poll_admit(200, &mut heir, Waker::noop()).is_ready(), "the admission was not used up");
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
