//! Writes with a transaction number: which of a command's statements were done before, and what their changes
//! tell the log.

use crate::context::{CommandContext, OnDataNode};
use crate::counters::OperationCounters;
use crate::error::{CommandError, CommandResult, code};
use crate::fields::Fields;
use crate::sessions::LogicalSessionId;
use catalog::{OperationContext, ReadError};
use document::{DocumentBuf, DocumentBuilder, RawValue};
use replication::oplog::Image;
use replication::retryable::{
    CheckOutError, Executed, RetryObserver, RetryTable, RetryableWrite, WriterRole, lsid,
};
use std::future::poll_fn;
use std::task::Poll;
use storage::ReadTier;

/// The numbers of a command's statements, as it gives them.
#[derive(Debug)]
pub(crate) struct StatementIds {
    first: Option<i32>,
    all: Option<Vec<i32>>,
}

impl StatementIds {
    /// Takes `stmtId`.
    ///
    /// # Errors
    /// `TypeMismatch`.
    pub(crate) fn of_one(fields: &mut Fields<'_>) -> CommandResult<Self> {
        let first = match fields.any("stmtId") {
            None => None,
            Some(RawValue::Int32(id)) => Some(id),
            Some(other) => return Err(fields.wrong_type("stmtId", other.kind(), &["int"])),
        };
        Ok(StatementIds { first, all: None })
    }

    /// Takes `stmtId` and `stmtIds`.
    ///
    /// # Errors
    /// `TypeMismatch`; both of them.
    pub(crate) fn of_batch(fields: &mut Fields<'_>) -> CommandResult<Self> {
        let mut ids = StatementIds::of_one(fields)?;
        let Some(all) = fields.array("stmtIds")? else { return Ok(ids) };
        if ids.first.is_some() {
            let message = "May not specify both stmtId and stmtIds in write command";
            return Err(CommandError::invalid_options(message));
        }
        let read = |id: RawValue<'_>| match id {
            RawValue::Int32(id) => Ok(id),
            other => Err(fields.wrong_type("stmtIds", other.kind(), &["int"])),
        };
        ids.all = Some(all.iter().map(read).collect::<CommandResult<_>>()?);
        Ok(ids)
    }

    fn of(&self, statements: usize) -> CommandResult<Vec<i32>> {
        match &self.all {
            Some(all) if all.len() == statements => Ok(all.clone()),
            Some(all) => Err(CommandError::invalid_options(format!(
                "Number of statement ids must match the number of batch entries. Got {} statement ids but \
                 operation size is {statements}",
                all.len()
            ))),
            None => {
                let first = self.first.unwrap_or(0);
                let count = i32::try_from(statements).unwrap_or(i32::MAX);
                Ok((first..first.saturating_add(count)).collect())
            }
        }
    }
}

/// A command that is a retryable write.
#[derive(Debug)]
pub(crate) struct Retry {
    write: RetryableWrite,
    /// By the statements' positions.
    ids: Vec<i32>,
    /// Those that were done before.
    retried: Vec<i32>,
}

/// Checks out the session of a command that has a transaction number; it has it until the value is dropped.
///
/// # Errors
/// `TransactionTooOld`; what the statements' numbers have wrong; storage errors.
pub(crate) async fn begin_retryable(
    context: &CommandContext<'_>,
    ids: &StatementIds,
    statements: usize,
) -> CommandResult<Option<Box<Retry>>> {
    let generic = &context.generic;
    let (Some(txn_number), Some(session)) = (generic.txn_number, generic.session) else { return Ok(None) };
    let table = context.server.node.retry_table.as_deref();
    let table = table.ok_or_else(|| CommandError::internal("a transaction number where no log is kept"))?;
    let ids = ids.of(statements)?;
    // In a box: a command without a number has no room for it.
    let mut write = Box::pin(check_out(context, table, (session, txn_number)));
    let write = match poll_fn(|task| Poll::Ready(write.as_mut().poll(task))).await {
        Poll::Ready(write) => write,
        // Another command has the session.
        Poll::Pending => Box::pin(context.interrupt().wait_for(write)).await?,
    };
    let advanced = write.and_then(|write| match context.server.sessions.advance(session, txn_number) {
        Ok(()) => Ok(write),
        Err(newer) => Err(CheckOutError::TooOld(newer)),
    });
    let write = advanced.map_err(|error| match error {
        CheckOutError::TooOld(newer) => CommandError::new(
            wire::ErrorCode::TransactionTooOld as i32,
            format!(
                "Retryable write with txnNumber {txn_number} is prohibited on session {session} because a \
                 newer retryable write with txnNumber {newer} has already started on this session."
            ),
        ),
        other => failed(other),
    })?;
    Ok(Some(Box::new(Retry { write, ids, retried: Vec::new() })))
}

/// An error of the store below the sessions.
pub(crate) fn failed(error: CheckOutError) -> CommandError {
    match error {
        CheckOutError::TooOld(_) => unreachable!("told with the number that was given"),
        CheckOutError::Catalog(error) => error.into(),
        CheckOutError::Read(error) => error.into(),
        CheckOutError::Write(error) => error.into(),
    }
}

async fn check_out(
    context: &CommandContext<'_>,
    table: &RetryTable,
    (session, txn_number): (LogicalSessionId, i64),
) -> Result<RetryableWrite, CheckOutError> {
    let mut tier = context.scheduling().tier();
    loop {
        let reading = OperationContext { tier, ..context.writing() };
        match table.check_out((lsid(session.id, session.owner.0), txn_number), &reading).await {
            Ok(Some(write)) => return Ok(write),
            Ok(None) => {
                context.offload().await;
                table.create(&context.writing()).await?;
            }
            Err(CheckOutError::Read(error)) if error.would_block() && tier != ReadTier::Any => {
                context.offload_briefly().await;
                tier = ReadTier::Any;
            }
            Err(error) => return Err(error),
        }
    }
}

impl Retry {
    /// What became of the statement at this position, where it was done before: it is told in the reply.
    ///
    /// # Errors
    /// Storage errors.
    pub(crate) async fn executed(
        &mut self,
        context: &CommandContext<'_>,
        position: usize,
    ) -> CommandResult<Option<Executed>> {
        let id = self.id(position);
        let executed = self.read(context, |write, view, tier| write.executed(id, view, tier)).await?;
        if executed.is_some() {
            // What it did may be another's, which is to be as safe as this one's.
            context.receipts.observed();
            self.retried.push(id);
        }
        Ok(executed)
    }

    /// The document that a `findAndModify` was answered with.
    ///
    /// # Errors
    /// `IncompleteTransactionHistory` where it is not kept; storage errors.
    pub(crate) async fn image(
        &self,
        context: &CommandContext<'_>,
        kind: Image,
    ) -> CommandResult<DocumentBuf> {
        match self.read(context, RetryableWrite::image).await? {
            Some((found, image)) if found == kind => Ok(image),
            _ => Err(CommandError::new(
                wire::ErrorCode::IncompleteTransactionHistory as i32,
                "the document that the write was answered with is not kept any more",
            )),
        }
    }

    async fn read<T>(
        &self,
        context: &CommandContext<'_>,
        read: impl Fn(&RetryableWrite, &storage::ReadView, ReadTier) -> Result<T, ReadError>,
    ) -> CommandResult<T> {
        let view = context.writing().view;
        match read(&self.write, view, context.scheduling().tier()) {
            Err(error) if error.would_block() => {
                context.offload_briefly().await;
                Ok(read(&self.write, view, ReadTier::Any)?)
            }
            result => Ok(result?),
        }
    }

    /// The number of the statement at this position.
    pub(crate) fn id(&self, position: usize) -> i32 {
        *self.ids.get(position).expect("every statement has a number")
    }

    /// Tells the log of an update, and keeps a version for the answer.
    pub(crate) fn of_update(&self, position: usize, image: Option<Image>) -> RetryObserver<'_> {
        RetryObserver::of_update(&self.write, self.id(position), image, WriterRole::Primary)
    }

    /// Tells the log of a removal, and keeps the document for the answer.
    pub(crate) fn of_removal(&self, position: usize, image: Option<Image>) -> RetryObserver<'_> {
        RetryObserver::of_removal(&self.write, self.id(position), image, WriterRole::Primary)
    }

    /// Tells the log of inserts of documents that have these numbers, by their positions.
    pub(crate) fn of_inserts<'r>(&'r self, ids: &'r [i32]) -> RetryObserver<'r> {
        RetryObserver::of_inserts(&self.write, ids, WriterRole::Primary)
    }

    fn count(&self, counters: &OperationCounters) {
        counters.retried_commands.add(u64::from(!self.retried.is_empty()));
        counters.retried_statements.add(self.retried.len() as u64);
        counters.session_rows_written.add(self.write.rows_written());
    }

    /// Tells in the reply to a batch which statements were done before.
    pub(crate) fn write(&self, counters: &OperationCounters, reply: &mut DocumentBuilder<'_>) {
        self.count(counters);
        if !self.retried.is_empty() {
            let mut ids = reply.start_array("retriedStmtIds");
            for id in &self.retried {
                ids.push(*id);
            }
        }
    }

    /// The same in a reply to one statement.
    pub(crate) fn write_one(&self, counters: &OperationCounters, reply: &mut DocumentBuilder<'_>) {
        self.count(counters);
        if let Some(id) = self.retried.first() {
            reply.append("retriedStmtId", *id);
        }
    }
}

/// The context of a statement's writes, of which this observer is told where there is one.
pub(crate) fn observed<'o>(
    writing: OperationContext<'o>,
    observer: Option<&'o RetryObserver<'o>>,
) -> OperationContext<'o> {
    match observer {
        Some(observer) => OperationContext { observer: Some(observer), ..writing },
        None => writing,
    }
}

/// Refuses a statement for many documents: it cannot be done once.
///
/// # Errors
/// `InvalidOptions`.
pub(crate) fn check_one_document(retry: Option<&Retry>, is_multi: bool, given: &str) -> CommandResult {
    match retry {
        Some(_) if is_multi => {
            let message = format!("Cannot use (or request) retryable writes with {given}");
            Err(CommandError::new(code::INVALID_OPTIONS, message))
        }
        _ => Ok(()),
    }
}
