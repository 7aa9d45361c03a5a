//! When work in the background may be done, and how fast: the calendar.
//!
//! ```text
//!  setCalendar ─▶ config.settings { _id: "calendar", ttl: windows, … } ─▶ every member
//!                                          │
//!  index option `window` ──(its own wins)──┤
//!                                          ▼
//!  a piece of work ─▶ permission: Granted (rate) │ Waits (until) │ Overridden (why; without a rate)
//! ```
//! Whoever does work asks before each piece of it, so that a change is followed at once, and tells the
//! [`CalendarBoard`] what the answer was: the log has it when it changes.
//!
//! See `docs/design/calendar.md`.

mod board;
#[cfg(test)]
mod commands_tests;
mod compaction;
#[cfg(test)]
mod kinds_tests;
mod pace;
mod settings;
mod show;
#[cfg(test)]
mod tests;
mod window;

use crate::server::ServiceContext;
use catalog::{CollectionId, IndexId};
use query::calendar::{WorkCalendar, WorkRate};

pub(crate) use board::CalendarBoard;
pub use compaction::keep_compaction_to_calendar;
pub use pace::keep_index_builds_to_calendar;
pub(crate) use pace::{WorkPace, rest_of_output};
pub(crate) use settings::{DOCUMENT_ID, parse_kind, settings_namespace, stored_calendar};
pub(crate) use show::{describe, status};
pub(crate) use window::await_window;

/// A kind of work that the calendar is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum WorkKind {
    /// Deleting what has expired by TTL indexes.
    Ttl,
    /// Compaction that need not be done yet.
    Compaction,
    /// Index builds: those that nobody waits for have windows, all have rates.
    IndexBuilds,
    /// Backups of the running server.
    Backup,
    /// Copies of the data for other members of the set: they do not wait, and have a rate in its windows.
    InitialSync,
    /// `validate`, which a client waits for.
    Validate,
    /// `$out` and `$merge`, which a client waits for.
    Out,
    /// Rewriting what is encrypted with an old key.
    KeyRotation,
}

impl WorkKind {
    /// All of them.
    pub(crate) const ALL: [WorkKind; 8] = [
        WorkKind::Ttl,
        WorkKind::Compaction,
        WorkKind::IndexBuilds,
        WorkKind::Backup,
        WorkKind::InitialSync,
        WorkKind::Validate,
        WorkKind::Out,
        WorkKind::KeyRotation,
    ];

    /// What it is called in commands and figures.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            WorkKind::Ttl => "ttl",
            WorkKind::Compaction => "compaction",
            WorkKind::IndexBuilds => "indexBuilds",
            WorkKind::Backup => "backup",
            WorkKind::InitialSync => "initialSync",
            WorkKind::Validate => "validate",
            WorkKind::Out => "out",
            WorkKind::KeyRotation => "keyRotation",
        }
    }

    /// Whether it waits outside of its windows. What does not has its rate within them alone.
    const fn waits(self) -> bool {
        !matches!(self, WorkKind::InitialSync)
    }

    /// Which rates mean something for it: documents a second, bytes a second.
    const fn rates(self) -> (bool, bool) {
        match self {
            WorkKind::Ttl | WorkKind::IndexBuilds | WorkKind::Out => (true, true),
            WorkKind::Compaction | WorkKind::Backup | WorkKind::InitialSync | WorkKind::KeyRotation => {
                (false, true)
            }
            // It keeps writers out: a slower one does harm.
            WorkKind::Validate => (false, false),
        }
    }

    /// Why it may not wait now, whatever the calendar says. `has_begun`: it is asked for its next piece.
    fn override_reason(self, server: &ServiceContext, has_begun: bool) -> Option<&'static str> {
        let store = &server.node.store;
        match self {
            WorkKind::Backup if has_begun && store.check_room().is_err() => {
                Some("the disk is nearly full, and a backup that stands still keeps old files")
            }
            // What they do makes room.
            WorkKind::Ttl | WorkKind::Compaction if store.check_room().is_err() => {
                Some("the disk is nearly full")
            }
            WorkKind::Compaction if store.is_compaction_behind() => Some("compaction is behind"),
            _ => None,
        }
    }
}

/// Which work exactly: of its kind, or of one index that has windows of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct WorkId {
    pub(crate) kind: WorkKind,
    pub(crate) index: Option<(CollectionId, IndexId)>,
}

/// What the calendar says to a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permission {
    /// It may be done at this rate, until then if a window closes.
    Granted { rate: WorkRate, until_ms: Option<i64> },
    /// It waits for a window, which opens then; `None` where none ever does.
    Waits { until_ms: Option<i64> },
    /// It would have to wait, or to go slowly, but may not.
    Overridden { reason: &'static str },
}

impl Permission {
    const UNBOUNDED: WorkRate = WorkRate { documents_per_second: None, bytes_per_second: None };
    const ALWAYS: Permission = Permission::Granted { rate: Self::UNBOUNDED, until_ms: None };

    const fn name(self) -> &'static str {
        match self {
            Permission::Granted { .. } => "open",
            Permission::Waits { .. } => "waiting",
            Permission::Overridden { .. } => "overridden",
        }
    }

    /// How fast the work may go on; `None` when it waits.
    pub(crate) const fn rate(self) -> Option<WorkRate> {
        match self {
            Permission::Granted { rate, .. } => Some(rate),
            Permission::Waits { .. } => None,
            Permission::Overridden { .. } => Some(Self::UNBOUNDED),
        }
    }
}

/// What this calendar says to work of a kind at this moment. Where there is none, work goes on always.
fn permission(
    server: &ServiceContext,
    kind: WorkKind,
    calendar: Option<&WorkCalendar>,
    (moment_ms, has_begun): (i64, bool),
) -> Permission {
    let Some(calendar) = calendar else { return Permission::ALWAYS };
    let state = calendar.state_at(moment_ms);
    let permission = match state.open {
        Some(rate) => Permission::Granted { rate, until_ms: state.until_ms },
        None if kind.waits() => Permission::Waits { until_ms: state.until_ms },
        None => Permission::Granted { rate: Permission::UNBOUNDED, until_ms: state.until_ms },
    };
    if state.open == Some(Permission::UNBOUNDED) {
        return permission;
    }
    match kind.override_reason(server, has_begun) {
        Some(reason) => Permission::Overridden { reason },
        None => permission,
    }
}

/// Asks for a piece of work, and notes the answer. `own`: the windows of the index that it is for, which
/// count in the place of those of its kind. On a thread that may read the disk.
pub(crate) fn ask(
    server: &ServiceContext,
    kind: WorkKind,
    own: Option<((CollectionId, IndexId), &WorkCalendar)>,
) -> Permission {
    ask_for(server, kind, own, false)
}

/// The same for the next piece of work that has begun and stands still between two windows.
pub(crate) fn ask_to_go_on(server: &ServiceContext, kind: WorkKind) -> Permission {
    ask_for(server, kind, None, true)
}

fn ask_for(
    server: &ServiceContext,
    kind: WorkKind,
    own: Option<((CollectionId, IndexId), &WorkCalendar)>,
    has_begun: bool,
) -> Permission {
    let board = &server.node.calendar;
    let settings = board.settings(&server.node, storage::ReadTier::Any);
    let (index, calendar) = match own {
        Some((index, calendar)) => (Some(index), Some(calendar)),
        None => (None, settings.of(kind)),
    };
    let answer = permission(server, kind, calendar, (server.now_ms(), has_begun));
    board.note(WorkId { kind, index }, answer);
    answer
}
