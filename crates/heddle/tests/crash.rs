//! Durability promise, tested from outside: several clients write with acknowledgement, the server is killed
//! with SIGKILL at a random moment and started again, many times over the same directory. Afterwards every
//! acknowledged write is there, a write without acknowledgement is there whole or not at all, and every index
//! agrees with its documents.

mod support;

use bench::CommandClient;
use document::{Document, Value, doc};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::{ServerProcess, all, is_ok, number, run};

const DATABASE: &str = "crash";
const COLLECTION: &str = "documents";
const CLIENTS: i64 = 6;
const ROUNDS: u64 = 24;
/// Ids of one client; few enough that inserts, updates and deletes meet again and again.
const IDS: i64 = 150;

/// What one client knows: each id's document when it exists, and the writes that were under way when the
/// server died.
struct Client {
    number: i64,
    random: Rng,
    /// Acknowledged state.
    known: BTreeMap<i64, Document>,
    /// For each id of an unacknowledged write: what may be there instead (`None`: no document).
    possible: BTreeMap<i64, Option<Document>>,
    acknowledged: u64,
}

/// Commits take different ways under the thread models: each has its turn.
fn executor_of(round: u64) -> [&'static str; 2] {
    let models = ["reactor", "synchronous", "coroutine", "adaptive"];
    let model = models.get(round as usize % models.len()).copied().unwrap_or_default();
    ["--serviceExecutor", model]
}

impl Client {
    fn new(number: i64, seed: u64) -> Self {
        let random = Rng::with_seed(seed ^ (number as u64) << 32);
        Client { number, random, known: BTreeMap::new(), possible: BTreeMap::new(), acknowledged: 0 }
    }

    /// Half of the clients ask for the journal.
    fn write_concern(&self) -> Document {
        doc! { "w": 1, "j": (self.number % 2 == 0) }
    }

    fn document(&mut self, id: i64) -> Document {
        let version = self.random.u64(..1 << 40) as i64;
        let list: Vec<Value> =
            (0..self.random.u64(..4)).map(|_| Value::Int64(self.random.u64(..20) as i64)).collect();
        let mut document =
            doc! { "_id": id, "owner": (self.number), "slot": id, "version": version, "list": list };
        if version % 3 == 0 {
            document.push("rare", version % 10);
        }
        document.push("pad", "p".repeat(self.random.u64(..400) as usize));
        document
    }

    /// Writes until the connection breaks or `stop` is set.
    fn write_until(&mut self, mut connection: CommandClient, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) && self.write_once(&mut connection) {}
    }

    fn write_once(&mut self, connection: &mut CommandClient) -> bool {
        let id = self.number * IDS + self.random.u64(..IDS as u64) as i64;
        let exists = self.known.contains_key(&id);
        match (exists, self.random.u64(..4)) {
            (false, _) => self.insert(connection, id),
            (true, 0) => self.delete(connection, id),
            (true, 1) => self.replace(connection, id),
            (true, _) => self.set_version(connection, id),
        }
    }

    /// Sends a command; true when it was acknowledged. Notes `after` as possible first, as known afterwards.
    fn send(
        &mut self,
        connection: &mut CommandClient,
        command: Document,
        after: Vec<(i64, Option<Document>)>,
    ) -> bool {
        self.possible.extend(after.iter().cloned());
        let Ok(reply) = connection.command(&command) else { return false };
        assert!(is_ok(&reply), "{command:?} failed: {reply:?}");
        assert_eq!(
            number(&reply, "n"),
            Some(after.len() as i64),
            "{command:?} must touch each document: {reply:?}"
        );
        for (id, state) in after {
            self.possible.remove(&id);
            match state {
                Some(document) => self.known.insert(id, document),
                None => self.known.remove(&id),
            };
        }
        self.acknowledged += 1;
        true
    }

    fn insert(&mut self, connection: &mut CommandClient, first: i64) -> bool {
        let wanted = 1 + self.random.u64(..8) as i64;
        let end = (self.number + 1) * IDS;
        let ids: Vec<i64> =
            (first..end).filter(|id| !self.known.contains_key(id)).take(wanted as usize).collect();
        let documents: Vec<Document> = ids.iter().map(|&id| self.document(id)).collect();
        let values: Vec<Value> = documents.iter().cloned().map(Value::from).collect();
        let command = doc! {
            "insert": COLLECTION, "documents": values, "writeConcern": (self.write_concern()),
            "$db": DATABASE,
        };
        let after = ids.into_iter().zip(documents.into_iter().map(Some)).collect();
        self.send(connection, command, after)
    }

    fn update(&mut self, connection: &mut CommandClient, id: i64, change: Document, after: Document) -> bool {
        let command = doc! {
            "update": COLLECTION, "updates": [{ "q": { "_id": id }, "u": change }],
            "writeConcern": (self.write_concern()), "$db": DATABASE,
        };
        self.send(connection, command, vec![(id, Some(after))])
    }

    fn replace(&mut self, connection: &mut CommandClient, id: i64) -> bool {
        let document = self.document(id);
        self.update(connection, id, document.clone(), document)
    }

    fn set_version(&mut self, connection: &mut CommandClient, id: i64) -> bool {
        let version = self.random.u64(..1 << 40) as i64;
        let mut after = self.known.get(&id).cloned().expect("only documents that exist are updated");
        after.insert("version", version);
        self.update(connection, id, doc! { "$set": { "version": version } }, after)
    }

    fn delete(&mut self, connection: &mut CommandClient, id: i64) -> bool {
        let command = doc! {
            "delete": COLLECTION, "deletes": [{ "q": { "_id": id }, "limit": 1 }],
            "writeConcern": (self.write_concern()), "$db": DATABASE,
        };
        self.send(connection, command, vec![(id, None)])
    }

    /// Compares what the server has with what was acknowledged, and takes it over.
    fn reconcile(&mut self, found: &BTreeMap<i64, Document>, seed: u64) {
        for id in self.number * IDS..(self.number + 1) * IDS {
            let there = found.get(&id);
            let acknowledged = there == self.known.get(&id);
            let under_way = self.possible.get(&id).is_some_and(|possible| there == possible.as_ref());
            assert!(
                acknowledged || under_way,
                "seed {seed}, client {}: id {id} is {there:?}\nacknowledged: {:?}\nunder way: {:?}",
                self.number,
                self.known.get(&id),
                self.possible.get(&id),
            );
            match there {
                Some(document) => self.known.insert(id, document.clone()),
                None => self.known.remove(&id),
            };
        }
        self.possible.clear();
    }
}

fn create_indexes(server: &ServerProcess) {
    let indexes = doc! {
        "createIndexes": COLLECTION, "$db": DATABASE,
        "indexes": [
            { "key": { "version": 1 }, "name": "version" },
            { "key": { "owner": 1, "slot": -1 }, "name": "owner_slot", "unique": true },
            { "key": { "list": 1 }, "name": "list" },
            { "key": { "rare": 1 }, "name": "rare", "sparse": true },
            { "key": { "pad": 1 }, "name": "partial",
                "partialFilterExpression": { "version": { "$gt": 1_i64 << 39 } } },
            { "key": { "owner": "hashed" }, "name": "hashed" },
        ],
    };
    run(&mut server.client(), indexes);
}

/// Lets every client write, kills the server after a random time and returns what the clients know.
fn load_and_kill(server: ServerProcess, clients: Vec<Client>, alive: Duration) -> Vec<Client> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                let (connection, stop) = (server.client(), &stop);
                scope.spawn(move || {
                    client.write_until(connection, stop);
                    client
                })
            })
            .collect();
        std::thread::sleep(alive);
        server.kill();
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().expect("a client's expectations hold")).collect()
    })
}

fn check_indexes(server: &ServerProcess, count: usize) {
    let mut client = server.client();
    let report = run(&mut client, doc! { "validate": COLLECTION, "full": true, "$db": DATABASE });
    assert_eq!(
        report.get("valid"),
        Some(&Value::Boolean(true)),
        "an index disagrees with its documents: {report:?}"
    );
    assert_eq!(number(&report, "nrecords"), Some(count as i64), "validate counts the documents: {report:?}");
    let counted = run(&mut client, doc! { "count": COLLECTION, "$db": DATABASE });
    assert_eq!(number(&counted, "n"), Some(count as i64), "the collection's counter survives");
    for (name, hint) in [("version", doc! { "version": 1 }), ("owner_slot", doc! { "owner": 1, "slot": -1 })]
    {
        let found = all(
            &mut client,
            DATABASE,
            doc! {
                "find": COLLECTION, "filter": { "version": { "$gte": 0 } }, "hint": hint, "batchSize": 500,
                "$db": DATABASE
            },
        );
        assert_eq!(found.len(), count, "a walk along the index {name} finds every document");
    }
}

#[test]
fn acknowledged_writes_survive_kill_9() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path().join("data");
    let seed =
        std::env::var("HEDDLE_CRASH_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| {
            std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(1, |now| now.as_nanos() as u64)
        });
    println!("HEDDLE_CRASH_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|number| Client::new(number, seed)).collect();
    let mut server = ServerProcess::start(&directory, &executor_of(0));
    create_indexes(&server);
    for round in 0..ROUNDS {
        let alive = Duration::from_millis(50 + random.u64(..500));
        clients = load_and_kill(server, clients, alive);
        server = ServerProcess::start(&directory, &executor_of(round));
        let documents = all(
            &mut server.client(),
            DATABASE,
            doc! { "find": COLLECTION, "batchSize": 100, "$db": DATABASE },
        );
        let count = documents.len();
        let found: BTreeMap<i64, Document> = documents
            .into_iter()
            .map(|document| (number(&document, "_id").expect("an _id"), document))
            .collect();
        assert_eq!(found.len(), count, "round {round}: a scan shows each document once");
        clients.iter_mut().for_each(|client| client.reconcile(&found, seed));
        check_indexes(&server, count);
    }
    let acknowledged: u64 = clients.iter().map(|client| client.acknowledged).sum();
    println!("{acknowledged} acknowledged writes over {ROUNDS} kills");
    assert!(
        acknowledged > ROUNDS * CLIENTS as u64,
        "the load must have written: {acknowledged} acknowledged writes"
    );
}
