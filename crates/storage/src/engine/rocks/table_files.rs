//! The tables as files.

use super::Database;
use super::errors::storage_error;
use crate::engine::TableFile;
use crate::error::StorageError;
use crate::keyspace::{KeyRange, Keyspace};

impl Database {
    /// All of them, by keyspace and first key. Their names are within the engine's directory.
    pub(super) fn table_files(&self) -> Result<Vec<TableFile>, StorageError> {
        let mut found = Vec::new();
        for table in self.rocks.live_files().map_err(storage_error)? {
            let of_it = |keyspace: &&Keyspace| table.column_family_name == keyspace.name();
            let keyspace = *Keyspace::ALL.iter().find(of_it).ok_or_else(|| {
                StorageError::Engine(format!("a table of {}", table.column_family_name).into())
            })?;
            // The end is a key that is there; bounds are exclusive.
            let upper = table.end_key.map(|end| [&end[..], &[0]].concat());
            let range = KeyRange { lower: table.start_key, upper };
            let name = table.name.trim_start_matches('/').to_owned();
            found.push(TableFile { name, keyspace, range, bytes: table.size as u64 });
        }
        found.sort_by(|left, right| {
            (left.keyspace.name(), &left.range.lower).cmp(&(right.keyspace.name(), &right.range.lower))
        });
        Ok(found)
    }
    /// The last keys of the tables within a range, in order: of those on the lowest level that has any, where
    /// nearly all of the data is.
    pub(super) fn table_ends(
        &self,
        keyspace: Keyspace,
        range: &KeyRange,
    ) -> Result<Vec<Vec<u8>>, StorageError> {
        let (lower, upper) = (range.lower.as_deref().unwrap_or_default(), range.upper.as_deref());
        let mut ends: Vec<(i32, Vec<u8>)> = Vec::new();
        for table in self.rocks.live_files().map_err(storage_error)? {
            if let Some(end) = table.end_key
                && table.column_family_name == keyspace.name()
                && *end >= *lower
                && upper.is_none_or(|upper| *end < *upper)
            {
                ends.push((table.level, end));
            }
        }
        let lowest = ends.iter().map(|(level, _)| *level).max();
        ends.retain(|(level, _)| Some(*level) == lowest);
        ends.sort_unstable();
        Ok(ends.into_iter().map(|(_, end)| end).collect())
    }
}
