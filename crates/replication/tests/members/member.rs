//! A machine, and the member that runs on it.

use crate::checker::documents;
use crate::client::{self, Outcome, PAIR, Request, Task};
use crate::clock::Clock;
use crate::disk::{self, MemberDisk, Reader};
use crate::planted::{self, Bug};
use crate::wires::Line;
use crate::world::{Event, World};
use catalog::Catalog;
use document::DocumentBuf;
use fastrand::Rng;
use replication::set::{MemberTasks, ReplicaSet, SetOptions};
use replication::{LocalState, LogOptions, LogPosition, MemberId};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use storage::Store;

/// How often the governor looks.
const GOVERNOR_TICK: Duration = Duration::from_millis(20);

/// A request and when it was made.
pub(crate) struct Pending {
    pub(crate) request: Request,
    pub(crate) task: Task,
    pub(crate) called: u64,
}

pub(crate) struct Running {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) set: ReplicaSet,
    pub(crate) background: MemberTasks,
    pub(crate) store: storage::StoreTasks,
    dead: Arc<AtomicBool>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) clients: Vec<Pending>,
    pub(crate) operators: Vec<Pin<Box<dyn Future<Output = ()>>>>,
    /// What the member does by itself that takes time.
    pub(crate) tasks: Vec<Pin<Box<dyn Future<Output = ()>>>>,
    /// All files of another member are there: it ends, and begins again with them.
    pub(crate) has_copied: Arc<AtomicBool>,
    governs_at: Duration,
    /// When the next turn is, at the latest.
    pub(crate) turn_at: Duration,
    /// Whether it is to apply soon.
    pub(crate) applies: bool,
    /// Which state of it was looked at last.
    looked_at: i64,
    /// It has begun with a copy, and what came since is not there yet.
    has_young_copy: bool,
    /// It was seen to keep its log for a member that copies,
    keeps: bool,
    /// and to give that up so often.
    given_up: u64,
    /// What it has shown, by document.
    shown: BTreeMap<i32, (DocumentBuf, Vec<i64>)>,
    /// How many of the acknowledged writes it has to have by what it says of its freshness.
    fresh_through: usize,
}

impl Running {
    /// Up to where its disk says that it has come.
    pub(crate) fn mark(&self) -> Option<LogPosition> {
        let local = LocalState::new(self.catalog.store().clone());
        local.applied().expect("a whole disk").map(|mark| mark.position)
    }
}

/// Whether a machine belongs to the set, as far as its operator knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Configured,
    /// It has the disk with which it was configured.
    Removed,
    Spare,
}

pub(crate) struct Node {
    pub(crate) disk: MemberDisk,
    /// Which process runs on it.
    pub(crate) epoch: u64,
    pub(crate) running: Option<Running>,
    pub(crate) sync_delay_max: u64,
    pub(crate) last_sync: Duration,
    pub(crate) clock: Clock,
    pub(crate) paused_until: Duration,
    pub(crate) full_until: Duration,
    /// The process ends when it has given its vote to somebody.
    pub(crate) dies_with_vote: bool,
    pub(crate) place: Place,
    /// It has lost its disk, and does not vote yet with the one that it has now.
    pub(crate) is_new: bool,
    /// Its disk is that of an arbiter.
    pub(crate) is_arbiter: bool,
}

pub(crate) fn host(id: usize) -> String {
    format!("h{id}:1")
}

pub(crate) fn machine(host: &str) -> usize {
    host.trim_start_matches('h').trim_end_matches(":1").parse().expect("a host of this world")
}

impl Node {
    pub(crate) fn new(random: &mut Rng, place: Place) -> Self {
        Node {
            disk: MemberDisk::new(),
            epoch: 0,
            running: None,
            sync_delay_max: [500, 5_000, 50_000][random.usize(..3)],
            last_sync: Duration::ZERO,
            clock: Clock::new(Duration::from_secs(1_000_000 + random.u64(..20))),
            paused_until: Duration::ZERO,
            full_until: Duration::ZERO,
            dies_with_vote: false,
            place,
            is_new: false,
            is_arbiter: false,
        }
    }

    /// Under which number its disk votes.
    pub(crate) fn number(&self) -> Option<MemberId> {
        let store = self.running.as_ref()?.catalog.store().clone();
        LocalState::new(store).identity().expect("a whole disk").map(|identity| identity.number)
    }
}

impl World {
    /// As every process does before it opens its data; whether they are a copy, where it goes on.
    fn adopt_copy(&mut self, id: usize) -> Option<bool> {
        let fails = Some(self.random.usize(..6)).filter(|_| !self.is_healed());
        match self.nodes[id].disk.adopt_copy(fails) {
            Ok(is_adopted) => {
                if is_adopted {
                    self.say(|| format!("member {id} has the data of another one"));
                }
                self.figures.copied += usize::from(is_adopted);
                Some(is_adopted)
            }
            Err(error) => {
                self.say(|| format!("member {id} does not start: {error}"));
                let after = Duration::from_millis(self.random.u64(1..500));
                self.at(after, id, Event::Start);
                None
            }
        }
    }

    pub(crate) fn start(&mut self, id: usize) {
        let Some(is_adopted) = self.adopt_copy(id) else { return };
        let seed = self.random.u64(..);
        let node = &mut self.nodes[id];
        let dead = Arc::new(AtomicBool::new(false));
        let publishes = self.bug == Some(Bug::PublishedEarly);
        let believes_full_disk = self.bug == Some(Bug::BelievedFullDisk);
        let reader = Arc::new(Reader { publishes, believes_full_disk, ..Reader::default() });
        let engine = node.disk.engine(Arc::clone(&dead), Arc::clone(&reader));
        let (store, background) =
            Store::without_threads(engine, node.disk.room(), &disk::options()).expect("a store");
        let catalog = Catalog::open(store).expect("a catalog");
        if self.bug == Some(Bug::ForgottenVote) {
            planted::forget_vote(&catalog);
        }
        drop(reader.catalog.set(Arc::downgrade(&catalog)));
        let mut options = SetOptions::new("rs", vec![host(id)], seed);
        let recent_bytes = [0, 4 << 10, 32 << 20][(seed % 3) as usize];
        options.log = LogOptions { recent_bytes, ..LogOptions::default() };
        if self.bug.is_none() {
            // Who is behind for long finds that the others have trimmed what it needs.
            options.log.size_bytes = [1_000, 8_000, 990 << 20][(seed / 6 % 3) as usize];
        }
        options.unapplied_bytes_max = [300, 128 << 20][(seed / 3 % 2) as usize];
        options.window_bytes_min = [200, 1 << 20][(seed / 18 % 2) as usize];
        options.data = Some(node.disk.path().to_owned());
        options.has_copied = is_adopted;
        let line = Arc::new(Line(Arc::clone(&self.wires), id));
        let times = node.clock.read(self.now);
        let (set, own) =
            ReplicaSet::without_threads(options, Arc::clone(&catalog), line, times).expect("a member");
        set.set_history_window(Duration::from_millis([1_000, 300_000][(seed / 36 % 2) as usize]));
        let has_copied = Arc::new(AtomicBool::new(false));
        let (copied, whole) = (set.clone(), Arc::clone(&has_copied));
        let waits = async move {
            copied.copied().await;
            whole.store(true, Ordering::Relaxed);
        };
        node.running = Some(Running {
            catalog,
            set,
            has_copied,
            background: own,
            store: background,
            dead,
            reader,
            clients: Vec::new(),
            operators: Vec::new(),
            tasks: vec![Box::pin(waits)],
            governs_at: Duration::ZERO,
            turn_at: Duration::MAX,
            applies: false,
            looked_at: -1,
            has_young_copy: is_adopted,
            keeps: false,
            given_up: 0,
            shown: BTreeMap::new(),
            fresh_through: 0,
        });
        self.say(|| format!("member {id} starts"));
        self.settle(id);
    }

    /// Who copies from whom.
    pub(crate) fn copies(&self) -> impl Iterator<Item = (usize, usize)> {
        self.nodes.iter().enumerate().filter_map(|(id, node)| {
            let running = node.running.as_ref().filter(|one| !one.has_copied.load(Ordering::Relaxed))?;
            Some((id, machine(&running.set.copy_status()?.progress?.source)))
        })
    }

    /// The process dies: what was not synced may be lost, from its end.
    pub(crate) fn crash(&mut self, id: usize) {
        self.figures.interrupted += self.copies().filter(|ends| ends.0 == id || ends.1 == id).count();
        let node = &mut self.nodes[id];
        let Some(running) = node.running.take() else { return };
        running.dead.store(true, Ordering::Relaxed);
        node.epoch += 1;
        node.disk.crash(&mut self.random);
        (node.last_sync, node.paused_until, node.dies_with_vote) = (self.now, self.now, false);
        for Pending { task, called, .. } in &running.clients {
            self.checker.answered(*task, *called, &Outcome::Unknown);
        }
        drop(running);
        let after = match self.random.u8(..4) {
            part if part == 0 || self.bug == Some(Bug::ForgottenVote) => {
                Duration::from_micros(self.random.u64(100..20_000))
            }
            _ => Duration::from_millis(self.random.u64(1..2_000)),
        };
        self.say(|| format!("member {id} dies, for {after:?}"));
        self.at(after, id, Event::Start);
    }

    /// Does what follows on a member.
    pub(crate) fn settle(&mut self, id: usize) {
        self.look_at_room(id);
        self.poll_clients(id);
        let (now, node) = (self.now, &mut self.nodes[id]);
        let Some(running) = &mut node.running else { return };
        let (monotonic, wall) = node.clock.read(now);
        let turn = match running.background.turn(monotonic, wall) {
            Ok(turn) => turn,
            Err(error) => {
                assert!(node.disk.has_ended(), "a log in memory: {error}");
                self.transmit(Duration::ZERO);
                return self.end_waiting(id);
            }
        };
        running.tasks.extend(running.background.take_copy().map(|copy| copy as _));
        let synced = turn.sync.map(|ticket| (ticket, node.disk.begin_sync()));
        let deadline = turn.deadline.map(|deadline| node.clock.reaches(deadline).max(now));
        let turn_at = deadline.filter(|at| *at < running.turn_at);
        running.turn_at = turn_at.unwrap_or(running.turn_at);
        let applies = !std::mem::replace(&mut running.applies, true);
        let topology = running.set.topology();
        if running.set.is_writable() {
            self.checker.leads(id, topology.term);
        }
        self.term_max = self.term_max.max(topology.term);
        self.look_at_copies(id);
        let node = &mut self.nodes[id];
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
        // A member that has written to a full disk stands still until there is room.
        let node = &mut self.nodes[id];
        let held =
            if node.disk.waits_for_room() { node.full_until.saturating_sub(now) } else { Duration::ZERO };
        node.paused_until = node.paused_until.max(now + held);
        if held.is_zero() {
            self.poll_clients(id);
        }
        self.transmit(held);
    }

    /// The governor looks at the disk, as its thread would: for how long there is no room.
    fn look_at_room(&mut self, id: usize) -> Duration {
        let (now, node) = (self.now, &mut self.nodes[id]);
        let left = node.full_until.saturating_sub(now);
        if left.is_zero() && !std::mem::take(&mut node.full_until).is_zero() {
            node.disk.fill(None);
        }
        if let Some(running) = &mut node.running
            && now >= running.governs_at
        {
            running.governs_at = now + GOVERNOR_TICK;
            running.store.govern();
        }
        left
    }

    /// Applies what is committed; whether there was any.
    pub(crate) fn apply(&mut self, id: usize) -> bool {
        let is_full_for = self.look_at_room(id);
        if !is_full_for.is_zero() && !self.nodes[id].disk.is_met() {
            self.at(is_full_for, id, Event::Apply);
            return false;
        }
        let mut context = Context::from_waker(Waker::noop());
        let twice = self.bug == Some(Bug::AppliedTwice) && self.random.u8(..20) == 0;
        let Some(running) = &mut self.nodes[id].running else { return false };
        running.applies = false;
        let mut has_applied = false;
        loop {
            // What was settled before lets go of its latches.
            self.poll_clients(id);
            let disk = self.nodes[id].disk.clone();
            let Some(running) = &mut self.nodes[id].running else { return false };
            disk.apply(true);
            let is_readable = running.set.topology().state.is_readable();
            running.reader.is_let_in.store(is_readable, Ordering::Relaxed);
            let applied = {
                let mut step = pin!(running.background.apply());
                let mut polls = 0;
                loop {
                    match step.as_mut().poll(&mut context) {
                        Poll::Ready(applied) => break applied,
                        Poll::Pending => {
                            polls += 1;
                            assert!(polls < 1_000, "applying waits for ever");
                            // It has met a full disk, and goes on when the governor has looked.
                            running.store.govern();
                        }
                    }
                }
            };
            let refused = disk.apply(false);
            match applied {
                Ok(true) => has_applied = true,
                Ok(false) => break,
                Err(error) => return self.not_applied(id, &*error, refused),
            }
            if disk.waits_for_room() {
                break;
            }
        }
        let Some(running) = &mut self.nodes[id].running else { return false };
        assert!(!running.reader.is_torn.load(Ordering::Relaxed), "member {id} shows one half of a unit");
        if twice {
            planted::apply_again(&running.catalog, running.set.sessions());
        }
        let state = running.set.topology().counter;
        if std::mem::replace(&mut running.looked_at, state) != state || has_applied || twice {
            self.look(id);
        }
        has_applied
    }

    /// What is committed found no room: it is applied later, or by the next process. Nothing was applied,
    /// as far as anybody is told.
    fn not_applied(&mut self, id: usize, error: &dyn std::error::Error, refused: usize) -> bool {
        self.say(|| format!("member {id} cannot apply yet: {error}"));
        assert!(refused > 0, "data in memory: {error}");
        if self.nodes[id].disk.has_ended() {
            self.end_waiting(id);
            return false;
        }
        self.figures.refused += 1;
        let Some(running) = &mut self.nodes[id].running else { return false };
        running.applies = true;
        let after = Duration::from_millis(self.random.u64(1..700));
        self.at(after, id, Event::Apply);
        false
    }

    /// The process was told to stop while it waited for room: it ends without what it was about to write.
    fn end_waiting(&mut self, id: usize) {
        self.say(|| format!("member {id} ends while it waits for room"));
        self.figures.ended += 1;
        self.crash(id);
    }

    /// Whether what a copy does not have comes by the log, and what others keep for it.
    fn look_at_copies(&mut self, id: usize) {
        let node = &mut self.nodes[id];
        let Some(running) = &mut node.running else { return };
        let kept = running.set.kept_log();
        if kept.members > 0 && !std::mem::replace(&mut running.keeps, true) {
            self.figures.kept += 1;
        }
        self.figures.given_up += (kept.given_up - running.given_up) as usize;
        running.given_up = kept.given_up;
        if running.has_young_copy {
            let staleness = running.set.staleness_at(node.clock.read(self.now).0);
            let is_outrun = running.set.copy_status().is_some();
            self.figures.outrun += usize::from(is_outrun);
            running.has_young_copy = !is_outrun && staleness.is_none_or(|age| age > Duration::from_secs(2));
        }
    }

    /// Looks at what a member shows its readers.
    fn look(&mut self, id: usize) {
        let node = &mut self.nodes[id];
        let Some(running) = &mut node.running else { return };
        if !running.set.topology().state.is_readable() {
            return;
        }
        self.shown_through = self.shown_through.max(running.set.last_applied());
        let store = running.catalog.store();
        let staleness = running.set.staleness_at(node.clock.read(self.now).0);
        let view = match running.set.is_writable() {
            true => store.read_view(),
            false => store.published_view().expect("a member publishes as soon as it runs"),
        };
        for document in documents() {
            let found = client::document(&running.catalog, &view, document);
            let (known, before) = running.shown.entry(document).or_default();
            if known.as_bytes() != found.as_bytes() {
                let now = client::numbers(found.as_raw());
                self.checker.view(id, document, before, &now);
                (*known, *before) = (found, now);
            }
        }
        if let Some(staleness) = staleness {
            let as_of = self.now.saturating_sub(Clock::real(staleness));
            let through = self.acknowledged.partition_point(|(at, ..)| *at <= as_of);
            self.figures.fresh += usize::from(through > running.fresh_through);
            for (at, document, value) in self.acknowledged.iter().take(through).skip(running.fresh_through) {
                assert!(
                    running.shown[document].1.contains(value),
                    "member {id} says at {:?} that its data are as of {as_of:?}, and {value} of {document}, \
                     acknowledged at {at:?}, is missing: {:?}",
                    self.now,
                    running.shown[document].1
                );
            }
            running.fresh_through = running.fresh_through.max(through);
        }
        let [one, other] = PAIR.map(|document| &running.shown[&document].1);
        assert_eq!(one, other, "member {id} shows one half of a unit");
    }
}
