//! Waiting for what a client asks of a set: before a command that its data are as new, after it that what was
//! written is as safe.

use crate::concern::WriteConcern;
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use crate::node::Node;
use document::{Document, doc};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Waits until this limit at most: `None` when it is over.
async fn wait<N: Node, T>(
    context: &CommandContext<'_, N>,
    awaited: impl Future<Output = T>,
    limit: Option<Instant>,
) -> CommandResult<Option<T>> {
    let mut awaited = pin!(awaited);
    let mut limit = limit.map(|limit| context.server.sleep_until(limit));
    let limited = poll_fn(|task| match awaited.as_mut().poll(task) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => {
            limit.as_mut().map_or(Poll::Pending, |limit| Pin::new(limit).poll(task)).map(|()| None)
        }
    });
    context.interrupt().wait_for(limited).await
}

impl<N: Node> CommandContext<'_, N> {
    /// Waits for something, for at most so long; `None` when that time is over.
    ///
    /// # Errors
    /// The reason for the operation's end.
    pub(crate) async fn within_wait<T>(
        &self,
        awaited: impl Future<Output = T>,
        limit: Duration,
    ) -> CommandResult<Option<T>> {
        wait(self, awaited, ambient::now().checked_add(limit)).await
    }
}

/// Waits until a read has the data that it asks for.
pub(crate) async fn await_read_concern<N: Node>(context: &CommandContext<'_, N>) -> CommandResult {
    context.interrupt().wait_for(context.server.node.readable(context.generic.read_concern)).await?
}

/// Waits once, for whatever the command has written, also when it failed afterwards. Answers with what the
/// reply tells when the write concern is not met, or the wait was ended: what was written stays written.
pub(crate) async fn await_write_concern<N: Node>(context: &CommandContext<'_, N>) -> Option<Document> {
    let node = &context.server.node;
    let is_member = node.role().is_some();
    let concern = match &context.generic.write_concern {
        Some(given) => given.clone(),
        None => WriteConcern::default(),
    };
    let concern = if is_member { node.complete(concern) } else { concern };
    // Of members that do not answer: the time that the own disk takes is not limited.
    let timeout = concern.timeout.filter(|_| is_member).and_then(|limit| ambient::now().checked_add(limit));
    let acknowledged = node.acknowledged(&context.receipts, &concern, context.database);
    let (error, timed_out) = match wait(context, acknowledged, timeout).await {
        Ok(Some(result)) => (result.err()?, false),
        Ok(None) => {
            let code = wire::ErrorCode::WriteConcernFailed as i32;
            (CommandError::new(code, "waiting for replication timed out"), true)
        }
        Err(error) => (error, false),
    };
    let mut unmet =
        doc! { "code": (error.code), "codeName": (&*error.code_name()), "errmsg": (&*error.message) };
    if is_member {
        let mut info = Document::new();
        if timed_out {
            info.push("wtimeout", true);
        }
        info.push("writeConcern", concern.to_document());
        unmet.push("errInfo", info);
    }
    Some(doc! { "writeConcernError": unmet })
}
