//! The calendar form of a date, enough to print it.

use std::fmt;

const MILLISECONDS_PER_DAY: i64 = 86_400_000;

/// A moment in UTC between the years 0 and 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DateTime {
    year: i64,
    month: i64,
    day: i64,
    milliseconds: i64,
}

impl DateTime {
    /// The moment so many milliseconds after 1970 began.
    pub(crate) fn from_milliseconds(milliseconds: i64) -> Option<Self> {
        const YEAR_0: i64 = -62_167_219_200_000;
        const YEAR_10000: i64 = 253_402_300_800_000;
        if !(YEAR_0..YEAR_10000).contains(&milliseconds) {
            return None;
        }
        let (year, month, day) = civil_from_days(milliseconds.div_euclid(MILLISECONDS_PER_DAY));
        Some(DateTime { year, month, day, milliseconds: milliseconds.rem_euclid(MILLISECONDS_PER_DAY) })
    }
}

/// The Gregorian year, month and day of a day counted from 1970-01-01. Years counted from March have the leap
/// day at their end.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// ISO 8601; milliseconds when there are some, or always when a precision is asked for.
impl fmt::Display for DateTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DateTime { year, month, day, milliseconds } = *self;
        let (seconds, fraction) = (milliseconds / 1000, milliseconds % 1000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(formatter, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if fraction > 0 || formatter.precision().is_some() {
            write!(formatter, ".{fraction:03}")?;
        }
        formatter.write_str("Z")
    }
}
