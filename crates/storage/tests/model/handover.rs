//! Updates of one document that go on from each other before they are written: whatever the schedule,
//! whatever is refused or dropped, no acknowledged one is lost, no refused one is left, and nobody waits for
//! ever.

#![expect(clippy::indexing_slicing, reason = "tests stop at the first surprise")]

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use shuttle::future::block_on;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

use super::group::{GroupCommit, GroupOutcome, GroupWriter, Lead, QueuePlace, Ticket, Wakers};
use super::table::{LatchGuard, LatchTable, Queueing};
use super::{Doorbell, Task, check, join_all, once, run_loop};

/// What the latches of the documents go by: the first two share one.
const HASHES: [u64; 3] = [7, 7, 8];
/// With so many units waiting a loop writes before its turn ends.
const GOOD_GROUP: usize = 3;
pub(super) const REFUSED: &str = "refused";

/// How often a document was changed, and by which unit last; zero is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) changes: u32,
    changed_by: usize,
}

pub(super) struct Unit {
    number: usize,
    document: usize,
    /// `None` for a unit that only follows.
    puts: Option<Version>,
    latch: Option<LatchGuard>,
    passes_on: bool,
    follows: Option<QueuePlace>,
}

impl Unit {
    /// One that changes nothing.
    pub(super) fn following(follows: Option<QueuePlace>) -> Unit {
        Unit { number: 0, document: 0, puts: None, latch: None, passes_on: false, follows }
    }
}

/// Documents that are written in their order or not at all.
#[derive(Default)]
pub(super) struct Disk {
    busy: AtomicBool,
    documents: Mutex<[Version; 3]>,
    written: Mutex<Vec<usize>>,
    /// Groups to refuse, after those that are to be written before.
    failures: AtomicUsize,
    successes_before: AtomicUsize,
    stalls: AtomicUsize,
    refusals: AtomicUsize,
}

pub(super) fn take_one(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1)).is_ok()
}

impl GroupWriter for Disk {
    type Unit = Unit;
    type Failure = &'static str;

    fn write(&self, units: &[Unit]) -> GroupOutcome<&'static str> {
        assert!(!self.busy.swap(true, Ordering::SeqCst), "two leaders at once");
        thread::yield_now();
        let outcome = if take_one(&self.stalls) {
            GroupOutcome::Stalled
        } else if !take_one(&self.successes_before) && take_one(&self.failures) {
            GroupOutcome::Failed(REFUSED)
        } else {
            let mut documents = self.documents.lock().unwrap();
            for unit in units {
                let Some(version) = unit.puts else { continue };
                let document = &mut documents[unit.document];
                assert_eq!(
                    version.changes,
                    document.changes + 1,
                    "unit {} does not know {document:?}",
                    unit.number
                );
                *document = version;
                self.written.lock().unwrap().push(unit.number);
            }
            GroupOutcome::Applied(1)
        };
        self.busy.store(false, Ordering::SeqCst);
        outcome
    }

    fn weight(_: &Unit) -> usize {
        1
    }

    fn panicked(&self, _words: &str) -> &'static str {
        "panicked"
    }

    fn refused(&self, units: usize) {
        self.refusals.fetch_add(units, Ordering::SeqCst);
    }

    fn followed(unit: &Unit) -> Option<QueuePlace> {
        unit.follows
    }

    fn enqueued(unit: &mut Unit, place: QueuePlace) -> Wakers {
        let latch = unit.latch.as_mut().filter(|_| unit.passes_on);
        latch.map_or_else(Wakers::new, |latch| latch.pass_on(place))
    }
}

pub(super) struct Documents {
    pub(super) group: GroupCommit<Unit, &'static str>,
    table: LatchTable,
    pub(super) disk: Disk,
    /// The owner sleeps on it, where there is one.
    pub(super) bell: Doorbell,
    is_owned: bool,
    numbers: AtomicUsize,
    acknowledged: Mutex<Vec<usize>>,
    refused: Mutex<Vec<usize>>,
}

/// A commit under way.
struct Commit<'a> {
    documents: &'a Documents,
    ticket: Ticket<Unit>,
    lead: Lead<'a>,
}

impl Future for Commit<'_> {
    type Output = Result<(), &'static str>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Commit { documents, ticket, lead } = &mut *self;
        let tell = Cell::new(false);
        let lead = if documents.is_owned { Lead::Never(&tell) } else { *lead };
        let polled = documents.group.poll(ticket, &documents.disk, context.waker(), lead).map_ok(drop);
        if tell.get() {
            documents.bell.ring();
        }
        polled
    }
}

impl Drop for Commit<'_> {
    fn drop(&mut self) {
        self.documents.group.abandon(&mut self.ticket, &self.documents.disk);
    }
}

/// The latest version of a document under its latch; the place is that of the unit that is going to put it.
struct Latest {
    latch: LatchGuard,
    version: Version,
    place: Option<QueuePlace>,
}

impl Documents {
    fn new() -> Arc<Documents> {
        Documents::with(GroupCommit::new(GOOD_GROUP), false)
    }

    /// With an owner, who takes units.
    pub(super) fn owned() -> Arc<Documents> {
        let group = GroupCommit::owned("nobody takes units yet");
        group.accept(|| false);
        Documents::with(group, true)
    }

    fn with(group: GroupCommit<Unit, &'static str>, is_owned: bool) -> Arc<Documents> {
        Arc::new(Documents {
            group,
            is_owned,
            bell: Doorbell::default(),
            table: LatchTable::new(),
            disk: Disk::default(),
            numbers: AtomicUsize::new(1),
            acknowledged: Mutex::default(),
            refused: Mutex::default(),
        })
    }

    pub(super) fn stored(&self, document: usize) -> Version {
        self.disk.documents.lock().unwrap()[document]
    }

    /// As `Collection::latest`.
    async fn latest(&self, document: usize, queueing: Queueing) -> Latest {
        let (mut latch, last) = self.table.lock_latest(HASHES[document], queueing).await;
        if let Some(place) = last {
            let puts = |unit: &Unit| unit.puts.filter(|_| unit.document == document);
            match self.group.look(place, puts) {
                Some(Some(version)) => return Latest { latch, version, place: last },
                Some(None) => {
                    drop(latch);
                    latch = self.table.lock_hash(HASHES[document]).await;
                }
                None => {}
            }
        }
        Latest { latch, version: self.stored(document), place: None }
    }

    async fn commit(&self, unit: Unit, lead: Lead<'_>) -> Result<(), &'static str> {
        let number = unit.number;
        let result = Commit { documents: self, ticket: Ticket::Unsent(unit), lead }.await;
        let told = if result.is_ok() { &self.acknowledged } else { &self.refused };
        told.lock().unwrap().push(number);
        result
    }

    async fn change(&self, document: usize, latest: Latest, passes_on: bool, lead: Lead<'_>) -> bool {
        let number = self.numbers.fetch_add(1, Ordering::SeqCst);
        let version = Version { changes: latest.version.changes + 1, changed_by: number };
        thread::yield_now();
        let (latch, follows) = (Some(latest.latch), latest.place);
        self.commit(Unit { number, document, puts: Some(version), latch, passes_on, follows }, lead)
            .await
            .is_ok()
    }

    /// An update, as far as it can be told from another.
    pub(super) async fn update(&self, document: usize, queueing: Queueing, lead: Lead<'_>) -> bool {
        let latest = self.latest(document, queueing).await;
        self.change(document, latest, true, lead).await
    }

    /// An update that finds nothing to be done, and tells what it has found.
    pub(super) async fn keep(&self, document: usize, queueing: Queueing, lead: Lead<'_>) {
        let Latest { latch, version, place } = self.latest(document, queueing).await;
        drop(latch);
        let told = match place {
            None => true,
            Some(_) => {
                let unit = Unit { document, ..Unit::following(place) };
                Commit { documents: self, ticket: Ticket::Unsent(unit), lead }.await.is_ok()
            }
        };
        let written = self.disk.written.lock().unwrap();
        let known = version.changed_by == 0 || written.contains(&version.changed_by);
        assert!(!told || known, "{version:?} is told and not written");
    }

    /// A change by whoever wants the latch alone.
    pub(super) async fn change_alone(&self, document: usize, lead: Lead<'_>) -> bool {
        let latch = self.table.lock_hash(HASHES[document]).await;
        let version = self.stored(document);
        thread::yield_now();
        assert_eq!(version, self.stored(document), "written while another one has the latch alone");
        self.change(document, Latest { latch, version, place: None }, false, lead).await
    }

    pub(super) fn assert_consistent(&self) {
        let written = self.disk.written.lock().unwrap();
        let (acknowledged, refused) = (self.acknowledged.lock().unwrap(), self.refused.lock().unwrap());
        for unit in acknowledged.iter().filter(|unit| **unit > 0) {
            assert!(written.contains(unit), "{unit} was acknowledged and not written");
        }
        for unit in refused.iter().filter(|unit| **unit > 0) {
            assert!(!written.contains(unit), "{unit} was refused and written");
        }
        let changes: u32 = self.disk.documents.lock().unwrap().iter().map(|version| version.changes).sum();
        assert_eq!(changes as usize, written.len(), "each change is written once");
        assert!(self.disk.refusals.load(Ordering::SeqCst) >= refused.len());
        for hash in HASHES {
            assert!(self.table.try_lock_hash(hash).is_some(), "the latch is free in the end");
        }
    }
}

/// Updates one after the other on a thread of their own.
pub(super) fn spawn_updates(documents: &Arc<Documents>, which: Vec<usize>) -> thread::JoinHandle<()> {
    let documents = Arc::clone(documents);
    thread::spawn(move || {
        for document in which {
            block_on(documents.update(document, Queueing::InOrder, Lead::Now));
        }
    })
}

/// Updates side by side on a loop; those from `leaving` on are dropped after their first poll.
pub(super) fn spawn_loop(
    documents: &Arc<Documents>,
    which: Vec<usize>,
    leaving: usize,
    before_turn_end: bool,
) -> thread::JoinHandle<()> {
    let documents = Arc::clone(documents);
    thread::spawn(move || {
        let owes = Cell::new(false);
        let (documents, lead) = (&*documents, Lead::AtTurnEnd(&owes));
        let tasks = which.into_iter().map(|document| {
            Box::pin(async move {
                documents.update(document, Queueing::Together, lead).await;
            }) as Task<'_>
        });
        let turn_ended = || documents.group.turn_ended(&documents.disk);
        run_loop(&turn_ended, &owes, tasks.collect(), leaving, before_turn_end);
    })
}

/// Polls a task some times and drops it, whatever came of it.
pub(super) fn leave<F: Future>(task: F, polls: usize) {
    let mut task = std::pin::pin!(task);
    for _ in 0..polls {
        if task.as_mut().poll(&mut once(Waker::noop())).is_ready() {
            return;
        }
        thread::yield_now();
    }
}

#[test]
fn updates_of_one_document_by_threads() {
    check(|| {
        let documents = Documents::new();
        join_all((0..3).map(|_| spawn_updates(&documents, vec![0, 0])).collect());
        assert_eq!(documents.stored(0).changes, 6, "none was refused");
        documents.assert_consistent();
    });
}

#[test]
fn updates_of_one_document_by_loops() {
    check(|| {
        let documents = Documents::new();
        join_all(vec![
            spawn_loop(&documents, vec![0; 3], 3, false),
            spawn_loop(&documents, vec![0; 2], 2, false),
            spawn_updates(&documents, vec![0]),
        ]);
        assert_eq!(documents.stored(0).changes, 6, "none was refused");
        documents.assert_consistent();
    });
}

#[test]
fn a_refused_group_takes_those_along_that_went_on_from_it() {
    for successes in [0, 1] {
        check(move || {
            let documents = Documents::new();
            documents.disk.successes_before.store(successes, Ordering::SeqCst);
            documents.disk.failures.store(1, Ordering::SeqCst);
            join_all(vec![
                spawn_loop(&documents, vec![0; 4], 4, false),
                spawn_updates(&documents, vec![0, 0]),
                spawn_updates(&documents, vec![0]),
            ]);
            documents.assert_consistent();
            assert!(!documents.refused.lock().unwrap().is_empty() || documents.stored(0).changes == 7);
            assert!(block_on(documents.update(0, Queueing::InOrder, Lead::Now)), "it goes on afterwards");
            documents.assert_consistent();
        });
    }
}

#[test]
fn a_failure_of_others_loses_nothing() {
    check(|| {
        let documents = Documents::new();
        documents.disk.failures.store(1, Ordering::SeqCst);
        join_all(vec![
            spawn_updates(&documents, vec![2]),
            spawn_loop(&documents, vec![0; 3], 3, false),
            spawn_updates(&documents, vec![0, 2, 0]),
        ]);
        documents.assert_consistent();
    });
}

#[test]
fn two_documents_with_one_hash_are_not_taken_for_each_other() {
    check(|| {
        let documents = Documents::new();
        join_all(vec![
            spawn_loop(&documents, vec![0, 1, 0], 3, false),
            spawn_updates(&documents, vec![1]),
            spawn_updates(&documents, vec![0]),
        ]);
        assert_eq!([0, 1].map(|document| documents.stored(document).changes), [3, 2]);
        documents.assert_consistent();
    });
}

#[test]
fn dropped_updates_are_written_or_not_and_wedge_nobody() {
    for before_turn_end in [true, false] {
        check(move || {
            let documents = Documents::new();
            let leaving = {
                let documents = Arc::clone(&documents);
                thread::spawn(move || {
                    for polls in [1, 2] {
                        leave(documents.update(0, Queueing::InOrder, Lead::Now), polls);
                        leave(documents.update(0, Queueing::Together, Lead::Now), polls);
                    }
                    leave(documents.change_alone(0, Lead::Now), 1);
                    drop(block_on(documents.latest(0, Queueing::InOrder)));
                })
            };
            join_all(vec![
                leaving,
                spawn_loop(&documents, vec![0; 4], 2, before_turn_end),
                spawn_updates(&documents, vec![0, 0]),
            ]);
            documents.assert_consistent();
        });
    }
}

#[test]
fn who_wants_the_latch_alone_sees_all_that_was_enqueued() {
    check(|| {
        let documents = Documents::new();
        documents.disk.failures.store(1, Ordering::SeqCst);
        documents.disk.successes_before.store(2, Ordering::SeqCst);
        let alone = {
            let documents = Arc::clone(&documents);
            thread::spawn(move || {
                block_on(documents.change_alone(0, Lead::Now));
                block_on(documents.change_alone(1, Lead::Now));
            })
        };
        join_all(vec![
            alone,
            spawn_loop(&documents, vec![0; 3], 3, false),
            spawn_updates(&documents, vec![0, 0]),
        ]);
        documents.assert_consistent();
    });
}

#[test]
fn what_is_told_of_a_version_is_told_when_it_is_written() {
    check(|| {
        let documents = Documents::new();
        documents.disk.failures.store(1, Ordering::SeqCst);
        let keeping = {
            let documents = Arc::clone(&documents);
            thread::spawn(move || {
                for _ in 0..3 {
                    block_on(documents.keep(0, Queueing::InOrder, Lead::Now));
                }
            })
        };
        join_all(vec![
            keeping,
            spawn_loop(&documents, vec![0; 3], 3, false),
            spawn_updates(&documents, vec![0, 0]),
        ]);
        documents.assert_consistent();
    });
}

#[test]
fn a_stalled_group_keeps_its_place() {
    check(|| {
        let documents = Documents::new();
        documents.disk.stalls.store(2, Ordering::SeqCst);
        let threads =
            vec![spawn_loop(&documents, vec![0; 3], 3, false), spawn_updates(&documents, vec![0, 0])];
        while documents.stored(0).changes < 5 {
            documents.group.resume(&documents.disk);
            thread::yield_now();
        }
        join_all(threads);
        documents.assert_consistent();
    });
}
