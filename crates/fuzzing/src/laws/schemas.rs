//! JSON schemas: `not` is the opposite, `allOf`, `anyOf` and `oneOf` of one are that one, and who is refused
//! is told why.

use document::{Document, RawDocument, doc};
use query::matcher::Matcher;
use query::schema::{Schema, validation_details};

use super::{HOLDS, Met, REFUSED, code, environment};
use crate::generate;
use crate::source::Source;

fn parse(schema: &Document) -> Result<Schema, i32> {
    code(Schema::parse(schema.to_buf().as_raw(), &environment()))
}

pub(super) fn check(bytes: &[u8], met: &mut Met) {
    let mut source = Source::new(bytes);
    let documents: Vec<_> = (0..2).map(|_| generate::stored(&mut source).to_buf()).collect();
    let bound = source.below(4) as i32;
    documents.iter().for_each(|document| check_bounds(document.as_raw(), bound));
    let written = generate::schema(&mut source, 3);
    let Ok(schema) = parse(&written) else { return met.note(REFUSED) };
    let around = [
        (doc! { "not": (written.clone()) }, true),
        (doc! { "allOf": [(written.clone())] }, false),
        (doc! { "anyOf": [(written.clone())] }, false),
        (doc! { "oneOf": [(written.clone())] }, false),
    ];
    let around = around.map(|(around, is_opposite)| {
        let parsed = parse(&around).unwrap_or_else(|code| panic!("{around:?}: {code}"));
        (around, parsed, is_opposite)
    });
    let validator = doc! { "$jsonSchema": (written.clone()) };
    let filter = code(Matcher::parse(validator.to_buf().as_raw(), &environment()));
    let filter = filter.unwrap_or_else(|code| panic!("{validator:?}: {code}"));
    for document in &documents {
        let document = document.as_raw();
        let found = code(schema.matches(document));
        assert_eq!(code(filter.matches(document)), found, "{written:?} as a filter, {document:?}");
        for (around, parsed, is_opposite) in &around {
            let expected = found.map(|found| found != *is_opposite);
            assert_eq!(code(parsed.matches(document)), expected, "{around:?}, {document:?}");
        }
        if found == Ok(false) {
            check_details(&validator, document);
        }
    }
    met.note(HOLDS);
}

/// Of what is bounded at all, what is not at most so much is at least one more.
fn check_bounds(document: RawDocument<'_>, bound: i32) {
    const PAIRS: [(&str, &str, &str); 3] = [
        ("array", "maxItems", "minItems"),
        ("string", "maxLength", "minLength"),
        ("object", "maxProperties", "minProperties"),
    ];
    for element in document {
        let of_field = |rules: Document| {
            let schema = doc! { "properties": { (element.name()): rules } };
            parse(&schema).and_then(|schema| code(schema.matches(document)))
        };
        for (kind, most, least) in PAIRS {
            if of_field(doc! { "bsonType": kind }) == Ok(true) {
                let (at_most, more) = (of_field(doc! { most: bound }), of_field(doc! { least: (bound + 1) }));
                assert_eq!(at_most, more.map(|more| !more), "{most} {bound} of {element:?}");
            }
        }
    }
}

fn check_details(validator: &Document, document: RawDocument<'_>) {
    let validator = validator.to_buf();
    let told =
        code(validation_details(validator.as_raw(), document, &environment())).expect("it was refused");
    let rules = told.get("details").and_then(|details| match details {
        document::Value::Document(details) => details.get("schemaRulesNotSatisfied"),
        _ => None,
    });
    let is_told = rules.and_then(document::Value::as_array).is_some_and(|rules| !rules.is_empty());
    assert!(is_told, "{:?} refuses {document:?} without a reason: {told:?}", validator.as_raw());
}
