//! `logRotate`: begins a new log file.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandError;
use crate::error::CommandResult;
use crate::node::Node;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        admin_only: true,
        ..Command::new("logRotate", "Moves the log file aside and begins a new one.", Run::Now(run))
    }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.ignore_rest();
    context.server.host.log.rotate().map_err(CommandError::internal)?;
    let _ = reply;
    Ok(())
}
