use super::*;
use crate::{Document, doc};
use std::ops::ControlFlow;

fn path(dotted: &str) -> FieldPath {
    FieldPath::parse(dotted).unwrap()
}

/// Writes each report in short: the value, its place and the position in the outermost array.
fn reports(document: &Document, dotted: &str, leaf: LeafArray) -> String {
    let bytes = document.to_buf();
    let mut reports = Vec::new();
    let flow = path(dotted).visit(bytes.as_raw(), leaf, |found| {
        let value = found.value.map_or(String::from("-"), |value| crate::json::JsonValue(value).to_string());
        let place = match found.place {
            Place::Leaf => "",
            Place::ElementOfLeaf => " element",
            Place::WholeLeaf => " whole",
            Place::Missing => " missing",
            Place::MissingInArray => " no document",
            Place::EmptyArray => " empty",
        };
        let index = found.array_index.map_or(String::new(), |index| format!(" @{index}"));
        reports.push(format!("{value}{place}{index}"));
        ControlFlow::Continue(())
    });
    assert!(flow.is_continue());
    reports.join(", ")
}

#[track_caller]
fn check(document: &Document, dotted: &str, expect: &str) {
    assert_eq!(reports(document, dotted, LeafArray::ElementsAndWhole), expect, "{dotted} in {document:?}");
}

#[test]
fn documents() {
    let document = doc! { "a": { "b": { "c": 1 } }, "x": 5 };
    check(&document, "a.b.c", "1");
    check(&document, "a.b", r#"{ "c": 1 }"#);
    check(&document, "a.c", "- missing");
    check(&document, "x.y", "- missing");
    check(&document, "nothing", "- missing");
}

#[test]
fn leaf_arrays() {
    let document = doc! { "a": [1, [2]], "e": [] };
    check(&document, "a", "1 element @0, [ 2 ] element @1, [ 1, [ 2 ] ] whole");
    check(&document, "e", "[] whole");
    assert_eq!(reports(&document, "a", LeafArray::Whole), "[ 1, [ 2 ] ]");
    assert_eq!(reports(&document, "a", LeafArray::Elements), "1 element @0, [ 2 ] element @1");
    assert_eq!(reports(&document, "e", LeafArray::Elements), "");
}

#[test]
fn arrays_on_the_way() {
    let document = doc! { "a": [{ "b": 1 }, 7, { "b": [2, 3] }, {}, [{ "b": 4 }]], "e": [] };
    check(
        &document,
        "a.b",
        "1 @0, - no document @1, 2 element @2, 3 element @2, [ 2, 3 ] whole @2, - missing @3, - no document \
        @4",
    );
    check(&document, "e.b", "- empty");
}

#[test]
fn indexes() {
    let document = doc! { "a": [{ "b": 1 }, { "0": { "b": 2 } }, [3, { "b": 4 }]] };
    check(&document, "a.0", r#"- missing @0, { "b": 1 } @0, { "b": 2 } @1, - no document @2"#);
    check(&document, "a.0.b", "- missing @0, 1 @0, 2 @1, - no document @2");
    check(&document, "a.2.0", "- missing @0, - missing @1, 3 @2, - missing @2");
    check(&document, "a.2.b", "- missing @0, - missing @1, - no document @2, 4 @2");
    check(&document, "a.00", "- missing @0, - missing @1, - no document @2");
    check(&doc! { "a": { "0": 1 } }, "a.0", "1");
    check(&doc! { "a": [[1, 2]] }, "a.0", "[ 1, 2 ] @0");
}

#[test]
fn visits_end_when_told() {
    let bytes = doc! { "a": [1, 2, 3] }.to_buf();
    let mut seen = 0;
    let any = path("a").any(bytes.as_raw(), LeafArray::ElementsAndWhole, |found| {
        seen += 1;
        found.value == Some(RawValue::Int32(2))
    });
    assert!(any);
    assert_eq!(seen, 2);
}

#[test]
fn direct_ways() {
    let bytes = doc! { "a": { "b": [{ "c": 1 }, { "c": 2 }, 3] }, "x": 1 }.to_buf();
    let document = bytes.as_raw();
    assert_eq!(path("x").get(document), Some(RawValue::Int32(1)));
    assert!(path("a.b").get(document).is_some());
    assert_eq!(path("a.b.c").get(document), None);
    assert_eq!(path("a.b.1.c").get(document), None);
}

#[test]
fn parsing() {
    assert_eq!(FieldPath::parse(""), Err(PathError::Empty));
    assert_eq!(FieldPath::parse("a."), Err(PathError::EndsWithDot("a.".into())));
    assert_eq!(FieldPath::parse("a..b"), Err(PathError::EmptyComponent("a..b".into())));
    assert_eq!(FieldPath::parse(".a"), Err(PathError::EmptyComponent(".a".into())));
    assert_eq!(FieldPath::parse("a\0"), Err(PathError::NullByte));
    assert_eq!(FieldPath::parse(&format!("{}a", "a.".repeat(200))), Err(PathError::TooDeep(201)));
    assert_eq!(FieldPath::parse_lenient("a..b").unwrap().len(), 3);
    let indexes: Vec<_> = path("a.0.01.10.9999999999").components().iter().map(Component::index).collect();
    assert_eq!(indexes, [None, Some(0), None, Some(10), None]);
}

#[test]
fn names() {
    let long = path("a.b.c");
    assert_eq!((long.head(), long.component(1)), ("a", Some("b")));
}
