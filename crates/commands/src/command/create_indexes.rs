//! `createIndexes`: makes indexes, building them on what is there.

use super::{Command, OnSecondary, Run};
use crate::audit::{self, AuditedBuild, AuditedCreation};
use crate::context::{CommandContext, OnDataNode};
use crate::error::{CommandError, CommandResult};
use crate::index_builds::progress_of;
use crate::write::check_not_of_sessions;
use catalog::{BuildProgress, CreateIndexesReport, IndexSpec, Namespace};
use document::{DocumentBuilder, RawDocument, RawValue};
use std::future::{Future, poll_fn};
use std::pin::pin;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::Never,
    api_version_1: true,
    takes_write_concern: true,
    ..Command::new(
        "createIndexes",
        "Makes indexes.",
        Run::Later(|context, reply| Box::pin(run(context, reply))),
    )
};

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let (database, name) = context.collection_namespace()?;
    let indexes = context.fields.array("indexes")?.ok_or_else(|| context.fields.missing("indexes"))?;
    let lenient = context.fields.flexible_boolean("ignoreUnknownIndexOptions")?.unwrap_or(false);
    // How many members of a replica set must agree: there is one.
    context.fields.ignore(&["commitQuorum", "collectionUUID"]);
    context.fields.finish()?;
    let specs =
        indexes.iter().map(|spec| parse(spec, lenient, context)).collect::<CommandResult<Vec<_>>>()?;
    if specs.is_empty() {
        return Err(CommandError::bad_value("Must specify at least one index to create"));
    }
    check_not_of_sessions(context.server, (database, name))?;
    let namespace = Namespace::new(database, name);
    let audited = audit::missing_indexes(context, (database, name), indexes);
    let audited_collection = AuditedCreation::before(context, (database, name));
    audit::indexes(context, (database, name), &audited, AuditedBuild::Started).await;
    let writing = context.writing();
    let creation = context.server.node.catalog.create_indexes(&writing, &namespace, &specs);
    let is_asked_for =
        |build: &BuildProgress| build.names().iter().any(|name| specs.iter().any(|spec| spec.name == *name));
    let report = showing_progress(context, &namespace, is_asked_for, creation).await;
    if let Some(creation) = audited_collection.filter(|_| has_made_collection(&report)) {
        creation.done(context, None).await;
    }
    let state = if report.is_ok() { AuditedBuild::Succeeded } else { AuditedBuild::Aborted };
    audit::indexes(context, (database, name), &audited, state).await;
    let report = report?;
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

fn has_made_collection<E>(report: &Result<CreateIndexesReport, E>) -> bool {
    report.as_ref().is_ok_and(|report| report.created_collection)
}

/// Waits for what builds indexes, and tells `currentOp` how far the build of this kind is.
pub(super) async fn showing_progress<F: Future>(
    context: &CommandContext<'_>,
    namespace: &Namespace,
    is_shown: impl Fn(&BuildProgress) -> bool,
    building: F,
) -> F::Output {
    let mut building = pin!(building);
    poll_fn(|task| {
        let polled = building.as_mut().poll(task);
        if polled.is_pending()
            && let Some(collection) =
                context.server.node.catalog.collection(namespace.database(), namespace.collection())
            && let Some(build) = collection.builds().iter().find(|build| is_shown(build))
        {
            let (message, done, total) = progress_of(build);
            context.operation.set_progress(message, done, total);
        }
        polled
    })
    .await
}

/// One element of `indexes`; a `lenient` reading leaves out options that no index has.
fn parse(spec: RawValue<'_>, lenient: bool, context: &CommandContext<'_>) -> CommandResult<IndexSpec> {
    let Some(spec) = spec.as_document() else {
        return Err(context.fields.wrong_type("indexes.0", spec.kind(), &["object"]));
    };
    if !lenient {
        return Ok(IndexSpec::requested(spec)?);
    }
    let mut known = Vec::new();
    let mut builder = DocumentBuilder::new(&mut known);
    for element in spec.iter().filter(|element| IndexSpec::knows_option(element.name())) {
        builder.append_element(element);
    }
    builder.finish();
    Ok(IndexSpec::requested(RawDocument::trusted(&known))?)
}
