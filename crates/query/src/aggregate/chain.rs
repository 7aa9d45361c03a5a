//! Running a pipeline: the source lends its documents, each stage hands on what it makes of them, and they
//! are copied only where a stage keeps them.
//!
//! ```text
//!  source.run(policy) ─lends─▶ stage.take ─▶ Downstream::give ─▶ stage.take ─▶ … ─▶ sink
//!                              │ holds() documents back            answers Flow: More, or Pause
//!                              └─ Chain::drive: the hindmost stage that holds some resumes first
//! ```

use std::cell::Cell;

use document::{DocumentBuf, RawDocument};

use crate::error::QueryError;

use super::{PipelineContext, StagePlan};

/// What whoever is shown a document answers. Either way the document was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on with the next one.
    More,
    /// Show no other one before you are asked.
    Pause,
}

/// How long a walk may go on before others are let in.
pub trait YieldPolicy {
    /// Counts a step. True when the slice is over.
    fn should_yield(&mut self) -> bool;
}

/// Why a walk paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// The sink wanted it.
    Stopped,
    /// The slice is over.
    Sliced,
    /// What comes next is not in memory, and the walk may not read further.
    WouldBlock,
    /// There is nothing more (for a tailable walk: for now).
    End,
}

/// Whoever is shown documents.
pub type Sink<'s> = dyn FnMut(RawDocument<'_>) -> Result<Flow, QueryError> + 's;

/// Something that shows documents: a walk over a collection, or a whole pipeline.
pub trait DocumentSource: Send {
    /// Goes on showing documents until something makes it pause. After [`Pause::End`] or an error there are
    /// no more.
    ///
    /// # Errors
    /// What reading, the stages and the sink raise.
    fn run(&mut self, policy: &mut dyn YieldPolicy, sink: &mut Sink<'_>) -> Result<Pause, QueryError>;

    /// Lets go of whatever is held of a store; the next run goes on from here.
    fn save(&mut self);
}

/// A stage of a running pipeline.
pub(super) trait Stage: Send {
    /// Takes a document of the input, and hands on what it makes of it. What `rest` answers to the last one
    /// handed on is the answer, and after a pause nothing more may be handed on: the stage holds it back.
    fn take(&mut self, document: RawDocument<'_>, out: &mut Downstream<'_>) -> Result<Flow, QueryError>;

    /// The input has ended.
    fn end(&mut self) -> Result<(), QueryError> {
        Ok(())
    }

    /// Whether there are documents to hand on before the next one can be taken.
    fn holds(&self) -> bool {
        false
    }

    /// Hands on what is held back. [`Pause::End`]: nothing is any more.
    fn resume(
        &mut self,
        _policy: &mut dyn YieldPolicy,
        _rest: &mut Downstream<'_>,
    ) -> Result<Pause, QueryError> {
        Ok(Pause::End)
    }

    /// Whether no further document makes a difference.
    fn is_done(&self) -> bool {
        false
    }

    /// As [`DocumentSource::save`].
    fn save(&mut self) {}
}

/// The stages behind one stage, and whoever is shown what comes out.
pub(super) struct Downstream<'r> {
    stages: &'r mut [Box<dyn Stage>],
    sink: &'r mut Sink<'r>,
}

impl Downstream<'_> {
    /// Hands on a document.
    #[inline]
    pub(super) fn give(&mut self, document: RawDocument<'_>) -> Result<Flow, QueryError> {
        match self.stages.split_first_mut() {
            Some((next, stages)) => next.take(document, &mut Downstream { stages, sink: &mut *self.sink }),
            None => (self.sink)(document),
        }
    }

    /// Hands on everything that `next` yields, for as long as the slice lasts.
    pub(super) fn give_all(
        &mut self,
        policy: &mut dyn YieldPolicy,
        mut next: impl FnMut() -> Result<Option<DocumentBuf>, QueryError>,
    ) -> Result<Pause, QueryError> {
        while let Some(document) = next()? {
            if self.give(document.as_raw())? == Flow::Pause {
                return Ok(Pause::Stopped);
            }
            if policy.should_yield() {
                return Ok(Pause::Sliced);
            }
        }
        Ok(Pause::End)
    }
}

/// Stages one behind the other.
pub(super) struct Chain {
    stages: Vec<Box<dyn Stage>>,
    /// The hindmost stage whose input has ended; those before it are through.
    ended: Option<usize>,
}

impl Chain {
    pub(super) fn open(plans: &[StagePlan], context: &PipelineContext) -> Result<Self, QueryError> {
        let mut stages = Vec::with_capacity(plans.len());
        for (position, plan) in plans.iter().enumerate() {
            let (_, behind) = plans.split_at(position + 1);
            stages.push(plan.open(behind, context)?);
        }
        Ok(Chain { stages, ended: None })
    }

    /// Whether nothing that comes in makes a difference.
    pub(super) fn is_closed(&self) -> bool {
        self.ended.is_some()
    }

    #[inline]
    pub(super) fn take(
        &mut self,
        document: RawDocument<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<Flow, QueryError> {
        Downstream { stages: &mut self.stages, sink }.give(document)
    }

    /// The input has ended.
    pub(super) fn end(&mut self) -> Result<(), QueryError> {
        self.end_at(0)
    }

    fn end_at(&mut self, position: usize) -> Result<(), QueryError> {
        self.ended = Some(position);
        self.stages.get_mut(position).map_or(Ok(()), |stage| stage.end())
    }

    /// Hands on what the stages hold back, the hindmost first: nothing overtakes. [`Pause::End`]: the chain
    /// wants its next document, or nothing more comes out of it when its input has ended.
    pub(super) fn drive(
        &mut self,
        policy: &mut dyn YieldPolicy,
        sink: &mut Sink<'_>,
    ) -> Result<Pause, QueryError> {
        let stopped = Cell::new(false);
        let mut sink = |document: RawDocument<'_>| -> Result<Flow, QueryError> {
            let flow = sink(document)?;
            stopped.set(flow == Flow::Pause);
            Ok(flow)
        };
        loop {
            let first = self.ended.unwrap_or(0);
            let open = self.stages.get_mut(first..).expect("no more stages have ended than there are");
            let done = open.iter().rposition(|stage| stage.is_done()).map(|position| first + position);
            if let Some(done) = done.filter(|done| self.ended != Some(*done)) {
                self.end_at(done)?;
            } else if let Some(position) = open.iter().rposition(|stage| stage.holds())
                && let Some((stage, stages)) =
                    open.get_mut(position..).and_then(<[Box<dyn Stage>]>::split_first_mut)
            {
                let pause = stage.resume(policy, &mut Downstream { stages, sink: &mut sink })?;
                if stopped.get() || matches!(pause, Pause::Sliced | Pause::WouldBlock) {
                    return Ok(if stopped.get() { Pause::Stopped } else { pause });
                }
            } else if self.ended.is_some() && first + 1 < self.stages.len() {
                self.end_at(first + 1)?;
            } else {
                return Ok(Pause::End);
            }
        }
    }

    pub(super) fn save(&mut self) {
        self.stages.iter_mut().for_each(|stage| stage.save());
    }
}

/// A source and the stages behind it.
pub(super) struct Running {
    source: Box<dyn DocumentSource>,
    chain: Chain,
}

impl Running {
    pub(super) fn new(source: Box<dyn DocumentSource>, chain: Chain) -> Self {
        Running { source, chain }
    }
}

impl DocumentSource for Running {
    fn run(&mut self, policy: &mut dyn YieldPolicy, sink: &mut Sink<'_>) -> Result<Pause, QueryError> {
        loop {
            let pause = self.chain.drive(policy, sink)?;
            if pause != Pause::End || self.chain.is_closed() {
                return Ok(pause);
            }
            let stopped = Cell::new(false);
            let mut outer = |document: RawDocument<'_>| -> Result<Flow, QueryError> {
                let flow = sink(document)?;
                stopped.set(flow == Flow::Pause);
                Ok(flow)
            };
            let chain = &mut self.chain;
            match self.source.run(policy, &mut |document| chain.take(document, &mut outer))? {
                Pause::End => {
                    self.chain.end()?;
                    if stopped.get() {
                        return Ok(Pause::Stopped);
                    }
                }
                Pause::Stopped if !stopped.get() => {}
                pause => return Ok(pause),
            }
        }
    }

    fn save(&mut self) {
        self.source.save();
        self.chain.save();
    }
}
