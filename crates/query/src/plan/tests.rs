//! Which plan is chosen for which query, and how it is explained.

use std::sync::Arc;

use document::{Document, Value, doc};

use super::{
    Access, ExplainOptions, FieldOrder, Hint, IndexBounds, IndexDescription, IndexKeyPart, KeyScan,
    NeededFields, Plan, PlanRequest, ProjectionKind, ScanDirection, SortField, explain, plan, plan_distinct,
};
use crate::environment::Environment;
use crate::matcher::Matcher;

/// `"a,-b,#c,d[1]"`: ascending, descending, hashed, multikey at the first component.
fn index(pattern: &str) -> IndexDescription {
    let fields = pattern.split(',').map(|text| {
        let (text, arrays) = text.split_once('[').unwrap_or((text, ""));
        let (path, order) = match text.split_at(1) {
            ("-", path) => (path, FieldOrder::Descending),
            ("#", path) => (path, FieldOrder::Hashed),
            _ => (text, FieldOrder::Ascending),
        };
        let mut field = IndexKeyPart::new(path, order);
        field.multikey =
            arrays.bytes().filter(u8::is_ascii_digit).map(|digit| (digit - b'0') as usize).collect();
        field
    });
    IndexDescription::new(pattern, fields.collect())
}

fn indexes(patterns: &[&str]) -> Vec<Arc<IndexDescription>> {
    let mut list: Vec<_> = patterns.iter().map(|pattern| Arc::new(index(pattern))).collect();
    list.push(Arc::new(clustered_id()));
    list
}

fn parse(filter: Document) -> Matcher {
    Matcher::parse(filter.to_buf().as_raw(), &Environment::default()).unwrap()
}

fn sort_of(sort: &str) -> Vec<SortField> {
    sort.split(',')
        .filter(|text| !text.is_empty())
        .map(|text| SortField {
            path: text.trim_start_matches('-').to_owned(),
            descending: text.starts_with('-'),
        })
        .collect()
}

fn describe_access(access: &Access) -> String {
    match access {
        Access::Empty => "nothing".to_owned(),
        Access::IdLookup { id } => format!("id {}", id.quoted()),
        Access::CollectionScan { direction, ids } => {
            let ids = ids.iter().flat_map(|ids| ids.as_slice().iter().map(super::bounds_text::interval));
            format!("collection {} {}", direction.name(), ids.collect::<Vec<_>>().join(" ")).trim().to_owned()
        }
        Access::Union(branches) => {
            format!("({})", branches.iter().map(describe_access).collect::<Vec<_>>().join(" | "))
        }
        Access::IndexScan(scan) => {
            let IndexBounds::Fields(bounds) = &scan.bounds else { return "keys".to_owned() };
            let bounds = bounds.iter().map(|field| {
                field.as_slice().iter().map(super::bounds_text::interval).collect::<Vec<_>>().join(" ")
            });
            let covered = if scan.covered { " covered" } else { "" };
            let backward = if scan.direction == ScanDirection::Backward { " backward" } else { "" };
            format!("{}: {}{backward}{covered}", scan.index.name, bounds.collect::<Vec<_>>().join("; "))
        }
    }
}

fn describe(plan: &Plan) -> String {
    let residual = plan.residual.as_ref().map_or("", |_| ", filter");
    let sort = if plan.sort_provided { "" } else { ", sort" };
    format!("{}{residual}{sort}", describe_access(&plan.access))
}

fn check_sorted(patterns: &[&str], filter: Document, sort: &str, expect: &str) {
    let (matcher, indexes, sort) = (parse(filter.clone()), indexes(patterns), sort_of(sort));
    let plan = plan(&PlanRequest { sort: &sort, ..PlanRequest::new(&matcher, &indexes) }).unwrap();
    assert_eq!(describe(&plan), expect, "filter {filter:?}, indexes {patterns:?}");
}

fn check(patterns: &[&str], filter: Document, expect: &str) {
    check_sorted(patterns, filter, "", expect);
}

fn regex(pattern: &str) -> Value {
    Value::regex(pattern, "")
}

#[test]
fn the_id() {
    check(&[], doc! { "_id": 5 }, "id 5");
    check(&[], doc! { "_id": { "$eq": "x" } }, "id \"x\"");
    check(&[], doc! { "_id": 5, "a": 1 }, "id 5, filter");
    check(&[], doc! { "_id": { "$gt": 5, "$lte": 9 } }, "collection forward (5, 9]");
    check(&[], doc! { "_id": { "$in": [7, 3] } }, "collection forward [3, 3] [7, 7]");
    check(&[], doc! { "_id": { "$gt": 5 }, "a": 1 }, "collection forward (5, inf.0], filter");
    check_sorted(&[], doc! {}, "-_id", "collection backward");
    check_sorted(&[], doc! { "_id": { "$lt": "m" } }, "-_id", "collection backward [\"\", \"m\")");
    check_sorted(&["a"], doc! { "_id": { "$lt": 5 } }, "a", "collection forward [-inf.0, 5), sort");
    check(&["a"], doc! { "_id": 5, "a": 1 }, "id 5, filter");
    check(&[], doc! { "_id": { "$gt": 5, "$lt": 3 } }, "nothing");
}

#[test]
fn one_field() {
    check(&["a"], doc! { "a": 5 }, "a: [5, 5]");
    check(&["a"], doc! { "a": { "$gte": 1, "$lt": 9 } }, "a: [1, 9)");
    check(&["a[1]"], doc! { "a": { "$gte": 1, "$lt": 9 } }, "a[1]: [1, inf.0], filter");
    check(&["a"], doc! { "a": { "$ne": 5 } }, "a: [MinKey, 5) (5, MaxKey]");
    check(&["a[1]"], doc! { "a": { "$ne": 5 } }, "a[1]: [MinKey, 5) (5, MaxKey], filter");
    check(&["a"], doc! { "a": Value::Null }, "a: [undefined, undefined] [null, null]");
    check(&["a[1]"], doc! { "a": Value::Null }, "a[1]: [undefined, undefined] [null, null], filter");
    check(&["a"], doc! { "a": { "$in": [3, 1, 3] } }, "a: [1, 1] [3, 3]");
    check(&["a"], doc! { "a": regex("^ab") }, "a: [\"ab\", \"ac\") [/^ab/, /^ab/]");
    check(&["a"], doc! { "a": regex("^ab.*c") }, "a: [\"ab\", \"ac\") [/^ab.*c/, /^ab.*c/], filter");
    check(&["a"], doc! { "a": regex("ab") }, "a: [\"\", {}) [/ab/, /ab/], filter");
    check(&["a"], doc! { "a": { "$type": "string" } }, "a: [\"\", {}), filter");
    check(&["a"], doc! { "a": [1, 2] }, "a: [1, 1] [[ 1, 2 ], [ 1, 2 ]], filter");
    check(&["a"], doc! { "a": { "$elemMatch": { "$gt": 1, "$lt": 5 } } }, "a: (1, 5), filter");
    check(&["a"], doc! { "a": { "$exists": true } }, "collection forward, filter");
    check(&["a"], doc! { "a": { "$gt": 9, "$lt": 3 } }, "nothing");
    check(&["a[1]"], doc! { "a": { "$gt": 9, "$lt": 3 } }, "a[1]: (9, inf.0], filter");
    check(&["a"], doc! { "$or": [{ "a": 1 }, { "a": 5 }] }, "a: [1, 1] [5, 5]");
    check(&["a"], doc! { "a": { "$not": { "$gte": 3 } } }, "a: [MinKey, 3) (inf.0, MaxKey]");
    check(&["a"], doc! { "$nor": [{ "a": 1 }, { "a": 2 }] }, "a: [MinKey, 1) (1, 2) (2, MaxKey]");
    check(&["#a"], doc! { "a": { "$gt": 5 } }, "collection forward, filter");
    check(&["a.0"], doc! { "a.0": 5 }, "collection forward, filter");
    check(&["b"], doc! { "a": 5 }, "collection forward, filter");
    check(&["a"], doc! {}, "collection forward");
}

#[test]
fn several_fields() {
    check(&["a,b"], doc! { "a": 1, "b": { "$gt": 5 } }, "a,b: [1, 1]; (5, inf.0]");
    check(&["a,b"], doc! { "b": 5 }, "collection forward, filter");
    check(&["a,b,c"], doc! { "a": 1, "c": 3 }, "a,b,c: [1, 1]; [MinKey, MaxKey]; [3, 3]");
    check(&["a", "a,b"], doc! { "a": 1, "b": 2 }, "a,b: [1, 1]; [2, 2]");
    check(&["a,b", "a"], doc! { "a": 1 }, "a: [1, 1]");
    check(&["b", "a"], doc! { "a": 1, "b": 2 }, "a: [1, 1], filter");
    check(&["a", "b"], doc! { "a": { "$gt": 1 }, "b": 2 }, "b: [2, 2], filter");
    check(&["a", "b"], doc! { "a": { "$ne": 1 }, "b": { "$gt": 2 } }, "b: (2, inf.0], filter");
}

#[test]
fn arrays_of_documents() {
    let both = || doc! { "a.b": 1, "a.c": 2 };
    let element = || doc! { "a": { "$elemMatch": { "b": 1, "c": 2 } } };
    check(&["a.b,a.c"], both(), "a.b,a.c: [1, 1]; [2, 2]");
    check(&["a.b[1],a.c[1]"], both(), "a.b[1],a.c[1]: [1, 1]; [MinKey, MaxKey], filter");
    check(&["a.b[1],a.c[1]"], element(), "a.b[1],a.c[1]: [1, 1]; [2, 2], filter");
    // The element may hold an array of its own, whose elements satisfy one condition each.
    let deep = doc! { "a": { "$elemMatch": { "b.b": 1, "b.c": 1 } } };
    check(&["a.b.b[12],a.b.c[12]"], deep, "a.b.b[12],a.b.c[12]: [1, 1]; [MinKey, MaxKey], filter");
    check(&["a[1],b"], doc! { "a": 1, "b": { "$gt": 1, "$lt": 5 } }, "a[1],b: [1, 1]; (1, 5)");
}

#[test]
fn order() {
    check_sorted(&["a"], doc! {}, "a", "a: [MinKey, MaxKey]");
    check_sorted(&["a"], doc! {}, "-a", "a: [MinKey, MaxKey] backward");
    check_sorted(&["a,-b"], doc! {}, "-a,b", "a,-b: [MinKey, MaxKey]; [MinKey, MaxKey] backward");
    check_sorted(&["a,b"], doc! {}, "a,-b", "collection forward, sort");
    check_sorted(&["a,b"], doc! { "a": 1 }, "b", "a,b: [1, 1]; [MinKey, MaxKey]");
    check_sorted(&["a,b"], doc! { "a": 1 }, "-b,a", "a,b: [1, 1]; [MinKey, MaxKey] backward");
    check_sorted(
        &["a,b"],
        doc! { "a": { "$in": [1, 2] } },
        "b",
        "a,b: [1, 1] [2, 2]; [MinKey, MaxKey], sort",
    );
    check_sorted(&["a", "a,b"], doc! { "a": 1 }, "b", "a,b: [1, 1]; [MinKey, MaxKey]");
    check_sorted(&["a[1]"], doc! {}, "a", "a[1]: [MinKey, MaxKey]");
    check_sorted(&["a[1]"], doc! { "a": { "$gt": 5 } }, "a", "a[1]: (5, inf.0], sort");
    check_sorted(&["#a"], doc! {}, "a", "collection forward, sort");
    check_sorted(&["a"], doc! { "b": 1 }, "a", "a: [MinKey, MaxKey], filter");
    check_sorted(&["b"], doc! { "b": 1 }, "a", "b: [1, 1], sort");
}

#[test]
fn disjunctions() {
    check(&["a", "b"], doc! { "$or": [{ "a": 1 }, { "b": 2 }] }, "(a: [1, 1] | b: [2, 2])");
    check(&["a", "b"], doc! { "$or": [{ "a": 1, "c": 1 }, { "b": 2 }] }, "(a: [1, 1] | b: [2, 2]), filter");
    check(&["a"], doc! { "$or": [{ "a": 1 }, { "b": 2 }] }, "collection forward, filter");
    check(&["a"], doc! { "$or": [{ "a": 1 }, { "_id": 2 }] }, "(a: [1, 1] | id 2)");
    check(
        &["a,b", "a,c"],
        doc! { "a": 1, "$or": [{ "b": 1 }, { "c": 2 }] },
        "a,b: [1, 1]; [MinKey, MaxKey], filter",
    );
    check_sorted(&["a", "b"], doc! { "$or": [{ "a": 1 }, { "b": 2 }] }, "c", "(a: [1, 1] | b: [2, 2]), sort");
}

#[test]
fn sparse_and_partial_indexes() {
    let mut sparse = index("a");
    sparse.sparse = true;
    let mut partial = index("b");
    partial.partial = Some(parse(doc! { "b": { "$gt": 5 } }));
    let list = [Arc::new(sparse), Arc::new(partial)];
    let check = |filter: Document, expect: &str| {
        let matcher = parse(filter.clone());
        assert_eq!(describe(&plan(&PlanRequest::new(&matcher, &list)).unwrap()), expect, "filter {filter:?}");
    };
    check(doc! { "a": 5 }, "a: [5, 5]");
    check(doc! { "a": { "$exists": true } }, "a: [MinKey, MaxKey], filter");
    check(doc! { "a": Value::Null }, "collection forward, filter");
    check(doc! { "a": { "$ne": 5 } }, "collection forward, filter");
    check(doc! { "a": { "$ne": Value::Null } }, "a: [MinKey, undefined) (undefined, null) (null, MaxKey]");
    check(doc! { "a": { "$in": [1, Value::Null] } }, "collection forward, filter");
    check(doc! { "b": 6 }, "b: [6, 6]");
    check(doc! { "b": { "$gte": 6 } }, "b: [6, inf.0]");
    check(doc! { "b": 5 }, "collection forward, filter");
    check(doc! { "b": { "$in": [6, 7] } }, "b: [6, 6] [7, 7]");
    check(doc! { "b": { "$in": [6, 5] } }, "collection forward, filter");
    check(doc! { "$or": [{ "b": 7 }, { "b": 9 }] }, "b: [7, 7] [9, 9]");
}

#[test]
fn hints() {
    let (matcher, list) = (parse(doc! { "a": 1 }), indexes(&["a", "b,-c"]));
    let run = |hint: Value| {
        let wrapper = Document::from_iter([("hint", hint)]).to_buf();
        let hint = Hint::parse(wrapper.as_raw().get("hint").unwrap())?;
        plan(&PlanRequest { hint: hint.as_ref(), ..PlanRequest::new(&matcher, &list) })
            .map(|plan| describe(&plan))
    };
    assert_eq!(run("b,-c".into()).unwrap(), "b,-c: [MinKey, MaxKey]; [MinKey, MaxKey], filter");
    assert_eq!(
        run(doc! { "b": 1, "c": -1 }.into()).unwrap(),
        "b,-c: [MinKey, MaxKey]; [MinKey, MaxKey], filter"
    );
    assert_eq!(run(doc! { "a": 1.0 }.into()).unwrap(), "a: [1, 1]");
    assert_eq!(run("_id_".into()).unwrap(), "collection forward, filter");
    assert_eq!(run(doc! { "$natural": -1 }.into()).unwrap(), "collection backward, filter");
    assert_eq!(run(Document::new().into()).unwrap(), "a: [1, 1]");
    let refused = run("nope".into()).unwrap_err();
    assert_eq!(refused.code, 2);
    assert!(refused.message.ends_with("hint provided does not correspond to an existing index"));
    assert_eq!(run(doc! { "a": -1 }.into()).unwrap_err().code, 2);
    assert_eq!(run(Value::Int32(1)).unwrap_err().code, 9);
}

#[test]
fn without_table_scans() {
    let indexes = indexes(&["a"]);
    let check = |filter: Document, sort: &str, hint: Option<Hint>, expect: Result<&str, i32>| {
        let (matcher, sort) = (parse(filter), sort_of(sort));
        let request = PlanRequest {
            sort: &sort,
            hint: hint.as_ref(),
            no_table_scan: true,
            ..PlanRequest::new(&matcher, &indexes)
        };
        let planned = plan(&request).map(|plan| describe_access(&plan.access));
        assert_eq!(planned.as_deref().map_err(|error| error.code), expect);
    };
    check(doc! { "b": 1 }, "", None, Err(291));
    check(doc! { "b": 1 }, "b", None, Err(291));
    check(doc! { "a": 1 }, "", Some(Hint::Natural(ScanDirection::Forward)), Err(291));
    check(doc! { "$or": [{ "a": 1 }, { "b": 1 }] }, "", None, Err(291));
    check(doc! { "_id": 3 }, "", None, Ok("id 3"));
    check(doc! { "b": 1 }, "_id", None, Ok("collection forward"));
    check(doc! { "b": 1, "_id": { "$gt": 1 } }, "", None, Ok("collection forward (1, inf.0]"));
    check(doc! { "b": 1 }, "", Some(Hint::Name("_id_".into())), Ok("collection forward"));
    check(doc! { "a": { "$in": [] } }, "", None, Ok("nothing"));
}

#[test]
fn whole_key_ranges() {
    let (matcher, list) = (parse(doc! {}), indexes(&["a,-b"]));
    let (min, max) = (doc! { "a": 1, "b": 5 }.to_buf(), doc! { "a": 1, "b": 2 }.to_buf());
    let hint = Hint::Name("a,-b".to_owned());
    let request =
        PlanRequest { min: Some(min.as_raw()), max: Some(max.as_raw()), ..PlanRequest::new(&matcher, &list) };
    assert_eq!(plan(&request).unwrap_err().code, 51_173);
    let hinted = PlanRequest { hint: Some(&hint), ..request.clone() };
    let found = plan(&hinted).unwrap();
    let Access::IndexScan(scan) = &found.access else { panic!("{found:?}") };
    let keys = KeyScan::of_index(scan);
    assert!(keys.lower < *keys.upper.as_ref().unwrap() && keys.checker.is_none());
    let swapped = PlanRequest { min: hinted.max, max: hinted.min, ..hinted.clone() };
    assert_eq!(plan(&swapped).unwrap_err().code, 51_175);
    let other = doc! { "b": 1 }.to_buf();
    let misfit = PlanRequest { min: Some(other.as_raw()), ..hinted };
    assert_eq!(plan(&misfit).unwrap_err().code, 51_174);
}

#[test]
fn covered_plans() {
    let list = indexes(&["a,b", "c[1]"]);
    let run = |filter: Document, needs: NeededFields| {
        let matcher = parse(filter);
        plan(&PlanRequest { needs: &needs, ..PlanRequest::new(&matcher, &list) }).unwrap().is_covered()
    };
    let only = |paths: &[&str]| NeededFields::Only(paths.iter().map(|path| (*path).to_owned()).collect());
    assert!(run(doc! { "a": 1 }, only(&["a", "b"])));
    assert!(run(doc! { "a": { "$gt": 1 } }, NeededFields::Nothing));
    assert!(run(doc! { "c": 1 }, NeededFields::Nothing));
    assert!(!run(doc! { "c": 1 }, only(&["c"])));
    assert!(!run(doc! { "a": 1 }, only(&["a", "x"])));
    assert!(!run(doc! { "a": 1, "x": 1 }, NeededFields::Nothing));
    assert!(!run(doc! { "a": 1 }, NeededFields::All));
}

#[test]
fn distinct_scans() {
    let list = indexes(&["a,b", "c[1]"]);
    let run = |filter: Document, path: &str| {
        let matcher = parse(filter);
        plan_distinct(&PlanRequest::new(&matcher, &list), path).map(|plan| describe(&plan))
    };
    assert_eq!(run(doc! {}, "a").unwrap(), "a,b: [MinKey, MaxKey]; [MinKey, MaxKey] covered");
    assert_eq!(run(doc! { "a": { "$lt": 3 } }, "a").unwrap(), "a,b: [-inf.0, 3); [MinKey, MaxKey] covered");
    assert_eq!(run(doc! { "x": 1 }, "a"), None);
    assert_eq!(run(doc! {}, "b"), None);
    assert_eq!(run(doc! {}, "c"), None);
}

#[test]
fn explained() {
    let list = indexes(&["a,-b[1]"]);
    let matcher = parse(doc! { "a": 1, "x": { "$gt": 2 } });
    let found = plan(&PlanRequest::new(&matcher, &list)).unwrap();
    let options = ExplainOptions {
        sort: Some(doc! { "c": 1 }),
        sort_memory_bytes: 1000,
        projection: Some((doc! { "a": 1 }, ProjectionKind::Simple)),
        limit: Some(5),
        ..ExplainOptions::default()
    };
    let found = Plan { sort_provided: false, ..found };
    let index_scan = doc! {
        "stage": "IXSCAN",
        "keyPattern": { "a": 1, "b": -1 },
        "indexName": "a,-b[1]",
        "isMultiKey": true,
        "multiKeyPaths": { "a": [], "b": ["b"] },
        "isUnique": false,
        "isSparse": false,
        "isPartial": false,
        "indexVersion": 2,
        "direction": "forward",
        "indexBounds": { "a": ["[1, 1]"], "b": ["[MaxKey, MinKey]"] },
    };
    let fetch = doc! { "stage": "FETCH", "filter": { "x": { "$gt": 2 } }, "inputStage": index_scan };
    let sort = doc! {
        "stage": "SORT", "sortPattern": { "c": 1 }, "memLimit": 1000_i64, "limitAmount": 5_i64,
        "type": "simple", "inputStage": fetch,
    };
    let projection = doc! { "stage": "PROJECTION_SIMPLE", "transformBy": { "a": 1 }, "inputStage": sort };
    let expect = doc! { "stage": "LIMIT", "limitAmount": 5_i64, "inputStage": projection };
    assert_eq!(explain(&found, &options), expect);
    let counted = parse(doc! { "a": 1 });
    let needs = NeededFields::Nothing;
    let found = plan(&PlanRequest { needs: &needs, ..PlanRequest::new(&counted, &list) }).unwrap();
    let count = explain(&found, &ExplainOptions { count: true, ..ExplainOptions::default() });
    assert_eq!(count.get("stage"), Some(&Value::from("COUNT_SCAN")));
    let everything = parse(doc! {});
    let found = plan(&PlanRequest::new(&everything, &list)).unwrap();
    let expect = doc! { "stage": "COLLSCAN", "direction": "forward" };
    assert_eq!(explain(&found, &ExplainOptions::default()), expect);
}

/// `_id_` of a collection that is stored in the order of `_id`.
pub(super) fn clustered_id() -> IndexDescription {
    let fields = vec![IndexKeyPart::new("_id", FieldOrder::Ascending)];
    IndexDescription { unique: true, clustered: true, ..IndexDescription::new("_id_", fields) }
}
