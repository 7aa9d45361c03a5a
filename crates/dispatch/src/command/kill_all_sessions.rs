//! `killAllSessions` and `killAllSessionsByPattern`: ends what sessions do. Without authentication every
//! session matches a user pattern only when it names nobody.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::node::Node;
use crate::sessions::SessionId;
use document::{DocumentBuilder, RawArray};

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        ..Command::diagnostic_walk(
            "killAllSessions",
            "Kills the operations and cursors of all sessions of users.",
            Run::Now(run),
        )
    }
}

pub(crate) const fn by_pattern<N: Node>() -> Command<N> {
    Command {
        ..Command::diagnostic_walk(
            "killAllSessionsByPattern",
            "Kills the operations and cursors of sessions that match a pattern.",
            Run::Now(run_by_pattern),
        )
    }
}

fn patterns<'a, N: Node>(context: &mut CommandContext<'a, N>) -> CommandResult<RawArray<'a>> {
    let name = context.command.name;
    let target = context.fields.target();
    context.fields.finish()?;
    target.as_array().ok_or_else(|| crate::fields::wrong_type(name, name, target.kind(), &["array"]))
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    if patterns(context)?.is_empty() {
        kill_all(context);
    }
    Ok(())
}

fn run_by_pattern<N: Node>(
    context: &mut CommandContext<'_, N>,
    _reply: &mut DocumentBuilder<'_>,
) -> CommandResult {
    let patterns = patterns(context)?;
    let mut everyone = patterns.is_empty();
    let mut named = Vec::new();
    for pattern in patterns.iter().filter_map(document::RawValue::as_document) {
        match pattern.get("lsid").and_then(document::RawValue::as_document) {
            Some(lsid) => named.push(SessionId::parse(lsid, "lsid")?),
            None => everyone |= pattern.is_empty(),
        }
    }
    // Each of the two walks over all operations once, however many patterns there are.
    if everyone {
        kill_all(context);
    }
    if !named.is_empty() {
        context.server.kill_sessions(&named);
    }
    Ok(())
}

fn kill_all<N: Node>(context: &CommandContext<'_, N>) {
    let own = context.generic.session;
    let mut others = context.server.sessions.all();
    others.retain(|session| Some(*session) != own);
    context.server.kill_sessions(&others);
}
