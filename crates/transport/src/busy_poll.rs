//! Busy polling: an event loop looks once more before it sleeps, where it would not sleep for long.
//!
//! With some tens of busy clients a loop runs out of work all the time, and for microseconds. A sleep costs
//! more: the processor halts, which on a virtual machine its host has to end, and who sleeps so often does
//! not look to the scheduler like one who needs a processor. So the loop offers the processor to others and
//! looks again, for a moment. Where that finds nothing, it is not done at the next sleeps, twice as many each
//! time: a server that idles, or waits for slow clients, sleeps at once. Nor is it done while the pool works:
//! no processor halts then, and scans would take what the loop offers. `docs/design/busy-polling.md` has the
//! figures.

use crate::pool::Pools;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a loop looks for work at most before it sleeps.
const MOMENT: Duration = Duration::from_micros(50);
/// More tasks than this in one turn are worth a sleep, during which as many gather.
const FEW: usize = 16;
/// So many sleeps begin at once at most before a loop looks again.
const MOST_SKIPPED: u32 = 255;

/// See the module. Belongs to one loop.
#[derive(Default)]
pub(crate) struct BusyPoll {
    /// The pools that the loop offloads to; a loop without any sleeps at once.
    pools: Option<Arc<Pools>>,
    /// How many sleeps begin at once after a vain look.
    skips: u32,
    /// How many of them are left.
    left: u32,
}

impl BusyPoll {
    /// For a loop that offloads to these pools.
    pub(crate) fn beside(pools: &Arc<Pools>) -> Self {
        Self { pools: Some(Arc::clone(pools)), ..Self::default() }
    }

    /// Whether to [look](BusyPoll::look) once more before this sleep, which follows after `ran` tasks.
    pub(crate) fn is_due(&mut self, ran: usize) -> bool {
        let Some(pools) = &self.pools else { return false };
        if ran > FEW || pools.are_working() {
            return false;
        }
        let due = self.left == 0;
        self.left = self.left.saturating_sub(1);
        due
    }

    /// Offers the processor until there is `work`, for a moment. Whether there was.
    pub(crate) fn look(&mut self, mut work: impl FnMut() -> bool) -> bool {
        let began = Instant::now();
        let mut found = work();
        while !found && began.elapsed() < MOMENT {
            thread::yield_now();
            found = work();
        }
        self.looked(found);
        found
    }

    const fn looked(&mut self, found: bool) {
        if found {
            self.skips /= 2;
        } else {
            self.skips = if self.skips < MOST_SKIPPED { self.skips * 2 + 1 } else { MOST_SKIPPED };
            self.left = self.skips;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PoolOptions;
    use crate::coroutine::Coroutine;
    use crate::event_loop::{LoopHooks, RunningLoop};

    fn beside_a_pool() -> BusyPoll {
        let pool = Pools::start(PoolOptions::default(), 2);
        BusyPoll::beside(&pool.expect("the system has threads left"))
    }

    /// The share of sleeps, in thousandths, before which is looked, when every `found_each`th look finds
    /// something (0: none).
    fn looks_of(sleeps: u32, found_each: u32) -> u32 {
        let (mut busy_poll, mut looks) = (beside_a_pool(), 0);
        for _ in 0..sleeps {
            if busy_poll.is_due(1) {
                looks += 1;
                busy_poll.looked(found_each != 0 && looks % found_each == 0);
            }
        }
        looks * 1_000 / sleeps
    }

    #[test]
    fn looks_where_that_pays() {
        assert_eq!(looks_of(10_000, 1), 1_000, "always, where each finds something");
        assert!(looks_of(10_000, 0) <= 5, "hardly ever, where none does");
        assert_eq!(looks_of(9_000, 2), 666, "one sleep is skipped for each vain look");
        assert!(looks_of(10_000, 10) <= 20, "{}", looks_of(10_000, 10));
    }

    #[test]
    fn begins_again_when_work_comes_again() {
        let mut busy_poll = beside_a_pool();
        while busy_poll.skips < MOST_SKIPPED {
            if busy_poll.is_due(1) {
                busy_poll.looked(false);
            }
        }
        let mut sleeps = 0;
        while busy_poll.skips > 0 || busy_poll.left > 0 {
            sleeps += 1;
            if busy_poll.is_due(1) {
                busy_poll.looked(true);
            }
        }
        assert!((256..300).contains(&sleeps), "{sleeps}");
    }

    #[test]
    fn does_not_look_after_many_tasks() {
        let mut busy_poll = beside_a_pool();
        assert!(!busy_poll.is_due(FEW + 1));
        assert!(busy_poll.is_due(FEW));
        assert!(!BusyPoll::default().is_due(FEW), "without a pool");
    }

    #[test]
    fn a_look_ends_with_work_or_with_its_moment() {
        let mut busy_poll = beside_a_pool();
        let began = Instant::now();
        assert!(!busy_poll.look(|| false));
        assert!(began.elapsed() >= MOMENT);
        let mut asked = 0;
        let found = busy_poll.look(|| {
            asked += 1;
            true
        });
        assert_eq!((found, asked), (true, 1));
    }

    struct NoHooks;

    impl LoopHooks for NoHooks {
        fn loop_started(&self) {}
        fn turn_ended(&self) {}
        fn thread_rests(&self) {}
    }

    /// Ends a new loop, which polls first of all, at each point of that.
    fn ends<L>(start: impl Fn() -> L) {
        for delay in (0..300).map(|step| Duration::from_nanos(step * 400)) {
            let one = start();
            let began = Instant::now();
            while began.elapsed() < delay {
                std::hint::spin_loop();
            }
            drop(one);
        }
    }

    #[test]
    fn loops_end_while_they_linger() {
        let pool = Pools::start(PoolOptions::default(), 2);
        let pool = pool.expect("the system has threads left");
        let hooks: Arc<dyn LoopHooks> = Arc::new(NoHooks);
        ends(|| {
            let started =
                RunningLoop::start("testloop".to_owned(), Arc::clone(&hooks), BusyPoll::beside(&pool));
            started.expect("the system has descriptors left")
        });
        ends(|| {
            let started = Coroutine::start(1, &hooks, Arc::clone(&pool), true);
            started.expect("the system has descriptors left")
        });
    }
}
