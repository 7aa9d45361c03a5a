//! Each stage on small collections; every source also pauses between documents, and so does who is shown what
//! comes out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use document::{Document, DocumentBuf, Value, array, doc};

mod memory;

use super::{
    DocumentSource, Flow, ForeignCollections, ForeignRead, OutputStage, Pause, Pipeline, PipelineContext,
    PipelineSource, Sink, WhenMatched, YieldPolicy, stage_entries,
};
use crate::environment::Environment;
use crate::error::QueryError;
use crate::matcher::Matcher;
use crate::sort::SpillStore;
use crate::sort::tests::Shelf;

/// Has its slice ended before each document.
struct Hesitant {
    documents: VecDeque<DocumentBuf>,
    yielded: bool,
}

impl DocumentSource for Hesitant {
    fn run(&mut self, _: &mut dyn YieldPolicy, sink: &mut Sink<'_>) -> Result<Pause, QueryError> {
        loop {
            self.yielded = !self.yielded;
            if self.yielded {
                return Ok(Pause::Sliced);
            }
            let Some(document) = self.documents.pop_front() else { return Ok(Pause::End) };
            if sink(document.as_raw())? == Flow::Pause {
                return Ok(Pause::Stopped);
            }
        }
    }

    fn save(&mut self) {}
}

/// A slice of three steps.
struct Three(u32);

impl YieldPolicy for Three {
    fn should_yield(&mut self) -> bool {
        self.0 += 1;
        self.0.is_multiple_of(3)
    }
}

fn source(documents: &[Document]) -> Box<dyn DocumentSource> {
    Box::new(Hesitant { documents: documents.iter().map(Document::to_buf).collect(), yielded: false })
}

/// One foreign collection, `items`; other names are empty collections.
struct Items;

fn items() -> Vec<Document> {
    vec![
        doc! { "_id": 1, "sku": "a", "price": 5 },
        doc! { "_id": 2, "sku": "b", "price": 7 },
        doc! { "_id": 3, "sku": "a", "price": 9 },
        doc! { "_id": 4, "price": 1 },
    ]
}

impl ForeignCollections for Items {
    fn open(&self, read: ForeignRead<'_>) -> Result<Box<dyn DocumentSource>, QueryError> {
        let parsed = Matcher::parse(read.leading.filter.as_raw(), read.environment)?;
        let matcher = read.matcher.unwrap_or(parsed);
        let all = if read.collection == "items" { items() } else { Vec::new() };
        let mut found = Vec::new();
        for item in all {
            if matcher.matches(item.to_buf().as_raw())? {
                found.push(item);
            }
        }
        let found: Vec<Document> = found.into_iter().skip(read.leading.skip as usize).collect();
        Ok(source(&found))
    }
}

fn context() -> PipelineContext {
    PipelineContext { foreign: Some(Arc::new(Items)), ..PipelineContext::new(Environment::at(0)) }
}

fn parse(stages: &[Value]) -> Result<Pipeline, QueryError> {
    let stages = Value::Array(stages.to_vec().into());
    stages.with_raw(|raw| Pipeline::parse(raw.as_array().expect("an array"), &Environment::at(0)))
}

/// Runs a pipeline to its end. Every third document makes it pause: what is left must be held back.
fn drain(mut top: Box<dyn DocumentSource>) -> Result<Vec<Document>, QueryError> {
    let mut found = Vec::new();
    for _ in 0..1_000_000 {
        let mut paused = false;
        let pause = top.run(&mut Three(0), &mut |document| {
            assert!(!paused, "a document behind a pause");
            found.push(document.to_document());
            paused = found.len().is_multiple_of(3);
            Ok(if paused { Flow::Pause } else { Flow::More })
        })?;
        top.save();
        match pause {
            Pause::End => return Ok(found),
            Pause::Stopped => assert!(paused, "it stopped of itself"),
            Pause::Sliced => assert!(!paused, "the sink wanted it to stop"),
            Pause::WouldBlock => panic!("everything is in memory"),
        }
    }
    panic!("the pipeline does not end")
}

fn run(input: &[Document], stages: &[Value], context: &PipelineContext) -> Result<Vec<Document>, QueryError> {
    let pipeline = parse(stages)?;
    let source = match pipeline.source() {
        PipelineSource::Documents(documents) => {
            Box::new(super::MaterializedDocuments::new(Arc::clone(documents)))
        }
        _ => source(input),
    };
    drain(pipeline.open(source, context)?)
}

fn sales() -> Vec<Document> {
    vec![
        doc! { "_id": 1, "sku": "a", "n": 2, "tags": ["x", "y"] },
        doc! { "_id": 2, "sku": "b", "n": 10, "tags": [] },
        doc! { "_id": 3, "sku": "a", "n": 3.0, "tags": "z" },
        doc! { "_id": 4, "n": 1_i64 },
    ]
}

fn check(stages: Vec<Value>, expect: Vec<Value>) {
    let found =
        run(&sales(), &stages, &context()).map(|found| found.into_iter().map(Value::Document).collect());
    assert_eq!(found, Ok(expect), "{stages:?}");
}

fn check_error(stages: Vec<Value>, code: i32, wording: &str) {
    match run(&sales(), &stages, &context()) {
        Err(error) => {
            assert_eq!(error.code, code, "{stages:?} answers: {}", error.message);
            assert!(error.message.contains(wording), "{stages:?} answers: {}", error.message);
        }
        Ok(found) => panic!("{stages:?} should be refused, but yields {found:?}"),
    }
}

#[test]
fn filters_and_shapes() {
    check(
        array![{ "$match": { "n": { "$gt": 2 } } }, { "$project": { "n": 1 } }],
        array![{ "_id": 2, "n": 10 }, { "_id": 3, "n": 3.0 }],
    );
    check(
        array![{ "$limit": 1 }, { "$addFields": { "double": { "$multiply": ["$n", 2] }, "n": "$$REMOVE" } }],
        array![{ "_id": 1, "sku": "a", "tags": ["x", "y"], "double": 4 }],
    );
    check(
        array![{ "$limit": 1 }, { "$set": { "a.b": 1 } }, { "$unset": ["tags", "sku", "n"] }],
        array![{ "_id": 1, "a": { "b": 1 } }],
    );
    check(array![{ "$skip": 3 }, { "$replaceRoot": { "newRoot": { "k": "$n" } } }], array![{ "k": 1_i64 }]);
    check(array![{ "$skip": 3 }, { "$replaceWith": { "id": "$_id" } }], array![{ "id": 4 }]);
    check(array![{ "$count": "total" }], array![{ "total": 4 }]);
    check(array![{ "$match": { "_id": 9 } }, { "$count": "total" }], array![]);
    check(array![{ "$documents": [{ "x": { "$add": [1, 1] } }] }], array![{ "x": 2 }]);
    check_error(
        array![{ "$replaceWith": "$sku" }],
        40228,
        "resulting value was: \"a\". Type of resulting value: 'string'",
    );
}

#[test]
fn order_and_bounds() {
    check(
        array![{ "$sort": { "n": -1 } }, { "$limit": 2 }, { "$project": { "_id": 1 } }],
        array![{ "_id": 2 }, { "_id": 3 }],
    );
    check(
        array![{ "$sort": { "n": 1 } }, { "$skip": 1 }, { "$limit": 2 }, { "$project": { "_id": 1 } }],
        array![{ "_id": 1 }, { "_id": 3 }],
    );
    let sampled = run(&sales(), &array![{ "$sample": { "size": 3 } }], &context()).expect("a sample");
    let mut ids: Vec<Value> = sampled.iter().filter_map(|document| document.get("_id").cloned()).collect();
    ids.sort_by(Value::compare);
    ids.dedup();
    assert_eq!(ids.len(), 3, "a sample holds each document at most once: {sampled:?}");
}

#[test]
fn unwinding() {
    check(
        array![{ "$unwind": "$tags" }, { "$project": { "tags": 1 } }],
        array![{ "_id": 1, "tags": "x" }, { "_id": 1, "tags": "y" }, { "_id": 3, "tags": "z" }],
    );
    check(
        array![
            { "$unwind": { "path": "$tags", "includeArrayIndex": "at", "preserveNullAndEmptyArrays": true } },
            { "$project": { "tags": 1, "at": 1 } },
        ],
        array![
            { "_id": 1, "tags": "x", "at": 0_i64 },
            { "_id": 1, "tags": "y", "at": 1_i64 },
            { "_id": 2, "at": Value::Null },
            { "_id": 3, "tags": "z", "at": Value::Null },
            { "_id": 4, "at": Value::Null },
        ],
    );
    check_error(
        array![{ "$unwind": "tags" }],
        28818,
        "path option to $unwind stage should be prefixed with a '$': tags",
    );
}

/// `$group` by sku of one accumulator, sorted by key: the groups are null, "a" and "b".
fn check_group(accumulator: Document, expect: Vec<Value>) {
    let groups = [Value::Null, "a".into(), "b".into()].into_iter().zip(expect);
    let expect = groups.map(|(id, value)| Value::Document(doc! { "_id": id, "v": value })).collect();
    check(array![{ "$group": { "_id": "$sku", "v": accumulator } }, { "$sort": { "_id": 1 } }], expect);
}

#[test]
fn accumulators() {
    check_group(doc! { "$sum": "$n" }, array![1_i64, 5.0, 10]);
    check_group(doc! { "$sum": 1 }, array![1, 2, 1]);
    check_group(doc! { "$avg": "$n" }, array![1.0, 2.5, 10.0]);
    check_group(doc! { "$min": "$n" }, array![1_i64, 2, 10]);
    check_group(doc! { "$max": "$n" }, array![1_i64, 3.0, 10]);
    check_group(doc! { "$first": "$_id" }, array![4, 1, 2]);
    check_group(doc! { "$last": "$_id" }, array![4, 3, 2]);
    check_group(doc! { "$push": "$_id" }, array![[4], [1, 3], [2]]);
    check_group(doc! { "$push": "$sku" }, array![[], ["a", "a"], ["b"]]);
    check_group(doc! { "$addToSet": "$sku" }, array![[], ["a"], ["b"]]);
    check_group(doc! { "$mergeObjects": { "x": "$n" } }, array![{ "x": 1_i64 }, { "x": 3.0 }, { "x": 10 }]);
    check_group(doc! { "$count": {} }, array![1, 2, 1]);
    check_group(doc! { "$stdDevPop": "$n" }, array![0.0, 0.5, 0.0]);
    check_group(doc! { "$stdDevSamp": "$n" }, array![Value::Null, 0.5_f64.sqrt(), Value::Null]);
    check_group(doc! { "$firstN": { "input": "$_id", "n": 1 } }, array![[4], [1], [2]]);
    check_group(doc! { "$lastN": { "input": "$_id", "n": 1 } }, array![[4], [3], [2]]);
    check_group(doc! { "$minN": { "input": "$n", "n": 2 } }, array![[1_i64], [2, 3.0], [10]]);
    check_group(doc! { "$maxN": { "input": "$n", "n": 2 } }, array![[1_i64], [3.0, 2], [10]]);
    check_group(doc! { "$top": { "sortBy": { "n": -1 }, "output": "$_id" } }, array![4, 3, 2]);
    check_group(
        doc! { "$topN": { "sortBy": { "n": -1 }, "output": "$_id", "n": 2 } },
        array![[4], [3, 1], [2]],
    );
    check_group(doc! { "$bottom": { "sortBy": { "n": -1 }, "output": "$_id" } }, array![4, 1, 2]);
    check_group(
        doc! { "$bottomN": { "sortBy": { "n": -1 }, "output": "$_id", "n": 2 } },
        array![[4], [3, 1], [2]],
    );
    check_error(
        array![{ "$group": { "_id": 1, "v": { "$foo": 1 } } }],
        15952,
        "unknown group operator '$foo'",
    );
    check_error(
        array![{ "$group": { "_id": 1, "v": 1 } }],
        40234,
        "The field 'v' must be an accumulator object",
    );
    check_error(
        array![{ "$group": { "v": { "$sum": 1 } } }],
        15955,
        "a group specification must include an _id",
    );
    check_error(
        array![{ "$group": { "_id": 1, "v": { "$sum": [1, 2] } } }],
        40237,
        "The $sum accumulator is a unary operator",
    );
}

#[test]
fn numerically_equal_keys_are_one_group() {
    let input = [doc! { "k": 1 }, doc! { "k": 1.0 }, doc! { "k": 1_i64 }, doc! { "k": "1" }];
    let stages = array![{ "$group": { "_id": "$k", "n": { "$count": {} } } }];
    let found = run(&input, &stages, &context());
    assert_eq!(found, Ok(vec![doc! { "_id": 1, "n": 3 }, doc! { "_id": "1", "n": 1 }]));
}

#[test]
fn buckets() {
    check(array![{ "$sortByCount": "$sku" }, { "$limit": 1 }], array![{ "_id": "a", "count": 2 }]);
    check(
        array![
            { "$bucket": { "groupBy": "$n", "boundaries": [0, 3, 5], "default": "more",
                "output": { "ids": { "$push": "$_id" } } } }
        ],
        array![{ "_id": 0, "ids": [1, 4] }, { "_id": 3, "ids": [3] }, { "_id": "more", "ids": [2] }],
    );
    check(
        array![{ "$bucketAuto": { "groupBy": "$n", "buckets": 2 } }],
        array![
            { "_id": { "min": 1_i64, "max": 3.0 }, "count": 2 },
            { "_id": { "min": 3.0, "max": 10 }, "count": 2 }
        ],
    );
    check_error(
        array![{ "$bucket": { "groupBy": "$n", "boundaries": [3, 1] } }],
        40194,
        "must be sorted in ascending order",
    );
}

#[test]
fn foreign_collections() {
    check(
        array![
            { "$match": { "_id": { "$gte": 3 } } },
            { "$lookup": { "from": "items", "localField": "sku", "foreignField": "sku", "as": "found" } },
            { "$project": { "found._id": 1 } },
        ],
        array![{ "_id": 3, "found": [{ "_id": 1 }, { "_id": 3 }] }, { "_id": 4, "found": [{ "_id": 4 }] }],
    );
    check(
        array![
            { "$limit": 1 },
            { "$lookup": {
                "from": "items", "let": { "s": "$sku", "n": "$n" }, "as": "found",
                "pipeline": [
                    { "$match": { "$expr": { "$eq": ["$sku", "$$s"] } } },
                    { "$project": { "_id": 0, "total": { "$multiply": ["$price", "$$n"] } } },
                ],
            } },
            { "$project": { "found": 1 } },
        ],
        array![{ "_id": 1, "found": [{ "total": 10 }, { "total": 18 }] }],
    );
    check(
        array![
            { "$limit": 2 },
            { "$lookup": { "from": "items", "pipeline": [{ "$count": "n" }], "as": "a.b" } },
            { "$project": { "a": 1 } },
        ],
        array![{ "_id": 1, "a": { "b": [{ "n": 4 }] } }, { "_id": 2, "a": { "b": [{ "n": 4 }] } }],
    );
    check(
        array![
            { "$project": { "_id": 1 } }, { "$skip": 3 },
            { "$unionWith": { "coll": "items", "pipeline": [{ "$match": { "sku": "b" } }] } }
        ],
        array![{ "_id": 4 }, { "_id": 2, "sku": "b", "price": 7 }],
    );
    check_error(
        array![{ "$lookup": { "from": "items", "as": "x" } }],
        9,
        "requires either 'pipeline' or both 'localField' and 'foreignField'",
    );
    let pipeline = parse(&array![{ "$unionWith": "items" }]).expect("a pipeline");
    assert_eq!(pipeline.foreign_collections(), [(None, "items".to_owned())]);
}

#[test]
fn facets() {
    check(
        array![{ "$facet": {
            "count": [{ "$count": "n" }],
            "first": [{ "$limit": 1 }, { "$project": { "_id": 1 } }],
            "sum": [{ "$group": { "_id": Value::Null, "total": { "$sum": "$n" } } }],
        } }],
        array![
            { "count": [{ "n": 4 }], "first": [{ "_id": 1 }], "sum": [{ "_id": Value::Null, "total": 16.0 }] }
        ],
    );
    check_error(
        array![{ "$facet": { "a": [{ "$facet": {} }] } }],
        40600,
        "$facet is not allowed to be used within a $facet stage",
    );
}

#[test]
fn redaction() {
    let input = [doc! {
        "level": 1, "open": { "level": 1, "x": 1 }, "closed": { "level": 5 },
        "list": [{ "level": 5 }, { "level": 0 }, 3]
    }];
    let stages = array![{ "$redact": { "$cond": [{ "$lte": ["$level", 3] }, "$$DESCEND", "$$PRUNE"] } }];
    let found = run(&input, &stages, &context());
    assert_eq!(
        found,
        Ok(vec![doc! { "level": 1, "open": { "level": 1, "x": 1 }, "list": [{ "level": 0 }, 3] }])
    );
}

#[test]
fn outputs() {
    let merge = array![
        { "$merge": { "into": { "db": "d", "coll": "c" }, "on": ["a", "b"], "whenMatched": "replace" } }
    ];
    match parse(&merge).expect("a pipeline").output() {
        Some(OutputStage::Merge { into, on, when_matched, .. }) => {
            assert_eq!((into.database.as_deref(), into.collection.as_str()), (Some("d"), "c"));
            assert_eq!(on, &["a", "b"]);
            assert_eq!(when_matched, &WhenMatched::Replace);
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        parse(&array![{ "$out": "c" }]).expect("a pipeline").output(),
        Some(OutputStage::Out(_))
    ));
    check_error(
        array![{ "$out": "c" }, { "$limit": 1 }],
        40601,
        "$out can only be the final stage in the pipeline",
    );
}

#[test]
fn what_merge_refuses() {
    let check = |options: Document, code: i32, message: &str| {
        let mut merge = doc! { "into": "c" };
        for (name, value) in options {
            merge.insert(name, value);
        }
        check_error(array![{ "$merge": merge }], code, message);
    };
    for mode in ["replace", "keepExisting", "merge", "fail"] {
        let message = format!("Cannot use 'let' variables with 'whenMatched: {mode}' mode");
        check(doc! { "let": { "x": 1 }, "whenMatched": mode }, 51199, &message);
    }
    check(doc! { "let": {} }, 51199, "Cannot use 'let' variables with 'whenMatched: merge' mode");
    check(doc! { "let": 1 }, 14, "BSON field '$merge.let' is the wrong type 'int', expected type 'object'");
    check(
        doc! { "into": 1 },
        51178,
        "$merge 'into' field must be either a string or an object, but found int",
    );
    check(
        doc! { "on": 1 },
        51186,
        "$merge 'on' field must be either a string or an array of strings, but found int",
    );
    check(
        doc! { "whenMatched": 1 },
        51191,
        "$merge 'whenMatched' field must be either a string or an array, but found int",
    );
    check(
        doc! { "whenNotMatched": 1 },
        14,
        "BSON field '$merge.whenNotMatched' is the wrong type 'int', expected type 'string'",
    );
    let nothing = doc! { "into": "c", "let": (Value::Null), "whenNotMatched": (Value::Null) };
    assert!(parse(&array![{ "$merge": nothing }]).is_ok(), "null stands for a missing option");
    let pipeline = doc! { "into": "c", "let": { "x": "$a" }, "whenMatched": [{ "$set": { "y": "$$x" } }] };
    assert!(parse(&array![{ "$merge": pipeline }]).is_ok());
}

#[test]
fn grammar() {
    check_error(
        array![{ "$changeStream": {} }],
        40573,
        "The $changeStream stage is only supported on replica sets",
    );
    check_error(array![{ "$foo": 1 }], 40324, "Unrecognized pipeline stage name: '$foo'");
    check_error(array![1], 14, "Each element of the 'pipeline' array must be an object");
    check_error(array![{ "$limit": 1, "$skip": 1 }], 40323, "must contain exactly one field");
    check_error(array![{ "$limit": 0 }], 15958, "the limit must be positive");
    check_error(array![{ "$skip": -1 }], 5107200, "Expected a non-negative number in: $skip: -1");
    check_error(array![{ "$count": "" }], 40157, "the count field must be a non-empty string");
    check_error(
        array![{ "$limit": 1 }, { "$indexStats": {} }],
        40602,
        "$indexStats is only valid as the first stage in a pipeline.",
    );
    check_error(array![{ "$project": {} }], 51272, "Invalid $project :: caused by :: ");
    for entry in stage_entries() {
        assert!(entry.documentation.len() > 10, "{} has no documentation", entry.name);
    }
}

#[test]
fn the_front_goes_to_the_planner() {
    let mut pipeline = parse(&array![
        { "$sort": { "a": 1 } }, { "$match": { "x": 1 } }, { "$match": { "y": 2 } }, { "$skip": 5 },
        { "$limit": 10 }, { "$project": { "a": 1, "_id": 0 } },
    ])
    .expect("a pipeline");
    let leading = pipeline.take_leading();
    assert_eq!(leading.filter.as_raw().to_document(), doc! { "$and": [{ "x": 1 }, { "y": 2 }] });
    assert_eq!(leading.sort.map(|sort| sort.to_spec().as_raw().to_document()), Some(doc! { "a": 1 }));
    assert_eq!((leading.skip, leading.limit), (5, Some(10)));
    assert_eq!(pipeline.needed_fields(), Some(vec!["a".to_owned()]));
    assert!(!pipeline.is_empty());
    let pipeline =
        parse(&array![{ "$unwind": "$t" }, { "$group": { "_id": "$k.a", "n": { "$sum": "$n" } } }]);
    let needed = pipeline.expect("a pipeline").needed_fields();
    assert_eq!(needed, Some(vec!["t".to_owned(), "k.a".to_owned(), "n".to_owned()]));
}

fn many() -> Vec<Document> {
    (0..2000).map(|number| doc! { "_id": number, "k": number % 500, "pad": "x".repeat(50) }).collect()
}

#[test]
fn blocking_stages_refuse_or_spill_beyond_their_memory() {
    let group = array![
        { "$group": { "_id": "$k", "n": { "$sum": 1 }, "last": { "$last": "$_id" } } },
        { "$sort": { "_id": 1 } }
    ];
    let small = PipelineContext { memory_bytes: 20_000, ..context() };
    for stages in [group.clone(), array![{ "$sort": { "pad": 1 } }]] {
        let refused = run(&many(), &stages, &small).map_err(|error| error.code);
        assert_eq!(refused, Err(292), "{stages:?}");
    }
    let shelf = Shelf::default();
    let spilling = PipelineContext { spill: Some(Arc::new(shelf.clone())), ..small };
    let in_memory = run(&many(), &group, &context());
    assert_eq!(run(&many(), &group, &spilling), in_memory);
    assert!(shelf.figures().written > 0, "nothing was spilled");
    assert_eq!(in_memory.map(|groups| groups.len()), Ok(500));
}

#[test]
fn a_lookup_of_a_regular_expression_equals_it() {
    let regex = Value::regex("a", "");
    let input = [doc! { "sku": [regex] }];
    let stages =
        array![{ "$lookup": { "from": "items", "localField": "sku", "foreignField": "sku", "as": "found" } }];
    let found = run(&input, &stages, &context()).expect("a result");
    assert_eq!(
        found.first().and_then(|document| document.get("found")),
        Some(&Value::Array(document::Array::new()))
    );
}

#[test]
fn the_front_counts_the_stages_that_were_written() {
    let check = |names: &[&str], expect: usize| {
        let stage = |name: &&str| -> Value {
            let operand = match *name {
                "$match" => doc! { "a": 1 }.into(),
                "$sort" => doc! { "a": 1 }.into(),
                "$project" => doc! { "a": 1 }.into(),
                "$sortByCount" => "$a".into(),
                _ => Value::Int32(3),
            };
            std::iter::once((*name, operand)).collect::<Document>().into()
        };
        let stages: Vec<Value> = names.iter().map(stage).collect();
        let mut pipeline = parse(&stages).expect("a pipeline");
        assert_eq!(pipeline.take_leading().written_stages, expect, "{names:?}");
    };
    check(&[], 0);
    check(&["$sortByCount", "$match"], 0);
    check(&["$match", "$sort", "$match", "$skip", "$limit", "$project"], 5);
    check(&["$match", "$sort", "$match", "$skip", "$skip", "$limit", "$limit", "$project"], 7);
    check(&["$skip", "$match"], 1);
    check(&["$sort", "$sort"], 1);
    check(&["$limit", "$skip"], 1);
}
