//! A worker's loop, and the threads that run it.

use super::controller::{is_idle, jittered};
use super::core::Core;
use super::record::WorkerRecord;
use super::roster::Cause;
use super::task_queues::{QueueCursor, WaitEnd};
use crate::idle::IdleWatch;
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How a worker's loop ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// It had little to do and has left the roster.
    Idle,
    /// The model ends.
    Closed,
}

/// Starts a worker's thread. `None`: the model ends.
///
/// # Errors
/// The system has no thread left.
pub(super) fn start(core: &Arc<Core>, cause: Cause) -> io::Result<Option<JoinHandle<()>>> {
    if !core.roster.expect(cause) {
        return Ok(None);
    }
    let number = core.next_worker();
    let shared = Arc::clone(core);
    let builder =
        thread::Builder::new().name(format!("adaptive{number}")).stack_size(core.thread_stack_bytes);
    match builder.spawn(move || run(&shared, number)) {
        Ok(thread) => Ok(Some(thread)),
        Err(error) => {
            let failures = core.roster.start_failed(cause);
            if failures.is_power_of_two() {
                tracing::warn!(target: "network", %error, failures, ?cause, "cannot start a worker thread");
            }
            Err(error)
        }
    }
}

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is a worker.
pub(super) fn is_current() -> bool {
    IS_WORKER.get()
}

fn run(core: &Arc<Core>, number: u64) {
    IS_WORKER.set(true);
    let thread_id = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
    let record = Arc::new(WorkerRecord::new(number, thread_id, core.now()));
    core.roster.arrive(Arc::clone(&record));
    let mut departure = Departure { core, record: &record, end: None };
    departure.end = Some(work(core, &record));
}

/// Takes the worker off the roster however its loop ends.
struct Departure<'c> {
    core: &'c Core,
    record: &'c Arc<WorkerRecord>,
    /// `None`: a panic ended it.
    end: Option<End>,
}

impl Drop for Departure<'_> {
    fn drop(&mut self) {
        match self.end {
            Some(End::Idle) => {}
            Some(End::Closed) => {
                self.core.roster.leave(self.record, |sum, worker| sum.add(worker.totals(self.core.now())))
            }
            None => {
                tracing::error!(target: "network", worker = self.record.number,
                    "a worker thread ended by a panic; another takes its place");
                self.core
                    .roster
                    .leave_crashed(self.record, |sum, worker| sum.add(worker.totals(self.core.now())));
                self.core.attention.draw();
            }
        }
    }
}

/// Runs tasks, one run time after the other, until there is too little to do.
fn work(core: &Core, record: &Arc<WorkerRecord>) -> End {
    let mut cursor = QueueCursor::new(record.number as usize);
    let mut random = fastrand::Rng::with_seed(record.number);
    let idle = IdleWatch::default();
    loop {
        let begun = core.now();
        let executed_before = record.executing(begun);
        if !work_for_a_run_time(core, record, &mut cursor, begun, random.u64(..)) {
            return End::Closed;
        }
        let now = core.now();
        let options = core.options();
        let executing = record.executing(now).saturating_sub(executed_before);
        if is_idle(executing, now.saturating_sub(begun), &options)
            && core.roster.leave_idle(record, options.reserved(), |sum, worker| sum.add(worker.totals(now)))
        {
            return End::Idle;
        }
        if idle.rests(record.executing(now).as_nanos() as u64, 0) {
            core.hooks.thread_rests();
        }
    }
}

/// False when the model ends.
fn work_for_a_run_time(
    core: &Core,
    record: &WorkerRecord,
    cursor: &mut QueueCursor,
    begun: Duration,
    random: u64,
) -> bool {
    // Read again after each rest: the run time may have been changed in it.
    let mut until = begun + jittered(&core.options(), random);
    loop {
        while let Some(queued) = core.queues.take(core, cursor) {
            record.begin(queued.kind, queued.since, core.now());
            queued.task.run();
            let now = core.now();
            record.end(queued.kind, now);
            if core.is_closing() {
                return false;
            }
            if now >= until {
                return true;
            }
        }
        let now = core.now();
        if now >= until {
            return true;
        }
        if core.queues.wait_for_work(core, cursor, until - now) == WaitEnd::Closed {
            return false;
        }
        until = begun + jittered(&core.options(), random);
    }
}
