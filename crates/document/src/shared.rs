//! What arrays and documents keep their items in: one word, shared by clones until one of them is changed.
//!
//! Expressions hand whole arrays from variable to operator; a copy for each use would make a loop over an
//! array quadratic.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Value;

/// Items that clones share. Nothing is allocated while there are none.
#[derive(Clone)]
pub(crate) struct Shared<T>(Option<Arc<Items<T>>>);

struct Items<T> {
    items: Vec<T>,
    /// A [`Measure`] as one word; 0 while nobody has measured.
    measured: AtomicU64,
}

/// How large a value is in memory with all it holds, and how deep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measure {
    /// Bytes, about. What several places share counts at each.
    pub bytes: usize,
    /// Levels of arrays and documents; 0 for a scalar.
    pub depth: usize,
}

const DEPTH_BITS: u32 = 16;

impl Measure {
    pub(crate) const fn scalar(bytes: usize) -> Self {
        Measure { bytes, depth: 0 }
    }

    /// Both together.
    #[must_use]
    pub fn with(self, other: Measure) -> Self {
        Measure { bytes: self.bytes.saturating_add(other.bytes), depth: self.depth.max(other.depth) }
    }

    fn to_word(self) -> u64 {
        let depth = self.depth.min((1 << DEPTH_BITS) - 1) as u64;
        (self.bytes as u64) << DEPTH_BITS | depth
    }

    fn from_word(word: u64) -> Self {
        Measure { bytes: (word >> DEPTH_BITS) as usize, depth: (word & ((1 << DEPTH_BITS) - 1)) as usize }
    }
}

impl<T> From<Vec<T>> for Items<T> {
    fn from(items: Vec<T>) -> Self {
        Items { items, measured: AtomicU64::new(0) }
    }
}

impl<T: Clone> Clone for Items<T> {
    fn clone(&self) -> Self {
        self.items.clone().into()
    }
}

impl<T> Shared<T> {
    pub(crate) const fn new() -> Self {
        Shared(None)
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[T] {
        self.0.as_ref().map_or(&[], |shared| shared.items.as_slice())
    }

    /// All items and the level they make; measured once and kept until the items change.
    pub(crate) fn measure(&self, item: impl Fn(&T) -> Measure) -> Measure {
        let Some(shared) = &self.0 else { return Measure { bytes: 0, depth: 1 } };
        let known = shared.measured.load(Ordering::Relaxed);
        if known != 0 {
            return Measure::from_word(known);
        }
        let mut measure = shared.items.iter().map(item).fold(Measure::default(), Measure::with);
        measure.depth += 1;
        shared.measured.store(measure.to_word(), Ordering::Relaxed);
        measure
    }
}

impl<T: Clone> Shared<T> {
    /// The items, to be changed: they are copied if a clone shares them.
    pub(crate) fn as_mut_vec(&mut self) -> &mut Vec<T> {
        let shared = Arc::make_mut(self.0.get_or_insert_with(|| Arc::new(Vec::new().into())));
        *shared.measured.get_mut() = 0;
        &mut shared.items
    }

    /// As [`Shared::as_mut_vec`], when the number of items stays.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        if self.0.is_some() { self.as_mut_vec() } else { &mut [] }
    }

    /// The items; they are copied if a clone shares them.
    pub(crate) fn into_vec(self) -> Vec<T> {
        self.0.map(|shared| Arc::unwrap_or_clone(shared).items).unwrap_or_default()
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Shared::new()
    }
}

impl<T> From<Vec<T>> for Shared<T> {
    fn from(items: Vec<T>) -> Self {
        if items.is_empty() { Shared(None) } else { Shared(Some(Arc::new(items.into()))) }
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(formatter)
    }
}

/// The values of an owned array: a slice to its readers, shared by its clones.
#[derive(Clone, PartialEq, Default)]
pub struct Array {
    values: Shared<Value>,
}

impl Array {
    /// An array without values.
    pub const fn new() -> Self {
        Array { values: Shared::new() }
    }

    /// The values; they are copied if a clone of this array is alive.
    pub fn into_vec(self) -> Vec<Value> {
        self.values.into_vec()
    }

    /// The values, to be changed; they are copied if a clone of this array is alive.
    pub fn as_mut_vec(&mut self) -> &mut Vec<Value> {
        self.values.as_mut_vec()
    }

    /// The values with all they hold.
    pub fn measure(&self) -> Measure {
        self.values.measure(Value::measure)
    }
}

impl Deref for Array {
    type Target = [Value];
    #[inline]
    fn deref(&self) -> &[Value] {
        self.values.as_slice()
    }
}

impl DerefMut for Array {
    fn deref_mut(&mut self) -> &mut [Value] {
        self.values.as_mut_slice()
    }
}

impl From<Vec<Value>> for Array {
    fn from(values: Vec<Value>) -> Self {
        Array { values: values.into() }
    }
}

impl From<Array> for Vec<Value> {
    fn from(array: Array) -> Self {
        array.into_vec()
    }
}

impl FromIterator<Value> for Array {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Self {
        values.into_iter().collect::<Vec<_>>().into()
    }
}

impl IntoIterator for Array {
    type Item = Value;
    type IntoIter = Values;
    fn into_iter(self) -> Self::IntoIter {
        Values(match self.values.0.map(Arc::try_unwrap) {
            None => Source::Owned(Vec::new().into_iter()),
            Some(Ok(values)) => Source::Owned(values.items.into_iter()),
            Some(Err(values)) => Source::Shared { values: Array { values: Shared(Some(values)) }, next: 0 },
        })
    }
}

/// The values of an array, one after the other; those of a shared array are copied as they come.
#[derive(Debug)]
pub struct Values(Source);

#[derive(Debug)]
enum Source {
    Owned(std::vec::IntoIter<Value>),
    Shared { values: Array, next: usize },
}

impl Iterator for Values {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        match &mut self.0 {
            Source::Owned(values) => values.next(),
            Source::Shared { values, next } => {
                let value = values.get(*next).cloned()?;
                *next += 1;
                Some(value)
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.0 {
            Source::Owned(values) => values.len(),
            Source::Shared { values, next } => values.len() - next,
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for Values {}

impl<'a> IntoIterator for &'a Array {
    type Item = &'a Value;
    type IntoIter = std::slice::Iter<'a, Value>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.values.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc;

    #[test]
    fn clones_share_until_one_is_changed() {
        let first: Array = (0..3).map(Value::from).collect();
        let mut second = first.clone();
        assert_eq!(first.as_ptr(), second.as_ptr(), "a clone copies nothing");
        assert!(second.clone().into_iter().eq(first.iter().cloned()), "a shared array can be consumed");
        second.as_mut_vec().push(Value::Null);
        assert_eq!((first.len(), second.len()), (3, 4), "a change is seen by no other clone");

        let original = doc! { "a": 1 };
        let mut changed = original.clone();
        changed.insert("a", 2);
        assert_eq!((original, changed), (doc! { "a": 1 }, doc! { "a": 2 }));
    }

    #[test]
    fn measured_again_after_a_change() {
        let mut array: Array = (0..10).map(Value::from).collect();
        assert_eq!(array.measure(), Measure { bytes: 10 * size_of::<Value>(), depth: 1 });
        array.as_mut_vec().push("four".into());
        assert_eq!(array.measure().bytes, 11 * size_of::<Value>() + 4);
        let mut outer = doc! { "a": (array.clone()) };
        let before = outer.measure();
        assert_eq!(before.depth, 2);
        outer.push("b", array);
        assert_eq!(outer.measure().bytes, 2 * before.bytes, "shared values count each time");
    }

    #[test]
    fn taking_the_values_of_the_only_owner_copies_nothing() {
        let array: Array = (0..3).map(Value::from).collect();
        let place = array.as_ptr();
        let values = array.into_vec();
        assert_eq!(values.as_ptr(), place);
    }
}
