//! `commitTransaction` and `abortTransaction`: transactions are those of replica sets; a command that is in
//! none hears so here, one with a transaction's number earlier.

use super::{Command, OnSecondary, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use document::DocumentBuilder;

const fn entry(name: &'static str, help: &'static str) -> Command {
    Command {
        admin_only: true,
        api_version_1: true,
        takes_write_concern: true,
        on_secondary: OnSecondary::Never,
        ..Command::diagnostic(name, help, Run::Now(run))
    }
}

pub(crate) static ABORT: Command = entry("abortTransaction", "Undoes a transaction; there are none.");

pub(crate) static COMMIT: Command =
    entry("commitTransaction", "Keeps what a transaction did; there are none.");

fn run(context: &mut CommandContext<'_>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let message = format!("{} must be run within a transaction", context.command.name);
    Err(CommandError::new(wire::ErrorCode::CommandFailed as i32, message))
}
