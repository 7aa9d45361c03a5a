//! Tables written beside the engine: many keys become part of it at once, by no way through log and
//! memtables.

use std::path::PathBuf;

use crate::error::StorageError;
use crate::unit::WriteUnit;
use crate::view::KeyValue;

/// Gives the rows of tables, each key above the one before.
pub trait TableRows {
    /// The next row, lent.
    ///
    /// # Errors
    /// Ends the writing of tables, which hands it on.
    fn next(&mut self) -> Result<Option<KeyValue<'_>>, StorageError>;
}

/// A table that is complete, and no part of a store yet. Dropped before, it leaves nothing.
#[derive(Debug)]
pub struct FinishedTable {
    pub(crate) content: TableContent,
}

#[derive(Debug)]
pub(crate) enum TableContent {
    /// A file of the engine's format, on stable storage.
    File(PathBuf),
    /// Of an engine without files.
    Memory(Vec<(Vec<u8>, Vec<u8>)>),
}

impl FinishedTable {
    /// The rows of a table in memory, for an engine that has no other way in than its writes.
    pub(crate) fn units(tables: &[FinishedTable], keyspace: crate::Keyspace) -> WriteUnit {
        let mut unit = WriteUnit::new();
        for table in tables {
            let TableContent::Memory(rows) = &table.content else {
                panic!("a table of files came to an engine in memory");
            };
            rows.iter().for_each(|(key, value)| unit.put(keyspace, key, value));
        }
        unit
    }

    /// Takes all rows into memory.
    pub(crate) fn in_memory(rows: &mut dyn TableRows) -> Result<Vec<FinishedTable>, StorageError> {
        let mut taken = Vec::new();
        while let Some((key, value)) = rows.next()? {
            taken.push((key.to_vec(), value.to_vec()));
        }
        Ok(vec![FinishedTable { content: TableContent::Memory(taken) }])
    }
}

impl Drop for FinishedTable {
    fn drop(&mut self) {
        if let TableContent::File(path) = &self.content {
            // Once it is part of the store, it has another name.
            let _ = std::fs::remove_file(path);
        }
    }
}
