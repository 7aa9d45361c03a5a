//! What the write commands share: the statements of a batch, the errors of single statements, the reply.
//!
//! ```text
//!  insert ─ documents ─┐                        ┌─▶ catalog: latches, latest versions, one write unit
//!  update ─ statements ┼─▶ one after the other ─┤
//!  delete ─ statements ┘    (errors collected)  └─▶ BatchReply {n, nModified, upserted, writeErrors}
//! ```
//!
//! All statements are read (`statements.rs`) before the first one runs: what is malformed there fails the
//! command.
//!
//! In an event loop every statement reads from memory; what is not there makes it begin again where it may
//! block, before anything of it was written. Large batches go there at once.
//!
//! A statement finds candidates through the executor and changes each one under its latch, after looking at
//! its latest version again: what no longer matches is left alone. One for many documents gathers them into
//! write units of hundreds.
//!
//! Source: MongoDB manual, "insert", "update", "delete", "findAndModify" (database commands).

mod batch;
#[cfg(test)]
mod concern_tests;
mod modify;
mod retry;
#[cfg(test)]
mod retry_tests;
mod statements;
mod target;
#[cfg(test)]
mod unit_tests;

pub(crate) use batch::{BatchReply, check_batch_size, documents_of};
pub(crate) use modify::{
    Modification, Modified, Refusal, Statement, modify_many, modify_one, not_on_a_view, update_past_hidden,
};
pub(crate) use retry::failed as failed_session;
pub(crate) use retry::{Retry, StatementIds, begin_retryable, check_one_document, observed};
pub(crate) use statements::{DeleteStatement, Selection, UpdateStatement, array_filters};
pub(crate) use target::{
    UpsertRounds, check_not_of_sessions, check_writable, insert_documents, insert_upserted, writable,
};

use crate::context::{CommandContext, OnDataNode};
use crate::error::CommandResult;
use crate::exec::LONG_DOCUMENT;
use crate::fields::Fields;
use catalog::Collection;
use document::DocumentBuf;
use query::update::EmptyTimestamps;

/// Takes `bypassEmptyTsReplacement`, which tools that restore data send.
///
/// # Errors
/// `TypeMismatch`.
pub(crate) fn empty_timestamps(fields: &mut Fields<'_>) -> CommandResult<EmptyTimestamps> {
    let kept = fields.flexible_boolean("bypassEmptyTsReplacement")?.unwrap_or(false);
    Ok(if kept { EmptyTimestamps::Kept } else { EmptyTimestamps::Replaced })
}

/// The document as it is stored.
pub(crate) fn stamped(document: DocumentBuf, timestamps: EmptyTimestamps) -> DocumentBuf {
    match timestamps {
        EmptyTimestamps::Replaced => document.as_raw().with_current_timestamps().unwrap_or(document),
        EmptyTimestamps::Kept => document,
    }
}

/// Statements that one event loop works off in a row, at most.
const INLINE_STATEMENTS_MAX: usize = 16;
/// Statements between two looks at the interrupt switch.
const STATEMENTS_PER_CHECK: usize = 64;

/// To be called before anything is done with the statements of a batch: large ones move to where they may
/// take long.
pub(crate) async fn before_batch(context: &CommandContext<'_>, statements: usize) {
    if statements > INLINE_STATEMENTS_MAX {
        context.offload().await;
    }
}

/// To be called in front of each statement of a batch: every now and then a kill or a time limit ends it, and
/// an event loop hands it on when its slice is over.
///
/// # Errors
/// The reason for the end.
pub(crate) async fn before_statement(context: &CommandContext<'_>, position: usize) -> CommandResult {
    if (1..INLINE_STATEMENTS_MAX).contains(&position) {
        context.scheduling().stay_within_slice(context.started).await;
    }
    match position > 0 && position.is_multiple_of(STATEMENTS_PER_CHECK) {
        true => context.interrupt().check(),
        false => Ok(()),
    }
}

/// Whether writing so many bytes takes too long for an event loop: each index may have keys of all of them.
pub(crate) fn is_long_write(collection: &Collection, bytes: usize) -> bool {
    /// Shorter ones are not, whatever the indexes.
    const SHORT: usize = 2 << 10;
    bytes > SHORT && bytes * collection.definition().indexes.len().max(1) > LONG_DOCUMENT
}
