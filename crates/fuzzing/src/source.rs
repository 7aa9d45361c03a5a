//! Choices, made by bytes.

use arbitrary::{Arbitrary, Unstructured};

/// Where there are no bytes any more, every choice is the first one.
pub(crate) struct Source<'b>(Unstructured<'b>);

impl<'b> Source<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Source(Unstructured::new(bytes))
    }

    /// Below `limit`, which is not 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0.int_in_range(0..=limit - 1).expect("a range that is not empty has a number")
    }

    /// Never without bytes, so that what repeats by it ends.
    pub(crate) fn one_in(&mut self, limit: usize) -> bool {
        self.below(limit) + 1 == limit
    }

    pub(crate) fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        *self.one_of(list)
    }

    pub(crate) fn one_of<'t, T>(&mut self, list: &'t [T]) -> &'t T {
        let place = self.below(list.len());
        list.get(place).expect("the place is below the length")
    }

    /// Any value of the type.
    pub(crate) fn any<T: Arbitrary<'b> + Default>(&mut self) -> T {
        self.0.arbitrary().unwrap_or_default()
    }

    /// So many bytes at most.
    pub(crate) fn bytes(&mut self, most: usize) -> &'b [u8] {
        let length = self.below(most + 1).min(self.0.len());
        self.0.bytes(length).expect("they are there")
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
