//! Whether a walk will outlast the slice that an event loop gives it, judged by the last walks alike. One that will goes to where it may take
//! long before it begins: that saves the loop the slice, and the walk a second way to its position.

use super::slice::{Pause, Slice};
use crate::error::CommandResult;
use crate::turns::Turns;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

/// Kinds of walks that are told apart; those beyond share a score with another one.
const KINDS: usize = 4 << 10;
/// A kind's score rises by one with each walk that outlasts a slice, up to this, and falls with each that does not.
const SCORE_MAX: u8 = 3;
/// From this score on the next walk of the kind is expected to outlast its slice.
const OUTLASTS: u8 = 2;

/// The scores of all kinds of walks.
#[derive(Debug)]
pub(crate) struct Forecasts {
    scores: Box<[AtomicU8]>,
}

impl Default for Forecasts {
    fn default() -> Self {
        Forecasts { scores: (0..KINDS).map(|_| AtomicU8::new(0)).collect() }
    }
}

impl Forecasts {
    /// Whether the next walk of this kind is expected to outlast a slice.
    fn outlasts(&self, kind: u64) -> bool {
        self.score(kind).is_some_and(|score| score.load(Ordering::Relaxed) >= OUTLASTS)
    }

    /// Notes how a walk went.
    fn note(&self, kind: u64, outlasted: bool) {
        let Some(score) = self.score(kind) else { return };
        let before = score.load(Ordering::Relaxed);
        let after = if outlasted { (before + 1).min(SCORE_MAX) } else { before.saturating_sub(1) };
        // Two at once count as one: it is a guess either way. Written only when it changes, so that cores can share the line.
        if after != before {
            score.store(after, Ordering::Relaxed);
        }
    }

    fn score(&self, kind: u64) -> Option<&AtomicU8> {
        self.scores.get(kind as usize % KINDS)
    }
}

/// One walk: where it begins, its slices, and what is learnt from it.
#[derive(Debug)]
pub(crate) struct Walk<'c> {
    turns: Turns<'c>,
    kind: u64,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// In an event loop, within its slice.
    InLoop,
    /// It was sent away before it began, at this time.
    Foreseen(Instant),
    /// There is nothing to be learnt, or it was.
    Settled,
}

impl<'c> Walk<'c> {
    /// Begins a walk of this kind where it belongs; a walk that `surely` takes long needs no forecast.
    pub(crate) async fn begin(turns: Turns<'c>, kind: u64, surely: bool) -> Self {
        let stage = if turns.may_block() {
            Stage::Settled
        } else if surely {
            turns.offload().await;
            Stage::Settled
        } else if turns.forecasts().outlasts(kind) {
            turns.offload().await;
            Stage::Foreseen(ambient::now())
        } else {
            Stage::InLoop
        };
        Walk { turns, kind, stage }
    }

    /// A slice for the next steps.
    pub(crate) fn slice(&self) -> Slice {
        self.turns.slice()
    }

    /// As [`Turns::end_slice`], after this pause.
    ///
    /// # Errors
    /// The reason for the operation's end.
    pub(crate) async fn end_slice(&mut self, pause: Pause) -> CommandResult {
        if matches!(self.stage, Stage::InLoop) {
            self.stage = Stage::Settled;
            // A walk that has to wait for the disk tells nothing about the next one.
            if pause == Pause::Sliced {
                self.turns.forecasts().note(self.kind, true);
            }
        }
        self.turns.end_slice().await
    }

    /// The walk has ended or has what it wanted.
    ///
    /// # Errors
    /// The reason for the operation's end, should it have been ended meanwhile.
    pub(crate) fn end(self) -> CommandResult {
        match self.stage {
            Stage::InLoop => self.turns.forecasts().note(self.kind, false),
            Stage::Foreseen(began) => {
                self.turns.forecasts().note(self.kind, ambient::elapsed(began) >= self.turns.loop_slice())
            }
            Stage::Settled => {}
        }
        self.turns.interrupt().check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expects_what_happened_lately() {
        let forecasts = Forecasts::default();
        let check = |history: &[bool], expect: bool| {
            history.iter().for_each(|outlasted| forecasts.note(7, *outlasted));
            assert_eq!(forecasts.outlasts(7), expect, "after {history:?} more");
        };
        check(&[], false);
        check(&[true], false);
        check(&[true], true);
        check(&[true, true, true, false], true);
        check(&[false], false);
        check(&[false, false, true], false);
        assert!(!forecasts.outlasts(8), "another kind");
    }
}
