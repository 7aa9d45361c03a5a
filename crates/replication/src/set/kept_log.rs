//! The log is kept for a member that copies: a copy is of one moment, and everything after it comes by the
//! log.
//!
//! ```text
//!  member                                            leader, and everybody who may lead next
//!    │ _heddleCopy: chooseSource, at 1200 ────────────▶ │ trims no further than 1200
//!    │ each heartbeat's answer: needsLog after 1250 ──▶ │ … than 1250: there the copy was made
//!    │ starts with the copy: after what it has ───────▶ │ … until it has caught up
//! ```
//! Not without end: see [`TIMES_ITS_SIZE_MAX`] and [`SILENT_FOR`].

use crate::entry::{LogIndex, MemberId};
use crate::log::{Log, LogError};
use crate::set::config::MEMBERS_MAX;
use crate::set::driver::Now;
use crate::set::participant::Participant;
use document::{Document, RawDocument, RawValue, doc};
use std::collections::BTreeMap;
use std::time::Duration;

/// A log that is kept may have so many times its size. By default the size is a twentieth of the room that
/// there was.
const TIMES_ITS_SIZE_MAX: u64 = 4;
/// Nothing is kept any longer for who has not said for so long that it needs it. A member that begins again
/// with its copy says nothing meanwhile.
const SILENT_FOR: Duration = Duration::from_secs(60);
/// Whose data are not older than this has caught up.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(2);

/// What the log is to be kept for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogNeed {
    /// The member that copies, or has and does not have what came since.
    pub(crate) number: MemberId,
    /// It needs the entries behind this one.
    pub(crate) after: LogIndex,
}

impl LogNeed {
    pub(crate) fn to_document(self) -> Document {
        doc! { "number": (self.number as i64), "after": (self.after as i64) }
    }

    /// What a document says in fields of these names.
    pub(crate) fn read(document: RawDocument<'_>, number: &str, after: &str) -> Option<Self> {
        let field = |name: &str| {
            let number = document.get(name).and_then(RawValue::as_i64_exact);
            number.and_then(|number| u64::try_from(number).ok()).filter(|number| *number > 0)
        };
        Some(LogNeed { number: field(number)?, after: field(after)? })
    }
}

/// What a member keeps of its log for others that copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeptLogFigures {
    /// Members that have said within the last minute that they need entries, which are there.
    pub members: usize,
    /// Bytes of operations in the log.
    pub bytes: u64,
    /// So many may be kept for them now.
    pub bytes_max: u64,
    /// How often entries went that a member still needed.
    pub given_up: u64,
}

#[derive(Debug, Clone, Copy)]
struct Needed {
    after: LogIndex,
    heard_at: Duration,
    /// Whether it was said that the log is kept for it.
    is_told: bool,
}

/// Who needs what of this member's log.
#[derive(Debug, Default)]
pub(super) struct KeptLog {
    needs: BTreeMap<MemberId, Needed>,
    given_up: u64,
}

impl KeptLog {
    fn note(&mut self, LogNeed { number, after }: LogNeed, now: Duration) {
        let is_told = self.needs.get(&number).is_some_and(|known| known.is_told);
        if self.needs.len() < MEMBERS_MAX || self.needs.contains_key(&number) {
            self.needs.insert(number, Needed { after, heard_at: now, is_told });
        }
    }

    /// The places behind which entries are needed that are there, from the first one on.
    fn places(&mut self, compacted: LogIndex, now: Duration) -> Vec<LogIndex> {
        self.needs.retain(|_, needed| now.saturating_sub(needed.heard_at) < SILENT_FOR);
        let places = self.needs.values().map(|needed| needed.after);
        let mut places: Vec<LogIndex> = places.filter(|after| *after >= compacted).collect();
        places.sort_unstable();
        places
    }
}

/// Up to where entries go: `trim` says how far they may, up to a place. All that is needed stays; where that
/// is too much, what the member that needs the most does not share with others goes.
fn through(
    places: &[LogIndex],
    is_too_much: bool,
    trim: impl Fn(LogIndex) -> Option<LogIndex>,
) -> Option<LogIndex> {
    let first = places.first().copied().filter(|_| is_too_much);
    let kept = places.iter().find(|place| first.is_none_or(|first| **place > first));
    trim(kept.copied().unwrap_or(LogIndex::MAX))
}

impl Participant {
    /// Another member says that it needs entries of the log.
    pub(super) fn note_need(&mut self, need: LogNeed, now: Now) {
        let is_known = self.state.as_ref().is_some_and(|state| state.place(need.number).is_some());
        if is_known && need.number != self.number() && !self.is_arbiter() {
            self.kept_log.note(need, now.monotonic);
        }
    }

    /// Tells the others what this member needs of their logs.
    pub(super) fn say_need(&mut self, now: Now) {
        let is_behind = self.is_too_far_behind();
        if self.catches_up && !is_behind {
            let as_of = self.links.shared.fresh_as_of();
            let within = self.delay() + CAUGHT_UP_WITHIN;
            let is_fresh = as_of.is_some_and(|as_of| now.monotonic.saturating_sub(as_of) < within);
            self.catches_up = !is_fresh && !self.leads();
        }
        let copied = self.links.copying.place().filter(|_| self.catches_up);
        let own = Some(self.member.committed()).filter(|_| self.catches_up && !is_behind);
        let number = self.number();
        *self.links.shared.log_need.lock() = copied.or(own).map(|after| LogNeed { number, after });
    }

    /// Removes the entries that are beyond the log's size and that nobody needs.
    pub(super) fn trim(&mut self, now: Now) -> Result<(), LogError> {
        // The mark of what is applied is in the same journal, and before this.
        let common = self.arbiter.as_ref().map_or(self.applied, |arbiter| arbiter.trims_through);
        let through = self.trimmed_through(self.applied.min(common), now);
        self.warn_of_kept_log(now.wall);
        if let Some(through) = through {
            self.links.history.trimmed_through(through);
            self.member.compact(through)?;
        }
        Ok(())
    }

    fn trimmed_through(&mut self, applied: LogIndex, now: Now) -> Option<LogIndex> {
        let (log, store) = (self.member.log(), self.links.catalog.store());
        let (bytes, size) = (log.bytes(), self.oplog.size_bytes());
        let compacted = log.compacted().index;
        let places = self.kept_log.places(compacted, now.monotonic);
        let trim = |place: LogIndex| log.trim_through(applied.min(place), now.wall);
        if places.is_empty() {
            *self.links.shared.kept_log.lock() =
                KeptLogFigures { bytes, given_up: self.kept_log.given_up, ..KeptLogFigures::default() };
            return trim(LogIndex::MAX);
        }
        // Never more than is left of the room, so that the log alone takes half of it at most.
        let beyond = store.room_beside_data().min(size.saturating_mul(TIMES_ITS_SIZE_MAX - 1));
        let bytes_max = if store.has_room() { size.saturating_add(beyond) } else { size };
        let (may_go, goes) = (trim(LogIndex::MAX), through(&places, bytes > bytes_max, trim));
        let goes_through = goes.unwrap_or(compacted);
        for (number, needed) in &mut self.kept_log.needs {
            let host = self.state.as_ref().and_then(|state| state.host(*number)).unwrap_or_default();
            let after = needed.after;
            if (compacted..goes_through).contains(&after) {
                needed.is_told = false;
                self.kept_log.given_up += 1;
                tracing::warn!(
                    member = host,
                    after,
                    bytes,
                    bytes_max,
                    size_bytes = size,
                    "the oplog is not kept any longer for a member that copies: it copies again"
                );
            } else if may_go.is_some_and(|may_go| after >= compacted && may_go > after)
                && !std::mem::replace(&mut needed.is_told, true)
            {
                tracing::info!(
                    member = host,
                    after,
                    bytes,
                    bytes_max,
                    size_bytes = size,
                    "the oplog is kept beyond its size for a member that copies"
                );
            }
        }
        *self.links.shared.kept_log.lock() = KeptLogFigures {
            members: places.iter().filter(|place| **place >= goes_through).count(),
            bytes,
            bytes_max,
            given_up: self.kept_log.given_up,
        };
        goes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_survives_its_document() {
        let need = LogNeed { number: 3, after: 7 };
        let document = need.to_document().to_buf();
        assert_eq!(LogNeed::read(document.as_raw(), "number", "after"), Some(need));
        for wrong in
            [doc! { "number": 3 }, doc! { "number": 3, "after": -1 }, doc! { "number": 0, "after": 7 }]
        {
            assert_eq!(LogNeed::read(wrong.to_buf().as_raw(), "number", "after"), None, "{wrong:?}");
        }
    }

    #[test]
    fn who_is_silent_or_outrun_keeps_nothing() {
        let (mut kept, second) = (KeptLog::default(), Duration::from_secs);
        kept.note(LogNeed { number: 2, after: 90 }, second(1));
        kept.note(LogNeed { number: 3, after: 50 }, second(30));
        assert_eq!(kept.places(10, second(31)), [50, 90]);
        assert_eq!(kept.places(50, second(31)), [50, 90], "the entries behind the place are there");
        assert_eq!(kept.places(51, second(31)), [90], "what is gone is of no use to it");
        kept.note(LogNeed { number: 3, after: 70 }, second(32));
        assert_eq!(kept.places(10, second(60)), [70, 90]);
        assert_eq!(kept.places(10, second(61)), [70], "member 2 is silent");
        assert_eq!(kept.places(10, second(200)), []);
    }

    #[test]
    fn members_that_nobody_knows_are_not_without_end() {
        let mut kept = KeptLog::default();
        (1..1_000).for_each(|number| kept.note(LogNeed { number, after: number }, Duration::ZERO));
        assert_eq!(kept.needs.len(), MEMBERS_MAX);
    }

    #[test]
    fn what_is_needed_stays_unless_it_is_too_much() {
        // Segments end at each tenth entry, and by its size the log may go up to 80.
        let trim = |place: LogIndex| Some(place.min(80) / 10 * 10).filter(|end| *end > 0);
        #[track_caller]
        fn check(found: Option<LogIndex>, expected: Option<LogIndex>) {
            assert_eq!(found, expected);
        }
        check(through(&[], false, trim), Some(80));
        check(through(&[], true, trim), Some(80));
        check(through(&[25, 70], false, trim), Some(20));
        check(through(&[5, 70], false, trim), None);
        check(through(&[95], false, trim), Some(80));
        check(through(&[25, 25, 70], true, trim), Some(70));
        check(through(&[25], true, trim), Some(80));
    }
}
