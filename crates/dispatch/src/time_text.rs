//! Times as text: for log lines and `currentOp`.

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

/// The Gregorian date of a day counted from 1970-01-01 (Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms").
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
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
