//! `configureFailPoint`: faults on demand, for testing clients.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use crate::failpoints::{FailPoint, Mode};
use crate::node::Node;
use document::{DocumentBuilder, RawDocument, RawValue};
use wire::ErrorCode;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        admin_only: true,
        only_for_tests: true,
        ..Command::diagnostic(
            "configureFailPoint",
            "Makes commands fail, for testing clients.",
            Run::Now(run),
        )
    }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let point = named(context.fields.target())?;
    let mode = context.fields.any("mode").ok_or_else(|| {
        let message = "When setting a failpoint, you must supply a 'mode'";
        CommandError::new(ErrorCode::IllegalOperation as i32, message)
    })?;
    let mode = Mode::parse(mode)?;
    let data = match context.fields.any("data") {
        None => RawDocument::EMPTY,
        Some(RawValue::Document(data)) => data,
        Some(_) => return Err(CommandError::type_mismatch("the 'data' option must be a JSON object")),
    };
    context.fields.ignore_rest();
    let entered = context.server.failpoints.configure(point, mode, data);
    tracing::warn!(target: "COMMAND", id = 23_829, failpoint = point.name(), ?mode, ?data, "Set failpoint");
    reply.append("count", entered);
    Ok(())
}

/// The fail point that a command names.
///
/// # Errors
/// `FailPointSetFailed` when there is none of this name.
pub(super) fn named(target: RawValue<'_>) -> CommandResult<FailPoint> {
    let name = target.as_str().unwrap_or_default();
    FailPoint::by_name(name)
        .ok_or_else(|| CommandError::new(ErrorCode::FailPointSetFailed as i32, format!("{name} not found")))
}
