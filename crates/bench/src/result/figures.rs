//! The charts of runs.

use crate::chart::{Axis, Line, Panel, Plot, Scale, colour};
use crate::result::summary::TOTAL;
use crate::result::{ExecutorSample, Latency, Repetition, RunResult, SecondResult, ServerSample};

/// Between two repetitions on an axis of time, in seconds.
const GAP_SECONDS: f64 = 2.0;

type Points = Vec<(f64, Option<f64>)>;
/// A line by its name.
pub(crate) type Named = (String, Points);

/// Every chart of one run that there are data for.
pub(crate) fn of_run(result: &RunResult) -> Vec<Panel> {
    [
        rates(result),
        latencies(result),
        distribution("Distribution of latency, ms", &of_kinds(result)),
        errors(result),
        connections(result),
        threads(result),
        queues(result),
        cache(result),
        traffic(result),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn rates(result: &RunResult) -> Option<Panel> {
    let mut lines = vec![(TOTAL.to_owned(), rate_line(result))];
    let mut names = result.names();
    names.pop();
    // One kind is the total.
    for name in names.iter().filter(|_| names.len() > 1) {
        let rate = |second: &SecondResult| {
            let kind = second.kinds.iter().find(|kind| kind.name == *name);
            kind.map(|kind| kind.figures.rate)
        };
        lines.push((name.clone(), over_seconds(result, rate)));
    }
    over_time("Operations a second", Scale::Linear, lines)
}

/// Only when there were any.
fn errors(result: &RunResult) -> Option<Panel> {
    let errors = over_seconds(result, |second| Some(second.all.errors as f64));
    let any = errors.iter().any(|(_, errors)| errors.is_some_and(|errors| errors > 0.0));
    any.then(|| over_time("Errors a second", Scale::Linear, vec![(TOTAL.to_owned(), errors)])).flatten()
}

/// All operations, second by second.
pub(crate) fn rate_line(result: &RunResult) -> Points {
    over_seconds(result, |second| Some(second.all.rate))
}

fn latencies(result: &RunResult) -> Option<Panel> {
    let lines = vec![
        ("p50".to_owned(), over_seconds(result, |second| second.all.p50_ms)),
        ("p99".to_owned(), over_seconds(result, |second| second.all.p99_ms)),
        ("longest".to_owned(), over_seconds(result, |second| second.all.max_ms)),
    ];
    over_time("Latency over time, ms", Scale::Logarithmic, lines)
}

fn of_kinds(result: &RunResult) -> Vec<(String, Latency)> {
    let mut all = result.summaries();
    if all.len() == 2 {
        all.truncate(1);
    }
    all.into_iter().map(|kind| (kind.name, kind.latency)).collect()
}

fn connections(result: &RunResult) -> Option<Panel> {
    let lines = vec![
        ("of the load".to_owned(), over_seconds(result, |second| Some(second.connections as f64))),
        (
            "at the server".to_owned(),
            over_samples(result, |sample| Some(sample.figure("connections")? as f64)),
        ),
    ];
    over_time("Open connections", Scale::Linear, lines)
}

fn threads(result: &RunResult) -> Option<Panel> {
    let lines = executors(result).into_iter().flat_map(|name| {
        let running = of_executor(result, &name, |executor| executor.threads_running);
        let in_use = of_executor(result, &name, |executor| executor.threads_in_use);
        [(format!("{name}: running"), running), (format!("{name}: in use"), in_use)]
    });
    over_time("Threads of the server", Scale::Linear, lines.collect())
}

fn queues(result: &RunResult) -> Option<Panel> {
    let line = |name: String| {
        let queued = of_executor(result, &name, |executor| executor.tasks_queued);
        (name, queued)
    };
    over_time("Tasks queued at the server", Scale::Linear, executors(result).into_iter().map(line).collect())
}

fn of_executor(result: &RunResult, name: &str, figure: fn(&ExecutorSample) -> Option<u64>) -> Points {
    over_samples(result, |sample| {
        let own = sample.executors.iter().find(|executor| executor.name == name)?;
        figure(own).map(|figure| figure as f64)
    })
}

/// Names of thread models that did anything.
fn executors(result: &RunResult) -> Vec<String> {
    let samples = result.repetitions.iter().flat_map(|repetition| &repetition.server);
    let mut names: Vec<String> = Vec::new();
    for executor in samples.flat_map(|sample| &sample.executors) {
        if executor.threads_running.is_some_and(|threads| threads > 0) && !names.contains(&executor.name) {
            names.push(executor.name.clone());
        }
    }
    names
}

fn cache(result: &RunResult) -> Option<Panel> {
    let line = |name: &str, key| {
        let mib = over_samples(result, |sample| Some(sample.figure(key)? as f64 / f64::from(1 << 20)));
        (name.to_owned(), mib)
    };
    let lines = vec![line("used", "cacheUsedBytes"), line("not yet written", "cacheDirtyBytes")];
    over_time("Cache of the server, MiB", Scale::Linear, lines)
}

fn traffic(result: &RunResult) -> Option<Panel> {
    let line = |name: &str, key| (name.to_owned(), mib_a_second(result, key));
    let lines = vec![
        line("network in", "networkInBytes"),
        line("network out", "networkOutBytes"),
        line("read from disk", "diskReadBytes"),
        line("written to disk", "diskWrittenBytes"),
    ];
    over_time("Network and disk of the server, MiB/s", Scale::Linear, lines)
}

/// The growth of a counter between samples.
fn mib_a_second(result: &RunResult, key: &str) -> Points {
    on_one_axis(result, |repetition| {
        let pairs = repetition.server.iter().zip(repetition.server.iter().skip(1));
        pairs
            .map(|(before, after)| {
                let seconds = after.at_seconds - before.at_seconds;
                let grown = || after.figure(key)?.checked_sub(before.figure(key)?);
                let rate = grown().filter(|_| seconds > 0.0);
                (after.at_seconds, rate.map(|bytes| bytes as f64 / seconds / f64::from(1 << 20)))
            })
            .collect()
    })
}

fn over_seconds(result: &RunResult, figure: impl Fn(&SecondResult) -> Option<f64>) -> Points {
    on_one_axis(result, |repetition| {
        repetition.seconds.iter().map(|second| (second.second as f64, figure(second))).collect()
    })
}

fn over_samples(result: &RunResult, figure: impl Fn(&ServerSample) -> Option<f64>) -> Points {
    on_one_axis(result, |repetition| {
        repetition.server.iter().map(|sample| (sample.at_seconds, figure(sample))).collect()
    })
}

/// Repetitions one after the other, the line interrupted between them.
fn on_one_axis(result: &RunResult, points: impl Fn(&Repetition) -> Points) -> Points {
    let mut begin = 0.0;
    let mut line = Vec::new();
    for repetition in &result.repetitions {
        line.extend(points(repetition).into_iter().map(|(place, value)| (begin + place, value)));
        begin += repetition.elapsed_seconds + GAP_SECONDS;
        line.push((begin - GAP_SECONDS / 2.0, None));
    }
    line
}

/// Lines over time, without those that have no value.
pub(crate) fn over_time(title: &str, scale: Scale, lines: Vec<Named>) -> Option<Panel> {
    let lines: Vec<Named> =
        lines.into_iter().filter(|(_, points)| points.iter().any(|(_, value)| value.is_some())).collect();
    if lines.is_empty() {
        return None;
    }
    let valued = || lines.iter().flat_map(|(_, points)| points).filter(|(_, value)| value.is_some());
    let x = Axis::of("seconds", Scale::Linear, valued().map(|&(place, _)| place));
    let y = Axis::upright(scale, valued().filter_map(|&(_, value)| value));
    Some(panel(title, x, y, lines, false))
}

/// Latency by share of operations that took no longer.
pub(crate) fn distribution(title: &str, all: &[(String, Latency)]) -> Option<Panel> {
    let lines: Vec<Named> = all
        .iter()
        .filter(|(_, latency)| latency.operations() > 0)
        .map(|(name, latency)| (name.clone(), quantiles(latency)))
        .collect();
    if lines.is_empty() {
        return None;
    }
    let points = || lines.iter().flat_map(|(_, points)| points);
    let x = Axis::of(
        "share of operations that took no longer",
        Scale::Percentile,
        points().map(|&(share, _)| share),
    );
    let y = Axis::upright(Scale::Logarithmic, points().filter_map(|&(_, value)| value));
    Some(panel(title, x, y, lines, true))
}

/// Shares and latencies, as many as a chart can show. The slowest operation ends the line at the share of all
/// others.
fn quantiles(latency: &Latency) -> Points {
    /// Parts of an axis' nine that two points are at least apart.
    const NEAREST: f64 = 0.005;
    let operations = latency.operations() as f64;
    let nines = |share: f64| -(1.0 - share).max(f64::MIN_POSITIVE).log10();
    let mut points: Points = Vec::new();
    let mut before = 0;
    for &(microseconds, count) in &latency.histogram.0 {
        let share = before as f64 / operations;
        let far = points.last().is_none_or(|&(last, _)| nines(share) - nines(last) >= NEAREST);
        if far {
            points.push((share, Some(microseconds as f64 / 1_000.0)));
        }
        before += count;
    }
    points.push((1.0 - 1.0 / operations.max(2.0), Some(latency.max_ms)));
    points
}

fn panel(title: &str, x: Axis, y: Axis, lines: Vec<Named>, steps: bool) -> Panel {
    let line = |(number, (name, points))| Line { name, colour: colour(number), points, marks: false, steps };
    let lines = lines.into_iter().enumerate().map(line).collect();
    Panel { title: title.to_owned(), plot: Plot::Lines { x, y, lines } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::Latencies;
    use crate::result::sample;

    #[test]
    fn a_full_run_has_every_chart_and_an_empty_one_none() {
        let titles: Vec<String> = of_run(&sample::full()).into_iter().map(|panel| panel.title).collect();
        assert_eq!(titles.len(), 9, "{titles:?}");
        assert!(of_run(&RunResult::default()).is_empty());
    }

    #[test]
    fn a_server_that_tells_nothing_has_no_charts_of_its_own() {
        let mut result = sample::full();
        result.repetitions.iter_mut().for_each(|repetition| repetition.server.clear());
        let titles: Vec<String> = of_run(&result).into_iter().map(|panel| panel.title).collect();
        assert_eq!(titles.len(), 5, "{titles:?}");
    }

    #[test]
    fn repetitions_stand_one_after_the_other() {
        let line = rate_line(&sample::with_rates("two", &[1_000.0, 2_000.0]));
        assert_eq!(line.get(30), Some(&(31.0, None)), "between them the line is interrupted");
        assert_eq!(line.get(31), Some(&(32.0, Some(2_000.0))));
    }

    #[test]
    fn a_distribution_ends_with_the_slowest_operation() {
        let latency = Latency::from(Latencies(vec![(1_000, 9_000), (2_000, 990), (50_000, 10)]));
        let expect = [(0.0, 1.0), (0.9, 2.0), (0.999, 50.0), (0.9999, 50.0)];
        assert_eq!(quantiles(&latency), expect.map(|(share, value)| (share, Some(value))));
        let alone = Latency::from(Latencies(vec![(7_000, 1)]));
        assert_eq!(quantiles(&alone), [(0.0, Some(7.0)), (0.5, Some(7.0))]);
    }

    #[test]
    fn many_buckets_become_few_points() {
        let latency = Latency::from(Latencies((1..100_000).map(|latency| (latency, 1)).collect()));
        let points = quantiles(&latency);
        assert!((100..1_500).contains(&points.len()), "{} points", points.len());
        assert_eq!(points.last().and_then(|&(_, value)| value), Some(99.999));
    }
}
