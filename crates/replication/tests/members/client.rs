//! What clients do: append numbers to documents, and read them.

use catalog::{Catalog, Collection, Decision, FoundDocuments, OperationContext, Receipts, WriteError};
use document::{DocumentBuf, RawDocument, RawValue, Value, doc};
use replication::oplog::OplogObserver;
use replication::set::ReplicaSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use storage::{ReadTier, ReadView};

/// Documents that are changed one at a time.
pub(crate) const SINGLES: std::ops::Range<i32> = 0..3;
/// Documents that are always changed together.
pub(crate) const PAIR: [i32; 2] = [10, 11];

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Acknowledged.
    Written,
    /// Refused: it may have been done, or may be later.
    Unknown,
    /// Refused before anything was done.
    Never,
    /// What a linearizable read saw.
    Read(Vec<i64>),
}

pub(crate) type Request = Pin<Box<dyn Future<Output = Outcome>>>;

fn collection(catalog: &Catalog) -> Option<Arc<Collection>> {
    catalog.collection("test", "c")
}

/// The numbers of a document, in their order.
pub(crate) fn list(catalog: &Catalog, view: &ReadView, id: i32) -> Vec<i64> {
    let Some(collection) = collection(catalog) else { return Vec::new() };
    let Some(found) = collection.get(view, RawValue::Int32(id), ReadTier::Any).unwrap() else {
        return Vec::new();
    };
    numbers(RawDocument::trusted(&found))
}

fn numbers(document: RawDocument<'_>) -> Vec<i64> {
    let list = document.get("list").and_then(RawValue::as_array).expect("a list");
    list.iter().map(|number| number.as_i64_exact().expect("a number")).collect()
}

fn appended(id: i32, found: RawDocument<'_>, value: i64) -> DocumentBuf {
    let mut list: Vec<Value> = numbers(found).into_iter().map(Value::from).collect();
    list.push(Value::from(value));
    let mut document = doc! { "_id": id };
    document.push("list", list);
    document.to_buf()
}

/// How a refusal is to be taken.
fn refusal(code: i32) -> Outcome {
    match code {
        10107 => Outcome::Never,
        11602 => Outcome::Unknown,
        other => panic!("refused with code {other}"),
    }
}

/// Makes the documents, where they are not there yet.
pub(crate) fn prepare(catalog: Arc<Catalog>) -> Request {
    Box::pin(async move {
        let store = catalog.store().clone();
        let receipts = Receipts::default();
        let context = logged(&store, &receipts);
        let collection = match catalog.collection_or_create(&context, "test", "c").await {
            Ok(collection) => collection,
            Err(error) => return refusal(error.code()),
        };
        for id in SINGLES.chain(PAIR) {
            let mut document = doc! { "_id": id };
            document.push("list", Vec::<Value>::new());
            match collection.insert(&context, document.to_buf().as_raw()).await {
                Ok(_) | Err(WriteError::DuplicateKey(_)) => {}
                Err(error) => return refusal(error.code()),
            }
        }
        Outcome::Written
    })
}

/// As a client's writes are.
fn logged<'o>(store: &'o storage::Store, receipts: &'o Receipts) -> OperationContext<'o> {
    OperationContext { observer: Some(&OplogObserver), ..OperationContext::writing(store, receipts) }
}

/// Appends a number to one document.
pub(crate) fn append(catalog: Arc<Catalog>, id: i32, value: i64) -> Request {
    Box::pin(async move {
        let store = catalog.store().clone();
        let receipts = Receipts::default();
        let context = logged(&store, &receipts);
        let Some(collection) = collection(&catalog) else { return Outcome::Never };
        let key = Collection::document_key_of_id(RawValue::Int32(id));
        let decide = |found: Option<RawDocument<'_>>| {
            Ok::<_, WriteError>(match found {
                Some(found) => Decision::Replace(appended(id, found, value)),
                None => Decision::Keep,
            })
        };
        match collection.update(&context, &key, decide).await {
            Ok(report) if report.changed => Outcome::Written,
            Ok(_) => Outcome::Never,
            Err(error) => refusal(error.code()),
        }
    })
}

/// Appends a number to both documents of the pair, in one unit.
pub(crate) fn append_to_pair(catalog: Arc<Catalog>, value: i64) -> Request {
    Box::pin(async move {
        let store = catalog.store().clone();
        let receipts = Receipts::default();
        let context = logged(&store, &receipts);
        let Some(collection) = collection(&catalog) else { return Outcome::Never };
        let mut found = FoundDocuments::default();
        for id in PAIR {
            found.push(&collection, &Collection::document_key_of_id(RawValue::Int32(id)), None);
        }
        let mut ids = PAIR.into_iter();
        let decide = |found: Option<RawDocument<'_>>, _| {
            let id = ids.next().expect("two documents");
            Ok::<_, WriteError>(match found {
                Some(found) => Decision::Replace(appended(id, found, value)),
                None => Decision::Keep,
            })
        };
        match collection.update_many(&context, &found, 0, decide).await {
            (2, Ok(())) => Outcome::Written,
            (0, Err(error)) => refusal(error.code()),
            (settled, outcome) => panic!("{settled} of a pair are settled: {outcome:?}"),
        }
    })
}

/// Reads what is there when a majority says that this member still leads, or when it `believes` so by itself.
pub(crate) fn read(set: ReplicaSet, catalog: Arc<Catalog>, id: i32, believes: bool) -> Request {
    Box::pin(async move {
        let leads = match believes && set.is_writable() {
            true => Ok(()),
            false => set.read_barrier().await,
        };
        match leads {
            Ok(()) => Outcome::Read(list(&catalog, &catalog.store().read_view(), id)),
            Err(_) => Outcome::Never,
        }
    })
}
