//! Members, their disks, clients and faults, on simulated time.

use crate::checker::{Checker, documents};
use crate::client::{self, Outcome, PAIR, Request, SINGLES};
use crate::disk::{EndlessRoom, MemberDisk, Reader};
use crate::network::Network;
use catalog::Catalog;
use document::{DocumentBuf, RawValue, Value, doc};
use fastrand::Rng;
use protobuf::Message as _;
use raft::eraftpb::{self, MessageType};
use replication::oplog::{Applier, OplogEntry};
use replication::retryable::SessionTable;
use replication::set::{Background, MemberState, ReplSetConfig, ReplicaSet, SetOptions};
use replication::{Answer, LogOptions, MemberId, PeerError, Peers, SyncTicket, Term};
use std::collections::{BTreeMap, HashMap};
use std::future::{Future, ready};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use storage::{StorageOptions, Store};

/// What can be planted: each must be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A sync is reported that has not been.
    ForgottenSync,
    /// The leader is told that others have what they do not.
    AcknowledgedBeforeMajority,
    /// Readers are shown a part of a batch.
    PublishedEarly,
    /// An operation is applied again when later ones have been.
    AppliedTwice,
    /// A read does not ask whether the leader still is one.
    StaleRead,
}

/// Nothing fails before.
const PREPARED: Duration = Duration::from_secs(8);
/// Nothing fails any more from then on.
const HEALED: Duration = Duration::from_secs(28);
/// Clients have gone.
const RESTED: Duration = Duration::from_secs(36);
const END: Duration = Duration::from_secs(46);
const CLIENTS_MAX: usize = 12;

enum Event {
    Turn,
    Deliver(DocumentBuf),
    Synced(SyncTicket, u64),
    Apply,
    Start,
    Client,
    Fault,
}

/// What members have sent and what others have not got yet, and the members that run.
#[derive(Debug, Default)]
struct Wires {
    sent: Mutex<Vec<(usize, String, DocumentBuf)>>,
    running: Mutex<HashMap<String, ReplicaSet>>,
}

#[derive(Debug)]
struct Line(Arc<Wires>, usize);

impl Peers for Line {
    fn send(&self, host: &str, envelope: DocumentBuf) {
        self.0.sent.lock().unwrap().push((self.1, host.to_owned(), envelope));
    }

    fn ask(&self, host: &str, command: DocumentBuf, _: Duration) -> Answer {
        let member = self.0.running.lock().unwrap().get(host).cloned();
        let answer = match member.map(|member| member.heartbeat(command.as_raw())) {
            None => Err(PeerError::TimedOut { host: host.to_owned() }),
            Some(Ok(reply)) => Ok(reply),
            Some(Err(error)) => Ok(doc! { "ok": 0, "errmsg": (error.message) }.to_buf()),
        };
        Box::pin(ready(answer))
    }
}

struct Pending {
    request: Request,
    id: i32,
    value: i64,
    floor: usize,
}

struct Running {
    catalog: Arc<Catalog>,
    set: ReplicaSet,
    background: Background,
    _store: storage::Background,
    dead: Arc<AtomicBool>,
    reader: Arc<Reader>,
    clients: Vec<Pending>,
    operators: Vec<Pin<Box<dyn Future<Output = ()>>>>,
    /// When the next turn is, at the latest.
    turn_at: Duration,
    /// Whether it is to apply soon.
    applies: bool,
    /// What it has shown, by document.
    shown: BTreeMap<i32, Vec<i64>>,
    /// How many of the acknowledged writes it has to have by what it says of its freshness.
    fresh_through: usize,
}

struct Node {
    disk: MemberDisk,
    epoch: u64,
    running: Option<Running>,
    sync_delay_max: u64,
    last_sync: Duration,
    wall_offset: Duration,
    paused_until: Duration,
}

pub(crate) struct World {
    now: Duration,
    clock: ambient::Simulation,
    random: Rng,
    bug: Option<Bug>,
    nodes: Vec<Node>,
    wires: Arc<Wires>,
    network: Network,
    events: BTreeMap<(Duration, u64), (usize, u64, Event)>,
    ordinal: u64,
    next_value: i64,
    /// When what was acknowledged of which document.
    acknowledged: Vec<(Duration, i32, i64)>,
    /// How often a member said that its data have further ones of these.
    pub(crate) fresh_claims: usize,
    is_prepared: bool,
    prints: bool,
    pub(crate) checker: Checker,
}

fn host(id: usize) -> String {
    format!("h{id}:1")
}

fn place(host: &str) -> usize {
    host.trim_start_matches('h').trim_end_matches(":1").parse().expect("a host of this world")
}

impl World {
    pub(crate) fn new(seed: u64, bug: Option<Bug>) -> Self {
        let clock = ambient::Simulation::begin(seed);
        let mut random = Rng::with_seed(seed);
        let members = match bug {
            None => [1, 3, 3, 5][random.usize(..4)],
            Some(_) => 3,
        };
        let node = |random: &mut Rng| Node {
            disk: MemberDisk::default(),
            epoch: 0,
            running: None,
            sync_delay_max: [500, 5_000, 50_000][random.usize(..3)],
            last_sync: Duration::ZERO,
            wall_offset: Duration::from_secs(1_000_000 + random.u64(..20)),
            paused_until: Duration::ZERO,
        };
        let mut world = World {
            now: Duration::ZERO,
            clock,
            bug,
            nodes: (0..members).map(|_| node(&mut random)).collect(),
            wires: Arc::default(),
            network: Network::new(&mut random),
            random,
            events: BTreeMap::new(),
            ordinal: 0,
            next_value: 0,
            acknowledged: Vec::new(),
            fresh_claims: 0,
            is_prepared: false,
            prints: std::env::var_os("HEDDLE_SIMULATION_TRACE").is_some(),
            checker: Checker::default(),
        };
        world.network.heal();
        (0..members).for_each(|id| world.start(id));
        world.initiate();
        world.at(Duration::from_millis(100), 0, Event::Client);
        world.at(PREPARED, 0, Event::Fault);
        world
    }

    fn at(&mut self, after: Duration, id: usize, event: Event) {
        self.ordinal += 1;
        let epoch = self.nodes[id].epoch;
        self.events.insert((self.now + after, self.ordinal), (id, epoch, event));
    }

    pub(crate) fn terms(&self) -> Term {
        let running = self.nodes.iter().filter_map(|node| node.running.as_ref());
        running.map(|running| running.set.topology().term).max().unwrap_or_default()
    }

    pub(crate) fn run(&mut self) {
        let mut is_healed = false;
        while let Some(((at, _), (id, epoch, event))) = self.events.pop_first() {
            if at > END {
                break;
            }
            self.clock.advance(at - self.now);
            self.now = at;
            if at >= HEALED && !std::mem::replace(&mut is_healed, true) {
                self.heal();
            }
            self.handle(id, epoch, event);
        }
        assert!(self.is_prepared, "the set was never writable before the faults");
        self.check_end();
    }

    fn heal(&mut self) {
        self.network.heal();
        for id in 0..self.nodes.len() {
            let node = &mut self.nodes[id];
            (node.sync_delay_max, node.paused_until) = (500, self.now);
            if node.running.is_none() {
                self.start(id);
            }
        }
    }

    fn handle(&mut self, id: usize, epoch: u64, event: Event) {
        match event {
            Event::Client => return self.client(),
            Event::Fault => return self.fault(),
            Event::Start => {
                if self.nodes[id].running.is_none() {
                    self.start(id);
                }
                return;
            }
            _ => {}
        }
        let node = &mut self.nodes[id];
        let is_message = matches!(event, Event::Deliver(_));
        if node.running.is_none() || (!is_message && node.epoch != epoch) {
            return;
        }
        if node.paused_until > self.now {
            // It goes on with whatever comes to its mind first.
            let wait = node.paused_until - self.now + Duration::from_micros(self.random.u64(..50_000));
            return self.at(wait, id, event);
        }
        let Some(running) = &mut node.running else { return };
        match event {
            Event::Turn if running.turn_at > self.now => return,
            Event::Turn => running.turn_at = Duration::MAX,
            Event::Deliver(envelope) => {
                running.set.receive(envelope.as_raw()).expect("members send envelopes");
            }
            Event::Synced(ticket, through) => {
                if self.bug != Some(Bug::ForgottenSync) {
                    node.disk.end_sync(through);
                }
                running.background.synced(ticket);
            }
            Event::Apply if !self.apply(id) => return,
            Event::Apply => {}
            Event::Client | Event::Fault | Event::Start => unreachable!("handled before"),
        }
        self.settle(id);
    }

    /// Does what follows on a member.
    fn settle(&mut self, id: usize) {
        self.poll_clients(id);
        let (now, node) = (self.now, &mut self.nodes[id]);
        let Some(running) = &mut node.running else { return };
        let turn = running.background.turn(now, now + node.wall_offset).expect("a log in memory");
        let synced = turn.sync.map(|ticket| (ticket, node.disk.begin_sync()));
        let turn_at = turn.deadline.map(|deadline| deadline.max(now)).filter(|at| *at < running.turn_at);
        running.turn_at = turn_at.unwrap_or(running.turn_at);
        let applies = !std::mem::replace(&mut running.applies, true);
        if let Some((ticket, through)) = synced {
            let delay = Duration::from_micros(self.random.u64(50..=node.sync_delay_max));
            node.last_sync = node.last_sync.max(now + delay);
            let after = node.last_sync - now;
            self.at(after, id, Event::Synced(ticket, through));
        }
        if let Some(at) = turn_at {
            self.at(at - now, id, Event::Turn);
        }
        if applies {
            let after = Duration::from_micros(self.random.u64(..3_000));
            self.at(after, id, Event::Apply);
        }
        self.poll_clients(id);
        self.transmit();
    }

    fn transmit(&mut self) {
        let sent = std::mem::take(&mut *self.wires.sent.lock().unwrap());
        for (from, host, envelope) in sent {
            let to = place(&host);
            if self.bug == Some(Bug::AcknowledgedBeforeMajority) && self.random.bool() {
                self.forge_answer(from, &envelope);
            }
            for after in self.network.send(from as MemberId, to as MemberId, &mut self.random) {
                self.at(after, to, Event::Deliver(envelope.clone()));
            }
        }
    }

    /// Tells the leader that the receiver has what it is only being sent.
    fn forge_answer(&mut self, from: usize, envelope: &DocumentBuf) {
        let mut answer = envelope.as_raw().to_document();
        let Some(Value::Array(messages)) = answer.get("m").cloned() else { return };
        let mut forged = Vec::new();
        for message in &messages {
            let Value::Binary(binary) = message else { continue };
            let message = eraftpb::Message::parse_from_bytes(&binary.bytes).unwrap();
            let Some(last) =
                message.entries.last().filter(|_| message.get_msg_type() == MessageType::MsgAppend)
            else {
                continue;
            };
            let mut reply = eraftpb::Message::new();
            reply.set_msg_type(MessageType::MsgAppendResponse);
            (reply.from, reply.to, reply.term, reply.index) =
                (message.to, message.from, message.term, last.index);
            forged.push(Value::binary(0, reply.write_to_bytes().unwrap()));
        }
        if forged.is_empty() {
            return;
        }
        let (sender, receiver) = (answer.get("from").cloned().unwrap(), answer.get("to").cloned().unwrap());
        answer.insert("from", receiver);
        answer.insert("to", sender);
        answer.insert("m", forged);
        self.at(Duration::from_micros(50), from, Event::Deliver(answer.to_buf()));
    }

    fn poll_clients(&mut self, id: usize) {
        let Some(running) = &mut self.nodes[id].running else { return };
        let mut context = Context::from_waker(Waker::noop());
        running.operators.retain_mut(|operator| operator.as_mut().poll(&mut context).is_pending());
        let mut done = Vec::new();
        running.clients.retain_mut(|pending| match pending.request.as_mut().poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(outcome) => {
                done.push((pending.id, pending.value, pending.floor, outcome));
                false
            }
        });
        for (document, value, floor, outcome) in done {
            if self.prints {
                println!("{:?} client at {id}: {value} to {document}: {outcome:?}", self.now);
            }
            match outcome {
                Outcome::Written if value < 0 => self.is_prepared = true,
                Outcome::Written => {
                    self.acknowledged.push((self.now, document, value));
                    self.checker.acknowledged(document, value, floor);
                }
                Outcome::Never if value > 0 => self.checker.never(document, value),
                Outcome::Read(seen) => self.checker.read(document, &seen, floor),
                Outcome::Never | Outcome::Unknown => {}
            }
        }
    }

    /// Applies what is committed; whether there was any.
    fn apply(&mut self, id: usize) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let twice = self.bug == Some(Bug::AppliedTwice) && self.random.u8(..20) == 0;
        let Some(running) = &mut self.nodes[id].running else { return false };
        running.applies = false;
        let mut has_applied = false;
        loop {
            let mut step = pin!(running.background.apply());
            let mut polls = 0;
            let applied = loop {
                match step.as_mut().poll(&mut context) {
                    Poll::Ready(applied) => break applied.expect("data in memory"),
                    Poll::Pending => {
                        // It waits for a latch of a client's.
                        polls += 1;
                        assert!(polls < 1_000, "applying waits for ever");
                    }
                }
            };
            if !applied {
                break;
            }
            has_applied = true;
        }
        assert!(!running.reader.is_torn.load(Ordering::Relaxed), "member {id} shows one half of a unit");
        if twice {
            apply_again(&running.catalog, running.set.sessions());
        }
        self.look(id);
        has_applied
    }

    /// Looks at what a member shows its readers.
    fn look(&mut self, id: usize) {
        let Some(running) = &mut self.nodes[id].running else { return };
        if !running.set.topology().state.is_readable() {
            return;
        }
        let store = running.catalog.store();
        let fresh_as_of = running.set.staleness_at(self.now).map(|staleness| self.now - staleness);
        let view = match running.set.is_writable() {
            true => store.read_view(),
            false => store.published_view().expect("a member publishes as soon as it runs"),
        };
        let mut lists = BTreeMap::new();
        for document in documents() {
            let now = client::list(&running.catalog, &view, document);
            let before = running.shown.insert(document, now.clone()).unwrap_or_default();
            self.checker.view(id, document, &before, &now);
            lists.insert(document, now);
        }
        if let Some(as_of) = fresh_as_of {
            let through = self.acknowledged.partition_point(|(at, ..)| *at <= as_of);
            self.fresh_claims += usize::from(through > running.fresh_through);
            for (at, document, value) in self.acknowledged.iter().take(through).skip(running.fresh_through) {
                assert!(
                    lists[document].contains(value),
                    "member {id} says at {:?} that its data are as of {as_of:?}, and {value} of {document}, \
                     acknowledged at {at:?}, is missing: {:?}",
                    self.now,
                    lists[document]
                );
            }
            running.fresh_through = running.fresh_through.max(through);
        }
        assert_eq!(lists[&PAIR[0]], lists[&PAIR[1]], "member {id} shows one half of a unit");
    }

    fn initiate(&mut self) {
        let count = self.nodes.len();
        let members = (0..count).map(|id| Value::from(doc! { "_id": (id as i32), "host": (host(id)) }));
        let config = doc! { "_id": "rs", "version": 1, "members": (members.collect::<Vec<_>>()) };
        let config = ReplSetConfig::parse(config.to_buf().as_raw()).expect("a configuration");
        let Some(running) = &mut self.nodes[0].running else { return };
        let set = running.set.clone();
        running.operators.push(Box::pin(async move { set.initiate(config).await.expect("a set") }));
        self.settle(0);
    }

    fn start(&mut self, id: usize) {
        let seed = self.random.u64(..);
        let node = &mut self.nodes[id];
        let dead = Arc::new(AtomicBool::new(false));
        let publishes = self.bug == Some(Bug::PublishedEarly);
        let reader = Arc::new(Reader { publishes, ..Reader::default() });
        let engine = node.disk.engine(Arc::clone(&dead), Arc::clone(&reader));
        let options = StorageOptions { row_cache_bytes: 0, ..StorageOptions::small() };
        let (store, background) =
            Store::without_threads(engine, Arc::new(EndlessRoom), &options).expect("a store");
        let catalog = Catalog::open(store).expect("a catalog");
        drop(reader.catalog.set(Arc::clone(&catalog)));
        let mut options = SetOptions::new("rs", vec![host(id)], seed);
        options.log =
            LogOptions { recent_bytes: [0, 4 << 10, 32 << 20][(seed % 3) as usize], ..LogOptions::default() };
        options.unapplied_bytes_max = [300, 128 << 20][(seed / 3 % 2) as usize];
        options.window_bytes_min = [200, 1 << 20][(seed / 6 % 2) as usize];
        let line = Arc::new(Line(Arc::clone(&self.wires), id));
        let times = (self.now, self.now + node.wall_offset);
        let (set, own) =
            ReplicaSet::without_threads(options, Arc::clone(&catalog), line, times).expect("a member");
        self.wires.running.lock().unwrap().insert(host(id), set.clone());
        node.running = Some(Running {
            catalog,
            set,
            background: own,
            _store: background,
            dead,
            reader,
            clients: Vec::new(),
            operators: Vec::new(),
            turn_at: Duration::MAX,
            applies: false,
            shown: BTreeMap::new(),
            fresh_through: 0,
        });
        self.settle(id);
    }

    fn crash(&mut self, id: usize) {
        let node = &mut self.nodes[id];
        let Some(running) = node.running.take() else { return };
        running.dead.store(true, Ordering::Relaxed);
        self.wires.running.lock().unwrap().remove(&host(id));
        node.epoch += 1;
        node.disk.crash(&mut self.random);
        node.last_sync = self.now;
        drop(running);
        let after = Duration::from_millis(self.random.u64(1..2_000));
        self.at(after, id, Event::Start);
    }

    fn leader(&self) -> Option<usize> {
        self.nodes
            .iter()
            .position(|node| node.running.as_ref().is_some_and(|running| running.set.is_writable()))
    }

    fn client(&mut self) {
        let after = Duration::from_millis(self.random.u64(5..120));
        self.at(after, 0, Event::Client);
        let id = match self.random.u8(..4) {
            0 | 1 => self.random.usize(..self.nodes.len()),
            _ => self.leader().unwrap_or(0),
        };
        if self.now > RESTED || self.nodes[id].paused_until > self.now {
            return;
        }
        let (now, is_prepared) = (self.now, self.is_prepared);
        let believes = self.bug == Some(Bug::StaleRead);
        // Of one document there is more to be seen.
        let document = if believes { SINGLES.start } else { self.random.i32(SINGLES) };
        let kind = self.random.u8(..6);
        let Some(running) = &mut self.nodes[id].running else { return };
        if running.clients.len() >= CLIENTS_MAX {
            return;
        }
        let catalog = Arc::clone(&running.catalog);
        if !is_prepared {
            if running.set.is_writable() && running.clients.is_empty() && now < PREPARED {
                running.clients.push(Pending {
                    request: client::prepare(catalog),
                    id: -1,
                    value: -1,
                    floor: 0,
                });
            }
            return self.settle(id);
        }
        self.next_value += 1;
        let value = self.next_value;
        let (request, document, value) = match kind {
            0 | 1 => (client::read(running.set.clone(), catalog, document, believes), document, 0),
            2 => (client::append_to_pair(catalog, value), PAIR[0], value),
            _ => (client::append(catalog, document, value), document, value),
        };
        let floor = self.checker.begins(document);
        running.clients.push(Pending { request, id: document, value, floor });
        self.settle(id);
    }

    fn fault(&mut self) {
        if self.now >= HEALED {
            return;
        }
        let after = Duration::from_millis(self.random.u64(50..1_500));
        self.at(after, 0, Event::Fault);
        let id = match self.random.bool() {
            true => self.leader().unwrap_or(0),
            false => self.random.usize(..self.nodes.len()),
        };
        let kind = self.random.u8(..14);
        if self.prints {
            println!("{:?} fault {kind} of {id}", self.now);
        }
        match kind {
            0..=2 => self.crash(id),
            3 => (0..self.nodes.len()).for_each(|id| self.crash(id)),
            4 | 5 => {
                let members: Vec<MemberId> = (0..self.nodes.len() as MemberId).collect();
                self.network.partition(&members, &mut self.random);
            }
            6 => self.network.mend(),
            7 => self.network.change(&mut self.random),
            8 | 9 => {
                let node = &mut self.nodes[id];
                node.sync_delay_max = [500, 20_000, 500_000][self.random.usize(..3)];
                if self.random.bool() {
                    node.paused_until = self.now + Duration::from_millis(self.random.u64(..4_000));
                }
            }
            10 => self.nodes[id].wall_offset = Duration::from_secs(1_000_000 + self.random.u64(..100)),
            _ => self.operate(id, kind),
        }
    }

    /// What an operator asks a member.
    fn operate(&mut self, id: usize, kind: u8) {
        let force = self.random.bool();
        let (other, votes, priority) = (self.random.usize(..), self.random.bool(), self.random.i32(0..4));
        let count = self.nodes.len();
        if self.nodes[id].paused_until > self.now {
            return;
        }
        let Some(running) = &mut self.nodes[id].running else { return };
        let set = running.set.clone();
        if force {
            // Those that have no vote follow that member.
            set.sync_from((other % count) as i32);
        }
        running.operators.push(match kind {
            11 => Box::pin(async move {
                let (wait, lasts) = (Duration::from_secs(1), Duration::from_secs(2));
                drop(set.step_down(wait, lasts, force).await);
            }),
            12 => Box::pin(async move { drop(set.step_up().await) }),
            _ => {
                let Some(config) = set.topology().config.clone() else { return };
                let mut asked = (*config).clone();
                asked.version += 1;
                let count = asked.members.len();
                let member = &mut asked.members[other % count];
                member.votes = votes;
                member.priority = if votes { f64::from(priority) } else { 0.0 };
                let Ok(asked) = ReplSetConfig::parse(asked.to_document().to_buf().as_raw()) else { return };
                Box::pin(async move { drop(set.reconfigure(asked, false).await) })
            }
        });
        self.settle(id);
    }

    /// After all that everybody has the same, all that was acknowledged, and nothing twice.
    fn check_end(&mut self) {
        let leader = self.leader().unwrap_or_else(|| panic!("no primary at the end: {}", self.describe()));
        for id in 0..self.nodes.len() {
            let running = self.nodes[id].running.as_ref().expect("all run at the end");
            let state = running.set.topology().state;
            assert!(state.is_readable(), "member {id} is {state:?} at the end: {}", self.describe());
            assert_eq!(state == MemberState::Primary, id == leader, "{}", self.describe());
            assert!(
                running.clients.is_empty(),
                "requests wait on member {id} at the end: {}",
                self.describe()
            );
            let view = running.catalog.store().read_view();
            let lists: Vec<_> = documents()
                .map(|document| (document, client::list(&running.catalog, &view, document)))
                .collect();
            assert_eq!(
                lists[SINGLES.len()].1,
                lists[SINGLES.len() + 1].1,
                "member {id} has one half of a unit"
            );
            for (document, list) in lists {
                let whole = &self.nodes[leader].running.as_ref().expect("it runs").catalog;
                let same = client::list(whole, &whole.store().read_view(), document);
                assert_eq!(list, same, "members {id} and {leader} differ");
                self.checker.is_whole(document, &list);
            }
        }
    }

    fn describe(&self) -> String {
        let describe = |(id, node): (usize, &Node)| match &node.running {
            None => format!("\n{id}: down"),
            Some(running) => {
                let topology = running.set.topology();
                format!(
                    "\n{id}: {:?} term {} primary {:?} applied {:?} committed {:?}, {} requests, votes {:?}",
                    topology.state,
                    topology.term,
                    topology.primary,
                    running.set.last_applied(),
                    running.set.last_committed(),
                    running.clients.len(),
                    topology.config.as_ref().map(|config| config.voters().map(|m| m.id).collect::<Vec<_>>()),
                )
            }
        };
        self.nodes.iter().enumerate().map(describe).collect()
    }
}

/// Applies some earlier update once more.
fn apply_again(catalog: &Arc<Catalog>, sessions: &SessionTable) {
    let Some(oplog) = catalog.collection("local", "oplog.rs") else { return };
    let view = catalog.store().read_view();
    let (forward, options) = (storage::Direction::Forward, storage::CursorOptions::default());
    let mut cursor = oplog.documents(&view, Default::default(), forward, options).expect("a cursor");
    while let Ok(Some((_, entry))) = cursor.next() {
        if entry.get("op").and_then(RawValue::as_str) == Some("u") {
            let entry = OplogEntry::decode(entry.as_bytes()).expect("an entry");
            let receipts = catalog::Receipts::default();
            let context = catalog::OperationContext::writing(catalog.store(), &receipts);
            let applier = Applier::new(catalog, sessions, context);
            let mut applied = pin!(applier.apply(&entry));
            let _ = applied.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            return;
        }
    }
}
