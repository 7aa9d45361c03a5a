//! How large the values of an expression may become.
//!
//! Values between operators need not fit into a document, so their size is bounded here: what an operator
//! makes, and what all operators that are still at work hold together. Reading a document's own fields is
//! bounded by the document.

use document::{Array, Document, Measure, Value};

use crate::error::{QueryError, code};

use super::{Evaluated, Outcome};

/// Bytes in memory of one array or object that an operator makes: so many values as MongoDB has in 100 MB.
const MAX_VALUE_BYTES: usize = MONGODB_VALUE_LIMIT / MONGODB_VALUE_BYTES * size_of::<Value>();
const MONGODB_VALUE_LIMIT: usize = 100 * 1024 * 1024;
const MONGODB_VALUE_BYTES: usize = 16;
/// Bytes in memory of all operands and variables of one expression while it runs.
pub(super) const MAX_HELD_BYTES: usize = 2 * MAX_VALUE_BYTES;
/// Bytes of a string that an operator makes (MongoDB's `BufferMaxSize`).
pub(super) const MAX_STRING_BYTES: usize = 64 * 1024 * 1024;
/// Levels of arrays and documents that MongoDB lets BSON have.
const MAX_DEPTH: usize = 200;

const BUFFER_TOO_LARGE: i32 = 13548;

/// The result of an operator that makes an array.
///
/// # Errors
/// As [`check`].
pub(super) fn array(name: &str, items: impl Into<Array>) -> Outcome {
    let items = items.into();
    check(name, items.measure())?;
    Ok(Some(Value::Array(items)))
}

/// The result of an operator that makes an object.
///
/// # Errors
/// As [`check`].
pub(super) fn object(name: &str, object: Document) -> Outcome {
    check(name, object.measure())?;
    Ok(Some(Value::Document(object)))
}

/// Refuses what is larger than a value may be.
///
/// # Errors
/// 146 for its bytes, 15 for its depth.
fn check(name: &str, measure: Measure) -> Result<(), QueryError> {
    check_bytes(name, measure.bytes)?;
    if measure.depth > MAX_DEPTH {
        bail!(
            code::OVERFLOW,
            "cannot convert document to BSON because it exceeds the limit of {MAX_DEPTH} levels of nesting"
        );
    }
    Ok(())
}

/// Refuses an array or object of so many bytes; to be called before they are filled.
///
/// # Errors
/// 146.
pub(super) fn check_bytes(name: &str, bytes: usize) -> Result<(), QueryError> {
    if bytes <= MAX_VALUE_BYTES { Ok(()) } else { Err(too_much(name, bytes, MAX_VALUE_BYTES)) }
}

/// Refuses a range of so many integers.
///
/// # Errors
/// 146.
pub(super) fn check_range(count: usize) -> Result<(), QueryError> {
    let bytes = size_of::<Vec<Value>>() + count.saturating_mul(MONGODB_VALUE_BYTES);
    if bytes < MONGODB_VALUE_LIMIT { Ok(()) } else { Err(too_much("$range", bytes, MONGODB_VALUE_LIMIT)) }
}

/// The refusal of what takes too many bytes.
pub(super) fn too_much(name: &str, bytes: usize, limit: usize) -> QueryError {
    query_error!(
        code::EXCEEDED_MEMORY_LIMIT,
        "{name} would use too much memory ({bytes} bytes) and cannot spill to disk. Memory limit: {limit} \
        bytes"
    )
}

/// The bytes of an array while it is filled.
pub(super) struct Filling {
    name: &'static str,
    bytes: usize,
}

impl Filling {
    pub(super) fn of(name: &'static str) -> Self {
        Filling { name, bytes: 0 }
    }

    /// Counts one more item; returns its bytes.
    ///
    /// # Errors
    /// 146.
    pub(super) fn add(&mut self, item: &Value) -> Result<usize, QueryError> {
        let bytes = item.memory_bytes();
        self.bytes += bytes;
        check_bytes(self.name, self.bytes)?;
        Ok(bytes)
    }
}

/// Refuses to make a string or document of so many bytes.
///
/// # Errors
/// 13548.
pub(crate) fn check_string(bytes: usize) -> Result<(), QueryError> {
    if bytes <= MAX_STRING_BYTES {
        return Ok(());
    }
    Err(query_error!(
        BUFFER_TOO_LARGE,
        "BufBuilder attempted to grow() to {bytes} bytes, past the 64MB limit."
    ))
}

/// The bytes that a value holds; none for a missing one.
pub(super) fn bytes_of(value: &Evaluated) -> usize {
    value.as_ref().map_or(0, Value::memory_bytes)
}
