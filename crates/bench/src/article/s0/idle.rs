//! Idle connections: what they cost, and what they cost others.

use super::Situation;
use crate::article::figures::{CONNECTED, Column, Measurement, RATE};
use crate::article::{Served, Subject};
use crate::error::BenchError;
use crate::generator::{GroupSpec, Outcome, Pacing, Request, Requests, Window};
use crate::process::{processor_time, resident_bytes};
use crate::scenario::Scenario;
use std::time::{Duration, Instant};

/// Connections that work before and among the idle ones.
const WORKING: usize = 64;
/// Until a server has closed or settled connections; shorter when even the measured idle time is.
const SETTLE: Duration = Duration::from_secs(1);
/// All idle connections have had their one reply by then; the run ends as soon as they have.
const CALLING: Duration = Duration::from_secs(60);

const MEMORY: Column = Column::median("KiB each", 2);
const IDLE: Column = Column::median("idle %", 2);
const ALONE: Column = Column::median("alone/s", 0);
const SHARE: Column = Column::median("of alone", 3);

impl Situation<'_> {
    pub(super) fn idle(
        &self,
        subject: Subject,
        connections: usize,
        seed: u64,
    ) -> Result<Measurement, BenchError> {
        let settings = self.settings;
        let interrupt = &settings.rig.interrupt;
        let mut served = settings.serve(subject, Scenario::Find)?;
        let settle = SETTLE.min(self.idle);
        let before = self.work(&served, seed)?;
        // The working connections belong to the number, so that all are within the server's limit.
        let resting = connections.saturating_sub(WORKING).max(1);
        // One request each, always the same one: connections are where working ones are, and caches stay as they are.
        let request = Request { ids: 1, ..settings.request(Scenario::Find) };
        let group = GroupSpec::new(resting, Requests::source(vec![request]), Pacing::Once);
        interrupt.pause(settle)?;
        let base = resident_bytes(served.pid())?;
        let mut idle = settings.rig.generator(served.address(), &[group], seed)?;
        let [called] = idle.run(&Window::lasting(Duration::ZERO, CALLING))?.split()?;
        interrupt.pause(settle)?;
        let memory = resident_bytes(served.pid())?.saturating_sub(base) as f64 / 1024.0;
        let (used, begun) = (processor_time(served.pid())?, Instant::now());
        interrupt.pause(self.idle)?;
        let used = processor_time(served.pid())?.saturating_sub(used);
        let share_of_core = used.as_secs_f64() / begun.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
        let among = self.work(&served, seed)?;
        drop(idle);
        interrupt.pause(settle)?;
        let after = self.work(&served, seed)?;
        served.check_alive()?;
        let alone = f64::midpoint(before.rate(), after.rate());
        let connected = called.timed() as f64;
        Ok(Measurement::default()
            .with(CONNECTED, connected)
            .with(MEMORY, memory / connected.max(1.0))
            .with(IDLE, share_of_core * 100.0)
            .with(ALONE, alone)
            .with(RATE, among.rate())
            .with(SHARE, among.rate() / alone.max(f64::MIN_POSITIVE))
            .counting(&called)
            .counting(&before)
            .counting(&among)
            .counting(&after))
    }

    /// A closed loop of fast requests.
    fn work(&self, served: &Served, seed: u64) -> Result<Outcome, BenchError> {
        let settings = self.settings;
        let groups = [settings.closed(Scenario::Find, WORKING)];
        let [outcome] = settings.rig.run(served.address(), &groups, seed, &settings.window())?.split()?;
        Ok(outcome)
    }
}
