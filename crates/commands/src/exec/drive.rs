//! Driving a read: slice after slice, for a batch or to its end.

use super::output::ResultShape;
use super::scan::{Located, Verdict};
use super::slice::Slice;
use crate::cursors::{Batch, BatchEnd};
use crate::error::CommandResult;
use crate::scheduling::Scheduling;
use query::aggregate::{Pause, YieldPolicy};

/// A read that shows documents: a query, or a pipeline.
pub(crate) trait Read {
    /// Whether it is not for an event loop from its first document on.
    fn surely_outlasts(&self) -> bool;

    /// Shows `sink` the next documents until something makes it pause. What the sink refuses comes again
    /// first.
    ///
    /// # Errors
    /// What reading, the stages and the sink say; the read is over then.
    fn run(
        &mut self,
        slice: &mut Slice,
        sink: &mut impl FnMut(Located<'_>) -> CommandResult<Verdict>,
    ) -> CommandResult<Pause>;
}

/// The slices of one read, one after the other. Whoever takes documents one by one uses up one slice with
/// many of them.
pub(crate) struct Slices<'c> {
    scheduling: Scheduling<'c>,
    /// `None` before the first step of the next one.
    current: Option<Slice>,
}

impl<'c> Slices<'c> {
    pub(crate) const fn new(scheduling: Scheduling<'c>) -> Self {
        Slices { scheduling, current: None }
    }

    /// Counts a step that is made between two runs; others are let in when the slice is over.
    ///
    /// # Errors
    /// Kills and time limits.
    pub(crate) async fn step(&mut self) -> CommandResult {
        if self.current.as_mut().is_some_and(YieldPolicy::should_yield) {
            self.end().await?;
        }
        Ok(())
    }

    async fn end(&mut self) -> CommandResult {
        self.current = None;
        self.scheduling.end_slice().await
    }

    async fn leave_memory(&mut self) -> CommandResult {
        self.current = None;
        self.scheduling.leave_memory().await
    }

    /// Runs until the sink stops it or there is no more. Others are let in between slices; what an event loop
    /// cannot do in its slice goes on where it may block.
    ///
    /// # Errors
    /// Those of [`Read::run`]; kills and time limits.
    pub(crate) async fn run<R: Read>(
        &mut self,
        read: &mut R,
        mut sink: impl FnMut(Located<'_>) -> CommandResult<Verdict>,
    ) -> CommandResult<Pause> {
        loop {
            let slice = self.current.get_or_insert_with(|| self.scheduling.slice());
            match read.run(slice, &mut sink)? {
                Pause::Sliced => self.end().await?,
                Pause::WouldBlock => self.leave_memory().await?,
                pause => {
                    self.scheduling.interrupt().check()?;
                    return Ok(pause);
                }
            }
        }
    }
}

/// Runs until the end or until the sink stops it; see [`Slices::run`].
///
/// # Errors
/// As [`Slices::run`].
pub(crate) async fn run_all<R: Read>(
    read: &mut R,
    scheduling: Scheduling<'_>,
    sink: impl FnMut(Located<'_>) -> CommandResult<Verdict>,
) -> CommandResult<Pause> {
    if read.surely_outlasts() {
        scheduling.offload().await;
    }
    Slices::new(scheduling).run(read, sink).await
}

/// Fills a batch with what the read shows.
///
/// # Errors
/// As [`Slices::run`]; what showing a document says.
pub(crate) async fn fill_batch<R: Read>(
    read: &mut R,
    shape: &mut ResultShape,
    scheduling: Scheduling<'_>,
    batch: &mut Batch<'_>,
) -> CommandResult<BatchEnd> {
    if batch.is_full() {
        // Nothing is read: only the cursor is wanted.
        return Ok(BatchEnd::More);
    }
    if read.surely_outlasts() || shape.computes() {
        scheduling.offload().await;
    }
    let mut slices = Slices::new(scheduling);
    let mut is_large = false;
    loop {
        let mut has_grown = false;
        let pause = slices.run(read, |located| {
            if !shape.push(batch, &located)? {
                return Ok(Verdict::Refuse);
            }
            has_grown = !is_large && batch.is_large() && !batch.is_full();
            Ok(if batch.is_full() || has_grown { Verdict::TakeAndStop } else { Verdict::Take })
        });
        match pause.await? {
            Pause::End => return Ok(BatchEnd::Exhausted),
            _ if has_grown => {
                is_large = true;
                scheduling.reply_room().await?;
            }
            _ => return Ok(BatchEnd::More),
        }
    }
}
