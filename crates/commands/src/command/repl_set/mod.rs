//! The commands of replica sets. A server that was not started as a member of one refuses them.
//!
//! Source: MongoDB manual, "Replication Commands".

use super::{Command, OnSecondary, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use crate::replica_set::{no_replica_set, refused};
use document::{DocumentBuilder, RawValue};
use replication::set::{ReplicaSet, SetError};
use std::time::Duration;
use wire::ErrorCode;

mod configuration;
mod copy;
mod elections;
mod oplog;
mod state;
mod status;

pub(crate) use configuration::{GET_CONFIG, INITIATE, RECONFIG};
pub(crate) use copy::{COPY, operation as copy_operation};
pub(crate) use oplog::{APPEND_NOTE, RESIZE_OPLOG};
pub(crate) use state::{ABORT_CATCH_UP, FREEZE, MAINTENANCE, STEP_DOWN, STEP_UP, SYNC_FROM};
pub(crate) use status::{GET_RBID, GET_STATUS};

/// A command of any member that answers at once.
const fn diagnostic(name: &'static str, help: &'static str, run: Run) -> Command {
    Command { admin_only: true, ..Command::diagnostic(name, help, run) }
}

/// A command of any member that may wait for others.
const fn waiting(name: &'static str, help: &'static str, run: Run) -> Command {
    Command { admin_only: true, ..Command::new(name, help, run) }
}

/// The set that this server is a member of.
fn set_of<'a>(context: &CommandContext<'a>) -> CommandResult<&'a ReplicaSet> {
    context.server.node.replica_set().ok_or_else(no_replica_set)
}

/// Waits for what the set is asked, until the command's time is over or it is told to end. What was begun
/// then goes on.
async fn asked(
    context: &CommandContext<'_>,
    answer: impl Future<Output = Result<(), SetError>>,
) -> CommandResult {
    context.interrupt().wait_for(answer).await?.map_err(refused)
}

fn not_initiated(message: &'static str) -> CommandError {
    CommandError::new(ErrorCode::NotYetInitialized as i32, message)
}

/// The command's own field in seconds.
fn seconds(context: &CommandContext<'_>) -> CommandResult<i64> {
    let target = context.fields.target();
    crate::fields::integer(target)
        .ok_or_else(|| context.fields.wrong_type(context.command.name, target.kind(), &["number"]))
}

fn length(seconds: i64) -> Duration {
    Duration::from_secs(seconds.unsigned_abs())
}
