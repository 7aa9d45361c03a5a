//! `top`: where the time goes, by collection.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::node::Node;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        admin_only: true,
        ..Command::diagnostic_walk("top", "Tells time and operations by collection.", Run::Now(run))
    }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()?;
    let mut totals = reply.start_document("totals");
    totals.append("note", "all times in microseconds");
    for (namespace, usage) in context.server.usage.all() {
        totals.append_value(&namespace, &usage.to_document().into());
    }
    Ok(())
}
