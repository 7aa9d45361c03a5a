//! Compaction outside of its window: what need not be done yet is put off.

use super::{WorkKind, ask};
use crate::server::ServiceContext;

/// Has compaction do all that there is to be done, or put off what can be: as the calendar says now. Cheap
/// where nothing has changed. Call it every few seconds, on a thread that may read the disk.
pub fn keep_compaction_to_calendar(server: &ServiceContext) {
    let is_deferred = ask(server, WorkKind::Compaction, None).rate().is_none();
    let board = &server.node.calendar;
    if !board.defers_compaction(is_deferred) {
        return;
    }
    if let Err(error) = server.node.store.defer_compaction(is_deferred) {
        tracing::warn!(target: "STORAGE", id = 8_800_105, is_deferred, %error,
            "Compaction does not follow the calendar");
    }
}
