//! Several servers under the same load in turns, so that what disturbs the machine disturbs all of them.

use crate::error::BenchError;
use crate::result::RunResult;
use crate::result::number::{amount, count};

/// Measures so many servers once in every round, each round beginning with another one. What `measure` gives
/// of a server and a round has one repetition; all rounds of a server become one result. One that fails in a
/// round is tried again in the next one.
///
/// # Errors
/// When what is asked for is impossible, or less than two servers could be measured at all.
pub(crate) fn in_turns(
    servers: usize,
    rounds: u32,
    mut measure: impl FnMut(usize, u32) -> Result<RunResult, BenchError>,
) -> Result<Vec<RunResult>, BenchError> {
    let mut all: Vec<Measured> = (0..servers).map(|_| Measured::default()).collect();
    'rounds: for round in 0..rounds {
        for place in 0..servers {
            let server = (place + round as usize) % servers;
            let Some(measured) = all.get_mut(server) else { continue };
            match measure(server, round) {
                Ok(result) => {
                    let interrupted = result.interrupted;
                    measured.add(round, result);
                    if interrupted {
                        break 'rounds;
                    }
                    measured.tell(round, rounds);
                }
                Err(BenchError::Interrupted) => {
                    all.iter_mut().for_each(Measured::interrupt);
                    break 'rounds;
                }
                Err(error @ BenchError::Usage(_)) => return Err(error),
                Err(error) => {
                    eprintln!("round {}/{rounds}  server {}: {error}", round + 1, server + 1);
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
    rounds: Vec<u32>,
    failures: Vec<String>,
    interrupted: bool,
}

impl Measured {
    /// A round that was cut short is kept only when there is nothing else: it is no repetition of the others.
    fn add(&mut self, round: u32, new: RunResult) {
        self.interrupted |= new.interrupted;
        if new.interrupted && self.result.is_some() {
            self.interrupt();
            return;
        }
        self.rounds.push(round);
        let Some(result) = &mut self.result else {
            self.result = Some(new);
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
        self.interrupted = true;
        self.result.iter_mut().for_each(|result| result.interrupted = true);
    }

    fn tell(&self, round: u32, rounds: u32) {
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
    let interrupted = all.iter().any(|measured| measured.interrupted);
    let mut results = Vec::new();
    for measured in all {
        results.extend(measured.result.map(|mut result| {
            result.warnings.extend(measured.failures);
            result
        }));
    }
    if results.len() < 2 && interrupted {
        return Err(BenchError::Interrupted);
    }
    if results.len() < 2 {
        let why = problems.first().map_or("nothing was measured", String::as_str);
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

    /// Rates of each server, and whether they can be compared round by round.
    fn check(
        measure: impl FnMut(usize, u32) -> Result<RunResult, BenchError>,
        expect: (&[&[f64]], bool),
    ) -> Vec<RunResult> {
        let results = in_turns(2, 3, measure).expect("both are measured");
        let rates: Vec<Vec<f64>> = results
            .iter()
            .map(|result| result.repetitions.iter().map(|repetition| repetition.total.rate).collect())
            .collect();
        assert_eq!(rates, expect.0);
        assert!(results.iter().all(|result| result.turns.is_some() == expect.1));
        results
    }

    fn died() -> Result<RunResult, BenchError> {
        Err(BenchError::Died { name: "server".into(), status: "signal 9".into() })
    }

    #[test]
    fn servers_take_turns_at_being_first() {
        let mut order = Vec::new();
        let measure = |server, round| {
            order.push((round, server));
            Ok(with_rates("x", &[1_000.0 * order.len() as f64]))
        };
        check(measure, (&[&[1_000.0, 4_000.0, 5_000.0], &[2_000.0, 3_000.0, 6_000.0]], true));
        assert_eq!(order, [(0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (2, 1)]);
    }

    #[test]
    fn a_server_that_fails_in_a_round_is_measured_in_the_next_one() {
        let measure = |server, round| match (server, round) {
            (0, 1) => died(),
            _ => Ok(with_rates("x", &[1_000.0])),
        };
        let results = check(measure, (&[&[1_000.0, 1_000.0], &[1_000.0, 1_000.0, 1_000.0]], false));
        let warnings = results.first().map(|result| result.warnings.join("\n")).unwrap_or_default();
        assert!(warnings.contains("Round 2 could not be measured: the server ended early"), "{warnings}");
    }

    #[test]
    fn an_interrupt_keeps_what_was_measured() {
        let mut times = 0;
        let measure = |_, _| {
            times += 1;
            if times > 2 { Err(BenchError::Interrupted) } else { Ok(with_rates("x", &[1_000.0])) }
        };
        let results = check(measure, (&[&[1_000.0], &[1_000.0]], true));
        assert!(results.iter().all(|result| result.interrupted));
    }

    #[test]
    fn a_round_that_is_cut_short_does_not_spoil_the_others() {
        let measure = |_, round| {
            let mut result = with_rates("x", &[if round == 0 { 1_000.0 } else { 0.0 }]);
            result.interrupted = round > 0;
            Ok(result)
        };
        let results = check(measure, (&[&[1_000.0], &[1_000.0]], true));
        assert!(results.iter().any(|result| result.interrupted));
    }

    #[test]
    fn an_interrupt_before_there_are_two_is_nothing_else() {
        let measure = |_, _| {
            let mut result = with_rates("x", &[1_000.0]);
            result.interrupted = true;
            Ok(result)
        };
        let ended = in_turns(2, 2, measure);
        assert!(matches!(ended, Err(BenchError::Interrupted)), "{ended:?}");
    }

    #[test]
    fn one_server_alone_is_no_comparison() {
        let measure = |server, _| if server == 0 { Ok(with_rates("x", &[1_000.0])) } else { died() };
        let problem = in_turns(2, 2, measure).expect_err("one is left").to_string();
        assert!(problem.contains("signal 9"), "{problem}");
    }
}
