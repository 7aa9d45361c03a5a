//! What follows from the command line and a connection string.

use crate::arguments::MeasureArguments;
use crate::error::BenchError;
use crate::generator::{Arrivals, ConnectionOptions, Pacing, Window};
use crate::run::arguments::{PaceArguments, PlanArguments};
use crate::run::connection_string::ConnectionString;
use crate::workload::{Concerns, Settings, W, Workload};
use std::time::Duration;

const WARM_UP: Duration = Duration::from_secs(2);
const DURATION: Duration = Duration::from_secs(30);
/// A run that is bounded by operations has this much time: for ever, as far as anybody is concerned.
const UNBOUNDED: Duration = Duration::from_secs(365 * 24 * 3_600);
const DEFAULT_WORKLOAD: &str = "a";

/// A plan for one target.
#[derive(Debug, Clone)]
pub(crate) struct TargetPlan {
    pub(crate) settings: Settings,
    pub(crate) workload: Workload,
    pub(crate) concerns: Concerns,
    pub(crate) options: ConnectionOptions,
}

impl PaceArguments {
    /// The pacing, and in the user's words.
    pub(crate) fn pacing(&self) -> (Pacing, String) {
        if let Some(rate) = self.rate {
            return (Pacing::Open(Arrivals::constant(rate)), "open loop".to_owned());
        }
        if let Some(schedule) = &self.schedule
            && let Some(arrivals) = &schedule.value.0
        {
            return (Pacing::Open(arrivals.clone()), schedule.text.clone());
        }
        let mut text = "closed loop".to_owned();
        if let Some(think) = &self.think {
            text.push_str(&format!(", {} between operations", think.text));
        }
        if let Some(phases) = &self.phases {
            text.push_str(&format!(", phases {}", phases.text));
        }
        if let Some(operations) = self.operations_per_connection {
            text.push_str(&format!(", {operations} operations per connection"));
        }
        (Pacing::Closed, text)
    }
}

impl PlanArguments {
    pub(crate) fn repetitions(&self) -> u32 {
        self.measure.repetitions.unwrap_or(1)
    }

    /// None: as long as the operations take.
    pub(crate) fn measured(&self) -> Option<Duration> {
        self.measure.duration.or_else(|| self.pace.operations.is_none().then_some(DURATION))
    }

    pub(crate) fn window(&self) -> Window {
        let operations = self.pace.operations;
        let usual = if operations.is_some() { Duration::ZERO } else { WARM_UP };
        Window {
            warm_up: self.measure.warm_up.map_or(usual, |time| time.0),
            duration: self.measured().unwrap_or(UNBOUNDED),
            operations,
        }
    }

    /// What is wrong with the workload is found before anything is sent.
    ///
    /// # Errors
    /// [`BenchError::Usage`] for what cannot be.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        self.settings().build().map(drop)
    }

    fn settings(&self) -> Settings {
        let MeasureArguments { records, document_bytes, .. } = self.measure;
        let mut settings = Settings { records, document_bytes, ..self.workload.clone() };
        if settings.mix.is_none() && settings.file.is_none() {
            settings.workload.get_or_insert_with(|| DEFAULT_WORKLOAD.to_owned());
        }
        settings
    }

    /// What the connection string adds to the command line, which wins over it.
    pub(crate) fn for_target(&self, target: &ConnectionString) -> Result<TargetPlan, BenchError> {
        let (pace, wire) = (&self.pace, &self.wire);
        let mut settings = self.settings();
        settings.database = settings.database.or_else(|| target.database.clone());
        let workload = settings.build()?;
        let mut concerns = target.concerns.clone();
        concerns.read_preference = wire.read_preference.clone().or(concerns.read_preference);
        concerns.read = wire.read_concern.clone().or(concerns.read);
        concerns.write.w = wire.write_concern.clone().or(concerns.write.w);
        concerns.write.journal = if wire.journal { Some(true) } else { concerns.write.journal };
        if concerns.write.w == Some(W::Members(0)) {
            let problem = "write concern w: 0 has no replies, and without them nothing can be measured";
            return Err(BenchError::Usage(problem.to_owned()));
        }
        let options = ConnectionOptions {
            opening: pace.opening,
            operations_per_connection: pace.operations_per_connection,
            think: pace.think.as_ref().map_or(Duration::ZERO, |think| think.value.0),
            phases: pace.phases.as_ref().map(|phases| phases.value),
            reconnect: !wire.no_reconnect,
            timeout: wire.timeout.or(target.socket_timeout),
            handshake: wire.handshake,
            compressors: wire.compressors.as_ref().unwrap_or(&target.compressors).0.clone(),
            security: target.security.clone(),
            ..ConnectionOptions::default()
        };
        Ok(TargetPlan { settings, workload, concerns, options })
    }
}
