//! Whether the processors are what the workers wait for: then another worker would only take turns with the others.
//!
//! The kernel counts for each thread how long it ran and how long it was ready to run and had to wait
//! (`/proc/<process>/task/<thread>/schedstat`, kernel documentation "sched-stats"). When that makes up nearly all of the time
//! for which tasks were executed, nothing else holds the tasks up.

use super::controller::percent_of;
use super::record::WorkerRecord;
use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

/// Measurements over less time than this mean little.
const SHORTEST_WINDOW: Duration = Duration::from_millis(20);
/// From this share on, computing is what takes the time.
const LIMIT_PERCENT: u32 = 90;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    /// Running and ready to run.
    pub(super) processor: Duration,
    /// Executing tasks.
    pub(super) executing: Duration,
}

/// The workers at the last measurement.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    at: Duration,
    workers: HashMap<u64, Sample>,
}

impl Pressure {
    /// Measures since the last measurement. Also true when that was a moment ago, so that a pool with a thread for each processor
    /// grows by one thread in that time. False where the kernel does not tell.
    pub(super) fn processors_are_the_limit(
        &mut self,
        workers: &[Arc<WorkerRecord>],
        processors: usize,
        now: Duration,
    ) -> bool {
        if workers.len() < processors {
            return false;
        }
        if now.saturating_sub(self.at) < SHORTEST_WINDOW {
            return true;
        }
        let sample = |worker: &Arc<WorkerRecord>| {
            let processor = processor_time(worker.thread_id)?;
            Some((worker.number, Sample { processor, executing: worker.executing(now) }))
        };
        let samples = workers.iter().filter_map(sample).collect();
        self.measure(samples, now)
    }

    pub(super) fn measure(&mut self, samples: HashMap<u64, Sample>, now: Duration) -> bool {
        let mut sum = Sample::default();
        for (worker, sample) in &samples {
            let before = self.workers.get(worker).copied().unwrap_or_default();
            sum.processor += sample.processor.saturating_sub(before.processor);
            sum.executing += sample.executing.saturating_sub(before.executing);
        }
        self.at = now;
        self.workers = samples;
        percent_of(sum.processor, sum.executing) >= LIMIT_PERCENT
    }
}

fn processor_time(thread: u64) -> Option<Duration> {
    parse(&fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?)
}

/// The first two numbers are nanoseconds on a processor and in wait for one.
fn parse(schedstat: &str) -> Option<Duration> {
    let mut numbers = schedstat.split_ascii_whitespace().map(str::parse::<u64>);
    let (running, waiting) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(Duration::from_nanos(running.saturating_add(waiting)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(processor_ms: u64, executing_ms: u64) -> Sample {
        let ms = Duration::from_millis;
        Sample { processor: ms(processor_ms), executing: ms(executing_ms) }
    }

    #[test]
    fn tells_computing_from_waiting() {
        let mut pressure = Pressure::default();
        let first = HashMap::from([(1, sample(1000, 1000)), (2, sample(5, 1000))]);
        pressure.measure(first, Duration::from_secs(1));
        let second = HashMap::from([(1, sample(1100, 1100)), (2, sample(105, 1100)), (3, sample(50, 50))]);
        assert!(pressure.measure(second, Duration::from_secs(2)), "all have computed since");
        let third = HashMap::from([(1, sample(1200, 1200)), (2, sample(110, 1200))]);
        assert!(!pressure.measure(third, Duration::from_secs(3)), "one has waited since");
    }

    #[test]
    fn a_moment_is_no_measurement() {
        let mut pressure = Pressure::default();
        pressure.measure(HashMap::new(), Duration::from_millis(100));
        let worker = [Arc::new(WorkerRecord::new(0, 0, Duration::ZERO))];
        let now = Duration::from_millis(119);
        assert!(pressure.processors_are_the_limit(&worker, 1, now), "19 ms tell nothing");
        assert!(
            !pressure.processors_are_the_limit(&worker, 2, now),
            "a processor is free for another thread"
        );
    }

    #[test]
    fn reads_the_kernels_format() {
        assert_eq!(parse("1500 500 77\n"), Some(Duration::from_nanos(2000)));
        assert_eq!(parse("nothing"), None);
        assert_eq!(parse(""), None);
    }
}
