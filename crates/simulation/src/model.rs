//! What one client knows of the documents that are its own: the state that was acknowledged, and each change
//! that led there.
//!
//! A client does one thing after the other, so that the log has its changes in this order. What a crash
//! leaves is therefore the state after some first part of them: after all of them when the process dies, and
//! at least up to the last one that was journaled when the machine does.

use crate::disk::Crash;
use document::Document;
use std::collections::BTreeMap;

/// A collection, and a document's id in it; the empty id stands for the collection itself.
pub(crate) type Key = (String, String);
pub(crate) type State = BTreeMap<Key, Document>;

/// What an operation does to one document.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) key: Key,
    pub(crate) after: Option<Document>,
}

/// When an operation was asked for and answered, in steps of the run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) asked: u64,
    /// `None`: it was not acknowledged.
    pub(crate) acknowledged: Option<u64>,
}

/// A write of the past.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) text: String,
    pub(crate) changes: Vec<Change>,
    /// Its changes happen together or not at all.
    pub(crate) is_atomic: bool,
    /// It survives power cuts once it is acknowledged.
    pub(crate) is_journaled: bool,
    /// It was still running when the server died: it may have happened in part.
    pub(crate) is_unknown: bool,
    pub(crate) span: Span,
}

/// What became of writes at a crash, for the comparison between clients.
#[derive(Debug, Default)]
pub(crate) struct CrashedWrites {
    /// Those that are certainly there.
    pub(crate) survived: Vec<(Span, String)>,
    /// Those that were acknowledged and are certainly gone.
    pub(crate) lost: Vec<(Span, String)>,
}

/// One client's documents.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// After the last start.
    base: State,
    /// After all that happened.
    pub(crate) now: State,
    history: Vec<Write>,
}

fn apply(state: &mut State, changes: &[Change]) {
    for change in changes {
        match &change.after {
            Some(after) => drop(state.insert(change.key.clone(), after.clone())),
            None => drop(state.remove(&change.key)),
        }
    }
}

/// Whether `found` is `before` with some of the changes.
fn is_between(before: &State, changes: &[Change], found: &State) -> bool {
    let mut after = before.clone();
    apply(&mut after, changes);
    let touched = |key: &Key| changes.iter().any(|change| change.key == *key);
    let keys = || before.keys().chain(after.keys()).chain(found.keys());
    keys().all(|key| {
        let there = found.get(key);
        there == before.get(key) || (touched(key) && there == after.get(key))
    })
}

impl Model {
    /// Whether these changes change anything.
    pub(crate) fn is_changed_by(&self, changes: &[Change]) -> bool {
        changes.iter().any(|change| self.now.get(&change.key) != change.after.as_ref())
    }

    /// A write happened.
    pub(crate) fn happened(&mut self, write: Write) {
        if !write.is_unknown {
            apply(&mut self.now, &write.changes);
        }
        self.history.push(write);
    }

    /// A write happened in part: this was found after it.
    ///
    /// # Errors
    /// When it explains nothing of the kind.
    pub(crate) fn happened_partly(&mut self, mut write: Write, found: State) -> Result<(), String> {
        let all = {
            let mut after = self.now.clone();
            apply(&mut after, &write.changes);
            after == found
        };
        let fits = if write.is_atomic {
            all || found == self.now
        } else {
            is_between(&self.now, &write.changes, &found)
        };
        if !fits {
            return Err(difference(&self.now, &found, &format!("after `{}`, which failed", write.text)));
        }
        write.changes.retain(|change| found.get(&change.key) == change.after.as_ref());
        self.now = found;
        self.history.push(write);
        Ok(())
    }

    /// The server was started again after this, and this is what it has.
    ///
    /// # Errors
    /// When that is not what may be left.
    pub(crate) fn recovered(&mut self, crash: Crash, found: State) -> Result<CrashedWrites, String> {
        let certain = self.history.iter().filter(|write| !write.is_unknown).count();
        let journaled =
            self.history.iter().rposition(|write| write.is_journaled && write.span.acknowledged.is_some());
        let least = match crash {
            Crash::Kill => certain,
            Crash::PowerCut => journaled.map_or(0, |position| position + 1),
        };
        let mut state = self.base.clone();
        let (mut shortest, mut longest) = (None, None);
        for kept in 0..=self.history.len() {
            let next = self.history.get(kept);
            let partly =
                next.is_some_and(|write| !write.is_atomic && is_between(&state, &write.changes, &found));
            if kept >= least && (state == found || partly) {
                shortest.get_or_insert(kept);
                longest = Some(kept);
            }
            if let Some(write) = next {
                apply(&mut state, &write.changes);
            }
        }
        let (Some(shortest), Some(longest)) = (shortest, longest) else {
            let lost = self.history.get(least..).unwrap_or_default();
            let lost: Vec<&str> = lost.iter().map(|write| write.text.as_str()).collect();
            let text = format!(
                "after the crash; {least} of {} writes must be there, and {lost:#?} may be",
                self.history.len()
            );
            return Err(difference(&self.now, &found, &text));
        };
        let fate = |write: &Write| (write.span, write.text.clone());
        let survived = self.history.iter().take(shortest).filter(|write| !write.changes.is_empty()).map(fate);
        // The one at the end may be there in part.
        let lost = self.history.iter().skip(longest + 1);
        let lost =
            lost.filter(|write| write.span.acknowledged.is_some() && !write.changes.is_empty()).map(fate);
        let fates = CrashedWrites { survived: survived.collect(), lost: lost.collect() };
        self.base = found.clone();
        self.now = found;
        self.history.clear();
        Ok(fates)
    }
}

/// What is there and what should be.
pub(crate) fn difference(expected: &State, found: &State, when: &str) -> String {
    let mut text = format!("the documents differ {when}:\n");
    let mut keys: Vec<&Key> = expected.keys().chain(found.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys.into_iter().filter(|key| expected.get(key) != found.get(key)) {
        text.push_str(&format!(
            "  {key:?}\n    expected {:?}\n    found    {:?}\n",
            expected.get(key),
            found.get(key)
        ));
    }
    text
}

/// The log loses its end only: nothing that was asked for after the answer to a lost write may be there.
///
/// # Errors
/// Which two writes show that it has lost something else.
pub(crate) fn check_lost_end(fates: &[CrashedWrites]) -> Result<(), String> {
    let latest = fates.iter().flat_map(|fates| &fates.survived).max_by_key(|(span, _)| span.asked);
    let lost = fates.iter().flat_map(|fates| &fates.lost).min_by_key(|(span, _)| span.acknowledged);
    match (latest, lost) {
        (Some((survived, late)), Some((lost, early)))
            if lost.acknowledged.is_some_and(|step| step < survived.asked) =>
        {
            Err(format!(
                "`{early}` was acknowledged at step {:?} and is lost, `{late}` was asked for at step {} and \
                is there",
                lost.acknowledged, survived.asked
            ))
        }
        _ => Ok(()),
    }
}
