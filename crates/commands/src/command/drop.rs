//! `drop`: removes a collection or a view.

use super::{Command, OnSecondary, Run};
use crate::context::{CommandContext, OnDataNode};
use crate::cursors::collection_dropped;
use crate::error::{CommandError, CommandResult, code};
use crate::write::check_not_of_sessions;
use catalog::{CatalogEntry, CatalogError, Namespace};
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
    let entry = context.server.node.catalog.entry(database, name);
    let report = match context.server.node.catalog.drop_collection(&context.writing(), &namespace).await {
        // As in 7.0: what does not exist is dropped already.
        Err(CatalogError::NamespaceNotFound(_)) => return Ok(()),
        other => other?,
    };
    let full = namespace.to_string();
    if let Some(CatalogEntry::Collection(dropped)) = entry {
        let lost = [(full.clone(), collection_dropped(dropped.uuid()))];
        context.server.forget_collections(&lost.into_iter().collect());
    }
    if let Some(indexes) = report.indexes {
        reply.append("nIndexesWas", i32::try_from(indexes).unwrap_or(i32::MAX));
    }
    reply.append("ns", &full);
    Ok(())
}
