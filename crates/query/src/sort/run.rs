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

/// A place for sorted runs, owned by one sort; what it holds may go when it is dropped.
pub trait RunStore: Send {
    /// Writes the records, which come in order, as the last run.
    ///
    /// # Errors
    /// When the run cannot be written, or the records cannot be read.
    fn write_run(&mut self, records: &mut dyn RunReader) -> Result<(), QueryError>;

    /// Takes up to `most` runs out, in the order in which they were written, and opens them. What is read of
    /// them stays until the reader goes.
    ///
    /// # Errors
    /// When a run cannot be opened.
    fn open_runs(&mut self, most: usize) -> Result<Vec<Box<dyn RunReader>>, QueryError>;
}

/// Reads sorted records, such as those of one run, from the beginning.
pub trait RunReader: Send {
    /// Reads the next record into `record`, reusing its buffers; false at the end.
    ///
    /// # Errors
    /// When the run cannot be read.
    fn read_next(&mut self, record: &mut RunRecord) -> Result<bool, QueryError>;
}
