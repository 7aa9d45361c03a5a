//! Dates as people write them, read without a format: ISO 8601 in its many forms, RFC 2822, month names,
//! `7/14/2020`.
//!
//! The text is cut into pieces (a date, a time, a zone, a weekday, …) that may come in any order. Where
//! several forms fit, the longest piece counts, and of equally long ones the form that stands first in
//! [`FORMS`].
//!
//! Source: MongoDB manual, "$dateFromString"; PHP manual, "Supported Date and Time Formats" (MongoDB reads
//! dates with the same library).

use jiff::civil::{Date, DateTime, ISOWeekDate, Time, Weekday};
use jiff::{Span, ToSpan};

use crate::error::{QueryError, code};

use super::date_names::{ABBREVIATIONS, MONTHS, WEEKDAYS};
use super::date_zone::{Zone, clock_milliseconds};

/// Reads a date; `zone_given` when the zone comes from the client, beside which the text must not name
/// another one.
///
/// # Errors
/// `ConversionFailure` in MongoDB's words.
pub(crate) fn parse_date(text: &str, zone: &Zone, zone_given: bool) -> Result<i64, QueryError> {
    let parsed = scan(text)?;
    if let Some(seconds) = parsed.instant {
        return Ok(seconds.saturating_mul(1000));
    }
    instant(parsed.local(text)?, parsed.zone, zone, zone_given)
}

/// The moment of a local date: in the zone that its text names, else in the client's.
///
/// # Errors
/// Both are given.
pub(super) fn instant(
    local: DateTime,
    named: Option<NamedZone>,
    zone: &Zone,
    zone_given: bool,
) -> Result<i64, QueryError> {
    let Some(named) = named else { return zone.instant(local) };
    if zone_given && !zone.is_utc() {
        return Err(failure(match named.name {
            None => "you cannot pass in a date/time string with GMT offset together with a timezone argument"
                .to_owned(),
            Some(name) => format!(
                "you cannot pass in a date/time string with time zone information ('{name}') together with \
                a timezone argument"
            ),
        }));
    }
    Ok(clock_milliseconds(local)? - i64::from(named.seconds) * 1000)
}

pub(super) fn failure(message: String) -> QueryError {
    QueryError::new(code::CONVERSION_FAILURE, message)
}

pub(super) fn malformed(text: &str, position: usize, reason: &str) -> QueryError {
    let character = text.get(position..).and_then(|rest| rest.chars().next()).unwrap_or('\0');
    failure(format!("Error parsing date string '{text}'; {position}: {reason} '{character}'"))
}

pub(super) fn incomplete(text: &str) -> QueryError {
    failure(format!("an incomplete date/time string has been found, with elements missing: \"{text}\""))
}

/// What was read so far.
#[derive(Default)]
struct ParsedDate {
    year: Option<i32>,
    month: Option<i32>,
    day: Option<i32>,
    has_date: bool,
    time: Option<Clock>,
    zone: Option<NamedZone>,
    /// A weekday moves the date forward to the next such day.
    weekday: Option<Weekday>,
    /// Days to go forward.
    days: i32,
    /// Seconds since 1970.
    instant: Option<i64>,
}

/// A time of day as it was read.
#[derive(Clone, Copy, Default)]
pub(super) struct Clock {
    pub(super) hour: i32,
    pub(super) minute: i32,
    pub(super) second: i32,
    pub(super) millisecond: i32,
}

/// The zone that a text names.
#[derive(Clone, Copy)]
pub(super) struct NamedZone {
    /// East of Greenwich.
    seconds: i32,
    /// Absent for an offset in digits.
    name: Option<&'static str>,
}

/// One piece of the text.
#[derive(Clone, Copy)]
enum Piece {
    Date {
        year: Option<i32>,
        month: i32,
        day: Option<i32>,
    },
    /// A day of a week or of a year, as the date it is.
    Day(Date),
    Time(Clock),
    DateAndTime {
        year: Option<i32>,
        month: i32,
        day: i32,
        clock: Clock,
    },
    /// Four digits: a time of day, or a year when there is a time already.
    FourDigits(i32),
    Zone(NamedZone),
    Weekday(Weekday),
    /// `tomorrow` and its kin: so many days from the date, at its beginning.
    Relative(i32),
    Now,
    Instant(i64),
}

fn scan(text: &str) -> Result<ParsedDate, QueryError> {
    let bytes = text.as_bytes();
    if text.trim().is_empty() {
        return Err(malformed(text, 0, "Empty string"));
    }
    let mut parsed = ParsedDate::default();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if matches!(byte, b' ' | b'\t' | b'\n' | b',' | b'.' | b';') {
            at += 1;
            continue;
        }
        let start = Reader { bytes, at };
        let mut longest: Option<(usize, Piece)> = None;
        for form in FORMS {
            let mut reader = start;
            if let Some(piece) = form(&mut reader)
                && longest.is_none_or(|(end, _)| reader.at > end)
            {
                longest = Some((reader.at, piece));
            }
        }
        let Some((end, piece)) = longest else {
            let reason = if byte.is_ascii_alphabetic() {
                "passing a time zone identifier as part of the string is not allowed"
            } else {
                "Unexpected character"
            };
            return Err(malformed(text, at, reason));
        };
        parsed.take(piece).map_err(|reason| malformed(text, at, reason))?;
        at = end;
    }
    Ok(parsed)
}

impl ParsedDate {
    fn take(&mut self, piece: Piece) -> Result<(), &'static str> {
        match piece {
            Piece::Date { year, month, day } => self.take_date(year, Some(month), day),
            Piece::Day(date) => {
                self.take_date(Some(date.year().into()), Some(date.month().into()), Some(date.day().into()))
            }
            Piece::Time(clock) => self.take_time(clock),
            Piece::DateAndTime { year, month, day, clock } => {
                self.take_date(year, Some(month), Some(day))?;
                self.take_time(clock)
            }
            Piece::FourDigits(number) if self.time.is_none() && number % 100 < 60 && number < 2400 => {
                let (hour, minute) = (number / 100, number % 100);
                self.take_time(Clock { hour, minute, ..Clock::default() })
            }
            Piece::FourDigits(year) => {
                self.year = Some(year);
                Ok(())
            }
            Piece::Zone(zone) => match self.zone.replace(zone) {
                Some(_) => Err("Double timezone specification"),
                None => Ok(()),
            },
            Piece::Weekday(weekday) => {
                self.weekday = Some(weekday);
                Ok(())
            }
            Piece::Relative(days) => {
                self.days += days;
                self.time = Some(Clock::default());
                Ok(())
            }
            Piece::Now => Ok(()),
            Piece::Instant(seconds) => match self.instant.replace(seconds) {
                None if !self.has_date && self.time.is_none() => Ok(()),
                _ => Err("Double date specification"),
            },
        }
    }

    fn take_date(
        &mut self,
        year: Option<i32>,
        month: Option<i32>,
        day: Option<i32>,
    ) -> Result<(), &'static str> {
        if std::mem::replace(&mut self.has_date, true) {
            return Err("Double date specification");
        }
        self.year = year.or(self.year);
        (self.month, self.day) = (month, day);
        Ok(())
    }

    fn take_time(&mut self, clock: Clock) -> Result<(), &'static str> {
        match self.time.replace(clock) {
            Some(_) => Err("Double time specification"),
            None => Ok(()),
        }
    }

    fn local(&self, text: &str) -> Result<DateTime, QueryError> {
        let (Some(year), Some(month), Some(day)) = (self.year, self.month, self.day) else {
            return Err(incomplete(text));
        };
        let end = text.len() + 1;
        let date =
            civil(year, month, day).ok_or_else(|| malformed(text, end, "The parsed date was invalid"))?;
        let clock = self.time.unwrap_or_default();
        let time = clock.to_time().ok_or_else(|| malformed(text, end, "The parsed time was invalid"))?;
        let wait = self.weekday.map_or(0, |weekday| weekday.since(date.weekday()));
        let moved = date.checked_add((self.days + i32::from(wait)).days());
        let moved = moved.map_err(|_| malformed(text, end, "The parsed date was invalid"))?;
        Ok(moved.to_datetime(time))
    }
}

impl Clock {
    /// The time, when it is one.
    pub(super) fn to_time(self) -> Option<Time> {
        let small = |number: i32| i8::try_from(number).ok();
        Time::new(
            small(self.hour)?,
            small(self.minute)?,
            small(self.second).filter(|second| *second < 60)?,
            self.millisecond * 1_000_000,
        )
        .ok()
    }
}

impl NamedZone {
    /// An offset in digits.
    pub(super) fn of_seconds(seconds: i32) -> Self {
        Self { seconds, name: None }
    }
}

/// Splits a zone off the front: `Z`, ` EST`, `+02:00`, ` GMT+5`.
pub(super) fn zone_at(text: &str) -> Option<(NamedZone, &str)> {
    let mut start = Reader { bytes: text.as_bytes(), at: 0 };
    start.some_of(b" ");
    [offset as Form, abbreviation].iter().find_map(|form| {
        let mut reader = start;
        match form(&mut reader)? {
            Piece::Zone(zone) => Some((zone, text.get(reader.at..)?)),
            _ => None,
        }
    })
}

/// A day of an ISO week; weeks and days beyond the year's count on.
pub(super) fn day_of_week(year: i32, week: i32, day: i32) -> Option<Date> {
    let first = ISOWeekDate::new(i16::try_from(year).ok()?, 1, Weekday::Monday).ok()?.date();
    first.checked_add(Span::new().days((week - 1) * 7 + day - 1)).ok()
}

/// A day of a year, from 1.
pub(super) fn day_of_year(year: i32, day: i32) -> Option<Date> {
    civil(year, 1, 1)?.checked_add(Span::new().days(day - 1)).ok()
}

pub(super) fn civil(year: i32, month: i32, day: i32) -> Option<Date> {
    Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

/// A place in the text. Methods that read go on only when what they look for is there, except for the parts
/// of a form read before.
#[derive(Clone, Copy)]
struct Reader<'t> {
    bytes: &'t [u8],
    at: usize,
}

type Form = for<'t> fn(&mut Reader<'t>) -> Option<Piece>;

/// Every form; of pieces of the same length the first one's counts.
const FORMS: &[Form] = &[
    time_of_day,
    twelve_hour_time,
    month_day_and_time,
    four_digits,
    compact_time,
    american_date,
    slashed_date,
    iso_date,
    iso_month,
    compact_date,
    compact_date_and_time,
    day_first_date,
    day_month_name_year,
    month_name_day_year,
    month_name_year,
    year_month_name,
    month_name_day,
    day_month_name,
    month_name_only,
    week_date,
    ordinal_date,
    weekday,
    word,
    seconds_since_1970,
    offset,
    abbreviation,
];

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn one_of(&mut self, wanted: &[u8]) -> Option<u8> {
        let byte = self.peek().filter(|byte| wanted.contains(byte))?;
        self.at += 1;
        Some(byte)
    }

    /// Any number of these.
    fn some_of(&mut self, wanted: &[u8]) -> usize {
        let start = self.at;
        while self.one_of(wanted).is_some() {}
        self.at - start
    }

    fn digit(&mut self) -> Option<i32> {
        let byte = self.peek().filter(u8::is_ascii_digit)?;
        self.at += 1;
        Some(i32::from(byte - b'0'))
    }

    /// Exactly so many digits.
    fn digits(&mut self, count: usize) -> Option<i32> {
        (0..count).try_fold(0, |number, _| Some(number * 10 + self.digit()?))
    }

    /// Two digits up to `most`.
    fn pair(&mut self, most: i32) -> Option<i32> {
        self.digits(2).filter(|number| *number <= most)
    }

    /// Two digits up to `most`, or one.
    fn small(&mut self, most: i32) -> Option<i32> {
        let mut pair = *self;
        match pair.pair(most) {
            Some(number) => {
                *self = pair;
                Some(number)
            }
            None => self.digit(),
        }
    }

    /// One to four digits; two stand for a year from 1970 to 2069.
    fn year(&mut self) -> Option<i32> {
        let (mut year, mut count) = (self.digit()?, 1);
        while count < 4
            && let Some(digit) = self.digit()
        {
            year = year * 10 + digit;
            count += 1;
        }
        Some(match year {
            0..70 if count < 4 => year + 2000,
            70..100 if count < 4 => year + 1900,
            year => year,
        })
    }

    /// The longest of these words that stands here, in any case.
    fn word<T: Copy>(&mut self, words: &[(&str, T)]) -> Option<T> {
        let rest = self.bytes.get(self.at..)?;
        let fits = |word: &str| {
            rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
        };
        let (word, value) = words.iter().filter(|(word, _)| fits(word)).max_by_key(|(word, _)| word.len())?;
        self.at += word.len();
        Some(*value)
    }

    fn month_name(&mut self) -> Option<i32> {
        self.word(MONTHS)
    }

    /// A day of the month, with or without `st`, `nd`, `rd`, `th`.
    fn day(&mut self) -> Option<i32> {
        let day = self.small(31)?;
        self.word(&[("st", ()), ("nd", ()), ("rd", ()), ("th", ())]);
        Some(day)
    }
}

/// `10:20`, `10:20:30`, `10:20:30.5`, with or without a `T` in front.
fn time_of_day(reader: &mut Reader<'_>) -> Option<Piece> {
    reader.one_of(b"Tt");
    let hour = reader.small(24)?;
    reader.one_of(b":.")?;
    let mut clock = Clock { hour, minute: reader.small(59)?, ..Clock::default() };
    let mut further = *reader;
    if further.one_of(b":.").is_some()
        && let Some(second) = further.small(60)
    {
        clock.second = second;
        *reader = further;
        if further.one_of(b".,:").is_some()
            && let Some(first) = further.digit()
        {
            clock.millisecond = first * 100;
            for weight in [10, 1] {
                clock.millisecond += further.digit().map_or(0, |digit| digit * weight);
            }
            while further.digit().is_some() {}
            *reader = further;
        }
    }
    Some(Piece::Time(clock))
}

/// `10pm`, `10:20 p.m.`, `10:20:30 AM`.
fn twelve_hour_time(reader: &mut Reader<'_>) -> Option<Piece> {
    let hour = reader.small(12).filter(|hour| *hour > 0)?;
    let mut clock = Clock::default();
    for part in [&mut clock.minute, &mut clock.second] {
        if reader.one_of(b":.").is_none() {
            break;
        }
        *part = reader.pair(59)?;
    }
    reader.some_of(b" \t");
    let afternoon = reader.one_of(b"aApP")?.eq_ignore_ascii_case(&b'p');
    reader.one_of(b".");
    reader.one_of(b"mM")?;
    reader.one_of(b".");
    if reader.peek().is_some_and(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    clock.hour = hour % 12 + if afternoon { 12 } else { 0 };
    Some(Piece::Time(clock))
}

/// `Jan 1 10:20:30`: the year follows.
fn month_day_and_time(reader: &mut Reader<'_>) -> Option<Piece> {
    let month = reader.month_name()?;
    reader.some_of(SEPARATORS);
    let day = reader.day()?;
    reader.some_of(b" \t,.");
    let mut other = *reader;
    match (twelve_hour_time(&mut other), time_of_day(reader)) {
        (Some(Piece::Time(clock)), _) => {
            *reader = other;
            Some(Piece::DateAndTime { year: None, month, day, clock })
        }
        (None, Some(Piece::Time(clock))) => Some(Piece::DateAndTime { year: None, month, day, clock }),
        _ => None,
    }
}

fn four_digits(reader: &mut Reader<'_>) -> Option<Piece> {
    let has_sign = reader.one_of(b"Tt").is_some();
    let number = reader.digits(4)?;
    if has_sign {
        let (hour, minute) = (number / 100, number % 100);
        return (hour <= 24 && minute < 60).then_some(Piece::Time(Clock {
            hour,
            minute,
            ..Clock::default()
        }));
    }
    Some(Piece::FourDigits(number))
}

/// `T102030`.
fn compact_time(reader: &mut Reader<'_>) -> Option<Piece> {
    reader.one_of(b"Tt")?;
    let (hour, minute, second) = (reader.pair(24)?, reader.pair(59)?, reader.pair(60)?);
    Some(Piece::Time(Clock { hour, minute, second, millisecond: 0 }))
}

/// `7/14/2020`, `7/14`.
fn american_date(reader: &mut Reader<'_>) -> Option<Piece> {
    let month = reader.small(12)?;
    reader.one_of(b"/")?;
    let day = reader.day()?;
    let mut further = *reader;
    let year = further.one_of(b"/").and_then(|_| further.year());
    if year.is_some() {
        *reader = further;
    }
    Some(Piece::Date { year, month, day: Some(day) })
}

/// `2020/07/14`.
fn slashed_date(reader: &mut Reader<'_>) -> Option<Piece> {
    let year = reader.digits(4)?;
    reader.one_of(b"/")?;
    let month = reader.pair(12)?;
    reader.one_of(b"/")?;
    let day = reader.pair(31)?;
    reader.one_of(b"/");
    Some(Piece::Date { year: Some(year), month, day: Some(day) })
}

/// `2020-07-14`, `20-7-14`.
fn iso_date(reader: &mut Reader<'_>) -> Option<Piece> {
    let sign = reader.one_of(b"+-");
    let year = if sign.is_some() { reader.digits(4)? } else { reader.year()? };
    reader.one_of(b"-")?;
    let month = reader.small(12)?;
    reader.one_of(b"-")?;
    let day = reader.small(31)?;
    let year = if sign == Some(b'-') { -year } else { year };
    Some(Piece::Date { year: Some(year), month, day: Some(day) })
}

/// `2020-07`: its first day.
fn iso_month(reader: &mut Reader<'_>) -> Option<Piece> {
    let year = reader.digits(4)?;
    reader.one_of(b"-")?;
    Some(Piece::Date { year: Some(year), month: reader.small(12)?, day: Some(1) })
}

/// `20200714`.
fn compact_date(reader: &mut Reader<'_>) -> Option<Piece> {
    let (year, month, day) = (reader.digits(4)?, reader.pair(12)?, reader.pair(31)?);
    Some(Piece::Date { year: Some(year), month, day: Some(day) })
}

/// `20200714102030`.
fn compact_date_and_time(reader: &mut Reader<'_>) -> Option<Piece> {
    let (year, month, day) = (Some(reader.digits(4)?), reader.pair(12)?, reader.pair(31)?);
    let (hour, minute, second) = (reader.pair(24)?, reader.pair(59)?, reader.pair(60)?);
    Some(Piece::DateAndTime { year, month, day, clock: Clock { hour, minute, second, millisecond: 0 } })
}

/// `14-07-2020`, `14.07.2020`, `14.07.20`.
fn day_first_date(reader: &mut Reader<'_>) -> Option<Piece> {
    let day = reader.small(31)?;
    let separator = reader.one_of(b".-\t")?;
    let month = reader.small(12)?;
    let second = reader.one_of(b".-")?;
    let mut long = *reader;
    let year = match long.digits(4) {
        Some(year) => {
            *reader = long;
            year
        }
        None if separator != b'-' && second == b'.' => {
            let year = reader.digits(2)?;
            year + if year < 70 { 2000 } else { 1900 }
        }
        None => return None,
    };
    Some(Piece::Date { year: Some(year), month, day: Some(day) })
}

/// What may stand between the parts of a date with the month's name.
const SEPARATORS: &[u8] = b" \t.-";

/// `14 July 2020`, `14-Jul-2020`, `14th July, 2020` without the comma.
fn day_month_name_year(reader: &mut Reader<'_>) -> Option<Piece> {
    let day = reader.day()?;
    reader.some_of(SEPARATORS);
    let month = reader.month_name()?;
    reader.some_of(SEPARATORS);
    Some(Piece::Date { year: Some(reader.year()?), month, day: Some(day) })
}

/// `July 14 2020`, `July 4th, 2017`.
fn month_name_day_year(reader: &mut Reader<'_>) -> Option<Piece> {
    let month = reader.month_name()?;
    reader.some_of(SEPARATORS);
    let day = reader.day()?;
    if reader.some_of(b" \t,.-") == 0 {
        return None;
    }
    Some(Piece::Date { year: Some(reader.year()?), month, day: Some(day) })
}

/// `July 2020`: its first day.
fn month_name_year(reader: &mut Reader<'_>) -> Option<Piece> {
    let month = reader.month_name()?;
    reader.some_of(SEPARATORS);
    Some(Piece::Date { year: Some(reader.digits(4)?), month, day: Some(1) })
}

/// `2020 July`, and `2020-Jul-14`.
fn year_month_name(reader: &mut Reader<'_>) -> Option<Piece> {
    let year = reader.digits(4)?;
    reader.some_of(SEPARATORS);
    let month = reader.month_name()?;
    let mut further = *reader;
    if further.one_of(b"-").is_some()
        && let Some(day) = further.pair(31)
    {
        *reader = further;
        return Some(Piece::Date { year: Some(year), month, day: Some(day) });
    }
    Some(Piece::Date { year: Some(year), month, day: Some(1) })
}

/// `July 14`: a year may follow elsewhere.
fn month_name_day(reader: &mut Reader<'_>) -> Option<Piece> {
    let month = reader.month_name()?;
    reader.some_of(SEPARATORS);
    Some(Piece::Date { year: None, month, day: Some(reader.day()?) })
}

/// `14 July`.
fn day_month_name(reader: &mut Reader<'_>) -> Option<Piece> {
    let day = reader.day()?;
    reader.some_of(SEPARATORS);
    Some(Piece::Date { year: None, month: reader.month_name()?, day: Some(day) })
}

fn month_name_only(reader: &mut Reader<'_>) -> Option<Piece> {
    Some(Piece::Date { year: None, month: reader.month_name()?, day: None })
}

/// `2020-W29-2`, `2020W29`: Monday unless a day is named.
fn week_date(reader: &mut Reader<'_>) -> Option<Piece> {
    let year = reader.digits(4)?;
    reader.one_of(b"-");
    reader.one_of(b"Ww")?;
    let week = reader.pair(53).filter(|week| *week > 0)?;
    let mut further = *reader;
    further.one_of(b"-");
    let mut day = 1;
    if let Some(given) = further.digit().filter(|day| *day <= 7) {
        (day, *reader) = (given, further);
    }
    day_of_week(year, week, day).map(Piece::Day)
}

/// `2020-196`, `2020.196`, `2020196`: a day of the year.
fn ordinal_date(reader: &mut Reader<'_>) -> Option<Piece> {
    let year = reader.digits(4)?;
    reader.one_of(b".-");
    let day = reader.digits(3).filter(|day| (1..=366).contains(day))?;
    if reader.peek().is_some_and(|byte| byte.is_ascii_digit()) {
        return None;
    }
    day_of_year(year, day).map(Piece::Day)
}

fn weekday(reader: &mut Reader<'_>) -> Option<Piece> {
    let found = reader.word(WEEKDAYS)?;
    ends_word(reader)?;
    Some(Piece::Weekday(found))
}

fn word(reader: &mut Reader<'_>) -> Option<Piece> {
    let noon = Clock { hour: 12, ..Clock::default() };
    let piece = reader.word(&[
        ("now", Piece::Now),
        ("noon", Piece::Time(noon)),
        ("midnight", Piece::Relative(0)),
        ("today", Piece::Relative(0)),
        ("tomorrow", Piece::Relative(1)),
        ("yesterday", Piece::Relative(-1)),
    ])?;
    ends_word(reader)?;
    Some(piece)
}

fn ends_word(reader: &Reader<'_>) -> Option<()> {
    reader.peek().is_none_or(|byte| !byte.is_ascii_alphabetic()).then_some(())
}

/// `@1594721400`: seconds since 1970.
fn seconds_since_1970(reader: &mut Reader<'_>) -> Option<Piece> {
    /// Digits of the most seconds that a date can hold.
    const DIGITS_MAX: usize = 15;
    reader.one_of(b"@")?;
    let sign = if reader.one_of(b"-").is_some() { -1 } else { 1 };
    let start = reader.at;
    let mut seconds: i64 = 0;
    while let Some(digit) = reader.digit() {
        if reader.at - start > DIGITS_MAX {
            return None;
        }
        seconds = seconds * 10 + i64::from(digit);
    }
    (reader.at > start).then_some(Piece::Instant(sign * seconds))
}

/// `+02`, `-0330`, `GMT+5:30`.
fn offset(reader: &mut Reader<'_>) -> Option<Piece> {
    reader.word(&[("GMT", ())]);
    let sign = if reader.one_of(b"+-")? == b'-' { -1 } else { 1 };
    let hours = reader.small(24)?;
    let mut further = *reader;
    further.one_of(b":");
    let mut minutes = 0;
    if let Some(given) = further.small(59) {
        (minutes, *reader) = (given, further);
    }
    Some(Piece::Zone(NamedZone { seconds: sign * (hours * 3600 + minutes * 60), name: None }))
}

/// `EST`, `z`, `(UTC)`.
fn abbreviation(reader: &mut Reader<'_>) -> Option<Piece> {
    reader.one_of(b"(");
    let (name, minutes) = reader.word(ABBREVIATIONS)?;
    ends_word(reader)?;
    reader.one_of(b")");
    if reader.peek() == Some(b'/') {
        return None;
    }
    Some(Piece::Zone(NamedZone { seconds: minutes * 60, name: Some(name) }))
}

#[cfg(test)]
mod tests;
