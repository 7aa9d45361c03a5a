//! Waiting for what a client asks of a set: before a command that its data are as new, after it that what was
//! written is as safe.

use crate::concern::WriteConcern;
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult, code};
use crate::node::Node;
use document::{Document, doc};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

/// How a limited wait has ended.
enum Waited<T> {
    Done(T),
    /// The time was over, or the operation was told to end.
    Ended,
}

async fn wait<N: Node, T>(
    context: &CommandContext<'_, N>,
    awaited: impl Future<Output = T>,
    limit: Option<Instant>,
) -> Waited<T> {
    let mut awaited = pin!(awaited);
    let mut limit = limit.map(|limit| context.server.sleep_until(limit));
    let mut outcome = Waited::Ended;
    let ended = poll_fn(|task| match awaited.as_mut().poll(task) {
        Poll::Ready(done) => {
            outcome = Waited::Done(done);
            Poll::Ready(())
        }
        Poll::Pending => limit.as_mut().map_or(Poll::Pending, |limit| Pin::new(limit).poll(task)),
    });
    context.interrupt().wait_for(ended).await;
    outcome
}

/// Why the operation has ended.
fn end<N: Node>(context: &CommandContext<'_, N>) -> CommandError {
    let past_limit = || CommandError::new(code::MAX_TIME_EXPIRED, "operation exceeded time limit");
    context.interrupt().check().err().unwrap_or_else(past_limit)
}

impl<N: Node> CommandContext<'_, N> {
    /// Waits for something, until the operation's time is over or it is told to end.
    ///
    /// # Errors
    /// The reason for its end.
    pub async fn within_limits<T>(&self, awaited: impl Future<Output = T>) -> CommandResult<T> {
        match wait(self, awaited, self.interrupt().deadline()).await {
            Waited::Done(outcome) => Ok(outcome),
            Waited::Ended => Err(end(self)),
        }
    }

    /// The same for at most so long; `None` when that time is over.
    ///
    /// # Errors
    /// As [`CommandContext::within_limits`].
    pub(crate) async fn within_wait<T>(
        &self,
        awaited: impl Future<Output = T>,
        limit: Duration,
    ) -> CommandResult<Option<T>> {
        let (own, deadline) = (ambient::now().checked_add(limit), self.interrupt().deadline());
        match wait(self, awaited, [own, deadline].into_iter().flatten().min()).await {
            Waited::Done(outcome) => Ok(Some(outcome)),
            Waited::Ended
                if self.interrupt().check().is_err() || deadline.is_some_and(|end| Some(end) <= own) =>
            {
                Err(end(self))
            }
            Waited::Ended => Ok(None),
        }
    }
}

/// Waits until a read has the data that it asks for.
pub(crate) async fn await_read_concern<N: Node>(context: &CommandContext<'_, N>) -> CommandResult {
    context.within_limits(context.server.node.readable(context.generic.read_concern)).await?
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
    let deadline = context.interrupt().deadline();
    // Of members that do not answer: the time that the own disk takes is not limited.
    let timeout = concern.timeout.filter(|_| is_member).and_then(|limit| ambient::now().checked_add(limit));
    let limit = [deadline, timeout].into_iter().flatten().min();
    let acknowledged = node.acknowledged(&context.receipts, &concern, context.database);
    let (error, timed_out) = match wait(context, acknowledged, limit).await {
        Waited::Done(result) => (result.err()?, false),
        Waited::Ended if timeout.is_some() && limit == timeout && !context.interrupt().is_killed() => {
            let code = wire::ErrorCode::WriteConcernFailed as i32;
            (CommandError::new(code, "waiting for replication timed out"), true)
        }
        Waited::Ended => (end(context), false),
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
