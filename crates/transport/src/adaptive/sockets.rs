//! The sockets behind the queues: an epoll instance for each queue, and one that watches those.
//!
//! An epoll instance is itself something that epoll can watch. A worker with nothing to do thus sleeps until
//! a socket of *any* queue is ready, also when there are fewer workers than queues; a busy one polls one
//! queue and touches no other's lock.

use super::core::Core;
use super::task_queues::SocketPoller;
use crate::readiness::{EVENTS, Poller};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use parking_lot::Mutex;
use std::cell::Cell;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The token of [`Sockets::notify`].
const NOTIFIED: Token = Token(usize::MAX);
/// Pause after a failed wait, so that a broken kernel interface does not become a busy loop.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);

/// See the module.
pub(super) struct Sockets {
    pub(super) pollers: Vec<Arc<Poller>>,
    /// Held by the one worker that watches.
    watch: Mutex<(Poll, Events)>,
    origin: Instant,
    /// When that worker last slept, in nanoseconds since `origin`: until then no socket was ready. Every poll
    /// reads it and only a watcher writes it, so that busy workers share no lock.
    quiet: AtomicU64,
    waker: Waker,
}

/// What the calling thread does as it pushes tasks.
#[derive(Clone, Copy)]
pub(super) enum Pushing {
    /// It polls the sockets of this queue and takes from the queue next.
    Polls { queue: usize, at: Instant },
    /// It starts a connection.
    Starts,
    /// Anything else.
    Wakes,
}

thread_local! {
    static PUSHING: Cell<Pushing> = const { Cell::new(Pushing::Wakes) };
}

impl Pushing {
    pub(super) fn current() -> Self {
        PUSHING.get()
    }

    /// Sets what the thread does until `during` returns.
    pub(super) fn set<A>(self, during: impl FnOnce() -> A) -> A {
        let before = PUSHING.replace(self);
        let answer = during();
        PUSHING.set(before);
        answer
    }
}

impl Sockets {
    /// # Errors
    /// The kernel has no descriptor left.
    pub(super) fn new(queues: usize) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), NOTIFIED)?;
        let pollers = (0..queues).map(|_| Poller::new()).collect::<io::Result<Vec<_>>>()?;
        for (queue, poller) in pollers.iter().enumerate() {
            let descriptor = poller.as_raw_fd();
            poll.registry().register(&mut SourceFd(&descriptor), Token(queue), Interest::READABLE)?;
        }
        let events = Events::with_capacity(queues + 1);
        Ok(Self {
            pollers,
            watch: Mutex::new((poll, events)),
            origin: Instant::now(),
            quiet: AtomicU64::new(0),
            waker,
        })
    }
}

impl SocketPoller for Core {
    fn poll(&self, queue: usize) -> bool {
        let poller = self.sockets.pollers.get(queue).expect("each queue has its poller");
        let polls = Pushing::Polls { queue, at: Instant::now() };
        let sockets = &self.sockets;
        let quiet = sockets.origin + Duration::from_nanos(sockets.quiet.load(Ordering::Relaxed));
        match polls.set(|| poller.look(quiet)) {
            // Some of the events it took were of sockets that are gone.
            Ok(edges) => edges >= EVENTS / 2,
            Err(error) => {
                tracing::error!(target: "network", %error, queue, "cannot poll the sockets of a task queue");
                false
            }
        }
    }

    fn wait(&self, timeout: Duration, ready: &mut Vec<usize>) {
        let mut watch = self.sockets.watch.lock();
        let (poll, events) = &mut *watch;
        // Whether it slept is told by a look before: on a busy machine a call that finds events takes as
        // long.
        let mut result = poll.poll(events, Some(Duration::ZERO));
        if result.is_ok() && events.is_empty() {
            result = poll.poll(events, Some(timeout));
            let quiet = self.sockets.origin.elapsed().as_nanos() as u64;
            self.sockets.quiet.store(quiet, Ordering::Relaxed);
        }
        match result {
            Ok(()) => {
                let tokens = events.iter().map(|event| event.token());
                ready.extend(tokens.filter(|token| *token != NOTIFIED).map(|token| token.0));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::error!(target: "network", %error, "cannot watch the sockets of the task queues");
                thread::sleep(FAILURE_PAUSE);
            }
        }
    }

    fn notify(&self) {
        if let Err(error) = self.sockets.waker.wake() {
            tracing::error!(target: "network", %error, "cannot wake the worker that watches the sockets");
        }
    }

    fn nobody_is_free(&self) {
        self.attention.draw();
    }
}
