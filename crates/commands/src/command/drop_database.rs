//! `dropDatabase`: removes all collections and views of a database.

use super::{Command, OnSecondary, Run};
use crate::audit;
use crate::context::{CommandContext, OnDataNode};
use crate::cursors::collection_dropped;
use crate::error::{CommandError, CommandResult, code};
use catalog::CatalogEntry;
use document::DocumentBuilder;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::Never,
    api_version_1: true,
    takes_write_concern: true,
    ..Command::new(
        "dropDatabase",
        "Removes a database.",
        Run::Later(|context, reply| Box::pin(run(context, reply))),
    )
};

/// The command's own field is not 1.
const NOT_ONE: i32 = 5_255_100;

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    if crate::fields::integer(context.fields.target()) != Some(1) {
        return Err(CommandError::new(NOT_ONE, "Have to pass 1 as db parameter"));
    }
    context.fields.finish()?;
    if drop_all(context, context.database).await? {
        reply.append("dropped", context.database);
    }
    Ok(())
}

/// Drops everything in a database, and ends the cursors on it; whether there was anything.
pub(super) async fn drop_all(context: &CommandContext<'_>, database: &str) -> CommandResult<bool> {
    let server = context.server;
    if database == "admin" || database == "config" && server.node.retry_table.is_some() {
        let message = format!("Dropping the '{database}' database is prohibited.");
        return Err(CommandError::new(code::ILLEGAL_OPERATION, message));
    }
    let entries = server.node.catalog.state().entries(database);
    let is_dropped = server.node.catalog.drop_database(&context.writing(), database).await?;
    if is_dropped {
        audit::database_dropped(context, database, &entries).await;
        let lost = entries.into_iter().filter_map(|(namespace, entry)| match entry {
            CatalogEntry::Collection(dropped) => {
                Some((namespace.to_string(), collection_dropped(dropped.uuid())))
            }
            CatalogEntry::View(_) => None,
        });
        server.forget_collections(&lost.collect());
    }
    Ok(is_dropped)
}
