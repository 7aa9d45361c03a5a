//! The driver: a state machine around the member of the consensus. It is told what happened, and each turn
//! does all that follows from it; it waits for nothing. A thread calls it, or a simulation.

use crate::effects::SyncTicket;
use crate::entry::LogIndex;
use crate::log::{Checkpoint, LogError};
use crate::optime::OpTime;
use crate::retryable::RetryTable;
use crate::set::apply_queue::ApplyQueue;
use crate::set::copying::Copying;
use crate::set::envelope::Envelope;
use crate::set::heartbeat::{Heartbeats, Statuses};
use crate::set::history::History;
use crate::set::kept_log::LogNeed;
use crate::set::participant::Participant;
use crate::set::shared::{Reply, Shared, ThreadWaker};
use crate::set::state::{FIRST_NUMBER, SetState};
use crate::set::{ReplSetConfig, SetError, SetOptions};
use crate::{Identity, LocalState, Membership, Peers};
use catalog::Catalog;
use document::{DocumentBuf, ObjectId, Timestamp};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;
use storage::{Proposals, WriteUnit};
use wire::ErrorCode;

/// What the driver is told.
#[derive(Debug)]
pub(crate) enum Told {
    /// Another member has sent this.
    Received(Envelope),
    /// A sync has ended.
    Synced(SyncTicket),
    /// The data are there up to this index; with the state of the set, where that is another one now.
    Applied { through: LogIndex, state: Option<SetState> },
    /// Somebody wants something.
    Asked(Asked),
}

/// What others want of the driver.
#[derive(Debug)]
pub(crate) enum Asked {
    /// With the `_id` of this member.
    Initiate(ReplSetConfig, i32, Reply<OpTime>),
    Reconfigure {
        config: ReplSetConfig,
        force: bool,
        reply: Reply<OpTime>,
    },
    StepDown {
        catch_up: Duration,
        lasts: Duration,
        force: bool,
        reply: Reply<()>,
    },
    StepUp(Reply<()>),
    Freeze(Duration, Reply<()>),
    /// The `_id` of the member whose log is to be followed.
    Follow(i32),
    Maintenance(bool, Reply<()>),
    Read(Reply<()>),
    Note(DocumentBuf, Reply<OpTime>),
    /// Somebody waits for fresher data.
    Freshness,
    /// Somebody waits for an operation of this time or later.
    Reach(Timestamp),
    /// A member is about to copy.
    Keep(LogNeed),
    Stop,
}

/// What waits for the driver's next turn.
#[derive(Debug)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    /// Of envelopes; more are dropped, as the network might, and sent again.
    bytes_max: AtomicUsize,
    pub(crate) waker: ThreadWaker,
}

#[derive(Debug, Default)]
struct Waiting {
    told: Vec<Told>,
    /// Of the envelopes among them.
    bytes: usize,
    /// Whether a turn is wanted as soon as more is applied.
    awaits_data: bool,
    received: Received,
}

/// What has come in from the other members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Received {
    /// Envelopes.
    pub envelopes: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Envelopes that had no room.
    pub dropped: u64,
}

impl Inbox {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let bytes_max = AtomicUsize::new(bytes_max);
        Inbox { waiting: Mutex::default(), bytes_max, waker: ThreadWaker::default() }
    }

    pub(crate) fn set_bytes_max(&self, bytes: usize) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Of envelopes that wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting.lock().bytes
    }

    pub(crate) fn tell(&self, told: Told) {
        let can_wait = matches!(told, Told::Applied { state: None, .. });
        let mut waiting = self.waiting.lock();
        waiting.told.push(told);
        let wakes = waiting.awaits_data || !can_wait;
        drop(waiting);
        if wakes {
            self.waker.wake();
        }
    }

    /// That data are applied makes a turn of its own only while something waits for it.
    fn await_data(&self, awaits: bool) {
        let mut waiting = self.waiting.lock();
        waiting.awaits_data = awaits;
        let has_missed = awaits && !waiting.told.is_empty();
        drop(waiting);
        if has_missed {
            self.waker.wake();
        }
    }

    /// Word from another member, of so many bytes.
    pub(crate) fn receive(&self, envelope: Envelope, bytes: usize) {
        let mut waiting = self.waiting.lock();
        if waiting.bytes > 0 && waiting.bytes + bytes > self.bytes_max.load(Ordering::Relaxed) {
            waiting.received.dropped += 1;
            return;
        }
        waiting.bytes += bytes;
        waiting.received.envelopes += 1;
        waiting.received.bytes += bytes as u64;
        waiting.told.push(Told::Received(envelope));
        drop(waiting);
        self.waker.wake();
    }

    pub(crate) fn received(&self) -> Received {
        self.waiting.lock().received
    }

    fn take(&self) -> Vec<Told> {
        let mut waiting = self.waiting.lock();
        waiting.bytes = 0;
        std::mem::take(&mut waiting.told)
    }
}

/// The time, as the driver is told it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// On a clock that only goes on.
    pub(crate) monotonic: Duration,
    /// Since 1970.
    pub(crate) wall: Duration,
}

/// What is to be done after a turn.
#[derive(Debug, Default)]
pub(crate) struct TurnReport {
    /// The journal is to be synced; afterwards [`Told::Synced`]. A later one covers earlier ones.
    pub(crate) sync: Option<SyncTicket>,
    /// The latest time for the next turn.
    pub(crate) deadline: Option<Duration>,
    /// Who applies may begin: from here, with this log.
    pub(crate) begins: Option<(Checkpoint, crate::Oplog)>,
    /// No further turn.
    pub(crate) has_ended: bool,
}

/// What the parts of a running member have in common.
#[derive(Debug, Clone)]
pub(crate) struct Links {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) peers: Arc<dyn Peers>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) statuses: Arc<Statuses>,
    pub(crate) sessions: Arc<RetryTable>,
    pub(crate) queue: Arc<ApplyQueue>,
    pub(crate) copying: Arc<Copying>,
    pub(crate) history: Arc<History>,
}

impl Links {
    /// Shows readers of published views all that is in the data.
    pub(crate) fn publish_view(&self) {
        self.catalog.store().publish_view();
    }
}

/// See the module.
pub(crate) struct Driver {
    options: SetOptions,
    links: Links,
    inbox: Arc<Inbox>,
    proposals: Proposals,
    local: LocalState,
    heartbeats: Heartbeats,
    waker: Waker,
    /// `None` until the set is initiated, here or by another member that has sent us word.
    participant: Option<Box<Participant>>,
    strangers: Strangers,
    /// Whether it was said that the disk is not that of a member of this kind.
    is_misused: bool,
    stops: bool,
}

impl Driver {
    /// A member with what is on its disk.
    pub(crate) fn open(
        options: SetOptions,
        links: Links,
        inbox: Arc<Inbox>,
        now: Now,
    ) -> Result<(Self, TurnReport), LogError> {
        let woken = Arc::clone(&inbox);
        let proposals = links.catalog.store().take_proposals(Arc::new(move || woken.waker.wake()));
        let local = LocalState::new(links.catalog.store().clone());
        let disk = own_disk(&local, &links)?;
        links.shared.disk.get_or_init(|| disk);
        links.publish_view();
        let waker = Waker::from(Arc::new(WakesDriver(Arc::clone(&inbox))));
        let heartbeats = Heartbeats::default();
        let mut driver = Driver {
            options,
            links,
            inbox,
            proposals,
            local,
            heartbeats,
            waker,
            participant: None,
            strangers: Strangers::default(),
            is_misused: false,
            stops: false,
        };
        let mut report = TurnReport::default();
        if let Some(identity) = driver.local.identity()? {
            driver.join(identity, now, &mut report)?;
        }
        Ok((driver, report))
    }

    /// Does all that follows from what it was told, and from the time.
    pub(crate) fn turn(&mut self, now: Now) -> Result<TurnReport, LogError> {
        let mut report = TurnReport::default();
        for told in self.inbox.take() {
            match told {
                Told::Received(envelope) => self.receive(envelope, now, &mut report)?,
                Told::Asked(Asked::Initiate(config, own, reply)) => {
                    self.initiate(config, own, reply, now, &mut report)?;
                }
                Told::Asked(Asked::Stop) => self.stops = true,
                told => match &mut self.participant {
                    Some(participant) => participant.tell(told, now),
                    None => refuse(told),
                },
            }
        }
        let Some(participant) = &mut self.participant else {
            report.has_ended = self.stops;
            return Ok(report);
        };
        participant.advance(now)?;
        let Links { peers, shared, statuses, .. } = &self.links;
        let asks = self.heartbeats.turn(now, &**peers, shared, statuses, &self.waker);
        if let Some(state) = self.heartbeats.take_newer() {
            participant.hear_of(state);
        }
        for need in self.heartbeats.take_needs() {
            participant.note_need(need, now);
        }
        participant.lead(&self.proposals, now);
        report.sync = participant.settle(&self.proposals, now)?;
        report.deadline = Some(asks.map_or(participant.deadline(), |asks| asks.min(participant.deadline())));
        participant.control_flow(&self.proposals, now);
        report.has_ended = self.stops && participant.may_stop(&self.proposals, now);
        participant.publish_and_answer();
        participant.tell_memory();
        self.inbox.await_data(participant.awaits_data());
        Ok(report)
    }

    /// Refuses all that waits, without a last word to anybody.
    pub(crate) fn give_up(&mut self) {
        if let Some(participant) = &mut self.participant {
            participant.close(&self.proposals);
        }
    }

    fn receive(&mut self, envelope: Envelope, now: Now, report: &mut TurnReport) -> Result<(), LogError> {
        let own = self.participant.as_ref().map(|participant| participant.set_id());
        if envelope.set_name != self.options.set_name || own.is_some_and(|own| own != envelope.set_id) {
            self.strangers.note(envelope);
            return Ok(());
        }
        let is_arbiter = self.participant.as_ref().map(|participant| participant.is_arbiter());
        if envelope.disk.is_some() && is_arbiter.is_some_and(|is| is != envelope.arbiter.is_some()) {
            if !std::mem::replace(&mut self.is_misused, true) {
                tracing::error!(
                    "an arbiter has no data, and no other member is without: this directory is to be \
                     emptied before the server takes part as what the configuration says"
                );
            }
            return Ok(());
        }
        if self.participant.is_none() {
            // Under a number of another disk there may be votes that this one does not know of.
            if envelope.disk.is_none() || envelope.disk.as_ref() != self.links.shared.disk.get() {
                return Ok(());
            }
            let identity = Identity {
                set_name: envelope.set_name.clone(),
                set_id: envelope.set_id,
                number: envelope.to.number,
                genesis: FIRST_NUMBER,
                needs_copy: envelope.needs_copy,
                forced_through: 0,
                is_arbiter: envelope.arbiter.is_some(),
            };
            tracing::info!(set = %identity.set_name, number = identity.number, "joining the replica set");
            self.found(&identity)?;
            match self.join(identity, now, report) {
                // Others say again that this member belongs to the set.
                Err(error) if error.lacks_room() => {
                    tracing::warn!(%error, "no room to join the replica set yet");
                    return Ok(());
                }
                joined => joined?,
            }
        }
        match &mut self.participant {
            Some(participant) => participant.receive(envelope, now),
            None => Ok(()),
        }
    }

    /// Makes the set with this configuration, whose first voter this member is.
    fn initiate(
        &mut self,
        mut config: ReplSetConfig,
        own: i32,
        reply: Reply<OpTime>,
        now: Now,
        report: &mut TurnReport,
    ) -> Result<(), LogError> {
        if self.participant.as_ref().is_some_and(|participant| !participant.awaits_initiation()) {
            reply.answer(Err(SetError::new(ErrorCode::AlreadyInitialized, "already initialized")));
            return Ok(());
        }
        if self.participant.is_none() {
            let names = self.links.catalog.state();
            let needs_copy =
                names.collections().any(|known| known.definition().namespace.database() != "local");
            let identity = Identity {
                set_name: self.options.set_name.clone(),
                set_id: ObjectId::new(),
                number: FIRST_NUMBER,
                genesis: FIRST_NUMBER,
                needs_copy,
                forced_through: 0,
                is_arbiter: false,
            };
            self.found(&identity)?;
            match self.join(identity, now, report) {
                Err(error) if error.lacks_room() => {
                    reply.answer(Err(SetError::new(ErrorCode::OutOfDiskSpace, error.to_string())));
                    return Ok(());
                }
                joined => joined?,
            }
        }
        if let Some(participant) = &mut self.participant {
            config.settings.set_id = Some(participant.set_id());
            let disk = *self.links.shared.disk.get().expect("a driver knows its disk");
            participant.initiate(SetState::initial(config, own, disk), reply);
        }
        Ok(())
    }

    /// Writes down who this member is, and what its data begin with. It is synced with the first promise.
    fn found(&self, identity: &Identity) -> Result<(), LogError> {
        let mut unit = WriteUnit::new();
        LocalState::put_identity(&mut unit, identity);
        LocalState::put_applied(&mut unit, &genesis(identity));
        self.links.catalog.store().write_now(unit).map(drop).map_err(|error| LogError(Box::new(error)))
    }

    /// Takes part, as what the disk says.
    fn join(&mut self, identity: Identity, now: Now, report: &mut TurnReport) -> Result<(), LogError> {
        let mut data = self.local.applied()?.unwrap_or_else(|| genesis(&identity));
        if identity.is_forced_after(data.position.index) {
            data.membership = Membership::of(&[identity.number]);
        }
        let state = match self.local.set_state()? {
            None => None,
            Some(note) => {
                SetState::of_note(note.as_raw()).transpose().map_err(|error| LogError(Box::new(error)))?
            }
        };
        let hosts = &self.options.own_hosts;
        if let Some((owner, own)) =
            state.as_ref().and_then(|state| state.owner_of_copy(identity.number, hosts))
        {
            return Err(LogError(
                format!(
                    "the directory is that of the member {owner}, or a copy of it, and this is the member \
                     {own}: start it with a directory of its own, or an empty one"
                )
                .into(),
            ));
        }
        let participant =
            Participant::open(&self.options, self.links.clone(), identity, data.clone(), state, now)?;
        let oplog = participant.oplog();
        self.links.shared.oplog.get_or_init(|| oplog.clone());
        *self.links.shared.set_id.lock() = Some(participant.set_id());
        report.begins = (!participant.is_arbiter()).then_some((data, oplog));
        self.participant = Some(Box::new(participant));
        Ok(())
    }
}

/// What tells this disk from every other one; made where there is none. It is synced with the first promise.
fn own_disk(local: &LocalState, links: &Links) -> Result<ObjectId, LogError> {
    if let Some(known) = local.disk()? {
        return Ok(known);
    }
    let (disk, mut unit) = (ObjectId::new(), WriteUnit::new());
    LocalState::put_disk(&mut unit, disk);
    links.catalog.store().write_now(unit).map_err(|error| LogError(Box::new(error)))?;
    Ok(disk)
}

/// Senders that belong to another set: of each it is said once.
#[derive(Default)]
struct Strangers(BTreeSet<(String, String, ObjectId)>);

impl Strangers {
    fn note(&mut self, Envelope { set_name, set_id, from, .. }: Envelope) {
        // Of more it would tell nothing new, and anybody can send them.
        const KNOWN_MAX: usize = 32;
        if self.0.len() < KNOWN_MAX && self.0.insert((from.host.clone(), set_name.clone(), set_id)) {
            tracing::warn!(
                host = from.host,
                set = set_name,
                %set_id,
                "messages of another replica set, which this server does not belong to, are passed over"
            );
        }
    }
}

/// Wakes the driver's thread.
struct WakesDriver(Arc<Inbox>);

impl Wake for WakesDriver {
    fn wake(self: Arc<Self>) {
        self.0.waker.wake();
    }
}

/// What the data of a member begin with.
fn genesis(identity: &Identity) -> Checkpoint {
    match identity.needs_copy && identity.number != FIRST_NUMBER {
        true => Checkpoint::default(),
        false => Checkpoint::initial(&[FIRST_NUMBER]),
    }
}

/// Answers who asks a member that belongs to no set yet.
fn refuse(told: Told) {
    let error = || SetError::new(ErrorCode::NotYetInitialized, "no replset config has been received");
    match told {
        Told::Asked(
            Asked::StepDown { reply, .. }
            | Asked::StepUp(reply)
            | Asked::Freeze(_, reply)
            | Asked::Maintenance(_, reply)
            | Asked::Read(reply),
        ) => reply.answer(Err(error())),
        Told::Asked(
            Asked::Reconfigure { reply, .. } | Asked::Initiate(.., reply) | Asked::Note(_, reply),
        ) => reply.answer(Err(error())),
        Told::Asked(Asked::Follow(_) | Asked::Freshness | Asked::Reach(_) | Asked::Keep(_) | Asked::Stop) => {
        }
        Told::Received(_) | Told::Synced(_) | Told::Applied { .. } => {
            unreachable!("{told:?} without a participant")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::envelope::Address;

    #[test]
    fn what_comes_while_the_driver_is_held_up_is_bounded() {
        let address = || Address { number: 1, host: "a:1".to_owned() };
        let envelope = || Envelope {
            set_name: "rs".to_owned(),
            set_id: ObjectId::from_bytes([3; 12]),
            from: address(),
            to: address(),
            needs_copy: false,
            disk: None,
            electable: true,
            applied: None,
            stamps: crate::set::freshness::Stamps::default(),
            arbiter: None,
            chain: crate::set::chain::ChainWord::default(),
            messages: Vec::new(),
        };
        let inbox = Inbox::new(1_000);
        (0..30).for_each(|_| inbox.receive(envelope(), 100));
        inbox.tell(Told::Asked(Asked::Stop));
        assert_eq!(inbox.received(), Received { envelopes: 10, bytes: 1_000, dropped: 20 });
        assert_eq!(inbox.take().len(), 11, "what somebody asks is not dropped");
        inbox.receive(envelope(), 5_000);
        assert_eq!(inbox.take().len(), 1, "one alone has room, however large");
    }
}
