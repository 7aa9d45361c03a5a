//! From what the generator saw to the result that is kept.

use crate::generator::{ConnectionCounts, Errors, KindOutcome, Outcome, RunOutcome, Second, add_errors};
use crate::result::{
    Client, KindResult, Latency, Repetition, SecondFigures, SecondKind, SecondResult, ServerSample,
};

/// A generator thread that uses this share of its core is itself the limit.
pub(crate) const SATURATED: f64 = 0.9;
const TOTAL: &str = "total";

/// One repetition. Kinds keep their order; those of several groups follow one another.
pub(crate) fn repetition(outcome: &RunOutcome, server: Vec<ServerSample>) -> Repetition {
    let elapsed = outcome.groups.iter().map(|group| group.elapsed).max().unwrap_or_default().as_secs_f64();
    let mut connections = ConnectionCounts::default();
    outcome.groups.iter().for_each(|group| connections.add(group.connections));
    let outcomes: Vec<&KindOutcome> = outcome.groups.iter().flat_map(|group| &group.kinds).collect();
    let kinds: Vec<KindResult> = outcomes.iter().map(|kind| kind_result(kind, elapsed)).collect();
    Repetition {
        elapsed_seconds: elapsed,
        total: total(outcome, &kinds, elapsed),
        kinds,
        connections,
        client: client(outcome),
        seconds: seconds(outcome, &outcomes, elapsed),
        server,
    }
}

fn rate(operations: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { operations as f64 / seconds } else { 0.0 }
}

fn kind_result(kind: &KindOutcome, elapsed: f64) -> KindResult {
    KindResult {
        name: kind.name.clone(),
        operations: kind.operations,
        rate: rate(kind.operations, elapsed),
        errors: kind.errors.clone(),
        latency: kind.latencies.clone().into(),
    }
}

/// All kinds together, and the failures that belong to none of them.
fn total(outcome: &RunOutcome, kinds: &[KindResult], elapsed: f64) -> KindResult {
    let mut errors = Errors::new();
    outcome.groups.iter().for_each(|group| add_errors(&mut errors, &group.errors()));
    let operations = kinds.iter().map(|kind| kind.operations).sum();
    KindResult {
        name: TOTAL.to_owned(),
        operations,
        rate: rate(operations, elapsed),
        errors,
        latency: Latency::merged(kinds.iter().map(|kind| &kind.latency)),
    }
}

fn client(outcome: &RunOutcome) -> Client {
    let connected: u64 = outcome.groups.iter().map(|group| group.connected as u64).sum();
    Client {
        busy: outcome.busy.clone(),
        saturated: outcome.busiest() >= SATURATED,
        resident_bytes: outcome.resident_bytes,
        bytes_per_connection: outcome.connections_bytes.checked_div(connected).unwrap_or_default(),
    }
}

fn seconds(outcome: &RunOutcome, kinds: &[&KindOutcome], elapsed: f64) -> Vec<SecondResult> {
    let count = kinds.iter().map(|kind| kind.seconds.len()).max().unwrap_or_default();
    (0..count).map(|number| second(outcome, kinds, number, elapsed)).collect()
}

fn second(outcome: &RunOutcome, kinds: &[&KindOutcome], number: usize, elapsed: f64) -> SecondResult {
    // The last one may be shorter.
    let length = (elapsed - number as f64).clamp(0.0, 1.0);
    let mut sum = Second::default();
    let mut by_kind = Vec::with_capacity(kinds.len());
    for kind in kinds {
        let Some(second) = kind.seconds.get(number) else { continue };
        sum.merge(second);
        by_kind.push(SecondKind { name: kind.name.clone(), figures: figures(second, length) });
    }
    let open = |group: &Outcome| group.open_by_second.get(number).copied().unwrap_or_default();
    SecondResult {
        second: number as u64,
        connections: outcome.groups.iter().map(open).sum(),
        all: figures(&sum, length),
        kinds: by_kind,
    }
}

fn figures(second: &Second, length: f64) -> SecondFigures {
    let known = |ms: f64| (second.latencies.count() > 0).then_some(ms);
    SecondFigures {
        rate: rate(second.operations, length),
        errors: second.errors,
        p50_ms: known(second.quantile_ms(0.5)),
        p99_ms: known(second.quantile_ms(0.99)),
        max_ms: known(second.max_us as f64 / 1_000.0),
    }
}
