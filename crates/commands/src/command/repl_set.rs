//! `replSetGetStatus` and `replSetGetConfig`: this is no replica set.

use super::{CommandEntry, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult, code};
use document::DocumentBuilder;

pub(crate) static GET_STATUS: CommandEntry = CommandEntry {
    admin_only: true,
    ..CommandEntry::diagnostic(
        "replSetGetStatus",
        "Tells the state of the replica set; there is none.",
        Run::Now(run),
    )
};

pub(crate) static GET_CONFIG: CommandEntry = CommandEntry {
    admin_only: true,
    ..CommandEntry::diagnostic(
        "replSetGetConfig",
        "Tells the configuration of the replica set; there is none.",
        Run::Now(run),
    )
};

fn run(_context: &mut CommandContext<'_>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    Err(CommandError::new(code::NO_REPLICATION_ENABLED, "not running with --replSet"))
}
