//! When passes begin and end.

use super::pass::Pass;
use crate::own_work::{OwnWork, OwnWorkStep, OwnWorkSwitch};
use crate::parameters::Parameter;
use crate::server::ServiceContext;
use std::time::{Duration, Instant};

/// Asleep, or within a pass.
#[derive(Debug)]
pub struct TtlMonitor {
    /// Since when it sleeps.
    asleep_since: Instant,
    pass: Option<Pass>,
    /// Whose switch its waits look at.
    work: OwnWork,
}

impl Default for TtlMonitor {
    fn default() -> Self {
        TtlMonitor::new()
    }
}

impl TtlMonitor {
    /// A monitor that sleeps first.
    pub fn new() -> Self {
        TtlMonitor { asleep_since: ambient::now(), pass: None, work: OwnWork::new("ttl") }
    }

    /// Ends it from another thread.
    pub fn switch(&self) -> OwnWorkSwitch {
        self.work.switch()
    }

    /// It has slept for long.
    #[cfg(test)]
    pub(crate) fn wake(&mut self) {
        self.asleep_since = ambient::now() - Duration::from_secs(3600);
    }

    /// Gives up the pass that runs, if one does: a step of it has panicked.
    pub fn give_up_pass(&mut self) {
        self.pass = None;
        self.asleep_since = ambient::now();
    }

    /// Whether the next piece of work is not to yield to others: the rate that an operator has stated is not
    /// reached, and clients do not wait for long.
    pub fn is_behind(&self, server: &ServiceContext) -> bool {
        self.pass.as_ref().is_some_and(Pass::is_behind) && server.node.store.answers_in_time()
    }

    /// Does the next piece of work, if it is time for one: one unit of documents at most. Tells when to call
    /// again; sooner does no harm. On a thread that may block.
    pub async fn step(&mut self, server: &ServiceContext) -> Instant {
        if !may_run(server) || self.work.is_ended() {
            if let Some(pass) = self.pass.take() {
                pass.end_early();
            }
            self.asleep_since = ambient::now();
        }
        let pass = match &mut self.pass {
            Some(pass) => pass,
            None => {
                let wakes = self.asleep_since + sleep_time(server);
                if ambient::now() < wakes {
                    return wakes;
                }
                self.pass.insert(Pass::begin(server))
            }
        };
        match self.work.run(pass.step(server)).await {
            OwnWorkStep::Continues { at } => at,
            OwnWorkStep::Ended => {
                self.pass = None;
                self.asleep_since = ambient::now();
                self.asleep_since + sleep_time(server)
            }
        }
    }
}

/// Whether documents may be deleted here now: what the members of a set have comes from the primary.
fn may_run(server: &ServiceContext) -> bool {
    server.parameters.is_on(Parameter::TtlMonitorEnabled)
        && !server.node.replays()
        && !server.is_shutting_down()
}

fn sleep_time(server: &ServiceContext) -> Duration {
    Duration::from_secs(server.parameters.unsigned(Parameter::TtlMonitorSleep))
}
