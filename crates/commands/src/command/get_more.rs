//! `getMore`: the next batch of a cursor.
//!
//! Source: MongoDB manual, "getMore" (database command).

use super::find::append_namespace;
use super::{CommandEntry, Execution, Run};
use crate::context::CommandContext;
use crate::counters::OperationClass;
use crate::cursors::{Batch, BatchEnd, PinnedCursor, not_found};
use crate::error::{CommandError, CommandResult, code};
use crate::interrupt::Interrupt;
use document::{DocumentBuilder, RawValue};
use std::time::Duration;

pub(crate) static COMMAND: CommandEntry = CommandEntry {
    execution: Execution::InlineFirst,
    class: OperationClass::GetMore,
    api_version_1: true,
    ..CommandEntry::new(
        "getMore",
        "Returns the next batch of a cursor.",
        Run::Later(|context, reply| Box::pin(run(context, reply))),
    )
};

/// How long an awaiting cursor waits when the client does not say.
const AWAIT_DEFAULT: Duration = Duration::from_secs(1);

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let id = match context.fields.target() {
        RawValue::Int64(id) => id,
        other => return Err(context.fields.wrong_type("getMore", other.kind(), &["long"])),
    };
    let fields = &mut context.fields;
    let name = fields.string("collection")?.ok_or_else(|| fields.missing("collection"))?;
    if name.is_empty() {
        return Err(CommandError::new(code::INVALID_NAMESPACE, "Collection names cannot be empty"));
    }
    let batch_size = fields.integer_at_least("batchSize", 0)?.filter(|size| *size > 0);
    fields.ignore(&["term", "lastKnownCommittedOpTime", "includeQueryStatsMetrics"]);
    fields.finish()?;
    context.operation.set_namespace(context.database, name);
    let namespace = format!("{}.{name}", context.database);
    let server = context.server;
    let pinned = server.cursors.pin(id, &namespace, context.generic.session)?;
    let limit = batch_size.map_or(usize::MAX, |size| usize::try_from(size).unwrap_or(usize::MAX));
    give_batch(context, reply, (name, id), pinned, limit).await
}

async fn give_batch(
    context: &CommandContext<'_>,
    reply: &mut DocumentBuilder<'_>,
    (name, id): (&str, i64),
    mut pinned: PinnedCursor<'_>,
    limit: usize,
) -> CommandResult {
    let Some(cursor) = pinned.cursor() else { return Err(not_found(id)) };
    let max_time = context.generic.max_time;
    if max_time.is_some() && !cursor.await_data {
        return Err(CommandError::bad_value(
            "cannot set maxTimeMS on getMore command for a non-awaitData cursor",
        ));
    }
    let await_until = cursor.await_data.then(|| context.started + max_time.unwrap_or(AWAIT_DEFAULT));
    let mut shown = reply.start_document("cursor");
    let mut batch = Batch::new(shown.start_array("nextBatch"), limit);
    if !cursor.source.begins_inline() {
        context.offload().await;
    }
    let batch_context = context.batch_context(await_until);
    let end = cursor.source.fill(&batch_context, &mut batch).await;
    let returned = batch.count() as u64;
    drop(batch);
    cursor.returned += returned;
    cursor.batches += 1;
    context.server.counters.documents_returned.add(returned);
    let next_id = match end {
        Err(error) => {
            pinned.close();
            return Err(error);
        }
        Ok(_) if pinned.is_killed() => return Err(killed(context.interrupt())),
        Ok(BatchEnd::More) => id,
        Ok(BatchEnd::Exhausted) => {
            pinned.close();
            0
        }
    };
    shown.append("id", next_id);
    append_namespace(&mut shown, context.database, name);
    Ok(())
}

fn killed(interrupt: &Interrupt) -> CommandError {
    let killed = || CommandError::new(code::CURSOR_KILLED, "cursor was killed while it was in use");
    interrupt.check().err().unwrap_or_else(killed)
}
