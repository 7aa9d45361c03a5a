//! Times as text: for log lines and `currentOp`.

use document::civil_from_days;

/// Milliseconds since 1970 as `2026-01-31T10:00:00.000+00:00`.
pub fn utc_text(milliseconds: i64) -> String {
    const MS_PER_DAY: i64 = 86_400_000;
    let (days, rest) = (milliseconds.div_euclid(MS_PER_DAY), milliseconds.rem_euclid(MS_PER_DAY));
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second, ms) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}+00:00")
}

/// Milliseconds since 1970 as `Sat Jan 31 10:00:00.000`.
pub fn calendar_text(milliseconds: i64) -> String {
    const MS_PER_DAY: i64 = 86_400_000;
    /// 1 January 1970 was a Thursday.
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let name = |names: &[&'static str], position: i64| {
        usize::try_from(position).ok().and_then(|position| names.get(position).copied()).unwrap_or_default()
    };
    let days = milliseconds.div_euclid(MS_PER_DAY);
    let (_, month, day) = civil_from_days(days);
    let text = utc_text(milliseconds);
    let time = text.split_once('T').and_then(|(_, time)| time.get(..12)).unwrap_or_default();
    format!("{} {} {day:2} {time}", name(&WEEKDAYS, days.rem_euclid(7)), name(&MONTHS, month - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_full() {
        let check = |ms, expect| assert_eq!(utc_text(ms), expect);
        check(0, "1970-01-01T00:00:00.000+00:00");
        check(951_782_400_123, "2000-02-29T00:00:00.123+00:00");
        check(1_763_700_000_000, "2025-11-21T04:40:00.000+00:00");
        assert_eq!(calendar_text(0), "Thu Jan  1 00:00:00.000");
        assert_eq!(calendar_text(951_782_400_123), "Tue Feb 29 00:00:00.123");
        assert_eq!(calendar_text(1_763_700_000_000), "Fri Nov 21 04:40:00.000");
    }
}
