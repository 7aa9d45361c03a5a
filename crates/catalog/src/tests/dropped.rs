//! Writes whose futures are dropped halfway: what was enqueued is written under the latches it was built
//! under.

use super::*;
use document::doc;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// Polls once; `None` when it waits.
fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Runs a test on a thread whose commits are written when it says so.
fn on_a_loop(test: impl Fn(Arc<Catalog>)) {
    on_both_engines(|catalog| {
        storage::defer_commits();
        test(catalog);
        storage::commit_inline();
    });
}

fn increment(found: Option<RawDocument<'_>>) -> Result<Decision, WriteError> {
    let count = found.map_or(0, |found| number(&found.to_document(), "n"));
    Ok(Decision::Replace(doc! { "_id": 1, "n": count + 1 }.to_buf()))
}

/// Drives a future on a loop that has nothing else to do.
fn drive<F: Future>(catalog: &Catalog, future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Some(output) = poll_once(future.as_mut()) {
            return output;
        }
        catalog.store().turn_ended();
    }
}

#[test]
fn an_update_after_a_dropped_one_sees_what_it_wrote() {
    on_a_loop(|catalog| {
        let things = drive(&catalog, catalog.collection_or_create(changing(&catalog), "test", "c"))
            .expect("a collection");
        let document = doc! { "_id": 1, "n": 1 }.to_buf();
        drive(&catalog, things.insert(writing(&things), document.as_raw())).expect("an insert");
        let key = Collection::document_key_of_id(RawValue::Int32(1));
        let mut dropped = Box::pin(things.update(writing(&things), &key, increment));
        assert!(poll_once(dropped.as_mut()).is_none(), "the unit is enqueued");
        drop(dropped);
        let mut next = Box::pin(things.update(writing(&things), &key, increment));
        assert!(poll_once(next.as_mut()).is_none(), "it goes on from the enqueued unit");
        catalog.store().turn_ended();
        drive(&catalog, next).expect("an update");
        assert_eq!(number(&get(&things, 1).expect("the document"), "n"), 3, "no update is lost");
        drive(&catalog, things.delete(writing(&things), &key)).expect("a delete");
        assert_eq!((get(&things, 1), things.document_count()), (None, 0));
    });
}

#[test]
fn a_collection_is_not_changed_under_a_dropped_insert() {
    on_a_loop(|catalog| {
        let things = drive(&catalog, catalog.collection_or_create(changing(&catalog), "test", "c"))
            .expect("a collection");
        let document = doc! { "_id": 1 }.to_buf();
        let mut dropped = Box::pin(things.insert(writing(&things), document.as_raw()));
        assert!(poll_once(dropped.as_mut()).is_none(), "the unit is enqueued");
        drop(dropped);
        let mut change = Box::pin(things.begin_change());
        assert!(poll_once(change.as_mut()).is_none(), "the collection's latch is held");
        catalog.store().turn_ended();
        assert!(matches!(poll_once(change.as_mut()), Some(Ok(Some(_)))), "the unit is written");
        drop(change);
        drive(&catalog, catalog.drop_collection(changing(&catalog), &namespace("c"))).expect("a drop");
        assert_eq!(things.document_count(), 0, "nothing was written after the drop");
    });
}

#[test]
fn unique_keys_and_record_ids_of_a_dropped_insert_are_taken() {
    on_a_loop(|catalog| {
        let options = doc! { "capped": true, "size": 100_000 };
        let options = CollectionOptions::parse(options.to_buf().as_raw()).expect("options");
        drive(&catalog, catalog.create(changing(&catalog), &namespace("log"), options))
            .expect("a collection");
        let log = catalog.collection("test", "log").expect("the collection");
        let spec = doc! { "key": { "u": 1 }, "name": "u", "unique": true };
        let spec = IndexSpec::parse(spec.to_buf().as_raw()).expect("an index");
        drive(&catalog, catalog.create_indexes(changing(&catalog), &namespace("log"), &[spec]))
            .expect("an index");
        let documents = [doc! { "_id": 1, "u": 1 }, doc! { "_id": 2, "u": 1 }, doc! { "_id": 3, "u": 2 }];
        let [first, duplicate, last] = documents.map(|document| document.to_buf());
        let mut dropped = Box::pin(log.insert(writing(&log), first.as_raw()));
        assert!(poll_once(dropped.as_mut()).is_none(), "the unit is enqueued");
        drop(dropped);
        let refused = drive(&catalog, log.insert(writing(&log), duplicate.as_raw()));
        assert!(matches!(refused, Err(WriteError::DuplicateKey(_))), "{refused:?}");
        drive(&catalog, log.insert(writing(&log), last.as_raw())).expect("an insert");
        let ids: Vec<i64> = all(&log).iter().map(|document| number(document, "_id")).collect();
        assert_eq!(ids, [1, 3], "each document has a record id of its own");
        storage::commit_inline();
        assert_valid(&log);
        storage::defer_commits();
    });
}
