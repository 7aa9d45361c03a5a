//! What operators refuse, word for word.

use document::{Document, Value, array, doc};

use super::*;
use crate::matcher::Matcher;

/// Code and message with which an update ends, when it is parsed or when it is applied.
fn refusal(update: impl Into<Value>, input: Document, filters: Vec<Value>) -> (i32, String) {
    let filters = doc! { "f": filters }.to_buf();
    let filters = filters.as_raw().get("f").and_then(RawValue::as_array);
    let input = input.to_buf();
    let every =
        Matcher::parse(RawDocument::EMPTY, &Environment::default()).expect("the empty filter is a filter");
    let details = every.matches_positional(input.as_raw()).expect("matches");
    let result = update
        .into()
        .with_raw(|update| Update::parse(update, filters, &Environment::default()))
        .and_then(|update| update.apply(input.as_raw(), details.as_ref(), false));
    result.map_or_else(|error| (error.code, error.message), |changed| (0, format!("{:?}", changed)))
}

#[track_caller]
fn check(update: impl Into<Value>, input: Document, code: i32, message: &str) {
    assert_eq!(refusal(update, input, Vec::new()), (code, message.to_owned()));
}

#[test]
fn a_path_through_a_scalar_is_not_viable() {
    let base = doc! { "_id": 1, "v": 42, "a": [1, { "b": 2 }], "d": { "e": "x" } };
    let made = "Cannot create field 'foo' in element {v: 42}";
    for operator in ["$set", "$inc", "$mul", "$min", "$max", "$push", "$addToSet"] {
        check(doc! { operator: { "v.foo": 1 } }, base.clone(), 28, made);
        check(doc! { operator: { "v.foo.bar": 1 } }, base.clone(), 28, made);
    }
    check(doc! { "$currentDate": { "v.foo": true } }, base.clone(), 28, made);
    check(doc! { "$bit": { "v.foo": { "or": 1 } } }, base.clone(), 28, made);
    check(doc! { "$rename": { "_id": "v.foo" } }, base.clone(), 28, made);
    for (operator, operand) in [
        ("$pop", Value::Int32(1)),
        ("$pull", Value::Int32(1)),
        ("$pull", Value::Document(doc! { "$gt": 1 })),
        ("$pullAll", array![1].into()),
    ] {
        let part = |path: &str, element: &str| {
            let first = path.split('.').find(|name| matches!(*name, "foo" | "x")).unwrap_or_default();
            format!("Cannot use the part ({first}) of ({path}) to traverse the element ({{{element}}})")
        };
        let update = |path: &str| doc! { operator: { path: (operand.clone()) } };
        check(update("v.foo"), base.clone(), 28, &part("v.foo", "v: 42"));
        check(update("v.foo.bar"), base.clone(), 28, &part("v.foo.bar", "v: 42"));
        check(update("d.e.foo"), base.clone(), 28, &part("d.e.foo", "e: \"x\""));
        check(update("a.0.x"), base.clone(), 28, &part("a.0.x", "0: 1"));
        for path in ["missing", "d.missing.deep", "a.7", "a.7.x", "a.1.missing"] {
            let (code, message) = refusal(update(path), base.clone(), Vec::new());
            assert_eq!((code, message.as_str()), (0, "None"), "{operator} of {path} has nothing to do");
        }
    }
    for operator in ["$unset", "$setOnInsert"] {
        let (code, message) = refusal(doc! { operator: { "v.foo": 1 } }, base.clone(), Vec::new());
        assert_eq!((code, message.as_str()), (0, "None"), "{operator} has nothing to do");
    }
    let (code, _) = refusal(doc! { "$rename": { "missing": "v.foo" } }, base.clone(), Vec::new());
    assert_eq!(code, 0, "nothing is renamed");
    check(
        doc! { "$set": { "d.e.foo": 1 } },
        base.clone(),
        28,
        "Cannot create field 'foo' in element {e: \"x\"}",
    );
    let (code, message) = refusal(doc! { "$set": { "a.x": 1 } }, base.clone(), Vec::new());
    assert_eq!(code, 28);
    assert!(message.starts_with("Cannot create field 'x' in element {a: ["), "{message}");
    let (code, message) = refusal(doc! { "$pull": { "a.x": 1 } }, base, Vec::new());
    assert_eq!(code, 28);
    assert!(
        message.starts_with("Cannot use the part (x) of (a.x) to traverse the element ({a: ["),
        "{message}"
    );
}

#[test]
fn renames_do_not_touch_arrays() {
    let base = doc! { "_id": 1, "a": [1, { "b": [5] }], "v": 42, "o": {} };
    let source = |path: &str, array: &str| {
        format!(
            "The source field cannot be an array element, '{path}' in doc with _id: 1 has an array field \
            called '{array}'"
        )
    };
    check(doc! { "$rename": { "a.0": "x" } }, base.clone(), 2, &source("a.0", "a"));
    check(doc! { "$rename": { "a.1.b.0": "x" } }, base.clone(), 2, &source("a.1.b.0", "b"));
    let destination = "The destination field cannot be an array element, 'a.0' in doc with _id: 1 has an \
        array field called 'a'";
    check(doc! { "$rename": { "v": "a.0" } }, base.clone(), 2, destination);
    check(doc! { "$rename": { "v": "a.x" } }, base.clone(), 2, &destination.replace("a.0", "a.x"));
    check(doc! { "$rename": { "v": "a.9.y" } }, base.clone(), 2, &destination.replace("a.0", "a.9.y"));
    let (code, message) = refusal(doc! { "$rename": { "a.b": "x" } }, base.clone(), Vec::new());
    assert_eq!(code, 28);
    assert!(
        message.starts_with("cannot use the part (a of a.b) to traverse the element ({a: ["),
        "{message}"
    );
    let scalar = "cannot use the part (v of v.foo) to traverse the element ({v: 42})";
    check(doc! { "$rename": { "v.foo": "x" } }, base.clone(), 28, scalar);
    for source in ["a.7", "o.x", "missing.x", "a.7.x"] {
        let (code, message) = refusal(doc! { "$rename": { source: "x" } }, base.clone(), Vec::new());
        assert_eq!((code, message.as_str()), (0, "None"), "there is nothing at {source}");
    }
    let same = "The source and target field for $rename must not be on the same path: ";
    for (from, to) in [("a", "a.b"), ("a.b", "a")] {
        let (code, message) = refusal(doc! { "$rename": { from: to } }, base.clone(), Vec::new());
        assert_eq!((code, message), (2, format!("{same}{from}: \"{to}\"")));
    }
    check(
        doc! { "$rename": { "_id": "x" } },
        base,
        66,
        "Unsetting the path '_id' using $rename would modify the immutable field '_id'",
    );
}

#[test]
fn values_of_other_types() {
    let base = doc! { "_id": 1, "s": "x", "n": { "m": "y" } };
    let cases = [
        (
            doc! { "$inc": { "s": 1 } },
            14,
            "Cannot apply $inc to a value of non-numeric type. {_id: 1} has the field 's' of non-numeric \
            type string",
        ),
        (
            doc! { "$mul": { "n.m": 1 } },
            14,
            "Cannot apply $mul to a value of non-numeric type. {_id: 1} has the field 'm' of non-numeric \
            type string",
        ),
        (
            doc! { "$bit": { "s": { "or": 1 } } },
            2,
            "Cannot apply $bit to a value of non-integral type._id: 1 has the field s of non-integer type \
            string",
        ),
        (
            doc! { "$push": { "n.m": 1 } },
            2,
            "The field 'n.m' must be an array but is of type string in document {_id: 1}",
        ),
        (
            doc! { "$addToSet": { "n.m": 1 } },
            2,
            "Cannot apply $addToSet to non-array field. Field named 'm' has non-array type string",
        ),
        (doc! { "$pop": { "n.m": 1 } }, 14, "Path 'n.m' contains an element of non-array type 'string'"),
        (doc! { "$pull": { "s": 1 } }, 2, "Cannot apply $pull to a non-array value"),
        (doc! { "$pullAll": { "s": [1] } }, 2, "Cannot apply $pull to a non-array value"),
        (doc! { "$set": { "s.$[].x": 1 } }, 2, "Cannot apply array updates to non-array element s: \"x\""),
        (
            doc! { "$set": { "n.q.$[].x": 1 } },
            2,
            "The path 'n.q' must exist in the document in order to apply array updates.",
        ),
        (
            doc! { "$set": { "s.$.x": 1 } },
            2,
            "The positional operator did not find the match needed from the query.",
        ),
        (
            doc! { "$set": { "_id": 2 } },
            66,
            "Performing an update on the path '_id' would modify the immutable field '_id'",
        ),
    ];
    for (update, code, message) in cases {
        check(update, base.clone(), code, message);
    }
    let within = doc! { "_id": { "k": 1 } };
    let inner = "Performing an update on the path '_id.k' would modify the immutable field '_id'";
    check(doc! { "$inc": { "_id.k": 1 } }, within, 66, inner);
    let (code, message) = refusal(doc! { "$inc": { "s": 1 } }, Document::from_iter([("s", "x")]), Vec::new());
    assert_eq!(code, 14);
    assert!(message.contains("{no id} has the field 's'"), "{message}");
}

#[test]
fn operands_that_cannot_be() {
    let unknown = "Unknown modifier: $foo. Expected a valid update modifier or pipeline-style update \
        specified as an array";
    let sort = "The $sort element value must be either 1 or -1";
    let push = |clauses: Document| {
        let mut all = doc! { "$each": [1] };
        all.extend(clauses);
        doc! { "$push": { "a": all } }
    };
    let cases = [
        (doc! { "$foo": { "a": 1 } }, 9, unknown),
        (
            doc! { "$set": 5 },
            9,
            "Modifiers operate on fields but we found type int instead. For example: {$mod: {<field>: ...}} \
            not {$set: 5}",
        ),
        (
            doc! { "$addToSet": { "a": { "$each": 1 } } },
            14,
            "The argument to $each in $addToSet must be an array but it was of type int",
        ),
        (
            doc! { "$push": { "a": { "$each": 1 } } },
            2,
            "The argument to $each in $push must be an array but it was of type: int",
        ),
        (
            push(doc! { "$slice": 1.5 }),
            2,
            "The value for $slice must be an integer value but was given type: double",
        ),
        (
            push(doc! { "$slice": "x" }),
            2,
            "The value for $slice must be an integer value but was given type: string",
        ),
        (
            push(doc! { "$position": "x" }),
            2,
            "The value for $position must be an integer value, not of type: string",
        ),
        (push(doc! { "$sort": 2 }), 2, sort),
        (push(doc! { "$sort": { "a": 2 } }), 2, sort),
        (push(doc! { "$sort": {} }), 2, "The $sort pattern is empty when it should be a set of fields."),
        (
            push(doc! { "$sort": { "a..b": 1 } }),
            2,
            "The $sort field is a dotted field but has an empty part: a..b",
        ),
        (
            push(doc! { "$sort": "x" }),
            2,
            "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded \
            fields",
        ),
        (push(doc! { "$what": 1 }), 2, "Unrecognized clause in $push: $what"),
        (push(doc! { "$each": [1] }), 2, "Only one $each is supported."),
        (doc! { "$inc": { "n": "x" } }, 14, "Cannot increment with non-numeric argument: {n: \"x\"}"),
        (doc! { "$mul": { "n": "x" } }, 14, "Cannot multiply with non-numeric argument: {n: \"x\"}"),
        (doc! { "$pop": { "a": 2 } }, 9, "$pop expects 1 or -1, found: 2"),
        (doc! { "$pop": { "a": "x" } }, 9, "Expected a number in: a: \"x\""),
        (doc! { "$pop": { "a": 1.5 } }, 9, "Expected an integer: a: 1.5"),
        (doc! { "$pullAll": { "a": 1 } }, 2, "$pullAll requires an array argument but was given a int"),
        (
            doc! { "$bit": { "n": 1 } },
            2,
            "The $bit modifier is not compatible with a int. You must pass in an embedded document: {$bit: \
            {field: {and/or/xor: #}}",
        ),
        (
            doc! { "$bit": { "n": {} } },
            2,
            "You must pass in at least one bitwise operation. The format is: {$bit: {field: {and/or/xor: #}}",
        ),
        (
            doc! { "$bit": { "n": { "nand": 1 } } },
            2,
            "The $bit modifier only supports 'and', 'or', and 'xor', not 'nand' which is an unknown \
            operator: {nand: 1}",
        ),
        (
            doc! { "$bit": { "n": { "or": "x" } } },
            2,
            "The $bit modifier field must be an Integer(32/64 bit); a 'string' is not supported here: \
            {or: \"x\"}",
        ),
        (doc! { "$rename": { "a": 1 } }, 2, "The 'to' field for $rename must be a string: a: 1"),
        (
            doc! { "$rename": { "a": "a" } },
            2,
            "The source and target field for $rename must differ: a: \"a\"",
        ),
        (doc! { "$rename": { "a.$": "b" } }, 2, "The source field for $rename may not be dynamic: a.$"),
        (
            doc! { "$rename": { "a": "b.$[]" } },
            2,
            "The destination field for $rename may not be dynamic: b.$[]",
        ),
        (
            doc! { "$set": { "$.a": 1 } },
            2,
            "Cannot have positional (i.e. '$') element in the first position in path '$.a'",
        ),
        (
            doc! { "$set": { "$[].a": 1 } },
            2,
            "Cannot have array filter identifier (i.e. '$[<id>]') element in the first position in path \
            '$[].a'",
        ),
        (
            doc! { "$set": { "a.$.b.$": 1 } },
            2,
            "Too many positional (i.e. '$') elements found in path 'a.$.b.$'",
        ),
        (doc! { "$set": { "a.$[x]": 1 } }, 2, "No array filter found for identifier 'x' in path 'a.$[x]'"),
        (doc! { "$set": { "": 1 } }, 56, "An empty update path is not valid."),
        (
            doc! { "$set": { "a.": 1 } },
            56,
            "The update path 'a.' contains an empty field name, which is not allowed.",
        ),
        (
            doc! { "$set": { "$a.b": 1 } },
            52,
            "The dollar ($) prefixed field '$a' in '$a' is not allowed in the context of an update's \
            replacement document. Consider using an aggregation pipeline with $replaceWith.",
        ),
        (doc! { "$set": { "a": 1, "a.b": 1 } }, 40, "Updating the path 'a.b' would create a conflict at 'a'"),
        (doc! { "$set": { "a.b": 1, "a": 1 } }, 40, "Updating the path 'a' would create a conflict at 'a'"),
        (
            doc! { "$set": { "a.$[].b": 1, "a.0": 1 } },
            40,
            "Updating the path 'a.0' would create a conflict at 'a'",
        ),
        (
            doc! { "$currentDate": { "a": 1 } },
            2,
            "int is not valid type for $currentDate. Please use a boolean ('true') or a $type expression \
            ({$type: 'timestamp/date'}).",
        ),
        (
            doc! { "$currentDate": { "a": { "$type": "x" } } },
            2,
            "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: {field : \
            {$type: 'date'}}}",
        ),
        (doc! { "$currentDate": { "a": { "x": 1 } } }, 2, "Unrecognized $currentDate option: x"),
    ];
    for (update, code, message) in cases {
        check(update, doc! { "_id": 1 }, code, message);
    }
    let unused = refusal(doc! { "$set": { "a": 1 } }, doc! { "_id": 1 }, array![{ "x": 1 }]);
    assert_eq!(unused.0, 9);
    assert!(
        unused.1.starts_with("The array filter for identifier 'x' was not used in the update {"),
        "{}",
        unused.1
    );
}
