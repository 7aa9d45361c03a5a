//! The names of months, weekdays and time zones that dates in text may use; any case will do.

use jiff::civil::Weekday;

pub(super) const MONTHS: &[(&str, i32)] = &[
    ("january", 1),
    ("jan", 1),
    ("february", 2),
    ("feb", 2),
    ("march", 3),
    ("mar", 3),
    ("april", 4),
    ("apr", 4),
    ("may", 5),
    ("june", 6),
    ("jun", 6),
    ("july", 7),
    ("jul", 7),
    ("august", 8),
    ("aug", 8),
    ("september", 9),
    ("sept", 9),
    ("sep", 9),
    ("october", 10),
    ("oct", 10),
    ("november", 11),
    ("nov", 11),
    ("december", 12),
    ("dec", 12),
];

pub(super) const WEEKDAYS: &[(&str, Weekday)] = &[
    ("monday", Weekday::Monday),
    ("mon", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("tues", Weekday::Tuesday),
    ("tue", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("wednes", Weekday::Wednesday),
    ("wed", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("thurs", Weekday::Thursday),
    ("thur", Weekday::Thursday),
    ("thu", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("fri", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("satur", Weekday::Saturday),
    ("sat", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
    ("sun", Weekday::Sunday),
];

/// Builds the table of abbreviations: each with its name and its minutes east of Greenwich.
macro_rules! abbreviations {
    ($($name:literal $minutes:expr,)*) => {
        &[$(($name, ($name, $minutes))),*]
    };
}

pub(super) const ABBREVIATIONS: &[(&str, (&str, i32))] = abbreviations![
    "UTC" 0, "GMT" 0, "WET" 0, "WEST" 60, "BST" 60, "CET" 60, "CEST" 120, "EET" 120, "EEST" 180, "SAST" 120,
    "IST" 120, "IDT" 180, "MSK" 180, "MSD" 240, "PKT" 300, "WIB" 420, "HKT" 480, "AWST" 480, "JST" 540,
    "KST" 540, "ACST" 570, "ACDT" 630, "AEST" 600, "AEDT" 660, "NZST" 720, "NZDT" 780, "NST" -210,
    "AST" -240, "ADT" -180, "EST" -300, "EDT" -240, "CST" -360, "CDT" -300, "MST" -420, "MDT" -360,
    "PST" -480, "PDT" -420, "AKST" -540, "AKDT" -480, "HST" -600,
    // The letters of the military.
    "A" 60, "B" 120, "C" 180, "D" 240, "E" 300, "F" 360, "G" 420, "H" 480, "I" 540, "K" 600, "L" 660, "M" 720,
    "N" -60, "O" -120, "P" -180, "Q" -240, "R" -300, "S" -360, "T" -420, "U" -480, "V" -540, "W" -600,
    "X" -660, "Y" -720, "Z" 0,
];
