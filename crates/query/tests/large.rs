//! What a client sends may be as large as a message. Reading it takes time in proportion to its length: a
//! hundred thousand fields, paths, branches or values are a matter of moments, and would be one of minutes if
//! each were compared with each.

use document::{Document, RawDocument, Value, doc};
use query::Environment;
use query::aggregate::Pipeline;
use query::expression::{Expression, ParseScope, Variables};
use query::matcher::Matcher;
use query::plan::{Access, FieldOrder, IndexDescription, IndexKeyPart, PlanRequest, plan};
use query::projection::Projection;
use query::schema::Schema;
use query::update::Update;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MANY: i32 = 100_000;
/// Far more than a loaded machine needs for what is near-linear, and far less than what is not takes.
const PATIENCE: Duration = Duration::from_secs(30);

fn check<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = run();
    assert!(began.elapsed() < PATIENCE, "{what} took {:?}", began.elapsed());
    result
}

fn fields(value: impl Fn(i32) -> Value) -> Document {
    (0..MANY).map(|number| (format!("f{number}"), value(number))).collect()
}

fn numbers() -> Value {
    Value::Array((0..MANY).map(Value::Int32).collect())
}

fn array(item: impl Fn(i32) -> Document) -> Value {
    Value::Array((0..MANY).map(|number| Value::Document(item(number))).collect())
}

fn evaluate(expression: Document) -> Value {
    let holder = doc! { "": expression }.to_buf();
    let operand = holder.as_raw().first().expect("one field").value();
    let environment = Environment::default();
    let parsed = Expression::parse(operand, &ParseScope::new(&environment)).expect("well-formed");
    parsed.evaluate(RawDocument::EMPTY, &mut Variables::new()).expect("no error").expect("a value")
}

#[test]
fn filters() {
    let environment = Environment::default();
    let document = fields(Value::Int32).to_buf();
    for operator in ["$and", "$or", "$nor"] {
        let branches =
            array(|number| doc! { (format!("f{number}")): (number + i32::from(operator != "$and")) });
        let filter = doc! { (operator): branches }.to_buf();
        let matches = check(operator, || {
            let matcher = Matcher::parse(filter.as_raw(), &environment).expect("well-formed");
            matcher.matches(document.as_raw())
        });
        assert_eq!(matches, Ok(operator != "$or"), "{operator}");
    }
    let plain = fields(Value::Int32).to_buf();
    let matcher = check("a field for each", || Matcher::parse(plain.as_raw(), &environment)).expect("plain");
    assert_eq!(check("matching", || matcher.matches(document.as_raw())), Ok(true));
}

#[test]
fn plans() {
    let fields = vec![IndexKeyPart::new("a", FieldOrder::Ascending)];
    let indexes = [Arc::new(IndexDescription::new("a_1", fields))];
    let environment = Environment::default();
    let filters = [
        doc! { "$or": (array(|number| doc! { "a": number })) },
        doc! { "$and": (array(|number| doc! { "a": { "$ne": number } })) },
        doc! { "$or": (array(|number| doc! { "a": number, "b": 1 })), "c": 1 },
        doc! { "a": { "$in": (numbers()) } },
        doc! { "$and": (array(|number| doc! { "$or": [{ "a": number }, { "b": number }] })) },
    ];
    for filter in filters {
        let filter = filter.to_buf();
        check("planning", || {
            let matcher = Matcher::parse(filter.as_raw(), &environment).expect("well-formed");
            let plan = plan(&PlanRequest::new(&matcher, &indexes)).expect("a plan");
            assert!(!matches!(plan.access, Access::Empty));
        });
    }
}

#[test]
fn projections() {
    let environment = Environment::default();
    let document = fields(Value::Int32).to_buf();
    for shown in [1, 0] {
        let spec = fields(|_| Value::Int32(shown)).to_buf();
        let projected = check("a projection", || {
            let projection = Projection::parse(spec.as_raw(), &environment).expect("well-formed");
            projection.project(document.as_raw(), None, &mut Variables::new()).expect("no error")
        });
        assert_eq!(projected.as_raw().iter().count(), if shown == 1 { MANY as usize } else { 0 });
    }
    let added = fields(|_| Value::Int32(1)).to_buf();
    let added = check("$addFields", || {
        let projection = Projection::parse_addition(added.as_raw(), &environment).expect("well-formed");
        projection.project(document.as_raw(), None, &mut Variables::new()).expect("no error")
    });
    assert_eq!(added.as_raw().iter().count(), MANY as usize);
}

#[test]
fn expressions() {
    let object = check("an object", || evaluate(fields(Value::Int32)));
    assert_eq!(object.as_document().map(Document::len), Some(MANY as usize));
    let merged = check("$mergeObjects", || {
        evaluate(doc! { "$mergeObjects": (array(|number| doc! { (format!("f{number}")): number })) })
    });
    assert_eq!(merged, object);
    let pairs = array(|number| doc! { "k": (format!("f{number}")), "v": number });
    let made =
        check("$arrayToObject", || evaluate(doc! { "$arrayToObject": (doc! { "$literal": (pairs) }) }));
    assert_eq!(made, object);
    let both = || Value::from(vec![numbers(), Value::from(vec![Value::Int32(7)])]);
    for (operator, length) in [("$setDifference", MANY - 1), ("$setUnion", MANY), ("$setIntersection", 1)] {
        let result = check(operator, || evaluate(doc! { (operator): (both()) }));
        assert_eq!(result.as_array().map(<[Value]>::len), Some(length as usize), "{operator}");
    }
    let vars = fields(Value::Int32);
    let references: Vec<Value> = (0..MANY).map(|number| Value::String(format!("$$f{number}"))).collect();
    let bound = check("$let", || evaluate(doc! { "$let": { "vars": (vars), "in": (references) } }));
    assert_eq!(bound, numbers());
    let haystack = "a".repeat(1 << 20);
    let needle = format!("{}b", "a".repeat(1 << 19));
    for operator in ["$indexOfBytes", "$indexOfCP"] {
        let found = check(operator, || evaluate(doc! { (operator): [(haystack.clone()), (needle.clone())] }));
        assert_eq!(found, Value::Int32(-1));
    }
    let letters: String = (0x4e00..0x9000).filter_map(char::from_u32).chain(['a']).collect();
    let trimmed =
        check("$trim", || evaluate(doc! { "$trim": { "input": (haystack.clone()), "chars": (letters) } }));
    assert_eq!(trimmed, Value::String(String::new()));
}

#[test]
fn schemas() {
    let environment = Environment::default();
    let document = fields(Value::Int32).to_buf();
    let names: Vec<Value> = (0..MANY).map(|number| Value::String(format!("f{number}"))).collect();
    let schemas = [
        doc! { "required": (names) },
        doc! { "properties": (fields(|_| doc! { "bsonType": "int" }.into())), "additionalProperties": false },
        doc! { "properties": { "f7": { "enum": (numbers()) } } },
    ];
    for schema in schemas {
        let schema = schema.to_buf();
        check("a schema", || {
            let schema = Schema::parse(schema.as_raw(), &environment).expect("well-formed");
            assert_eq!(schema.matches(document.as_raw()), Ok(true));
        });
    }
}

fn update(operators: Document, document: &Document) -> Document {
    let spec = doc! { "": operators }.to_buf();
    let spec = spec.as_raw().first().expect("one field").value();
    let update = Update::parse(spec, None, &Environment::default()).expect("well-formed");
    let document = document.to_buf();
    let changed = update.apply(document.as_raw(), None, false).expect("no error");
    changed.map_or_else(Document::new, |changed| changed.as_raw().to_document())
}

#[test]
fn updates() {
    let whole = fields(Value::Int32);
    assert_eq!(
        check("$set of new fields", || update(doc! { "$set": (whole.clone()) }, &doc! {})).len(),
        MANY as usize
    );
    let raised = check("$inc", || update(doc! { "$inc": (fields(|_| Value::Int32(1))) }, &whole));
    assert_eq!(raised.get("f7"), Some(&Value::Int32(8)));
    assert_eq!(check("$unset", || update(doc! { "$unset": (whole.clone()) }, &whole)), doc! {});
    let renames = fields(|number| Value::String(format!("g{number}")));
    assert_eq!(
        check("$rename", || update(doc! { "$rename": (renames) }, &whole)).get("g7"),
        Some(&Value::Int32(7))
    );
    let holder = doc! { "a": (numbers()) };
    let more: Vec<Value> = (MANY..2 * MANY).map(Value::Int32).collect();
    let added = check("$addToSet", || update(doc! { "$addToSet": { "a": { "$each": (more) } } }, &holder));
    assert_eq!(added.get("a").and_then(Value::as_array).map(<[Value]>::len), Some(2 * MANY as usize));
    assert_eq!(
        check("$pullAll", || update(doc! { "$pullAll": { "a": (numbers()) } }, &holder)),
        doc! { "a": [] }
    );
    let filter = fields(Value::Int32).to_buf();
    let spec = doc! { "": { "$set": { "x": 1 } } }.to_buf();
    let spec = spec.as_raw().first().expect("one field").value();
    let update = Update::parse(spec, None, &Environment::default()).expect("well-formed");
    let inserted = check("an upsert", || update.upsert(filter.as_raw())).expect("no error");
    assert_eq!(inserted.as_raw().iter().count(), MANY as usize + 2);
}

#[test]
fn pipelines() {
    let environment = Environment::default();
    let stages: Vec<Value> = (0..1000)
        .map(|number| Value::Document(doc! { "$match": { "a": { "$ne": ("x".repeat(number)) } } }))
        .collect();
    let holder = doc! { "": (stages) }.to_buf();
    let stages = holder.as_raw().first().and_then(|first| first.value().as_array()).expect("an array");
    let mut pipeline = check("many filters", || Pipeline::parse(stages, &environment)).expect("well-formed");
    let filter = pipeline.take_leading().filter;
    assert_eq!(filter.as_raw().get("$and").and_then(|all| all.as_array()).map(|all| all.len()), Some(1000));
}
