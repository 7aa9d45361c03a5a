//! The `coroutine` thread model (article S3): one task per connection, one io_uring and one run queue per
//! core.
//!
//! ```text
//!   ring's thread:  run ready tasks ─▶ commits (turn_ended) ─▶ submit all, wait ─▶ completions wake tasks ─┐
//!                        ▲                                                                                 │
//!                        └─────────────────────────────────────────────────────────────────────────────────┘
//!   other threads:  wake a task ─▶ its ring's remote queue ─▶ eventfd, if the ring sleeps
//! ```
//! One multishot operation per connection receives into buffers that the whole ring shares, so that a
//! connection that waits holds none. [`ring`] owns sockets and memory until the kernel is done with them,
//! [`sockets`] says what completions mean, [`stream`] is what the connection loop sees, [`ring_loop`]
//! drives. `docs/design/ring.md` has what was measured.
//!
//! Where the kernel refuses io_uring, the same connections run on the loops of `reactor`; the log and the
//! statistics say so.

mod buffers;
mod ring;
mod ring_loop;
mod sockets;
mod stream;
#[cfg(test)]
mod tests;

use crate::busy_poll::BusyPoll;
use crate::event_loop::{LoopHooks, RunningLoop};
use crate::executors::AcceptedSession;
use crate::pool::Pool;
use crate::statistics::{ExecutorStatistics, Figure, thread_names};
use crate::{Service, ServiceExecutor};
use ring_loop::RunningRing;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

/// What moves the bytes.
enum Driver {
    Rings(Vec<RunningRing>),
    Epoll(Vec<RunningLoop>),
}

/// See the module.
pub(crate) struct Coroutine {
    driver: Driver,
    next: AtomicUsize,
    pool: Arc<Pool>,
}

impl Coroutine {
    /// `may_use_io_uring`: false takes epoll at once.
    ///
    /// # Errors
    /// The system has no descriptor or no thread left.
    pub(crate) fn start(
        threads: usize,
        hooks: &Arc<dyn LoopHooks>,
        pool: Arc<Pool>,
        may_use_io_uring: bool,
    ) -> io::Result<Self> {
        let threads = threads.max(1);
        let driver = if may_use_io_uring {
            start_rings(threads, hooks, &pool).map(Driver::Rings).or_else(|error| {
                tracing::warn!(target: "network", %error, "the kernel refuses io_uring; coroutines run on epoll");
                start_loops(threads, hooks, &pool)
            })?
        } else {
            tracing::info!(target: "network", "io_uring is switched off; coroutines run on epoll");
            start_loops(threads, hooks, &pool)?
        };
        Ok(Self { driver, next: AtomicUsize::new(0), pool })
    }

    /// # Errors
    /// The kernel does not register the socket; the connection is dropped.
    pub(crate) fn adopt<H: Service>(&self, accepted: AcceptedSession, service: &Arc<H>) -> io::Result<()> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        match &self.driver {
            Driver::Rings(rings) => {
                let ring = rings.get(turn % rings.len().max(1)).ok_or(io::ErrorKind::NotFound)?;
                ring.adopt(accepted, service, &self.pool);
                Ok(())
            }
            Driver::Epoll(loops) => {
                let running = loops.get(turn % loops.len().max(1)).ok_or(io::ErrorKind::NotFound)?;
                running.event_loop.adopt(accepted, service, Some(Arc::clone(&self.pool)), drop)
            }
        }
    }

    /// Has threads that have come to rest give back memory.
    pub(crate) fn tidy(&self, hooks: &Arc<dyn LoopHooks>) {
        match &self.driver {
            Driver::Rings(rings) => rings.iter().for_each(|ring| ring.tidy(hooks)),
            Driver::Epoll(loops) => loops.iter().for_each(|running| running.event_loop.tidy(hooks)),
        }
    }

    pub(crate) fn statistics(&self) -> ExecutorStatistics {
        let (driver, threads): (_, Vec<_>) = match &self.driver {
            Driver::Rings(rings) => {
                ("io_uring", rings.iter().map(|ring| (ring.connections(), ring.figures())).collect())
            }
            Driver::Epoll(loops) => {
                let figures = |running: &RunningLoop| {
                    (running.event_loop.connections() as u64, running.event_loop.figures())
                };
                ("epoll", loops.iter().map(figures).collect())
            }
        };
        let connections = threads.iter().map(|(connections, _)| connections).sum();
        let mut figures = vec![
            ("driver", Figure::Text(driver)),
            ("threadsRunning", Figure::Count(threads.len() as u64)),
            ("clientsInTotal", Figure::Count(connections)),
        ];
        let named = RING_NAMES.iter().zip(threads);
        figures.extend(named.map(|(name, (_, figures))| (name.as_str(), Figure::Group(figures))));
        figures.push(("pool", Figure::Group(self.pool.statistics())));
        ExecutorStatistics { executor: ServiceExecutor::Coroutine.statistics_name(), figures }
    }
}

fn start_rings(threads: usize, hooks: &Arc<dyn LoopHooks>, pool: &Arc<Pool>) -> io::Result<Vec<RunningRing>> {
    let start = |index| RunningRing::start(format!("ring{index}"), Arc::clone(hooks), BusyPoll::beside(pool));
    (0..threads).map(start).collect()
}

fn start_loops(threads: usize, hooks: &Arc<dyn LoopHooks>, pool: &Arc<Pool>) -> io::Result<Driver> {
    let start =
        |index| RunningLoop::start(format!("coroutine{index}"), Arc::clone(hooks), BusyPoll::beside(pool));
    (0..threads).map(start).collect::<io::Result<_>>().map(Driver::Epoll)
}

/// Names of the rings in statistics.
static RING_NAMES: LazyLock<Vec<String>> = LazyLock::new(|| thread_names("ring"));
