//! What only a leader does: it takes the clients' groups, logs notes, brings the members of the configuration
//! in, and hands over.
//!
//! ```text
//!  elected ─▶ applies what was logged before ─▶ note "new primary" ─▶ open: groups are taken
//!  deposed ─▶ every group in flight and every unit that waits is refused ─▶ clients are told
//! ```
//! A group is acknowledged where its last entry is committed while this member leads in the term in which it
//! was proposed. Of a group that is refused nothing was applied; what is committed of it by a later leader
//! comes back through the log.

use crate::effects::Committed;
use crate::entry::{LogIndex, LogPosition, MemberId, Term};
use crate::log::{Log, LogError};
use crate::member::ProposeError;
use crate::oplog::{self, Operation, OplogEntry};
use crate::optime::OpTime;
use crate::set::apply_queue::Work;
use crate::set::driver::Now;
use crate::set::election_metrics::ElectionReason;
use crate::set::participant::Participant;
use crate::set::shared::Reply;
use crate::set::state::SetState;
use crate::set::{ReplSetConfig, SetError};
use crate::{Candidacy, Identity, LocalState};
use document::{DocumentBuf, ObjectId, Timestamp, doc};
use std::collections::VecDeque;
use std::time::Duration;
use storage::{CommitError, Proposals, ProposedGroup, WriteUnit};
use wire::ErrorCode;

/// So many entries behind, a new member is near enough to get its vote.
const CAUGHT_UP_ENTRIES: LogIndex = 1_000;
/// How much later than any other the version of a forced configuration is.
const FORCED_VERSIONS: u16 = 10_000;

/// A group whose entries are logged.
struct InFlight {
    first: LogPosition,
    last: OpTime,
    entries: usize,
    /// Of the entries.
    bytes: u64,
    group: ProposedGroup,
    /// Its first entries, as far as they are committed.
    committed: Vec<Committed>,
}

/// Who has logged a note and waits until it is applied.
struct Awaited {
    at: LogIndex,
    optime: OpTime,
    /// And until the consensus has not those any more that were removed by it, and that has settled: only
    /// then they may be switched off.
    until_left: bool,
    reply: Reply<OpTime>,
}

/// A primary that has been asked to step down.
pub(crate) struct Stepping {
    /// Until then it waits for another one that is electable.
    pub(crate) until: Duration,
    /// Until then it will not be primary again.
    pub(crate) frozen_until: Duration,
    /// Whether it steps down all the same when nobody is.
    pub(crate) force: bool,
    pub(crate) reply: Reply<()>,
}

/// What a leader keeps.
#[derive(Default)]
pub(crate) struct Leading {
    /// The term in which it takes operations.
    open_in: Option<Term>,
    /// The term in which it leads for others: see [`Participant::cares`].
    cares_in: Option<Term>,
    in_flight: VecDeque<InFlight>,
    /// Too much waits for a majority or to be applied, or the leadership is being handed over.
    held: Option<ProposedGroup>,
    awaited: Vec<Awaited>,
    /// The first state of the set, and who wants it.
    initial: Option<SetState>,
    initiators: Vec<Reply<OpTime>>,
    /// Where the state was logged that is to be applied next.
    next_state: Option<LogIndex>,
    /// Whether that gives numbers, of which nobody but this member knows.
    gives_numbers: bool,
    /// Configurations that wait for that.
    deferred: Vec<(ReplSetConfig, bool, Reply<OpTime>)>,
    stepping: Option<Stepping>,
    /// When it is to be looked whether another member should lead.
    hand_over_at: Duration,
    /// A member that stops waits until then for a successor.
    stop_at: Option<Duration>,
    /// When an operation was logged last.
    logged_at: Duration,
    /// What was last told of the others' logs.
    copied: Vec<(MemberId, LogIndex, OpTime)>,
}

impl Leading {
    /// Whether operations are taken.
    pub(crate) fn is_open(&self) -> bool {
        self.open_in.is_some()
    }

    /// Whether it was asked to step down, or to stop.
    pub(crate) fn is_to_end(&self) -> bool {
        self.stepping.is_some() || self.stop_at.is_some()
    }

    /// Whether notes wait to be applied.
    pub(crate) fn awaits_data(&self) -> bool {
        !self.awaited.is_empty() || self.next_state.is_some()
    }

    /// Whether the next entry that is committed is of a group that was proposed here.
    pub(crate) fn is_own(&self, committed: &Committed) -> bool {
        self.in_flight.front().is_some_and(|front| front.first.index <= committed.entry.position.index)
    }

    /// What a member has on its disk, as was told last.
    pub(crate) fn matched(&self, number: MemberId) -> LogIndex {
        self.copied.iter().find(|copied| copied.0 == number).map_or(0, |copied| copied.1)
    }

    /// What is complete with this entry of a group.
    pub(crate) fn take_own(&mut self, committed: Committed) -> Vec<Work> {
        let position = committed.entry.position;
        let front = self.in_flight.front_mut().expect("a group in flight");
        assert_eq!(position.term, front.first.term, "an entry of another leader in the place of a group");
        front.committed.push(committed);
        let mut complete = Vec::new();
        if front.committed.len() == front.entries
            && let Some(InFlight { last, group, bytes, .. }) = self.in_flight.pop_front()
        {
            complete.push(Work::Group { group, through: Some((position, last)), bytes });
            // Answers that rest on it, without entries of their own.
            while let Some(InFlight { group, .. }) = self.in_flight.pop_front_if(|next| next.entries == 0) {
                complete.push(Work::Group { group, through: None, bytes: 0 });
            }
        }
        complete
    }
}

impl Participant {
    /// What a leader has to do now.
    pub(crate) fn lead(&mut self, proposals: &Proposals, now: Now) {
        self.open_for_writes(proposals, now);
        if !self.leading.is_open() && !self.cares(now) {
            return;
        }
        if self.leading.is_open() {
            self.log_initial_state(now);
        }
        if !self.leading.gives_numbers {
            for (asked, force, reply) in std::mem::take(&mut self.leading.deferred) {
                self.reconfigure(asked, force, reply, now);
            }
        }
        self.give_numbers(now);
        if self.leading.is_open() {
            self.step_down(now);
            self.hand_over(now);
        }
        self.reconcile();
        self.answer_applied();
        if self.leading.is_open() {
            self.propose(proposals, now);
        }
        if self.member.is_to_settle() {
            // What is refused now is asked for again by a later turn.
            let _ = self.log_note(doc! { "msg": "the members have changed" }.to_buf(), now);
        }
        if self.leading.is_open() {
            self.note_idleness(now);
        }
    }

    /// Whether this member leads though it may not be primary. Who may has perhaps lost its disk: it gets a
    /// number, a copy and its vote from here, and then the lead. An arbiter has no data to copy.
    fn cares(&mut self, now: Now) -> bool {
        let has_all = self.leads() && self.member.is_writable() && !self.is_arbiter();
        let is_care = self.candidacy(now) == Candidacy::ForOthers && self.own_place().is_some();
        if !has_all || !is_care {
            return false;
        }
        let term = self.leadership.term;
        if self.leading.cares_in.replace(term) != Some(term) {
            tracing::info!(term, "this member leads until one is there that may be primary");
            self.forget_disks();
        }
        true
    }

    /// What was heard of others' disks before it led may be older than the state of the set.
    fn forget_disks(&self) {
        self.links.statuses.lock().values_mut().for_each(|status| status.disk = None);
    }

    /// Logs something where nobody has for a while: by the times of the last operations clients judge how far
    /// members are behind, and what has happened by a time is known when something later is in the data.
    fn note_idleness(&mut self, now: Now) {
        if now.monotonic >= self.leading.logged_at + self.noop_interval && self.leading.next_state.is_none() {
            // What is refused now is asked for again by a later turn.
            let _ = self.log_note(doc! { "msg": "periodic noop" }.to_buf(), now);
        }
    }

    /// Logs something after this time where nothing is: somebody waits for it, and there may be no other
    /// write.
    pub(crate) fn reach(&mut self, timestamp: Timestamp, now: Now) {
        let last = self.optime_at(self.member.log().last());
        if self.leading.is_open() && last.is_ok_and(|last| last.timestamp < timestamp) {
            self.member.observe(timestamp);
            // What is refused now is not waited for: whoever asked is told of the step-down.
            let _ = self.log_note(doc! { "msg": "a read waits for this time" }.to_buf(), now);
        }
    }

    /// Opens for operations once everything that was logged before is applied.
    fn open_for_writes(&mut self, proposals: &Proposals, now: Now) {
        let is_open = self.leading.is_open();
        if is_open || !self.leads() || !self.member.is_writable() {
            return;
        }
        if !self.is_electable(now) {
            if let Some(to) = self.successor().or_else(|| self.with_data()) {
                self.member.transfer(to);
            }
            return;
        }
        let term = self.leadership.term;
        let Ok((_, first)) = self.log_note(doc! { "msg": "new primary" }.to_buf(), now) else { return };
        self.note_first(first);
        tracing::info!(term, "this member is primary");
        self.leading.open_in = Some(term);
        self.leading.hand_over_at = now.monotonic + self.config.election_timeout;
        self.forget_disks();
        proposals.accept();
        self.elected();
    }

    /// Refuses whatever is not committed, where this member does not lead any more, or in another term.
    pub(crate) fn close_if_deposed(&mut self, proposals: &Proposals) {
        let term = self.leads().then_some(self.leadership.term);
        if self.leading.is_open() && self.leading.open_in != term {
            tracing::info!(leadership = ?self.leadership, "this member is not primary any more");
            self.close(proposals);
        }
        if self.leading.cares_in.is_some() && self.leading.cares_in != term {
            self.leading.cares_in = None;
            self.end_changes();
        }
    }

    pub(super) fn close(&mut self, proposals: &Proposals) {
        self.links.shared.forbid_writes();
        self.leading.open_in = None;
        // Who is refused looks at once for another primary, and must not find this member again.
        self.publish();
        // In the order in which they were proposed: who follows is never settled before whom he follows.
        let mut withheld = Vec::new();
        for InFlight { group, committed, .. } in self.leading.in_flight.drain(..) {
            withheld.extend(committed);
            group.refuse(CommitError::SteppedDown);
        }
        if let Some(group) = self.leading.held.take() {
            group.refuse(CommitError::SteppedDown);
        }
        proposals.refuse(CommitError::SteppedDown);
        self.flow.end();
        *self.links.shared.flow.lock() = self.flow.figures();
        self.apply_entries(&mut withheld);
        // What was read of the latest versions until now is read of published views from now on.
        self.links.publish_view();
        self.reads_latest = false;
        self.links.catalog.cancel_index_builds();
        self.refuse_reads(&interrupted());
        self.end_changes();
        self.leading.copied.clear();
        if let Some(Stepping { frozen_until, reply, .. }) = self.leading.stepping.take() {
            self.freeze_until(frozen_until);
            self.answers.push(reply);
        }
    }

    /// Refuses who waits for a change of the set's state.
    fn end_changes(&mut self) {
        self.leading.awaited.drain(..).for_each(|waiting| waiting.reply.answer(Err(interrupted())));
        self.leading.next_state = None;
        self.leading.gives_numbers = false;
        for (.., reply) in self.leading.deferred.drain(..) {
            reply.answer(Err(not_primary("not primary any more")));
        }
    }

    /// Takes what clients want to write, as long as it can be logged.
    fn propose(&mut self, proposals: &Proposals, now: Now) {
        while let Some(mut group) = self.leading.held.take().or_else(|| proposals.next_group()) {
            let entries = group.entry_count();
            if entries == 0 {
                self.follow(group);
                continue;
            }
            let bytes = group.entries_mut().map(|entry| entry.len()).sum::<usize>();
            if !self.member.takes(bytes) || !self.has_memory_for(bytes as u64) {
                self.leading.held = Some(group);
                return;
            }
            self.leading.logged_at = now.monotonic;
            self.links.history.add_bytes(bytes as u64);
            let (mut last, mut names_change) = (OpTime::default(), false);
            let mut waiting = group.entries_mut();
            let first = self.member.propose(now.wall, entries, |optime| {
                last = optime;
                let mut entry = waiting.next().map(std::mem::take).expect("as many entries as were counted");
                names_change |= oplog::changes_names(&entry);
                oplog::place(&mut entry, optime);
                entry
            });
            drop(waiting);
            let first = first.expect("a leader that was asked before takes the group");
            assert_eq!(
                Some(first.term),
                self.leading.open_in,
                "a group is proposed in the term of its leader"
            );
            let last_index = first.index + entries as LogIndex - 1;
            self.flow.logged(now, (first.index, last_index), group.cost(), group.unit_count());
            if names_change {
                self.links.history.names_change(last_index);
            }
            let (bytes, committed) = (bytes as u64, Vec::new());
            self.leading.in_flight.push_back(InFlight { first, last, entries, bytes, group, committed });
        }
    }

    /// Answers that rest on groups in flight, and change nothing.
    fn follow(&mut self, group: ProposedGroup) {
        match self.leading.in_flight.back() {
            None => self.links.queue.push(Work::Group { group, through: None, bytes: 0 }),
            Some(&InFlight { first, last, .. }) => {
                let follower = InFlight { first, last, entries: 0, bytes: 0, group, committed: Vec::new() };
                self.leading.in_flight.push_back(follower);
            }
        }
    }

    /// Logs what changes no data.
    fn log_note(&mut self, note: DocumentBuf, now: Now) -> Result<(LogPosition, OpTime), ProposeError> {
        let wall = i64::try_from(now.wall.as_millis()).expect("a time of this age");
        let operation = Operation::Noop(note);
        self.leading.logged_at = now.monotonic;
        let mut placed = OpTime::default();
        let position = self.member.propose(now.wall, 1, |optime| {
            placed = optime;
            let operation = operation.clone();
            OplogEntry { optime, wall, operation, origin: None }.encode().into_bytes()
        })?;
        Ok((position, placed))
    }

    /// Logs a note; the answer comes when it is applied.
    pub(crate) fn note(&mut self, note: DocumentBuf, reply: Reply<OpTime>, now: Now) {
        if !self.leading.is_open() {
            return reply.answer(Err(not_primary("not primary")));
        }
        match self.log_note(note, now) {
            Ok((position, optime)) => {
                self.leading.awaited.push(Awaited { at: position.index, optime, until_left: false, reply });
            }
            Err(error) => reply.answer(Err(not_primary(&error.to_string()))),
        }
    }

    /// Everything up to where this member has come by now is applied.
    pub(crate) fn answer_applied(&mut self) {
        if self.leading.awaited.is_empty() && self.leading.next_state.is_none() {
            return;
        }
        let applied = self.applied;
        let members = self.member.membership().members();
        let is_left = |one: MemberId| members.contains(&one);
        let have_left =
            || self.member.has_settled() && !self.state.iter().flat_map(SetState::leaving).any(is_left);
        let is_done = |waiting: &mut Awaited| waiting.at <= applied && (!waiting.until_left || have_left());
        for Awaited { optime, reply, .. } in self.leading.awaited.extract_if(.., is_done) {
            reply.answer(Ok(optime));
        }
        self.leading.next_state = self.leading.next_state.filter(|at| *at > applied);
        self.leading.gives_numbers &= self.leading.next_state.is_some();
    }

    /// Whether this member has begun a set that it has no state of.
    pub(crate) fn awaits_initiation(&self) -> bool {
        self.state.is_none() && self.leading.initial.is_none() && self.leading.next_state.is_none()
    }

    /// Logs this state as soon as this member leads.
    pub(crate) fn initiate(&mut self, state: SetState, reply: Reply<OpTime>) {
        self.leading.initial = Some(state);
        self.leading.initiators.push(reply);
    }

    fn log_initial_state(&mut self, now: Now) {
        let Some(mut state) = self.leading.initial.take() else { return };
        let logged = self.log_note(doc! { "msg": "initiating set" }.to_buf(), now);
        state.config.term = self.leading.open_in.map(|term| term as i64);
        match logged.and_then(|_| self.log_note(state.to_note(), now)) {
            Ok((position, optime)) => {
                self.leading.next_state = Some(position.index);
                let initiators = self.leading.initiators.drain(..);
                let (at, until_left) = (position.index, false);
                self.leading.awaited.extend(initiators.map(|reply| Awaited {
                    at,
                    optime,
                    until_left,
                    reply,
                }));
            }
            Err(_) => self.leading.initial = Some(state),
        }
    }

    /// Gives a number to each disk that members have told of: to the first one of a new member, and to
    /// another one in the place of one that is gone.
    fn give_numbers(&mut self, now: Now) {
        let Some(state) = self.state.as_ref().filter(|_| self.leading.next_state.is_none()) else { return };
        let mut next: Option<SetState> = None;
        for status in self.links.statuses.lock().values() {
            let Some((disk, set_id)) = status.disk else { continue };
            let is_foreign = set_id.is_some_and(|set_id| set_id != self.identity.set_id);
            let known = next.as_ref().unwrap_or(state);
            if let Some(given) = known.with_disk(status.id, disk).filter(|_| !is_foreign) {
                let number = given.number(status.id);
                tracing::info!(member = status.host, number, %disk,
                    "a member has a disk that is new to the set");
                next = Some(given);
            }
        }
        if let Some(Ok((position, _))) = next.map(|state| self.log_note(state.to_note(), now)) {
            self.leading.next_state = Some(position.index);
            self.leading.gives_numbers = true;
        }
    }

    /// Logs another configuration.
    pub(crate) fn reconfigure(&mut self, asked: ReplSetConfig, force: bool, reply: Reply<OpTime>, now: Now) {
        if self.leading.gives_numbers {
            return self.leading.deferred.push((asked, force, reply));
        }
        if force && !self.leads() && !self.member.leads_now() && self.leadership.leader.is_none() {
            if let Err(error) = self.force(asked) {
                return reply.answer(Err(error));
            }
            self.note_candidature(ElectionReason::ElectionTimeout, now);
            return self.leading.initiators.push(reply);
        }
        match self.next_state(asked, force).and_then(|state| {
            self.log_note(state.to_note(), now).map_err(|error| not_primary(&error.to_string()))
        }) {
            Ok((position, optime)) => {
                self.leading.next_state = Some(position.index);
                self.leading.awaited.push(Awaited { at: position.index, optime, until_left: true, reply });
            }
            Err(error) => reply.answer(Err(error)),
        }
    }

    /// Begins the set anew with what this member has, where nobody leads and nobody will.
    fn force(&mut self, asked: ReplSetConfig) -> Result<(), SetError> {
        let state = self.state.as_ref().ok_or_else(|| not_primary("this member has no configuration"))?;
        let own = self.own_id().ok_or_else(|| not_primary("this member is not in the configuration"))?;
        let term = self.leadership.term as i64;
        let config = state.config.successor(asked, own, term, Some(FORCED_VERSIONS))?;
        if !config.member(own).is_some_and(|member| member.votes && member.is_electable()) {
            let message = "the member on which a configuration is forced has to be electable in it";
            return Err(SetError::new(ErrorCode::NodeNotElectable, message));
        }
        let state = state.forced(config, own);
        let forced_through = self.member.last();
        // Others of the same log are of another set from here on: what they have committed may be something
        // else.
        let identity =
            Identity { set_id: ObjectId::new(), needs_copy: true, forced_through, ..self.identity.clone() };
        let mut unit = WriteUnit::new();
        LocalState::put_identity(&mut unit, &identity);
        LocalState::put_set_state(&mut unit, state.to_note().as_raw());
        self.links.catalog.store().write_now(unit).map_err(|error| {
            SetError::new(
                ErrorCode::OperationFailed,
                format!("the beginning of the set is not written: {error}"),
            )
        })?;
        self.member.force();
        tracing::warn!(
            forced_through,
            "the set is forced to go on without its majority: what only other members have is lost, and \
             they come back with empty directories only"
        );
        *self.links.shared.set_id.lock() = Some(identity.set_id);
        self.identity = identity;
        self.log_again(state.clone());
        self.learn(state);
        self.member.stand();
        Ok(())
    }

    /// Has a state logged after all that is there, as soon as this member leads.
    pub(super) fn log_again(&mut self, state: SetState) {
        self.leading.initial = Some(state);
    }

    fn next_state(&self, asked: ReplSetConfig, force: bool) -> Result<SetState, SetError> {
        // Who may not be primary leads until it may, or another one that is told so.
        let term = self.leading.open_in.or(self.leading.cares_in.filter(|_| force));
        let (Some(term), Some(state)) = (term, &self.state) else {
            return Err(not_primary("Safe reconfig is only allowed on a writable PRIMARY"));
        };
        if self.leading.next_state.is_some() || self.member.membership().is_changing() {
            return Err(SetError::new(
                ErrorCode::ConfigurationInProgress,
                "Cannot run replSetReconfig because the node is currently updating its configuration",
            ));
        }
        let force = force.then_some(FORCED_VERSIONS);
        let own = self.own_id().ok_or_else(|| not_primary("this member is not in the configuration"))?;
        let config = state.config.successor(asked, own, term as i64, force)?;
        Ok(state.with_config(config, &self.member.membership().members()))
    }

    /// Makes the members of the consensus those of the configuration. Who is new follows the log at first,
    /// and votes when it has caught up.
    fn reconcile(&mut self) {
        let Some(state) = &self.state else { return };
        let membership = self.member.membership();
        // A state that is on its way may know nothing of the members of this one.
        if membership.is_changing() || self.leading.next_state.is_some() {
            return;
        }
        let progress = self.member.progress();
        let has_caught_up = |number: MemberId| {
            let known = progress.iter().find(|progress| progress.member == number);
            known.is_some_and(|known| {
                let has_joined = known.matched > crate::Checkpoint::initial(&[]).position.index;
                has_joined && known.is_active && known.matched + CAUGHT_UP_ENTRIES >= self.applied
            })
        };
        // What is before an arbiter's log has to be with every voter that has data.
        let (common, committed) = (self.common_to_data(false).unwrap_or(0), self.member.committed());
        let has_arbiter = state.config.members.iter().any(|member| member.arbiter_only);
        let is_covered = |number: MemberId| {
            let known = progress.iter().find(|progress| progress.member == number);
            let matched = known.map_or(0, |known| known.matched);
            match state.is_arbiter(number) {
                true => matched <= common,
                false => !has_arbiter || matched >= committed,
            }
        };
        let numbers = state.config.members.iter().map(|member| (member.votes, state.number(member.id)));
        let (mut voters, mut learners): (Vec<MemberId>, Vec<MemberId>) = (Vec::new(), Vec::new());
        for (votes, number) in numbers {
            let (is_voter, is_learner) =
                (membership.voters.contains(&number), membership.learners.contains(&number));
            match is_voter || (is_learner && has_caught_up(number) && is_covered(number)) {
                true if votes => voters.push(number),
                // Nobody can take a number of which it is not known to whom it belongs.
                _ if is_voter || is_learner || state.disk(number).is_some() => learners.push(number),
                _ => {}
            }
        }
        voters.sort_unstable();
        learners.sort_unstable();
        if voters == membership.voters && learners == membership.learners {
            return;
        }
        if voters.contains(&self.number()) {
            // What is refused now is asked for again by a later turn.
            let _ = self.member.change_members(&voters, &learners, Vec::new());
        } else if let Some(to) = self.successor() {
            self.member.transfer(to);
        }
    }

    /// How much a member should lead.
    fn priority(&self, number: MemberId) -> u32 {
        let place = self.state.as_ref().and_then(|state| state.place(number));
        let member = place.and_then(|place| self.state.as_ref()?.config.members.get(place));
        // Somebody else should lead who can take writes that grow.
        let wants = if number == self.number() { self.has_room() } else { self.wants_to_lead(number) };
        // Priorities have decimals, and end at 1000.
        member.filter(|_| wants).map_or(0, |member| (member.priority * 1_000.0).ceil() as u32)
    }

    /// Who is to lead when this member ends to.
    fn successor(&self) -> Option<MemberId> {
        let own = self.number();
        self.member.successor(|number| if number == own { 0 } else { self.priority(number) })
    }

    /// Who is to lead for others in the place of an arbiter.
    fn with_data(&self) -> Option<MemberId> {
        let state = self.state.as_ref().filter(|_| self.is_arbiter())?;
        self.member.successor(|number| u32::from(!state.is_arbiter(number)))
    }

    /// To a member that should rather lead.
    fn hand_over(&mut self, now: Now) {
        if now.monotonic < self.leading.hand_over_at || self.state.is_none() {
            return;
        }
        self.leading.hand_over_at = now.monotonic + self.config.election_timeout;
        if let Some(to) = self.member.successor(|number| self.priority(number)) {
            tracing::info!(to, "handing over to a member of higher priority");
            self.member.transfer(to);
        }
    }

    pub(crate) fn begin_step_down(&mut self, stepping: Stepping) {
        if !self.leading.is_open() {
            return stepping.reply.answer(Err(not_primary("not primary so can't step down")));
        }
        if self.leading.stepping.is_some() {
            let message = "another step down is under way";
            return stepping
                .reply
                .answer(Err(SetError::new(ErrorCode::ConflictingOperationInProgress, message)));
        }
        self.leading.stepping = Some(stepping);
    }

    fn step_down(&mut self, now: Now) {
        let Some(stepping) = &self.leading.stepping else { return };
        // It may fail again and again, but each try is over after an election timeout.
        let last_try = stepping.until + self.config.election_timeout;
        if let Some(to) = self.successor().filter(|_| now.monotonic < last_try) {
            return self.member.transfer(to);
        }
        if now.monotonic < stepping.until {
            return;
        }
        if stepping.force {
            return self.member.resign();
        }
        if let Some(Stepping { reply, .. }) = self.leading.stepping.take() {
            reply.answer(Err(SetError::new(
                ErrorCode::ExceededTimeLimit,
                "No electable secondaries caught up. Please use the replSetStepDown command with the \
                 argument {force: true} to force node to step down.",
            )));
        }
    }

    /// Hands over, where somebody is there to take it, before this member ends; whether it may.
    pub(crate) fn may_stop(&mut self, proposals: &Proposals, now: Now) -> bool {
        let latest = now.monotonic + self.config.election_timeout * 2;
        let until = *self.leading.stop_at.get_or_insert(latest);
        if !self.leads() || now.monotonic >= until {
            self.close(proposals);
            return true;
        }
        match self.successor() {
            Some(to) => self.member.transfer(to),
            None => self.close(proposals),
        }
        !self.leading.is_open()
    }

    /// Tells those who wait for copies what the others have on their disks.
    pub(crate) fn publish_copied(&mut self) -> Result<(), LogError> {
        let Some(state) = self.state.as_ref().filter(|_| self.leading.is_open()) else { return Ok(()) };
        let mut copied = Vec::new();
        for progress in self.member.progress() {
            let same = |known: &&(MemberId, LogIndex, OpTime)| {
                (known.0, known.1) == (progress.member, progress.matched)
            };
            match self.leading.copied.iter().find(same) {
                Some(known) => copied.push(*known),
                None => copied.push((progress.member, progress.matched, self.optime_at(progress.matched)?)),
            }
        }
        if copied != self.leading.copied || state.config.members.iter().any(|member| !member.delay.is_zero())
        {
            let by_id = copied.iter().filter_map(|(number, _, optime)| {
                let member = state.config.members.get(state.place(*number)?)?;
                // Who stays behind by intention counts when it has come so far, as it says in its heartbeats.
                let applied = || self.links.statuses.lock().get(&member.id).map(|status| status.optime);
                let counts = if member.delay.is_zero() { Some(*optime) } else { applied() };
                Some((member.id, counts.unwrap_or_default()))
            });
            self.links.shared.publish_copied(by_id.collect());
            self.leading.copied = copied;
        }
        Ok(())
    }
}

fn interrupted() -> SetError {
    SetError::new(ErrorCode::InterruptedDueToReplStateChange, "operation was interrupted")
}

fn not_primary(message: &str) -> SetError {
    SetError::new(ErrorCode::NotWritablePrimary, message)
}
