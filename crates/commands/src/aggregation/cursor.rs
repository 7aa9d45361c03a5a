//! Running a pipeline: for a cursor's batches, or to its end.

use super::reader::SharedSource;
use crate::context::{BatchContext, CommandContext};
use crate::cursors::{Batch, BatchEnd, BatchFuture, BatchProducer, ClientCursor, check_size};
use crate::error::{CommandError, CommandResult};
use crate::exec::{Located, Read, ResultShape, Slice, Slices, Verdict, fill_batch};
use crate::scheduling::Scheduling;
use crate::server::DataNode;
use document::{DocumentBuf, DocumentBuilder};
use query::aggregate::{DocumentSource, Flow, Pause};
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
    /// What the sink refused.
    refused: Option<DocumentBuf>,
}

impl RunningPipeline {
    pub(crate) fn new(top: Box<dyn DocumentSource>, source: &SharedSource) -> Self {
        RunningPipeline { top, source: Arc::clone(source), refused: None }
    }

    /// The next document.
    ///
    /// # Errors
    /// As [`Slices::run`].
    pub(crate) async fn next(&mut self, slices: &mut Slices<'_>) -> CommandResult<Option<DocumentBuf>> {
        let mut next = None;
        let take = |located: Located<'_>| {
            next = Some(located.document.to_buf());
            Ok(Verdict::TakeAndStop)
        };
        slices.run(self, take).await?;
        slices.step().await?;
        Ok(next)
    }
}

impl Read for RunningPipeline {
    /// The command has gone where pipelines run, unless it is a report of the server's own.
    fn surely_outlasts(&self) -> bool {
        false
    }

    fn run(
        &mut self,
        slice: &mut Slice,
        sink: &mut impl FnMut(Located<'_>) -> CommandResult<Verdict>,
    ) -> CommandResult<Pause> {
        if let Some(document) = self.refused.take() {
            match sink(Located::of(document.as_raw()))? {
                Verdict::Take | Verdict::Ignore => {}
                Verdict::TakeAndStop => return Ok(Pause::Stopped),
                Verdict::Refuse => {
                    self.refused = Some(document);
                    return Ok(Pause::Stopped);
                }
            }
        }
        let (mut raised, refused) = (None, &mut self.refused);
        let pause = self.top.run(slice, &mut |document| {
            let shown = check_size(document.as_bytes().len()).and_then(|()| sink(Located::of(document)));
            Ok(match shown {
                Ok(Verdict::Take | Verdict::Ignore) => return Ok(Flow::More),
                Ok(Verdict::TakeAndStop) => Flow::Pause,
                Ok(Verdict::Refuse) => {
                    *refused = Some(document.to_buf());
                    Flow::Pause
                }
                Err(error) => {
                    raised = Some(error);
                    Flow::Pause
                }
            })
        })?;
        raised.map_or(Ok(pause), Err)
    }
}

/// A running pipeline behind a cursor.
struct PipelineCursor(RunningPipeline);

impl BatchProducer<DataNode> for PipelineCursor {
    fn fill<'a>(&'a mut self, context: &'a BatchContext<'a>, batch: &'a mut Batch<'_>) -> BatchFuture<'a> {
        Box::pin(async move {
            let pipeline = &mut self.0;
            pipeline.source.lock().clone_from(context.source);
            let shape = &mut ResultShape::default();
            let end = fill_batch(pipeline, shape, Scheduling::of_batch(context), batch).await;
            // Whatever the reads hold of the store goes when a batch is complete.
            pipeline.top.save();
            *pipeline.source.lock() = ReadSource::Released;
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
    let mut source = Box::new(PipelineCursor(pipeline));
    let mut cursor = reply.start_document("cursor");
    let limit = batch_size.unwrap_or(FIRST_BATCH_DOCUMENTS);
    let mut batch = Batch::new(cursor.start_array("firstBatch"), limit);
    let end = source.fill(&context.batch_context(None), &mut batch).await.map_err(pipeline_failed)?;
    let returned = batch.count() as u64;
    drop(batch);
    let id = match end {
        BatchEnd::More if !single_batch => {
            let mut open = ClientCursor::new(namespace, context.generic.session, context.body, source);
            open.owner = context.client.access.user_name();
            open.returned = returned;
            open.time_left = context.time_left();
            open.snapshot = context.snapshot();
            context.server.cursors.open(open)
        }
        _ => 0,
    };
    context.append_snapshot_time(&mut cursor);
    cursor.append("id", id).append("ns", namespace);
    Ok(())
}
