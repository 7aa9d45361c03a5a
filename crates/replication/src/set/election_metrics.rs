//! Figures of elections and of whom a member follows, for those who watch it.

use crate::effects::{Leadership, RaftRole};
use crate::entry::{LogEntryKind, LogIndex, MemberId, Term};
use crate::log::Log;
use crate::message::Vote;
use crate::oplog::OplogEntry;
use crate::optime::OpTime;
use crate::set::driver::Now;
use crate::set::participant::Participant;
use document::Timestamp;
use std::time::Duration;

/// Why a member asks to be elected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElectionReason {
    /// Somebody has asked it to.
    StepUpRequest,
    /// The primary has, because it steps down.
    HandOver,
    /// The primary has, because this member's priority is higher.
    PriorityTakeover,
    /// It has heard of no primary.
    ElectionTimeout,
    /// It is alone, and was kept from it until now.
    FreezeTimeout,
}

impl ElectionReason {
    /// `lastElectionReason`.
    pub fn name(self) -> &'static str {
        match self {
            ElectionReason::StepUpRequest => "stepUpRequest",
            ElectionReason::HandOver => "stepUpRequestSkipDryRun",
            ElectionReason::PriorityTakeover => "priorityTakeover",
            ElectionReason::ElectionTimeout => "electionTimeout",
            ElectionReason::FreezeTimeout => "singleNodePromptElection",
        }
    }
}

/// How often a member has asked to be elected for a reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ElectionCount {
    /// Elections that were begun.
    pub called: u64,
    /// Those that were won.
    pub successful: u64,
}

/// The last election that a member has asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidature {
    /// Why.
    pub reason: ElectionReason,
    /// When, since 1970.
    pub at: Duration,
    /// In which term.
    pub term: Term,
    /// What was on the disks of a majority then, as far as it knew.
    pub committed: OpTime,
    /// The last operation of its log.
    pub seen: OpTime,
    /// Of so many members.
    pub votes_needed: usize,
    /// Its own.
    pub priority: f64,
    /// `settings.electionTimeoutMillis`.
    pub election_timeout: Duration,
    /// The `_id` of the primary before.
    pub prior_primary: Option<i32>,
    /// The first operation of its term, once it takes operations.
    pub first: Option<OpTime>,
}

/// The last election in which a member has answered another one.
#[derive(Debug, Clone, PartialEq)]
pub struct VoteGiven {
    /// Whether for that one.
    pub is_granted: bool,
    /// In which term.
    pub term: Term,
    /// When, since 1970.
    pub at: Duration,
    /// The `_id` of that one, where it is in the configuration.
    pub candidate: Option<i32>,
    /// Why not; empty where it was granted.
    pub reason: &'static str,
    /// What was in its data.
    pub applied: OpTime,
    /// The latest that it knew to be in anybody's.
    pub applied_max: OpTime,
    /// Its own.
    pub priority: f64,
}

/// When the last term's first operation came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewTerm {
    /// Which one.
    pub term: Term,
    /// When its primary has logged that, in milliseconds since 1970.
    pub began: i64,
    /// When it was in this member's data, since 1970; of the primary, then a majority had it.
    pub applied: Duration,
}

/// Elections since this process began.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ElectionFigures {
    /// `replSetStepUp`, also by a primary that steps down.
    pub step_up_command: ElectionCount,
    /// Of the member with the higher priority.
    pub priority_takeover: ElectionCount,
    /// Nobody was heard of.
    pub election_timeout: ElectionCount,
    /// Of a member that is alone.
    pub freeze_timeout: ElectionCount,
    /// How often it led and heard of a later term, without having been asked to step down.
    pub step_downs_by_higher_term: u64,
    /// While it is a candidate or leads.
    pub candidature: Option<Candidature>,
    /// While it does not lead.
    pub vote: Option<VoteGiven>,
    /// As of the last operation of a later term.
    pub new_term: Option<NewTerm>,
    prior_leader: Option<MemberId>,
}

impl ElectionFigures {
    fn count(&mut self, reason: ElectionReason) -> &mut ElectionCount {
        match reason {
            ElectionReason::StepUpRequest | ElectionReason::HandOver => &mut self.step_up_command,
            ElectionReason::PriorityTakeover => &mut self.priority_takeover,
            ElectionReason::ElectionTimeout => &mut self.election_timeout,
            ElectionReason::FreezeTimeout => &mut self.freeze_timeout,
        }
    }

    /// How many elections were won: of all of them the winner had everything that was committed.
    pub fn won(&self) -> u64 {
        let counts =
            [self.step_up_command, self.priority_takeover, self.election_timeout, self.freeze_timeout];
        counts.iter().map(|count| count.successful).sum()
    }

    /// `electionTime` of a primary.
    pub fn election_time(&self) -> Option<Timestamp> {
        Some(self.candidature.as_ref()?.first?.timestamp)
    }
}

/// Whose log was followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SyncSourceFigures {
    /// How often somebody was looked for.
    pub selections: u64,
    /// Another one than before.
    pub chose_different: u64,
    /// The same again.
    pub chose_same: u64,
    /// Nobody.
    pub could_not_find: u64,
    /// A secondary, for it is much nearer than the primary.
    pub chose_closer: u64,
    current: Option<i32>,
    last: Option<i32>,
}

impl SyncSourceFigures {
    /// The log of the member with this `_id` is followed; a primary follows nobody's.
    pub(crate) fn note(&mut self, source: Option<i32>, is_primary: bool) {
        if self.current == source {
            return;
        }
        self.current = source;
        let counter = match source {
            None if is_primary => return,
            None => &mut self.could_not_find,
            source if source == self.last => &mut self.chose_same,
            _ => &mut self.chose_different,
        };
        *counter += 1;
        self.selections += 1;
        self.last = source.or(self.last);
    }
}

impl Participant {
    /// This member asks to be elected.
    pub(super) fn note_candidature(&self, reason: ElectionReason, now: Now) {
        let reached = self.links.shared.reached();
        let mut figures = self.links.shared.elections.lock();
        figures.count(reason).called += 1;
        figures.candidature = Some(Candidature {
            reason,
            at: now.wall,
            term: self.leadership.term + 1,
            committed: reached.committed,
            seen: self.optime_at(self.member.log().last()).unwrap_or(reached.applied),
            votes_needed: self.member.membership().voters.len() / 2 + 1,
            priority: self.own_priority(),
            election_timeout: self.config.election_timeout,
            prior_primary: figures.prior_leader.and_then(|number| self.id_of(number)),
            first: None,
        });
    }

    /// Elections that were begun because a time-out has passed.
    pub(super) fn note_timeouts(&mut self, now: Now) {
        for _ in 0..self.member.take_timeouts() {
            let is_alone = self.member.membership().voters == [self.number()];
            let reason = match is_alone && !std::mem::take(&mut self.frozen_until).is_zero() {
                true => ElectionReason::FreezeTimeout,
                false => ElectionReason::ElectionTimeout,
            };
            self.note_candidature(reason, now);
        }
    }

    /// The leader has handed over to this member.
    pub(super) fn note_hand_over(&self, from: MemberId, now: Now) {
        let priority = |number: MemberId| {
            let state = self.state.as_ref()?;
            state.config.members.get(state.place(number)?).map(|member| member.priority)
        };
        let is_higher = priority(from).is_some_and(|priority| priority < self.own_priority());
        let reason = if is_higher { ElectionReason::PriorityTakeover } else { ElectionReason::HandOver };
        self.note_candidature(reason, now);
    }

    /// The `_id` of the member with this number.
    fn id_of(&self, number: MemberId) -> Option<i32> {
        let state = self.state.as_ref()?;
        state.config.members.get(state.place(number)?).map(|member| member.id)
    }

    fn own_priority(&self) -> f64 {
        let own = self.own_place().and_then(|place| self.state.as_ref()?.config.members.get(place));
        own.map_or(0.0, |own| own.priority)
    }

    /// Somebody leads, or nobody does; `is_asked`: this member was to step down.
    pub(super) fn note_leadership(&mut self, before: Leadership, is_asked: bool) {
        let now = self.leadership;
        let mut figures = self.links.shared.elections.lock();
        if before.role == RaftRole::Leader && now.term > before.term && !is_asked {
            figures.step_downs_by_higher_term += 1;
        }
        match (before.role, now.role) {
            (RaftRole::Leader, RaftRole::Leader) if before.term == now.term => {}
            (_, RaftRole::Leader) => {
                if let Some(reason) = figures.candidature.as_ref().map(|last| last.reason) {
                    figures.count(reason).successful += 1;
                }
                if let Some(last) = &mut figures.candidature {
                    last.term = now.term;
                }
                figures.vote = None;
                self.awaited_term = Some(now.term);
            }
            (RaftRole::Leader, _) => figures.candidature = None,
            (_, RaftRole::Follower) if now.leader.is_some() => figures.candidature = None,
            _ => {}
        }
        figures.prior_leader = now.leader.or(figures.prior_leader);
    }

    /// This member takes operations from here on.
    pub(super) fn note_first(&self, first: OpTime) {
        if let Some(last) = &mut self.links.shared.elections.lock().candidature {
            last.first = Some(first);
        }
    }

    /// This member answers a candidate.
    pub(super) fn note_vote(&mut self, candidate: MemberId, vote: Vote, now: Now) {
        let applied = self.links.shared.reached().applied;
        let others = self.links.statuses.lock().values().map(|status| status.optime).max();
        let voted_for = self.member.log().hard_state().vote;
        let mut figures = self.links.shared.elections.lock();
        figures.vote = Some(VoteGiven {
            is_granted: vote.is_granted,
            term: vote.term,
            at: now.wall,
            candidate: self.id_of(candidate),
            reason: match vote.is_granted {
                true => "",
                false if voted_for != 0 && voted_for != candidate => {
                    "already voted for another candidate in this term"
                }
                false => "the candidate's log is behind this member's",
            },
            applied,
            applied_max: others.unwrap_or_default().max(applied),
            priority: self.own_priority(),
        });
        self.awaited_term = Some(vote.term);
    }

    /// The log is applied from behind `before` up to `through`.
    pub(super) fn note_applied(&mut self, before: LogIndex, through: LogIndex) {
        let Some(awaited) = self.awaited_term else { return };
        let log = self.member.log();
        let term_of = |index: LogIndex| log.term(index).unwrap_or_default();
        let term = term_of(through);
        if term < awaited {
            return;
        }
        let mut first = through;
        while first - 1 > before && term_of(first - 1) == term {
            first -= 1;
        }
        let began = (first..=through).find_map(|index| {
            let entries = log.entries(index, index + 1, u64::MAX).ok()?;
            let operation =
                entries.first().filter(|entry| matches!(entry.kind, LogEntryKind::Operation(_)))?;
            OplogEntry::decode(&operation.data).ok().map(|operation| operation.wall)
        });
        if let Some(began) = began {
            let new_term = NewTerm { term, began, applied: ambient::since_epoch() };
            self.links.shared.elections.lock().new_term = Some(new_term);
            self.awaited_term = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_counted_when_it_is_looked_for() {
        let mut figures = SyncSourceFigures::default();
        for (source, is_primary) in [
            (Some(1), false),
            (Some(1), false),
            (None, false),
            (Some(1), false),
            (Some(2), false),
            (None, true),
        ] {
            figures.note(source, is_primary);
        }
        let SyncSourceFigures { selections, chose_different, chose_same, could_not_find, .. } = figures;
        assert_eq!((selections, chose_different, chose_same, could_not_find), (4, 2, 1, 1));
    }
}
