//! `reIndex`: builds the indexes of a collection anew.

use super::create_indexes::showing_progress;
use super::{Command, Run};
use crate::context::{CommandContext, OnDataNode};
use crate::error::{CommandError, CommandResult, code};
use catalog::Namespace;
use document::DocumentBuilder;

pub(crate) static COMMAND: Command = Command::new(
    "reIndex",
    "Builds the indexes of a collection anew.",
    Run::Later(|context, reply| Box::pin(run(context, reply))),
);

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let (database, name) = context.collection_namespace()?;
    context.fields.finish()?;
    if context.server.node.replica_set().is_some() {
        let message = "reIndex is only allowed on a standalone mongod instance.";
        return Err(CommandError::new(code::ILLEGAL_OPERATION, message));
    }
    let namespace = Namespace::new(database, name);
    let writing = context.writing();
    let rebuilding = context.server.node.catalog.rebuild_indexes(&writing, &namespace);
    // It is refused while another build runs.
    let indexes = showing_progress(context, &namespace, |_| true, rebuilding).await?;
    let count = i32::try_from(indexes.len()).unwrap_or(i32::MAX);
    reply.append("nIndexesWas", count).append("nIndexes", count);
    let mut shown = reply.start_array("indexes");
    for index in &indexes {
        shown.push(&index.to_document().to_buf());
    }
    Ok(())
}
