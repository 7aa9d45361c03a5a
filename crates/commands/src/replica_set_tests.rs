//! Members of a set as clients meet them: in one process, joined by calls instead of connections.

use crate::server::DataNode;
use crate::testing::TestClient;
use catalog::Catalog;
use dispatch::ServiceContext;
use dispatch::concern::WriteConcern;
use dispatch::host::Host;
use dispatch::parameters::Parameters;
use document::{Document, DocumentBuf, Timestamp, Value, doc};
use hashbrown::HashMap;
use parking_lot::Mutex;
use replication::set::{ReplicaSet, SetOptions};
use replication::{Answer, PeerError, Peers};
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use storage::{StorageOptions, Store};

/// The members by their hosts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wires(Arc<Mutex<HashMap<String, ReplicaSet>>>);

impl Wires {
    fn member(&self, host: &str) -> Option<ReplicaSet> {
        self.0.lock().get(host).cloned()
    }
}

impl Peers for Wires {
    fn send(&self, host: &str, envelope: DocumentBuf) {
        if let Some(member) = self.member(host) {
            member.receive(envelope.as_raw()).expect("members send envelopes");
        }
    }

    fn ask(&self, host: &str, command: DocumentBuf, _: Duration) -> Answer {
        let answer = match self.member(host) {
            None => Err(PeerError::TimedOut { host: host.to_owned() }),
            Some(member) if command.as_raw().contains("_isSelf") => {
                Ok(doc! { "id": (member.instance()), "ok": 1.0 }.to_buf())
            }
            Some(member) => Ok(match member.heartbeat(command.as_raw()) {
                Ok(reply) => reply,
                Err(error) => doc! { "ok": 0, "errmsg": (error.message) }.to_buf(),
            }),
        };
        Box::pin(ready(answer))
    }
}

fn host(id: i32) -> String {
    format!("member{id}:1")
}

/// A member and a client of it.
pub(crate) struct Member {
    client: TestClient,
    pub(crate) set: ReplicaSet,
}

impl Member {
    fn start(wires: &Wires, id: i32) -> Self {
        let store = Store::in_memory(&StorageOptions::small()).expect("memory is to be had");
        let catalog = Catalog::open(store).expect("the store has a catalog");
        let options = SetOptions::new("rs", vec![host(id)], id as u64);
        let peers = Arc::new(wires.clone());
        let set = ReplicaSet::start(options, Arc::clone(&catalog), peers).expect("a member");
        wires.0.lock().insert(host(id), set.clone());
        let parameters = Parameters::default();
        let node = DataNode::new(catalog, &parameters).member_of(set.clone());
        let server = ServiceContext::new(node, Arc::new(parameters), Host::detached()).expect("threads");
        Member { client: TestClient::of(&server), set }
    }

    pub(crate) fn run(&self, command: Document) -> Document {
        self.client.run(command).0
    }

    #[track_caller]
    pub(crate) fn ok(&self, command: Document) -> Document {
        let reply = self.run(command);
        assert_eq!(reply.get("ok"), Some(&Value::Double(1.0)), "{reply:?}");
        reply
    }

    #[track_caller]
    pub(crate) fn admin(&self, mut command: Document) -> Document {
        command.push("$db", "admin");
        self.ok(command)
    }

    #[track_caller]
    pub(crate) fn fails(&self, mut command: Document, code: i32, message: &str) -> Document {
        let name = command.first().map(|(name, _)| name.to_owned()).unwrap_or_default();
        if name.starts_with("replSet") || name.ends_with("RWConcern") || name == "appendOplogNote" {
            command.push("$db", "admin");
        }
        let reply = self.run(command);
        assert_eq!(reply.get("code"), Some(&Value::Int32(code)), "{reply:?}");
        assert_eq!(reply.get("errmsg"), Some(&message.into()), "{reply:?}");
        reply
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.set.stop();
    }
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn inner<'d>(document: &'d Document, name: &str) -> &'d Document {
    match document.get(name) {
        Some(Value::Document(inner)) => inner,
        other => panic!("{name} is {other:?} in {document:?}"),
    }
}

pub(crate) fn operation_time(reply: &Document) -> Timestamp {
    match reply.get("operationTime") {
        Some(Value::Timestamp(time)) => *time,
        other => panic!("operationTime is {other:?} in {reply:?}"),
    }
}

/// The codes of a write concern that was not met; `None` where it was.
fn unmet(reply: &Document) -> Option<Value> {
    reply.contains("writeConcernError").then(|| inner(reply, "writeConcernError").get("code").cloned())?
}

fn note() -> Document {
    doc! { "appendOplogNote": 1, "data": { "msg": "a note" } }
}

pub(crate) fn with(mut command: Document, more: Document) -> Document {
    command.extend(more);
    command
}

pub(crate) fn one() -> (Wires, Member) {
    let wires = Wires::default();
    let member = Member::start(&wires, 0);
    member.admin(doc! { "replSetInitiate": {} });
    (wires, member)
}

pub(crate) fn three() -> (Wires, Vec<Member>) {
    three_that_wait(300)
}

/// So long without word of a primary.
pub(crate) fn three_that_wait(milliseconds: i32) -> (Wires, Vec<Member>) {
    let wires = Wires::default();
    let members: Vec<Member> = (0..3).map(|id| Member::start(&wires, id)).collect();
    let described = (0..3).map(|id| doc! { "_id": id, "host": (host(id)) }.into()).collect::<Vec<Value>>();
    let settings = doc! { "electionTimeoutMillis": milliseconds, "heartbeatIntervalMillis": 200 };
    let config = doc! { "_id": "rs", "members": described, "settings": settings };
    members[0].admin(doc! { "replSetInitiate": config });
    let state =
        |member: &Member| member.run(doc! { "replSetGetStatus": 1, "$db": "admin" }).get("myState").cloned();
    let expected = [1, 2, 2].map(|state| Some(Value::Int32(state)));
    wait_until("all have the set", || members.iter().map(state).eq(expected.clone()));
    (wires, members)
}

#[test]
fn before_there_is_a_set_a_member_says_so() {
    let member = Member::start(&Wires::default(), 0);
    let hello = member.ok(doc! { "hello": 1 });
    assert_eq!(hello.get("isreplicaset"), Some(&true.into()), "{hello:?}");
    assert_eq!(hello.get("isWritablePrimary"), Some(&false.into()), "{hello:?}");
    assert!(!hello.contains("$clusterTime") && !hello.contains("setName"), "{hello:?}");
    member.fails(doc! { "insert": "c", "documents": [{ "_id": 1 }] }, 10_107, "not primary");
    member.fails(doc! { "find": "c" }, 13_435, "not primary and secondaryOk=false");
    member.fails(doc! { "replSetGetStatus": 1 }, 94, "no replset config has been received");
    member.fails(doc! { "replSetGetConfig": 1 }, 94, "no replset config has been received");
    let message =
        "Attempting to initiate a replica set with name other, but command line reports rs; rejecting";
    let other = doc! { "_id": "other", "members": [{ "_id": 0, "host": (host(0)) }] };
    member.fails(doc! { "replSetInitiate": other }, 93, message);
    member.ok(doc! { "ping": 1 });
}

#[test]
fn one_member_is_a_whole_set() {
    let (_wires, member) = one();
    member.fails(doc! { "replSetInitiate": {} }, 23, "already initialized");
    let hello = member.ok(doc! { "hello": 1 });
    let own: Value = host(0).into();
    for name in ["me", "primary"] {
        assert_eq!(hello.get(name), Some(&own), "{name} in {hello:?}");
    }
    assert_eq!(hello.get("hosts"), doc! { "hosts": [(host(0))] }.get("hosts"), "{hello:?}");
    assert_eq!(hello.get("isWritablePrimary"), Some(&true.into()), "{hello:?}");
    assert!(hello.contains("electionId") && inner(&hello, "lastWrite").contains("majorityOpTime"));
    let before = operation_time(&hello);
    let noted = member.admin(note());
    assert!(operation_time(&noted) > before, "{noted:?}");
    assert_eq!(inner(&noted, "$clusterTime").get("clusterTime"), noted.get("operationTime"));
    let status = member.admin(doc! { "replSetGetStatus": 1 });
    assert_eq!(status.get("myState"), Some(&Value::Int32(1)));
    let config = member.admin(doc! { "replSetGetConfig": 1, "commitmentStatus": true });
    assert_eq!(config.get("commitmentStatus"), Some(&true.into()));
    let mut config = inner(&config, "config").clone();
    assert!(inner(&config, "settings").contains("replicaSetId"), "{config:?}");
    config.insert("version", 2);
    config.insert("settings", doc! { "heartbeatIntervalMillis": 500 });
    member.admin(doc! { "replSetReconfig": (config.clone()) });
    let changed = member.admin(doc! { "replSetGetConfig": 1 });
    let interval = inner(inner(&changed, "config"), "settings").get("heartbeatIntervalMillis").cloned();
    assert_eq!(interval, Some(Value::Int32(500)));
    let stale = member.run(doc! { "replSetReconfig": config, "$db": "admin" });
    assert_eq!(stale.get("code"), Some(&Value::Int32(103)), "{stale:?}");
    let gossip = |seconds: u32| {
        let time = Timestamp { time: operation_time(&changed).time + seconds, increment: 1 };
        doc! { "find": "c", "$clusterTime": { "clusterTime": time } }
    };
    member.ok(gossip(60));
    let told = member.ok(doc! { "ping": 1 });
    assert_ne!(inner(&told, "$clusterTime").get("clusterTime"), told.get("operationTime"), "{told:?}");
    let far = member.run(gossip(2 * 365 * 24 * 60 * 60));
    assert_eq!(far.get("code"), Some(&Value::Int32(205)), "{far:?}");
    let never = doc! { "afterClusterTime": (Timestamp { time: u32::MAX, increment: 1 }) };
    let never = member.run(doc! { "find": "c", "readConcern": never });
    assert_eq!(never.get("code"), Some(&Value::Int32(72)), "{never:?}");
    let repl = member.ok(doc! { "serverStatus": 1 });
    assert_eq!(inner(&repl, "repl").get("setName"), Some(&"rs".into()));
    assert_eq!(member.admin(doc! { "replSetGetRBID": 1 }).get("rbid"), Some(&Value::Int32(1)));
    member.fails(doc! { "reIndex": "c" }, 20, "reIndex is only allowed on a standalone mongod instance.");
}

#[test]
fn a_member_knows_itself_under_a_name_that_is_not_its_own() {
    let wires = Wires::default();
    let (member, other) = (Member::start(&wires, 0), Member::start(&wires, 1));
    wires.0.lock().insert("alias:7".to_owned(), member.set.clone());
    wires.0.lock().insert("elsewhere:7".to_owned(), other.set.clone());
    let config = |host: &str| {
        let members =
            [Value::from(doc! { "_id": 4, "host": host }), doc! { "_id": 5, "host": (self::host(1)) }.into()];
        doc! { "replSetInitiate": { "_id": "rs", "members": (members.to_vec()) } }
    };
    let message = "No host described in new configuration with {version: 1, term: -1} for replica set rs \
        maps to this node";
    member.fails(config("elsewhere:7"), 93, message);
    member.admin(config("alias:7"));
    let hello = member.ok(doc! { "hello": 1 });
    assert_eq!(hello.get("me"), Some(&"alias:7".into()), "{hello:?}");
}

#[test]
fn write_concerns_are_met_by_members_or_told() {
    let (_wires, members) = three();
    let primary = &members[0];
    let concern = |concern: Document| {
        let reply = primary.admin(with(note(), doc! { "writeConcern": concern }));
        unmet(&reply)
    };
    assert_eq!(concern(doc! { "w": "majority" }), None);
    assert_eq!(concern(doc! { "w": 3, "wtimeout": 20_000 }), None);
    assert_eq!(concern(doc! { "w": 4 }), Some(Value::Int32(100)));
    assert_eq!(concern(doc! { "w": "nowhere" }), Some(Value::Int32(79)));
    let default = doc! { "w": 3, "wtimeout": 50 };
    primary.admin(doc! { "setDefaultRWConcern": 1, "defaultWriteConcern": default });
    members[2].set.stop();
    assert_eq!(concern(doc! { "w": 3, "wtimeout": 50 }), Some(Value::Int32(64)));
    let reply = primary.admin(note());
    let used = inner(inner(&reply, "writeConcernError"), "errInfo").get("writeConcern").cloned();
    let expected = doc! { "w": 3, "wtimeout": 50, "provenance": "customDefault" };
    assert_eq!(used, Some(expected.into()), "{reply:?}");
    let reply = primary.admin(with(note(), doc! { "writeConcern": { "w": 2, "wtimeout": 20_000 } }));
    assert_eq!(unmet(&reply), None, "a majority is there");
}

#[test]
fn a_secondary_is_read_from_by_those_who_allow_it() {
    let (_wires, members) = three();
    let (primary, secondary) = (&members[0], &members[1]);
    let refused = secondary.fails(doc! { "insert": "c", "documents": [{ "_id": 1 }] }, 10_107, "not primary");
    assert!(refused.contains("topologyVersion"), "{refused:?}");
    secondary.fails(doc! { "find": "c" }, 13_435, "not primary and secondaryOk=false");
    let preferred = doc! { "$readPreference": { "mode": "secondaryPreferred" } };
    secondary.ok(with(doc! { "find": "c" }, preferred.clone()));
    secondary.ok(doc! { "find": "oplog.rs", "$db": "local" });
    let hello = secondary.ok(doc! { "hello": 1 });
    assert_eq!(hello.get("secondary"), Some(&true.into()), "{hello:?}");
    assert_eq!(hello.get("primary"), Some(&host(0).into()), "{hello:?}");
    assert!(!hello.contains("electionId"), "{hello:?}");
    let noted = primary.admin(note());
    let after = doc! { "readConcern": { "afterClusterTime": (operation_time(&noted)) } };
    let gossip = doc! { "$clusterTime": (inner(&noted, "$clusterTime").clone()) };
    let read = secondary.ok(with(with(doc! { "find": "c" }, preferred.clone()), with(after, gossip)));
    assert!(operation_time(&read) >= operation_time(&noted), "{read:?}");
    let read =
        with(with(doc! { "find": "c" }, preferred), doc! { "readConcern": { "level": "linearizable" } });
    secondary.fails(read.clone(), 10_107, "cannot satisfy linearizable read concern on non-primary node");
    primary.ok(read);
    secondary.fails(doc! { "replSetStepDown": 10 }, 10_107, "not primary so can't step down");
}

#[test]
fn a_planned_step_down_is_told_to_who_waits_for_it() {
    let (_wires, members) = three();
    let hello = members[0].ok(doc! { "hello": 1 });
    let version = inner(&hello, "topologyVersion").clone();
    std::thread::scope(|threads| {
        let monitor = TestClient::of(&members[0].client.server);
        let told = threads.spawn(move || {
            let hello = doc! { "hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 30_000 };
            monitor.run(hello).0
        });
        members[0].admin(doc! { "replSetStepDown": 20, "secondaryCatchUpPeriodSecs": 10 });
        let told = told.join().expect("a reply");
        assert_eq!(told.get("ok"), Some(&Value::Double(1.0)), "{told:?}");
    });
    wait_until("another one is primary", || members[1..].iter().any(|member| member.set.is_writable()));
    assert!(!members[0].set.is_writable());
    members[0].fails(doc! { "insert": "c", "documents": [{ "_id": 1 }] }, 10_107, "not primary");
}

#[test]
fn an_arbiter_is_what_clients_know_one_by() {
    let wires = Wires::default();
    let members: Vec<Member> = (0..3).map(|id| Member::start(&wires, id)).collect();
    let described = (0..3).map(|id| doc! { "_id": id, "host": (host(id)), "arbiterOnly": (id == 2) }.into());
    let config = doc! { "_id": "rs", "members": (described.collect::<Vec<Value>>()) };
    members[0].admin(doc! { "replSetInitiate": config });
    let (primary, arbiter) = (&members[0], &members[2]);
    wait_until("there is an arbiter", || {
        let status = arbiter.run(doc! { "replSetGetStatus": 1, "$db": "admin" });
        status.get("myState") == Some(&Value::Int32(7))
    });
    let hello = arbiter.ok(doc! { "hello": 1 });
    assert_eq!(hello.get("arbiterOnly"), Some(&true.into()), "{hello:?}");
    assert_eq!(hello.get("secondary"), Some(&false.into()), "{hello:?}");
    assert_eq!(hello.get("arbiters"), doc! { "arbiters": [(host(2))] }.get("arbiters"), "{hello:?}");
    assert_eq!(hello.get("hosts"), doc! { "hosts": [(host(0)), (host(1))] }.get("hosts"), "{hello:?}");
    assert!(!hello.contains("passives") && !hello.contains("passive"), "{hello:?}");
    arbiter.fails(doc! { "insert": "c", "documents": [{ "_id": 1 }] }, 10_107, "not primary");
    let read = arbiter.run(preferred(doc! { "find": "c" }));
    assert_eq!(read.get("code"), Some(&Value::Int32(13_436)), "{read:?}");
    arbiter.fails(doc! { "replSetMaintenance": true }, 95, "arbiters can't modify maintenance mode");
    arbiter.fails(doc! { "replSetSyncFrom": (host(1)) }, 95, "arbiters don't sync");
    wait_until("all vote", || {
        let status = primary.admin(doc! { "replSetGetStatus": 1 });
        status.get("votingMembersCount") == Some(&Value::Int32(3))
    });
    let status = primary.admin(doc! { "replSetGetStatus": 1 });
    assert_eq!(status.get("writableVotingMembersCount"), Some(&Value::Int32(2)), "{status:?}");
    assert_eq!(status.get("writeMajorityCount"), Some(&Value::Int32(2)), "{status:?}");
    let unmet_of =
        |w: i32| unmet(&primary.admin(with(note(), doc! { "writeConcern": { "w": w, "wtimeout": 60_000 } })));
    assert_eq!((unmet_of(2), unmet_of(3)), (None, Some(Value::Int32(100))), "two have data");
}

#[test]
fn default_concerns_are_told_and_kept() {
    let (_wires, member) = one();
    let defaults = member.admin(doc! { "getDefaultRWConcern": 1 });
    assert_eq!(inner(&defaults, "defaultWriteConcern").get("w"), Some(&"majority".into()));
    assert_eq!(defaults.get("defaultWriteConcernSource"), Some(&"implicit".into()));
    let set = |concern: Document| doc! { "setDefaultRWConcern": 1, "defaultWriteConcern": concern };
    member.fails(set(doc! { "w": 2 }), 100, "Not enough data-bearing nodes");
    member.fails(set(doc! { "w": 0 }), 2, "'w: 0' is not suitable for the default write concern");
    member.admin(set(doc! { "w": 1, "wtimeout": 7 }));
    let defaults = member.admin(doc! { "getDefaultRWConcern": 1 });
    assert_eq!(inner(&defaults, "defaultWriteConcern"), &doc! { "w": 1, "wtimeout": 7 });
    assert_eq!(defaults.get("defaultWriteConcernSource"), Some(&"global".into()));
    let message = "The global default write concern cannot be unset once it is set.";
    member.fails(set(doc! {}), 20, message);
    // As a member that becomes primary: it knows of the document only.
    let server = &member.client.server;
    let own = server.node.member.as_ref().expect("a member");
    own.set_default(None);
    pollster::block_on(crate::prepare_replicated(server)).expect("it is the primary");
    let completed = own.complete(WriteConcern::default());
    let expected = doc! { "w": 1, "wtimeout": 7, "provenance": "customDefault" };
    assert_eq!(completed.to_document(), expected);
}

#[test]
fn the_oplog_is_resized() {
    let (_wires, member) = one();
    let resize = |more: Document| with(doc! { "replSetResizeOplog": 1 }, more);
    member.fails(
        resize(doc! { "size": 10.0 }),
        51_024,
        "BSON field 'size' value must be >= 990, actual value '10'",
    );
    member.admin(resize(doc! { "size": 2000.0, "minRetentionHours": 1.5 }));
    let oplog = member.set.oplog().expect("an oplog");
    assert_eq!((oplog.size_bytes(), oplog.retention()), (2000 << 20, Some(Duration::from_secs(5400))));
}

#[test]
fn documents_are_hashed_whatever_the_order_of_their_coming() {
    let hash = |ids: [i32; 3]| {
        let client = TestClient::of(&crate::testing::server());
        for id in ids {
            client.run(doc! { "insert": "c", "documents": [{ "_id": id, "a": "x" }] });
        }
        client.run(doc! { "insert": "other", "documents": [{ "_id": 1 }] });
        client.run(doc! { "dbHash": 1 }).0
    };
    let (one, same, other) = (hash([1, 2, 3]), hash([3, 1, 2]), hash([1, 2, 4]));
    assert_eq!(inner(&one, "collections"), inner(&same, "collections"));
    assert_eq!(one.get("md5"), same.get("md5"));
    assert_ne!(one.get("md5"), other.get("md5"));
    assert_eq!(inner(&one, "collections").get("other"), inner(&other, "collections").get("other"));
    // The hash of the bytes of `{ _id: 1 }`.
    assert_eq!(inner(&one, "collections").get("other"), Some(&ONE_DOCUMENT.into()));
}

const ONE_DOCUMENT: &str = "ac31f467545a7db3022b1c5083a9a0a0";

/// On a secondary.
pub(crate) fn preferred(command: Document) -> Document {
    with(command, doc! { "$readPreference": { "mode": "secondaryPreferred" } })
}

/// Documents in a find's or an aggregation's first batch, or in a later one.
#[track_caller]
fn found(reply: &Document) -> usize {
    let cursor = inner(reply, "cursor");
    match cursor.get("firstBatch").or_else(|| cursor.get("nextBatch")) {
        Some(Value::Array(batch)) => batch.len(),
        other => panic!("{other:?} in {reply:?}"),
    }
}

fn insert(ids: std::ops::Range<i32>) -> Document {
    let documents: Vec<Value> = ids.map(|id| doc! { "_id": id, "a": (id % 2) }.into()).collect();
    doc! { "insert": "c", "documents": documents }
}

/// Holds back the batches of a member while they are ready and this says so, or for so long that a test has
/// failed.
fn pause(member: &Member, is_meant: impl Fn() -> bool + Send + Sync + 'static) -> Arc<AtomicBool> {
    let paused = Arc::new(AtomicBool::new(true));
    let (flag, began) = (Arc::clone(&paused), Instant::now());
    let holds = move || flag.load(Ordering::Acquire) && began.elapsed() < Duration::from_secs(60);
    member.set.pause_batches_while(move || holds() && is_meant());
    paused
}

#[test]
fn no_read_waits_for_a_batch_and_all_see_the_last_whole_one() {
    let (_wires, members) = three();
    let (primary, secondary) = (&members[0], &members[1]);
    primary.ok(insert(0..10));
    let everything = || preferred(doc! { "find": "c", "batchSize": 100 });
    wait_until("ten are seen", || found(&secondary.ok(everything())) == 10);
    let hash = || doc! { "dbHash": 1, "collections": ["c"] };
    let hashed = primary.ok(hash()).get("md5").cloned();
    let opened = secondary.ok(preferred(doc! { "find": "c", "batchSize": 4 }));
    let cursor = inner(&opened, "cursor").get("id").cloned().expect("a cursor");
    let paused = pause(secondary, || true);
    let began = Instant::now();
    primary.ok(insert(10..20));
    let collection = secondary.client.server.node.catalog.collection("test", "c").expect("a collection");
    wait_until("the batch is in the data", || collection.document_count() == 20);

    let secondary_finds = |command: Document| found(&secondary.ok(preferred(command)));
    assert_eq!(secondary_finds(doc! { "find": "c", "batchSize": 100 }), 10, "a scan");
    assert_eq!(secondary_finds(doc! { "find": "c", "filter": { "_id": 15 } }), 0, "a look-up");
    assert_eq!(secondary_finds(doc! { "find": "c", "filter": { "_id": { "$gte": 5 } } }), 5, "a range");
    let rest = secondary.ok(doc! { "getMore": cursor, "collection": "c" });
    assert_eq!(found(&rest), 6, "a cursor goes on");
    let pipeline = |stage: Document| doc! { "aggregate": "c", "pipeline": [stage], "cursor": {} };
    assert_eq!(secondary_finds(pipeline(doc! { "$match": {} })), 10, "a pipeline");
    let lookup = doc! { "from": "c", "localField": "a", "foreignField": "_id", "as": "other" };
    assert_eq!(secondary_finds(pipeline(doc! { "$lookup": lookup })), 10, "a join");
    for filter in [doc! {}, doc! { "_id": { "$gte": 0 } }] {
        let counted = secondary.ok(preferred(doc! { "count": "c", "query": filter }));
        assert_eq!(counted.get("n"), Some(&Value::Int32(10)), "{counted:?}");
    }
    let distinct = secondary.ok(preferred(doc! { "distinct": "c", "key": "_id" }));
    assert!(
        matches!(distinct.get("values"), Some(Value::Array(values)) if values.len() == 10),
        "{distinct:?}"
    );
    let hash = secondary.ok(preferred(hash()));
    assert_eq!(hash.get("md5").cloned(), hashed, "{hash:?}");
    for command in [
        doc! { "listCollections": 1 },
        doc! { "listIndexes": "c" },
        doc! { "collStats": "c" },
        doc! { "dbStats": 1 },
        doc! { "validate": "c" },
        doc! { "explain": { "find": "c" } },
        doc! { "serverStatus": 1 },
    ] {
        secondary.ok(preferred(command));
    }
    // It tells what is applied and shown only.
    let last = doc! { "find": "oplog.rs", "sort": { "$natural": -1 }, "limit": 1, "$db": "local" };
    let last = format!("{:?}", secondary.ok(last));
    assert!(!last.contains("Int32(15)"), "{last}");
    secondary.admin(doc! { "replSetGetStatus": 1 });
    assert!(began.elapsed() < Duration::from_secs(20), "the batch was not held meanwhile");

    paused.store(false, Ordering::Release);
    wait_until("the batch is seen", || found(&secondary.ok(everything())) == 20);
    let applied = secondary.set.batches();
    assert!(applied.batches > 1 && applied.operations > 1, "{applied:?}");
}

#[test]
fn an_index_serves_a_secondary_when_its_view_has_it() {
    let (_wires, members) = three();
    let (primary, secondary) = (&members[0], &members[1]);
    primary.ok(insert(0..10));
    let filtered = || preferred(doc! { "find": "c", "filter": { "a": 1 } });
    wait_until("all are seen", || found(&secondary.ok(filtered())) == 5);
    let collection = secondary.client.server.node.catalog.collection("test", "c").expect("a collection");
    let is_complete = {
        let collection = Arc::clone(&collection);
        move || collection.definition().index("a_1").is_some_and(|index| index.is_ready())
    };
    let paused = pause(secondary, is_complete.clone());
    primary.ok(doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a_1" }] });
    wait_until("the index is complete", is_complete);
    assert_eq!(found(&secondary.ok(filtered())), 5, "the view has no entries of the index");
    let hinted = with(filtered(), doc! { "hint": "a_1" });
    let distinct = preferred(doc! { "distinct": "c", "key": "a" });
    let distinct = secondary.ok(distinct);
    assert!(
        matches!(distinct.get("values"), Some(Value::Array(values)) if values.len() == 2),
        "{distinct:?}"
    );
    assert_eq!(secondary.run(hinted.clone()).get("code"), Some(&Value::Int32(2)), "not there yet");
    paused.store(false, Ordering::Release);
    wait_until("it is used", || secondary.run(hinted.clone()).contains("cursor"));
    assert_eq!(found(&secondary.ok(hinted)), 5);
}

#[test]
fn a_cursor_that_waits_for_its_client_keeps_no_view() {
    let (_wires, members) = three();
    let (primary, secondary) = (&members[0], &members[1]);
    // What is kept of the past is not meant.
    secondary.set.set_history_window(Duration::ZERO);
    primary.ok(insert(0..10));
    let all = || found(&secondary.ok(preferred(doc! { "find": "c", "batchSize": 100 })));
    wait_until("all are seen", || all() == 10);
    let pipeline = doc! { "aggregate": "c", "pipeline": [{ "$match": {} }], "cursor": { "batchSize": 2 } };
    let mut cursors = Vec::new();
    for command in [doc! { "find": "c", "batchSize": 2 }, pipeline] {
        let opened = secondary.ok(preferred(command));
        cursors.push(inner(&opened, "cursor").get("id").cloned().expect("a cursor"));
    }
    primary.ok(insert(10..20));
    wait_until("a later view is published", || all() == 20);
    let kept = || secondary.client.server.node.store.statistics().engine.snapshots;
    wait_until("only the published view is kept", || kept() <= 1);
    for cursor in cursors {
        let rest = secondary.ok(doc! { "getMore": cursor, "collection": "c" });
        assert_eq!(found(&rest), 18, "it goes on in what is shown now");
    }
}

#[test]
fn maintenance_ends_as_often_as_it_was_begun() {
    let (_wires, members) = three();
    let (primary, secondary) = (&members[0], &members[1]);
    let state = || secondary.admin(doc! { "replSetGetStatus": 1 }).get("myState").cloned();
    primary.fails(doc! { "replSetMaintenance": true }, 95, "primaries can't modify maintenance mode");
    secondary.fails(doc! { "replSetMaintenance": false }, 96, "already out of maintenance mode");
    secondary.admin(doc! { "replSetMaintenance": true });
    secondary.admin(doc! { "replSetMaintenance": 1 });
    assert_eq!(state(), Some(Value::Int32(3)), "told when it has taken effect");
    let told = secondary.admin(doc! { "replSetGetStatus": 1 });
    let own = format!("{:?}", told.get("members"));
    assert!(own.contains("maintenanceMode"), "{own}");
    secondary.admin(doc! { "replSetMaintenance": false });
    assert_eq!(state(), Some(Value::Int32(3)), "begun twice, ended once");
    secondary.admin(doc! { "replSetMaintenance": false });
    assert_eq!(state(), Some(Value::Int32(2)));
}
