//! `getDefaultRWConcern` and `setDefaultRWConcern`: a standalone has no default concerns.

use super::{Command, OnSecondary, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use document::DocumentBuilder;

const fn entry(name: &'static str, help: &'static str) -> Command {
    Command { admin_only: true, ..Command::diagnostic(name, help, Run::Now(run)) }
}

pub(crate) static GET: Command = entry("getDefaultRWConcern", "Tells the default concerns of a replica set.");

pub(crate) static SET: Command = Command {
    takes_write_concern: true,
    on_secondary: OnSecondary::Never,
    ..entry("setDefaultRWConcern", "Changes the default concerns of a replica set.")
};

/// The command is for replica sets and clusters.
const ON_STANDALONE: i32 = 51_300;

fn run(context: &mut CommandContext<'_>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let message = format!("'{}' is not supported on standalone nodes.", context.command.name);
    Err(CommandError::new(ON_STANDALONE, message))
}
