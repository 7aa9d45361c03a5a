//! A running server: its listeners, its sessions and its end.

use crate::event_loop::LoopHooks;
use crate::executors::{AcceptedSession, Executors};
use crate::listener::{Listener, prepare};
use crate::refusal::Refusal;
use crate::registry::Shared;
use crate::session::Lane;
use crate::statistics::TransportMemory;
use crate::stream::SocketControl;
use crate::sweeper::{Bounds, Timeouts};
use crate::vital;
use crate::{
    AdaptiveOptions, AdaptiveOptionsError, Endpoint, OverloadTarget, PoolOptions, ReceiveBuffer,
    ServerOptions, Service, ServiceExecutor, Session, StartError, Tls, TransportStatistics,
};
use parking_lot::Mutex;
use socket2::Socket;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Pause of a listener when the process has no descriptor or memory left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);
/// What sessions get after their sockets were shut by force.
const FORCED_WAIT: Duration = Duration::from_secs(1);
/// Refusals and failures are logged when their count is a multiple of this, and the first time.
const LOG_EVERY: u64 = 100;

/// A server that listens. Dropping it without [`Server::shutdown`] ends it at once.
pub struct Server {
    shared: Arc<Shared>,
    listeners: Arc<Vec<Listener>>,
    stopping: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    executors: Arc<Executors>,
    sweeper: Mutex<Option<JoinHandle<()>>>,
}

/// How a shutdown went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Sessions that had not ended by themselves when the time was up.
    pub forced: usize,
    /// Sessions that did not end even then: their service does not come back.
    pub abandoned: usize,
}

impl Server {
    /// Listens and serves.
    ///
    /// # Errors
    /// See [`StartError`]; nothing listens then.
    pub fn start<H: Service>(options: ServerOptions, service: Arc<H>) -> Result<Self, StartError> {
        let listeners = Arc::new(Listener::open_all(&options)?);
        let shared = Shared::new(options);
        let stopping = Arc::new(AtomicBool::new(false));
        let hooks: Arc<dyn LoopHooks> = Arc::<H>::clone(&service);
        let executors = Executors::start(Arc::clone(&shared), hooks).map_err(StartError::Thread)?;
        for model in listeners.iter().map(Listener::executor) {
            executors.prepare(model).map_err(|error| StartError::Executor { name: model.name(), error })?;
        }
        let executors = Arc::new(executors);
        let server = Self {
            shared,
            listeners,
            stopping,
            threads: Mutex::default(),
            executors,
            sweeper: Mutex::default(),
        };
        server.start_sweeper().map_err(StartError::Thread)?;
        let refusal = Refusal::start().map_err(StartError::Thread)?;
        for index in 0..server.listeners.len() {
            let acceptor = Acceptor {
                shared: Arc::clone(&server.shared),
                listeners: Arc::clone(&server.listeners),
                stopping: Arc::clone(&server.stopping),
                service: Arc::clone(&service),
                executors: Arc::clone(&server.executors),
                refusal: refusal.clone(),
                failures: AtomicU64::new(0),
            };
            let thread = vital::spawn(format!("listener{index}"), move || acceptor.run(index))
                .map_err(StartError::Thread)?;
            server.threads.lock().push(thread);
        }
        Ok(server)
    }

    fn start_sweeper(&self) -> io::Result<()> {
        let options = &self.shared.options;
        let [send, handshake] = [options.send_timeout, options.handshake_timeout]
            .map(|timeout| Some(timeout).filter(|timeout| !timeout.is_zero()));
        let shared = Arc::clone(&self.shared);
        let sweep = move || {
            shared.stalls.sweep_until_stopped(
                &Timeouts { send, handshake, tls: shared.options.tls.as_deref() },
                &Bounds { unread: &shared.unread, requests: &shared.large_requests },
                || shared.sessions(),
            )
        };
        *self.sweeper.lock() = Some(vital::spawn("sweeper", sweep)?);
        Ok(())
    }

    /// Changes the limits of each elastic pool.
    pub fn set_pool(&self, options: PoolOptions) {
        self.executors.pools.set_options(options);
    }

    /// Changes the options of the `adaptive` model; its number of queues counts when it starts.
    ///
    /// # Errors
    /// What [`AdaptiveOptions::validate`] refuses; nothing is changed then.
    pub fn set_adaptive(&self, options: AdaptiveOptions) -> Result<(), AdaptiveOptionsError> {
        self.executors.set_adaptive_options(options)
    }

    /// Changes the bound on replies that clients have not taken, in bytes; zero: there is none.
    pub fn set_unread_replies_max(&self, bytes: u64) {
        self.shared.unread.set_limit(bytes);
        self.shared.stalls.hurry();
    }

    /// Changes the bound on large requests, in bytes; zero: there is none.
    pub fn set_large_requests_max(&self, bytes: u64) {
        self.shared.large_requests.set_limit(bytes);
    }

    /// The process is near the end of its memory, or no longer: requests wait before they begin, those of the
    /// diagnostic lane excepted, for a second at most. To be said again several times a second while it is.
    pub fn set_memory_is_short(&self, short: bool) {
        self.shared.unread.set_memory_is_short(short);
    }

    /// What connections hold in memory. Cheap: no connection is looked at.
    #[must_use]
    pub fn memory(&self) -> TransportMemory {
        let (replies, paced) = self.shared.unread.held();
        TransportMemory {
            connections: self.shared.current(),
            requests: self.shared.large_requests.held(),
            replies,
            paced,
        }
    }

    /// Changes the admission under overload; it begins anew.
    pub fn set_overload(&self, target: OverloadTarget) {
        self.shared.set_overload(target);
    }

    /// How TLS is spoken; `None`: not at all.
    #[must_use]
    pub fn tls(&self) -> Option<&Tls> {
        self.shared.options.tls.as_deref()
    }

    /// Has threads that have had nothing to do since the last call give back memory that they keep for what
    /// comes next ([`Service::thread_rests`]). To be called every few seconds; a server that idles is told
    /// once.
    pub fn tidy(&self) {
        self.executors.tidy();
    }

    /// The TCP addresses listened on, with the ports the kernel chose.
    #[must_use]
    pub fn tcp_addresses(&self) -> Vec<SocketAddr> {
        let ordinary = self.listeners.iter().filter(|listener| !listener.is_priority_port);
        ordinary.filter_map(Listener::tcp_address).collect()
    }

    /// The TCP addresses of the priority port.
    #[must_use]
    pub fn priority_addresses(&self) -> Vec<SocketAddr> {
        let priority = self.listeners.iter().filter(|listener| listener.is_priority_port);
        priority.filter_map(Listener::tcp_address).collect()
    }

    /// The thread model of the first listener's new connections.
    #[must_use]
    pub fn executor(&self) -> ServiceExecutor {
        self.listeners.first().map(Listener::executor).unwrap_or_default()
    }

    /// Changes the thread model of new connections: of one listener, named as in
    /// [`ServerOptions::bind_addresses`] (a Unix socket by its path), or of all. Open connections stay with
    /// the model they have. False: there is no such listener.
    ///
    /// # Errors
    /// [`StartError::Executor`]; nothing has changed then.
    pub fn set_executor(&self, listener: Option<&str>, model: ServiceExecutor) -> Result<bool, StartError> {
        let executor_failed = |error| StartError::Executor { name: model.name(), error };
        self.executors.prepare(model).map_err(executor_failed)?;
        let mut found = false;
        for one in self.listeners.iter().filter(|one| listener.is_none_or(|name| one.name == name)) {
            found = true;
            let before = one.executor();
            if before == model {
                continue;
            }
            one.set_executor(model);
            tracing::info!(target: "network", listener = %one.name, before = before.name(),
                now = model.name(),
                "the service executor of new connections has changed");
        }
        Ok(found)
    }

    /// The Unix sockets listened on.
    #[must_use]
    pub fn unix_paths(&self) -> Vec<PathBuf> {
        self.listeners.iter().filter_map(|listener| listener.unix_path().map(PathBuf::from)).collect()
    }

    /// Everything counted so far.
    #[must_use]
    pub fn statistics(&self) -> TransportStatistics {
        let mut statistics = self.shared.statistics();
        statistics.executors = self.executors.statistics();
        let model = self.executor();
        statistics.admission = self.shared.admission_figures(model);
        let default = model.statistics_name();
        // A stable sort: the others keep their order.
        statistics.executors.sort_by_key(|one| one.executor != default);
        statistics.lane = self.executors.lane_figures();
        statistics
    }

    /// The sessions that live at the moment.
    #[must_use]
    pub fn sessions(&self) -> Vec<Arc<Session>> {
        self.shared.sessions()
    }

    /// Changes the connection limit. Open connections stay.
    pub fn set_max_connections(&self, limit: usize) {
        self.shared.set_max_connections(limit);
    }

    /// Stops accepting, lets running requests finish for at most `grace`, then ends the rest by force. Can be
    /// called again.
    pub fn shutdown(&self, grace: Duration) -> ShutdownReport {
        self.stop_listening();
        for session in self.shared.sessions() {
            session.end();
        }
        // Those that wait for others' memory see that they end.
        self.shared.unread.wake_all();
        self.shared.large_requests.wake_all();
        let forced = self.shared.wait_drained(Instant::now() + grace);
        if forced == 0 {
            return ShutdownReport { forced: 0, abandoned: 0 };
        }
        for session in self.shared.sessions() {
            session.abort();
        }
        let abandoned = self.shared.wait_drained(Instant::now() + FORCED_WAIT);
        ShutdownReport { forced, abandoned }
    }

    /// Stops accepting; open connections go on. Unix socket files are removed.
    pub fn stop_listening(&self) {
        self.shared.close();
        if self.stopping.swap(true, Ordering::AcqRel) {
            return;
        }
        for listener in self.listeners.iter() {
            listener.remove_file();
            // Wakes the thread that accepts on it.
            let _ = listener.socket.shutdown(Shutdown::Both);
        }
        for thread in self.threads.lock().drain(..) {
            vital::join(thread);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown(Duration::ZERO);
        self.executors.stop_pools(FORCED_WAIT);
        self.shared.stalls.stop();
        if let Some(sweeper) = self.sweeper.lock().take() {
            vital::join(sweeper);
        }
    }
}

/// One listener's thread.
struct Acceptor<H> {
    shared: Arc<Shared>,
    listeners: Arc<Vec<Listener>>,
    stopping: Arc<AtomicBool>,
    service: Arc<H>,
    executors: Arc<Executors>,
    refusal: Refusal,
    failures: AtomicU64,
}

impl<H: Service> Acceptor<H> {
    fn run(&self, index: usize) {
        let listener = self.listeners.get(index).expect("each listener has its thread");
        while !self.stopping.load(Ordering::Acquire) {
            match listener.socket.accept() {
                Ok((socket, peer)) => {
                    let local = socket
                        .local_addr()
                        .map_or(Endpoint::Detached, |address| Endpoint::from_socket(&address));
                    self.admit(listener, socket, Endpoint::from_socket(&peer), local);
                }
                Err(_) if self.stopping.load(Ordering::Acquire) => return,
                Err(error) => self.accept_failed(&error),
            }
        }
    }

    fn admit(&self, listener: &Listener, socket: Socket, peer: Endpoint, local: Endpoint) {
        let socket = Arc::new(socket);
        let control = Box::new(SocketControl(Arc::downgrade(&socket)));
        let priority = listener.is_priority_port || listener.unix_path().is_some();
        let place = match listener.take_place() {
            Ok(place) => place,
            Err(limit) => {
                self.shared.count_rejected();
                return self.refuse(socket, &peer, limit);
            }
        };
        let registered = self.shared.admit(peer.clone(), local, priority, control, &self.service);
        let Some(registered) = registered else {
            return self.refuse(socket, &peer, self.shared.max_connections());
        };
        let registered = registered.at(place);
        prepare(&socket, &self.shared.options);
        tracing::debug!(target: "network", connection = registered.session().id(), %peer,
            "connection accepted");
        let session = Arc::clone(registered.session());
        let accepted = AcceptedSession { registered, socket, input: ReceiveBuffer::new() };
        let executors = Arc::clone(&self.executors);
        let service = Arc::clone(&self.service);
        let adopted = if listener.is_priority_port || self.shared.options.priority_lane {
            session.set_lane(if listener.is_priority_port { Lane::Resident } else { Lane::Visitor });
            let usual = listener.executor();
            self.executors.adopt_on_lane(accepted, &self.service, move |accepted| {
                session.set_lane(Lane::Off);
                let model = if session.wants_thread() { ServiceExecutor::Synchronous } else { usual };
                if let Err(error) = executors.adopt(model, accepted, &service) {
                    executors.unserved(&error);
                }
            })
        } else {
            self.executors.adopt(listener.executor(), accepted, &self.service)
        };
        if let Err(error) = adopted {
            self.executors.unserved(&error);
        }
    }

    fn refuse(&self, socket: Arc<Socket>, peer: &Endpoint, limit: usize) {
        let rejected = self.shared.rejected();
        if rejected % LOG_EVERY == 1 {
            tracing::warn!(target: "network", %peer, limit, rejected,
                "connection refused because too many connections are open");
        }
        if let Ok(socket) = Arc::try_unwrap(socket) {
            self.refusal.refuse(socket, limit);
        }
    }

    fn accept_failed(&self, error: &io::Error) {
        match error.raw_os_error() {
            // The client was gone before it was accepted.
            Some(libc::ECONNABORTED | libc::EINTR | libc::EPROTO) => {}
            _ => {
                self.log_failure(error, "cannot accept a connection");
                thread::sleep(EXHAUSTED_PAUSE);
            }
        }
    }

    fn log_failure(&self, error: &io::Error, what: &str) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if failures % LOG_EVERY == 1 {
            tracing::warn!(target: "network", %error, failures, "{what}");
        }
    }
}
