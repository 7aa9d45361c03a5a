//! A small seeded generator for `$rand`, `$sampleRate` and `$sample`; not for secrets.

/// SplitMix64: one addition and three mixes per number, and every seed is a good one.
///
/// Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators" (2014).
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator that gives the same numbers for the same seed.
    pub fn with_seed(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 random bits.
    pub fn next_bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in `[0, 1)` with 53 random bits.
    pub fn next_unit(&mut self) -> f64 {
        (self.next_bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number in `[0, bound)`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of the multiplication is below 2^-32 for every bound used here.
        ((u128::from(self.next_bits()) * u128::from(bound)) >> 64) as u64
    }
}

impl Default for Random {
    fn default() -> Self {
        Self::with_seed(ambient::seed())
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_same_seed_gives_the_same_numbers_within_range() {
        let mut left = Random::with_seed(7);
        let mut right = Random::with_seed(7);
        for _ in 0..1000 {
            let unit = left.next_unit();
            assert_eq!(unit, right.next_unit());
            assert!((0.0..1.0).contains(&unit), "{unit} lies outside [0, 1)");
        }
        assert!((0..1000).all(|_| left.below(3) < 3));
        assert_eq!(left.below(0), 0);
    }
}
