//! Compaction and its windows: what need not be done yet is put off outside of them, and has a rate within.

use super::{Permission, WorkKind, ask};
use crate::server::ServiceContext;

/// Has compaction do all that there is to be done, as fast as the calendar says now, or put off what can be.
/// Cheap where nothing has changed. Call it every few seconds, on a thread that may read the disk.
///
/// The store lifts the rate by itself while the safety bound overrides, at once and only for so long.
pub fn keep_compaction_to_calendar(server: &ServiceContext) {
    let answer = ask(server, WorkKind::Compaction, None);
    let (board, store) = (&server.node.calendar, &server.node.store);
    match answer {
        Permission::Granted { rate, .. } => store.set_compaction_rate(rate.bytes_per_second.unwrap_or(0)),
        // What goes on outside of its window must not wait.
        Permission::Waits { .. } => store.set_compaction_rate(0),
        // The rate that it was given counts again as soon as it may.
        Permission::Overridden { .. } => {}
    }
    let is_deferred = answer.rate().is_none();
    if !board.defers_compaction(is_deferred) {
        return;
    }
    if let Err(error) = store.defer_compaction(is_deferred) {
        tracing::warn!(target: "STORAGE", id = 8_800_105, is_deferred, %error,
            "Compaction does not follow the calendar");
    }
}
