//! Threads for work that a process before this one has left to do: index builds that go on, and files that
//! have an old key. Each ends with the last piece.

use commands::{BuildResumer, KeyRotation, OwnWorkStep, OwnWorkSwitch, ServiceContext};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// A running thread.
#[derive(Debug)]
pub(crate) struct BackgroundThread {
    name: &'static str,
    stop: Sender<()>,
    switch: OwnWorkSwitch,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl BackgroundThread {
    /// Starts one for index builds; `None` when there is nothing to go on with.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn of_index_builds(server: &Arc<ServiceContext>) -> std::io::Result<Option<Self>> {
        if server.node.catalog.waiting_index_builds().is_empty() {
            return Ok(None);
        }
        let resumer = BuildResumer::default();
        let switch = resumer.switch();
        let step = move |server: &ServiceContext| pollster::block_on(resumer.step(server));
        Self::start("index-builds", server, switch, step).map(Some)
    }

    /// Starts one that leaves old keys behind; `None` when the data have no old ones.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn of_key_rotation(server: &Arc<ServiceContext>) -> std::io::Result<Option<Self>> {
        if !server.node.store.has_old_keys() {
            return Ok(None);
        }
        let mut rotation = KeyRotation::default();
        let switch = rotation.switch();
        let step = move |server: &ServiceContext| rotation.step(server);
        Self::start("key-rotation", server, switch, step).map(Some)
    }

    fn start(
        name: &'static str,
        server: &Arc<ServiceContext>,
        switch: OwnWorkSwitch,
        mut step: impl FnMut(&ServiceContext) -> OwnWorkStep + Send + 'static,
    ) -> std::io::Result<Self> {
        let ((stop, stopped), (alive, ended)) = (channel(), channel());
        let server = Arc::downgrade(server);
        std::thread::Builder::new().name(name.into()).spawn(move || {
            let _alive: Sender<()> = alive;
            transport::yield_to_requests();
            storage::work_in_background();
            run(&server, &mut step, &stopped);
        })?;
        Ok(BackgroundThread { name, stop, switch, ended })
    }

    /// Tells it to end: what it is at goes on at the next start.
    pub(crate) fn stop(&self) {
        self.switch.end();
        let _ = self.stop.send(());
    }

    /// Waits until it has ended, for so long at most.
    pub(crate) fn wait(&self, at_most: Duration) {
        if self.ended.recv_timeout(at_most) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(target: "STORAGE", id = 8_800_206, work = self.name,
                "Work in the background still waits for a write");
        }
    }
}

/// Step by step, each when it is due.
fn run(
    server: &Weak<ServiceContext>,
    step: &mut dyn FnMut(&ServiceContext) -> OwnWorkStep,
    stopped: &Receiver<()>,
) {
    loop {
        let Some(server) = server.upgrade() else { return };
        let OwnWorkStep::Continues { at } = step(&server) else { return };
        drop(server);
        match stopped.recv_timeout(at.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
