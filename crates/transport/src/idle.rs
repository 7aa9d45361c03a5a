//! Finds threads that have come to rest, so that they can give back memory that they keep for what comes
//! next.

use crate::event_loop::LoopHooks;
use crate::run_queue::RunQueue;
use crate::task::{Task, TaskQueue};
use parking_lot::Mutex;
use std::sync::Arc;

/// Compares how much a thread has done from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct IdleWatch {
    /// A leaf in the order of locks.
    looks: Mutex<Looks>,
}

#[derive(Debug, Default)]
struct Looks {
    /// The count at the last look.
    seen: u64,
    /// The count of which it was said that the thread rests.
    told: u64,
}

impl IdleWatch {
    /// Whether nothing was done since the last look, said once for each rest. `work` counts what was done so
    /// far, and whoever is told does `tasks` more.
    pub(crate) fn rests(&self, work: u64, tasks: u64) -> bool {
        let mut looks = self.looks.lock();
        let rests = looks.seen == work && looks.told != work;
        looks.seen = work;
        if rests {
            *looks = Looks { seen: work + tasks, told: work + tasks };
        }
        rests
    }

    /// Has the thread that runs a queue give its memory back if it rests.
    pub(crate) fn tidy(&self, queue: &Arc<RunQueue>, hooks: &Arc<dyn LoopHooks>) {
        if self.rests(queue.statistics().executed, 1) {
            let queue = Arc::clone(queue);
            give_back(hooks, move |task| queue.push(task));
        }
    }
}

/// Has a thread that rests give its memory back; `push` queues the task for it.
pub(crate) fn give_back(hooks: &Arc<dyn LoopHooks>, push: impl Fn(Task) + Send + Sync + 'static) {
    let hooks = Arc::clone(hooks);
    let (task, handle) = async_task::spawn(async move { hooks.thread_rests() }, push);
    handle.detach();
    task.schedule();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rest_is_told_once() {
        let watch = IdleWatch::default();
        assert!(!watch.rests(0, 1), "it has not begun to work");
        assert!(!watch.rests(0, 1));
        assert!(!watch.rests(5, 1), "it works");
        assert!(!watch.rests(9, 1), "it works");
        assert!(watch.rests(9, 1), "it rests");
        assert!(!watch.rests(10, 1), "being told is no work");
        assert!(!watch.rests(10, 1));
        assert!(!watch.rests(11, 3));
        assert!(watch.rests(11, 3));
        assert!(!watch.rests(14, 3) && !watch.rests(14, 3), "three were told");
        assert!(!watch.rests(16, 3));
        assert!(watch.rests(16, 3));
        assert!(!watch.rests(16, 3), "told, and nobody has heard yet");
    }
}
