//! The line that tells how a run is going, once a second, on standard error.

use crate::generator::Snapshot;
use crate::result::{amount, count};
use crate::run::load_phase::LoadProgress;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Writes progress: one line that is written over on a terminal, plain lines elsewhere.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    on_terminal: bool,
    /// Whether a line that is to be written over stands there.
    is_open: bool,
}

impl ProgressLine {
    pub(crate) fn new() -> Self {
        ProgressLine { on_terminal: std::io::stderr().is_terminal(), is_open: false }
    }

    pub(crate) fn show(&mut self, text: &str) {
        let mut output = std::io::stderr().lock();
        // Nobody who could be told is left when standard error is gone.
        let _ = if self.on_terminal { write!(output, "\r\x1b[K{text}") } else { writeln!(output, "{text}") };
        let _ = output.flush();
        self.is_open = self.on_terminal;
    }

    /// Writes a line that stays.
    pub(crate) fn say(&mut self, text: &str) {
        self.clear();
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }

    /// Makes room for something else.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.is_open) {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The load phase in a line.
pub(crate) fn load_line(progress: LoadProgress) -> String {
    let LoadProgress { done, records, rate } = progress;
    let share = 100.0 * done as f64 / records.max(1) as f64;
    format!(
        "loading: {} of {} documents ({share:.0} %), {}/s",
        count(done),
        count(records),
        count(rate as u64)
    )
}

/// What a run says of itself each second.
#[derive(Debug)]
pub(crate) struct RunLine {
    begun: Instant,
    warm_up: Duration,
    duration: Option<Duration>,
    operations: Option<u64>,
    /// `2 of 3: `, when there are several repetitions.
    prefix: String,
    /// Operations and errors when the last line was made, and when that was.
    last: (u64, u64, Duration),
}

impl RunLine {
    pub(crate) fn new(
        warm_up: Duration,
        duration: Option<Duration>,
        operations: Option<u64>,
        prefix: String,
    ) -> Self {
        RunLine { begun: Instant::now(), warm_up, duration, operations, prefix, last: (0, 0, Duration::ZERO) }
    }

    pub(crate) fn line(&mut self, snapshot: &Snapshot) -> String {
        let since = self.begun.elapsed();
        self.line_at(snapshot, since)
    }

    fn line_at(&mut self, snapshot: &Snapshot, since: Duration) -> String {
        let (operations, errors, at) =
            std::mem::replace(&mut self.last, (snapshot.operations, snapshot.errors, since));
        let took = since.saturating_sub(at).as_secs_f64().max(1e-3);
        let rate = snapshot.operations.saturating_sub(operations) as f64 / took;
        let errors_now = snapshot.errors.saturating_sub(errors);
        let mut parts = vec![
            format!("{}{}", self.prefix, self.place(snapshot, since)),
            format!("{}/s", count(rate as u64)),
        ];
        if snapshot.second.latencies.count() > 0 {
            let [p50, p99] = [0.5, 0.99].map(|quantile| amount(snapshot.second.quantile_ms(quantile)));
            parts.push(format!("p50 {p50} ms · p99 {p99} ms"));
        }
        parts.push(match errors_now {
            0 => format!("{} errors", count(snapshot.errors)),
            now => format!("{} errors (+{})", count(snapshot.errors), count(now)),
        });
        parts.push(format!("{} connections", count(snapshot.open)));
        parts.join(" · ")
    }

    /// Where in the run it is.
    fn place(&self, snapshot: &Snapshot, since: Duration) -> String {
        let Some(measured) = since.checked_sub(self.warm_up) else { return "warming up".to_owned() };
        match (self.operations, self.duration) {
            (Some(operations), _) => {
                format!(
                    "{:.0} s, {} of {} operations",
                    measured.as_secs_f64(),
                    count(snapshot.operations),
                    count(operations)
                )
            }
            (None, Some(duration)) if measured > duration => "waiting for the last replies".to_owned(),
            (None, Some(duration)) => {
                format!("{:.0} s of {} s", measured.as_secs_f64(), duration.as_secs_f64())
            }
            (None, None) => format!("{:.0} s", measured.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::{Latencies, Second};

    #[test]
    fn a_line_tells_rate_latency_errors_connections_and_time() {
        let mut line =
            RunLine::new(Duration::from_secs(2), Some(Duration::from_secs(30)), None, String::new());
        let mut snapshot = Snapshot { operations: 40_000, open: 64, ..Snapshot::default() };
        assert_eq!(
            line.line_at(&snapshot, Duration::from_secs(1)),
            "warming up · 40,000/s · 0 errors · 64 connections"
        );
        snapshot.operations = 120_000;
        snapshot.errors = 7;
        snapshot.second = Second {
            operations: 40_000,
            errors: 7,
            max_us: 12_345,
            latencies: Latencies(vec![(512, 99), (12_345, 1)]),
        };
        assert_eq!(
            line.line_at(&snapshot, Duration::from_secs(3)),
            "1 s of 30 s · 40,000/s · p50 0.512 ms · p99 0.512 ms · 7 errors (+7) · 64 connections"
        );
        assert!(
            line.line_at(&snapshot, Duration::from_secs(33))
                .starts_with("waiting for the last replies · 0/s")
        );
    }

    #[test]
    fn a_run_bounded_by_operations_tells_how_many_are_done() {
        let mut line = RunLine::new(Duration::ZERO, None, Some(1_000_000), "2 of 3: ".to_owned());
        let snapshot = Snapshot { operations: 250_000, open: 1, ..Snapshot::default() };
        let text = line.line_at(&snapshot, Duration::from_secs(5));
        assert_eq!(
            text,
            "2 of 3: 5 s, 250,000 of 1,000,000 operations · 50,000/s · 0 errors · 1 connections"
        );
    }

    #[test]
    fn the_load_in_a_line() {
        let progress = LoadProgress { done: 43_000, records: 100_000, rate: 85_123.4 };
        assert_eq!(load_line(progress), "loading: 43,000 of 100,000 documents (43 %), 85,123/s");
    }
}
