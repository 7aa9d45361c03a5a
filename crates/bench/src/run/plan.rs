//! A checked command line: what is measured and how, for any target.

use crate::affinity::Pin;
use crate::error::BenchError;
use crate::generator::{Arrivals, ConnectionOptions, Opening, Pacing, Phases, Window, duration};
use crate::run::arguments::{PaceArguments, PlanArguments, WireArguments, WorkloadArguments};
use crate::run::connection_string::{ConnectionString, compressors, read_preference};
use crate::run::load_phase::LoadMode;
use crate::workload::{Concerns, Settings, W, Workload, WorkloadFile};
use std::time::Duration;

const WARM_UP: Duration = Duration::from_secs(2);
const DURATION: Duration = Duration::from_secs(30);
/// A run that is bounded by operations has this much time: for ever, as far as anybody is concerned.
const UNBOUNDED: Duration = Duration::from_secs(365 * 24 * 3_600);
const DEFAULT_WORKLOAD: &str = "a";

/// What a run does, whatever the target.
#[derive(Debug, Clone)]
pub(crate) struct RunPlan {
    pub(crate) settings: Settings,
    pub(crate) load: LoadMode,
    pub(crate) load_connections: usize,
    pub(crate) load_only: bool,
    pub(crate) drop: bool,
    pub(crate) connections: usize,
    pub(crate) threads: u32,
    pub(crate) processes: u32,
    pub(crate) pacing: Pacing,
    /// As the user said it.
    pub(crate) schedule: String,
    pub(crate) rate: Option<f64>,
    pub(crate) options: ConnectionOptions,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Option<Duration>,
    pub(crate) operations: Option<u64>,
    pub(crate) repetitions: u32,
    pub(crate) seed: u64,
    pub(crate) pin: Pin,
    /// What the command line says; it wins over the connection string.
    wire: WireArguments,
}

/// A plan for one target.
#[derive(Debug, Clone)]
pub(crate) struct TargetPlan {
    pub(crate) settings: Settings,
    pub(crate) workload: Workload,
    pub(crate) concerns: Concerns,
    pub(crate) options: ConnectionOptions,
}

impl PlanArguments {
    /// # Errors
    /// [`BenchError::Usage`] for what cannot be.
    pub(crate) fn plan(&self) -> Result<RunPlan, BenchError> {
        let pace = &self.pace;
        pace.check_numbers()?;
        if self.load.load_connections == 0 {
            return usage("--load-connections must be at least 1");
        }
        let (pacing, schedule, rate) = pace.pacing()?;
        let duration = match &pace.duration {
            Some(text) => Some(positive("--duration", text)?),
            None if pace.operations.is_some() => None,
            None => Some(DURATION),
        };
        let warm_up = match &pace.warm_up {
            Some(text) => time("--warm-up", text)?,
            None if pace.operations.is_some() => Duration::ZERO,
            None => WARM_UP,
        };
        let plan = RunPlan {
            settings: self.workload.settings()?,
            load: self.load.load,
            load_connections: self.load.load_connections,
            load_only: self.load.load_only,
            drop: self.load.drop,
            connections: pace.connections,
            threads: pace.threads,
            processes: pace.processes,
            pacing,
            schedule,
            rate,
            options: self.options()?,
            warm_up,
            duration,
            operations: pace.operations,
            repetitions: pace.repetitions,
            seed: pace.seed,
            pin: pace.pin.clone().unwrap_or_default(),
            wire: self.wire.clone(),
        };
        // What is wrong with the workload is found before anything is sent.
        plan.settings.build()?;
        if let Some(mode) = &self.wire.read_preference {
            read_preference(mode)
                .map_err(|problem| BenchError::Usage(format!("--read-preference: {problem}")))?;
        }
        Ok(plan)
    }

    fn options(&self) -> Result<ConnectionOptions, BenchError> {
        let (pace, wire) = (&self.pace, &self.wire);
        let named = |text: &String| {
            compressors(text).map_err(|problem| BenchError::Usage(format!("--compressors: {problem}")))
        };
        Ok(ConnectionOptions {
            opening: pace.opening()?,
            operations_per_connection: pace.operations_per_connection,
            think: pace.think.as_ref().map_or(Ok(Duration::ZERO), |text| time("--think", text))?,
            phases: pace.phases()?,
            reconnect: !wire.no_reconnect,
            timeout: wire.timeout.as_ref().map(|text| positive("--timeout", text)).transpose()?,
            handshake: wire.handshake,
            compressors: wire.compressors.as_ref().map_or(Ok(Vec::new()), named)?,
            ..ConnectionOptions::default()
        })
    }
}

fn usage<T>(text: &str) -> Result<T, BenchError> {
    Err(BenchError::Usage(text.to_owned()))
}

/// `10s`, `500ms`, or seconds without a unit.
fn time(option: &str, text: &str) -> Result<Duration, BenchError> {
    let seconds = text.trim().parse::<f64>().ok().map(|seconds| format!("{seconds}s"));
    duration(seconds.as_deref().unwrap_or(text)).map_err(|_| {
        BenchError::Usage(format!(
            "{option} '{text}' is no time; expected seconds, or a number and us, ms, s, m or h"
        ))
    })
}

fn positive(option: &str, text: &str) -> Result<Duration, BenchError> {
    match time(option, text)? {
        Duration::ZERO => usage(&format!("{option} must be above 0")),
        time => Ok(time),
    }
}

impl PaceArguments {
    fn check_numbers(&self) -> Result<(), BenchError> {
        /// Groups of more connections could not be numbered by ports and addresses of one machine anyway.
        const MOST_CONNECTIONS: usize = 10_000_000;
        let counts = [
            ("--connections", self.connections as u64),
            ("--threads", self.threads.into()),
            ("--processes", self.processes.into()),
            ("--repetitions", self.repetitions.into()),
            ("--operations", self.operations.unwrap_or(1)),
            ("--operations-per-connection", self.operations_per_connection.unwrap_or(1).into()),
        ];
        if let Some((option, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return usage(&format!("{option} must be at least 1"));
        }
        if self.connections > MOST_CONNECTIONS {
            return usage(&format!("--connections: at most {MOST_CONNECTIONS} are possible"));
        }
        Ok(())
    }

    /// The pacing, in the user's words, and its rate where it is constant.
    fn pacing(&self) -> Result<(Pacing, String, Option<f64>), BenchError> {
        if let Some(rate) = &self.rate {
            let parsed = rate.trim().parse::<f64>().ok().filter(|rate| *rate > 0.0 && rate.is_finite());
            let Some(parsed) = parsed else {
                return usage(&format!("--rate '{rate}': expected operations a second, above 0"));
            };
            return Ok((Pacing::Open(Arrivals::constant(parsed)), "open loop".to_owned(), Some(parsed)));
        }
        match self.schedule.as_deref() {
            None | Some("closed") => Ok((Pacing::Closed, self.closed_loop(), None)),
            Some(text) => {
                let arrivals: Arrivals =
                    text.parse().map_err(|problem| BenchError::Usage(format!("--schedule: {problem}")))?;
                Ok((Pacing::Open(arrivals), text.to_owned(), None))
            }
        }
    }

    /// What kind of a closed loop it is.
    fn closed_loop(&self) -> String {
        let mut text = "closed loop".to_owned();
        if let Some(think) = &self.think {
            text.push_str(&format!(", {think} between operations"));
        }
        if let Some(phases) = &self.phases {
            text.push_str(&format!(", phases {phases}"));
        }
        if let Some(operations) = self.operations_per_connection {
            text.push_str(&format!(", {operations} operations per connection"));
        }
        text
    }

    fn opening(&self) -> Result<Opening, BenchError> {
        match self.opening.as_str() {
            "before" => Ok(Opening::Before),
            "storm" => Ok(Opening::AtOnce),
            text => match text.parse::<f64>() {
                Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(Opening::PerSecond(rate)),
                _ => usage(&format!("--opening '{text}' is not before, storm, or connections a second")),
            },
        }
    }

    fn phases(&self) -> Result<Option<Phases>, BenchError> {
        let Some(text) = &self.phases else { return Ok(None) };
        let Some((on, off)) = text.split_once(',') else {
            return usage(&format!("--phases '{text}': expected two times, such as 5s,10s"));
        };
        Ok(Some(Phases { on: positive("--phases", on)?, off: positive("--phases", off)? }))
    }
}

impl WorkloadArguments {
    fn settings(&self) -> Result<Settings, BenchError> {
        let file = match &self.file {
            Some(path) => {
                let name = path.display().to_string();
                let text = std::fs::read_to_string(path).map_err(|error| {
                    BenchError::Usage(format!("cannot read the workload file {name}: {error}"))
                })?;
                Some(WorkloadFile { path: name, text })
            }
            None => None,
        };
        let is_named = self.workload.is_some() || self.mix.is_some() || file.is_some();
        Ok(Settings {
            workload: if is_named { self.workload.clone() } else { Some(DEFAULT_WORKLOAD.to_owned()) },
            file,
            mix: self.mix.clone(),
            distribution: self.distribution.clone(),
            database: self.database.clone(),
            collection: self.collection.clone(),
            records: self.records,
            document_bytes: self.document_bytes,
            fields: self.fields,
            ttl_seconds: self.ttl.as_deref().map(ttl).transpose()?,
        })
    }
}

/// `60s,600s`, or one time for all.
fn ttl(text: &str) -> Result<(u64, u64), BenchError> {
    let (least, most) = text.split_once(',').unwrap_or((text, text));
    let (least, most) = (time("--ttl", least)?.as_secs(), time("--ttl", most)?.as_secs());
    if most < least { usage("--ttl: the second time is below the first") } else { Ok((least, most)) }
}

impl RunPlan {
    pub(crate) fn window(&self) -> Window {
        Window {
            warm_up: self.warm_up,
            duration: self.duration.unwrap_or(UNBOUNDED),
            operations: self.operations,
        }
    }

    /// What the connection string adds to the command line.
    pub(crate) fn for_target(&self, target: &ConnectionString) -> Result<TargetPlan, BenchError> {
        let mut settings = self.settings.clone();
        settings.database = settings.database.or_else(|| target.database.clone());
        let workload = settings.build()?;
        let mut concerns = target.concerns.clone();
        let wire = &self.wire;
        if let Some(mode) = &wire.read_preference {
            concerns.read_preference = Some(read_preference(mode).map_err(BenchError::Usage)?);
        }
        concerns.read = wire.read_concern.clone().or(concerns.read);
        concerns.write.w = wire.write_concern.as_deref().map(W::parse).or(concerns.write.w);
        concerns.write.journal = if wire.journal { Some(true) } else { concerns.write.journal };
        if concerns.write.w == Some(W::Members(0)) {
            return usage("write concern w: 0 has no replies, and without them nothing can be measured");
        }
        let mut options = self.options.clone();
        if options.compressors.is_empty() {
            options.compressors.clone_from(&target.compressors);
        }
        options.timeout = options.timeout.or(target.socket_timeout);
        Ok(TargetPlan { settings, workload, concerns, options })
    }
}
