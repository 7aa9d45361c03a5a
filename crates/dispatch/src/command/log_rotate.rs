//! `logRotate`: begins new files for the log and the audit log.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult, code};
use crate::node::Node;
use document::{DocumentBuilder, RawValue};

pub(crate) const fn command<N: Node>() -> Command<N> {
    let help = "Moves the files of the log and of the audit log aside and begins new ones.";
    Command { admin_only: true, ..Command::new("logRotate", help, Run::Now(run)) }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let (server, audit) = match context.fields.target() {
        RawValue::String("server") => (true, false),
        RawValue::String("audit") => (false, true),
        RawValue::String(other) => {
            let message = format!("Unknown log type '{other}': expected 'server' or 'audit'");
            return Err(CommandError::new(code::BAD_VALUE, message));
        }
        _ => (true, true),
    };
    context.fields.ignore_rest();
    let host = &context.server.host;
    if server {
        host.log.rotate().map_err(CommandError::internal)?;
    }
    if let Some(log) = host.audit.as_ref().filter(|_| audit) {
        log.rotate(Some(context.client)).map_err(CommandError::internal)?;
    }
    Ok(())
}
