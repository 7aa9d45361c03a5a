//! Write units: mutations in one byte buffer, so that a unit costs one allocation. The engine may apply those
//! of different keys in another order.
//!
//! ```text
//!  ┌──────────────────────┬───────────────┬───────────────┬───────┬─────────┐
//!  │ kind << 4 │ keyspace │ first length  │ second length │ first │ second  │ … next mutation
//!  │         u8           │    u32 LE     │    u32 LE     │       │         │
//!  └──────────────────────┴───────────────┴───────────────┴───────┴─────────┘
//!   put: key, value    delete: key, –    delete range: from (inclusive), to (exclusive)
//! ```

use smallvec::SmallVec;

use crate::error::CommitError;
use crate::keyspace::{CounterId, Keyspace};
use crate::latch::held::HeldLatches;
use crate::pipeline::group::{Queue, QueuePlace, Wakers};

/// Bytes of an entry at most: other members are sent it in one command, whose other parts take some of what a
/// command has beyond a document.
pub const ENTRY_BYTES_MAX: usize = (16 << 20) + (12 << 10);

const PUT: u8 = 0;
const DELETE: u8 = 1;
const DELETE_RANGE: u8 = 2;
const HEADER_BYTES: usize = 9;

/// One mutation of a unit, borrowed from its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation<'a> {
    /// Sets a key.
    Put {
        /// Where.
        keyspace: Keyspace,
        /// The key.
        key: &'a [u8],
        /// Its new value.
        value: &'a [u8],
    },
    /// Removes a key; nothing happens when it does not exist.
    Delete {
        /// Where.
        keyspace: Keyspace,
        /// The key.
        key: &'a [u8],
    },
    /// Removes every key in `from <= key < to`.
    DeleteRange {
        /// Where.
        keyspace: Keyspace,
        /// The first key removed.
        from: &'a [u8],
        /// The first key kept.
        to: &'a [u8],
    },
}

impl Mutation<'_> {
    /// Where the mutation takes effect.
    pub fn keyspace(&self) -> Keyspace {
        match self {
            Mutation::Put { keyspace, .. }
            | Mutation::Delete { keyspace, .. }
            | Mutation::DeleteRange { keyspace, .. } => *keyspace,
        }
    }
}

/// Mutations in the order in which they take effect.
#[derive(Clone, Debug, Default)]
pub struct MutationLog {
    bytes: Vec<u8>,
    mutations: usize,
}

impl MutationLog {
    /// An empty log that holds `bytes` bytes before it allocates again.
    pub fn with_capacity(bytes: usize) -> MutationLog {
        MutationLog { bytes: Vec::with_capacity(bytes), mutations: 0 }
    }

    /// Appends a put.
    pub fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) {
        self.append(PUT, keyspace, key, value);
    }

    /// Appends a delete.
    pub fn delete(&mut self, keyspace: Keyspace, key: &[u8]) {
        self.append(DELETE, keyspace, key, &[]);
    }

    /// Appends the removal of `from <= key < to`.
    pub fn delete_range(&mut self, keyspace: Keyspace, from: &[u8], to: &[u8]) {
        if from < to {
            self.append(DELETE_RANGE, keyspace, from, to);
        }
    }

    fn append(&mut self, kind: u8, keyspace: Keyspace, first: &[u8], second: &[u8]) {
        self.bytes.reserve(HEADER_BYTES + first.len() + second.len());
        self.bytes.push(kind << 4 | keyspace as u8);
        self.bytes.extend_from_slice(&length_bytes(first));
        self.bytes.extend_from_slice(&length_bytes(second));
        self.bytes.extend_from_slice(first);
        self.bytes.extend_from_slice(second);
        self.mutations += 1;
    }

    /// Forgets the mutations and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.mutations = 0;
    }

    /// How many mutations there are.
    pub fn len(&self) -> usize {
        self.mutations
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.mutations == 0
    }

    /// The size of the buffer in bytes: keys, values and nine bytes a mutation.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// The mutations, in order.
    pub fn iter(&self) -> impl Iterator<Item = Mutation<'_>> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            Some(decode(&mut rest).unwrap_or_else(|| malformed(rest)))
        })
    }

    /// What the log leaves under `key`: `None` when it does not put it, or takes it away again.
    pub(crate) fn value_put(&self, keyspace: Keyspace, key: &[u8]) -> Option<&[u8]> {
        let mut latest = None;
        for mutation in self.iter().filter(|mutation| mutation.keyspace() == keyspace) {
            match mutation {
                Mutation::Put { key: put, value, .. } if put == key => latest = Some(value),
                Mutation::Delete { key: deleted, .. } if deleted == key => latest = None,
                Mutation::DeleteRange { from, to, .. } if from <= key && key < to => latest = None,
                _ => {}
            }
        }
        latest
    }
}

fn length_bytes(part: &[u8]) -> [u8; 4] {
    u32::try_from(part.len()).expect("a key or value beyond 4 GiB reached the storage engine").to_le_bytes()
}

/// What is written must be all of it or nothing: half a unit is worse than none.
#[cold]
fn malformed(rest: &[u8]) -> ! {
    let shown = rest.get(..HEADER_BYTES).unwrap_or(rest);
    panic!("a write unit is malformed: its last {} bytes are no mutation, from {shown:02x?} on", rest.len());
}

fn decode<'a>(rest: &mut &'a [u8]) -> Option<Mutation<'a>> {
    let (head, tail) = rest.split_first()?;
    let (first_len, tail) = tail.split_first_chunk::<4>()?;
    let (second_len, tail) = tail.split_first_chunk::<4>()?;
    let (first, tail) = tail.split_at_checked(u32::from_le_bytes(*first_len) as usize)?;
    let (second, tail) = tail.split_at_checked(u32::from_le_bytes(*second_len) as usize)?;
    *rest = tail;
    let keyspace = Keyspace::from_code(head & 0x0f)?;
    Some(match head >> 4 {
        PUT => Mutation::Put { keyspace, key: first, value: second },
        DELETE => Mutation::Delete { keyspace, key: first },
        DELETE_RANGE => Mutation::DeleteRange { keyspace, from: first, to: second },
        _ => return None,
    })
}

/// What a unit does to the room its data takes. On a disk without room it decides whether the unit is
/// written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// It puts more than it takes away.
    Grows,
    /// It puts as much as it takes away.
    Keeps,
    /// It takes away more than it puts.
    Shrinks,
}

impl Growth {
    /// Of a unit that adds so many bytes, or takes them away.
    pub const fn of(bytes: i64) -> Growth {
        match bytes {
            1.. => Growth::Grows,
            0 => Growth::Keeps,
            _ => Growth::Shrinks,
        }
    }
}

/// Puts, deletes and counter changes that become visible and durable together or not at all.
#[derive(Debug, Default)]
pub struct WriteUnit {
    log: MutationLog,
    counters: SmallVec<[CounterChange; 4]>,
    latches: HeldLatches,
    follows: Option<QueuePlace>,
    entries: Vec<Vec<u8>>,
    growth: Option<Growth>,
    /// Whose it is; 0 where no client has brought it.
    connection: u64,
    /// Whether there is a put among the mutations.
    puts: bool,
    passes_gates: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum CounterChange {
    Add(CounterId, i64),
    Remove(CounterId),
}

impl WriteUnit {
    /// An empty unit.
    pub fn new() -> WriteUnit {
        WriteUnit::default()
    }

    /// An empty unit that holds `bytes` bytes of mutations before it allocates again.
    pub fn with_capacity(bytes: usize) -> WriteUnit {
        WriteUnit { log: MutationLog::with_capacity(bytes), ..WriteUnit::default() }
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) {
        self.puts = true;
        self.log.put(keyspace, key, value);
    }

    /// Says what the unit does to the room its data takes, where that is not plain from its mutations: one
    /// that puts something counts as growing, any other as shrinking.
    pub fn set_growth(&mut self, growth: Growth) {
        self.growth = Some(growth);
    }

    /// Says which client's connection has brought it: who brings the most waits the longest.
    pub fn set_connection(&mut self, connection: u64) {
        self.connection = connection;
    }

    pub(crate) fn connection(&self) -> u64 {
        self.connection
    }

    /// Says that the unit is small and gives up what another one began: it waits at no gate.
    pub fn pass_gates(&mut self) {
        self.passes_gates = true;
    }

    pub(crate) fn passes_gates(&self) -> bool {
        self.passes_gates
    }

    /// What the unit does to the room its data takes.
    pub fn growth(&self) -> Growth {
        self.growth.unwrap_or(if self.puts { Growth::Grows } else { Growth::Shrinks })
    }

    /// Removes `key`; nothing happens when it does not exist.
    pub fn delete(&mut self, keyspace: Keyspace, key: &[u8]) {
        self.log.delete(keyspace, key);
    }

    /// Removes every key in `from <= key < to`. Meant for dropping whole collections and indexes: each
    /// call leaves a range tombstone that reads pay for until compaction has passed.
    pub fn delete_range(&mut self, keyspace: Keyspace, from: &[u8], to: &[u8]) {
        self.log.delete_range(keyspace, from, to);
    }

    /// Adds `delta` to a counter; a counter that does not exist yet starts at zero.
    pub fn add_counter(&mut self, counter: CounterId, delta: i64) {
        if delta != 0 {
            self.counters.push(CounterChange::Add(counter, delta));
        }
    }

    /// Removes a counter, which then reads as zero.
    pub fn remove_counter(&mut self, counter: CounterId) {
        self.counters.push(CounterChange::Remove(counter));
    }

    /// Gives the unit latches to hold. They are given up when it has been written, refused or withdrawn, and
    /// not before: who drops the commit halfway does not uncover what the unit is about to change.
    pub fn hold(&mut self, latches: HeldLatches) {
        self.latches.append(latches);
    }

    /// Says that the unit was computed from what the enqueued unit at `place` puts
    /// ([`Store::enqueued_version`](crate::Store::enqueued_version)): it is refused if that one is.
    pub fn follow(&mut self, place: QueuePlace) {
        self.follows = Some(place);
    }

    /// What has to be committed to the log before the unit is written: see
    /// [`Store::take_proposals`](crate::Store::take_proposals).
    pub fn entries_mut(&mut self) -> &mut Vec<Vec<u8>> {
        &mut self.entries
    }

    /// What others are brought with it.
    pub(crate) fn entry_bytes(&self) -> usize {
        self.entries.iter().map(Vec::len).sum()
    }

    /// The same, lent.
    pub fn entries(&self) -> &[Vec<u8>] {
        &self.entries
    }

    pub(crate) fn entry_too_large(&self) -> Option<CommitError> {
        let lengths = self.entries.iter().map(Vec::len);
        lengths.max().filter(|bytes| *bytes > ENTRY_BYTES_MAX).map(CommitError::EntryTooLarge)
    }

    pub(crate) fn take_entries(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.entries)
    }

    /// Where the unit has to wait.
    pub(crate) fn queue(&self) -> Queue {
        match self.follows {
            Some(place) if self.entries.is_empty() => place.queue,
            None if self.entries.is_empty() => Queue::Commits,
            followed => {
                let elsewhere = followed.is_some_and(|place| place.queue == Queue::Commits);
                assert!(!elsewhere, "a unit with entries follows one without");
                Queue::Proposals
            }
        }
    }

    /// Whether committing the unit would change nothing.
    pub fn is_empty(&self) -> bool {
        self.log.is_empty() && self.counters.is_empty()
    }

    /// The size of the mutations in bytes.
    pub fn byte_len(&self) -> usize {
        self.log.byte_len()
    }

    /// The mutations, without the counter changes.
    pub fn log(&self) -> &MutationLog {
        &self.log
    }

    pub(crate) fn counter_changes(&self) -> &[CounterChange] {
        &self.counters
    }

    pub(crate) fn followed(&self) -> Option<QueuePlace> {
        self.follows
    }

    /// The unit is enqueued. Returns whom to wake.
    pub(crate) fn enqueued(&mut self, place: QueuePlace) -> Wakers {
        self.latches.pass_on(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CommitError, StorageOptions, Store};

    #[test]
    fn mutations_come_back_as_they_went_in() {
        let mut log = MutationLog::default();
        log.put(Keyspace::Documents, b"key", b"value");
        log.put(Keyspace::Meta, b"", b"");
        log.delete(Keyspace::Indexes, b"gone");
        log.delete_range(Keyspace::Documents, b"a", b"b");
        log.delete_range(Keyspace::Documents, b"b", b"a");
        let mutations: Vec<_> = log.iter().collect();
        assert_eq!(
            mutations,
            [
                Mutation::Put { keyspace: Keyspace::Documents, key: b"key", value: b"value" },
                Mutation::Put { keyspace: Keyspace::Meta, key: b"", value: b"" },
                Mutation::Delete { keyspace: Keyspace::Indexes, key: b"gone" },
                Mutation::DeleteRange { keyspace: Keyspace::Documents, from: b"a", to: b"b" },
            ]
        );
        assert_eq!(log.len(), 4, "an empty range is no mutation");
    }

    #[test]
    fn the_last_mutation_of_a_key_decides_what_is_put() {
        let mut log = MutationLog::default();
        let value = |log: &MutationLog| log.value_put(Keyspace::Documents, b"key").map(<[u8]>::to_vec);
        log.put(Keyspace::Documents, b"key2", b"another key");
        log.put(Keyspace::Indexes, b"key", b"another keyspace");
        assert_eq!(value(&log), None);
        log.put(Keyspace::Documents, b"key", b"first");
        log.put(Keyspace::Documents, b"key", b"");
        log.delete_range(Keyspace::Documents, b"key2", b"key3");
        assert_eq!(value(&log), Some(Vec::new()), "an empty value is a value");
        log.delete(Keyspace::Documents, b"key");
        assert_eq!(value(&log), None);
        log.put(Keyspace::Documents, b"key", b"again");
        log.delete_range(Keyspace::Indexes, b"a", b"z");
        assert_eq!(value(&log), Some(b"again".to_vec()));
        log.delete_range(Keyspace::Documents, b"key", b"key2");
        assert_eq!(value(&log), None);
    }

    #[test]
    fn half_a_unit_is_not_written() {
        let store = Store::in_memory(&StorageOptions::small()).expect("a store in memory opens");
        let mut unit = WriteUnit::new();
        unit.put(Keyspace::Documents, b"first", b"value");
        unit.put(Keyspace::Documents, b"second", b"value");
        unit.log.bytes.pop();
        let refused = store.commit(unit).wait();
        let Err(CommitError::Broken(reason)) = refused else { panic!("it was written: {refused:?}") };
        assert!(reason.contains("a write unit is malformed: its last 19 bytes are no mutation"), "{reason}");
        let found = store.read_view().exists(Keyspace::Documents, b"first").expect("reads go on");
        assert!(!found, "all of a unit is written or nothing");
    }
}
