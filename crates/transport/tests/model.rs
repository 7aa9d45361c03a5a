//! Model checking of the run queue, the offload cell, the elastic pool and the set of live connections: the
//! very files the library is built from, compiled against shuttle's primitives, run under many schedules. A
//! lost wake-up shows as a deadlock.

#![allow(dead_code, unreachable_pub, reason = "the included files are used in part")]

#[path = "../src/live_set.rs"]
mod live_set;
#[path = "../src/placement.rs"]
mod placement;
#[path = "../src/pool/queue.rs"]
mod queue;
#[path = "../src/run_queue.rs"]
mod run_queue;
#[path = "model/sync.rs"]
mod sync;
#[path = "../src/task.rs"]
mod task;

#[path = "model/offload.rs"]
mod offload;
#[path = "model/pool.rs"]
mod pool;
#[path = "model/runs.rs"]
mod runs;
#[path = "model/shutdown.rs"]
mod shutdown;

/// What `task.rs` knows of a session.
pub(crate) struct Session {
    placement: placement::PlacementCell,
}

impl Session {
    pub(crate) fn placement(&self) -> placement::Placement {
        self.placement.get()
    }
}

const SCHEDULES: usize = 2_000;
const PREEMPTIONS: usize = 3;

/// Runs `body` under random schedules and under schedules with few preemptions at bad places.
fn check(body: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(body.clone(), SCHEDULES);
    shuttle::check_pct(body, SCHEDULES, PREEMPTIONS);
}
