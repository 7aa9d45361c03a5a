//! A running server: its listeners, its sessions and its end.

use crate::listener::{Listener, prepare};
use crate::refusal::Refusal;
use crate::registry::Shared;
use crate::stream::SocketControl;
use crate::{
    Endpoint, ServerOptions, Service, ServiceExecutor, Session, StartError, TransportStatistics, synchronous,
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
        let server = Self { shared, listeners, stopping, threads: Mutex::default() };
        let refusal = Refusal::start().map_err(StartError::Thread)?;
        for index in 0..server.listeners.len() {
            let acceptor = Acceptor {
                shared: Arc::clone(&server.shared),
                listeners: Arc::clone(&server.listeners),
                stopping: Arc::clone(&server.stopping),
                service: Arc::clone(&service),
                refusal: refusal.clone(),
                failures: AtomicU64::new(0),
            };
            let thread = thread::Builder::new()
                .name(format!("listener{index}"))
                .spawn(move || acceptor.run(index))
                .map_err(StartError::Thread)?;
            server.threads.lock().push(thread);
        }
        Ok(server)
    }

    /// The TCP addresses listened on, with the ports the kernel chose.
    #[must_use]
    pub fn tcp_addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(Listener::tcp_address).collect()
    }

    /// The Unix sockets listened on.
    #[must_use]
    pub fn unix_paths(&self) -> Vec<PathBuf> {
        self.listeners.iter().filter_map(|listener| listener.unix_path().map(PathBuf::from)).collect()
    }

    /// Everything counted so far.
    #[must_use]
    pub fn statistics(&self) -> TransportStatistics {
        self.shared.statistics()
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

    /// Stops accepting, lets running requests finish for at most `grace`, then ends the rest by force. Can be called again.
    pub fn shutdown(&self, grace: Duration) -> ShutdownReport {
        self.stop_listening();
        for session in self.shared.sessions() {
            session.end();
        }
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
            if thread.join().is_err() {
                tracing::error!(target: "network", "a listener thread had panicked");
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown(Duration::ZERO);
    }
}

/// One listener's thread.
struct Acceptor<H> {
    shared: Arc<Shared>,
    listeners: Arc<Vec<Listener>>,
    stopping: Arc<AtomicBool>,
    service: Arc<H>,
    refusal: Refusal,
    failures: AtomicU64,
}

impl<H: Service> Acceptor<H> {
    fn run(&self, index: usize) {
        let Some(listener) = self.listeners.get(index) else { return };
        while !self.stopping.load(Ordering::Acquire) {
            match listener.socket.accept() {
                Ok((socket, peer)) => {
                    let local = socket
                        .local_addr()
                        .map_or(Endpoint::Detached, |address| Endpoint::from_socket(&address));
                    self.admit(socket, Endpoint::from_socket(&peer), local);
                }
                Err(_) if self.stopping.load(Ordering::Acquire) => return,
                Err(error) => self.accept_failed(&error),
            }
        }
    }

    fn admit(&self, socket: Socket, peer: Endpoint, local: Endpoint) {
        let socket = Arc::new(socket);
        let control = Box::new(SocketControl(Arc::clone(&socket)));
        let Some(admission) = self.shared.admit(peer.clone(), local, control) else {
            return self.refuse(socket, &peer);
        };
        prepare(&socket, &self.shared.options);
        tracing::debug!(target: "network", connection = admission.session().id(), %peer, "connection accepted");
        let spawned = match self.shared.options.executor {
            ServiceExecutor::Synchronous => synchronous::spawn(admission, socket, Arc::clone(&self.service)),
        };
        if let Err(error) = spawned {
            self.log_failure(&error, "cannot start a thread for a connection; it is closed");
        }
    }

    fn refuse(&self, socket: Arc<Socket>, peer: &Endpoint) {
        let limit = self.shared.max_connections();
        let rejected = self.shared.rejected();
        if rejected % LOG_EVERY == 1 {
            tracing::warn!(target: "network", %peer, limit, rejected, "connection refused because too many connections are open");
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
