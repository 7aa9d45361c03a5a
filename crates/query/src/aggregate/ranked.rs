//! The first or the last entries of an order, however many come: what `$topN`, `$maxN` and their kin keep.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use document::Value;

/// What an entry takes beside its key and its value.
const ENTRY_BYTES: usize = 64;

/// Entries in order, the earlier of two equal ones first; beyond `limit` the one that counts least goes.
#[derive(Debug)]
pub(super) struct Ranked<K, V> {
    limit: usize,
    /// Whether the first entries of the order are kept, or the last ones.
    keeps_first: bool,
    entries: BTreeMap<(K, u64), V>,
    arrivals: u64,
    bytes: usize,
}

/// How many bytes a key or a value holds.
pub(super) trait Holds {
    fn held_bytes(&self) -> usize;
}

impl Holds for Vec<u8> {
    fn held_bytes(&self) -> usize {
        self.len()
    }
}

impl Holds for Value {
    fn held_bytes(&self) -> usize {
        self.memory_bytes()
    }
}

impl Holds for () {
    fn held_bytes(&self) -> usize {
        0
    }
}

impl<K: Ord + Holds, V: Holds> Ranked<K, V> {
    pub(super) fn new(limit: usize, keeps_first: bool) -> Self {
        Ranked { limit, keeps_first, entries: BTreeMap::new(), arrivals: 0, bytes: 0 }
    }

    /// Whether an entry with this key would stay.
    pub(super) fn wants(&self, key: &K) -> bool {
        if self.entries.len() < self.limit {
            return true;
        }
        match self.keeps_first {
            true => self.entries.last_key_value().is_some_and(|((worst, _), _)| key < worst),
            false => self.entries.first_key_value().is_some_and(|((worst, _), _)| key >= worst),
        }
    }

    /// Takes an entry that is wanted.
    pub(super) fn insert(&mut self, key: K, value: V) {
        self.bytes += ENTRY_BYTES + key.held_bytes() + value.held_bytes();
        self.entries.insert((key, self.arrivals), value);
        self.arrivals += 1;
        if self.entries.len() > self.limit {
            let gone = if self.keeps_first { self.entries.pop_last() } else { self.entries.pop_first() };
            if let Some(((key, _), value)) = gone {
                self.bytes -= ENTRY_BYTES + key.held_bytes() + value.held_bytes();
            }
        }
    }

    /// Bytes in memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keys and values in order.
    pub(super) fn into_entries(self) -> impl Iterator<Item = (K, V)> {
        self.entries.into_iter().map(|((key, _), value)| (key, value))
    }
}

/// A value as a key, in ascending or descending order.
#[derive(Debug)]
pub(super) struct ByValue {
    pub(super) value: Value,
    pub(super) descending: bool,
}

impl Holds for ByValue {
    fn held_bytes(&self) -> usize {
        self.value.memory_bytes()
    }
}

impl Ord for ByValue {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = self.value.compare(&other.value);
        if self.descending { order.reverse() } else { order }
    }
}

impl PartialOrd for ByValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByValue {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByValue {}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(keeps_first: bool, keys: &[u8], expect: &[(u8, i32)]) {
        let mut ranked: Ranked<Vec<u8>, Value> = Ranked::new(3, keeps_first);
        for (arrival, key) in keys.iter().enumerate() {
            let key = vec![*key];
            if ranked.wants(&key) {
                ranked.insert(key, Value::Int32(arrival as i32));
            }
        }
        let held = expect.len() * (ENTRY_BYTES + 1 + size_of::<Value>());
        assert_eq!(ranked.bytes(), held, "what went no longer counts");
        let expect: Vec<_> = expect.iter().map(|(key, at)| (vec![*key], Value::Int32(*at))).collect();
        assert_eq!(ranked.into_entries().collect::<Vec<_>>(), expect);
    }

    #[test]
    fn equal_keys_keep_their_order_of_arrival() {
        check(true, &[5, 3, 5, 3, 4, 3, 3], &[(3, 1), (3, 3), (3, 5)]);
        check(false, &[5, 3, 5, 3, 4, 5, 5], &[(5, 2), (5, 5), (5, 6)]);
        check(true, &[2, 1], &[(1, 1), (2, 0)]);
    }
}
