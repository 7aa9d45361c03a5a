//! `ping`: answers as soon as it is read.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::node::Node;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command { api_version_1: true, ..Command::diagnostic("ping", "Answers at once.", Run::Now(run)) }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()
}
