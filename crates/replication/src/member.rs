//! A member of a set: what it is told, and what it wants done.

use crate::config::{Config, ELECTION_TICKS, tick};
use crate::effects::{Committed, Effects, Leadership, RaftRole, ReadId, SnapshotWanted, SyncTicket};
use crate::elections::{Candidacy, Elections};
use crate::entry::{self, LogEntry, LogEntryKind, LogIndex, LogPosition, MemberId};
use crate::log::{Checkpoint, HardState, Log, LogError, LogWrite, Storage, snapshot};
use crate::membership::Membership;
use crate::message::RaftMessage;
use crate::optime::{OpTime, TimestampClock};
use document::Timestamp;
use protobuf::Message as _;
use raft::eraftpb::{self, ConfChangeV2, MessageType};
use raft::{GetEntriesContext, RawNode, SnapshotStatus, StateRole};
use std::collections::VecDeque;
use std::time::Duration;

/// Of a process that was held up.
const TICKS_AT_ONCE_MAX: u32 = ELECTION_TICKS as u32 / 2;

/// Why an operation was not logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Somebody else takes operations.
    #[error("not the leader; it is {leader:?}")]
    NotLeader {
        /// Who, if that is known.
        leader: Option<MemberId>,
    },
    /// A new leader has not applied yet what the ones before it have logged.
    #[error("the leader applies what was logged before its term")]
    Draining,
    /// The leader hands over to another member.
    #[error("the leadership is handed over")]
    Transferring,
    /// Too much waits for a majority.
    #[error("too many bytes wait for a majority of the members")]
    Full,
    /// The members are being changed already.
    #[error("another change of the members is under way")]
    Changing,
    /// The members are these already.
    #[error("expected other members")]
    Unchanged,
    /// The leader would lose its vote.
    #[error("expected the leader among the voters: hand over first")]
    WithoutLeader,
}

/// What a leader knows of another member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Who.
    pub member: MemberId,
    /// The last entry that is on its disk.
    pub matched: LogIndex,
    /// Whether it has answered within the election timeout, or a little longer.
    pub is_active: bool,
}

/// Waits until all writes up to its sync are durable: answers that promise something.
struct Unsynced {
    number: u64,
    /// Without one of its own it waits only for those before it.
    has_write: bool,
    messages: Vec<eraftpb::Message>,
    /// Where the data are that were put in the place of the log.
    installed: Option<LogIndex>,
}

/// One member: a state machine without threads, clock, network or disk. It is told what happened, and
/// [`Member::effects`] says what it wants done. After an error of its log it must not be used any more.
pub struct Member<L: Log> {
    pub(crate) raw: RawNode<Storage<L>>,
    elections: Elections,
    timestamps: TimestampClock,
    tick: Duration,
    next_tick: Duration,
    uncommitted_bytes_max: usize,
    /// More is not taken for committed, whatever the leader says.
    committed_max: LogIndex,
    committed_bytes_max: u64,
    /// In the order in which the library gave them out.
    unsynced: VecDeque<Unsynced>,
    effects: Effects,
    leadership: Leadership,
    membership: Membership,
    /// Where the log ended when this leader learnt that a change of the members is committed.
    changed: Option<LogPosition>,
    /// The last operation that was given out to be applied.
    committed_timestamp: Timestamp,
    reads: Reads,
    /// Messages that no member has sent.
    refused: u64,
    forced_through: LogIndex,
}

#[derive(Default)]
struct Reads {
    latest: u64,
    is_wanted: bool,
}

impl<L: Log> Member<L> {
    /// A member whose data are at this checkpoint and whose log has whatever it has; `now` is on the
    /// monotonic clock that [`Member::advance`] is told.
    ///
    /// # Panics
    /// With a configuration that is not valid, and where the log does not reach down to the data.
    pub fn open(config: &Config, log: L, data: Checkpoint, now: Duration) -> Result<Self, LogError> {
        config.validate().expect("a valid configuration");
        let membership = data.membership.clone();
        let (applied, committed_timestamp) = (data.position.index, data.timestamp);
        let storage = Storage::open(log, data)?;
        let mut timestamps = TimestampClock::default();
        timestamps.observe(committed_timestamp);
        timestamps.observe(storage.latest_timestamp()?);
        let quiet = slog::Logger::root(slog::Discard, slog::o!());
        let raw = RawNode::new(&config.to_raft(applied), storage, &quiet).map_err(log_error)?;
        let leadership = Leadership { role: RaftRole::Follower, term: raw.raft.term, leader: None };
        Ok(Member {
            raw,
            elections: Elections::new(config.seed),
            timestamps,
            tick: tick(config.election_timeout),
            next_tick: now + tick(config.election_timeout),
            uncommitted_bytes_max: usize::try_from(config.uncommitted_bytes_max).unwrap_or(usize::MAX),
            committed_max: LogIndex::MAX,
            committed_bytes_max: config.committed_bytes_max,
            unsynced: VecDeque::new(),
            effects: Effects::default(),
            leadership,
            membership,
            changed: None,
            committed_timestamp,
            reads: Reads::default(),
            refused: 0,
            forced_through: config.forced_through,
        })
    }

    /// Who leads, as of the last [`Member::effects`].
    pub fn leadership(&self) -> Leadership {
        self.leadership
    }

    /// Who belongs to the set, by what was committed.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// The log.
    pub fn log(&self) -> &L {
        &self.raw.store().log
    }

    pub(crate) fn committed_timestamp(&self) -> Timestamp {
        self.committed_timestamp
    }

    /// Whether it leads now, which [`Member::leadership`] may not tell yet.
    pub(crate) fn leads_now(&self) -> bool {
        self.raw.raft.state == StateRole::Leader
    }

    /// Whether operations are taken: it leads, and has applied all that was logged before its term.
    pub fn is_writable(&self) -> bool {
        self.raw.raft.state == StateRole::Leader && self.raw.raft.apply_to_current_term()
    }

    /// Whether a group of operations with so many bytes would be logged now.
    pub fn takes(&self, bytes: usize) -> bool {
        let waiting = self.raw.raft.uncommitted_size();
        let has_room = waiting == 0 || waiting + bytes <= self.uncommitted_bytes_max;
        self.is_writable() && self.raw.raft.lead_transferee.is_none() && has_room
    }

    /// Bytes of entries that this leader has logged and a majority has not.
    pub(crate) fn uncommitted_bytes(&self) -> u64 {
        self.raw.raft.uncommitted_size() as u64
    }

    /// The last entry that is known to be on a majority of disks.
    pub fn committed(&self) -> LogIndex {
        self.raw.raft.raft_log.committed
    }

    /// The last entry that it has, on its disk or on the way there.
    pub fn last(&self) -> LogIndex {
        self.raw.raft.raft_log.last_index()
    }

    fn end(&self) -> LogPosition {
        LogPosition { term: self.raw.raft.term, index: self.last() }
    }

    /// Whether the members of this leader stay those that they are, whichever minority of the disks is lost
    /// and whatever the others lose that is not synced. What they lose may be that the last change is
    /// committed, and who does not know that asks those before it for their votes. An entry that was logged
    /// after the leader knew brings it along, in one write.
    pub fn has_settled(&self) -> bool {
        !self.membership.is_changing() && self.unsettled().is_none()
    }

    /// The end of the log behind which nothing is committed that tells of the last change.
    fn unsettled(&self) -> Option<LogIndex> {
        let is_own = |changed: &LogPosition| self.leads_now() && changed.term == self.raw.raft.term;
        let index = self.changed.filter(is_own)?.index;
        (index >= self.committed()).then_some(index)
    }

    /// Whether a member votes, and will whatever is lost: [`Member::has_settled`].
    pub fn counts(&self, member: MemberId) -> bool {
        let Membership { voters, voters_outgoing, .. } = &self.membership;
        let was_voter = voters_outgoing.is_empty() || voters_outgoing.contains(&member);
        let matched = self.raw.raft.prs().get(member).map_or(0, |progress| progress.matched);
        voters.contains(&member) && was_voter && self.unsettled().is_none_or(|index| matched > index)
    }

    /// Whether this leader is to log something, so that a change of the members settles.
    pub(crate) fn is_to_settle(&self) -> bool {
        let end = self.end();
        !self.membership.is_changing() && self.changed.is_some_and(|changed| changed == end)
    }

    /// Has a leader say now that it is there, rather than at the next heartbeat.
    pub fn ping(&mut self) {
        self.raw.ping();
    }

    /// When [`Member::advance`] has something to do next.
    pub fn deadline(&self) -> Duration {
        self.next_tick
    }

    /// Another [`Config::election_timeout`], for what follows.
    pub fn set_election_timeout(&mut self, election_timeout: Duration) {
        self.tick = tick(election_timeout);
    }

    /// Time has passed.
    pub fn advance(&mut self, now: Duration) {
        // A process that was held up has messages of that time waiting: nobody was silent for so long.
        let earliest = now.saturating_sub(self.tick * TICKS_AT_ONCE_MAX);
        self.next_tick = self.next_tick.max(earliest);
        while self.next_tick <= now {
            self.next_tick += self.tick;
            self.elections.tick(&mut self.raw, !self.unsynced.is_empty());
        }
    }

    /// A message has come in. Those that this member cannot do anything with are passed over.
    pub fn receive(&mut self, message: RaftMessage) -> Result<(), LogError> {
        let RaftMessage(mut message) = message;
        if message.to != self.raw.raft.id {
            return Ok(());
        }
        if let Some(defect) = self.implausible(&message) {
            self.refused += 1;
            // Whoever sends one may send a million.
            if self.refused.is_power_of_two() {
                let (from, kind, refused) = (message.from, message.get_msg_type(), self.refused);
                tracing::warn!(
                    from,
                    ?kind,
                    refused,
                    defect,
                    "a message that no member of this set sends is passed over"
                );
            }
            return Ok(());
        }
        message.commit = message.commit.min(self.committed_max);
        if message.get_msg_type() == MessageType::MsgSnapshot && self.lacks(&message) {
            if message.term >= self.raw.raft.term {
                let offer = message.get_snapshot().get_metadata();
                let at = LogPosition { index: offer.index, term: offer.term };
                let membership = Membership::from_raft(offer.get_conf_state());
                self.effects.snapshot = Some(SnapshotWanted { from: message.from, at, membership });
            }
            return Ok(());
        }
        self.elections.note(&self.raw.raft, &message);
        match self.raw.step(message) {
            Err(raft::Error::Store(error)) => Err(log_error(raft::Error::Store(error))),
            _ => Ok(()),
        }
    }

    /// The last entry that this member takes for committed.
    pub fn committed_position(&self) -> LogPosition {
        let log = &self.raw.raft.raft_log;
        // The data are there, and the log reaches down to them.
        let term = log.term(log.committed).expect("the place of the last committed entry");
        LogPosition { term, index: log.committed }
    }

    /// What is committed after this place, for another member: [`Member::take_passed_on`]. `None` where the
    /// place is not among what is committed here.
    pub fn committed_after(&self, to: MemberId, after: LogPosition, bytes_max: u64) -> Option<RaftMessage> {
        let (raft, log) = (&self.raw.raft, &self.raw.raft.raft_log);
        if after.index > log.committed || !log.match_term(after.index, after.term) {
            return None;
        }
        let context = GetEntriesContext::empty(false);
        let entries = match after.index < log.committed {
            true => log.slice(after.index + 1, log.committed + 1, Some(bytes_max), context).ok()?,
            false => Vec::new(),
        };
        let mut message = eraftpb::Message::new();
        message.set_msg_type(MessageType::MsgAppend);
        (message.from, message.to, message.term) = (raft.id, to, raft.term);
        (message.index, message.log_term, message.commit) = (after.index, after.term, log.committed);
        message.set_entries(entries.into());
        Some(RaftMessage(message))
    }

    /// Takes what another member than the leader has for committed as if the leader had sent it: it is in the
    /// leader's log. Only for members without a vote, who know a leader; up to where, if anything was taken.
    pub fn take_passed_on(&mut self, message: RaftMessage) -> Result<Option<LogPosition>, LogError> {
        let RaftMessage(mut message) = message;
        let raft = &self.raw.raft;
        let follows = raft.state == StateRole::Follower && !self.membership.is_voter(raft.id);
        let leader = member(raft.leader_id).filter(|leader| follows && *leader != message.from);
        let is_next = message.term <= raft.term
            && message.get_msg_type() == MessageType::MsgAppend
            && raft.raft_log.match_term(message.index, message.log_term);
        let Some(leader) = leader.filter(|_| is_next) else { return Ok(None) };
        (message.from, message.term) = (leader, raft.term);
        let last = message.entries.last().map(|last| LogPosition { term: last.term, index: last.index });
        self.receive(RaftMessage(message))?;
        Ok(last.filter(|last| self.raw.raft.raft_log.match_term(last.index, last.term)))
    }

    /// From now on entries behind this one are not taken for committed. Those that were stay it.
    pub fn believe_committed_through(&mut self, index: LogIndex) {
        self.committed_max = index;
    }

    /// Whether the entry of an offered snapshot is unknown here.
    fn lacks(&self, offer: &eraftpb::Message) -> bool {
        let offered = offer.get_snapshot().get_metadata();
        let log = &self.raw.raft.raft_log;
        offered.index >= log.committed && !log.match_term(offered.index, offered.term)
    }

    /// A message to this member could not be sent: less is sent until it answers.
    pub fn unreachable(&mut self, member: MemberId) {
        self.raw.report_unreachable(member);
    }

    /// Logs a group of `count` operations; `encode` makes the oplog entry of each with its place. They are
    /// committed when they come back in [`Effects::committed`] with the term of the result, which is the
    /// place of the first one; `wall` is the time since 1970.
    pub fn propose(
        &mut self,
        wall: Duration,
        count: usize,
        mut encode: impl FnMut(OpTime) -> Vec<u8>,
    ) -> Result<LogPosition, ProposeError> {
        self.check_proposal()?;
        if !self.raw.raft.apply_to_current_term() {
            return Err(ProposeError::Draining);
        }
        let term = self.raw.raft.term;
        let entries = (0..count).map(|_| {
            let timestamp = self.timestamps.next(wall);
            let mut entry = eraftpb::Entry::new();
            entry.data = encode(OpTime { timestamp, term }).into();
            entry.context = entry::context(timestamp);
            entry
        });
        let mut message = eraftpb::Message::new();
        message.set_msg_type(MessageType::MsgPropose);
        message.from = self.raw.raft.id;
        message.set_entries(entries.collect());
        assert!(!message.entries.is_empty(), "a group has operations");
        let index = self.raw.raft.raft_log.last_index() + 1;
        // All else that could be refused was asked for before.
        self.raw.raft.step(message).map_err(|_| ProposeError::Full)?;
        Ok(LogPosition { term, index })
    }

    fn check_proposal(&self) -> Result<(), ProposeError> {
        let raft = &self.raw.raft;
        if raft.state != StateRole::Leader {
            return Err(ProposeError::NotLeader { leader: member(raft.leader_id) });
        }
        if raft.lead_transferee.is_some() {
            return Err(ProposeError::Transferring);
        }
        Ok(())
    }

    /// Logs a change to these members, which takes effect when it is committed, in two steps where several
    /// votes change. `context` goes with it. The result is its place.
    pub fn change_members(
        &mut self,
        voters: &[MemberId],
        learners: &[MemberId],
        context: Vec<u8>,
    ) -> Result<LogPosition, ProposeError> {
        self.check_proposal()?;
        if self.raw.raft.has_pending_conf() || self.membership.is_changing() {
            return Err(ProposeError::Changing);
        }
        if !voters.contains(&self.raw.raft.id) {
            return Err(ProposeError::WithoutLeader);
        }
        let change = self.membership.change(voters, learners);
        if change.changes.is_empty() {
            return Err(ProposeError::Unchanged);
        }
        let position =
            LogPosition { term: self.raw.raft.term, index: self.raw.raft.raft_log.last_index() + 1 };
        self.raw.propose_conf_change(context, change).map_err(|_| ProposeError::Full)?;
        Ok(position)
    }

    /// Begins a linearizable read. All that are begun before the next [`Member::effects`] are one.
    pub fn read(&mut self) -> Result<ReadId, ProposeError> {
        let raft = &self.raw.raft;
        if raft.state != StateRole::Leader {
            return Err(ProposeError::NotLeader { leader: member(raft.leader_id) });
        }
        if !raft.commit_to_current_term() {
            return Err(ProposeError::Draining);
        }
        if !self.reads.is_wanted {
            self.reads.is_wanted = true;
            self.reads.latest += 1;
        }
        Ok(ReadId(self.reads.latest))
    }

    /// Hands over to this voter, as soon as it has the whole log. Operations are refused meanwhile, but not
    /// for longer than the election timeout.
    pub fn transfer(&mut self, to: MemberId) {
        // Asked of another member it would be passed on to the leader.
        if self.raw.raft.state == StateRole::Leader {
            self.raw.transfer_leader(to);
        }
    }

    /// Asks to lead now: the leader, where there is one, to hand over, and else the others for their votes.
    pub fn stand(&mut self) {
        if self.raw.raft.state == StateRole::Leader
            || !self.unsynced.is_empty()
            || !self.raw.raft.promotable()
        {
            return;
        }
        match member(self.raw.raft.leader_id) {
            Some(_) => self.raw.transfer_leader(self.raw.raft.id),
            // What is refused is tried again when the time-out has passed.
            None => drop(self.raw.campaign()),
        }
    }

    /// This member has another number from now on, under which it has never voted.
    ///
    /// # Panics
    /// If it leads.
    pub fn take_number(&mut self, number: MemberId) {
        assert_ne!(self.raw.raft.state, StateRole::Leader, "a leader keeps its number");
        self.raw.raft.become_follower(self.raw.raft.term, raft::INVALID_ID);
        self.raw.raft.id = number;
        // It does not stand for election before it has applied that it votes.
        self.raw.raft.post_conf_change();
    }

    /// This member alone votes from now on, and all of its log is committed as soon as it leads, whatever the
    /// others have. Only where these will never be heard again: they may have committed something else.
    ///
    /// # Panics
    /// If it leads.
    pub fn force(&mut self) {
        let raft = &mut self.raw.raft;
        assert_ne!(raft.state, StateRole::Leader, "a leader has a majority");
        raft.become_follower(raft.term, raft::INVALID_ID);
        self.forced_through = raft.raft_log.last_index();
        let own = raft.id;
        // Out of a change that was under way, then to this member alone, in one step or two.
        for step in 0..3 {
            let change = match self.membership.is_changing() {
                true => ConfChangeV2::new(),
                false if step < 2 => self.membership.change(&[own], &[]),
                false => break,
            };
            if change.changes.is_empty() && !self.membership.is_changing() {
                break;
            }
            let state = self.raw.apply_conf_change(&change).expect("a member that votes alone");
            self.membership = Membership::from_raft(&state);
        }
        assert_eq!(self.membership, Membership::of(&[own]), "one member votes alone");
        self.raw.mut_store().membership = self.membership.clone();
    }

    /// Stops to lead at once.
    pub fn resign(&mut self) {
        if self.raw.raft.state == StateRole::Leader {
            self.raw.raft.become_follower(self.raw.raft.term, raft::INVALID_ID);
        }
    }

    /// How often it has asked because a time-out has passed, since this was asked last.
    pub(crate) fn take_timeouts(&mut self) -> u32 {
        std::mem::take(&mut self.elections.passed)
    }

    /// Whether it wants to lead, or does.
    pub(crate) fn stands(&self) -> bool {
        self.raw.raft.state != StateRole::Follower
    }

    /// When this member asks to be elected.
    pub fn set_candidacy(&mut self, candidacy: Candidacy) {
        self.elections.candidacy = candidacy;
    }

    /// To whom a leader of lower priority hands over: the voter of the highest priority above its own that
    /// answers and has all that is committed.
    pub fn successor(&self, priority: impl Fn(MemberId) -> u32) -> Option<MemberId> {
        let own = self.raw.raft.id;
        let committed = self.raw.raft.raft_log.committed;
        let others = self.progress().into_iter().filter(|progress| {
            let is_current = progress.is_active && progress.matched >= committed;
            is_current && progress.member != own && self.membership.voters.contains(&progress.member)
        });
        let best = others.max_by_key(|progress| (priority(progress.member), progress.matched))?;
        (priority(best.member) > priority(own)).then_some(best.member)
    }

    /// What a leader knows of each member, by number; empty for others.
    pub fn progress(&self) -> Vec<Progress> {
        if self.raw.raft.state != StateRole::Leader {
            return Vec::new();
        }
        let own = self.raw.raft.id;
        let members = self.raw.raft.prs().iter().map(|(member, progress)| Progress {
            member: *member,
            matched: progress.matched,
            is_active: progress.recent_active || *member == own,
        });
        let mut members: Vec<Progress> = members.collect();
        members.sort_unstable_by_key(|progress| progress.member);
        members
    }

    /// A timestamp was seen elsewhere (`$clusterTime`): those given from now on are later.
    pub fn observe(&mut self, timestamp: Timestamp) {
        self.timestamps.observe(timestamp);
    }

    /// The sync of this ticket has ended, begun after the effects that asked for it.
    pub fn synced(&mut self, ticket: SyncTicket) {
        while let Some(unsynced) =
            self.unsynced.pop_front_if(|next| next.number <= ticket.0 || !next.has_write)
        {
            self.raw.on_persist_ready(unsynced.number);
            if let Some(index) = unsynced.installed {
                self.raw.advance_apply_to(index);
            }
            self.send(unsynced.messages);
        }
    }

    /// All up to this index was applied. The log may be compacted up to where that is durable.
    pub fn applied(&mut self, index: LogIndex) {
        let storage = self.raw.mut_store();
        storage.applied = index;
        self.raw.advance_apply_to(index);
    }

    /// Removes the entries up to `through` from the log, all of which are applied durably.
    pub fn compact(&mut self, through: LogIndex) -> Result<(), LogError> {
        let storage = self.raw.mut_store();
        assert!(through <= storage.applied, "compacting up to {through}, applied up to {}", storage.applied);
        if through <= storage.log.compacted().index {
            return Ok(());
        }
        let position = LogPosition { index: through, term: storage.log.term(through)? };
        storage.log.compact(position)
    }

    /// The data were replaced, durably, by a copy of another member's. `false` if this member has come
    /// further meanwhile, or leads: then the data must stay as they were, so ask [`Member::can_install`]
    /// first.
    pub fn install(&mut self, copy: &Checkpoint) -> bool {
        if !self.can_install(copy) {
            return false;
        }
        if self.raw.raft.state != StateRole::Follower {
            self.raw.raft.become_follower(self.raw.raft.term, raft::INVALID_ID);
        }
        let is_new = self.raw.raft.restore(snapshot(copy.position, &copy.membership));
        assert!(
            is_new,
            "a copy of {:?} is installed over committed {}",
            copy, self.raw.raft.raft_log.committed
        );
        self.timestamps.observe(copy.timestamp);
        self.committed_timestamp = copy.timestamp;
        self.membership = copy.membership.clone();
        let storage = self.raw.mut_store();
        storage.applied = copy.position.index;
        storage.membership = copy.membership.clone();
        true
    }

    /// Whether this copy is of use: it knows this member, and entries that this member does not have.
    pub fn can_install(&self, copy: &Checkpoint) -> bool {
        let raft = &self.raw.raft;
        let LogPosition { index, term } = copy.position;
        raft.state != StateRole::Leader
            && index > raft.raft_log.committed
            && !raft.raft_log.match_term(index, term)
            && copy.membership.members().contains(&raft.id)
    }

    /// What is to be done now. To be asked after anything was told.
    pub fn effects(&mut self) -> Result<Effects, LogError> {
        let leads = self.raw.raft.state == StateRole::Leader;
        if std::mem::take(&mut self.reads.is_wanted) && leads {
            // Never used twice: a late answer to an earlier question must not count for a later one.
            let context = [self.raw.raft.term.to_be_bytes(), self.reads.latest.to_be_bytes()].concat();
            self.raw.read_index(context);
        }
        let mut committed_bytes = 0;
        while self.raw.has_ready() {
            if committed_bytes >= self.committed_bytes_max {
                self.effects.has_more = true;
                break;
            }
            committed_bytes += self.take_ready()?;
        }
        self.note_leadership();
        Ok(std::mem::take(&mut self.effects))
    }

    /// Returns the bytes of what is committed.
    fn take_ready(&mut self) -> Result<u64, LogError> {
        let mut ready = self.raw.ready();
        let mut messages = ready.take_messages();
        for read in ready.take_read_states() {
            let id = read.request_ctx.last_chunk().map(|id| ReadId(u64::from_be_bytes(*id)));
            self.effects.readable.push((id.expect("a read's context ends with its id"), read.index));
        }
        let committed = ready.take_committed_entries();
        let installed = self.write(&mut ready)?;
        let (number, must_sync) = (ready.number(), ready.must_sync());
        let promises = ready.take_persisted_messages();
        self.raw.advance_append_async(ready);
        if must_sync {
            self.effects.sync = Some(SyncTicket(number));
        }
        // In order: an answer without a write of its own may speak of one that came before it.
        if must_sync || !self.unsynced.is_empty() {
            self.unsynced.push_back(Unsynced { number, has_write: must_sync, messages: promises, installed });
        } else {
            self.raw.on_persist_ready(number);
            messages.extend(promises);
        }
        self.send(messages);
        let mut bytes = 0;
        for entry in committed {
            let entry = LogEntry::from_raft(entry);
            bytes += entry.size();
            self.commit(entry)?;
        }
        Ok(bytes)
    }

    /// The index of the data that replace the log, where they do.
    fn write(&mut self, ready: &mut raft::Ready) -> Result<Option<LogIndex>, LogError> {
        let metadata = ready.snapshot().get_metadata();
        let reset = (!ready.snapshot().is_empty())
            .then_some(LogPosition { index: metadata.index, term: metadata.term });
        let hard_state =
            ready.hs().map(|state| HardState { term: state.term, vote: state.vote, committed: state.commit });
        let entries: Vec<LogEntry> = ready.take_entries().into_iter().map(LogEntry::from_raft).collect();
        for entry in &entries {
            if let LogEntryKind::Operation(timestamp) = entry.kind {
                self.timestamps.observe(timestamp);
            }
        }
        let write = LogWrite { reset, hard_state, entries };
        if write != LogWrite::default() {
            self.raw.mut_store().log.write(write)?;
        }
        Ok(reset.map(|position| position.index))
    }

    fn commit(&mut self, entry: LogEntry) -> Result<(), LogError> {
        let mut membership = None;
        match entry.kind {
            // The first entry after a forced beginning tells who belongs to the set from there on.
            LogEntryKind::LeaderElected if self.forced_through > 0 => {
                membership = Some(self.membership.clone())
            }
            LogEntryKind::LeaderElected => {}
            LogEntryKind::Membership if entry.position.index <= self.forced_through => {}
            LogEntryKind::Operation(timestamp) => {
                let before = self.committed_timestamp;
                assert!(timestamp > before, "{:?} at {timestamp:?} follows {before:?}", entry.position);
                self.committed_timestamp = timestamp;
            }
            LogEntryKind::Membership => {
                let change = ConfChangeV2::parse_from_bytes(&entry.data);
                let change = change.map_err(|error| LogError(Box::new(error)))?;
                // Every member finds the same: what cannot be changed is passed over by all of them.
                match self.raw.apply_conf_change(&change) {
                    Ok(state) => self.membership = Membership::from_raft(&state),
                    Err(error) => tracing::error!(%error, ?change, "the members cannot be changed so"),
                }
                self.raw.mut_store().membership = self.membership.clone();
                membership = Some(self.membership.clone());
                self.changed = self.leads_now().then(|| self.end());
                // A leader that is removed was not when this was proposed: see `change_members`.
                if !self.membership.is_voter(self.raw.raft.id) {
                    self.resign();
                }
            }
        }
        self.effects.committed.push(Committed { entry, membership });
        Ok(())
    }

    fn send(&mut self, messages: Vec<eraftpb::Message>) {
        for message in messages {
            if message.get_msg_type() == MessageType::MsgSnapshot {
                // The leader goes on trying entries, and so offers it again until the copy is there.
                self.raw.report_snapshot(message.to, SnapshotStatus::Finish);
            }
            self.effects.messages.push(RaftMessage(message));
        }
    }

    fn note_leadership(&mut self) {
        let raft = &self.raw.raft;
        let role = match raft.state {
            StateRole::Leader => RaftRole::Leader,
            StateRole::Follower => RaftRole::Follower,
            StateRole::Candidate | StateRole::PreCandidate => RaftRole::Candidate,
        };
        let now = Leadership { role, term: raft.term, leader: member(raft.leader_id) };
        if now != self.leadership {
            self.leadership = now;
            self.effects.leadership = Some(now);
        }
    }
}

fn member(id: MemberId) -> Option<MemberId> {
    (id != raft::INVALID_ID).then_some(id)
}

fn log_error(error: raft::Error) -> LogError {
    LogError(Box::new(error))
}
