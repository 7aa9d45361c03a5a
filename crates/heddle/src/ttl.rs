//! The thread that deletes what has expired by TTL indexes: it calls the monitor, and sleeps in between.
//!
//! Its steps yield to all others, and are made by a second thread: one that has begun to yield cannot end
//! it. While the rate that an operator has stated is not reached, the first one makes them and competes as an
//! equal.

use commands::{OwnWorkSwitch, ServiceContext, TtlMonitor};
use dispatch::parameters::Parameter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Whoever watches a parameter hears of a value before it is stored: it is looked for again after so long.
const UNTIL_STORED: Duration = Duration::from_millis(100);

/// What the thread is told while it sleeps.
#[derive(Debug, Clone, Copy)]
enum Message {
    /// Another length of sleep is wanted.
    Look,
    Stop,
}

/// The running thread.
#[derive(Debug)]
pub(crate) struct TtlThread {
    messages: Sender<Message>,
    switch: OwnWorkSwitch,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl TtlThread {
    /// Starts it.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(server: &Arc<ServiceContext>) -> std::io::Result<Self> {
        let ((messages, told), (alive, ended)) = (channel(), channel());
        let watching = messages.clone();
        server.parameters.watch(Parameter::TtlMonitorSleep, move |_| {
            // Nobody hears of it who has ended.
            let _ = watching.send(Message::Look);
            Ok(())
        });
        let monitor = TtlMonitor::new();
        let switch = monitor.switch();
        let server = Arc::downgrade(server);
        let yielding = YieldingThread::start()?;
        std::thread::Builder::new().name("ttl".into()).spawn(move || {
            let _alive: Sender<()> = alive;
            storage::work_in_background();
            run(&server, monitor, &yielding, &told);
        })?;
        Ok(TtlThread { messages, switch, ended })
    }

    /// Tells it to end after the unit that it writes now.
    pub(crate) fn stop(&self) {
        self.switch.end();
        let _ = self.messages.send(Message::Stop);
    }

    /// Waits until it has ended, for so long at most.
    pub(crate) fn wait(&self, at_most: Duration) {
        if self.ended.recv_timeout(at_most) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(target: "INDEX", id = 5_479_210, "The TTL monitor still waits for a write");
        }
    }
}

/// The monitor on its way to a thread.
type Turn = (Arc<ServiceContext>, TtlMonitor);

/// A thread that makes steps which yield to all others. Ends with its handle.
struct YieldingThread {
    turns: Sender<Turn>,
    made: Receiver<(TtlMonitor, Instant)>,
}

impl YieldingThread {
    fn start() -> std::io::Result<Self> {
        let ((turns, to_make), (making, made)) = (channel::<Turn>(), channel());
        std::thread::Builder::new().name("ttl-yields".into()).spawn(move || {
            transport::yield_to_requests();
            storage::work_in_background();
            for (server, monitor) in to_make {
                let turn = step(&server, monitor);
                drop(server);
                if making.send(turn).is_err() {
                    return;
                }
            }
        })?;
        Ok(YieldingThread { turns, made })
    }

    /// `None` when the thread is gone, and the monitor with it.
    fn step(&self, server: Arc<ServiceContext>, monitor: TtlMonitor) -> Option<(TtlMonitor, Instant)> {
        self.turns.send((server, monitor)).ok()?;
        self.made.recv().ok()
    }
}

/// One step, whatever becomes of it.
fn step(server: &ServiceContext, mut monitor: TtlMonitor) -> (TtlMonitor, Instant) {
    let step = catch_unwind(AssertUnwindSafe(|| pollster::block_on(monitor.step(server))));
    let next = step.unwrap_or_else(|_| {
        // The log has where it was. The next pass begins anew.
        server.counters.regular_asserts.add(1);
        monitor.give_up_pass();
        Instant::now()
    });
    (monitor, next)
}

fn run(
    server: &Weak<ServiceContext>,
    mut monitor: TtlMonitor,
    yielding: &YieldingThread,
    told: &Receiver<Message>,
) {
    let mut pause_max = Duration::MAX;
    loop {
        let Some(server) = server.upgrade() else { return };
        let turn = match monitor.is_behind(&server) {
            true => {
                let made = step(&server, monitor);
                drop(server);
                Some(made)
            }
            false => yielding.step(server, monitor),
        };
        let Some((again, next)) = turn else { return };
        monitor = again;
        match told.recv_timeout(next.saturating_duration_since(Instant::now()).min(pause_max)) {
            Ok(Message::Look) => pause_max = UNTIL_STORED,
            Err(RecvTimeoutError::Timeout) => pause_max = Duration::MAX,
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
