//! Updates of one document that are under way together: they go on from each other and share groups.

use super::*;
use document::doc;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

#[path = "../../../storage/tests/store/faults.rs"]
#[allow(dead_code, reason = "used in part")]
mod faults;
use faults::{Fault, faulty_store};

type Task<'t> = Pin<Box<dyn Future<Output = ()> + 't>>;

/// Tasks of a loop that are to be polled, and the thread that polls them.
struct Ready {
    tasks: Mutex<Vec<usize>>,
    thread: Thread,
}

struct TaskWaker {
    ready: Arc<Ready>,
    task: usize,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready.tasks.lock().push(self.task);
        self.ready.thread.unpark();
    }
}

/// Serves tasks on this thread as an event loop does: polls what is ready, ends the turn, sleeps.
fn run_loop(catalog: &Catalog, tasks: Vec<Task<'_>>) {
    storage::defer_commits();
    let first = Mutex::new((0..tasks.len()).collect());
    let ready = Arc::new(Ready { tasks: first, thread: std::thread::current() });
    let mut tasks: Vec<Option<Task<'_>>> = tasks.into_iter().map(Some).collect();
    while tasks.iter().any(Option::is_some) {
        let turn = std::mem::take(&mut *ready.tasks.lock());
        for task in &turn {
            let waker = Waker::from(Arc::new(TaskWaker { ready: Arc::clone(&ready), task: *task }));
            let Some(polled) = tasks[*task].as_mut() else { continue };
            if polled.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                tasks[*task] = None;
            }
        }
        catalog.store().turn_ended();
        if turn.is_empty() {
            std::thread::park();
        }
    }
    storage::commit_inline();
}

fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// A collection with one document, in whose unique index the number of its changes is as well.
fn counted(catalog: &Catalog) -> Arc<Collection> {
    let things = collection(catalog, "c");
    index(catalog, "c", doc! { "key": { "n": 1 }, "name": "n", "unique": true }).expect("an index");
    index(catalog, "c", doc! { "key": { "a": 1 }, "name": "a" }).expect("an index");
    insert(&things, doc! { "_id": 1, "n": 0, "a": 0 }).expect("an insert");
    things
}

/// Adds one to `n`; `a` changes every other time.
fn increment(found: Option<RawDocument<'_>>) -> Result<Decision, WriteError> {
    let n = number(&found.expect("the document is there").to_document(), "n") + 1;
    let pad = "x".repeat(n as usize % 50);
    Ok(Decision::Replace(doc! { "_id": 1, "n": n, "a": (n / 2), "pad": pad }.to_buf()))
}

fn key(id: i32) -> Vec<u8> {
    Collection::document_key_of_id(RawValue::Int32(id))
}

fn assert_count(things: &Arc<Collection>, count: i64) {
    assert_eq!(number(&get(things, 1).expect("the document"), "n"), count, "an update is lost");
    assert_eq!((entries(things, "n"), entries(things, "a")), (1, 1));
    assert_valid(things);
}

#[test]
fn one_group_carries_many_updates_of_one_document() {
    on_both_engines(|catalog| {
        let things = counted(&catalog);
        let key = key(1);
        let before = catalog.store().statistics().commit;
        storage::defer_commits();
        let mut updates: Vec<_> =
            (0..20).map(|_| Box::pin(things.update(writing(&things), &key, increment))).collect();
        assert!(updates.iter_mut().all(|update| poll_once(update.as_mut()).is_none()));
        catalog.store().turn_ended();
        for update in &mut updates {
            let report = poll_once(update.as_mut()).expect("it is written").expect("an update");
            assert!(report.existed && report.changed);
        }
        storage::commit_inline();
        let after = catalog.store().statistics().commit;
        assert_eq!((after.commits - before.commits, after.groups - before.groups), (20, 1));
        assert_count(&things, 20);
    });
}

#[test]
fn updates_of_a_large_document_wait_until_it_is_written() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "c");
        insert(&things, doc! { "_id": 1, "n": 0 }).expect("an insert");
        let grow = |found: Option<RawDocument<'_>>| {
            let n = number(&found.expect("the document").to_document(), "n") + 1;
            Ok::<_, WriteError>(Decision::Replace(
                doc! { "_id": 1, "n": n, "pad": "x".repeat(300 << 10) }.to_buf(),
            ))
        };
        let tasks = (0..5).map(|_| {
            let things = &things;
            Box::pin(async move {
                things.update(writing(things), &key(1), grow).await.expect("an update");
            }) as Task<'_>
        });
        run_loop(&catalog, tasks.collect());
        assert_eq!(number(&get(&things, 1).expect("the document"), "n"), 5, "an update is lost");
    });
}

#[test]
fn updates_by_loops_and_threads_share_groups_and_none_is_lost() {
    const UPDATES: usize = 300;
    on_both_engines(|catalog| {
        let things = counted(&catalog);
        let before = catalog.store().statistics().commit;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let tasks = (0..UPDATES).map(|_| {
                        let things = &things;
                        Box::pin(async move {
                            things.update(writing(things), &key(1), increment).await.expect("an update");
                        }) as Task<'_>
                    });
                    run_loop(&catalog, tasks.collect());
                });
                scope.spawn(|| {
                    for _ in 0..UPDATES {
                        block_on(things.update(writing(&things), &key(1), increment)).expect("an update");
                    }
                });
            }
        });
        let after = catalog.store().statistics().commit;
        assert_eq!(after.commits - before.commits, 4 * UPDATES as u64);
        assert!(after.group_units_max > 4, "updates of one document share groups: {after:?}");
        assert_count(&things, 4 * UPDATES as i64);
    });
}

#[test]
fn what_does_not_change_a_version_is_told_when_it_is_written() {
    on_both_engines(|catalog| {
        let things = counted(&catalog);
        insert(&things, doc! { "_id": 2, "n": 100 }).expect("an insert");
        let key = key(1);
        storage::defer_commits();
        let mut update = Box::pin(things.update(writing(&things), &key, increment));
        let mut keep = Box::pin(things.update(writing(&things), &key, |found| {
            assert_eq!(number(&found.expect("the document").to_document(), "n"), 1);
            Ok::<_, WriteError>(Decision::Keep)
        }));
        let mut same = Box::pin(things.update(writing(&things), &key, |found| {
            Ok::<_, WriteError>(Decision::Replace(found.expect("the document").to_buf()))
        }));
        let mut refused =
            Box::pin(things.update(writing(&things), &key, |_| {
                Err::<Decision, _>(WriteError::BadValue("no".to_owned()))
            }));
        let mut duplicate = Box::pin(things.update(writing(&things), &key, |_| {
            Ok::<_, WriteError>(Decision::Replace(doc! { "_id": 1, "n": 100 }.to_buf()))
        }));
        let mut last = Box::pin(things.update(writing(&things), &key, increment));
        assert!(poll_once(update.as_mut()).is_none());
        assert!(poll_once(keep.as_mut()).is_none(), "the version is not written yet");
        assert!(poll_once(same.as_mut()).is_none(), "the version is not written yet");
        assert!(poll_once(refused.as_mut()).is_none(), "the version is not written yet");
        assert!(poll_once(duplicate.as_mut()).is_none(), "the version is not written yet");
        assert!(poll_once(last.as_mut()).is_none());
        catalog.store().turn_ended();
        for told in [poll_once(keep.as_mut()), poll_once(same.as_mut())] {
            let report = told.expect("it is written").expect("a report");
            assert!(report.existed && !report.changed);
        }
        assert_write_code(poll_once(refused.as_mut()).expect("it is written"), 2);
        assert_write_code(poll_once(duplicate.as_mut()).expect("it is written"), 11000);
        for told in [poll_once(update.as_mut()), poll_once(last.as_mut())] {
            assert!(told.expect("it is written").expect("a report").changed);
        }
        storage::commit_inline();
        block_on(things.delete(writing(&things), &self::key(2))).expect("a delete");
        assert_count(&things, 2);
    });
}

#[test]
fn a_refused_update_takes_along_what_went_on_from_it() {
    let (engine, store) = faulty_store();
    let catalog = Catalog::open(store).expect("an empty catalog");
    let things = counted(&catalog);
    let key = key(1);
    storage::defer_commits();
    let mut updates: Vec<_> =
        (0..3).map(|_| Box::pin(things.update(writing(&things), &key, increment))).collect();
    let mut keep = Box::pin(things.update(writing(&things), &key, |_| Ok::<_, WriteError>(Decision::Keep)));
    let mut delete = Box::pin(things.delete(writing(&things), &key));
    assert!(updates.iter_mut().all(|update| poll_once(update.as_mut()).is_none()));
    assert!(poll_once(keep.as_mut()).is_none() && poll_once(delete.as_mut()).is_none());
    // The first group is refused; whatever went on from it must not be written by the next.
    engine.failures.store(1, Ordering::SeqCst);
    catalog.store().turn_ended();
    for update in &mut updates {
        poll_once(update.as_mut()).expect("it is settled").expect_err("it is refused");
    }
    poll_once(keep.as_mut()).expect("it is settled").expect_err("what it has seen was never there");
    poll_once(delete.as_mut()).expect("it is settled").expect_err("what it deletes was never there");
    // The same with a group between the updates and what goes on from them.
    let heavy = doc! { "_id": 2, "n": -1, "pad": "x".repeat(9 << 20) }.to_buf();
    let mut first = Box::pin(things.update(writing(&things), &key, increment));
    let mut full = Box::pin(things.insert(writing(&things), heavy.as_raw()));
    let mut second = Box::pin(things.update(writing(&things), &key, increment));
    let mut keep = Box::pin(things.update(writing(&things), &key, |_| Ok::<_, WriteError>(Decision::Keep)));
    assert!(poll_once(first.as_mut()).is_none() && poll_once(full.as_mut()).is_none());
    assert!(poll_once(second.as_mut()).is_none() && poll_once(keep.as_mut()).is_none());
    engine.failures.store(1, Ordering::SeqCst);
    catalog.store().turn_ended();
    poll_once(first.as_mut()).expect("it is settled").expect_err("it is refused");
    poll_once(full.as_mut()).expect("it is settled").expect_err("it is refused");
    poll_once(second.as_mut()).expect("it is settled").expect_err("it went on from a refused one");
    poll_once(keep.as_mut()).expect("it is settled").expect_err("what it has seen was never there");
    assert_eq!(*engine.write_fault.lock(), Fault::None);
    storage::commit_inline();
    block_on(things.update(writing(&things), &key, increment)).expect("an update");
    assert_count(&things, 1);
}

/// What an operation found under a document's latch, by the number of the operation.
type Log = Mutex<Vec<(i32, usize, Option<Document>)>>;

/// Replays what operations found in the order in which they held the latch of a document.
struct Replay<'r> {
    stored: BTreeMap<i32, Document>,
    /// What successful operations left.
    left: &'r BTreeMap<usize, Option<Document>>,
    /// Successful inserts, which are not in the log.
    inserts: Vec<Document>,
}

impl Replay<'_> {
    /// The document may be as the operation before left it, or have been inserted since when there was none.
    #[track_caller]
    fn expect(&mut self, id: i32, found: Option<&Document>, operation: usize) {
        if self.stored.get(&id) == found {
            return;
        }
        let inserted = self.inserts.iter().position(|insert| Some(insert) == found);
        let before = self.stored.get(&id);
        let (true, Some(inserted)) = (before.is_none(), inserted) else {
            panic!("operation {operation} found {found:?} of {id} and not {before:?}");
        };
        self.stored.insert(id, self.inserts.swap_remove(inserted));
    }

    fn step(&mut self, id: i32, operation: usize, found: Option<&Document>) {
        self.expect(id, found, operation);
        match self.left.get(&operation) {
            Some(Some(document)) => drop(self.stored.insert(id, document.clone())),
            Some(None) => drop(self.stored.remove(&id)),
            None => {}
        }
    }
}

struct Mixed<'m> {
    things: &'m Arc<Collection>,
    log: Log,
    left: Mutex<BTreeMap<usize, Option<Document>>>,
    inserts: Mutex<Vec<Document>>,
    numbers: AtomicUsize,
}

impl Mixed<'_> {
    /// One operation: an update (that may insert), a delete, an insert, or a look.
    async fn operate(&self, id: i32) {
        let operation = self.numbers.fetch_add(1, Ordering::Relaxed);
        let kind = operation.wrapping_mul(0x9E37_79B9) >> 7;
        // Few unique keys, so that many are refused.
        let new = doc! { "_id": id, "u": (kind as i32 / 16 % 6), "operation": operation as i64 };
        if kind.is_multiple_of(8) {
            if is_done(self.things.insert(writing(self.things), new.to_buf().as_raw()).await) {
                self.inserts.lock().push(new);
            }
            return;
        }
        let change = match kind % 8 {
            1 => Decision::Remove,
            2 => Decision::Keep,
            _ => Decision::Replace(new.to_buf()),
        };
        let decide = |found: Option<RawDocument<'_>>| {
            self.log.lock().push((id, operation, found.map(RawDocument::to_document)));
            Ok::<_, WriteError>(change)
        };
        let result = self.things.update(writing(self.things), &key(id), decide).await;
        if is_done(result.as_ref().map(drop)) && result.is_ok_and(|report| report.changed) {
            let left = (kind % 8 != 1).then_some(new);
            self.left.lock().insert(operation, left);
        }
    }
}

/// Whether a write succeeded; the only failure that is expected is a duplicate key.
fn is_done<T, E: std::borrow::Borrow<WriteError>>(result: Result<T, E>) -> bool {
    let code = result.as_ref().err().map(|error| error.borrow().code());
    assert!(code.is_none_or(|code| code == 11000), "refused with {code:?}");
    result.is_ok()
}

#[test]
fn updates_deletes_and_inserts_agree_with_a_model() {
    const DOCUMENTS: i32 = 4;
    on_both_engines(|catalog| {
        let things = collection(&catalog, "c");
        index(&catalog, "c", doc! { "key": { "u": 1 }, "name": "u", "unique": true }).expect("an index");
        let mixed = Mixed {
            things: &things,
            log: Mutex::default(),
            left: Mutex::default(),
            inserts: Mutex::default(),
            numbers: AtomicUsize::new(0),
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let tasks = (0..40).map(|task| {
                        let mixed = &mixed;
                        Box::pin(async move {
                            for round in 0..20 {
                                mixed.operate((task + round) % DOCUMENTS).await;
                            }
                        }) as Task<'_>
                    });
                    run_loop(&catalog, tasks.collect());
                });
                scope.spawn(|| (0..300).for_each(|round| block_on(mixed.operate(round % DOCUMENTS))));
            }
        });
        let left = mixed.left.into_inner();
        assert!(left.len() > 100, "only {} operations changed anything", left.len());
        let inserts = mixed.inserts.into_inner();
        let mut replay = Replay { stored: BTreeMap::new(), left: &left, inserts };
        for (id, operation, found) in mixed.log.into_inner() {
            replay.step(id, operation, found.as_ref());
        }
        for id in 0..DOCUMENTS {
            replay.expect(id, get(&things, id).as_ref(), usize::MAX);
        }
        assert_eq!(replay.inserts, [], "inserts that nobody has seen");
        assert_valid(&things);
    });
}
