//! The thread models of one server: started when first chosen, all serving side by side.

use crate::adaptive::{Adaptive, AdaptiveOptions, AdaptiveOptionsError};
use crate::busy_poll::BusyPoll;
use crate::coroutine::Coroutine;
use crate::event_loop::{LoopHooks, RunningLoop};
use crate::pool::{self, Pool, Pools, TaskLength};
use crate::reactor::Reactor;
use crate::registry::{RegisteredSession, Shared};
use crate::statistics::{ExecutorStatistics, Figure};
use crate::synchronous::Synchronous;
use crate::tls::SecuredStream;
use crate::{ByteStream, Ending, ReceiveBuffer, Service, ServiceExecutor, Session, serve};
use ambient::niceness;
use parking_lot::Mutex;
use socket2::Socket;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Failures are logged when their count is a multiple of this, and the first time.
const LOG_EVERY: u64 = 100;

/// How much the lane's thread goes before others where the system allows that: what it does is short, and
/// operators wait for it when everything else is busy.
const LANE_NICENESS: i32 = -10;

struct LaneHooks(Arc<dyn LoopHooks>);

impl LoopHooks for LaneHooks {
    fn loop_started(&self) {
        niceness::shift(LANE_NICENESS);
        self.0.loop_started();
    }

    fn turn_ended(&self) {
        self.0.turn_ended();
    }

    fn thread_rests(&self) {
        self.0.thread_rests();
    }
}

/// A connection that looks for a thread model.
pub(crate) struct AcceptedSession {
    pub(crate) registered: RegisteredSession,
    pub(crate) socket: Arc<Socket>,
    /// Bytes received already.
    pub(crate) input: ReceiveBuffer,
}

/// Serves a connection to its end and logs how it went. Gives back what was received and not processed when
/// it moves on.
pub(crate) async fn drive<S: ByteStream, H: Service>(
    session: &Arc<Session>,
    stream: S,
    service: Arc<H>,
    input: ReceiveBuffer,
) -> Option<ReceiveBuffer> {
    let stream = SecuredStream::new(stream, Arc::clone(session));
    match serve(Arc::clone(session), stream, service, input).await {
        Ok(Ending::Moves(input)) => return Some(input),
        Ok(Ending::Closed(closed)) => {
            tracing::debug!(target: "network", connection = session.id(), ?closed, "connection ended");
        }
        Err(error) => {
            session.shared.count_broken(&error);
            tracing::info!(target: "network", connection = session.id(), peer = %session.peer(), %error,
                "connection ended with an error");
        }
    }
    None
}

/// See the module.
pub(crate) struct Executors {
    shared: Arc<Shared>,
    hooks: Arc<dyn LoopHooks>,
    pub(crate) pools: Arc<Pools>,
    /// The lane's own reserve of threads that may block.
    lane_pools: Arc<Pools>,
    lane: RunningLoop,
    synchronous: Synchronous,
    /// Held while a model starts, so that it starts once.
    starting: Mutex<()>,
    adaptive: OnceLock<Adaptive>,
    /// Options of `adaptive`, for when it is started.
    adaptive_options: Mutex<AdaptiveOptions>,
    reactor: OnceLock<Reactor>,
    coroutine: OnceLock<Coroutine>,
}

impl Executors {
    /// # Errors
    /// The system has no descriptor or no thread left.
    pub(crate) fn start(shared: Arc<Shared>, hooks: Arc<dyn LoopHooks>) -> io::Result<Self> {
        let options = &shared.options;
        let pools = Pools::start(options.pool, options.processors)?;
        let (lane, cores) = (options.lane_pool, options.processors);
        let lane_pool = Pool::start("lanepool", lane, cores, pool::NICENESS, TaskLength::Any)?;
        let lane_pools = Arc::new(Pools { brief: Arc::clone(&lane_pool), long: lane_pool });
        let lane = RunningLoop::start(
            "lane".to_owned(),
            Arc::new(LaneHooks(Arc::clone(&hooks))),
            BusyPoll::default(),
        )?;
        let synchronous = Synchronous::new();
        let adaptive_options = Mutex::new(options.adaptive);
        Ok(Self {
            shared,
            hooks,
            pools,
            lane_pools,
            lane,
            synchronous,
            starting: Mutex::new(()),
            adaptive: OnceLock::new(),
            adaptive_options,
            reactor: OnceLock::new(),
            coroutine: OnceLock::new(),
        })
    }

    /// Starts a model unless it runs.
    ///
    /// # Errors
    /// The system has no descriptor or no thread left.
    pub(crate) fn prepare(&self, model: ServiceExecutor) -> io::Result<()> {
        match model {
            ServiceExecutor::Synchronous => Ok(()),
            ServiceExecutor::Reactor => self.reactor().map(|_| ()),
            ServiceExecutor::Adaptive => self.adaptive().map(|_| ()),
            ServiceExecutor::Coroutine => self.coroutine().map(|_| ()),
        }
    }

    /// The model in `cell`, which is started by whoever needs it first.
    fn started<'m, M>(
        &self,
        cell: &'m OnceLock<M>,
        start: impl FnOnce() -> io::Result<M>,
    ) -> io::Result<&'m M> {
        if let Some(model) = cell.get() {
            return Ok(model);
        }
        let _one_at_a_time = self.starting.lock();
        if let Some(model) = cell.get() {
            return Ok(model);
        }
        let model = start()?;
        Ok(cell.get_or_init(|| model))
    }

    fn reactor(&self) -> io::Result<&Reactor> {
        let threads = self.shared.options.event_loops();
        let start = || Reactor::start("reactor", threads, &self.hooks, Arc::clone(&self.pools));
        self.started(&self.reactor, start)
    }

    fn adaptive(&self) -> io::Result<&Adaptive> {
        let stack_bytes = self.shared.options.thread_stack_bytes;
        let start = || Adaptive::start(*self.adaptive_options.lock(), stack_bytes, Arc::clone(&self.hooks));
        self.started(&self.adaptive, start)
    }

    fn coroutine(&self) -> io::Result<&Coroutine> {
        let options = &self.shared.options;
        let pools = || Arc::clone(&self.pools);
        let start = || Coroutine::start(options.event_loops(), &self.hooks, pools(), options.io_uring);
        self.started(&self.coroutine, start)
    }

    /// Changes the options of `adaptive`, running or not; its number of queues counts when it starts.
    ///
    /// # Errors
    /// What [`AdaptiveOptions::validate`] refuses; nothing is changed then.
    pub(crate) fn set_adaptive_options(&self, options: AdaptiveOptions) -> Result<(), AdaptiveOptionsError> {
        options.validate()?;
        let _not_while_starting = self.starting.lock();
        *self.adaptive_options.lock() = options;
        self.adaptive.get().map_or(Ok(()), |adaptive| adaptive.set_options(options))
    }

    /// Serves a connection by a thread model.
    ///
    /// # Errors
    /// The system has no thread left, or does not register the socket; the connection is dropped.
    pub(crate) fn adopt<H: Service>(
        &self,
        model: ServiceExecutor,
        accepted: AcceptedSession,
        service: &Arc<H>,
    ) -> io::Result<()> {
        accepted.registered.session().set_executor(model);
        match model {
            ServiceExecutor::Synchronous => self.synchronous.adopt(accepted, service),
            ServiceExecutor::Reactor => self.reactor()?.adopt(accepted, service),
            ServiceExecutor::Adaptive => self.adaptive()?.adopt(accepted, service),
            ServiceExecutor::Coroutine => self.coroutine()?.adopt(accepted, service),
        }
    }

    /// Serves a new connection on the diagnostic lane until it asks for more than diagnostics; `then` takes
    /// it on.
    ///
    /// # Errors
    /// The kernel does not register the socket; the connection is dropped.
    pub(crate) fn adopt_on_lane<H: Service>(
        &self,
        accepted: AcceptedSession,
        service: &Arc<H>,
        then: impl FnOnce(AcceptedSession) + Send + 'static,
    ) -> io::Result<()> {
        self.lane.event_loop.adopt(accepted, service, Some(Arc::clone(&self.lane_pools)), then)
    }

    /// Counts and logs a connection that was accepted and cannot be served.
    pub(crate) fn unserved(&self, error: &io::Error) {
        let unserved = self.shared.count_unserved();
        if unserved % LOG_EVERY == 1 {
            tracing::warn!(target: "network", %error, unserved, "the system does not let a connection be \
                served; it is closed");
        }
    }

    /// Has threads that have come to rest since the last call give back memory that they keep.
    pub(crate) fn tidy(&self) {
        let hooks = &self.hooks;
        self.lane.event_loop.tidy(hooks);
        self.all_pools().into_iter().for_each(|pool| pool.tidy(hooks));
        self.reactor.get().into_iter().for_each(|reactor| reactor.tidy(hooks));
        self.coroutine.get().into_iter().for_each(|coroutine| coroutine.tidy(hooks));
        self.shared.large_buffers.tidy();
    }

    /// One entry for each model that has been started.
    pub(crate) fn statistics(&self) -> Vec<ExecutorStatistics> {
        let mut all = vec![self.synchronous.statistics()];
        all.extend(self.adaptive.get().map(Adaptive::statistics));
        all.extend(self.reactor.get().map(Reactor::statistics));
        all.extend(self.coroutine.get().map(Coroutine::statistics));
        all
    }

    fn all_pools(&self) -> [&Pool; 3] {
        [&self.pools.brief, &self.pools.long, &self.lane_pools.long]
    }

    /// Ends the pools, and waits for their threads: afterwards nothing of the service is in use there.
    pub(crate) fn stop_pools(&self, patience: Duration) {
        let pools = self.all_pools();
        pools.iter().for_each(|pool| pool.stop());
        let deadline = Instant::now() + patience;
        let left: usize = pools.iter().map(|pool| pool.wait_stopped(deadline)).sum();
        if left > 0 {
            tracing::warn!(target: "network", threads = left, "tasks still block threads of the pool; they \
                are left behind");
        }
    }

    pub(crate) fn lane_figures(&self) -> Vec<(&'static str, Figure)> {
        let mut figures = self.lane.event_loop.figures();
        figures.push(("pool", Figure::Group(self.lane_pools.long.statistics())));
        figures
    }
}
