//! `waitForFailPoint`: waits until a fail point was entered so many times.

use super::configure_fail_point::named;
use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::node::Node;
use document::DocumentBuilder;
use std::time::Duration;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        admin_only: true,
        only_for_tests: true,
        ..Command::diagnostic(
            "waitForFailPoint",
            "Waits until a fail point was entered so many times.",
            Run::Later(|context, reply| Box::pin(run(context, reply))),
        )
    }
}

/// Between two looks at the count.
const PAUSE: Duration = Duration::from_millis(10);

async fn run<N: Node>(
    context: &mut CommandContext<'_, N>,
    _reply: &mut DocumentBuilder<'_>,
) -> CommandResult {
    let fields = &mut context.fields;
    let wanted = fields.integer("timesEntered")?.ok_or_else(|| fields.missing("timesEntered"))?;
    if context.generic.max_time.is_none() {
        return Err(fields.missing("maxTimeMS"));
    }
    fields.finish()?;
    let point = named(fields.target())?;
    let server = context.server;
    while i64::from(server.failpoints.times_entered(point)) < wanted {
        server.sleep(context.interrupt(), ambient::now() + PAUSE).await?;
    }
    Ok(())
}
