//! What a member of a replica set answers, whatever it is a member of: who may ask what of whom, the times in
//! its replies, write concerns and the heartbeat of monitors.

use dispatch::client::Client;
use dispatch::command::{Command, Run};
use dispatch::concern::{Provenance, ReadConcern, ReadConcernLevel, ReadConcerns, W, WriteConcern};
use dispatch::context::CommandContext;
use dispatch::error::{CommandError, CommandResult};
use dispatch::host::{Detached, Host};
use dispatch::parameters::Parameters;
use dispatch::request::{CommandRequest, Next};
use dispatch::{Node, OnSecondary, ReadFreshness, ReplyTimes, Role, ServiceContext};
use document::{Document, DocumentBuilder, RawDocument, Timestamp, Value, doc};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const fn at(increment: u32) -> Timestamp {
    Timestamp { time: 100, increment }
}

/// A member that is what a test says. Two members have what is written, the third one does not answer.
#[derive(Debug)]
struct Actor {
    role: Mutex<Role>,
    counter: AtomicI64,
    heard: AtomicU64,
    /// How old its data are, in milliseconds, until somebody waits for fresher ones where that `helps`.
    staleness: AtomicU64,
    helps: AtomicBool,
    /// What its set demands.
    demanded: Mutex<Option<ReadFreshness>>,
    changed: event_listener::Event,
}

impl Actor {
    fn become_a(&self, role: Role) {
        *self.role.lock().expect("no panic") = role;
        self.counter.fetch_add(1, Ordering::SeqCst);
        self.changed.notify(usize::MAX);
    }
}

impl Node for Actor {
    /// What a read is told that it reads from.
    type Source = &'static str;
    type Receipts = ();

    fn commands() -> &'static [&'static Command<Self>] {
        COMMANDS
    }

    fn source(&self) -> &&'static str {
        &"newest"
    }

    fn has_collection(&self, _database: &str, _name: &str) -> bool {
        false
    }

    fn awaits(&self, concern: Option<&WriteConcern>, _database: &str) -> bool {
        concern.is_some()
    }

    async fn acknowledged(&self, (): &(), concern: &WriteConcern, _database: &str) -> CommandResult {
        match concern.w {
            Some(W::Members(3)) => std::future::pending().await,
            Some(W::Members(4..)) => {
                let code = wire::ErrorCode::UnsatisfiableWriteConcern as i32;
                Err(CommandError::new(code, "Not enough data-bearing nodes"))
            }
            _ => Ok(()),
        }
    }

    fn waited((): &()) -> Duration {
        Duration::ZERO
    }

    fn role(&self) -> Option<Role> {
        Some(*self.role.lock().expect("no panic"))
    }

    fn source_of_secondary(&self, database: &str) -> Option<&'static str> {
        (self.role() == Some(Role::Secondary) && database != "local").then_some("published")
    }

    fn topology_counter(&self) -> i64 {
        self.counter.load(Ordering::SeqCst)
    }

    async fn topology_changed(&self, counter: i64) {
        loop {
            let changed = self.changed.listen();
            if self.topology_counter() > counter {
                return;
            }
            changed.await;
        }
    }

    fn write_hello(&self, writable: &str, reply: &mut DocumentBuilder<'_>) {
        reply.append("setName", "rs").append(writable, self.role() == Some(Role::Primary));
    }

    fn reply_times(&self) -> Option<ReplyTimes> {
        let heard = Timestamp::from_u64(self.heard.load(Ordering::SeqCst));
        Some(ReplyTimes { cluster: heard.max(at(1)), operation: at(1) })
    }

    fn observe_cluster_time(&self, time: Timestamp) -> CommandResult {
        self.heard.fetch_max(time.as_u64(), Ordering::SeqCst);
        Ok(())
    }

    async fn readable(&self, concern: ReadConcern) -> CommandResult {
        if concern.after.is_some_and(|after| after > at(1)) {
            std::future::pending::<()>().await;
        }
        match concern.level {
            ReadConcernLevel::Linearizable if self.role() != Some(Role::Primary) => {
                let code = wire::ErrorCode::NotWritablePrimary as i32;
                Err(CommandError::new(code, "not primary"))
            }
            _ => Ok(()),
        }
    }

    fn read_freshness(&self) -> Option<ReadFreshness> {
        *self.demanded.lock().expect("no panic")
    }

    fn staleness(&self) -> Option<Duration> {
        Some(Duration::from_millis(self.staleness.load(Ordering::SeqCst)))
    }

    async fn fresh(&self, _staleness_max: Duration) {
        if !self.helps.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        self.staleness.store(0, Ordering::SeqCst);
    }

    fn complete(&self, concern: WriteConcern) -> WriteConcern {
        match concern.w {
            None => WriteConcern { provenance: Provenance::CustomDefault, ..concern },
            Some(_) => concern,
        }
    }
}

static COMMANDS: &[&Command<Actor>] = &[&READ, &WRITE];

static READ: Command<Actor> = Command {
    on_secondary: OnSecondary::IfAllowed,
    read_concerns: ReadConcerns::OfTheSet,
    ..Command::new("read", "Tells what it reads from.", Run::Now(read))
};

static WRITE: Command<Actor> = Command {
    on_secondary: OnSecondary::Never,
    takes_write_concern: true,
    takes_txn_number: true,
    ..Command::new("write", "Writes nothing, or fails.", Run::Now(write))
};

fn read(context: &mut CommandContext<'_, Actor>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()?;
    reply.append("source", *context.source);
    Ok(())
}

fn write(context: &mut CommandContext<'_, Actor>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    match context.fields.integer("failsWith")? {
        Some(code) => Err(CommandError::new(code as i32, "told to fail")),
        None => {
            reply.append("n", 1);
            Ok(())
        }
    }
}

struct Member {
    server: Arc<ServiceContext<Actor>>,
    client: Arc<Client>,
}

impl Member {
    fn new(role: Role) -> Self {
        let node = Actor {
            role: Mutex::new(role),
            counter: AtomicI64::new(7),
            heard: AtomicU64::new(0),
            staleness: AtomicU64::new(700),
            helps: AtomicBool::new(false),
            demanded: Mutex::default(),
            changed: event_listener::Event::new(),
        };
        let server = ServiceContext::new(node, Arc::new(Parameters::default()), Host::detached());
        let server = server.expect("threads are to be had");
        Member { server, client: Arc::new(Client::new(1, "test", Arc::new(Detached))) }
    }

    fn run(&self, command: Document) -> Document {
        self.run_with(command, |_| {}).0
    }

    fn run_with(
        &self,
        mut command: Document,
        change: impl FnOnce(&mut CommandRequest<'_>),
    ) -> (Document, Option<Next>) {
        if !command.contains("$db") {
            command.push("$db", "test");
        }
        let (command, mut reply) = (command.to_buf(), Vec::new());
        let mut request = CommandRequest::new(command.as_raw());
        change(&mut request);
        let outcome = pollster::block_on(dispatch::dispatch(&self.server, &self.client, request, &mut reply));
        (RawDocument::parse(&reply).expect("a reply is a valid document").to_document(), outcome.next)
    }
}

fn inner<'d>(document: &'d Document, name: &str) -> &'d Document {
    match document.get(name) {
        Some(Value::Document(inner)) => inner,
        other => panic!("{name} is {other:?} in {document:?}"),
    }
}

#[test]
fn a_member_answers_what_its_role_and_the_read_preference_allow() {
    let check = |role: Role, command: Document, expected: Option<(i32, &str)>| {
        let reply = Member::new(role).run(command.clone());
        let refused = expected.map(|(code, message)| (Value::Int32(code), Value::from(message)));
        let found = reply.get("code").cloned().zip(reply.get("errmsg").cloned());
        assert_eq!(found, refused, "{command:?} as {role:?}: {reply:?}");
        assert_eq!(reply.contains("topologyVersion"), expected.is_some(), "{reply:?}");
    };
    let preferring = |mode: &str| doc! { "read": 1, "$readPreference": { "mode": mode } };
    let not_primary = Some((10_107, "not primary"));
    let not_allowed = Some((13_435, "not primary and secondaryOk=false"));
    let not_ready = Some((13_436, "node is not in primary or recovering state"));
    for (role, write, read, preferred) in [
        (Role::Primary, None, None, None),
        (Role::Secondary, not_primary, not_allowed, None),
        (Role::Other, not_primary, not_allowed, not_ready),
    ] {
        check(role, doc! { "write": 1 }, write);
        check(role, doc! { "read": 1 }, read);
        check(role, preferring("primary"), read);
        check(role, preferring("secondaryPreferred"), preferred);
        check(role, doc! { "write": 1, "$db": "local" }, None);
        check(role, doc! { "read": 1, "$db": "local" }, None);
        check(role, doc! { "ping": 1 }, None);
    }
}

#[test]
fn a_secondary_reads_the_last_whole_batch() {
    let check = |role: Role, database: &str, source: &str| {
        let read = doc! { "read": 1, "$readPreference": { "mode": "nearest" }, "$db": database };
        assert_eq!(Member::new(role).run(read).get("source"), Some(&source.into()), "{database} {role:?}");
    };
    check(Role::Primary, "test", "newest");
    check(Role::Secondary, "test", "published");
    check(Role::Secondary, "local", "newest");
}

#[test]
fn times_are_told_in_every_reply_and_handed_on() {
    let member = Member::new(Role::Primary);
    let time_of = |reply: &Document| {
        assert_eq!(reply.get("operationTime"), Some(&at(1).into()), "{reply:?}");
        inner(reply, "$clusterTime").clone()
    };
    let mut expected = doc! { "clusterTime": (at(1)) };
    expected.push("signature", doc! { "hash": (Value::binary(0, [0; 20])), "keyId": 0_i64 });
    assert_eq!(time_of(&member.run(doc! { "ping": 1 })), expected);
    assert_eq!(time_of(&member.run(doc! { "write": 1, "failsWith": 8 })), expected, "of an error as well");
    let heard = doc! { "ping": 1, "$clusterTime": { "clusterTime": (at(9)) } };
    assert_eq!(time_of(&member.run(heard)).get("clusterTime"), Some(&at(9).into()));
    assert_eq!(time_of(&member.run(doc! { "ping": 1 })).get("clusterTime"), Some(&at(9).into()));
}

#[test]
fn errors_of_a_change_of_state_tell_the_topology() {
    for (code, told) in [(11_602, true), (189, true), (91, true), (8, false), (11_000, false)] {
        let reply = Member::new(Role::Primary).run(doc! { "write": 1, "failsWith": code });
        assert_eq!(reply.contains("topologyVersion"), told, "{reply:?}");
    }
}

#[test]
fn a_write_concern_that_is_not_met_is_told_beside_the_answer() {
    let member = Member::new(Role::Primary);
    let unmet = |concern: Document| {
        let reply = member.run(doc! { "write": 1, "writeConcern": concern });
        assert_eq!(reply.get("n"), Some(&Value::Int32(1)), "{reply:?}");
        reply.contains("writeConcernError").then(|| inner(&reply, "writeConcernError").clone())
    };
    assert_eq!(unmet(doc! { "w": 2 }), None);
    assert_eq!(unmet(doc! { "w": "majority" }), None);
    let shown = doc! { "w": 3, "wtimeout": 5, "provenance": "clientSupplied" };
    let expected = doc! {
        "code": 64, "codeName": "WriteConcernFailed", "errmsg": "waiting for replication timed out",
        "errInfo": { "wtimeout": true, "writeConcern": shown },
    };
    assert_eq!(unmet(doc! { "w": 3, "wtimeout": 5 }), Some(expected));
    let shown = doc! { "w": 4, "wtimeout": 0, "provenance": "clientSupplied" };
    let expected = doc! {
        "code": 100, "codeName": "UnsatisfiableWriteConcern", "errmsg": "Not enough data-bearing nodes",
        "errInfo": { "writeConcern": shown },
    };
    assert_eq!(unmet(doc! { "w": 4 }), Some(expected));
    let failed = doc! { "write": 1, "failsWith": 8, "writeConcern": { "w": 3, "wtimeout": 5 } };
    let failed = member.run(failed);
    assert_eq!(inner(&failed, "writeConcernError").get("code"), Some(&Value::Int32(64)), "{failed:?}");
    let late = member.run(doc! { "write": 1, "writeConcern": { "w": 3 }, "maxTimeMS": 5 });
    assert_eq!(inner(&late, "writeConcernError").get("code"), Some(&Value::Int32(50)), "{late:?}");
}

#[test]
fn a_read_waits_for_the_data_that_it_asks_for() {
    let member = Member::new(Role::Primary);
    let code = |concern: Document| {
        let reply = member.run(doc! { "read": 1, "readConcern": concern, "maxTimeMS": 20 });
        reply.get("code").cloned()
    };
    assert_eq!(code(doc! { "afterClusterTime": (at(1)) }), None);
    assert_eq!(code(doc! { "afterClusterTime": (at(2)) }), Some(Value::Int32(50)), "it has not come by then");
    assert_eq!(code(doc! { "level": "linearizable" }), None);
    let allowed = doc! { "mode": "nearest" };
    let read = doc! { "read": 1, "readConcern": { "level": "linearizable" }, "$readPreference": allowed };
    let reply = Member::new(Role::Secondary).run(read);
    assert_eq!(reply.get("code"), Some(&Value::Int32(10_107)), "{reply:?}");
}

#[test]
fn a_read_gets_data_as_fresh_as_it_wants_them_or_an_error_that_drivers_retry() {
    let member = Member::new(Role::Secondary);
    let read = |freshness: Document| {
        let preference = doc! { "mode": "secondary" };
        member.run(doc! { "read": 1, "$readPreference": preference, "$readFreshness": freshness })
    };
    assert_eq!(read(doc! { "maxStalenessMS": 700 }).get("code"), None);
    let refused = read(doc! { "maxStalenessMS": 699 });
    assert_eq!(refused.get("code"), Some(&Value::Int32(13_436)), "{refused:?}");
    let message = "the data of this member may be 700 ms old, and the read allows 699 ms";
    assert_eq!(refused.get("errmsg"), Some(&message.into()));
    assert_eq!(refused.get("stalenessMS"), Some(&Value::Int64(700)));
    // By that drivers would take it for old news, and ask the same member again.
    assert!(!refused.contains("topologyVersion"), "{refused:?}");
    let began = Instant::now();
    let refused = read(doc! { "maxStalenessMS": 0, "waitMS": 30 });
    assert_eq!(refused.get("code"), Some(&Value::Int32(13_436)), "{refused:?}");
    assert!(began.elapsed() >= Duration::from_millis(30), "it has waited");
    member.server.node.helps.store(true, Ordering::SeqCst);
    assert_eq!(read(doc! { "maxStalenessMS": 0, "waitMS": 60_000 }).get("code"), None);
    let counters = &member.server.counters;
    let counted = [&counters.fresh_reads, &counters.waits_for_fresh_data, &counters.refused_as_stale];
    assert_eq!(counted.map(|counter| counter.get()), [4, 3, 2]);
}

#[test]
fn freshness_is_wanted_by_a_command_its_comment_or_the_set() {
    let member = Member::new(Role::Secondary);
    let code = |more: Document| {
        let mut command = doc! { "read": 1, "$readPreference": { "mode": "secondary" } };
        command.extend(more);
        let reply = member.run(command);
        reply.get("code").and_then(Value::as_f64).map(|code| code as i32)
    };
    assert_eq!(code(doc! {}), None);
    assert_eq!(code(doc! { "comment": { "$readFreshness": { "maxStalenessMS": 1 } } }), Some(13_436));
    assert_eq!(code(doc! { "comment": { "$readFreshness": { "maxStalenessMS": 1_000 } } }), None);
    assert_eq!(code(doc! { "comment": { "maxStalenessMS": 1 } }), None, "any comment");
    let staleness_max = Duration::from_millis(1);
    *member.server.node.demanded.lock().expect("no panic") =
        Some(ReadFreshness { staleness_max, wait: Duration::ZERO });
    assert_eq!(code(doc! {}), Some(13_436));
    assert_eq!(
        code(doc! { "$readFreshness": { "maxStalenessMS": 1_000 } }),
        None,
        "the command knows better"
    );
    assert_eq!(code(doc! { "$db": "local" }), None, "each member's own");
    assert_eq!(code(doc! { "$readFreshness": { "waitMS": 1 } }), Some(40_414));
    assert_eq!(code(doc! { "$readFreshness": { "maxStalenessMS": 1, "x": 1 } }), Some(40_415));
    assert_eq!(code(doc! { "$readFreshness": 5 }), Some(14));
    let write =
        Member::new(Role::Primary).run(doc! { "write": 1, "$readFreshness": { "maxStalenessMS": 1 } });
    assert_eq!(write.get("code"), Some(&Value::Int32(72)), "{write:?}");
}

#[test]
fn monitors_are_told_of_a_change_at_once() {
    let member = Member::new(Role::Primary);
    let hello = |member: &Member, counter: i64| {
        let version = doc! { "processId": (member.server.process_id), "counter": counter };
        doc! { "hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 60_000 }
    };
    let first = member.run(doc! { "hello": 1 });
    assert_eq!(first.get("isWritablePrimary"), Some(&Value::Boolean(true)));
    assert_eq!(inner(&first, "topologyVersion").get("counter"), Some(&Value::Int64(7)));
    assert_eq!(member.run(doc! { "ismaster": 1 }).get("ismaster"), Some(&Value::Boolean(true)));
    assert_eq!(
        member.run(hello(&member, 8)).get("code"),
        Some(&Value::Int32(31_382)),
        "nobody was told of 8"
    );
    let late = member.run(hello(&member, 6));
    assert_eq!(late.get("ok"), Some(&Value::Double(1.0)), "what is not news to others is to this one");
    let other = Member {
        server: Arc::clone(&member.server),
        client: Arc::new(Client::new(2, "test", Arc::new(Detached))),
    };
    let began = Instant::now();
    let waits = std::thread::spawn(move || {
        other.run_with(hello(&other, 7), |request| request.exhaust_allowed = true)
    });
    std::thread::sleep(Duration::from_millis(50));
    assert!(!waits.is_finished(), "nothing has changed yet");
    member.server.node.become_a(Role::Secondary);
    let (told, next) = waits.join().expect("a reply");
    assert!(began.elapsed() < Duration::from_secs(30), "it was told before its time was over");
    assert_eq!(told.get("isWritablePrimary"), Some(&Value::Boolean(false)), "{told:?}");
    let Some(Next::Command(next)) = next else { panic!("no stream: {next:?}") };
    assert_eq!(inner(&next.as_raw().to_document(), "topologyVersion").get("counter"), Some(&Value::Int64(8)));
}
