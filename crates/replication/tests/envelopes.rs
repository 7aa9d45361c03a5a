//! What comes from the network and is not what a member would say: nobody proves who he is, and none of it
//! may end a member. Three members in lock-step, without threads.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail so")]

use catalog::Catalog;
use document::{Document, DocumentBuf, RawDocument, Value, doc};
use fastrand::Rng;
use protobuf::{Message as _, ProtobufEnum};
use raft::eraftpb::{self, EntryType, MessageType};
use replication::set::{MemberState, MemberTasks, ReplSetConfig, ReplicaSet, SetError, SetOptions};
use replication::{Answer, PeerError, Peers};
use std::future::{Future, ready};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;
use storage::{Engine, MemoryEngine, StorageOptions, Store};

const STEP: Duration = Duration::from_millis(20);
const WALL: Duration = Duration::from_secs(1_000_000);

#[derive(Debug, Default)]
struct Wires {
    sent: Mutex<Vec<(usize, DocumentBuf)>>,
    running: Mutex<Vec<ReplicaSet>>,
    /// Who does nothing.
    down: Mutex<Vec<usize>>,
}

impl Peers for Wires {
    fn send(&self, host: &str, envelope: DocumentBuf) {
        // Hosts are forged, too.
        if let Some(to) = place(host) {
            self.sent.lock().unwrap().push((to, envelope));
        }
    }

    fn ask(&self, host: &str, command: DocumentBuf, _: Duration) -> Answer {
        let place = place(host).filter(|place| !self.down.lock().unwrap().contains(place));
        let member = place.and_then(|place| self.running.lock().unwrap().get(place).cloned());
        let answer = match member.map(|member| member.heartbeat(command.as_raw())) {
            None => Err(PeerError::TimedOut { host: host.to_owned() }),
            Some(Ok(reply)) => Ok(reply),
            Some(Err(error)) => Ok(doc! { "ok": 0, "errmsg": (error.message) }.to_buf()),
        };
        Box::pin(ready(answer))
    }
}

fn host(id: usize) -> String {
    format!("h{id}:1")
}

fn place(host: &str) -> Option<usize> {
    (0..3).find(|id| self::host(*id) == host)
}

struct Node {
    engine: Arc<MemoryEngine>,
    set: ReplicaSet,
    background: MemberTasks,
}

struct World {
    now: Duration,
    clock: ambient::Simulation,
    wires: Arc<Wires>,
    nodes: Vec<Node>,
    asked: Vec<Pin<Box<dyn Future<Output = ()>>>>,
    /// Whatever was sent, to whom.
    recorded: Vec<(usize, DocumentBuf)>,
}

impl World {
    /// Three members that are a set.
    fn new(seed: u64) -> Self {
        let mut world = World {
            now: Duration::ZERO,
            clock: ambient::Simulation::begin(seed),
            wires: Arc::default(),
            nodes: Vec::new(),
            asked: Vec::new(),
            recorded: Vec::new(),
        };
        world.nodes = (0..3).map(|id| world.start(id, Arc::default())).collect();
        let members = (0..3).map(|id| Value::from(doc! { "_id": id, "host": (host(id as usize)) }));
        let config = doc! { "_id": "rs", "version": 1, "members": (members.collect::<Vec<_>>()) };
        let config = ReplSetConfig::parse(config.to_buf().as_raw()).unwrap();
        let set = world.nodes[0].set.clone();
        world.asked.push(Box::pin(async move { set.initiate(config).await.unwrap() }));
        world.until("the set is whole", |world| {
            let state = |node: &Node| node.set.topology().state;
            world.nodes.iter().map(state).eq([
                MemberState::Primary,
                MemberState::Secondary,
                MemberState::Secondary,
            ])
        });
        world
    }

    fn start(&self, id: usize, engine: Arc<MemoryEngine>) -> Node {
        let shared = Arc::clone(&engine) as Arc<dyn Engine>;
        let store = Store::with_engine(shared, &StorageOptions::small()).unwrap();
        let options = SetOptions::new("rs", vec![host(id)], id as u64);
        let peers = Arc::clone(&self.wires) as Arc<dyn Peers>;
        let times = (self.now, self.now + WALL);
        let (set, background) =
            ReplicaSet::without_threads(options, Catalog::open(store).unwrap(), peers, times).unwrap();
        let mut running = self.wires.running.lock().unwrap();
        match running.get_mut(id) {
            Some(before) => *before = set.clone(),
            None => running.push(set.clone()),
        }
        Node { engine, set, background }
    }

    #[track_caller]
    fn until(&mut self, what: &str, holds: impl Fn(&World) -> bool) {
        for _ in 0..3_000 {
            if holds(self) {
                return;
            }
            self.round();
        }
        let state = |node: &Node| {
            let (topology, set) = (node.set.topology(), &node.set);
            let reached = (set.last_applied(), set.last_committed(), set.last_durable());
            format!("\n{:?} term {} {reached:?}", topology.state, topology.term)
        };
        panic!("waited in vain: {what}{}", self.nodes.iter().map(state).collect::<String>());
    }

    fn round(&mut self) {
        self.now += STEP;
        self.clock.advance(STEP);
        for _ in 0..3 {
            let is_up = |id: &usize| !self.wires.down.lock().unwrap().contains(id);
            let up: Vec<usize> = (0..self.nodes.len()).filter(is_up).collect();
            up.iter().for_each(|id| self.turn(*id));
            let sent = std::mem::take(&mut *self.wires.sent.lock().unwrap());
            for (to, envelope) in sent.into_iter().filter(|(to, _)| up.contains(to)) {
                let _ = self.nodes[to].set.receive(envelope.as_raw());
                self.recorded.push((to, envelope));
            }
        }
    }

    fn turn(&mut self, id: usize) {
        let mut context = Context::from_waker(Waker::noop());
        self.asked.retain_mut(|asked| asked.as_mut().poll(&mut context).is_pending());
        let node = &mut self.nodes[id];
        let turn = node.background.turn(self.now, self.now + WALL).expect("a log that can be written");
        if let Some(ticket) = turn.sync {
            node.background.synced(ticket);
        }
        let mut step = pin!(async {
            // What cannot be applied is tried again later.
            while let Ok(true) = node.background.apply().await {}
        });
        while step.as_mut().poll(&mut context).is_pending() {
            std::thread::yield_now();
        }
    }

    /// Something for the log, on whoever leads.
    fn note(&mut self) {
        if let Some(leader) = self.nodes.iter().find(|node| node.set.is_writable()) {
            let set = leader.set.clone();
            self.asked
                .push(Box::pin(async move { drop(set.append_note(doc! { "msg": "x" }.to_buf()).await) }));
        }
    }

    /// The last envelope to a member with a message of this kind, and that message.
    fn last(&self, to: usize, kind: MessageType) -> (Document, eraftpb::Message) {
        let found =
            self.recorded.iter().rev().filter(|(receiver, _)| *receiver == to).find_map(|(_, envelope)| {
                let message =
                    messages(envelope.as_raw()).into_iter().find(|message| message.get_msg_type() == kind)?;
                Some((envelope.as_raw().to_document(), message))
            });
        found.unwrap_or_else(|| panic!("no {kind:?} to {to}"))
    }

    /// The last envelope to a member with an operation, and the message that it is in.
    fn last_operation(&self, to: usize) -> (Document, eraftpb::Message) {
        let is_operation = |message: &eraftpb::Message| {
            message.entries.first().is_some_and(|entry| entry.context.len() == 8)
        };
        let found =
            self.recorded.iter().rev().filter(|(receiver, _)| *receiver == to).find_map(|(_, envelope)| {
                let message = messages(envelope.as_raw()).into_iter().find(is_operation)?;
                Some((envelope.as_raw().to_document(), message))
            });
        found.expect("operations were sent")
    }

    fn forge(&mut self, to: usize, (mut envelope, message): (Document, eraftpb::Message)) {
        envelope.insert("m", vec![Value::binary(0, message.write_to_bytes().unwrap())]);
        self.nodes[to].set.receive(envelope.to_buf().as_raw()).expect("it is an envelope");
    }
}

fn messages(envelope: RawDocument<'_>) -> Vec<eraftpb::Message> {
    let Some(Value::Array(messages)) = envelope.to_document().get("m").cloned() else { return Vec::new() };
    let bytes = messages.iter().filter_map(|message| match message {
        Value::Binary(binary) => eraftpb::Message::parse_from_bytes(&binary.bytes).ok(),
        _ => None,
    });
    bytes.collect()
}

#[test]
fn what_no_member_says_changes_nothing() {
    use MessageType::{
        MsgAppend, MsgAppendResponse, MsgHeartbeat, MsgHeartbeatResponse, MsgSnapshot, MsgTransferLeader,
    };
    let mut world = World::new(1);
    // Some of them begin a message, whatever else there is to send.
    for _ in 0..20 {
        world.note();
        world.round();
    }
    (0..50).for_each(|_| world.round());
    let term = world.nodes[0].set.topology().term;
    type Change = fn(&mut eraftpb::Message);
    let forged: [(usize, MessageType, Change); 16] = [
        (1, MsgHeartbeat, |message| message.commit = 1 << 40),
        (1, MsgHeartbeat, |message| message.term = u64::MAX),
        (1, MsgHeartbeat, |message| message.term += 1 << 33),
        (0, MsgHeartbeatResponse, |message| message.term = 1 << 61),
        (1, MsgHeartbeat, |message| message.set_msg_type(MsgTransferLeader)),
        (0, MsgAppendResponse, |message| message.index = u64::MAX),
        (0, MsgAppendResponse, |message| (message.reject, message.reject_hint) = (true, u64::MAX)),
        (0, MsgAppendResponse, |message| (message.reject, message.request_snapshot) = (true, 9)),
        (1, MsgHeartbeat, |message| {
            message.set_msg_type(MsgSnapshot);
            let (own, leader, next) = (message.to, message.from, message.commit + 1);
            let metadata = message.mut_snapshot().mut_metadata();
            (metadata.index, metadata.term) = (next, 0);
            metadata.mut_conf_state().voters = vec![own, leader];
        }),
        (1, MsgAppend, |message| message.index = u64::MAX),
        (1, MsgAppend, |message| {
            (message.index, message.log_term) = (message.index + 9, 0);
            message.mut_entries()[0].index = message.index + 1;
        }),
        (1, MsgAppend, |message| {
            (message.index, message.log_term, message.commit) = (message.index + 9, 0, message.index + 9);
            message.mut_entries().clear();
        }),
        (1, MsgAppend, |message| message.mut_entries()[0].index = 1),
        (1, MsgAppend, |message| message.mut_entries()[0].data = vec![1, 2, 3].into()),
        (1, MsgAppend, |message| message.mut_entries()[0].set_entry_type(EntryType::EntryConfChange)),
        (1, MsgAppend, |message| message.mut_entries()[0].context = 1_u64.to_be_bytes().to_vec().into()),
    ];
    for (to, kind, change) in forged {
        let (mut envelope, mut message) = world.last(to, kind);
        if kind == MsgAppend {
            // As if an operation that was sent before were the next one.
            let next = message.index + message.entries.len() as u64;
            (envelope, message) = world.last_operation(to);
            message.index = next;
            message.mut_entries().truncate(1);
            message.mut_entries()[0].index = next + 1;
        }
        change(&mut message);
        world.forge(to, (envelope, message));
        (0..5).for_each(|_| world.round());
    }
    assert!(world.nodes[0].set.is_writable(), "the primary is primary all the same");
    assert_eq!(world.nodes[0].set.topology().term, term, "nobody was elected");
    let before = world.nodes[1].set.last_applied();
    world.note();
    world.until("a note is applied", |world| world.nodes[1].set.last_applied() > before);
}

/// Of an entry that a member has it keeps its own, whatever the one says that is sent: what follows it
/// follows that.
#[test]
fn what_follows_an_entry_that_is_there_is_later_than_that_one() {
    let mut world = World::new(9);
    for _ in 0..20 {
        world.note();
        world.round();
    }
    (0..50).for_each(|_| world.round());
    let before = world.nodes[1].set.last_committed();
    let next = world.last(1, MessageType::MsgHeartbeat).1.commit + 1;
    let (envelope, mut message) = world.last_operation(1);
    let sent = message.mut_entries()[0].clone();
    let at = |index: u64, seconds: u32| {
        let (mut entry, mut time) = (sent.clone(), before.timestamp);
        time.time += seconds;
        entry.index = index;
        entry.context = time.as_u64().to_be_bytes().to_vec().into();
        // An operation ends with its place: `ts`, a timestamp, and `t`.
        let (mut data, ts) = (entry.data.to_vec(), b"\x11ts\0");
        let place = data.windows(ts.len()).rposition(|bytes| bytes == ts).unwrap() + ts.len();
        data[place..place + 8].copy_from_slice(&time.as_u64().to_le_bytes());
        entry.data = data.into();
        entry
    };
    (message.index, message.log_term, message.commit) = (next - 1, message.term, next - 1);
    message.set_entries(vec![at(next, 100)].into());
    world.forge(1, (envelope.clone(), message.clone()));
    (0..2).for_each(|_| world.turn(1));
    assert!(world.nodes[1].set.last_durable() > before, "who leads is believed");
    message.commit = next + 1;
    message.set_entries(vec![at(next, 1), at(next + 1, 2)].into());
    world.forge(1, (envelope, message));
    (0..2).for_each(|_| world.turn(1));
    assert_eq!(world.nodes[1].set.last_committed(), before, "it takes none of it");
}

/// Under a number of the disk before it may have voted: an empty disk is deaf to it.
#[test]
fn an_empty_disk_takes_nothing_that_was_sent_to_the_one_before() {
    let mut world = World::new(2);
    world.note();
    (0..50).for_each(|_| world.round());
    world.nodes[2] = world.start(2, Arc::default());
    let sent = world.recorded.clone();
    for (_, envelope) in sent.iter().filter(|(to, _)| *to == 2) {
        world.nodes[2].set.receive(envelope.as_raw()).unwrap();
    }
    world.wires.sent.lock().unwrap().clear();
    world.turn(2);
    assert!(world.wires.sent.lock().unwrap().is_empty(), "it answers nothing");
    assert_eq!(world.nodes[2].set.topology().state, MemberState::Startup);
    // The primary hears of the new disk, and gives it another number.
    world.until("it is a secondary again", |world| {
        world.nodes[2].set.topology().state == MemberState::Secondary
    });
}

fn any_number(random: &mut Rng, now: u64) -> u64 {
    match random.u8(..9) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => i64::MAX as u64,
        4 => 1 << 62,
        5 => random.u64(..60),
        6 => now.wrapping_sub(1),
        7 => now.wrapping_add(1),
        _ => now.wrapping_add(random.u64(..9)),
    }
}

fn change_entry(random: &mut Rng, entry: &mut eraftpb::Entry) {
    match random.u8(..6) {
        0 => entry.index = any_number(random, entry.index),
        1 => entry.term = any_number(random, entry.term),
        2 => entry.set_entry_type(EntryType::values()[random.usize(..EntryType::values().len())]),
        3 => entry.context = any_number(random, 5).to_be_bytes()[random.usize(..9)..].to_vec().into(),
        4 => entry.data = Vec::new().into(),
        _ => {
            let mut data = entry.data.to_vec();
            flip(random, &mut data);
            entry.data = data.into();
        }
    }
}

fn flip(random: &mut Rng, bytes: &mut [u8]) {
    for _ in 0..random.usize(1..4) {
        if !bytes.is_empty() {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
    }
}

fn change(random: &mut Rng, message: &mut eraftpb::Message) {
    match random.u8(..14) {
        0 => message.term = any_number(random, message.term),
        1 => message.index = any_number(random, message.index),
        2 => message.commit = any_number(random, message.commit),
        3 => message.log_term = any_number(random, message.log_term),
        4 => message.commit_term = any_number(random, message.commit_term),
        5 => message.reject_hint = any_number(random, message.reject_hint),
        6 => message.reject = random.bool(),
        7 => message.request_snapshot = any_number(random, 0),
        8 => message.set_msg_type(MessageType::values()[random.usize(..MessageType::values().len())]),
        9 => message.context = b"CampaignTransfer".to_vec().into(),
        10 => {
            let metadata = message.mut_snapshot().mut_metadata();
            metadata.index = any_number(random, 20);
            metadata.term = any_number(random, 2);
            metadata.mut_conf_state().voters = (0..random.u64(..4)).collect();
        }
        11 => message.from = random.u64(..5),
        _ => {
            if let Some(entry) = message.mut_entries().last_mut() {
                change_entry(random, entry);
            }
        }
    }
}

/// An envelope with something else in it; `None` where that is no document any more.
fn forged(random: &mut Rng, envelope: &DocumentBuf) -> Option<DocumentBuf> {
    if random.u8(..4) == 0 {
        let mut bytes = envelope.as_bytes().to_vec();
        flip(random, &mut bytes);
        return RawDocument::parse(&bytes).ok().map(RawDocument::to_buf);
    }
    let mut messages = messages(envelope.as_raw());
    for message in &mut messages {
        (0..random.usize(1..4)).for_each(|_| change(random, message));
    }
    let mut changed = envelope.as_raw().to_document();
    if let Some(first) = messages.first() {
        let mut from = doc! { "number": (first.from as i64) };
        from.push("host", host(random.usize(..4)));
        changed.insert("from", from);
    }
    let encode = |message: &eraftpb::Message| Value::binary(0, message.write_to_bytes().unwrap());
    changed.insert("m", messages.iter().map(encode).collect::<Vec<_>>());
    Some(changed.to_buf())
}

#[test]
fn no_bytes_end_a_member() {
    let seeds = std::env::var("HEDDLE_SIMULATION_SEEDS").map_or(12, |text| text.parse().expect("a number"));
    for seed in 0..seeds {
        println!("seed {seed}");
        let mut random = Rng::with_seed(seed);
        let mut world = World::new(seed);
        for _ in 0..400 {
            if random.u8(..4) == 0 {
                world.note();
            }
            for _ in 0..3 {
                let late = world.recorded.len().saturating_sub(40);
                let at = if random.bool() { random.usize(late..) } else { random.usize(..) };
                let (to, envelope) = world.recorded[at % world.recorded.len()].clone();
                let to = if random.u8(..5) == 0 { random.usize(..3) } else { to };
                if let Some(forged) = forged(&mut random, &envelope) {
                    let _ = world.nodes[to].set.receive(forged.as_raw());
                }
            }
            world.round();
        }
    }
}

/// What a field might be at its ends, and something else.
fn extremes(value: &Value) -> Vec<Value> {
    let numbers = [0, 1, -1, 1 << 31, 1 << 62, i64::MAX, i64::MIN].map(Value::Int64).to_vec();
    match value {
        Value::Int32(_) | Value::Int64(_) => numbers,
        Value::Boolean(truth) => vec![Value::Boolean(!truth)],
        Value::String(_) => vec![Value::from(""), Value::from("x".repeat(5_000)), Value::from(host(0))],
        _ => vec![Value::Null, doc! {}.into(), Value::from(document::ObjectId::from_bytes([9; 12]))],
    }
}

/// A document once for each of its fields and each of the ends of that.
fn with_extremes(whole: &Document) -> Vec<Document> {
    let mut all = Vec::new();
    for (name, value) in whole.iter() {
        let others = match value {
            Value::Document(inner) => with_extremes(inner).into_iter().map(Value::from).collect(),
            value => extremes(value),
        };
        for other in others {
            let mut changed = whole.clone();
            changed.insert(name, other);
            all.push(changed);
        }
    }
    all
}

/// Messages with each of their numbers at its ends.
fn messages_with_extremes(whole: &eraftpb::Message) -> Vec<eraftpb::Message> {
    type Set = fn(&mut eraftpb::Message, u64);
    let fields: [Set; 10] = [
        |message, number| message.from = number,
        |message, number| message.to = number,
        |message, number| message.term = number,
        |message, number| message.log_term = number,
        |message, number| message.index = number,
        |message, number| message.commit = number,
        |message, number| message.commit_term = number,
        |message, number| message.reject_hint = number,
        |message, number| message.request_snapshot = number,
        |message, number| message.priority = number as i64,
    ];
    let numbers = [0, 1, 1 << 31, 1 << 62, i64::MAX as u64, u64::MAX];
    let changed = |set: &Set, number: u64| {
        let mut message = whole.clone();
        set(&mut message, number);
        message
    };
    fields.iter().flat_map(|set| numbers.map(|number| changed(set, number))).collect()
}

#[test]
fn a_set_goes_on_whatever_single_fields_are_forged_to() {
    let mut world = World::new(8);
    let is_whole = |world: &World| {
        let leads = |node: &&Node| node.set.is_writable() && node.set.topology().voters == 3;
        let fresh = |node: &Node| node.set.staleness().is_some_and(|age| age < Duration::from_secs(5));
        world.nodes.iter().find(leads).is_some() && world.nodes.iter().all(fresh)
    };
    world.until("all vote", is_whole);
    for _ in 0..20 {
        world.note();
        world.round();
    }
    // One of each kind of message to each member, and one without.
    let mut seen = Vec::new();
    let mut samples = Vec::new();
    for (to, envelope) in world.recorded.iter().rev() {
        let first = messages(envelope.as_raw()).into_iter().next();
        let kind = (*to, first.as_ref().map(eraftpb::Message::get_msg_type));
        if !seen.contains(&kind) {
            seen.push(kind);
            samples.push((*to, envelope.as_raw().to_document(), first));
        }
    }
    let mut count = 0;
    for (to, mut envelope, message) in samples {
        for (field, value) in [("committed", 5_i64), ("age", 1), ("applied", 5)] {
            envelope.insert(field, value);
        }
        envelope.insert("chain", doc! { "follows": 2_i64, "term": 1_i64, "index": 5_i64, "passedOn": false });
        let bytes = |message: &eraftpb::Message| Value::binary(0, message.write_to_bytes().unwrap());
        let of_messages = message.iter().flat_map(messages_with_extremes).map(|message| {
            let mut envelope = envelope.clone();
            envelope.insert("m", vec![bytes(&message)]);
            envelope
        });
        for forged in with_extremes(&envelope).into_iter().chain(of_messages) {
            let _ = world.nodes[to].set.receive(forged.to_buf().as_raw());
            count += 1;
            if count % 8 == 0 {
                world.round();
            }
        }
    }
    assert!(count > 400, "{count} were forged");
    world.until("it is whole again", is_whole);
    let before: Vec<_> = world.nodes.iter().map(|node| node.set.last_applied()).collect();
    world.note();
    world.until("a note is everywhere", |world| {
        world.nodes.iter().zip(&before).all(|(node, before)| node.set.last_applied() > *before)
    });
}

/// Asks a member for these members, by their `_id`; the answer comes with further rounds.
fn reconfigure(
    world: &mut World,
    id: usize,
    members: &[i32],
    force: bool,
) -> Arc<Mutex<Option<Result<(), SetError>>>> {
    let set = world.nodes[id].set.clone();
    let mut asked = set.topology().config.clone().unwrap().to_document();
    asked.insert("version", set.topology().config.as_ref().unwrap().version + 1);
    let members = members.iter().map(|id| Value::from(doc! { "_id": (*id), "host": (host(*id as usize)) }));
    asked.insert("members", members.collect::<Vec<_>>());
    let asked = ReplSetConfig::parse(asked.to_buf().as_raw()).unwrap();
    let answer = Arc::default();
    let tell: Arc<Mutex<Option<Result<(), SetError>>>> = Arc::clone(&answer);
    world.asked.push(Box::pin(async move {
        let answered = set.reconfigure(asked, force).await;
        *tell.lock().unwrap() = Some(answered);
    }));
    answer
}

#[test]
fn a_survivor_is_forced_to_go_on_alone() {
    let mut world = World::new(3);
    for _ in 0..20 {
        world.note();
        world.round();
    }
    // The last ones are not known to be committed.
    world.wires.down.lock().unwrap().extend([1, 2]);
    (0..3).for_each(|_| world.note());
    world.until("it steps down", |world| !world.nodes[0].set.is_writable());
    world.until("it knows no primary", |world| world.nodes[0].set.topology().primary.is_none());
    let applied = world.nodes[0].set.last_applied();
    let refused = reconfigure(&mut world, 0, &[0], false);
    world.until("an answer", |_| refused.lock().unwrap().is_some());
    assert!(refused.lock().unwrap().as_ref().unwrap().is_err(), "it takes no for an answer without force");
    let forced = reconfigure(&mut world, 0, &[0, 1], true);
    let at_once = reconfigure(&mut world, 0, &[0, 1], true);
    world.until("an answer", |_| forced.lock().unwrap().is_some());
    assert_eq!(*forced.lock().unwrap(), Some(Ok(())));
    assert!(at_once.lock().unwrap().as_ref().unwrap().is_err(), "it leads by then");
    world.until("it is primary", |world| world.nodes[0].set.is_writable());
    let config = world.nodes[0].set.topology().config.clone().unwrap();
    assert_eq!((config.version, config.members.len()), (10_002, 2));
    assert!(world.nodes[0].set.last_applied() > applied);

    // The others have their data: they are of the set that has ended, and do not come back by themselves.
    world.wires.down.lock().unwrap().retain(|id| *id != 1);
    (0..300).for_each(|_| world.round());
    assert!(world.nodes[0].set.is_writable() && !world.nodes[1].set.is_writable());
    assert_eq!(world.nodes[1].set.topology().config.as_ref().unwrap().version, 1);

    // It was written down: after a restart it goes on so.
    let engine = Arc::clone(&world.nodes[0].engine);
    world.nodes[0] = world.start(0, engine);
    world.until("it is primary again", |world| world.nodes[0].set.is_writable());
    assert_eq!(world.nodes[0].set.topology().config.as_ref().unwrap().version, 10_002);

    // With an empty disk one joins, by a copy of the data.
    world.nodes[1] = world.start(1, Arc::default());
    world.until("it is to copy", |world| world.nodes[1].set.topology().state == MemberState::Startup2);
    assert!(world.nodes[0].set.is_writable());
}

/// An envelope of nobody's, with fields of this one's in the place of its own.
fn told(like: &Document, from: i64, to: i64, fields: Document) -> DocumentBuf {
    let mut envelope = like.clone();
    envelope.insert("from", doc! { "number": from, "host": "nobody:1" });
    envelope.insert("to", doc! { "number": to, "host": (host(0)) });
    envelope.insert("m", Vec::<Value>::new());
    for (name, value) in fields {
        envelope.insert(name.as_str(), value);
    }
    envelope.to_buf()
}

#[test]
fn who_begins_to_lead_takes_no_other_number() {
    let mut world = World::new(5);
    world.wires.down.lock().unwrap().extend([1, 2]);
    world.until("it knows no primary", |world| world.nodes[0].set.topology().primary.is_none());
    drop(reconfigure(&mut world, 0, &[0], true));
    world.until("it is primary", |world| world.nodes[0].set.is_writable());
    let set = world.nodes[0].set.clone();
    let down = set.clone();
    world.asked.push(Box::pin(async move {
        down.step_down(Duration::ZERO, Duration::from_secs(60), true).await.unwrap();
        down.freeze(Duration::ZERO).await.unwrap();
    }));
    world.until("it is none", |world| !world.nodes[0].set.is_writable() && world.asked.is_empty());

    let known = known_of(&world, 0);
    let of_set = doc! {
        "setId": (known.get("setId").unwrap().clone()), "disk": (known.get("disk").unwrap().clone()),
    };
    let like = world.recorded.iter().rev().find(|(to, _)| *to == 0).unwrap().1.as_raw().to_document();
    let up = set.clone();
    world.asked.push(Box::pin(async move { drop(up.step_up().await) }));
    let mut context = Context::from_waker(Waker::noop());
    world.asked.retain_mut(|asked| asked.as_mut().poll(&mut context).is_pending());
    set.receive(told(&like, 2, 9, of_set).as_raw()).unwrap();
    world.until("it is primary again", |world| world.nodes[0].set.is_writable());
}

/// What every answer to a heartbeat tells, for an envelope.
fn known_of(world: &World, id: usize) -> Document {
    let question = doc! { "replSetHeartbeat": "rs", "$db": "admin" }.to_buf();
    let answer = world.nodes[id].set.heartbeat(question.as_raw()).unwrap();
    answer.as_raw().to_document()
}

/// An envelope like those to a member, which gives its disk this number.
fn gives_number(world: &World, id: usize, number: i64) -> DocumentBuf {
    let mut envelope =
        world.recorded.iter().rev().find(|(to, _)| *to == id).unwrap().1.as_raw().to_document();
    envelope.insert("disk", known_of(world, id).get("disk").unwrap().clone());
    envelope.insert("to", doc! { "number": number, "host": (host(id)) });
    envelope.insert("m", Vec::<Value>::new());
    envelope.to_buf()
}

#[test]
fn a_number_that_nobody_has_given_takes_no_vote_away() {
    let mut world = World::new(7);
    world.until("all vote", |world| world.nodes[0].set.topology().voters == 3);
    let forged = gives_number(&world, 1, 1_000);
    world.nodes[1].set.receive(forged.as_raw()).unwrap();
    (0..5).for_each(|_| world.round());
    // Its vote is needed now.
    world.wires.down.lock().unwrap().push(2);
    (0..200).for_each(|_| world.round());
    let before = world.nodes[1].set.last_applied();
    world.until("a primary", |world| world.nodes.iter().any(|node| node.set.is_writable()));
    world.note();
    world.until("a note is applied", |world| world.nodes[1].set.last_applied() > before);
    // And an empty disk takes the true one after it.
    world.wires.down.lock().unwrap().clear();
    world.nodes[1] = world.start(1, Arc::default());
    let forged = gives_number(&world, 1, 1_000);
    world.nodes[1].set.receive(forged.as_raw()).unwrap();
    world.until("it follows", |world| world.nodes[1].set.topology().state == MemberState::Secondary);
    world.until("it votes", |world| {
        world.nodes.iter().any(|node| node.set.is_writable() && node.set.topology().voters == 3)
    });
}

#[test]
fn senders_that_nobody_knows_are_not_in_the_way_of_members() {
    let mut world = World::new(6);
    for _ in 0..20 {
        world.note();
        world.round();
    }
    let like = world.recorded.iter().rev().find(|(to, _)| *to == 1).unwrap().1.as_raw().to_document();
    let whole = like.to_buf();
    let to = whole.as_raw().get("to").unwrap().as_document().unwrap();
    let to = to.get("number").unwrap().as_i64_exact().unwrap();
    let engine = Arc::clone(&world.nodes[1].engine);
    world.nodes[1] = world.start(1, engine);
    world.wires.down.lock().unwrap().extend([0, 2]);
    (0..20).for_each(|_| world.round());
    for number in 1_000..1_100 {
        world.nodes[1].set.receive(told(&like, number, to, doc! { "echo": 0_i64 }).as_raw()).unwrap();
    }
    world.round();
    world.wires.down.lock().unwrap().clear();
    world.until("it knows how old its data are", |world| world.nodes[1].set.staleness().is_some());
}
