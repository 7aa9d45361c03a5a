//! `ping`: answers as soon as it is read.

use super::{CommandEntry, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use document::DocumentBuilder;

pub(crate) static COMMAND: CommandEntry = CommandEntry {
    api_version_1: true,
    ..CommandEntry::diagnostic("ping", "Answers at once.", Run::Now(run))
};

fn run(context: &mut CommandContext<'_>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()
}
