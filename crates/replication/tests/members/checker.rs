//! What must hold, whatever happens.

use crate::client::{PAIR, SINGLES};
use std::collections::BTreeMap;

/// What is known of the numbers of one document.
#[derive(Debug, Default)]
struct History {
    /// The longest list that anybody was shown: the one history.
    shown: Vec<i64>,
    /// Acknowledged, in the order of the acknowledgements.
    acknowledged: Vec<i64>,
    /// Refused before anything was done.
    never: Vec<i64>,
    /// For each number, how many of the acknowledged ones were so before it was asked for.
    floors: BTreeMap<i64, usize>,
}

/// The documents' histories; that of the pair is one.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    histories: BTreeMap<i32, History>,
    pub(crate) writes: usize,
    pub(crate) reads: usize,
    pub(crate) views: usize,
}

impl Checker {
    fn of(&mut self, id: i32) -> &mut History {
        self.histories.entry(if PAIR.contains(&id) { PAIR[0] } else { id }).or_default()
    }

    /// Somebody asks for a number, or to read: whatever is acknowledged by now is before it.
    pub(crate) fn begins(&mut self, id: i32) -> usize {
        self.of(id).acknowledged.len()
    }

    pub(crate) fn acknowledged(&mut self, id: i32, value: i64, floor: usize) {
        self.writes += 1;
        let history = self.of(id);
        history.acknowledged.push(value);
        history.floors.insert(value, floor);
    }

    pub(crate) fn never(&mut self, id: i32, value: i64) {
        self.of(id).never.push(value);
    }

    /// A read that saw this began when so many had been acknowledged.
    pub(crate) fn read(&mut self, id: i32, seen: &[i64], floor: usize) {
        self.reads += 1;
        self.is_of_one_history(id, seen);
        for value in &self.of(id).acknowledged[..floor] {
            assert!(
                seen.contains(value),
                "a read of {id} does not see {value}, acknowledged before it began: {seen:?}"
            );
        }
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

    /// At the end all members have this.
    pub(crate) fn is_whole(&mut self, id: i32, list: &[i64]) {
        self.is_of_one_history(id, list);
        let history = self.of(id);
        let mut sorted = list.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), list.len(), "something was done twice to {id}: {list:?}");
        let place = |value: &i64| list.iter().position(|known| known == value);
        for value in &history.acknowledged {
            let own =
                place(value).unwrap_or_else(|| panic!("{value} was acknowledged and is lost: {list:?}"));
            for earlier in &history.acknowledged[..history.floors[value]] {
                assert!(place(earlier) < Some(own), "{value} came after {earlier} and is before it");
            }
        }
        for value in &history.never {
            assert_eq!(place(value), None, "{value} was refused before anything was done, and is there");
        }
    }
}

/// All documents.
pub(crate) fn documents() -> impl Iterator<Item = i32> {
    SINGLES.chain(PAIR)
}
