//! Loading the documents that a workload is about: in parallel, and resumable without a record of its own.
//! What is there is found by the documents' keys.
//!
//! ```text
//!   numbers 0..records ─batches─▶ loader threads, a connection each:
//!                    anything there before? find the keys of the batch ─▶ insert those that are missing
//! ```

use crate::command_client::{CommandClient, is_ok, message_of};
use crate::error::BenchError;
use crate::generator::Errors;
use crate::interrupt::Interrupt;
use crate::result::LoadPhase;
use crate::run::loader::{Loaded, Loader};
use crate::security::ServerPlace;
use crate::threads::run_all;
use crate::workload::{Documents, Workload};
use clap::ValueEnum;
use document::{Document, Value, doc};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Between two words on progress.
const TICK: Duration = Duration::from_secs(1);
/// A batch has about so many bytes …
const BATCH_BYTES: usize = 1024 * 1024;
/// … and at most so many documents.
const BATCH_DOCUMENTS: usize = 1_000;
/// Of a collection that seems to be complete, about so many batches are looked at …
const SAMPLED: usize = 200;
/// … and so many at its end.
const SAMPLED_LAST: usize = 16;
/// How long one command of the load may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// MongoDB's code of a collection that is not there.
const NAMESPACE_NOT_FOUND: i32 = 26;
/// Bytes by which documents of one template may differ beyond what a few of them show.
const SIZE_TOLERANCE: usize = 16;

/// What to do about documents that are there or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum LoadMode {
    /// Insert the documents that are missing
    #[default]
    Resume,
    /// Drop the collection and load all
    Fresh,
    /// Load nothing
    Skip,
}

/// How far the load is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LoadProgress {
    /// Documents that are known to be there.
    pub(crate) done: u64,
    pub(crate) records: u64,
    /// Documents a second, since the beginning.
    pub(crate) rate: f64,
}

/// What the threads share.
#[derive(Debug)]
pub(crate) struct Work {
    /// The first numbers of the batches.
    pub(crate) batches: Vec<u64>,
    /// Documents in a batch.
    pub(crate) batch: u64,
    /// The index of the first batch that nobody has taken.
    pub(crate) next: AtomicUsize,
    /// Documents that are known to be there.
    pub(crate) done: AtomicU64,
    /// Somebody failed, or wants the end.
    pub(crate) stop: AtomicBool,
    pub(crate) interrupt: Interrupt,
    /// Whether documents may be there already.
    pub(crate) looks_first: bool,
}

/// What the load phase found and did.
#[derive(Debug, Default)]
pub(crate) struct LoadReport {
    /// None when there was nothing to load.
    pub(crate) phase: Option<LoadPhase>,
    pub(crate) warnings: Vec<String>,
}

/// Loads what is missing. `observe` is called once a second.
///
/// # Errors
/// When the server refuses, cannot be reached any more, or holds fewer documents afterwards than it
/// acknowledged; and [`BenchError::Interrupted`].
pub(crate) fn load(
    workload: &Workload,
    place: impl Into<ServerPlace>,
    mode: LoadMode,
    connections: usize,
    seed: u64,
    interrupt: &Interrupt,
    observe: &mut dyn FnMut(LoadProgress),
) -> Result<LoadReport, BenchError> {
    let place = place.into();
    let mut client = CommandClient::connect_within(place.clone(), PATIENCE)?;
    if mode == LoadMode::Fresh {
        drop_collection(workload, &mut client)?;
    }
    if mode != LoadMode::Skip {
        create_indexes(workload, &mut client)?;
    }
    let before = count(workload, &mut client)?;
    let documents = Documents::new(workload, seed);
    let mut report = LoadReport::default();
    if before > 0 && workload.records() > 0 {
        report.warnings.extend(size_warning(workload, &documents, &mut client)?);
    }
    if mode != LoadMode::Skip && workload.records() > 0 {
        let mut load = |batches: Vec<u64>| {
            let work = Work::new(batches, batch_of(&documents), before > 0, interrupt);
            in_parallel(workload, &place, connections, &documents, &work, observe)
        };
        let all = batches(workload.records(), batch_of(&documents));
        let sampled = if before >= workload.records() { sample(&all) } else { Vec::new() };
        // A load that ended early lacks whole batches, most of them at the end: nothing else does when a part
        // lacks nothing.
        let complete = !sampled.is_empty() && {
            let phase = load(sampled)?;
            report.phase = Some(LoadPhase { already_there: workload.records(), ..phase });
            phase_inserted(&report) == 0
        };
        if !complete {
            let found = phase_inserted(&report);
            let phase = load(all)?;
            let documents = phase.documents + found;
            let already_there = workload.records() - documents;
            report.phase = Some(LoadPhase { documents, already_there, ..phase });
        }
    }
    let after = count(workload, &mut client)?;
    if after < workload.records() {
        let records = workload.records();
        let name = format!("{}.{}", workload.database, workload.collection);
        let problem = format!("{name} holds {after} documents, and the workload is about {records}");
        if mode != LoadMode::Skip {
            return Err(BenchError::Load { reply: problem });
        }
        report.warnings.push(format!("{problem}: requests for missing ones count as errors"));
    }
    Ok(report)
}

fn phase_inserted(report: &LoadReport) -> u64 {
    report.phase.as_ref().map_or(0, |phase| phase.documents)
}

/// Documents that are inserted at once.
fn batch_of(documents: &Documents) -> u64 {
    let (_, largest) = documents.sizes();
    (BATCH_BYTES / largest.max(1)).clamp(1, BATCH_DOCUMENTS) as u64
}

/// The first number of each batch.
fn batches(records: u64, batch: u64) -> Vec<u64> {
    (0..records).step_by(batch as usize).collect()
}

/// Some batches from everywhere, and the last ones.
fn sample(batches: &[u64]) -> Vec<u64> {
    let every = batches.len().div_ceil(SAMPLED).max(1);
    let last = batches.len().saturating_sub(SAMPLED_LAST);
    let is_sampled = |(index, _): &(usize, &u64)| *index >= last || index % every == 0;
    batches.iter().enumerate().filter(is_sampled).map(|(_, first)| *first).collect()
}

impl Work {
    fn new(batches: Vec<u64>, batch: u64, looks_first: bool, interrupt: &Interrupt) -> Self {
        Work {
            batches,
            batch,
            next: AtomicUsize::new(0),
            done: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            interrupt: interrupt.clone(),
            looks_first,
        }
    }
}

fn in_parallel(
    workload: &Workload,
    place: &ServerPlace,
    connections: usize,
    documents: &Documents,
    work: &Work,
    observe: &mut dyn FnMut(LoadProgress),
) -> Result<LoadPhase, BenchError> {
    let begun = Instant::now();
    let task = || {
        let loaded = Loader::connect(workload, documents, place).and_then(|loader| loader.run(work));
        if loaded.is_err() {
            work.stop.store(true, Ordering::Relaxed);
        }
        loaded
    };
    let mut tick = || {
        let done = work.done.load(Ordering::Relaxed);
        let rate = done as f64 / begun.elapsed().as_secs_f64();
        observe(LoadProgress { done, records: workload.records(), rate });
    };
    let loaded: Vec<Loaded> = run_all(std::iter::repeat_n(&task, connections.max(1)), TICK, &mut tick)?;
    work.interrupt.check()?;
    let seconds = begun.elapsed().as_secs_f64();
    let inserted: u64 = loaded.iter().map(|one| one.inserted).sum();
    Ok(LoadPhase {
        documents: inserted,
        already_there: loaded.iter().map(|one| one.already_there).sum(),
        seconds,
        rate: inserted as f64 / seconds,
        errors: Errors::new(),
    })
}

/// A reply that says that the command was carried out.
fn demand(client: &mut CommandClient, command: &Document) -> Result<Document, BenchError> {
    let reply = client.command(command)?;
    if is_ok(&reply) { Ok(reply) } else { Err(BenchError::Load { reply: message_of(&reply) }) }
}

/// Drops the workload's collection; one that is not there is fine.
pub(crate) fn drop_collection(workload: &Workload, client: &mut CommandClient) -> Result<(), BenchError> {
    let reply = client
        .command(&doc! { "drop": (workload.collection.as_str()), "$db": (workload.database.as_str()) })?;
    if is_ok(&reply) || reply.get("code") == Some(&Value::Int32(NAMESPACE_NOT_FOUND)) {
        return Ok(());
    }
    Err(BenchError::Load { reply: message_of(&reply) })
}

fn create_indexes(workload: &Workload, client: &mut CommandClient) -> Result<(), BenchError> {
    if workload.indexes.is_empty() {
        return Ok(());
    }
    let indexes: Vec<Value> = workload.indexes.iter().map(|index| index.0.clone().into()).collect();
    let command = doc! {
        "createIndexes": (workload.collection.as_str()), "indexes": indexes,
        "$db": (workload.database.as_str()),
    };
    demand(client, &command).map(drop)
}

/// Documents in the collection.
pub(crate) fn count(workload: &Workload, client: &mut CommandClient) -> Result<u64, BenchError> {
    let reply = demand(
        client,
        &doc! { "count": (workload.collection.as_str()), "$db": (workload.database.as_str()) },
    )?;
    Ok(match reply.get("n") {
        Some(Value::Int32(count)) => u64::try_from(*count).unwrap_or_default(),
        Some(Value::Int64(count)) => u64::try_from(*count).unwrap_or_default(),
        Some(Value::Double(count)) => *count as u64,
        _ => return Err(BenchError::Load { reply: format!("a count without n: {reply:?}") }),
    })
}

/// Documents of another size were loaded with other settings.
fn size_warning(
    workload: &Workload,
    documents: &Documents,
    client: &mut CommandClient,
) -> Result<Option<String>, BenchError> {
    let command = doc! {
        "find": (workload.collection.as_str()), "limit": 1, "singleBatch": true,
        "$db": (workload.database.as_str()),
    };
    let reply = demand(client, &command)?;
    let batch = reply.get("cursor").and_then(Value::as_document).and_then(|cursor| cursor.get("firstBatch"));
    let stored = batch.and_then(Value::as_array).and_then(|batch| batch.first()).and_then(Value::as_document);
    let Some(stored) = stored.map(|stored| stored.to_buf().len()) else { return Ok(None) };
    let (least, most) = documents.sizes();
    let usual = least.saturating_sub(SIZE_TOLERANCE)..=most + SIZE_TOLERANCE;
    Ok((!usual.contains(&stored)).then(|| {
        let asked = if least == most { least.to_string() } else { format!("{least} to {most}") };
        format!(
            "{}.{} holds documents of {stored} bytes, and {asked} were asked for: --load fresh loads them \
            anew",
            workload.database, workload.collection
        )
    }))
}
