//! `saslStart`, `saslContinue`, `authenticate` and `logout`: there are no users yet, so that nobody can log
//! in. A connection string with a password learns so in the words that drivers understand.
//!
//! Source: driver specification, "Authentication"; RFC 5802.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::counters::MECHANISMS;
use crate::error::{CommandError, CommandResult, code};
use crate::node::Node;
use document::{DocumentBuilder, RawValue};

const fn row<N: Node>(name: &'static str, help: &'static str, run: Run<N>) -> Command<N> {
    Command { api_version_1: true, ..Command::diagnostic(name, help, run) }
}

pub(crate) const fn sasl_start_entry<N: Node>() -> Command<N> {
    row("saslStart", "Begins to log in; there are no users.", Run::Now(sasl_start))
}

pub(crate) const fn sasl_continue_entry<N: Node>() -> Command<N> {
    row("saslContinue", "Goes on logging in.", Run::Now(sasl_continue))
}

pub(crate) const fn authenticate_entry<N: Node>() -> Command<N> {
    row("authenticate", "Logs in with a certificate; there are no users.", Run::Now(authenticate))
}

pub(crate) const fn logout_entry<N: Node>() -> Command<N> {
    Command::diagnostic("logout", "Ends being logged in.", Run::Now(logout))
}

fn sasl_start<N: Node>(
    context: &mut CommandContext<'_, N>,
    _reply: &mut DocumentBuilder<'_>,
) -> CommandResult {
    let fields = &mut context.fields;
    let mechanism = fields.string("mechanism")?.ok_or_else(|| fields.missing("mechanism"))?;
    match fields.any("payload") {
        Some(RawValue::Binary { .. } | RawValue::String(_)) => {}
        Some(other) => return Err(fields.wrong_type("payload", other.kind(), &["binData", "string"])),
        None => return Err(fields.missing("payload")),
    }
    fields.ignore(&["db", "autoAuthorize", "options"]);
    fields.finish()?;
    let Some(known) = MECHANISMS.iter().position(|known| *known == mechanism) else {
        let message =
            format!("Received authentication for mechanism {mechanism} which is unknown or not enabled");
        return Err(CommandError::new(code::MECHANISM_UNAVAILABLE, message));
    };
    if let Some(counter) = context.server.counters.logins.get(known) {
        counter.add(1);
    }
    Err(failed(context, mechanism))
}

fn sasl_continue<N: Node>(
    context: &mut CommandContext<'_, N>,
    _reply: &mut DocumentBuilder<'_>,
) -> CommandResult {
    context.fields.ignore(&["conversationId", "payload"]);
    context.fields.finish()?;
    Err(CommandError::new(code::PROTOCOL_ERROR, "No SASL session state found"))
}

fn authenticate<N: Node>(
    context: &mut CommandContext<'_, N>,
    _reply: &mut DocumentBuilder<'_>,
) -> CommandResult {
    let mechanism = context.fields.string("mechanism")?.unwrap_or("MONGODB-X509");
    context.fields.ignore(&["user", "db"]);
    context.fields.finish()?;
    Err(failed(context, mechanism))
}

fn failed<N: Node>(context: &CommandContext<'_, N>, mechanism: &str) -> CommandError {
    tracing::info!(target: "ACCESS", id = 5_286_307, ctx = %context.client.description(),
        remote = %context.client.remote, mechanism, database = context.database,
        "Failed to authenticate: there are no users");
    CommandError::new(code::AUTHENTICATION_FAILED, "Authentication failed.")
}

fn logout<N: Node>(context: &mut CommandContext<'_, N>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()
}
