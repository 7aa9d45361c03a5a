//! The command line of `heddle bench run`: what is measured and how, for any target.

use crate::arguments::{MeasureArguments, Time, positive, rate};
use crate::generator::{Arrivals, Opening, Phases};
use crate::result::OutputOptions;
use crate::run::connection_string::{Compressors, read_preference};
use crate::run::load_phase::LoadMode;
use crate::workload::{Settings, W};
use clap::{Args, value_parser};
use std::convert::Infallible;
use std::str::FromStr;
use std::time::Duration;

/// Groups of more connections could not be numbered by ports and addresses of one machine anyway.
const MOST_CONNECTIONS: i64 = 10_000_000;

/// `heddle bench run`: a workload on any server that speaks the MongoDB wire protocol.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// The target: mongodb://host[:port],…/database?options
    #[arg(value_name = "CONNECTION_STRING", default_value = "mongodb://127.0.0.1:27017")]
    pub(crate) target: String,
    #[command(flatten)]
    pub(crate) plan: PlanArguments,
    /// What reports call this run; the workload's name by default
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

/// What is measured and how, whatever the target.
#[derive(Debug, Clone, Args)]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    pub(crate) workload: Settings,
    #[command(flatten)]
    pub(crate) load: LoadArguments,
    #[command(flatten)]
    pub(crate) measure: MeasureArguments,
    #[command(flatten)]
    pub(crate) pace: PaceArguments,
    #[command(flatten)]
    pub(crate) wire: WireArguments,
}

/// Loading documents beforehand.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Documents")]
pub(crate) struct LoadArguments {
    /// What to do about documents that are there or not
    #[arg(long, value_enum, default_value_t)]
    pub(crate) load: LoadMode,
    /// Connections that load in parallel
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = value_parser!(u32).range(1..))]
    pub(crate) load_connections: u32,
    /// Ends after loading
    #[arg(long)]
    pub(crate) load_only: bool,
    /// Drops the collection at the end
    #[arg(long)]
    pub(crate) drop: bool,
    /// Keeps the collection at the end, which is the default
    #[arg(long, conflicts_with = "drop")]
    pub(crate) keep: bool,
}

/// How much, how fast, how long.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct PaceArguments {
    /// Connections, all threads and processes together
    #[arg(long, short, value_name = "N", default_value_t = 64,
        value_parser = value_parser!(u32).range(1..=MOST_CONNECTIONS))]
    pub(crate) connections: u32,
    /// Open loop: so many operations a second, whatever the server does
    #[arg(long, value_name = "N", allow_hyphen_values = true, conflicts_with = "schedule",
        value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Open loop with steps, ramps and pauses (10s@1000,5s@0,60s@1000..5000), or bursts (500/2s)
    #[arg(long, value_name = "SCHEDULE", allow_hyphen_values = true)]
    pub(crate) schedule: Option<Said<Schedule>>,
    /// Pause of each connection between two operations, such as 10ms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) think: Option<Said<Time>>,
    /// Load that comes and goes, such as 5s,10s: sends for 5 s, is silent for 10 s
    #[arg(long, value_name = "ON,OFF", allow_hyphen_values = true)]
    pub(crate) phases: Option<Said<Phases>>,
    /// When connections are opened: before the run, storm (all at once when it begins), or so many a second
    #[arg(long, value_name = "before|storm|N", default_value = "before")]
    pub(crate) opening: Opening,
    /// Short connections: a new one after so many operations, as clients without a pool
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(crate) operations_per_connection: Option<u32>,
    /// Ends after so many operations, the warm-up's included
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub(crate) operations: Option<u64>,
}

/// What is agreed on with the server.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Protocol")]
pub(crate) struct WireArguments {
    /// primary, primaryPreferred, secondary, secondaryPreferred or nearest
    #[arg(long, value_name = "MODE", value_parser = read_preference)]
    pub(crate) read_preference: Option<String>,
    /// Read concern, such as local or majority
    #[arg(long, value_name = "LEVEL")]
    pub(crate) read_concern: Option<String>,
    /// Write concern: a number of members, or majority
    #[arg(long, value_name = "W", value_parser = write_concern)]
    pub(crate) write_concern: Option<W>,
    /// Writes are acknowledged when they are in the journal (j: true)
    #[arg(long)]
    pub(crate) journal: bool,
    /// Compressors to offer, in order: snappy, zlib, zstd
    #[arg(long, value_name = "NAMES")]
    pub(crate) compressors: Option<Compressors>,
    /// Connections begin with hello, as a driver's do; compressors need it anyway
    #[arg(long)]
    pub(crate) handshake: bool,
    /// An operation without a reply for this long fails, and its connection with it
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = positive)]
    pub(crate) timeout: Option<Duration>,
    /// Lost connections stay lost
    #[arg(long)]
    pub(crate) no_reconnect: bool,
}

/// A value, and the words in which the user said it.
#[derive(Debug, Clone)]
pub(crate) struct Said<T> {
    pub(crate) text: String,
    pub(crate) value: T,
}

impl<T: FromStr> FromStr for Said<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        Ok(Said { text: text.to_owned(), value: text.parse()? })
    }
}

/// A loop is closed, or open at these arrivals.
#[derive(Debug, Clone)]
pub(crate) struct Schedule(pub(crate) Option<Arrivals>);

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "closed" {
            Ok(Schedule(None))
        } else {
            text.parse().map(|arrivals| Schedule(Some(arrivals)))
        }
    }
}

impl FromStr for Opening {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "before" => Ok(Opening::Before),
            "storm" => Ok(Opening::AtOnce),
            text => rate(text)
                .map(Opening::PerSecond)
                .map_err(|_| "it is not before, storm, or connections a second".to_owned()),
        }
    }
}

impl FromStr for Phases {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (on, off) = text.split_once(',').ok_or("expected two times, such as 5s,10s")?;
        Ok(Phases { on: positive(on)?, off: positive(off)? })
    }
}

fn write_concern(text: &str) -> Result<W, Infallible> {
    Ok(W::parse(text))
}
