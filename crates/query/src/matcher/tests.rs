//! What filters match: MongoDB's rules as tables.

use document::{Document, ObjectId, RawDocument, Value, doc};

use super::{MatchDetails, Matcher};
use crate::environment::Environment;

fn parse(filter: &Document) -> Result<Matcher, crate::QueryError> {
    Matcher::parse(filter.to_buf().as_raw(), &Environment::default())
}

/// Checks the fast way, the plain walk over the tree, and the filter written out and parsed again.
fn check(filter: Document, document: Document, expect: bool) {
    let matcher = parse(&filter).unwrap_or_else(|error| panic!("{filter:?}: {error}"));
    let bytes = document.to_buf();
    let raw = bytes.as_raw();
    assert_eq!(matcher.matches(raw), Ok(expect), "filter {filter:?}\ndocument {document:?}");
    let walked = matcher.matches_positional(raw).unwrap();
    assert_eq!(walked.is_some(), expect, "walked; filter {filter:?}\ndocument {document:?}");
    let again = parse(&matcher.to_document()).unwrap();
    assert_eq!(again.matches(raw), Ok(expect), "written out as {:?}", matcher.to_document());
}

fn check_all(filter: Document, matching: &[Document], other: &[Document]) {
    for document in matching {
        check(filter.clone(), document.clone(), true);
    }
    for document in other {
        check(filter.clone(), document.clone(), false);
    }
}

fn refuses(filter: Document, code: i32, message: &str) {
    let error = parse(&filter).expect_err(&format!("accepted {filter:?}"));
    assert_eq!((error.code, error.message.as_str()), (code, message), "for {filter:?}");
}

fn regex(pattern: &str, options: &str) -> Value {
    Value::regex(pattern, options)
}

#[test]
fn equality_of_scalars() {
    check_all(
        doc! { "a": 5 },
        &[
            doc! { "a": 5 },
            doc! { "a": 5.0 },
            doc! { "a": 5_i64 },
            doc! { "a": [1, 5] },
            doc! { "b": 1, "a": 5 },
        ],
        &[
            doc! {},
            doc! { "a": 6 },
            doc! { "a": "5" },
            doc! { "a": [[5]] },
            doc! { "b": 5 },
            doc! { "a": { "a": 5 } },
        ],
    );
    check_all(
        doc! { "a": "x" },
        &[doc! { "a": "x" }, doc! { "a": Value::Symbol("x".into()) }],
        &[doc! { "a": "xx" }],
    );
    check_all(doc! { "a": true }, &[doc! { "a": true }], &[doc! { "a": 1 }, doc! { "a": false }]);
    check_all(doc! {}, &[doc! {}, doc! { "a": 1 }], &[]);
}

#[test]
fn equality_of_trees() {
    check_all(
        doc! { "a": [1, 2] },
        &[doc! { "a": [1, 2] }, doc! { "a": [[1, 2], 3] }, doc! { "a": [1.0, 2] }],
        &[doc! { "a": [2, 1] }, doc! { "a": [1, 2, 3] }, doc! { "a": 1 }],
    );
    check_all(doc! { "a": [] }, &[doc! { "a": [] }, doc! { "a": [[]] }], &[doc! { "a": [1] }, doc! {}]);
    check_all(
        doc! { "a": { "x": 1, "y": 2 } },
        &[doc! { "a": { "x": 1, "y": 2 } }, doc! { "a": [{ "x": 1, "y": 2 }] }],
        &[
            doc! { "a": { "y": 2, "x": 1 } },
            doc! { "a": { "x": 1 } },
            doc! { "a": { "x": 1, "y": 2, "z": 3 } },
        ],
    );
    check_all(doc! { "a": {} }, &[doc! { "a": {} }], &[doc! { "a": { "x": 1 } }, doc! {}]);
    check_all(
        doc! { "a": { "b": { "$gt": 1 } } },
        &[doc! { "a": { "b": { "$gt": 1 } } }],
        &[doc! { "a": { "b": 2 } }],
    );
    let reference = doc! { "$ref": "c", "$id": 7 };
    check_all(
        doc! { "a": reference.clone() },
        &[doc! { "a": reference }],
        &[doc! { "a": { "$ref": "c", "$id": 8 } }],
    );
    check_all(doc! { "a.$id": 7 }, &[doc! { "a": { "$ref": "c", "$id": 7 } }], &[doc! { "a": 7 }]);
}

#[test]
fn null_and_missing() {
    check_all(
        doc! { "a": Value::Null },
        &[doc! {}, doc! { "a": Value::Null }, doc! { "a": Value::Undefined }, doc! { "a": [1, Value::Null] }],
        &[doc! { "a": 0 }, doc! { "a": [] }, doc! { "a": [1] }, doc! { "a": {} }],
    );
    check_all(
        doc! { "a.b": Value::Null },
        &[doc! {}, doc! { "a": 5 }, doc! { "a": {} }, doc! { "a": [{}] }, doc! { "a": [{ "b": 1 }, {}] }],
        &[doc! { "a": { "b": 1 } }, doc! { "a": [] }, doc! { "a": [5] }, doc! { "a": [{ "b": 1 }] }],
    );
    check_all(
        doc! { "a": { "$ne": Value::Null } },
        &[doc! { "a": 1 }, doc! { "a": [] }, doc! { "a": [1] }],
        &[doc! {}, doc! { "a": Value::Null }, doc! { "a": [Value::Null] }],
    );
    for operator in ["$lte", "$gte"] {
        check_all(
            doc! { "a": { operator: Value::Null } },
            &[doc! {}, doc! { "a": Value::Null }],
            &[doc! { "a": 0 }],
        );
    }
    for operator in ["$lt", "$gt"] {
        check_all(
            doc! { "a": { operator: Value::Null } },
            &[],
            &[doc! {}, doc! { "a": Value::Null }, doc! { "a": 0 }],
        );
    }
    check_all(doc! { "a": { "$in": [Value::Null, 3] } }, &[doc! {}, doc! { "a": 3 }], &[doc! { "a": 4 }]);
    check_all(doc! { "a": { "$nin": [Value::Null, 3] } }, &[doc! { "a": 4 }], &[doc! {}, doc! { "a": 3 }]);
}

#[test]
fn comparisons_stay_within_their_type() {
    check_all(
        doc! { "a": { "$gt": 5 } },
        &[doc! { "a": 6 }, doc! { "a": 5.5 }, doc! { "a": f64::INFINITY }, doc! { "a": [1, 9] }],
        &[doc! { "a": 5 }, doc! { "a": "9" }, doc! {}, doc! { "a": f64::NAN }, doc! { "a": Value::MaxKey }],
    );
    check_all(
        doc! { "a": { "$lt": "b" } },
        &[doc! { "a": "a" }, doc! { "a": "" }],
        &[doc! { "a": 1 }, doc! { "a": "b" }],
    );
    check_all(
        doc! { "a": { "$gte": 1, "$lt": 3 } },
        &[doc! { "a": 1 }, doc! { "a": 2 }, doc! { "a": [0, 9] }],
        &[doc! { "a": 3 }, doc! { "a": 0 }, doc! { "a": [9] }],
    );
    check_all(
        doc! { "a": { "$gt": [1] } },
        &[doc! { "a": [2] }, doc! { "a": [1, 0] }],
        &[doc! { "a": [1] }, doc! { "a": 2 }],
    );
    check_all(
        doc! { "a": { "$gt": { "x": 1 } } },
        &[doc! { "a": { "x": 2 } }],
        &[doc! { "a": { "x": 1 } }, doc! { "a": 5 }],
    );
    check_all(
        doc! { "a": { "$gte": false } },
        &[doc! { "a": true }, doc! { "a": false }],
        &[doc! { "a": 1 }],
    );
    let early = Value::DateTime(1000);
    check_all(doc! { "a": { "$lte": early } }, &[doc! { "a": Value::DateTime(-5) }], &[doc! { "a": 5 }]);
    let id = ObjectId::from_bytes([1; 12]);
    check_all(
        doc! { "a": { "$lt": id } },
        &[doc! { "a": ObjectId::from_bytes([0; 12]) }],
        &[doc! { "a": id }],
    );
}

#[test]
fn not_a_number_equals_itself_only() {
    for operator in ["$eq", "$lte", "$gte"] {
        check_all(
            doc! { "a": { operator: f64::NAN } },
            &[doc! { "a": f64::NAN }],
            &[doc! { "a": 1 }, doc! {}],
        );
    }
    for operator in ["$lt", "$gt"] {
        check_all(doc! { "a": { operator: f64::NAN } }, &[], &[doc! { "a": f64::NAN }, doc! { "a": 1 }]);
    }
    check_all(doc! { "a": { "$lte": 5 } }, &[doc! { "a": f64::NEG_INFINITY }], &[doc! { "a": f64::NAN }]);
}

#[test]
fn minimum_and_maximum_key() {
    check_all(
        doc! { "a": { "$gt": Value::MinKey } },
        &[doc! { "a": 1 }, doc! {}, doc! { "a": "x" }],
        &[doc! { "a": Value::MinKey }],
    );
    check_all(
        doc! { "a": { "$lt": Value::MaxKey } },
        &[doc! { "a": 1 }, doc! {}],
        &[doc! { "a": Value::MaxKey }],
    );
    check_all(doc! { "a": { "$lt": Value::MinKey } }, &[], &[doc! { "a": 1 }, doc! { "a": Value::MinKey }]);
    check_all(
        doc! { "a": { "$lte": Value::MinKey } },
        &[doc! { "a": Value::MinKey }],
        &[doc! { "a": 1 }, doc! {}],
    );
    check_all(doc! { "a": Value::MaxKey }, &[doc! { "a": Value::MaxKey }], &[doc! { "a": 1 }, doc! {}]);
}

#[test]
fn paths_fan_out_over_arrays() {
    check_all(
        doc! { "a.b": 1 },
        &[doc! { "a": { "b": 1 } }, doc! { "a": [{ "b": 1 }] }, doc! { "a": [{ "b": 0 }, { "b": [7, 1] }] }],
        &[doc! { "a": [[{ "b": 1 }]] }, doc! { "a": 1 }, doc! { "a.b": 1 }],
    );
    check_all(
        doc! { "a.1": 5 },
        &[doc! { "a": [0, 5] }, doc! { "a": { "1": 5 } }, doc! { "a": [{ "1": 5 }] }],
        &[doc! { "a": [5, 0] }, doc! { "a": [0, [5]] }, doc! { "a": [5] }],
    );
    check_all(
        doc! { "a.0.b": 5 },
        &[doc! { "a": [{ "b": 5 }] }, doc! { "a": [[{ "b": 5 }]] }],
        &[doc! { "a": [{}, { "b": 5 }] }],
    );
    check_all(doc! { "a.0.0": 5 }, &[doc! { "a": [[5]] }], &[doc! { "a": [5] }]);
    check_all(doc! { "": 1 }, &[doc! { "": 1 }], &[doc! {}]);
    check_all(doc! { "a.": 1 }, &[doc! { "a": { "": 1 } }], &[doc! { "a": 1 }]);
    check_all(
        doc! { "a.b.c": 3 },
        &[doc! { "a": [{ "b": [{ "c": 1 }, { "c": 3 }] }] }],
        &[doc! { "a": [{ "b": 3 }] }],
    );
}

#[test]
fn negations_negate_the_whole() {
    check_all(
        doc! { "a": { "$ne": 5 } },
        &[doc! {}, doc! { "a": 6 }, doc! { "a": "5" }],
        &[doc! { "a": 5 }, doc! { "a": [5, 6] }],
    );
    check_all(
        doc! { "a": { "$not": { "$gt": 5 } } },
        &[doc! {}, doc! { "a": 5 }, doc! { "a": "x" }],
        &[doc! { "a": 6 }, doc! { "a": [1, 6] }],
    );
    check_all(
        doc! { "a": { "$not": { "$gt": 5, "$lt": 10 } } },
        &[doc! { "a": 4 }, doc! { "a": 12 }, doc! {}],
        &[doc! { "a": 7 }, doc! { "a": [1, 12] }],
    );
    check_all(
        doc! { "a": { "$not": regex("^x", "") } },
        &[doc! { "a": "y" }, doc! { "a": 1 }],
        &[doc! { "a": "xy" }],
    );
    check_all(doc! { "a": { "$not": { "$regex": "^x" } } }, &[doc! { "a": "y" }], &[doc! { "a": "xy" }]);
    check_all(
        doc! { "$nor": [{ "a": 1 }, { "b": 2 }] },
        &[doc! { "a": 2 }, doc! {}],
        &[doc! { "a": 1 }, doc! { "b": 2 }],
    );
    check_all(doc! { "a": { "$not": { "$not": { "$eq": 1 } } } }, &[doc! { "a": 1 }], &[doc! { "a": 2 }]);
}

#[test]
fn logic() {
    check_all(
        doc! { "$or": [{ "a": 1 }, { "b": 2 }] },
        &[doc! { "a": 1 }, doc! { "b": 2 }],
        &[doc! {}, doc! { "a": 2 }],
    );
    check_all(
        doc! { "$and": [{ "a": 1 }, { "b": 2 }] },
        &[doc! { "b": 2, "a": 1 }],
        &[doc! { "a": 1 }, doc! { "b": 2 }],
    );
    check_all(
        doc! { "a": 1, "b": { "$ne": 2 }, "c": { "$exists": false }, "$or": [{ "d": 1 }, { "d": 2 }] },
        &[doc! { "d": 2, "a": 1 }, doc! { "a": 1, "b": 3, "d": 1 }],
        &[doc! { "a": 1, "b": 2, "d": 1 }, doc! { "a": 1, "c": 0, "d": 1 }, doc! { "a": 1 }, doc! { "d": 1 }],
    );
    check_all(doc! { "a": 1, "$and": [{ "a": 2 }] }, &[doc! { "a": [1, 2] }], &[doc! { "a": 1 }]);
    check_all(doc! { "$alwaysTrue": 1 }, &[doc! {}], &[]);
    check_all(doc! { "$alwaysFalse": 1 }, &[], &[doc! {}]);
    check_all(
        doc! { "$comment": "why", "a": { "$eq": 1, "$comment": "so" } },
        &[doc! { "a": 1 }],
        &[doc! {}],
    );
}

#[test]
fn lists() {
    check_all(
        doc! { "a": { "$in": [3, "x", regex("^q", "i"), [7]] } },
        &[
            doc! { "a": 3.0 },
            doc! { "a": "x" },
            doc! { "a": "Quite" },
            doc! { "a": [7] },
            doc! { "a": [0, 3] },
        ],
        &[doc! { "a": 4 }, doc! {}, doc! { "a": "iq" }, doc! { "a": 7 }],
    );
    check_all(doc! { "a": { "$in": [] } }, &[], &[doc! { "a": 1 }, doc! {}]);
    check_all(doc! { "a": { "$nin": [] } }, &[doc! { "a": 1 }, doc! {}], &[]);
    check_all(
        doc! { "a": { "$nin": [1, regex("^x", "")] } },
        &[doc! {}, doc! { "a": 2 }],
        &[doc! { "a": 1 }, doc! { "a": "xy" }],
    );
    check_all(
        doc! { "a": { "$all": [1, 2] } },
        &[doc! { "a": [2, 1, 3] }],
        &[doc! { "a": [1] }, doc! { "a": 1 }, doc! {}],
    );
    check_all(doc! { "a": { "$all": [1] } }, &[doc! { "a": 1 }, doc! { "a": [1] }], &[doc! { "a": 2 }]);
    check_all(doc! { "a": { "$all": [] } }, &[], &[doc! { "a": [] }, doc! { "a": 1 }, doc! {}]);
    check_all(
        doc! { "a": { "$all": [[1, 2]] } },
        &[doc! { "a": [1, 2] }, doc! { "a": [[1, 2]] }],
        &[doc! { "a": [1] }],
    );
    check_all(
        doc! { "a": { "$all": [{ "$elemMatch": { "x": 1 } }, { "$elemMatch": { "x": 2 } }] } },
        &[doc! { "a": [{ "x": 1 }, { "x": 2 }] }],
        &[doc! { "a": [{ "x": 1 }] }],
    );
    check_all(
        doc! { "a": { "$size": 2 } },
        &[doc! { "a": [1, 2] }],
        &[doc! { "a": [1] }, doc! { "a": [[1, 2]] }, doc! { "a": 2 }],
    );
    check_all(doc! { "a": { "$size": 0 } }, &[doc! { "a": [] }], &[doc! {}, doc! { "a": [1] }]);
}

#[test]
fn element_match() {
    check_all(
        doc! { "a": { "$elemMatch": { "$gt": 1, "$lt": 5 } } },
        &[doc! { "a": [9, 3] }],
        &[doc! { "a": 3 }, doc! { "a": [0, 9] }, doc! { "a": [[3]] }, doc! {}],
    );
    check_all(
        doc! { "a": { "$elemMatch": { "x": 1, "y": { "$gt": 5 } } } },
        &[doc! { "a": [{ "x": 1, "y": 6 }] }, doc! { "a": [{ "x": 1, "y": 1 }, { "x": [1], "y": 7 }] }],
        &[doc! { "a": [{ "x": 1, "y": 1 }, { "x": 2, "y": 6 }] }, doc! { "a": { "x": 1, "y": 6 } }],
    );
    check_all(
        doc! { "a": { "$elemMatch": {} } },
        &[doc! { "a": [{}] }, doc! { "a": [[]] }],
        &[doc! { "a": [1] }, doc! { "a": [] }],
    );
    check_all(doc! { "a": { "$elemMatch": { "0": 5 } } }, &[doc! { "a": [[5]] }], &[doc! { "a": [5] }]);
    check_all(
        doc! { "a": { "$elemMatch": { "$or": [{ "x": 1 }, { "y": 1 }] } } },
        &[doc! { "a": [{ "y": 1 }] }],
        &[doc! { "a": [{ "z": 1 }] }],
    );
    check_all(
        doc! { "a": { "$elemMatch": { "$not": { "$gt": 3 } } } },
        &[doc! { "a": [9, 2] }],
        &[doc! { "a": [9] }, doc! { "a": [] }],
    );
    check_all(
        doc! { "a": { "$elemMatch": { "$elemMatch": { "$eq": 1 } } } },
        &[doc! { "a": [[1]] }],
        &[doc! { "a": [1] }],
    );
    check_all(doc! { "a": { "$elemMatch": { "$ne": 1 } } }, &[doc! { "a": [1, 2] }], &[doc! { "a": [1] }]);
    check_all(doc! { "a": { "$elemMatch": { "$in": [1, 2] } } }, &[doc! { "a": [2] }], &[doc! { "a": 2 }]);
    check_all(
        doc! { "a": { "$elemMatch": { "$id": 7 } } },
        &[doc! { "a": [{ "$id": 7 }] }],
        &[doc! { "a": [7] }],
    );
}

#[test]
fn existence_and_type() {
    check_all(
        doc! { "a": { "$exists": true } },
        &[doc! { "a": Value::Null }, doc! { "a": [] }],
        &[doc! {}, doc! { "b": 1 }],
    );
    check_all(doc! { "a": { "$exists": 0 } }, &[doc! {}], &[doc! { "a": Value::Null }]);
    check_all(
        doc! { "a.b": { "$exists": true } },
        &[doc! { "a": [{}, { "b": 1 }] }],
        &[doc! { "a": 1 }, doc! { "a": [] }],
    );
    check_all(
        doc! { "a": { "$type": "string" } },
        &[doc! { "a": "x" }, doc! { "a": [1, "x"] }],
        &[doc! { "a": 1 }, doc! {}],
    );
    check_all(doc! { "a": { "$type": 4 } }, &[doc! { "a": [] }, doc! { "a": [1] }], &[doc! { "a": 4 }]);
    check_all(
        doc! { "a": { "$type": "number" } },
        &[doc! { "a": 1 }, doc! { "a": 1.5 }, doc! { "a": 1_i64 }],
        &[doc! { "a": "1" }],
    );
    check_all(
        doc! { "a": { "$type": [2, "int"] } },
        &[doc! { "a": 1 }, doc! { "a": "x" }],
        &[doc! { "a": 1.5 }],
    );
    check_all(doc! { "a": { "$type": -1 } }, &[doc! { "a": Value::MinKey }], &[doc! { "a": Value::MaxKey }]);
    check_all(doc! { "a": { "$type": 10.0 } }, &[doc! { "a": Value::Null }], &[doc! {}]);
}

#[test]
fn regular_expressions() {
    check_all(
        doc! { "a": regex("^a.c$", "i") },
        &[doc! { "a": "ABC" }, doc! { "a": ["x", "abc"] }, doc! { "a": regex("^a.c$", "i") }],
        &[doc! { "a": "abcd" }, doc! { "a": 1 }, doc! {}, doc! { "a": regex("^a.c$", "") }],
    );
    check_all(
        doc! { "a": { "$regex": "B", "$options": "i" } },
        &[doc! { "a": "abc" }],
        &[doc! { "a": "ac" }],
    );
    check_all(
        doc! { "a": { "$options": "i", "$regex": "B" } },
        &[doc! { "a": "abc" }],
        &[doc! { "a": "ac" }],
    );
    check_all(
        doc! { "a": { "$regex": regex("B", "i"), "$ne": "b" } },
        &[doc! { "a": "abc" }],
        &[doc! { "a": "b" }],
    );
    check_all(
        doc! { "a": { "$regex": "a # remark\n b", "$options": "x" } },
        &[doc! { "a": "ab" }],
        &[doc! { "a": "a b" }],
    );
    check_all(doc! { "a": { "$regex": "a.b", "$options": "s" } }, &[doc! { "a": "a\nb" }], &[]);
    check_all(doc! { "a": { "$regex": "a.b" } }, &[], &[doc! { "a": "a\nb" }]);
    check_all(
        doc! { "a": { "$regex": "^b", "$options": "m" } },
        &[doc! { "a": "a\nb" }],
        &[doc! { "a": "ab" }],
    );
    check_all(doc! { "a": { "$eq": regex("x", "") } }, &[doc! { "a": regex("x", "") }], &[doc! { "a": "x" }]);
}

#[test]
fn arithmetic_and_bits() {
    check_all(
        doc! { "a": { "$mod": [4, 1] } },
        &[doc! { "a": 5 }, doc! { "a": 5.7 }, doc! { "a": 9_i64 }],
        &[
            doc! { "a": 4 },
            doc! { "a": "5" },
            doc! { "a": f64::NAN },
            doc! { "a": f64::INFINITY },
            doc! { "a": -5 },
        ],
    );
    check_all(doc! { "a": { "$mod": [4.9, -1.2] } }, &[doc! { "a": -5 }], &[doc! { "a": 5 }]);
    check_all(doc! { "a": { "$mod": [-1, 0] } }, &[doc! { "a": i64::MIN }], &[]);
    check_all(
        doc! { "a": { "$bitsAllSet": 6 } },
        &[doc! { "a": 7 }, doc! { "a": 6.0 }],
        &[doc! { "a": 4 }, doc! { "a": 6.5 }],
    );
    check_all(
        doc! { "a": { "$bitsAnySet": [0, 2] } },
        &[doc! { "a": 4 }, doc! { "a": -1 }],
        &[doc! { "a": 2 }, doc! { "a": "x" }],
    );
    check_all(
        doc! { "a": { "$bitsAllClear": [0, 70] } },
        &[doc! { "a": 2 }],
        &[doc! { "a": -2 }, doc! { "a": 1 }],
    );
    check_all(doc! { "a": { "$bitsAnyClear": 3 } }, &[doc! { "a": 2 }], &[doc! { "a": 3 }]);
    let mask = Value::binary(0, vec![0, 1]);
    check_all(
        doc! { "a": { "$bitsAllSet": mask.clone() } },
        &[doc! { "a": 256 }, doc! { "a": mask }],
        &[doc! { "a": 1 }],
    );
}

#[test]
fn malformed_filters_are_refused_in_mongodbs_words() {
    refuses(doc! { "a": { "$foo": 1 } }, 2, "unknown operator: $foo");
    refuses(doc! { "a": { "$gt": 1, "b": 2 } }, 2, "unknown operator: b");
    refuses(
        doc! { "$foo": 1 },
        2,
        "unknown top level operator: $foo. If you have a field name that starts with a '$' symbol, consider \
         using $getField or $setField.",
    );
    refuses(doc! { "a": { "$in": 1 } }, 2, "$in needs an array");
    refuses(doc! { "a": { "$nin": "x" } }, 2, "$nin needs an array");
    refuses(doc! { "a": { "$in": [{ "$gt": 1 }] } }, 2, "cannot nest $ under $in");
    refuses(doc! { "$or": [] }, 2, "$and/$or/$nor must be a nonempty array");
    refuses(doc! { "$and": 1 }, 2, "$and must be an array");
    refuses(doc! { "$nor": [1] }, 2, "$or/$and/$nor entries need to be full objects");
    refuses(doc! { "a": { "$all": 1 } }, 2, "$all needs an array");
    refuses(doc! { "a": { "$elemMatch": 1 } }, 2, "$elemMatch needs an Object");
    refuses(doc! { "a": { "$not": 1 } }, 2, "$not needs a regex or a document");
    refuses(doc! { "a": { "$not": {} } }, 2, "$not cannot be empty");
    refuses(doc! { "a": { "$regex": 1 } }, 2, "$regex has to be a string");
    refuses(doc! { "a": { "$options": "i" } }, 2, "$options needs a $regex");
    refuses(
        doc! { "a": { "$regex": regex("x", "i"), "$options": "m" } },
        51075,
        "options set in both $regex and $options",
    );
    refuses(doc! { "a": { "$regex": "x", "$options": "q" } }, 51108, "invalid flag in regex options: q");
    refuses(doc! { "a": { "$ne": regex("x", "") } }, 2, "Can't have regex as arg to $ne.");
    refuses(
        doc! { "a": { "$gt": regex("x", "") } },
        2,
        "Can't have RegEx as arg to predicate over field 'a'.",
    );
    refuses(doc! { "a": Value::Undefined }, 2, "cannot compare to undefined");
    refuses(
        doc! { "a": { "$size": -1 } },
        2,
        "Failed to parse $size. Expected a non-negative number in: $size: -1",
    );
    refuses(doc! { "a": { "$size": 2.1 } }, 2, "Failed to parse $size. Expected an integer: $size: 2.1");
    refuses(doc! { "a": { "$size": "x" } }, 2, "Failed to parse $size. Expected a number in: $size: \"x\"");
    refuses(doc! { "a": { "$mod": 1 } }, 2, "malformed mod, needs to be an array");
    refuses(doc! { "a": { "$mod": [1] } }, 2, "malformed mod, not enough elements");
    refuses(doc! { "a": { "$mod": [1, 2, 3] } }, 2, "malformed mod, too many elements");
    refuses(doc! { "a": { "$mod": [0, 2] } }, 2, "divisor cannot be 0");
    refuses(doc! { "a": { "$mod": ["x", 2] } }, 2, "malformed mod, divisor not a number");
    refuses(doc! { "a": { "$type": "nope" } }, 2, "Unknown type name alias: nope");
    refuses(doc! { "a": { "$type": 99 } }, 2, "Invalid numerical type code: 99");
    refuses(doc! { "a": { "$type": [] } }, 9, "$type must match at least one type");
    refuses(doc! { "a": { "$bitsAllSet": -1 } }, 9, "Expected a non-negative number in: $bitsAllSet: -1");
    refuses(
        doc! { "a": { "$bitsAllSet": "x" } },
        2,
        "value takes an Array, a number, or a BinData but received: $bitsAllSet: \"x\"",
    );
    refuses(
        doc! { "a": { "$elemMatch": { "$expr": true } } },
        2,
        "$expr can only be applied to the top-level document",
    );
    refuses(doc! { "$text": { "$search": "x" } }, 27, "text index required for $text query");
    assert_eq!(parse(&doc! { "$where": "1" }).unwrap_err().code, 2);
    assert_eq!(parse(&doc! { "a": { "$geoWithin": {} } }).unwrap_err().code, 238);
}

fn check_position(filter: Document, document: Document, expect: Option<Option<usize>>) {
    let found = parse(&filter).unwrap().matches_positional(document.to_buf().as_raw()).unwrap();
    let expect = expect.map(|array_index| MatchDetails { array_index });
    assert_eq!(found, expect, "filter {filter:?}\ndocument {document:?}");
}

#[test]
fn positions() {
    check_position(doc! { "a": 5 }, doc! { "a": [1, 5, 5] }, Some(Some(1)));
    check_position(doc! { "a": 5 }, doc! { "a": 5 }, Some(None));
    check_position(doc! { "a": 5 }, doc! { "a": [1] }, None);
    check_position(doc! { "a.b": 2 }, doc! { "a": [{ "b": 1 }, { "b": [0, 2] }] }, Some(Some(1)));
    check_position(doc! { "a.b": 2 }, doc! { "a": { "b": [0, 2] } }, Some(Some(1)));
    check_position(
        doc! { "a": { "$elemMatch": { "x": 2 } } },
        doc! { "a": [{ "x": 1 }, { "x": 2 }] },
        Some(Some(1)),
    );
    check_position(doc! { "a": { "$elemMatch": { "$gt": 3 } } }, doc! { "a": [1, 2, 9] }, Some(Some(2)));
    check_position(doc! { "_id": 1, "a": { "$gte": 3 } }, doc! { "_id": 1, "a": [1, 3] }, Some(Some(1)));
    check_position(doc! { "$or": [{ "a": 9 }, { "a": 3 }] }, doc! { "a": [1, 3] }, Some(Some(1)));
    check_position(doc! { "a": { "$ne": 9 } }, doc! { "a": [1, 3] }, Some(None));
    check_position(doc! { "a": [1, 3] }, doc! { "a": [1, 3] }, Some(None));
}

#[test]
fn damaged_documents_end_where_the_damage_is() {
    let mut bytes = doc! { "a": 1, "b": 2 }.to_buf().into_bytes();
    bytes.truncate(14);
    let matcher = parse(&doc! { "b": 2 }).unwrap();
    assert_eq!(matcher.matches(RawDocument::trusted(&bytes)), Ok(false));
}

#[test]
fn tables_are_sorted() {
    let fields: Vec<_> = super::field_operators().iter().map(|operator| operator.name).collect();
    assert!(fields.is_sorted(), "{fields:?}");
    let tops: Vec<_> = super::top_operators().iter().map(|operator| operator.name).collect();
    assert!(tops.is_sorted(), "{tops:?}");
}

#[test]
fn expressions_and_schemas() {
    check_all(
        doc! { "$expr": { "$gt": ["$a", "$b"] } },
        &[doc! { "a": 2, "b": 1 }],
        &[doc! { "a": 1, "b": 2 }],
    );
    check_all(
        doc! { "b": 1, "$expr": { "$eq": ["$a", 5] } },
        &[doc! { "a": 5, "b": 1 }],
        &[doc! { "a": 5, "b": 2 }, doc! { "a": 6, "b": 1 }],
    );
    check_all(
        doc! { "$jsonSchema": { "required": ["a"], "properties": { "a": { "bsonType": "int" } } } },
        &[doc! { "a": 5 }],
        &[doc! {}, doc! { "a": "x" }],
    );
    let environment = Environment::default().with([("limit".to_owned(), Value::Int32(3))]);
    let filter = doc! { "$expr": { "$lt": ["$a", "$$limit"] } }.to_buf();
    let matcher = Matcher::parse(filter.as_raw(), &environment).unwrap();
    assert_eq!(matcher.matches(doc! { "a": 2 }.to_buf().as_raw()), Ok(true));
    assert_eq!(matcher.matches(doc! { "a": 3 }.to_buf().as_raw()), Ok(false));
}

#[test]
fn a_constant_that_fails_refuses_its_own_filter_only() {
    let environment = Environment::default();
    let parse = |divisor: i32| {
        let filter = doc! { "$expr": { "$or": ["$a", { "$divide": [1, divisor] }] } }.to_buf();
        Matcher::parse(filter.as_raw(), &environment).map(drop).map_err(|error| error.message)
    };
    let failed = "Failed to optimize expression :: caused by :: can't $divide by zero".to_owned();
    assert_eq!(parse(0), Err(failed));
    assert_eq!(parse(1), Ok(()), "the next filter of the same environment is another one");
}

#[test]
fn what_is_written_out_keeps_each_pattern_and_every_list_of_tests() {
    let two = doc! { "$all": [(regex("a", "")), (regex("B", "i"))] };
    check(doc! { "x": { "$elemMatch": (two.clone()) } }, doc! { "x": [["ab"]] }, false);
    check(doc! { "x": { "$elemMatch": (two.clone()) } }, doc! { "x": ["ab"] }, true);
    check(doc! { "x": { "$elemMatch": (two.clone()) } }, doc! { "x": ["aB", "A"] }, true);
    check(doc! { "x": { "$elemMatch": (two) } }, doc! { "x": ["AB"] }, false);
    let nothing = doc! { "$not": { "$not": { "$comment": "x" } } };
    check(doc! { "x": { "$elemMatch": (nothing) } }, doc! { "x": [1] }, true);
    let never = doc! { "$not": { "$comment": "x" } };
    check(doc! { "x": { "$elemMatch": (never) } }, doc! { "x": [1] }, false);
}
