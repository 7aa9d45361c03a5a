//! What clients do: append numbers to documents, read them, insert documents and remove them.

use catalog::{
    Catalog, CatalogError, Collection, Decision, EncodedRange, FoundDocuments, IndexSpec, Namespace,
    OperationContext, Receipts, WriteError,
};
use document::{DocumentBuf, RawDocument, RawValue, Value, doc};
use replication::oplog::OplogObserver;
use replication::set::ReplicaSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use storage::{CursorOptions, Direction, ReadTier, ReadView};

/// Documents that are changed one at a time.
pub(crate) const SINGLES: std::ops::Range<i32> = 0..3;
/// Documents that are always changed together.
pub(crate) const PAIR: [i32; 2] = [10, 11];

/// The last so many numbers of a document are in a field of their own, with an index.
const RECENT: usize = 3;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// The collections, their indexes and the documents are made.
    Prepare,
    /// A number is appended to one document,
    Append(i32, i64),
    /// or to both of the pair, in one unit.
    AppendToPair(i64),
    /// A linearizable read of one document.
    Read(i32),
    /// A document of this number alone is inserted,
    Insert(i64),
    /// or removed.
    Remove(i64),
}

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

/// A document; empty where there is none.
pub(crate) fn document(catalog: &Catalog, view: &ReadView, id: i32) -> DocumentBuf {
    let found = collection(catalog)
        .and_then(|collection| collection.get(view, RawValue::Int32(id), ReadTier::Any).unwrap());
    found.map(|found| RawDocument::trusted(&found).to_buf()).unwrap_or_default()
}

/// The numbers of a document, in their order.
pub(crate) fn list(catalog: &Catalog, view: &ReadView, id: i32) -> Vec<i64> {
    numbers(document(catalog, view, id).as_raw())
}

/// The last one of them, where there is one.
pub(crate) fn last(catalog: &Catalog, view: &ReadView, id: i32) -> i64 {
    document(catalog, view, id).as_raw().get("last").and_then(RawValue::as_i64_exact).unwrap_or_default()
}

pub(crate) fn numbers(document: RawDocument<'_>) -> Vec<i64> {
    let list = document.get("list").and_then(RawValue::as_array);
    let number = |number: RawValue<'_>| number.as_i64_exact().expect("a number");
    list.map(|list| list.iter().map(number).collect()).unwrap_or_default()
}

fn document_of(id: i32, list: Vec<i64>) -> DocumentBuf {
    let values = |numbers: &[i64]| numbers.iter().copied().map(Value::from).collect::<Vec<Value>>();
    let recent = &list[list.len().saturating_sub(RECENT)..];
    let mut document = doc! { "_id": id, "last": (list.last().copied().unwrap_or_default()) };
    document.push("recent", values(recent));
    document.push("list", values(&list));
    document.to_buf()
}

/// Half of them travel whole and half as what has changed.
fn appended(id: i32, found: RawDocument<'_>, value: i64) -> Decision {
    let mut list = numbers(found);
    list.push(value);
    match value % 2 {
        0 => Decision::Replace(document_of(id, list)),
        _ => Decision::Update(document_of(id, list)),
    }
}

/// The numbers that have a document of their own.
pub(crate) fn bag(catalog: &Catalog, view: &ReadView) -> Vec<i64> {
    let Some(bag) = catalog.collection("test", "bag") else { return Vec::new() };
    let (range, options) = (EncodedRange::default(), CursorOptions::default());
    let mut cursor = bag.documents(view, range, Direction::Forward, options).expect("a cursor");
    let mut numbers = Vec::new();
    while let Some((_, document)) = cursor.next().expect("documents in memory") {
        numbers.push(document.get("last").and_then(RawValue::as_i64_exact).expect("a number"));
    }
    numbers
}

/// How a refusal is to be taken.
fn refusal(code: i32) -> Outcome {
    match code {
        10107 | 14031 => Outcome::Never,
        11602 => Outcome::Unknown,
        other => panic!("refused with code {other}"),
    }
}

/// What belongs to the request of a task.
pub(crate) fn request(task: Task, set: &ReplicaSet, catalog: Arc<Catalog>, believes: bool) -> Request {
    match task {
        Task::Prepare => prepare(catalog),
        Task::Append(id, value) => append(catalog, id, value),
        Task::AppendToPair(value) => append_to_pair(catalog, value),
        Task::Read(id) => read(set.clone(), catalog, id, believes),
        Task::Insert(value) => insert(catalog, value),
        Task::Remove(value) => remove(catalog, value),
    }
}

/// What a server has before it makes a set: the others begin with a copy of it.
pub(crate) fn write_before(store: storage::Store) {
    let catalog = Catalog::open(store.clone()).expect("a catalog");
    let receipts = Receipts::default();
    let context = OperationContext::writing(&store, &receipts);
    let made = pollster::block_on(catalog.collection_or_create(&context, "test", "before"));
    let collection = made.expect("a collection");
    for id in SINGLES {
        pollster::block_on(collection.insert(&context, document_of(id, vec![1]).as_raw()))
            .expect("an insert");
    }
    store.close().expect("it closes");
}

/// Makes the collections and documents, where they are not there yet.
fn prepare(catalog: Arc<Catalog>) -> Request {
    Box::pin(async move {
        match make_all(&catalog).await {
            Ok(()) => Outcome::Written,
            Err(error) => refusal(error.code()),
        }
    })
}

async fn make_all(catalog: &Catalog) -> Result<(), CatalogError> {
    let receipts = Receipts::default();
    let context = logged(catalog.store(), &receipts);
    let spec = |spec: document::Document| IndexSpec::parse(spec.to_buf().as_raw());
    let last = spec(doc! { "v": 2, "name": "last", "key": (doc! { "last": 1, "_id": -1 }) })?;
    let recent = spec(doc! { "v": 2, "name": "recent", "key": (doc! { "recent": 1 }) })?;
    catalog.create_indexes(&context, &Namespace::new("test", "c"), &[last, recent]).await?;
    let unique = spec(doc! { "v": 2, "name": "last", "key": (doc! { "last": 1 }), "unique": true })?;
    catalog.create_indexes(&context, &Namespace::new("test", "bag"), &[unique]).await?;
    let collection = catalog.collection_or_create(&context, "test", "c").await?;
    for id in SINGLES.chain(PAIR) {
        match collection.insert(&context, document_of(id, Vec::new()).as_raw()).await {
            Ok(_) | Err(WriteError::DuplicateKey(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn insert(catalog: Arc<Catalog>, value: i64) -> Request {
    Box::pin(async move {
        let receipts = Receipts::default();
        let context = logged(catalog.store(), &receipts);
        let Some(bag) = catalog.collection("test", "bag") else { return Outcome::Never };
        let document = doc! { "_id": value, "last": value };
        match bag.insert(&context, document.to_buf().as_raw()).await {
            Ok(_) => Outcome::Written,
            Err(error) => refusal(error.code()),
        }
    })
}

fn remove(catalog: Arc<Catalog>, value: i64) -> Request {
    Box::pin(async move {
        let receipts = Receipts::default();
        let context = logged(catalog.store(), &receipts);
        let Some(bag) = catalog.collection("test", "bag") else { return Outcome::Never };
        let key = Collection::document_key_of_id(RawValue::Int64(value));
        match bag.delete(&context, &key).await {
            Ok(report) if report.changed => Outcome::Written,
            Ok(_) => Outcome::Never,
            Err(error) => refusal(error.code()),
        }
    })
}

/// As a client's writes are.
fn logged<'o>(store: &'o storage::Store, receipts: &'o Receipts) -> OperationContext<'o> {
    OperationContext { observer: Some(&OplogObserver), ..OperationContext::writing(store, receipts) }
}

/// Appends a number to one document.
fn append(catalog: Arc<Catalog>, id: i32, value: i64) -> Request {
    Box::pin(async move {
        let store = catalog.store().clone();
        let receipts = Receipts::default();
        let context = logged(&store, &receipts);
        let Some(collection) = collection(&catalog) else { return Outcome::Never };
        let key = Collection::document_key_of_id(RawValue::Int32(id));
        let decide = |found: Option<RawDocument<'_>>| {
            Ok::<_, WriteError>(match found {
                Some(found) => appended(id, found, value),
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
fn append_to_pair(catalog: Arc<Catalog>, value: i64) -> Request {
    Box::pin(async move {
        let store = catalog.store().clone();
        let receipts = Receipts::default();
        let context = logged(&store, &receipts);
        let Some(collection) = collection(&catalog) else { return Outcome::Never };
        let mut found = FoundDocuments::default();
        for id in PAIR {
            found.push(&collection, &Collection::document_key_of_id(RawValue::Int32(id)), None);
        }
        let (mut ids, mut are_there) = (PAIR.into_iter(), true);
        let decide = |found: Option<RawDocument<'_>>, _| {
            let id = ids.next().expect("two documents");
            are_there &= found.is_some();
            Ok::<_, WriteError>(found.map_or(Decision::Keep, |found| appended(id, found, value)))
        };
        match collection.update_many(&context, &found, 0, decide).await {
            (2, Ok(())) if are_there => Outcome::Written,
            (2, Ok(())) => Outcome::Never,
            (0, Err(error)) => refusal(error.code()),
            (settled, outcome) => panic!("{settled} of a pair are settled: {outcome:?}"),
        }
    })
}

/// Reads what is there when a majority says that this member still leads, or when it `believes` so by itself.
fn read(set: ReplicaSet, catalog: Arc<Catalog>, id: i32, believes: bool) -> Request {
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
