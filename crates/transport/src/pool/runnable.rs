//! Which threads of the pool use a processor, and which are blocked.
//!
//! More threads than cores help only when some are blocked, and neither a task's duration nor a thread's silence tells the one
//! from the other. The kernel does: `/proc/self/task/<id>/stat` (proc(5)) names the state, `R` for running or runnable.

use parking_lot::Mutex;
use std::fs::File;
use std::io::Read;

/// The threads of a pool.
#[derive(Default)]
pub(crate) struct Census {
    /// Kernel thread ids. A leaf in the order of locks; taken when threads begin and end and by the controller.
    threads: Mutex<Vec<u32>>,
}

/// One thread, counted until this is dropped.
pub(crate) struct Counted<'c> {
    census: &'c Census,
    thread: u32,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.census.threads.lock().retain(|thread| *thread != self.thread);
    }
}

impl Census {
    /// Counts the calling thread.
    pub(crate) fn count(&self) -> Counted<'_> {
        let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        self.threads.lock().push(thread);
        Counted { census: self, thread }
    }

    /// How many threads run or could run; more than `enough` are not looked for. `None` when the kernel does not say.
    pub(crate) fn runnable(&self, enough: usize) -> Option<usize> {
        let threads = self.threads.lock().clone();
        let mut runnable = 0;
        for &thread in &threads {
            match state_of(thread) {
                Some(b'R') => runnable += 1,
                Some(_) => {}
                // It has ended since, or nothing is known of any thread.
                None if self.threads.lock().contains(&thread) => return None,
                None => {}
            }
            if runnable >= enough {
                break;
            }
        }
        Some(runnable)
    }
}

fn state_of(thread: u32) -> Option<u8> {
    // The state follows the name, which is at most 15 bytes long.
    let mut line = [0; 64];
    let mut file = File::open(format!("/proc/self/task/{thread}/stat")).ok()?;
    let length = file.read(&mut line).ok()?;
    state_in(line.get(..length)?)
}

/// The name stands in parentheses and may contain any bytes: the state follows the last parenthesis, within what was read.
fn state_in(line: &[u8]) -> Option<u8> {
    let name_end = line.iter().rposition(|byte| *byte == b')')?;
    line.get(name_end + 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn states_are_found_behind_any_name() {
        assert_eq!(state_in(b"17 (pool 1) R 1 2 3"), Some(b'R'));
        assert_eq!(state_in(b"17 (a) D (b) S 1 2 3"), Some(b'S'));
        assert_eq!(state_in(b"17 (cut of"), None);
        assert_eq!(state_in(b"17 (cut)"), None);
    }

    #[test]
    fn threads_that_wait_are_told_from_threads_that_compute() {
        let census = Census::default();
        let done = AtomicBool::new(false);
        let (release, waits) = mpsc::channel::<()>();
        let census = &census;
        thread::scope(|scope| {
            scope.spawn(|| {
                let _counted = census.count();
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            scope.spawn(move || {
                let _counted = census.count();
                // Answered by dropping the sender.
                let _ = waits.recv();
            });
            while census.threads.lock().len() < 2 || census.runnable(9) != Some(1) {
                thread::yield_now();
            }
            done.store(true, Ordering::Relaxed);
            drop(release);
        });
        assert_eq!(census.runnable(9), Some(0), "ended threads are still counted");
    }
}
