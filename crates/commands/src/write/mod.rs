//! What the write commands share: the statements of a batch, the errors of single statements, the reply.
//!
//! ```text
//!  insert ─ documents ─┐                        ┌─▶ catalog: latch, latest version, one write unit
//!  update ─ statements ┼─▶ one after the other ─┤
//!  delete ─ statements ┘    (errors collected)  └─▶ BatchReply {n, nModified, upserted, writeErrors}
//! ```
//!
//! A statement finds candidates through the executor and changes each one under its latch, after looking at its latest version
//! again: what no longer matches is left alone.
//!
//! Source: MongoDB manual, "insert", "update", "delete", "findAndModify" (database commands).

mod batch;
mod modify;
mod target;

pub(crate) use batch::{BatchReply, check_batch_size, documents_of};
pub(crate) use modify::{Modification, Modified, Statement, modify_many, modify_one, not_on_a_view};
pub(crate) use target::{insert_upserted, statement_filter, writable};

use crate::context::CommandContext;
use catalog::WriteOptions;
use storage::Acknowledge;

/// What the write concern and `bypassDocumentValidation` ask for.
pub(crate) fn write_options(context: &CommandContext<'_>, bypass_validation: bool) -> WriteOptions {
    let acknowledge =
        if context.generic.is_journaled() { Acknowledge::Journaled } else { Acknowledge::Applied };
    WriteOptions { acknowledge, bypass_validation }
}
