//! Connections as tasks: who polls one next is decided each time it is woken.
//!
//! ```text
//!                       wake ──▶ placement? ── Home, Anywhere ──▶ home queue ──▶ a thread of the model polls
//!                                    └──────── Brief, Long ────▶ elastic pool ──▶ a pool thread polls
//! ```
//! A task that must not block where it is calls [`crate::Session::poll_offload_briefly`], or
//! [`crate::Session::poll_offload`] when it computes for long: its placement becomes a pool, it wakes itself,
//! and the next poll happens there. Before it waits for its next request, it is placed at home again.

use crate::Session;
use crate::pool::Pools;
use async_task::{ScheduleInfo, WithInfo};
use std::sync::Arc;

/// A connection that somebody shall poll.
pub(crate) type Task = async_task::Runnable;

/// Where a thread model queues its tasks.
pub(crate) trait TaskQueue: Send + Sync + 'static {
    /// Takes a task that is to be polled soon; never waits.
    fn push(&self, task: Task);

    /// The same for a connection's first poll, which may wait behind those that are there already.
    fn push_newcomer(&self, task: Task) {
        self.push(task);
    }
}

/// Makes a connection's future a task of `home` and has it polled for the first time.
pub(crate) fn spawn<F, Q>(future: F, session: Arc<Session>, home: Arc<Q>, pools: Option<Arc<Pools>>)
where
    F: Future<Output = ()> + Send + 'static,
    Q: TaskQueue,
{
    let first = Arc::clone(&home);
    let schedule = move |task: Task, info: ScheduleInfo| match pools
        .as_ref()
        .and_then(|pools| pools.of(session.placement()))
    {
        Some(pool) if info.woken_while_running => pool.push_again(task),
        Some(pool) => pool.push(task),
        None => home.push(task),
    };
    let (task, handle) = async_task::spawn(future, WithInfo(schedule));
    handle.detach();
    first.push_newcomer(task);
}
