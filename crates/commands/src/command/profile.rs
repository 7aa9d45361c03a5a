//! `profile`: the database profiler is not offered; slow commands are in the log.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::error::{CommandError, code};
use crate::parameters::{Parameter, Setting};
use document::DocumentBuilder;

pub(crate) static COMMAND: Command =
    Command::diagnostic("profile", "Tells that profiling is off.", Run::Now(run));

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let level = crate::fields::integer(context.fields.target()).unwrap_or(-1);
    context.fields.ignore(&["sampleRate", "filter"]);
    let parameters = &context.server.parameters;
    let before = parameters.integer(Parameter::SlowMilliseconds);
    if let Some(slow) = context.fields.integer_at_least("slowms", 0)? {
        parameters.change(Parameter::SlowMilliseconds, Setting::Integer(slow))?;
    }
    context.fields.finish()?;
    if level > 0 {
        let message = "the profiler is not supported; slow commands are logged, see slowOpThresholdMs";
        return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, message));
    }
    reply.append("was", 0).append("slowms", before as i32).append("sampleRate", 1.0);
    Ok(())
}
