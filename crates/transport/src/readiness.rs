//! Sockets that tell when they are ready: edge-triggered epoll, shared by every thread model but
//! `synchronous`.
//!
//! A socket is registered once for both directions. An edge sets bits in its [`Readiness`] and wakes whoever
//! waits; a stream tries the system call first and waits only if it would block. A read that did not fill its
//! buffer has emptied the socket, so that waiting can begin without another system call in vain.

use crate::session::Stall;
use crate::{ByteStream, ReceiveBuffer, Session};
use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll as EpollPoll, Registry, Token, Waker as EpollWaker};
use parking_lot::Mutex;
use slab::Slab;
use socket2::Socket;
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Events that one wait takes at most.
pub(crate) const EVENTS: usize = 1024;
/// After a turn of this length it matters whether events came during it or only now.
const LONG_TURN: Duration = Duration::from_micros(100);
/// The token of [`Poller::notify`].
const NOTIFIED: Token = Token(usize::MAX);
/// Requests of one connection that are processed in a row when they came together.
const REQUESTS_IN_A_ROW: u32 = 16;

struct Waiting {
    epoll: EpollPoll,
    events: Events,
    /// When the last wait returned.
    last: Instant,
}

impl Waiting {
    /// Fills `events`, with none after an interruption.
    fn poll(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        match self.epoll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.events.clear();
                Ok(())
            }
            other => other,
        }
    }
}

/// One epoll instance and the sockets registered with it.
pub(crate) struct Poller {
    /// Held while waiting, and by one thread at a time only. Taken before `sockets`.
    waiting: Mutex<Waiting>,
    registry: Registry,
    notify: EpollWaker,
    /// Sockets by token. A leaf in the order of locks but for [`Readiness`] locks.
    sockets: Mutex<Slab<Arc<Readiness>>>,
}

impl Poller {
    /// # Errors
    /// The kernel has no descriptor left.
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let epoll = EpollPoll::new()?;
        let registry = epoll.registry().try_clone()?;
        let notify = EpollWaker::new(&registry, NOTIFIED)?;
        let waiting = Waiting { epoll, events: Events::with_capacity(EVENTS), last: Instant::now() };
        Ok(Arc::new(Self { waiting: Mutex::new(waiting), registry, notify, sockets: Mutex::default() }))
    }

    /// Makes the socket non-blocking and listens for its edges.
    ///
    /// # Errors
    /// What the kernel says; the socket is not registered then.
    pub(crate) fn register(self: &Arc<Self>, socket: &Arc<Socket>) -> io::Result<Registration> {
        socket.set_nonblocking(true)?;
        let readiness = Arc::new(Readiness::default());
        let token = self.sockets.lock().insert(Arc::clone(&readiness));
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registration =
            Registration { poller: Arc::clone(self), socket: Arc::clone(socket), token, readiness };
        self.registry.register(&mut SourceFd(&socket.as_raw_fd()), Token(token), interest)?;
        Ok(registration)
    }

    /// Takes edges and wakes who waits for them; sleeps for them, or until [`Poller::notify`], if it may.
    /// Answers with the number of edges.
    ///
    /// # Errors
    /// What the kernel says, interruptions excepted.
    pub(crate) fn wait(&self, sleeps: bool) -> io::Result<usize> {
        let mut waiting = self.waiting.lock();
        // How long the call takes does not tell whether it slept: a busy machine has others run first.
        if !sleeps || waiting.last.elapsed() >= LONG_TURN {
            waiting.poll(Some(Duration::ZERO))?;
            if !sleeps || !waiting.events.is_empty() {
                let since = waiting.last;
                return Ok(self.take_edges(&mut waiting, since));
            }
        }
        waiting.poll(None)?;
        let since = Instant::now();
        Ok(self.take_edges(&mut waiting, since))
    }

    /// Takes the edges that are there and wakes who waits for them. No socket was ready at `quiet`. Answers
    /// with their number.
    ///
    /// # Errors
    /// What the kernel says, interruptions excepted.
    pub(crate) fn look(&self, quiet: Instant) -> io::Result<usize> {
        let mut waiting = self.waiting.lock();
        waiting.poll(Some(Duration::ZERO))?;
        let since = waiting.last.max(quiet);
        Ok(self.take_edges(&mut waiting, since))
    }

    /// What came since then came at some time in between: in the middle, on average.
    fn take_edges(&self, waiting: &mut Waiting, since: Instant) -> usize {
        let now = Instant::now();
        let at = now - now.saturating_duration_since(since) / 2;
        waiting.last = now;
        let mut edges = 0;
        // Woken tasks are queued, not run: nothing here takes the lock again.
        let sockets = self.sockets.lock();
        for event in &waiting.events {
            if event.token() != NOTIFIED
                && let Some(readiness) = sockets.get(event.token().0)
            {
                readiness.edge(event, at);
                edges += 1;
            }
        }
        edges
    }

    /// Ends a wait that is under way, or the next one.
    pub(crate) fn notify(&self) {
        if let Err(error) = self.notify.wake() {
            tracing::error!(target: "network", %error, "cannot wake an event loop");
        }
    }

    /// Sockets registered at the moment.
    pub(crate) fn registered(&self) -> usize {
        self.sockets.lock().len()
    }
}

/// The epoll instance can itself be watched: it is readable while sockets of it are ready.
impl AsRawFd for Poller {
    fn as_raw_fd(&self) -> RawFd {
        self.registry.as_raw_fd()
    }
}

/// What is known of one socket.
#[derive(Default)]
pub(crate) struct Readiness {
    /// A leaf in the order of locks, held for a few instructions.
    state: Mutex<ReadyState>,
}

/// One edge of a socket.
#[derive(Clone, Copy, Default)]
struct Edge {
    /// A system call that looked before the latest edge says nothing about now.
    number: u32,
    at: Option<Instant>,
}

#[derive(Default)]
struct ReadyState {
    readable: bool,
    writable: bool,
    /// The other side closed or the connection broke: reading never has to wait again.
    ended: bool,
    edge: Edge,
    /// A connection waits for one thing at a time.
    waker: Option<Waker>,
}

impl Readiness {
    fn edge(&self, event: &Event, at: Instant) {
        let mut state = self.state.lock();
        state.edge = Edge { number: state.edge.number.wrapping_add(1), at: Some(at) };
        let ended = event.is_read_closed() || event.is_error();
        state.ended |= ended;
        state.readable |= event.is_readable() || ended;
        state.writable |= event.is_writable() || event.is_write_closed() || event.is_error();
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Ready with what the latest edge was.
    fn poll(&self, context: &Context<'_>, direction: Direction) -> Poll<Edge> {
        let mut state = self.state.lock();
        if *state.ready(direction) {
            return Poll::Ready(state.edge);
        }
        match &mut state.waker {
            Some(known) => known.clone_from(context.waker()),
            None => state.waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// A system call that began after `edge` has emptied (or filled) the socket. An edge since then keeps the
    /// bit set.
    fn clear(&self, direction: Direction, edge: Edge) {
        let mut state = self.state.lock();
        if !state.ended && state.edge.number == edge.number {
            *state.ready(direction) = false;
        }
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Read,
    Write,
}

impl ReadyState {
    const fn ready(&mut self, direction: Direction) -> &mut bool {
        match direction {
            Direction::Read => &mut self.readable,
            Direction::Write => &mut self.writable,
        }
    }
}

/// A registered socket; dropping it takes the socket out of the epoll instance.
pub(crate) struct Registration {
    poller: Arc<Poller>,
    socket: Arc<Socket>,
    token: usize,
    readiness: Arc<Readiness>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Fails only when registering had failed.
        let _ = self.poller.registry.deregister(&mut SourceFd(&self.socket.as_raw_fd()));
        self.poller.sockets.lock().try_remove(self.token);
    }
}

/// A socket whose calls never block; the task waits instead.
pub(crate) struct ReadinessStream {
    registration: Registration,
    session: Arc<Session>,
    ready_at: Option<Instant>,
    pipeline: Pipeline,
}

impl ReadinessStream {
    pub(crate) fn new(registration: Registration, session: Arc<Session>) -> Self {
        Self { registration, session, ready_at: None, pipeline: Pipeline::default() }
    }
}

impl ByteStream for ReadinessStream {
    async fn receive(&mut self, mut buffer: ReceiveBuffer) -> (io::Result<usize>, ReceiveBuffer) {
        let readiness = &self.registration.readiness;
        loop {
            let edge = poll_fn(|context| readiness.poll(context, Direction::Read)).await;
            buffer.prepare();
            let room = buffer.unfilled_mut();
            let wanted = room.len();
            match (&*self.registration.socket).read(room) {
                Ok(count) => {
                    if count > 0 && count < wanted {
                        readiness.clear(Direction::Read, edge);
                    }
                    buffer.advance(count);
                    self.ready_at = edge.at;
                    return (Ok(count), buffer);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    readiness.clear(Direction::Read, edge);
                    buffer.release();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (Err(error), buffer),
            }
        }
    }

    fn ready_at(&self) -> Option<Instant> {
        self.ready_at
    }

    async fn send(&mut self, bytes: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let result = match (&*self.registration.socket).write(&bytes) {
            Ok(count) if count == bytes.len() => Ok(()),
            Ok(count) => self.send_rest(&bytes, count).await,
            Err(error) if retries(&error) => self.send_rest(&bytes, 0).await,
            Err(error) => Err(error),
        };
        (result, bytes)
    }

    async fn give_way(&mut self, pipelined: bool) {
        self.pipeline.give_way(&self.session, pipelined).await;
    }
}

impl ReadinessStream {
    /// The socket is full: the client does not read as fast as it asks. The sweeper ends the connection when
    /// that lasts.
    async fn send_rest(&self, bytes: &[u8], from: usize) -> io::Result<()> {
        let readiness = &self.registration.readiness;
        let stall = Stall::begin(&self.session, bytes.len());
        let mut rest = bytes.get(from..).expect("no more was sent than there is");
        while !rest.is_empty() {
            let edge = poll_fn(|context| readiness.poll(context, Direction::Write)).await;
            match (&*self.registration.socket).write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    rest = rest.get(count..).expect("no more was sent than there is");
                    stall.progressed();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    readiness.clear(Direction::Write, edge);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn retries(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// How far a client that sends requests ahead has got while others wait.
#[derive(Default)]
pub(crate) struct Pipeline {
    requests_in_a_row: u32,
}

impl Pipeline {
    /// Between two requests on an event loop: what was offloaded comes home, and a client with many requests
    /// in its pipeline lets others have their turn.
    pub(crate) async fn give_way(&mut self, session: &Session, pipelined: bool) {
        let was_offloaded = session.come_home();
        if !pipelined {
            self.requests_in_a_row = 0;
            return;
        }
        self.requests_in_a_row += 1;
        if was_offloaded || self.requests_in_a_row >= REQUESTS_IN_A_ROW {
            self.requests_in_a_row = 0;
            requeue().await;
        }
    }
}

/// Goes to the end of the queue that the task's placement names.
pub(crate) async fn requeue() {
    let mut queued = false;
    poll_fn(|context| {
        if queued {
            return Poll::Ready(());
        }
        queued = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
