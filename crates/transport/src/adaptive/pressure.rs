//! Whether the processors are what tasks wait for: then another worker would only take turns with the others.
//!
//! A worker that executes a task either blocks (on the disk, a lock, a long wait) or computes; one that
//! computes runs or is ready to run, and the kernel says so (state `R` in
//! `/proc/<process>/task/<thread>/stat`, proc(5)). While as many workers as there are processors are in that
//! state, no processor is left for another. One moment is looked at, not a while: the kernel counts a
//! thread's wait for a processor only when the wait is over, which makes sums over short times say little.

use super::record::WorkerRecord;
use crate::thread_state::state_of;
use std::sync::Arc;

/// Whether at least `processors` workers run a task or are ready to. False where the kernel does not tell.
pub(super) fn processors_are_the_limit(workers: &[Arc<WorkerRecord>], processors: usize) -> bool {
    let in_use = workers.iter().filter(|worker| worker.executing_since().is_some());
    // Each look is a system call or two: no more of them than are needed.
    in_use.filter(|worker| state_of(worker.thread_id) == Some(b'R')).take(processors).count() >= processors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adaptive::record::Kind;
    use std::time::Duration;

    /// A worker that has the calling thread's number, and whether it executes something.
    fn worker(executes: bool) -> Arc<WorkerRecord> {
        let thread_id = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let record = WorkerRecord::new(0, thread_id, Duration::ZERO);
        if executes {
            record.begin(Kind::Ready, Duration::ZERO, Duration::ZERO);
        }
        Arc::new(record)
    }

    #[test]
    fn a_thread_that_computes_takes_a_processor() {
        // This test computes as it asks.
        assert!(processors_are_the_limit(&[worker(true)], 1));
        assert!(!processors_are_the_limit(&[worker(true)], 2), "one of two processors is free");
        assert!(processors_are_the_limit(&[worker(true), worker(false), worker(true)], 2));
        assert!(!processors_are_the_limit(&[worker(false)], 1), "a worker between two tasks");
    }

    #[test]
    fn a_thread_that_blocks_takes_none() {
        let (send_id, id) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let blocks = std::thread::spawn(move || {
            send_id.send(worker(true)).expect("somebody listens");
            released.recv().expect_err("nothing is ever sent");
        });
        let worker = id.recv().expect("an id");
        let stops_computing = || {
            while processors_are_the_limit(std::slice::from_ref(&worker), 1) {
                std::thread::yield_now();
            }
        };
        stops_computing();
        drop(release);
        blocks.join().expect("no panic");
        // Also for a thread that is gone; the kernel takes a moment to say so.
        stops_computing();
    }
}
