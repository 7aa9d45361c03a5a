//! What must hold, whatever happens.

use crate::client::{Outcome, PAIR, SINGLES, Task};
use crate::linear::{self, Call, Request};
use replication::Term;
use std::collections::BTreeMap;

/// What is known of the numbers of one document.
#[derive(Debug, Default)]
struct History {
    /// The longest list that anybody was shown: the one history.
    shown: Vec<i64>,
    requests: Vec<Request>,
    /// Refused before anything was done.
    never: Vec<i64>,
}

/// Whether a document of one number is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    There,
    Gone,
    /// Nobody was told.
    Open,
}

/// What clients and readers were told; the history of the pair is one.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    histories: BTreeMap<i32, History>,
    bag: BTreeMap<i64, Presence>,
    leaders: BTreeMap<Term, usize>,
    /// Calls and answers so far.
    moment: u64,
    pub(crate) writes: usize,
    pub(crate) reads: usize,
    pub(crate) views: usize,
}

impl Checker {
    fn of(&mut self, id: i32) -> &mut History {
        self.histories.entry(if PAIR.contains(&id) { PAIR[0] } else { id }).or_default()
    }

    /// The next moment: no two calls or answers are at the same.
    pub(crate) fn moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// Somebody has asked for this then, and is told what became of it.
    pub(crate) fn answered(&mut self, task: Task, called: u64, outcome: &Outcome) {
        let is_known = !matches!(outcome, Outcome::Unknown);
        match (task, outcome) {
            (Task::Append(id, number), Outcome::Never) => self.of(id).never.push(number),
            (Task::AppendToPair(number), Outcome::Never) => self.of(PAIR[0]).never.push(number),
            (Task::Append(id, number), _) => self.appends(id, number, called, is_known),
            (Task::AppendToPair(number), _) => self.appends(PAIR[0], number, called, is_known),
            (Task::Read(id), Outcome::Read(seen)) => self.read(id, seen, called),
            (Task::Insert(number), Outcome::Never) => drop(self.bag.insert(number, Presence::Gone)),
            (Task::Remove(_), Outcome::Never) => {}
            (Task::Insert(number), Outcome::Written) => drop(self.bag.insert(number, Presence::There)),
            (Task::Remove(number), Outcome::Written) => drop(self.bag.insert(number, Presence::Gone)),
            (Task::Insert(number) | Task::Remove(number), _) => drop(self.bag.insert(number, Presence::Open)),
            (Task::Read(_) | Task::Prepare, _) => {}
        }
    }

    fn appends(&mut self, id: i32, number: i64, called: u64, is_known: bool) {
        let answered = if is_known { self.moment() } else { u64::MAX };
        self.writes += usize::from(is_known);
        let call = Call::Append(number);
        self.of(id).requests.push(Request { call, called, answered });
    }

    fn read(&mut self, id: i32, seen: &[i64], called: u64) {
        self.reads += 1;
        self.is_of_one_history(id, seen);
        let answered = self.moment();
        self.of(id).requests.push(Request { call: Call::Read(seen.len()), called, answered });
    }

    /// What a member shows, where it has shown `before`.
    pub(crate) fn view(&mut self, member: usize, id: i32, before: &[i64], now: &[i64]) {
        self.views += 1;
        assert!(now.starts_with(before), "member {member} showed {before:?} of {id}, and then {now:?}");
        self.is_of_one_history(id, now);
    }

    fn is_of_one_history(&mut self, id: i32, seen: &[i64]) {
        let shown = &mut self.of(id).shown;
        let (short, long) = if seen.len() < shown.len() { (seen, &shown[..]) } else { (&shown[..], seen) };
        assert!(long.starts_with(short), "{id} has two histories: {shown:?} and {seen:?}");
        if seen.len() > shown.len() {
            *shown = seen.to_vec();
        }
    }

    /// A member says that it is the primary of this term.
    pub(crate) fn leads(&mut self, member: usize, term: Term) {
        let leader = *self.leaders.entry(term).or_insert(member);
        assert_eq!(leader, member, "two primaries in term {term}");
    }

    /// How many primaries there were.
    pub(crate) fn terms(&self) -> usize {
        self.leaders.len()
    }

    /// At the end all members have this: what was acknowledged is in it, once, in an order that goes with all
    /// answers.
    pub(crate) fn is_whole(&mut self, id: i32, list: &[i64]) {
        self.is_of_one_history(id, list);
        let history = self.of(id);
        let mut sorted = list.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), list.len(), "something was done twice to {id}: {list:?}");
        for number in &history.never {
            assert!(!list.contains(number), "{number} was refused before anything was done, and is there");
        }
        // What nobody was told of may have been done or not.
        history.requests.retain(|request| match request.call {
            Call::Append(number) if !list.contains(&number) => {
                assert_eq!(request.answered, u64::MAX, "{number} was acknowledged and is lost: {list:?}");
                false
            }
            _ => true,
        });
        if let Err(longest) = linear::order(&history.requests, list) {
            let fits: Vec<_> = longest.iter().map(|place| history.requests[*place]).collect();
            let requests = history.requests.iter().enumerate();
            let rest: Vec<_> = requests.filter(|(place, _)| !longest.contains(place)).collect();
            panic!("the answers about {id} are not linearizable: {fits:#?} fit {list:?}, and then {rest:#?}");
        }
    }

    /// At the end all members have these documents of one number.
    pub(crate) fn has_all(&self, bag: &[i64]) {
        for number in bag {
            let told = self.bag.get(number);
            assert!(told.is_some_and(|told| *told != Presence::Gone), "{number} is there: {told:?}");
        }
        for (number, _) in self.bag.iter().filter(|(_, told)| **told == Presence::There) {
            assert!(bag.contains(number), "{number} was inserted and is lost: {bag:?}");
        }
    }
}

/// All documents.
pub(crate) fn documents() -> impl Iterator<Item = i32> {
    SINGLES.chain(PAIR)
}
