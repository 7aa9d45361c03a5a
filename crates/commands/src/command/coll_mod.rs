//! `collMod`: changes options of a collection, of one of its indexes, or of a view.

use super::{Command, OnSecondary, Run};
use crate::context::{CommandContext, OnDataNode};
use crate::error::CommandResult;
use crate::write::check_not_of_sessions;
use catalog::Namespace;
use document::DocumentBuilder;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::Never,
    api_version_1: true,
    takes_write_concern: true,
    ..Command::new(
        "collMod",
        "Changes options of a collection, an index or a view.",
        Run::Later(|context, reply| Box::pin(run(context, reply))),
    )
};

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let (database, name) = context.collection_namespace()?;
    let changes = context.fields.take_rest();
    context.fields.finish()?;
    check_not_of_sessions(context.server, (database, name))?;
    let namespace = Namespace::new(database, name);
    let changed =
        context.server.node.catalog.coll_mod(&context.writing(), &namespace, changes.as_raw()).await?;
    reply.append_fields(&changed);
    Ok(())
}
