//! What becomes of the queue of commits when a leader dies elsewhere than in the writer.

use super::group::{GroupCommit, GroupOutcome, GroupWriter, Lead, Ticket};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};

/// Looking at this unit panics, with the queue locked.
const PLANTED: u32 = 13;

#[derive(Default)]
struct Writer {
    stalls: AtomicUsize,
    written: AtomicUsize,
    refused: AtomicUsize,
}

impl GroupWriter for Writer {
    type Unit = u32;
    type Failure = String;

    fn write(&self, units: &[u32]) -> GroupOutcome<String> {
        if self.stalls.load(Ordering::Relaxed) > 0 {
            self.stalls.fetch_sub(1, Ordering::Relaxed);
            return GroupOutcome::Stalled;
        }
        GroupOutcome::Applied(self.written.fetch_add(units.len(), Ordering::Relaxed) as u64)
    }

    fn weight(unit: &u32) -> usize {
        assert_ne!(*unit, PLANTED, "a planted bug");
        1
    }

    fn panicked(&self, words: &str) -> String {
        words.to_owned()
    }

    fn refused(&self, units: usize) {
        self.refused.fetch_add(units, Ordering::Relaxed);
    }
}

type Queue = GroupCommit<u32, String>;

fn poll(queue: &Queue, ticket: &mut Ticket<u32>, writer: &Writer) -> Poll<Result<u64, String>> {
    queue.poll(ticket, writer, Waker::noop(), Lead::Now)
}

#[test]
fn a_panic_with_the_queue_locked_refuses_everybody_and_whoever_comes() {
    let (queue, writer) = (Queue::new(32), Writer::default());
    writer.stalls.store(1, Ordering::Relaxed);
    let mut waiting = Ticket::Unsent(1);
    assert!(poll(&queue, &mut waiting, &writer).is_pending(), "the engine is behind");
    let mut planted = Ticket::Unsent(PLANTED);
    assert!(poll(&queue, &mut planted, &writer).is_pending(), "behind the first one");
    queue.resume(&writer);
    for ticket in [&mut planted, &mut waiting, &mut Ticket::Unsent(2)] {
        let Poll::Ready(Err(reason)) = poll(&queue, ticket, &writer) else { panic!("nobody leads for ever") };
        assert!(reason.contains("a planted bug"), "{reason}");
    }
    let counts = (writer.written.load(Ordering::Relaxed), writer.refused.load(Ordering::Relaxed));
    assert_eq!(counts, (0, 3), "written and refused");
    assert!(queue.close("closed".to_owned(), &writer), "nothing is left to settle");
}

#[test]
fn a_turn_that_nobody_owed_is_noticed() {
    let (queue, writer) = (Queue::new(32), Writer::default());
    let owes = Cell::new(false);
    let mut deferred = Ticket::Unsent(1);
    assert!(queue.poll(&mut deferred, &writer, Waker::noop(), Lead::AtTurnEnd(&owes)).is_pending());
    queue.turn_ended(&writer);
    assert_eq!(poll(&queue, &mut deferred, &writer), Poll::Ready(Ok(0)));
    queue.turn_ended(&writer);
    let Poll::Ready(Err(reason)) = poll(&queue, &mut Ticket::Unsent(2), &writer) else {
        panic!("no refusal")
    };
    assert_eq!(reason, "a turn ended that nobody owed");
}

#[test]
fn a_unit_that_was_lost_is_not_passed_over() {
    let (queue, writer) = (Queue::new(32), Writer::default());
    writer.stalls.store(1, Ordering::Relaxed);
    let (mut lost, mut behind) = (Ticket::Unsent(1), Ticket::Unsent(2));
    assert!(poll(&queue, &mut lost, &writer).is_pending(), "the engine is behind");
    assert!(poll(&queue, &mut behind, &writer).is_pending());
    queue.lose(&lost);
    queue.resume(&writer);
    let Poll::Ready(Err(reason)) = poll(&queue, &mut behind, &writer) else { panic!("it was written") };
    assert_eq!(reason, "what waits has a slot");
}
