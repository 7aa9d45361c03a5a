//! `getDiagnosticData`: what exporters read at once.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use document::{DocumentBuilder, RawValue};

pub(crate) static COMMAND: Command = Command {
    admin_only: true,
    ..Command::diagnostic_walk(
        "getDiagnosticData",
        "Tells the figures that monitoring collects.",
        Run::Now(run),
    )
};

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.ignore_rest();
    let server = context.server;
    let mut data = reply.start_document("data");
    data.append("start", RawValue::DateTime(server.now_ms()));
    let mut status = data.start_document("serverStatus");
    status.append("start", RawValue::DateTime(server.now_ms()));
    super::server_status::write(server, &super::server_status::Sections::default(), &mut status);
    status.append("ok", 1.0).append("end", RawValue::DateTime(server.now_ms()));
    status.finish();
    let mut metrics = data.start_document("systemMetrics");
    super::host_info::write_system_metrics(&context.server.host.machine, &mut metrics);
    metrics.finish();
    data.append("end", RawValue::DateTime(server.now_ms()));
    Ok(())
}
