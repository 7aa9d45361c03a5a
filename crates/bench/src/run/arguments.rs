//! The command line of `heddle bench run`.

use crate::affinity::Pin;
use crate::result::OutputOptions;
use crate::run::load_phase::LoadMode;
use clap::Args;
use std::path::PathBuf;

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
    pub(crate) workload: WorkloadArguments,
    #[command(flatten)]
    pub(crate) load: LoadArguments,
    #[command(flatten)]
    pub(crate) pace: PaceArguments,
    #[command(flatten)]
    pub(crate) wire: WireArguments,
}

/// What is asked of the server.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Workload")]
pub(crate) struct WorkloadArguments {
    /// a, b, c, d, e, f (YCSB), point-read, range-N, insert-only, update-only or ttl-insert [default: a]
    #[arg(long, short, value_name = "NAME")]
    pub(crate) workload: Option<String>,
    /// A workload file (TOML) with documents and commands of one's own, as docs/bench-workload.toml
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Operations and their weights: read, update, insert, scan, read-modify-write, range-N
    #[arg(long, value_name = "read=50,update=50,…")]
    pub(crate) mix: Option<String>,
    /// How documents are chosen: uniform, zipfian[:EXPONENT], latest, hotspot[:DOCUMENTS,REQUESTS], sequential
    #[arg(long, value_name = "NAME")]
    pub(crate) distribution: Option<String>,
    /// Documents to load [default: 100000; 0 where documents are only inserted]
    #[arg(long, value_name = "N")]
    pub(crate) records: Option<u64>,
    /// Size of a document's BSON [default: as YCSB, about 1,130; 1024]
    #[arg(long, value_name = "BYTES")]
    pub(crate) document_bytes: Option<usize>,
    /// Fields of a document [default: 10]
    #[arg(long, value_name = "N")]
    pub(crate) fields: Option<u32>,
    /// Times from insert to expiry in ttl-insert, spread evenly [default: 60s,600s]
    #[arg(long, value_name = "LEAST,MOST")]
    pub(crate) ttl: Option<String>,
    /// Database [default: that of the connection string, or heddle_bench]
    #[arg(long, value_name = "NAME")]
    pub(crate) database: Option<String>,
    /// Collection [default: the workload's own]
    #[arg(long, value_name = "NAME")]
    pub(crate) collection: Option<String>,
}

/// Loading documents beforehand.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Documents")]
pub(crate) struct LoadArguments {
    /// What to do about documents that are there or not
    #[arg(long, value_enum, default_value_t)]
    pub(crate) load: LoadMode,
    /// Connections that load in parallel
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) load_connections: usize,
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
    #[arg(long, short, value_name = "N", default_value_t = 64)]
    pub(crate) connections: usize,
    /// Generator threads in each process
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: u32,
    /// Generator processes: one has descriptors for about 20,000 connections
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) processes: u32,
    /// Open loop: so many operations a second, whatever the server does
    #[arg(long, value_name = "N", allow_hyphen_values = true, conflicts_with = "schedule")]
    pub(crate) rate: Option<String>,
    /// Open loop with steps, ramps and pauses (10s@1000,5s@0,60s@1000..5000), or bursts (500/2s)
    #[arg(long, value_name = "SCHEDULE", allow_hyphen_values = true)]
    pub(crate) schedule: Option<String>,
    /// Pause of each connection between two operations, such as 10ms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) think: Option<String>,
    /// Load that comes and goes, such as 5s,10s: sends for 5 s, is silent for 10 s
    #[arg(long, value_name = "ON,OFF", allow_hyphen_values = true)]
    pub(crate) phases: Option<String>,
    /// When connections are opened: before the run, storm (all at once when it begins), or so many a second
    #[arg(long, value_name = "before|storm|N", default_value = "before")]
    pub(crate) opening: String,
    /// Short connections: a new one after so many operations, as clients without a pool
    #[arg(long, value_name = "N")]
    pub(crate) operations_per_connection: Option<u32>,
    /// Load before measuring begins [default: 2s; 0 with --operations]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) warm_up: Option<String>,
    /// Measured time [default: 30s; none with --operations]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) duration: Option<String>,
    /// Ends after so many operations, the warm-up's included
    #[arg(long, value_name = "N")]
    pub(crate) operations: Option<u64>,
    /// How often to measure; comparisons draw confidence intervals from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) repetitions: u32,
    /// Seed of everything that is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Cores of the generator, such as 0
    #[arg(long, value_name = "CORES")]
    pub(crate) pin: Option<Pin>,
}

/// What is agreed on with the server.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Protocol")]
pub(crate) struct WireArguments {
    /// primary, primaryPreferred, secondary, secondaryPreferred or nearest
    #[arg(long, value_name = "MODE")]
    pub(crate) read_preference: Option<String>,
    /// Read concern, such as local or majority
    #[arg(long, value_name = "LEVEL")]
    pub(crate) read_concern: Option<String>,
    /// Write concern: a number of members, or majority
    #[arg(long, value_name = "W")]
    pub(crate) write_concern: Option<String>,
    /// Writes are acknowledged when they are in the journal (j: true)
    #[arg(long)]
    pub(crate) journal: bool,
    /// Compressors to offer, in order: snappy, zlib, zstd
    #[arg(long, value_name = "NAMES")]
    pub(crate) compressors: Option<String>,
    /// Connections begin with hello, as a driver's do; compressors need it anyway
    #[arg(long)]
    pub(crate) handshake: bool,
    /// An operation without a reply for this long fails, and its connection with it
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) timeout: Option<String>,
    /// Lost connections stay lost
    #[arg(long)]
    pub(crate) no_reconnect: bool,
}
