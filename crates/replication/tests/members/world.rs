//! Simulated time, and what happens in it.

use crate::checker::Checker;
use crate::client::{self, Outcome, PAIR, SINGLES, Task};
use crate::member::{Node, Pending, Place, host, machine};
use crate::network::Network;
use crate::operator::Survivor;
use crate::planted::{self, Bug};
use crate::wires::{Question, Slot, Wires};
use document::{DocumentBuf, Timestamp, Value, doc};
use fastrand::Rng;
use replication::initial_sync::COPY_COMMAND;
use replication::set::ReplSetConfig;
use replication::{MemberId, OpTime, PeerError, SyncTicket, Term};
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Until then the set is writable and has its documents.
const PREPARED: Duration = Duration::from_secs(12);
/// How long clients still come after all is healed.
const CLIENTS_LEAVE: Duration = Duration::from_secs(2);
/// How long members have to come to rest when clients have gone.
const PATIENCE: Duration = Duration::from_secs(60);
/// The times of what is logged may be so far ahead of all clocks, which were that of another member, and who
/// stays behind goes by its own.
const PATIENCE_WITH_DELAY: Duration = Duration::from_secs(200);
/// `secondaryDelaySecs`. An idle primary logs something every ten seconds, and all have the same in between.
const DELAY_SECS: i32 = 2;
/// How often it is looked whether they have.
const LOOK: Duration = Duration::from_millis(250);
/// Of one member.
const CLIENTS_MAX: usize = 12;

pub(crate) enum Event {
    Turn,
    Deliver(DocumentBuf),
    Asked(Question),
    Answered(Slot, Result<DocumentBuf, PeerError>),
    Paused(Arc<AtomicBool>),
    Synced(SyncTicket, u64),
    Apply,
    Start,
    Die,
    Client,
    Fault,
    LookAfter,
    Heal,
    Look,
}

/// What has happened, over one seed or many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) writes: usize,
    pub(crate) reads: usize,
    pub(crate) views: usize,
    pub(crate) terms: usize,
    pub(crate) full_disks: usize,
    pub(crate) added: usize,
    pub(crate) removed: usize,
    /// How often a member said that its data have further ones of the acknowledged writes.
    pub(crate) fresh: usize,
    /// Copies of other members' data that have become a member's.
    pub(crate) copied: usize,
    /// How often one of both died before all files were there.
    pub(crate) interrupted: usize,
    pub(crate) lost_disks: usize,
    /// Members that were removed and come back with their disk.
    pub(crate) added_again: usize,
    /// Sets that went on without their majority.
    pub(crate) forced: usize,
    /// Reads of the past.
    pub(crate) pasts: usize,
    /// How often what is committed found no room.
    pub(crate) refused: usize,
    /// Processes that were told to stop while they waited for room.
    pub(crate) ended: usize,
    /// Copies that the others' logs did not go back to any more.
    pub(crate) outrun: usize,
    /// Those of seeds in which nobody has kept too much.
    pub(crate) outrun_within_bounds: usize,
    /// Processes that have kept their log for a member that copies,
    pub(crate) kept: usize,
    /// and how often that was too much.
    pub(crate) given_up: usize,
    pub(crate) simulated: Duration,
}

impl AddAssign for Figures {
    fn add_assign(&mut self, more: Figures) {
        self.writes += more.writes;
        self.reads += more.reads;
        self.views += more.views;
        self.terms += more.terms;
        self.full_disks += more.full_disks;
        self.added += more.added;
        self.removed += more.removed;
        self.fresh += more.fresh;
        self.copied += more.copied;
        self.interrupted += more.interrupted;
        self.lost_disks += more.lost_disks;
        self.added_again += more.added_again;
        self.forced += more.forced;
        self.pasts += more.pasts;
        self.refused += more.refused;
        self.ended += more.ended;
        self.outrun += more.outrun;
        self.outrun_within_bounds += more.outrun_within_bounds;
        self.kept += more.kept;
        self.given_up += more.given_up;
        self.simulated += more.simulated;
    }
}

impl Figures {
    /// Whether everything that can happen has.
    pub(crate) fn are_all_there(&self) -> bool {
        let Figures { writes, reads, views, terms, full_disks, added, removed, fresh, .. } = *self;
        let faults = [
            full_disks,
            added,
            removed,
            self.copied,
            self.interrupted,
            self.lost_disks,
            self.added_again,
            self.forced,
            self.refused,
            self.ended,
            self.kept,
        ];
        [writes, reads, views, terms, fresh, self.pasts].iter().chain(&faults).all(|count| *count > 0)
    }
}

pub(crate) struct World {
    pub(crate) now: Duration,
    clock: ambient::Simulation,
    pub(crate) random: Rng,
    pub(crate) bug: Option<Bug>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) wires: Arc<Wires>,
    pub(crate) network: Network,
    events: BTreeMap<(Duration, u64), (usize, u64, Event)>,
    ordinal: u64,
    next_value: i64,
    /// When what was acknowledged of which document.
    pub(crate) acknowledged: Vec<(Duration, i32, i64)>,
    /// Acknowledged and not asked to be removed.
    inserted: Vec<i64>,
    heals_at: Option<Duration>,
    /// A member stays behind by intention.
    pub(crate) has_delay: bool,
    /// The latest term that anybody knows of.
    pub(crate) term_max: Term,
    /// The only one that has its disk.
    pub(crate) survivor: Option<Survivor>,
    /// The last operation that any member has shown.
    pub(crate) shown_through: OpTime,
    /// What was there at which time.
    pub(crate) pasts: BTreeMap<Timestamp, Vec<DocumentBuf>>,
    /// The latest configuration that the operator has seen applied.
    pub(crate) config_seen: i64,
    prints: bool,
    pub(crate) checker: Checker,
    pub(crate) figures: Figures,
}

impl World {
    pub(crate) fn new(seed: u64, bug: Option<Bug>) -> Self {
        let clock = ambient::Simulation::begin(seed);
        let mut random = Rng::with_seed(seed);
        let (members, spares) = match bug {
            None => ([1, 3, 3, 5][random.usize(..4)], random.usize(..3)),
            Some(_) => (3, 0),
        };
        let mut nodes = Vec::new();
        nodes.extend((0..members).map(|_| Node::new(&mut random, Place::Configured)));
        nodes.extend((0..spares).map(|_| Node::new(&mut random, Place::Spare)));
        let mut world = World {
            now: Duration::ZERO,
            clock,
            bug,
            wires: Arc::default(),
            network: Network::new(&mut random),
            random,
            events: BTreeMap::new(),
            ordinal: 0,
            next_value: 0,
            acknowledged: Vec::new(),
            inserted: Vec::new(),
            heals_at: None,
            has_delay: false,
            term_max: 0,
            survivor: None,
            shown_through: OpTime::default(),
            pasts: BTreeMap::new(),
            config_seen: 1,
            prints: std::env::var_os("HEDDLE_SIMULATION_TRACE").is_some(),
            checker: Checker::default(),
            figures: Figures::default(),
            nodes,
        };
        world.network.heal();
        if bug.is_none() && world.random.u8(..4) == 0 {
            let disk = &world.nodes[0].disk;
            client::write_before(disk.open(disk.path()).expect("a store"));
        }
        (0..world.nodes.len()).for_each(|id| world.start(id));
        // Without another draw, so that a seed's random numbers stay what they are.
        world.has_delay = bug.is_none() && members > 1 && seed % 5 == 1;
        world.initiate(members, bug.is_none() && members == 3 && seed.is_multiple_of(3));
        world.at(Duration::from_millis(100), 0, Event::Client);
        world.at(PREPARED, 0, Event::Look);
        world
    }

    /// The last member may be an arbiter.
    fn initiate(&mut self, members: usize, has_arbiter: bool) {
        let arbiter = has_arbiter.then(|| members - 1);
        if let Some(id) = arbiter {
            self.nodes[id].is_arbiter = true;
        }
        let has_delay = self.has_delay;
        let members = (0..members).map(|id| {
            let is_arbiter = arbiter == Some(id);
            let mut member = doc! { "_id": (id as i32), "host": (host(id)), "arbiterOnly": is_arbiter };
            if has_delay && id == 1 {
                // With one it may alone have the end of the log, and it never leads: nobody would be elected.
                member.push("votes", 0);
                member.push("priority", 0);
                member.push("secondaryDelaySecs", DELAY_SECS);
            }
            Value::from(member)
        });
        let config = doc! { "_id": "rs", "version": 1, "members": (members.collect::<Vec<_>>()) };
        let config = ReplSetConfig::parse(config.to_buf().as_raw()).expect("a configuration");
        let Some(running) = &mut self.nodes[0].running else { return };
        let set = running.set.clone();
        running.operators.push(Box::pin(async move { set.initiate(config).await.expect("a set") }));
        self.settle(0);
    }

    pub(crate) fn at(&mut self, after: Duration, id: usize, event: Event) {
        self.ordinal += 1;
        let epoch = self.nodes[id].epoch;
        self.events.insert((self.now + after, self.ordinal), (id, epoch, event));
    }

    /// A line of the trace.
    pub(crate) fn say(&self, line: impl FnOnce() -> String) {
        if self.prints {
            println!("{:>12.6} {}", self.now.as_secs_f64(), line());
        }
    }

    pub(crate) fn is_healed(&self) -> bool {
        self.heals_at.is_some_and(|at| at <= self.now)
    }

    /// Everything that happens, until the members have come to rest.
    pub(crate) fn run(mut self) -> Figures {
        while let Some(((at, _), (id, epoch, event))) = self.events.pop_first() {
            self.clock.advance(at - self.now);
            self.now = at;
            if matches!(event, Event::Look) {
                let leave_at =
                    self.heals_at.expect("the set is writable before anything fails") + CLIENTS_LEAVE;
                let patience = if self.has_delay { PATIENCE_WITH_DELAY } else { PATIENCE };
                if at < leave_at || (at < leave_at + patience && !self.has_settled()) {
                    self.at(LOOK, 0, Event::Look);
                    continue;
                }
                break;
            }
            self.handle(id, epoch, event);
        }
        self.check_end();
        let Checker { writes, reads, views, .. } = self.checker;
        let outrun_within_bounds = if self.figures.given_up == 0 { self.figures.outrun } else { 0 };
        let (terms, simulated) = (self.checker.terms(), self.now);
        Figures { writes, reads, views, terms, outrun_within_bounds, simulated, ..self.figures }
    }

    fn handle(&mut self, id: usize, epoch: u64, event: Event) {
        match event {
            Event::Client => return self.client(),
            Event::Fault => return self.fault(),
            Event::LookAfter => return self.look_after(),
            Event::Heal => return self.heal(),
            Event::Die if self.nodes[id].epoch == epoch => return self.crash(id),
            Event::Die => return,
            Event::Start => {
                if self.nodes[id].running.is_none() {
                    self.start(id);
                }
                return;
            }
            _ => {}
        }
        let node = &mut self.nodes[id];
        let is_of_nobody = matches!(event, Event::Deliver(_) | Event::Asked(_) | Event::Answered(..));
        if node.running.is_none() || (!is_of_nobody && node.epoch != epoch) {
            return self.passes_by(event);
        }
        if node.paused_until > self.now {
            // It goes on with whatever comes to its mind first.
            let wait = node.paused_until - self.now + Duration::from_micros(self.random.u64(..50_000));
            return self.at(wait, id, event);
        }
        self.say_event(id, &event);
        let Some(running) = &mut self.nodes[id].running else { return };
        match event {
            Event::Turn if running.turn_at > self.now => return,
            Event::Turn => running.turn_at = Duration::MAX,
            Event::Deliver(envelope) => {
                running.set.receive(envelope.as_raw()).expect("members send envelopes");
            }
            Event::Asked(question) => return self.answer(id, question),
            Event::Answered(slot, answer) => *slot.lock().unwrap() = Some(answer),
            Event::Paused(is_over) => is_over.store(true, Ordering::Relaxed),
            Event::Synced(ticket, through) => {
                if self.bug != Some(Bug::ForgottenSync) {
                    self.nodes[id].disk.end_sync(through);
                }
                let Some(running) = &self.nodes[id].running else { return };
                running.background.synced(ticket);
            }
            Event::Apply if !self.apply(id) => return,
            Event::Apply => {}
            _ => unreachable!("handled before"),
        }
        self.settle(id);
    }

    /// Who asks a process that is not there is told that it cannot be reached.
    fn passes_by(&mut self, event: Event) {
        if let Event::Asked(question) = event {
            self.unreachable(question);
        }
    }

    fn unreachable(&mut self, Question { from, host, limit, slot, .. }: Question) {
        let after = Duration::from_millis(self.random.u64(1..2_000)).min(limit);
        let error = PeerError::Unreachable { host, reason: "simulated".to_owned() };
        self.at(after, from, Event::Answered(slot, Err(error)));
    }

    fn answer(&mut self, id: usize, question: Question) {
        let Some(running) = &self.nodes[id].running else { return };
        let command = question.command.as_raw();
        let answer = match command.contains(COPY_COMMAND) {
            true => running.set.copy(command),
            false => running.set.heartbeat(command),
        };
        let answer = match answer {
            Ok(answer) => {
                let mut answer = answer.as_raw().to_document();
                answer.push("ok", 1.0);
                answer
            }
            Err(error) => doc! { "ok": 0.0, "code": (error.code as i32), "errmsg": (error.message) },
        };
        let answer = answer.to_buf();
        let from = question.from;
        match self.network.send(id as MemberId, from as MemberId, &mut self.random).first() {
            Some(after) => self.at(*after, from, Event::Answered(question.slot, Ok(answer))),
            None => self.unreachable(question),
        }
    }

    /// What was sent goes on its way, after what holds up the sender.
    pub(crate) fn transmit(&mut self, held: Duration) {
        let sent = std::mem::take(&mut *self.wires.sent.lock().unwrap());
        for (from, host, envelope) in sent {
            let to = machine(&host);
            if self.nodes[from].dies_with_vote && planted::gives_vote(&envelope) {
                self.at(Duration::ZERO, from, Event::Die);
            }
            if self.bug == Some(Bug::AcknowledgedBeforeMajority) && self.random.bool() {
                self.forge_answer(from, &envelope);
            }
            let mut copies = self.network.send(from as MemberId, to as MemberId, &mut self.random);
            if let Some(last) = copies.pop() {
                for after in copies {
                    self.at(held + after, to, Event::Deliver(envelope.clone()));
                }
                self.at(held + last, to, Event::Deliver(envelope));
            }
        }
        let pauses = std::mem::take(&mut *self.wires.pauses.lock().unwrap());
        for (id, time, is_over) in pauses {
            self.at(time, id, Event::Paused(is_over));
        }
        let asked = std::mem::take(&mut *self.wires.asked.lock().unwrap());
        for question in asked {
            let to = machine(&question.host);
            let way = self.network.send(question.from as MemberId, to as MemberId, &mut self.random);
            match way.first() {
                Some(after) => self.at(held + *after, to, Event::Asked(question)),
                None => self.unreachable(question),
            }
        }
    }

    fn say_event(&self, id: usize, event: &Event) {
        self.say(|| match event {
            Event::Deliver(envelope) => {
                let messages = planted::messages(envelope);
                let messages = messages.iter().map(|message| {
                    let entries = message.entries.len();
                    let (kind, from) = (message.get_msg_type(), message.from);
                    format!(
                        "{kind:?} from {from} term {} at {} {entries} entries, committed {}{}",
                        message.term,
                        message.index,
                        message.commit,
                        if message.reject { ", refused" } else { "" }
                    )
                });
                format!("member {id} gets {:?}", messages.collect::<Vec<_>>())
            }
            Event::Asked(question) => {
                let command = question.command.as_raw().into_iter().next();
                format!(
                    "member {id} is asked by {}: {:?}",
                    question.from,
                    command.map(|one| one.name().to_owned())
                )
            }
            Event::Answered(_, answer) => format!("member {id} is answered: {}", answer.is_ok()),
            Event::Synced(_, through) => format!("member {id} has synced {through} batches"),
            Event::Turn => format!("member {id} has its turn"),
            Event::Paused(_) => format!("member {id} has paused"),
            _ => format!("member {id} applies"),
        });
    }

    pub(crate) fn poll_clients(&mut self, id: usize) {
        let Some(running) = &mut self.nodes[id].running else { return };
        let mut context = Context::from_waker(Waker::noop());
        for futures in [&mut running.operators, &mut running.tasks] {
            futures.retain_mut(|one| one.as_mut().poll(&mut context).is_pending());
        }
        let begins_again = running.has_copied.load(Ordering::Relaxed);
        let mut done = Vec::new();
        running.clients.retain_mut(|pending| match pending.request.as_mut().poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(outcome) => {
                done.push((pending.task, pending.called, outcome));
                false
            }
        });
        if begins_again {
            let after = Duration::from_micros(self.random.u64(..5_000));
            self.at(after, id, Event::Die);
        }
        for (task, called, outcome) in done {
            self.say(|| format!("member {id} answers {task:?}: {outcome:?}"));
            self.checker.answered(task, called, &outcome);
            match (task, outcome) {
                (Task::Insert(value), Outcome::Written) => self.inserted.push(value),
                (Task::Append(id, value), Outcome::Written) => self.acknowledged.push((self.now, id, value)),
                (Task::AppendToPair(value), Outcome::Written) => {
                    self.acknowledged.push((self.now, PAIR[0], value));
                }
                (Task::Prepare, Outcome::Written) if self.heals_at.is_none() => self.prepared(),
                _ => {}
            }
        }
    }

    /// The set is writable and has its documents: from now on things fail, for a while.
    fn prepared(&mut self) {
        let lasts = Duration::from_millis(self.random.u64(3_000..20_000));
        self.heals_at = Some(self.now + lasts);
        let begins = Duration::from_millis(self.random.u64(..1_000));
        self.at(begins, 0, Event::Fault);
        self.at(lasts, 0, Event::Heal);
        if self.bug.is_none() {
            self.at(begins, 0, Event::LookAfter);
        }
    }

    pub(crate) fn leader(&self) -> Option<usize> {
        self.nodes
            .iter()
            .position(|node| node.running.as_ref().is_some_and(|running| running.set.is_writable()))
    }

    fn client(&mut self) {
        let after = Duration::from_millis(self.random.u64(1..50));
        self.at(after, 0, Event::Client);
        let id = match self.random.u8(..4) {
            0 | 1 => self.random.usize(..self.nodes.len()),
            _ => self.leader().unwrap_or(0),
        };
        let have_left = self.heals_at.is_some_and(|at| self.now > at + CLIENTS_LEAVE);
        if have_left || self.nodes[id].paused_until > self.now {
            return;
        }
        if self.bug.is_none() && self.random.u8(..16) == 0 {
            self.read_past(id);
        }
        let believes = self.bug == Some(Bug::StaleRead);
        let Some(task) = self.task(id) else { return };
        let called = self.checker.moment();
        let Some(running) = &mut self.nodes[id].running else { return };
        if running.clients.len() >= CLIENTS_MAX {
            return;
        }
        let catalog = Arc::clone(&running.catalog);
        let request = client::request(task, &running.set, catalog, believes);
        running.clients.push(Pending { request, task, called });
        self.settle(id);
    }

    /// What the next client wants of this member.
    fn task(&mut self, id: usize) -> Option<Task> {
        let kind = self.random.u8(..8);
        // Of one document there is more to be seen.
        let is_one = self.bug == Some(Bug::StaleRead);
        let document = if is_one { SINGLES.start } else { self.random.i32(SINGLES) };
        if self.heals_at.is_none() {
            let running = self.nodes[id].running.as_ref()?;
            return (running.set.is_writable() && running.clients.is_empty()).then_some(Task::Prepare);
        }
        self.next_value += 1;
        let value = self.next_value;
        Some(match kind {
            0 | 1 => Task::Read(document),
            2 => Task::AppendToPair(value),
            3 => Task::Insert(value),
            4 if !self.inserted.is_empty() => {
                let place = self.random.usize(..self.inserted.len());
                Task::Remove(self.inserted.swap_remove(place))
            }
            _ => Task::Append(document, value),
        })
    }
}
