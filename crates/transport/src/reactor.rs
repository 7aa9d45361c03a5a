//! The `reactor` thread model (article S1): one event loop per core, connections handed out in turn; each
//! stays on its loop. What would block or runs long goes to the elastic pool.

use crate::busy_poll::BusyPoll;
use crate::event_loop::{LoopHooks, RunningLoop};
use crate::executors::AcceptedSession;
use crate::pool::Pools;
use crate::statistics::{ExecutorStatistics, Figure, thread_names};
use crate::{Service, ServiceExecutor};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

/// See the module.
pub(crate) struct Reactor {
    loops: Vec<RunningLoop>,
    next: AtomicUsize,
    pools: Arc<Pools>,
}

impl Reactor {
    /// Its threads are called `name`, with a number.
    ///
    /// # Errors
    /// The system has no descriptor or no thread left.
    pub(crate) fn start(
        name: &str,
        threads: usize,
        hooks: &Arc<dyn LoopHooks>,
        pools: Arc<Pools>,
    ) -> io::Result<Self> {
        let start =
            |index| RunningLoop::start(format!("{name}{index}"), Arc::clone(hooks), BusyPoll::beside(&pools));
        let loops = (0..threads.max(1)).map(start).collect::<io::Result<_>>()?;
        Ok(Self { loops, next: AtomicUsize::new(0), pools })
    }

    /// # Errors
    /// The kernel does not register the socket; the connection is dropped.
    pub(crate) fn adopt<H: Service>(&self, accepted: AcceptedSession, service: &Arc<H>) -> io::Result<()> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.loops.len();
        let running = self.loops.get(turn).expect("there is at least one loop");
        running.event_loop.adopt(accepted, service, Some(Arc::clone(&self.pools)), drop)
    }

    /// Has threads that have come to rest give back memory.
    pub(crate) fn tidy(&self, hooks: &Arc<dyn LoopHooks>) {
        self.loops.iter().for_each(|running| running.event_loop.tidy(hooks));
    }

    pub(crate) fn statistics(&self) -> ExecutorStatistics {
        let executor = ServiceExecutor::Reactor.statistics_name();
        ExecutorStatistics { executor, figures: self.figures() }
    }

    pub(crate) fn figures(&self) -> Vec<(&'static str, Figure)> {
        let loops: Vec<_> = self.loops.iter().map(|running| &running.event_loop).collect();
        let connections = loops.iter().map(|one| one.connections() as u64).sum();
        let mut figures = vec![
            ("threadsRunning", Figure::Count(loops.len() as u64)),
            ("clientsInTotal", Figure::Count(connections)),
        ];
        let named = LOOP_NAMES.iter().zip(loops);
        figures.extend(named.map(|(name, one)| (name.as_str(), Figure::Group(one.figures()))));
        figures.extend(self.pools.statistics());
        figures
    }
}

/// Names of the loops in statistics.
static LOOP_NAMES: LazyLock<Vec<String>> = LazyLock::new(|| thread_names("loop"));
