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
use crate::event_loop::LoopHooks;
use crate::executors::AcceptedSession;
use crate::pool::Pools;
use crate::reactor::Reactor;
use crate::statistics::{ExecutorStatistics, Figure, thread_names};
use crate::{Service, ServiceExecutor};
use ring_loop::RunningRing;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

/// See the module.
pub(crate) enum Coroutine {
    Rings(Rings),
    /// Where there are no rings.
    Epoll(Reactor),
}

/// One ring per core.
pub(crate) struct Rings {
    rings: Vec<RunningRing>,
    next: AtomicUsize,
    pools: Arc<Pools>,
}

impl Coroutine {
    /// `may_use_io_uring`: false takes epoll at once.
    ///
    /// # Errors
    /// The system has no descriptor or no thread left.
    pub(crate) fn start(
        threads: usize,
        hooks: &Arc<dyn LoopHooks>,
        pools: Arc<Pools>,
        may_use_io_uring: bool,
    ) -> io::Result<Self> {
        if may_use_io_uring {
            match Rings::start(threads.max(1), hooks, &pools) {
                Ok(rings) => return Ok(Self::Rings(rings)),
                Err(error) => {
                    tracing::warn!(target: "network", %error,
                        "the kernel refuses io_uring; coroutines run on epoll");
                }
            }
        } else {
            tracing::info!(target: "network", "io_uring is switched off; coroutines run on epoll");
        }
        Reactor::start("coroutine", threads, hooks, pools).map(Self::Epoll)
    }

    /// # Errors
    /// The kernel does not register the socket; the connection is dropped.
    pub(crate) fn adopt<H: Service>(&self, accepted: AcceptedSession, service: &Arc<H>) -> io::Result<()> {
        match self {
            Self::Rings(rings) => {
                rings.adopt(accepted, service);
                Ok(())
            }
            Self::Epoll(reactor) => reactor.adopt(accepted, service),
        }
    }

    /// Has threads that have come to rest give back memory.
    pub(crate) fn tidy(&self, hooks: &Arc<dyn LoopHooks>) {
        match self {
            Self::Rings(rings) => rings.rings.iter().for_each(|ring| ring.tidy(hooks)),
            Self::Epoll(reactor) => reactor.tidy(hooks),
        }
    }

    pub(crate) fn statistics(&self) -> ExecutorStatistics {
        let (driver, mut figures) = match self {
            Self::Rings(rings) => ("io_uring", rings.figures()),
            Self::Epoll(reactor) => ("epoll", reactor.figures()),
        };
        figures.insert(0, ("driver", Figure::Text(driver)));
        ExecutorStatistics { executor: ServiceExecutor::Coroutine.statistics_name(), figures }
    }
}

impl Rings {
    fn start(threads: usize, hooks: &Arc<dyn LoopHooks>, pools: &Arc<Pools>) -> io::Result<Self> {
        let start =
            |index| RunningRing::start(format!("ring{index}"), Arc::clone(hooks), BusyPoll::beside(pools));
        let rings = (0..threads).map(start).collect::<io::Result<_>>()?;
        Ok(Self { rings, next: AtomicUsize::new(0), pools: Arc::clone(pools) })
    }

    fn adopt<H: Service>(&self, accepted: AcceptedSession, service: &Arc<H>) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.rings.len();
        let ring = self.rings.get(turn).expect("there is at least one ring");
        ring.adopt(accepted, service, &self.pools);
    }

    fn figures(&self) -> Vec<(&'static str, Figure)> {
        let connections = self.rings.iter().map(RunningRing::connections).sum();
        let mut figures = vec![
            ("threadsRunning", Figure::Count(self.rings.len() as u64)),
            ("clientsInTotal", Figure::Count(connections)),
        ];
        let named = RING_NAMES.iter().zip(&self.rings);
        figures.extend(named.map(|(name, ring)| (name.as_str(), Figure::Group(ring.figures()))));
        figures.extend(self.pools.statistics());
        figures
    }
}

/// Names of the rings in statistics.
static RING_NAMES: LazyLock<Vec<String>> = LazyLock::new(|| thread_names("ring"));
