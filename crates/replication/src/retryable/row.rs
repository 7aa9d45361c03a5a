//! What is kept of a session's latest retryable write: documents of `config.transactions` and
//! `config.image_collection`.
//!
//! ```text
//!  transactions: { _id: lsid, txnNum, lastWriteDate, done: [first, last], upserted: { stmtId, _id },
//!                  others, imageBytes }
//!                { _id: { id, uid, txnNumber, stmtId }, upserted }     others of the same write, one each
//!  images:       { _id: lsid, txnNum, imageKind, image }              what a findAndModify was answered with
//! ```
//! Statements are done in their order but for those that fail: nearly always the row alone says it all, and
//! it does not grow with their number.

use crate::oplog::Image;
use document::{DocumentBuf, DocumentBuilder, RawDocument, RawValue, Value};

/// The row of a session.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Row {
    /// The first and the last statement of the longest run that begins with the first one that was done.
    pub(super) done: Option<(i32, i32)>,
    /// The first statement that inserted a document, and its `_id`.
    pub(super) upserted: Option<(i32, Value)>,
    /// How many statements have documents of their own.
    pub(super) others: i32,
    /// The length of the session's image, of this write or an older one.
    pub(super) image_bytes: Option<usize>,
}

impl Row {
    /// Reads a row: its transaction number, and what is said of it.
    pub(super) fn read(row: RawDocument<'_>) -> Option<(i64, Row)> {
        let whole = |value: RawValue<'_>| value.as_i64_exact().and_then(|number| i32::try_from(number).ok());
        let done = row.get("done").and_then(RawValue::as_array).map(|done| {
            let mut ends = done.iter().filter_map(whole);
            ends.next().zip(ends.next())
        });
        let upserted = row
            .get("upserted")
            .and_then(RawValue::as_document)
            .map(|upserted| Some((whole(upserted.get("stmtId")?)?, upserted.get("_id")?.to_value())));
        let others = row.get("others").map_or(Some(0), whole)?;
        let image_bytes = row.get("imageBytes").and_then(whole).and_then(|bytes| usize::try_from(bytes).ok());
        let said = Row { done: done.flatten(), upserted: upserted.flatten(), others, image_bytes };
        Some((row.get("txnNum")?.as_i64_exact()?, said))
    }

    /// The row as a document.
    pub(super) fn encode(&self, lsid: RawDocument<'_>, txn_number: i64, last_write: i64) -> DocumentBuf {
        let mut bytes = Vec::with_capacity(192);
        let mut builder = DocumentBuilder::new(&mut bytes);
        builder.append("_id", lsid).append("txnNum", txn_number);
        builder.append("lastWriteDate", RawValue::DateTime(last_write));
        if let Some((first, last)) = self.done {
            let mut done = builder.start_array("done");
            done.push(first);
            done.push(last);
        }
        if let Some((statement, id)) = &self.upserted {
            builder.start_document("upserted").append("stmtId", *statement).append_value("_id", id);
        }
        if self.others > 0 {
            builder.append("others", self.others);
        }
        if let Some(bytes) = self.image_bytes {
            builder.append("imageBytes", i32::try_from(bytes).expect("a document is shorter than 2 GiB"));
        }
        builder.finish();
        DocumentBuf::trusted(bytes)
    }

    /// Whether nothing is done yet.
    pub(super) const fn is_empty(&self) -> bool {
        self.done.is_none() && self.others == 0
    }

    /// Whether the row alone says that this statement is done.
    pub(super) fn has(&self, statement: i32) -> bool {
        self.done.is_some_and(|(first, last)| (first..=last).contains(&statement))
    }

    /// Notes a statement. What the row has no room for goes into a document of its own.
    pub(super) fn note(&mut self, statement: i32, upserted: Option<Value>) -> Option<Other> {
        let joins = match self.done {
            None => self.others == 0,
            Some((_, last)) => last.checked_add(1) == Some(statement),
        };
        let has_room = upserted.is_none() || self.upserted.is_none();
        if joins {
            self.done = Some((self.done.map_or(statement, |(first, _)| first), statement));
        }
        if joins && has_room {
            self.upserted = self.upserted.take().or(upserted.map(|id| (statement, id)));
            return None;
        }
        self.others += 1;
        Some(Other { statement, upserted })
    }
}

/// A statement that has a document of its own.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Other {
    statement: i32,
    upserted: Option<Value>,
}

impl Other {
    /// As a document.
    pub(super) fn encode(&self, lsid: RawDocument<'_>, txn_number: i64) -> DocumentBuf {
        let mut bytes = Vec::with_capacity(160);
        let mut builder = DocumentBuilder::new(&mut bytes);
        write_other_id(&mut builder, lsid, txn_number, self.statement);
        if let Some(id) = &self.upserted {
            builder.append_value("upserted", id);
        }
        builder.finish();
        DocumentBuf::trusted(bytes)
    }
}

fn write_other_id(builder: &mut DocumentBuilder<'_>, lsid: RawDocument<'_>, txn_number: i64, statement: i32) {
    let mut id = builder.start_document("_id");
    id.append_all(lsid).append("txnNumber", txn_number).append("stmtId", statement);
}

/// The `_id` of a statement's own document, as `{ _id }`.
pub(super) fn other_key(lsid: RawDocument<'_>, txn_number: i64, statement: i32) -> DocumentBuf {
    let mut bytes = Vec::with_capacity(160);
    write_other_id(&mut DocumentBuilder::new(&mut bytes), lsid, txn_number, statement);
    DocumentBuf::trusted(bytes)
}

/// An image as a document.
pub(super) fn encode_image(
    lsid: RawDocument<'_>,
    txn_number: i64,
    kind: Image,
    image: RawDocument<'_>,
) -> DocumentBuf {
    let mut bytes = Vec::with_capacity(image.as_bytes().len() + 160);
    let mut builder = DocumentBuilder::new(&mut bytes);
    builder.append("_id", lsid).append("txnNum", txn_number);
    builder.append("imageKind", kind.name()).append("image", image);
    builder.finish();
    DocumentBuf::trusted(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::doc;

    /// Notes statements in this order; those that need documents of their own, and the row.
    fn check(statements: &[(i32, Option<i32>)], others: &[i32], expect: Row) {
        let mut row = Row::default();
        let noted = statements.iter().filter_map(|(id, upserted)| row.note(*id, upserted.map(Value::Int32)));
        assert_eq!(noted.map(|other| other.statement).collect::<Vec<_>>(), others);
        assert_eq!(row, expect);
        let lsid = doc! { "id": 1 }.to_buf();
        let encoded = row.encode(lsid.as_raw(), 7, 1_000);
        assert_eq!(Row::read(encoded.as_raw()), Some((7, row)));
    }

    #[test]
    fn a_row_keeps_what_is_done_in_order() {
        check(&[], &[], Row::default());
        let all: Vec<_> = (0..1000).map(|id| (id, None)).collect();
        check(&all, &[], Row { done: Some((0, 999)), ..Row::default() });
        let upserted = Some((3, Value::Int32(9)));
        check(
            &[(3, Some(9))],
            &[],
            Row { done: Some((3, 3)), upserted: upserted.clone(), others: 0, image_bytes: None },
        );
        let two = [(3, Some(9)), (4, Some(8)), (5, None)];
        check(&two, &[4], Row { done: Some((3, 5)), upserted, others: 1, ..Row::default() });
        check(
            &[(0, None), (2, None), (1, None)],
            &[2],
            Row { done: Some((0, 1)), others: 1, ..Row::default() },
        );
    }
}
