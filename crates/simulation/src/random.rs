//! Choices of a simulation.

/// A generator that gives the same choices for the same seed.
#[derive(Debug, Clone)]
pub struct SeededRandom(fastrand::Rng);

impl SeededRandom {
    /// The generator of a seed.
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom(fastrand::Rng::with_seed(seed))
    }

    /// A number in `[0, bound)`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.u64(..bound.max(1))
    }

    /// True in so many of a thousand cases.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        per_mille > 0 && self.below(1000) < per_mille
    }

    /// The seed of another generator.
    pub fn seed(&mut self) -> u64 {
        self.0.u64(..)
    }
}
