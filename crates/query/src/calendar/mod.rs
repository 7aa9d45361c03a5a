//! Windows in which background work may be done: days of the week, times of day in some time zone, a rate.
//!
//! ```text
//!  { days: ["sat", "sun"], start: "22:00", stop: "06:00", timezone: "Europe/Berlin", bytesPerSecond: 500 }
//!
//!  clock in Berlin   …│sat 22:00 ▓▓▓▓ sun 06:00│…│sun 22:00 ▓▓▓▓ mon 06:00│…
//! ```
//! A window is what the clock on the wall shows: it is open whenever that clock, in its time zone, shows a
//! time from `start` on and before `stop`. Where `stop` is not later than `start` it goes on behind
//! midnight, and belongs to the day on which it opens. So an hour that a change of the clocks leaves out is
//! not there, for a window that lies within it neither, and one that comes twice is there twice.
//!
//! Time is an argument everywhere: milliseconds since 1970, UTC.

mod parse;
#[cfg(test)]
mod tests;
mod walk;

use crate::expression::Zone;
use document::{Document, Value};

/// Minutes of a day.
const DAY_MINUTES: u32 = 24 * 60;
const MS_PER_MINUTE: i64 = 60_000;
const MS_PER_DAY: i64 = DAY_MINUTES as i64 * MS_PER_MINUTE;

/// The days as they are written, in the order of a week that begins on a Monday.
const DAY_NAMES: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
/// As many letters of them are enough.
const SHORT_DAY: usize = 3;

/// How fast work may be done; without a limit as fast as its I/O budget allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkRate {
    /// Documents a second.
    pub documents_per_second: Option<u64>,
    /// Bytes of documents a second.
    pub bytes_per_second: Option<u64>,
}

/// Some days of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DaySet(u8);

/// One window.
#[derive(Debug, Clone, PartialEq)]
struct WorkWindow {
    /// On which it opens.
    days: DaySet,
    /// Minutes since midnight.
    start: u32,
    /// The first minute that is not in it; not later than `start` when it goes on behind midnight.
    stop: u32,
    zone: Zone,
    /// As it was given.
    timezone: String,
    rate: WorkRate,
}

/// Windows in which work of some kind may be done: whenever one of them is open.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkCalendar {
    /// At least one.
    windows: Vec<WorkWindow>,
}

/// What a calendar says at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowState {
    /// The rate, while some window is open. Of several that are open the fastest counts.
    pub open: Option<WorkRate>,
    /// When it closes, or opens; `None` where it never does.
    pub until_ms: Option<i64>,
}

/// A time during which work may be done, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenSpan {
    /// Its beginning.
    pub from_ms: i64,
    /// Its end, not in it any more.
    pub to_ms: i64,
}

impl WorkRate {
    /// The rate of two windows that are open at once.
    fn or(self, other: WorkRate) -> WorkRate {
        let faster = |one: Option<u64>, two: Option<u64>| Some(one?.max(two?));
        WorkRate {
            documents_per_second: faster(self.documents_per_second, other.documents_per_second),
            bytes_per_second: faster(self.bytes_per_second, other.bytes_per_second),
        }
    }

    /// How long so much work takes at this rate, in microseconds.
    pub fn micros_for(self, documents: u64, bytes: u64) -> u64 {
        const MICROS: u128 = 1_000_000;
        let time = |amount: u64, rate: Option<u64>| {
            let micros = rate.map_or(0, |rate| u128::from(amount) * MICROS / u128::from(rate.max(1)));
            u64::try_from(micros).unwrap_or(u64::MAX)
        };
        time(documents, self.documents_per_second).max(time(bytes, self.bytes_per_second))
    }

    fn is_limited(self) -> bool {
        self != WorkRate::default()
    }

    fn push_to(self, document: &mut Document) {
        let limits =
            [("documentsPerSecond", self.documents_per_second), ("bytesPerSecond", self.bytes_per_second)];
        for (name, limit) in limits {
            if let Some(limit) = limit {
                document.push(name, i64::try_from(limit).unwrap_or(i64::MAX));
            }
        }
    }

    /// The limits by their names; `None` where there are none.
    pub fn to_document(self) -> Option<Document> {
        let mut document = Document::new();
        self.push_to(&mut document);
        self.is_limited().then_some(document)
    }
}

impl DaySet {
    const ALL: DaySet = DaySet(0x7f);

    fn with(self, day: usize) -> DaySet {
        DaySet(self.0 | 1 << day)
    }

    /// Of a day counted from the first of January 1970, which was a Thursday.
    fn has(self, day: i64) -> bool {
        const THURSDAY: i64 = 3;
        self.0 >> (day + THURSDAY).rem_euclid(7) & 1 == 1
    }

    fn names(self) -> Vec<Value> {
        let days = DAY_NAMES.iter().enumerate().filter(|(day, _)| self.0 >> day & 1 == 1);
        days.map(|(_, name)| Value::from(name.get(..SHORT_DAY).unwrap_or(name))).collect()
    }
}

impl WorkWindow {
    fn to_document(&self) -> Document {
        let mut document = Document::new();
        if self.days != DaySet::ALL {
            document.push("days", self.days.names());
        }
        if !self.is_whole_day() {
            for (name, minutes) in [("start", self.start), ("stop", self.stop)] {
                document.push(name, format!("{:02}:{:02}", minutes / 60, minutes % 60));
            }
        }
        document.push("timezone", self.timezone.as_str());
        self.rate.push_to(&mut document);
        document
    }

    const fn is_whole_day(&self) -> bool {
        self.start == 0 && self.stop == DAY_MINUTES
    }
}

impl WorkCalendar {
    /// As it is stored and shown: one window, or an array of several.
    pub fn to_value(&self) -> Value {
        match self.windows.as_slice() {
            [window] => Value::Document(window.to_document()),
            windows => {
                let windows = windows.iter().map(|window| Value::Document(window.to_document()));
                Value::from(windows.collect::<Vec<_>>())
            }
        }
    }

    /// The time zone of its first window, in which a person reads it.
    pub fn timezone(&self) -> &str {
        self.windows.first().map_or("UTC", |window| &window.timezone)
    }
}
