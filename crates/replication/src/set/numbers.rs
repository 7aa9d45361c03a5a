//! A member that was removed and added again goes on under another number.

use crate::LocalState;
use crate::entry::MemberId;
use crate::log::LogError;
use crate::set::participant::Participant;
use crate::set::state::SetState;
use document::ObjectId;
use storage::WriteUnit;

impl Participant {
    /// A newer state of the set, which another member has applied and was asked for.
    pub(crate) fn hear_of(&mut self, state: SetState) {
        if !self.delay().is_zero() {
            self.learn(state.clone());
        }
        self.heard_of = Some(state);
    }

    /// Goes on under another number, where that was given to this disk. Its log stays, for all entries of it
    /// are a leader's; whoever has a number for the first time has never voted under it. Under the old one it
    /// says nothing any more. Whether it was so.
    pub(super) fn take_number(&mut self, number: MemberId, disk: Option<ObjectId>) -> Result<bool, LogError> {
        let own = self.links.shared.disk.get().copied();
        if own.is_none() || disk != own || !self.is_given(number, own) || self.member.leads_now() {
            return Ok(false);
        }
        tracing::info!(before = self.identity.number, number, "this member was added again");
        self.identity.number = number;
        // On the disk before anything that is promised under it: they are in one journal.
        let mut unit = WriteUnit::new();
        LocalState::put_identity(&mut unit, &self.identity);
        let written = self.links.catalog.store().write_now(unit);
        written.map_err(|error| LogError(Box::new(error)))?;
        self.member.take_number(number);
        Ok(true)
    }

    /// Anybody may send an envelope for any number: that it was given to this disk is believed of a state of
    /// the set, which the members that this one knows are asked for. Who knows nobody yet believes the latest
    /// word: it may be forged, and the true one has to be taken after it.
    fn is_given(&self, number: MemberId, own: Option<ObjectId>) -> bool {
        let Some(state) = &self.state else { return true };
        let mut states = [Some(state), self.heard_of.as_ref()].into_iter().flatten();
        number > self.identity.number && states.any(|state| state.disk(number) == own)
    }
}
