//! `dropDatabase`: removes all collections and views of a database.

use super::{CommandEntry, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use document::DocumentBuilder;

pub(crate) static COMMAND: CommandEntry = CommandEntry {
    api_version_1: true,
    takes_write_concern: true,
    ..CommandEntry::new(
        "dropDatabase",
        "Removes a database.",
        Run::Later(|context, reply| Box::pin(run(context, reply))),
    )
};

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()?;
    let database = context.database;
    if context.server.catalog.drop_database(database).await? {
        let in_database =
            |namespace: &str| namespace.split_once('.').is_some_and(|(name, _)| name == database);
        context.server.cursors.kill_where(|namespace, _| in_database(namespace));
        reply.append("dropped", database);
    }
    Ok(())
}
