//! The kinds of work beside `ttl`: what their windows and rates mean, by an injected clock.

use super::tests::{MINUTE, admin, server, set};
use super::{Permission, WorkKind, WorkPace, ask, keep_compaction_to_calendar, status};
use crate::key_rotation::KeyRotation;
use crate::own_work::OwnWorkStep;
use ambient::Simulation;
use document::{Document, Value, doc};
use query::calendar::{WorkCalendar, WorkRate};
use std::time::Duration;

/// Simulated time begins with the year 2026.
const BEGIN_MS: i64 = 1_767_225_600_000;
const MS_PER_DAY: i64 = 86_400_000;

fn all_kinds(window: &Document) -> Document {
    WorkKind::ALL.iter().map(|kind| (kind.name(), Value::Document(window.clone()))).collect()
}

/// Each kind is told, minute by minute, what a timetable of the window says that is property-tested against
/// the clock on the wall.
#[track_caller]
fn check(window: &Document, from_day: i64, minutes: i64, changes: usize) {
    let time = Simulation::begin(11);
    let server = server();
    set(&server, all_kinds(window));
    let stored = window.to_buf();
    let calendar = WorkCalendar::parse(document::RawValue::Document(stored.as_raw()), "window");
    let calendar = calendar.expect("a window").expect("a calendar");
    time.advance(Duration::from_millis((from_day * MS_PER_DAY - BEGIN_MS).unsigned_abs()));
    let mut before = vec![None; WorkKind::ALL.len()];
    let mut seen = 0;
    for _ in 0..minutes {
        let expect = calendar.state_at(server.now_ms());
        for (place, kind) in WorkKind::ALL.into_iter().enumerate() {
            let told = ask(&server, kind, None);
            match kind {
                // Whoever is to get a copy is not kept waiting for it.
                WorkKind::InitialSync => assert!(told.rate().is_some(), "{kind:?}"),
                _ => assert_eq!(told.rate(), expect.open, "{kind:?} at {}", server.now_ms()),
            }
            let until = match told {
                Permission::Granted { until_ms, .. } | Permission::Waits { until_ms } => until_ms,
                Permission::Overridden { reason } => panic!("{kind:?}: {reason}"),
            };
            assert_eq!(until, expect.until_ms, "{kind:?}");
            if before[place].is_some_and(|before| before != expect.open) {
                seen += 1;
            }
            before[place] = Some(expect.open);
        }
        time.advance(MINUTE);
    }
    assert_eq!(seen, changes * WorkKind::ALL.len(), "how often it opened or closed");
}

#[test]
fn every_kind_follows_midnight_changes_of_the_clock_and_leap_days() {
    /// Days since 1970: the fourth of May, the nights of the changes, and the 28th of a February with 29.
    const MAY_2026: i64 = 20_577;
    const MARCH_2026: i64 = 20_541;
    const OCTOBER_2026: i64 = 20_751;
    const FEBRUARY_2028: i64 = 21_242;
    let night = doc! { "start": "23:30", "stop": "00:30", "timezone": "UTC" };
    check(&night, MAY_2026, 1_600, 3);
    let berlin = |start: &str, stop: &str| doc! { "start": start, "stop": stop, "timezone": "Europe/Berlin" };
    // 02:00 to 03:00 is not there, and there twice.
    check(&berlin("02:15", "02:45"), MARCH_2026, 1_440, 0);
    check(&berlin("01:30", "03:30"), MARCH_2026, 1_440, 3);
    check(&berlin("02:15", "02:45"), OCTOBER_2026, 600, 4);
    check(&doc! { "days": ["tue"] }, FEBRUARY_2028, 4_000, 2);
}

#[test]
fn rates_that_mean_nothing_are_refused() {
    let server = server();
    for (kind, rate, is_taken) in [
        ("compaction", "bytesPerSecond", true),
        ("compaction", "documentsPerSecond", false),
        ("backup", "documentsPerSecond", false),
        ("backup", "bytesPerSecond", true),
        ("initialSync", "documentsPerSecond", false),
        ("initialSync", "bytesPerSecond", true),
        ("indexBuilds", "documentsPerSecond", true),
        ("indexBuilds", "bytesPerSecond", true),
        ("validate", "documentsPerSecond", false),
        ("validate", "bytesPerSecond", false),
        ("out", "documentsPerSecond", true),
        ("out", "bytesPerSecond", true),
    ] {
        let reply = admin(&server, doc! { "setCalendar": 1, kind: { rate: 1_000i64 } });
        let code = reply.get("code").cloned();
        assert_eq!(code, (!is_taken).then_some(Value::Int32(2)), "{kind} {rate}: {reply:?}");
    }
}

#[test]
fn every_kind_is_shown() {
    let _time = Simulation::begin(12);
    let server = server();
    set(
        &server,
        doc! { "backup": { "days": ["sun"] }, "initialSync": { "days": ["sun"], "bytesPerSecond": 5i64 } },
    );
    let shown = status(&server);
    for (kind, state) in [
        ("ttl", "open"),
        ("compaction", "open"),
        ("indexBuilds", "open"),
        ("backup", "waiting"),
        ("initialSync", "open"),
        ("validate", "open"),
        ("out", "open"),
    ] {
        let Some(Value::Document(work)) = shown.get(kind) else { panic!("{kind}: {shown:?}") };
        assert_eq!(work.get("state"), Some(&Value::from(state)), "{kind}");
        assert_eq!(work.get("rate"), None, "it is Thursday");
    }
    let reply = admin(&server, doc! { "getCalendar": 1 });
    let Some(Value::Array(work)) = reply.get("work") else { panic!("{reply:?}") };
    assert_eq!(work.len(), WorkKind::ALL.len());
}

#[test]
fn compaction_is_put_off_outside_of_its_window_and_done_within() {
    let time = Simulation::begin(13);
    let server = server();
    let board = &server.node.calendar;
    keep_compaction_to_calendar(&server);
    assert!(!board.defers_compaction(false), "it was not put off");
    set(&server, doc! { "compaction": { "start": "01:00", "stop": "02:00" } });
    keep_compaction_to_calendar(&server);
    assert!(!board.defers_compaction(true), "it is put off");
    time.advance(60 * MINUTE);
    keep_compaction_to_calendar(&server);
    assert!(!board.defers_compaction(false), "its window is open");
    time.advance(60 * MINUTE);
    keep_compaction_to_calendar(&server);
    assert!(!board.defers_compaction(true), "it is put off again");
}

#[test]
fn compaction_has_a_rate_within_its_window() {
    let time = Simulation::begin(15);
    let server = server();
    // The governor of a store in memory has no thread: what it is told is what counts.
    let told = || {
        keep_compaction_to_calendar(&server);
        server.node.store.compaction_rate()
    };
    assert_eq!(told(), 0);
    set(
        &server,
        doc! { "compaction": [
            { "start": "01:00", "stop": "02:00", "bytesPerSecond": 1_000_000i64 },
            { "start": "03:00", "stop": "04:00" },
        ] },
    );
    let expect = [(0, "waiting"), (1_000_000, "open"), (0, "waiting"), (0, "open"), (0, "waiting")];
    for (hour, (rate, state)) in expect.into_iter().enumerate() {
        assert_eq!(told(), rate, "at {hour}:00");
        let shown = status(&server);
        let Some(Value::Document(shown)) = shown.get("compaction") else { panic!("{shown:?}") };
        assert_eq!(shown.get("state"), Some(&Value::from(state)), "at {hour}:00");
        let limit = (rate > 0).then(|| Value::Document(doc! { "bytesPerSecond": (rate as i64) }));
        assert_eq!(shown.get("rate").cloned(), limit, "at {hour}:00");
        time.advance(60 * MINUTE);
    }
}

#[test]
fn who_shares_a_pace_shares_its_rate() {
    let time = Simulation::begin(14);
    let pace = WorkPace::default();
    let rate = WorkRate { documents_per_second: Some(100), bytes_per_second: Some(1_000) };
    // Simulated time goes on a little with each look at it.
    let seconds = |rest: Duration| rest.as_secs_f64().round();
    assert_eq!(pace.rest_after(WorkRate::default(), 1 << 40, 1 << 40), Duration::ZERO, "without a rate");
    assert_eq!(seconds(pace.rest_after(rate, 100, 10)), 1.0, "by its documents");
    assert_eq!(seconds(pace.rest_after(rate, 1, 2_000)), 3.0, "by its bytes, behind the other one");
    time.advance(Duration::from_secs(2));
    assert_eq!(seconds(pace.rest_after(rate, 100, 0)), 2.0);
    time.advance(Duration::from_secs(60));
    assert_eq!(seconds(pace.rest_after(rate, 100, 0)), 1.0, "nothing is saved up");
}

#[test]
fn keys_are_left_behind_in_their_window() {
    let time = Simulation::begin(12);
    let server = server();
    set(&server, doc! { "keyRotation": { "start": "01:00", "stop": "02:00", "bytesPerSecond": 7 } });
    let mut rotation = KeyRotation::default();
    assert!(matches!(rotation.step(&server), OwnWorkStep::Continues { .. }), "it is midnight");
    time.advance(Duration::from_secs(3600));
    assert_eq!(rotation.step(&server), OwnWorkStep::Ended, "a store without files has nothing to do");
}
