//! From the changes of a write unit to entries of the log: each change becomes a part or some, the parts of a
//! unit become entries.

use super::command::{BuildStep, write_apply_ops};
use super::entry::{Statement, StatementOrigin};
use super::operation::{TargetRef, document_key, write_delete, write_insert, write_update};
use super::{Operation, OplogCommand, OplogUpdate, Target, delta, frame};
use catalog::{Change, CollectionDefinition, IndexDefinition, Namespace};
use document::{Document, DocumentBuf, DocumentBuilder, MAX_DOCUMENT_SIZE, RawDocument, RawValue, Value};
use std::sync::Arc;
use uuid::Uuid;

/// Bytes that a part takes beside its document, names and what an entry ends with included, mostly.
const PART_BYTES: usize = 256;
/// Bytes that a part takes in the list of an `applyOps` beside its own, at most.
const PLACE_BYTES: usize = 16;
/// Bytes of the parts of one `applyOps` at most: it is to be read as a document.
const PARTS_BYTES_MAX: usize = MAX_DOCUMENT_SIZE - 1024;

/// Appends what a change is in the log, as documents of `op ns ui o o2` and the statement: mostly one, one
/// for each index, none where no index is left.
pub(crate) fn append_parts(change: Change<'_>, statement: Option<Statement>, parts: &mut Vec<Vec<u8>>) {
    let target: TargetRef<'_> = (&change.definition().namespace, Some(change.definition().uuid));
    let mut append = |bytes: usize, write: &dyn Fn(&mut DocumentBuilder<'_>)| {
        let mut part = Vec::with_capacity(bytes + PART_BYTES);
        let mut builder = DocumentBuilder::new(&mut part);
        write(&mut builder);
        statement.inspect(|statement| statement.append(&mut builder));
        builder.finish();
        parts.push(part);
    };
    match change {
        Change::Insert { document, .. } => {
            append(document.as_bytes().len(), &|builder| write_insert(builder, target, document));
        }
        Change::Update { before, after, replaces, .. } => {
            let delta = if replaces { None } else { delta::between(before, after) };
            let update = match &delta {
                Some(delta) => OplogUpdate::Delta(delta.as_raw()),
                None => OplogUpdate::Replacement(after),
            };
            let (OplogUpdate::Delta(bytes) | OplogUpdate::Replacement(bytes)) = &update;
            append(bytes.as_bytes().len(), &|builder| write_update(builder, target, after, &update));
        }
        Change::Delete { document, .. } => {
            append(0, &|builder| write_delete(builder, target, document));
        }
        _ => {
            let operations = operations_of_catalog(change);
            operations.iter().for_each(|operation| append(0, &|builder| operation.write(builder, &[])));
        }
    }
}

/// What a change of the catalog is in the log.
fn operations_of_catalog(change: Change<'_>) -> Vec<Operation> {
    match change {
        Change::Insert { .. } | Change::Update { .. } | Change::Delete { .. } => {
            unreachable!("a change of a document")
        }
        Change::Create(definition) => vec![creation(definition)],
        Change::Drop(definition) => vec![match definition.options.view {
            None => Operation::Command(OplogCommand::Drop(Target::of(definition))),
            Some(_) => {
                let document_key = document_key(view_document(definition).as_raw());
                Operation::Delete { target: views_of(definition), document_key }
            }
        }],
        Change::Rename { from, definition } => {
            let target = Target { namespace: from.clone(), uuid: Some(definition.uuid) };
            let to = definition.namespace.clone();
            vec![Operation::Command(OplogCommand::Rename { target, to, drop_target: None })]
        }
        Change::Modify { before, definition } => vec![modification(before, definition)],
        Change::CreateIndexes { definition, indexes } => creation_of_indexes(definition, indexes),
        Change::CommitIndexBuild { definition, indexes, .. } => {
            index_build(definition, BuildStep::Commit, indexes)
        }
        Change::DropIndexes { definition, indexes } => removal_of_indexes(definition, indexes),
    }
}

/// The entries of one write unit, made of its parts: changes of documents are one together, as far as it does
/// not become longer than a document may be.
pub(super) fn entries_of_parts(
    mut parts: Vec<Vec<u8>>,
    origin: Option<&StatementOrigin>,
    wall: i64,
) -> Vec<Vec<u8>> {
    if parts.len() > 1 {
        parts = together(parts);
    }
    for entry in &mut parts {
        end(entry, origin, wall);
    }
    parts
}

/// Makes an entry of an operation.
fn end(operation: &mut Vec<u8>, origin: Option<&StatementOrigin>, wall: i64) {
    let origin = origin.filter(|_| has_statement(RawDocument::trusted(operation)));
    operation.pop();
    frame::append_end(&mut DocumentBuilder::resume(operation, 0), origin, wall);
}

fn has_statement(operation: RawDocument<'_>) -> bool {
    let is_statement = |part: RawValue<'_>| part.as_document().is_some_and(|part| part.contains("stmtId"));
    operation.contains("stmtId") || apply_ops(operation).is_some_and(|mut parts| parts.any(is_statement))
}

fn apply_ops<'o>(operation: RawDocument<'o>) -> Option<impl Iterator<Item = RawValue<'o>>> {
    Some(operation.get("o")?.as_document()?.get("applyOps")?.as_array()?.iter())
}

fn together(parts: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let (mut operations, mut run, mut bytes) = (Vec::new(), Vec::new(), 0);
    for part in parts {
        let is_command = RawDocument::trusted(&part).get("op").and_then(RawValue::as_str) == Some("c");
        if is_command || bytes + part.len() + PLACE_BYTES > PARTS_BYTES_MAX {
            operations.extend(end_run(&mut run));
            bytes = 0;
        }
        match is_command {
            true => add_command(&mut operations, part),
            false => {
                bytes += part.len() + PLACE_BYTES;
                run.push(part);
            }
        }
    }
    operations.extend(end_run(&mut run));
    operations
}

fn end_run(run: &mut Vec<Vec<u8>>) -> Option<Vec<u8>> {
    if run.len() < 2 {
        return run.pop();
    }
    let mut operation = Vec::with_capacity(run.iter().map(|part| part.len() + PLACE_BYTES).sum());
    write_apply_ops(&mut DocumentBuilder::new(&mut operation), |list| {
        for part in run.drain(..) {
            list.push(RawDocument::trusted(&part));
        }
    });
    Some(operation)
}

/// A rename tells itself of the collection that goes for it.
fn add_command(operations: &mut Vec<Vec<u8>>, command: Vec<u8>) {
    let read = |operation: &[u8]| Operation::read(RawDocument::trusted(operation));
    if let Some(last) = operations.last()
        && let Ok(Operation::Command(OplogCommand::Drop(dropped))) = read(last)
        && let Ok(Operation::Command(OplogCommand::Rename { target, to, .. })) = read(&command)
        && dropped.namespace == to
    {
        operations.pop();
        let rename = Operation::Command(OplogCommand::Rename { target, to, drop_target: dropped.uuid });
        let mut bytes = Vec::new();
        rename.write(&mut DocumentBuilder::new(&mut bytes), &[]);
        operations.push(bytes);
        return;
    }
    operations.push(command);
}

impl Target {
    fn of(definition: &CollectionDefinition) -> Self {
        Target { namespace: definition.namespace.clone(), uuid: Some(definition.uuid) }
    }
}

fn views_of(definition: &CollectionDefinition) -> Target {
    let namespace = Namespace::new(definition.namespace.database(), "system.views");
    Target { namespace, uuid: None }
}

/// A view as a document of `system.views`.
fn view_document(definition: &CollectionDefinition) -> DocumentBuf {
    let mut document = Document::from_iter([("_id", definition.namespace.to_string())]);
    document.extend(definition.options.to_document());
    document.to_buf()
}

fn creation(definition: &CollectionDefinition) -> Operation {
    match definition.options.view {
        Some(_) => Operation::Insert { target: views_of(definition), document: view_document(definition) },
        None => Operation::Command(OplogCommand::Create {
            target: Target::of(definition),
            options: definition.options.given().to_buf(),
        }),
    }
}

fn modification(before: &CollectionDefinition, definition: &CollectionDefinition) -> Operation {
    if definition.options.view.is_some() {
        let document = view_document(definition);
        return Operation::Update {
            target: views_of(definition),
            document_key: document_key(document.as_raw()),
            update: OplogUpdate::Replacement(document),
        };
    }
    let mut fields = Document::new();
    for index in &definition.indexes {
        if let Some(old) = before.index_by_id(index.id)
            && let Some(changed) = changed_index(old, index)
        {
            fields.push("index", changed);
        }
    }
    let (old, new) = (before.options.given(), definition.options.given());
    for (name, value) in new.iter().filter(|(name, value)| old.get(name) != Some(*value)) {
        fields.push(modified_name(name), value.clone());
    }
    if new.get("max").is_none() && old.get("max").is_some() {
        fields.push("cappedMax", 0);
    }
    if new.get("hideExpired").is_none() && old.get("hideExpired").is_some() {
        fields.push("hideExpired", false);
    }
    if new.get("validator").is_none() && old.get("validator").is_some() {
        fields.push("validator", Document::new());
    }
    Operation::Command(OplogCommand::Modify {
        target: Target::of(definition),
        fields: fields.to_buf(),
        before: old.to_buf(),
    })
}

/// What `collMod` calls an option of `create`.
fn modified_name(option: &str) -> &str {
    match option {
        "size" => "cappedSize",
        "max" => "cappedMax",
        other => other,
    }
}

fn changed_index(old: &IndexDefinition, new: &IndexDefinition) -> Option<Document> {
    let mut changed = Document::from_iter([("name", new.spec.name.as_str())]);
    if let Some(seconds) = new
        .spec
        .expire_after_seconds
        .filter(|_| old.spec.expire_after_seconds != new.spec.expire_after_seconds)
    {
        changed.push("expireAfterSeconds", seconds);
    }
    if old.spec.window != new.spec.window {
        let none = || Value::from(Vec::<Value>::new());
        changed.push("window", new.spec.window_value().unwrap_or_else(none));
    }
    if old.spec.hidden != new.spec.hidden {
        changed.push("hidden", new.spec.hidden);
    }
    if old.spec.unique != new.spec.unique {
        changed.push("unique", new.spec.unique);
    } else if old.spec.prepare_unique != new.spec.prepare_unique {
        changed.push("prepareUnique", new.spec.prepare_unique);
    }
    (changed.len() > 1).then_some(changed)
}

fn creation_of_indexes(
    definition: &CollectionDefinition,
    indexes: &[Arc<IndexDefinition>],
) -> Vec<Operation> {
    if indexes.iter().any(|index| !index.is_ready()) {
        return index_build(definition, BuildStep::Start, indexes);
    }
    let create = |index: &Arc<IndexDefinition>| {
        Operation::Command(OplogCommand::CreateIndex { target: Target::of(definition), spec: spec(index) })
    };
    indexes.iter().map(create).collect()
}

fn removal_of_indexes(definition: &CollectionDefinition, indexes: &[Arc<IndexDefinition>]) -> Vec<Operation> {
    let (ready, unfinished): (Vec<_>, Vec<_>) = indexes.iter().cloned().partition(|index| index.is_ready());
    let mut operations = index_build(definition, BuildStep::Abort, &unfinished);
    operations.extend(ready.iter().map(|index| {
        Operation::Command(OplogCommand::DropIndex { target: Target::of(definition), spec: spec(index) })
    }));
    operations
}

fn index_build(
    definition: &CollectionDefinition,
    step: BuildStep,
    indexes: &[Arc<IndexDefinition>],
) -> Vec<Operation> {
    let Some(first) = indexes.first() else { return Vec::new() };
    // Ids of indexes are never used again: no other build of this collection has this name.
    let build = Uuid::from_u128(definition.uuid.as_u128() ^ u128::from(first.id));
    let specs = indexes.iter().map(spec).collect();
    vec![Operation::Command(OplogCommand::IndexBuild { target: Target::of(definition), step, build, specs })]
}

fn spec(index: &Arc<IndexDefinition>) -> DocumentBuf {
    index.spec.to_document().to_buf()
}
