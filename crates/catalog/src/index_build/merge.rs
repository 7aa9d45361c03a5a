//! Merging the sorted runs of one index.

use super::BuildProgress;
use super::run::{Run, RunReader};
use super::scan::Scan;
use crate::index_keys::IndexEntryBuf;
use crate::keys::{self, IndexId};
use std::cmp::Ordering;
use std::sync::Arc;
use storage::{BuildPart, KeyValue, StorageError, TableRows};

/// How many rows are given between two looks whether the build goes on.
const ROWS_PER_LOOK: usize = 1 << 14;

/// What is to be merged: the entries of one index between two keys.
pub(super) struct MergePlan {
    pub(super) runs: Vec<Arc<Run>>,
    /// From the first key to the other, which are those of entries behind the prefix.
    pub(super) range: (Vec<u8>, Option<Vec<u8>>),
    pub(super) prefix: [u8; keys::INDEX_PREFIX],
    pub(super) index: IndexId,
    pub(super) finds_duplicates: bool,
}

/// All entries of an index between two keys, with the index's prefix, in order and once each. Finds the
/// entries whose fields another one has.
pub(super) struct Merge {
    readers: Vec<RunReader>,
    /// Of the build's memory, for the readers.
    _account: BuildPart,
    /// A heap of readers: the one with the lowest key is the first.
    order: Vec<usize>,
    upper: Option<Vec<u8>>,
    index: IndexId,
    finds_duplicates: bool,
    progress: Arc<BuildProgress>,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Where the fields of `key` end.
    fields_end: usize,
    given: usize,
}

impl MergePlan {
    /// Opens the runs, each with its share of the memory that the build has now.
    pub(super) fn open(self, scan: &Scan) -> Result<Merge, StorageError> {
        let (from, upper) = self.range;
        let files = self.runs.iter().filter(|run| matches!(&***run, Run::File(_))).count();
        let (buffer_bytes, account) = scan.lend_readers(files);
        let open = |run| RunReader::open(run, &from, buffer_bytes);
        let readers = self.runs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let mut merge = Merge {
            order: (0..readers.len()).collect(),
            readers,
            _account: account,
            upper,
            index: self.index,
            finds_duplicates: self.finds_duplicates,
            progress: Arc::clone(&scan.progress),
            key: self.prefix.to_vec(),
            value: Vec::new(),
            fields_end: 0,
            given: 0,
        };
        (0..merge.order.len() / 2).rev().for_each(|place| merge.sift_down(place));
        Ok(merge)
    }
}

impl Merge {
    /// The order of two readers: those at their ends are last.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        let current = |reader: usize| self.readers.get(reader).and_then(RunReader::current);
        match (current(a), current(b)) {
            (Some((a, _)), Some((b, _))) => a.cmp(b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }

    fn sift_down(&mut self, mut place: usize) {
        loop {
            let mut least = place;
            for child in [2 * place + 1, 2 * place + 2] {
                if let (Some(&reader), Some(&other)) = (self.order.get(child), self.order.get(least))
                    && self.compare(reader, other).is_lt()
                {
                    least = child;
                }
            }
            if least == place {
                return;
            }
            self.order.swap(place, least);
            place = least;
        }
    }

    /// Takes the lowest entry into `key` and `value`; whether it is another one than before.
    fn take(&mut self) -> Result<Option<bool>, StorageError> {
        let Some(&first) = self.order.first() else { return Ok(None) };
        let reader = self.readers.get_mut(first).expect("the heap holds the places of readers");
        let Some((key, value)) = reader.current() else { return Ok(None) };
        if self.upper.as_deref().is_some_and(|upper| key >= upper) {
            return Ok(None);
        }
        let before = self.key.get(keys::INDEX_PREFIX..).unwrap_or_default();
        let is_new = self.given == 0 || before != key;
        if is_new {
            let fields = keys::document_key_length(value).and_then(|length| key.len().checked_sub(length));
            let fields_end = keys::INDEX_PREFIX + fields.expect("an entry of this build is whole");
            let same = self.finds_duplicates
                && self.given > 0
                && self.fields_end == fields_end
                && self.key.get(keys::INDEX_PREFIX..fields_end) == key.get(..fields_end - keys::INDEX_PREFIX);
            self.key.truncate(keys::INDEX_PREFIX);
            self.key.extend_from_slice(key);
            self.value.clear();
            self.value.extend_from_slice(value);
            self.fields_end = fields_end;
            if same {
                let (key, value) = (self.key.clone(), self.value.clone());
                self.progress.suspect(self.index, &IndexEntryBuf { key, value, fields_end });
            }
        }
        reader.advance()?;
        self.sift_down(0);
        Ok(Some(is_new))
    }
}

impl TableRows for Merge {
    fn next(&mut self) -> Result<Option<KeyValue<'_>>, StorageError> {
        while let Some(is_new) = self.take()? {
            self.given += 1;
            if self.given.is_multiple_of(ROWS_PER_LOOK) {
                self.progress.advance(ROWS_PER_LOOK as u64);
                if self.progress.is_stopped() {
                    return Err(StorageError::Engine(Arc::from("the index build ends")));
                }
            }
            if is_new {
                return Ok(Some((&self.key, &self.value)));
            }
        }
        Ok(None)
    }
}
