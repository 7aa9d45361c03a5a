//! Repeatable randomness of workloads.

/// A small seeded generator (SplitMix64, Steele et al. 2014): the load must be repeatable and cost nothing beside a request.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Random { state: mix(seed) }
    }

    /// Any 64 bits.
    #[inline]
    pub(crate) const fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// A number in `0..bound`, or 0 when there is none; the bias of the multiplication is below 2⁻³² for bounds below 2³².
    #[inline]
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        ((self.bits() as u128 * bound as u128) >> 64) as u64
    }

    /// A number in `0.0..1.0`, all 53 bits of it random.
    #[inline]
    pub(crate) const fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A number in `least..=most`; `least` when they are the wrong way round.
    #[inline]
    pub(crate) const fn between(&mut self, least: i64, most: i64) -> i64 {
        if most <= least {
            return least;
        }
        let span = most.wrapping_sub(least) as u64;
        let offset = if span == u64::MAX { self.bits() } else { self.below(span + 1) };
        least.wrapping_add(offset as i64)
    }

    /// Appends `length` printable ASCII characters, from space to underscore as YCSB's, eight at a time.
    pub(crate) fn append_text(&mut self, length: usize, out: &mut Vec<u8>) {
        /// Six random bits of each byte …
        const BITS: u64 = 0x3F3F_3F3F_3F3F_3F3F;
        /// … counted from the space.
        const SPACE: u64 = 0x2020_2020_2020_2020;
        let mut left = length;
        while left > 0 {
            let eight = ((self.bits() & BITS) + SPACE).to_le_bytes();
            let count = left.min(eight.len());
            out.extend_from_slice(eight.get(..count).unwrap_or_default());
            left -= count;
        }
    }
}

const fn mix(state: u64) -> u64 {
    let mut mixed = state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_cover_their_range_and_nothing_else() {
        let mut random = Random::new(1);
        let drawn: std::collections::BTreeSet<i64> = (0..1_000).map(|_| random.between(-3, 3)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), (-3..=3).collect::<Vec<_>>());
        assert_eq!((random.between(5, 5), random.between(7, 2), random.below(0)), (5, 7, 0));
        let units: Vec<f64> = (0..1_000).map(|_| random.unit()).collect();
        assert!(units.iter().all(|unit| (0.0..1.0).contains(unit)), "{units:?}");
    }

    #[test]
    fn text_has_its_length_and_is_printable() {
        let mut random = Random::new(1);
        for length in [0, 1, 7, 8, 9, 100] {
            let mut text = Vec::new();
            random.append_text(length, &mut text);
            assert_eq!(text.len(), length);
            assert!(text.iter().all(|byte| (b' '..=b'_').contains(byte)), "{text:?}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let draw = |seed| {
            std::iter::repeat_with({
                let mut random = Random::new(seed);
                move || random.bits()
            })
            .take(4)
            .collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
