use document::{Document, Value, doc};

use super::*;

#[track_caller]
fn check(schema: Document, document: Document, expect: bool) {
    let parsed = Schema::parse(schema.to_buf().as_raw(), &Environment::default()).expect("the schema parses");
    assert_eq!(parsed.matches(document.to_buf().as_raw()), Ok(expect), "{schema:?} with {document:?}");
}

/// Checks a schema for the field `a`.
#[track_caller]
fn check_field(schema: Document, value: impl Into<Value>, expect: bool) {
    check(doc! { "properties": { "a": (schema) } }, doc! { "a": (value.into()) }, expect);
}

#[test]
fn types_and_values() {
    check_field(doc! { "bsonType": "int" }, 1, true);
    check_field(doc! { "bsonType": "int" }, 1.5, false);
    check_field(doc! { "bsonType": ["int", "string"] }, "x", true);
    check_field(doc! { "type": "number" }, 1.5, true);
    check_field(doc! { "type": "boolean" }, 1, false);
    check_field(doc! { "enum": [1, "x", (Value::Null)] }, Value::Null, true);
    check_field(doc! { "enum": [1, "x"] }, 2, false);
    check(doc! { "properties": { "a": { "bsonType": "int" } } }, doc! { "b": 1 }, true);
}

#[test]
fn numbers_and_strings() {
    check_field(doc! { "minimum": 3, "maximum": 5 }, 3, true);
    check_field(doc! { "minimum": 3, "exclusiveMinimum": true }, 3, false);
    check_field(doc! { "maximum": 5, "exclusiveMaximum": true }, 5.0, false);
    check_field(doc! { "maximum": 5 }, "text", true);
    check_field(doc! { "multipleOf": 3 }, 9, true);
    check_field(doc! { "multipleOf": 3 }, 10, false);
    check_field(doc! { "minLength": 3 }, "äöü", true);
    check_field(doc! { "maxLength": 2 }, "äöü", false);
    check_field(doc! { "pattern": "^a.c$" }, "abc", true);
    check_field(doc! { "pattern": "^a.c$" }, "abd", false);
}

#[test]
fn arrays() {
    check_field(doc! { "minItems": 2 }, document::array![1], false);
    check_field(doc! { "maxItems": 2 }, document::array![1, 2], true);
    check_field(doc! { "uniqueItems": true }, document::array![1, 2, 1.0], false);
    check_field(doc! { "items": { "bsonType": "int" } }, document::array![1, "x"], false);
    check_field(doc! { "items": [{ "bsonType": "int" }] }, document::array![1, "x"], true);
    check_field(
        doc! { "items": [{ "bsonType": "int" }], "additionalItems": false },
        document::array![1, "x"],
        false,
    );
    check_field(
        doc! { "items": [{}], "additionalItems": { "bsonType": "int" } },
        document::array!["x", 2],
        true,
    );
}

#[test]
fn documents() {
    check(doc! { "required": ["a", "b"] }, doc! { "a": 1 }, false);
    check(doc! { "minProperties": 2 }, doc! { "a": 1 }, false);
    check(doc! { "maxProperties": 1 }, doc! { "a": 1 }, true);
    check(doc! { "properties": { "a": {} }, "additionalProperties": false }, doc! { "a": 1, "b": 1 }, false);
    check(
        doc! { "patternProperties": { "^x": { "bsonType": "int" } }, "additionalProperties": false },
        doc! { "xy": 1 },
        true,
    );
    check(doc! { "patternProperties": { "^x": { "bsonType": "int" } } }, doc! { "xy": "s" }, false);
    check(doc! { "dependencies": { "a": ["b"] } }, doc! { "a": 1 }, false);
    check(doc! { "dependencies": { "a": ["b"] } }, doc! { "c": 1 }, true);
    check(doc! { "dependencies": { "a": { "required": ["b"] } } }, doc! { "a": 1 }, false);
}

#[test]
fn combinations() {
    let int = doc! { "bsonType": "int" };
    let small = doc! { "maximum": 5 };
    check_field(doc! { "allOf": [(int.clone()), (small.clone())] }, 9, false);
    check_field(doc! { "anyOf": [(int.clone()), (small.clone())] }, 9, true);
    check_field(doc! { "oneOf": [(int.clone()), (small.clone())] }, 3, false);
    check_field(doc! { "oneOf": [(int.clone()), (small)] }, 9, true);
    check_field(doc! { "not": (int) }, 9, false);
}

#[test]
fn refusals() {
    let code = |schema: Document| {
        Schema::parse(schema.to_buf().as_raw(), &Environment::default())
            .map(|_| ())
            .map_err(|error| error.code)
    };
    assert_eq!(code(doc! { "nope": 1 }), Err(9));
    assert_eq!(code(doc! { "format": "x" }), Err(9));
    assert_eq!(code(doc! { "type": "integer" }), Err(9));
    assert_eq!(code(doc! { "type": "int" }), Err(2));
    assert_eq!(code(doc! { "minimum": "x" }), Err(14));
    assert_eq!(code(doc! { "exclusiveMinimum": true }), Err(9));
    assert_eq!(code(doc! { "required": [] }), Err(9));
    assert_eq!(code(doc! { "properties": { "a": 1 } }), Err(14));
    assert_eq!(code(doc! { "minLength": (-1) }), Err(9));
    assert_eq!(code(doc! { "title": "t", "description": "d" }), Ok(()));
}

#[test]
fn details_name_the_unsatisfied_rules() {
    let validator = doc! { "$jsonSchema": {
        "required": ["name"], "properties": { "age": { "bsonType": "int", "description": "years" } }
    } };
    let document = doc! { "_id": 7, "age": "old" };
    let details =
        validation_details(validator.to_buf().as_raw(), document.to_buf().as_raw(), &Environment::default());
    assert_eq!(
        details,
        Ok(doc! { "failingDocumentId": 7,
            "details": { "operatorName": "$jsonSchema", "schemaRulesNotSatisfied": [
            { "operatorName": "required", "specifiedAs": { "required": ["name"] },
                "missingProperties": ["name"] },
            { "operatorName": "properties",
                "propertiesNotSatisfied": [{ "propertyName": "age", "description": "years",
                "details": [{ "operatorName": "bsonType", "specifiedAs": { "bsonType": "int" },
                    "reason": "type did not match", "consideredValue": "old",
                    "consideredType": "string" }] }] }
        ] } })
    );
    let plain = validation_details(
        doc! { "a": { "$gt": 5 } }.to_buf().as_raw(),
        doc! { "_id": 1, "a": 3 }.to_buf().as_raw(),
        &Environment::default(),
    );
    assert_eq!(
        plain,
        Ok(doc! { "failingDocumentId": 1,
            "details": { "operatorName": "$gt", "specifiedAs": { "a": { "$gt": 5 } },
        "reason": "comparison failed", "consideredValue": 3 } })
    );
}
