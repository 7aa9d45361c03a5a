//! `drop`: removes a collection or a view.

use super::{Command, OnSecondary, Run};
use crate::audit;
use crate::context::{CommandContext, OnDataNode};
use crate::cursors::collection_dropped;
use crate::error::{CommandError, CommandResult, code};
use crate::write::check_not_of_sessions;
use catalog::{CatalogEntry, CatalogError, DropReport, Namespace};
use document::DocumentBuilder;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::Never,
    api_version_1: true,
    takes_write_concern: true,
    ..Command::new(
        "drop",
        "Removes a collection or a view.",
        Run::Later(|context, reply| Box::pin(run(context, reply))),
    )
};

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let (database, name) = context.collection_namespace()?;
    context.fields.ignore(&["collectionUUID"]);
    context.fields.finish()?;
    let namespace = Namespace::new(database, name);
    namespace.check_readable()?;
    if namespace.is_kept() {
        let message = format!("can't drop system collection {namespace}");
        return Err(CommandError::new(code::ILLEGAL_OPERATION, message));
    }
    check_not_of_sessions(context.server, (database, name))?;
    // As in 7.0: what does not exist is dropped already.
    let Some(report) = drop_named(context, &namespace).await? else { return Ok(()) };
    if let Some(indexes) = report.indexes {
        reply.append("nIndexesWas", i32::try_from(indexes).unwrap_or(i32::MAX));
    }
    reply.append("ns", &namespace.to_string());
    Ok(())
}

/// Drops what has this name, and ends the cursors on it; `None` where there is nothing.
pub(super) async fn drop_named(
    context: &CommandContext<'_>,
    namespace: &Namespace,
) -> CommandResult<Option<DropReport>> {
    let entry = context.server.node.catalog.entry(namespace.database(), namespace.collection());
    let report = match context.server.node.catalog.drop_collection(&context.writing(), namespace).await {
        Err(CatalogError::NamespaceNotFound(_)) => {
            audit::dropped(context, namespace, None, code::NAMESPACE_NOT_FOUND).await;
            return Ok(None);
        }
        other => other?,
    };
    audit::dropped(context, namespace, entry.as_ref(), 0).await;
    if let Some(CatalogEntry::Collection(dropped)) = entry {
        let lost = [(namespace.to_string(), collection_dropped(dropped.uuid()))];
        context.server.forget_collections(&lost.into_iter().collect());
    }
    Ok(Some(report))
}
