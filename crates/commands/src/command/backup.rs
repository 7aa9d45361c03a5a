//! `heddleBackup`: a backup of all data into a directory on the server's machine. Heddle's own.

use super::{Command, OnSecondary, Run};
use crate::calendar::{self, WorkKind, WorkPace, await_window};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult, code};
use crate::server::ServiceContext;
use backup::{BackupError, BackupProgress, BackupReport, BackupRequest};
use catalog::ReadError;
use document::DocumentBuilder;
use query::calendar::WorkRate;
use query::checkpoint;
use std::path::Path;
use std::time::Duration;
use wire::ErrorCode;

/// How often a backup that rests looks whether it is to end.
const LOOK_EACH: Duration = Duration::from_millis(100);
/// While it stands still, in so many of these times once it asks whether its window is open.
const LOOKS_PER_QUESTION: u32 = 10;

pub(crate) static COMMAND: Command = Command {
    admin_only: true,
    on_secondary: OnSecondary::Always,
    ..Command::new(
        "heddleBackup",
        "Backs all data up into a directory on the server's machine.",
        Run::Later(|context, reply| Box::pin(run(context, reply))),
    )
};

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let directory = context.fields.string("directory")?.ok_or_else(|| context.fields.missing("directory"))?;
    let keep = context.fields.integer_at_least("keep", 1)?;
    let is_urgent = context.fields.flexible_boolean("now")?.unwrap_or(false);
    context.fields.finish()?;
    if !Path::new(directory).is_absolute() {
        let message =
            format!("'directory' must be an absolute path on the server's machine, found '{directory}'");
        return Err(CommandError::bad_value(message));
    }
    context.offload().await;
    if !is_urgent {
        await_window(context, WorkKind::Backup).await?;
    }
    let (operation, server) = (&context.operation, context.server);
    // It is ended in between, so that it can clean up.
    let mut ended = None;
    let mut check = || {
        checkpoint::look().map_err(|end| {
            ended = Some(end);
            BackupError::Ended
        })
    };
    let (pace, mut moved) = (WorkPace::default(), 0);
    let mut look = |BackupProgress { done, total }: BackupProgress| {
        let bytes = done - std::mem::replace(&mut moved, done);
        let rate = match is_urgent {
            true => WorkRate::default(),
            false => await_next_window(server, &mut check, |why| {
                operation.set_progress(format!("backup: {why}, {done} of {total} bytes"), done, total);
            })?,
        };
        operation.set_progress(format!("backup: {done} of {total} bytes"), done, total);
        let mut rest = pace.rest_after(rate, 0, bytes);
        loop {
            check()?;
            if rest.is_zero() {
                return Ok(());
            }
            std::thread::sleep(rest.min(LOOK_EACH));
            rest = rest.saturating_sub(LOOK_EACH);
        }
    };
    let keep = keep.and_then(|keep| usize::try_from(keep).ok());
    let request = BackupRequest { directory: Path::new(directory), keep, release: env!("CARGO_PKG_VERSION") };
    let taken = backup::take(&context.server.node.store, request, &mut look);
    match (taken, ended) {
        (Err(BackupError::Ended), Some(end)) => Err(end.into()),
        (taken, _) => {
            write(&taken.map_err(refused)?, directory, reply);
            Ok(())
        }
    }
}

/// Stands still behind the end of a window until the next one opens, unless the disk needs the room of the
/// files that are kept meanwhile; the rate from then on.
///
/// # Errors
/// What `check` says, which is asked now and then.
fn await_next_window(
    server: &ServiceContext,
    check: &mut impl FnMut() -> Result<(), BackupError>,
    tell: impl FnOnce(&str),
) -> Result<WorkRate, BackupError> {
    let mut tell = Some(tell);
    loop {
        if let Some(rate) = calendar::ask_to_go_on(server, WorkKind::Backup).rate() {
            return Ok(rate);
        }
        if let Some(tell) = tell.take() {
            tell("waits for its window in the calendar");
        }
        for _ in 0..LOOKS_PER_QUESTION {
            check()?;
            std::thread::sleep(LOOK_EACH);
        }
    }
}

fn refused(error: BackupError) -> CommandError {
    let number = match &error {
        BackupError::Refused(_) => code::BAD_VALUE,
        BackupError::Busy(_) => code::CONFLICTING_OPERATION_IN_PROGRESS,
        BackupError::Damaged(_) => ErrorCode::DataCorruptionDetected as i32,
        BackupError::NoSpace(_) => ErrorCode::OutOfDiskSpace as i32,
        BackupError::Storage(error) => ReadError::Storage(error.clone()).code(),
        _ => ErrorCode::OperationFailed as i32,
    };
    CommandError::new(number, error.to_string())
}

fn write(report: &BackupReport, directory: &str, reply: &mut DocumentBuilder<'_>) {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let manifest = &report.manifest;
    reply.append("directory", directory).append("generation", number(manifest.generation));
    reply.append("files", number(manifest.files.len() as u64)).append("bytes", number(manifest.bytes()));
    reply.append("bytesNew", number(report.bytes_new)).append("bytesShared", number(report.bytes_shared));
    reply.append("bytesLinked", number(report.bytes_linked));
    reply.append("sequence", number(manifest.sequence));
}
