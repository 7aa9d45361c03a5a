//! The commands of replica sets: this is none.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult, code};
use document::DocumentBuilder;

const fn entry(name: &'static str, help: &'static str, run: Run) -> Command {
    Command { admin_only: true, ..Command::diagnostic(name, help, run) }
}

/// Rows of the table for commands that need a replica set.
macro_rules! replica_set_commands {
    ($($identifier:ident $name:literal $help:literal;)*) => {
        $(pub(crate) static $identifier: Command = entry($name, $help, Run::Now(no_replica_set));)*
    };
}

replica_set_commands! {
    ABORT_CATCH_UP "replSetAbortPrimaryCatchUp" "Ends the catching up of a new primary; there is no replica set.";
    FREEZE "replSetFreeze" "Keeps a member from standing for election; there is no replica set.";
    GET_CONFIG "replSetGetConfig" "Tells the configuration of the replica set; there is none.";
    GET_RBID "replSetGetRBID" "Tells the number of rollbacks; there is no replica set.";
    GET_STATUS "replSetGetStatus" "Tells the state of the replica set; there is none.";
    MAINTENANCE "replSetMaintenance" "Takes a member out of service; there is no replica set.";
    RECONFIG "replSetReconfig" "Changes the configuration of the replica set; there is none.";
    STEP_DOWN "replSetStepDown" "Makes the primary a secondary; there is no replica set.";
    STEP_UP "replSetStepUp" "Begins an election; there is no replica set.";
    SYNC_FROM "replSetSyncFrom" "Chooses from whom a member reads; there is no replica set.";
}

pub(crate) static INITIATE: Command = entry(
    "replSetInitiate",
    "Begins a replica set; the server would have to be started as a member.",
    Run::Now(initiate),
);

pub(crate) static RESIZE_OPLOG: Command =
    entry("replSetResizeOplog", "Changes the size of the oplog; there is none.", Run::Now(resize_oplog));

fn no_replica_set(_context: &mut CommandContext<'_>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    Err(CommandError::new(code::NO_REPLICATION_ENABLED, "not running with --replSet"))
}

fn initiate(_context: &mut CommandContext<'_>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let message = "This node was not started with replication enabled.";
    Err(CommandError::new(code::NO_REPLICATION_ENABLED, message))
}

fn resize_oplog(_context: &mut CommandContext<'_>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    Err(CommandError::new(code::NAMESPACE_NOT_FOUND, "oplog does not exist"))
}
