//! Updates with very many paths and values: what they take grows with their size, not with its square.
//!
//! Each case takes a fraction of a second; compared pair by pair it would take minutes.

use std::time::{Duration, Instant};

use document::{Document, Value, doc};

use super::*;

const MANY: i32 = 60_000;
/// Far above what a loaded machine needs in a test build, far below what the square of `MANY` takes.
const LONG: Duration = Duration::from_secs(30);

/// The document after an update, in bounded time.
#[track_caller]
fn run(update: Document, input: &Document, filters: Vec<Value>) -> Result<Document, QueryError> {
    let began = Instant::now();
    let (update, input) = (update.to_buf(), input.to_buf());
    let filters = doc! { "f": filters }.to_buf();
    let filters = filters.as_raw().get("f").and_then(RawValue::as_array);
    let update = Update::parse(RawValue::Document(update.as_raw()), filters, &Environment::default())?;
    let changed = update.apply(input.as_raw(), None, false)?;
    let took = began.elapsed();
    assert!(took < LONG, "{MANY} of them took {took:?}");
    Ok(changed.unwrap_or(input).as_raw().to_document())
}

fn numbers(from: i32) -> Value {
    (from..from + MANY).map(Value::Int32).collect::<Vec<_>>().into()
}

fn fields(prefix: &str, value: impl Fn(i32) -> Value) -> Document {
    (0..MANY).map(|number| (format!("{prefix}{number}"), value(number))).collect()
}

fn length(document: &Document, name: &str) -> Option<usize> {
    document.get(name).and_then(Value::as_array).map(|values| values.len())
}

#[test]
fn values_of_sets() {
    let input = doc! { "_id": 1, "a": (numbers(0)) };
    let half = numbers(MANY / 2);
    let added = run(doc! { "$addToSet": { "a": { "$each": (half.clone()) } } }, &input, Vec::new());
    assert_eq!(added.map(|added| length(&added, "a")), Ok(Some(MANY as usize * 3 / 2)));
    let made = run(doc! { "$addToSet": { "b": { "$each": (half.clone()) } } }, &input, Vec::new());
    assert_eq!(made.map(|made| length(&made, "b")), Ok(Some(MANY as usize)));
    let pulled = run(doc! { "$pullAll": { "a": half.clone() } }, &input, Vec::new());
    assert_eq!(pulled.map(|pulled| length(&pulled, "a")), Ok(Some(MANY as usize / 2)));
    let pulled = run(doc! { "$pull": { "a": { "$in": half } } }, &input, Vec::new());
    assert_eq!(pulled.map(|pulled| length(&pulled, "a")), Ok(Some(MANY as usize / 2)));
}

#[test]
fn equal_values_of_sets() {
    let many: Vec<Value> = (0..2_000).map(|number| Value::Double(f64::from(number % 40))).collect();
    let input = doc! { "_id": 1, "a": [1, 2_i64] };
    let set =
        run(doc! { "$addToSet": { "a": { "$each": (many.clone()) } } }, &input, Vec::new()).expect("adds");
    assert_eq!(length(&set, "a"), Some(40), "numbers of other types are equal");
    let none = run(doc! { "$pullAll": { "a": many } }, &set, Vec::new()).expect("pulls");
    assert_eq!(none, doc! { "_id": 1, "a": [] });
}

#[test]
fn paths() {
    let mut input = doc! { "_id": 1 };
    input.extend(fields("f", Value::Int32));
    let set =
        run(doc! { "$set": (fields("f", |_| Value::Boolean(true))) }, &input, Vec::new()).expect("sets");
    assert_eq!((set.len(), set.get("f7")), (MANY as usize + 1, Some(&Value::Boolean(true))));
    let made = run(doc! { "$set": (fields("n.g", Value::Int32)) }, &input, Vec::new()).expect("makes");
    assert_eq!(made.get("n").and_then(Value::as_document).map(Document::len), Some(MANY as usize));
    let again = run(doc! { "$unset": (fields("n.g", Value::Int32)) }, &made, Vec::new()).expect("unsets");
    assert_eq!(again.get("n"), Some(&Value::Document(Document::new())));
    let renamed = fields("f", |number| Value::String(format!("h{number}")));
    let renamed = run(doc! { "$rename": renamed }, &input, Vec::new()).expect("renames");
    assert_eq!(
        (renamed.len(), renamed.get("f7"), renamed.get("h7")),
        (input.len(), None, Some(&Value::Int32(7)))
    );
}

#[test]
fn array_filters() {
    let filters = (0..MANY).map(|number| Value::Document(doc! { (format!("x{number}")): number })).collect();
    let paths = (0..MANY).map(|number| (format!("a{number}.$[x{number}]"), -1)).collect::<Document>();
    let input = doc! { "_id": 1, "a7": [6, 7, 8] };
    let refused = run(doc! { "$set": paths }, &input, filters);
    assert_eq!(refused.map_err(|error| error.code), Err(2), "the other arrays are missing");
}
