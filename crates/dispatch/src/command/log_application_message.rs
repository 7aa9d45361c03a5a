//! `logApplicationMessage`: puts a line of a client's into the audit log. `audit` writes it when the command
//! has ended.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::node::Node;
use document::{DocumentBuilder, RawValue};

pub(crate) const fn command<N: Node>() -> Command<N> {
    let help = "Puts a message into the audit log.";
    Command { admin_only: true, ..Command::new("logApplicationMessage", help, Run::Now(run)) }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let target = context.fields.target();
    let RawValue::String(_) = target else {
        return Err(context.fields.wrong_type("logApplicationMessage", target.kind(), &["string"]));
    };
    context.fields.finish()
}
