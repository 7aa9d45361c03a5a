//! What operators refuse, with MongoDB's codes and wording.

use document::{RawValue, Value, doc};

use super::super::{Arity, operators};
use super::{Expression, ParseScope, check, check_error};

#[test]
fn grammar() {
    check_error(doc! { "$foo": 1 }, 168, "Unrecognized expression '$foo'");
    check_error(doc! { "$add": 1, "$abs": 2 }, 15983, "must have exactly one field");
    check_error("$$unknown", 17276, "Use of undefined variable: unknown");
    check_error("$$", 9, "empty variable names are not allowed");
    check_error("$$$", 9, "'$' starts with an invalid character for a user variable name");
    check_error("$$a-b", 9, "'a-b' contains an invalid character for a variable name: '-'");
    check_error(doc! { "$expr": true }, 168, "Unrecognized expression '$expr'");
    check_error(
        "$a.$b",
        16410,
        "FieldPath field names may not start with '$'. Consider using $getField or $setField.",
    );
    check_error("$", 16872, "'$' by itself is not a valid FieldPath");
    check_error("$a..b", 15998, "FieldPath field names may not be empty strings.");
    check_error(doc! { "a.b": 1 }, 16412, "FieldPath field names may not contain '.'");
    check_error(doc! { "$let": { "vars": { "Upper": 1 }, "in": 1 } }, 9, "starts with an invalid character");
    check_error(doc! { "$rand": { "x": 1 } }, 3040501, "$rand does not currently accept arguments");
}

#[test]
fn wrong_numbers_of_operands() {
    for operator in operators() {
        let mut call = document::Document::new();
        match operator.arity {
            Arity::Exactly(wanted) => {
                let given = vec![Value::Int32(1); wanted + 1];
                let wording = format!(
                    "Expression {} takes exactly {wanted} arguments. {} were passed in.",
                    operator.name,
                    given.len()
                );
                call.push(operator.name, given);
                check_error(call, 16020, &wording);
            }
            Arity::Between(least, most) => {
                let given = vec![Value::Int32(1); most + 1];
                let wording = format!(
                    "Expression {} takes at least {least} arguments, and at most {most}, but {} were passed \
                    in.",
                    operator.name,
                    given.len()
                );
                call.push(operator.name, given);
                check_error(call, 28667, &wording);
            }
            Arity::Named(signature) => {
                let mut unknown = document::Document::new();
                unknown.push("noSuchArgument", 1);
                call.push(operator.name, unknown);
                let wording = format!("{} found an unknown argument: noSuchArgument", operator.name);
                check_error(call, signature.unknown, &wording);
            }
            Arity::Any | Arity::Grammar => {}
        }
    }
}

#[test]
fn arithmetic() {
    check_error(doc! { "$add": [1, "x"] }, 14, "$add only supports numeric or date types, not string");
    check_error(doc! { "$add": ["$date", "$date"] }, 16612, "only one date allowed in an $add expression");
    check_error(doc! { "$subtract": ["x", 1] }, 14, "can't $subtract int from string");
    check_error(doc! { "$multiply": ["x", 1] }, 14, "$multiply only supports numeric types, not string");
    check_error(doc! { "$divide": [1, 0] }, 2, "can't $divide by zero");
    check_error(doc! { "$mod": [1, 0] }, 16610, "can't $mod by zero");
    check_error(doc! { "$abs": "x" }, 28765, "$abs only supports numeric types, not string");
    check_error(doc! { "$abs": i64::MIN }, 28680, "can't take $abs of long long min");
    check_error(doc! { "$sqrt": -1 }, 28714, "$sqrt's argument must be greater than or equal to 0");
    check_error(doc! { "$ln": 0 }, 28766, "$ln's argument must be a positive number, but is 0");
    check_error(
        doc! { "$log": [1, 1] },
        28759,
        "$log's base must be a positive number not equal to 1, but is 1",
    );
    check_error(doc! { "$pow": [0, -1] }, 28764, "$pow cannot take a base of 0 and a negative exponent");
    check_error(doc! { "$round": [1, 101] }, 51083, "value must be in [-20, 100]");
    check_error(doc! { "$acos": 2 }, 50989, "cannot apply $acos to 2, value must be in [-1,1]");
    check_error(doc! { "$bitAnd": [1, 1.5] }, 14, "$bitAnd only supports int and long operands, not double.");
}

#[test]
fn choice_and_iteration() {
    check_error(
        doc! { "$cond": [1, 2] },
        16020,
        "Expression $cond takes exactly 3 arguments. 2 were passed in.",
    );
    check_error(doc! { "$cond": { "if": 1, "then": 2 } }, 17082, "Missing 'else' parameter to $cond");
    check_error(doc! { "$ifNull": [1] }, 1257300, "$ifNull needs at least two arguments, had: 1");
    check_error(
        doc! { "$switch": { "branches": [{ "case": "$nothing", "then": 1 }] } },
        40066,
        "could not find a matching branch",
    );
    check_error(
        doc! { "$map": { "input": "$int", "in": 1 } },
        16883,
        "input to $map must be an array not int",
    );
    check_error(
        doc! { "$filter": { "input": "$int", "cond": 1 } },
        28651,
        "input to $filter must be an array not int",
    );
    check_error(doc! { "$filter": { "input": "$list" } }, 28650, "Missing 'cond' parameter to $filter");
    check_error(
        doc! { "$reduce": { "input": 1, "initialValue": 1, "in": 1 } },
        40080,
        "$reduce requires that 'input' be an array, found: int",
    );
}

#[test]
fn strings_arrays_and_objects() {
    check_error(doc! { "$concat": [1] }, 16702, "$concat only supports strings, not int");
    check_error(doc! { "$strLenCP": 1 }, 34471, "$strLenCP requires a string argument, found: int");
    check_error(doc! { "$substrBytes": ["ä", 1, 1] }, 28656, "starting index is a UTF-8 continuation byte");
    check_error(doc! { "$split": ["a", ""] }, 40087, "$split requires a non-empty separator");
    check_error(
        doc! { "$regexMatch": { "input": "a", "regex": "(" } },
        51111,
        "Invalid Regex in $regexMatch",
    );
    check_error(
        doc! { "$size": "$int" },
        17124,
        "The argument to $size must be an array, but was of type: int",
    );
    check_error(doc! { "$size": "$absent" }, 17124, "was of type: missing");
    check_error(
        doc! { "$arrayElemAt": [1, 1] },
        28689,
        "$arrayElemAt's first argument must be an array, but is int",
    );
    check_error(doc! { "$slice": ["$list", 1, 0] }, 28729, "Third argument to $slice must be positive: 0");
    check_error(doc! { "$in": [1, 2] }, 40081, "$in requires an array as a second argument, found: int");
    check_error(doc! { "$range": [0, 1, 0] }, 34449, "$range requires a non-zero step value");
    check_error(doc! { "$arrayToObject": 1 }, 40386, "$arrayToObject requires an array input, found: int");
    check_error(doc! { "$firstN": { "n": 0, "input": [] } }, 5787908, "'n' must be greater than 0, found 0");
    check_error(
        doc! { "$setUnion": [1] },
        17043,
        "All operands of $setUnion must be arrays. One argument is of type: int",
    );
    check_error(
        doc! { "$mergeObjects": [1] },
        40400,
        "$mergeObjects requires object inputs, but input 1 is of type int",
    );
    check_error(doc! { "$bsonSize": 1 }, 31393, "$bsonSize requires a document input, found: int");
}

#[test]
fn conversions() {
    check_error(doc! { "$toInt": "x" }, 241, "Failed to parse number 'x' in $convert with no onError value");
    check_error(
        doc! { "$toInt": 1e10 },
        241,
        "Conversion would overflow target type in $convert with no onError value",
    );
    check_error(
        doc! { "$toInt": "$list" },
        241,
        "Unsupported conversion from array to int in $convert with no onError value",
    );
    check_error(
        doc! { "$toObjectId": "x" },
        241,
        "Failed to parse objectId 'x' in $convert with no onError value",
    );
    check_error(doc! { "$convert": { "input": 1, "to": "thing" } }, 2, "Unknown type name: thing");
}

#[test]
fn an_error_in_a_constant_is_noted_and_waits() {
    check(doc! { "$cond": ["$flag", 1, { "$divide": [1, 0] }] }, 1);
    let environment = crate::Environment::default();
    let call = |operator: &str| doc! { operator: ["$a", { "$divide": [1, 0] }] }.to_buf();
    for operator in ["$ifNull", "$add"] {
        let call = call(operator);
        let parsed = Expression::parse(RawValue::Document(call.as_raw()), &ParseScope::new(&environment));
        assert!(parsed.is_ok(), "{operator} parses");
    }
    let noted = environment.check_constants().map_err(|error| error.code);
    assert_eq!(noted, Err(2), "the error of the constant is noted");
    let varying = crate::Environment::default().with([]);
    let call = call("$ifNull");
    assert!(Expression::parse(RawValue::Document(call.as_raw()), &ParseScope::new(&varying)).is_ok());
    assert_eq!(varying.check_constants(), Ok(()), "variables of an enclosing pipeline make no constants");
}

#[test]
fn values_are_quoted_as_mongodb_prints_them() {
    check_error(doc! { "$mergeObjects": ["$list"] }, 40400, "but input 3 is of type int");
    check_error(
        doc! { "$trim": { "input": doc! { "$literal": { "a": [1, "x"] } } } },
        50699,
        "got {a: [1, \"x\"]} (of type object) instead",
    );
    check_error(doc! { "$acos": 1e12 }, 50989, "cannot apply $acos to 1e+12, value must be in [-1,1]");
}
