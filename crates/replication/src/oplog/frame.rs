//! What every entry ends with, and the place of what only the leader knows when it takes the entry into the
//! log.
//!
//! ```text
//!  ┌ operation: op ns ui o o2 stmtId … │ lsid txnNumber prevOpTime │ ts: 12 │ t: 11 │ v: 11 │ wall: 14 │ 0 ┐
//!    known when it is evaluated          of a retryable write         patched by `place`
//! ```

use super::entry::StatementOrigin;
use crate::optime::OpTime;
use document::{DocumentBuilder, RawValue, Timestamp};

/// The version of the entries' form.
pub(super) const VERSION: i64 = 2;

/// The heads of `ts`, `t`, `v` and `wall`: type, name, zero.
const TIMESTAMP: &[u8] = b"\x11ts\0";
const TERM: &[u8] = b"\x12t\0";
const VERSION_BYTES: usize = 3 + 8;
const WALL_BYTES: usize = 6 + 8;

/// Bytes from the field `ts` to the end.
const PLACED_BYTES: usize = TIMESTAMP.len() + 8 + TERM.len() + 8 + VERSION_BYTES + WALL_BYTES + 1;

/// Appends what comes behind the operation. `wall` is in milliseconds since 1970.
pub(super) fn append_end(builder: &mut DocumentBuilder<'_>, origin: Option<&StatementOrigin>, wall: i64) {
    if let Some(origin) = origin {
        builder.append("lsid", &origin.lsid).append("txnNumber", origin.txn_number);
        if origin.is_first {
            let nothing = Timestamp { time: 0, increment: 0 };
            builder.start_document("prevOpTime").append("ts", nothing).append("t", -1i64);
        }
    }
    let unknown = Timestamp { time: 0, increment: 0 };
    builder.append("ts", unknown).append("t", 0i64);
    builder.append("v", VERSION).append("wall", RawValue::DateTime(wall));
}

/// Writes into an encoded entry where in the log it is.
pub fn place(entry: &mut [u8], optime: OpTime) {
    let start = entry.len().checked_sub(PLACED_BYTES).expect("an entry has ts, t, v and wall");
    let (_, end) = entry.split_at_mut(start);
    let (timestamp_head, end) = end.split_at_mut(TIMESTAMP.len());
    let (timestamp, end) = end.split_at_mut(8);
    let (term_head, end) = end.split_at_mut(TERM.len());
    let (term, _) = end.split_at_mut(8);
    assert!(timestamp_head == TIMESTAMP && term_head == TERM, "an entry ends with ts, t, v and wall");
    timestamp.copy_from_slice(&optime.timestamp.as_u64().to_le_bytes());
    term.copy_from_slice(&optime.term.to_le_bytes());
}

/// Where in the log an encoded entry is; `None` for what is no entry.
pub(crate) fn placed(entry: &[u8]) -> Option<OpTime> {
    let end = entry.get(entry.len().checked_sub(PLACED_BYTES)?..)?;
    let (timestamp, end) = end.strip_prefix(TIMESTAMP)?.split_first_chunk()?;
    let (term, _) = end.strip_prefix(TERM)?.split_first_chunk()?;
    let timestamp = Timestamp::from_u64(u64::from_le_bytes(*timestamp));
    Some(OpTime { timestamp, term: u64::from_le_bytes(*term) })
}

/// Whether an encoded entry is a command on names or indexes, as far as a look at its beginning tells.
pub(crate) fn changes_names(entry: &[u8]) -> bool {
    // Behind the length: `op`, a string of two bytes.
    const COMMAND: &[u8] = b"\x02op\0\x02\0\0\0c\0";
    const HEAD: usize = 96;
    let is_command = entry.get(4..).is_some_and(|fields| fields.starts_with(COMMAND));
    is_command && !entry.windows(b"applyOps\0".len()).take(HEAD).any(|found| found == b"applyOps\0")
}
