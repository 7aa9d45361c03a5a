//! Threads that keep the processors busy and touch no server: what any load beside a measured one costs on
//! this machine.

use crate::error::BenchError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// How much a spinning thread yields to others (setpriority(2)), as much as a thread of Heddle's elastic
/// pool.
const NICENESS: i32 = 10;

/// One spinning thread for each core that the calling thread may use, until this is dropped.
#[derive(Debug)]
pub(crate) struct Spinners {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Spinners {
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start() -> Result<Self, BenchError> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut spinners = Spinners { stop: Arc::default(), threads: Vec::with_capacity(cores) };
        for _ in 0..cores {
            let stop = Arc::clone(&spinners.stop);
            let spin = move || {
                // Of this thread alone, and to yield needs no right.
                let _ = rustix::process::setpriority_process(None, NICENESS);
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            let thread = thread::Builder::new().name("spinner".to_owned()).spawn(spin);
            spinners.threads.push(thread.map_err(BenchError::io("start a spinning thread"))?);
        }
        Ok(spinners)
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It spins and cannot panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::processor_time;
    use std::time::{Duration, Instant};

    #[test]
    fn spinners_use_processor_time_until_they_are_dropped() {
        let used = || processor_time(std::process::id()).expect("processor time");
        let spinners = Spinners::start().expect("threads");
        let threads = spinners.threads.len();
        let (before, deadline) = (used(), Instant::now() + Duration::from_secs(20));
        while used() - before < Duration::from_millis(50) {
            assert!(Instant::now() < deadline, "{threads} spinning threads use no processor");
            thread::sleep(Duration::from_millis(5));
        }
        let stop = Arc::clone(&spinners.stop);
        drop(spinners);
        assert!(threads > 0 && Arc::strong_count(&stop) == 1, "a thread is left");
    }
}
