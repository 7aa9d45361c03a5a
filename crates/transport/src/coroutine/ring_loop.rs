//! The thread of one ring: runs what is ready, has commits written, and waits for completions.

use super::ring::{Owner, Ring};
use super::sockets::{RingSockets, SocketCounts};
use super::stream::{RingStream, with_ring};
use crate::Service;
use crate::busy_poll::BusyPoll;
use crate::event_loop::{FAILURE_PAUSE, LoopHooks, TASKS_PER_TURN};
use crate::executors::{AcceptedSession, drive};
use crate::idle::IdleWatch;
use crate::placement::Placement;
use crate::pool::Pools;
use crate::run_queue::{Ownership, RunQueue};
use crate::statistics::Figure;
use crate::task::{TaskQueue, spawn};
use crate::vital;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

thread_local! {
    /// The ring of this thread. Nothing that runs while it is borrowed polls or drops a task.
    pub(super) static RING: RefCell<Option<RingSockets>> = const { RefCell::new(None) };
}

/// What a connection's stream knows of its ring.
pub(super) struct RingHandle {
    pub(super) queue: Arc<RunQueue>,
    wake: Arc<OwnedFd>,
    stopping: AtomicBool,
    turns: AtomicU64,
    sleeps: AtomicU64,
    idle: IdleWatch,
    /// What the ring's thread counted when it ended its last turn. A leaf in the order of locks, held for a
    /// copy.
    counts: Mutex<SocketCounts>,
}

impl RingHandle {
    /// # Errors
    /// The system has no descriptor left.
    pub(super) fn new() -> io::Result<Arc<Self>> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let notified = Arc::clone(&wake);
        Ok(Arc::new(Self {
            queue: RunQueue::new(move || notify(&notified)),
            wake,
            stopping: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            sleeps: AtomicU64::new(0),
            idle: IdleWatch::default(),
            counts: Mutex::default(),
        }))
    }

    /// Gives the calling thread a ring, which serves the connections of this home.
    ///
    /// # Errors
    /// The kernel has no io_uring or not enough of it.
    pub(super) fn settle_here(&self) -> io::Result<()> {
        let ring = Ring::new()?;
        RING.set(Some(RingSockets::new(ring, Arc::clone(&self.wake))));
        Ok(())
    }

    fn notify(&self) {
        notify(&self.wake);
    }

    /// Has the ring's thread release the connection.
    pub(super) fn release_later(self: &Arc<Self>, owner: Owner) {
        if self.stopping.load(Ordering::Acquire) {
            // The ring forgets all of them.
            return;
        }
        let home = Arc::clone(self);
        let release = async move { drop(with_ring(&home, |ring| ring.release(owner))) };
        let queue = Arc::clone(&self.queue);
        let (task, handle) = async_task::spawn(release, move |task| queue.push(task));
        handle.detach();
        task.schedule();
    }
}

/// Makes the descriptor readable.
fn notify(wake: &OwnedFd) {
    if let Err(error) = rustix::io::write(wake, &1_u64.to_ne_bytes()) {
        tracing::error!(target: "network", %error, "cannot wake a ring");
    }
}

/// A ring, its thread, and its end.
pub(super) struct RunningRing {
    home: Arc<RingHandle>,
    thread: Option<JoinHandle<()>>,
}

impl RunningRing {
    /// # Errors
    /// The kernel has no io_uring or not enough of it, no descriptor, no thread.
    pub(super) fn start(name: String, hooks: Arc<dyn LoopHooks>, busy_poll: BusyPoll) -> io::Result<Self> {
        let home = RingHandle::new()?;
        let (told, started) = mpsc::sync_channel(1);
        let driven = Arc::clone(&home);
        // The ring belongs to the thread that makes it.
        let thread = vital::spawn(name, move || {
            let settled = driven.settle_here();
            let refused = settled.is_err();
            // The starter waits for this.
            let _ = told.send(settled);
            if refused {
                return;
            }
            hooks.loop_started();
            let ownership = driven.queue.own();
            driven.run(&ownership, &*hooks, busy_poll);
            // Tasks that are dropped release their connections.
            drop(ownership);
            drop(RING.take());
        })?;
        started.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
        Ok(Self { home, thread: Some(thread) })
    }

    /// Serves the connection on this ring.
    pub(super) fn adopt<H: Service>(&self, accepted: AcceptedSession, service: &Arc<H>, pools: &Arc<Pools>) {
        let AcceptedSession { registered, socket, input } = accepted;
        let session = Arc::clone(registered.session());
        session.place(Placement::Home);
        let served = Arc::clone(&session);
        let home = Arc::clone(&self.home);
        let service = Arc::clone(service);
        let future = async move {
            session.looked_at();
            if let Some(stream) = RingStream::register(home, socket, Arc::clone(&session)) {
                drive(&session, stream, service, input).await;
            }
            drop(registered);
        };
        spawn(future, served, Arc::clone(&self.home.queue), Some(Arc::clone(pools)));
    }

    /// Has the thread give back memory if it has come to rest.
    pub(super) fn tidy(&self, hooks: &Arc<dyn LoopHooks>) {
        self.home.idle.tidy(&self.home.queue, hooks);
    }

    /// RingSockets that live here.
    pub(super) fn connections(&self) -> u64 {
        self.home.counts.lock().open
    }

    pub(super) fn figures(&self) -> Vec<(&'static str, Figure)> {
        let home = &self.home;
        let counts = *home.counts.lock();
        let queue = home.queue.statistics();
        [
            ("connections", counts.open),
            ("totalExecuted", queue.executed),
            ("tasksFromOtherThreads", queue.remote_pushes),
            ("wakeUps", queue.unparks),
            ("turns", home.turns.load(Ordering::Relaxed)),
            ("sleeps", home.sleeps.load(Ordering::Relaxed)),
            ("systemCalls", counts.ring.enters),
            ("submissions", counts.ring.submissions),
            ("completions", counts.ring.completions),
            ("operationsUnderWay", counts.ring.operations),
            ("receivesRearmed", counts.rearmed),
            ("receivesPaused", counts.paused),
            ("receivesWithoutBuffer", counts.out_of_buffers),
            ("bytesCopiedAhead", counts.bytes_copied_ahead),
            ("buffersFree", u64::from(super::buffers::BUFFERS).saturating_sub(counts.ring.buffers_held)),
            ("buffersInUse", counts.ring.buffers_held),
        ]
        .into_iter()
        .map(|(name, count)| (name, Figure::Count(count)))
        .collect()
    }
}

impl Drop for RunningRing {
    fn drop(&mut self) {
        self.home.stopping.store(true, Ordering::Release);
        self.home.notify();
        if let Some(thread) = self.thread.take() {
            vital::join(thread);
        }
    }
}

impl RingHandle {
    fn run(&self, ownership: &Ownership, hooks: &dyn LoopHooks, mut busy_poll: BusyPoll) {
        while !self.stopping.load(Ordering::Acquire) {
            let ran = ownership.run_batch(TASKS_PER_TURN);
            hooks.turn_ended();
            self.turns.fetch_add(1, Ordering::Relaxed);
            // A look at completions may have swallowed the notice of the end.
            let sleeps = !self.stopping.load(Ordering::Acquire) && ownership.prepare_sleep();
            self.publish_counts();
            let waited = self.wait(ownership, sleeps, ran, &mut busy_poll);
            ownership.awake();
            if !waited {
                thread::sleep(FAILURE_PAUSE);
            }
        }
    }

    /// Submits, takes completions, and sleeps for some to come if it may; false after a failure.
    fn wait(&self, ownership: &Ownership, may_sleep: bool, ran: usize, busy_poll: &mut BusyPoll) -> bool {
        let polls = may_sleep && busy_poll.is_due(ran);
        // Everything has to leave before the loop looks, and mostly that brings something to run.
        if polls && (!turn(false) || ownership.has_tasks()) {
            return ownership.has_tasks();
        }
        // What was submitted may have brought the notice of the end.
        let is_ending = || self.stopping.load(Ordering::Acquire);
        let found = polls && busy_poll.look(|| is_ending() || ownership.is_woken() || has_work());
        let sleeps = may_sleep && !found && !ownership.has_tasks();
        self.sleeps.fetch_add(u64::from(sleeps), Ordering::Relaxed);
        turn(sleeps)
    }

    fn publish_counts(&self) {
        RING.with_borrow(|ring| {
            if let Some(connections) = ring {
                *self.counts.lock() = connections.counts();
            }
        });
    }
}

/// Whether the kernel has something for the ring of this thread.
fn has_work() -> bool {
    RING.with_borrow_mut(|ring| ring.as_mut().is_some_and(RingSockets::has_work))
}

/// Submits, and takes completions; false after a failure.
fn turn(wait: bool) -> bool {
    let turned = RING.with_borrow_mut(|ring| ring.as_mut().map(|connections| connections.turn(wait)));
    if let Some(Err(error)) = &turned {
        tracing::error!(target: "network", %error, "a ring cannot wait for completions");
    }
    matches!(turned, Some(Ok(())))
}
