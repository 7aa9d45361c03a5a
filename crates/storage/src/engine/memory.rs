//! The engine of tests and simulations: an ordered map that keeps versions.
//!
//! ```text
//!  keyspace ─▶ BTreeMap< key, [ (sequence, value | tombstone), … newest last ] >
//! ```
//! A batch takes one sequence number. Readers and cursors pin the number they read at; a version is
//! forgotten by the next write after no pin can see it any more.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;

use super::{
    Engine, EngineCursor, EngineFailure, EngineReader, EngineStatistics, FinishedTable, Pressure, RangeBytes,
    TableRows,
};
use crate::error::StorageError;
use crate::keyspace::{CursorOptions, Direction, KeyRange, Keyspace, ReadTier};
use crate::unit::{Mutation, MutationLog, WriteUnit};
use crate::view::{KeyValue, PinnedBytes};

type Versions = SmallVec<[Version; 1]>;

struct Version {
    sequence: u64,
    value: Option<Arc<[u8]>>,
}

#[derive(Default)]
struct Tree {
    keys: BTreeMap<Arc<[u8]>, Versions>,
}

#[derive(Default)]
struct MemoryState {
    internal: Tree,
    meta: Tree,
    documents: Tree,
    indexes: Tree,
    sequence: u64,
    /// Keys with versions that may be forgotten once nothing pins a state before `sequence`.
    garbage: VecDeque<(u64, Keyspace, Arc<[u8]>)>,
}

#[derive(Default)]
struct Shared {
    /// Guards all data; taken before `pins`.
    state: RwLock<MemoryState>,
    /// How many readers and cursors read at which sequence number.
    pins: Mutex<BTreeMap<u64, usize>>,
}

/// An engine that keeps everything in memory and forgets it when it is dropped.
#[derive(Default)]
pub struct MemoryEngine {
    shared: Arc<Shared>,
}

impl MemoryEngine {
    /// An empty engine.
    pub fn new() -> MemoryEngine {
        MemoryEngine::default()
    }
}

impl MemoryState {
    fn tree(&self, keyspace: Keyspace) -> &Tree {
        match keyspace {
            Keyspace::Internal => &self.internal,
            Keyspace::Meta => &self.meta,
            Keyspace::Documents => &self.documents,
            Keyspace::Indexes => &self.indexes,
        }
    }

    fn tree_mut(&mut self, keyspace: Keyspace) -> &mut Tree {
        match keyspace {
            Keyspace::Internal => &mut self.internal,
            Keyspace::Meta => &mut self.meta,
            Keyspace::Documents => &mut self.documents,
            Keyspace::Indexes => &mut self.indexes,
        }
    }

    fn set(&mut self, keyspace: Keyspace, key: &[u8], value: Option<Arc<[u8]>>, sequence: u64, pinned: bool) {
        let tree = self.tree_mut(keyspace);
        match tree.keys.get_mut(key) {
            None => {
                if value.is_some() {
                    tree.keys.insert(Arc::from(key), SmallVec::from_iter([Version { sequence, value }]));
                }
            }
            Some(_) if !pinned && value.is_none() => {
                tree.keys.remove(key);
            }
            Some(versions) => {
                if !pinned {
                    versions.clear();
                } else if versions.last().is_some_and(|newest| newest.sequence == sequence) {
                    versions.pop();
                }
                versions.push(Version { sequence, value });
                if pinned {
                    self.garbage.push_back((sequence, keyspace, Arc::from(key)));
                }
            }
        }
    }

    fn apply(&mut self, mutation: Mutation<'_>, sequence: u64, pinned: bool) {
        match mutation {
            Mutation::Put { keyspace, key, value } => {
                self.set(keyspace, key, Some(Arc::from(value)), sequence, pinned)
            }
            Mutation::Delete { keyspace, key } => self.set(keyspace, key, None, sequence, pinned),
            Mutation::DeleteRange { keyspace, from, to } => {
                let bounds = (Bound::Included(from), Bound::Excluded(to));
                let doomed: Vec<Arc<[u8]>> = self
                    .tree(keyspace)
                    .keys
                    .range::<[u8], _>(bounds)
                    .map(|(key, _)| Arc::clone(key))
                    .collect();
                for key in doomed {
                    self.set(keyspace, &key, None, sequence, pinned);
                }
            }
        }
    }

    /// Forgets versions that no pin at or after `oldest` can see.
    fn collect_garbage(&mut self, oldest: u64) {
        while self.garbage.front().is_some_and(|(sequence, ..)| *sequence <= oldest) {
            let (_, keyspace, key) = self.garbage.pop_front().expect("what was just looked at is there");
            let tree = self.tree_mut(keyspace);
            // Gone, where the key was deleted while nobody looked.
            let Some(versions) = tree.keys.get_mut(&key) else { continue };
            let seen = versions.iter().rposition(|version| version.sequence <= oldest).unwrap_or(0);
            versions.drain(..seen);
            if versions.len() == 1 && versions.first().is_some_and(|last| last.value.is_none()) {
                tree.keys.remove(&key);
            }
        }
    }
}

fn visible(versions: &Versions, sequence: u64) -> Option<&Arc<[u8]>> {
    versions.iter().rev().find(|version| version.sequence <= sequence)?.value.as_ref()
}

/// A reader's or cursor's hold on one state.
struct Pin {
    shared: Arc<Shared>,
    sequence: u64,
}

impl Pin {
    fn now(shared: &Arc<Shared>) -> Pin {
        let state = shared.state.read();
        Pin::at(shared, state.sequence)
    }

    /// The caller must hold the state's lock or another pin of `sequence`.
    fn at(shared: &Arc<Shared>, sequence: u64) -> Pin {
        *shared.pins.lock().entry(sequence).or_insert(0) += 1;
        Pin { shared: Arc::clone(shared), sequence }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.shared.pins.lock();
        let count = pins.get_mut(&self.sequence).expect("a pin is counted while it lives");
        *count -= 1;
        if *count == 0 {
            pins.remove(&self.sequence);
        }
    }
}

struct MemoryReader {
    shared: Arc<Shared>,
    pin: Option<Pin>,
}

impl EngineReader for MemoryReader {
    fn get(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        _tier: ReadTier,
    ) -> Result<Option<PinnedBytes>, StorageError> {
        let state = self.shared.state.read();
        let sequence = self.pin.as_ref().map_or(u64::MAX, |pin| pin.sequence);
        let value = state.tree(keyspace).keys.get(key).and_then(|versions| visible(versions, sequence));
        Ok(value.map(|value| PinnedBytes::shared(Arc::clone(value))))
    }

    fn cursor(
        &self,
        keyspace: Keyspace,
        range: KeyRange,
        direction: Direction,
        _options: CursorOptions,
    ) -> Result<Box<dyn EngineCursor>, StorageError> {
        let pin = match &self.pin {
            Some(pin) => Pin::at(&self.shared, pin.sequence),
            None => Pin::now(&self.shared),
        };
        let (from, to) = (
            range.lower.map_or(Bound::Unbounded, Bound::Included),
            range.upper.map_or(Bound::Unbounded, Bound::Excluded),
        );
        Ok(Box::new(MemoryCursor {
            pin,
            keyspace,
            from: from.clone(),
            to: to.clone(),
            rest: (from, to),
            direction,
            current: None,
        }))
    }

    fn sequence(&self) -> u64 {
        self.pin.as_ref().map_or_else(|| self.shared.state.read().sequence, |pin| pin.sequence)
    }
}

struct MemoryCursor {
    pin: Pin,
    keyspace: Keyspace,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    /// What `next` has not passed yet.
    rest: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    direction: Direction,
    /// The key and the value lent last.
    current: Option<[Arc<[u8]>; 2]>,
}

fn before_lower(key: &[u8], lower: &Bound<Vec<u8>>) -> bool {
    matches!(lower, Bound::Included(lower) if key < lower.as_slice())
}

fn beyond_upper(key: &[u8], upper: &Bound<Vec<u8>>) -> bool {
    matches!(upper, Bound::Excluded(upper) if key >= upper.as_slice())
}

/// `BTreeMap::range` panics on ranges that run backwards.
fn runs_backwards(from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> bool {
    let (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) =
        (from, to)
    else {
        return false;
    };
    from >= to
}

fn borrowed(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

impl EngineCursor for MemoryCursor {
    fn seek(&mut self, key: &[u8]) {
        self.rest = (self.from.clone(), self.to.clone());
        match self.direction {
            Direction::Forward if !before_lower(key, &self.from) => {
                self.rest.0 = Bound::Included(key.to_vec())
            }
            Direction::Backward if !beyond_upper(key, &self.to) => {
                // The smallest key above `key` makes the bound exclusive without a third kind of bound.
                let mut above = key.to_vec();
                above.push(0);
                self.rest.1 = Bound::Excluded(above);
            }
            _ => {}
        }
    }

    fn next(&mut self) -> Result<Option<KeyValue<'_>>, StorageError> {
        self.current = None;
        if runs_backwards(&self.rest.0, &self.rest.1) {
            return Ok(None);
        }
        let state = self.pin.shared.state.read();
        let mut range =
            state.tree(self.keyspace).keys.range::<[u8], _>((borrowed(&self.rest.0), borrowed(&self.rest.1)));
        let seen = |(key, versions): (&Arc<[u8]>, &Versions)| {
            visible(versions, self.pin.sequence).map(|value| [Arc::clone(key), Arc::clone(value)])
        };
        self.current = match self.direction {
            Direction::Forward => range.find_map(seen),
            Direction::Backward => range.rev().find_map(seen),
        };
        drop(state);
        let Some([key, value]) = &self.current else { return Ok(None) };
        match self.direction {
            Direction::Forward => {
                let mut above = key.to_vec();
                above.push(0);
                self.rest.0 = Bound::Included(above);
            }
            Direction::Backward => self.rest.1 = Bound::Excluded(key.to_vec()),
        }
        Ok(Some((key, value)))
    }
}

impl Engine for MemoryEngine {
    fn reader(&self) -> Arc<dyn EngineReader> {
        Arc::new(MemoryReader { shared: Arc::clone(&self.shared), pin: None })
    }

    fn pinned_reader(&self) -> Arc<dyn EngineReader> {
        Arc::new(MemoryReader { shared: Arc::clone(&self.shared), pin: Some(Pin::now(&self.shared)) })
    }

    fn write(&self, units: &[WriteUnit], counters: &MutationLog) -> Result<u64, EngineFailure> {
        let mut state = self.shared.state.write();
        let oldest_pin = self.shared.pins.lock().keys().next().copied();
        let sequence = state.sequence + 1;
        for mutation in units.iter().flat_map(|unit| unit.log().iter()).chain(counters.iter()) {
            state.apply(mutation, sequence, oldest_pin.is_some());
        }
        state.sequence = sequence;
        state.collect_garbage(oldest_pin.unwrap_or(sequence));
        Ok(sequence)
    }

    fn sync_journal(&self, _alone: bool) -> Result<(), EngineFailure> {
        Ok(())
    }

    fn sequence(&self) -> u64 {
        self.shared.state.read().sequence
    }

    fn flush(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn compact(
        &self,
        _keyspace: Keyspace,
        _range: &KeyRange,
        _goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), StorageError> {
        Ok(())
    }

    fn checkpoint(&self, _directory: &Path) -> Result<(), StorageError> {
        Err(StorageError::Engine(Arc::from("the in-memory engine has no files to copy")))
    }

    fn range_bytes(&self, keyspace: Keyspace, range: &KeyRange) -> RangeBytes {
        let state = self.shared.state.read();
        let newest = |versions: &Versions| {
            versions.last().and_then(|version| version.value.as_ref()).map_or(0, |v| v.len())
        };
        let keys = state.tree(keyspace).keys.iter().filter(|(key, _)| range.contains(key));
        let memtables = keys.map(|(key, versions)| (key.len() + newest(versions)) as u64).sum();
        RangeBytes { tables: 0, memtables }
    }

    fn pressure(&self) -> Pressure {
        Pressure::default()
    }

    fn statistics(&self) -> EngineStatistics {
        let state = self.shared.state.read();
        let keys = Keyspace::ALL.iter().map(|keyspace| state.tree(*keyspace).keys.len() as u64).sum();
        let snapshots = self.shared.pins.lock().values().sum::<usize>() as u64;
        EngineStatistics { engine: "memory", keys_estimate: keys, snapshots, ..EngineStatistics::default() }
    }

    fn accepts_writes(&self) -> bool {
        true
    }

    fn drop_files(&self, _keyspace: Keyspace, _range: &KeyRange) -> Result<(), StorageError> {
        Ok(())
    }

    fn write_tables(
        &self,
        _keyspace: Keyspace,
        rows: &mut dyn TableRows,
        _path: &Path,
    ) -> Result<Vec<FinishedTable>, StorageError> {
        FinishedTable::in_memory(rows)
    }

    fn ingest(&self, keyspace: Keyspace, tables: &[FinishedTable]) -> Result<(), StorageError> {
        let unit = FinishedTable::units(tables, keyspace);
        self.write(&[unit], &MutationLog::default()).map(drop).map_err(EngineFailure::into_error)
    }

    fn stop_compacting(&self) {}

    fn close(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(engine: &MemoryEngine, key: &[u8], value: &[u8]) {
        let mut unit = WriteUnit::new();
        unit.put(Keyspace::Documents, key, value);
        engine.write(&[unit], &MutationLog::default()).unwrap();
    }

    #[test]
    fn old_versions_go_when_their_pins_are_gone() {
        let engine = MemoryEngine::new();
        put(&engine, b"key", b"one");
        let pinned = engine.pinned_reader();
        put(&engine, b"key", b"two");
        put(&engine, b"key", b"three");
        assert_eq!(pinned.get(Keyspace::Documents, b"key", ReadTier::Any).unwrap().unwrap(), *b"one");
        assert!(engine.shared.state.read().documents.keys[b"key".as_slice()].len() > 1);
        drop(pinned);
        put(&engine, b"other", b"");
        assert_eq!(engine.shared.state.read().documents.keys[b"key".as_slice()].len(), 1);
    }
}
