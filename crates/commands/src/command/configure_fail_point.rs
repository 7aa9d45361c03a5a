//! `configureFailPoint`: faults on demand, for testing clients.

use super::{CommandEntry, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use document::DocumentBuilder;

pub(crate) static COMMAND: CommandEntry = CommandEntry {
    admin_only: true,
    only_for_tests: true,
    ..CommandEntry::diagnostic(
        "configureFailPoint",
        "Makes commands fail, for testing clients.",
        Run::Now(run),
    )
};

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let target = context.fields.target();
    let Some(name) = target.as_str() else {
        return Err(crate::fields::wrong_type(
            "configureFailPoint",
            "configureFailPoint",
            target.kind(),
            &["string"],
        ));
    };
    let mode = context.fields.any("mode").ok_or_else(|| context.fields.missing("mode"))?;
    let data = context.fields.document("data")?;
    context.fields.finish()?;
    let entered = context.server.failpoints.configure(name, mode, data)?;
    tracing::warn!(target: "COMMAND", id = 23_829, failpoint = name, "Set fail point");
    reply.append("count", entered);
    Ok(())
}
