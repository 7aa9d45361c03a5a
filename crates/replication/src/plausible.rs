//! What a member takes from the network. Nobody proves who he is, and what no member would say must not end
//! one: the consensus library answers most of it with a panic.
//!
//! Somebody who speaks as a leader, with its term and place, is still believed.

use crate::effects::RaftRole;
use crate::entry::{LogEntry, LogEntryKind, LogIndex, Term};
use crate::log::Log;
use crate::member::Member;
use crate::message::is_change;
use document::Timestamp;
use raft::eraftpb::{self, EntryType, MessageType};
use raft::{GetEntriesContext, StateRole};

/// Terms and places beyond are never counted up to. They leave room for what is added to them.
const COUNTED_MAX: u64 = 1 << 62;
/// So many elections no member has missed: one a second for a hundred years.
const TERMS_MISSED_MAX: Term = 1 << 32;
/// Entries before the first one of a message that are looked at for an operation.
const LOOKED_BACK_MAX: usize = 16;

impl<L: Log> Member<L> {
    /// What is wrong with a message, where no member of this set can have sent it.
    pub(crate) fn implausible(&self, message: &eraftpb::Message) -> Option<&'static str> {
        let raft = &self.raw.raft;
        if message.from == raft.id {
            return Some("it is from this member itself");
        }
        let has_history = raft.raft_log.last_index() > 1;
        if message.term == 0 || message.term > COUNTED_MAX {
            return Some("its term cannot be");
        }
        if has_history && message.term > raft.term.saturating_add(TERMS_MISSED_MAX) {
            return Some("its term is too far ahead");
        }
        let metadata = message.get_snapshot().get_metadata();
        let places = [message.index, message.commit, message.reject_hint, metadata.index];
        let terms = [message.log_term, message.commit_term, metadata.term];
        if places.into_iter().any(|index| index > COUNTED_MAX)
            || terms.into_iter().any(|term| term > message.term)
        {
            return Some("its place cannot be");
        }
        let last = raft.raft_log.last_index();
        match message.get_msg_type() {
            // The library takes every place beyond the log for one of term 0: these would seem to follow it.
            MessageType::MsgAppend if message.log_term == 0 && message.index > last => {
                Some("it follows an entry of no term")
            }
            MessageType::MsgSnapshot if metadata.term == 0 => Some("it offers a copy of no term"),
            MessageType::MsgAppend => self.implausible_entries(message),
            MessageType::MsgHeartbeat if message.term >= raft.term && message.commit > last => Some(
                "it commits what this member does not have: it is forged, or an older copy of the member's \
                     own directory was put back, which must be emptied then",
            ),
            MessageType::MsgAppendResponse
                if raft.state == StateRole::Leader && message.term == raft.term =>
            {
                let is_known = message.index <= last && message.reject_hint <= last;
                let is_own_way = message.request_snapshot != 0;
                (!is_known || is_own_way).then_some("it answers what was not sent")
            }
            // Passed on it would not come from this member.
            MessageType::MsgTransferLeader if self.leadership().role != RaftRole::Leader => {
                Some("it is for the leader")
            }
            _ => None,
        }
    }

    fn implausible_entries(&self, message: &eraftpb::Message) -> Option<&'static str> {
        if message.entries.is_empty() {
            return None;
        }
        // Of those that it has the library keeps its own, whatever these say.
        let log = &self.raw.raft.raft_log;
        let is_known = |entry: &&eraftpb::Entry| {
            entry.index <= log.last_index() && log.match_term(entry.index, entry.term)
        };
        let known = message.entries.iter().take_while(is_known).last();
        let known = known.map_or((message.index, message.log_term), |known| (known.index, known.term));
        let mut timestamp = self.timestamp_up_to(known.0, known.1);
        let mut term = message.log_term;
        for (entry, index) in message.entries.iter().zip(message.index + 1..) {
            let is_next = entry.index == index && entry.term >= term && entry.term <= message.term;
            if !is_next || !matches!(entry.context.len(), 0 | TIMESTAMP_BYTES) {
                return Some("its entries do not follow each other");
            }
            term = entry.term;
            match entry.get_entry_type() {
                EntryType::EntryConfChangeV2 if is_change(&entry.data) => continue,
                EntryType::EntryConfChangeV2 | EntryType::EntryConfChange => {
                    return Some("it changes the members to what cannot be");
                }
                EntryType::EntryNormal => {}
            }
            if index <= known.0 {
                continue;
            }
            let entry = LogEntry::from_raft(entry.clone());
            if let LogEntryKind::Operation(next) = entry.kind
                && timestamp.replace(next).is_some_and(|before| before >= next)
            {
                return Some("its timestamps do not grow");
            }
            if self.log().check(&entry).is_err() {
                return Some("it has an entry that is no operation");
            }
        }
        None
    }

    /// Of the last operation up to this entry, where this member knows it.
    fn timestamp_up_to(&self, index: LogIndex, term: Term) -> Option<Timestamp> {
        let log = &self.raw.raft.raft_log;
        if !log.match_term(index, term) {
            // Then the entries are not taken.
            return None;
        }
        for index in (log.first_index()..=index).rev().take(LOOKED_BACK_MAX) {
            let entry = log.slice(index, index + 1, None, GetEntriesContext::empty(false)).ok()?.pop()?;
            if let LogEntryKind::Operation(timestamp) = LogEntry::from_raft(entry).kind {
                return Some(timestamp);
            }
        }
        // A leader that does not know how far this member has come begins anywhere.
        (log.committed <= index).then(|| self.committed_timestamp())
    }
}

/// Of an operation's timestamp in its entry's context.
const TIMESTAMP_BYTES: usize = size_of::<u64>();
