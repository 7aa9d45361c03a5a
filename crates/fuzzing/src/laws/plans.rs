//! Plans: whatever index one uses, it finds what a scan of the whole collection finds, on an index held in
//! memory as encoded keys.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use document::key::{KeyBuilder, encode_owned, hash64};
use document::{Document, DocumentBuf, Value, doc};
use query::environment::Environment;
use query::matcher::Matcher;
use query::plan::{
    Access, FieldOrder, Hint, IndexBounds, IndexDescription, IndexKeyPart, IndexScan, Intervals, KeyCheck,
    KeyScan, NeededFields, Plan, PlanRequest, ScanDirection, SortField, plan,
};

use super::Met;
use crate::source::Source;

/// Choices of values that filters and indexes meet often.
struct Random<'b> {
    source: Source<'b>,
    /// Few different values, many documents in arrays: filters with several conditions find something.
    narrow: bool,
}

impl Random<'_> {
    fn below(&mut self, limit: usize) -> usize {
        self.source.below(limit)
    }

    fn one_in(&mut self, limit: usize) -> bool {
        self.source.one_in(limit)
    }

    fn pick<'t, T: ?Sized>(&mut self, list: &[&'t T]) -> &'t T {
        self.source.pick(list)
    }
}

fn regex(pattern: &str) -> Value {
    Value::regex(pattern, "")
}

fn scalar(random: &mut Random<'_>) -> Value {
    if random.narrow {
        return if random.one_in(12) { Value::Null } else { Value::Int32(random.below(3) as i32) };
    }
    match random.below(24) {
        0..=7 => Value::Int32(random.below(5) as i32),
        8 => Value::Double(random.below(10) as f64 / 2.0),
        9 => Value::Double(f64::NAN),
        10 => Value::Double(f64::INFINITY),
        11 => Value::Null,
        12 => Value::Undefined,
        13..=15 => Value::String(random.pick(&["", "a", "ab", "abc", "b"]).to_owned()),
        16 => Value::Boolean(random.one_in(2)),
        17 => Value::DateTime(random.below(3) as i64),
        18 => Value::MinKey,
        19 => Value::MaxKey,
        20 => regex("^a"),
        21 => Value::Symbol("a".into()),
        22 => Value::Int64(random.below(5) as i64),
        _ => Value::binary(0, vec![random.below(3) as u8]),
    }
}

fn value(random: &mut Random<'_>, depth: usize) -> Value {
    if random.narrow && depth >= 2 && random.one_in(2) {
        let elements = (0..random.below(4)).map(|_| Value::Document(element(random)));
        return Value::Array(elements.collect());
    }
    match random.below(if depth == 0 { 6 } else { 10 }) {
        0..=5 => scalar(random),
        6 | 7 => Value::Array((0..random.below(4)).map(|_| value(random, depth - 1)).collect()),
        _ => Value::Document(fields(random, &["b", "c"], depth - 1)),
    }
}

fn element(random: &mut Random<'_>) -> Document {
    let depth = random.below(4);
    fields(random, &["b", "c"], depth)
}

fn fields(random: &mut Random<'_>, names: &[&str], depth: usize) -> Document {
    let mut document = Document::new();
    for name in names {
        if !random.one_in(4) {
            document.push(*name, value(random, depth));
        }
    }
    document
}

fn operand(random: &mut Random<'_>) -> Value {
    if random.narrow && !random.one_in(8) {
        return scalar(random);
    }
    loop {
        let found = value(random, 2);
        if !matches!(found, Value::Undefined | Value::Regex(_)) {
            return found;
        }
    }
}

fn operators(random: &mut Random<'_>, depth: usize) -> Document {
    let mut operators = Document::new();
    for _ in 0..=random.below(2) {
        let (name, argument) = operator(random, depth);
        operators.insert(name, argument);
    }
    operators
}

fn list(random: &mut Random<'_>) -> Value {
    let mut list: Vec<Value> = (0..random.below(4)).map(|_| operand(random)).collect();
    if random.one_in(4) {
        list.push(regex("^a"));
    }
    Value::from(list)
}

fn operator(random: &mut Random<'_>, depth: usize) -> (&'static str, Value) {
    match random.below(if depth == 0 { 12 } else { 16 }) {
        0 | 1 => ("$eq", operand(random)),
        2 => ("$gt", operand(random)),
        3 => ("$gte", operand(random)),
        4 => ("$lt", operand(random)),
        5 => ("$lte", operand(random)),
        6 => ("$in", list(random)),
        7 => ("$nin", list(random)),
        8 => ("$ne", operand(random)),
        9 => ("$exists", Value::Boolean(random.one_in(2))),
        10 => (
            "$type",
            Value::String(random.pick(&["int", "number", "string", "array", "object", "null"]).to_owned()),
        ),
        11 => match random.below(4) {
            0 => ("$regex", Value::String(random.pick(&["^a", "^ab", "b", "^a.*c"]).to_owned())),
            1 => ("$mod", Value::Array(vec![Value::Int32(2), Value::Int32(1)].into())),
            2 => ("$size", Value::Int32(random.below(3) as i32)),
            _ => ("$all", list(random)),
        },
        12 | 13 => ("$not", Value::Document(operators(random, depth - 1))),
        _ if random.one_in(2) => ("$elemMatch", Value::Document(operators(random, depth - 1))),
        _ => ("$elemMatch", Value::Document(filter(random, &["b", "c", "b.b", "b.c"], depth - 1))),
    }
}

fn filter(random: &mut Random<'_>, paths: &[&str], depth: usize) -> Document {
    let mut filter = Document::new();
    for _ in 0..=random.below(2) {
        match random.below(if depth == 0 { 8 } else { 10 }) {
            0 | 1 => {
                let path = random.pick(paths).to_owned();
                let argument = operand(random);
                filter.insert(path, argument);
            }
            8 | 9 => {
                let name = random.pick(&["$or", "$or", "$and", "$nor"]).to_owned();
                let branches =
                    (0..=random.below(2)).map(|_| Value::Document(self::filter(random, paths, depth - 1)));
                let branches = Value::Array(branches.collect());
                filter.insert(name, branches);
            }
            _ => {
                let path = random.pick(paths).to_owned();
                let argument = operators(random, depth);
                filter.insert(path, argument);
            }
        }
    }
    filter
}

// ---- an index in memory
// -------------------------------------------------------------------------------------------

#[derive(Clone)]
struct Reach<'v> {
    value: Option<&'v Value>,
    rest: Vec<&'v str>,
    /// Components walked so far.
    walked: usize,
    path: &'v str,
}

impl<'v> Reach<'v> {
    /// Walks down to an array or to the end; true when an array has to be expanded.
    fn walk(&mut self) -> bool {
        loop {
            match self.value {
                Some(Value::Array(_)) => return true,
                Some(Value::Document(document)) if !self.rest.is_empty() => {
                    let name = self.rest.remove(0);
                    self.walked += 1;
                    self.value = document.get(name);
                }
                _ if self.rest.is_empty() => return false,
                _ => {
                    self.value = None;
                    return false;
                }
            }
        }
    }

    fn prefix(&self) -> String {
        self.path.split('.').take(self.walked).collect::<Vec<_>>().join(".")
    }
}

/// The keys of a document as MongoDB makes them, and the depths of arrays for each field; `None` for parallel
/// arrays.
fn keys_of<'v>(
    mut fields: Vec<Reach<'v>>,
    multikey: &mut [BTreeSet<usize>],
    done: &mut [bool],
) -> Option<Vec<Vec<Option<Value>>>> {
    let mut arrays = Vec::new();
    for (position, field) in fields.iter_mut().enumerate() {
        if !done[position] && field.walk() {
            arrays.push(position);
        } else {
            done[position] = true;
        }
    }
    let Some(first) = arrays.first() else {
        return Some(vec![fields.iter().map(|field| field.value.cloned()).collect()]);
    };
    let prefix = fields[*first].prefix();
    if arrays.iter().any(|position| fields[*position].prefix() != prefix) {
        return None;
    }
    for position in &arrays {
        multikey[*position].insert(fields[*position].walked);
    }
    let Some(Value::Array(elements)) = fields[*first].value else { unreachable!("an array was found") };
    let mut keys = Vec::new();
    let choices: Vec<Option<&Value>> =
        if elements.is_empty() { vec![None] } else { elements.iter().map(Some).collect() };
    for element in choices {
        let mut inner = fields.clone();
        let mut inner_done = done.to_vec();
        for position in &arrays {
            let field = &mut inner[*position];
            if field.rest.is_empty() {
                // An array inside an array is a key itself.
                field.value = Some(element.unwrap_or(&Value::Undefined));
                inner_done[*position] = true;
            } else {
                field.value = element.filter(|element| matches!(element, Value::Document(_)));
                inner_done[*position] = field.value.is_none();
            }
        }
        keys.extend(keys_of(inner, multikey, &mut inner_done)?);
    }
    Some(keys)
}

struct Stored {
    id: Value,
    value: Value,
    bytes: DocumentBuf,
}

struct Index {
    description: Arc<IndexDescription>,
    /// Key bytes ‖ encoded `_id` → the key's values and the document's position.
    entries: BTreeMap<Vec<u8>, (Vec<Value>, usize)>,
}

fn build_index(mut description: IndexDescription, documents: &[Stored]) -> Option<Index> {
    let mut entries = BTreeMap::new();
    let mut multikey = vec![BTreeSet::new(); description.fields.len()];
    let paths: Vec<String> = description.fields.iter().map(|field| field.path.dotted().to_owned()).collect();
    for (position, stored) in documents.iter().enumerate() {
        if let Some(partial) = &description.partial
            && !partial.matches(stored.bytes.as_raw()).unwrap()
        {
            continue;
        }
        let start = paths
            .iter()
            .map(|path| Reach {
                value: Some(&stored.value),
                rest: path.split('.').collect(),
                walked: 0,
                path,
            })
            .collect();
        let mut here = vec![BTreeSet::new(); paths.len()];
        let keys = keys_of(start, &mut here, &mut vec![false; paths.len()])?;
        let mut indexed = false;
        for key in keys {
            if description.sparse && key.iter().all(Option::is_none) {
                continue;
            }
            indexed = true;
            let mut values = Vec::new();
            let mut builder = KeyBuilder::new();
            for (value, field) in key.into_iter().zip(&description.fields) {
                let mut value = value.unwrap_or(Value::Null);
                if field.order == FieldOrder::Hashed {
                    let wrapper = doc! { "v": value }.to_buf();
                    value = Value::Int64(hash64(wrapper.as_raw().get("v").unwrap()));
                }
                builder.append_owned(&value, field.order.key_direction());
                values.push(value);
            }
            let mut bytes = builder.into_parts().0;
            encode_owned(&mut bytes, &stored.id);
            entries.insert(bytes, (values, position));
        }
        if indexed {
            multikey.iter_mut().zip(here).for_each(|(all, here)| all.extend(here));
        }
    }
    for (field, multikey) in description.fields.iter_mut().zip(multikey) {
        if field.order == FieldOrder::Hashed && !multikey.is_empty() {
            return None;
        }
        field.multikey = multikey.into_iter().collect();
    }
    Some(Index { description: Arc::new(description), entries })
}

/// Runs a key scan as an executor does, and checks it against the bounds read as values.
fn run_scan(
    entries: &BTreeMap<Vec<u8>, (Vec<Value>, usize)>,
    mut scan: KeyScan,
    direction: ScanDirection,
    bounds: &[Intervals],
) -> Vec<usize> {
    let wanted: Vec<usize> = {
        let inside =
            |values: &[Value]| values.iter().zip(bounds).all(|(value, bounds)| bounds.contains(value));
        let found = entries.values().filter(|(values, _)| inside(values)).map(|(_, position)| *position);
        match direction {
            ScanDirection::Forward => found.collect(),
            ScanDirection::Backward => found.rev().collect(),
        }
    };
    let in_range: Vec<(&Vec<u8>, usize)> = entries
        .iter()
        .filter(|(key, _)| **key >= scan.lower && scan.upper.as_ref().is_none_or(|upper| *key < upper))
        .map(|(key, (_, position))| (key, *position))
        .collect();
    let ordered: Vec<(&Vec<u8>, usize)> = match direction {
        ScanDirection::Forward => in_range,
        ScanDirection::Backward => in_range.into_iter().rev().collect(),
    };
    let mut found = Vec::new();
    let mut cursor = 0;
    while let Some((key, position)) = ordered.get(cursor) {
        let Some(checker) = &mut scan.checker else {
            found.push(*position);
            cursor += 1;
            continue;
        };
        match checker.check(key) {
            KeyCheck::Inside => {
                found.push(*position);
                cursor += 1;
            }
            KeyCheck::Outside => cursor += 1,
            KeyCheck::Done => break,
            KeyCheck::Seek(target) => {
                let next = ordered.iter().position(|(key, _)| match direction {
                    ScanDirection::Forward => key.as_slice() >= target,
                    ScanDirection::Backward => key.as_slice() <= target,
                });
                let next = next.unwrap_or(ordered.len());
                assert!(next > cursor, "a seek must lead on");
                cursor = next;
            }
        }
    }
    assert_eq!(found, wanted, "keys found by bytes and by values; bounds {bounds:?} {direction:?}");
    found
}

struct Collection {
    documents: Vec<Stored>,
    clustered: BTreeMap<Vec<u8>, (Vec<Value>, usize)>,
    indexes: Vec<Index>,
}

impl Collection {
    fn run(&self, access: &Access) -> Vec<usize> {
        match access {
            Access::Empty => Vec::new(),
            Access::CollectionScan { direction, ids } => {
                let all = Intervals::all();
                let ids = ids.as_ref().unwrap_or(&all);
                run_scan(
                    &self.clustered,
                    KeyScan::of_ids(ids, *direction),
                    *direction,
                    std::slice::from_ref(ids),
                )
            }
            Access::IdLookup { id } => {
                let found = self.documents.iter().position(|stored| stored.id.compare(id).is_eq());
                found.into_iter().collect()
            }
            Access::IndexScan(scan) => self.run_index(scan),
            Access::Union(branches) => branches.iter().flat_map(|branch| self.run(branch)).collect(),
        }
    }

    fn run_index(&self, scan: &IndexScan) -> Vec<usize> {
        let IndexBounds::Fields(bounds) = &scan.bounds else { unreachable!("no min or max here") };
        let index = self.indexes.iter().find(|index| index.description.name == scan.index.name).unwrap();
        let found = run_scan(&index.entries, KeyScan::of_index(scan), scan.direction, bounds);
        let distinct: BTreeSet<usize> = found.iter().copied().collect();
        assert!(scan.deduplicate || distinct.len() == found.len(), "a document was met twice");
        found
    }

    fn execute(&self, plan: &Plan) -> Vec<usize> {
        let mut seen = BTreeSet::new();
        let mut found = self.run(&plan.access);
        found.retain(|position| seen.insert(*position));
        if let Some(residual) = &plan.residual {
            found.retain(|position| residual.matches(self.documents[*position].bytes.as_raw()).unwrap());
        }
        found
    }

    /// The value a document is sorted by: the lowest or highest of its keys.
    fn sort_key(&self, position: usize, field: &SortField) -> Value {
        let start = Reach {
            value: Some(&self.documents[position].value),
            rest: field.path.split('.').collect(),
            walked: 0,
            path: &field.path,
        };
        let keys = keys_of(vec![start], &mut [BTreeSet::new()], &mut [false]).unwrap();
        let values = keys.into_iter().map(|mut key| key.remove(0).unwrap_or(Value::Null));
        let extreme =
            if field.descending { values.max_by(Value::compare) } else { values.min_by(Value::compare) };
        extreme.unwrap()
    }

    fn compare(&self, sort: &[SortField], left: usize, right: usize) -> Ordering {
        let orderings = sort.iter().map(|field| {
            let ordering = self.sort_key(left, field).compare(&self.sort_key(right, field));
            if field.descending { ordering.reverse() } else { ordering }
        });
        orderings.fold(Ordering::Equal, Ordering::then)
    }
}

const PATTERNS: &[&[(&str, FieldOrder)]] = {
    use FieldOrder::{Ascending, Descending, Hashed};
    &[
        &[("a", Ascending)],
        &[("a", Descending)],
        &[("b", Ascending)],
        &[("a", Ascending), ("b", Ascending)],
        &[("a", Descending), ("b", Ascending)],
        &[("b", Ascending), ("a", Descending)],
        &[("a.b", Ascending)],
        &[("a.b", Ascending), ("a.c", Descending)],
        &[("a.c", Descending), ("a.b", Descending)],
        &[("b", Ascending), ("a.b", Ascending), ("a.c", Ascending)],
        &[("a.b", Ascending), ("b", Descending)],
        &[("a", Hashed)],
        &[("a.b", Hashed), ("b", Ascending)],
        &[("a", Ascending), ("a.b", Ascending)],
        &[("a.b.c", Ascending), ("a.b.b", Ascending)],
        &[("a.0", Ascending)],
    ]
};

const PATHS: &[&str] = &["a", "a", "b", "a.b", "a.b", "a.c", "a.b.c", "a.0", "_id"];

fn parse(filter: &Document) -> Matcher {
    let parsed = Matcher::parse(filter.to_buf().as_raw(), &Environment::default());
    parsed.unwrap_or_else(|error| panic!("{filter:?}: {error}"))
}

fn describe(random: &mut Random<'_>, position: usize) -> IndexDescription {
    let pattern = PATTERNS[random.below(PATTERNS.len())];
    let fields = pattern.iter().map(|(path, order)| IndexKeyPart::new(path, *order)).collect();
    let mut description = IndexDescription::new(&format!("index{position}"), fields);
    description.sparse = random.one_in(4);
    if random.one_in(4) {
        description.partial = Some(parse(&partial_filter(random)));
    }
    description
}

fn partial_filter(random: &mut Random<'_>) -> Document {
    let path = random.pick(&["a", "b", "a.b"]).to_owned();
    let operators = match random.below(6) {
        0 => doc! { "$exists": true },
        1 => doc! { "$gt": operand(random) },
        2 => doc! { "$gte": operand(random) },
        3 => doc! { "$lt": operand(random) },
        4 => doc! { "$lte": operand(random) },
        _ => doc! { "$eq": operand(random) },
    };
    Document::from_iter([(path, Value::Document(operators))])
}

fn collection(random: &mut Random<'_>) -> Collection {
    let mut documents = Vec::new();
    let mut clustered = BTreeMap::new();
    // Some collections have no arrays at all, so that the rules without them are met.
    let depth = if random.one_in(3) { 0 } else { 3 };
    for position in 0..random.below(14) {
        let id = if random.one_in(4) {
            Value::String(format!("a{position}"))
        } else {
            Value::Int32(position as i32)
        };
        let mut document = doc! { "_id": id.clone() };
        document.extend(fields(random, &["a", "b"], depth));
        let mut key = Vec::new();
        encode_owned(&mut key, &id);
        clustered.insert(key, (vec![id.clone()], position));
        let bytes = document.to_buf();
        documents.push(Stored { id, value: Value::Document(document), bytes });
    }
    let indexes =
        (0..=random.below(2)).filter_map(|position| build_index(describe(random, position), &documents));
    let indexes = indexes.collect();
    Collection { documents, clustered, indexes }
}

fn sort(random: &mut Random<'_>) -> Vec<SortField> {
    let mut sort: Vec<SortField> = Vec::new();
    for _ in 0..random.below(3) {
        let path = random.pick(&["a", "b", "a.b", "a.c", "_id"]).to_owned();
        if sort.iter().all(|field| field.path != path) {
            sort.push(SortField { path, descending: random.one_in(2) });
        }
    }
    sort
}

fn check_plan(collection: &Collection, request: &PlanRequest<'_>, expect: &BTreeSet<usize>) -> Plan {
    let plan = plan(request).unwrap();
    let found = collection.execute(&plan);
    assert_eq!(found.iter().copied().collect::<BTreeSet<_>>(), *expect, "plan {plan:#?}");
    if plan.sort_provided {
        let ordered =
            found.is_sorted_by(|left, right| collection.compare(request.sort, *left, *right).is_le());
        assert!(ordered, "documents {found:?} are not in the order {:?}; plan {plan:#?}", request.sort);
    }
    plan
}

fn clustered_id() -> IndexDescription {
    let fields = vec![IndexKeyPart::new("_id", FieldOrder::Ascending)];
    IndexDescription { unique: true, clustered: true, ..IndexDescription::new("_id_", fields) }
}

pub(super) fn check(bytes: &[u8], met: &mut Met) {
    let mut source = Source::new(bytes);
    let narrow = source.one_in(2);
    let mut random = Random { source, narrow };
    let collection = collection(&mut random);
    let mut indexes: Vec<Arc<IndexDescription>> =
        collection.indexes.iter().map(|index| Arc::clone(&index.description)).collect();
    indexes.push(Arc::new(clustered_id()));
    for _ in 0..FILTERS {
        let written = filter(&mut random, PATHS, 2);
        let matcher = parse(&written);
        let expect: BTreeSet<usize> = (0..collection.documents.len())
            .filter(|position| matcher.matches(collection.documents[*position].bytes.as_raw()).unwrap())
            .collect();
        let context = Context { filter: &written, collection: &collection };
        let sort = sort(&mut random);
        let needs = NeededFields::Nothing;
        let request = PlanRequest { sort: &sort, needs: &needs, ..PlanRequest::new(&matcher, &indexes) };
        let plan = check_plan(&collection, &request, &expect);
        met.note(kind(&plan));
        for index in indexes.iter().filter(|index| !index.is_incomplete()) {
            let hint = Hint::Name(index.name.clone());
            check_plan(&collection, &PlanRequest { hint: Some(&hint), ..request.clone() }, &expect);
        }
        std::mem::forget(context);
    }
}

/// For each collection.
const FILTERS: usize = 6;

/// Says what was tried when a check fails.
struct Context<'c> {
    filter: &'c Document,
    collection: &'c Collection,
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        eprintln!("filter {:?}", self.filter);
        for (position, stored) in self.collection.documents.iter().enumerate() {
            eprintln!("document {position}: {:?}", stored.bytes.as_raw());
        }
        for index in &self.collection.indexes {
            eprintln!("index {:?}", index.description);
        }
    }
}

/// Which kind of plan it is.
fn kind(plan: &Plan) -> &'static str {
    match (&plan.access, &plan.residual) {
        (Access::Empty, _) => "empty",
        (Access::IdLookup { .. }, _) => "lookup",
        (Access::CollectionScan { ids: Some(_), .. }, _) => "bounded collection scan",
        (Access::CollectionScan { .. }, _) => "collection scan",
        (Access::IndexScan(scan), None) if scan.covered => "exact index scan",
        (Access::IndexScan(_), _) => "index scan",
        (Access::Union(_), _) => "union",
    }
}
