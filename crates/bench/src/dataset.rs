//! Loading the documents that requests are about.

use crate::command_client::CommandClient;
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::scenario::{COLLECTION, DATABASE, document};
use document::{RawValue, Value, doc};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Documents in one insert.
const LOAD_BATCH: i32 = 1_000;

/// Fills the collection anew with `stored` documents of `size` bytes, ids from 0. Returns how long it took.
pub(crate) fn load(
    address: SocketAddr,
    stored: i32,
    size: usize,
    interrupt: &Interrupt,
) -> Result<Duration, BenchError> {
    let mut client = CommandClient::connect(address)?;
    client.command(&doc! { "dropDatabase": 1, "$db": DATABASE })?;
    let begun = Instant::now();
    for first in (0..stored).step_by(LOAD_BATCH as usize) {
        interrupt.check()?;
        let last = stored.min(first + LOAD_BATCH);
        let documents: Vec<Value> = (first..last).map(|id| document(id, size).into()).collect();
        let reply =
            client.command(&doc! { "insert": COLLECTION, "documents": documents, "$db": DATABASE })?;
        let inserted = reply.get("n").map(|count| count.with_raw(|raw| raw == RawValue::Int32(last - first)));
        if inserted != Some(true) {
            return Err(BenchError::Load { reply: format!("{reply:?}") });
        }
    }
    Ok(begun.elapsed())
}
