//! A workload on one target: prepared once, measured as often as wanted.

use crate::command_client::CommandClient;
use crate::error::BenchError;
use crate::generator::{Arrivals, GroupSpec, Pacing};
use crate::result::{
    self, LoadInfo, LoadPhase, Machine, Repetition, RunResult, SCHEMA, Sampler, Target, Tool, WorkloadInfo,
    count,
};
use crate::rig::Rig;
use crate::run::arguments::PlanArguments;
use crate::run::assemble::{SATURATED, repetition};
use crate::run::connection_string::{ConnectionString, without_password};
use crate::run::load_phase::{self, PATIENCE};
use crate::run::plan::TargetPlan;
use crate::run::progress::{ProgressLine, RunLine, load_line};
use crate::run::topology::{self, Targets};
use crate::security::ServerAccess;
use crate::workload::{Documents, Part, WorkloadSource};
use serde_json::json;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How often the server is asked for its status.
const SAMPLING: Duration = Duration::from_secs(1);

/// One target of a plan.
#[derive(Debug)]
pub(crate) struct Session<'p> {
    plan: &'p PlanArguments,
    rig: &'p Rig,
    target: TargetPlan,
    targets: Targets,
    access: ServerAccess,
    result: RunResult,
}

impl<'p> Session<'p> {
    /// Finds the servers and loads what is missing.
    ///
    /// # Errors
    /// When no server can be reached, or the documents cannot be loaded; and [`BenchError::Interrupted`].
    pub(crate) fn prepare(
        plan: &'p PlanArguments,
        connection_string: &str,
        label: Option<&str>,
        rig: &'p Rig,
        line: &mut ProgressLine,
    ) -> Result<Self, BenchError> {
        let understood = ConnectionString::parse(connection_string)?;
        let mut target = plan.for_target(&understood)?;
        let mut wanted = understood;
        wanted.concerns = target.concerns.clone();
        let targets = topology::discover(&wanted)?;
        target.concerns.read_preference.clone_from(&targets.read_preference);
        target.options.security.names.clone_from(&targets.names);
        let access = target.options.security.access()?;
        let result = describe(plan, &target, (&targets, &access), connection_string, label);
        let mut session = Session { plan, rig, target, targets, access, result };
        session.result.warnings = wanted.warnings;
        session.load(line)?;
        Ok(session)
    }

    fn load(&mut self, line: &mut ProgressLine) -> Result<(), BenchError> {
        let loaded = load_phase::load(
            &self.target.workload,
            self.access.at(self.writes()),
            self.plan.load.load,
            self.plan.load.load_connections as usize,
            self.plan.measure.seed,
            &self.rig.interrupt,
            &mut |progress| line.show(&load_line(progress)),
        );
        if matches!(loaded, Err(BenchError::Interrupted)) {
            line.say("loading was interrupted; the same command goes on where it ended");
        }
        let report = loaded?;
        if let Some(phase) = &report.phase {
            line.say(&loaded_line(phase));
        }
        self.result.load_phase = report.phase;
        self.result.warnings.extend(report.warnings);
        Ok(())
    }

    /// Where writes, commands and the load phase go.
    fn writes(&self) -> SocketAddr {
        self.targets.writes.first().copied().unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// Measures once. After Ctrl-C the result has what was seen until then.
    ///
    /// # Errors
    /// When connections cannot be opened at all, or nothing was seen.
    pub(crate) fn measure(
        &mut self,
        number: u32,
        of: u32,
        line: &mut ProgressLine,
    ) -> Result<(), BenchError> {
        let groups = self.groups()?;
        let mut fleet = self.rig.fleet(self.writes(), groups, &self.plan.measure, number)?;
        let sampler = Sampler::start(self.access.at(self.writes()), SAMPLING);
        let window = self.plan.window();
        let begin = Instant::now() + window.warm_up;
        let prefix = if of > 1 { format!("{} of {of}: ", number + 1) } else { String::new() };
        let mut shown = RunLine::new(window.warm_up, self.plan.measured(), window.operations, prefix);
        let ran = fleet.run(&window, &mut |snapshot| line.show(&shown.line(snapshot)));
        line.clear();
        let outcome = ran?;
        let measured = repetition(&outcome, sampler.stop(begin));
        self.result.interrupted |= outcome.interrupted;
        self.result.warnings.extend(outcome.failures.iter().cloned());
        self.warn(&measured);
        self.result.repetitions.push(measured);
        Ok(())
    }

    /// What a reader must know before trusting the figures.
    fn warn(&mut self, measured: &Repetition) {
        let mut warn = |text: String| {
            if !self.result.warnings.contains(&text) {
                self.result.warnings.push(text);
            }
        };
        if measured.client.saturated {
            warn(format!(
                "the load generator was itself the limit: a thread used {:.0} % of a core or more; give it \
                 more --threads or --processes",
                100.0 * SATURATED
            ));
        }
        if measured.connections.refused > 0 {
            let counts = &measured.connections;
            warn(format!(
                "{} attempts to connect were refused, while {} connections were wanted",
                count(counts.refused),
                count(counts.asked)
            ));
        }
    }

    /// The groups of connections: one, or one for reads and one for the rest where they go to different
    /// servers.
    fn groups(&mut self) -> Result<Vec<GroupSpec>, BenchError> {
        let source = WorkloadSource::new(&self.target.settings, &self.target.concerns)?;
        let (connections, targets) = (self.plan.pace.connections as usize, &self.targets);
        let reads = self.target.workload.share_of_reads();
        if targets.are_one() || reads == 0.0 {
            return Ok(vec![self.group(source, connections, 1.0, &targets.writes)]);
        }
        if reads == 1.0 {
            return Ok(vec![self.group(source, connections, 1.0, &targets.reads)]);
        }
        let reading =
            ((connections as f64 * reads).round() as usize).clamp(1, connections.saturating_sub(1).max(1));
        let writing = connections.saturating_sub(reading).max(1);
        let groups = vec![
            self.group(source.part(Part::Reads), reading, reads, &targets.reads),
            self.group(source.part(Part::Rest), writing, 1.0 - reads, &targets.writes),
        ];
        let note = format!(
            "reads go to other servers than writes: {reading} connections read and {writing} write, each at \
             its own pace, so that the mix may differ from what was asked for"
        );
        if self.plan.pace.pacing().0 == Pacing::Closed && !self.result.warnings.contains(&note) {
            self.result.warnings.push(note);
        }
        Ok(groups)
    }

    fn group(&self, source: WorkloadSource, connections: usize, share: f64, to: &[SocketAddr]) -> GroupSpec {
        let mut group = GroupSpec::new(connections, source, share_of(self.plan.pace.pacing().0, share));
        group.options = self.target.options.clone();
        group.options.addresses = to.to_vec();
        group
    }

    /// Drops the collection if the plan says so.
    ///
    /// # Errors
    /// When the server cannot be reached any more or refuses.
    pub(crate) fn clean_up(&self) -> Result<(), BenchError> {
        if !self.plan.load.drop {
            return Ok(());
        }
        let mut client = CommandClient::connect_within(self.access.at(self.writes()), PATIENCE)?;
        load_phase::drop_collection(&self.target.workload, &mut client)
    }

    /// What was measured so far.
    pub(crate) const fn result(&self) -> &RunResult {
        &self.result
    }

    /// The repetitions since the last time, with everything else that is known.
    pub(crate) fn take_repetitions(&mut self) -> RunResult {
        let repetitions = std::mem::take(&mut self.result.repetitions);
        RunResult { repetitions, ..self.result.clone() }
    }

    pub(crate) fn into_result(self) -> RunResult {
        self.result
    }
}

/// The part of the load that this share of the operations is.
fn share_of(mut pacing: Pacing, share: f64) -> Pacing {
    match &mut pacing {
        Pacing::Open(Arrivals::Rates(stretches)) => stretches.iter_mut().for_each(|stretch| {
            stretch.from *= share;
            stretch.to *= share;
        }),
        Pacing::Open(Arrivals::Bursts { count, .. }) => {
            *count = ((f64::from(*count) * share).round() as u32).max(1);
        }
        Pacing::Closed | Pacing::Once => {}
    }
    pacing
}

fn loaded_line(phase: &LoadPhase) -> String {
    match (phase.documents, phase.already_there) {
        (0, there) => format!("{} documents are there", count(there)),
        (loaded, 0) => format!(
            "loaded {} documents in {:.1} s, {}/s",
            count(loaded),
            phase.seconds,
            count(phase.rate as u64)
        ),
        (loaded, there) => format!(
            "loaded {} missing documents in {:.1} s, {}/s; {} were there",
            count(loaded),
            phase.seconds,
            count(phase.rate as u64),
            count(there)
        ),
    }
}

/// Everything that is known before anything is measured.
fn describe(
    plan: &PlanArguments,
    target: &TargetPlan,
    (targets, access): (&Targets, &ServerAccess),
    connection_string: &str,
    label: Option<&str>,
) -> RunResult {
    let server =
        targets.writes.first().map(|address| Sampler::describe(access.at(*address))).unwrap_or_default();
    RunResult {
        schema: SCHEMA,
        tool: Tool::here(),
        started: result::now(),
        label: label.unwrap_or(&target.workload.name).to_owned(),
        target: Target {
            connection_string: without_password(connection_string),
            hosts: targets.hosts.clone(),
            server,
        },
        machine: Machine::here(),
        workload: workload_info(plan, target),
        load: load_info(plan, target),
        ..RunResult::default()
    }
}

fn workload_info(plan: &PlanArguments, target: &TargetPlan) -> WorkloadInfo {
    let workload = &target.workload;
    let (_, document_bytes) = Documents::new(workload, plan.measure.seed).sizes();
    WorkloadInfo {
        name: workload.name.clone(),
        description: workload.description.clone(),
        record_count: workload.records(),
        document_bytes: document_bytes as u64,
        fields: workload.document.len().saturating_sub(1) as u32,
        distribution: workload.distribution.to_string(),
        mix: workload.mix(),
        options: json!({
            "database": workload.database, "collection": workload.collection,
            "file": target.settings.file.as_ref().map(|file| file.path.clone()),
        }),
    }
}

fn load_info(plan: &PlanArguments, target: &TargetPlan) -> LoadInfo {
    let (concerns, pace) = (&target.concerns, &plan.pace);
    let write_concern = concerns.write.to_string();
    LoadInfo {
        connections: pace.connections.into(),
        threads: plan.measure.threads,
        processes: plan.measure.processes,
        schedule: pace.pacing().1,
        rate: pace.rate,
        warm_up_seconds: plan.window().warm_up.as_secs_f64(),
        duration_seconds: plan.measured().map(|duration| duration.as_secs_f64()),
        operations: pace.operations,
        seed: plan.measure.seed,
        compressors: target.options.compressors.clone(),
        read_preference: concerns.read_preference.clone(),
        read_concern: concerns.read.clone(),
        write_concern: (!write_concern.is_empty()).then_some(write_concern),
    }
}
