//! Who belongs to a set, and from whose answers a majority is counted.

use crate::entry::MemberId;
use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState};

/// The members that count, at one place of the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Membership {
    /// They vote, and a majority of them commits.
    pub voters: Vec<MemberId>,
    /// They receive the log and neither vote nor count (`votes: 0`).
    pub learners: Vec<MemberId>,
    /// The voters before a change that is under way: until it is done, a majority of these is needed too.
    pub voters_outgoing: Vec<MemberId>,
    /// Voters that will be learners when the change is done.
    pub learners_next: Vec<MemberId>,
}

impl Membership {
    /// A set of these voters, not changing.
    pub fn of(voters: &[MemberId]) -> Self {
        Membership { voters: voters.to_vec(), ..Membership::default() }
    }

    /// Whether a change is under way, which the leader ends by itself.
    pub fn is_changing(&self) -> bool {
        !self.voters_outgoing.is_empty()
    }

    /// Whether this member votes.
    pub fn is_voter(&self, member: MemberId) -> bool {
        self.voters.contains(&member) || self.voters_outgoing.contains(&member)
    }

    /// All of them, each once, by number.
    pub fn members(&self) -> Vec<MemberId> {
        let groups = [&self.voters, &self.learners, &self.voters_outgoing, &self.learners_next];
        let mut members: Vec<MemberId> = groups.into_iter().flatten().copied().collect();
        members.sort_unstable();
        members.dedup();
        members
    }

    /// The steps from this membership to these members, done as one change.
    pub(crate) fn change(&self, voters: &[MemberId], learners: &[MemberId]) -> ConfChangeV2 {
        let step = |change: ConfChangeType, member: MemberId| {
            let mut step = ConfChangeSingle::new();
            step.set_change_type(change);
            step.node_id = member;
            step
        };
        let added = voters.iter().filter(|member| !self.voters.contains(member));
        let learning = learners.iter().filter(|member| !self.learners.contains(member));
        let removed = self.members().into_iter();
        let removed = removed.filter(|member| !voters.contains(member) && !learners.contains(member));
        let steps = added.map(|member| step(ConfChangeType::AddNode, *member));
        let steps = steps.chain(learning.map(|member| step(ConfChangeType::AddLearnerNode, *member)));
        let steps = steps.chain(removed.map(|member| step(ConfChangeType::RemoveNode, member)));
        let mut change = ConfChangeV2::new();
        change.set_changes(steps.collect());
        change
    }

    pub(crate) fn from_raft(state: &ConfState) -> Self {
        let sorted = |members: &[MemberId]| {
            let mut members = members.to_vec();
            members.sort_unstable();
            members
        };
        Membership {
            voters: sorted(&state.voters),
            learners: sorted(&state.learners),
            voters_outgoing: sorted(&state.voters_outgoing),
            learners_next: sorted(&state.learners_next),
        }
    }

    pub(crate) fn to_raft(&self) -> ConfState {
        let mut state = ConfState::new();
        state.voters.clone_from(&self.voters);
        state.learners.clone_from(&self.learners);
        state.voters_outgoing.clone_from(&self.voters_outgoing);
        state.learners_next.clone_from(&self.learners_next);
        // Every change is proposed so that it ends by itself.
        state.auto_leave = self.is_changing();
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(from: (&[u64], &[u64]), to: (&[u64], &[u64]), expected: &[(ConfChangeType, u64)]) {
        let from = Membership { learners: from.1.to_vec(), ..Membership::of(from.0) };
        let change = from.change(to.0, to.1);
        let steps: Vec<_> =
            change.changes.iter().map(|step| (step.get_change_type(), step.node_id)).collect();
        assert_eq!(steps, expected, "from {from:?} to {to:?}");
    }

    #[test]
    fn a_change_is_the_difference() {
        use ConfChangeType::{AddLearnerNode, AddNode, RemoveNode};
        check((&[1, 2, 3], &[]), (&[1, 2, 3], &[]), &[]);
        check((&[1, 2, 3], &[]), (&[1, 2, 4], &[]), &[(AddNode, 4), (RemoveNode, 3)]);
        check((&[1, 2, 3], &[4]), (&[1, 2, 4], &[3]), &[(AddNode, 4), (AddLearnerNode, 3)]);
        check((&[1], &[2]), (&[1], &[]), &[(RemoveNode, 2)]);
    }
}
