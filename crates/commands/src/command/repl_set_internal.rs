//! What the members of a set tell each other, by the commands of the protocol.
//!
//! Source of `replSetHeartbeat` and `_isSelf`: MongoDB 7.0, as its members send them.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult, code};
use crate::replica_set::refused;
use document::{DocumentBuilder, RawValue};
use replication::set::ReplicaSet;

pub(crate) static CONSENSUS: Command = Command {
    admin_only: true,
    ..Command::diagnostic(
        "_heddleConsensus",
        "Takes messages of the set's log from another member; internal.",
        Run::Now(consensus),
    )
};

pub(crate) static HEARTBEAT: Command = Command {
    admin_only: true,
    ..Command::diagnostic(
        "replSetHeartbeat",
        "Tells another member what this one does and how far it has come; internal.",
        Run::Now(heartbeat),
    )
};

pub(crate) static IS_SELF: Command = Command {
    admin_only: true,
    ..Command::diagnostic(
        "_isSelf",
        "Tells which process this is, so that a member knows itself under any name; internal.",
        Run::Now(is_self),
    )
};

fn is_self(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.ignore_rest();
    reply.append("id", RawValue::ObjectId(member(context)?.instance()));
    Ok(())
}

/// It comes on a thread of the other member's own, however long it is.
fn consensus(context: &mut CommandContext<'_>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.ignore_rest();
    member(context)?.receive(context.body).map_err(refused)
}

fn heartbeat(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.ignore_rest();
    let answer = member(context)?.heartbeat(context.body).map_err(refused)?;
    reply.append_all(answer.as_raw());
    Ok(())
}

fn member<'a>(context: &CommandContext<'a>) -> CommandResult<&'a ReplicaSet> {
    let set = context.server.node.replica_set();
    set.ok_or_else(|| CommandError::new(code::NO_REPLICATION_ENABLED, "not running with --replSet"))
}
