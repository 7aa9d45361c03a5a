//! Faults planted into a server from outside of it, one at a time: a simulation that does not find them is
//! worth nothing.

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
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 13] = [
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
    ];
}
