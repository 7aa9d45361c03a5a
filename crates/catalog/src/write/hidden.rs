//! Keys of documents that are past their time and hidden: these go where a new document wants one.
//!
//! ```text
//!  DuplicateKey ─▶ its holder, latched, looked at again ─▶ past its time: deleted as by the TTL monitor
//!      ▲                                                       └▶ the write is tried again
//!      └────────────────── taken by another one ◀──────────────────┘
//! ```
//! The deletion is a unit of its own: nobody sees what is hidden, so that nobody sees that it has gone, and
//! a crash in between leaves what the monitor could have left. Deleted within the unit of the new document,
//! its latch would be taken behind those of unique keys, and two writers could wait for each other.

use super::insert::InsertReport;
use super::update::Decision;
use crate::collection::Collection;
use crate::{OperationContext, WriteError};
use document::RawDocument;
use std::sync::atomic::Ordering;
use storage::{ReadTier, StorageError};

/// How often one document finds a key taken that is made free: each unique index may have another one.
const WAYS_MAX: usize = 100;

impl Collection {
    /// Whether this refusal may be because of a document that is hidden.
    pub(super) fn is_way_to_be_made(&self, context: &OperationContext<'_>, refusal: &WriteError) -> bool {
        let is_held = matches!(refusal, WriteError::DuplicateKey(duplicate) if duplicate.holder.is_some());
        is_held && self.hides_expired() && context.keeps_rules()
    }

    /// Deletes the document because of which a write was refused, if it is past its time and hidden. Whether
    /// the write is to be tried again: the key was free, or is now.
    ///
    /// # Errors
    /// As [`Collection::delete`]; `WouldBlock` wherever it may not block.
    pub async fn make_way(
        &self,
        context: &OperationContext<'_>,
        refusal: &WriteError,
    ) -> Result<bool, WriteError> {
        let WriteError::DuplicateKey(duplicate) = refusal else { return Ok(false) };
        let Some(holder) = duplicate.holder.as_ref().filter(|_| self.is_way_to_be_made(context, refusal))
        else {
            return Ok(false);
        };
        if context.tier != ReadTier::Any {
            return Err(StorageError::WouldBlock.into());
        }
        let moment_ms = i64::try_from(ambient::since_epoch().as_millis()).unwrap_or(i64::MAX);
        let decide = |found: Option<RawDocument<'_>>| {
            Ok::<_, WriteError>(match found {
                Some(document) if self.hides(document, moment_ms)? => Decision::Remove,
                _ => Decision::Keep,
            })
        };
        let made = self.update(context, holder, decide).await?;
        self.made_way.fetch_add(u64::from(made.changed), Ordering::Relaxed);
        Ok(made.changed || !made.existed)
    }

    /// Inserts after all, one by one, what was refused from this error of the report on, where what was in
    /// its way is hidden.
    pub(super) async fn insert_past_hidden(
        &self,
        context: &OperationContext<'_>,
        documents: &[RawDocument<'_>],
        from: usize,
        ordered: bool,
        report: &mut InsertReport,
    ) {
        let mut ends = false;
        for (position, error) in report.errors.split_off(from) {
            if ends || !self.is_way_to_be_made(context, &error) {
                report.errors.push((position, error));
                continue;
            }
            match self.insert_past_holders(context, documents, position, error, ordered).await {
                Ok(None) => report.inserted += 1,
                Ok(Some(error)) => report.errors.push((position, error)),
                Err(error) => {
                    report.errors.push((position, error));
                    ends = true;
                }
            }
        }
    }

    /// Inserts one document that was refused; why it is refused still, if it is. It has a report of its own:
    /// that of all may be long, and is put in order with each unit.
    async fn insert_past_holders(
        &self,
        context: &OperationContext<'_>,
        documents: &[RawDocument<'_>],
        position: usize,
        mut refusal: WriteError,
        ordered: bool,
    ) -> Result<Option<WriteError>, WriteError> {
        for _ in 0..WAYS_MAX {
            if !self.make_way(context, &refusal).await? {
                break;
            }
            let mut alone = InsertReport::default();
            self.insert_unit(context, documents, position..position + 1, ordered, &mut alone).await?;
            match alone.errors.pop() {
                None => return Ok(None),
                Some((_, again)) => refusal = again,
            }
        }
        Ok(Some(refusal))
    }
}
