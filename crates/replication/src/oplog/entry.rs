//! A whole entry: an operation, when it was and who asked for it.

use super::frame::{self, VERSION};
use super::operation::expected;
use super::{MalformedEntry, Operation};
use crate::optime::OpTime;
use document::{DocumentBuf, DocumentBuilder, RawDocument, RawValue};

/// A statement of a retryable write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statement {
    /// Its number in the command.
    pub id: i32,
    /// It inserted a document because there was none to update (`b`).
    pub upserts: bool,
    /// The version of the document that it is answered with (`needsRetryImage`).
    pub image: Option<Image>,
}

/// A version of a document that a statement changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Image {
    /// As it was.
    Before,
    /// As it is.
    After,
}

impl Image {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Image::Before => "preImage",
            Image::After => "postImage",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        [Image::Before, Image::After].into_iter().find(|image| image.name() == name)
    }
}

impl Statement {
    /// Appends its fields to those of the operation that it is.
    pub(super) fn append(self, builder: &mut DocumentBuilder<'_>) {
        builder.append("stmtId", self.id);
        if self.upserts {
            builder.append("b", true);
        }
        if let Some(image) = self.image {
            builder.append("needsRetryImage", image.name());
        }
    }

    fn read(operation: RawDocument<'_>) -> Result<Option<Self>, MalformedEntry> {
        let Some(id) = operation.get("stmtId") else { return Ok(None) };
        let id = id.as_i64_exact().and_then(|id| i32::try_from(id).ok());
        let image = match operation.get("needsRetryImage").map(RawValue::as_str) {
            None => None,
            Some(name) => {
                let image = name.and_then(Image::of_name);
                Some(image.ok_or_else(|| expected("needsRetryImage", "preImage or postImage"))?)
            }
        };
        Ok(Some(Statement {
            id: id.ok_or_else(|| expected("stmtId", "a number"))?,
            upserts: operation.get("b").and_then(RawValue::as_bool) == Some(true),
            image,
        }))
    }
}

/// The retryable write that an operation belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct StatementOrigin {
    /// The logical session.
    pub lsid: DocumentBuf,
    /// Counts its retryable writes.
    pub txn_number: i64,
    /// Whether there is no entry with the same number before it.
    pub is_first: bool,
    /// The statements: that of the operation, or those of its parts; some are only consequences.
    pub statements: Vec<Option<Statement>>,
}

/// One document of `local.oplog.rs`.
#[derive(Debug, Clone, PartialEq)]
pub struct OplogEntry {
    /// `ts` and `t`.
    pub optime: OpTime,
    /// The clock of who evaluated it, in milliseconds since 1970.
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
        let statements = self.origin.as_ref().map_or(&[][..], |origin| &origin.statements);
        self.operation.write(&mut builder, statements);
        frame::append_end(&mut builder, self.origin.as_ref(), self.wall);
        builder.finish();
        frame::place(&mut bytes, self.optime);
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
            optime: optime(entry)?,
            wall,
            operation: Operation::read(entry)?,
            origin: origin(entry)?,
        })
    }
}

/// `ts` and `t`.
pub(crate) fn optime(document: RawDocument<'_>) -> Result<OpTime, MalformedEntry> {
    let Some(RawValue::Timestamp(timestamp)) = document.get("ts") else {
        return Err(expected("ts", "a timestamp"));
    };
    match document.get("t").and_then(RawValue::as_i64_exact) {
        Some(term) if term >= 0 => Ok(OpTime { timestamp, term: term.unsigned_abs() }),
        _ => Err(expected("t", "a term")),
    }
}

fn origin(entry: RawDocument<'_>) -> Result<Option<StatementOrigin>, MalformedEntry> {
    let Some(number) = entry.get("txnNumber") else { return Ok(None) };
    let txn_number = number.as_i64_exact().ok_or_else(|| expected("txnNumber", "a number"))?;
    let parts = entry.get("o").and_then(|object| object.as_document()?.get("applyOps")?.as_array());
    let statements = match parts {
        None => vec![Statement::read(entry)?],
        Some(parts) => parts
            .iter()
            .map(|part| Statement::read(part.as_document().ok_or_else(|| expected("applyOps", "documents"))?))
            .collect::<Result<_, _>>()?,
    };
    Ok(Some(StatementOrigin {
        lsid: super::operation::document(entry, "lsid")?.to_buf(),
        txn_number,
        is_first: entry.contains("prevOpTime"),
        statements,
    }))
}
