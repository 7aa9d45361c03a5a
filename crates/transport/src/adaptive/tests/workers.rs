//! The roster and the workers' records.

use crate::adaptive::record::{Kind, Totals, WorkerRecord};
use crate::adaptive::roster::{Cause, Roster};
use std::sync::Arc;
use std::time::Duration;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[test]
fn nobody_leaves_under_the_reserve() {
    let roster: Roster<u32, u32> = Roster::new();
    let workers: Vec<_> = (1..=3).map(Arc::new).collect();
    for worker in &workers {
        assert!(roster.expect(Cause::BelowReserve));
        roster.arrive(Arc::clone(worker));
    }
    assert!(roster.leave_idle(&workers[0], 2, |sum, worker| *sum += worker));
    assert!(!roster.leave_idle(&workers[1], 2, |sum, worker| *sum += worker), "the reserve has left");
    roster.leave_crashed(&workers[2], |sum, worker| *sum += worker);
    let (counts, sum) = roster.observe(|workers, ended| (workers.len(), *ended));
    assert_eq!(sum, (1, 4), "who stayed, and the sum of who left");
    assert_eq!((counts.running, counts.ended_idle, counts.crashed), (1, 1, 1));
    assert_eq!(counts.creations.below_reserve, 3);
}

#[test]
fn failed_starts_are_counted_and_not_expected() {
    let roster: Roster<u32, u32> = Roster::new();
    assert!(roster.expect(Cause::Starvation));
    assert_eq!(roster.observe(|_, _| ()).0.pending, 1);
    assert_eq!(roster.start_failed(Cause::Starvation), 1);
    let (counts, ()) = roster.observe(|_, _| ());
    assert_eq!((counts.pending, counts.start_failures, counts.creations.starvation), (0, 1, 0));
    roster.close();
    assert!(!roster.expect(Cause::Starvation), "a model that ends starts nobody");
    assert_eq!(roster.wait_left(Duration::ZERO), 0);
}

#[test]
fn a_record_counts_by_kind() {
    let record = WorkerRecord::new(1, 1, ms(100));
    record.begin(Kind::Ready, ms(110), ms(115));
    assert_eq!(record.executing_since(), Some(ms(115)));
    assert_eq!(record.executing(ms(120)), ms(5), "the task in work counts");
    record.end(Kind::Ready, ms(135));
    record.begin(Kind::Start, ms(100), ms(140));
    record.end(Kind::Start, ms(141));
    assert_eq!(record.executing_since(), None);
    assert_eq!(record.executing(ms(500)), ms(21));
    let mut totals = Totals::default();
    totals.add(record.totals(ms(200)));
    totals.add(record.totals(ms(200)));
    assert_eq!(totals.running, ms(200));
    let ready = totals.kinds[Kind::Ready as usize];
    assert_eq!((ready.begun, ready.executed, ready.executing, ready.queued), (2, 2, ms(40), ms(10)));
    let all = totals.all_kinds();
    assert_eq!((all.executed, all.executing, all.queued), (4, ms(42), ms(90)));
}
