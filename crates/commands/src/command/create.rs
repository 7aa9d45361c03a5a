//! `create`: makes a collection or a view.

use super::{Command, OnSecondary, Run};
use crate::audit::AuditedCreation;
use crate::context::{CommandContext, OnDataNode};
use crate::error::{CommandError, CommandResult, code};
use catalog::{CollectionOptions, Namespace};
use document::{ArrayBuilder, RawArray, RawDocument};
use query::Environment;
use query::aggregate::Pipeline;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::Never,
    api_version_1: true,
    unstable_fields: &["autoIndexId", "capped", "indexOptionDefaults", "max", "size", "storageEngine"],
    takes_write_concern: true,
    ..Command::new("create", "Makes a collection or a view.", Run::Later(|context, _| Box::pin(run(context))))
};

async fn run(context: &mut CommandContext<'_>) -> CommandResult {
    let (database, name) = context.collection_namespace()?;
    context.fields.ignore(&["encryptedFields", "idIndex"]);
    let options = context.fields.take_rest();
    context.fields.finish()?;
    let options = CollectionOptions::parse(options.as_raw())?;
    if let Some(view) = &options.view {
        check_view(view, context)?;
    }
    let namespace = Namespace::new(database, name);
    make(context, &namespace, options).await
}

/// Makes a collection or a view, and tells the audit log.
pub(super) async fn make(
    context: &CommandContext<'_>,
    namespace: &Namespace,
    options: CollectionOptions,
) -> CommandResult {
    let audited = AuditedCreation::before(context, (namespace.database(), namespace.collection()));
    let view = options.view.clone().filter(|_| audited.is_some());
    context.server.node.catalog.create(&context.writing(), namespace, options).await?;
    if let Some(creation) = audited {
        creation.done(context, view.as_ref()).await;
    }
    Ok(())
}

/// A view's pipeline must parse, and must not write.
fn check_view(view: &catalog::ViewOptions, context: &CommandContext<'_>) -> CommandResult {
    let environment = Environment::at(context.server.now_ms());
    let mut bytes = Vec::new();
    let mut stages = ArrayBuilder::new(&mut bytes);
    for stage in &view.pipeline {
        stages.push(stage);
    }
    stages.finish();
    let stages = RawArray::from_document(RawDocument::trusted(&bytes));
    match Pipeline::parse(stages, &environment)?.output() {
        Some(_) => Err(CommandError::new(
            code::OPTION_NOT_SUPPORTED_ON_VIEW,
            "The aggregation stages $out and $merge are not supported in a view definition",
        )),
        None => Ok(()),
    }
}
