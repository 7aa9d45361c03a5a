//! `replSetResizeOplog` and `appendOplogNote`.

use super::*;
use document::{DocumentBuf, Number};

pub(crate) static RESIZE_OPLOG: Command = waiting(
    "replSetResizeOplog",
    "Changes the size of the oplog, and for how long its entries stay.",
    Run::Later(|context, _| Box::pin(resize(context))),
);

pub(crate) static APPEND_NOTE: Command = Command {
    on_secondary: OnSecondary::Never,
    takes_write_concern: true,
    ..waiting(
        "appendOplogNote",
        "Logs an operation that changes nothing.",
        Run::Later(|context, _| Box::pin(append_note(context))),
    )
};

const MEGABYTE: f64 = 1024.0 * 1024.0;
/// The least size of an oplog, in megabytes.
const SIZE_MIN: f64 = 990.0;
/// The greatest one: a petabyte.
const SIZE_MAX: f64 = 1024.0 * 1024.0 * 1024.0;

async fn resize(context: &mut CommandContext<'_>) -> CommandResult {
    let size = number(context, "size")?;
    let hours = number(context, "minRetentionHours")?;
    let oplog = context.server.node.replica_set().and_then(ReplicaSet::oplog);
    let Some(oplog) = oplog else {
        return Err(CommandError::new(ErrorCode::NamespaceNotFound as i32, "oplog does not exist"));
    };
    context.fields.finish()?;
    let bounded = |name: &str, bound: &str, actual: f64| {
        let message = format!("BSON field '{name}' value must be {bound}, actual value '{actual}'");
        Err(CommandError::new(crate::error::code::VALUE_OUT_OF_BOUNDS, message))
    };
    match (size, hours) {
        (None, None) => {
            return Err(CommandError::invalid_options(
                "Either 'size' or 'minRetentionHours' must be specified",
            ));
        }
        (Some(size), _) if size < SIZE_MIN => return bounded("size", ">= 990", size),
        (Some(size), _) if size.is_nan() || size > SIZE_MAX => {
            return bounded("size", "<= 1.07374e+09", size);
        }
        (_, Some(hours)) if hours.is_nan() || hours < 0.0 => {
            return bounded("minRetentionHours", ">= 0", hours);
        }
        _ => {}
    }
    if let Some(size) = size {
        oplog.resize((size * MEGABYTE) as u64).await?;
    }
    if let Some(hours) = hours {
        let retention = Duration::try_from_secs_f64(hours * 3600.0).unwrap_or(Duration::MAX);
        oplog.set_retention((!retention.is_zero()).then_some(retention));
    }
    Ok(())
}

fn number(context: &mut CommandContext<'_>, name: &str) -> CommandResult<Option<f64>> {
    let Some(value) = context.fields.any(name) else { return Ok(None) };
    match Number::from_raw(value) {
        Some(number) => Ok(Some(number.to_f64())),
        None => Err(context.fields.wrong_type(name, value.kind(), &["double", "decimal", "long", "int"])),
    }
}

async fn append_note(context: &mut CommandContext<'_>) -> CommandResult {
    let set = set_of(context)?;
    let note: DocumentBuf = match context.fields.document("data")? {
        Some(note) => note.to_buf(),
        None => return Err(context.fields.missing("data")),
    };
    context.fields.ignore(&["maxClusterTime"]);
    context.fields.finish()?;
    asked(context, async { set.append_note(note).await.map(drop) }).await
}
