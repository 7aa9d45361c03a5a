//! `validate`: checks that documents, indexes and counters agree.

use super::{Command, Run};
use crate::calendar::{WorkKind, await_window};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult, code};
use catalog::{CatalogEntry, Collection, ValidationReport};
use dispatch::narrow;
use document::{DocumentBuilder, Value};
use std::sync::Arc;

pub(crate) static COMMAND: Command = Command::new(
    "validate",
    "Checks that documents, indexes and counters agree.",
    Run::Later(|context, reply| Box::pin(run(context, reply))),
);

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let (database, name) = context.collection_namespace()?;
    // Every validation is a full one: there is no cheaper part worth a switch.
    context.fields.flexible_boolean("full")?;
    for refused in ["repair", "fixMultikey"] {
        if context.fields.flexible_boolean(refused)?.unwrap_or(false) {
            let message = format!(
                "validate does not support the '{refused}' option: indexes are repaired by dropping and \
                creating them"
            );
            return Err(CommandError::invalid_options(message));
        }
    }
    context.fields.ignore(&[
        "background",
        "checkBSONConformance",
        "metadata",
        "enforceFastCount",
        "scandata",
    ]);
    context.fields.finish()?;
    let namespace = format!("{database}.{name}");
    let collection = match context.server.node.catalog.entry(database, name) {
        Some(CatalogEntry::Collection(collection)) => collection,
        Some(CatalogEntry::View(_)) => {
            return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Cannot validate a view"));
        }
        None => {
            let message = format!("Collection '{namespace}' does not exist to validate.");
            return Err(CommandError::new(code::NAMESPACE_NOT_FOUND, message));
        }
    };
    await_window(context, WorkKind::Validate).await?;
    let report = collection.validate(|| context.server.node.store.pinned_view()).await?;
    write(&namespace, &collection, &report, reply);
    Ok(())
}

fn write(
    namespace: &str,
    collection: &Arc<Collection>,
    report: &ValidationReport,
    reply: &mut DocumentBuilder<'_>,
) {
    reply.append("ns", namespace);
    reply.append_value("uuid", &Value::binary(4, collection.uuid().as_bytes().to_vec()));
    reply.append("nInvalidDocuments", report.invalid_documents as i64);
    reply.append("nNonCompliantDocuments", report.noncompliant_documents as i64);
    reply.append_value("nrecords", &narrow(report.records as i64));
    reply.append("nIndexes", report.indexes.len() as i32);
    let mut keys = reply.start_document("keysPerIndex");
    for index in &report.indexes {
        keys.append_value(&index.name, &narrow(index.keys as i64));
    }
    keys.finish();
    let mut details = reply.start_document("indexDetails");
    for index in &report.indexes {
        let mut detail = details.start_document(&index.name);
        detail.append("valid", index.errors.is_empty());
        write_list(&mut detail, "errors", &index.errors);
    }
    details.finish();
    reply.append("valid", report.is_valid()).append("repaired", false);
    write_list(reply, "warnings", &report.warnings);
    write_list(reply, "errors", &report.errors);
    for empty in ["extraIndexEntries", "missingIndexEntries", "corruptRecords"] {
        reply.start_array(empty).finish();
    }
}

fn write_list(into: &mut DocumentBuilder<'_>, name: &str, messages: &[String]) {
    let mut list = into.start_array(name);
    for message in messages {
        list.push(message);
    }
}
