//! `getLog`: the newest lines of the log, kept in memory.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use crate::node::Node;
use document::DocumentBuilder;
use document::RawValue;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        admin_only: true,
        ..Command::diagnostic("getLog", "Tells the newest lines of the log.", Run::Now(run))
    }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let RawValue::String(which) = context.fields.target() else {
        let found = context.fields.target().kind();
        return Err(crate::fields::wrong_type("getLog", "getLog", found, &["string"]));
    };
    context.fields.finish()?;
    let log = &context.server.host.log;
    let (total, lines) = match which {
        "*" => {
            let mut names = reply.start_array("names");
            names.push("global").push("startupWarnings");
            return Ok(());
        }
        "global" => log.recent_lines(),
        "startupWarnings" => {
            let lines = log.startup_warnings();
            (lines.len() as u64, lines)
        }
        other => {
            let message = format!("No log named '{other}'");
            return Err(CommandError::new(wire::ErrorCode::OperationFailed as i32, message));
        }
    };
    reply.append("totalLinesWritten", total as i32);
    let mut array = reply.start_array("log");
    for line in &lines {
        array.push(line);
    }
    Ok(())
}
