//! A member that stays behind by intention (`secondaryDelaySecs`).
//!
//! It has every entry at once, on its disk, and takes one for committed when it is old enough: to believe
//! less than is true is always safe. So nothing waits in memory, a restart goes on the same way, and what is
//! not applied is not trimmed. The configuration, which comes by the log, would be as old: newer ones are
//! taken from heartbeats.

use crate::entry::{LogEntryKind, LogIndex};
use crate::log::{Log, LogError};
use crate::set::MemberConfig;
use crate::set::driver::Now;
use crate::set::participant::Participant;
use std::time::Duration;

/// Bytes of entries that are looked at in a turn.
const BYTES_MAX: u64 = 16 << 20;
/// Entries that are old enough and not applied: further ones wait for these.
const UNAPPLIED_MAX: LogIndex = 20_000;

impl Participant {
    /// How far this member stays behind.
    pub(super) fn delay(&self) -> Duration {
        let own = self.own_place().and_then(|place| self.state.as_ref()?.config.members.get(place));
        own.map_or(Duration::ZERO, |own: &MemberConfig| own.delay)
    }

    /// Tells the consensus what it may take for committed now.
    pub(crate) fn hold_back(&mut self, now: Now) -> Result<(), LogError> {
        let delay = self.delay();
        if delay.is_zero() {
            self.old_enough = 0;
            self.member.believe_committed_through(LogIndex::MAX);
            return Ok(());
        }
        let log = self.member.log();
        let from = self.old_enough.max(self.applied);
        let end = (log.last() + 1).min(self.applied + UNAPPLIED_MAX);
        let entries = match from + 1 < end {
            true => log.entries(from + 1, end, BYTES_MAX)?,
            false => Vec::new(),
        };
        let is_old = |kind: LogEntryKind| match kind {
            LogEntryKind::Operation(timestamp) => {
                Duration::from_secs(timestamp.time.into()) + delay <= now.wall
            }
            LogEntryKind::LeaderElected | LogEntryKind::Membership => true,
        };
        let old = entries.iter().take_while(|entry| is_old(entry.kind)).last();
        self.old_enough = old.map_or(from, |entry| entry.position.index);
        self.member.believe_committed_through(self.old_enough);
        Ok(())
    }
}
