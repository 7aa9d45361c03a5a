//! When a member asks for an election: the one thing that the consensus library would leave to chance.

use crate::config::ELECTION_TICKS;
use crate::entry::Term;
use crate::log::{Log, Storage};
use raft::eraftpb::{self, MessageType};
use raft::{Raft, RawNode, StateRole};

/// Never reached by counting ticks.
const NEVER: usize = usize::MAX - 1;

/// Draws the time-outs from a seed and puts them in the place of the library's own, which nobody can repeat.
pub(crate) struct Elections {
    random: fastrand::Rng,
    timeout: usize,
    /// A time-out is drawn anew for each of these.
    drawn_for: (Term, StateRole),
    pub(crate) candidacy: Candidacy,
    /// Somebody wants to lead without what this member has, since a leader was heard and since this one
    /// stood.
    has_refused: bool,
    /// How often one has passed since this was taken last.
    pub(crate) passed: u32,
}

/// When a member that hears of no leader asks to lead (`priority: 0`, `replSetFreeze`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Candidacy {
    /// When the election time-out has passed.
    Own,
    /// Some time-outs later: nobody was elected who may stay leader, perhaps because this member alone has
    /// the end of the log. At the ordinary time where it has refused a vote for that.
    ForOthers,
    /// Never.
    None,
}

/// So many election time-outs are for those that may stay leaders.
const OTHERS_STAND: usize = 4;

impl Elections {
    pub(crate) fn new(seed: u64) -> Self {
        let drawn_for = (0, StateRole::Follower);
        let mut elections = Elections {
            random: fastrand::Rng::with_seed(seed),
            timeout: ELECTION_TICKS,
            drawn_for,
            candidacy: Candidacy::Own,
            has_refused: false,
            passed: 0,
        };
        elections.draw();
        elections
    }

    fn draw(&mut self) {
        self.timeout = self.random.usize(ELECTION_TICKS..ELECTION_TICKS * 2);
    }

    /// A message is about to be taken.
    pub(crate) fn note<L: Log>(&mut self, raft: &Raft<Storage<L>>, message: &eraftpb::Message) {
        let asks =
            matches!(message.get_msg_type(), MessageType::MsgRequestPreVote | MessageType::MsgRequestVote);
        self.has_refused |= asks && !raft.raft_log.is_up_to_date(message.index, message.log_term);
    }

    /// One tick of the library. Whose disk has not caught up does not ask to lead.
    pub(crate) fn tick<L: Log>(&mut self, raw: &mut RawNode<Storage<L>>, is_unsynced: bool) {
        let now = (raw.raft.term, raw.raft.state);
        if self.drawn_for != now {
            self.drawn_for = now;
            self.draw();
        }
        // Who asks while there is a leader does not hear it.
        let raft = &raw.raft;
        if raft.leader_id != raft::INVALID_ID && raft.election_elapsed < raft.election_timeout() {
            self.has_refused = false;
        }
        let timeout = match self.candidacy {
            Candidacy::Own if !is_unsynced => self.timeout,
            Candidacy::ForOthers if !is_unsynced && self.has_refused => self.timeout,
            Candidacy::ForOthers if !is_unsynced => self.timeout * OTHERS_STAND,
            _ => NEVER,
        };
        raw.raft.set_randomized_election_timeout(timeout);
        let is_due = raw.tick();
        self.passed += u32::from(is_due && now.1 != StateRole::Leader);
        let asked = is_due && raw.raft.state != StateRole::Leader;
        if asked {
            self.has_refused = false;
            self.draw();
        }
    }
}
