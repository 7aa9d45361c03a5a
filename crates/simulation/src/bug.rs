//! Faults planted into a server from outside of it, one at a time: a simulation that does not find them is
//! worth nothing.

use document::{Document, Value};

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// `j: true` is acknowledged before the sync.
    AcknowledgedBeforeSync,
    /// A sync is reported although nothing was synced.
    SyncReportedEarly,
    /// An update of an indexed field does not write its index entry.
    IndexEntryLost,
    /// An update reads and writes without a latch.
    UpdateWithoutLatch,
    /// Recovery drops the last batch of the log.
    RecoveryDropsLastBatch,
    /// A sync leaves out the catalog's records until the next one.
    CatalogIsNotSynced,
    /// A write that is refused is visible all the same.
    RefusedWriteVisible,
    /// A batch that is not synced may be there in part.
    TornBatch,
    /// What is lost at a power cut is not the end of the log.
    LogHasHoles,
    /// The last unit of a group is acknowledged and not written.
    UnitOfGroupLost,
    /// Counters are not written with their documents.
    CounterNotWritten,
    /// A read shows what was there before.
    StaleRead,
    /// A walk over an index passes an entry.
    EntryPassed,
    /// A pipeline that writes has no `$limit`.
    LimitLost,
    /// `killCursors` kills nothing.
    CursorSurvivesKill,
    /// `endSessions` ends nothing.
    CursorSurvivesSession,
    /// A view stays as it was defined first.
    ViewNotChanged,
    /// What expires is deleted as the walk saw it, although it was changed meanwhile.
    ExpiredWithoutLookingAgain,
    /// The TTL index expires nothing.
    TtlIndexExpiresNothing,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 19] = [
        Bug::AcknowledgedBeforeSync,
        Bug::SyncReportedEarly,
        Bug::IndexEntryLost,
        Bug::UpdateWithoutLatch,
        Bug::RecoveryDropsLastBatch,
        Bug::CatalogIsNotSynced,
        Bug::RefusedWriteVisible,
        Bug::TornBatch,
        Bug::LogHasHoles,
        Bug::UnitOfGroupLost,
        Bug::CounterNotWritten,
        Bug::StaleRead,
        Bug::EntryPassed,
        Bug::LimitLost,
        Bug::CursorSurvivesKill,
        Bug::CursorSurvivesSession,
        Bug::ViewNotChanged,
        Bug::ExpiredWithoutLookingAgain,
        Bug::TtlIndexExpiresNothing,
    ];

    /// What the server is told instead of this command.
    pub(crate) fn garble(self, command: &mut Document) {
        match self {
            Bug::AcknowledgedBeforeSync => drop(command.remove("writeConcern")),
            Bug::CursorSurvivesKill if command.contains("killCursors") => {
                command.insert("cursors", Vec::<Value>::new());
            }
            Bug::CursorSurvivesSession if command.contains("endSessions") => {
                command.insert("endSessions", Vec::<Value>::new());
            }
            Bug::ViewNotChanged if command.contains("collMod") => {
                *command = document::doc! { "ping": 1, "$db": "admin" }
            }
            Bug::TtlIndexExpiresNothing if command.contains("createIndexes") => {
                let late = i32::MAX;
                let indexes = command.get("indexes").and_then(Value::as_array).unwrap_or_default().to_vec();
                let later = indexes.into_iter().map(|index| match index {
                    Value::Document(mut index) if index.contains("expireAfterSeconds") => {
                        index.insert("expireAfterSeconds", late);
                        Value::from(index)
                    }
                    other => other,
                });
                command.insert("indexes", later.collect::<Vec<_>>());
            }
            Bug::LimitLost => {
                let stages = command.get("pipeline").and_then(Value::as_array).unwrap_or_default();
                let is_limit =
                    |stage: &Value| matches!(stage, Value::Document(stage) if stage.contains("$limit"));
                if stages.iter().any(is_limit) {
                    let kept: Vec<Value> = stages.iter().filter(|stage| !is_limit(stage)).cloned().collect();
                    command.insert("pipeline", kept);
                }
            }
            _ => {}
        }
    }
}
