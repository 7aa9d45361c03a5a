//! All sessions that live, and what those that ended have counted.

use crate::buffer::LargeBuffers;
use crate::large_requests::LargeRequests;
use crate::listener::ListenerPlace;
use crate::live_set::LiveSet;
use crate::overload::{Admitter, Overload, OverloadTarget, Served};
use crate::placement::Placement;
use crate::statistics::{
    CompressionStatistics, CompressorCounters, ConnectionStatistics, Figure, NetworkStatistics,
    TransportStatistics,
};
use crate::sweeper::Stalls;
use crate::timing::{RequestTimes, TimeHistograms};
use crate::unread::UnreadReplies;
use crate::{
    ConnectionError, Endpoint, Phase, ServerOptions, Service, ServiceExecutor, Session, SessionControl,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use wire::Compressor;

/// Connections beyond the limit that the priority port and Unix sockets may have.
const PRIORITY_RESERVE: usize = 32;

/// What all sessions of a server share.
pub(crate) struct Shared {
    pub(crate) options: ServerOptions,
    max_connections: AtomicUsize,
    created: AtomicU64,
    /// Refused: too many connections.
    rejected: AtomicU64,
    /// Refused: the system gave no thread or no descriptor.
    unserved: AtomicU64,
    /// Ended with an error: broken by the client, malformed, timed out.
    broken: AtomicU64,
    send_timed_out: AtomicU64,
    pub(crate) panicked: AtomicU64,
    pub(crate) stalls: Stalls,
    pub(crate) unread: UnreadReplies,
    pub(crate) large_requests: LargeRequests,
    timing: Arc<TimeHistograms>,
    /// One for each thread model, by its number: a model with little to do says nothing of the others'
    /// queues.
    admitters: [Admitter; ServiceExecutor::ALL.len()],
    /// For what waits for the elastic pools.
    brief_admission: PoolAdmission,
    long_admission: PoolAdmission,
    pub(crate) large_buffers: LargeBuffers,
    /// Indexed by compressor id.
    compression: [CompressorCounters; 4],
    sessions: LiveSet<Session, NetworkStatistics>,
}

/// The admission of one elastic pool.
pub(crate) struct PoolAdmission {
    admitter: Admitter,
    /// Requests that were offloaded, and the microseconds that executing them took.
    offloaded: AtomicU64,
    offloaded_us: AtomicU64,
}

impl PoolAdmission {
    fn new(target: OverloadTarget) -> Self {
        let admitter = Admitter::new(target, Instant::now());
        Self { admitter, offloaded: AtomicU64::new(0), offloaded_us: AtomicU64::new(0) }
    }

    /// A request has waited for the pool.
    pub(crate) fn waited(&self, session: &Session, wait: Duration) {
        if !session.is_on_lane() {
            self.admitter.note_wait(wait, Instant::now(), || Served {
                requests: self.offloaded.load(Ordering::Relaxed),
                time: Duration::from_micros(self.offloaded_us.load(Ordering::Relaxed)),
            });
        }
    }

    /// A request that was offloaded is executed.
    pub(crate) fn executed(&self, execute: Duration) {
        self.offloaded.fetch_add(1, Ordering::Relaxed);
        self.offloaded_us.fetch_add(execute.as_micros() as u64, Ordering::Relaxed);
    }
}

/// Tells the service of a session's end.
type OnClosed = Box<dyn FnOnce(&Arc<Session>) + Send>;

/// One admitted session; dropping it tells the service of its end and makes room for another.
pub(crate) struct RegisteredSession {
    session: Arc<Session>,
    closed: Option<OnClosed>,
    /// At the listener that it came by.
    place: Option<ListenerPlace>,
}

impl RegisteredSession {
    /// It has a place at a listener until it ends.
    pub(crate) fn at(self, place: ListenerPlace) -> Self {
        let mut placed = self;
        placed.place = Some(place);
        placed
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

impl Drop for RegisteredSession {
    fn drop(&mut self) {
        self.session.enter(Phase::Ended);
        self.session.lets_go();
        if let Some(closed) = self.closed.take() {
            closed(&self.session);
        }
        let counters = &self.session.counters;
        self.session.shared.sessions.leave(self.session.id(), |ended| ended.add(counters));
    }
}

impl Shared {
    pub(crate) fn new(options: ServerOptions) -> Arc<Self> {
        Arc::new(Self {
            max_connections: AtomicUsize::new(options.max_connections),
            admitters: ServiceExecutor::ALL.map(|_| Admitter::new(options.overload, Instant::now())),
            brief_admission: PoolAdmission::new(options.overload),
            long_admission: PoolAdmission::new(options.overload),
            created: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            unserved: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            send_timed_out: AtomicU64::new(0),
            stalls: Stalls::default(),
            unread: UnreadReplies::new(options.unread_replies_max),
            large_requests: LargeRequests::new(options.large_requests_max),
            timing: TimeHistograms::new(),
            panicked: AtomicU64::new(0),
            large_buffers: LargeBuffers::default(),
            compression: Default::default(),
            sessions: LiveSet::new(),
            options,
        })
    }

    /// A connection is refused: too many are open.
    pub(crate) fn count_rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// Registers a new connection and tells the service, or refuses it: the limit is reached or the server is
    /// closing. A priority connection may use a reserve beyond the limit.
    pub(crate) fn admit<H: Service>(
        self: &Arc<Self>,
        peer: Endpoint,
        local: Endpoint,
        priority: bool,
        control: Box<dyn SessionControl>,
        service: &Arc<H>,
    ) -> Option<RegisteredSession> {
        let reserve = if priority { PRIORITY_RESERVE } else { 0 };
        let limit = self.max_connections().saturating_add(reserve);
        let entered = self.sessions.enter(limit, || {
            let id = self.created.fetch_add(1, Ordering::Relaxed) + 1;
            (id, Session::new(id, peer, local, priority, control, Arc::clone(self)))
        });
        let Some(session) = entered else {
            self.count_rejected();
            return None;
        };
        service.opened(&session);
        let service = Arc::clone(service);
        let closed: OnClosed = Box::new(move |session| service.closed(session));
        Some(RegisteredSession { session, closed: Some(closed), place: None })
    }

    /// Whether this request is to be refused because the server is overloaded, and by whom. Diagnostics never
    /// are.
    pub(crate) fn verdict(
        &self,
        session: &Session,
        queue: Option<Duration>,
        now: Instant,
    ) -> Option<(Overload, &Admitter)> {
        if session.is_priority() || session.is_on_lane() {
            return None;
        }
        // Nobody knows how long a request waited that came together with another, or to a thread of its own.
        let at_home = queue.and_then(|queue| {
            let admitter = self.admitter(session.executor())?;
            Some((admitter.check(queue, now, || self.timing.served())?, admitter))
        });
        // Connections mostly repeat themselves.
        at_home.or_else(|| {
            let admitter = &self.pool_admission(session.last_placement())?.admitter;
            Some((admitter.foresee()?, admitter))
        })
    }

    /// The admission of the pool that has what is placed so run.
    pub(crate) const fn pool_admission(&self, placement: Placement) -> Option<&PoolAdmission> {
        match placement {
            Placement::Brief => Some(&self.brief_admission),
            Placement::Long => Some(&self.long_admission),
            Placement::Home | Placement::Anywhere => None,
        }
    }

    /// The admission of one thread model.
    pub(crate) fn admitter(&self, model: ServiceExecutor) -> Option<&Admitter> {
        self.admitters.get(model as usize)
    }

    /// The figures of the admission of one thread model, and of the pools.
    pub(crate) fn admission_figures(&self, model: ServiceExecutor) -> Vec<(&'static str, Figure)> {
        let mut figures = self.admitter(model).map(Admitter::statistics).unwrap_or_default();
        figures.push(("pool", Figure::Group(self.brief_admission.admitter.statistics())));
        figures.push(("longPool", Figure::Group(self.long_admission.admitter.statistics())));
        figures
    }

    /// Changes the admission under overload of every model and of the pools; it begins anew.
    pub(crate) fn set_overload(&self, target: OverloadTarget) {
        let now = Instant::now();
        let of_pools = [&self.brief_admission.admitter, &self.long_admission.admitter];
        let all = self.admitters.iter().chain(of_pools);
        all.for_each(|admitter| admitter.set_target(target, now));
    }

    /// A request is over.
    pub(crate) fn record(&self, times: &RequestTimes) {
        self.timing.record(times);
    }

    pub(crate) fn count_broken(&self, error: &ConnectionError) {
        self.broken.fetch_add(1, Ordering::Relaxed);
        if matches!(error, ConnectionError::SendTimedOut) {
            self.send_timed_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_unserved(&self) -> u64 {
        self.unserved.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn max_connections(&self) -> usize {
        self.max_connections.load(Ordering::Relaxed)
    }

    pub(crate) fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    pub(crate) fn set_max_connections(&self, limit: usize) {
        self.max_connections.store(limit, Ordering::Relaxed);
    }

    /// Open connections; a snapshot without a lock.
    #[inline]
    pub(crate) fn current(&self) -> usize {
        self.sessions.count()
    }

    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        self.sessions.all()
    }

    /// Admits nobody from now on.
    pub(crate) fn close(&self) {
        self.sessions.close();
    }

    /// Waits until no session lives; answers with the number that still do at the deadline.
    pub(crate) fn wait_drained(&self, deadline: Instant) -> usize {
        self.sessions.wait_empty(deadline)
    }

    pub(crate) fn count_compressed(&self, compressor: Compressor, before: usize, after: usize) {
        if let Some(counters) = self.compression.get(usize::from(compressor.id())) {
            counters.compressor_in.fetch_add(before as u64, Ordering::Relaxed);
            counters.compressor_out.fetch_add(after as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_decompressed(&self, compressor: Compressor, before: usize, after: usize) {
        if let Some(counters) = self.compression.get(usize::from(compressor.id())) {
            counters.decompressor_in.fetch_add(before as u64, Ordering::Relaxed);
            counters.decompressor_out.fetch_add(after as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn statistics(&self) -> TransportStatistics {
        let (network, current, active, on_lane) = self.sessions.look(|live, ended| {
            let mut network = *ended;
            let (mut active, mut on_lane) = (0, 0);
            for session in live.values() {
                network.add(&session.counters);
                on_lane += u64::from(session.is_on_lane());
                active += u64::from(session.phase() != Phase::Receiving);
            }
            (network, live.len() as u64, active, on_lane)
        });
        TransportStatistics {
            connections: ConnectionStatistics {
                current,
                available: (self.max_connections() as u64).saturating_sub(current),
                total_created: self.created.load(Ordering::Relaxed),
                rejected: self.rejected.load(Ordering::Relaxed),
                active,
                panicked: self.panicked.load(Ordering::Relaxed),
                unserved: self.unserved.load(Ordering::Relaxed),
                broken: self.broken.load(Ordering::Relaxed),
                send_timed_out: self.send_timed_out.load(Ordering::Relaxed),
                on_lane,
            },
            network,
            tls: self.options.tls.as_ref().map(|tls| tls.statistics()).unwrap_or_default(),
            executors: Vec::new(),
            lane: Vec::new(),
            admission: Vec::new(),
            times: self.timing.statistics(),
            stalled_sends: self.stalls.current() as u64,
            unread_replies: counts(self.unread.figures()),
            large_requests: counts(self.large_requests.figures()),
            compression: self.compression_statistics(),
        }
    }

    fn compression_statistics(&self) -> Vec<CompressionStatistics> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let allowed = self.options.compressors.iter();
        allowed
            .filter_map(|&compressor| {
                let counters = self.compression.get(usize::from(compressor.id()))?;
                Some(CompressionStatistics {
                    compressor,
                    compressed: (load(&counters.compressor_in), load(&counters.compressor_out)),
                    decompressed: (load(&counters.decompressor_in), load(&counters.decompressor_out)),
                })
            })
            .collect()
    }
}

fn counts(figures: [(&'static str, u64); 4]) -> Vec<(&'static str, Figure)> {
    figures.map(|(name, count)| (name, Figure::Count(count))).to_vec()
}
