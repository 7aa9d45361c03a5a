//! Pearson's chi-square test, for the tests of distributions.

/// Standard deviations of the statistic that a fit may be off: the draws are seeded, so that this decides
/// once and for all.
const TOLERATED: f64 = 4.0;
/// Classes expected fewer times are pooled: the statistic needs some draws in each.
const LEAST_EXPECTED: f64 = 20.0;

/// How many standard deviations the statistic lies above (or below) what draws from the definition give: with
/// many degrees of freedom the statistic is normal, with mean `f` and variance `2 f`; Wilson and Hilferty's
/// cube root makes it so for few.
fn deviation(counts: &[u64], weights: &[f64]) -> f64 {
    assert_eq!(counts.len(), weights.len(), "one weight for each class");
    let draws: u64 = counts.iter().sum();
    let whole: f64 = weights.iter().sum();
    let mut classes = Vec::new();
    let (mut pooled_found, mut pooled_expected) = (0.0, 0.0);
    for (&found, &weight) in counts.iter().zip(weights) {
        let expected = weight / whole * draws as f64;
        if expected == 0.0 {
            assert_eq!(found, 0, "an impossible class was drawn");
            continue;
        }
        pooled_found += found as f64;
        pooled_expected += expected;
        if pooled_expected >= LEAST_EXPECTED {
            classes.push((pooled_found, pooled_expected));
            (pooled_found, pooled_expected) = (0.0, 0.0);
        }
    }
    let statistic: f64 = classes.iter().map(|(found, expected)| (found - expected).powi(2) / expected).sum();
    let freedom = classes.len().saturating_sub(1) as f64;
    if freedom == 0.0 {
        return statistic;
    }
    let spread = 2.0 / (9.0 * freedom);
    ((statistic / freedom).cbrt() - (1.0 - spread)) / spread.sqrt()
}

/// Asserts that the counts of the classes are such as draws with these weights give.
pub(crate) fn fits(counts: &[u64], weights: &[f64], what: &str) {
    let deviation = deviation(counts, weights);
    assert!(deviation < TOLERATED, "{what}: {deviation:.1} standard deviations from the definition");
}

/// Asserts that the counts could not have come from these weights.
pub(crate) fn fits_not(counts: &[u64], weights: &[f64], what: &str) {
    let deviation = deviation(counts, weights);
    assert!(deviation > TOLERATED, "{what} passed for the definition: {deviation:.1} standard deviations");
}

#[test]
fn the_test_knows_a_fair_die_from_a_loaded_one() {
    fits(&[1_010, 990, 1_005, 995, 1_020, 980], &[1.0; 6], "a fair die");
    fits_not(&[1_200, 990, 1_005, 995, 1_020, 790], &[1.0; 6], "a loaded die");
}
