//! A small seeded generator for `$rand`, `$sampleRate` and `$sample`; not for secrets.

/// The same numbers for the same seed.
#[derive(Debug, Clone)]
pub struct Random(fastrand::Rng);

impl Random {
    /// A generator that gives the same numbers for the same seed.
    pub fn with_seed(seed: u64) -> Self {
        Random(fastrand::Rng::with_seed(seed))
    }

    /// A number in `[0, 1)` with 53 random bits.
    pub fn next_unit(&mut self) -> f64 {
        self.0.f64()
    }

    /// A number in `[0, bound)`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.u64(..bound.max(1))
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
