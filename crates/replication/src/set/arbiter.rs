//! A member that votes and has no data (`arbiterOnly`).
//!
//! It has the log on its disk, as every voter: what it answers for counts. What is committed changes nothing
//! here but the set's state and the mark of how far it has come, which the driver writes by itself. Where the
//! others' logs do not go back to it, it takes the leader's place in the log instead of a copy of the data.
//!
//! # Why nothing is lost
//!
//! An operation may be on the disks of the primary and the arbiter alone. So the arbiter keeps what not every
//! voter with data has ([`ArbiterWord::trims_through`]), leads for a moment where it alone has the end of the
//! log, and hands that on. It gets its vote when every voter with data has what is before its log, and these
//! get theirs when they have all that is committed (`lead.rs`). There is one at most: what is committed
//! before the place that it takes was so without it, by voters with data.

use crate::LocalState;
use crate::effects::{Committed, SnapshotWanted};
use crate::entry::{LogEntryKind, LogIndex, MemberId};
use crate::log::{Checkpoint, LogError};
use crate::message::RaftMessage;
use crate::set::driver::{Now, Told};
use crate::set::participant::Participant;
use crate::set::state::SetState;
use document::{DocumentBuf, DocumentBuilder, RawDocument, RawValue, Timestamp};
use std::time::Duration;
use storage::WriteUnit;

/// What an envelope says to an arbiter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArbiterWord {
    /// Up to there all voters with data have the log.
    pub(crate) trims_through: LogIndex,
    /// The set's state, for who takes its sender's place in the log.
    pub(crate) state: Option<DocumentBuf>,
}

impl ArbiterWord {
    pub(crate) fn write(&self, envelope: &mut DocumentBuilder<'_>) {
        let mut word = envelope.start_document("arbiter");
        word.append("trimsThrough", self.trims_through as i64);
        if let Some(state) = &self.state {
            word.append("stateOfSet", state.as_raw());
        }
    }

    pub(crate) fn read(envelope: RawDocument<'_>) -> Option<Self> {
        let word = envelope.get("arbiter")?.as_document()?;
        let through = word.get("trimsThrough").and_then(RawValue::as_i64_exact).unwrap_or(0);
        let state = word.get("stateOfSet").and_then(RawValue::as_document).map(RawDocument::to_buf);
        Some(ArbiterWord { trims_through: through.max(0).unsigned_abs(), state })
    }
}

/// What an arbiter keeps beside its log.
#[derive(Debug)]
pub(super) struct Arbiter {
    /// How far it has come: what the data of others have.
    mark: Checkpoint,
    /// Its log may be trimmed up to there.
    pub(super) trims_through: LogIndex,
    /// The bytes of its log when it was last said that it keeps too many.
    told_bytes: u64,
    /// What came with the offer of the leader's place.
    offered_state: Option<SetState>,
}

impl Arbiter {
    pub(super) fn new(mark: Checkpoint) -> Self {
        Arbiter { mark, trims_through: 0, told_bytes: 0, offered_state: None }
    }
}

impl Participant {
    /// What this member says to another one, where that is an arbiter.
    pub(super) fn word_to_arbiter(&self, number: MemberId, messages: &[RaftMessage]) -> Option<ArbiterWord> {
        let state = self.state.as_ref()?;
        state.is_arbiter(number).then(|| ArbiterWord {
            trims_through: self.common_to_data(true).unwrap_or(0),
            state: messages.iter().any(RaftMessage::offers_place).then(|| state.to_note()),
        })
    }

    /// What all voters with data have on their disks, as far as a primary knows; `with_new`: also those that
    /// are to vote when they have caught up.
    pub(super) fn common_to_data(&self, with_new: bool) -> Option<LogIndex> {
        let (state, membership) = (self.state.as_ref()?, self.member.membership());
        let is_new = |number: MemberId| {
            let member = state.place(number).and_then(|place| state.config.members.get(place));
            with_new && member.is_some_and(|member| member.votes)
        };
        let counts =
            |number: MemberId| !state.is_arbiter(number) && (membership.is_voter(number) || is_new(number));
        let progress = self.leading.is_open().then(|| self.member.progress())?;
        progress.iter().filter(|one| counts(one.member)).map(|one| one.matched).min()
    }

    pub(super) fn hear_as_arbiter(&mut self, word: Option<ArbiterWord>) {
        let (Some(arbiter), Some(word)) = (&mut self.arbiter, word) else { return };
        arbiter.trims_through = arbiter.trims_through.max(word.trims_through);
        let state = word.state.and_then(|note| SetState::of_note(note.as_raw()));
        if let Some(Ok(state)) = state {
            arbiter.offered_state = Some(state);
        }
    }

    /// Its disk fills where a member stays away: said at twice the log's size, and whenever it has doubled
    /// again.
    pub(super) fn warn_of_kept_log(&mut self, wall: Duration) {
        let (log, size) = (self.member.log(), self.oplog.size_bytes());
        let Some(arbiter) = &mut self.arbiter else { return };
        let (bytes, may_go) = (log.bytes(), log.trim_through(self.applied, wall));
        let is_kept = may_go.is_some_and(|through| through > arbiter.trims_through);
        if !is_kept || bytes < size.saturating_mul(2) {
            arbiter.told_bytes = 0;
        } else if bytes >= arbiter.told_bytes.saturating_mul(2) {
            arbiter.told_bytes = bytes;
            tracing::warn!(
                bytes,
                size_bytes = size,
                kept_after = arbiter.trims_through,
                "this arbiter keeps the log for a voting member that lacks it: start that member, or remove \
                it"
            );
        }
    }

    /// What is committed is passed over, but for the set's state.
    pub(super) fn pass_over(&mut self, committed: &[Committed], now: Now) -> Result<(), LogError> {
        let Some(last) = committed.last() else { return Ok(()) };
        let arbiter = self.arbiter.as_mut().expect("only an arbiter passes over what is committed");
        let through = last.entry.position;
        arbiter.mark.position = through;
        let mut state = None;
        for Committed { entry, membership } in committed {
            if let Some(membership) = membership {
                arbiter.mark.membership = membership.clone();
            }
            if let LogEntryKind::Operation(timestamp) = entry.kind {
                arbiter.mark.timestamp = timestamp;
                state = state_in(&entry.data)?.or(state);
            }
        }
        self.write_mark(state.as_ref())?;
        self.oplog.show_up_to(through.index);
        self.tell(Told::Applied { through: through.index, state }, now);
        Ok(())
    }

    fn write_mark(&self, state: Option<&SetState>) -> Result<(), LogError> {
        let arbiter = self.arbiter.as_ref().expect("only an arbiter writes its mark here");
        let mut unit = WriteUnit::new();
        LocalState::put_applied(&mut unit, &arbiter.mark);
        if let Some(state) = state {
            LocalState::put_set_state(&mut unit, state.to_note().as_raw());
        }
        let written = self.links.catalog.store().write_now(unit);
        written.map(drop).map_err(|error| LogError(Box::new(error)))
    }

    /// Goes on from the leader's place. The mark is written first: who starts between the two resets the log.
    pub(super) fn take_place(&mut self, wanted: SnapshotWanted) -> Result<(), LogError> {
        let SnapshotWanted { at, membership, .. } = wanted;
        let place = Checkpoint { position: at, timestamp: Timestamp::default(), membership };
        let Some(arbiter) = self.arbiter.as_mut().filter(|_| self.member.can_install(&place)) else {
            return Ok(());
        };
        // Without it the configuration might be in what is passed by.
        let Some(state) = arbiter.offered_state.take() else { return Ok(()) };
        tracing::info!(?at, "this arbiter goes on from the leader's place in the log");
        arbiter.mark = place.clone();
        self.write_mark(Some(&state))?;
        assert!(self.member.install(&place), "{place:?} was of use a moment ago");
        self.applied = at.index;
        self.oplog.show_up_to(at.index);
        self.learn(state);
        self.publish();
        Ok(())
    }
}

/// The state of the set, where an operation tells one.
fn state_in(operation: &[u8]) -> Result<Option<SetState>, LogError> {
    let operation = RawDocument::trusted(operation);
    let is_note = operation.get("op").and_then(RawValue::as_str) == Some("n");
    let note = operation.get("o").and_then(RawValue::as_document).filter(|_| is_note);
    let state = note.and_then(SetState::of_note).transpose();
    state.map_err(|error| LogError(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::doc;

    #[test]
    fn a_word_to_an_arbiter_survives_its_bytes() {
        for state in [None, Some(doc! { "msg": "state" }.to_buf())] {
            let word = ArbiterWord { trims_through: 7, state };
            let mut bytes = Vec::new();
            let mut builder = DocumentBuilder::new(&mut bytes);
            word.write(&mut builder);
            builder.finish();
            assert_eq!(ArbiterWord::read(RawDocument::trusted(&bytes)), Some(word));
        }
    }
}
