//! Requests in which one part of what is sent meets another.

use crate::operands::{array, documents, fields, int, nested, numbers};
use crate::shapes::{COLLECTION, Shape, aggregate, update};
use document::{Document, Value, doc};

fn shape(name: &str, command: Document) -> Shape {
    Shape { name: name.to_owned(), command, sequence: None }
}

fn texts(length: usize, text: impl Fn(usize) -> String) -> Value {
    array(length, |number| text(number).into())
}

fn range(length: usize) -> Document {
    doc! { "$range": [0, (length as i32)] }
}

pub(crate) fn all(length: usize) -> Vec<Shape> {
    [of_reads(length), of_plans(length), of_loops(length), of_writes(length), of_lists(length)]
        .into_iter()
        .flatten()
        .collect()
}

fn of_reads(length: usize) -> Vec<Shape> {
    let branches = || array(length, |number| doc! { (format!("f{number}")): -1 }.into());
    let find = |name: &str, filter: Document| shape(name, doc! { "find": COLLECTION, "filter": filter });
    vec![
        find("$or of fields", doc! { "$or": (branches()) }),
        find("$nor of fields", doc! { "$nor": (branches()) }),
        find(
            "$and of fields that are there",
            doc! {
                "$and": (array(length, |number| doc! { (format!("f{number}")): (number as i32) }.into()))
            },
        ),
        find("$or in $elemMatch", doc! { "items": { "$elemMatch": { "$or": (branches()) } } }),
        find("$all of numbers", doc! { "list": { "$all": (numbers(length)) } }),
        find("$in of numbers in a list", doc! { "list": { "$in": (numbers(length)) } }),
        find("$expr with $in", doc! { "$expr": { "$in": [-1, (numbers(length))] } }),
        find("$expr with $or", doc! { "$expr": { "$or": (texts(length, |number| format!("$g{number}"))) } }),
        find(
            "$jsonSchema with required",
            doc! { "$jsonSchema": { "required": (texts(length, |number| format!("f{number}"))) } },
        ),
        find(
            "$jsonSchema with properties",
            doc! {
                "$jsonSchema": { "properties": (fields("f", length, |_| doc! { "bsonType": "int" }.into())),
                    "additionalProperties": false }
            },
        ),
        find(
            "$jsonSchema with enum",
            doc! { "$jsonSchema": { "properties": { "a": { "enum": (numbers(length)) } } } },
        ),
        find(
            "$jsonSchema within itself",
            nested("properties", 40, doc! { "a": {} }.into())
                .as_document()
                .map(|deep| doc! { "$jsonSchema": (deep.clone()) })
                .unwrap_or_default(),
        ),
        shape(
            "a projection of fields",
            doc! { "find": COLLECTION, "projection": (fields("f", length, |_| int(1))) },
        ),
        shape(
            "a projection without fields",
            doc! { "find": COLLECTION, "projection": (fields("f", length, |_| int(0))) },
        ),
        shape(
            "a projection of expressions",
            doc! {
                "find": COLLECTION, "projection": (fields("f", length, |number| format!("$g{number}").into()))
            },
        ),
        shape(
            "a projection with $elemMatch",
            doc! {
                "find": COLLECTION, "projection": (fields("f", length,
                    |_| doc! { "$elemMatch": { "a": 1 } }.into()))
            },
        ),
        shape(
            "let and its uses",
            doc! {
                "find": COLLECTION, "let": (fields("v", length, int)),
                "filter": { "$expr": { "$or": (texts(length, |number| format!("$$v{number}.x"))) } }
            },
        ),
    ]
}

/// On the collection `indexed`, which has indexes on a, on b and c, and a partial one.
fn of_plans(length: usize) -> Vec<Shape> {
    let explain = |name: &str, filter: Document| {
        shape(name, doc! { "explain": { "find": "indexed", "filter": filter }, "verbosity": "queryPlanner" })
    };
    let or = |branch: fn(usize) -> Document| array(length, |number| branch(number).into());
    let deep =
        |operator: &str| (0..60).fold(doc! { "a": 1 }, |inner, _| doc! { (operator): [inner, { "b": 1 }] });
    vec![
        explain("plan of $or on one field", doc! { "$or": (or(|number| doc! { "a": (number as i32) })) }),
        explain(
            "plan of $or on two fields",
            doc! { "$or": (or(|number| doc! { "b": (number as i32), "c": 1 })), "a": { "$gt": 5 } },
        ),
        explain(
            "plan of $and of $ne",
            doc! { "$and": (or(|number| doc! { "a": { "$ne": (number as i32) } })) },
        ),
        explain(
            "plan of $and of $or",
            doc! { "$and": (or(|number| doc! { "$or": [{ "a": (number as i32) }, { "z": 1 }] })) },
        ),
        explain(
            "plan of $or beside many",
            doc! {
                "$or": (or(|number| doc! { "b": (number as i32) })),
                "$and": (or(|number| doc! { "z": { "$ne": (number as i32) } }))
            },
        ),
        explain("plan of $nor", doc! { "$nor": (or(|number| doc! { "a": (number as i32) })) }),
        explain(
            "plan of $in and $nin",
            doc! { "a": { "$in": (numbers(length)), "$nin": (numbers(length)) } },
        ),
        explain("plan of deep $and", deep("$and")),
        explain("plan of deep $or", deep("$or")),
        shape("a hint of fields", doc! { "find": "indexed", "hint": (fields("f", length, |_| int(1))) }),
    ]
}

/// Loops within loops: they end by their time limit.
fn of_loops(length: usize) -> Vec<Shape> {
    let compute = |name: &str, expression: Document| {
        shape(
            name,
            aggregate(vec![doc! { "$limit": 1 }.into(), doc! { "$project": { "x": expression } }.into()]),
        )
    };
    let map = |inner: Value| doc! { "$map": { "input": (range(length)), "in": inner } };
    vec![
        compute("$map in $map in $map", map(map(map("$$this".into()).into()).into())),
        compute(
            "$filter in $map",
            map(doc! {
                "$size": { "$filter": { "input": (range(length)), "cond": { "$gt": ["$$this", 5] } } }
            }
            .into()),
        ),
        compute("$in in $map", map(doc! { "$in": [-1, (numbers(length))] }.into())),
        compute(
            "$reduce that concatenates",
            doc! {
                "$reduce": { "input": (range(length)), "initialValue": [],
                    "in": { "$concatArrays": ["$$value", ["$$this"]] } }
            },
        ),
        compute(
            "$reduce that joins text",
            doc! {
                "$reduce": { "input": (range(length)), "initialValue": "",
                    "in": { "$concat": ["$$value", "xxxxxxxx"] } }
            },
        ),
        compute(
            "$reduce that merges objects",
            doc! {
                "$reduce": { "input": (range(length)), "initialValue": {},
                    "in": { "$mergeObjects": ["$$value",
                        { "$arrayToObject": [[[{ "$toString": "$$this" }, 1]]] }] } }
            },
        ),
        compute("$setUnion of two", doc! { "$setUnion": [(numbers(length)), (range(length))] }),
        compute("$setDifference of two", doc! { "$setDifference": [(range(length)), (numbers(length))] }),
        compute(
            "$setEquals of many",
            doc! { "$setEquals": (array(length / 10, |_| Value::from(vec![int(1)]))) },
        ),
        compute("$zip", doc! { "$zip": { "inputs": (array(length / 10, |_| Value::from(vec![int(1)]))) } }),
        compute(
            "$switch",
            doc! {
                "$switch": { "branches": (array(length,
                    |_| doc! { "case": { "$eq": ["$a", -1] }, "then": 1 }.into())), "default": 0 }
            },
        ),
        compute(
            "$let",
            doc! {
                "$let": { "vars": (fields("v", length, int)),
                    "in": (texts(length, |number| format!("$$v{number}"))) }
            },
        ),
        compute(
            "$indexOfCP of repeated text",
            doc! { "$indexOfCP": [("a".repeat(length * 8)), (format!("{}b", "a".repeat(length * 4)))] },
        ),
        compute(
            "$replaceAll",
            doc! {
                "$replaceAll": { "input": ("a".repeat(length * 8)), "find": "a", "replacement": "bb" }
            },
        ),
        compute(
            "$regexMatch with look-ahead",
            doc! { "$regexMatch": { "input": ("a".repeat(length)), "regex": "(?=(a+))\\1b" } },
        ),
        compute(
            "$sortArray by many fields",
            doc! { "$sortArray": { "input": (documents(length)), "sortBy": (fields("f", 30, |_| int(1))) } },
        ),
        shape(
            "$unwind in $unwind",
            aggregate(vec![
                doc! { "$unwind": "$list" }.into(),
                doc! { "$set": { "again": (range(1000)) } }.into(),
                doc! { "$unwind": "$again" }.into(),
                doc! { "$match": { "list": -1 } }.into(),
            ]),
        ),
        shape(
            "$lookup with let",
            aggregate(vec![
                doc! {
                    "$lookup": { "from": COLLECTION, "let": (fields("v", length, int)),
                        "pipeline": [{ "$match": { "$expr": { "$eq": ["$$v1", "$$v2"] } } }], "as": "x" }
                }
                .into(),
            ]),
        ),
        shape(
            "$group of fields",
            aggregate(vec![
                doc! {
                    "$group": (fields("f", length, |number| doc! { "$sum": (format!("$f{number}")) }.into()))
                }
                .into(),
            ]),
        ),
        shape(
            "$group by an object",
            aggregate(vec![
                doc! {
                    "$group": { "_id": (fields("f", length, |number| format!("$f{number}").into())) }
                }
                .into(),
            ]),
        ),
        shape(
            "$facet",
            aggregate(vec![doc! {
            "$facet": (fields("f", length / 100, |_| Value::from(vec![doc! { "$count": "n" }.into()])))
        }.into()]),
        ),
        shape(
            "$addFields of paths",
            aggregate(vec![doc! { "$addFields": (fields("a.f", length, int)) }.into()]),
        ),
        shape(
            "$unset of paths",
            aggregate(vec![
                doc! {
                    "$unset": (texts(length, |number| format!("f{number}")))
                }
                .into(),
            ]),
        ),
    ]
}

fn of_writes(length: usize) -> Vec<Shape> {
    let set = || doc! { "$set": { "x": 1 } };
    let statements = |q: fn(usize) -> Document| -> Vec<Document> {
        (0..length).map(|number| doc! { "q": (q(number)), "u": (set()) }).collect()
    };
    let in_body = |list: Vec<Document>| Value::Array(list.into_iter().map(Value::Document).collect());
    let filtered = |count: usize| {
        let filters: Vec<Value> =
            (0..count).map(|number| doc! { (format!("i{number}")): 1 }.into()).collect();
        let paths = (0..count).map(|number| (format!("list.$[i{number}]"), int(1))).collect::<Document>();
        doc! {
            "update": COLLECTION, "updates": [{ "q": { "_id": 0 }, "u": { "$set": paths },
                "arrayFilters": filters }]
        }
    };
    vec![
        shape(
            "updates",
            doc! { "update": COLLECTION, "updates": (in_body(statements(|_| doc! { "_id": -1 }))) },
        ),
        shape(
            "updates that fail",
            doc! {
                "update": COLLECTION, "ordered": false,
                "updates": (in_body(statements(|_| doc! { "_id": { "$nonsense": 1 } })))
            },
        ),
        Shape {
            name: "updates as a sequence".to_owned(),
            command: doc! { "update": COLLECTION },
            sequence: Some(("updates", statements(|_| doc! { "_id": -1 }))),
        },
        shape(
            "deletes",
            doc! {
                "delete": COLLECTION, "deletes": (array(length,
                    |_| doc! { "q": { "_id": -1 }, "limit": 1 }.into()))
            },
        ),
        Shape {
            name: "documents as a sequence".to_owned(),
            command: doc! { "insert": "sink" },
            sequence: Some(("documents", (0..length).map(|number| doc! { "x": (number as i32) }).collect())),
        },
        shape(
            "documents of one _id",
            doc! {
                "insert": "sink", "ordered": false, "documents": (array(length, |_| doc! { "_id": 1 }.into()))
            },
        ),
        shape("$set of fields", update(doc! { "$set": (fields("f", length, int)) })),
        shape("$set of paths", update(doc! { "$set": (fields("sub.f", length, int)) })),
        shape("$set of positions", update(doc! { "$set": (fields("list.", length, int)) })),
        shape("$unset of fields", update(doc! { "$unset": (fields("f", length, int)) })),
        shape(
            "$rename of fields",
            update(doc! { "$rename": (fields("f", length, |number| format!("g{number}").into())) }),
        ),
        shape(
            "$rename back",
            update(doc! { "$rename": (fields("g", length, |number| format!("f{number}").into())) }),
        ),
        shape(
            "$addToSet with each",
            update(doc! { "$addToSet": { "list": { "$each": (numbers(length)) } } }),
        ),
        shape("$pull of $in", update(doc! { "$pull": { "items": { "a": { "$in": (numbers(length)) } } } })),
        shape("$pullAll", update(doc! { "$pullAll": { "none": (numbers(length)) } })),
        shape(
            "$push with each and sort",
            update(doc! { "$push": { "list": { "$each": (numbers(length)), "$sort": 1, "$slice": 1000 } } }),
        ),
        shape(
            "$push at the front",
            update(doc! { "$push": { "list": { "$each": (numbers(length)), "$position": 0 } } }),
        ),
        shape("arrayFilters", filtered(length.min(1000))),
        shape(
            "an upsert of fields",
            doc! {
                "update": "sink", "updates": [{ "q": (fields("f", length, int)), "u": (set()),
                    "upsert": true }]
            },
        ),
        shape(
            "an upsert of paths",
            doc! {
                "update": "sink", "updates": [{ "q": (fields("a.f", length, int)), "u": (set()),
                    "upsert": true }]
            },
        ),
        shape(
            "a pipeline update",
            doc! {
                "update": COLLECTION, "updates": [{ "q": { "_id": 0 },
                    "u": [{ "$set": (fields("f", length, |number| format!("$f{number}").into())) }] }]
            },
        ),
        shape(
            "constants",
            doc! {
                "update": COLLECTION, "updates": [{ "q": { "_id": -1 }, "u": [{ "$set": { "x": "$$v1" } }],
                    "c": (fields("v", length, int)) }], "let": (fields("v", length, int))
            },
        ),
    ]
}

fn of_lists(length: usize) -> Vec<Shape> {
    let sessions = || {
        array(length, |number| {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&(number as u64).to_le_bytes());
            doc! { "id": (Value::binary(4, id.to_vec())) }.into()
        })
    };
    vec![
        shape(
            "killCursors of very many",
            doc! {
                "killCursors": COLLECTION, "cursors": (array(length, |number| Value::Int64(number as i64)))
            },
        ),
        shape("endSessions of very many", doc! { "endSessions": (sessions()) }),
        shape("killSessions of very many", doc! { "killSessions": (sessions()) }),
        shape("refreshSessions of very many", doc! { "refreshSessions": (sessions()) }),
        shape(
            "createIndexes of very many",
            doc! {
                "createIndexes": "sink", "indexes": (array(length,
                    |number| doc! {
                        "key": { (format!("f{number}")): 1 }, "name": (format!("f{number}"))
                    }.into()))
            },
        ),
        shape(
            "an index of very many fields",
            doc! {
                "createIndexes": "sink", "indexes": [{ "key": (fields("f", length, |_| int(1))),
                    "name": "x" }]
            },
        ),
        shape(
            "dropIndexes of very many",
            doc! { "dropIndexes": "indexed", "index": (texts(length, |number| format!("n{number}"))) },
        ),
        shape("distinct values", doc! { "distinct": COLLECTION, "key": "list" }),
        shape(
            "a view of a thousand stages",
            doc! {
                "create": "view", "viewOn": COLLECTION,
                "pipeline": (array(1000, |_| doc! { "$match": { "a": 1 } }.into()))
            },
        ),
        shape(
            "$currentOp and a loop",
            doc! {
                "aggregate": 1, "cursor": {}, "$db": "admin",
                "pipeline": [{ "$currentOp": {} },
                    { "$project": { "x": { "$reduce": { "input": { "$range": [0, 6000000] },
                        "initialValue": 0, "in": { "$add": ["$$value", 1] } } } } }]
            },
        ),
    ]
}
