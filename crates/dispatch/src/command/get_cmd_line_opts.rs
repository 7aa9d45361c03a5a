//! `getCmdLineOpts`: how the server was started.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::node::Node;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        admin_only: true,
        ..Command::diagnostic(
            "getCmdLineOpts",
            "Tells the command line and the options it means.",
            Run::Now(run),
        )
    }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.ignore_rest();
    let host = &context.server.host;
    let mut arguments = reply.start_array("argv");
    for argument in &host.arguments {
        arguments.push(argument);
    }
    arguments.finish();
    reply.append_value("parsed", &host.parsed_options.clone().into());
    Ok(())
}
