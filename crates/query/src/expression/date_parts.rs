//! Dates from and to objects of their parts: `$dateToParts` and `$dateFromParts`.

use document::{Document, Value};
use jiff::Span;
use jiff::civil::{Date, DateTime};

use crate::error::QueryError;

use super::brief;
use super::call::Arguments;
use super::date::as_milliseconds;
use super::date_zone::{Zone, out_of_range};
use super::operators::{Operator, OperatorParameter, Signature};
use super::{NULL, Outcome, as_integer, nullish, type_name};

static TO_PARTS: Signature = Signature {
    parameters: &[
        OperatorParameter::required("date"),
        OperatorParameter::optional("timezone"),
        OperatorParameter::optional("iso8601"),
    ],
    not_an_object: 40524,
    unknown: 40520,
    absent: 40522,
    shorthand: false,
};
static FROM_PARTS: Signature = Signature {
    parameters: &[
        OperatorParameter::optional("year"),
        OperatorParameter::optional("month"),
        OperatorParameter::optional("day"),
        OperatorParameter::optional("hour"),
        OperatorParameter::optional("minute"),
        OperatorParameter::optional("second"),
        OperatorParameter::optional("millisecond"),
        OperatorParameter::optional("isoWeekYear"),
        OperatorParameter::optional("isoWeek"),
        OperatorParameter::optional("isoDayOfWeek"),
        OperatorParameter::optional("timezone"),
    ],
    not_an_object: 40519,
    unknown: 40518,
    absent: 40516,
    shorthand: false,
};

pub(crate) static OPERATORS: &[Operator] = &[
    Operator::named("$dateToParts", &TO_PARTS, to_parts, "an object of the parts of a date"),
    Operator::named(
        "$dateFromParts",
        &FROM_PARTS,
        from_parts,
        "the date with the given parts; parts out of their range carry over",
    ),
];

fn to_parts(mut arguments: Arguments) -> Outcome {
    let date = arguments.take("date");
    let Some(zone) = Zone::of_operand(arguments.take_given("timezone"), "$dateToParts")? else {
        return Ok(NULL);
    };
    let iso = match arguments.take_given("iso8601") {
        None => false,
        Some(Some(Value::Boolean(iso))) => iso,
        Some(value) if nullish(&value) => return Ok(NULL),
        Some(other) => bail!(40521, "iso8601 must evaluate to a bool, found {}", type_name(&other)),
    };
    if nullish(&date) {
        return Ok(NULL);
    }
    let local = zone.local(as_milliseconds(&date)?)?;
    let mut parts = Document::new();
    let mut push = |name: &str, number: i32| parts.push(name, Value::Int32(number));
    if iso {
        let week = local.date().iso_week_date();
        push("isoWeekYear", i32::from(week.year()));
        push("isoWeek", i32::from(week.week()));
        push("isoDayOfWeek", i32::from(week.weekday().to_monday_one_offset()));
    } else {
        push("year", i32::from(local.year()));
        push("month", i32::from(local.month()));
        push("day", i32::from(local.day()));
    }
    push("hour", i32::from(local.hour()));
    push("minute", i32::from(local.minute()));
    push("second", i32::from(local.second()));
    push("millisecond", i32::from(local.millisecond()));
    Ok(Some(Value::Document(parts)))
}

/// Reads an integral part; `Ok(None)` when it is null, and then so is the date.
fn part(arguments: &mut Arguments, name: &str, default: i64) -> Result<Option<i64>, QueryError> {
    let Some(operand) = arguments.take_given(name) else { return Ok(Some(default)) };
    if nullish(&operand) {
        return Ok(None);
    }
    as_integer(&operand).map(Some).ok_or_else(|| {
        query_error!(
            40515,
            "'{name}' must evaluate to an integer, found {} with value {}",
            type_name(&operand),
            brief(&operand)
        )
    })
}

fn check_range(name: &str, number: i64, low: i64, high: i64, code: i32) -> Result<i64, QueryError> {
    if (low..=high).contains(&number) {
        return Ok(number);
    }
    Err(query_error!(
        code,
        "'{name}' must evaluate to an integer in the range {low} to {high}, found {number}"
    ))
}

/// Parts may lie this far out of their natural range.
const PART_LIMIT: i64 = 32767;

fn from_parts(mut arguments: Arguments) -> Outcome {
    let year = arguments.take_given("year");
    let week_year = arguments.take_given("isoWeekYear");
    let (name, year, names) = match (year, week_year) {
        (Some(_), Some(_)) => {
            bail!(40489, "$dateFromParts does not allow mixing natural dates with ISO dates")
        }
        (Some(year), None) => ("year", year, ["month", "day"]),
        (None, Some(year)) => ("isoWeekYear", year, ["isoWeek", "isoDayOfWeek"]),
        (None, None) => bail!(40516, "$dateFromParts requires either 'year' or 'isoWeekYear' to be present"),
    };
    let Some(zone) = Zone::of_operand(arguments.take_given("timezone"), "$dateFromParts")? else {
        return Ok(NULL);
    };
    if nullish(&year) {
        return Ok(NULL);
    }
    let Some(year_number) = as_integer(&year) else {
        bail!(
            40515,
            "'{name}' must evaluate to an integer, found {} with value {}",
            type_name(&year),
            brief(&year)
        );
    };
    let year = check_range(name, year_number, 1, 9999, 40523)?;
    let mut numbers = [0; 6];
    let [second_name, third_name] = names;
    let wanted =
        [(second_name, 1), (third_name, 1), ("hour", 0), ("minute", 0), ("second", 0), ("millisecond", 0)];
    for (place, (name, default)) in numbers.iter_mut().zip(wanted) {
        let Some(number) = part(&mut arguments, name, default)? else { return Ok(NULL) };
        // Seconds and milliseconds may be anything that a date can hold.
        *place = if matches!(name, "second" | "millisecond") {
            number
        } else {
            check_range(name, number, -PART_LIMIT - 1, PART_LIMIT, 31034)?
        };
    }
    let local = if name == "year" { natural(year, numbers) } else { iso(year, numbers) };
    let local = local.ok_or_else(out_of_range)?;
    Ok(Some(Value::DateTime(zone.instant(local)?)))
}

fn natural(year: i64, [month, day, clock @ ..]: [i64; 6]) -> Option<DateTime> {
    let first = Date::new(i16::try_from(year).ok()?, 1, 1).ok()?;
    let date = first
        .checked_add(Span::new().try_months(month - 1).ok()?)
        .ok()?
        .checked_add(Span::new().try_days(day - 1).ok()?)
        .ok()?;
    at_clock(date, clock)
}

fn iso(year: i64, [week, day, clock @ ..]: [i64; 6]) -> Option<DateTime> {
    let first = jiff::civil::ISOWeekDate::new(i16::try_from(year).ok()?, 1, jiff::civil::Weekday::Monday)
        .ok()?
        .date();
    let date = first.checked_add(Span::new().try_days((week - 1) * 7 + day - 1).ok()?).ok()?;
    at_clock(date, clock)
}

fn at_clock(date: Date, [hour, minute, second, millisecond]: [i64; 4]) -> Option<DateTime> {
    let midnight = date.to_datetime(jiff::civil::Time::midnight());
    let span = Span::new()
        .try_hours(hour)
        .ok()?
        .try_minutes(minute)
        .ok()?
        .try_seconds(second)
        .ok()?
        .try_milliseconds(millisecond)
        .ok()?;
    midnight.checked_add(span).ok()
}
