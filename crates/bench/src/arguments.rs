//! What every measurement can be told, and how times and rates are written on the command line.

use crate::affinity::Pin;
use crate::generator::duration;
use clap::{Args, value_parser};
use std::str::FromStr;
use std::time::Duration;

/// How much of what is measured, how long and how often, and by how large a generator.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Measurement")]
pub(crate) struct MeasureArguments {
    /// Documents to load [default: 100000; 0 where documents are only inserted]
    #[arg(long, value_name = "N", visible_alias = "documents")]
    pub(crate) records: Option<u64>,
    /// Size of a document's BSON, in bytes [default: of a workload as YCSB, about 1,130, or 1024; each
    /// experiment has its own]
    #[arg(long, value_name = "BYTES")]
    pub(crate) document_bytes: Option<usize>,
    /// Load before measuring begins [default: 2s; 1s in experiments; 0 with --operations]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) warm_up: Option<Time>,
    /// Measured time of each repetition [default: 30s; none with --operations; 5s in experiments, and longer
    /// where requests are slow and connections many]
    #[arg(long, value_name = "TIME", visible_alias = "seconds", allow_hyphen_values = true,
        value_parser = positive)]
    pub(crate) duration: Option<Duration>,
    /// How often to measure, in rounds over all that is compared: tables show medians over them, comparisons
    /// draw confidence intervals from them
    #[arg(long, value_name = "N", visible_alias = "rounds", value_parser = value_parser!(u32).range(1..))]
    pub(crate) repetitions: Option<u32>,
    /// Generator threads in each process
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    pub(crate) threads: u32,
    /// Generator processes: one has descriptors for about 20,000 connections
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    pub(crate) processes: u32,
    /// Seed of everything that is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Cores of the generator, and of servers that it starts, such as 0:1
    #[arg(long, value_name = "GENERATOR[:SERVER]")]
    pub(crate) pin: Option<Pin>,
}

/// `10s`, `500ms`, or seconds without a unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time(pub(crate) Duration);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds = text.trim().parse::<f64>().ok().map(|seconds| format!("{seconds}s"));
        duration(seconds.as_deref().unwrap_or(text))
            .map(Time)
            .map_err(|_| "no time; expected seconds, or a number and us, ms, s, m or h".to_owned())
    }
}

pub(crate) fn positive(text: &str) -> Result<Duration, String> {
    match text.parse::<Time>()? {
        Time(Duration::ZERO) => Err("it must be above 0".to_owned()),
        Time(time) => Ok(time),
    }
}

pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let rate = text.trim().parse::<f64>().ok().filter(|rate| *rate > 0.0 && rate.is_finite());
    rate.ok_or("expected operations a second, above 0".to_owned())
}
