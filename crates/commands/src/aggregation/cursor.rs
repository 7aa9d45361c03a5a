//! Pulling a pipeline: for a cursor's batches, or to its end.

use super::OpenReads;
use crate::context::{BatchContext, CommandContext};
use crate::cursors::{Batch, BatchEnd, BatchFuture, Cursor, CursorSource, check_size};
use crate::error::{CommandError, CommandResult};
use crate::interrupt::Interrupt;
use crate::turns::Turns;
use catalog::give_way;
use document::{DocumentBuf, DocumentBuilder};
use query::aggregate::{Stage, Step};

/// Documents of a first batch when the client does not say.
const FIRST_BATCH_DOCUMENTS: usize = 101;
/// Documents between two looks at the interrupt switch, for pipelines that never come to the end of a slice.
const DOCUMENTS_PER_CHECK: u32 = 128;

/// What a pipeline's error says first when the command that began it reports it.
pub(crate) fn pipeline_failed(error: CommandError) -> CommandError {
    error.within("PlanExecutor error during aggregation")
}

/// A pipeline that runs.
pub(crate) struct RunningPipeline {
    top: Box<dyn Stage>,
    reads: OpenReads,
    until_check: u32,
}

impl RunningPipeline {
    /// The pipeline whose last stage is `top` and whose reads are these.
    pub(crate) fn new(top: Box<dyn Stage>, reads: OpenReads) -> Self {
        RunningPipeline { top, reads, until_check: DOCUMENTS_PER_CHECK }
    }

    /// The next document; others have their turn at the end of every slice.
    ///
    /// # Errors
    /// Kills and time limits, what the stages raise.
    pub(crate) async fn next(&mut self, interrupt: &Interrupt) -> CommandResult<Option<DocumentBuf>> {
        loop {
            match self.top.next()? {
                Step::Document(document) => {
                    check_size(document.len())?;
                    self.until_check -= 1;
                    if self.until_check == 0 {
                        self.until_check = DOCUMENTS_PER_CHECK;
                        interrupt.check()?;
                    }
                    return Ok(Some(document));
                }
                Step::Yield => {
                    interrupt.check()?;
                    give_way().await;
                }
                Step::End => return Ok(None),
            }
        }
    }
}

/// A running pipeline behind a cursor.
pub(crate) struct PipelineCursor {
    pipeline: RunningPipeline,
    /// Did not fit into the last batch.
    held: Option<DocumentBuf>,
}

impl PipelineCursor {
    /// A cursor's source over this pipeline.
    pub(crate) fn new(pipeline: RunningPipeline) -> Self {
        PipelineCursor { pipeline, held: None }
    }

    async fn fill_batch(&mut self, turns: Turns<'_>, batch: &mut Batch<'_>) -> CommandResult<BatchEnd> {
        let mut is_large = false;
        while !batch.is_full() {
            let document = match self.held.take() {
                Some(document) => document,
                None => match self.pipeline.next(turns.interrupt()).await? {
                    Some(document) => document,
                    None => return Ok(BatchEnd::Exhausted),
                },
            };
            if !batch.push(document.as_raw()) {
                self.held = Some(document);
                break;
            }
            if !is_large && batch.is_large() {
                is_large = true;
                turns.reply_room().await?;
            }
        }
        Ok(BatchEnd::More)
    }
}

impl CursorSource for PipelineCursor {
    fn fill<'a>(&'a mut self, context: &'a BatchContext<'a>, batch: &'a mut Batch<'_>) -> BatchFuture<'a> {
        Box::pin(async move {
            self.pipeline.reads.read_from(context.source);
            let end = self.fill_batch(context.turns, batch).await;
            self.pipeline.reads.save();
            end
        })
    }
}

/// Fills the first batch and appends `cursor: {id, ns, firstBatch}`; what is left stays behind an open cursor. `single_batch`
/// wants no cursor to stay.
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
    let mut source = Box::new(PipelineCursor::new(pipeline));
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
