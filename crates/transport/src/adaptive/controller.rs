//! When threads are started: the rules of article S0 as a state machine over what was counted, with the time
//! given.
//!
//! ```text
//!            ┌──────────────────────── a schedule found nobody free, or the stuck time-out passed ◀──┐
//!            ▼                                                                                       │
//!   crashed? below reserve? stuck? ── yes ──▶ start ─────────────────────────────────────────────────┤
//!            │ no                                                                                    │
//!   utilisation under the threshold? ── yes ─────────────────────────────────────────────────────────┤
//!            │ no                                                                                    │
//!   sleep the queue latency, again while threads are pending ──▶ starved? ── yes ──▶ start one ──────┤
//!                                                                   └─────── no ─────────────────────┘
//! ```
//! Two details go beyond the article. *Stuck* means that every thread works on a task that it has had for the
//! whole time-out: threads that finish short tasks one after the other are busy, not stuck, and the
//! starvation rule looks after them. And a starved pool does not grow while it keeps every processor busy:
//! one more thread would only take turns with the others.

use super::options::{AdaptiveOptions, MOST_THREADS};
use super::roster::Cause;
use std::time::Duration;

/// After a round in which nothing was to be done, the controller sleeps for this many queue latencies at
/// least, so that a saturated pool does not keep it busy.
const DEAF_LATENCIES: u32 = 10;
/// The controller never sleeps for less than this when it waits for threads to become stuck.
const SHORTEST_WATCH: Duration = Duration::from_millis(1);

/// What is counted at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The time, from any beginning.
    pub(crate) now: Duration,
    /// Threads in their loop.
    pub(crate) running: usize,
    /// Threads started and not yet in their loop.
    pub(crate) pending: usize,
    /// Threads that execute a task.
    pub(crate) in_use: usize,
    /// When the last of them began its task.
    pub(crate) latest_begin: Duration,
    /// Threads that a panic ended and nobody replaced.
    pub(crate) crashed: usize,
    /// Tasks that wait.
    pub(crate) queued: usize,
    /// Sum over all threads, ended ones included: time in the loop.
    pub(crate) running_time: Duration,
    /// Sum over all threads, ended ones included: time executing tasks.
    pub(crate) executing_time: Duration,
    /// As many threads as there are processors run or are ready to run.
    pub(crate) processors_are_the_limit: bool,
}

/// What the controller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Start so many threads, then sleep as for `Listen`.
    Start { threads: usize, cause: Cause, deaf: Duration, most: Duration },
    /// Sleep for this long, then take a new snapshot.
    Sleep(Duration),
    /// Sleep for `most`, or until a schedule finds nobody free, but for `deaf` at least.
    Listen { deaf: Duration, most: Duration },
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Controller {
    /// Since when threads are given time to begin and tasks to be taken.
    settling_since: Option<Duration>,
    utilisation: Utilisation,
}

impl Controller {
    /// Whether the next step may be to start a thread because tasks starve.
    pub(crate) const fn is_settling(&self) -> bool {
        self.settling_since.is_some()
    }

    /// The next step.
    pub(crate) fn step(&mut self, seen: &Snapshot, options: &AdaptiveOptions) -> Step {
        let busy_percent = self.utilisation.percent(seen, options.stuck_thread_timeout);
        match self.settling_since {
            Some(since) => self.settle(seen, options, since),
            None => self.survey(seen, options, busy_percent),
        }
    }

    /// The rules that need no waiting.
    fn survey(&mut self, seen: &Snapshot, options: &AdaptiveOptions, busy_percent: u32) -> Step {
        let expected = seen.running + seen.pending;
        let below_reserve = options.reserved().saturating_sub(expected);
        if is_stuck(seen, options) {
            return start(1, Cause::StuckDetection, seen, options);
        }
        if seen.crashed > 0 {
            return start(seen.crashed, Cause::Replacement, seen, options);
        }
        if below_reserve > 0 {
            return start(below_reserve, Cause::BelowReserve, seen, options);
        }
        if busy_percent < options.idle_threshold_percent {
            return idle(seen, options);
        }
        self.settling_since = Some(seen.now);
        Step::Sleep(options.max_queue_latency)
    }

    /// Threads that are pending may take the tasks that wait; whatever waits then is starved.
    fn settle(&mut self, seen: &Snapshot, options: &AdaptiveOptions, since: Duration) -> Step {
        let waited = seen.now.saturating_sub(since);
        if seen.pending > 0 && waited < options.stuck_thread_timeout {
            return Step::Sleep(options.max_queue_latency);
        }
        self.settling_since = None;
        let free = seen.running.saturating_sub(seen.in_use);
        if seen.pending == 0 && seen.queued > free && !seen.processors_are_the_limit {
            return start(1, Cause::Starvation, seen, options);
        }
        idle(seen, options)
    }
}

fn is_stuck(seen: &Snapshot, options: &AdaptiveOptions) -> bool {
    seen.running > 0
        && seen.pending == 0
        && seen.in_use == seen.running
        && seen.now.saturating_sub(seen.latest_begin) >= options.stuck_thread_timeout
}

fn start(threads: usize, cause: Cause, seen: &Snapshot, options: &AdaptiveOptions) -> Step {
    let room = MOST_THREADS.saturating_sub(seen.running + seen.pending);
    let deaf = options.max_queue_latency;
    let most = options.stuck_thread_timeout;
    match threads.min(room) {
        0 => idle(seen, options),
        threads => Step::Start { threads, cause, deaf, most },
    }
}

/// Sleeps for the stuck time-out, or until the moment at which threads in use now would be stuck.
fn idle(seen: &Snapshot, options: &AdaptiveOptions) -> Step {
    let stuck = options.stuck_thread_timeout;
    let in_use = seen.now.saturating_sub(seen.latest_begin);
    let all_in_use = seen.running > 0 && seen.in_use == seen.running;
    let most = if all_in_use { stuck.saturating_sub(in_use).max(SHORTEST_WATCH) } else { stuck };
    Step::Listen { deaf: (options.max_queue_latency * DEAF_LATENCIES).min(most), most }
}

/// Executing time against running time, over the last one to two stuck time-outs: a share since the beginning
/// would take hours to notice that an idle server has become busy.
#[derive(Debug, Default)]
struct Utilisation {
    older: Sample,
    newer: Sample,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    at: Duration,
    running: Duration,
    executing: Duration,
}

impl Utilisation {
    fn percent(&mut self, seen: &Snapshot, window: Duration) -> u32 {
        let sample = Sample { at: seen.now, running: seen.running_time, executing: seen.executing_time };
        if sample.at.saturating_sub(self.newer.at) >= window {
            self.older = self.newer;
            self.newer = sample;
        }
        let running = sample.running.saturating_sub(self.older.running);
        let executing = sample.executing.saturating_sub(self.older.executing);
        percent_of(executing, running)
    }
}

/// A share in whole percent; 0 of nothing.
pub(crate) const fn percent_of(part: Duration, whole: Duration) -> u32 {
    let whole = whole.as_nanos();
    if whole == 0 {
        return 0;
    }
    let percent = part.as_nanos() * 100 / whole;
    if percent > 100 { 100 } else { percent as u32 }
}

/// Whether a worker that executed for this share of its run time has too little to do.
pub(crate) const fn is_idle(executing: Duration, running: Duration, options: &AdaptiveOptions) -> bool {
    percent_of(executing, running) < options.idle_threshold_percent
}

/// A run time with its jitter; `random` is any number.
pub(crate) fn jittered(options: &AdaptiveOptions, random: u64) -> Duration {
    let jitter = options.run_time_jitter;
    let span = jitter.as_micros() as u64 * 2;
    let late = Duration::from_micros(random.checked_rem(span + 1).unwrap_or_default());
    (options.run_time + late).saturating_sub(jitter)
}
