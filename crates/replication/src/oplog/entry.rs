//! A whole entry: an operation, when it was and who asked for it.

use super::operation::expected;
use super::{MalformedEntry, Operation};
use crate::optime::OpTime;
use document::{DocumentBuf, DocumentBuilder, RawDocument, RawValue};

/// The version of the entries' form.
const VERSION: i64 = 2;

/// The statement of a retryable write that an operation belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct StatementOrigin {
    /// The logical session.
    pub lsid: DocumentBuf,
    /// Counts its retryable writes.
    pub txn_number: i64,
    /// The statements that are done by it.
    pub statement_ids: Vec<i32>,
    /// The entry before it with the same `txn_number`.
    pub previous: Option<OpTime>,
}

/// One document of `local.oplog.rs`.
#[derive(Debug, Clone, PartialEq)]
pub struct OplogEntry {
    /// `ts` and `t`.
    pub optime: OpTime,
    /// The leader's clock, in milliseconds since 1970.
    pub wall: i64,
    /// What is done.
    pub operation: Operation,
    /// Where it is to be done once only.
    pub origin: Option<StatementOrigin>,
}

impl OplogEntry {
    /// The entry as a document.
    pub fn encode(&self) -> DocumentBuf {
        let mut bytes = Vec::new();
        let mut builder = DocumentBuilder::new(&mut bytes);
        if let Some(origin) = &self.origin {
            builder.append("lsid", &origin.lsid).append("txnNumber", origin.txn_number);
        }
        self.operation.write(&mut builder);
        match self.origin.as_ref().map(|origin| origin.statement_ids.as_slice()) {
            None | Some([]) => {}
            Some([one]) => drop(builder.append("stmtId", *one)),
            Some(several) => {
                let mut ids = builder.start_array("stmtId");
                for id in several {
                    ids.push(*id);
                }
            }
        }
        builder.append("ts", self.optime.timestamp).append("t", term(self.optime));
        builder.append("v", VERSION).append("wall", RawValue::DateTime(self.wall));
        if let Some(origin) = &self.origin {
            let (timestamp, term) = match origin.previous {
                Some(optime) => (optime.timestamp, term(optime)),
                None => (document::Timestamp { time: 0, increment: 0 }, -1),
            };
            builder.start_document("prevOpTime").append("ts", timestamp).append("t", term);
        }
        builder.finish();
        DocumentBuf::trusted(bytes)
    }

    /// Reads an entry. Fields that it does not know are passed over.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, MalformedEntry> {
        let entry = RawDocument::parse(bytes).map_err(|error| MalformedEntry::new(error.to_string()))?;
        if entry.get("v").and_then(RawValue::as_i64_exact) != Some(VERSION) {
            return Err(expected("v", "2"));
        }
        let Some(RawValue::DateTime(wall)) = entry.get("wall") else {
            return Err(expected("wall", "a date"));
        };
        Ok(OplogEntry {
            optime: optime(entry)?.ok_or_else(|| expected("t", "a term"))?,
            wall,
            operation: Operation::read(entry)?,
            origin: origin(entry)?,
        })
    }
}

fn term(optime: OpTime) -> i64 {
    i64::try_from(optime.term).expect("terms are counted")
}

/// `ts` and `t`; `None` for the one that stands for no entry.
fn optime(document: RawDocument<'_>) -> Result<Option<OpTime>, MalformedEntry> {
    let Some(RawValue::Timestamp(timestamp)) = document.get("ts") else {
        return Err(expected("ts", "a timestamp"));
    };
    match document.get("t").and_then(RawValue::as_i64_exact) {
        Some(-1) => Ok(None),
        Some(term) if term >= 0 => Ok(Some(OpTime { timestamp, term: term.unsigned_abs() })),
        _ => Err(expected("t", "a term")),
    }
}

fn origin(entry: RawDocument<'_>) -> Result<Option<StatementOrigin>, MalformedEntry> {
    let Some(number) = entry.get("txnNumber") else { return Ok(None) };
    let txn_number = number.as_i64_exact().ok_or_else(|| expected("txnNumber", "a number"))?;
    let lsid = super::operation::document(entry, "lsid")?.to_buf();
    let id = |value: RawValue<'_>| {
        let id = value.as_i64_exact().and_then(|id| i32::try_from(id).ok());
        id.ok_or_else(|| expected("stmtId", "a number or some"))
    };
    let statement_ids = match entry.get("stmtId") {
        None => Vec::new(),
        Some(RawValue::Array(several)) => several.iter().map(id).collect::<Result<_, _>>()?,
        Some(one) => vec![id(one)?],
    };
    let previous = match entry.get("prevOpTime") {
        None => None,
        Some(RawValue::Document(previous)) => optime(previous)?,
        Some(_) => return Err(expected("prevOpTime", "a document")),
    };
    Ok(Some(StatementOrigin { lsid, txn_number, statement_ids, previous }))
}
