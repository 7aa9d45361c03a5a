//! The `synchronous` thread model: one thread per connection, blocking I/O, a parked thread while a service
//! waits.

use crate::executors::{AcceptedSession, drive};
use crate::placement::Placement;
use crate::statistics::{ExecutorStatistics, Figure};
use crate::{BlockingStream, Service, ServiceExecutor};
use pollster::block_on;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

/// Memory maps of one thread: its stack, the stack that a stack overflow is told on, and a guard page for
/// each.
const MAPS_PER_THREAD: usize = 4;
/// Where the kernel says how many memory maps a process may have.
const MAP_LIMIT: &str = "/proc/sys/vm/max_map_count";

/// The threads, counted.
pub(crate) struct Synchronous {
    threads: Arc<Threads>,
    most_threads: usize,
}

#[derive(Default)]
struct Threads {
    /// With those being started.
    running: AtomicUsize,
    started: AtomicU64,
    refused: AtomicU64,
}

/// One thread's place among them.
struct Place(Arc<Threads>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Synchronous {
    /// As many threads as the kernel lets the process have memory maps for: a process that runs out of them
    /// fails anywhere, mostly where nothing can be done about it.
    pub(crate) fn new() -> Self {
        let limit = std::fs::read_to_string(MAP_LIMIT).ok().and_then(|text| text.trim().parse().ok());
        Self::with_most(limit.map_or(usize::MAX, most_threads))
    }

    fn with_most(most_threads: usize) -> Self {
        Self { threads: Arc::default(), most_threads }
    }

    /// Runs a connection on a new thread.
    ///
    /// # Errors
    /// The kernel has no thread left, or no memory map for one; the connection is then dropped.
    pub(crate) fn adopt<H: Service>(&self, accepted: AcceptedSession, service: &Arc<H>) -> io::Result<()> {
        let AcceptedSession { registered, socket, input } = accepted;
        let session = Arc::clone(registered.session());
        session.place(Placement::Anywhere);
        socket.set_nonblocking(false)?;
        let place = self.take_place()?;
        let builder = thread::Builder::new()
            .name(format!("conn{}", session.id()))
            .stack_size(session.shared.options.thread_stack_bytes);
        let service = Arc::clone(service);
        let spawned = builder.spawn(move || {
            session.looked_at();
            let stream = BlockingStream::new(socket, Arc::clone(&session));
            block_on(drive(&session, stream, service, input));
            drop(place);
            drop(registered);
        });
        let counter = if spawned.is_ok() { &self.threads.started } else { &self.threads.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        spawned.map(|_| ())
    }

    fn take_place(&self) -> io::Result<Place> {
        let before = self.threads.running.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(&self.threads));
        if before < self.most_threads {
            return Ok(place);
        }
        self.threads.refused.fetch_add(1, Ordering::Relaxed);
        let most = self.most_threads;
        Err(io::Error::other(format!(
            "{MAP_LIMIT} allows {most} threads for connections, and all are in use"
        )))
    }

    pub(crate) fn statistics(&self) -> ExecutorStatistics {
        let count = |counter: &AtomicU64| Figure::Count(counter.load(Ordering::Relaxed));
        let figures = vec![
            ("threadsRunning", Figure::Count(self.threads.running.load(Ordering::Relaxed) as u64)),
            ("maxThreads", Figure::Count(self.most_threads as u64)),
            ("threadsStarted", count(&self.threads.started)),
            ("threadsRefusedBySystem", count(&self.threads.refused)),
        ];
        ExecutorStatistics { executor: ServiceExecutor::Synchronous.statistics_name(), figures }
    }
}

/// Threads for connections, with an eighth of the memory maps kept for everything else.
const fn most_threads(maps: usize) -> usize {
    (maps - maps / 8) / MAPS_PER_THREAD
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::SimulatedStream;
    use crate::{ReceiveBuffer, Replies, RequestMessage, Session};
    use socket2::Socket;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    struct Silent;

    impl Service for Silent {
        async fn call(&self, _session: &Arc<Session>, _request: RequestMessage<'_>) -> Replies {
            Replies::none()
        }
    }

    #[test]
    fn beyond_the_most_threads_connections_are_refused_and_counted() {
        let model = Synchronous::with_most(1);
        let service = Arc::new(Silent);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let adopt = || {
            let client = TcpStream::connect(address).expect("a connection");
            let (socket, _) = listener.accept().expect("a connection");
            let (registered, _, _) = SimulatedStream::connect([], &service);
            let socket = Arc::new(Socket::from(socket));
            let result =
                model.adopt(AcceptedSession { registered, socket, input: ReceiveBuffer::new() }, &service);
            (client, result)
        };
        let (client, first) = adopt();
        first.expect("there is a place");
        let (_, second) = adopt();
        let error = second.expect_err("there is no second place");
        assert!(error.to_string().contains("allows 1 threads"), "{error}");
        let figures = model.statistics().figures;
        let expect =
            [("threadsRunning", 1), ("maxThreads", 1), ("threadsStarted", 1), ("threadsRefusedBySystem", 1)];
        assert_eq!(figures, expect.map(|(name, count)| (name, Figure::Count(count))));
        // A place is free again when its connection has ended.
        drop(client);
        let deadline = Instant::now() + Duration::from_secs(10);
        while model.threads.running.load(Ordering::Relaxed) > 0 {
            assert!(Instant::now() < deadline, "a thread keeps its place after its connection's end");
            thread::yield_now();
        }
        let (_client, third) = adopt();
        third.expect("the place is free again");
    }

    #[test]
    fn memory_maps_bound_the_threads() {
        assert_eq!(most_threads(65_530), 14_334, "the usual limit");
        assert_eq!(most_threads(0), 0);
    }
}
