//! What can be chosen about the `adaptive` model: the seven published parameters and the number of queues.

use crate::options::usable_processors;
use std::time::Duration;
use thiserror::Error;

/// The most threads the model ever has, whatever it is told: beyond this, threads cost more than they help.
pub(super) const MOST_THREADS: usize = 4096;
/// The most task queues.
const MOST_QUEUES: usize = 1024;
/// The longest of all times below; anything longer is a slip of the keyboard.
const LONGEST: Duration = Duration::from_hours(24);
const SHORTEST_RUN_TIME: Duration = Duration::from_millis(1);
/// The controller wakes this often even when nothing happens.
const SHORTEST_STUCK_TIMEOUT: Duration = Duration::from_millis(1);
const SHORTEST_QUEUE_LATENCY: Duration = Duration::from_micros(1);

/// Options of the `adaptive` thread model (article S0). All but `queues` take effect while the model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveOptions {
    /// Threads that stay, however little there is to do; -1: half as many as cores.
    /// `adaptiveServiceExecutorReservedThreads`.
    pub reserved_threads: i64,
    /// The longest a thread waits for a task before it asks itself whether it is needed.
    /// `adaptiveServiceExecutorRunTimeMillis`.
    pub run_time: Duration,
    /// How far the run times of threads differ at most, either way, so that they do not all end together.
    /// `adaptiveServiceExecutorRunTimeJitterMillis`.
    pub run_time_jitter: Duration,
    /// When every thread has worked on one task for this long, another thread is started.
    /// `adaptiveServiceExecutorStuckThreadTimeoutMillis`.
    pub stuck_thread_timeout: Duration,
    /// How long the controller lets tasks wait before it counts them against the free threads.
    /// `adaptiveServiceExecutorMaxQueueLatencyMicros`.
    pub max_queue_latency: Duration,
    /// A thread that executes less than this share of its time ends, and a pool that does so does not grow;
    /// in percent. `adaptiveServiceExecutorIdlePctThreshold`.
    pub idle_threshold_percent: u32,
    /// Requests of one connection that are executed in a row before it goes to the end of its queue.
    /// `adaptiveServiceExecutorRecursionLimit`.
    pub recursion_limit: u32,
    /// Task queues: 1 is the article's single locked queue, 0 one per core. Counts when the model starts.
    /// `adaptiveServiceExecutorQueues`.
    pub queues: usize,
    /// Threads that can run at the same time: what is meant by cores above. Default: what the process may
    /// use.
    pub processors: usize,
}

impl Default for AdaptiveOptions {
    /// The published defaults.
    fn default() -> Self {
        Self {
            reserved_threads: -1,
            run_time: Duration::from_secs(5),
            run_time_jitter: Duration::from_millis(500),
            stuck_thread_timeout: Duration::from_millis(250),
            max_queue_latency: Duration::from_micros(500),
            idle_threshold_percent: 60,
            recursion_limit: 8,
            queues: 0,
            processors: usable_processors(),
        }
    }
}

/// Options that are refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum AdaptiveOptionsError {
    /// A count of reserved threads that no machine should be asked for.
    #[error("adaptiveServiceExecutorReservedThreads must be -1 or between 1 and {MOST_THREADS}, not {given}")]
    ReservedThreads {
        /// What was asked for.
        given: i64,
    },
    /// A time out of its range.
    #[error("{name} must be between {least:?} and {LONGEST:?}, not {given:?}")]
    Time {
        /// The parameter.
        name: &'static str,
        /// The shortest allowed.
        least: Duration,
        /// What was asked for.
        given: Duration,
    },
    /// A jitter that could make a run time vanish.
    #[error(
        "adaptiveServiceExecutorRunTimeJitterMillis must not exceed the run time of {run_time:?}, but is \
        {given:?}"
    )]
    Jitter {
        /// The run time.
        run_time: Duration,
        /// What was asked for.
        given: Duration,
    },
    /// A queue latency beyond the stuck time-out, which bounds it.
    #[error(
        "adaptiveServiceExecutorMaxQueueLatencyMicros must not exceed the stuck thread time-out of \
        {stuck:?}, but is {given:?}"
    )]
    QueueLatency {
        /// The stuck time-out.
        stuck: Duration,
        /// What was asked for.
        given: Duration,
    },
    /// More than all of the time.
    #[error("adaptiveServiceExecutorIdlePctThreshold must be between 0 and 100, not {given}")]
    IdleThreshold {
        /// What was asked for.
        given: u32,
    },
    /// A limit of no requests.
    #[error("adaptiveServiceExecutorRecursionLimit must be at least 1")]
    RecursionLimit,
    /// A number of queues that no machine has cores for.
    #[error("adaptiveServiceExecutorQueues must be between 0 and {MOST_QUEUES}, not {given}")]
    Queues {
        /// What was asked for.
        given: usize,
    },
}

impl AdaptiveOptions {
    /// Checks each option and the rules between them.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate(&self) -> Result<(), AdaptiveOptionsError> {
        let in_range = |name, given: Duration, least: Duration| {
            if (least..=LONGEST).contains(&given) {
                return Ok(());
            }
            Err(AdaptiveOptionsError::Time { name, least, given })
        };
        if self.reserved_threads != -1 && !(1..=MOST_THREADS as i64).contains(&self.reserved_threads) {
            return Err(AdaptiveOptionsError::ReservedThreads { given: self.reserved_threads });
        }
        in_range("adaptiveServiceExecutorRunTimeMillis", self.run_time, SHORTEST_RUN_TIME)?;
        let stuck = self.stuck_thread_timeout;
        in_range("adaptiveServiceExecutorStuckThreadTimeoutMillis", stuck, SHORTEST_STUCK_TIMEOUT)?;
        let latency = self.max_queue_latency;
        in_range("adaptiveServiceExecutorMaxQueueLatencyMicros", latency, SHORTEST_QUEUE_LATENCY)?;
        if self.run_time_jitter > self.run_time {
            let given = self.run_time_jitter;
            return Err(AdaptiveOptionsError::Jitter { run_time: self.run_time, given });
        }
        if latency > stuck {
            return Err(AdaptiveOptionsError::QueueLatency { stuck, given: latency });
        }
        if self.idle_threshold_percent > 100 {
            return Err(AdaptiveOptionsError::IdleThreshold { given: self.idle_threshold_percent });
        }
        if self.recursion_limit == 0 {
            return Err(AdaptiveOptionsError::RecursionLimit);
        }
        if self.queues > MOST_QUEUES {
            return Err(AdaptiveOptionsError::Queues { given: self.queues });
        }
        Ok(())
    }

    /// Threads that stay: what was asked for, or half as many as cores, and at least one.
    #[must_use]
    pub fn reserved(&self) -> usize {
        usize::try_from(self.reserved_threads).unwrap_or(self.processors / 2).clamp(1, MOST_THREADS)
    }

    /// Task queues: what was asked for, or one per core.
    #[must_use]
    pub fn queue_count(&self) -> usize {
        if self.queues == 0 { self.processors.clamp(1, MOST_QUEUES) } else { self.queues }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(change: impl FnOnce(&mut AdaptiveOptions)) -> String {
        let mut options = AdaptiveOptions::default();
        change(&mut options);
        options.validate().expect_err("the options must be refused").to_string()
    }

    #[test]
    fn the_published_defaults_are_valid() {
        assert_eq!(AdaptiveOptions::default().validate(), Ok(()));
        for (processors, reserved) in [(1, 1), (2, 1), (3, 1), (16, 8)] {
            let options = AdaptiveOptions { processors, ..AdaptiveOptions::default() };
            assert_eq!(options.reserved(), reserved, "reserved threads are half of {processors} cores");
            assert_eq!(options.queue_count(), processors, "a queue per core");
        }
    }

    #[test]
    fn absurd_options_are_refused_with_a_reason() {
        let text = refused(|options| options.reserved_threads = 1_000_000);
        assert!(text.contains("1000000") && text.contains("4096"), "unclear message: {text}");
        refused(|options| options.reserved_threads = 0);
        refused(|options| options.reserved_threads = -2);
        let text = refused(|options| options.run_time = Duration::ZERO);
        assert!(text.contains("RunTimeMillis"), "unclear message: {text}");
        refused(|options| options.run_time_jitter = Duration::from_millis(5001));
        refused(|options| options.stuck_thread_timeout = Duration::from_hours(25));
        refused(|options| options.max_queue_latency = Duration::ZERO);
        refused(|options| options.max_queue_latency = Duration::from_millis(251));
        refused(|options| options.idle_threshold_percent = 101);
        refused(|options| options.recursion_limit = 0);
        refused(|options| options.queues = 1025);
    }

    #[test]
    fn what_escapes_validation_is_bounded() {
        let options = AdaptiveOptions { reserved_threads: 1_000_000, ..AdaptiveOptions::default() };
        assert_eq!(options.reserved(), MOST_THREADS);
    }
}
