//! `compact`: rewrites the tables of a collection without what was replaced or removed.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult, code};
use crate::write::not_on_a_view;
use catalog::CatalogEntry;
use dispatch::narrow;
use document::DocumentBuilder;

pub(crate) static COMMAND: Command =
    Command::new("compact", "Gives the space of removed documents back.", Run::Now(run));

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let (database, name) = context.collection_namespace()?;
    context.fields.ignore(&["force", "freeSpaceTargetMB"]);
    context.fields.finish()?;
    let collection = match context.server.node.catalog.entry(database, name) {
        Some(CatalogEntry::Collection(collection)) => collection,
        Some(CatalogEntry::View(_)) => return Err(not_on_a_view(database, name)),
        None => return Err(CommandError::new(code::NAMESPACE_NOT_FOUND, "collection does not exist")),
    };
    let bytes = || {
        let figures = collection.statistics(context.source.view());
        figures.storage_bytes + figures.index_bytes()
    };
    let before = bytes();
    collection.compact()?;
    reply.append_value("bytesFreed", &narrow(before.saturating_sub(bytes())));
    Ok(())
}
