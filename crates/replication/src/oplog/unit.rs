//! From the changes of a write unit to operations of the log.

use super::command::BuildStep;
use super::operation::document_key;
use super::{Command, Operation, Target, Update, delta};
use catalog::{Change, CollectionDefinition, IndexDefinition, Namespace};
use document::{Document, DocumentBuf, MAX_DOCUMENT_SIZE};
use std::sync::Arc;
use uuid::Uuid;

/// Bytes that a part of an `applyOps` takes beside its documents, names included, at most.
const PART_BYTES: usize = 512;

impl Operation {
    /// What a change is in the log: mostly one operation, one for each index, none where no index is left.
    pub fn of_change(change: Change<'_>) -> Vec<Operation> {
        match change {
            Change::Insert { definition, document, .. } => {
                vec![Operation::Insert { target: Target::of(definition), document: document.to_buf() }]
            }
            Change::Update { definition, before, after, .. } => {
                let update = match delta::between(before, after) {
                    Some(delta) => Update::Delta(delta),
                    None => Update::Replacement(after.to_buf()),
                };
                let document_key = document_key(after);
                vec![Operation::Update { target: Target::of(definition), document_key, update }]
            }
            Change::Delete { definition, document, .. } => {
                let document_key = document_key(document);
                vec![Operation::Delete { target: Target::of(definition), document_key }]
            }
            Change::Create(definition) => vec![creation(definition)],
            Change::Drop(definition) => vec![match definition.options.view {
                None => Operation::Command(Command::Drop(Target::of(definition))),
                Some(_) => {
                    let document_key = document_key(view_document(definition).as_raw());
                    Operation::Delete { target: views_of(definition), document_key }
                }
            }],
            Change::Rename { from, definition } => {
                let target = Target { namespace: from.clone(), uuid: Some(definition.uuid) };
                let to = definition.namespace.clone();
                vec![Operation::Command(Command::Rename { target, to, drop_target: None })]
            }
            Change::Modify { before, definition } => vec![modification(before, definition)],
            Change::CreateIndexes { definition, indexes } => creation_of_indexes(definition, indexes),
            Change::CommitIndexBuild { definition, indexes, .. } => {
                index_build(definition, BuildStep::Commit, indexes)
            }
            Change::DropIndexes { definition, indexes } => removal_of_indexes(definition, indexes),
        }
    }
}

/// The operations of the changes of one write unit, each for an entry of its own: changes of documents are one
/// together, as far as it does not become longer than a document may be.
pub fn operations_of_unit(changes: Vec<Operation>) -> Vec<Operation> {
    let (mut operations, mut parts, mut bytes) = (Vec::new(), Vec::new(), 0);
    for change in changes {
        match change {
            Operation::Command(command) => {
                operations.extend(together(std::mem::take(&mut parts)));
                add_command(&mut operations, command);
            }
            part => {
                let part_bytes = part.document_bytes() + PART_BYTES;
                if bytes + part_bytes > MAX_DOCUMENT_SIZE {
                    operations.extend(together(std::mem::take(&mut parts)));
                    bytes = 0;
                }
                bytes += part_bytes;
                parts.push(part);
            }
        }
    }
    operations.extend(together(parts));
    operations
}

fn together(mut parts: Vec<Operation>) -> Option<Operation> {
    match parts.len() {
        0 | 1 => parts.pop(),
        _ => Some(Operation::Command(Command::ApplyOps(parts))),
    }
}

/// A rename tells itself of the collection that goes for it.
fn add_command(operations: &mut Vec<Operation>, command: Command) {
    let Command::Rename { target, to, .. } = command else {
        operations.push(Operation::Command(command));
        return;
    };
    let replaced = operations
        .pop_if(|last| matches!(last, Operation::Command(Command::Drop(dropped)) if dropped.namespace == to));
    let drop_target = match replaced {
        Some(Operation::Command(Command::Drop(dropped))) => dropped.uuid,
        _ => None,
    };
    operations.push(Operation::Command(Command::Rename { target, to, drop_target }));
}

impl Operation {
    /// The bytes of its documents.
    fn document_bytes(&self) -> usize {
        match self {
            Operation::Insert { document, .. } => document.len(),
            Operation::Update { document_key, update, .. } => match update {
                Update::Delta(document) | Update::Replacement(document) => {
                    document_key.len() + document.len()
                }
            },
            Operation::Delete { document_key, .. } => document_key.len(),
            Operation::Command(_) | Operation::Noop(_) => 0,
        }
    }
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
        None => Operation::Command(Command::Create {
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
            update: Update::Replacement(document),
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
    if new.get("validator").is_none() && old.get("validator").is_some() {
        fields.push("validator", Document::new());
    }
    Operation::Command(Command::Modify {
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
        Operation::Command(Command::CreateIndex { target: Target::of(definition), spec: spec(index) })
    };
    indexes.iter().map(create).collect()
}

fn removal_of_indexes(definition: &CollectionDefinition, indexes: &[Arc<IndexDefinition>]) -> Vec<Operation> {
    let (ready, unfinished): (Vec<_>, Vec<_>) = indexes.iter().cloned().partition(|index| index.is_ready());
    let mut operations = index_build(definition, BuildStep::Abort, &unfinished);
    operations.extend(ready.iter().map(|index| {
        Operation::Command(Command::DropIndex { target: Target::of(definition), spec: spec(index) })
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
    vec![Operation::Command(Command::IndexBuild { target: Target::of(definition), step, build, specs })]
}

fn spec(index: &Arc<IndexDefinition>) -> DocumentBuf {
    index.spec.to_document().to_buf()
}
