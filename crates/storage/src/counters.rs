//! Exact counters: absolute values, written by the leader in the batch that changes them.
//!
//! ```text
//!  keyspace `Internal`:   "counter/" ‖ id u64 BE   ─▶   value i64 LE
//! ```
//! Because the batch holds the new value and not a difference, replaying the log any number of times
//! ends at the right value, and because it is the same batch, counter and data never disagree.

use parking_lot::{Mutex, MutexGuard, RwLock};
use rustc_hash::FxHashMap;

use crate::engine::EngineReader;
use crate::error::StorageError;
use crate::keyspace::{CounterId, CursorOptions, Direction, KeyRange, Keyspace};
use crate::unit::{CounterChange, MutationLog, WriteUnit};

const PREFIX: &[u8; 8] = b"counter/";

#[derive(Default)]
pub(crate) struct Counters {
    /// The values as of the last applied batch.
    values: RwLock<FxHashMap<u64, i64>>,
    /// Whoever writes a batch keeps it for as long: the leader of the commits, or the owner of the proposals.
    /// Taken before `values`.
    draft: Mutex<Draft>,
}

/// The counters' part of a batch that has not been written yet, and the right to write one.
#[derive(Default)]
pub(crate) struct Draft {
    changed: FxHashMap<u64, Option<i64>>,
    log: MutationLog,
}

impl Counters {
    pub(crate) fn load(reader: &dyn EngineReader) -> Result<Counters, StorageError> {
        let mut values = FxHashMap::default();
        let range = KeyRange::prefix(PREFIX.as_slice());
        let mut cursor =
            reader.cursor(Keyspace::Internal, range, Direction::Forward, CursorOptions::default())?;
        while let Some((key, value)) = cursor.next()? {
            let Some((id, value)) = decode(key, value) else {
                return Err(StorageError::Corrupt(format!("counter entry {key:?} is malformed").into()));
            };
            values.insert(id, value);
        }
        Ok(Counters { values: RwLock::new(values), draft: Mutex::default() })
    }

    pub(crate) fn get(&self, counter: CounterId) -> i64 {
        self.values.read().get(&counter.0).copied().unwrap_or(0)
    }

    /// The right to write a batch, one at a time.
    pub(crate) fn begin_batch(&self) -> MutexGuard<'_, Draft> {
        self.draft.lock()
    }

    /// Works out the values after `units`, hands their batch entries to `write`, and makes them current
    /// when it succeeds.
    pub(crate) fn write_with<T, E>(
        &self,
        draft: &mut Draft,
        units: &[WriteUnit],
        write: impl FnOnce(&MutationLog) -> Result<T, E>,
    ) -> Result<T, E> {
        draft.prepare(units, &self.values);
        let written = write(&draft.log)?;
        if !draft.changed.is_empty() {
            let mut values = self.values.write();
            for (id, value) in draft.changed.drain() {
                match value {
                    Some(value) => values.insert(id, value),
                    None => values.remove(&id),
                };
            }
        }
        Ok(written)
    }
}

/// A counter's id and value; `None` where it makes no sense.
pub(crate) fn decode(key: &[u8], value: &[u8]) -> Option<(u64, i64)> {
    let id = <[u8; 8]>::try_from(key.strip_prefix(PREFIX)?).ok()?;
    Some((u64::from_be_bytes(id), i64::from_le_bytes(value.try_into().ok()?)))
}

impl Draft {
    fn prepare(&mut self, units: &[WriteUnit], current: &RwLock<FxHashMap<u64, i64>>) {
        self.log.clear();
        self.changed.clear();
        let changes = || units.iter().flat_map(WriteUnit::counter_changes);
        if changes().next().is_none() {
            return;
        }
        let current = current.read();
        for change in changes() {
            match *change {
                CounterChange::Add(id, delta) => {
                    let before = self.changed.entry(id.0).or_insert_with(|| current.get(&id.0).copied());
                    *before = Some(before.unwrap_or(0).saturating_add(delta));
                }
                CounterChange::Remove(id) => {
                    self.changed.insert(id.0, None);
                }
            }
        }
        for (id, value) in &self.changed {
            let mut key = [0; 16];
            let (prefix, number) = key.split_at_mut(PREFIX.len());
            prefix.copy_from_slice(PREFIX);
            number.copy_from_slice(&id.to_be_bytes());
            match value {
                Some(value) => self.log.put(Keyspace::Internal, &key, &value.to_le_bytes()),
                None => self.log.delete(Keyspace::Internal, &key),
            }
        }
    }
}
