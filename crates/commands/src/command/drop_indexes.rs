//! `dropIndexes`: removes indexes by name, by key pattern, or all but `_id_`.

use super::{Command, OnSecondary, Run};
use crate::audit;
use crate::context::{CommandContext, OnDataNode};
use crate::error::{CommandError, CommandResult};
use catalog::{IndexSelection, Namespace};
use document::{DocumentBuilder, RawValue};

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::Never,
    aliases: &["deleteIndexes"],
    api_version_1: true,
    takes_write_concern: true,
    ..Command::new(
        "dropIndexes",
        "Removes indexes.",
        Run::Later(|context, reply| Box::pin(run(context, reply))),
    )
};

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let (database, name) = context.collection_namespace()?;
    let selection = context.fields.any("index").ok_or_else(|| context.fields.missing("index"))?;
    context.fields.ignore(&["collectionUUID"]);
    context.fields.finish()?;
    let selection = parse(selection, context)?;
    let namespace = Namespace::new(database, name);
    let known = audit::index_names(context, (database, name));
    let before = context.server.node.catalog.drop_indexes(&context.writing(), &namespace, &selection).await?;
    audit::indexes_dropped(context, (database, name), &known).await;
    reply.append("nIndexesWas", i32::try_from(before).unwrap_or(i32::MAX));
    if selection == IndexSelection::All {
        reply.append("msg", "non-_id indexes dropped for collection");
    }
    Ok(())
}

fn parse(selection: RawValue<'_>, context: &CommandContext<'_>) -> CommandResult<IndexSelection> {
    match selection {
        RawValue::String("*") => Ok(IndexSelection::All),
        RawValue::String(name) => Ok(IndexSelection::Names(vec![name.to_owned()])),
        RawValue::Document(pattern) => Ok(IndexSelection::Pattern(pattern.to_document())),
        RawValue::Array(names) => {
            let names: Option<Vec<String>> =
                names.iter().map(|name| name.as_str().map(str::to_owned)).collect();
            names.map(IndexSelection::Names).ok_or_else(|| {
                CommandError::type_mismatch("dropIndexes expected an array of index names as strings")
            })
        }
        other => Err(context.fields.wrong_type("index", other.kind(), &["string", "object", "array"])),
    }
}
