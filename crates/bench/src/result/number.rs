//! Numbers as people read them.

/// With commas, and only as many decimals as mean something.
pub(crate) fn amount(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let decimals = match value.abs() {
        magnitude if magnitude >= 100.0 || magnitude == 0.0 => 0,
        magnitude if magnitude >= 10.0 => 1,
        magnitude if magnitude >= 1.0 => 2,
        _ => 3,
    };
    grouped(&format!("{value:.decimals$}"))
}

/// As [`amount`], without decimals that are zeros: for sentences.
pub(crate) fn plain(value: f64) -> String {
    let text = amount(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn grouped(text: &str) -> String {
    let (whole, rest) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, format!(".{fraction}")),
        None => (text, String::new()),
    };
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut grouped = String::with_capacity(text.len() + 4);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{rest}")
}

pub(crate) fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// In the unit of memory that fits.
pub(crate) fn bytes(value: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.into_iter().find(|(unit, _)| value >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", value as f64 / unit as f64),
        None => format!("{value} B"),
    }
}

/// A share in percent.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_grouped_and_no_more_exact_than_needed() {
        let check = |value: f64, expect: &str| assert_eq!(amount(value), expect);
        check(0.0, "0");
        check(0.0123, "0.012");
        check(4.266, "4.27");
        check(12.34, "12.3");
        check(128.0, "128");
        check(1_000.0, "1,000");
        check(1_234_567.8, "1,234,568");
        check(-12_345.0, "-12,345");
        check(f64::NAN, "–");
        assert_eq!([plain(30.0), plain(2.5), plain(1_000.0)], ["30", "2.5", "1,000"]);
        assert_eq!([count(7), count(1_234_567)], ["7", "1,234,567"]);
    }

    #[test]
    fn memory_has_its_unit() {
        let found = [512, 5_000, 30 << 20, 8 << 30].map(bytes);
        assert_eq!(found, ["512 B", "4.9 KiB", "30.0 MiB", "8.0 GiB"]);
    }
}
