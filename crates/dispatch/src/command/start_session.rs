//! `startSession`: a new session.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::node::Node;
use crate::parameters::Parameter;
use crate::sessions::SessionId;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command { ..Command::diagnostic("startSession", "Begins a logical session.", Run::Now(run)) }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()?;
    let session = SessionId::random();
    context.server.sessions.touch(session, context.started)?;
    let mut id = reply.start_document("id");
    session.append_to(&mut id);
    id.finish();
    reply.append("timeoutMinutes", context.server.parameters.integer(Parameter::SessionTimeout) as i32);
    Ok(())
}

/// The sessions that the command's own field lists: `{endSessions: [{id: UUID}, …]}`.
pub(crate) fn listed<N: Node>(context: &CommandContext<'_, N>) -> CommandResult<Vec<SessionId>> {
    let name = context.command.name;
    let target = context.fields.target();
    let Some(array) = target.as_array() else {
        return Err(crate::fields::wrong_type(name, name, target.kind(), &["array"]));
    };
    array
        .iter()
        .map(|value| match value.as_document() {
            Some(document) => SessionId::parse(document, name),
            None => Err(crate::fields::wrong_type(name, "id", value.kind(), &["object"])),
        })
        .collect()
}
