//! `listIndexes`: the indexes of a collection.

use super::{CommandEntry, Run};
use crate::context::CommandContext;
use crate::cursors::open_fixed;
use crate::error::{CommandError, CommandResult, code};
use catalog::Entry;
use document::{DocumentBuf, DocumentBuilder};

pub(crate) static COMMAND: CommandEntry = CommandEntry {
    api_version_1: true,
    ..CommandEntry::new("listIndexes", "Lists the indexes of a collection.", Run::Now(run))
};

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let (database, name) = context.collection_namespace()?;
    let batch_size = context.fields.cursor_batch_size()?;
    context.fields.ignore(&["includeBuildUUIDs", "includeIndexBuildInfo"]);
    context.fields.finish()?;
    let namespace = format!("{database}.{name}");
    let documents: Vec<DocumentBuf> = match context.server.catalog.entry(database, name) {
        Some(Entry::Collection(collection)) => {
            collection.definition().indexes.iter().map(|index| index.spec.to_document().to_buf()).collect()
        }
        Some(Entry::View(_)) => {
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
