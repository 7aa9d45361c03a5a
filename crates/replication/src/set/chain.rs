//! Chained members: one without a vote may get the log from a secondary, so that the primary sends it less.
//!
//! ```text
//!  leader ── heartbeats ──▶ follower ── "entries after …" ──▶ source (a voter)
//!    ▲                        │  ▲                               │
//!    └────── "have …" ────────┘  └──── what is committed ────────┘
//! ```
//! Only what is committed is passed on, which is in the log of every leader from then on: the follower takes
//! it as its leader's, and says to the leader that it has it. The leader withholds entries from who says that
//! it follows another member. A source that is silent is given up: then the leader sends again from where the
//! follower is.

use crate::entry::{LogPosition, MemberId};
use crate::log::LogError;
use crate::message::RaftMessage;
use crate::set::MemberState;
use crate::set::config::MEMBERS_MAX;
use crate::set::driver::Now;
use crate::set::participant::Participant;
use crate::set::state::SetState;
use document::{DocumentBuilder, RawDocument, RawValue};
use std::collections::BTreeMap;
use std::time::Duration;

/// Bytes of entries that are passed on at once, unless one alone has more.
const BYTES_MAX: u64 = 4 << 20;
/// How often a follower asks that has got nothing.
const ASKS_EVERY: Duration = Duration::from_secs(1);
/// How often a source that has nothing new says that it is there.
const TELLS_EVERY: Duration = Duration::from_millis(500);
/// A source that has been silent for so long is given up, …
const PATIENCE: Duration = Duration::from_secs(3);
/// … and the leader is followed for so long at least.
const AFTER_FAILURE: Duration = Duration::from_secs(30);
/// A follower that has not asked again for so long does not follow any more.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(5);
/// A secondary so many seconds behind the primary is not followed (`maxSyncSourceLagSecs`).
const LAG_SECONDS_MAX: u32 = 30;
/// From a primary that is nearer than this nobody chooses another member by himself.
const NEAR: Duration = Duration::from_millis(5);

/// What an envelope says of a chain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ChainWord {
    /// Whom the sender follows instead of the leader.
    follows: Option<MemberId>,
    /// The sender asks for what is committed after this place.
    after: Option<LogPosition>,
    /// The messages are what was asked for.
    is_passed_on: bool,
}

impl ChainWord {
    pub(crate) fn write(self, envelope: &mut DocumentBuilder<'_>) {
        if self == ChainWord::default() {
            return;
        }
        let mut word = envelope.start_document("chain");
        if let Some(source) = self.follows {
            word.append("follows", source as i64);
        }
        if let Some(LogPosition { term, index }) = self.after {
            word.append("term", term as i64).append("index", index as i64);
        }
        word.append("passedOn", self.is_passed_on);
    }

    pub(crate) fn read(envelope: RawDocument<'_>) -> Self {
        let Some(word) = envelope.get("chain").and_then(RawValue::as_document) else {
            return ChainWord::default();
        };
        let number = |name: &str| {
            let number = word.get(name).and_then(RawValue::as_i64_exact);
            number.and_then(|number| u64::try_from(number).ok())
        };
        ChainWord {
            follows: number("follows"),
            after: number("term").zip(number("index")).map(|(term, index)| LogPosition { term, index }),
            is_passed_on: word.get("passedOn").and_then(RawValue::as_bool).unwrap_or(false),
        }
    }

    pub(crate) fn is_passed_on(self) -> bool {
        self.is_passed_on
    }

    /// Whether the sender wants no entries of the leader with this number.
    pub(crate) fn follows_other_than(self, leader: MemberId) -> bool {
        self.follows.is_some_and(|source| source != leader)
    }
}

/// Whom this member follows, and who follows it.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// The `_id` of whom an operator has chosen.
    chosen: Option<i32>,
    following: Option<Following>,
    /// Until then nobody is followed by choice of this member.
    rests_until: Duration,
    followers: BTreeMap<MemberId, Follower>,
}

#[derive(Debug)]
struct Following {
    source: MemberId,
    after: LogPosition,
    /// `None`: it is to be asked at once.
    asked_at: Option<Duration>,
    heard_at: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Follower {
    after: LogPosition,
    asked_at: Duration,
    told_at: Duration,
}

impl Chain {
    /// An operator's choice; that of the primary ends following.
    pub(super) fn choose(&mut self, id: i32) {
        self.chosen = Some(id);
        self.rests_until = Duration::ZERO;
    }

    /// What every envelope says.
    pub(super) fn word(&self) -> ChainWord {
        ChainWord {
            follows: self.following.as_ref().map(|following| following.source),
            ..ChainWord::default()
        }
    }
}

impl Participant {
    /// Chooses whom to follow, and asks for what is committed there.
    pub(super) fn follow_source(&mut self, now: Now) {
        let source = self.source(now);
        if source != self.chain.following.as_ref().map(|following| following.source) {
            let leader = self.leadership.leader;
            tracing::info!(?source, ?leader, "another member's log is followed from now on");
            let after = self.member.committed_position();
            let new = |source| Following { source, after, asked_at: None, heard_at: now.monotonic };
            self.chain.following = source.map(new);
            if source.is_some() && self.chain.chosen.is_none() {
                self.links.shared.sources.lock().chose_closer += 1;
            }
            self.publish_source();
        }
        let Some(following) = &mut self.chain.following else { return };
        let committed = self.member.committed_position();
        if now.monotonic.saturating_sub(following.heard_at) > PATIENCE {
            tracing::warn!(source = following.source, "it passes nothing on: the leader is followed instead");
            self.chain = Chain { rests_until: now.monotonic + AFTER_FAILURE, ..Chain::default() };
            return self.publish_source();
        }
        let is_due = |at: Duration| now.monotonic.saturating_sub(at) >= ASKS_EVERY;
        if !following.asked_at.is_none_or(is_due) {
            return;
        }
        if committed.index > following.after.index {
            following.after = committed;
        }
        following.asked_at = Some(now.monotonic);
        let (source, after) = (following.source, Some(following.after));
        let word = ChainWord { after, ..self.chain.word() };
        self.post(source, Vec::new(), false, word, now);
    }

    fn publish_source(&self) {
        let source = self.chain.following.as_ref().and_then(|following| {
            let state = self.state.as_ref()?;
            state.config.members.get(state.place(following.source)?).map(|member| member.id)
        });
        self.links.shared.set_source(source);
    }

    /// Whom this member should follow; `None` for the leader.
    fn source(&self, now: Now) -> Option<MemberId> {
        let state = self.state.as_ref()?;
        let own = state.config.members.get(self.own_place()?)?;
        let votes = own.votes || self.member.membership().is_voter(self.number());
        let leader = self.leadership.leader.filter(|_| !votes && !self.is_too_far_behind())?;
        let id = match self.chain.chosen {
            Some(id) if self.is_source(state, leader, id) => id,
            Some(_) => return None,
            None if now.monotonic < self.chain.rests_until => return None,
            None => self.nearest(state, leader)?,
        };
        Some(state.number(id))
    }

    /// The nearest secondary, where that is much nearer than the primary. Who is followed stays it.
    fn nearest(&self, state: &SetState, leader: MemberId) -> Option<i32> {
        let followed = self.chain.following.as_ref().and_then(|following| state.place(following.source));
        let followed = followed.and_then(|place| state.config.members.get(place)).map(|member| member.id);
        if followed.is_some_and(|id| self.is_source(state, leader, id)) {
            return followed;
        }
        let leader_id = state.config.members.get(state.place(leader)?)?.id;
        let ping = |id: i32| self.links.statuses.lock().get(&id).and_then(|status| status.ping);
        let to_leader =
            ping(leader_id).filter(|ping| state.config.settings.chaining_allowed && *ping > NEAR)?;
        let ids = state.config.members.iter().map(|member| member.id);
        let sources = ids.filter(|id| self.is_source(state, leader, *id));
        let nearest = sources.filter_map(|id| Some((ping(id)?, id))).min()?;
        (nearest.0 * 2 < to_leader).then_some(nearest.1)
    }

    /// Whether this member may be followed: a healthy secondary that votes, is not delayed, and is near the
    /// primary.
    fn is_source(&self, state: &SetState, leader: MemberId, id: i32) -> bool {
        let member = state.config.member(id).filter(|member| member.votes && member.delay.is_zero());
        let statuses = self.links.statuses.lock();
        let status =
            statuses.get(&id).filter(|status| status.health && status.state == MemberState::Secondary);
        let leader_at = state.place(leader).and_then(|place| state.config.members.get(place));
        let leader_at = leader_at.and_then(|leader| statuses.get(&leader.id)).map(|status| status.optime);
        let lag = |optime: crate::OpTime| {
            let latest = leader_at.unwrap_or_default().timestamp.time;
            latest.saturating_sub(optime.timestamp.time)
        };
        let is_near = status.is_some_and(|status| lag(status.optime) <= LAG_SECONDS_MAX);
        member.is_some() && is_near && state.number(id) != leader
    }

    /// Another member asks for what is committed.
    pub(super) fn note_follower(&mut self, number: MemberId, word: ChainWord, now: Now) {
        let is_known = self.state.as_ref().is_some_and(|state| state.place(number).is_some());
        let followers = &mut self.chain.followers;
        if let Some(after) = word.after.filter(|_| is_known)
            && (followers.len() < MEMBERS_MAX || followers.contains_key(&number))
        {
            let told_at = followers.get(&number).map_or(now.monotonic, |known| known.told_at);
            followers.insert(number, Follower { after, asked_at: now.monotonic, told_at });
        }
    }

    /// Gives those who follow this member what is committed.
    pub(super) fn pass_on(&mut self, now: Now) {
        for (number, follower) in std::mem::take(&mut self.chain.followers) {
            if now.monotonic.saturating_sub(follower.asked_at) > FORGOTTEN_AFTER {
                continue;
            }
            // Its place may be known here a moment later.
            let message = self.member.committed_after(number, follower.after, BYTES_MAX);
            let has_entries = message.as_ref().is_some_and(RaftMessage::has_entries);
            let is_silent = now.monotonic.saturating_sub(follower.told_at) >= TELLS_EVERY;
            let is_told = message.is_some() && (has_entries || is_silent);
            if let Some(message) = message.filter(|_| is_told) {
                let word = ChainWord { is_passed_on: true, ..self.chain.word() };
                self.post(number, vec![message], false, word, now);
            }
            if !has_entries {
                let told_at = if is_told { now.monotonic } else { follower.told_at };
                self.chain.followers.insert(number, Follower { told_at, ..follower });
            }
        }
    }

    /// What was asked for.
    pub(super) fn take_passed_on(
        &mut self,
        from: MemberId,
        messages: Vec<RaftMessage>,
        now: Now,
    ) -> Result<(), LogError> {
        let Some(following) = self.chain.following.as_mut().filter(|following| following.source == from)
        else {
            return Ok(());
        };
        following.heard_at = now.monotonic;
        for message in messages.into_iter().filter(|message| message.from() == from) {
            if let Some(through) = self.member.take_passed_on(message)? {
                (following.after, following.asked_at) = (through, None);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_survives_its_bytes() {
        let after = Some(LogPosition { term: 3, index: 7 });
        for word in [
            ChainWord::default(),
            ChainWord { follows: Some(2), after, is_passed_on: false },
            ChainWord { follows: None, after: None, is_passed_on: true },
        ] {
            let mut bytes = Vec::new();
            let mut builder = DocumentBuilder::new(&mut bytes);
            word.write(&mut builder);
            builder.finish();
            assert_eq!(ChainWord::read(RawDocument::trusted(&bytes)), word);
        }
    }
}
