//! YCSB's workload A by number of connections: half reads, half updates, of zipfian popularity.

use crate::article::Subject;
use crate::article::arguments::Settings;
use crate::article::figures::{Column, GENERATOR, Measurement};
use crate::error::BenchError;
use crate::generator::{GroupSpec, KindOutcome, Pacing};
use crate::run::{LoadMode, load};
use crate::workload::{self, Concerns, Part, WorkloadSource, number_of_birth, unix_milliseconds};
use std::sync::Arc;

const WORKLOAD: &str = "a";
/// Connections that load the documents.
const LOADERS: usize = 4;

pub(super) const READ_P99: Column = Column::median("read p99 ms", 2);
pub(super) const UPDATE_P99: Column = Column::median("update p99 ms", 2);
pub(super) const UPDATE_LONGEST: Column = Column::most("update max ms", 1);

/// One cell in one round.
pub(super) fn measure(
    settings: &Settings,
    subject: Subject,
    connections: usize,
    seed: u64,
) -> Result<Measurement, BenchError> {
    let mut served = settings.serve_empty(subject)?;
    let chosen = workload::Settings {
        workload: Some(WORKLOAD.to_owned()),
        records: Some(settings.stored.unsigned_abs().into()),
        ..workload::Settings::default()
    };
    let interrupt = &settings.rig.interrupt;
    load(&chosen.build()?, served.address(), LoadMode::Fresh, LOADERS, seed, interrupt, &mut |_| ())?;
    let source =
        WorkloadSource::new(&chosen, &Concerns::default(), Part::All, number_of_birth(unix_milliseconds()))?;
    let group = GroupSpec::new(connections, Arc::new(source), Pacing::Closed);
    let run = settings.rig.run(served.address(), &[group], seed, &settings.window())?;
    served.check_alive()?;
    let busy = run.busiest();
    let [outcome] = run.split()?;
    let kind = |name: &str| outcome.kinds.iter().find(|kind| kind.name == name);
    let p99_ms = |kind: &KindOutcome| kind.latency_us.value_at_quantile(0.99) as f64 / 1_000.0;
    let mut measurement = Measurement::of(&outcome);
    if let Some(read) = kind("read") {
        measurement = measurement.with(READ_P99, p99_ms(read));
    }
    if let Some(update) = kind("update") {
        let longest_ms = update.latency_us.max() as f64 / 1_000.0;
        measurement = measurement.with(UPDATE_P99, p99_ms(update)).with(UPDATE_LONGEST, longest_ms);
    }
    Ok(measurement.with(GENERATOR, busy * 100.0))
}
