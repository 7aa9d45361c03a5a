//! Repeatable choice of documents.

/// A small seeded generator (SplitMix64): the load must be repeatable and cost nothing beside a request.
#[derive(Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    /// A number in `0..bound`; the bias of the multiplication is far below what a benchmark could notice.
    pub(crate) fn below(&mut self, bound: i32) -> i32 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        ((mixed >> 32).wrapping_mul(u64::from(bound.unsigned_abs())) >> 32) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_cover_the_range() {
        let mut random = Random::new(1);
        let drawn: std::collections::BTreeSet<i32> = (0..1_000).map(|_| random.below(10)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    }
}
