//! Dates as text: `$dateToString` and `$dateFromString`.

use std::fmt::Write as _;

use document::Value;
use jiff::civil::{Date, DateTime};

use crate::error::{QueryError, code};

use super::brief;
use super::call::Arguments;
use super::date::{as_milliseconds, week_of_year};
use super::date_text::{
    Clock, NamedZone, civil, day_of_week, day_of_year, failure, incomplete, instant, malformed, parse_date,
    zone_at,
};
use super::date_zone::Zone;
use super::operators::{Operator, OperatorParameter, Signature};
use super::{NULL, Outcome, nullish, type_name};

static TO_STRING: Signature = Signature {
    parameters: &[
        OperatorParameter::required("date"),
        OperatorParameter::optional("format"),
        OperatorParameter::optional("timezone"),
        OperatorParameter::optional("onNull"),
    ],
    not_an_object: 18629,
    unknown: 18534,
    absent: 18628,
    shorthand: false,
};
static FROM_STRING: Signature = Signature {
    parameters: &[
        OperatorParameter::required("dateString"),
        OperatorParameter::optional("format"),
        OperatorParameter::optional("timezone"),
        OperatorParameter::optional("onError"),
        OperatorParameter::optional("onNull"),
    ],
    not_an_object: 40540,
    unknown: 40541,
    absent: 40542,
    shorthand: false,
};

pub(crate) static OPERATORS: &[Operator] = &[
    Operator::named("$dateToString", &TO_STRING, to_string, "a date as text, by a format of %-specifiers"),
    Operator::named(
        "$dateFromString",
        &FROM_STRING,
        from_string,
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
        Some(other) => bail!(
            18533,
            "$dateToString requires that 'format' be a string, found: {} with value {}",
            type_name(other),
            brief(other)
        ),
    };
    let milliseconds = as_milliseconds(&date)?;
    let local = zone.local(milliseconds)?;
    if !(0..=9999).contains(&local.year()) {
        bail!(18537, "$dateToString is only defined on year 0-9999, tried to use year {}", local.year());
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
    let month = MONTHS.get((local.month() - 1).unsigned_abs() as usize);
    let month = *month.expect("months are 1 to 12");
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
        unknown => bail!(18536, "Invalid format character '%{unknown}' in format string"),
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
            parse_with_format(text, format, &zone, explicit_zone)
        }
        (Some(Value::String(_)), Some(other)) => bail!(
            40684,
            "$dateFromString requires that 'format' be a string, found: {} with value {}",
            type_name(other),
            brief(other)
        ),
        _ => Err(failure(format!(
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

/// What a format has read so far.
#[derive(Default)]
struct Read {
    year: Option<i32>,
    month: Option<i32>,
    day: Option<i32>,
    day_of_year: Option<i32>,
    week_year: Option<i32>,
    week: Option<i32>,
    week_day: Option<i32>,
    clock: Clock,
    zone: Option<NamedZone>,
}

fn parse_with_format(text: &str, format: &str, zone: &Zone, zone_given: bool) -> Result<i64, QueryError> {
    let mut read = Read::default();
    let mut rest = text;
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        let refused = |reason: &str| {
            let reason = if rest.is_empty() { "Data missing" } else { reason };
            malformed(text, text.len() - rest.len(), reason)
        };
        let literal = match letter {
            '%' => match letters.next() {
                None => bail!(18535, "Unmatched '%' at end of format string"),
                Some('%') => '%',
                Some(specifier) => {
                    rest = read.specifier(specifier, rest)?.ok_or_else(|| refused(not_found(specifier)))?;
                    continue;
                }
            },
            other => other,
        };
        rest = rest.strip_prefix(literal).ok_or_else(|| refused("Format literal not found"))?;
    }
    if !rest.is_empty() {
        return Err(malformed(text, text.len() - rest.len(), "Trailing data"));
    }
    let date = read.date(text)?;
    let time = read.clock.to_time();
    let time = time.ok_or_else(|| malformed(text, text.len(), "The parsed time was invalid"))?;
    instant(date.to_datetime(time), read.zone, zone, zone_given)
}

/// What is said of a text that has not what a specifier wants.
fn not_found(specifier: char) -> &'static str {
    match specifier {
        'Y' => "A four digit year could not be found",
        'm' => "A two digit month could not be found",
        'd' => "A two digit day could not be found",
        'j' => "A three digit day-of-year could not be found",
        'G' => "A four digit ISO year could not be found",
        'V' => "A two digit ISO week could not be found",
        'u' => "A single digit ISO day of the week could not be found",
        'H' => "A two digit hour could not be found",
        'M' => "A two digit minute could not be found",
        'S' => "A two digit second could not be found",
        'L' => "A three digit millisecond could not be found",
        'b' | 'B' => "A textual month could not be found",
        _ => "The timezone could not be found in the database",
    }
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
        let clock = &mut self.clock;
        Ok(match specifier {
            'Y' => number(text, 4, &mut self.year),
            'm' => number(text, 2, &mut self.month),
            'd' => number(text, 2, &mut self.day),
            'j' => number(text, 3, &mut self.day_of_year),
            'G' => number(text, 4, &mut self.week_year),
            'V' => number(text, 2, &mut self.week),
            'u' => number(text, 1, &mut self.week_day),
            'H' => plain(text, 2, &mut clock.hour),
            'M' => plain(text, 2, &mut clock.minute),
            'S' => plain(text, 2, &mut clock.second),
            'L' => plain(text, 3, &mut clock.millisecond).inspect(|rest| {
                // `.5` is half a second.
                (text.len() - rest.len()..3).for_each(|_| clock.millisecond *= 10);
            }),
            'b' | 'B' => self.month_name(text, specifier == 'b'),
            'z' => {
                let (zone, rest) = zone_at(text).unzip();
                self.zone = zone;
                rest
            }
            'Z' => {
                let sign = if text.starts_with('-') { -1 } else { 1 };
                let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
                let (minutes, rest) = digits(unsigned, 4).unzip();
                self.zone = minutes.map(|minutes| NamedZone::of_seconds(sign * minutes * 60));
                rest
            }
            unknown => bail!(18536, "Invalid format character '%{unknown}' in format string"),
        })
    }

    fn month_name<'a>(&mut self, text: &'a str, abbreviated: bool) -> Option<&'a str> {
        for (month, name) in (1..).zip(MONTHS) {
            let name = if abbreviated { name.get(..ABBREVIATED)? } else { name };
            if text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)) {
                self.month = Some(month);
                return text.get(name.len()..);
            }
        }
        None
    }

    fn date(&self, text: &str) -> Result<Date, QueryError> {
        let invalid = || malformed(text, text.len(), "The parsed date was invalid");
        let natural = [self.year, self.month, self.day, self.day_of_year];
        if [self.week_year, self.week, self.week_day].iter().any(Option::is_some) {
            if natural.iter().any(Option::is_some) {
                return Err(malformed(
                    text,
                    text.len(),
                    "Mixing of ISO dates with natural dates is not allowed",
                ));
            }
            let year = self.week_year.ok_or_else(invalid)?;
            return day_of_week(year, self.week.unwrap_or(1), self.week_day.unwrap_or(1)).ok_or_else(invalid);
        }
        match natural {
            [Some(year), _, _, Some(day)] => day_of_year(year, day).ok_or_else(invalid),
            [Some(year), Some(month), Some(day), None] => civil(year, month, day).ok_or_else(invalid),
            _ => Err(incomplete(text)),
        }
    }
}

fn number<'a>(text: &'a str, most: usize, place: &mut Option<i32>) -> Option<&'a str> {
    let (found, rest) = digits(text, most)?;
    *place = Some(found);
    Some(rest)
}

fn plain<'a>(text: &'a str, most: usize, place: &mut i32) -> Option<&'a str> {
    let (found, rest) = digits(text, most)?;
    *place = found;
    Some(rest)
}
