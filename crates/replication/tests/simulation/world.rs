//! Members, their disks and network, clients and faults in one deterministic run.

use crate::Bug;
use crate::checker::{Checker, logs_match, value};
use crate::disk::{Disk, DiskLog};
use crate::network::Network;
use crate::stored::operation;
use fastrand::Rng;
use replication::{
    Checkpoint, Committed, Config, Effects, LogEntryKind, LogIndex, LogPosition, Member, MemberId,
    RaftMessage, RaftRole, ReadId, SyncTicket, Term,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const ELECTION_TIMEOUT: Duration = Duration::from_millis(1_000);
const MEMBERS_MAX: MemberId = 7;

/// Until when there are faults; from when all must be well, with clients again; and without.
const FAULTS_END: Duration = Duration::from_secs(20);
const HEALED: Duration = Duration::from_secs(32);
const RESTED: Duration = Duration::from_secs(34);

/// What a member has applied.
#[derive(Clone, Default)]
struct Data {
    checkpoint: Checkpoint,
    values: Vec<u64>,
}

/// A write that waits for its commit.
struct Pending {
    position: LogPosition,
    value: u64,
}

struct Running {
    member: Member<DiskLog>,
    data: Data,
    /// Committed and not applied yet.
    queue: Vec<Committed>,
    pending: Vec<Pending>,
    /// Reads, with what had been seen when each began, and when known the index that it needs.
    reads: Vec<(ReadId, LogIndex, Option<LogIndex>)>,
    is_copying: bool,
}

struct Server {
    disk: Rc<RefCell<Disk>>,
    /// The data that survive a crash.
    durable: Data,
    /// Counts starts: what was under way at a crash comes to nothing.
    epoch: u64,
    running: Option<Running>,
    sync_delay_max: u64,
    last_sync: Duration,
    wall_offset: Duration,
    paused_until: Duration,
}

#[derive(Clone)]
enum Event {
    Wake,
    Deliver(Vec<u8>),
    Synced(SyncTicket, usize),
    Apply,
    Flush,
    Copied(MemberId),
    Start,
    Client,
    Fault,
}

pub(crate) struct World {
    random: Rng,
    bug: Option<Bug>,
    now: Duration,
    events: BTreeMap<(Duration, u64), (MemberId, u64, Event)>,
    ordinal: u64,
    servers: BTreeMap<MemberId, Server>,
    network: Network,
    pub(crate) checker: Checker,
    next_value: u64,
    /// Leaves the set in peace.
    is_calm: bool,
    pub(crate) trace: u64,
    prints: bool,
}

impl World {
    /// `in_stores`: the members' logs are real ones as well.
    pub(crate) fn new(seed: u64, bug: Option<Bug>, in_stores: bool) -> Self {
        let mut random = Rng::with_seed(seed);
        let voters: Vec<MemberId> = (1..=[3, 3, 5, 1][random.usize(..4)]).collect();
        let network = Network::new(&mut random);
        let disk = |random: &mut Rng| match in_stores {
            true => Disk::with_store([0, 500, 1 << 20][random.usize(..3)]),
            false => Disk::new(bug),
        };
        let servers = (1..=MEMBERS_MAX).map(|id| {
            let disk = disk(&mut random);
            (id, Server::new(&voters, id, disk, &mut random))
        });
        let servers = servers.collect();
        let mut world = World {
            random,
            bug,
            now: Duration::ZERO,
            events: BTreeMap::new(),
            ordinal: 0,
            servers,
            network,
            checker: Checker::default(),
            next_value: 0,
            is_calm: false,
            trace: 0,
            prints: std::env::var_os("HEDDLE_SIMULATION_TRACE").is_some(),
        };
        for id in 1..=MEMBERS_MAX {
            world.start(id);
        }
        for client in 0..3 {
            world.at(Duration::from_millis(client), 0, Event::Client);
        }
        world.at(Duration::from_secs(2), 0, Event::Fault);
        world
    }

    /// Faults for a while, then none: everything must come to rest, equal.
    pub(crate) fn run(&mut self) {
        self.run_until(FAULTS_END);
        self.is_calm = true;
        self.network.heal();
        for id in 1..=MEMBERS_MAX {
            let server = self.servers.get_mut(&id).unwrap();
            (server.sync_delay_max, server.paused_until) = (5_000, self.now);
            if server.running.is_none() {
                self.start(id);
            }
            self.at(Duration::ZERO, id, Event::Flush);
        }
        self.run_until(HEALED);
        let acknowledged = self.checker.acknowledgements();
        self.run_until(RESTED + Duration::from_secs(2));
        if self.prints {
            self.describe();
        }
        assert!(self.checker.acknowledgements() > acknowledged, "no write is acknowledged after healing");
        self.check_end();
    }

    fn run_until(&mut self, end: Duration) {
        while let Some(next) = self.events.first_entry()
            && next.key().0 <= end
        {
            let ((now, ordinal), (id, epoch, event)) = next.remove_entry();
            self.now = now;
            self.trace = (self.trace ^ now.as_micros() as u64 ^ id).wrapping_mul(0x100_0000_01b3) ^ ordinal;
            self.handle(id, epoch, event);
        }
    }

    fn check_end(&self) {
        self.checker.nothing_lost();
        let images: Vec<_> =
            self.servers.values().map(|server| server.disk.borrow().written.clone()).collect();
        for one in &images {
            images.iter().for_each(|other| logs_match(one, other));
        }
        let leader = self.leader().expect("a leader after healing");
        let members = self.servers[&leader].running.as_ref().unwrap().member.membership().members();
        for id in members {
            let running = self.servers[&id].running.as_ref().unwrap();
            assert_eq!(running.data.values, self.checker.values(), "member {id} has other data at the end");
        }
    }

    fn leader(&self) -> Option<MemberId> {
        let leads = |server: &Server| {
            let member = &server.running.as_ref()?.member;
            (member.leadership().role == RaftRole::Leader).then(|| member.leadership().term)
        };
        let leaders = self.servers.iter().filter_map(|(id, server)| Some((leads(server)?, *id)));
        leaders.max().map(|(_, id)| id)
    }

    fn at(&mut self, after: Duration, id: MemberId, event: Event) {
        let epoch = self.servers.get(&id).map_or(0, |server| server.epoch);
        self.ordinal += 1;
        self.events.insert((self.now + after, self.ordinal), (id, epoch, event));
    }

    fn handle(&mut self, id: MemberId, epoch: u64, event: Event) {
        match event {
            Event::Client => return self.client(),
            Event::Fault => return self.fault(),
            Event::Start => return self.start(id),
            _ => {}
        }
        let server = self.servers.get_mut(&id).unwrap();
        let is_message = matches!(event, Event::Deliver(_));
        let Some(running) = server.running.as_mut().filter(|_| is_message || server.epoch == epoch) else {
            return;
        };
        if server.paused_until > self.now {
            let wait = server.paused_until - self.now;
            return self.at(wait, id, event);
        }
        match event {
            Event::Wake => {
                running.member.advance(self.now);
                let wait = running.member.deadline() - self.now;
                self.at(wait, id, Event::Wake);
            }
            Event::Deliver(bytes) => {
                running.member.receive(RaftMessage::decode(&bytes).unwrap()).unwrap();
            }
            Event::Synced(ticket, changes) => {
                server.disk.borrow_mut().end_sync(changes);
                if self.bug != Some(Bug::AnswerBeforeSync) {
                    running.member.synced(ticket);
                }
                if self.bug == Some(Bug::AcknowledgedByLeaderAlone) {
                    let durable = server.disk.borrow().durable.clone();
                    for pending in std::mem::take(&mut running.pending) {
                        match durable.entry(pending.position.index) {
                            Some(entry) if entry.position == pending.position => {
                                self.checker.acknowledged(pending.position, pending.value);
                            }
                            _ => running.pending.push(pending),
                        }
                    }
                }
            }
            Event::Apply => self.apply(id),
            Event::Flush => {
                server.durable = running.data.clone();
                let through = server.durable.checkpoint.position.index;
                if self.random.u8(..3) == 0 {
                    running.member.compact(through.saturating_sub(self.random.u64(..40))).unwrap();
                }
                let after = Duration::from_millis(self.random.u64(100..3_000));
                self.at(after, id, Event::Flush);
            }
            Event::Copied(from) => self.copied(id, from),
            Event::Client | Event::Fault | Event::Start => unreachable!("handled before"),
        }
        self.settle(id);
    }

    /// Does what the member wants.
    fn settle(&mut self, id: MemberId) {
        let server = self.servers.get_mut(&id).unwrap();
        let Some(running) = server.running.as_mut() else { return };
        let Effects { messages, sync, committed, leadership, readable, snapshot, has_more } =
            running.member.effects().unwrap();
        for message in messages {
            assert_eq!(message.from(), id);
            for after in self.network.send(id, message.to(), &mut self.random) {
                self.ordinal += 1;
                let event = (message.to(), 0, Event::Deliver(message.encode()));
                self.events.insert((self.now + after, self.ordinal), event);
            }
        }
        for entry in &committed {
            self.checker.committed(id, running.member.leadership().term, entry);
        }
        let applies = !committed.is_empty();
        running.queue.extend(committed);
        if let Some(now) = leadership {
            if self.prints {
                println!("{:?} {id} {now:?}", self.now);
            }
            running.reads.clear();
            if now.role == RaftRole::Leader {
                self.checker.leads(id, now.term, &server.disk.borrow().written);
            }
        }
        for (read, index) in readable {
            let known =
                running.reads.iter_mut().filter(|(pending, _, needs)| *pending <= read && needs.is_none());
            known.for_each(|(_, _, needs)| *needs = Some(index));
        }
        finish_reads(id, running, &mut self.checker);
        let copies = snapshot.filter(|_| !std::mem::replace(&mut running.is_copying, true));
        let changes = server.disk.borrow().begin_sync();
        let synced = self.now + Duration::from_micros(self.random.u64(50..=server.sync_delay_max));
        if sync.is_some() {
            server.last_sync = server.last_sync.max(synced);
        }
        let after = server.last_sync.saturating_sub(self.now);
        if let Some(ticket) = sync {
            if self.bug == Some(Bug::AnswerBeforeSync) {
                running.member.synced(ticket);
                self.at(Duration::ZERO, id, Event::Wake);
            }
            self.at(after, id, Event::Synced(ticket, changes));
        }
        if applies {
            let after = Duration::from_micros(self.random.u64(..5_000));
            self.at(after, id, Event::Apply);
        }
        if let Some(wanted) = copies {
            let after = Duration::from_millis(self.random.u64(20..600));
            self.at(after, id, Event::Copied(wanted.from));
        }
        if has_more {
            self.settle(id);
        }
    }

    fn apply(&mut self, id: MemberId) {
        let running = self.servers.get_mut(&id).unwrap().running.as_mut().unwrap();
        let Some(last) = running.queue.last().map(|last| last.entry.position.index) else { return };
        for Committed { entry, membership } in std::mem::take(&mut running.queue) {
            running.data.values.extend(value(&entry));
            let checkpoint = &mut running.data.checkpoint;
            checkpoint.position = entry.position;
            checkpoint.membership = membership.unwrap_or_else(|| checkpoint.membership.clone());
            if let LogEntryKind::Operation(timestamp) = entry.kind {
                checkpoint.timestamp = timestamp;
            }
            running.pending.retain(|pending| {
                let is_decided = pending.position.index == entry.position.index;
                if is_decided && pending.position == entry.position {
                    self.checker.acknowledged(pending.position, pending.value);
                }
                !is_decided
            });
        }
        running.member.applied(last);
        finish_reads(id, running, &mut self.checker);
    }

    fn copied(&mut self, id: MemberId, from: MemberId) {
        let reaches = self.network.reaches(from, id) && self.network.reaches(id, from);
        let source = self.servers[&from].running.as_ref().filter(|_| reaches && from != id);
        let copy = source.map(|source| source.data.clone());
        let server = self.servers.get_mut(&id).unwrap();
        let running = server.running.as_mut().unwrap();
        running.is_copying = false;
        let Some(copy) = copy.filter(|copy| running.member.can_install(&copy.checkpoint)) else { return };
        server.durable = copy.clone();
        assert!(running.member.install(&copy.checkpoint));
        running.queue.clear();
        running.data = copy;
    }

    fn client(&mut self) {
        let after = Duration::from_millis(self.random.u64(5..200));
        if !self.is_calm || (HEALED..RESTED).contains(&self.now) {
            let id = match self.random.u8(..4) {
                0 => self.random.u64(1..=MEMBERS_MAX),
                _ => self.leader().unwrap_or(1),
            };
            self.request(id);
            self.settle(id);
        }
        self.at(after, 0, Event::Client);
    }

    fn request(&mut self, id: MemberId) {
        let reads = !self.is_calm && self.random.u8(..3) == 0;
        let count = self.random.usize(1..5);
        let server = self.servers.get_mut(&id).unwrap();
        if server.paused_until > self.now {
            return;
        }
        let Some(running) = server.running.as_mut() else { return };
        if reads {
            if self.bug == Some(Bug::StaleRead) && running.member.leadership().role == RaftRole::Leader {
                let index = running.data.checkpoint.position.index;
                self.checker.read(id, self.checker.seen, index);
            } else if let Ok(read) = running.member.read() {
                running.reads.push((read, self.checker.seen, None));
            }
            return;
        }
        let first = self.next_value;
        let mut value = first;
        let wall = self.now + server.wall_offset;
        let proposed = running.member.propose(wall, count, |optime| {
            value += 1;
            operation(optime, value).into_bytes()
        });
        self.next_value = value;
        let Ok(LogPosition { term, index }) = proposed else { return };
        let pending = (0..count as u64).map(|nth| Pending {
            position: LogPosition { term, index: index + nth },
            value: first + nth + 1,
        });
        running.pending.extend(pending);
    }

    fn fault(&mut self) {
        if self.is_calm {
            return;
        }
        let id = match self.random.bool() {
            true => self.leader().unwrap_or(1),
            false => self.random.u64(1..=MEMBERS_MAX),
        };
        let kind = self.random.u8(..14);
        if self.prints {
            println!("{:?} fault {kind} of {id}", self.now);
        }
        match kind {
            0..=2 => self.crash(id),
            3 => (1..=MEMBERS_MAX).for_each(|id| self.crash(id)),
            4 | 5 => {
                let members: Vec<MemberId> = (1..=5).collect();
                self.network.partition(&members, &mut self.random);
            }
            6 => self.network.mend(),
            7 => self.network.change(&mut self.random),
            8 => self.slow(id),
            9 => self.skew(id),
            10 => self.hand_over(id),
            _ => self.change_members(),
        }
        let after = Duration::from_millis(self.random.u64(50..1_500));
        self.at(after, 0, Event::Fault);
    }

    /// A slow disk, or a process that is stopped for a while.
    fn slow(&mut self, id: MemberId) {
        let server = self.servers.get_mut(&id).unwrap();
        server.sync_delay_max = [500, 20_000, 500_000][self.random.usize(..3)];
        if self.random.bool() {
            server.paused_until = self.now + Duration::from_millis(self.random.u64(..4_000));
        }
    }

    fn skew(&mut self, id: MemberId) {
        self.servers.get_mut(&id).unwrap().wall_offset =
            Duration::from_secs(1_000_000 + self.random.u64(..100));
    }

    fn hand_over(&mut self, id: MemberId) {
        let to = self.random.u64(1..=5);
        let kind = self.random.u8(..3);
        let Some(running) = self.servers.get_mut(&id).unwrap().running.as_mut() else { return };
        match kind {
            0 => running.member.resign(),
            1 => running.member.transfer(to),
            _ => {
                let to = running.member.successor(|member| member as u32);
                to.into_iter().for_each(|to| running.member.transfer(to));
            }
        }
        self.settle(id);
    }

    fn change_members(&mut self) {
        let Some(id) = self.leader() else { return };
        let mut others: Vec<MemberId> = (1..=MEMBERS_MAX).filter(|other| *other != id).collect();
        self.random.shuffle(&mut others);
        let votes = self.random.usize(..5);
        let learns = self.random.usize(..2);
        let running = self.servers.get_mut(&id).unwrap().running.as_mut().unwrap();
        let voters = [&[id][..], &others[..votes]].concat();
        let _ = running.member.change_members(&voters, &others[votes..votes + learns], Vec::new());
        self.settle(id);
    }

    fn crash(&mut self, id: MemberId) {
        let server = self.servers.get_mut(&id).unwrap();
        let Some(running) = server.running.take() else { return };
        server.epoch += 1;
        if self.bug == Some(Bug::AppliedTwice) {
            server.durable.values = running.data.values;
        }
        server.disk.borrow_mut().crash(&mut self.random);
        server.last_sync = self.now;
        let after = Duration::from_millis(self.random.u64(1..3_000));
        self.at(after, id, Event::Start);
    }

    fn start(&mut self, id: MemberId) {
        let seed = self.random.u64(..);
        let server = self.servers.get_mut(&id).unwrap();
        if server.running.is_some() {
            return;
        }
        let mut config = Config { election_timeout: ELECTION_TIMEOUT, ..Config::new(id, seed) };
        if self.bug.is_none() {
            // From one entry in a message to all.
            config.message_bytes_max = [1, 200, 1 << 20][(seed % 3) as usize];
            config.committed_bytes_max = [1, 8 << 20][(seed / 9 % 2) as usize];
            config.messages_unanswered_max = [1, 4, 64][(seed / 3 % 3) as usize];
        }
        let data = server.durable.clone();
        let log = DiskLog(Rc::clone(&server.disk));
        let member = Member::open(&config, log, data.checkpoint.clone(), self.now).unwrap();
        let (queue, pending, reads) = (Vec::new(), Vec::new(), Vec::new());
        server.running = Some(Running { member, data, queue, pending, reads, is_copying: false });
        self.at(Duration::ZERO, id, Event::Wake);
        let after = Duration::from_millis(self.random.u64(..1_000));
        self.at(after, id, Event::Flush);
    }

    fn describe(&self) {
        for (id, server) in &self.servers {
            let Some(running) = &server.running else { continue };
            let (leads, members) = (running.member.leadership(), running.member.membership());
            let (log, position) = (&server.disk.borrow().written, running.data.checkpoint.position);
            let (first, last) = (log.compacted, log.entries.last().map(|entry| entry.position));
            println!("{id}: {leads:?} {members:?} data at {position:?}, log {first:?} to {last:?}");
        }
    }

    /// For reports.
    pub(crate) fn terms(&self) -> Term {
        let members = self.servers.values().filter_map(|server| server.running.as_ref());
        members.map(|running| running.member.leadership().term).max().unwrap_or_default()
    }
}

impl Server {
    fn new(voters: &[MemberId], id: MemberId, disk: Disk, random: &mut Rng) -> Self {
        // Who is no member at first has no data at all.
        let checkpoint = match voters.contains(&id) {
            true => Checkpoint::initial(voters),
            false => Checkpoint::default(),
        };
        Server {
            disk: Rc::new(RefCell::new(disk)),
            durable: Data { checkpoint, values: Vec::new() },
            epoch: 0,
            running: None,
            sync_delay_max: [500, 5_000, 50_000][random.usize(..3)],
            last_sync: Duration::ZERO,
            wall_offset: Duration::from_secs(1_000_000 + random.u64(..20)),
            paused_until: Duration::ZERO,
        }
    }
}

fn finish_reads(id: MemberId, running: &mut Running, checker: &mut Checker) {
    let applied = running.data.checkpoint.position.index;
    running.reads.retain(|(_, floor, needs)| {
        let is_ready = needs.is_some_and(|needs| needs <= applied);
        if is_ready {
            checker.read(id, *floor, applied);
        }
        !is_ready
    });
}
