//! What clients are told of the set, as this member sees it.

use crate::entry::Term;
use crate::set::{MemberConfig, ReplSetConfig};
use document::ObjectId;
use std::sync::Arc;

/// What a member is doing, with MongoDB's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum MemberState {
    /// It has no configuration yet.
    Startup = 0,
    /// It takes writes.
    Primary = 1,
    /// It has the data of the set, and is read from by those who allow it.
    Secondary = 2,
    /// It is not read from: it catches up, or is kept from service (`replSetMaintenance`).
    Recovering = 3,
    /// It copies the data of another one.
    Startup2 = 5,
    /// Nobody has heard of it yet.
    Unknown = 6,
    /// It votes and has no data.
    Arbiter = 7,
    /// It does not answer.
    Down = 8,
    /// It takes back what others do not have, which never happens here.
    Rollback = 9,
    /// It is not in the configuration.
    Removed = 10,
}

impl MemberState {
    /// All of them.
    pub const ALL: [MemberState; 10] = [
        MemberState::Startup,
        MemberState::Primary,
        MemberState::Secondary,
        MemberState::Recovering,
        MemberState::Startup2,
        MemberState::Unknown,
        MemberState::Arbiter,
        MemberState::Down,
        MemberState::Rollback,
        MemberState::Removed,
    ];

    /// `members[n].state` of `replSetGetStatus`.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// The state of a number.
    pub fn of_number(number: i64) -> Option<Self> {
        MemberState::ALL.into_iter().find(|state| i64::from(state.number()) == number)
    }

    /// `members[n].stateStr`.
    pub fn name(self) -> &'static str {
        match self {
            MemberState::Startup => "STARTUP",
            MemberState::Primary => "PRIMARY",
            MemberState::Secondary => "SECONDARY",
            MemberState::Recovering => "RECOVERING",
            MemberState::Startup2 => "STARTUP2",
            MemberState::Unknown => "UNKNOWN",
            MemberState::Arbiter => "ARBITER",
            MemberState::Down => "(not reachable/healthy)",
            MemberState::Rollback => "ROLLBACK",
            MemberState::Removed => "REMOVED",
        }
    }

    /// Whether it may be read from.
    pub fn is_readable(self) -> bool {
        matches!(self, MemberState::Primary | MemberState::Secondary)
    }
}

/// The set at one moment; another one takes its place with each change.
#[derive(Debug, Clone)]
pub struct Topology {
    /// Grows with each change: `topologyVersion.counter`.
    pub counter: i64,
    /// As applied last; `None` before the set is initiated, or before this member has learnt of it.
    pub config: Option<Arc<ReplSetConfig>>,
    /// The place of this member in `config.members`; `None` when it is not among them.
    pub own: Option<usize>,
    /// What this member does.
    pub state: MemberState,
    /// Whether it takes writes.
    pub is_writable: bool,
    /// The place of the primary in `config.members`, where one is known.
    pub primary: Option<usize>,
    /// The latest term that it knows.
    pub term: Term,
    /// How often this member was taken out of service (`replSetMaintenance`) and not put in again.
    pub maintenance: u32,
    /// How many members of the configuration vote by now: who is new, or has lost its disk, catches up first.
    pub voters: usize,
}

impl Topology {
    pub(crate) fn startup() -> Self {
        Topology {
            counter: 0,
            config: None,
            own: None,
            state: MemberState::Startup,
            is_writable: false,
            primary: None,
            term: 0,
            maintenance: 0,
            voters: 0,
        }
    }

    /// This member in the configuration.
    pub fn own_member(&self) -> Option<&MemberConfig> {
        self.config.as_ref()?.members.get(self.own?)
    }

    /// The primary in the configuration.
    pub fn primary_member(&self) -> Option<&MemberConfig> {
        self.config.as_ref()?.members.get(self.primary?)
    }

    /// `electionId`: grows from primary to primary. Only a primary tells it.
    pub fn election_id(&self) -> Option<ObjectId> {
        let mut bytes = [0; 12];
        let (head, term) = bytes.split_at_mut(4);
        head.copy_from_slice(&[0x7f, 0xff, 0xff, 0xff]);
        term.copy_from_slice(&self.term.to_be_bytes());
        self.is_writable.then(|| ObjectId::from_bytes(bytes))
    }

    /// Whether clients are told the same but for the counter.
    pub(crate) fn says_the_same(&self, other: &Topology) -> bool {
        let config = match (&self.config, &other.config) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        let rest = |topology: &Topology| {
            let Topology { own, state, is_writable, primary, term, maintenance, voters, .. } = *topology;
            (own, state, is_writable, primary, term, maintenance, voters)
        };
        config && rest(self) == rest(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn election_ids_grow_with_the_term_and_only_a_primary_has_one() {
        let of = |term, is_writable| Topology { term, is_writable, ..Topology::startup() }.election_id();
        assert_eq!(of(2, false), None);
        assert_eq!(of(2, true).map(|id| id.to_string()).as_deref(), Some("7fffffff0000000000000002"));
        assert!(of(255, true) < of(256, true));
    }

    #[test]
    fn states_have_mongodbs_numbers() {
        for (number, name) in [(0, "STARTUP"), (1, "PRIMARY"), (2, "SECONDARY"), (10, "REMOVED")] {
            assert_eq!(MemberState::of_number(number).map(MemberState::name), Some(name));
        }
        assert_eq!(MemberState::of_number(4), None);
    }
}
