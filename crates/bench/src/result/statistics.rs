//! Ratios of two groups of repetitions with confidence intervals, by Student's t on logarithms.
//!
//! Rates and latencies are positive and vary by shares, not by amounts: their logarithms are closer to normal
//! than they are, a difference of logarithms is a ratio, and an interval around it is never negative.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Share of intervals that hold the true ratio.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// The middle of the values; 0 when there is none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = values.get(middle).copied().unwrap_or_default();
    if values.len() % 2 == 1 {
        return upper;
    }
    let lower = middle.checked_sub(1).and_then(|index| values.get(index)).copied().unwrap_or_default();
    (lower + upper) / 2.0
}

/// How one group compares to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio {
    /// Of the geometric means.
    pub(crate) ratio: f64,
    /// The interval; absent when there are too few repetitions for one.
    pub(crate) bounds: Option<(f64, f64)>,
}

impl Ratio {
    /// Whether the interval holds 1, which is to say that no difference was shown; `None` without an
    /// interval.
    pub(crate) fn includes_one(&self) -> Option<bool> {
        self.bounds.map(|(low, high)| (low..=high).contains(&1.0))
    }
}

/// Ratio of two independent groups (Welch's test: their variances need not be equal). `None` when a group is
/// empty or has a value that is not positive.
pub(crate) fn unpaired(values: &[f64], base: &[f64]) -> Option<Ratio> {
    let (one, other) = (Moments::of(&logarithms(values)?)?, Moments::of(&logarithms(base)?)?);
    let difference = one.mean - other.mean;
    let bounds = one.error_squared().zip(other.error_squared()).map(|(mine, theirs)| {
        let error = mine + theirs;
        // Welch and Satterthwaite.
        let freedom =
            error.powi(2) / (mine.powi(2) / (one.count - 1.0) + theirs.powi(2) / (other.count - 1.0));
        // Without any variance the fraction is 0/0.
        let freedom = if freedom.is_finite() { freedom } else { one.count + other.count - 2.0 };
        interval(difference, error.sqrt(), freedom)
    });
    Some(Ratio { ratio: difference.exp(), bounds })
}

/// Ratio of values that belong together, place by place, such as repetitions that were made in turns: what
/// disturbs a round disturbs both and cancels out.
pub(crate) fn paired(values: &[f64], base: &[f64]) -> Option<Ratio> {
    if values.len() != base.len() {
        return None;
    }
    let (values, base) = (logarithms(values)?, logarithms(base)?);
    let differences: Vec<f64> = values.iter().zip(&base).map(|(one, other)| one - other).collect();
    let moments = Moments::of(&differences)?;
    let bounds =
        moments.error_squared().map(|error| interval(moments.mean, error.sqrt(), moments.count - 1.0));
    Some(Ratio { ratio: moments.mean.exp(), bounds })
}

fn logarithms(values: &[f64]) -> Option<Vec<f64>> {
    values.iter().map(|value| (*value > 0.0 && value.is_finite()).then(|| value.ln())).collect()
}

fn interval(difference: f64, error: f64, freedom: f64) -> (f64, f64) {
    let half = student_quantile(0.5 + CONFIDENCE / 2.0, freedom) * error;
    ((difference - half).exp(), (difference + half).exp())
}

struct Moments {
    count: f64,
    mean: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
}

impl Moments {
    fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Moments { count, mean, squares })
    }

    /// The square of the mean's standard error; `None` for one value.
    fn error_squared(&self) -> Option<f64> {
        (self.count > 1.5).then(|| self.squares / (self.count - 1.0) / self.count)
    }
}

/// The value that a t-distributed one exceeds with probability `1 - probability`.
fn student_quantile(probability: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::NAN, |student| student.inverse_cdf(probability))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expect: f64) {
        assert!((found - expect).abs() <= 5e-6 * expect.abs().max(1.0), "found {found}, expected {expect}");
    }

    #[test]
    fn medians() {
        let found = [&[][..], &[3.0], &[3.0, 1.0], &[9.0, 1.0, 5.0]].map(|values| median(values.to_vec()));
        assert_eq!(found, [0.0, 3.0, 2.0, 5.0]);
    }

    #[test]
    fn quantiles_are_those_of_the_printed_tables() {
        let check = |probability, freedom, expect| near(student_quantile(probability, freedom), expect);
        check(0.975, 1.0, 12.706_205);
        check(0.975, 2.0, 4.302_653);
        check(0.975, 4.0, 2.776_445);
        check(0.975, 10.0, 2.228_139);
        check(0.975, 30.0, 2.042_272);
        check(0.975, 1_000.0, 1.962_339);
        check(0.95, 5.0, 2.015_048);
    }

    #[test]
    fn paired_by_hand() {
        // Logarithms of the ratios: ln 2, ln 2, ln 4; mean 4/3 ln 2, variance (ln 2)² / 3, error ln 2 / 3.
        let found = paired(&[2.0, 4.0, 40.0], &[1.0, 2.0, 10.0]).expect("positive values");
        let two = 2_f64.ln();
        near(found.ratio, (4.0 / 3.0 * two).exp());
        let (low, high) = found.bounds.expect("three repetitions");
        near(low, (4.0 / 3.0 * two - 4.302_653 * two / 3.0).exp());
        near(high, (4.0 / 3.0 * two + 4.302_653 * two / 3.0).exp());
        assert_eq!(found.includes_one(), Some(true), "{found:?}");
    }

    #[test]
    fn unpaired_by_hand() {
        // Equal variances and counts: 2 + 2 - 2 degrees of freedom. Logarithms 0 and 0.02 against 1 and 1.02.
        let e = std::f64::consts::E;
        let found = unpaired(&[e, e * 0.02_f64.exp()], &[1.0, 0.02_f64.exp()]).expect("positive values");
        near(found.ratio, e);
        // Each variance is 0.0002, each squared error 0.0001, together 0.0002.
        let half = 4.302_653 * 0.000_2_f64.sqrt();
        let (low, high) = found.bounds.expect("two repetitions each");
        near(low, (1.0 - half).exp());
        near(high, (1.0 + half).exp());
        assert_eq!(found.includes_one(), Some(false));
    }

    #[test]
    fn welchs_degrees_of_freedom() {
        // A group that hardly varies tells nothing of the other's variance: as many degrees as the other
        // alone has.
        let found = unpaired(&[1.0, 1.0 + 1e-9], &[1.0, 1.1, 1.2]).expect("positive values");
        let alone = Moments::of(&[0.0, 1.1_f64.ln(), 1.2_f64.ln()]).expect("three values");
        let half = 4.302_653 * alone.error_squared().expect("three values").sqrt();
        let (low, high) = found.bounds.expect("several repetitions");
        near((high / low).ln() / 2.0, half);
    }

    #[test]
    fn too_little_for_an_interval_or_a_ratio() {
        assert_eq!(unpaired(&[4.0], &[2.0, 2.0]).map(|found| found.bounds), Some(None));
        assert_eq!(paired(&[4.0], &[2.0]).and_then(|found| found.includes_one()), None);
        assert_eq!(unpaired(&[], &[1.0]), None);
        assert_eq!(unpaired(&[0.0, 1.0], &[1.0, 1.0]), None);
        assert_eq!(paired(&[1.0, 1.0], &[1.0]), None);
    }

    #[test]
    fn no_variance_at_all_is_an_interval_of_one_point() {
        let found = unpaired(&[2.0, 2.0], &[1.0, 1.0]).expect("positive values");
        let (low, high) = found.bounds.expect("two repetitions each");
        near(low, 2.0);
        near(high, 2.0);
    }
}
