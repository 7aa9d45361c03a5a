//! Zipf's distribution, exactly: rank `r` of `n` is drawn with a probability in proportion to
//! `(r + 1)^-exponent`.

use fastrand::Rng;

/// YCSB's constant (`ZipfianGenerator.ZIPFIAN_CONSTANT`).
pub(crate) const YCSB_EXPONENT: f64 = 0.99;

/// Draws ranks by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from
/// monotone discrete distributions", 1996): exact, no sums over all ranks beforehand, and about one try per
/// draw. YCSB itself approximates (Gray et al. 1994) and must sum first; the definition is the same.
#[derive(Debug, Clone)]
pub(crate) struct Zipf {
    exponent: f64,
    ranks: u64,
    /// The integral up to the first rank's left edge, taken so that the first rank is never rejected.
    from: f64,
    /// The integral up to the last rank's right edge.
    to: f64,
    /// Draws this close to the left of their rank's middle need no test.
    sure: f64,
}

impl Zipf {
    /// `ranks` is at least 1; `exponent` is above 0.
    pub(crate) fn new(ranks: u64, exponent: f64) -> Self {
        let mut zipf = Zipf { exponent, ranks: 0, from: 0.0, to: 0.0, sure: 0.0 };
        zipf.from = zipf.integral(1.5) - 1.0;
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.height(2.0));
        zipf.resize(ranks);
        zipf
    }

    /// From now on there are this many ranks.
    #[inline]
    pub(crate) fn resize(&mut self, ranks: u64) {
        if self.ranks != ranks.max(1) {
            self.ranks = ranks.max(1);
            self.to = self.integral(self.ranks as f64 + 0.5);
        }
    }

    /// A rank in `0..ranks`; 0 is the most frequent.
    #[inline]
    pub(crate) fn draw(&self, random: &mut Rng) -> u64 {
        loop {
            let area = self.to + random.f64() * (self.from - self.to);
            let x = self.inverse(area);
            let rank = (x + 0.5).clamp(1.0, self.ranks as f64).floor();
            if rank - x <= self.sure || area >= self.integral(rank + 0.5) - self.height(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn height(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// ∫ from 1 to `x` of `height`, in a form that holds near exponent 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        exponential_quotient((1.0 - self.exponent) * log) * log
    }

    fn inverse(&self, area: f64) -> f64 {
        let scaled = (area * (1.0 - self.exponent)).max(-1.0);
        (logarithmic_quotient(scaled) * area).exp()
    }
}

/// `(eˣ − 1) / x`.
fn exponential_quotient(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// `ln(1 + x) / x`.
fn logarithmic_quotient(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::chi_square::{fits, fits_not};

    const DRAWS: u64 = 1_000_000;

    fn counts(ranks: u64, exponent: f64) -> Vec<u64> {
        let zipf = Zipf::new(ranks, exponent);
        let mut random = Rng::with_seed(42);
        let mut counts = vec![0; ranks as usize];
        for _ in 0..DRAWS {
            counts[zipf.draw(&mut random) as usize] += 1;
        }
        counts
    }

    fn definition(ranks: u64, exponent: f64) -> Vec<f64> {
        (1..=ranks).map(|rank| (rank as f64).powf(-exponent)).collect()
    }

    #[test]
    fn draws_follow_the_definition() {
        for (ranks, exponent) in
            [(1_000, YCSB_EXPONENT), (1_000, 1.0), (300, 0.5), (50, 2.0), (2, 0.99), (1, 0.99)]
        {
            fits(
                &counts(ranks, exponent),
                &definition(ranks, exponent),
                &format!("{ranks} ranks, exponent {exponent}"),
            );
        }
    }

    #[test]
    fn another_constant_is_noticed() {
        fits_not(&counts(1_000, 0.97), &definition(1_000, YCSB_EXPONENT), "exponent 0.97 instead of 0.99");
        let mut fewer = counts(950, YCSB_EXPONENT);
        fewer.resize(1_000, 0);
        fits_not(&fewer, &definition(1_000, YCSB_EXPONENT), "fewer ranks");
    }

    #[test]
    fn a_growing_number_of_ranks_is_followed() {
        let mut zipf = Zipf::new(10, YCSB_EXPONENT);
        zipf.resize(1_000);
        let mut random = Rng::with_seed(42);
        let mut counts = vec![0; 1_000];
        for _ in 0..DRAWS {
            counts[zipf.draw(&mut random) as usize] += 1;
        }
        fits(&counts, &definition(1_000, YCSB_EXPONENT), "grown to 1,000 ranks");
    }
}
