//! The parts of a date as operators of their own: `$year`, `$month`, … Each takes a date, or
//! `{date, timezone}`.

use document::Value;
use jiff::civil::DateTime;

use crate::error::QueryError;

use super::call::Arguments;
use super::date_zone::Zone;
use super::operators::{Operator, OperatorParameter, Signature};
use super::{Evaluated, NULL, Outcome, nullish, type_name};

static SIGNATURE: Signature = Signature {
    parameters: &[OperatorParameter::required("date"), OperatorParameter::optional("timezone")],
    not_an_object: 40536,
    unknown: 40535,
    absent: 40539,
    shorthand: true,
};

/// An operator that yields one part of a date.
macro_rules! part {
    ($name:literal, $read:expr, $documentation:literal) => {
        Operator::named($name, &SIGNATURE, |arguments| part(arguments, $read), $documentation)
    };
}

pub(crate) static OPERATORS: &[Operator] = &[
    part!("$year", |local| int(local.year()), "the year of a date"),
    part!("$month", |local| int(local.month()), "the month of a date, 1 to 12"),
    part!("$dayOfMonth", |local| int(local.day()), "the day of the month of a date, 1 to 31"),
    part!("$hour", |local| int(local.hour()), "the hour of a date, 0 to 23"),
    part!("$minute", |local| int(local.minute()), "the minute of a date, 0 to 59"),
    part!("$second", |local| int(local.second()), "the second of a date, 0 to 59"),
    part!("$millisecond", |local| int(local.millisecond()), "the millisecond of a date, 0 to 999"),
    part!(
        "$dayOfWeek",
        |local| int(local.weekday().to_sunday_one_offset()),
        "the day of the week, 1 (Sunday) to 7"
    ),
    part!("$dayOfYear", |local| int(local.day_of_year()), "the day of the year, 1 to 366"),
    part!("$week", |local| int(week_of_year(local)), "the week of the year, 0 to 53; weeks begin on Sundays"),
    part!("$isoWeek", |local| int(local.date().iso_week_date().week()), "the ISO 8601 week, 1 to 53"),
    part!(
        "$isoWeekYear",
        |local| Value::Int64(i64::from(local.date().iso_week_date().year())),
        "the year that the ISO 8601 week belongs to"
    ),
    part!(
        "$isoDayOfWeek",
        |local| int(local.weekday().to_monday_one_offset()),
        "the ISO 8601 day of the week, 1 (Monday) to 7"
    ),
];

fn int(number: impl Into<i32>) -> Value {
    Value::Int32(number.into())
}

/// Weeks begin on Sundays; days before the first Sunday are in week 0.
pub(crate) fn week_of_year(local: DateTime) -> i16 {
    (local.day_of_year() + 6 - i16::from(local.weekday().to_sunday_zero_offset())) / 7
}

fn part(mut arguments: Arguments, read: fn(DateTime) -> Value) -> Outcome {
    let name = arguments.operator;
    let date = arguments.take("date");
    let Some(zone) = Zone::of_operand(arguments.take_given("timezone"), name)? else { return Ok(NULL) };
    if nullish(&date) {
        return Ok(NULL);
    }
    Ok(Some(read(zone.local(as_milliseconds(&date)?)?)))
}

/// The instant in a date, a timestamp or an object id.
pub(crate) fn as_milliseconds(operand: &Evaluated) -> Result<i64, QueryError> {
    match operand {
        Some(Value::DateTime(milliseconds)) => Ok(*milliseconds),
        Some(Value::Timestamp(timestamp)) => Ok(i64::from(timestamp.time) * 1000),
        Some(Value::ObjectId(id)) => Ok(i64::from(id.seconds()) * 1000),
        other => Err(query_error!(16006, "can't convert from BSON type {} to Date", type_name(other))),
    }
}

/// `2024-02-29T12:30:00.000Z`.
pub(crate) fn iso_string(milliseconds: i64) -> Result<String, QueryError> {
    let local = Zone::utc().local(milliseconds)?;
    Ok(format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        local.year(),
        local.month(),
        local.day(),
        local.hour(),
        local.minute(),
        local.second(),
        local.millisecond()
    ))
}
