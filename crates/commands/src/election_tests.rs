//! What members of a set tell of elections, and of whom they follow.

use crate::replica_set_tests::{Member, Wires, inner, one, three_that_wait, wait_until};
use document::{Document, Value, doc};

fn counts(member: &Member, reason: &str) -> (i64, i64) {
    let status = member.ok(doc! { "serverStatus": 1 });
    let counts = inner(inner(&status, "electionMetrics"), reason).clone();
    match (counts.get("called"), counts.get("successful")) {
        (Some(Value::Int64(called)), Some(Value::Int64(won))) => (*called, *won),
        other => panic!("{reason} has {other:?}"),
    }
}

fn number(figures: &Document, name: &str) -> i64 {
    match figures.get(name) {
        Some(Value::Int64(number)) => *number,
        other => panic!("{name} is {other:?} in {figures:?}"),
    }
}

fn status(member: &Member) -> Document {
    member.admin(doc! { "replSetGetStatus": 1 })
}

/// One of `members`.
fn shown(status: &Document, place: usize) -> Document {
    match status.get("members") {
        Some(Value::Array(members)) => match &members[place] {
            Value::Document(member) => member.clone(),
            other => panic!("a member is {other:?}"),
        },
        other => panic!("members are {other:?}"),
    }
}

/// Three members who know that all of them vote, and of whom none stands for election because of a busy
/// machine.
fn three_voters() -> (Wires, Vec<Member>) {
    let (wires, members) = three_that_wait(3_000);
    let votes = |member: &Member| status(member).get("votingMembersCount") == Some(&Value::Int32(3));
    wait_until("all vote", || members.iter().all(votes));
    (wires, members)
}

fn reconfigure(primary: &Member, place: usize, more: Document) {
    let config = primary.admin(doc! { "replSetGetConfig": 1 });
    let mut config = inner(&config, "config").clone();
    let Some(Value::Array(mut members)) = config.get("members").cloned() else { panic!("{config:?}") };
    let Value::Document(member) = &mut members[place] else { panic!("{members:?}") };
    for (name, value) in more {
        member.insert(name, value);
    }
    config.insert("members", members);
    config.insert("version", 2);
    primary.admin(doc! { "replSetReconfig": config });
}

#[test]
fn a_member_that_is_asked_to_lead_tells_so() {
    let (_wires, members) = three_voters();
    let (first, second, third) = (&members[0], &members[1], &members[2]);
    assert_eq!(counts(first, "electionTimeout"), (1, 1), "it has begun the set alone");
    second.admin(doc! { "replSetStepUp": 1 });
    assert_eq!(counts(second, "stepUpCmd"), (1, 1));
    wait_until("a majority has the new term", || {
        inner(&status(second), "electionCandidateMetrics").contains("wMajorityWriteAvailabilityDate")
    });
    let told = status(second);
    let last = inner(&told, "electionCandidateMetrics");
    assert_eq!(last.get("lastElectionReason"), Some(&"stepUpRequest".into()), "{last:?}");
    assert_eq!(last.get("priorPrimaryMemberId"), Some(&Value::Int32(0)), "{last:?}");
    assert_eq!(last.get("numVotesNeeded"), Some(&Value::Int32(2)), "{last:?}");
    assert_eq!(last.get("electionTerm"), told.get("term"), "{last:?}");
    let elected = shown(&told, 1).get("electionTime").cloned();
    assert!(matches!(elected, Some(Value::Timestamp(_))), "{told:?}");
    wait_until("the others know when it was elected", || {
        shown(&status(third), 1).get("electionTime") == elected.as_ref()
    });
    wait_until("it knows that the others ask", || shown(&status(second), 2).contains("lastHeartbeatRecv"));
    wait_until("the first one has voted and follows", || {
        let told = status(first);
        told.contains("electionParticipantMetrics")
            && inner(&told, "electionParticipantMetrics").contains("newTermAppliedDate")
    });
    let told = status(first);
    let vote = inner(&told, "electionParticipantMetrics");
    assert_eq!(vote.get("votedForCandidate"), Some(&true.into()), "{vote:?}");
    assert_eq!(vote.get("electionCandidateMemberId"), Some(&Value::Int32(1)), "{vote:?}");
    assert!(!told.contains("electionCandidateMetrics"), "{told:?}");
    let elections = first.ok(doc! { "serverStatus": 1 });
    assert_eq!(number(inner(&elections, "electionMetrics"), "numStepDownsCausedByHigherTerm"), 1);
    let metrics = third.ok(doc! { "serverStatus": 1 });
    let sources = inner(inner(inner(&metrics, "metrics"), "repl"), "syncSource").clone();
    assert!(
        number(&sources, "numTimesChoseDifferent") >= 2,
        "the first primary, then the second: {sources:?}"
    );
    let all = number(&sources, "numSelections");
    let parts = ["numTimesChoseDifferent", "numTimesChoseSame", "numTimesCouldNotFind"];
    assert_eq!(parts.map(|name| number(&sources, name)).iter().sum::<i64>(), all, "{sources:?}");
}

#[test]
fn who_hands_over_is_not_overtaken() {
    let (_wires, members) = three_voters();
    members[0].admin(doc! { "replSetStepDown": 30, "secondaryCatchUpPeriodSecs": 10 });
    let calls = |reason| members[1..].iter().map(|member| counts(member, reason).1).sum::<i64>();
    wait_until("another one is primary", || members[1..].iter().any(|member| member.set.is_writable()));
    let reasons = ["stepUpCmd", "electionTimeout", "priorityTakeover"];
    assert_eq!(reasons.map(calls), [1, 0, 0], "for each reason");
    let elections = members[0].ok(doc! { "serverStatus": 1 });
    assert_eq!(number(inner(&elections, "electionMetrics"), "numStepDownsCausedByHigherTerm"), 0);
}

#[test]
fn a_higher_priority_takes_over() {
    let (_wires, members) = three_voters();
    reconfigure(&members[0], 2, doc! { "priority": 5 });
    wait_until("it has taken over", || members[2].set.is_writable());
    assert_eq!(counts(&members[2], "priorityTakeover"), (1, 1));
    let told = status(&members[2]);
    let last = inner(&told, "electionCandidateMetrics");
    assert_eq!(last.get("priorityAtElection"), Some(&Value::Double(5.0)), "{last:?}");
}

#[test]
fn who_is_alone_leads_again_when_it_is_let() {
    let (_wires, member) = one();
    member.admin(doc! { "replSetStepDown": 1, "secondaryCatchUpPeriodSecs": 0, "force": true });
    wait_until("it leads again", || member.set.is_writable());
    assert_eq!(counts(&member, "freezeTimeout"), (1, 1));
    assert_eq!(counts(&member, "electionTimeout"), (1, 1), "the first one");
}
