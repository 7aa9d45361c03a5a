//! `applyOps`: does again what entries of an oplog say, as `mongorestore --oplogReplay` gives them.
//!
//! Collections are meant by their names: a restored one has another UUID than the entry tells.
//!
//! Source: MongoDB manual, "applyOps".

use super::create::make;
use super::drop::drop_named;
use super::drop_database::drop_all;
use super::rename_collection::rename;
use super::{Command, OnSecondary, Run};
use crate::context::{CommandContext, OnDataNode};
use crate::error::{CommandError, CommandResult};
use crate::write::{check_writable, not_on_a_view};
use catalog::{
    CatalogEntry, Collection, CollectionOptions, Decision, Namespace, OperationContext, WriteError,
};
use document::{DocumentBuf, DocumentBuilder, RawArray, RawDocument, RawValue, Value, doc};
use replication::oplog::{Applier, ApplyError, Operation, OplogUpdate};
use std::sync::Arc;
use wire::ErrorCode;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::Never,
    takes_write_concern: true,
    ..Command::new(
        "applyOps",
        "Does again what entries of an oplog say.",
        Run::Later(|context, reply| Box::pin(run(context, reply))),
    )
};

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let RawValue::Array(operations) = context.fields.target() else {
        return Err(CommandError::failed_to_parse("ops has to be an array"));
    };
    let upserts = context.fields.flexible_boolean("alwaysUpsert")?.unwrap_or(true);
    context.fields.ignore(&["allowAtomic", "bypassDocumentValidation", "oplogApplicationMode"]);
    context.fields.finish()?;
    context.offload().await;
    let mut results = Vec::new();
    for operation in documents(operations)? {
        let applied = apply(context, operation, upserts).await;
        results.push(Value::Boolean(applied.is_ok()));
        if let Err(error) = applied {
            let applied = i32::try_from(results.len()).unwrap_or(i32::MAX);
            return Err(error.with_more(&doc! { "applied": applied, "results": results }));
        }
    }
    reply.append("applied", i32::try_from(results.len()).unwrap_or(i32::MAX));
    reply.append_value("results", &results.into());
    Ok(())
}

fn documents(operations: RawArray<'_>) -> CommandResult<Vec<RawDocument<'_>>> {
    let documents: Option<Vec<_>> = operations.iter().map(RawValue::as_document).collect();
    documents.ok_or_else(|| CommandError::failed_to_parse("op not an object"))
}

async fn apply(context: &CommandContext<'_>, entry: RawDocument<'_>, upserts: bool) -> CommandResult {
    context.interrupt().check()?;
    match text(entry, "op")? {
        "n" => Ok(()),
        "i" | "u" | "d" => apply_to_document(context, entry, upserts).await,
        "c" => Box::pin(apply_command(context, entry, upserts)).await,
        other => Err(CommandError::bad_value(format!("bad opType '{other}' in operation"))),
    }
}

/// What is written keeps the rules of indexes, not those of the collection's validator: it did where it was
/// done.
fn applier<'c>(context: &'c CommandContext<'_>) -> Applier<'c> {
    Applier::of_operations(&context.server.node.catalog, writing(context))
}

fn writing<'c>(context: &'c CommandContext<'_>) -> OperationContext<'c> {
    OperationContext { bypass_validation: true, ..context.writing() }
}

async fn apply_to_document(
    context: &CommandContext<'_>,
    entry: RawDocument<'_>,
    upserts: bool,
) -> CommandResult {
    let namespace = Namespace::parse(text(entry, "ns")?)?;
    let name = (namespace.database(), namespace.collection());
    if namespace.collection() == "system.views" {
        let view = Operation::read(without_uuid(entry).as_raw()).map_err(malformed)?;
        return applier(context).apply_operation(&view).await.map_err(refused);
    }
    check_writable(context.server, name)?;
    let Some(collection) = existing(context, &namespace)? else {
        // What is to go is gone.
        return match text(entry, "op")? {
            "d" => Ok(()),
            _ => Err(CommandError::new(
                ErrorCode::NamespaceNotFound as i32,
                format!("Failed to apply operation due to missing collection: {namespace}"),
            )),
        };
    };
    let operation = Operation::read(with_uuid(entry, &collection).as_raw()).map_err(malformed)?;
    let writing = writing(context);
    match &operation {
        Operation::Insert { document, .. } => put(&writing, &collection, document).await,
        Operation::Update { document_key, .. } if find(&writing, &collection, document_key)? => {
            applier(context).apply_operation(&operation).await.map_err(refused)
        }
        Operation::Update { .. } if !upserts => Err(CommandError::new(
            ErrorCode::UpdateOperationFailed as i32,
            format!("failed to apply update: {namespace}"),
        )),
        Operation::Update { update: OplogUpdate::Replacement(document), .. } => {
            put(&writing, &collection, document).await
        }
        Operation::Update { document_key, .. } => {
            put(&writing, &collection, document_key).await?;
            applier(context).apply_operation(&operation).await.map_err(refused)
        }
        _ => applier(context).apply_operation(&operation).await.map_err(refused),
    }
}

/// Whether there is a document with this `_id`.
fn find(writing: &OperationContext<'_>, collection: &Collection, key: &DocumentBuf) -> CommandResult<bool> {
    let id = key.as_raw().get("_id").expect("an operation was read, and has an _id");
    Ok(collection.get(writing.view, id, writing.tier)?.is_some())
}

/// Inserts a document, or puts it into the place of the one with its `_id`.
async fn put(
    writing: &OperationContext<'_>,
    collection: &Collection,
    document: &DocumentBuf,
) -> CommandResult {
    let id = document.as_raw().get("_id").expect("an operation was read, and has an _id");
    let key = collection.find_document_key(writing.view, id, writing.tier)?;
    let replace = |_: Option<RawDocument<'_>>| Ok::<_, WriteError>(Decision::Replace(document.clone()));
    match key {
        Some(key) if find(writing, collection, document)? => {
            collection.update(writing, &key, replace).await?;
        }
        _ => collection.insert(writing, document.as_raw()).await?,
    }
    Ok(())
}

async fn apply_command(context: &CommandContext<'_>, entry: RawDocument<'_>, upserts: bool) -> CommandResult {
    let full = text(entry, "ns")?;
    let database = full.strip_suffix(".$cmd").ok_or_else(|| {
        CommandError::new(ErrorCode::InvalidNamespace as i32, format!("invalid ns in operation: {full}"))
    })?;
    let object = document(entry, "o")?;
    let first = object.first().ok_or_else(|| CommandError::failed_to_parse("a command without a name"))?;
    match (first.name(), first.value()) {
        ("applyOps", RawValue::Array(operations)) => {
            for operation in documents(operations)? {
                apply(context, operation, upserts).await?;
            }
            Ok(())
        }
        ("dropDatabase", _) => drop_all(context, database).await.map(drop),
        ("renameCollection", _) => {
            let (from, to) = (Namespace::parse(text(object, "renameCollection")?)?, text(object, "to")?);
            let drops = !matches!(object.get("dropTarget"), None | Some(RawValue::Boolean(false)));
            rename(context, &from, &Namespace::parse(to)?, drops).await
        }
        (name, RawValue::String(collection)) => {
            let namespace = Namespace::new(database, collection);
            namespace.check_readable()?;
            check_writable(context.server, (database, collection))?;
            apply_to_collection(context, entry, (name, &namespace)).await
        }
        _ => Err(CommandError::bad_value(format!("unknown command in operation: {}", first.name()))),
    }
}

async fn apply_to_collection(
    context: &CommandContext<'_>,
    entry: RawDocument<'_>,
    (name, namespace): (&str, &Namespace),
) -> CommandResult {
    match name {
        "create" => {
            let mut options = document(entry, "o")?.to_document();
            options.remove("create");
            options.remove("idIndex");
            let options = CollectionOptions::parse(options.to_buf().as_raw())?;
            make(context, namespace, options).await
        }
        "drop" => drop_named(context, namespace).await.map(drop),
        _ => {
            let Some(collection) = existing(context, namespace)? else { return Ok(()) };
            let entry = with_uuid(entry, &collection);
            let operation = Operation::read(entry.as_raw()).map_err(malformed)?;
            applier(context).apply_operation(&operation).await.map_err(refused)
        }
    }
}

/// The collection of this name.
fn existing(context: &CommandContext<'_>, namespace: &Namespace) -> CommandResult<Option<Arc<Collection>>> {
    match context.server.node.catalog.entry(namespace.database(), namespace.collection()) {
        None => Ok(None),
        Some(CatalogEntry::Collection(collection)) => Ok(Some(collection)),
        Some(CatalogEntry::View(_)) => Err(not_on_a_view(namespace.database(), namespace.collection())),
    }
}

fn without_uuid(entry: RawDocument<'_>) -> DocumentBuf {
    let mut entry = entry.to_document();
    entry.remove("ui");
    entry.to_buf()
}

fn with_uuid(entry: RawDocument<'_>, collection: &Collection) -> DocumentBuf {
    let mut entry = entry.to_document();
    entry.insert("ui", Value::binary(4, collection.uuid().as_bytes().to_vec()));
    entry.to_buf()
}

fn text<'d>(entry: RawDocument<'d>, name: &str) -> CommandResult<&'d str> {
    entry.get(name).and_then(RawValue::as_str).ok_or_else(|| expected(name, "a string"))
}

fn document<'d>(entry: RawDocument<'d>, name: &str) -> CommandResult<RawDocument<'d>> {
    entry.get(name).and_then(RawValue::as_document).ok_or_else(|| expected(name, "an object"))
}

fn expected(name: &str, what: &str) -> CommandError {
    CommandError::failed_to_parse(format!("'{name}' of an operation has to be {what}"))
}

fn malformed(error: impl std::fmt::Display) -> CommandError {
    CommandError::failed_to_parse(error.to_string())
}

fn refused(error: ApplyError) -> CommandError {
    match error {
        ApplyError::Malformed(error) => malformed(error),
        ApplyError::Catalog(error) => error.into(),
        ApplyError::Write(error) => error.into(),
        ApplyError::Read(error) => error.into(),
    }
}
