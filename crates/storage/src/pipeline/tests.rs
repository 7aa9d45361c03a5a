//! What becomes of the queue of commits when a leader dies elsewhere than in the writer, and of syncs that
//! are asked for too early.

use super::group::{GroupCommit, GroupOutcome, GroupWriter, Lead, Ticket};
use super::journal::{JournalWriter, SyncGroup, SyncOutcome};
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

#[derive(Default)]
struct Journal {
    applied: Cell<u64>,
    requests: Cell<usize>,
}

impl JournalWriter for Journal {
    type Failure = String;

    fn applied(&self) -> u64 {
        self.applied.get()
    }

    fn sync(&self) -> SyncOutcome<String> {
        SyncOutcome::Synced
    }

    fn request_sync(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    fn sync_panicked(&self, words: &str) -> String {
        words.to_owned()
    }
}

#[test]
fn a_sync_that_is_asked_for_before_the_batch_is_applied_is_asked_for_again() {
    let (group, journal) = (SyncGroup::new(0), Journal::default());
    let (mut early, mut later) = (None, None);
    let poll = |ticket: &mut Option<usize>| group.poll(1, ticket, &journal, Waker::noop(), false);
    assert!(poll(&mut early).is_pending(), "what it has read is not applied yet");
    assert_eq!(journal.requests.get(), 1);
    group.sync_now(&journal);
    assert_eq!(journal.requests.get(), 2, "the journal thread came too early");
    journal.applied.set(1);
    assert!(poll(&mut later).is_pending());
    group.sync_now(&journal);
    assert_eq!([poll(&mut early), poll(&mut later)], [const { Poll::Ready(Ok(())) }; 2]);
    group.sync_now(&journal);
    assert_eq!(journal.requests.get(), 2, "nobody waits any more");
}
