//! Which keyspaces hold so many deletions that their room is worth a compaction. RocksDB compacts a table
//! that is nearly nothing else by itself (`options.rs`); one that is half deletions waits for the tables
//! that come after it, which in an idle store is for ever.

use rocksdb::LiveFile;

use super::Database;
use super::errors::storage_error;
use crate::error::StorageError;
use crate::keyspace::{KeyRange, Keyspace};

/// Fewer deletions are left where they are, …
const DELETIONS_MIN: u64 = 256;
/// … and so are those that are less than this share of all entries: at worst everything is read for them.
const SHARE: u64 = 8;

impl Database {
    /// Keyspaces with many deletions above their lowest level, and the ranges in which these are.
    pub(super) fn many_deletions(&self) -> Result<Vec<(Keyspace, KeyRange)>, StorageError> {
        let tables = self.rocks.live_files().map_err(storage_error)?;
        let of = |keyspace: &Keyspace| {
            let tables = tables.iter().filter(|table| table.column_family_name == keyspace.name());
            worth_it(&tables.collect::<Vec<_>>()).map(|range| (*keyspace, range))
        };
        Ok(Keyspace::ALL.iter().filter_map(of).collect())
    }
}

/// The range of the deletions among the tables of a keyspace, if there are enough. What is on the lowest
/// level there is either goes when nobody sees it any more, by RocksDB's own doing, or is alone in its
/// tables.
fn worth_it(tables: &[&LiveFile]) -> Option<KeyRange> {
    let lowest = tables.iter().map(|table| table.level).max()?;
    let entries: u64 = tables.iter().map(|table| table.num_entries).sum();
    let holds = |table: &&&LiveFile| table.num_deletions > 0 && (table.level < lowest || lowest == 0);
    let deletions: u64 = tables.iter().filter(holds).map(|table| table.num_deletions).sum();
    if deletions < DELETIONS_MIN.max(entries / SHARE) {
        return None;
    }
    let lower = tables.iter().filter(holds).filter_map(|table| table.start_key.clone()).min();
    let upper = tables.iter().filter(holds).filter_map(|table| table.end_key.clone()).max();
    // The end is a key that is there; bounds are exclusive.
    Some(KeyRange { lower, upper: upper.map(|end| [&end[..], &[0]].concat()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(level: i32, (start, end): (u8, u8), num_entries: u64, num_deletions: u64) -> LiveFile {
        LiveFile {
            column_family_name: String::new(),
            name: String::new(),
            size: 0,
            level,
            start_key: Some(vec![start]),
            end_key: Some(vec![end]),
            num_entries,
            num_deletions,
        }
    }

    #[track_caller]
    fn check(tables: &[LiveFile], expect: Option<(u8, u8)>) {
        let expect = expect.map(|(start, end)| KeyRange::new([start], [end, 0]));
        assert_eq!(worth_it(&tables.iter().collect::<Vec<_>>()), expect);
    }

    #[test]
    fn many_deletions_above_the_lowest_level_are_worth_a_compaction() {
        let bottom = || table(6, (0, 255), 1600, 0);
        check(&[], None);
        check(&[bottom(), table(0, (3, 9), 400, 255)], None);
        check(&[bottom(), table(0, (3, 9), 400, 256)], Some((3, 9)));
        check(&[bottom(), table(0, (3, 9), 200, 128), table(4, (1, 5), 200, 128)], Some((1, 9)));
        check(&[bottom(), bottom(), table(0, (3, 9), 400, 400)], None);
        check(&[table(6, (0, 255), 1600, 1600), table(0, (3, 9), 400, 0)], None);
        check(&[table(0, (3, 9), 400, 400)], Some((3, 9)));
    }
}
