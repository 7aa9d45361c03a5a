//! The commands on logical sessions: they begin, stay alive, and end with their cursors and operations.
//! Without authentication every session matches a user pattern only when it names nobody.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::fields::wrong_type;
use crate::node::Node;
use crate::parameters::Parameter;
use crate::sessions::LogicalSessionId;
use document::{DocumentBuilder, RawArray, RawValue};

pub(crate) const fn start<N: Node>() -> Command<N> {
    Command::diagnostic("startSession", "Begins a logical session.", Run::Now(run_start))
}

pub(crate) const fn refresh<N: Node>() -> Command<N> {
    let run = Run::<N>::Now(|context, _| {
        for session in listed(context)? {
            context.server.sessions.touch(session, context.started)?;
        }
        Ok(())
    });
    Command {
        api_version_1: true,
        ..Command::diagnostic("refreshSessions", "Keeps logical sessions alive.", run)
    }
}

pub(crate) const fn end<N: Node>() -> Command<N> {
    let run = Run::<N>::Now(|context, _| {
        context.server.end_sessions(&listed(context)?);
        Ok(())
    });
    let help = "Ends logical sessions and closes their cursors.";
    Command { api_version_1: true, ..Command::diagnostic_walk("endSessions", help, run) }
}

pub(crate) const fn kill<N: Node>() -> Command<N> {
    let run = Run::<N>::Now(|context, _| {
        context.server.kill_sessions(&listed(context)?);
        Ok(())
    });
    Command::diagnostic_walk("killSessions", "Kills the operations and cursors of logical sessions.", run)
}

pub(crate) const fn kill_all<N: Node>() -> Command<N> {
    let run = Run::<N>::Now(|context, _| {
        if array(context)?.is_empty() {
            kill_others(context);
        }
        Ok(())
    });
    let help = "Kills the operations and cursors of all sessions of users.";
    Command::diagnostic_walk("killAllSessions", help, run)
}

pub(crate) const fn kill_all_by_pattern<N: Node>() -> Command<N> {
    let help = "Kills the operations and cursors of sessions that match a pattern.";
    Command::diagnostic_walk(
        "killAllSessionsByPattern",
        help,
        Run::Now(|context, _| kill_by_pattern(context)),
    )
}

fn run_start<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()?;
    let session = LogicalSessionId::random();
    context.server.sessions.touch(session, context.started)?;
    session.append_to(&mut reply.start_document("id"));
    reply.append("timeoutMinutes", context.server.parameters.integer(Parameter::SessionTimeout) as i32);
    Ok(())
}

/// The command's own field, which is all that it has.
fn array<'a, N: Node>(context: &CommandContext<'a, N>) -> CommandResult<RawArray<'a>> {
    let (name, target) = (context.command.name, context.fields.target());
    context.fields.finish()?;
    target.as_array().ok_or_else(|| wrong_type(name, name, target.kind(), &["array"]))
}

/// The sessions that the command's own field lists: `{endSessions: [{id: UUID}, …]}`.
fn listed<N: Node>(context: &CommandContext<'_, N>) -> CommandResult<Vec<LogicalSessionId>> {
    let name = context.command.name;
    let parse = |value: RawValue<'_>| match value.as_document() {
        Some(document) => LogicalSessionId::parse(document, name),
        None => Err(wrong_type(name, "id", value.kind(), &["object"])),
    };
    array(context)?.iter().map(parse).collect()
}

fn kill_by_pattern<'a, N: Node>(context: &CommandContext<'a, N>) -> CommandResult {
    /// As MongoDB's messages call the list.
    const PATTERNS: &str = "KillAllSessionsByPatternCmd.killAllSessionsByPattern";
    let patterns = array(context)?;
    let mut everyone = patterns.is_empty();
    let mut named = Vec::new();
    let document = |name: &str, value: RawValue<'a>| {
        value.as_document().ok_or_else(|| wrong_type(PATTERNS, name, value.kind(), &["object"]))
    };
    for (position, pattern) in patterns.iter().enumerate() {
        let pattern = document(&position.to_string(), pattern)?;
        match pattern.get("lsid").filter(|lsid| !matches!(lsid, RawValue::Null)) {
            Some(lsid) => named.push(LogicalSessionId::parse(document("lsid", lsid)?, "lsid")?),
            None => everyone |= pattern.is_empty(),
        }
    }
    // Each of the two walks over all operations once, however many patterns there are.
    if everyone {
        kill_others(context);
    }
    if !named.is_empty() {
        context.server.kill_sessions(&named);
    }
    Ok(())
}

fn kill_others<N: Node>(context: &CommandContext<'_, N>) {
    let own = context.generic.session;
    let mut others = context.server.sessions.all();
    others.retain(|session| Some(*session) != own);
    context.server.kill_sessions(&others);
}
