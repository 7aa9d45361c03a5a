//! `dataSize`: the size of a collection, from its counters.

use super::{Command, OnSecondary, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult, code};
use catalog::Namespace;
use dispatch::narrow;
use document::{DocumentBuilder, RawValue};

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::IfAllowed,
    aliases: &["datasize"],
    ..Command::new("dataSize", "Tells the size of a collection.", Run::Now(run))
};

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let RawValue::String(full) = context.fields.target() else {
        let found = context.fields.target().kind();
        return Err(context.fields.wrong_type("dataSize", found, &["string"]));
    };
    let namespace = Namespace::parse(full)?;
    let has_range =
        ["min", "max", "keyPattern"].map(|name| context.fields.any(name)).iter().any(Option::is_some);
    let estimate = context.fields.flexible_boolean("estimate")?.unwrap_or(false);
    context.fields.finish()?;
    if has_range {
        let message =
            "dataSize of a part of a collection is not supported: leave out keyPattern, min and max";
        return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, message));
    }
    let found = context.server.node.catalog.collection(namespace.database(), namespace.collection());
    let (size, documents) =
        found.map_or((0, 0), |collection| (collection.data_bytes(), collection.document_count()));
    reply.append("estimate", estimate);
    reply.append_value("size", &narrow(size)).append_value("numObjects", &narrow(documents));
    reply.append("millis", ambient::elapsed(context.started).as_millis() as i32);
    Ok(())
}
