//! `c`: changes of the catalog, and several operations as one.

use super::operation::{append_uuid, document, expected, namespace, text, uuid};
use super::{MalformedEntry, Operation, Target};
use catalog::Namespace;
use document::{ArrayBuilder, Document, DocumentBuf, DocumentBuilder, RawDocument, RawValue, doc};
use uuid::Uuid;

/// The namespace of an `applyOps`.
const APPLY_OPS_NAMESPACE: &str = "admin.$cmd";

/// A command of the log.
#[derive(Debug, Clone, PartialEq)]
pub enum OplogCommand {
    /// `create`: a collection comes.
    Create {
        /// Which.
        target: Target,
        /// As `create` takes them.
        options: DocumentBuf,
    },
    /// `drop`: a collection goes.
    Drop(Target),
    /// `renameCollection`: a collection gets another name.
    Rename {
        /// Which, with the name that it had.
        target: Target,
        /// The name that it gets.
        to: Namespace,
        /// The collection that goes because it has that name.
        drop_target: Option<Uuid>,
    },
    /// `collMod`: options change.
    Modify {
        /// Of which.
        target: Target,
        /// As `collMod` takes them.
        fields: DocumentBuf,
        /// The collection's options until then.
        before: DocumentBuf,
    },
    /// `createIndexes`: an index comes to an empty collection.
    CreateIndex {
        /// Of which.
        target: Target,
        /// The index.
        spec: DocumentBuf,
    },
    /// `startIndexBuild`, `commitIndexBuild`, `abortIndexBuild`: indexes of a collection with documents.
    IndexBuild {
        /// Of which.
        target: Target,
        /// How far it is.
        step: BuildStep,
        /// Names the build.
        build: Uuid,
        /// The indexes.
        specs: Vec<DocumentBuf>,
    },
    /// `dropIndexes`: an index goes.
    DropIndex {
        /// Of which.
        target: Target,
        /// What it was.
        spec: DocumentBuf,
    },
    /// `applyOps`: the operations of one write unit; none of them is a command.
    ApplyOps(Vec<Operation>),
}

/// The steps of an index build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildStep {
    /// Writers maintain the indexes from here on.
    Start,
    /// They can be read.
    Commit,
    /// They are given up.
    Abort,
}

impl BuildStep {
    const ALL: [BuildStep; 3] = [BuildStep::Start, BuildStep::Commit, BuildStep::Abort];

    const fn name(self) -> &'static str {
        match self {
            BuildStep::Start => "startIndexBuild",
            BuildStep::Commit => "commitIndexBuild",
            BuildStep::Abort => "abortIndexBuild",
        }
    }
}

impl OplogCommand {
    /// Writes `op ns ui o o2`; an `applyOps` is written with its statements by [`Operation::write`].
    pub(super) fn write(&self, builder: &mut DocumentBuilder<'_>) {
        builder.append("op", "c");
        match self {
            OplogCommand::ApplyOps(_) => unreachable!("written with the statements of its parts"),
            OplogCommand::Create { target, options } => write_create(begin(builder, target), target, options),
            OplogCommand::Drop(target) => drop(begin(builder, target).append("drop", name(target))),
            OplogCommand::Rename { target, to, drop_target } => {
                let mut object = begin(builder, target);
                object.append("renameCollection", &target.namespace.to_string());
                object.append("to", &to.to_string()).append("stayTemp", false);
                if let Some(uuid) = drop_target {
                    append_uuid(&mut object, "dropTarget", *uuid);
                }
            }
            OplogCommand::Modify { target, fields, before } => {
                begin(builder, target).append("collMod", name(target)).append_all(fields.as_raw());
                builder.start_document("o2").append("collectionOptions_old", before);
            }
            OplogCommand::CreateIndex { target, spec } => {
                begin(builder, target).append("createIndexes", name(target)).append_all(spec.as_raw());
            }
            OplogCommand::IndexBuild { target, step, build, specs } => {
                let mut object = begin(builder, target);
                object.append(step.name(), name(target));
                append_uuid(&mut object, "indexBuildUUID", *build);
                let mut list = object.start_array("indexes");
                for spec in specs {
                    list.push(spec);
                }
                list.finish();
                if *step == BuildStep::Abort {
                    object.append_value("cause", &cause_of_abort().into());
                }
            }
            OplogCommand::DropIndex { target, spec } => {
                let index = spec.as_raw().get("name").unwrap_or(RawValue::Null);
                begin(builder, target).append("dropIndexes", name(target)).append("index", index);
                builder.append("o2", spec);
            }
        }
    }

    /// Reads what [`Command::write`] wrote.
    pub(super) fn read(entry: RawDocument<'_>, object: RawDocument<'_>) -> Result<Self, MalformedEntry> {
        let first = object.first().ok_or_else(|| MalformedEntry::new("a command without a name"))?;
        if first.name() == "applyOps" {
            return read_apply_ops(first.value()).map(OplogCommand::ApplyOps);
        }
        let target = || read_target(entry, first.value());
        match first.name() {
            "create" => Ok(OplogCommand::Create {
                target: target()?,
                options: without(object, &["create", "idIndex"]),
            }),
            "drop" => Ok(OplogCommand::Drop(target()?)),
            "renameCollection" => {
                let from = namespace(text(object, "renameCollection")?)?;
                Ok(OplogCommand::Rename {
                    target: Target { namespace: from, uuid: Some(required_uuid(entry, "ui")?) },
                    to: namespace(text(object, "to")?)?,
                    drop_target: match object.get("dropTarget") {
                        None | Some(RawValue::Boolean(false)) => None,
                        Some(_) => uuid(object, "dropTarget")?,
                    },
                })
            }
            "collMod" => {
                let before = entry.get("o2").and_then(RawValue::as_document);
                let before = before.and_then(|o2| o2.get("collectionOptions_old")?.as_document());
                let before = before.unwrap_or_default().to_buf();
                Ok(OplogCommand::Modify { target: target()?, fields: without(object, &["collMod"]), before })
            }
            "createIndexes" => {
                Ok(OplogCommand::CreateIndex { target: target()?, spec: without(object, &["createIndexes"]) })
            }
            "dropIndexes" => {
                let spec = document(entry, "o2")?.to_buf();
                text(spec.as_raw(), "name")?;
                Ok(OplogCommand::DropIndex { target: target()?, spec })
            }
            other => match BuildStep::ALL.into_iter().find(|step| step.name() == other) {
                None => Err(MalformedEntry::new(format!("unknown command '{other}'"))),
                Some(step) => Ok(OplogCommand::IndexBuild {
                    target: target()?,
                    step,
                    build: required_uuid(object, "indexBuildUUID")?,
                    specs: read_specs(object)?,
                }),
            },
        }
    }
}

/// Writes an `applyOps` of the parts that `write` puts into the list.
pub(super) fn write_apply_ops(builder: &mut DocumentBuilder<'_>, write: impl FnOnce(&mut ArrayBuilder<'_>)) {
    builder.append("op", "c").append("ns", APPLY_OPS_NAMESPACE);
    let mut object = builder.start_document("o");
    write(&mut object.start_array("applyOps"));
}

/// Writes `ns` and `ui`, and begins `o`.
fn begin<'b>(builder: &'b mut DocumentBuilder<'_>, target: &Target) -> DocumentBuilder<'b> {
    builder.append("ns", &format!("{}.$cmd", target.namespace.database()));
    if let Some(uuid) = target.uuid {
        append_uuid(builder, "ui", uuid);
    }
    builder.start_document("o")
}

fn name(target: &Target) -> &str {
    target.namespace.collection()
}

fn write_create(mut object: DocumentBuilder<'_>, target: &Target, options: &DocumentBuf) {
    object.append("create", name(target)).append_all(options.as_raw());
    let options = options.as_raw();
    // Who is clustered by another index has none on `_id`.
    if !options.contains("clusteredIndex") {
        let mut index = object.start_document("idIndex");
        index.append("v", 2).append_value("key", &doc! { "_id": 1 }.into()).append("name", "_id_");
        if let Some(collation) = options.element(b"collation") {
            index.append_element(collation);
        }
    }
}

fn cause_of_abort() -> Document {
    let message = "Index build aborted";
    doc! { "ok": false, "code": 276, "codeName": "IndexBuildAborted", "errmsg": message }
}

fn read_target(entry: RawDocument<'_>, collection: RawValue<'_>) -> Result<Target, MalformedEntry> {
    let command_namespace = text(entry, "ns")?;
    let database =
        command_namespace.strip_suffix(".$cmd").ok_or_else(|| expected("ns", "a database's $cmd"))?;
    let collection =
        collection.as_str().ok_or_else(|| expected("o", "a command with a collection's name"))?;
    let target = Namespace::new(database, collection);
    target.check_readable().map_err(|error| MalformedEntry::new(error.to_string()))?;
    Ok(Target { namespace: target, uuid: Some(required_uuid(entry, "ui")?) })
}

fn required_uuid(from: RawDocument<'_>, name: &str) -> Result<Uuid, MalformedEntry> {
    uuid(from, name)?.ok_or_else(|| expected(name, "a UUID"))
}

fn read_apply_ops(list: RawValue<'_>) -> Result<Vec<Operation>, MalformedEntry> {
    let list = list.as_array().ok_or_else(|| expected("applyOps", "a list"))?;
    list.iter()
        .map(|part| {
            let part = part.as_document().ok_or_else(|| expected("applyOps", "a list of operations"))?;
            match Operation::read(part)? {
                Operation::Command(_) => Err(MalformedEntry::new("a command within applyOps")),
                operation => Ok(operation),
            }
        })
        .collect()
}

fn read_specs(object: RawDocument<'_>) -> Result<Vec<DocumentBuf>, MalformedEntry> {
    let list = object.get("indexes").and_then(RawValue::as_array);
    let specs = list.ok_or_else(|| expected("indexes", "a list"))?.iter();
    specs
        .map(|spec| spec.as_document().map(RawDocument::to_buf))
        .collect::<Option<_>>()
        .ok_or_else(|| expected("indexes", "a list of specifications"))
}

pub(super) fn without(object: RawDocument<'_>, names: &[&str]) -> DocumentBuf {
    let mut bytes = Vec::with_capacity(object.as_bytes().len());
    let mut builder = DocumentBuilder::new(&mut bytes);
    for element in object.iter().filter(|element| !names.contains(&element.name())) {
        builder.append_element(element);
    }
    builder.finish();
    DocumentBuf::trusted(bytes)
}
