//! Sources that report something of the server: `$collStats`, `$indexStats`, `$currentOp`, sessions, plan
//! caches.

use super::{AggregateTarget, views};
use crate::command::coll_stats;
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult, code};
use crate::fields::Fields;
use crate::sessions::{LogicalSessionId, SessionOwner};
use crate::write::not_on_a_view;
use ::access::UserName;
use catalog::Collection;
use dispatch::command::current_op::{self, Whose};
use dispatch::command::host_info;
use dispatch::narrow;
use document::{DocumentBuf, DocumentBuilder, RawArray, RawDocument, RawValue, Value, doc};
use std::sync::Arc;

/// The documents of a report.
///
/// # Errors
/// Operands that the stage does not know; `NamespaceNotFound` where there is nothing to report of.
pub(crate) fn documents(
    context: &CommandContext<'_>,
    target: AggregateTarget<'_>,
    name: &str,
    operand: &DocumentBuf,
) -> CommandResult<Vec<DocumentBuf>> {
    let operand = match operand.as_raw().get("") {
        Some(RawValue::Document(operand)) => operand,
        _ => {
            let message = format!("{name} must take a nested object but found something else");
            return Err(CommandError::failed_to_parse(message));
        }
    };
    let collection = match target {
        AggregateTarget::Collection(name) => name,
        AggregateTarget::Database => "$cmd.aggregate",
    };
    let found = context.server.node.catalog.collection(context.database, collection);
    match name {
        "$collStats" => {
            collection_statistics(context, collection, found.as_ref(), operand).map(|report| vec![report])
        }
        "$indexStats" => Ok(found.map(|found| index_statistics(context, &found)).unwrap_or_default()),
        "$currentOp" => operations(context, operand),
        "$listLocalSessions" | "$listSessions" => Ok(sessions(context, operand)),
        // Plans are chosen anew for every query: no plan is cached.
        "$planCacheStats" => Ok(Vec::new()),
        other => {
            Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, format!("{other} is not supported here")))
        }
    }
}

fn collection_statistics(
    context: &CommandContext<'_>,
    name: &str,
    collection: Option<&Arc<Collection>>,
    operand: RawDocument<'_>,
) -> CommandResult<DocumentBuf> {
    let namespace = format!("{}.{name}", context.database);
    let mut report = doc! {
        "ns": (namespace.as_str()), "host": (host_info::host_name()),
        "localTime": (Value::DateTime(context.server.now_ms())),
    };
    let absent = || {
        if views::is_view(&context.server.node.catalog, context.database, name) {
            return not_on_a_view(context.database, name);
        }
        let message = format!(
            "Unable to retrieve statistics in $collStats stage :: caused by :: Collection [{namespace}] not \
            found."
        );
        CommandError::new(code::NAMESPACE_NOT_FOUND, message)
    };
    let mut fields = Fields::nested("$collStats", operand)?;
    if let Some(options) = fields.document("latencyStats")? {
        let mut options = Fields::nested("$collStats.latencyStats", options)?;
        // Times are not kept by magnitude.
        options.ignore(&["histograms"]);
        options.finish()?;
        report.push("latencyStats", context.server.usage.of(&namespace).latencies());
    }
    if let Some(storage) = fields.document("storageStats")? {
        let mut storage = Fields::nested("$collStats.storageStats", storage)?;
        let scale = storage.integer_at_least("scale", 1)?.unwrap_or(1);
        storage.ignore(&["verbose", "waitForLock", "numericOnly"]);
        storage.finish()?;
        let mut described =
            coll_stats::describe(context.source.view(), &namespace, collection.ok_or_else(absent)?, scale);
        described.remove("ns");
        report.push("storageStats", described);
    }
    if fields.document("count")?.is_some() {
        report.push("count", narrow(collection.ok_or_else(absent)?.document_count()));
    }
    if fields.document("queryExecStats")?.is_some() {
        report.push("queryExecStats", doc! { "collectionScans": { "total": 0i64, "nonTailable": 0i64 } });
    }
    fields.finish()?;
    Ok(report.to_buf())
}

fn index_statistics(context: &CommandContext<'_>, collection: &Collection) -> Vec<DocumentBuf> {
    let since = context.server.now_ms()
        - i64::try_from(ambient::elapsed(context.server.started).as_millis()).unwrap_or(0);
    let host = host_info::host_name();
    let definition = collection.definition();
    let described = definition.indexes.iter().map(|index| {
        let mut report = doc! {
            "name": (index.spec.name.as_str()), "key": (index.spec.key.clone()), "host": (host.as_str()),
            "accesses": { "ops": (index.uses() as i64), "since": (Value::DateTime(since)) },
            "spec": (index.spec.to_document()),
        };
        if !index.is_ready() {
            report.push("building", true);
        }
        report.to_buf()
    });
    described.collect()
}

fn operations(context: &CommandContext<'_>, operand: RawDocument<'_>) -> CommandResult<Vec<DocumentBuf>> {
    let mut fields = Fields::nested("$currentOp", operand)?;
    let idle_connections = fields.boolean("idleConnections")?.unwrap_or(false);
    let idle_cursors = fields.boolean("idleCursors")?.unwrap_or(false);
    let all_users = fields.boolean("allUsers")?.unwrap_or(false);
    fields.ignore(&["idleSessions", "localOps", "truncateOps", "targetAllNodes", "backtrace"]);
    fields.finish()?;
    let whose = if all_users { Whose::All } else { Whose::of(context) };
    let mut operations = current_op::operations(context.server, idle_connections, &whose);
    if idle_cursors {
        operations.extend(current_op::idle_cursors(context.server, &whose));
    }
    Ok(operations)
}

/// The asker's own sessions, those of all users, or those of the `users` that are named. Whether it may see
/// others' was asked before.
fn sessions(context: &CommandContext<'_>, operand: RawDocument<'_>) -> Vec<DocumentBuf> {
    let users = operand.get("users").and_then(RawValue::as_array).unwrap_or(RawArray::EMPTY);
    let named: Vec<SessionOwner> = users
        .iter()
        .filter_map(|user| {
            let user = user.as_document()?;
            let text = |name: &str| user.get(name).and_then(RawValue::as_str);
            Some(SessionOwner(UserName::new(text("user")?, text("db")?).digest()))
        })
        .collect();
    let owners = if users.is_empty() { vec![context.session_owner()] } else { named };
    let all = operand.get("allUsers").is_some_and(RawValue::truthy);
    let known = context.server.sessions.all();
    known.iter().filter(|session| all || owners.contains(&session.owner)).map(session).collect()
}

fn session(id: &LogicalSessionId) -> DocumentBuf {
    let mut bytes = Vec::new();
    let mut report = DocumentBuilder::new(&mut bytes);
    id.append_whole_to(&mut report.start_document("_id"));
    report.finish();
    DocumentBuf::trusted(bytes)
}
