//! One thread that polls whatever is ready and never blocks but for events: the loops of `reactor` and the
//! diagnostic lane.

use crate::buffer::release_spares;
use crate::busy_poll::BusyPoll;
use crate::executors::{AcceptedSession, drive};
use crate::idle::IdleWatch;
use crate::placement::Placement;
use crate::pool::Pools;
use crate::readiness::{Poller, ReadinessStream};
use crate::run_queue::{Ownership, RunQueue};
use crate::statistics::Figure;
use crate::task::spawn;
use crate::vital;
use crate::{ReceiveBuffer, Service};
use ambient::niceness;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Tasks polled between two looks at the sockets, and until commits are written and replies leave: as many
/// requests as form one group at most.
pub(crate) const TASKS_PER_TURN: usize = 256;
/// Pause after a failed wait, so that a broken kernel interface does not become a busy loop.
pub(crate) const FAILURE_PAUSE: Duration = Duration::from_millis(100);

/// What the threads that must not block tell the service.
pub(crate) trait LoopHooks: Send + Sync + 'static {
    fn loop_started(&self);
    fn turn_ended(&self);
    /// As well on threads that may block.
    fn thread_rests(&self);
}

impl<H: Service> LoopHooks for H {
    fn loop_started(&self) {
        Service::loop_started(self);
    }

    fn turn_ended(&self) {
        Service::turn_ended(self);
        niceness::keep_slice(self.takes_short_turns());
    }

    fn thread_rests(&self) {
        release_spares();
        Service::thread_rests(self);
    }
}

/// See the module.
pub(crate) struct EventLoop {
    poller: Arc<Poller>,
    queue: Arc<RunQueue>,
    stopping: AtomicBool,
    turns: AtomicU64,
    waits: AtomicU64,
    edges: AtomicU64,
    idle: IdleWatch,
}

/// A running loop and its thread.
pub(crate) struct RunningLoop {
    pub(crate) event_loop: Arc<EventLoop>,
    thread: Option<JoinHandle<()>>,
}

impl RunningLoop {
    /// # Errors
    /// The system has no descriptor or no thread left.
    pub(crate) fn start(name: String, hooks: Arc<dyn LoopHooks>, busy_poll: BusyPoll) -> io::Result<Self> {
        let poller = Poller::new()?;
        let notified = Arc::clone(&poller);
        let event_loop = Arc::new(EventLoop {
            poller,
            queue: RunQueue::new(move || notified.notify()),
            stopping: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            edges: AtomicU64::new(0),
            idle: IdleWatch::default(),
        });
        let driven = Arc::clone(&event_loop);
        let thread = vital::spawn(name, move || {
            hooks.loop_started();
            driven.run(&driven.queue.own(), &*hooks, busy_poll);
        })?;
        Ok(Self { event_loop, thread: Some(thread) })
    }
}

impl Drop for RunningLoop {
    fn drop(&mut self) {
        self.event_loop.stopping.store(true, Ordering::Release);
        self.event_loop.poller.notify();
        if let Some(thread) = self.thread.take() {
            vital::join(thread);
        }
    }
}

impl EventLoop {
    fn run(&self, ownership: &Ownership, hooks: &dyn LoopHooks, mut busy_poll: BusyPoll) {
        while !self.stopping.load(Ordering::Acquire) {
            let ran = ownership.run_batch(TASKS_PER_TURN);
            hooks.turn_ended();
            self.turns.fetch_add(1, Ordering::Relaxed);
            let sleeps = ownership.prepare_sleep();
            let waited = self.wait(ownership, sleeps, ran, &mut busy_poll);
            ownership.awake();
            match waited {
                Ok(edges) => drop(self.edges.fetch_add(edges as u64, Ordering::Relaxed)),
                Err(error) => {
                    tracing::error!(target: "network", %error, "an event loop cannot wait for events");
                    thread::sleep(FAILURE_PAUSE);
                }
            }
        }
    }

    /// Takes what there is, and sleeps for something to come if it may. Answers with the number of events.
    fn wait(
        &self,
        ownership: &Ownership,
        sleeps: bool,
        ran: usize,
        busy_poll: &mut BusyPoll,
    ) -> io::Result<usize> {
        if sleeps && busy_poll.is_due(ran) {
            let mut events = Ok(0);
            let found = busy_poll.look(|| {
                events = self.poller.wait(false);
                // The look may have swallowed the notice of the end.
                self.stopping.load(Ordering::Acquire) || ownership.is_woken() || !matches!(events, Ok(0))
            });
            if found {
                return events;
            }
        }
        self.waits.fetch_add(u64::from(sleeps), Ordering::Relaxed);
        self.poller.wait(sleeps)
    }

    /// Serves the connection on this loop. `then` gets what is left of one that ends by moving.
    ///
    /// # Errors
    /// The kernel does not register the socket; the connection is dropped.
    pub(crate) fn adopt<H: Service>(
        &self,
        accepted: AcceptedSession,
        service: &Arc<H>,
        pools: Option<Arc<Pools>>,
        then: impl FnOnce(AcceptedSession) + Send + 'static,
    ) -> io::Result<()> {
        let AcceptedSession { registered, socket, input } = accepted;
        let session = Arc::clone(registered.session());
        session.place(Placement::Home);
        let registration = self.poller.register(&socket)?;
        let served = Arc::clone(&session);
        let service = Arc::clone(service);
        let future = async move {
            session.looked_at();
            let stream = ReadinessStream::new(registration, Arc::clone(&session));
            let left: Option<ReceiveBuffer> = drive(&session, stream, service, input).await;
            if let Some(input) = left {
                then(AcceptedSession { registered, socket, input });
            }
        };
        spawn(future, served, Arc::clone(&self.queue), pools);
        Ok(())
    }

    /// Has the thread give back memory if it has come to rest.
    pub(crate) fn tidy(&self, hooks: &Arc<dyn LoopHooks>) {
        self.idle.tidy(&self.queue, hooks);
    }

    /// Connections that live here.
    pub(crate) fn connections(&self) -> usize {
        self.poller.registered()
    }

    pub(crate) fn figures(&self) -> Vec<(&'static str, Figure)> {
        let count = |counter: &AtomicU64| Figure::Count(counter.load(Ordering::Relaxed));
        let queue = self.queue.statistics();
        vec![
            ("connections", Figure::Count(self.connections() as u64)),
            ("totalExecuted", Figure::Count(queue.executed)),
            ("tasksFromOtherThreads", Figure::Count(queue.remote_pushes)),
            ("wakeUps", Figure::Count(queue.unparks)),
            ("turns", count(&self.turns)),
            ("sleeps", count(&self.waits)),
            ("events", count(&self.edges)),
        ]
    }
}
