//! Requests made of every name that the tables know and of every operand, and those that take more than a
//! name.

use crate::operands::{self, Operand, array, fields, int, nested, numbers};
use commands::DataNode;
use dispatch::command::CommandTable;
use document::{Document, Value, doc};
use query::aggregate::{accumulator_names, stage_entries};
use query::expression::{Arity, operators};
use query::matcher::{field_operators, top_operators};
use query::update::operator_names;

/// The database and the collections that the requests are about.
pub(crate) const DATABASE: &str = "hostile";
pub(crate) const COLLECTION: &str = "c";

/// How long a request may run by its own will, in milliseconds.
pub(crate) const MAX_TIME_MS: i32 = 300;

/// One request.
pub(crate) struct Shape {
    pub(crate) name: String,
    pub(crate) command: Document,
    /// A document sequence beside the body.
    pub(crate) sequence: Option<(&'static str, Vec<Document>)>,
}

impl Shape {
    fn new(name: String, command: Document) -> Self {
        Shape { name, command, sequence: None }
    }
}

/// Adds the database and the time limit.
fn finished(mut shape: Shape) -> Shape {
    if !shape.command.contains("$db") {
        let admin = shape.command.first().is_some_and(|(name, _)| {
            CommandTable::<DataNode>::of_node().iter().any(|entry| entry.name == name && entry.admin_only)
        });
        shape.command.push("$db", if admin { "admin" } else { DATABASE });
    }
    shape.command.push("maxTimeMS", MAX_TIME_MS);
    shape
}

/// What ends the server, or the test's own operations, when it is asked for.
const TAKES_EFFECT: [&str; 3] = ["shutdown", "killAllSessions", "killAllSessionsByPattern"];

/// Options whose values are trees, by command. Those of the other commands are covered by sending unknown
/// ones.
const OPTIONS: &[(&str, &[&str])] = &[
    (
        "aggregate",
        &["pipeline", "cursor", "let", "hint", "collation", "comment", "readConcern", "writeConcern"],
    ),
    ("collMod", &["index", "validator", "pipeline"]),
    ("count", &["query", "hint", "collation", "limit"]),
    (
        "create",
        &["validator", "pipeline", "clusteredIndex", "storageEngine", "collation", "indexOptionDefaults"],
    ),
    ("createIndexes", &["indexes", "commitQuorum"]),
    ("delete", &["deletes", "let"]),
    ("distinct", &["key", "query", "hint", "collation"]),
    ("dropIndexes", &["index"]),
    ("endSessions", &["endSessions"]),
    (
        "find",
        &[
            "filter",
            "projection",
            "sort",
            "hint",
            "min",
            "max",
            "let",
            "collation",
            "lsid",
            "$readPreference",
        ],
    ),
    ("findAndModify", &["query", "update", "fields", "sort", "arrayFilters", "let", "hint"]),
    ("getMore", &["collection", "lastKnownCommittedOpTime"]),
    ("hello", &["client", "compression", "topologyVersion", "saslSupportedMechs"]),
    ("insert", &["documents"]),
    ("killCursors", &["cursors"]),
    ("listCollections", &["filter", "cursor"]),
    ("listDatabases", &["filter"]),
    ("serverStatus", &["metrics", "tcmalloc"]),
    ("update", &["updates", "let"]),
];

/// Every request, with operands of about `length` elements; those that are made of a name and an operand,
/// which are thousands, with fewer.
pub(crate) fn all(length: usize) -> Vec<Shape> {
    let few = length * 2 / 5;
    let operands = operands::all(few);
    let families = [
        of_commands(few),
        of_options(&operands),
        of_filters(&operands),
        of_expressions(&operands),
        of_accumulators(&operands),
        of_stages(&operands),
        of_updates(&operands),
        crate::combined::all(length),
    ];
    families.into_iter().flatten().map(finished).collect()
}

fn of_commands(length: usize) -> Vec<Shape> {
    let mut shapes = Vec::new();
    let (operands, names) = (operands::few(length), fields("f", length, int));
    for entry in CommandTable::<DataNode>::of_node().iter() {
        let mut many = doc! { (entry.name): 1 };
        many.extend(names.clone());
        shapes.push(Shape::new(format!("{} with very many fields", entry.name), many));
        if TAKES_EFFECT.contains(&entry.name) {
            continue;
        }
        for operand in &operands {
            let command = doc! { (entry.name): (operand.value.clone()) };
            shapes.push(Shape::new(format!("{} of {}", entry.name, operand.name), command));
        }
    }
    shapes
}

/// What a command needs beside the option that is tried.
fn needed(command: &str, option: &str) -> Document {
    let target: Value = match command {
        "getMore" => Value::Int64(7),
        // The other requests are not to meet a validator.
        "collMod" | "createIndexes" | "dropIndexes" => "sink".into(),
        _ => COLLECTION.into(),
    };
    let mut needed = doc! { (command): target };
    let further = match command {
        "aggregate" => doc! { "pipeline": [], "cursor": {} },
        "collMod" => doc! {},
        "create" => doc! { "viewOn": COLLECTION },
        "distinct" => doc! { "key": "a" },
        "findAndModify" => doc! { "update": { "$set": { "x": 1 } } },
        "getMore" => doc! { "collection": COLLECTION },
        "delete" => doc! { "deletes": [{ "q": { "_id": -1 }, "limit": 1 }] },
        "update" => doc! { "updates": [{ "q": { "_id": -1 }, "u": { "$set": { "x": 1 } } }] },
        _ => doc! {},
    };
    needed.extend(
        further
            .into_iter()
            .filter(|(name, _)| name != option && !(option == "validator" && name == "viewOn")),
    );
    needed
}

fn of_options(operands: &[Operand]) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for (command, options) in OPTIONS {
        for option in *options {
            for operand in operands {
                let mut request = needed(command, option);
                request.insert(*option, operand.value.clone());
                shapes.push(Shape::new(format!("{command}.{option} of {}", operand.name), request));
            }
        }
    }
    shapes
}

fn find(filter: Document) -> Document {
    doc! { "find": COLLECTION, "filter": filter }
}

fn of_filters(operands: &[Operand]) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for operator in field_operators() {
        let name = operator.name;
        for Operand { name: operand, value } in operands {
            let filter = doc! { "list": { name: (value.clone()) } };
            shapes.push(Shape::new(format!("filter {name} of {operand}"), find(filter)));
        }
        let again: Document = (0..2000).map(|number| (name, int(number))).collect();
        shapes.push(Shape::new(format!("filter {name} again and again"), find(doc! { "list": again })));
        let deep = doc! { "list": (nested(name, 90, int(1))) };
        shapes.push(Shape::new(format!("filter {name} of itself"), find(deep)));
    }
    for operator in top_operators() {
        let name = operator.name;
        for Operand { name: operand, value } in operands {
            shapes.push(Shape::new(
                format!("filter {name} of {operand}"),
                find(doc! { name: (value.clone()) }),
            ));
        }
        let deep = (0..60).fold(doc! { "a": 1 }, |inner, _| doc! { name: [inner, { "b": 1 }] });
        shapes.push(Shape::new(format!("filter {name} of itself"), find(deep)));
    }
    shapes
}

pub(crate) fn aggregate(stages: Vec<Value>) -> Document {
    doc! { "aggregate": COLLECTION, "pipeline": stages, "cursor": {} }
}

fn compute(expression: Document) -> Document {
    let stages = vec![doc! { "$limit": 1 }.into(), doc! { "$project": { "x": expression } }.into()];
    aggregate(stages)
}

fn of_expressions(operands: &[Operand]) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for operator in operators() {
        let name = operator.name;
        for Operand { name: operand, value } in operands {
            let command = compute(doc! { name: (value.clone()) });
            shapes.push(Shape::new(format!("expression {name} of {operand}"), command));
            if let Arity::Named(signature) = operator.arity {
                let parameters: Document =
                    signature.parameters.iter().map(|parameter| (parameter.name, value.clone())).collect();
                let command = compute(doc! { name: parameters });
                shapes.push(Shape::new(format!("expression {name} with each field of {operand}"), command));
            }
        }
        let deep = compute(doc! { name: (operands::of_itself(name)) });
        shapes.push(Shape::new(format!("expression {name} of itself"), deep));
    }
    shapes
}

fn of_accumulators(operands: &[Operand]) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for name in accumulator_names() {
        for Operand { name: operand, value } in operands {
            let group = |argument: Value| {
                let accumulator = doc! { name: argument };
                aggregate(vec![doc! { "$group": { "_id": (Value::Null), "x": accumulator } }.into()])
            };
            shapes.push(Shape::new(format!("accumulator {name} of {operand}"), group(value.clone())));
            let ordered = doc! { "sortBy": { "a": 1 }, "output": (value.clone()), "n": 5 };
            shapes.push(Shape::new(format!("accumulator {name} of output {operand}"), group(ordered.into())));
            let counted = doc! { "input": (value.clone()), "n": 5 };
            shapes.push(Shape::new(format!("accumulator {name} of input {operand}"), group(counted.into())));
        }
    }
    shapes
}

fn of_stages(operands: &[Operand]) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for entry in stage_entries() {
        let name = entry.name;
        for Operand { name: operand, value } in operands {
            let stages = vec![doc! { name: (value.clone()) }.into()];
            shapes.push(Shape::new(format!("stage {name} of {operand}"), aggregate(stages)));
        }
        for small in ["$list", "x"] {
            let stages = array(1000, |_| doc! { name: small }.into());
            let command = doc! { "aggregate": COLLECTION, "pipeline": stages, "cursor": {} };
            shapes.push(Shape::new(format!("a thousand stages {name} of {small}"), command));
        }
    }
    shapes
}

pub(crate) fn update(change: Document) -> Document {
    doc! { "update": COLLECTION, "updates": [{ "q": { "_id": 0 }, "u": change }] }
}

fn of_updates(operands: &[Operand]) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for name in operator_names() {
        for Operand { name: operand, value } in operands {
            let whole = update(doc! { name: (value.clone()) });
            shapes.push(Shape::new(format!("update {name} of {operand}"), whole));
            let field = update(doc! { name: { "list": (value.clone()) } });
            shapes.push(Shape::new(format!("update {name} of a field with {operand}"), field));
            let each = update(doc! { name: { "list": { "$each": (value.clone()) } } });
            shapes.push(Shape::new(format!("update {name} of each of {operand}"), each));
        }
    }
    shapes.push(Shape::new("update $addToSet of lists".to_owned(), {
        let each = numbers(operands.len() * 1000);
        update(doc! { "$addToSet": { "list": { "$each": each } } })
    }));
    shapes
}
