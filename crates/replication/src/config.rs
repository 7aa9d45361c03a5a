//! The times and bounds of a member.

use crate::entry::{LogIndex, MemberId};
use std::time::Duration;

/// How long a member waits and how much it sends.
#[derive(Debug, Clone)]
pub struct Config {
    /// This member.
    pub member: MemberId,
    /// Without word from a leader for this long, up to twice as long, a member asks for an election; a leader
    /// that a majority has not answered for this long gives up. Whoever has heard from a leader within it
    /// gives nobody a vote.
    pub election_timeout: Duration,
    /// Bytes of entries in one message (a larger entry goes alone).
    pub message_bytes_max: u64,
    /// Messages with entries to one member that it has not answered.
    pub messages_unanswered_max: usize,
    /// Bytes of entries that are logged by the leader and not committed. More are refused.
    pub uncommitted_bytes_max: u64,
    /// Bytes of committed entries that are given out at once, but for one alone: after a start it may be much
    /// of the log.
    pub committed_bytes_max: u64,
    /// Changes of the members up to there do not count: [`crate::Member::force`].
    pub forced_through: LogIndex,
    /// Where the random part of the time-outs comes from: another one at each start.
    pub seed: u64,
}

/// How often a leader says within an election timeout that it is there.
const HEARTBEATS: u32 = 5;
/// The finer the ticks, the less often two members ask for an election at the same one.
const TICKS_PER_HEARTBEAT: u32 = 4;
/// Ticks without word from a leader after which there is none.
pub(crate) const ELECTION_TICKS: usize = (HEARTBEATS * TICKS_PER_HEARTBEAT) as usize;

impl Config {
    /// A failed leader is replaced within about two seconds.
    pub fn new(member: MemberId, seed: u64) -> Self {
        Config {
            member,
            election_timeout: Duration::from_secs(1),
            message_bytes_max: 1 << 20,
            messages_unanswered_max: 64,
            uncommitted_bytes_max: 256 << 20,
            forced_through: 0,
            committed_bytes_max: 8 << 20,
            seed,
        }
    }

    /// What is wrong with it.
    pub fn validate(&self) -> Result<(), String> {
        if tick(self.election_timeout) < Duration::from_millis(1) {
            return Err(format!("expected an election timeout of {ELECTION_TICKS} milliseconds or more"));
        }
        self.to_raft(0).validate().map_err(|error| error.to_string())
    }

    pub(crate) fn to_raft(&self, applied: u64) -> raft::Config {
        raft::Config {
            id: self.member,
            election_tick: ELECTION_TICKS,
            // Any time-out from the shortest one on can be set, see `Elections`.
            min_election_tick: ELECTION_TICKS,
            max_election_tick: usize::MAX,
            heartbeat_tick: TICKS_PER_HEARTBEAT as usize,
            applied,
            max_size_per_msg: self.message_bytes_max,
            max_inflight_msgs: self.messages_unanswered_max,
            max_uncommitted_size: self.uncommitted_bytes_max,
            max_committed_size_per_ready: self.committed_bytes_max,
            check_quorum: true,
            pre_vote: true,
            // The library would put any entries into a message without some that has not left yet, also those
            // that do not follow the place it names: an answer would promise what the receiver does not have.
            batch_append: false,
            ..raft::Config::default()
        }
    }
}

/// How long a tick is.
pub(crate) fn tick(election_timeout: Duration) -> Duration {
    election_timeout / (HEARTBEATS * TICKS_PER_HEARTBEAT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_shorter_times_are_refused() {
        let config = Config::new(1, 0);
        assert_eq!(config.validate(), Ok(()));
        assert!(Config { election_timeout: Duration::from_millis(19), ..config.clone() }.validate().is_err());
        assert!(Config { member: 0, ..config }.validate().is_err());
    }
}
