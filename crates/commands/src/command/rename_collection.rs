//! `renameCollection`: gives a collection another name, also in another database.

use super::{Command, OnSecondary, Run};
use crate::audit;
use crate::context::{CommandContext, OnDataNode};
use crate::cursors::{collection_dropped, collection_renamed};
use crate::error::{CommandError, CommandResult};
use crate::write::check_not_of_sessions;
use catalog::Namespace;
use document::RawValue;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::Never,
    admin_only: true,
    takes_write_concern: true,
    ..Command::new(
        "renameCollection",
        "Gives a collection another name.",
        Run::Later(|context, _| Box::pin(run(context))),
    )
};

async fn run(context: &mut CommandContext<'_>) -> CommandResult {
    let RawValue::String(from) = context.fields.target() else {
        return Err(context.fields.wrong_type(
            "renameCollection",
            context.fields.target().kind(),
            &["string"],
        ));
    };
    let to = context.fields.string("to")?.ok_or_else(|| context.fields.missing("to"))?;
    // `dropTarget` may also be the UUID of the collection to be dropped.
    let drop_target = match context.fields.any("dropTarget") {
        None | Some(RawValue::Boolean(false)) => false,
        Some(RawValue::Boolean(true) | RawValue::Binary { .. }) => true,
        Some(other) => {
            return Err(context.fields.wrong_type("dropTarget", other.kind(), &["bool", "binData"]));
        }
    };
    context.fields.ignore(&["stayTemp", "collectionUUID"]);
    context.fields.finish()?;
    rename(context, &parse(from)?, &parse(to)?, drop_target).await
}

/// Gives a collection another name, and ends the cursors on it and on what goes for it.
pub(super) async fn rename(
    context: &CommandContext<'_>,
    from: &Namespace,
    to: &Namespace,
    drop_target: bool,
) -> CommandResult {
    let (server, catalog) = (context.server, &context.server.node.catalog);
    for namespace in [from, to] {
        check_not_of_sessions(server, (namespace.database(), namespace.collection()))?;
    }
    let source = catalog.collection(from.database(), from.collection());
    let target = catalog.collection(to.database(), to.collection());
    catalog.rename(&context.writing(), from, to, drop_target).await?;
    let (from, to) = (from.to_string(), to.to_string());
    audit::renamed(context, &from, &to).await;
    let dropped = target.map(|dropped| (to.clone(), collection_dropped(dropped.uuid())));
    let renamed = source.map(|renamed| (from.clone(), collection_renamed(&from, &to, renamed.uuid())));
    server.forget_collections(&dropped.into_iter().chain(renamed).collect());
    Ok(())
}

fn parse(full: &str) -> CommandResult<Namespace> {
    Namespace::parse(full).map_err(CommandError::from)
}
