//! The processor time of a thread, asked for by others.

use rustix::thread::gettid;
use std::fs;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// Knows a thread by its kernel id.
#[derive(Debug, Default)]
pub(crate) struct ThreadClock {
    /// 0: the thread has not started.
    thread: AtomicI32,
}

impl ThreadClock {
    /// The calling thread is the one.
    pub(crate) fn watch_this_thread(&self) {
        self.thread.store(gettid().as_raw_nonzero().get(), Ordering::Relaxed);
    }

    /// Its processor time so far; zero before it starts and after it has ended.
    pub(crate) fn processor(&self) -> Duration {
        let thread = self.thread.load(Ordering::Relaxed);
        // Nanoseconds on a processor, nanoseconds waiting for one, times scheduled.
        let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap_or_default();
        let nanos = text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0);
        Duration::from_nanos(nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn counts_work() {
        let clock = ThreadClock::default();
        assert_eq!(clock.processor(), Duration::ZERO, "a thread that has not started has worked");
        clock.watch_this_thread();
        let before = clock.processor();
        let began = Instant::now();
        while clock.processor() < before + Duration::from_millis(5) {
            assert!(began.elapsed() < Duration::from_secs(20), "work is not counted");
        }
    }
}
