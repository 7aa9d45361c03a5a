//! `listIndexes`: the indexes of a collection.

use super::{Command, OnSecondary, Run};
use crate::context::CommandContext;
use crate::cursors::open_fixed;
use crate::error::{CommandError, CommandResult, code};
use catalog::{CatalogEntry, CollectionDefinition, IndexDefinition};
use document::{Document, DocumentBuf, DocumentBuilder};

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::IfAllowed,
    api_version_1: true,
    ..Command::new("listIndexes", "Lists the indexes of a collection.", Run::Now(run))
};

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let (database, name) = context.collection_namespace()?;
    let batch_size = context.fields.cursor_batch_size()?;
    context.fields.ignore(&["includeBuildUUIDs", "includeIndexBuildInfo"]);
    context.fields.finish()?;
    let namespace = format!("{database}.{name}");
    let documents: Vec<DocumentBuf> = match context.server.node.catalog.entry(database, name) {
        Some(CatalogEntry::Collection(collection)) => {
            let definition = collection.definition();
            definition.indexes.iter().map(|index| describe(&definition, index).to_buf()).collect()
        }
        Some(CatalogEntry::View(_)) => {
            let message = format!("Namespace {namespace} is a view, not a collection");
            return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED_ON_VIEW, message));
        }
        None => {
            return Err(CommandError::new(
                code::NAMESPACE_NOT_FOUND,
                format!("ns does not exist: {namespace}"),
            ));
        }
    };
    open_fixed(context, reply, &namespace, documents, batch_size)
}

/// The specification as it is shown; that of a clustered collection's `_id` says what it is.
fn describe(definition: &CollectionDefinition, index: &IndexDefinition) -> Document {
    match definition.options.clustered_index().filter(|_| index.spec.is_id_index()) {
        Some(clustered) => {
            let mut clustered = clustered.clone();
            clustered.push("clustered", true);
            clustered
        }
        None => index.spec.to_document(),
    }
}
