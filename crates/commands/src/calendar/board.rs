//! What work was told last, and what is known of the stored calendar.

use super::settings::CalendarSettings;
use super::{Permission, WorkId, WorkPace};
use dispatch::utc_text;
use document::DocumentBuf;
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The calendar's state in this process.
#[derive(Debug, Default)]
pub(crate) struct CalendarBoard {
    /// The stored document as it was read last, and what it says. A leaf in the lock order but for the reads
    /// of the store.
    pub(super) known: Mutex<(DocumentBuf, Arc<CalendarSettings>)>,
    /// What work was told last, and how often it went on although it would have had to wait. A leaf in the
    /// lock order.
    told: Mutex<HashMap<WorkId, Told>>,
    /// What copies for other members share.
    pub(crate) copies: WorkPace,
    /// What `$out` and `$merge` of all clients share.
    pub(super) outputs: WorkPace,
    /// Whether compaction was told last to put off what it can.
    defers_compaction: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
struct Told {
    permission: Permission,
    /// How often the safety bound began to override.
    overrides: u64,
}

impl CalendarBoard {
    /// Notes what work was told. The log has each change.
    pub(super) fn note(&self, work: WorkId, permission: Permission) {
        let mut told = self.told.lock();
        let before = told.get(&work).copied();
        let was = before.map_or("open", |before| before.permission.name());
        let begins = permission.name() != was;
        let overrides = before.map_or(0, |before| before.overrides)
            + u64::from(begins && matches!(permission, Permission::Overridden { .. }));
        told.insert(work, Told { permission, overrides });
        drop(told);
        if begins {
            log(work, permission);
        }
    }

    /// Notes whether compaction is to put off what it can; true when that is new.
    pub(super) fn defers_compaction(&self, is_deferred: bool) -> bool {
        self.defers_compaction.swap(is_deferred, Ordering::Relaxed) != is_deferred
    }

    /// How often work went on against the calendar.
    pub(super) fn overrides(&self, work: WorkId) -> u64 {
        self.told.lock().get(&work).map_or(0, |told| told.overrides)
    }
}

fn log(work: WorkId, permission: Permission) {
    let kind = work.kind.name();
    let (collection, index) = work.index.unzip();
    let until = |until_ms: Option<i64>| until_ms.map(utc_text);
    match permission {
        Permission::Granted { until_ms, .. } => tracing::info!(target: "STORAGE", id = 8_800_102, kind,
            collection, index, until = until(until_ms), "Background work goes on: its window is open"),
        Permission::Waits { until_ms } => tracing::info!(target: "STORAGE", id = 8_800_103, kind,
            collection, index, until = until(until_ms), "Background work waits for its window"),
        Permission::Overridden { reason } => tracing::warn!(target: "STORAGE", id = 8_800_104, kind,
            collection, index, reason, "Background work goes on outside of its window and without its rate"),
    }
}
