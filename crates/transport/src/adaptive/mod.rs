//! The `adaptive` thread model (article S0): connections are tasks in queues, an elastic crew of workers
//! takes them, and a controller starts workers when they are stuck, starved or fewer than reserved.
//!
//! ```text
//!   sockets ──epoll──▶ queue 0 ─┐                       ┌─ worker: take, poll a connection, take ...
//!   sockets ──epoll──▶ queue 1 ─┼── take from any of ──▶├─ worker: watch all sockets while queues are empty
//!   sockets ──epoll──▶ queue 2 ─┘                       └─ worker: sleep until called
//!                                     controller ──starts──▲
//! ```
//! A connection belongs to one queue, by its number. With one queue this is the article's server; with one
//! per core, the default, its cure for the lock that all workers share. Workers may block: blocking work runs
//! where it is.
//!
//! Where to read on: `task_queues` for the queues and their marker, `controller` for the rules, `worker` for
//! a worker's life, `options` for the parameters, `figures` for the statistics.

mod controller;
mod core;
mod figures;
mod options;
mod pressure;
mod record;
mod roster;
mod sockets;
mod stream;
mod task_queues;
mod worker;

#[cfg(test)]
mod tests;

pub use self::options::{AdaptiveOptions, AdaptiveOptionsError};

use self::controller::{Controller, Step};
use self::core::{Core, QueueHandle};
use self::roster::Cause;
use self::sockets::Pushing;
use self::stream::AdaptiveStream;
use self::task_queues::SocketPoller;
use crate::event_loop::LoopHooks;
use crate::executors::{AcceptedSession, drive};
use crate::placement::Placement;
use crate::readiness::ReadinessStream;
use crate::statistics::ExecutorStatistics;
use crate::task::spawn;
use crate::vital;
use crate::{Service, ServiceExecutor};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long an ending model waits for the next worker to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// The running model. Dropping it ends its threads.
pub(crate) struct Adaptive {
    core: Arc<Core>,
    homes: Vec<Arc<QueueHandle>>,
    controller: Mutex<Option<JoinHandle<()>>>,
}

impl Adaptive {
    /// Starts the reserved workers and the controller.
    ///
    /// # Errors
    /// Options that [`AdaptiveOptions::validate`] refuses; the system has no descriptor or not one thread
    /// left.
    pub(crate) fn start(
        options: AdaptiveOptions,
        thread_stack_bytes: usize,
        hooks: Arc<dyn LoopHooks>,
    ) -> io::Result<Self> {
        options.validate().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let core = Core::new(options, thread_stack_bytes, hooks)?;
        let home = |queue| Arc::new(QueueHandle { core: Arc::clone(&core), queue });
        let homes = (0..core.queues.count()).map(home).collect();
        let model = Self { core: Arc::clone(&core), homes, controller: Mutex::new(None) };
        // One worker is enough to serve; the controller sees to the others, and to what the system refuses
        // for now.
        let first = worker::start(&core, Cause::BelowReserve)?;
        let run = move || Workers { core, threads: first.into_iter().collect() }.control();
        *model.controller.lock() = Some(vital::spawn("adaptive-control", run)?);
        Ok(model)
    }

    /// Serves a connection.
    ///
    /// # Errors
    /// The kernel does not register the socket; the connection is dropped.
    pub(crate) fn adopt<H: Service>(&self, accepted: AcceptedSession, service: &Arc<H>) -> io::Result<()> {
        let AcceptedSession { registered, socket, input } = accepted;
        let session = Arc::clone(registered.session());
        let queue = session.id() as usize % self.homes.len();
        let home = self.homes.get(queue).expect("each queue is a home");
        let poller = self.core.sockets.pollers.get(queue).expect("each queue has a poller");
        session.place(Placement::Anywhere);
        let registration = poller.register(&socket)?;
        let core = Arc::clone(&self.core);
        let served = Arc::clone(&session);
        let service = Arc::clone(service);
        let future = async move {
            session.looked_at();
            let stream = ReadinessStream::new(registration, Arc::clone(&session));
            drive(&session, AdaptiveStream::new(stream, core, queue), service, input).await;
            drop(registered);
        };
        Pushing::Starts.set(|| spawn(future, served, Arc::clone(home), None));
        Ok(())
    }

    /// Changes the options; the number of queues stays until the model is started anew.
    ///
    /// # Errors
    /// What [`AdaptiveOptions::validate`] refuses; nothing is changed then.
    pub(crate) fn set_options(&self, options: AdaptiveOptions) -> Result<(), AdaptiveOptionsError> {
        options.validate()?;
        self.core.set_options(options);
        Ok(())
    }

    pub(crate) fn statistics(&self) -> ExecutorStatistics {
        let figures = figures::figures(&self.core);
        ExecutorStatistics { executor: ServiceExecutor::Adaptive.statistics_name(), figures }
    }

    /// Ends the controller and the workers. Connections that live are not served any more. Can be called
    /// again.
    pub(crate) fn stop(&self) {
        self.core.close();
        let controller = self.controller.lock().take();
        if let Some(controller) = controller
            // The last reference may be dropped by a task.
            && !worker::is_current()
        {
            vital::join(controller);
        }
        // What waited for a socket that has been shut is queued now. Dropping a task may wake others.
        loop {
            for queue in 0..self.core.queues.count() {
                self.core.poll(queue);
            }
            let tasks = self.core.queues.drain();
            if tasks.is_empty() {
                break;
            }
        }
    }
}

impl Drop for Adaptive {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The controller's thread and the threads it has started.
struct Workers {
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Follows the controller's rules until the model ends, then waits for the workers.
    fn control(mut self) {
        let mut controller = Controller::default();
        loop {
            let core = &self.core;
            let snapshot = core.snapshot(controller.is_settling());
            let goes_on = match controller.step(&snapshot, &core.options()) {
                Step::Sleep(duration) => core.attention.sleep(duration),
                Step::Listen { deaf, most } => {
                    core.attention.sleep(deaf) && core.attention.listen(most - deaf)
                }
                Step::Start { threads, cause, deaf, most } => {
                    let all_started = self.start(threads, cause);
                    // What the system refuses now it will not give in a moment.
                    let deaf = if all_started { deaf } else { most };
                    let attention = &self.core.attention;
                    attention.sleep(deaf) && attention.listen(most.saturating_sub(deaf))
                }
            };
            if !goes_on {
                break;
            }
        }
        self.join();
    }

    /// True when all were started.
    fn start(&mut self, threads: usize, cause: Cause) -> bool {
        self.threads.retain(|thread| !thread.is_finished());
        tracing::debug!(target: "network", threads, ?cause, "starting worker threads");
        for _ in 0..threads {
            match worker::start(&self.core, cause) {
                Ok(thread) => self.threads.extend(thread),
                Err(_) => return false,
            }
        }
        true
    }

    fn join(self) {
        let left_over = self.core.roster.wait_left(PATIENCE);
        if left_over > 0 {
            tracing::warn!(target: "network", threads = left_over,
                "worker threads are still busy; they end after their task");
            return;
        }
        for thread in self.threads {
            // A panic was logged when it happened.
            let _ = thread.join();
        }
    }
}
