//! A run's configuration and figures in words and tables, the same on the terminal and in pages.

use crate::result::number::{amount, bytes, count, percent, plain};
use crate::result::table::{Place, Table, Tone};
use crate::result::{Latency, RunResult};
use std::collections::BTreeMap;

pub(crate) fn operations(result: &RunResult) -> Table {
    let mut table = Table::new([
        "operation",
        "operations",
        "ops/s",
        "mean ms",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "p99.9 ms",
        "max ms",
        "errors",
    ]);
    let summaries = result.summaries();
    // One kind of operation is the total.
    let shown = if summaries.len() == 2 { 1 } else { summaries.len() };
    for summary in summaries.into_iter().take(shown) {
        let mut row: Vec<Place> =
            vec![summary.name.into(), count(summary.operations).into(), amount(summary.rate).into()];
        let Latency { mean_ms, p50_ms, p95_ms, p99_ms, p999_ms, max_ms, .. } = summary.latency;
        let latencies = [mean_ms, p50_ms, p95_ms, p99_ms, p999_ms, max_ms];
        row.extend(latencies.map(|latency| amount(latency).into()));
        row.push(errors_of(summary.errors.values().sum()));
        table.row(row);
    }
    table
}

/// A number of errors, which is bad unless it is 0.
pub(crate) fn errors_of(errors: u64) -> Place {
    Place::from(count(errors)).toned(if errors > 0 { Tone::Bad } else { Tone::Plain })
}

/// The table of errors; `None` when there were none.
pub(crate) fn errors(result: &RunResult) -> Option<Table> {
    let errors = result.errors();
    let mut table = Table::new(["operation", "error", "code", "times"]);
    table.text_columns = 3;
    for &(operation, error, times) in &errors {
        let code = error.code.map(|code| code.to_string()).unwrap_or_default();
        let what = format!("{}: {}", error.kind.name(), error.name);
        table.row([operation.to_owned(), what, code, count(times)]);
    }
    (!errors.is_empty()).then_some(table)
}

/// The table of repetitions; `None` when there was only one.
pub(crate) fn repetitions(result: &RunResult) -> Option<Table> {
    let mut table = Table::new(["repetition", "seconds", "ops/s", "p50 ms", "p99 ms", "max ms", "errors"]);
    for (number, repetition) in (1..).zip(&result.repetitions) {
        let total = &repetition.total;
        table.row([
            number.to_string(),
            amount(repetition.elapsed_seconds),
            amount(total.rate),
            amount(total.latency.p50_ms),
            amount(total.latency.p99_ms),
            amount(total.latency.max_ms),
            count(total.error_count()),
        ]);
    }
    (table.rows.len() > 1).then_some(table)
}

/// What was asked, of whom, and how.
pub(crate) fn configuration(result: &RunResult) -> Vec<(&'static str, String)> {
    let (workload, target) = (&result.workload, &result.target);
    let documents = format!(
        "{} of {} bytes, {} fields, chosen {}",
        count(workload.record_count),
        count(workload.document_bytes),
        workload.fields,
        workload.distribution
    );
    let mut pairs = vec![
        ("workload", format!("{}: {}", workload.name, mix(result))),
        ("documents", documents),
        ("server", server(result)),
        ("target", target.connection_string.clone()),
        ("load", load(result)),
        ("length", length(result)),
    ];
    let concerns = concerns(result);
    if !concerns.is_empty() {
        pairs.push(("asked for", concerns));
    }
    if let Some(phase) = &result.load_phase {
        let failures: u64 = phase.errors.values().sum();
        let mut text = format!(
            "{} documents in {} s ({}/s), {} were there",
            count(phase.documents),
            plain(phase.seconds),
            plain(phase.rate),
            count(phase.already_there)
        );
        if failures > 0 {
            text.push_str(&format!(", {}", plural(failures, "error")));
        }
        pairs.push(("loaded", text));
    }
    pairs
}

/// Kinds of operations and their shares.
pub(crate) fn mix(result: &RunResult) -> String {
    let mix = result.workload.mix.iter();
    mix.map(|(name, share)| format!("{} {name}", percent(*share))).collect::<Vec<_>>().join(", ")
}

fn server(result: &RunResult) -> String {
    let server = &result.target.server;
    let mut parts = vec![result.target.hosts.join(", ")];
    parts.extend(server.version.as_ref().map(|version| format!("version {version}")));
    parts.extend(server.storage_engine.clone());
    parts.extend(server.service_executor.as_ref().map(|executor| format!("thread model {executor}")));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

fn load(result: &RunResult) -> String {
    let load = &result.load;
    let mut text = format!("{}, {}", plural(load.connections, "connection"), load.schedule);
    if let Some(rate) = load.rate {
        text.push_str(&format!(" at {} ops/s", plain(rate)));
    }
    text.push_str(&format!(", {}", plural(u64::from(load.threads), "generator thread")));
    if load.processes > 1 {
        text.push_str(&format!(" in each of {} processes", load.processes));
    }
    format!("{text}, seed {}", load.seed)
}

fn length(result: &RunResult) -> String {
    let load = &result.load;
    let each = match (load.duration_seconds, load.operations) {
        (Some(seconds), Some(operations)) => {
            format!("{} s or {} operations", plain(seconds), count(operations))
        }
        (Some(seconds), None) => format!("{} s", plain(seconds)),
        (None, Some(operations)) => format!("{} operations", count(operations)),
        (None, None) => "until ended".to_owned(),
    };
    let times = result.repetitions.len();
    let repeated = if times == 1 { String::new() } else { format!(", measured {times} times") };
    format!("{each} after {} s of warm-up{repeated}", plain(load.warm_up_seconds))
}

fn concerns(result: &RunResult) -> String {
    let load = &result.load;
    let named = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("{name} {value}"));
    let compressors = (!load.compressors.is_empty()).then(|| load.compressors.join(", "));
    [
        named("reads from", &load.read_preference),
        named("read concern", &load.read_concern),
        named("write concern", &load.write_concern),
        compressors,
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join("; ")
}

fn plural(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// What connections, the generator and the server did meanwhile.
pub(crate) fn circumstances(result: &RunResult) -> Vec<(&'static str, String)> {
    let mut pairs = Vec::new();
    if !result.repetitions.is_empty() {
        pairs.push(("connections", connections(result)));
        pairs.push(("generator", generator(result)));
    }
    if let Some(text) = observed(result) {
        pairs.push(("server", text));
    }
    pairs
}

fn connections(result: &RunResult) -> String {
    let all = || result.repetitions.iter().map(|repetition| &repetition.connections);
    let asked = all().map(|connections| connections.asked).max().unwrap_or_default();
    let mut parts = vec![format!("{} wanted", count(asked))];
    let sums = [
        ("opened", all().map(|connections| connections.opened).sum::<u64>()),
        ("refused", all().map(|connections| connections.refused).sum()),
        ("lost", all().map(|connections| connections.lost).sum()),
        ("opened again", all().map(|connections| connections.reconnected).sum()),
    ];
    parts.extend(
        sums.into_iter().filter(|(_, sum)| *sum > 0).map(|(what, sum)| format!("{} {what}", count(sum))),
    );
    parts.join(", ")
}

fn generator(result: &RunResult) -> String {
    let clients = || result.repetitions.iter().map(|repetition| &repetition.client);
    let busy = clients().flat_map(|client| &client.busy).copied().fold(0.0, f64::max);
    let memory = clients().map(|client| client.resident_bytes).max().unwrap_or_default();
    let each = clients().map(|client| client.bytes_per_connection).max().unwrap_or_default();
    let mut text = format!("busiest thread {} of a core, {} of memory", percent(busy), bytes(memory));
    if each > 0 {
        text.push_str(&format!(", {} a connection", bytes(each)));
    }
    text
}

/// From the samples of `serverStatus`; `None` without samples.
fn observed(result: &RunResult) -> Option<String> {
    let samples = || result.repetitions.iter().flat_map(|repetition| &repetition.server);
    samples().next()?;
    let mut parts = Vec::new();
    if let Some(most) = samples().filter_map(|sample| sample.figure("connections")).max() {
        parts.push(format!("up to {}", plural(most, "connection")));
    }
    let mut most: BTreeMap<&str, u64> = BTreeMap::new();
    for executor in samples().flat_map(|sample| &sample.executors) {
        let threads = executor.threads_running.filter(|threads| *threads > 0);
        if let Some(threads) = threads {
            most.entry(&executor.name).and_modify(|most| *most = threads.max(*most)).or_insert(threads);
        }
    }
    if !most.is_empty() {
        let all: Vec<String> = most.iter().map(|(name, threads)| format!("{name} {threads}")).collect();
        parts.push(format!("threads: {}", all.join(", ")));
    }
    if let Some(share) = cache_hits(result) {
        parts.push(format!("{:.1} % of cache look-ups hit", share * 100.0));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Share of look-ups that the server's cache answered, between the first and the last sample of each
/// repetition.
fn cache_hits(result: &RunResult) -> Option<f64> {
    let (mut hits, mut misses) = (0, 0);
    for repetition in &result.repetitions {
        let (Some(first), Some(last)) = (repetition.server.first(), repetition.server.last()) else {
            continue;
        };
        let grown = |key| last.figure(key)?.checked_sub(first.figure(key)?);
        hits += grown("cacheHits").unwrap_or_default();
        misses += grown("cacheMisses").unwrap_or_default();
    }
    (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64)
}

/// Where the load came from.
pub(crate) fn machine(result: &RunResult) -> Vec<(&'static str, String)> {
    let (machine, tool) = (&result.machine, &result.tool);
    let commit = tool.commit.as_ref().map(|commit| format!(" ({commit})")).unwrap_or_default();
    vec![
        ("load from", format!("{} cores, {}", machine.cores, machine.model)),
        ("memory", bytes(machine.memory_bytes)),
        ("system", machine.kernel.clone()),
        ("program", format!("{} {}{commit}", tool.name, tool.version)),
        ("started", result.started.clone()),
    ]
}
