//! Which threads of the pool use a processor, and which are blocked.
//!
//! More threads than cores help only when some are blocked, and neither a task's duration nor a thread's
//! silence tells the one from the other. The kernel does: `/proc/self/task/<id>/stat` (proc(5)) names the
//! state, `R` for running or runnable, `D` for waiting for the disk. Any other wait may be over in a moment,
//! such as that for a lock that another thread of the pool holds: it counts when the next look finds the
//! thread waiting in the same task.

use crate::thread_state::state_of;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The threads of a pool.
#[derive(Default)]
pub(crate) struct Census {
    /// A leaf in the order of locks; taken when threads begin and end and by the controller.
    members: Mutex<Vec<Member>>,
}

struct Member {
    /// The kernel's id of the thread.
    thread: u32,
    /// Tasks that it has begun.
    tasks: Arc<AtomicU64>,
    /// The task in which the last look found it waiting, though not for the disk.
    waited_in: Option<u64>,
}

/// One thread, counted until this is dropped.
pub(crate) struct Counted<'c> {
    census: &'c Census,
    thread: u32,
    tasks: Arc<AtomicU64>,
}

impl Counted<'_> {
    /// The thread begins another task.
    pub(crate) fn begins_task(&self) {
        self.tasks.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.census.members.lock().retain(|member| member.thread != self.thread);
    }
}

impl Member {
    /// Whether it is blocked; `None` when the kernel does not say.
    fn look(&mut self) -> Option<bool> {
        let state = state_of(self.thread)?;
        let task = self.tasks.load(Ordering::Relaxed);
        let waits = !matches!(state, b'R' | b'D');
        let waited_before = self.waited_in == Some(task);
        self.waited_in = waits.then_some(task);
        Some(state == b'D' || (waits && waited_before))
    }
}

impl Census {
    /// Counts the calling thread.
    pub(crate) fn count(&self) -> Counted<'_> {
        let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let tasks = Arc::new(AtomicU64::new(0));
        self.members.lock().push(Member { thread, tasks: Arc::clone(&tasks), waited_in: None });
        Counted { census: self, thread, tasks }
    }

    /// One look: how many threads are not blocked; more than `enough` are not looked for. `None` when the
    /// kernel does not say.
    pub(crate) fn unblocked(&self, enough: usize) -> Option<usize> {
        // Nobody ends meanwhile: a thread leaves the census before it ends, and waits for the lock to do so.
        let mut members = self.members.lock();
        let mut unblocked = 0;
        for member in &mut *members {
            unblocked += usize::from(!member.look()?);
            if unblocked >= enough {
                break;
            }
        }
        Some(unblocked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::thread;

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
            while census.members.lock().len() < 2 || census.unblocked(9) != Some(1) {
                thread::yield_now();
            }
            done.store(true, Ordering::Relaxed);
            drop(release);
        });
        assert_eq!(census.unblocked(9), Some(0), "ended threads are still counted");
    }

    #[test]
    fn a_thread_that_waits_now_and_then_is_not_blocked() {
        let census = Census::default();
        let (release, waits) = mpsc::channel::<()>();
        let census = &census;
        thread::scope(|scope| {
            scope.spawn(move || {
                let counted = census.count();
                while waits.recv().is_ok() {
                    counted.begins_task();
                }
            });
            let is_waiting =
                || census.members.lock().first().is_some_and(|member| state_of(member.thread) == Some(b'S'));
            for task in 1..20 {
                while !is_waiting() {
                    thread::yield_now();
                }
                assert_eq!(census.unblocked(9), Some(1), "waits in task {task} for the first time");
                release.send(()).expect("the thread waits");
                while census
                    .members
                    .lock()
                    .first()
                    .is_none_or(|member| member.tasks.load(Ordering::Relaxed) < task)
                {
                    thread::yield_now();
                }
            }
            while !is_waiting() {
                thread::yield_now();
            }
            assert_eq!(census.unblocked(9), Some(1));
            assert_eq!(census.unblocked(9), Some(0), "two looks at the same wait");
            drop(release);
        });
    }
}
