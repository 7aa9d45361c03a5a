//! Arithmetic on dates by calendar units: `$dateAdd`, `$dateSubtract`, `$dateDiff`, `$dateTrunc`.

use document::Value;
use jiff::Span;
use jiff::civil::{Date, DateTime, Weekday};

use crate::error::QueryError;

use super::call::Arguments;
use super::date::as_milliseconds;
use super::date_zone::{Zone, clock_milliseconds, clock_time, out_of_range};
use super::operators::{Operator, OperatorParameter, Signature};
use super::{Evaluated, NULL, Outcome, as_integer, nullish};

static MOVE: Signature = Signature {
    parameters: &[
        OperatorParameter::required("startDate"),
        OperatorParameter::required("unit"),
        OperatorParameter::required("amount"),
        OperatorParameter::optional("timezone"),
    ],
    not_an_object: 5166400,
    unknown: 5166401,
    absent: 5166402,
    shorthand: false,
};
static DIFFERENCE: Signature = Signature {
    parameters: &[
        OperatorParameter::required("startDate"),
        OperatorParameter::required("endDate"),
        OperatorParameter::required("unit"),
        OperatorParameter::optional("timezone"),
        OperatorParameter::optional("startOfWeek"),
    ],
    not_an_object: 5166301,
    unknown: 5166302,
    absent: 5166303,
    shorthand: false,
};
static TRUNCATE: Signature = Signature {
    parameters: &[
        OperatorParameter::required("date"),
        OperatorParameter::required("unit"),
        OperatorParameter::optional("binSize"),
        OperatorParameter::optional("timezone"),
        OperatorParameter::optional("startOfWeek"),
    ],
    not_an_object: 5439007,
    unknown: 5439008,
    absent: 5439009,
    shorthand: false,
};

pub(crate) static OPERATORS: &[Operator] = &[
    Operator::named("$dateAdd", &MOVE, |arguments| shift(arguments, 1), "the date a number of units later"),
    Operator::named(
        "$dateSubtract",
        &MOVE,
        |arguments| shift(arguments, -1),
        "the date a number of units earlier",
    ),
    Operator::named("$dateDiff", &DIFFERENCE, difference, "the number of unit boundaries between two dates"),
    Operator::named(
        "$dateTrunc",
        &TRUNCATE,
        truncate,
        "the beginning of the bin of units that a date lies in",
    ),
];

/// A unit of time. The first four are counted on the calendar, a day and a week too; the rest are fixed
/// spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeUnit {
    Months(i64),
    Days(i64),
    Milliseconds(i64),
}

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const DAYS_OF_WEEK: i64 = 7;

impl TimeUnit {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "year" => Self::Months(12),
            "quarter" => Self::Months(3),
            "month" => Self::Months(1),
            "week" => Self::Days(DAYS_OF_WEEK),
            "day" => Self::Days(1),
            "hour" => Self::Milliseconds(HOUR),
            "minute" => Self::Milliseconds(MINUTE),
            "second" => Self::Milliseconds(SECOND),
            "millisecond" => Self::Milliseconds(1),
            _ => return None,
        })
    }

    /// `None` when the operand is null.
    fn of_operand(operand: &Evaluated, name: &str, code: i32) -> Result<Option<Self>, QueryError> {
        match operand {
            value if nullish(value) => Ok(None),
            Some(Value::String(text)) => match Self::parse(text) {
                Some(unit) => Ok(Some(unit)),
                None => Err(QueryError::failed_to_parse(format!("unknown time unit value: {text}"))),
            },
            _ => Err(query_error!(code, "{name} requires 'unit' to be a string")),
        }
    }
}

fn date_operand(operand: &Evaluated, name: &str, parameter: &str, code: i32) -> Result<i64, QueryError> {
    as_milliseconds(operand)
        .map_err(|_| query_error!(code, "{name} requires {parameter} to be convertible to a date"))
}

fn shift(mut arguments: Arguments, sign: i64) -> Outcome {
    let name = arguments.operator;
    let start = arguments.take("startDate");
    let unit = TimeUnit::of_operand(&arguments.take("unit"), name, 5166404)?;
    let amount = arguments.take("amount");
    let zone = Zone::of_operand(arguments.take_given("timezone"), name)?;
    let (Some(unit), Some(zone)) = (unit, zone) else { return Ok(NULL) };
    if nullish(&start) || nullish(&amount) {
        return Ok(NULL);
    }
    let start = date_operand(&start, name, "startDate", 5166403)?;
    let Some(amount) = as_integer(&amount) else {
        bail!(5166405, "{name} expects integer amount of time units");
    };
    let overflow = || query_error!(5166406, "{name} overflowed");
    let amount = amount.checked_mul(sign).ok_or_else(overflow)?;
    let moved = match unit {
        TimeUnit::Milliseconds(length) => amount.checked_mul(length).and_then(|span| start.checked_add(span)),
        TimeUnit::Days(days) => {
            let span = amount
                .checked_mul(days)
                .and_then(|days| Span::new().try_days(days).ok())
                .ok_or_else(overflow)?;
            Some(zone.instant(zone.local(start)?.checked_add(span).map_err(|_| overflow())?)?)
        }
        TimeUnit::Months(months) => {
            let span = amount
                .checked_mul(months)
                .and_then(|months| Span::new().try_months(months).ok())
                .ok_or_else(overflow)?;
            Some(zone.instant(zone.local(start)?.checked_add(span).map_err(|_| overflow())?)?)
        }
    };
    moved.map(|moved| Some(Value::DateTime(moved))).ok_or_else(overflow)
}

/// The first day of the week; Sunday when not given. `None` when null.
fn week_start(operand: Option<Evaluated>, name: &str) -> Result<Option<Weekday>, QueryError> {
    let text = match operand {
        None => return Ok(Some(Weekday::Sunday)),
        Some(value) if nullish(&value) => return Ok(None),
        Some(Some(Value::String(text))) => text,
        Some(_) => bail!(5439015, "{name} requires 'startOfWeek' to be a string"),
    };
    let day = match text.to_ascii_lowercase().as_str() {
        "sunday" | "sun" => Weekday::Sunday,
        "monday" | "mon" => Weekday::Monday,
        "tuesday" | "tue" => Weekday::Tuesday,
        "wednesday" | "wed" => Weekday::Wednesday,
        "thursday" | "thu" => Weekday::Thursday,
        "friday" | "fri" => Weekday::Friday,
        "saturday" | "sat" => Weekday::Saturday,
        _ => bail!(failed_to_parse, "unknown day of week value: {text}"),
    };
    Ok(Some(day))
}

/// Days since 1970-01-01.
fn day_number(local: DateTime) -> Result<i64, QueryError> {
    Ok(clock_milliseconds(local)?.div_euclid(DAY))
}

/// The number of the week since the week of 1970-01-01, weeks beginning on `first`.
fn week_number(local: DateTime, first: Weekday) -> Result<i64, QueryError> {
    Ok((day_number(local)? - first_week_start(first)).div_euclid(DAYS_OF_WEEK))
}

/// The day number of the first such weekday after 1970-01-01, which was a Thursday.
fn first_week_start(first: Weekday) -> i64 {
    (i64::from(first.to_monday_zero_offset()) - i64::from(Weekday::Thursday.to_monday_zero_offset()))
        .rem_euclid(DAYS_OF_WEEK)
}

fn month_number(local: DateTime) -> i64 {
    i64::from(local.year()) * 12 + i64::from(local.month()) - 1
}

fn difference(mut arguments: Arguments) -> Outcome {
    let name = arguments.operator;
    let (start, end) = (arguments.take("startDate"), arguments.take("endDate"));
    let unit = TimeUnit::of_operand(&arguments.take("unit"), name, 5439013)?;
    let zone = Zone::of_operand(arguments.take_given("timezone"), name)?;
    let first_day = week_start(arguments.take_given("startOfWeek"), name)?;
    let (Some(unit), Some(zone), Some(first_day)) = (unit, zone, first_day) else { return Ok(NULL) };
    if nullish(&start) || nullish(&end) {
        return Ok(NULL);
    }
    let start = date_operand(&start, name, "'startDate'", 5166307)?;
    let end = date_operand(&end, name, "'endDate'", 5166307)?;
    let between = |number: &dyn Fn(DateTime) -> Result<i64, QueryError>| {
        Ok::<i64, QueryError>(number(zone.local(end)?)? - number(zone.local(start)?)?)
    };
    let boundaries = match unit {
        TimeUnit::Months(length) => between(&|local| Ok(month_number(local).div_euclid(length)))?,
        TimeUnit::Days(1) => between(&day_number)?,
        TimeUnit::Days(_) => between(&|local| week_number(local, first_day))?,
        TimeUnit::Milliseconds(length) => {
            // Zones are offset by parts of an hour, so boundaries are those of the local clock at the start.
            let offset = i64::from(zone.offset_seconds(start)?) * SECOND;
            (end + offset).div_euclid(length) - (start + offset).div_euclid(length)
        }
    };
    Ok(Some(Value::Int64(boundaries)))
}

fn truncate(mut arguments: Arguments) -> Outcome {
    let name = arguments.operator;
    let date = arguments.take("date");
    let unit = TimeUnit::of_operand(&arguments.take("unit"), name, 5439013)?;
    let bin_size = arguments.take_or("binSize", 1);
    let zone = Zone::of_operand(arguments.take_given("timezone"), name)?;
    let first_day = week_start(arguments.take_given("startOfWeek"), name)?;
    let (Some(unit), Some(zone), Some(first_day)) = (unit, zone, first_day) else { return Ok(NULL) };
    if nullish(&date) || nullish(&bin_size) {
        return Ok(NULL);
    }
    let date = date_operand(&date, name, "'date'", 5439012)?;
    let Some(bin_size) = as_integer(&bin_size) else {
        bail!(5439017, "$dateTrunc requires 'binSize' to be a 64-bit integer");
    };
    if bin_size <= 0 {
        bail!(5439018, "$dateTrunc requires 'binSize' to be greater than 0, but got value {bin_size}");
    }
    truncate_to(date, unit, bin_size, &zone, first_day).map(|start| Some(Value::DateTime(start)))
}

/// Bins are counted from the beginning of this year, local time.
const REFERENCE_YEAR: i16 = 2000;

fn truncate_to(
    date: i64,
    unit: TimeUnit,
    bins: i64,
    zone: &Zone,
    first_day: Weekday,
) -> Result<i64, QueryError> {
    let reference = Date::new(REFERENCE_YEAR, 1, 1)
        .map_err(|_| out_of_range())?
        .to_datetime(jiff::civil::Time::midnight());
    let size = |length: i64| length.checked_mul(bins).ok_or_else(out_of_range);
    match unit {
        TimeUnit::Milliseconds(length) => {
            let origin = zone.instant(reference)?;
            let size = size(length)?;
            date.checked_sub(origin)
                .and_then(|passed| origin.checked_add(passed.div_euclid(size).checked_mul(size)?))
                .ok_or_else(out_of_range)
        }
        TimeUnit::Days(length) => {
            let mut origin = day_number(reference)?;
            if length == DAYS_OF_WEEK {
                origin += (first_week_start(first_day) - origin).rem_euclid(DAYS_OF_WEEK);
            }
            let size = size(length)?;
            let day = origin + (day_number(zone.local(date)?)? - origin).div_euclid(size) * size;
            zone.instant(clock_time(day.checked_mul(DAY).ok_or_else(out_of_range)?)?)
        }
        TimeUnit::Months(length) => {
            let origin = month_number(reference);
            let size = size(length)?;
            let month = origin + (month_number(zone.local(date)?) - origin).div_euclid(size) * size;
            let year = i16::try_from(month.div_euclid(12)).map_err(|_| out_of_range())?;
            let first = i8::try_from(month.rem_euclid(12) + 1)
                .ok()
                .and_then(|month| Date::new(year, month, 1).ok())
                .ok_or_else(out_of_range)?;
            zone.instant(first.to_datetime(jiff::civil::Time::midnight()))
        }
    }
}
