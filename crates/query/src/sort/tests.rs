use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use document::{Document, RawDocument, Value, doc};

use super::merge::FAN_IN;
use super::sorter::CHUNK;
use super::*;
use crate::aggregate::{Flow, Pause, YieldPolicy};
use crate::checkpoint::tests::Ends;
use crate::checkpoint::{self, watch};
use crate::error::QueryError;
use crate::memory::Memory;

fn pattern(spec: Document) -> SortPattern {
    SortPattern::parse(spec.to_buf().as_raw()).expect("the pattern parses")
}

/// A slice of so many steps.
struct Steps(usize);

impl YieldPolicy for Steps {
    fn should_yield(&mut self) -> bool {
        self.0 -= 1;
        self.0 == 0
    }
}

/// Does what is due, three steps at a time.
fn work(sorter: &mut Sorter) {
    while sorter.resume(&mut Steps(3)).expect("room on the shelf") != Pause::End {}
}

fn sorted(mut sorter: Sorter) -> Vec<i64> {
    sorter.end();
    work(&mut sorter);
    let mut ids = Vec::new();
    while let Some(document) = sorter.next().expect("the sorted documents can be read") {
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

/// Keeps runs in memory, counts those that are there and the records that are written.
#[derive(Default, Clone)]
pub(crate) struct Shelf(Arc<Mutex<ShelfFigures>>);

#[derive(Default)]
pub(crate) struct ShelfFigures {
    runs: usize,
    runs_max: usize,
    pub(crate) written: usize,
}

impl Shelf {
    pub(crate) fn figures(&self) -> MutexGuard<'_, ShelfFigures> {
        self.0.lock().expect("no test panics with the lock")
    }
}

impl SpillStore for Shelf {
    fn create_run(&self) -> Result<Box<dyn RunWriter>, QueryError> {
        let mut figures = self.figures();
        figures.runs += 1;
        figures.runs_max = figures.runs.max(figures.runs_max);
        Ok(Box::new(ShelfRun { shelf: self.clone(), records: VecDeque::new() }))
    }
}

struct ShelfRun {
    shelf: Shelf,
    records: VecDeque<RunRecord>,
}

impl RunWriter for ShelfRun {
    fn write(&mut self, record: &RunRecord) -> Result<(), QueryError> {
        self.shelf.figures().written += 1;
        self.records.push_back(record.clone());
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Box<dyn SortedRun>, QueryError> {
        Ok(self)
    }
}

impl SortedRun for ShelfRun {
    fn open(self: Box<Self>) -> Result<Box<dyn RunReader>, QueryError> {
        Ok(self)
    }
}

impl RunReader for ShelfRun {
    fn read_next(&mut self, record: &mut RunRecord) -> Result<bool, QueryError> {
        Ok(self.records.pop_front().map(|next| *record = next).is_some())
    }
}

impl Drop for ShelfRun {
    fn drop(&mut self) {
        self.shelf.figures().runs -= 1;
    }
}

fn numbers(count: i64) -> impl Iterator<Item = Document> {
    (0..count).map(move |id| doc! { "_id": id, "a": (id * 7919 % 101), "pad": ("x".repeat(100)) })
}

/// Sorts by `a`; how many runs were spilled, and what came out.
fn spilling(count: i64, limits: SortLimits, shelf: Option<&Shelf>) -> (usize, Vec<i64>) {
    let spill = shelf.map(|shelf| -> Arc<dyn SpillStore> { Arc::new(shelf.clone()) });
    let mut sorter = Sorter::new(Arc::new(pattern(doc! { "a": 1 })), limits, spill, &Memory::default());
    for document in numbers(count) {
        if sorter.push(document.to_buf().as_raw()).expect("the document is taken") == Flow::Pause {
            assert!(sorter.holds());
            work(&mut sorter);
        }
        assert!(!sorter.holds());
    }
    (sorter.spilled_runs(), sorted(sorter))
}

fn in_order(count: i64) -> Vec<i64> {
    let mut ids: Vec<i64> = (0..count).collect();
    ids.sort_by_key(|id| id * 7919 % 101);
    ids
}

#[test]
fn limits_and_spilling_do_not_change_the_order() {
    let expect = in_order(500);
    assert_eq!(spilling(500, SortLimits::default(), None).1, expect, "a stable sort by a");
    let few = SortLimits { documents: Some(7), ..SortLimits::default() };
    assert_eq!(spilling(500, few, None).1, expect.get(..7).expect("at least seven"));
    for memory_bytes in [10_000, 400] {
        let small = SortLimits { memory_bytes, ..SortLimits::default() };
        let (spilled, merged) = spilling(500, small, Some(&Shelf::default()));
        assert!(spilled > 3, "500 documents of 100 bytes do not fit into {memory_bytes} bytes");
        assert_eq!(merged, expect, "a stable sort in {memory_bytes} bytes");
        let top = SortLimits { documents: Some(300), ..small };
        let (_, merged) = spilling(500, top, Some(&Shelf::default()));
        assert_eq!(merged, expect.get(..300).expect("at least 300"));
    }
}

#[test]
fn runs_become_longer_ones_before_they_are_many() {
    let shelf = Shelf::default();
    let one_by_one = SortLimits { memory_bytes: 1, ..SortLimits::default() };
    let (spilled, merged) = spilling(9_000, one_by_one, Some(&shelf));
    assert_eq!(spilled, 9_000, "each document is a run");
    assert_eq!(merged, in_order(9_000), "a stable sort in several passes");
    let figures = shelf.figures();
    assert!(figures.runs_max <= 3 * FAN_IN, "{} runs are there at once", figures.runs_max);
    assert!(figures.written <= 4 * 9_000, "{} records are written", figures.written);
    assert_eq!(figures.runs, 0, "nothing is left");
}

#[test]
fn runs_are_written_and_merged_in_slices() {
    let shelf = Shelf::default();
    let limits = SortLimits { memory_bytes: 2_000, ..SortLimits::default() };
    let spill: Arc<dyn SpillStore> = Arc::new(shelf.clone());
    let mut sorter = Sorter::new(Arc::new(pattern(doc! { "a": 1 })), limits, Some(spill), &Memory::default());
    let mut documents = numbers(2_000);
    loop {
        let before = shelf.figures().written;
        let pause = sorter.resume(&mut Steps(5)).expect("room on the shelf");
        let written = shelf.figures().written - before;
        assert!(written <= 5, "{written} records are written in a slice of five steps");
        if pause == Pause::Sliced {
            continue;
        }
        let next = documents.find(|document| {
            sorter.push(document.to_buf().as_raw()).expect("the document is taken") == Flow::Pause
        });
        match next {
            Some(_) => {}
            None if sorter.has_ended() => break,
            None => sorter.end(),
        }
    }
    assert!(sorter.spilled_runs() > FAN_IN, "{} runs", sorter.spilled_runs());
}

/// Takes so many documents in, and brings them into order; how often it paused, and how much was done at once
/// at most, in steps.
fn sort_in_slices(sorter: &mut Sorter, count: usize) -> Result<(usize, u64), QueryError> {
    let (mut slices, mut longest) = (0, 0);
    for document in numbers(count as i64).chain([Document::new()]) {
        match document.is_empty() {
            true => sorter.end(),
            false if sorter.push(document.to_buf().as_raw())? == Flow::More => continue,
            false => {}
        }
        loop {
            let before = checkpoint::steps();
            let pause = sorter.resume(&mut Steps(1))?;
            longest = longest.max(checkpoint::steps() - before);
            slices += 1;
            if pause == Pause::End {
                break;
            }
        }
    }
    Ok((slices, longest))
}

#[test]
fn a_sort_in_memory_is_made_in_slices_and_ends_with_its_operation() {
    let count = 8 * CHUNK + 7;
    let sort = |documents| {
        let limits = SortLimits { documents, ..SortLimits::default() };
        Sorter::new(Arc::new(pattern(doc! { "a": 1 })), limits, None, &Memory::default())
    };
    for wanted in [None, Some(count - 3)] {
        let mut sorter = sort(wanted);
        let before = checkpoint::steps();
        let (slices, longest) = sort_in_slices(&mut sorter, count).expect("nobody ends it");
        assert!(slices > count / CHUNK, "{count} documents are sorted in {slices} slices");
        assert!(longest <= 16 * CHUNK as u64, "{longest} steps in one slice");
        assert!(checkpoint::steps() - before > 10 * count as u64, "what is compared is not counted");
        let mut ids = Vec::new();
        while let Some(document) = sorter.next().expect("nobody ends it") {
            ids.push(document.as_raw().get("_id").and_then(|id| id.as_i64_exact()).expect("an _id"));
        }
        assert_eq!(Some(ids.as_slice()), in_order(count as i64).get(..wanted.unwrap_or(count)));

        let _watched = watch(Ends::after(4));
        let ended = sort_in_slices(&mut sort(wanted), count);
        assert_eq!(ended.map_err(|error| error.code), Err(11_601), "a sort of {wanted:?} does not end");
    }
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
