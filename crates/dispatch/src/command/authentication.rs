//! `saslStart`, `saslContinue`, `authenticate` and `logout`.
//!
//! Source: driver specification, "Authentication"; RFC 5802.

use super::{Command, Execution, Run};
use crate::audit::logged_out;
use crate::certificate_login::{CertificateLogin, log_in};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::login::{SaslStart, begin, go_on, payload};
use crate::node::Node;
use document::DocumentBuilder;

const fn row<N: Node>(name: &'static str, help: &'static str, run: Run<N>) -> Command<N> {
    Command { api_version_1: true, has_secrets: true, ..Command::diagnostic(name, help, run) }
}

pub(crate) const fn sasl_start_entry<N: Node>() -> Command<N> {
    let run = Run::<N>::Later(|context, reply| Box::pin(sasl_start(context, reply)));
    // It reads the user.
    Command { execution: Execution::DiagnosticPool, ..row("saslStart", "Begins to log in.", run) }
}

pub(crate) const fn sasl_continue_entry<N: Node>() -> Command<N> {
    let run = Run::<N>::Later(|context, reply| Box::pin(sasl_continue(context, reply)));
    row("saslContinue", "Goes on logging in.", run)
}

pub(crate) const fn authenticate_entry<N: Node>() -> Command<N> {
    let run = Run::<N>::Later(|context, reply| Box::pin(authenticate(context, reply)));
    // It reads the user.
    Command { execution: Execution::DiagnosticPool, ..row("authenticate", "Logs in by a certificate.", run) }
}

pub(crate) const fn logout_entry<N: Node>() -> Command<N> {
    let run = Run::<N>::Later(|context, _| Box::pin(logout(context)));
    Command::diagnostic("logout", "Ends being logged in.", run)
}

async fn sasl_start<N: Node>(
    context: &mut CommandContext<'_, N>,
    reply: &mut DocumentBuilder<'_>,
) -> CommandResult {
    let start = SaslStart::take(&mut context.fields, context.database, false)?;
    begin(context, start, reply).await
}

async fn sasl_continue<N: Node>(
    context: &mut CommandContext<'_, N>,
    reply: &mut DocumentBuilder<'_>,
) -> CommandResult {
    let fields = &mut context.fields;
    let conversation = fields.integer("conversationId")?.ok_or_else(|| fields.missing("conversationId"))?;
    let payload = payload(fields)?;
    fields.finish()?;
    go_on(context, (i32::try_from(conversation).unwrap_or(0), payload), reply).await
}

async fn authenticate<N: Node>(
    context: &mut CommandContext<'_, N>,
    reply: &mut DocumentBuilder<'_>,
) -> CommandResult {
    let login = CertificateLogin::take(&mut context.fields, context.database, false)?;
    log_in(context, &login, reply).await
}

async fn logout<N: Node>(context: &mut CommandContext<'_, N>) -> CommandResult {
    context.fields.finish()?;
    if context.is_audited()
        && let Some(event) = logged_out(format!("Explicit logout from {}", context.database), context.client)
    {
        context.audit(|| event).await;
    }
    context.client.access.log_out();
    Ok(())
}
