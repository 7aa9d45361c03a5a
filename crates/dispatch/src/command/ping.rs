//! `ping`: answers as soon as it is read.

use super::{CommandEntry, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::node::Node;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> CommandEntry<N> {
    CommandEntry {
        api_version_1: true,
        ..CommandEntry::diagnostic("ping", "Answers at once.", Run::Now(run))
    }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()
}
