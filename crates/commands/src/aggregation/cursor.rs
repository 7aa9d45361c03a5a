//! Running a pipeline: for a cursor's batches, or to its end.

use super::reader::SharedSource;
use crate::context::{BatchContext, CommandContext};
use crate::cursors::{Batch, BatchEnd, BatchFuture, BatchProducer, Cursor, check_size};
use crate::error::{CommandError, CommandResult};
use crate::exec::Slice;
use crate::scheduling::Scheduling;
use crate::server::DataNode;
use document::{DocumentBuf, DocumentBuilder, RawDocument};
use query::aggregate::{DocumentSource, Flow, Pause, YieldPolicy};
use std::sync::Arc;
use storage::ReadSource;

/// Documents of a first batch when the client does not say.
const FIRST_BATCH_DOCUMENTS: usize = 101;

/// What a pipeline's error says first when the command that began it reports it.
pub(crate) fn pipeline_failed(error: CommandError) -> CommandError {
    error.within("PlanExecutor error during aggregation")
}

/// A pipeline that runs.
pub(crate) struct RunningPipeline {
    top: Box<dyn DocumentSource>,
    source: SharedSource,
    /// The slice that is under way; `None` before the first step of the next one.
    slice: Option<Slice>,
}

impl RunningPipeline {
    pub(crate) fn new(top: Box<dyn DocumentSource>, source: &SharedSource) -> Self {
        RunningPipeline { top, source: Arc::clone(source), slice: None }
    }

    /// Says what the next batch is read from.
    fn read_from(&self, source: &ReadSource) {
        self.source.lock().clone_from(source);
    }

    /// Shows `sink` the next documents, until it wants a pause or there are no more; others have their turn
    /// at the end of every slice.
    ///
    /// # Errors
    /// Kills and time limits, what the stages and the sink raise.
    pub(crate) async fn run(
        &mut self,
        scheduling: Scheduling<'_>,
        mut sink: impl FnMut(RawDocument<'_>) -> CommandResult<Flow>,
    ) -> CommandResult<Pause> {
        let mut refused = None;
        loop {
            let slice = self.slice.get_or_insert_with(|| scheduling.slice());
            let pause = self.top.run(slice, &mut |document| {
                let flow = check_size(document.as_bytes().len()).and_then(|()| sink(document));
                Ok(flow.unwrap_or_else(|error| {
                    refused = Some(error);
                    Flow::Pause
                }))
            })?;
            if let Some(error) = refused {
                return Err(error);
            }
            match pause {
                Pause::Sliced | Pause::WouldBlock => {
                    self.slice = None;
                    scheduling.end_slice().await?;
                }
                pause => return Ok(pause),
            }
        }
    }

    /// The next document.
    ///
    /// # Errors
    /// As [`RunningPipeline::run`].
    pub(crate) async fn next(&mut self, scheduling: Scheduling<'_>) -> CommandResult<Option<DocumentBuf>> {
        let mut next = None;
        self.run(scheduling, |document| {
            next = Some(document.to_buf());
            Ok(Flow::Pause)
        })
        .await?;
        // Who takes documents one by one stops before a slice is over: its steps are counted here.
        if self.slice.as_mut().is_some_and(YieldPolicy::should_yield) {
            self.slice = None;
            scheduling.end_slice().await?;
        }
        Ok(next)
    }

    /// Lets go of whatever the reads hold of the store, to be called when a batch is complete.
    fn save(&mut self) {
        self.top.save();
        self.slice = None;
    }
}

/// A running pipeline behind a cursor.
struct PipelineCursor {
    pipeline: RunningPipeline,
    /// Did not fit into the last batch.
    held: Option<DocumentBuf>,
}

impl PipelineCursor {
    async fn fill_batch(
        &mut self,
        scheduling: Scheduling<'_>,
        batch: &mut Batch<'_>,
    ) -> CommandResult<BatchEnd> {
        if batch.is_full() {
            return Ok(BatchEnd::More);
        }
        if let Some(held) = self.held.take() {
            batch.push(held.as_raw());
        }
        let mut is_large = false;
        while !batch.is_full() {
            let mut has_grown = false;
            let held = &mut self.held;
            let pause = self.pipeline.run(scheduling, |document| {
                if !batch.push(document) {
                    *held = Some(document.to_buf());
                    return Ok(Flow::Pause);
                }
                has_grown = !is_large && batch.is_large();
                Ok(if batch.is_full() || has_grown { Flow::Pause } else { Flow::More })
            });
            match pause.await? {
                Pause::End => return Ok(BatchEnd::Exhausted),
                _ if has_grown => {
                    is_large = true;
                    scheduling.reply_room().await?;
                }
                _ => break,
            }
        }
        Ok(BatchEnd::More)
    }
}

impl BatchProducer<DataNode> for PipelineCursor {
    fn fill<'a>(&'a mut self, context: &'a BatchContext<'a>, batch: &'a mut Batch<'_>) -> BatchFuture<'a> {
        Box::pin(async move {
            self.pipeline.read_from(context.source);
            let end = self.fill_batch(Scheduling::of_batch(context), batch).await;
            self.pipeline.save();
            end
        })
    }
}

/// Fills the first batch and appends `cursor: {id, ns, firstBatch}`; what is left stays behind an open
/// cursor. `single_batch` wants no cursor to stay.
///
/// # Errors
/// What the pipeline raises.
pub(crate) async fn give_first_batch(
    context: &CommandContext<'_>,
    reply: &mut DocumentBuilder<'_>,
    namespace: &str,
    pipeline: RunningPipeline,
    batch_size: Option<usize>,
    single_batch: bool,
) -> CommandResult {
    let mut source = Box::new(PipelineCursor { pipeline, held: None });
    let mut cursor = reply.start_document("cursor");
    let limit = batch_size.unwrap_or(FIRST_BATCH_DOCUMENTS);
    let mut batch = Batch::new(cursor.start_array("firstBatch"), limit);
    let end = source.fill(&context.batch_context(None), &mut batch).await.map_err(pipeline_failed)?;
    let returned = batch.count() as u64;
    drop(batch);
    let id = match end {
        BatchEnd::More if !single_batch => {
            let mut open = Cursor::new(namespace, context.generic.session, context.body, source);
            open.returned = returned;
            open.time_left = context.time_left();
            context.server.cursors.open(open)
        }
        _ => 0,
    };
    cursor.append("id", id).append("ns", namespace);
    Ok(())
}
