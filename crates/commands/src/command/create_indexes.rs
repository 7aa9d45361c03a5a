//! `createIndexes`: makes indexes, building them on what is there.

use super::{CommandEntry, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use catalog::{IndexSpec, Namespace};
use document::{DocumentBuilder, RawValue};

pub(crate) static COMMAND: CommandEntry = CommandEntry {
    api_version_1: true,
    takes_write_concern: true,
    ..CommandEntry::new(
        "createIndexes",
        "Makes indexes.",
        Run::Later(|context, reply| Box::pin(run(context, reply))),
    )
};

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let (database, name) = context.collection_namespace()?;
    let indexes = context.fields.array("indexes")?.ok_or_else(|| context.fields.missing("indexes"))?;
    // How many members of a replica set must agree: there is one.
    context.fields.ignore(&["commitQuorum", "ignoreUnknownIndexOptions", "collectionUUID"]);
    context.fields.finish()?;
    let specs = indexes.iter().map(|spec| parse(spec, context)).collect::<CommandResult<Vec<_>>>()?;
    if specs.is_empty() {
        return Err(CommandError::bad_value("Must specify at least one index to create"));
    }
    let report = context.server.catalog.create_indexes(&Namespace::new(database, name), &specs).await?;
    let count = |indexes: usize| i32::try_from(indexes).unwrap_or(i32::MAX);
    reply.append("numIndexesBefore", count(report.indexes_before));
    reply.append("numIndexesAfter", count(report.indexes_after));
    if report.created_collection {
        reply.append("createdCollectionAutomatically", true);
    } else if report.indexes_before == report.indexes_after {
        reply.append("note", "all indexes already exist");
    } else {
        reply.append("createdCollectionAutomatically", false);
    }
    Ok(())
}

fn parse(spec: RawValue<'_>, context: &CommandContext<'_>) -> CommandResult<IndexSpec> {
    let Some(spec) = spec.as_document() else {
        return Err(context.fields.wrong_type("indexes.0", spec.kind(), &["object"]));
    };
    Ok(IndexSpec::parse(spec)?)
}
