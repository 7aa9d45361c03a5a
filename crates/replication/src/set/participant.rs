//! This member as one of its set: what it is told by the others and by its own disk, and what follows from
//! it. What only a leader does is in `lead.rs`.

use crate::effects::{Committed, Effects, Leadership, RaftRole, ReadId, SnapshotWanted, SyncTicket};
use crate::entry::{LogEntryKind, LogIndex, LogPosition, MemberId, Term};
use crate::initial_sync::CopyWanted;
use crate::log::{Checkpoint, Log, LogError};
use crate::optime::OpTime;
use crate::set::apply_queue::Work;
use crate::set::arbiter::Arbiter;
use crate::set::chain::{Chain, ChainWord};
use crate::set::config::MEMBERS_MAX;
use crate::set::driver::{Asked, Links, Now, Told};
use crate::set::election_metrics::ElectionReason;
use crate::set::envelope::{Address, Envelope};
use crate::set::flow::Flow;
use crate::set::freshness::{Freshness, Stamps};
use crate::set::kept_log::KeptLog;
use crate::set::lead::{Leading, Stepping};
use crate::set::shared::Reply;
use crate::set::state::SetState;
use crate::set::{MemberState, SetError, SetOptions, Topology};
use crate::{Candidacy, Config, Identity, LocalState, Member, Oplog, RaftMessage, StoreLog};
use document::ObjectId;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use storage::Proposals;
use wire::ErrorCode;

/// How often the log is looked at for what may go.
const TRIM_INTERVAL: Duration = Duration::from_secs(1);
/// A member that starts hears first from the others what they need of it: heartbeats come every two seconds.
const TRIMS_AFTER_START: Duration = Duration::from_secs(3);

/// What another member has said of itself.
#[derive(Debug)]
struct Heard {
    host: String,
    electable: bool,
    applied: Option<LogIndex>,
    chain: ChainWord,
}

/// A read that asks whether this member still leads, and how far the data must be then.
struct Read {
    id: ReadId,
    needs: Option<LogIndex>,
    reply: Reply<()>,
}

/// See the module.
pub(crate) struct Participant {
    pub(super) links: Links,
    own_hosts: Vec<String>,
    pub(super) identity: Identity,
    pub(super) member: Member<StoreLog>,
    /// As it was given; the times are asked for by what a leader does.
    pub(super) config: Config,
    /// After so long without an operation a leader logs one that changes nothing.
    pub(super) noop_interval: Duration,
    pub(super) oplog: Oplog,
    /// As applied, for clients and for what is to be changed.
    pub(super) state: Option<SetState>,
    /// As another member has told it that was asked.
    pub(super) heard_of: Option<SetState>,
    shown: Option<Arc<crate::set::ReplSetConfig>>,
    heard: BTreeMap<MemberId, Heard>,
    freshness: Freshness,
    pub(super) leading: Leading,
    pub(super) flow: Flow,
    pub(super) leadership: Leadership,
    reads: Vec<Read>,
    /// Who has asked to become primary, until then.
    standing: Vec<(Duration, Reply<()>)>,
    /// Who is answered when clients are told what has become of this member.
    pub(super) answers: Vec<Reply<()>>,
    pub(super) frozen_until: Duration,
    /// So often it was asked for, and not ended again.
    maintenance: u32,
    is_too_far_behind: bool,
    /// Before the last crash a part of what is up to here was applied: the data are of no moment before all
    /// of it is.
    begun: LogIndex,
    /// Whether published views are withdrawn.
    pub(super) reads_latest: bool,
    pub(super) applied: LogIndex,
    pub(super) chain: Chain,
    pub(super) arbiter: Option<Arbiter>,
    /// Where this member stays behind by intention: up to here entries are old enough.
    pub(super) old_enough: LogIndex,
    trim_at: Duration,
    pub(super) kept_log: KeptLog,
    /// It copies, or has copied and does not have what came since.
    pub(super) catches_up: bool,
    /// The first operation of this term or a later one is not applied yet.
    pub(super) awaited_term: Option<Term>,
    /// Syncs that run or wait, and what is on the disk afterwards.
    syncing: VecDeque<(SyncTicket, OpTime)>,
}

impl Participant {
    /// A member with this identity, whose data are at `data`.
    pub(crate) fn open(
        options: &SetOptions,
        links: Links,
        identity: Identity,
        data: Checkpoint,
        state: Option<SetState>,
        now: Now,
    ) -> Result<Self, LogError> {
        let log = StoreLog::open(&links.catalog, options.log.clone())?;
        let begun = LocalState::new(links.catalog.store().clone()).begun()?;
        let oplog = log.oplog();
        let config = Config {
            uncommitted_bytes_max: options.uncommitted_bytes_max,
            forced_through: identity.forced_through,
            ..Config::new(identity.number, options.seed)
        };
        let applied = data.position;
        let arbiter = identity.is_arbiter.then(|| Arbiter::new(data.clone()));
        let mut member = Member::open(&config, log, data, now.monotonic)?;
        oplog.show_up_to(applied.index);
        if member.membership().voters == [identity.number] {
            // Nobody else is to be asked.
            member.stand();
        }
        let is_alone = member.leads_now();
        let catches_up = options.has_copied || links.copying.place().is_some();
        let mut participant = Participant {
            own_hosts: options.own_hosts.clone(),
            leadership: member.leadership(),
            config,
            noop_interval: options.noop_interval,
            links,
            identity,
            member,
            oplog,
            shown: None,
            state: None,
            heard_of: None,
            heard: BTreeMap::new(),
            freshness: Freshness::new(options.seed),
            leading: Leading::default(),
            flow: Flow::new(options.window_bytes_min, options.uncommitted_bytes_max),
            reads: Vec::new(),
            standing: Vec::new(),
            answers: Vec::new(),
            frozen_until: Duration::ZERO,
            maintenance: 0,
            is_too_far_behind: false,
            begun,
            reads_latest: false,
            applied: applied.index,
            chain: Chain::default(),
            arbiter,
            old_enough: 0,
            trim_at: now.monotonic + TRIMS_AFTER_START,
            kept_log: KeptLog::default(),
            catches_up,
            awaited_term: None,
            syncing: VecDeque::new(),
        };
        let last = participant.member.log().last();
        let log = LogPosition { term: participant.leadership.term, index: last };
        participant.links.history.begin(log);
        let optime = participant.optime_at(applied.index)?;
        if !participant.is_arbiter() {
            participant.links.shared.reach(|reached| {
                (reached.applied, reached.committed, reached.durable) = (optime, optime, optime);
            });
        }
        if let Some(state) = state {
            if participant.identity.is_forced_after(applied.index) {
                participant.log_again(state.clone());
            }
            participant.learn(state);
        }
        if is_alone {
            participant.note_candidature(ElectionReason::ElectionTimeout, now);
        }
        participant.hold_back(now)?;
        participant.publish();
        Ok(participant)
    }

    pub(crate) fn oplog(&self) -> Oplog {
        self.oplog.clone()
    }

    pub(crate) fn set_id(&self) -> ObjectId {
        self.identity.set_id
    }

    pub(super) fn number(&self) -> MemberId {
        self.identity.number
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.member.deadline()
    }

    pub(crate) fn is_arbiter(&self) -> bool {
        self.arbiter.is_some()
    }

    pub(super) fn is_too_far_behind(&self) -> bool {
        self.is_too_far_behind
    }

    /// Whether something is to be done when more is applied: a primary learns of it soon enough by its next
    /// turn, unless clients wait in front of its log, who make no turn.
    pub(crate) fn awaits_data(&self) -> bool {
        let is_wanted = self.leading.awaits_data() || !self.reads.is_empty() || self.flow.limits();
        !self.leading.is_open() || is_wanted
    }

    pub(super) fn leads(&self) -> bool {
        self.leadership.role == RaftRole::Leader
    }

    /// Time has passed.
    pub(crate) fn advance(&mut self, now: Now) -> Result<(), LogError> {
        self.links.history.advance(now.monotonic);
        self.member.set_candidacy(self.candidacy(now));
        self.hold_back(now)?;
        self.follow_source(now);
        self.member.advance(now.monotonic);
        self.note_timeouts(now);
        let forced = self.identity.forced_through;
        if forced > self.member.log().compacted().index && self.applied >= forced {
            // Who comes later copies the data: the changes of the members before are not to be followed.
            self.links.history.trimmed_through(forced);
            self.member.compact(forced)?;
        }
        if now.monotonic >= self.trim_at {
            self.trim_at = now.monotonic + TRIM_INTERVAL;
            self.links.history.retire();
            self.trim(now)?;
        }
        self.say_need(now);
        for (_, reply) in self.standing.extract_if(.., |(until, _)| *until <= now.monotonic) {
            reply.answer(Err(SetError::new(ErrorCode::CommandFailed, "Election failed.")));
        }
        Ok(())
    }

    /// Whether this member should be primary where it may.
    pub(super) fn is_electable(&self, now: Now) -> bool {
        self.candidacy(now) == Candidacy::Own
    }

    /// Who may not be primary leads for a moment where nobody else can, and hands over.
    pub(super) fn candidacy(&self, now: Now) -> Candidacy {
        if now.monotonic < self.frozen_until || self.maintenance > 0 || self.is_too_far_behind {
            return Candidacy::None;
        }
        let own = self.own_place().and_then(|place| self.state.as_ref()?.config.members.get(place));
        match (&self.state, own) {
            (None, _) if !self.is_arbiter() => Candidacy::Own,
            (_, Some(own)) if own.is_electable() => Candidacy::Own,
            (_, Some(own)) if !own.delay.is_zero() => Candidacy::None,
            // Its vote counts until the consensus has followed the configuration.
            _ if self.member.membership().is_voter(self.number()) => Candidacy::ForOthers,
            _ => Candidacy::None,
        }
    }

    /// Whether its disk has room for what clients add.
    pub(super) fn has_room(&self) -> bool {
        self.links.catalog.store().has_room()
    }

    /// Keeps this member from being primary until then.
    pub(super) fn freeze_until(&mut self, until: Duration) {
        self.frozen_until = until;
    }

    /// Whether another member says that it wants to be primary.
    pub(super) fn wants_to_lead(&self, number: MemberId) -> bool {
        self.heard.get(&number).is_none_or(|heard| heard.electable)
    }

    /// Word from another member.
    pub(crate) fn receive(&mut self, envelope: Envelope, now: Now) -> Result<(), LogError> {
        let Envelope { from, to, disk, electable, applied, chain, arbiter, messages, stamps, .. } = envelope;
        if to.number != self.identity.number && !self.take_number(to.number, disk)? {
            return Ok(());
        }
        self.hear_as_arbiter(arbiter);
        self.note_follower(from.number, chain, now);
        if chain.is_passed_on() {
            return self.take_passed_on(from.number, messages, now);
        }
        let may_lead = self.candidacy(now) != Candidacy::None;
        for message in messages.into_iter().filter(|message| message.from() == from.number) {
            let hands_over = message.hands_over();
            if !hands_over || may_lead {
                let stood = self.member.stands();
                self.member.receive(message)?;
                if hands_over && !stood && self.member.stands() && self.standing.is_empty() {
                    self.note_hand_over(from.number, now);
                }
            }
        }
        if self.has_room_for(from.number) {
            self.heard.insert(from.number, Heard { host: from.host, electable, applied, chain });
            let leads = self.leads().then_some(self.leadership.term);
            self.freshness.heard(from.number, stamps, leads, now.monotonic);
            if stamps.asks {
                self.member.ping();
            }
        }
        Ok(())
    }

    /// Whether what this sender says of itself is kept. Numbers that nobody has are not kept for long:
    /// anybody may send them, and they must not be in the way of members.
    fn has_room_for(&mut self, number: MemberId) -> bool {
        if self.heard.len() < MEMBERS_MAX || self.heard.contains_key(&number) {
            return true;
        }
        let Some(state) = self.state.as_ref().filter(|state| state.place(number).is_some()) else {
            return false;
        };
        let membership = self.member.membership();
        self.heard.retain(|known, _| state.place(*known).is_some() || membership.members().contains(known));
        self.freshness.forget_others(|known| self.heard.contains_key(&known));
        true
    }

    /// Anything else.
    pub(crate) fn tell(&mut self, told: Told, now: Now) {
        match told {
            Told::Synced(ticket) => {
                self.member.synced(ticket);
                let mut durable = None;
                while let Some((_, optime)) = self.syncing.pop_front_if(|(next, _)| *next <= ticket) {
                    durable = Some(optime);
                }
                if let Some(optime) = durable.filter(|_| !self.is_arbiter()) {
                    self.links.shared.reach(|reached| reached.durable = optime);
                }
            }
            Told::Applied { through, state } => {
                assert!(through > self.applied, "applied up to {through} after {}", self.applied);
                let before = std::mem::replace(&mut self.applied, through);
                self.note_applied(before, through);
                self.is_too_far_behind = false;
                self.member.applied(through);
                self.freshness.applied(through);
                if let Some(state) = state {
                    self.learn(state);
                    // Who is answered now asks for the configuration next.
                    self.publish();
                }
                self.answer_applied();
            }
            Told::Asked(asked) => self.asked(asked, now),
            Told::Received(_) => unreachable!("an envelope is received"),
        }
    }

    fn asked(&mut self, asked: Asked, now: Now) {
        match asked {
            Asked::Note(note, reply) => self.note(note, reply, now),
            Asked::Reconfigure { config, force, reply } => self.reconfigure(config, force, reply, now),
            Asked::StepDown { catch_up, lasts, force, reply } => {
                let (until, frozen_until) = (now.monotonic + catch_up, now.monotonic + lasts);
                self.begin_step_down(Stepping { until, frozen_until, force, reply });
            }
            Asked::StepUp(reply) if self.leading.is_open() => reply.answer(Ok(())),
            Asked::StepUp(reply) if !self.is_electable(now) => reply.answer(Err(SetError::new(
                ErrorCode::CommandFailed,
                "Election failed: this member is not electable",
            ))),
            Asked::StepUp(reply) => {
                self.note_candidature(ElectionReason::StepUpRequest, now);
                self.member.stand();
                self.standing.push((now.monotonic + self.config.election_timeout * 2, reply));
            }
            Asked::Freeze(_, reply) if self.leads() => reply.answer(Err(SetError::new(
                ErrorCode::NotSecondary,
                "cannot freeze node when primary or running for election. state: Primary",
            ))),
            Asked::Freeze(lasts, reply) => {
                self.frozen_until = now.monotonic + lasts;
                reply.answer(Ok(()));
            }
            Asked::Follow(id) => self.chain.choose(id),
            Asked::Maintenance(is_on, reply) => self.maintain(is_on, reply),
            // Each turn looks who waits.
            Asked::Freshness => {}
            Asked::Reach(timestamp) => self.reach(timestamp, now),
            Asked::Keep(need) => self.note_need(need, now),
            Asked::Read(reply) => match self.member.read() {
                Ok(id) if self.leading.is_open() => self.reads.push(Read { id, needs: None, reply }),
                _ => reply.answer(Err(SetError::new(
                    ErrorCode::NotWritablePrimary,
                    "cannot satisfy linearizable read concern on non-primary node",
                ))),
            },
            Asked::Initiate(..) | Asked::Stop => unreachable!("the driver's own"),
        }
    }

    /// Answered when clients are told what has become of this member.
    fn maintain(&mut self, is_on: bool, reply: Reply<()>) {
        let refused = |code, message: &str| Err(SetError::new(code, message));
        match (self.leads(), is_on, self.maintenance) {
            (true, ..) => {
                reply.answer(refused(ErrorCode::NotSecondary, "primaries can't modify maintenance mode"));
            }
            (_, false, 0) => {
                reply.answer(refused(ErrorCode::OperationFailed, "already out of maintenance mode"));
            }
            (_, is_on, calls) => {
                self.maintenance = if is_on { calls.saturating_add(1) } else { calls - 1 };
                self.answers.push(reply);
            }
        }
    }

    /// Does what the member of the consensus wants. A sync that is asked for covers all that was written.
    pub(crate) fn settle(&mut self, proposals: &Proposals, now: Now) -> Result<Option<SyncTicket>, LogError> {
        let mut sync = None;
        loop {
            let effects = self.member.effects()?;
            // What an arbiter passes over may be what something waits for.
            let has_more = effects.has_more || (self.is_arbiter() && effects.has_news());
            sync = effects.sync.or(sync);
            self.take(effects, proposals, now)?;
            if !has_more {
                break;
            }
        }
        self.publish_copied()?;
        Ok(sync)
    }

    fn take(&mut self, effects: Effects, proposals: &Proposals, now: Now) -> Result<(), LogError> {
        // First of all: nothing is acknowledged whose entry is committed after its term has ended.
        if let Some(leadership) = effects.leadership {
            let before = std::mem::replace(&mut self.leadership, leadership);
            self.note_leadership(before, self.leading.is_to_end());
            self.close_if_deposed(proposals);
        }
        match self.is_arbiter() {
            true => self.pass_over(&effects.committed, now)?,
            false => self.route(effects.committed),
        }
        self.send(effects.messages, now);
        self.keep_fresh(now);
        self.pass_on(now);
        for (id, index) in effects.readable {
            let known = self.reads.iter_mut().filter(|read| read.id <= id && read.needs.is_none());
            known.for_each(|read| read.needs = Some(index));
        }
        self.answer_reads();
        match effects.snapshot {
            Some(wanted) if self.is_arbiter() => self.take_place(wanted)?,
            Some(wanted) => self.fall_behind(&wanted),
            None => {}
        }
        if let Some(ticket) = effects.sync {
            let optime = self.optime_at(self.member.log().last())?;
            self.syncing.push_back((ticket, optime));
        }
        Ok(())
    }

    /// The others' logs do not go back to where this member is.
    fn fall_behind(&mut self, wanted: &SnapshotWanted) {
        let copying = &self.links.copying;
        // A new member has nothing to lose.
        let is_to_copy = self.state.is_none() || copying.replaces_data();
        if !std::mem::replace(&mut self.is_too_far_behind, true) {
            match is_to_copy {
                true => tracing::warn!(?wanted, "too far behind the others: the data are to be copied"),
                false => tracing::error!(
                    ?wanted,
                    "too far behind the others, and automaticInitialSync is off: this member stays RECOVERING"
                ),
            }
        }
        self.catches_up |= is_to_copy;
        if let Some(leader) = self.host(wanted.from).filter(|_| is_to_copy) {
            let (leader, number) = (leader.to_owned(), self.identity.number);
            copying.want(CopyWanted { leader, number, at: wanted.at.index });
        }
    }

    /// Hands on what is committed: what was proposed here in this term with its data, the rest to be
    /// computed.
    fn route(&mut self, committed: Vec<Committed>) {
        let last = committed.iter().rev().find_map(|Committed { entry, .. }| match entry.kind {
            LogEntryKind::Operation(timestamp) => Some(OpTime { timestamp, term: entry.position.term }),
            LogEntryKind::LeaderElected | LogEntryKind::Membership => None,
        });
        if let Some(optime) = last {
            self.links.shared.reach(|reached| reached.committed = optime);
        }
        let mut others = Vec::new();
        for committed in committed {
            if !self.leading.is_own(&committed) {
                others.push(committed);
                continue;
            }
            for group in self.leading.take_own(committed) {
                self.apply_entries(&mut others);
                self.links.queue.push(group);
            }
        }
        self.apply_entries(&mut others);
    }

    pub(super) fn apply_entries(&self, entries: &mut Vec<Committed>) {
        if !entries.is_empty() {
            self.links.queue.push(Work::Entries(std::mem::take(entries)));
        }
    }

    /// Up to where another member has said that it has applied the log.
    pub(super) fn heard_applied(&self, number: MemberId) -> Option<LogIndex> {
        self.heard.get(&number)?.applied
    }

    fn send(&mut self, messages: Vec<RaftMessage>, now: Now) {
        let mut by_receiver: BTreeMap<MemberId, Vec<RaftMessage>> = BTreeMap::new();
        for message in messages {
            let number = message.to();
            if let Some(vote) = message.vote() {
                self.note_vote(number, vote, now);
            }
            let is_withheld = message.appends()
                && self.heard.get(&number).is_some_and(|heard| heard.chain.follows_other_than(self.number()));
            if !is_withheld {
                by_receiver.entry(number).or_default().push(message);
            }
        }
        for (number, messages) in by_receiver {
            self.send_to(number, messages, false, now);
        }
    }

    fn send_to(&mut self, number: MemberId, messages: Vec<RaftMessage>, asks: bool, now: Now) {
        self.post(number, messages, asks, self.chain.word(), now);
    }

    /// Sends an envelope to the member with this number.
    pub(super) fn post(
        &mut self,
        number: MemberId,
        messages: Vec<RaftMessage>,
        asks: bool,
        chain: ChainWord,
        now: Now,
    ) {
        let confirmed = self.confirmed(now);
        let claimed = confirmed.map(|confirmed| (self.member.committed(), confirmed));
        let stamps = self.freshness.stamps(number, now.monotonic, self.leadership.term, claimed);
        let Some(host) = self.host(number) else { return };
        let own = self.own_place().and_then(|place| self.state.as_ref()?.config.members.get(place));
        let own = own.map(|own| &own.host).or(self.own_hosts.first());
        let envelope = Envelope {
            set_name: self.identity.set_name.clone(),
            set_id: self.identity.set_id,
            from: Address { number: self.identity.number, host: own.cloned().unwrap_or_default() },
            to: Address { number, host: host.to_owned() },
            needs_copy: self.identity.needs_copy,
            disk: self.state.as_ref().and_then(|state| state.disk(number)),
            electable: self.is_electable(now) && self.has_room(),
            applied: Some(self.applied),
            stamps: Stamps { asks, ..stamps },
            chain,
            arbiter: self.word_to_arbiter(number, &messages),
            messages,
        };
        for command in envelope.encode() {
            self.links.peers.send(host, command);
        }
    }

    /// Until when nobody else can have led, of a leader that takes operations.
    fn confirmed(&mut self, now: Now) -> Option<Duration> {
        let (own, term) = (self.identity.number, self.leadership.term);
        let leads = self.leading.is_open();
        leads.then(|| self.freshness.confirm(self.member.membership(), own, term, now.monotonic)).flatten()
    }

    /// Tells readers how old the data may be, and asks for what is newer where somebody waits for it.
    fn keep_fresh(&mut self, now: Now) {
        // What was claimed since is about what is applied already, where nothing is written.
        self.freshness.applied(self.applied);
        match self.confirmed(now) {
            Some(confirmed) => {
                for asker in self.freshness.answerable(confirmed) {
                    self.send_to(asker, Vec::new(), false, now);
                }
            }
            None if !self.leads() => self.freshness.forget_askers(),
            None => {}
        }
        if let Some(as_of) = self.freshness.as_of() {
            self.links.shared.publish_freshness(as_of);
        }
        let Some(wanted) = self.links.shared.fresh_wanted() else { return };
        if self.freshness.asks(wanted, now.monotonic) {
            match self.leadership.leader.filter(|_| !self.leads()) {
                Some(leader) => self.send_to(leader, Vec::new(), true, now),
                // What a majority answers counts from now on.
                None => self.member.ping(),
            }
        }
    }

    /// Where a member is: as the configuration says, else where it has said that it is.
    fn host(&self, number: MemberId) -> Option<&str> {
        let configured = self.state.as_ref().and_then(|state| state.host(number));
        configured.or_else(|| self.heard.get(&number).map(|heard| heard.host.as_str()))
    }

    fn answer_reads(&mut self) {
        let applied = self.applied;
        for read in self.reads.extract_if(.., |read| read.needs.is_some_and(|needs| needs <= applied)) {
            read.reply.answer(Ok(()));
        }
    }

    /// Those who have asked as of a primary that this member is not any more.
    pub(super) fn refuse_reads(&mut self, error: &SetError) {
        self.reads.drain(..).for_each(|read| read.reply.answer(Err(error.clone())));
    }

    pub(super) fn elected(&mut self) {
        self.answers.extend(self.standing.drain(..).map(|(_, reply)| reply));
    }

    /// Another state of the set is applied, here or elsewhere.
    pub(super) fn learn(&mut self, state: SetState) {
        if self.state.as_ref().is_some_and(|known| known.config.version > state.config.version) {
            return;
        }
        self.links.shared.state_note.store(Some(Arc::new(state.to_note())));
        self.config.election_timeout = state.config.settings.election_timeout;
        self.member.set_election_timeout(self.config.election_timeout);
        self.shown = Some(Arc::new(state.config.clone()));
        self.heard.retain(|number, _| state.place(*number).is_some());
        self.state = Some(state);
    }

    pub(super) fn own_place(&self) -> Option<usize> {
        self.state.as_ref()?.place(self.identity.number)
    }

    /// The `_id` of this member in the configuration.
    pub(super) fn own_id(&self) -> Option<i32> {
        self.state.as_ref()?.config.members.get(self.own_place()?).map(|own| own.id)
    }

    /// The optime of the last operation up to an index.
    pub(super) fn optime_at(&self, mut index: LogIndex) -> Result<OpTime, LogError> {
        let log = self.member.log();
        while index > log.compacted().index {
            if let Some(entry) = log.entries(index, index + 1, u64::MAX)?.first()
                && let LogEntryKind::Operation(timestamp) = entry.kind
            {
                return Ok(OpTime { timestamp, term: entry.position.term });
            }
            index -= 1;
        }
        Ok(OpTime::default())
    }

    /// Tells clients what this member is now, and answers who has asked for that.
    pub(crate) fn publish_and_answer(&mut self) {
        self.publish();
        if self.links.shared.is_writable() && !std::mem::replace(&mut self.reads_latest, true) {
            // Kept any longer it would keep every version since.
            self.links.catalog.store().withdraw_view();
        }
        self.answers.drain(..).for_each(|reply| reply.answer(Ok(())));
    }

    pub(super) fn publish(&self) {
        let own = self.own_place();
        let is_writable = self.leading.is_open();
        let state = match (&self.state, own) {
            (None, _) if self.is_too_far_behind => MemberState::Startup2,
            (None, _) => MemberState::Startup,
            (Some(_), None) => MemberState::Removed,
            _ if self.is_arbiter() => MemberState::Arbiter,
            _ if is_writable => MemberState::Primary,
            _ if self.is_too_far_behind || self.maintenance > 0 || self.applied < self.begun => {
                MemberState::Recovering
            }
            _ => MemberState::Secondary,
        };
        let leader = self.leadership.leader.filter(|leader| is_writable || *leader != self.identity.number);
        // Which leads for a moment to hand on what it alone has.
        let leader =
            leader.filter(|leader| !self.state.as_ref().is_some_and(|state| state.is_arbiter(*leader)));
        let primary = leader.and_then(|leader| self.state.as_ref()?.place(leader));
        let numbers = self.state.iter().flat_map(|state| {
            let members = state.config.members.iter();
            members.filter(|member| member.votes).map(|member| state.number(member.id))
        });
        self.links.shared.publish(Topology {
            counter: 0,
            config: self.shown.clone(),
            own,
            state,
            // Before there is a configuration only the driver itself writes.
            is_writable: is_writable && state == MemberState::Primary,
            maintenance: self.maintenance,
            primary,
            term: self.leadership.term,
            voters: numbers.filter(|number| self.member.counts(*number)).count(),
        });
    }
}
