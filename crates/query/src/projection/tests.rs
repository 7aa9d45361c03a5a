use document::{Document, doc};

use super::*;
use crate::matcher::Matcher;

fn run(spec: Document, input: Document) -> Result<Document, QueryError> {
    let projection = Projection::parse(spec.to_buf().as_raw(), &Environment::default())?;
    let projected = projection.project(input.to_buf().as_raw(), None, &mut Variables::default())?;
    Ok(RawDocument::parse(projected.as_bytes()).expect("a projected document is valid").to_document())
}

#[track_caller]
fn check(spec: Document, input: Document, expect: Document) {
    assert_eq!(run(spec, input), Ok(expect));
}

#[track_caller]
fn check_error(spec: Document, code: i32) {
    match run(spec.clone(), doc! {}) {
        Err(error) => assert_eq!(error.code, code, "{spec:?}: {error}"),
        Ok(_) => panic!("{spec:?} should be refused with {code}"),
    }
}

#[test]
fn inclusion_keeps_document_order() {
    check(
        doc! { "c": 1, "a": true },
        doc! { "_id": 1, "a": 2, "b": 3, "c": 4 },
        doc! { "_id": 1, "a": 2, "c": 4 },
    );
    check(doc! { "a": 1, "_id": 0 }, doc! { "_id": 1, "a": 2, "b": 3 }, doc! { "a": 2 });
    check(doc! { "_id": 1 }, doc! { "_id": 1, "a": 2 }, doc! { "_id": 1 });
    check(doc! {}, doc! { "_id": 1, "a": 2 }, doc! { "_id": 1, "a": 2 });
    check(doc! { "_id.x": 1 }, doc! { "_id": { "x": 1, "y": 2 }, "a": 2 }, doc! { "_id": { "x": 1 } });
}

#[test]
fn nested_paths_cross_arrays() {
    let input =
        doc! { "_id": 1, "a": [{ "b": 1, "c": 2 }, 5, [{ "b": 3 }], { "c": 9 }], "d": { "b": 7, "e": 8 } };
    check(
        doc! { "a.b": 1, "d": { "e": 1 } },
        input.clone(),
        doc! { "_id": 1, "a": [{ "b": 1 }, [{ "b": 3 }], {}], "d": { "e": 8 } },
    );
    check(
        doc! { "a.b": 0, "d.e": 0 },
        input,
        doc! { "_id": 1, "a": [{ "c": 2 }, 5, [{}], { "c": 9 }], "d": { "b": 7 } },
    );
    check(doc! { "a.b": 1 }, doc! { "_id": 1, "a": 5 }, doc! { "_id": 1 });
}

#[test]
fn exclusion_rules() {
    check(doc! { "a": 0 }, doc! { "_id": 1, "a": 2, "b": 3 }, doc! { "_id": 1, "b": 3 });
    check(doc! { "a": 0, "_id": 0 }, doc! { "_id": 1, "a": 2, "b": 3 }, doc! { "b": 3 });
    check(doc! { "a": 0, "_id": 1 }, doc! { "_id": 1, "a": 2, "b": 3 }, doc! { "_id": 1, "b": 3 });
    check(doc! { "_id": 0 }, doc! { "_id": 1, "a": 2 }, doc! { "a": 2 });
}

#[test]
fn computed_fields_follow() {
    check(doc! { "n": "$a", "b": 1 }, doc! { "_id": 1, "a": 2, "b": 3 }, doc! { "_id": 1, "b": 3, "n": 2 });
    check(doc! { "x.y": "$a" }, doc! { "_id": 1, "a": 2 }, doc! { "_id": 1, "x": { "y": 2 } });
    check(doc! { "n": "$missing" }, doc! { "_id": 1 }, doc! { "_id": 1 });
    check(doc! { "n": "text", "_id": 0 }, doc! { "_id": 1 }, doc! { "n": "text" });
}

#[test]
fn slice_shows_a_section() {
    let input = doc! { "_id": 1, "a": [1, 2, 3, 4], "b": 2 };
    check(doc! { "a": { "$slice": 2 } }, input.clone(), doc! { "_id": 1, "a": [1, 2], "b": 2 });
    check(doc! { "a": { "$slice": (-1) } }, input.clone(), doc! { "_id": 1, "a": [4], "b": 2 });
    check(doc! { "a": { "$slice": [1, 2] } }, input.clone(), doc! { "_id": 1, "a": [2, 3], "b": 2 });
    check(
        doc! { "a": { "$slice": [(-3), 1] }, "_id": 1 },
        input.clone(),
        doc! { "_id": 1, "a": [2], "b": 2 },
    );
    check(doc! { "a": { "$slice": 1 }, "c": 1 }, input, doc! { "_id": 1, "a": [1] });
}

#[test]
fn elem_match_and_position_show_one_element() {
    let input = doc! { "_id": 1, "a": [{ "x": 1 }, { "x": 5 }, { "x": 6 }], "b": 2 };
    check(
        doc! { "a": { "$elemMatch": { "x": { "$gt": 3 } } }, "b": 1 },
        input.clone(),
        doc! { "_id": 1, "b": 2, "a": [{ "x": 5 }] },
    );
    check(doc! { "a": { "$elemMatch": { "x": 9 } } }, input.clone(), doc! { "_id": 1 });
    let environment = Environment::default();
    let projection = Projection::parse(doc! { "a.$": 1 }.to_buf().as_raw(), &environment).expect("parses");
    let matcher =
        Matcher::parse(doc! { "a.x": { "$gt": 3 } }.to_buf().as_raw(), &environment).expect("parses");
    let input = input.to_buf();
    let details = matcher.matches_positional(input.as_raw()).expect("matches").expect("matches");
    let shown =
        projection.project(input.as_raw(), Some(&details), &mut Variables::default()).expect("projects");
    assert_eq!(shown.as_raw().to_document(), doc! { "_id": 1, "a": [{ "x": 5 }] });
    let refused =
        projection.project(input.as_raw(), None, &mut Variables::default()).map_err(|error| error.code);
    assert_eq!(refused.map(|_| ()), Err(51246));
}

#[test]
fn refusals_carry_mongodbs_codes() {
    check_error(doc! { "a": 1, "b": 0 }, 31254);
    check_error(doc! { "a": 0, "b": 1 }, 31253);
    check_error(doc! { "a": 1, "a.b": 1 }, 31249);
    check_error(doc! { "a.b": 1, "a": 1 }, 31250);
    check_error(doc! { "_id": 1, "_id.x": 1 }, 31250);
    check_error(doc! { "a": {} }, 51270);
    check_error(doc! { "$a": 1 }, 16410);
    check_error(doc! { "a..b": 1 }, 15998);
    check_error(doc! { "a.": 1 }, 40353);
    check_error(doc! { "": 1 }, 40352);
    check_error(doc! { "a": 0, "b": { "$add": [1, 2] } }, 31252);
    check_error(doc! { "a": 0, "b": "x" }, 31310);
    check_error(doc! { "a": { "$nope": 1 } }, 31325);
    check_error(doc! { "a.b": { "$elemMatch": {} } }, 31275);
    check_error(doc! { "a.$": 1, "b.$": 1 }, 31276);
    check_error(doc! { "a.$.b": 1 }, 31394);
    check_error(doc! { "a": { "$slice": "x" } }, 28667);
}

#[test]
fn additions_set_in_place_or_append() {
    let spec = doc! { "a": "$b", "d.e": 5, "f": { "g": 6 } };
    let projection =
        Projection::parse_addition(spec.to_buf().as_raw(), &Environment::default()).expect("parses");
    let input = doc! { "_id": 1, "a": 1, "b": 2, "d": [{ "x": 1 }, 3] }.to_buf();
    let added = projection.project(input.as_raw(), None, &mut Variables::default()).expect("projects");
    assert_eq!(
        added.as_raw().to_document(),
        doc! { "_id": 1, "a": 2, "b": 2, "d": [{ "x": 1, "e": 5 }, { "e": 5 }], "f": { "g": 6 } }
    );
}

#[test]
fn needs_names_what_is_read() {
    let needs = |spec: Document| {
        Projection::parse(spec.to_buf().as_raw(), &Environment::default()).map(|p| p.needs())
    };
    assert_eq!(needs(doc! { "a": 1, "b.c": 1, "_id": 0 }), Ok(Some(vec!["a".into(), "b.c".into()])));
    assert_eq!(needs(doc! { "a": 1 }), Ok(Some(vec!["a".into(), "_id".into()])));
    assert_eq!(needs(doc! { "a": 0 }), Ok(None));
    assert_eq!(needs(doc! { "a": "$b" }), Ok(None));
}
