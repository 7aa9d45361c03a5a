//! Sessions that nobody uses any more are forgotten, by the primary for all members.

use super::{CheckOutError, Collections, RetryTable, row::Row};
use catalog::{Collection, EncodedRange, OperationContext};
use document::{DocumentBuf, RawDocument, RawValue};
use storage::{CursorOptions, Direction, ReadTier};

/// Documents looked at in a row.
const SLICE: usize = 1000;

impl RetryTable {
    /// Removes what is kept of sessions whose last write was before this time, in milliseconds since 1970.
    /// The context's observer tells the others. Returns how many sessions there were.
    ///
    /// # Errors
    /// Storage errors; this member is no primary.
    pub async fn expire(&self, before: i64, context: &OperationContext<'_>) -> Result<usize, CheckOutError> {
        let Some(collections) = Collections::of(&self.catalog) else { return Ok(0) };
        let (mut next, mut expired) = (Some(Vec::new()), 0);
        while let Some(from) = next.take() {
            let (old, behind) = collections.older(before, &from, context)?;
            for lsid in old {
                let _checked_out = self.checked_out.lock(lsid.as_bytes()).await;
                expired += usize::from(collections.remove(lsid.as_raw(), before, context).await?);
            }
            next = behind;
        }
        Ok(expired)
    }
}

impl Collections {
    /// Old sessions among the next documents, and where those behind them begin.
    fn older(
        &self,
        before: i64,
        from: &[u8],
        context: &OperationContext<'_>,
    ) -> Result<(Vec<DocumentBuf>, Option<Vec<u8>>), CheckOutError> {
        let range = EncodedRange { lower: Some(from), upper: None };
        let options = CursorOptions { tier: ReadTier::Any, fill_cache: false };
        let mut rows = self.rows.documents(context.view, range, Direction::Forward, options)?;
        let mut old = Vec::new();
        for _ in 0..SLICE {
            let Some((_, row)) = rows.next()? else { return Ok((old, None)) };
            if is_older(row, before)
                && let Some(lsid) = row.get("_id").and_then(RawValue::as_document)
            {
                old.push(lsid.to_buf());
            }
        }
        Ok((old, rows.next()?.map(|(key, _)| key.to_vec())))
    }

    /// Removes a session, unless it was used meanwhile. Its row goes last: until then all of it is found
    /// again.
    async fn remove(
        &self,
        lsid: RawDocument<'_>,
        before: i64,
        context: &OperationContext<'_>,
    ) -> Result<bool, CheckOutError> {
        let id = RawValue::Document(lsid);
        let Some(row) = self.rows.get(context.view, id, context.tier)? else { return Ok(false) };
        let row = RawDocument::trusted(&row);
        if !is_older(row, before) {
            return Ok(false);
        }
        if let Some((txn_number, Row { others: 1.., .. })) = Row::read(row) {
            for (key, _) in self.others(lsid, txn_number, context.view, context.tier)? {
                self.rows.delete(context, &key).await?;
            }
        }
        let key = Collection::document_key_of_id(id);
        self.images.delete(context, &key).await?;
        self.rows.delete(context, &key).await?;
        Ok(true)
    }
}

fn is_older(row: RawDocument<'_>, before: i64) -> bool {
    matches!(row.get("lastWriteDate"), Some(RawValue::DateTime(last)) if last < before)
}
