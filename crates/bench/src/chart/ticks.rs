//! Where an axis has ticks, and how short their labels are.

/// Ticks that an axis has at most, about.
const MOST: usize = 7;
/// And at least, when a finer division can have them.
const LEAST: usize = 4;

/// Round numbers within the range: 1, 2 or 5 times a power of ten apart.
pub(crate) fn linear(low: f64, high: f64) -> Vec<f64> {
    let width = high - low;
    if width <= 0.0 || !width.is_finite() {
        return vec![low];
    }
    let power = 10_f64.powf((width / MOST as f64).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|times| times * power)
        .find(|step| width / step <= MOST as f64)
        .unwrap_or(10.0 * power);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|number| number as f64 * step).collect()
}

/// Decades, and between them as many as the axis has room for.
pub(crate) fn logarithmic(low: f64, high: f64) -> Vec<f64> {
    const BETWEEN: [&[f64]; 4] = [&[1.0], &[1.0, 3.0], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]];
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let within = |times: &[f64], every: usize| -> Vec<f64> {
        let decades = (first..=last).step_by(every).map(|decade| 10_f64.powi(decade));
        let all = decades.flat_map(|decade| times.iter().map(move |times| times * decade));
        all.filter(|value| *value >= low * 0.999 && *value <= high * 1.001).collect()
    };
    if let Some(ticks) =
        BETWEEN.iter().map(|times| within(times, 1)).find(|ticks| (LEAST..=MOST + 1).contains(&ticks.len()))
    {
        return ticks;
    }
    let decades = (last - first).max(0) as usize;
    if decades > MOST { within(&[1.0], decades / MOST + 1) } else { linear(low, high) }
}

/// Shares of operations: the middle, 0.9, 0.99 and so on. Beside more than three nines there is no room for
/// 0.
pub(crate) fn percentiles(high: f64) -> Vec<f64> {
    const ROOMY: f64 = 0.999;
    let nines = (1..10).map(|nines| 1.0 - 10_f64.powi(-nines));
    let all = (high <= ROOMY).then_some(0.0).into_iter().chain([0.5]).chain(nines);
    all.filter(|share| *share <= high + 1e-12).collect()
}

/// A share of operations in percent, with all its nines.
pub(crate) fn percent(share: f64) -> String {
    let text = format!("{:.7}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A number as short as an axis needs it.
pub(crate) fn short(value: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let magnitude = value.abs();
    let unit = UNITS.into_iter().find(|(unit, _)| magnitude >= *unit);
    let (scaled, unit) = unit.map_or((value, ""), |(unit, name)| (value / unit, name));
    let decimals = match scaled.abs() {
        scaled if scaled >= 100.0 => 0,
        scaled if scaled >= 10.0 => 1,
        scaled if scaled >= 0.1 || scaled == 0.0 => 2,
        _ => 4,
    };
    let text = format!("{scaled:.decimals$}");
    let text = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_axes_have_round_ticks() {
        let check = |low, high, expect: &[&str]| {
            let found: Vec<String> = linear(low, high).into_iter().map(short).collect();
            assert_eq!(found, expect, "from {low} to {high}");
        };
        check(0.0, 30.0, &["0", "5", "10", "15", "20", "25", "30"]);
        check(0.0, 64_800.0, &["0", "10k", "20k", "30k", "40k", "50k", "60k"]);
        check(0.0, 1.0, &["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        check(61.0, 65.0, &["61", "62", "63", "64", "65"]);
        check(5.0, 5.0, &["5"]);
    }

    #[test]
    fn logarithmic_axes_have_ticks_between_decades_when_there_are_few() {
        let check = |low, high, expect: &[&str]| {
            let found: Vec<String> = logarithmic(low, high).into_iter().map(short).collect();
            assert_eq!(found, expect, "from {low} to {high}");
        };
        check(1.0, 1_000.0, &["1", "10", "100", "1k"]);
        check(0.5, 40.0, &["1", "3", "10", "30"]);
        check(1.0, 10.0, &["1", "2", "5", "10"]);
        check(2.0, 10.0, &["2", "3", "5", "7", "10"]);
        check(2.0, 3.0, &["2", "2.2", "2.4", "2.6", "2.8", "3"]);
        check(1e-3, 1e9, &["0.001", "0.1", "10", "1k", "100k", "10M", "1G"]);
    }

    #[test]
    fn percentiles_end_where_the_data_do() {
        let check = |high, expect: &[&str]| {
            let found: Vec<String> = percentiles(high).into_iter().map(percent).collect();
            assert_eq!(found, expect, "up to {high}");
        };
        check(0.95, &["0 %", "50 %", "90 %"]);
        check(0.99999, &["50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"]);
    }

    #[test]
    fn labels_are_short() {
        let check = |value: f64, expect: &str| assert_eq!(short(value), expect);
        check(0.0, "0");
        check(0.25, "0.25");
        check(0.005, "0.005");
        check(64.0, "64");
        check(1_500.0, "1.5k");
        check(1_000.0, "1k");
        check(12_500.0, "12.5k");
        check(120_000.0, "120k");
        check(2_500_000.0, "2.5M");
        check(-20.0, "-20");
    }
}
