//! Initial sync: `_heddleCopy`, and what `replSetGetStatus` tells of it.

use super::*;

pub(crate) static COPY: Command = waiting(
    "_heddleCopy",
    "Gives another member a copy of this one's files; internal.",
    Run::Later(|context, reply| Box::pin(copy(context, reply))),
);

async fn copy(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.ignore_rest();
    let set = set_of(context)?.clone();
    context.offload().await;
    let answer = set.copy(context.body).map_err(refused)?;
    reply.append_all(answer.as_raw());
    Ok(())
}

/// Tells how far an initial sync is, if there is one; whether there is.
pub(super) fn write_progress(set: &ReplicaSet, now_ms: i64, reply: &mut DocumentBuilder<'_>) -> bool {
    let Some(progress) = set.copy_progress() else { return false };
    let elapsed = ambient::elapsed(progress.began).as_millis() as i64;
    let (bytes, total) = (progress.bytes as i64, progress.bytes_total as i64);
    let left = total.saturating_sub(bytes).saturating_mul(elapsed).checked_div(bytes).unwrap_or(0);
    let mut status = reply.start_document("initialSyncStatus");
    status.append("method", "fileCopyBased").append("syncSourceHost", progress.source.as_str());
    status.append("initialSyncStart", RawValue::DateTime(now_ms - elapsed));
    status.append("totalInitialSyncElapsedMillis", elapsed);
    status.append("remainingInitialSyncEstimatedMillis", left);
    status.append("approxTotalDataSize", total).append("approxTotalBytesCopied", bytes);
    status.append("percent", bytes as f64 * 100.0 / total.max(1) as f64);
    true
}
