//! One connection that loads documents.

use crate::command_client::{CommandClient, is_ok, message_of};
use crate::error::BenchError;
use crate::message::{encode, message, reply_body};
use crate::run::load_phase::{PATIENCE, Work};
use crate::security::ServerPlace;
use crate::workload::{Documents, Workload};
use document::{ArrayBuilder, Document, DocumentBuilder, RawDocument, RawValue, Value, doc};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often a batch that an overloaded server refused is sent again …
const TRIES: u32 = 8;
/// … after this pause, which doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const DUPLICATE_KEY: i32 = 11_000;
/// What servers call an error that another try may cure.
const RETRYABLE: [&str; 2] = ["RetryableError", "RetryableWriteError"];

/// What one connection did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Loaded {
    pub(crate) inserted: u64,
    pub(crate) already_there: u64,
}

#[derive(Debug)]
pub(crate) struct Loader<'w> {
    workload: &'w Workload,
    documents: &'w Documents,
    client: CommandClient,
}

impl<'w> Loader<'w> {
    pub(crate) fn connect(
        workload: &'w Workload,
        documents: &'w Documents,
        place: &ServerPlace,
    ) -> Result<Self, BenchError> {
        Ok(Loader { workload, documents, client: CommandClient::connect_within(place.clone(), PATIENCE)? })
    }

    /// Takes batch after batch until none is left.
    pub(crate) fn run(mut self, work: &Work) -> Result<Loaded, BenchError> {
        let mut sum = Loaded::default();
        loop {
            if work.stop.load(Ordering::Relaxed) || work.interrupt.check().is_err() {
                return Ok(sum);
            }
            let index = work.next.fetch_add(1, Ordering::Relaxed);
            let Some(&first) = work.batches.get(index) else { return Ok(sum) };
            let numbers = first..self.workload.records().min(first + work.batch);
            let whole = numbers.end - numbers.start;
            let missing = if work.looks_first { self.missing(numbers)? } else { numbers.collect() };
            let loaded = self.insert(&missing, work)?;
            sum.inserted += loaded.inserted;
            sum.already_there += whole - loaded.inserted;
            work.done.fetch_add(whole, Ordering::Relaxed);
        }
    }

    /// The numbers of the documents that are not there.
    fn missing(&mut self, numbers: Range<u64>) -> Result<Vec<u64>, BenchError> {
        let count = (numbers.end - numbers.start) as i32;
        let keys: Vec<Value> = numbers.clone().map(|number| self.documents.key(number)).collect();
        let command = doc! {
            "find": (self.workload.collection.as_str()), "filter": { "_id": { "$in": keys } },
            "projection": { "_id": 1 }, "limit": count, "batchSize": count, "singleBatch": true,
            "$db": (self.workload.database.as_str()),
        };
        let reply = self.client.exchange(&encode(&command))?;
        let body = reply_body(&reply)?;
        let batch = body
            .get("cursor")
            .and_then(RawValue::as_document)
            .and_then(|cursor| cursor.get("firstBatch"))
            .and_then(RawValue::as_array)
            .ok_or_else(|| BenchError::Load { reply: message_of(&body.to_document()) })?;
        let found =
            batch.iter().filter_map(|found| Some(found.as_document()?.element(b"_id")?.value_bytes()));
        let there: HashSet<&[u8]> = found.collect();
        let mut key = Vec::new();
        Ok(numbers
            .filter(|&number| {
                key.clear();
                self.workload.key.append(number, &mut key);
                !there.contains(key.as_slice())
            })
            .collect())
    }

    /// Inserts these documents; an overloaded server is asked again.
    fn insert(&mut self, numbers: &[u64], work: &Work) -> Result<Loaded, BenchError> {
        if numbers.is_empty() {
            return Ok(Loaded::default());
        }
        let message = self.batch(numbers);
        let mut pause = FIRST_PAUSE;
        for _ in 0..TRIES {
            let reply = self.client.exchange(&message)?;
            let reply = reply_body(&reply)?.to_document();
            if is_ok(&reply) {
                return judged(&reply, numbers.len() as u64);
            }
            if !is_retryable(&reply) {
                return Err(BenchError::Load { reply: message_of(&reply) });
            }
            work.interrupt.pause(pause)?;
            pause *= 2;
        }
        Err(BenchError::Load { reply: format!("the server refused a batch {TRIES} times as overloaded") })
    }

    /// The insert of these documents.
    fn batch(&self, numbers: &[u64]) -> Vec<u8> {
        let mut body = Vec::new();
        let mut builder = DocumentBuilder::new(&mut body);
        builder.append("insert", self.workload.collection.as_str()).append("ordered", false);
        let mut array: ArrayBuilder<'_> = builder.start_array("documents");
        let mut one = Vec::new();
        for &number in numbers {
            one.clear();
            self.documents.write(number, &mut one);
            array.push(RawValue::Document(RawDocument::trusted(&one)));
        }
        array.finish();
        builder.append("$db", self.workload.database.as_str());
        builder.finish();
        message(&body)
    }
}

fn is_retryable(reply: &Document) -> bool {
    let labels = reply.get("errorLabels").and_then(Value::as_array).unwrap_or_default();
    labels.iter().filter_map(Value::as_str).any(|label| RETRYABLE.contains(&label))
}

/// What became of a batch that the server took: a document that somebody inserted meanwhile is as good as
/// inserted.
fn judged(reply: &Document, sent: u64) -> Result<Loaded, BenchError> {
    let errors = reply.get("writeErrors").and_then(Value::as_array).unwrap_or_default();
    let is_duplicate = |error: &&Value| {
        error.as_document().and_then(|error| error.get("code")) == Some(&Value::Int32(DUPLICATE_KEY))
    };
    if let Some(error) = errors.iter().find(|error| !is_duplicate(error)) {
        let reply = error.as_document().map_or_else(|| format!("{error:?}"), message_of);
        return Err(BenchError::Load { reply });
    }
    if let Some(Value::Document(error)) = reply.get("writeConcernError") {
        return Err(BenchError::Load { reply: message_of(error) });
    }
    let already_there = errors.len() as u64;
    let inserted = match reply.get("n") {
        Some(Value::Int32(n)) => u64::try_from(*n).unwrap_or_default(),
        Some(Value::Int64(n)) => u64::try_from(*n).unwrap_or_default(),
        _ => 0,
    };
    if inserted + already_there != sent {
        return Err(BenchError::Load {
            reply: format!("{inserted} of {sent} documents inserted: {reply:?}"),
        });
    }
    Ok(Loaded { inserted, already_there })
}
