//! `getMore`: the next batch of a cursor, or all that are left, one reply each, for a client that takes them
//! unasked (exhaust).
//!
//! Source: MongoDB manual, "getMore" (database command).

use super::{Command, Execution, Run, TimeLimit};
use crate::concern::ReadConcerns;
use crate::context::{CommandContext, append_snapshot_time};
use crate::counters::OperationClass;
use crate::cursors::{Batch, BatchEnd, ClientCursor, PinnedCursor, append_namespace};
use crate::error::{CommandError, CommandResult, code};
use crate::failpoints::{FailPoint, check_time_limit, fail_after_checkout, wait_while_set};
use crate::node::Node;
use crate::request::Next;
use document::{DocumentBuilder, RawValue};
use std::time::Duration;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        execution: Execution::InlineFirst,
        class: OperationClass::GetMore,
        // Its cursor has what it reads from; drivers send it all the same.
        read_concerns: ReadConcerns::All,
        time_limit: TimeLimit::Own,
        api_version_1: true,
        ..Command::new(
            "getMore",
            "Returns the next batch of a cursor.",
            Run::Later(|context, reply| Box::pin(run(context, reply))),
        )
    }
}

/// How long an awaiting cursor waits when the client does not say.
const AWAIT_DEFAULT: Duration = Duration::from_secs(1);

/// How messages call what failed.
const EXECUTION: &str = "Executor error during getMore";

async fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
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
    if server.access.is_enforced()
        && let Some((_, owner)) = server.cursors.namespace(id)
        && !context.owns(owner.as_ref())
    {
        let message = format!("cursor id {id} was not created by the authenticated user");
        return Err(CommandError::new(code::UNAUTHORIZED, message));
    }
    let pinned = server.cursors.pin(id, &namespace, context.generic.session)?;
    pinned.set_user(context.client);
    let limit = batch_size.map_or(usize::MAX, |size| usize::try_from(size).unwrap_or(usize::MAX));
    if !server.failpoints.is_quiet()
        && let Err(error) = Box::pin(fail_points_before(context, &namespace, id)).await
    {
        pinned.close();
        return Err(error);
    }
    let id = give_batch(context, reply, (name, id), pinned, limit).await?;
    if context.exhaust_allowed {
        context.client.stream_cursor(id);
        context.next = (id != 0).then_some(Next::Same);
    }
    Ok(())
}

/// The fail points between the taking of the cursor and its batch.
async fn fail_points_before<N: Node>(
    context: &CommandContext<'_, N>,
    namespace: &str,
    id: i64,
) -> CommandResult {
    let is_killed = || context.server.cursors.is_killed(id);
    let point = FailPoint::WaitAfterPinningCursorBeforeGetMoreBatch;
    wait_while_set(context, point, Some(namespace), is_killed).await?;
    fail_after_checkout(context)?;
    let point = FailPoint::WaitWithPinnedCursorDuringGetMoreBatch;
    wait_while_set(context, point, Some(namespace), is_killed).await
}

/// The limit on the time of all batches of a cursor together; an awaiting one has none.
fn limit_time<N: Node>(context: &CommandContext<'_, N>, cursor: &ClientCursor<N>) -> CommandResult {
    if let Some(left) = cursor.time_left.filter(|_| !cursor.await_data) {
        context.interrupt().set_deadline(context.started + left, &context.server.timers);
        context.interrupt().check()?;
    }
    check_time_limit(context.server, context.interrupt())
}

/// Appends `cursor: {nextBatch, id, ns}` and gives the cursor's number, 0 once it is closed.
async fn give_batch<N: Node>(
    context: &CommandContext<'_, N>,
    reply: &mut DocumentBuilder<'_>,
    (name, id): (&str, i64),
    mut pinned: PinnedCursor<'_, N>,
    limit: usize,
) -> CommandResult<i64> {
    let cursor = pinned.cursor();
    let max_time = context.generic.max_time;
    if max_time.is_some() && !cursor.await_data {
        return Err(CommandError::bad_value(
            "cannot set maxTimeMS on getMore command for a non-awaitData cursor",
        ));
    }
    if let Err(error) = limit_time(context, cursor) {
        pinned.close();
        return Err(error);
    }
    let awaits = cursor.await_data
        && context.server.failpoints.enter(FailPoint::DisableAwaitDataForGetMoreCmd, |_| Some(())).is_none();
    let await_until = awaits.then(|| context.started + max_time.unwrap_or(AWAIT_DEFAULT));
    let mut shown = reply.start_document("cursor");
    let mut batch = Batch::new(shown.start_array("nextBatch"), limit);
    if !cursor.source.begins_inline() {
        context.offload_briefly().await;
    }
    let snapshot = cursor.snapshot.clone();
    let mut batch_context = context.batch_context(await_until);
    if let Some((source, _)) = &snapshot {
        batch_context.source = source;
    }
    let end = cursor.source.fill(&batch_context, &mut batch).await;
    let returned = batch.count() as u64;
    drop(batch);
    cursor.returned += returned;
    cursor.batches += 1;
    cursor.time_left = context.time_left();
    context.server.counters.documents_returned.add(returned);
    if !context.server.failpoints.is_quiet() {
        let point = FailPoint::WaitBeforeUnpinningOrDeletingCursorAfterGetMoreBatch;
        let namespace = format!("{}.{name}", context.database);
        let is_killed = || context.server.cursors.is_killed(id);
        if let Err(error) = Box::pin(wait_while_set(context, point, Some(&namespace), is_killed)).await {
            pinned.close();
            return Err(error);
        }
    }
    let next_id = match end {
        Err(error) => {
            pinned.close();
            return Err(error.within(EXECUTION));
        }
        Ok(end) => {
            if let Some(ended) = pinned.end() {
                let reason = context.interrupt().check().err().unwrap_or(ended);
                return Err(reason.within(EXECUTION));
            }
            match end {
                BatchEnd::More => id,
                BatchEnd::Exhausted => {
                    pinned.close();
                    0
                }
            }
        }
    };
    append_snapshot_time(&mut shown, snapshot.as_ref().map(|(_, time)| *time));
    shown.append("id", next_id);
    append_namespace(&mut shown, context.database, name);
    Ok(next_id)
}
