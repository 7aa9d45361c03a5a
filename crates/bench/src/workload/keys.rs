//! Which documents there are, and what their keys look like.

use document::ElementType;
use fastrand::Rng;
use serde::Deserialize;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// YCSB's hash (`Utils.fnvhash64`): FNV-1a over the eight bytes, made positive as Java's `Math.abs` does.
#[inline]
pub(crate) const fn fnv_hash(number: u64) -> u64 {
    const OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01B3;
    let mut hash = OFFSET_BASIS;
    let mut left = number;
    let mut octet = 0;
    while octet < 8 {
        hash = (hash ^ (left & 0xFF)).wrapping_mul(PRIME);
        left >>= 8;
        octet += 1;
    }
    (hash as i64).unsigned_abs()
}

/// What `_id` is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum KeyFormat {
    /// The document's number, a 64-bit integer: neighbours in number are neighbours in order.
    #[default]
    Number,
    /// A prefix and the number.
    Text { prefix: String },
    /// A prefix and the number's hash, as YCSB's `user6284781860667377211` (`insertorder=hashed`).
    Hashed { prefix: String },
}

impl TryFrom<String> for KeyFormat {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "number" => Ok(KeyFormat::Number),
            Some(("text", prefix)) => Ok(KeyFormat::Text { prefix: prefix.to_owned() }),
            Some(("hashed", prefix)) => Ok(KeyFormat::Hashed { prefix: prefix.to_owned() }),
            _ => Err("expected 'number', 'text:PREFIX' or 'hashed:PREFIX'".to_owned()),
        }
    }
}

impl KeyFormat {
    pub(crate) const fn kind(&self) -> ElementType {
        match self {
            KeyFormat::Number => ElementType::Int64,
            KeyFormat::Text { .. } | KeyFormat::Hashed { .. } => ElementType::String,
        }
    }

    /// Appends the bytes of this document's key, without type and name.
    #[inline]
    pub(crate) fn append(&self, number: u64, out: &mut Vec<u8>) {
        match self {
            KeyFormat::Number => out.extend_from_slice(&number.to_le_bytes()),
            KeyFormat::Text { prefix } => append_numbered(prefix, number, out),
            KeyFormat::Hashed { prefix } => append_numbered(prefix, fnv_hash(number), out),
        }
    }
}

/// A BSON string of a prefix and a number in decimal digits.
#[inline]
fn append_numbered(prefix: &str, number: u64, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number);
    out.extend_from_slice(&((prefix.len() + digits.len() + 1) as u32).to_le_bytes());
    out.extend_from_slice(prefix.as_bytes());
    out.extend_from_slice(digits.as_bytes());
    out.push(0);
}

/// The part of the inserted documents' numbers that one process hands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane {
    /// Number of this process, from 0.
    pub(crate) index: u64,
    /// Processes in all, at least 1.
    pub(crate) of: u64,
}

impl Lane {
    #[cfg(test)]
    pub(crate) const ONLY: Lane = Lane { index: 0, of: 1 };
}

/// The documents of a run as one process knows them. An *ordinal* counts them in the order of their birth:
/// first the loaded ones, then those that this process inserts. A *number* is what a key is made of: loaded
/// documents are numbered by their ordinals, inserted ones from `first_inserted`, in strides of the number of
/// processes.
///
/// Inserts are numbered when they are sent and *settled* when their fate is known. Those below the mark are
/// all settled; only they are chosen from, except *holes*: inserts that failed, or of which nobody knows.
#[derive(Debug)]
pub(crate) struct KeySpace {
    loaded: u64,
    first_inserted: u64,
    lane: Lane,
    issued: AtomicU64,
    /// Copy of [`Window::mark`], to be read without the lock.
    mark: AtomicU64,
    /// Copy of the number of holes.
    holes: AtomicU64,
    visited: AtomicU64,
    /// Guards what is known of inserts; nothing else is locked while it is held.
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    /// Inserts below this one are settled.
    mark: u64,
    /// Those from the mark on: whether they are settled.
    settled: VecDeque<bool>,
    holes: HashSet<u64>,
}

impl KeySpace {
    pub(crate) fn new(loaded: u64, first_inserted: u64, lane: Lane) -> Self {
        KeySpace {
            loaded,
            first_inserted: first_inserted.max(loaded),
            lane,
            issued: AtomicU64::new(0),
            mark: AtomicU64::new(0),
            holes: AtomicU64::new(0),
            visited: AtomicU64::new(lane.index * (loaded / lane.of.max(1))),
            window: Mutex::default(),
        }
    }

    /// Ordinals below this one may be chosen, if [`KeySpace::is_present`].
    #[inline]
    pub(crate) fn bound(&self) -> u64 {
        self.loaded + self.mark.load(Ordering::Acquire)
    }

    /// Whether an ordinal below the bound is that of a document known to be there.
    #[inline]
    pub(crate) fn is_present(&self, ordinal: u64) -> bool {
        ordinal < self.loaded
            || self.holes.load(Ordering::Relaxed) == 0
            || !self.window().holes.contains(&(ordinal - self.loaded))
    }

    /// What the key of this document is made of.
    #[inline]
    pub(crate) const fn number(&self, ordinal: u64) -> u64 {
        if ordinal < self.loaded {
            return ordinal;
        }
        self.first_inserted + (ordinal - self.loaded) * self.lane.of + self.lane.index
    }

    /// The ordinal of a document to be inserted; nobody else gets it.
    #[inline]
    pub(crate) fn issue(&self) -> u64 {
        self.loaded + self.issued.fetch_add(1, Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn acknowledge(&self, ordinal: u64) {
        self.settle(ordinal, true);
    }

    /// The insert failed, or nobody knows.
    pub(crate) fn withdraw(&self, ordinal: u64) {
        self.settle(ordinal, false);
    }

    /// One ordinal after the other, from the beginning again at the end.
    #[inline]
    pub(crate) fn visit(&self) -> u64 {
        self.visited.fetch_add(1, Ordering::Relaxed)
    }

    fn settle(&self, ordinal: u64, is_there: bool) {
        let Some(insert) = ordinal.checked_sub(self.loaded) else { return };
        let mut window = self.window();
        let Some(place) = insert.checked_sub(window.mark).map(|place| place as usize) else { return };
        if !is_there {
            window.holes.insert(insert);
            self.holes.store(window.holes.len() as u64, Ordering::Relaxed);
        }
        if place >= window.settled.len() {
            window.settled.resize(place + 1, false);
        }
        if let Some(settled) = window.settled.get_mut(place) {
            *settled = true;
        }
        while window.settled.front() == Some(&true) {
            window.settled.pop_front();
            window.mark += 1;
        }
        self.mark.store(window.mark, Ordering::Release);
    }

    /// A thread that panicked left nothing half done: every change is complete when it is seen.
    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number for the first document that a run inserts, above those of all runs before it: runs on the same
/// collection must not collide, and nobody keeps a record of them. A run that inserts a million documents
/// each millisecond would.
pub(crate) fn number_of_birth(unix_milliseconds: u64) -> u64 {
    const INSERTS_PER_MILLISECOND_LOG2: u32 = 20;
    unix_milliseconds << INSERTS_PER_MILLISECOND_LOG2
}

/// A seed for the content of this document: it is the same whoever loads it.
pub(crate) fn document_seed(seed: u64, number: u64) -> u64 {
    Rng::with_seed(seed ^ fnv_hash(number)).u64(..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn key(format: &KeyFormat, number: u64) -> String {
        let mut bytes = Vec::new();
        format.append(number, &mut bytes);
        assert_eq!(bytes[..4], (bytes.len() as u32 - 4).to_le_bytes(), "the length of the string");
        assert_eq!(bytes.last(), Some(&0));
        String::from_utf8(bytes[4..bytes.len() - 1].to_vec()).expect("text")
    }

    #[test]
    fn hashed_keys_are_those_of_ycsb() {
        let format = KeyFormat::Hashed { prefix: "user".to_owned() };
        // The first keys that YCSB loads.
        assert_eq!(key(&format, 0), "user6284781860667377211");
        assert_eq!(key(&format, 1), "user8517097267634966620");
        assert_eq!(key(&format, 2), "user1820151046732198393");
    }

    #[test]
    fn numbered_keys() {
        assert_eq!(key(&KeyFormat::Text { prefix: "order-".to_owned() }, 0), "order-0");
        assert_eq!(key(&KeyFormat::Text { prefix: String::new() }, u64::MAX), u64::MAX.to_string());
        let mut bytes = Vec::new();
        KeyFormat::Number.append(7, &mut bytes);
        assert_eq!(bytes, 7_i64.to_le_bytes());
    }

    #[test]
    fn only_acknowledged_inserts_are_there() {
        let keys = KeySpace::new(10, 10, Lane::ONLY);
        let [first, second, third] = [(); 3].map(|()| keys.issue());
        assert_eq!((first, second, third, keys.bound()), (10, 11, 12, 10));
        keys.acknowledge(second);
        assert_eq!(keys.bound(), 10, "the first one is still under way");
        keys.acknowledge(first);
        assert_eq!(keys.bound(), 12);
        keys.withdraw(third);
        assert_eq!(keys.bound(), 13, "a failed insert holds nobody up");
        assert!(keys.is_present(9) && keys.is_present(first) && keys.is_present(second));
        assert!(!keys.is_present(third), "a failed insert's key does not count");
    }

    #[test]
    fn processes_and_threads_never_hand_out_the_same_number() {
        let mut seen = BTreeSet::new();
        for index in 0..3 {
            let keys = KeySpace::new(5, 1_000, Lane { index, of: 3 });
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4)
                    .map(|_| scope.spawn(|| (0..100).map(|_| keys.number(keys.issue())).collect::<Vec<_>>()))
                    .collect();
                for thread in threads {
                    for number in thread.join().expect("no panic") {
                        assert!(number >= 1_000 && seen.insert(number), "{number} was handed out twice");
                    }
                }
            });
        }
        assert_eq!(seen.len(), 1_200);
    }

    #[test]
    fn later_runs_insert_above_earlier_ones() {
        let (now, later) = (number_of_birth(1_790_000_000_000), number_of_birth(1_790_000_000_001));
        assert!(later - now > 1_000_000);
        assert!(
            i64::try_from(number_of_birth(4_000_000_000_000)).is_ok(),
            "numbers are 64-bit integers in BSON"
        );
    }
}
