use super::WorkKind;
use crate::server::ServiceContext;
use crate::testing::{TestClient, TestMember, server_on};
use crate::ttl::TtlMonitor;
use ambient::Simulation;
use document::{Document, Value, doc};
use parking_lot::Mutex;
use pollster::block_on;
use query::calendar::WorkRate;
use std::sync::Arc;
use std::time::Duration;
use storage::{Disk, MemoryEngine, Room, StorageOptions, Store, StoreTasks};

pub(super) const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Simulated time stands still: nothing rests for the sake of other I/O.
fn without_budget() -> StorageOptions {
    StorageOptions { io_budget_bytes_per_second: 0, ..StorageOptions::small() }
}

pub(super) fn server() -> Arc<ServiceContext> {
    server_on(Store::in_memory(&without_budget()).expect("memory is to be had"))
}

fn ok(client: &TestClient, command: Document) -> Document {
    let (reply, _) = client.run(command.clone());
    assert_eq!(reply.get("ok"), Some(&Value::Double(1.0)), "{command:?}: {reply:?}");
    reply
}

pub(super) fn admin(server: &Arc<ServiceContext>, command: Document) -> Document {
    let mut command = command;
    command.push("$db", "admin");
    TestClient::of(server).run(command).0
}

pub(super) fn set(server: &Arc<ServiceContext>, settings: Document) {
    let mut command = doc! { "setCalendar": 1 };
    command.extend(settings.iter().map(|(name, value)| (name, value.clone())));
    let reply = admin(server, command);
    assert_eq!(reply.get("ok"), Some(&Value::Double(1.0)), "{reply:?}");
}

/// A collection with so many documents that have expired, by an index with these windows.
fn expired(client: &TestClient, collection: &str, count: i32, window: Option<Document>) {
    let mut index = doc! { "key": { "at": 1 }, "name": "ttl", "expireAfterSeconds": 60 };
    if let Some(window) = window {
        index.push("window", window);
    }
    ok(client, doc! { "createIndexes": collection, "indexes": [index] });
    let at = Value::DateTime(client.server.now_ms() - 120_000);
    let documents: Vec<Value> = (0..count).map(|_| doc! { "at": (at.clone()) }.into()).collect();
    ok(client, doc! { "insert": collection, "documents": documents });
}

fn count(server: &ServiceContext, collection: &str) -> u64 {
    server.node.catalog.collection("test", collection).map_or(0, |found| found.document_count())
}

/// Steps until there is nothing to do before a time that has not come.
fn run(monitor: &mut TtlMonitor, server: &ServiceContext) {
    let rests = (0..10_000).any(|_| block_on(monitor.step(server)) > ambient::now());
    assert!(rests, "the monitor comes to rest");
}

/// One pass, of what is not to rest.
fn pass(monitor: &mut TtlMonitor, server: &ServiceContext) {
    monitor.wake();
    run(monitor, server);
}

fn status(server: &ServiceContext) -> Document {
    super::status(server)
}

fn field<'d>(document: &'d Document, path: &str) -> &'d Value {
    let mut parts = path.split('.');
    let first = document.get(parts.next().expect("a name")).unwrap_or_else(|| panic!("{path}: {document:?}"));
    parts.fold(first, |value, name| match value {
        Value::Document(inner) => inner.get(name).unwrap_or_else(|| panic!("{path}: {document:?}")),
        other => panic!("{path}: {other:?}"),
    })
}

/// Simulated time begins with the year 2026, on a Thursday.
const BEGIN_MS: i64 = 1_767_225_600_000;

#[test]
fn nothing_expires_outside_of_the_window() {
    let time = Simulation::begin(1);
    let server = server();
    let client = TestClient::of(&server);
    assert_eq!(server.now_ms(), BEGIN_MS);
    expired(&client, "c", 100, None);
    set(&server, doc! { "ttl": { "days": ["thu"], "start": "01:00", "stop": "02:00" } });
    let mut monitor = TtlMonitor::new();
    pass(&mut monitor, &server);
    assert_eq!(count(&server, "c"), 100, "it is midnight");
    assert_eq!(field(&status(&server), "ttl.state"), &Value::from("waiting"));
    assert_eq!(field(&status(&server), "ttl.until"), &Value::DateTime(BEGIN_MS + 3_600_000));
    time.advance(HOUR - Duration::from_millis(1));
    pass(&mut monitor, &server);
    assert_eq!(count(&server, "c"), 100, "one millisecond before the window opens");
    time.advance(Duration::from_millis(1));
    pass(&mut monitor, &server);
    assert_eq!(count(&server, "c"), 0);
    assert_eq!(field(&status(&server), "ttl.state"), &Value::from("open"));
    expired(&client, "d", 100, None);
    time.advance(HOUR);
    pass(&mut monitor, &server);
    assert_eq!(count(&server, "d"), 100, "it has closed again");
    time.advance(DAY - HOUR);
    pass(&mut monitor, &server);
    assert_eq!(count(&server, "d"), 100, "it is Friday");
    set(&server, doc! { "ttl": (Value::Null) });
    pass(&mut monitor, &server);
    assert_eq!(count(&server, "d"), 0, "there is no calendar any more");
}

#[test]
fn a_window_that_closes_ends_the_work_in_the_middle() {
    let time = Simulation::begin(2);
    let server = server();
    let client = TestClient::of(&server);
    expired(&client, "c", 300, None);
    set(&server, doc! { "ttl": { "start": "00:00", "stop": "00:01" } });
    let mut monitor = TtlMonitor::new();
    monitor.wake();
    block_on(monitor.step(&server));
    let left = count(&server, "c");
    assert!((1..300).contains(&left), "{left} are left after one unit");
    time.advance(MINUTE);
    run(&mut monitor, &server);
    assert_eq!(count(&server, "c"), left);
    time.advance(DAY);
    pass(&mut monitor, &server);
    assert_eq!(count(&server, "c"), left, "a day later at the same minute, it is closed again");
    time.advance(DAY - MINUTE);
    pass(&mut monitor, &server);
    assert_eq!(count(&server, "c"), 0);
}

#[test]
fn it_goes_on_at_the_rate_and_holds_up_no_other_index() {
    let time = Simulation::begin(3);
    let server = server();
    let client = TestClient::of(&server);
    expired(&client, "slow", 100, Some(doc! { "documentsPerSecond": 10 }));
    expired(&client, "fast", 300, None);
    let mut monitor = TtlMonitor::new();
    monitor.wake();
    for second in 1..=10 {
        run(&mut monitor, &server);
        assert_eq!(count(&server, "slow"), 100 - 10 * second, "after {second} seconds");
        assert_eq!(count(&server, "fast"), 0);
        time.advance(Duration::from_millis(999));
        run(&mut monitor, &server);
        assert_eq!(count(&server, "slow"), 100 - 10 * second, "not before a second has passed");
        time.advance(Duration::from_millis(1));
    }
    run(&mut monitor, &server);
}

/// Documents that are left of 2,000 after a hundred units of ten, each late by up to so many milliseconds.
fn left_of_late_units(seed: u64, late_ms: u64) -> u64 {
    let time = Simulation::begin(seed);
    let mut random = fastrand::Rng::with_seed(seed);
    let server = server();
    let client = TestClient::of(&server);
    expired(&client, "c", 2000, Some(doc! { "documentsPerSecond": 10 }));
    let mut monitor = TtlMonitor::new();
    monitor.wake();
    let began = time.elapsed();
    while time.elapsed() < began + Duration::from_secs(100) {
        let at = block_on(monitor.step(&server)).saturating_duration_since(ambient::now());
        time.advance(at + Duration::from_millis(random.u64(0..=late_ms)));
    }
    count(&server, "c")
}

#[test]
fn who_is_late_catches_up_with_the_rate() {
    for seed in 1..=5 {
        // The monitor is called twice for each unit, late by four tenths of its time on average.
        let left = left_of_late_units(seed, 450);
        assert!((990..=1020).contains(&left), "{left} are left of 2,000 with seed {seed}");
    }
    // What was missed for longer is not made up for at once.
    let time = Simulation::begin(6);
    let server = server();
    let client = TestClient::of(&server);
    expired(&client, "c", 1000, Some(doc! { "documentsPerSecond": 10 }));
    let mut monitor = TtlMonitor::new();
    monitor.wake();
    run(&mut monitor, &server);
    assert!(!monitor.is_behind(&server), "it is on time");
    time.advance(MINUTE);
    let is_told = (0..10).any(|_| {
        block_on(monitor.step(&server));
        monitor.is_behind(&server)
    });
    assert!(is_told, "it is behind, and not to yield");
    run(&mut monitor, &server);
    assert!(!monitor.is_behind(&server), "it has caught up");
    let gone = 1000 - count(&server, "c");
    assert!((20..=30).contains(&gone), "{gone} have gone after a minute without a turn");
}

#[test]
fn a_slow_index_does_not_draw_out_the_pass_of_the_others() {
    let time = Simulation::begin(4);
    let server = server();
    let client = TestClient::of(&server);
    expired(&client, "slow", 1000, Some(doc! { "documentsPerSecond": 1 }));
    expired(&client, "fast", 10, None);
    let mut monitor = TtlMonitor::new();
    monitor.wake();
    run(&mut monitor, &server);
    assert_eq!(count(&server, "fast"), 0);
    expired(&client, "fast", 20, None);
    for _ in 0..62 {
        time.advance(Duration::from_secs(1));
        run(&mut monitor, &server);
    }
    assert!(count(&server, "slow") > 900, "the pass is not over");
    assert_eq!(count(&server, "fast"), 0, "what has expired meanwhile is found in the next sub-pass");
}

#[test]
fn bytes_have_a_rate_and_indexes_of_a_kind_share_it() {
    let time = Simulation::begin(5);
    let server = server();
    let client = TestClient::of(&server);
    expired(&client, "a", 40, None);
    expired(&client, "b", 40, None);
    let bytes = server.node.catalog.collection("test", "a").expect("there").data_bytes() / 40;
    set(&server, doc! { "ttl": { "documentsPerSecond": 20, "bytesPerSecond": (10 * bytes as i64) } });
    let mut monitor = TtlMonitor::new();
    monitor.wake();
    let mut seconds = 0;
    while count(&server, "a") + count(&server, "b") > 0 {
        run(&mut monitor, &server);
        time.advance(Duration::from_secs(1));
        seconds += 1;
    }
    assert!((7..=8).contains(&seconds), "80 documents at 10 a second took {seconds} s");
}

#[test]
fn an_index_has_windows_of_its_own() {
    let _time = Simulation::begin(6);
    let server = server();
    let client = TestClient::of(&server);
    set(&server, doc! { "ttl": { "days": ["mon"] } });
    for collection in ["always", "never", "kind"] {
        expired(&client, collection, 10, None);
    }
    let change = |collection: &str, window: Value| {
        let index = doc! { "name": "ttl", "window": window };
        ok(&client, doc! { "collMod": collection, "index": index })
    };
    change("always", doc! {}.into());
    let reply = change("never", doc! { "days": ["sun"] }.into());
    let expect = doc! { "window_new": { "days": ["sun"], "timezone": "UTC" }, "ok": 1.0 };
    assert_eq!(reply, expect);
    pass(&mut TtlMonitor::new(), &server);
    let left = ["always", "never", "kind"].map(|collection| count(&server, collection));
    assert_eq!(left, [0, 10, 10]);
    let status = status(&server);
    let Value::Array(indexes) = field(&status, "indexes") else { panic!("{status:?}") };
    assert_eq!(indexes.len(), 2, "{indexes:?}");
    let (reply, _) = client.run(doc! { "listIndexes": "never" });
    assert!(format!("{reply:?}").contains("window"), "{reply:?}");
    change("never", Vec::<Value>::new().into());
    let (reply, _) = client.run(doc! { "listIndexes": "never" });
    assert!(!format!("{reply:?}").contains("window"), "{reply:?}");
}

#[test]
fn what_is_wrong_is_refused_and_nothing_is_stored() {
    let server = server();
    let client = TestClient::of(&server);
    for (command, code) in [
        (doc! { "setCalendar": 1, "flush": {} }, 40415),
        (doc! { "setCalendar": 1, "ttl": { "hours": 1 } }, 40415),
        (doc! { "setCalendar": 1, "ttl": 7 }, 14),
        (doc! { "setCalendar": 1, "ttl": { "start": "25:00", "stop": "1:00" } }, 2),
        (doc! { "getCalendar": 1, "hours": 0 }, 51024),
    ] {
        let reply = admin(&server, command.clone());
        assert_eq!(reply.get("code"), Some(&Value::Int32(code)), "{command:?}: {reply:?}");
    }
    assert!(server.node.catalog.collection("config", "settings").is_none());
    let (reply, _) = client.run(doc! { "setCalendar": 1 });
    assert_eq!(reply.get("code"), Some(&Value::Int32(13)), "it is for the database admin");
    let plain = doc! { "key": { "a": 1 }, "name": "a", "window": {} };
    let (reply, _) = client.run(doc! { "createIndexes": "c", "indexes": [plain] });
    assert_eq!(reply.get("code"), Some(&Value::Int32(67)), "{reply:?}");
    expired(&client, "d", 1, Some(doc! { "days": ["sun"] }));
    let other = doc! { "key": { "at": 1 }, "name": "ttl", "expireAfterSeconds": 60, "window": {} };
    let (reply, _) = client.run(doc! { "createIndexes": "d", "indexes": [other] });
    assert_eq!(reply.get("code"), Some(&Value::Int32(85)), "{reply:?}");
}

#[test]
fn the_calendar_is_shown_with_what_comes() {
    let _time = Simulation::begin(7);
    let server = server();
    let client = TestClient::of(&server);
    expired(&client, "c", 1, Some(doc! { "start": "23:00", "stop": "01:00", "timezone": "+01:00" }));
    set(&server, doc! { "ttl": { "days": ["fri"], "bytesPerSecond": 1000 } });
    let reply = admin(&server, doc! { "getCalendar": 1 });
    let hours = |hours: i64| Value::DateTime(BEGIN_MS + 3_600_000 * hours);
    let work = document::array![
        {
            "kind": "ttl", "window": { "days": ["fri"], "timezone": "UTC", "bytesPerSecond": 1000i64 },
            "timezone": "UTC", "state": "waiting", "reason": "it is outside of its window",
            "until": (hours(24)), "overrides": 0i64, "open": [{ "from": (hours(24)), "to": (hours(48)) }],
        },
        {
            "kind": "ttl", "ns": "test.c", "index": "ttl",
            "window": { "start": "23:00", "stop": "01:00", "timezone": "+01:00" }, "timezone": "+01:00",
            "state": "waiting", "reason": "it is outside of its window", "until": (hours(22)),
            "overrides": 0i64,
            "open": [{ "from": (hours(22)), "to": (hours(24)) }, { "from": (hours(46)), "to": (hours(48)) }],
        },
    ];
    let Some(Value::Array(shown)) = reply.get("work") else { panic!("{reply:?}") };
    let is_of_ttl =
        |work: &&Value| matches!(work, Value::Document(work) if work.get("kind") == Some(&"ttl".into()));
    let shown: Vec<Value> = shown.iter().filter(is_of_ttl).cloned().collect();
    assert_eq!(Value::from(shown), Value::from(work));
    assert_eq!((reply.get("localTime"), reply.get("until")), (Some(&hours(0)), Some(&hours(48))));
}

#[test]
fn what_a_client_has_damaged_is_not_followed() {
    let _time = Simulation::begin(8);
    let server = server();
    let client = TestClient::of(&server);
    set(&server, doc! { "ttl": { "days": ["mon"] } });
    expired(&client, "c", 10, None);
    pass(&mut TtlMonitor::new(), &server);
    let damage = doc! { "q": { "_id": "calendar" }, "u": { "$set": { "ttl": "never" } } };
    let (reply, _) = client.run(doc! { "update": "settings", "updates": [damage], "$db": "config" });
    assert_eq!(reply.get("n"), Some(&Value::Int32(1)), "{reply:?}");
    pass(&mut TtlMonitor::new(), &server);
    assert_eq!(count(&server, "c"), 10, "what it said before stays in force");
}

/// A disk of a megabyte and more, which is filled by a test.
struct TestDisk(Arc<Mutex<u64>>);

impl Disk for TestDisk {
    fn room(&self) -> std::io::Result<Room> {
        Ok(Room { total: 100 << 30, free: *self.0.lock() })
    }

    fn set_reserve(&self, _: u64) -> std::io::Result<()> {
        Ok(())
    }

    fn reserve(&self) -> u64 {
        1 << 30
    }
}

/// A server on a disk of which 1 GiB is kept, what drives its store, and how much of it is free.
fn on_a_disk() -> (Arc<ServiceContext>, StoreTasks, Arc<Mutex<u64>>) {
    let free = Arc::new(Mutex::new(50 << 30));
    let disk = Arc::new(TestDisk(Arc::clone(&free)));
    let engine = Arc::new(MemoryEngine::default());
    let options = StorageOptions { disk_reserve_bytes: Some(1 << 30), ..without_budget() };
    let (store, tasks) = Store::without_threads(engine, disk, &options).expect("memory");
    (server_on(store), tasks, free)
}

#[test]
fn a_disk_that_is_nearly_full_overrides() {
    let time = Simulation::begin(9);
    let (server, mut tasks, free) = on_a_disk();
    let client = TestClient::of(&server);
    set(&server, doc! { "ttl": { "start": "01:00", "stop": "02:00", "documentsPerSecond": 1 } });
    expired(&client, "c", 100, None);
    pass(&mut TtlMonitor::new(), &server);
    assert_eq!(count(&server, "c"), 100);
    *free.lock() = 1 << 20;
    tasks.govern();
    pass(&mut TtlMonitor::new(), &server);
    assert_eq!(count(&server, "c"), 0, "neither the window counts nor the rate");
    let shown = status(&server);
    assert_eq!(field(&shown, "ttl.state"), &Value::from("overridden"));
    assert_eq!(field(&shown, "ttl.reason"), &Value::from("the disk is nearly full"));
    assert_eq!(field(&shown, "ttl.overrides"), &Value::Int64(1));
    *free.lock() = 50 << 30;
    tasks.govern();
    expired(&client, "c", 100, None);
    time.advance(MINUTE);
    pass(&mut TtlMonitor::new(), &server);
    assert_eq!(count(&server, "c"), 100, "there is room again");
}

#[test]
fn a_backup_stands_still_behind_its_window_unless_the_disk_needs_its_files() {
    let time = Simulation::begin(10);
    let (server, mut tasks, free) = on_a_disk();
    set(&server, doc! { "backup": { "start": "00:00", "stop": "01:00", "bytesPerSecond": 7 } });
    let begins = || super::ask(&server, WorkKind::Backup, None).rate();
    let goes_on = || super::ask_to_go_on(&server, WorkKind::Backup).rate();
    assert_eq!(goes_on().and_then(|rate| rate.bytes_per_second), Some(7));
    time.advance(HOUR);
    assert_eq!((begins(), goes_on()), (None, None));
    *free.lock() = 1 << 20;
    tasks.govern();
    assert_eq!(goes_on(), Some(WorkRate::default()), "it ends, so that old files can go");
    assert_eq!(begins(), None, "and none begins on a full disk");
    *free.lock() = 50 << 30;
    tasks.govern();
    assert_eq!(goes_on(), None);
    time.advance(DAY - HOUR);
    assert_eq!(goes_on().and_then(|rate| rate.bytes_per_second), Some(7));
}

#[test]
fn every_member_knows_it() {
    let primary = TestMember::new();
    let client = TestClient::of(&primary.server);
    expired(&client, "c", 10, Some(doc! { "days": ["sat"] }));
    set(&primary.server, doc! { "ttl": { "days": ["mon"] } });
    let index = doc! { "name": "ttl", "window": { "days": ["sun"] } };
    ok(&client, doc! { "collMod": "c", "index": index });
    let other = TestMember::new();
    other.apply(&primary.log());
    let window_of = |member: &TestMember| {
        let reply = admin(&member.server, doc! { "getCalendar": 1 });
        let Some(Value::Array(work)) = reply.get("work") else { panic!("{reply:?}") };
        let work: Vec<Value> = work
            .iter()
            .filter_map(|work| match work {
                Value::Document(work) => work.get("window").cloned(),
                other => panic!("{other:?}"),
            })
            .collect();
        work
    };
    let days = |day: &str| Value::Document(doc! { "days": [day], "timezone": "UTC" });
    assert_eq!(window_of(&primary), [days("mon"), days("sun")]);
    assert_eq!(window_of(&other), window_of(&primary));
    ok(&client, doc! { "collMod": "c", "index": { "name": "ttl", "window": [] } });
    let third = TestMember::new();
    third.apply(&primary.log());
    assert_eq!(window_of(&third), [days("mon")]);
}
