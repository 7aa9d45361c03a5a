//! Threads that one waits for together.

use crate::error::BenchError;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Runs each of these on a thread of its own. Meanwhile this thread calls `tick` every `interval`.
pub(crate) fn run_all<T: Send, F: FnOnce() -> Result<T, BenchError> + Send>(
    tasks: impl IntoIterator<Item = F>,
    interval: Duration,
    tick: &mut dyn FnMut(),
) -> Result<Vec<T>, BenchError> {
    let panicked = || BenchError::Program { program: "a thread", problem: "it panicked".to_owned() };
    let (ended, ends) = channel::<()>();
    std::thread::scope(|scope| {
        let threads: Vec<_> = tasks
            .into_iter()
            .map(|task| {
                let ended = ended.clone();
                scope.spawn(move || {
                    let _ended = ended;
                    task()
                })
            })
            .collect();
        drop(ended);
        // Nothing is ever sent: the wait ends with an error once every thread has dropped its end.
        while ends.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            tick();
        }
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(panicked()))).collect()
    })
}
