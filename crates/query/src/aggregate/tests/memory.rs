//! What stages and accumulators may hold.

use super::*;
use crate::memory::Memory;

/// 40 groups that each gather something of 2,000 documents.
fn gathering(accumulator: Document) -> Vec<Value> {
    array![{ "$group": { "_id": { "$mod": ["$k", 40] }, "all": accumulator } }, { "$sort": { "_id": 1 } }]
}

fn accumulators() -> Vec<Document> {
    let newest = |n: i32| doc! { "sortBy": { "_id": -1 }, "output": ["$_id", "$pad"], "n": n };
    vec![
        doc! { "$push": "$pad" },
        doc! { "$addToSet": "$_id" },
        doc! { "$mergeObjects": { "$arrayToObject": [[{ "k": { "$toString": "$_id" }, "v": "$pad" }]] } },
        doc! { "$firstN": { "input": "$pad", "n": 1000 } },
        doc! { "$lastN": { "input": "$pad", "n": 1000 } },
        doc! { "$maxN": { "input": "$_id", "n": 1000 } },
        doc! { "$minN": { "input": "$pad", "n": 1000 } },
        doc! { "$topN": newest(1000) },
        doc! { "$bottomN": newest(1000) },
    ]
}

#[test]
fn groups_that_are_there_already_do_not_grow_without_bound() {
    for accumulator in accumulators() {
        let stages = gathering(accumulator.clone());
        let in_memory = run(&many(), &stages, &context());
        assert_eq!(in_memory.as_ref().map(Vec::len), Ok(40), "{accumulator:?}");
        let small = PipelineContext { memory_bytes: 20_000, ..context() };
        assert_eq!(run(&many(), &stages, &small).map_err(|error| error.code), Err(292), "{accumulator:?}");
        let shelf = Shelf::default();
        let spilling = PipelineContext { spill: Some(Arc::new(shelf.clone())), ..small };
        assert_eq!(run(&many(), &stages, &spilling), in_memory, "{accumulator:?}");
        assert!(shelf.figures().written > 0, "nothing was spilled for {accumulator:?}");
    }
}

#[test]
fn a_group_whose_documents_were_put_aside_does_not_begin_anew_when_there_is_room_again() {
    let documents = [
        doc! { "k": 1, "pad": ("x".repeat(20_500)) },
        doc! { "k": 2, "pad": "put aside" },
        doc! { "k": 1, "pad": "short" },
        doc! { "k": 2, "pad": "later" },
    ];
    let group = doc! { "_id": "$k", "n": { "$sum": 1 }, "last": { "$last": "$pad" } };
    let stages = array![{ "$group": group }, { "$sort": { "_id": 1 } }];
    let small =
        PipelineContext { memory_bytes: 20_000, spill: Some(Arc::new(Shelf::default())), ..context() };
    let expect = run(&documents, &stages, &context());
    assert_eq!(expect.as_ref().map(Vec::len), Ok(2));
    assert_eq!(run(&documents, &stages, &small), expect);
}

#[test]
fn accumulators_are_bounded() {
    let small = PipelineContext { accumulator_bytes: 1500, ..context() };
    for accumulator in accumulators() {
        let name = accumulator.first().map(|(name, _)| name.to_owned()).expect("an accumulator");
        let error = run(&many(), &gathering(accumulator), &small).expect_err("it holds too much");
        assert_eq!(error.code, 146, "{name}");
        let wording = format!("{name} used too much memory and cannot spill to disk. Used: ");
        assert!(error.message.starts_with(&wording), "{}", error.message);
        assert!(error.message.ends_with("Memory limit: 1500 bytes"), "{}", error.message);
    }
    let buckets = array![
        { "$bucketAuto": { "groupBy": "$k", "buckets": 2, "output": { "all": { "$push": "$pad" } } } }
    ];
    assert_eq!(run(&many(), &buckets, &small).map_err(|error| error.code), Err(146));
}

#[test]
fn accumulators_that_keep_few_stay_small() {
    let small = PipelineContext { accumulator_bytes: 1500, ..context() };
    for accumulator in [
        doc! { "$lastN": { "input": "$pad", "n": 5 } },
        doc! { "$maxN": { "input": "$_id", "n": 5 } },
        doc! { "$topN": { "sortBy": { "_id": -1 }, "output": "$pad", "n": 5 } },
        doc! { "$last": "$pad" },
        doc! { "$max": "$pad" },
        doc! { "$mergeObjects": { "a": "$pad" } },
    ] {
        let found = run(&many(), &gathering(accumulator.clone()), &small);
        assert_eq!(found.map(|groups| groups.len()), Ok(40), "{accumulator:?}");
    }
}

#[test]
fn one_group_that_fits_nowhere_is_refused() {
    let small =
        PipelineContext { memory_bytes: 20_000, spill: Some(Arc::new(Shelf::default())), ..context() };
    let stages =
        array![{ "$group": { "_id": Value::Null, "a": { "$push": "$pad" }, "b": { "$push": "$_id" } } }];
    let error = run(&many(), &stages, &small).expect_err("it holds too much");
    assert_eq!(error.code, 146);
    assert!(error.message.contains("cannot spill to disk"), "{}", error.message);
}

/// Looks at what the stages behind it hold.
struct Looking {
    source: Box<dyn DocumentSource>,
    memory: Memory,
    peak: Arc<Mutex<usize>>,
}

impl DocumentSource for Looking {
    fn run(&mut self, policy: &mut dyn YieldPolicy, sink: &mut Sink<'_>) -> Result<Pause, QueryError> {
        self.source.run(policy, &mut |document| {
            let flow = sink(document);
            let mut peak = self.peak.lock().expect("one thread");
            *peak = self.memory.used().max(*peak);
            flow
        })
    }

    fn save(&mut self) {}
}

#[test]
fn the_stages_of_an_operation_share_its_memory() {
    let branch = |keys: i32| {
        let group = doc! { "_id": { "$mod": ["$k", keys] }, "all": { "$push": "$pad" } };
        Value::from(array![
            { "$group": group }, { "$sort": { "_id": 1 } }, { "$set": { "all": { "$size": "$all" } } }
        ])
    };
    let stages =
        array![{ "$facet": { "a": (branch(40)), "b": (branch(41)), "c": (branch(42)), "d": (branch(43)) } }];
    let run = |memory: Memory, spill: Option<Arc<dyn SpillStore>>| {
        let context = PipelineContext { memory_bytes: 40_000, memory: memory.clone(), spill, ..context() };
        let peak = Arc::default();
        let source = Looking { source: source(&many()), memory, peak: Arc::clone(&peak) };
        let found = drain(parse(&stages)?.open(Box::new(source), &context)?)?;
        let peak = *peak.lock().expect("one thread");
        Ok::<_, QueryError>((found, peak))
    };
    let spill = || -> Option<Arc<dyn SpillStore>> { Some(Arc::new(Shelf::default())) };
    let (expect, alone) = run(Memory::default(), spill()).expect("each stage alone");
    assert!(alone > 100_000, "four stages hold only {alone} bytes");
    let (found, together) = run(Memory::of(60_000), spill()).expect("all stages together");
    assert_eq!(found, expect);
    assert!(together < 90_000, "four stages hold {together} bytes, those being written among them");
    assert_eq!(run(Memory::of(60_000), None).map_err(|error| error.code), Err(292));
}

#[test]
fn documents_between_stages_are_bounded() {
    let million: Value = doc! { "$range": [0, 4_000_000] }.into();
    let stages = array![
        { "$project": { "a": (million.clone()), "b": (million.clone()), "c": (million) } },
    ];
    let error = run(&[doc! { "_id": 1 }], &stages, &context()).expect_err("it is too large");
    assert_eq!(error.code, 13548, "{}", error.message);
    let facets = array![{ "$facet": { "all": [], "again": [] } }];
    let small = PipelineContext { memory_bytes: 20_000, ..context() };
    assert_eq!(run(&many(), &facets, &small).map_err(|error| error.code), Err(4_031_700));
    let lookup = array![{ "$lookup": { "from": "items", "pipeline": [], "as": "found" } }];
    let small = PipelineContext { memory_bytes: 100, ..context() };
    assert_eq!(run(&many(), &lookup, &small).map_err(|error| error.code), Err(4568));
}
