//! Every wait of a command ends by `killOp` and by its time limit; what is answered so has not been done.

use crate::testing::{TestClient, TestMember, server_on};
use document::{Document, Value, doc};
use parking_lot::Mutex;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::thread::sleep;
use std::time::{Duration, Instant};
use storage::{
    Engine, EngineCursor, EngineFailure, EngineHooks, HookedEngine, Keyspace, MemoryEngine, Pressure,
    ReadTier, StorageError, StorageOptions, Store, WriteUnit,
};

/// How long a test waits for what has to come.
const LONG: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Held {
    stalled: AtomicBool,
    /// While somebody has it, walks over documents stand still.
    walks: Mutex<()>,
    /// The same for syncs of the journal.
    syncs: Mutex<()>,
}

impl EngineHooks for Held {
    fn sync_journal(&self, memory: &MemoryEngine, alone: bool) -> Result<(), EngineFailure> {
        drop(self.syncs.lock());
        memory.sync_journal(alone)
    }

    fn pressure(&self) -> Pressure {
        Pressure { engine_stalled: self.stalled.load(Ordering::SeqCst), ..Pressure::default() }
    }

    fn before_next(
        &self,
        _cursor: &mut dyn EngineCursor,
        keyspace: Keyspace,
        _tier: ReadTier,
    ) -> Result<(), StorageError> {
        if keyspace == Keyspace::Documents {
            drop(self.walks.lock());
        }
        Ok(())
    }
}

/// What holds the commands up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// The gate of the store.
    Gate,
    /// The gate of the proposals.
    Window,
    /// Another one's index build, which stands still.
    Build,
}

struct Scene {
    client: TestClient,
    held: Arc<Held>,
    member: Option<TestMember>,
}

#[track_caller]
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        sleep(Duration::from_millis(1));
    }
}

impl Scene {
    fn new(by: By) -> Self {
        let held = Arc::<Held>::default();
        let member = (by == By::Window).then(TestMember::new);
        let server = match &member {
            Some(member) => Arc::clone(&member.server),
            None => {
                let engine = HookedEngine::new(MemoryEngine::new(), Arc::clone(&held));
                let store = Store::with_engine(Arc::new(engine), &StorageOptions::small());
                server_on(store.expect("memory is to be had"))
            }
        };
        let client = TestClient::of(&server);
        for command in [
            doc! { "createIndexes": "c", "indexes": [{ "key": { "u": 1 }, "name": "u", "unique": true }] },
            doc! { "insert": "c", "documents": [{ "_id": 0, "a": 0, "u": 0 }, { "_id": 1, "a": 1, "u": 1 }] },
        ] {
            assert_eq!(client.run(command).0.get("ok"), Some(&Value::Double(1.0)));
        }
        Scene { client, held, member }
    }

    fn store(&self) -> &Store {
        &self.client.server.node.store
    }

    fn close_gate(&self) {
        self.held.stalled.store(true, Ordering::SeqCst);
        eventually("the gate is closed", || {
            let mut unit = WriteUnit::new();
            unit.put(Keyspace::Internal, b"something", b"written");
            // Dropped at once: at the closed gate it is taken back.
            let _ = pin!(self.store().commit(unit)).poll(&mut Context::from_waker(Waker::noop()));
            self.store().statistics().commit.gate == "closed"
        });
    }

    fn hold(&self, by: By, is_held: bool) {
        match by {
            By::Gate if is_held => self.close_gate(),
            By::Gate => self.held.stalled.store(false, Ordering::SeqCst),
            By::Window => self.member.as_ref().expect("made for it").hold(is_held),
            By::Build => {}
        }
    }

    /// Whether somebody waits where it is held.
    fn holds(&self, by: By) -> bool {
        match by {
            By::Gate => self.store().statistics().commit.gate_waiting > 0,
            By::Window => !self.store().held_proposals().connections.is_empty(),
            By::Build => {
                let collection = self.client.server.node.catalog.collection("test", "c");
                collection.is_some_and(|collection| !collection.builds().is_empty())
            }
        }
    }

    /// What clients see of the data.
    fn state(&self) -> Vec<Option<Document>> {
        let commands = [
            doc! { "find": "c", "sort": { "_id": 1 } },
            doc! { "listIndexes": "c" },
            doc! { "listCollections": 1, "nameOnly": true },
        ];
        let batch = |command| self.client.run(command).0.get("cursor")?.as_document().cloned();
        commands
            .into_iter()
            .map(batch)
            .map(|cursor| {
                let mut cursor = cursor?;
                cursor.remove("id");
                Some(cursor)
            })
            .collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Killed,
    TooLate,
}

/// Runs a command until it has ended so.
fn end(server: &Arc<crate::server::ServiceContext>, mut command: Document, how: How) -> Option<Document> {
    let client = TestClient::of(server);
    server.opened(Arc::clone(&client.client));
    if how == How::TooLate {
        command.push("maxTimeMS", 30);
    }
    let running = Arc::clone(&client.client);
    let waiting = std::thread::spawn(move || client.run(command).0);
    let deadline = Instant::now() + LONG;
    while !waiting.is_finished() && Instant::now() < deadline {
        sleep(Duration::from_millis(20));
        if let Some(operation) = running.operation().filter(|_| how == How::Killed) {
            TestClient::of(server).run(doc! { "killOp": 1, "op": (operation.id), "$db": "admin" });
        }
    }
    waiting.is_finished().then(|| waiting.join().expect("it answers"))
}

/// `waits` waits behind `first`, which waits by itself, or by itself, and ends.
fn check(by: By, first: Option<Document>, waits: Document) {
    let expected = {
        let scene = Scene::new(by);
        first.iter().for_each(|first| _ = scene.client.run(first.clone()));
        scene.state()
    };
    for how in [How::Killed, How::TooLate] {
        let scene = Scene::new(by);
        let walks = (by == By::Build).then(|| scene.held.walks.lock());
        scene.hold(by, true);
        let first = first.clone().map(|first| {
            let other = TestClient::of(&scene.client.server);
            let running = std::thread::spawn(move || other.run(first).0);
            eventually("the first one waits", || scene.holds(by));
            running
        });
        let ended = end(&scene.client.server, waits.clone(), how);
        scene.hold(by, false);
        drop(walks);
        let reply = ended.unwrap_or_else(|| panic!("{how:?}, it goes on: {waits:?} {by:?}"));
        let code = if how == How::Killed { 11_601 } else { 50 };
        assert_eq!(reply.get("code"), Some(&Value::Int32(code)), "{how:?} {waits:?} {by:?}: {reply:?}");
        if let Some(first) = first {
            let reply = first.join().expect("it answers");
            assert_eq!(reply.get("ok"), Some(&Value::Double(1.0)), "{reply:?} before {waits:?}");
        }
        assert_eq!(scene.state(), expected, "{how:?} {waits:?} {by:?}");
    }
}

fn insert(collection: &str, document: Document) -> Document {
    doc! { "insert": collection, "documents": [document] }
}

fn index(field: &str) -> Document {
    doc! { "createIndexes": "c", "indexes": [{ "key": { field: 1 }, "name": field }] }
}

fn update(filter: Document, change: Document) -> Document {
    doc! { "update": "c", "updates": [{ "q": filter, "u": change, "multi": true, "upsert": false }] }
}

/// One of each kind that writes.
fn writes() -> Vec<Document> {
    vec![
        insert("c", doc! { "_id": 9 }),
        insert("new", doc! { "_id": 9 }),
        update(doc! { "_id": 0 }, doc! { "$inc": { "a": 1 } }),
        update(doc! {}, doc! { "$inc": { "a": 1 } }),
        update(doc! { "_id": 0 }, doc! { "$set": { "u": 5 } }),
        doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0 }] },
        doc! { "findAndModify": "c", "query": { "a": 1 }, "update": { "$set": { "a": 2 } } },
        doc! { "aggregate": "c", "pipeline": [{ "$set": { "a": 7 } }, { "$merge": "c" }], "cursor": {} },
        index("a"),
        doc! { "dropIndexes": "c", "index": "u" },
        doc! { "create": "new" },
        doc! { "drop": "c" },
        doc! { "dropDatabase": 1 },
        doc! { "collMod": "c", "validator": { "a": 1 } },
        doc! { "renameCollection": "test.c", "to": "test.d", "$db": "admin" },
    ]
}

#[test]
fn commits_at_the_gate_of_the_store_are_taken_back() {
    writes().into_iter().for_each(|write| check(By::Gate, None, write));
}

#[test]
fn commits_in_front_of_the_proposals_are_taken_back() {
    writes().into_iter().for_each(|write| check(By::Window, None, write));
}

#[test]
fn nobody_waits_longer_for_a_latch() {
    let of_document = insert("c", doc! { "_id": 7, "u": 7 });
    for waits in [
        insert("c", doc! { "_id": 7 }),
        insert("c", doc! { "_id": 8, "u": 7 }),
        update(doc! { "_id": 7 }, doc! { "$set": { "b": 1 } }),
        update(doc! { "_id": 0 }, doc! { "$set": { "u": 7 } }),
        index("a"),
        doc! { "reIndex": "c" },
        doc! { "drop": "c" },
        doc! { "collMod": "c", "validator": { "a": 1 } },
        doc! { "validate": "c" },
    ] {
        check(By::Gate, Some(of_document.clone()), waits);
    }
    let of_catalog = doc! { "create": "b" };
    for waits in [
        insert("new", doc! { "_id": 1 }),
        doc! { "create": "new" },
        index("a"),
        doc! { "drop": "c" },
        doc! { "aggregate": "c", "pipeline": [{ "$out": "new" }], "cursor": {} },
    ] {
        check(By::Gate, Some(of_catalog.clone()), waits);
    }
}

#[test]
fn nobody_waits_longer_for_the_build_of_another_one() {
    check(By::Build, Some(index("a")), index("a"));
}

#[test]
fn an_index_build_at_the_gate_ends_and_leaves_nothing() {
    for how in [How::Killed, How::TooLate] {
        let scene = Scene::new(By::Gate);
        let before = scene.state();
        let walks = scene.held.walks.lock();
        let server = Arc::clone(&scene.client.server);
        let building = std::thread::spawn(move || end(&server, index("a"), how));
        eventually("the build has begun", || scene.holds(By::Build));
        scene.close_gate();
        drop(walks);
        let reply = building.join().expect("it answers");
        assert_eq!(scene.store().statistics().commit.gate, "closed", "nobody has opened it");
        scene.hold(By::Gate, false);
        let reply = reply.unwrap_or_else(|| panic!("{how:?}: it goes on"));
        let code = if how == How::Killed { 11_601 } else { 50 };
        assert_eq!(reply.get("code"), Some(&Value::Int32(code)), "{how:?}: {reply:?}");
        assert_eq!(scene.state(), before, "{how:?}");
    }
}

#[test]
fn what_is_written_and_not_synced_is_told_as_written() {
    for how in [How::Killed, How::TooLate] {
        let scene = Scene::new(By::Gate);
        let syncs = scene.held.syncs.lock();
        let journaled = |document| {
            let mut command = insert("c", document);
            command.push("writeConcern", doc! { "w": 1, "j": true });
            command
        };
        // It leads the sync.
        let first = TestClient::of(&scene.client.server);
        let first = std::thread::spawn(move || first.run(journaled(doc! { "_id": 8, "u": 8 })).0);
        eventually("the first one is written", || {
            let count = scene.client.run(doc! { "count": "c" }).0;
            count.get("n") == Some(&Value::Int32(3))
        });
        let reply = end(&scene.client.server, journaled(doc! { "_id": 9, "u": 9 }), how);
        drop(syncs);
        let reply = reply.unwrap_or_else(|| panic!("{how:?}: it goes on"));
        assert_eq!(reply.get("n"), Some(&Value::Int32(1)), "{how:?}: {reply:?}");
        let unmet = reply.get("writeConcernError").and_then(Value::as_document);
        let code = if how == How::Killed { 11_601 } else { 50 };
        assert_eq!(unmet.and_then(|unmet| unmet.get("code")), Some(&Value::Int32(code)), "{reply:?}");
        assert!(!first.join().expect("it answers").contains("writeConcernError"));
    }
}
