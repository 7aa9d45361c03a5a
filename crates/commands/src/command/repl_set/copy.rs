//! Initial sync: `_heddleCopy`, and what `replSetGetStatus` tells of it.

use super::*;
use crate::calendar::{self, WorkKind};
use crate::server::ServiceContext;
use document::{Document, doc};
use replication::set::MemberState;

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
    let rest = match answer.as_raw().get("data") {
        Some(RawValue::Binary { bytes, .. }) => rest_after(context.server, bytes.len() as u64),
        _ => 0,
    };
    for element in answer.as_raw().iter() {
        match element.value().as_i64_exact().filter(|_| element.name() == "pauseMillis") {
            Some(pause) => drop(reply.append("pauseMillis", pause.max(rest))),
            None => drop(reply.append_element(element)),
        }
    }
    Ok(())
}

/// How long a member that copies is to rest after so many bytes, by the rate of the calendar, in
/// milliseconds. A copy that nobody reads from for long is gone.
fn rest_after(server: &ServiceContext, bytes: u64) -> i64 {
    const MILLIS_MAX: i64 = 60_000;
    let rate = calendar::ask(server, WorkKind::InitialSync, None).rate().unwrap_or_default();
    let rest = server.node.calendar.copies.rest_after(rate, 0, bytes);
    i64::try_from(rest.as_millis()).unwrap_or(MILLIS_MAX).min(MILLIS_MAX)
}

/// Tells how an initial sync goes, if there is one; whether there is.
pub(super) fn write_status(set: &ReplicaSet, now_ms: i64, reply: &mut DocumentBuilder<'_>) -> bool {
    let Some(copy) = set.copy_status() else { return false };
    let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let elapsed = millis(ambient::elapsed(copy.began));
    let mut status = reply.start_document("initialSyncStatus");
    status.append("method", "fileCopyBased").append("failedInitialSyncAttempts", copy.failed as i64);
    status.append("initialSyncStart", RawValue::DateTime(now_ms - elapsed));
    status.append("totalInitialSyncElapsedMillis", elapsed);
    if let Some(progress) = &copy.progress {
        let copying = millis(ambient::elapsed(progress.began));
        let (bytes, total) = (progress.bytes as i64, progress.bytes_total as i64);
        let left = total.saturating_sub(bytes).saturating_mul(copying).checked_div(bytes).unwrap_or(0);
        status.append("syncSourceHost", progress.source.as_str());
        status.append("remainingInitialSyncEstimatedMillis", left);
        status.append("approxTotalDataSize", total).append("approxTotalBytesCopied", bytes);
        status.append("percent", progress.percent());
    }
    let mut attempts = status.start_array("initialSyncAttempts");
    for failure in &copy.failures {
        let mut attempt = attempts.start_document();
        attempt.append("durationMillis", millis(failure.lasted)).append("status", failure.reason.as_str());
        attempt.append("syncSource", failure.source.as_str());
    }
    true
}

/// What keeps this member from catching up, in a sentence; empty where nothing does.
pub(super) fn hindrance(set: &ReplicaSet) -> String {
    match (set.topology().state, set.copy_status().as_ref().and_then(|copy| copy.failures.last())) {
        (MemberState::Startup2 | MemberState::Recovering, Some(failure)) => failure.reason.clone(),
        (MemberState::Recovering, None) if !set.replaces_data() => {
            "automaticInitialSync is off: the data are not replaced where the others' logs do not go back \
            to them"
                .to_owned()
        }
        _ => String::new(),
    }
}

/// An initial sync as an operation, for `currentOp`.
pub(crate) fn operation(set: &ReplicaSet) -> Option<Document> {
    let copy = set.copy_status()?;
    let mut operation = doc! {
        "desc": "replication-copy", "active": true,
        "secs_running": (ambient::elapsed(copy.began).as_secs() as i64),
        "microsecs_running": (ambient::elapsed(copy.began).as_micros() as i64),
        "op": "none", "ns": "",
    };
    match copy.progress {
        None => operation.push("msg", "initial sync"),
        Some(progress) => {
            let percent = progress.percent();
            let copied = format!("{} of {} bytes ({percent:.1} %)", progress.bytes, progress.bytes_total);
            operation.push("msg", format!("initial sync from {}: {copied}", progress.source));
            let (done, total) = (progress.bytes as i64, progress.bytes_total as i64);
            operation.push("progress", doc! { "done": done, "total": total });
        }
    }
    Some(operation)
}
