//! Reading calendars as clients write them.

use super::{DAY_MINUTES, DAY_NAMES, DaySet, SHORT_DAY, WorkCalendar, WorkRate, WorkWindow};
use crate::QueryError;
use crate::error::code;
use crate::expression::Zone;
use document::{ElementType, RawArray, RawDocument, RawValue};

/// Windows of one calendar at most.
const WINDOWS_MAX: usize = 32;
const UNKNOWN_FIELD: i32 = 40_415;
const VALUE_OUT_OF_BOUNDS: i32 = 51_024;

impl WorkCalendar {
    /// Reads one window, or an array of them; `field` is how messages call it. An empty array and null are no
    /// calendar.
    ///
    /// # Errors
    /// `TypeMismatch`, `BadValue`, `Location40415` for an unknown field, `Location51024` for a rate below 1,
    /// `Location40485` for an unknown time zone.
    pub fn parse(value: RawValue<'_>, field: &str) -> Result<Option<Self>, QueryError> {
        let windows = match value {
            RawValue::Null | RawValue::Undefined => return Ok(None),
            RawValue::Document(window) => vec![WorkWindow::parse(window, field)?],
            RawValue::Array(windows) => parse_several(windows, field)?,
            other => return Err(wrong_type(field, other.kind(), "[object, array]")),
        };
        Ok(Some(WorkCalendar { windows }).filter(|calendar| !calendar.windows.is_empty()))
    }

    /// Whether one of its windows says how many documents may be worked on in a second.
    pub fn limits_documents(&self) -> bool {
        self.windows.iter().any(|window| window.rate.documents_per_second.is_some())
    }

    /// Whether one of its windows says how many bytes may be moved in a second.
    pub fn limits_bytes(&self) -> bool {
        self.windows.iter().any(|window| window.rate.bytes_per_second.is_some())
    }
}

fn parse_several(windows: RawArray<'_>, field: &str) -> Result<Vec<WorkWindow>, QueryError> {
    let mut parsed = Vec::new();
    for (position, window) in windows.iter().enumerate() {
        if position == WINDOWS_MAX {
            bail!(bad_value, "'{field}' has more than {WINDOWS_MAX} windows");
        }
        let name = format!("{field}.{position}");
        let window = window.as_document().ok_or_else(|| wrong_type(&name, window.kind(), "object"))?;
        parsed.push(WorkWindow::parse(window, &name)?);
    }
    Ok(parsed)
}

impl WorkWindow {
    fn parse(given: RawDocument<'_>, field: &str) -> Result<Self, QueryError> {
        let mut window = WorkWindow {
            days: DaySet::ALL,
            start: 0,
            stop: DAY_MINUTES,
            zone: Zone::utc(),
            timezone: "UTC".into(),
            rate: WorkRate::default(),
        };
        let (mut start, mut stop) = (None, None);
        for element in given.iter() {
            let value = element.value();
            let name = format!("{field}.{}", element.name());
            match element.name() {
                "days" => window.days = days(value, &name)?,
                "start" => start = Some(time_of_day(value, &name, DAY_MINUTES - 1)?),
                "stop" => stop = Some(time_of_day(value, &name, DAY_MINUTES)?),
                "timezone" => {
                    text(value, &name)?.clone_into(&mut window.timezone);
                    window.zone = Zone::parse(&window.timezone)?;
                }
                "documentsPerSecond" => window.rate.documents_per_second = Some(limit(value, &name)?),
                "bytesPerSecond" => window.rate.bytes_per_second = Some(limit(value, &name)?),
                _ => bail!(UNKNOWN_FIELD, "BSON field '{name}' is an unknown field."),
            }
        }
        match (start, stop) {
            (None, None) => {}
            (Some(start), Some(stop)) if start == stop => bail!(
                bad_value,
                "'{field}' has a start and a stop that are the same: a window of whole days has neither"
            ),
            (Some(start), Some(stop)) => (window.start, window.stop) = (start, stop),
            _ => bail!(bad_value, "'{field}' must have both a start and a stop, or neither"),
        }
        Ok(window)
    }
}

fn wrong_type(field: &str, found: ElementType, expected: &str) -> QueryError {
    let noun = if expected.starts_with('[') { "types" } else { "type" };
    query_error!(
        type_mismatch,
        "BSON field '{field}' is the wrong type '{}', expected {noun} '{expected}'",
        found.alias()
    )
}

fn text<'v>(value: RawValue<'v>, field: &str) -> Result<&'v str, QueryError> {
    value.as_str().ok_or_else(|| wrong_type(field, value.kind(), "string"))
}

fn days(value: RawValue<'_>, field: &str) -> Result<DaySet, QueryError> {
    let array = value.as_array().ok_or_else(|| wrong_type(field, value.kind(), "array"))?;
    let mut days = DaySet(0);
    for (position, day) in array.iter().enumerate() {
        let name = text(day, &format!("{field}.{position}"))?;
        let lower = name.to_ascii_lowercase();
        let is_meant = |day: &&str| **day == lower || day.get(..SHORT_DAY) == Some(&lower);
        let Some(day) = DAY_NAMES.iter().position(is_meant) else {
            bail!(
                bad_value,
                "'{field}' has '{name}', which is no day: it takes 'mon', 'tue', … or full names"
            );
        };
        days = days.with(day);
    }
    match days {
        DaySet(0) => bail!(bad_value, "'{field}' must name at least one day"),
        days => Ok(days),
    }
}

/// Reads `H:MM` or `HH:MM`; the minutes since midnight.
fn time_of_day(value: RawValue<'_>, field: &str, most: u32) -> Result<u32, QueryError> {
    let given = text(value, field)?;
    let number = |text: &str, digits: std::ops::RangeInclusive<usize>| {
        let is_number = digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u32>().ok()).flatten()
    };
    let parts = given.split_once(':').and_then(|(hours, minutes)| {
        Some((number(hours, 1..=2)?, number(minutes, 2..=2).filter(|minutes| *minutes < 60)?))
    });
    let minutes = parts.map(|(hours, minutes)| hours * 60 + minutes).filter(|minutes| *minutes <= most);
    minutes.ok_or_else(|| {
        query_error!(
            bad_value,
            "'{field}' must be a time of day from '00:00' to '{:02}:{:02}', but is '{given}'",
            most / 60,
            most % 60
        )
    })
}

fn limit(value: RawValue<'_>, field: &str) -> Result<u64, QueryError> {
    let Some(number) = value.as_f64() else {
        return Err(wrong_type(field, value.kind(), "[long, int, decimal, double]"));
    };
    match value.as_i64_exact() {
        Some(limit @ 1..) => Ok(limit.unsigned_abs()),
        Some(_) => {
            bail!(VALUE_OUT_OF_BOUNDS, "BSON field '{field}' value must be >= 1, actual value '{number}'")
        }
        None => bail!(code::BAD_VALUE, "'{field}' must be a whole number, but is {number}"),
    }
}
