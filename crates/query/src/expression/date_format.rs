//! Dates as text: `$dateToString` and `$dateFromString`.

use std::fmt::Write as _;

use document::Value;
use jiff::civil::{Date, DateTime, ISOWeekDate, Time, Weekday};

use crate::error::{QueryError, code};

use super::brief;
use super::call::{Arguments, Implementation};
use super::date::{as_milliseconds, week_of_year};
use super::date_text::parse_date;
use super::date_zone::Zone;
use super::operators::{Arity, Operator, Parameter, Signature};
use super::{NULL, Outcome, nullish, type_name};

static TO_STRING: Signature = Signature {
    parameters: &[
        Parameter::required("date"),
        Parameter::optional("format"),
        Parameter::optional("timezone"),
        Parameter::optional("onNull"),
    ],
    not_an_object: 18629,
    unknown: 18534,
    absent: 18628,
    shorthand: false,
};
static FROM_STRING: Signature = Signature {
    parameters: &[
        Parameter::required("dateString"),
        Parameter::optional("format"),
        Parameter::optional("timezone"),
        Parameter::optional("onError"),
        Parameter::optional("onNull"),
    ],
    not_an_object: 40540,
    unknown: 40541,
    absent: 40542,
    shorthand: false,
};

pub(crate) static OPERATORS: &[Operator] = &[
    Operator::new(
        "$dateToString",
        Arity::Named(&TO_STRING),
        Implementation::Named(to_string),
        "a date as text, by a format of %-specifiers",
    ),
    Operator::new(
        "$dateFromString",
        Arity::Named(&FROM_STRING),
        Implementation::Named(from_string),
        "a date read from text, by a format or as people write dates",
    ),
];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Letters of an abbreviated month's name.
const ABBREVIATED: usize = 3;

fn to_string(mut arguments: Arguments) -> Outcome {
    let date = arguments.take("date");
    let format = arguments.take_given("format");
    let zone_given = arguments.take_given("timezone");
    let utc = zone_given.is_none();
    let Some(zone) = Zone::of_operand(zone_given, "$dateToString")? else { return Ok(NULL) };
    if nullish(&date) {
        return Ok(arguments.take_or("onNull", Value::Null));
    }
    let format = match &format {
        None if utc => "%Y-%m-%dT%H:%M:%S.%LZ",
        None => "%Y-%m-%dT%H:%M:%S.%L",
        Some(Some(Value::String(format))) => format.as_str(),
        Some(value) if nullish(value) => return Ok(NULL),
        Some(other) => {
            return Err(QueryError::new(
                18533,
                format!(
                    "$dateToString requires that 'format' be a string, found: {} with value {}",
                    type_name(other),
                    brief(other)
                ),
            ));
        }
    };
    let milliseconds = as_milliseconds(&date)?;
    let local = zone.local(milliseconds)?;
    if !(0..=9999).contains(&local.year()) {
        return Err(QueryError::new(
            18537,
            format!("$dateToString is only defined on year 0-9999, tried to use year {}", local.year()),
        ));
    }
    write_date(format, local, zone.offset_seconds(milliseconds)?).map(|text| Some(Value::String(text)))
}

fn write_date(format: &str, local: DateTime, offset: i32) -> Result<String, QueryError> {
    let mut text = String::with_capacity(format.len() + 16);
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let specifier =
            letters.next().ok_or_else(|| QueryError::new(18535, "Unmatched '%' at end of format string"))?;
        write_specifier(&mut text, specifier, local, offset)?;
    }
    Ok(text)
}

fn write_specifier(
    text: &mut String,
    specifier: char,
    local: DateTime,
    offset: i32,
) -> Result<(), QueryError> {
    let week = local.date().iso_week_date();
    let month = MONTHS.get((local.month() - 1).unsigned_abs() as usize).copied().unwrap_or_default();
    let written = match specifier {
        '%' => write!(text, "%"),
        'Y' => write!(text, "{:04}", local.year()),
        'm' => write!(text, "{:02}", local.month()),
        'd' => write!(text, "{:02}", local.day()),
        'H' => write!(text, "{:02}", local.hour()),
        'M' => write!(text, "{:02}", local.minute()),
        'S' => write!(text, "{:02}", local.second()),
        'L' => write!(text, "{:03}", local.millisecond()),
        'j' => write!(text, "{:03}", local.day_of_year()),
        'w' => write!(text, "{}", local.weekday().to_sunday_one_offset()),
        'u' => write!(text, "{}", local.weekday().to_monday_one_offset()),
        'U' => write!(text, "{:02}", week_of_year(local)),
        'V' => write!(text, "{:02}", week.week()),
        'G' => write!(text, "{:04}", week.year()),
        'b' => write!(text, "{}", month.get(..ABBREVIATED).unwrap_or(month)),
        'B' => write!(text, "{month}"),
        'z' => {
            let sign = if offset < 0 { '-' } else { '+' };
            write!(text, "{sign}{:02}{:02}", offset.abs() / 3600, offset.abs() / 60 % 60)
        }
        'Z' => write!(text, "{}", offset / 60),
        unknown => {
            return Err(QueryError::new(
                18536,
                format!("Invalid format character '%{unknown}' in format string"),
            ));
        }
    };
    // Writing into a string cannot fail.
    written.map_err(|error| QueryError::new(code::INTERNAL_ERROR, error.to_string()))
}

fn from_string(mut arguments: Arguments) -> Outcome {
    let on_error = arguments.take_given("onError");
    let input = arguments.take("dateString");
    let format = arguments.take_given("format");
    let zone_given = arguments.take_given("timezone");
    let explicit_zone = zone_given.is_some();
    if nullish(&input) {
        return Ok(arguments.take_or("onNull", Value::Null));
    }
    let Some(zone) = Zone::of_operand(zone_given, "$dateFromString")? else { return Ok(NULL) };
    let parsed = match (&input, &format) {
        (_, Some(format)) if nullish(format) => return Ok(NULL),
        (Some(Value::String(text)), None) => parse_date(text, &zone, explicit_zone),
        (Some(Value::String(text)), Some(Some(Value::String(format)))) => {
            parse_with_format(text, format, &zone)
        }
        (Some(Value::String(_)), Some(other)) => {
            return Err(QueryError::new(
                40684,
                format!(
                    "$dateFromString requires that 'format' be a string, found: {} with value {}",
                    type_name(other),
                    brief(other)
                ),
            ));
        }
        _ => Err(unparsable(format!(
            "$dateFromString requires that 'dateString' be a string, found: {} with value {}",
            type_name(&input),
            brief(&input)
        ))),
    };
    match (parsed, on_error) {
        (Ok(milliseconds), _) => Ok(Some(Value::DateTime(milliseconds))),
        (Err(error), Some(instead)) if error.code == code::CONVERSION_FAILURE => Ok(instead),
        (Err(error), _) => Err(error),
    }
}

fn unparsable(message: impl Into<String>) -> QueryError {
    QueryError::new(code::CONVERSION_FAILURE, message)
}

/// What a format has read so far.
#[derive(Default)]
struct Read {
    year: Option<i16>,
    month: Option<i8>,
    day: Option<i8>,
    day_of_year: Option<i16>,
    week_year: Option<i16>,
    week: Option<i8>,
    week_day: Option<i8>,
    hour: i8,
    minute: i8,
    second: i8,
    millisecond: i32,
    zone: Option<Zone>,
}

fn parse_with_format(text: &str, format: &str, zone: &Zone) -> Result<i64, QueryError> {
    let refused = |why: &str| unparsable(format!("Error parsing date string '{text}'; {why}"));
    let mut read = Read::default();
    let mut rest = text;
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        let literal = match letter {
            '%' => match letters.next() {
                None => return Err(QueryError::new(18535, "Unmatched '%' at end of format string")),
                Some('%') => '%',
                Some(specifier) => {
                    rest = read.specifier(specifier, rest)?.ok_or_else(|| {
                        refused(&format!("the text does not match '%{specifier}' of the format"))
                    })?;
                    continue;
                }
            },
            other => other,
        };
        rest = rest.strip_prefix(literal).ok_or_else(|| refused("Format literal not found"))?;
    }
    if !rest.is_empty() {
        return Err(refused("Trailing data"));
    }
    let date = read.date().ok_or_else(|| refused("A valid and complete date is needed"))?;
    let time = Time::new(read.hour, read.minute, read.second, read.millisecond * 1_000_000)
        .map_err(|_| refused("the time of day is out of range"))?;
    read.zone.as_ref().unwrap_or(zone).instant(date.to_datetime(time))
}

/// Splits at most `most` digits off the front.
fn digits(text: &str, most: usize) -> Option<(i32, &str)> {
    let length = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(length)?;
    Some((number.parse().ok()?, rest))
}

impl Read {
    /// Reads one specifier; `Ok(None)` when the text does not match it.
    fn specifier<'a>(&mut self, specifier: char, text: &'a str) -> Result<Option<&'a str>, QueryError> {
        Ok(match specifier {
            'Y' => number(text, 4, &mut self.year),
            'm' => number(text, 2, &mut self.month),
            'd' => number(text, 2, &mut self.day),
            'j' => number(text, 3, &mut self.day_of_year),
            'G' => number(text, 4, &mut self.week_year),
            'V' => number(text, 2, &mut self.week),
            'u' => number(text, 1, &mut self.week_day),
            'H' => plain(text, 2, &mut self.hour),
            'M' => plain(text, 2, &mut self.minute),
            'S' => plain(text, 2, &mut self.second),
            'L' => plain(text, 3, &mut self.millisecond),
            'b' | 'B' => self.month_name(text, specifier == 'b'),
            'z' => {
                let end = text
                    .find(|letter: char| !matches!(letter, '+' | '-' | ':' | '0'..='9'))
                    .unwrap_or(text.len());
                self.zone_text(text, end)
            }
            'Z' => {
                let sign = usize::from(text.starts_with(['+', '-']));
                let sign_value = if text.starts_with('-') { -1 } else { 1 };
                text.get(sign..).and_then(|rest| digits(rest, 4)).and_then(|(minutes, rest)| {
                    let (hours, minutes) = (minutes / 60, minutes % 60);
                    let sign = if sign_value < 0 { '-' } else { '+' };
                    self.zone = Zone::parse(&format!("{sign}{hours:02}{minutes:02}")).ok();
                    self.zone.as_ref().map(|_| rest)
                })
            }
            unknown => {
                return Err(QueryError::new(
                    18536,
                    format!("Invalid format character '%{unknown}' in format string"),
                ));
            }
        })
    }

    fn month_name<'a>(&mut self, text: &'a str, abbreviated: bool) -> Option<&'a str> {
        for (position, name) in MONTHS.iter().enumerate() {
            let name = if abbreviated { name.get(..ABBREVIATED)? } else { name };
            if text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)) {
                self.month = i8::try_from(position + 1).ok();
                return text.get(name.len()..);
            }
        }
        None
    }

    fn zone_text<'a>(&mut self, text: &'a str, end: usize) -> Option<&'a str> {
        let (zone, rest) = match text.strip_prefix('Z') {
            Some(rest) => ("Z", rest),
            None => text.split_at_checked(end)?,
        };
        self.zone = Some(Zone::parse(zone).ok()?);
        Some(rest)
    }

    fn date(&self) -> Option<Date> {
        match (self.year, self.week_year) {
            (Some(year), None) => match self.day_of_year {
                Some(day) => {
                    let first = Date::new(year, 1, 1).ok()?;
                    first.checked_add(jiff::Span::new().days(i64::from(day) - 1)).ok()
                }
                None => Date::new(year, self.month.unwrap_or(1), self.day.unwrap_or(1)).ok(),
            },
            (None, Some(year)) => {
                let day = Weekday::from_monday_one_offset(self.week_day.unwrap_or(1)).ok()?;
                Some(ISOWeekDate::new(year, self.week.unwrap_or(1), day).ok()?.date())
            }
            _ => None,
        }
    }
}

fn number<'a, T: TryFrom<i32>>(text: &'a str, most: usize, place: &mut Option<T>) -> Option<&'a str> {
    let (found, rest) = digits(text, most)?;
    *place = Some(T::try_from(found).ok()?);
    Some(rest)
}

fn plain<'a, T: TryFrom<i32>>(text: &'a str, most: usize, place: &mut T) -> Option<&'a str> {
    let (found, rest) = digits(text, most)?;
    *place = T::try_from(found).ok()?;
    Some(rest)
}
