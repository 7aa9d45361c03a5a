//! Time zones: Olson identifiers and fixed offsets, as in the `timezone` parameter of date operators.

use document::Value;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Unit};

use crate::error::{QueryError, code};

use super::brief;
use super::{Evaluated, nullish, type_name};

/// A time zone: the way from an instant to a local date and back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Zone {
    zone: TimeZone,
}

/// A date as a calendar of some zone shows it.
pub(crate) fn out_of_range() -> QueryError {
    QueryError::new(code::OVERFLOW, "date is outside the range of years from -9999 to 9999")
}

impl Zone {
    pub(crate) fn utc() -> Self {
        Self { zone: TimeZone::UTC }
    }

    /// Reads the `timezone` parameter. `None` in is UTC; `None` out means the operand is null, and so is the
    /// result.
    pub(crate) fn of_operand(operand: Option<Evaluated>, name: &str) -> Result<Option<Self>, QueryError> {
        match operand {
            None => Ok(Some(Self::utc())),
            Some(value) if nullish(&value) => Ok(None),
            Some(Some(Value::String(text))) => Self::parse(&text).map(Some),
            Some(other) => Err(query_error!(
                40517,
                "{name} requires a string for the timezone argument, but was given a {} ({})",
                type_name(&other),
                brief(&other)
            )),
        }
    }

    /// `Europe/Berlin`, `UTC`, `+05`, `+0530`, `-05:30`.
    pub(crate) fn parse(text: &str) -> Result<Self, QueryError> {
        let unknown = || query_error!(40485, "unrecognized time zone identifier: \"{text}\"");
        if matches!(text, "UTC" | "GMT" | "Z") {
            return Ok(Self::utc());
        }
        if let Some(seconds) = offset_seconds(text) {
            let offset = Offset::from_seconds(seconds).map_err(|_| unknown())?;
            return Ok(Self { zone: TimeZone::fixed(offset) });
        }
        TimeZone::get(text).map(|zone| Self { zone }).map_err(|_| unknown())
    }

    /// Whether the zone's clock is that of UTC.
    pub(crate) fn is_utc(&self) -> bool {
        self.zone == TimeZone::UTC
    }

    fn timestamp(milliseconds: i64) -> Result<Timestamp, QueryError> {
        Timestamp::from_millisecond(milliseconds).map_err(|_| out_of_range())
    }

    /// The local date and time at an instant, to the millisecond.
    pub(crate) fn local(&self, milliseconds: i64) -> Result<DateTime, QueryError> {
        Ok(self.zone.to_datetime(Self::timestamp(milliseconds)?))
    }

    /// The instant of a local date and time; the first of two, and the later side of a gap.
    pub(crate) fn instant(&self, local: DateTime) -> Result<i64, QueryError> {
        let timestamp = self.zone.to_timestamp(local).map_err(|_| out_of_range())?;
        Ok(timestamp.as_millisecond())
    }

    /// Seconds east of Greenwich at an instant.
    pub(crate) fn offset_seconds(&self, milliseconds: i64) -> Result<i32, QueryError> {
        Ok(self.zone.to_offset(Self::timestamp(milliseconds)?).seconds())
    }

    /// When its offset, or the name of it, changes next; in milliseconds since 1970.
    pub(crate) fn next_change(&self, milliseconds: i64) -> Option<i64> {
        let transition = self.zone.following(Self::timestamp(milliseconds).ok()?).next()?;
        Some(transition.timestamp().as_millisecond())
    }
}

/// Milliseconds of the local clock since 1970, as if it were UTC.
pub(crate) fn clock_milliseconds(local: DateTime) -> Result<i64, QueryError> {
    Zone::utc().instant(local)
}

/// The local date and time whose clock shows these milliseconds since 1970.
pub(crate) fn clock_time(milliseconds: i64) -> Result<DateTime, QueryError> {
    let time = Zone::utc().local(milliseconds)?;
    time.round(Unit::Millisecond).map_err(|_| out_of_range())
}

/// Reads `+hh`, `+hhmm` or `+hh:mm`.
fn offset_seconds(text: &str) -> Option<i32> {
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match (digits.len(), digits.split_once(':')) {
        (5, Some((hours, minutes))) => (hours, minutes),
        (4, None) => digits.split_at_checked(2)?,
        (2, None) => (digits, "00"),
        _ => return None,
    };
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<i32>().ok())?;
    Some(sign * (number(hours)? * 3600 + number(minutes)? * 60))
}
