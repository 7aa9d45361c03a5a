//! `validateDBMetadata`: whether stored metadata fits an API version; all of it does.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use document::DocumentBuilder;

pub(crate) static COMMAND: Command =
    Command::new("validateDBMetadata", "Checks stored metadata against an API version.", Run::Now(run));

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.document("apiParameters")?.ok_or_else(|| context.fields.missing("apiParameters"))?;
    context.fields.ignore(&["db", "collections"]);
    context.fields.finish()?;
    reply.start_array("apiVersionErrors").finish();
    Ok(())
}
