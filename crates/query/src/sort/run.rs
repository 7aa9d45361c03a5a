//! Sorted runs outside memory: what the sorter asks of whoever may do I/O.

use crate::error::QueryError;

/// One sorted document of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunRecord {
    /// The sort key.
    pub key: Vec<u8>,
    /// The document's bytes.
    pub document: Vec<u8>,
}

/// A place for sorted runs.
pub trait SpillStore: Send + Sync {
    /// Begins a run.
    ///
    /// # Errors
    /// When there is no room for it.
    fn create_run(&self) -> Result<Box<dyn RunWriter>, QueryError>;
}

/// A run that is being written. What it wrote is gone when it is dropped.
pub trait RunWriter: Send {
    /// Appends the next record.
    ///
    /// # Errors
    /// When the run cannot be written.
    fn write(&mut self, record: &RunRecord) -> Result<(), QueryError>;

    /// Ends the run.
    ///
    /// # Errors
    /// When the run cannot be written.
    fn finish(self: Box<Self>) -> Result<Box<dyn SortedRun>, QueryError>;
}

/// A run that is complete. It is gone when it, or its reader, is dropped.
pub trait SortedRun: Send {
    /// Reads it from the beginning.
    ///
    /// # Errors
    /// When the run cannot be opened.
    fn open(self: Box<Self>) -> Result<Box<dyn RunReader>, QueryError>;
}

/// Reads sorted records, such as those of one run, from the beginning.
pub trait RunReader: Send {
    /// Reads the next record into `record`, reusing its buffers; false at the end.
    ///
    /// # Errors
    /// When the run cannot be read.
    fn read_next(&mut self, record: &mut RunRecord) -> Result<bool, QueryError>;
}
