//! When passes begin and end.

use super::pass::{Pass, PassStep};
use crate::client::Client;
use crate::parameters::Parameter;
use crate::server::ServiceContext;
use dispatch::host::Detached;
use query::checkpoint;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::ErrorCode;

/// Asleep, or within a pass.
#[derive(Debug)]
pub struct TtlMonitor {
    /// Since when it sleeps.
    asleep_since: Instant,
    pass: Option<Pass>,
    /// Whose switch its waits look at.
    operation: Arc<Client>,
}

/// Ends what a monitor waits for.
#[derive(Debug, Clone)]
pub struct TtlSwitch(Arc<Client>);

impl TtlSwitch {
    /// The server shuts down: no step of the monitor does anything from now on, and one that waits ends.
    pub fn end(&self) {
        self.0.interrupt.kill(ErrorCode::InterruptedAtShutdown as i32);
    }
}

impl Default for TtlMonitor {
    fn default() -> Self {
        TtlMonitor::new()
    }
}

impl TtlMonitor {
    /// A monitor that sleeps first.
    pub fn new() -> Self {
        TtlMonitor {
            asleep_since: ambient::now(),
            pass: None,
            operation: Arc::new(Client::new(0, "ttl", Arc::new(Detached))),
        }
    }

    /// Ends it from another thread.
    pub fn switch(&self) -> TtlSwitch {
        TtlSwitch(Arc::clone(&self.operation))
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

    /// Does the next piece of work, if it is time for one: one unit of documents at most. Tells when to call
    /// again; sooner does no harm. On a thread that may block.
    pub async fn step(&mut self, server: &ServiceContext) -> Instant {
        if !may_run(server) || self.operation.interrupt.is_killed() {
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
        match watched(&self.operation, pass.step(server)).await {
            PassStep::Continues { at } => at,
            PassStep::Ended => {
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

/// Runs as an operation that can be ended.
async fn watched<T>(operation: &Arc<Client>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|task| {
        let _watched = checkpoint::watch(Arc::<Client>::clone(operation));
        work.as_mut().poll(task)
    })
    .await
}
