//! Several servers under the same load in turns, so that what disturbs the machine disturbs all of them.

use crate::error::BenchError;
use crate::result::RunResult;
use crate::result::number::{amount, count};

/// Where load goes, and what reports call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedTarget {
    /// `None`: the hosts.
    label: Option<String>,
    pub(crate) connection_string: String,
}

impl std::str::FromStr for NamedTarget {
    type Err = String;

    /// `mongodb://…`, or `name=mongodb://…`.
    fn from_str(text: &str) -> Result<Self, String> {
        let scheme = text.find("://").ok_or_else(|| {
            format!("expected mongodb://host:port or name=mongodb://host:port, found '{text}'")
        })?;
        match text.split_once('=').filter(|(label, _)| label.len() < scheme) {
            Some(("", _)) => Err(format!("'{text}' has no name before the '='")),
            Some((label, rest)) => {
                Ok(NamedTarget { label: Some(label.to_owned()), connection_string: rest.to_owned() })
            }
            None => Ok(NamedTarget { label: None, connection_string: text.to_owned() }),
        }
    }
}

/// Measures every target once in every round, each round beginning with another one. What `measure` gives of one target and
/// round has one repetition; all rounds of a target become one result. A target that fails in a round goes on in the next one.
///
/// # Errors
/// When what is asked for is impossible, or less than two targets could be measured at all.
pub(crate) fn in_turns(
    targets: &[NamedTarget],
    rounds: u64,
    mut measure: impl FnMut(&NamedTarget, u64) -> Result<RunResult, BenchError>,
) -> Result<Vec<RunResult>, BenchError> {
    let mut all: Vec<Measured> = targets.iter().map(|_| Measured::default()).collect();
    'rounds: for round in 0..rounds {
        for place in 0..targets.len() {
            let index = (place + round as usize) % targets.len();
            let (Some(target), Some(measured)) = (targets.get(index), all.get_mut(index)) else { continue };
            match measure(target, round) {
                Ok(result) => {
                    let interrupted = result.interrupted;
                    measured.add(target, round, result);
                    measured.tell(round, rounds);
                    if interrupted {
                        break 'rounds;
                    }
                }
                Err(BenchError::Interrupted) => {
                    all.iter_mut().for_each(Measured::interrupt);
                    break 'rounds;
                }
                Err(error @ BenchError::Usage(_)) => return Err(error),
                Err(error) => {
                    eprintln!("round {}/{rounds}  {}: {error}", round + 1, target.connection_string);
                    measured.failures.push(format!("Round {} could not be measured: {error}.", round + 1));
                }
            }
        }
    }
    collect(all)
}

/// What is known of one target.
#[derive(Debug, Default)]
struct Measured {
    result: Option<RunResult>,
    rounds: Vec<u64>,
    failures: Vec<String>,
}

impl Measured {
    fn add(&mut self, target: &NamedTarget, round: u64, new: RunResult) {
        self.rounds.push(round);
        let Some(result) = &mut self.result else {
            let hosts = new.target.hosts.join(", ");
            self.result = Some(RunResult { label: target.label.clone().unwrap_or(hosts), ..new });
            return;
        };
        result.repetitions.extend(new.repetitions);
        result.interrupted |= new.interrupted;
        for warning in new.warnings {
            if !result.warnings.contains(&warning) {
                result.warnings.push(warning);
            }
        }
    }

    fn interrupt(&mut self) {
        self.result.iter_mut().for_each(|result| result.interrupted = true);
    }

    fn tell(&self, round: u64, rounds: u64) {
        let Some(result) = &self.result else { return };
        let Some(last) = result.repetitions.last() else { return };
        eprintln!(
            "round {}/{rounds}  {}: {} ops/s, p99 {} ms, {} errors",
            round + 1,
            result.label,
            amount(last.total.rate),
            amount(last.total.latency.p99_ms),
            count(last.total.error_count())
        );
    }
}

fn collect(all: Vec<Measured>) -> Result<Vec<RunResult>, BenchError> {
    let rounds = all.first().map(|first| first.rounds.clone()).unwrap_or_default();
    let complete = all.iter().all(|measured| measured.rounds == rounds);
    let problems: Vec<String> = all.iter().flat_map(|measured| measured.failures.clone()).collect();
    let mut results = Vec::new();
    for measured in all {
        results.extend(measured.result.map(|mut result| {
            result.warnings.extend(measured.failures);
            result
        }));
    }
    if results.len() < 2 {
        let why = problems.first().map_or("it was interrupted", String::as_str);
        return Err(BenchError::Usage(format!("less than two servers could be measured: {why}")));
    }
    // Rounds that some server lacks cannot be compared round by round.
    let turns = results.first().map(|first| first.started.clone()).filter(|_| complete);
    results.iter_mut().for_each(|result| result.turns.clone_from(&turns));
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::sample::with_rates;

    fn targets() -> Vec<NamedTarget> {
        ["one=mongodb://a/", "mongodb://b/?w=1"].map(|text| text.parse().expect("a target")).to_vec()
    }

    /// Rates of each target, and whether they can be compared round by round.
    fn check(
        measure: impl FnMut(&NamedTarget, u64) -> Result<RunResult, BenchError>,
        expect: (&[(&str, &[f64])], bool),
    ) -> Vec<RunResult> {
        let results = in_turns(&targets(), 3, measure).expect("both are measured");
        let rates: Vec<(String, Vec<f64>)> = results
            .iter()
            .map(|result| {
                let rates = result.repetitions.iter().map(|repetition| repetition.total.rate);
                (result.label.clone(), rates.collect())
            })
            .collect();
        let found: Vec<(&str, &[f64])> =
            rates.iter().map(|(label, rates)| (label.as_str(), rates.as_slice())).collect();
        assert_eq!(found, expect.0);
        assert!(results.iter().all(|result| result.turns.is_some() == expect.1));
        results
    }

    #[test]
    fn names_are_optional() {
        let labels: Vec<Option<String>> = targets().into_iter().map(|target| target.label).collect();
        assert_eq!(labels, [Some("one".to_owned()), None]);
        for wrong in ["localhost:27017", "=mongodb://a/"] {
            assert!(wrong.parse::<NamedTarget>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn targets_take_turns_at_being_first() {
        let mut order = Vec::new();
        let measure = |target: &NamedTarget, round: u64| {
            order.push(format!("{round} {}", target.connection_string));
            Ok(with_rates("x", &[1_000.0 * order.len() as f64]))
        };
        let host = "127.0.0.1:27017";
        check(
            measure,
            (&[("one", &[1_000.0, 4_000.0, 5_000.0]), (host, &[2_000.0, 3_000.0, 6_000.0])], true),
        );
        let expect = ["0 mongodb://a/", "0 mongodb://b/?w=1", "1 mongodb://b/?w=1", "1 mongodb://a/"];
        assert_eq!(order.get(..4).unwrap_or_default(), expect);
    }

    #[test]
    fn a_server_that_fails_in_a_round_is_measured_in_the_next_one() {
        let measure = |target: &NamedTarget, round: u64| match (target.label.is_some(), round) {
            (true, 1) => Err(BenchError::Died { name: "server".into(), status: "signal 9".into() }),
            _ => Ok(with_rates("x", &[1_000.0])),
        };
        let host = "127.0.0.1:27017";
        let results =
            check(measure, (&[("one", &[1_000.0, 1_000.0]), (host, &[1_000.0, 1_000.0, 1_000.0])], false));
        let warnings = results.first().map(|result| result.warnings.join("\n")).unwrap_or_default();
        assert!(warnings.contains("Round 2 could not be measured: the server ended early"), "{warnings}");
    }

    #[test]
    fn an_interrupt_keeps_what_was_measured() {
        let mut times = 0;
        let measure = |_: &NamedTarget, _: u64| {
            times += 1;
            if times > 2 { Err(BenchError::Interrupted) } else { Ok(with_rates("x", &[1_000.0])) }
        };
        let host = "127.0.0.1:27017";
        let results = check(measure, (&[("one", &[1_000.0]), (host, &[1_000.0])], true));
        assert!(results.iter().all(|result| result.interrupted));
    }

    #[test]
    fn one_server_alone_is_no_comparison() {
        let measure = |target: &NamedTarget, _: u64| match target.label {
            Some(_) => Ok(with_rates("x", &[1_000.0])),
            None => Err(BenchError::Died { name: "server".into(), status: "signal 9".into() }),
        };
        let problem = in_turns(&targets(), 2, measure).expect_err("one is left").to_string();
        assert!(problem.contains("signal 9"), "{problem}");
    }
}
