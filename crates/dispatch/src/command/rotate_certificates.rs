//! `rotateCertificates`: certificates are read anew.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult, code};
use crate::node::Node;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        admin_only: true,
        ..Command::new(
            "rotateCertificates",
            "Reads the server's certificate, authorities and revoked certificates anew, for new connections.",
            Run::Now(run),
        )
    }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let message = context.fields.string("message")?.map(str::to_owned);
    let rotated = context.server.host.transport.rotate_certificates();
    rotated.map_err(|reason| CommandError::new(code::INVALID_SSL_CONFIGURATION, reason))?;
    tracing::info!(target: "network", id = 4_913_400, message_text = message.as_deref().unwrap_or(""),
        "Successfully rotated X509 certificates");
    Ok(())
}
