use std::sync::{Arc, Mutex};

use document::{Document, RawDocument, Value, doc};

use super::merge::FAN_IN;
use super::*;
use crate::error::QueryError;
use crate::memory::Memory;

fn pattern(spec: Document) -> SortPattern {
    SortPattern::parse(spec.to_buf().as_raw()).expect("the pattern parses")
}

fn sorted(sorter: Sorter) -> Vec<i64> {
    let mut sorted = sorter.finish().expect("the sort finishes");
    let mut ids = Vec::new();
    while let Some(document) = sorted.next().expect("the sorted documents can be read") {
        ids.push(document.as_raw().get("_id").and_then(|id| id.as_i64_exact()).expect("an _id"));
    }
    ids
}

#[track_caller]
fn check(spec: Document, values: &[Document], expect: &[i64]) {
    let mut sorter = Sorter::new(Arc::new(pattern(spec)), SortLimits::default(), None, &Memory::default());
    for (id, fields) in values.iter().enumerate() {
        let mut document = doc! { "_id": (id as i64) };
        document.extend(fields.clone());
        sorter.push(document.to_buf().as_raw()).expect("the document is taken");
    }
    assert_eq!(sorted(sorter), expect);
}

#[test]
fn single_fields_sort_both_ways_and_stay_stable() {
    let values = [doc! { "a": 3 }, doc! { "a": 1 }, doc! { "a": "x" }, doc! {}, doc! { "a": 1.0 }];
    check(doc! { "a": 1 }, &values, &[3, 1, 4, 0, 2]);
    check(doc! { "a": (-1) }, &values, &[2, 0, 1, 4, 3]);
}

#[test]
fn arrays_offer_their_lowest_or_highest_element() {
    let values = [doc! { "a": [5, 1] }, doc! { "a": 2 }, doc! { "a": [] }, doc! { "a": (Value::Null) }];
    check(doc! { "a": 1 }, &values, &[2, 3, 0, 1]);
    check(doc! { "a": (-1) }, &values, &[0, 1, 3, 2]);
    let nested = [doc! { "a": [{ "b": 3 }, { "b": 9 }] }, doc! { "a": { "b": 4 } }, doc! { "a": [7] }];
    check(doc! { "a.b": 1 }, &nested, &[2, 0, 1]);
    check(doc! { "a.1.b": (-1) }, &nested, &[0, 1, 2]);
}

#[test]
fn compound_keys_take_both_fields_from_one_element() {
    let key = |document: Document| pattern(doc! { "a.b": 1, "a.c": 1 }).key(document.to_buf().as_raw());
    let array = key(doc! { "a": [{ "b": 2, "c": 1 }, { "b": 1, "c": 5 }] });
    assert_eq!(array, key(doc! { "a": { "b": 1, "c": 5 } }));
    let parallel = pattern(doc! { "a": 1, "b": 1 }).key(doc! { "a": [1], "b": [2] }.to_buf().as_raw());
    assert_eq!(parallel.map_err(|error| error.code), Err(2));
}

#[test]
fn refusals() {
    let code = |spec: Document| SortPattern::parse(spec.to_buf().as_raw()).map_err(|error| error.code);
    assert_eq!(code(doc! { "a": "x" }), Err(15974));
    assert!(code(doc! { "a": 1.5, "p.$id": -1.9 }).is_ok(), "fractions do not count; $id may be sorted by");
    assert_eq!(code(doc! { "a": 2 }), Err(15975));
    assert_eq!(code(doc! { "a": { "$meta": "textScore" } }), Err(115));
    assert_eq!(code(doc! { "a": { "b": 1 } }), Err(17312));
    assert_eq!(code(doc! { "": 1 }), Err(40352));
    let many: Document = (0..33).map(|number| (format!("f{number}"), 1)).collect();
    assert_eq!(code(many), Err(2));
}

/// Keeps runs in memory.
#[derive(Default, Clone)]
struct Shelf(Arc<Mutex<Vec<Vec<RunRecord>>>>);

impl RunStore for Shelf {
    fn write_run(&mut self, records: &mut dyn RunReader) -> Result<(), QueryError> {
        let (mut run, mut record) = (Vec::new(), RunRecord::default());
        while records.read_next(&mut record)? {
            run.push(record.clone());
        }
        self.0.lock().expect("no test panics with the lock").push(run);
        Ok(())
    }

    fn open_runs(&mut self, most: usize) -> Result<Vec<Box<dyn RunReader>>, QueryError> {
        assert!(most <= FAN_IN, "{most} runs at once");
        let mut runs = self.0.lock().expect("no test panics with the lock");
        let taken = runs.drain(..most);
        Ok(taken.map(|run| Box::new(ShelfReader(run.into_iter())) as Box<dyn RunReader>).collect())
    }
}

struct ShelfReader(std::vec::IntoIter<RunRecord>);

impl RunReader for ShelfReader {
    fn read_next(&mut self, record: &mut RunRecord) -> Result<bool, QueryError> {
        self.0.next().map_or(Ok(false), |next| {
            *record = next;
            Ok(true)
        })
    }
}

fn numbers(count: i64) -> impl Iterator<Item = Document> {
    (0..count).map(move |id| doc! { "_id": id, "a": (id * 7919 % 101), "pad": ("x".repeat(100)) })
}

#[test]
fn limits_and_spilling_do_not_change_the_order() {
    let pattern = Arc::new(pattern(doc! { "a": 1 }));
    let run = |limits: SortLimits, runs: Option<Box<dyn RunStore>>| {
        let mut sorter = Sorter::new(Arc::clone(&pattern), limits, runs, &Memory::default());
        for document in numbers(500) {
            sorter.push(document.to_buf().as_raw()).expect("the document is taken");
        }
        (sorter.spilled_runs(), sorted(sorter))
    };
    let (_, all) = run(SortLimits::default(), None);
    let mut expect: Vec<i64> = (0..500).collect();
    expect.sort_by_key(|id| id * 7919 % 101);
    assert_eq!(all, expect, "a stable sort by a");
    let (_, top) = run(SortLimits { documents: Some(7), ..SortLimits::default() }, None);
    assert_eq!(top, expect.get(..7).expect("at least seven"));
    let small = SortLimits { memory_bytes: 10_000, ..SortLimits::default() };
    let (spilled, merged) = run(small, Some(Box::new(Shelf::default())));
    assert!(spilled > 3, "500 documents of 100 bytes do not fit into 10,000 bytes");
    assert_eq!(merged, expect);
    let (_, merged_top) = run(SortLimits { documents: Some(200), ..small }, Some(Box::new(Shelf::default())));
    assert_eq!(merged_top, expect.get(..200).expect("at least 200"));
    let tiny = SortLimits { memory_bytes: 400, ..SortLimits::default() };
    let (spilled, merged) = run(tiny, Some(Box::new(Shelf::default())));
    assert!(spilled > 2 * FAN_IN, "{spilled} runs are merged in one pass");
    assert_eq!(merged, expect, "a stable sort in several passes");
    let (_, merged_top) = run(SortLimits { documents: Some(300), ..tiny }, Some(Box::new(Shelf::default())));
    assert_eq!(merged_top, expect.get(..300).expect("at least 300"));
}

#[test]
fn the_byte_limit_is_final_without_a_place_to_spill() {
    let limits = SortLimits { memory_bytes: 1_000, ..SortLimits::default() };
    let mut sorter = Sorter::new(Arc::new(pattern(doc! { "a": 1 })), limits, None, &Memory::default());
    let refused = numbers(100).find_map(|document| sorter.push(document.to_buf().as_raw()).err());
    assert_eq!(refused.map(|error| error.code), Some(292));
    let empty = Sorter::new(
        Arc::new(pattern(doc! { "a": 1 })),
        SortLimits { documents: Some(0), ..limits },
        None,
        &Memory::default(),
    );
    assert_eq!(sorted(empty), Vec::<i64>::new());
    assert!(pattern(doc! {}).key(RawDocument::EMPTY).is_ok_and(|key| key.is_empty()));
}
