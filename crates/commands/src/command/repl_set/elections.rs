//! The last election, as `replSetGetStatus` tells it.

use crate::replica_set::shown_optime;
use document::{DocumentBuilder, RawValue};
use replication::set::{Candidature, ElectionFigures, ReplicaSet, VoteGiven};
use std::time::Duration;

/// `electionCandidateMetrics` of who leads or wants to, `electionParticipantMetrics` of who has voted since.
pub(super) fn write(set: &ReplicaSet, reply: &mut DocumentBuilder<'_>) {
    let figures = set.elections();
    if let Some(candidature) = &figures.candidature {
        write_candidature(candidature, &figures, reply.start_document("electionCandidateMetrics"));
    }
    if let Some(vote) = &figures.vote {
        write_vote(vote, &figures, reply.start_document("electionParticipantMetrics"));
    }
}

fn date(at: Duration) -> RawValue<'static> {
    RawValue::DateTime(at.as_millis() as i64)
}

fn write_candidature(last: &Candidature, figures: &ElectionFigures, mut shown: DocumentBuilder<'_>) {
    shown.append("lastElectionReason", last.reason.name()).append("lastElectionDate", date(last.at));
    shown.append("electionTerm", last.term as i64);
    shown.append_value("lastCommittedOpTimeAtElection", &shown_optime(last.committed).into());
    shown.append_value("lastSeenOpTimeAtElection", &shown_optime(last.seen).into());
    shown.append("numVotesNeeded", last.votes_needed as i32).append("priorityAtElection", last.priority);
    shown.append("electionTimeoutMillis", last.election_timeout.as_millis() as i64);
    if let Some(id) = last.prior_primary {
        shown.append("priorPrimaryMemberId", id);
    }
    if let Some(new) = figures.new_term.filter(|new| new.term == last.term) {
        shown.append("newTermStartDate", RawValue::DateTime(new.began));
        shown.append("wMajorityWriteAvailabilityDate", date(new.applied));
    }
}

fn write_vote(last: &VoteGiven, figures: &ElectionFigures, mut shown: DocumentBuilder<'_>) {
    shown.append("votedForCandidate", last.is_granted).append("electionTerm", last.term as i64);
    shown.append("lastVoteDate", date(last.at));
    shown.append("electionCandidateMemberId", last.candidate.unwrap_or(-1));
    shown.append("voteReason", last.reason);
    shown.append_value("lastAppliedOpTimeAtElection", &shown_optime(last.applied).into());
    shown.append_value("maxAppliedOpTimeInSet", &shown_optime(last.applied_max).into());
    shown.append("priorityAtElection", last.priority);
    if let Some(new) = figures.new_term.filter(|new| new.term == last.term) {
        shown.append("newTermStartDate", RawValue::DateTime(new.began));
        shown.append("newTermAppliedDate", date(new.applied));
    }
}
