//! Members on threads of their own, in one process: what they do together, without faults. Those are
//! simulated.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail so")]

use catalog::{Catalog, Decision, OperationContext, Receipts, WriteError};
use document::{Document, DocumentBuf, RawDocument, RawValue, Value, doc};
use pollster::block_on;
use replication::oplog::OplogObserver;
use replication::set::{Copies, MemberState, ReplSetConfig, ReplicaSet, SetOptions};
use replication::{Answer, LogOptions, PeerError, Peers};
use std::collections::HashMap;
use std::future::ready;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use storage::{Engine, MemoryEngine, ReadTier, ReadView, StorageOptions, Store};
use wire::ErrorCode;

/// Long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The members by their hosts, and how many bytes of messages went from one to another.
#[derive(Debug, Default)]
struct Network(Mutex<HashMap<String, ReplicaSet>>, Mutex<HashMap<(String, String), usize>>);

#[derive(Debug, Clone)]
struct Wires(Arc<Network>);

impl Wires {
    fn member(&self, host: &str) -> Option<ReplicaSet> {
        self.0.0.lock().unwrap().get(host).cloned()
    }
}

impl Wires {
    /// Bytes of messages from one to another since this was asked last.
    fn moved(&self, from: i32, to: i32) -> usize {
        self.0.1.lock().unwrap().remove(&(host(from), host(to))).unwrap_or(0)
    }
}

impl Peers for Wires {
    fn send(&self, host: &str, envelope: DocumentBuf) {
        let from = envelope.as_raw().get("from").and_then(|from| from.as_document()?.get("host")?.as_str());
        let messages = envelope.as_raw().get("m").and_then(RawValue::as_array).unwrap();
        let bytes = messages.iter().map(|message| match message {
            RawValue::Binary { bytes, .. } => bytes.len(),
            other => panic!("{other:?} is no message"),
        });
        let way = (from.unwrap_or_default().to_owned(), host.to_owned());
        *self.0.1.lock().unwrap().entry(way).or_default() += bytes.sum::<usize>();
        if let Some(member) = self.member(host) {
            member.receive(envelope.as_raw()).expect("members send envelopes");
        }
    }

    fn ask(&self, host: &str, command: DocumentBuf, _: Duration) -> Answer {
        let answer = match self.member(host) {
            None => Err(PeerError::TimedOut { host: host.to_owned() }),
            Some(member) => Ok(match member.heartbeat(command.as_raw()) {
                Ok(reply) => reply,
                Err(error) => doc! { "ok": 0, "errmsg": (error.message) }.to_buf(),
            }),
        };
        Box::pin(ready(answer))
    }
}

struct Server {
    engine: Arc<MemoryEngine>,
    catalog: Arc<Catalog>,
    set: ReplicaSet,
}

fn host(id: i32) -> String {
    format!("member{id}:1")
}

impl Server {
    fn start(wires: &Wires, id: i32, engine: Arc<MemoryEngine>) -> Self {
        Server::start_with(wires, id, engine, LogOptions::default())
    }

    fn start_with(wires: &Wires, id: i32, engine: Arc<MemoryEngine>, log: LogOptions) -> Self {
        let shared: Arc<dyn Engine> = Arc::clone(&engine) as _;
        let store = Store::with_engine(shared, &StorageOptions::small()).expect("a store");
        let catalog = Catalog::open(store).expect("a catalog");
        let mut options = SetOptions::new("rs", vec![host(id)], id as u64);
        options.noop_interval = Duration::from_millis(500);
        options.log = log;
        let set =
            ReplicaSet::start(options, Arc::clone(&catalog), Arc::new(wires.clone())).expect("a member");
        wires.0.0.lock().unwrap().insert(host(id), set.clone());
        Server { engine, catalog, set }
    }

    fn write(&self, id: i32, value: i32) -> Result<(), Box<dyn std::error::Error>> {
        let store = self.catalog.store();
        let receipts = Receipts::default();
        let context = OperationContext {
            observer: Some(&OplogObserver),
            ..OperationContext::writing(store, &receipts)
        };
        let collection = block_on(self.catalog.collection_or_create(&context, "test", "c"))?;
        let key = catalog::Collection::document_key_of_id(RawValue::Int32(id));
        let document = doc! { "_id": id, "value": value }.to_buf();
        let decide = |_: Option<RawDocument<'_>>| Ok::<_, WriteError>(Decision::Replace(document.clone()));
        block_on(collection.update(&context, &key, decide))?;
        Ok(())
    }

    fn value(&self, view: &ReadView, id: i32) -> Option<Value> {
        let found =
            self.catalog.collection("test", "c")?.get(view, RawValue::Int32(id), ReadTier::Any).unwrap()?;
        RawDocument::trusted(&found).to_document().get("value").cloned()
    }

    /// How many operations it keeps.
    fn logged(&self) -> u64 {
        self.catalog.collection("local", "oplog.rs").expect("an oplog").document_count()
    }

    fn latest(&self, id: i32) -> Option<Value> {
        self.value(&self.catalog.store().read_view(), id)
    }

    fn published(&self, id: i32) -> Option<Value> {
        self.value(&self.catalog.store().published_view()?, id)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.set.stop();
    }
}

#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn config(members: impl IntoIterator<Item = Document>) -> ReplSetConfig {
    let members: Vec<Value> = members.into_iter().map(Value::from).collect();
    let settings = doc! { "electionTimeoutMillis": 1_000, "heartbeatIntervalMillis": 200 };
    let config = doc! { "_id": "rs", "version": 1, "members": (members), "settings": settings };
    ReplSetConfig::parse(config.to_buf().as_raw()).expect("a configuration")
}

/// On a busy machine, too, nobody else is elected.
fn patient(members: impl IntoIterator<Item = Document>) -> ReplSetConfig {
    let mut config = config(members);
    config.settings.election_timeout = Duration::from_secs(1);
    config
}

fn member(id: i32) -> Document {
    doc! { "_id": id, "host": (host(id)) }
}

fn three() -> (Wires, Vec<Server>) {
    let wires = Wires(Arc::default());
    let servers: Vec<Server> = (0..3).map(|id| Server::start(&wires, id, Arc::default())).collect();
    block_on(servers[0].set.initiate(config((0..3).map(member)))).expect("a set");
    let states = || servers.iter().map(|server| server.set.topology().state).collect::<Vec<_>>();
    let rest = MemberState::Secondary;
    wait_until("all have the set", || states() == [MemberState::Primary, rest, rest]);
    wait_for_voters(&servers, 3);
    (wires, servers)
}

#[test]
fn one_member_is_a_whole_set() {
    let wires = Wires(Arc::default());
    let server = Server::start(&wires, 0, Arc::default());
    assert_eq!(server.set.topology().state, MemberState::Startup);
    assert!(server.write(1, 1).is_err(), "nothing is logged before there is a set");
    block_on(server.set.initiate(config([member(0)]))).expect("a set");
    wait_until("it is primary", || server.set.is_writable());
    let again = block_on(server.set.initiate(config([member(0)])));
    assert_eq!(again.unwrap_err().code, ErrorCode::AlreadyInitialized);
    for value in 0..100 {
        let before = server.set.last_applied();
        server.write(1, value).expect("a write");
        assert!(server.set.last_applied() > before, "what is acknowledged is applied");
    }
    assert_eq!(server.latest(1), Some(Value::Int32(99)));
    block_on(server.set.read_barrier()).expect("it leads");
    let noted = block_on(server.set.append_note(doc! { "msg": "hello" }.to_buf())).expect("a note");
    // Every member would take it for the state of the set, now and after each restart.
    let forged = block_on(server.set.append_note(doc! { "config": {}, "numbers": {} }.to_buf()));
    assert_eq!(forged.unwrap_err().code, ErrorCode::BadValue);
    let long = doc! { "msg": ("x".repeat(storage::ENTRY_BYTES_MAX)) }.to_buf();
    assert_eq!(block_on(server.set.append_note(long)).unwrap_err().code, ErrorCode::BSONObjectTooLarge);
    block_on(server.set.replicated(noted, &Copies::Majority)).expect("a majority");
    block_on(server.set.replicated(noted, &Copies::Members(1))).expect("one member");

    let refused = block_on(server.set.step_down(Duration::ZERO, Duration::from_secs(60), false));
    assert_eq!(refused.unwrap_err().code, ErrorCode::ExceededTimeLimit);
    block_on(server.set.step_down(Duration::ZERO, Duration::from_secs(60), true)).expect("by force");
    assert_eq!(server.set.topology().state, MemberState::Secondary);
    assert!(server.write(1, 100).is_err(), "a secondary takes no writes");
    block_on(server.set.freeze(Duration::ZERO)).expect("a secondary");
    wait_until("it is primary again", || server.set.is_writable());
    let term = server.set.topology().term;

    let engine = Arc::clone(&server.engine);
    let last = server.set.last_applied();
    drop(server);
    let server = Server::start(&wires, 0, engine);
    wait_until("it is primary after a restart", || server.set.is_writable());
    assert!(server.set.topology().term > term);
    wait_until("it notes that it is primary", || server.set.last_applied() > last);
    assert_eq!(server.latest(1), Some(Value::Int32(99)));
}

#[test]
fn secondaries_follow_and_take_over() {
    let (_wires, servers) = three();
    for value in 0..50 {
        servers[0].write(1, value).expect("a write");
    }
    let optime = servers[0].set.last_applied();
    block_on(servers[0].set.replicated(optime, &Copies::Members(3))).expect("all three");
    for server in &servers[1..] {
        block_on(server.set.applied(optime.timestamp));
        assert_eq!(server.published(1), Some(Value::Int32(49)), "what is applied is shown");
        assert!(server.write(1, 0).is_err());
        assert!(block_on(server.set.read_barrier()).is_err());
    }
    wait_until("everybody hears of everybody", || {
        servers.iter().all(|server| server.set.members().iter().all(|status| status.health))
    });
    let frozen = Duration::from_secs(60);
    block_on(servers[0].set.step_down(Duration::from_secs(10), frozen, false)).expect("another one is there");
    wait_until("another one leads", || servers[1..].iter().any(|server| server.set.is_writable()));
    let next = servers.iter().find(|server| server.set.is_writable()).expect("a primary");
    next.write(1, 1_000).expect("a write");
    let optime = next.set.last_applied();
    for server in &servers {
        block_on(server.set.applied(optime.timestamp));
        wait_until("it is shown", || server.latest(1) == Some(Value::Int32(1_000)));
        let (topology, id) = (server.set.topology(), next.set.topology().own);
        assert_eq!(topology.primary, id, "everybody knows the primary");
    }
}

/// Until then a set goes on without those whose votes it does not need yet, and ends with those that it
/// needs.
fn wait_for_voters(servers: &[Server], count: usize) {
    wait_until("so many vote", || {
        let mut topologies = servers.iter().map(|server| server.set.topology());
        topologies.any(|topology| topology.is_writable && topology.voters == count)
    });
}

/// Gives the set these members, by its primary.
fn change_members(servers: &[Server], members: impl IntoIterator<Item = Document>) {
    let members: Vec<Value> = members.into_iter().map(Value::from).collect();
    wait_until("the members are these", || {
        let Some(primary) = servers.iter().find(|server| server.set.is_writable()) else { return false };
        let config = primary.set.topology().config.clone().expect("a configuration");
        let mut asked = config.to_document();
        asked.insert("version", config.version + 1);
        asked.insert("members", members.clone());
        let asked = ReplSetConfig::parse(asked.to_buf().as_raw()).expect("a configuration");
        match block_on(primary.set.reconfigure(asked, false)) {
            Ok(()) => true,
            // On a busy machine another one may lead by now.
            Err(error) if error.code == ErrorCode::NotWritablePrimary => false,
            Err(error) if error.code == ErrorCode::ConfigurationInProgress => false,
            Err(error) => panic!("{error:?}"),
        }
    });
}

/// Writes, and waits until so many members have it; on a busy machine another one may lead meanwhile.
fn write_to(servers: &[Server], value: i32, members: usize) {
    let mut latest = Ok(());
    wait_until("a write that so many members have", || {
        let Some(primary) = servers.iter().find(|server| server.set.is_writable()) else { return false };
        let written = primary.write(1, value).map_err(|error| error.to_string());
        let copied = written.and_then(|()| {
            let optime = primary.set.last_applied();
            let copied = block_on(primary.set.replicated(optime, &Copies::Members(members)));
            copied.map_err(|error| error.message)
        });
        if copied != latest {
            println!("{copied:?}");
            latest = copied;
        }
        latest.is_ok()
    });
}

#[test]
fn who_is_removed_and_added_again_keeps_its_data_and_votes() {
    let (wires, mut servers) = three();
    write_to(&servers, 1, 3);
    // Told of its removal or not, under its old `_id` or another one.
    for (round, (id, is_told)) in [(2, true), (2, false), (7, true), (7, false)].into_iter().enumerate() {
        let away = (!is_told).then(|| {
            servers[2].set.stop();
            Arc::clone(&servers[2].engine)
        });
        change_members(&servers, [0, 1].map(member));
        if is_told {
            wait_until("it is out", || servers[2].set.topology().state == MemberState::Removed);
        }
        let value = round as i32 * 10;
        write_to(&servers, value, 2);
        let again = doc! { "_id": id, "host": (host(2)) };
        change_members(&servers, [member(0), member(1), again]);
        if let Some(engine) = away {
            servers[2] = Server::start(&wires, 2, engine);
        }
        wait_until("it is back", || servers[2].set.topology().state == MemberState::Secondary);
        write_to(&servers, value + 1, 3);
        wait_until("it is shown", || servers[2].published(1) == Some(Value::Int32(value + 1)));
        wait_for_voters(&servers, 3);
    }
    // Its vote is needed now.
    servers.remove(0);
    write_to(&servers, 100, 2);
}

#[test]
fn an_empty_disk_comes_back_by_itself_and_votes() {
    let (wires, mut servers) = three();
    write_to(&servers, 1, 3);
    for place in [2, 1] {
        servers[place].set.stop();
        write_to(&servers, 2, 2);
        servers[place] = Server::start(&wires, place as i32, Arc::default());
        let server = &servers[place];
        wait_until("it follows", || server.set.topology().state == MemberState::Secondary);
        write_to(&servers, 10 + place as i32, 3);
        wait_until("it has all", || servers[place].published(1) == Some(Value::Int32(10 + place as i32)));
        wait_for_voters(&servers, 3);
    }
    // Nobody is left who has had a disk from the beginning on.
    servers.remove(0);
    write_to(&servers, 100, 2);
}

/// It would vote twice.
#[test]
fn a_directory_of_another_member_is_refused() {
    let (wires, servers) = three();
    write_to(&servers, 1, 3);
    servers.iter().for_each(|server| server.set.stop());
    let start = |hosts: Vec<String>| {
        let copied: Arc<dyn Engine> = Arc::clone(&servers[1].engine) as _;
        let store = Store::with_engine(copied, &StorageOptions::small()).expect("a store");
        let catalog = Catalog::open(store).expect("a catalog");
        let options = SetOptions::new("rs", hosts, 9);
        ReplicaSet::start(options, catalog, Arc::new(wires.clone())).map(|set| set.stop())
    };
    let refused = start(vec![host(2), "localhost:1".to_owned()]).expect_err("not its directory").to_string();
    assert!(refused.contains(&host(1)) && refused.contains(&host(2)), "{refused}");
    // Who is known to the set by a name that he does not know himself may be any member.
    start(vec!["elsewhere:1".to_owned()]).expect("a member");
    start(vec![host(1)]).expect("a member");
}

#[test]
fn who_was_removed_does_not_come_back_with_an_empty_disk() {
    let (wires, mut servers) = three();
    write_to(&servers, 1, 3);
    servers[2].set.stop();
    change_members(&servers, [0, 1].map(member));
    servers[2] = Server::start(&wires, 2, Arc::default());
    (0..100).for_each(|value| write_to(&servers, value, 2));
    assert_eq!(servers[2].set.topology().state, MemberState::Startup, "nobody has added it");
}

#[test]
fn who_alone_may_be_primary_comes_back_with_an_empty_disk() {
    let wires = Wires(Arc::default());
    let mut servers: Vec<Server> = (0..3).map(|id| Server::start(&wires, id, Arc::default())).collect();
    let never = with(member(1), doc! { "priority": 0 });
    let arbiter = with(member(2), doc! { "arbiterOnly": true });
    block_on(servers[0].set.initiate(patient([member(0), never, arbiter]))).expect("a set");
    wait_for_voters(&servers, 3);
    servers[0].write(1, 1).unwrap();
    servers[0].set.stop();
    servers[0] = Server::start(&wires, 0, Arc::default());
    wait_until("it is primary again", || servers[0].set.is_writable());
    wait_for_voters(&servers, 3);
    assert_eq!(servers[0].set.topology().config.as_ref().map(|config| config.members.len()), Some(3));
    servers[0].write(1, 2).unwrap();
    wait_until("the secondary has it", || servers[1].published(1) == Some(Value::Int32(2)));
}

#[test]
fn members_come_and_go_by_configuration() {
    let (wires, mut servers) = three();
    write_to(&servers, 1, 3);
    servers.push(Server::start(&wires, 3, Arc::default()));
    change_members(&servers, [0, 1, 2, 3].map(member));
    change_members(&servers, [0, 1, 3].map(member));
    let fourth = &servers[3];
    wait_until("the new one follows", || fourth.set.topology().state == MemberState::Secondary);
    wait_until("the old one is out", || servers[2].set.topology().state == MemberState::Removed);
    wait_for_voters(&servers, 3);
    write_to(&servers, 2, 3);
    wait_until("the new one shows it", || fourth.published(1) == Some(Value::Int32(2)));
    let shown = fourth.catalog.collection("local", "system.replset").expect("the configuration is shown");
    let view = fourth.catalog.store().read_view();
    let found = shown.get(&view, RawValue::String("rs"), ReadTier::Any).unwrap().expect("one of this set");
    let version = fourth.set.topology().config.clone().expect("a configuration").version;
    assert!(version >= 3, "{version}");
    assert_eq!(RawDocument::trusted(&found).to_document().get("version"), Some(&Value::from(version as i32)));
}

/// Whether something comes within a short time.
fn with(mut member: Document, more: Document) -> Document {
    member.extend(more);
    member
}

#[test]
fn an_arbiter_votes_without_data_and_hands_on_what_it_alone_has() {
    let wires = Wires(Arc::default());
    let servers: Vec<Server> = (0..3).map(|id| Server::start(&wires, id, Arc::default())).collect();
    let arbiter = with(member(2), doc! { "arbiterOnly": true });
    block_on(servers[0].set.initiate(patient([member(0), member(1), arbiter]))).expect("a set");
    wait_for_voters(&servers, 3);
    servers[0].write(1, 1).unwrap();
    wait_until("the secondary has it", || servers[1].published(1) == Some(Value::Int32(1)));
    let arbiter = &servers[2];
    wait_until("the arbiter knows what it is", || arbiter.set.topology().state == MemberState::Arbiter);
    // The secondary is away; the primary and the arbiter go on.
    wires.0.0.lock().unwrap().remove(&host(1));
    servers[0].write(1, 2).unwrap();
    assert!(
        !comes(servers[0].set.replicated(servers[0].set.last_applied(), &Copies::Members(2))),
        "it is no copy"
    );
    assert_eq!(block_on(arbiter.set.step_up()).unwrap_err().code, ErrorCode::CommandFailed);
    // Then the primary is gone, and the secondary is back: only the arbiter has the end of the log.
    wires.0.0.lock().unwrap().remove(&host(0));
    servers[0].set.stop();
    wires.0.0.lock().unwrap().insert(host(1), servers[1].set.clone());
    wait_until("the secondary leads", || servers[1].set.is_writable());
    assert_eq!(servers[1].latest(1), Some(Value::Int32(2)), "what was acknowledged is there");
    servers[1].write(1, 3).unwrap();
    assert_eq!(arbiter.latest(1), None, "the arbiter has no data");
    assert!(arbiter.catalog.collection("test", "c").is_none(), "nor the names of any");
}

/// The lines of the log that warn.
#[derive(Debug, Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    fn has(&self, message: &str) -> bool {
        self.0.lock().unwrap().iter().any(|line| line.contains(message))
    }
}

impl tracing::field::Visit for Warnings {
    fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.lock().unwrap().push(format!("{value:?}"));
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn an_arbiter_joins_behind_a_short_log_and_keeps_what_a_member_lacks() {
    const WRITES: i32 = 400;
    let warnings = Warnings::default();
    tracing::subscriber::set_global_default(warnings.clone()).expect("no other test reads the log");
    let wires = Wires(Arc::default());
    let start = |id| {
        let log = LogOptions { size_bytes: 16 << 10, ..LogOptions::default() };
        Server::start_with(&wires, id, Arc::default(), log)
    };
    let servers: Vec<Server> = (0..3).map(start).collect();
    let (primary, secondary, arbiter) = (&servers[0], &servers[1], &servers[2]);
    block_on(primary.set.initiate(patient([member(0), member(1)]))).expect("a set");
    wait_for_voters(&servers, 2);
    (0..WRITES).for_each(|value| primary.write(1, value).unwrap());
    let is_trimmed = || primary.logged() < WRITES as u64 / 2;
    wait_until("the beginning of the log is gone", is_trimmed);
    change_members(&servers, [member(0), member(1), with(member(2), doc! { "arbiterOnly": true })]);
    wait_for_voters(&servers, 3);
    assert_eq!(arbiter.set.topology().state, MemberState::Arbiter, "it knows the set, though not by the log");
    assert!(arbiter.logged() < WRITES as u64 / 2, "it has taken the primary's place");
    wires.0.0.lock().unwrap().remove(&host(1));
    (0..WRITES).for_each(|value| primary.write(1, value).unwrap());
    wait_until("the primary keeps no more than it has to", is_trimmed);
    wait_until("the arbiter would do the same, and warns", || warnings.has("this arbiter keeps the log"));
    wires.0.0.lock().unwrap().remove(&host(0));
    primary.set.stop();
    wires.0.0.lock().unwrap().insert(host(1), secondary.set.clone());
    wait_until("the secondary leads", || secondary.set.is_writable());
    assert_eq!(secondary.latest(1), Some(Value::Int32(WRITES - 1)), "what was acknowledged is there");
}

fn comes(future: impl Future) -> bool {
    let (mut future, began) = (std::pin::pin!(future), Instant::now());
    while began.elapsed() < Duration::from_millis(500) {
        if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn a_delayed_member_has_what_it_does_not_show() {
    let wires = Wires(Arc::default());
    let start = |id| Server::start(&wires, id, Arc::default());
    let (first, second, late) = (start(0), start(1), start(2));
    let config = |version: i32, delay: i32| {
        let mut delayed = member(2);
        delayed.extend(doc! { "priority": 0, "hidden": true, "secondaryDelaySecs": delay });
        let members: Vec<Value> = [member(0), member(1), delayed].map(Value::from).into();
        let settings = doc! { "heartbeatIntervalMillis": 50 };
        let config = doc! { "_id": "rs", "version": version, "members": members, "settings": settings };
        ReplSetConfig::parse(config.to_buf().as_raw()).expect("a configuration")
    };
    block_on(first.set.initiate(config(1, 3_600))).expect("a set");
    let are_there =
        || [&second, &late].iter().all(|server| server.set.topology().state == MemberState::Secondary);
    wait_until("all have the set", are_there);
    let votes = || first.set.topology().config.as_ref().is_some_and(|config| config.voters().count() == 3);
    wait_until("all vote", votes);

    first.write(1, 1).expect("a write");
    let optime = first.set.last_applied();
    wait_until("its disk has it", || late.set.last_durable() >= optime);
    assert!(comes(first.set.replicated(optime, &Copies::Members(2))));
    assert!(!comes(first.set.replicated(optime, &Copies::Members(3))), "what is not applied is no copy");
    assert_eq!((late.published(1), late.latest(1)), (None, None));
    assert!(late.set.last_applied() < optime);

    let engine = Arc::clone(&late.engine);
    drop(late);
    let late = Server::start(&wires, 2, engine);
    assert!(!comes(late.set.applied(optime.timestamp)), "a start is no reason to show it");
    assert_eq!(late.latest(1), None);

    let reconfigure = |version, delay| {
        block_on(first.set.reconfigure(config(version, delay), false)).expect("another delay");
    };
    reconfigure(2, 2);
    wait_until("the new delay is known at once, and over", || late.published(1) == Some(Value::Int32(1)));
    let began = Instant::now();
    first.write(1, 2).expect("a write");
    wait_until("it is shown", || late.published(1) == Some(Value::Int32(2)));
    assert!(began.elapsed() >= Duration::from_millis(900), "shown after {:?}", began.elapsed());
    reconfigure(3, 0);
    first.write(1, 3).expect("a write");
    let optime = first.set.last_applied();
    block_on(first.set.replicated(optime, &Copies::Members(3))).expect("all three");
}

#[test]
fn an_idle_primary_writes_so_that_times_go_on() {
    let (_wires, servers) = three();
    let before = servers[1].set.last_applied();
    // More than what an election leaves behind.
    wait_until("operations that change nothing", || {
        servers.iter().all(|server| server.set.last_applied().timestamp.time >= before.timestamp.time + 2)
    });
}

#[test]
fn secondaries_know_how_old_their_data_are_and_ask_for_the_present() {
    let (wires, servers) = three();
    for server in &servers {
        let staleness = || server.set.staleness().unwrap_or(Duration::MAX);
        wait_until("data that are fresh", || staleness() < Duration::from_secs(5));
    }
    let began = Instant::now();
    for value in 0..20 {
        servers[0].write(1, value).unwrap();
        for server in &servers {
            block_on(server.set.fresh(Duration::ZERO));
            let seen = if server.set.is_writable() { server.latest(1) } else { server.published(1) };
            assert_eq!(seen, Some(Value::Int32(value)), "acknowledged before it was asked for");
        }
    }
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "they wait for operations rather than for the primary"
    );
    wires.0.0.lock().unwrap().clear();
    std::thread::sleep(Duration::from_millis(300));
    for server in &servers {
        let staleness = server.set.staleness().expect("something is known");
        assert!(
            staleness >= Duration::from_millis(300),
            "nobody is heard, and the data are {staleness:?} old"
        );
    }
}

#[test]
fn a_member_without_a_vote_follows_a_secondary_until_that_is_gone() {
    const WRITES: i32 = 200;
    let wires = Wires(Arc::default());
    let mut servers: Vec<Server> = (0..4).map(|id| Server::start(&wires, id, Arc::default())).collect();
    let mut members: Vec<Value> = (0..3).map(|id| Value::from(member(id))).collect();
    let mut follower = member(3);
    follower.extend(doc! { "votes": 0, "priority": 0 });
    members.push(follower.into());
    let settings = doc! { "heartbeatIntervalMillis": 50, "electionTimeoutMillis": 500 };
    let config = doc! { "_id": "rs", "version": 1, "members": members, "settings": settings };
    let config = ReplSetConfig::parse(config.to_buf().as_raw()).expect("a configuration");
    block_on(servers[0].set.initiate(config)).expect("a set");
    wait_until("all follow", || {
        servers[1..].iter().all(|server| server.set.topology().state == MemberState::Secondary)
    });
    let write = |servers: &[Server], from: i32| {
        (from..from + WRITES).for_each(|value| servers[0].write(1, value).expect("a write"));
        let optime = servers[0].set.last_applied();
        wait_until("the follower has it", || servers[3].set.last_applied() >= optime);
        assert_eq!(servers[3].published(1), Some(Value::Int32(from + WRITES - 1)));
    };
    write(&servers, 0);
    let direct = wires.moved(0, 3);
    assert!(direct > wires.moved(1, 3), "the primary sends");

    // Who votes is not asked twice.
    servers[2].set.sync_from(1);
    servers[3].set.sync_from(1);
    wait_until("it follows the secondary", || servers[3].set.sync_source() == Some(1));
    wait_until("the primary withholds", || {
        wires.moved(0, 3);
        (0..20).for_each(|value| servers[0].write(2, value).expect("a write"));
        let moved = wires.moved(0, 3);
        moved < wires.moved(1, 3)
    });
    wires.moved(0, 3);
    write(&servers, 1_000);
    let (from_primary, from_secondary) = (wires.moved(0, 3), wires.moved(1, 3));
    assert!(from_primary * 4 < direct, "{from_primary} of {direct} bytes came from the primary");
    assert!(from_secondary * 4 > direct, "{from_secondary} of {direct} bytes came from the secondary");
    assert_eq!(servers[2].set.sync_source(), Some(0), "a voter follows the primary");
    let optime = servers[0].set.last_applied();
    assert!(comes(servers[0].set.replicated(optime, &Copies::Members(4))), "it counts as a copy");
    let told = servers[0].set.members();
    assert_eq!(told[0].sync_source, None);
    wait_until("the primary hears of it", || servers[0].set.members()[3].sync_source == Some(1));

    drop(servers.remove(1));
    wires.0.0.lock().unwrap().remove(&host(1));
    servers.insert(1, Server::start(&Wires(Arc::default()), 9, Arc::default()));
    write(&servers, 2_000);
    assert_eq!(servers[3].set.sync_source(), Some(0));
}
