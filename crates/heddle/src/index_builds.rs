//! The thread on which index builds go on that a process before this one has begun. It ends with the last.

use commands::{BuildResumer, OwnWorkSwitch, ResumeStep, ServiceContext};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The running thread.
#[derive(Debug)]
pub(crate) struct ResumerThread {
    stop: Sender<()>,
    switch: OwnWorkSwitch,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl ResumerThread {
    /// Starts it; `None` when there is nothing to go on with.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(server: &Arc<ServiceContext>) -> std::io::Result<Option<Self>> {
        if server.node.catalog.waiting_index_builds().is_empty() {
            return Ok(None);
        }
        let ((stop, stopped), (alive, ended)) = (channel(), channel());
        let resumer = BuildResumer::default();
        let switch = resumer.switch();
        let server = Arc::downgrade(server);
        std::thread::Builder::new().name("index-builds".into()).spawn(move || {
            let _alive: Sender<()> = alive;
            transport::yield_to_requests();
            storage::work_in_background();
            run(&server, &resumer, &stopped);
        })?;
        Ok(Some(ResumerThread { stop, switch, ended }))
    }

    /// Tells it to end: what it is at goes on at the next start.
    pub(crate) fn stop(&self) {
        self.switch.end();
        let _ = self.stop.send(());
    }

    /// Waits until it has ended, for so long at most.
    pub(crate) fn wait(&self, at_most: Duration) {
        if self.ended.recv_timeout(at_most) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(target: "INDEX", id = 8_800_206, "An index build still waits for a write");
        }
    }
}

fn run(server: &Weak<ServiceContext>, resumer: &BuildResumer, stopped: &Receiver<()>) {
    loop {
        let Some(server) = server.upgrade() else { return };
        let ResumeStep::Continues { at } = pollster::block_on(resumer.step(&server)) else { return };
        drop(server);
        match stopped.recv_timeout(at.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
