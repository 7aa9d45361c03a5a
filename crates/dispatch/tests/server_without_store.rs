//! A server that has neither catalog nor store, as a router has none: two commands of its own, and everything
//! that commands share.

use dispatch::client::Client;
use dispatch::command::{Command, Execution, Run};
use dispatch::concern::WriteConcern;
use dispatch::context::{BatchContext, CommandContext};
use dispatch::cursors::{Batch, BatchEnd, BatchFuture, BatchProducer, ClientCursor};
use dispatch::error::{CommandError, CommandResult, code};
use dispatch::host::{Detached, Host};
use dispatch::parameters::{Parameter, Parameters, Setting};
use dispatch::request::CommandRequest;
use dispatch::{Node, ServiceContext};
use document::{Document, DocumentBuf, DocumentBuilder, RawDocument, Value, doc};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A node that counts, and that promises nothing for unlucky numbers.
#[derive(Debug, Default)]
struct Counting {
    awaited: AtomicU64,
}

const UNLUCKY: u64 = 13;

impl Node for Counting {
    /// Numbers are read from nothing.
    type Source = ();
    /// The number that the operation went to.
    type Receipts = AtomicU64;

    fn commands() -> &'static [&'static Command<Self>] {
        COMMANDS
    }

    fn source(&self) -> &() {
        &()
    }

    fn has_collection(&self, _database: &str, name: &str) -> bool {
        name == "numbers"
    }

    async fn acknowledged(
        &self,
        receipts: &AtomicU64,
        _concern: &WriteConcern,
        _database: &str,
    ) -> CommandResult {
        self.awaited.fetch_add(1, Ordering::Relaxed);
        match receipts.load(Ordering::Relaxed) {
            UNLUCKY => Err(CommandError::new(wire::ErrorCode::WriteConcernFailed as i32, "no luck")),
            _ => Ok(()),
        }
    }

    fn waited(_receipts: &AtomicU64) -> Duration {
        Duration::ZERO
    }
}

static COMMANDS: &[&Command<Counting>] = &[&NUMBERS, &DAWDLE];

/// `{numbers: collection, to: n, batchSize: b}`: a cursor over the numbers below n.
static NUMBERS: Command<Counting> = Command {
    takes_write_concern: true,
    api_version_1: true,
    unstable_fields: &["to"],
    execution: Execution::InlineFirst,
    ..Command::new("numbers", "Counts.", Run::Now(numbers))
};

/// Waits for nothing until it is told to end.
static DAWDLE: Command<Counting> =
    Command::new("dawdle", "Waits.", Run::Later(|context, _reply| Box::pin(dawdle(context))));

struct Count {
    next: i64,
    end: i64,
}

impl Count {
    fn fill_now(&mut self, batch: &mut Batch<'_>) -> BatchEnd {
        while self.next < self.end {
            if !batch.push(doc! { "n": (self.next) }.to_buf().as_raw()) {
                return BatchEnd::More;
            }
            self.next += 1;
        }
        BatchEnd::Exhausted
    }
}

impl BatchProducer<Counting> for Count {
    fn fill<'a>(
        &'a mut self,
        _context: &'a BatchContext<'a, Counting>,
        batch: &'a mut Batch<'_>,
    ) -> BatchFuture<'a> {
        Box::pin(std::future::ready(Ok(self.fill_now(batch))))
    }
}

fn numbers(context: &mut CommandContext<'_, Counting>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let (database, name) = context.collection_namespace()?;
    let end = context.fields.integer("to")?.ok_or_else(|| context.fields.missing("to"))?;
    let batch_size = context.fields.integer_at_least("batchSize", 0)?.unwrap_or(101);
    context.fields.finish()?;
    context.receipts.store(end.unsigned_abs(), Ordering::Relaxed);
    let mut source = Count { next: 0, end };
    let mut cursor = reply.start_document("cursor");
    let mut batch = Batch::new(cursor.start_array("firstBatch"), batch_size as usize);
    let filled = source.fill_now(&mut batch);
    drop(batch);
    let namespace = format!("{database}.{name}");
    let id = match filled {
        BatchEnd::Exhausted => 0,
        BatchEnd::More => {
            let session = context.generic.session;
            context.server.cursors.open(ClientCursor::new(
                &*namespace,
                session,
                context.body,
                Box::new(source),
            ))
        }
    };
    cursor.append("id", id).append("ns", namespace.as_str());
    Ok(())
}

async fn dawdle(context: &mut CommandContext<'_, Counting>) -> CommandResult {
    context.fields.finish()?;
    context.server.sleep(context.interrupt(), Instant::now() + Duration::from_secs(600)).await
}

/// A client of such a server; its commands run on the database `test` unless they name another.
struct TestClient {
    server: Arc<ServiceContext<Counting>>,
    client: Arc<Client>,
}

impl TestClient {
    fn of_new_server() -> Self {
        let parameters = Parameters::default();
        parameters.set(Parameter::EnableTestCommands, Setting::Boolean(true)).expect("it is a switch");
        let server = ServiceContext::new(Counting::default(), Arc::new(parameters), Host::detached());
        TestClient::of(&server.expect("threads are to be had"))
    }

    fn of(server: &Arc<ServiceContext<Counting>>) -> Self {
        let number = server.clients().len() as i64 + 1;
        let client = Arc::new(Client::new(number, "test", Arc::new(Detached)));
        server.opened(Arc::clone(&client));
        TestClient { server: Arc::clone(server), client }
    }

    fn run(&self, mut command: Document) -> Document {
        if !command.contains("$db") {
            command.push("$db", "test");
        }
        self.run_whole(&command.to_buf())
    }

    fn run_whole(&self, command: &DocumentBuf) -> Document {
        let mut reply = Vec::new();
        pollster::block_on(dispatch::dispatch(
            &self.server,
            &self.client,
            CommandRequest::new(command.as_raw()),
            &mut reply,
        ));
        RawDocument::parse(&reply).expect("a reply is a valid document").to_document()
    }

    fn ok(&self, command: Document) -> Document {
        let reply = self.run(command);
        assert_eq!(reply.get("ok"), Some(&Value::Double(1.0)), "{reply:?}");
        reply
    }

    fn admin(&self, mut command: Document) -> Document {
        command.push("$db", "admin");
        self.ok(command)
    }

    fn fails(&self, command: Document, code: i32) {
        let reply = self.run(command);
        assert_eq!(reply.get("code"), Some(&Value::Int32(code)), "{reply:?}");
    }
}

fn inner<'d>(document: &'d Document, name: &str) -> &'d Document {
    match document.get(name) {
        Some(Value::Document(inner)) => inner,
        other => panic!("{name} is {other:?}"),
    }
}

/// The number of the cursor that a reply tells, and how many documents it has.
fn cursor(reply: &Document, batch: &str) -> (i64, usize) {
    match (inner(reply, "cursor").get("id"), inner(reply, "cursor").get(batch)) {
        (Some(Value::Int64(id)), Some(Value::Array(batch))) => (*id, batch.len()),
        other => panic!("no cursor: {other:?}"),
    }
}

#[test]
fn it_greets_and_tells_its_commands() {
    let client = TestClient::of_new_server();
    let hello = client.ok(doc! { "hello": 1 });
    assert_eq!(hello.get("maxWireVersion"), Some(&Value::Int32(21)));
    client.ok(doc! { "ping": 1 });
    assert_eq!(client.ok(doc! { "buildInfo": 1 }).get("version"), Some(&"7.0.28".into()));
    let commands = client.ok(doc! { "listCommands": 1 });
    for name in ["numbers", "dawdle", "ping", "getMore"] {
        assert!(inner(&commands, "commands").contains(name), "{name}");
    }
    let runs =
        client.server.statistics().find(|(entry, _)| entry.name == "ping").map(|(_, runs)| runs.total.get());
    assert_eq!(runs, Some(1));
}

#[test]
fn what_is_common_to_all_commands_is_checked() {
    let client = TestClient::of_new_server();
    client.fails(doc! { "find": "numbers" }, code::COMMAND_NOT_FOUND);
    client.fails(doc! { "numbers": "c", "to": 1, "until": 2 }, code::IDL_UNKNOWN_FIELD);
    client.fails(doc! { "numbers": "c", "to": "1" }, code::TYPE_MISMATCH);
    client.fails(
        doc! { "numbers": "c", "to": 1, "apiVersion": "1", "apiStrict": true },
        code::API_STRICT_ERROR,
    );
    client.fails(doc! { "dawdle": 1, "writeConcern": { "w": 1 } }, code::INVALID_OPTIONS);
    client.fails(doc! { "setParameter": 1, "quiet": true }, code::UNAUTHORIZED);
    let nowhere = client.run_whole(&doc! { "ping": 1 }.to_buf());
    assert_eq!(nowhere.get("code"), Some(&Value::Int32(40_571)), "{nowhere:?}");
}

#[test]
fn cursors_give_their_batches_and_are_killed() {
    let client = TestClient::of_new_server();
    let (id, given) = cursor(&client.ok(doc! { "numbers": "c", "to": 5, "batchSize": 2 }), "firstBatch");
    assert_eq!(given, 2);
    let more = doc! { "getMore": id, "collection": "c", "batchSize": 2 };
    assert_eq!(cursor(&client.ok(more.clone()), "nextBatch"), (id, 2));
    assert_eq!(cursor(&client.ok(more.clone()), "nextBatch"), (0, 1), "and then there are none");
    client.fails(more, code::CURSOR_NOT_FOUND);
    let (id, _) = cursor(&client.ok(doc! { "numbers": "c", "to": 5, "batchSize": 0 }), "firstBatch");
    let killed = client.ok(doc! { "killCursors": "c", "cursors": [id] });
    assert_eq!(killed.get("cursorsKilled"), doc! { "ids": [id] }.get("ids"));
    client.fails(doc! { "getMore": id, "collection": "c" }, code::CURSOR_NOT_FOUND);
}

#[test]
fn a_session_owns_its_cursors() {
    let client = TestClient::of_new_server();
    let session = inner(&client.ok(doc! { "startSession": 1 }), "id").clone();
    let open = doc! { "numbers": "c", "to": 5, "batchSize": 1, "lsid": (session.clone()) };
    let (id, _) = cursor(&client.ok(open), "firstBatch");
    client.fails(doc! { "getMore": id, "collection": "c" }, 50_737);
    client.ok(doc! { "getMore": id, "collection": "c", "batchSize": 1, "lsid": (session.clone()) });
    client.ok(doc! { "endSessions": [(session.clone())] });
    client.fails(doc! { "getMore": id, "collection": "c", "lsid": session }, code::CURSOR_NOT_FOUND);
}

#[test]
fn operations_end_when_they_are_told_to() {
    let client = TestClient::of_new_server();
    client.fails(doc! { "dawdle": 1, "maxTimeMS": 5 }, code::MAX_TIME_EXPIRED);
    let other = TestClient::of(&client.server);
    let dawdler = std::thread::spawn(move || other.run(doc! { "dawdle": 1 }));
    let number = loop {
        let running = client.admin(doc! { "currentOp": 1, "command.dawdle": 1 });
        match running.get("inprog") {
            Some(Value::Array(found)) if !found.is_empty() => match found.iter().next() {
                Some(Value::Document(operation)) => break operation.get("opid").cloned(),
                other => panic!("{other:?}"),
            },
            _ => std::thread::yield_now(),
        }
    };
    client.admin(doc! { "killOp": 1, "op": (number.expect("operations have numbers")) });
    let reply = dawdler.join().expect("no panic");
    assert_eq!(reply.get("code"), Some(&Value::Int32(code::INTERRUPTED)), "{reply:?}");
}

#[test]
fn faults_come_on_demand() {
    let client = TestClient::of_new_server();
    let data = doc! { "failCommands": ["numbers"], "errorCode": 91 };
    client.admin(doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data });
    client.fails(doc! { "numbers": "c", "to": 1 }, 91);
    client.ok(doc! { "numbers": "c", "to": 1 });
    let point = client.admin(doc! { "getParameter": 1, "failpoint.failCommand": 1 });
    assert_eq!(inner(&point, "failpoint.failCommand").get("timesEntered"), Some(&Value::Int32(1)));
}

#[test]
fn parameters_are_read_and_changed() {
    let client = TestClient::of_new_server();
    let ask = || {
        client.admin(doc! { "getParameter": 1, "cursorTimeoutMillis": 1 }).get("cursorTimeoutMillis").cloned()
    };
    assert_eq!(ask(), Some(Value::Int32(600_000)));
    client.admin(doc! { "setParameter": 1, "cursorTimeoutMillis": 1234 });
    assert_eq!(ask(), Some(Value::Int32(1234)));
}

#[test]
fn the_write_concern_is_awaited_once_for_what_the_node_has_receipts_of() {
    let client = TestClient::of_new_server();
    let numbers = |to: u64, journaled: bool| {
        doc! { "numbers": "c", "to": (to as i64), "writeConcern": { "j": journaled } }
    };
    let awaited = || client.server.node.awaited.load(Ordering::Relaxed);
    client.ok(numbers(3, false));
    assert_eq!(awaited(), 0);
    assert!(!client.ok(numbers(3, true)).contains("writeConcernError"));
    assert_eq!(awaited(), 1);
    let unmet = client.ok(numbers(UNLUCKY, true));
    assert_eq!(inner(&unmet, "writeConcernError").get("errmsg"), Some(&"no luck".into()));
}
