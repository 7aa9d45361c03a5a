use super::*;
use document::{RawValue, doc, doc_buf};
use jiff::civil::{DateTime, Weekday};
use jiff::tz::TimeZone;
use proptest::prelude::*;
use std::collections::HashSet;

fn calendar(window: &Document) -> WorkCalendar {
    parse(window).unwrap_or_else(|error| panic!("{window:?}: {error:?}")).expect("it has a window")
}

fn parse(window: &Document) -> Result<Option<WorkCalendar>, (i32, String)> {
    let window = window.to_buf();
    WorkCalendar::parse(RawValue::Document(window.as_raw()), "window")
        .map_err(|error| (error.code, error.message))
}

/// A moment by the clock of a time zone.
fn at(zone: &str, local: &str) -> i64 {
    let local: DateTime = local.parse().expect("a local time");
    let zone = TimeZone::get(zone).expect("a time zone");
    local.to_zoned(zone).expect("in range").timestamp().as_millisecond()
}

fn utc(moment_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(moment_ms).expect("in range").to_string()
}

/// When it is open between two moments of UTC, as text.
#[track_caller]
fn check(window: Document, (from, to): (&str, &str), expect: &[(&str, &str)]) {
    let ms = |text: &str| text.parse::<jiff::Timestamp>().expect("a timestamp").as_millisecond();
    let found = calendar(&window).spans(ms(from), ms(to));
    let found: Vec<_> = found.iter().map(|span| (utc(span.from_ms), utc(span.to_ms))).collect();
    let found: Vec<_> = found.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
    assert_eq!(found, expect, "{window:?}");
}

#[test]
fn a_window_within_a_day_and_one_over_midnight() {
    let week = ("2026-03-02T00:00:00Z", "2026-03-04T00:00:00Z");
    check(
        doc! { "start": "9:30", "stop": "17:00" },
        week,
        &[("2026-03-02T09:30:00Z", "2026-03-02T17:00:00Z"), ("2026-03-03T09:30:00Z", "2026-03-03T17:00:00Z")],
    );
    // It belongs to the day on which it opens: that of Sunday is not there on Monday morning.
    check(
        doc! { "days": ["Mon"], "start": "22:00", "stop": "06:00" },
        week,
        &[("2026-03-02T22:00:00Z", "2026-03-03T06:00:00Z")],
    );
    check(
        doc! { "days": ["sunday"], "start": "22:00", "stop": "06:00" },
        week,
        &[("2026-03-02T00:00:00Z", "2026-03-02T06:00:00Z")],
    );
    for until_midnight in ["00:00", "24:00"] {
        check(
            doc! { "days": ["mon"], "start": "20:00", "stop": until_midnight },
            week,
            &[("2026-03-02T20:00:00Z", "2026-03-03T00:00:00Z")],
        );
    }
}

#[test]
fn whole_days_and_always() {
    // From Friday to Wednesday.
    let days = ("2026-03-06T12:00:00Z", "2026-03-11T12:00:00Z");
    check(doc! { "days": ["sat", "sun"] }, days, &[("2026-03-07T00:00:00Z", "2026-03-09T00:00:00Z")]);
    check(doc! {}, days, &[(days.0, days.1)]);
    check(doc! { "start": "00:00", "stop": "24:00" }, days, &[(days.0, days.1)]);
    let state = calendar(&doc! { "documentsPerSecond": 7 }).state_at(0);
    let rate = WorkRate { documents_per_second: Some(7), bytes_per_second: None };
    assert_eq!(state, WindowState { open: Some(rate), until_ms: None }, "it never closes");
}

#[test]
fn a_leap_day_is_a_day_of_the_week() {
    // The 29th of February 2028 is a Tuesday; 2100 has none.
    check(
        doc! { "days": ["tue"] },
        ("2028-02-28T00:00:00Z", "2028-03-03T00:00:00Z"),
        &[("2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z")],
    );
    check(
        doc! { "days": ["mon"], "start": "23:00", "stop": "01:00" },
        ("2028-02-28T12:00:00Z", "2028-03-01T00:00:00Z"),
        &[("2028-02-28T23:00:00Z", "2028-02-29T01:00:00Z")],
    );
    check(
        doc! { "days": ["sun"], "start": "23:00", "stop": "01:00" },
        ("2100-02-28T00:00:00Z", "2100-03-02T00:00:00Z"),
        &[("2100-02-28T23:00:00Z", "2100-03-01T01:00:00Z")],
    );
}

#[test]
fn an_hour_that_is_left_out_is_not_there() {
    // Berlin goes from 02:00 (+01) to 03:00 (+02) on the 29th of March 2026.
    let night = ("2026-03-28T22:00:00Z", "2026-03-29T22:00:00Z");
    let berlin = |start: &str, stop: &str| doc! { "start": start, "stop": stop, "timezone": "Europe/Berlin" };
    check(berlin("01:00", "04:00"), night, &[("2026-03-29T00:00:00Z", "2026-03-29T02:00:00Z")]);
    check(berlin("02:15", "02:45"), night, &[]);
    check(berlin("02:30", "05:00"), night, &[("2026-03-29T01:00:00Z", "2026-03-29T03:00:00Z")]);
    check(berlin("01:00", "02:30"), night, &[("2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z")]);
    // On the day before it is an hour and a half, and what waits for the window hears of the day after.
    let state = calendar(&berlin("02:15", "02:45")).state_at(at("Europe/Berlin", "2026-03-28T12:00"));
    let opens = at("Europe/Berlin", "2026-03-30T02:15");
    assert_eq!(state, WindowState { open: None, until_ms: Some(opens) });
}

#[test]
fn an_hour_that_comes_twice_is_there_twice() {
    // Berlin goes from 03:00 (+02) back to 02:00 (+01) on the 25th of October 2026.
    let night = ("2026-10-24T22:00:00Z", "2026-10-25T22:00:00Z");
    let berlin = |start: &str, stop: &str| doc! { "start": start, "stop": stop, "timezone": "Europe/Berlin" };
    check(berlin("01:00", "04:00"), night, &[("2026-10-24T23:00:00Z", "2026-10-25T03:00:00Z")]);
    check(
        berlin("02:15", "02:45"),
        night,
        &[("2026-10-25T00:15:00Z", "2026-10-25T00:45:00Z"), ("2026-10-25T01:15:00Z", "2026-10-25T01:45:00Z")],
    );
    // In Havana midnight itself comes twice: the day before goes on for an hour.
    check(
        doc! { "days": ["sat"], "start": "23:00", "stop": "24:00", "timezone": "America/Havana" },
        ("2026-10-31T12:00:00Z", "2026-11-02T00:00:00Z"),
        &[("2026-11-01T03:00:00Z", "2026-11-01T04:00:00Z")],
    );
}

#[test]
fn a_day_that_a_place_has_skipped_is_waited_for_for_two_weeks() {
    // Samoa went from Thursday, the 29th of December 2011, to Saturday, the 31st.
    let fridays = calendar(&doc! { "days": ["fri"], "timezone": "Pacific/Apia" });
    let state = fridays.state_at(at("Pacific/Apia", "2011-12-24T12:00"));
    let next = at("Pacific/Apia", "2012-01-06T00:00");
    assert_eq!(state, WindowState { open: None, until_ms: Some(next) });
}

#[test]
fn of_several_windows_the_fastest_counts() {
    let windows = document::array![
        { "start": "08:00", "stop": "20:00", "documentsPerSecond": 10, "bytesPerSecond": 1000 },
        { "start": "12:00", "stop": "24:00", "documentsPerSecond": 50 },
    ];
    let windows = doc! { "w": windows }.to_buf();
    let value = windows.as_raw().get("w").expect("the windows");
    let calendar = WorkCalendar::parse(value, "w").expect("good").expect("two windows");
    let at = |time: &str| calendar.state_at(at("UTC", &format!("2026-05-05T{time}")));
    let rate = |documents, bytes| WorkRate { documents_per_second: documents, bytes_per_second: bytes };
    assert_eq!(at("08:00").open, Some(rate(Some(10), Some(1000))));
    assert_eq!(at("12:00").open, Some(rate(Some(50), None)));
    assert_eq!(at("23:59:59").open, Some(rate(Some(50), None)));
    assert_eq!(at("07:59:59.999").open, None);
    let until = |time: &str| utc(at(time).until_ms.expect("it changes"));
    assert_eq!(
        (until("09:00"), until("00:00")),
        ("2026-05-06T00:00:00Z".into(), "2026-05-05T08:00:00Z".into())
    );
    assert_eq!(
        calendar.to_value(),
        Value::from(document::array![
            { "start": "08:00", "stop": "20:00", "timezone": "UTC", "documentsPerSecond": 10i64,
                "bytesPerSecond": 1000i64 },
            { "start": "12:00", "stop": "24:00", "timezone": "UTC", "documentsPerSecond": 50i64 },
        ])
    );
    let rate = rate(Some(50), Some(1000));
    assert_eq!((rate.micros_for(100, 10), rate.micros_for(1, 5000)), (2_000_000, 5_000_000));
}

#[test]
fn what_is_shown_can_be_given_again() {
    for window in [
        doc! {},
        doc! { "days": ["Monday", "FRI", "wed"], "start": "7:05", "stop": "24:00" },
        doc! { "timezone": "+05:30", "start": "22:00", "stop": "00:00", "bytesPerSecond": 1.0 },
    ] {
        let read = calendar(&window);
        let shown = doc! { "w": (read.to_value()) }.to_buf();
        let again = WorkCalendar::parse(shown.as_raw().get("w").expect("the window"), "w");
        assert_eq!(again, Ok(Some(read)), "{window:?}");
    }
    let none = doc_buf! { "w": [], "n": (Value::Null) };
    for name in ["w", "n"] {
        assert_eq!(WorkCalendar::parse(none.as_raw().get(name).expect("given"), name), Ok(None));
    }
}

#[test]
fn what_is_malformed_is_refused() {
    let refused = |window: Document, code: i32, message: &str| {
        assert_eq!(parse(&window), Err((code, message.to_owned())), "{window:?}");
    };
    refused(doc! { "day": 1 }, 40415, "BSON field 'window.day' is an unknown field.");
    refused(doc! { "days": [] }, 2, "'window.days' must name at least one day");
    refused(
        doc! { "days": ["mo"] },
        2,
        "'window.days' has 'mo', which is no day: it takes 'mon', 'tue', … or full names",
    );
    refused(
        doc! { "days": "mon" },
        14,
        "BSON field 'window.days' is the wrong type 'string', expected type 'array'",
    );
    refused(doc! { "start": "01:00" }, 2, "'window' must have both a start and a stop, or neither");
    refused(
        doc! { "start": "01:00", "stop": "1:00" },
        2,
        "'window' has a start and a stop that are the same: a window of whole days has neither",
    );
    for start in ["24:00", "1:0", "01:60", "1", "-1:00", "001:00", ":30", "1:+5"] {
        let message =
            format!("'window.start' must be a time of day from '00:00' to '23:59', but is '{start}'");
        refused(doc! { "start": start, "stop": "02:00" }, 2, &message);
    }
    refused(doc! { "timezone": "Berlin" }, 40485, "unrecognized time zone identifier: \"Berlin\"");
    refused(
        doc! { "documentsPerSecond": 0 },
        51024,
        "BSON field 'window.documentsPerSecond' value must be >= 1, actual value '0'",
    );
    refused(doc! { "bytesPerSecond": 1.5 }, 2, "'window.bytesPerSecond' must be a whole number, but is 1.5");
    let several = doc! { "w": (vec![Value::Document(doc! {}); 33]) }.to_buf();
    let error = WorkCalendar::parse(several.as_raw().get("w").expect("given"), "w").expect_err("too many");
    assert_eq!(error.message, "'w' has more than 32 windows");
}

const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Havana",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Africa/Cairo",
    "Pacific/Apia",
];

/// The minutes of a week that a window is open in, as a person would mark them on a timetable.
fn timetable(days: &[usize], start: u32, stop: u32) -> HashSet<(usize, u32)> {
    let mut minutes = HashSet::new();
    for &day in days {
        let (mut day, mut minute) = (day, start);
        loop {
            minutes.insert((day, minute));
            minute += 1;
            if minute == stop {
                break;
            }
            if minute == DAY_MINUTES {
                (day, minute) = ((day + 1) % 7, 0);
                if stop == 0 {
                    break;
                }
            }
        }
    }
    minutes
}

fn weekday(day: Weekday) -> usize {
    day.to_monday_zero_offset() as usize
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Minute by minute the wall clock is looked at; the calendar has to say the same, and to have said when
    /// it changes.
    #[test]
    fn it_says_what_walking_minute_by_minute_says(
        zone in prop::sample::select(&ZONES[..]),
        days in prop::sample::subsequence((0..7).collect::<Vec<usize>>(), 1..=7),
        // Often where clocks are changed.
        start in prop_oneof![0..DAY_MINUTES, 0..240u32],
        length in prop_oneof![1..DAY_MINUTES, 1..180u32],
        // Days of changes in one of these zones, and the day that Samoa skipped.
        year_and_day in prop_oneof![
            Just((2026, 3, 24)), Just((2026, 10, 22)), Just((2026, 10, 30)), Just((2026, 3, 6)),
            Just((2026, 4, 2)), Just((2011, 12, 26)), Just((2028, 2, 26)), Just((2026, 4, 22)),
        ],
    ) {
        let stop = (start + length) % DAY_MINUTES;
        let names: Vec<Value> = days.iter().map(|&day| DAY_NAMES[day].into()).collect();
        let clock = |minutes: u32| format!("{:02}:{:02}", minutes / 60, minutes % 60);
        let window = doc! { "days": names, "start": (clock(start)), "stop": (clock(stop)), "timezone": zone };
        let calendar = calendar(&window);
        let minutes = timetable(&days, start, stop);
        let (year, month, day) = year_and_day;
        let from = at("UTC", &format!("{year}-{month:02}-{day:02}T00:00"));
        let tz = TimeZone::get(zone).expect("a time zone");
        let mut said: Option<WindowState> = None;
        for minute in 0..8 * i64::from(DAY_MINUTES) {
            let moment_ms = from + minute * MS_PER_MINUTE;
            let local = tz.to_datetime(jiff::Timestamp::from_millisecond(moment_ms).expect("in range"));
            let shown = (weekday(local.weekday()), local.hour() as u32 * 60 + local.minute() as u32);
            let is_open = minutes.contains(&shown);
            if let Some(state) = said {
                let changes = state.until_ms.is_some_and(|until_ms| until_ms <= moment_ms);
                prop_assert_eq!(changes, is_open != state.open.is_some(), "{} {:?}", local, &window);
                if !changes {
                    continue;
                }
                prop_assert_eq!(state.until_ms, Some(moment_ms), "{} {:?}", local, &window);
            }
            let state = calendar.state_at(moment_ms);
            prop_assert_eq!(state.open.is_some(), is_open, "{} {:?}", local, &window);
            said = Some(state);
        }
    }
}
