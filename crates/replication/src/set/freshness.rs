//! How old the data of a member may be, by its own clock alone.
//!
//! ```text
//!  member ── stamp s: its clock ───────────────────────────▶ leader, which gets it at t
//!  leader ── echo s; up to index i all is committed; ──────▶ member
//!            a majority has answered what left here at q: age = t − q, or 0
//!  member:   i is applied: all that was acknowledged until s − age is in the data
//! ```
//! Who answers, in the same term, what left the leader at q had no other leader until q. So nobody else has
//! acknowledged anything by then, and what the leader has acknowledged is committed there. On the member's
//! clock q is not before s − age, for s had left when it came. No clock is compared with another one, and a
//! frozen member or an old message can only seem older than they are. Without word from the leader the age
//! grows with the time.

use crate::entry::{LogIndex, MemberId, Term};
use crate::membership::Membership;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What every envelope says beside its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stamps {
    /// The term of the sender.
    pub(crate) term: Term,
    /// Its clock, in a form that only it reads.
    pub(crate) stamp: i64,
    /// The latest stamp that it has from the receiver; 0 without one.
    pub(crate) echo: i64,
    /// It wants a claim that is not older than its stamp.
    pub(crate) asks: bool,
    /// From a leader that takes operations.
    pub(crate) claim: Option<Claim>,
}

/// What a leader says of the time of the echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Everything that was acknowledged by then has been logged up to here.
    pub(crate) committed: LogIndex,
    /// How long before the echo that is known of.
    pub(crate) age_us: i64,
}

/// Bits of a stamp for microseconds; those above tell one start of a server from another.
const CLOCK_BITS: u32 = 50;
/// Claims that wait for their index: so many, and no two nearer to each other than this.
const CLAIMS_MAX: usize = 4_096;
const CLAIMS_APART: Duration = Duration::from_millis(10);
/// Who has asked and got no answer asks again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// What this member knows of the times of others, and so of the age of its data.
#[derive(Debug)]
pub(crate) struct Freshness {
    /// In the place of the upper bits of its stamps.
    start: i64,
    /// The latest stamp of each other member, and when it came.
    stamps: BTreeMap<MemberId, (i64, Duration)>,
    /// In which term the others have answered, and when what they have answered had left.
    answered: (Term, BTreeMap<MemberId, Duration>),
    /// Members that have asked, and since when.
    askers: BTreeMap<MemberId, Duration>,
    /// When this member has asked last.
    asked: Option<Duration>,
    /// Once the index is applied, the data are as of that time. Both grow.
    claims: VecDeque<(Duration, LogIndex)>,
    as_of: Option<Duration>,
}

impl Freshness {
    pub(crate) fn new(seed: u64) -> Self {
        Freshness {
            start: (((seed >> CLOCK_BITS) as i64).max(1) << CLOCK_BITS) & i64::MAX,
            stamps: BTreeMap::new(),
            answered: (0, BTreeMap::new()),
            askers: BTreeMap::new(),
            asked: None,
            claims: VecDeque::new(),
            as_of: None,
        }
    }

    /// All that was acknowledged anywhere until this time is in the data.
    pub(crate) fn as_of(&self) -> Option<Duration> {
        self.as_of
    }

    fn stamp(&self, now: Duration) -> i64 {
        self.start | (now.as_micros() as i64 & ((1 << CLOCK_BITS) - 1))
    }

    /// The time of an own stamp; none for those of earlier starts.
    fn time_of(&self, stamp: i64) -> Option<Duration> {
        let clock = stamp & ((1 << CLOCK_BITS) - 1);
        (stamp - clock == self.start).then(|| Duration::from_micros(clock.unsigned_abs()))
    }

    /// For an envelope that leaves now. `leads` is up to where everything is committed, of a leader, and
    /// since when that is known to be true of everybody.
    pub(crate) fn stamps(
        &self,
        to: MemberId,
        now: Duration,
        term: Term,
        leads: Option<(LogIndex, Duration)>,
    ) -> Stamps {
        let (echo, came) = self.stamps.get(&to).copied().unwrap_or_default();
        let claim = leads.filter(|_| echo != 0).map(|(committed, confirmed)| {
            let age = came.saturating_sub(confirmed).as_micros();
            Claim { committed, age_us: i64::try_from(age).unwrap_or(i64::MAX) }
        });
        Stamps { term, stamp: self.stamp(now), echo, asks: false, claim }
    }

    /// An envelope has come from a member; `leads` is the term of a leader.
    pub(crate) fn heard(&mut self, from: MemberId, stamps: Stamps, leads: Option<Term>, now: Duration) {
        // All times are whole microseconds, as stamps are.
        let now = Duration::from_micros(now.as_micros() as u64);
        if self.stamps.get(&from).is_none_or(|(known, _)| *known != stamps.stamp) {
            self.stamps.insert(from, (stamps.stamp, now));
        }
        let echo = self.time_of(stamps.echo).filter(|echo| *echo <= now);
        if let (Some(term), Some(left)) = (leads, echo)
            && stamps.term == term
        {
            if self.answered.0 != term {
                self.answered = (term, BTreeMap::new());
            }
            let answered = self.answered.1.entry(from).or_default();
            *answered = left.max(*answered);
        }
        if stamps.asks && leads.is_some() {
            self.askers.entry(from).or_insert(now);
        }
        if let (Some(claim), Some(echo)) = (stamps.claim, echo) {
            let age = Duration::from_micros(claim.age_us.unsigned_abs());
            self.claimed(echo.saturating_sub(age), claim.committed);
        }
    }

    fn claimed(&mut self, as_of: Duration, committed: LogIndex) {
        // Messages overtake each other: an older one tells nothing new.
        if self.claims.back().is_some_and(|(latest, _)| as_of <= *latest) {
            return;
        }
        // Of an earlier time by a later place, which may never be reached: anybody may have claimed it.
        while self.claims.pop_back_if(|(_, index)| *index >= committed).is_some() {}
        let is_near = |latest: &(Duration, LogIndex)| as_of - latest.0 < CLAIMS_APART;
        if !self.claims.back().is_some_and(is_near) && self.claims.len() < CLAIMS_MAX {
            self.claims.push_back((as_of, committed));
        }
    }

    /// The data are there up to this index.
    pub(crate) fn applied(&mut self, through: LogIndex) {
        while let Some((as_of, _)) = self.claims.pop_front_if(|(_, index)| *index <= through) {
            self.as_of = self.as_of.max(Some(as_of));
        }
    }

    /// Until when a leader of this term is known to have been the only one. Its data are as of then.
    pub(crate) fn confirm(
        &mut self,
        membership: &Membership,
        own: MemberId,
        term: Term,
        now: Duration,
    ) -> Option<Duration> {
        let confirmed = [&membership.voters, &membership.voters_outgoing]
            .into_iter()
            .filter(|voters| !voters.is_empty())
            .map(|voters| {
                let answered = |voter: &MemberId| match *voter == own {
                    true => Some(now),
                    false => self.answered.1.get(voter).copied().filter(|_| self.answered.0 == term),
                };
                let times = || voters.iter().filter_map(answered);
                let is_majority =
                    |since: &Duration| times().filter(|time| time >= since).count() > voters.len() / 2;
                times().filter(is_majority).max()
            })
            .min()
            .flatten();
        self.as_of = self.as_of.max(confirmed);
        confirmed
    }

    /// The members whose questions are answered by what is confirmed.
    pub(crate) fn answerable(&mut self, confirmed: Duration) -> Vec<MemberId> {
        self.askers.extract_if(.., |_, asked| *asked <= confirmed).map(|(member, _)| member).collect()
    }

    /// Forgets those that are no members.
    pub(crate) fn forget_others(&mut self, is_known: impl Fn(MemberId) -> bool) {
        self.stamps.retain(|member, _| is_known(*member));
        self.answered.1.retain(|member, _| is_known(*member));
        self.askers.retain(|member, _| is_known(*member));
    }

    /// Nobody is answered by who does not lead.
    pub(crate) fn forget_askers(&mut self) {
        self.askers.clear();
    }

    /// Whether to ask now, so that the data are as of this time.
    pub(crate) fn asks(&mut self, wanted: Duration, now: Duration) -> bool {
        let waits = self.asked.is_some_and(|asked| {
            let is_answered = self.as_of.is_some_and(|as_of| as_of >= asked);
            !is_answered && now < asked + ASK_AGAIN
        });
        let asks = self.as_of.is_none_or(|as_of| as_of < wanted) && !waits;
        if asks {
            self.asked = Some(Duration::from_micros(now.as_micros() as u64));
        }
        asks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEADER: MemberId = 1;
    const TERM: Term = 7;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// A leader and two others, each with a clock of its own.
    struct Three {
        members: [Freshness; 3],
        clocks: [u64; 3],
        membership: Membership,
    }

    impl Three {
        fn new() -> Self {
            Three {
                members: [1, 2, 3].map(|seed| Freshness::new(seed << 50)),
                clocks: [50_000, 900, 7_000_000],
                membership: Membership::of(&[1, 2, 3]),
            }
        }

        fn pass(&mut self, milliseconds: u64) {
            self.clocks.iter_mut().for_each(|clock| *clock += milliseconds);
        }

        fn confirmed(&mut self) -> Option<Duration> {
            self.members[0].confirm(&self.membership, LEADER, TERM, ms(self.clocks[0]))
        }

        fn compose(&mut self, from: usize, to: usize, committed: LogIndex) -> Stamps {
            let leads =
                if from == 0 { self.confirmed().map(|confirmed| (committed, confirmed)) } else { None };
            self.members[from].stamps(to as MemberId + 1, ms(self.clocks[from]), TERM, leads)
        }

        fn deliver(&mut self, from: usize, to: usize, stamps: Stamps) {
            let now = ms(self.clocks[to]);
            self.members[to].heard(from as MemberId + 1, stamps, (to == 0).then_some(TERM), now);
        }

        /// The leader says something to a member, which answers; both ways take a millisecond.
        fn exchange(&mut self, with: usize, committed: LogIndex) {
            let said = self.compose(0, with, committed);
            self.pass(1);
            self.deliver(0, with, said);
            let answer = self.compose(with, 0, committed);
            self.pass(1);
            self.deliver(with, 0, answer);
        }

        /// How old the data of a member may be; it has applied so much.
        fn age(&mut self, member: usize, applied: LogIndex) -> Option<u64> {
            self.members[member].applied(applied);
            let as_of = self.members[member].as_of()?;
            Some((ms(self.clocks[member]) - as_of).as_millis() as u64)
        }
    }

    #[test]
    fn data_are_as_old_as_the_last_word_of_the_leader() {
        let mut three = Three::new();
        three.exchange(1, 5);
        assert_eq!(three.age(1, 5), None, "nothing is confirmed yet");
        three.exchange(1, 5);
        // The leader spoke four milliseconds ago. The echo is one younger, and its way took one at most.
        assert_eq!(three.age(1, 5), Some(5));
        three.pass(60_000);
        assert_eq!(three.age(1, 5), Some(60_005), "without word the age grows");
    }

    #[test]
    fn data_are_fresh_when_they_are_applied() {
        let mut three = Three::new();
        three.exchange(1, 5);
        three.exchange(1, 5);
        three.age(1, 5);
        three.pass(100);
        three.exchange(1, 9);
        three.exchange(1, 9);
        assert_eq!(three.age(1, 8), Some(109), "what is committed is not applied yet");
        assert_eq!(three.age(1, 9), Some(5));
    }

    #[test]
    fn a_leader_without_a_majority_claims_nothing_new() {
        let mut three = Three::new();
        three.membership = Membership::of(&[1, 2, 3, 4, 5]);
        three.exchange(1, 5);
        three.exchange(1, 5);
        assert_eq!((three.confirmed(), three.age(1, 5)), (None, None), "two of five");
        three.exchange(2, 5);
        three.exchange(2, 5);
        three.exchange(1, 5);
        let before = three.age(1, 5).expect("three of five");
        three.pass(1_000);
        // Only this one is reached from now on.
        three.exchange(1, 5);
        three.exchange(1, 5);
        assert!(three.age(1, 5).expect("still") >= before + 1_000, "two of five again");
    }

    #[test]
    fn old_messages_make_nothing_fresh() {
        let mut three = Three::new();
        three.exchange(1, 5);
        let late = three.compose(0, 1, 5);
        three.pass(30_000);
        three.deliver(0, 1, late);
        assert!(three.age(1, 5).expect("something is known") >= 30_000);
        // Of a start before this one, whose clock said other things.
        three.members[1] = Freshness::new(99 << 50);
        three.deliver(0, 1, late);
        assert_eq!(three.age(1, 5), None);
    }

    #[test]
    fn a_place_that_is_never_reached_hides_no_other_one() {
        let mut three = Three::new();
        three.exchange(1, 5);
        three.exchange(1, 5);
        three.age(1, 5);
        three.pass(1_000);
        for _ in 0..CLAIMS_MAX * 2 {
            three.pass(20);
            let said = three.compose(0, 1, 1 << 62);
            let echo = three.members[1].stamp(ms(three.clocks[1]));
            three.deliver(
                0,
                1,
                Stamps { echo, claim: Some(Claim { committed: 1 << 62, age_us: 0 }), ..said },
            );
        }
        three.pass(20);
        three.exchange(1, 6);
        three.exchange(1, 6);
        assert_eq!(three.age(1, 6), Some(5), "as of the last word");
    }

    #[test]
    fn who_has_another_term_confirms_nothing() {
        let mut three = Three::new();
        for _ in 0..2 {
            let said = three.compose(0, 1, 5);
            three.deliver(0, 1, said);
            let answer = Stamps { term: TERM + 1, ..three.compose(1, 0, 5) };
            three.deliver(1, 0, answer);
        }
        assert_eq!(three.confirmed(), None);
    }

    #[test]
    fn who_asks_gets_the_present() {
        let mut three = Three::new();
        three.pass(10);
        let began = ms(three.clocks[1]);
        assert!(three.members[1].asks(began, began));
        assert!(!three.members[1].asks(began, began + ms(5)), "one question at a time");
        assert!(three.members[1].asks(began, began + ASK_AGAIN));
        let question = Stamps { asks: true, ..three.compose(1, 0, 0) };
        three.pass(1);
        three.deliver(1, 0, question);
        let confirmed = three.confirmed().unwrap_or_default();
        assert!(three.members[0].answerable(confirmed).is_empty(), "a majority has not answered since");
        three.exchange(2, 5);
        let confirmed = three.confirmed().expect("two of three");
        assert_eq!(three.members[0].answerable(confirmed), [2]);
        let answer = three.compose(0, 1, 5);
        three.pass(1);
        three.deliver(0, 1, answer);
        three.age(1, 5);
        assert!(three.members[1].as_of() >= Some(began), "as of the question");
        assert!(!three.members[1].asks(began, ms(three.clocks[1])));
    }
}
