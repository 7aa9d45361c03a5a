//! The series as CSV: one line for each second and kind of operation.

use crate::result::RunResult;
use crate::result::summary::TOTAL;

const HEADINGS: &str = "repetition,second,operation,rate,errors,connections,p50_ms,p99_ms,max_ms\n";

/// Repetitions are counted from 1, seconds from 0; a latency is empty when nothing was answered in that
/// second.
pub(crate) fn text(result: &RunResult) -> String {
    let mut text = HEADINGS.to_owned();
    for (number, repetition) in (1..).zip(&result.repetitions) {
        for second in &repetition.seconds {
            let kinds = second.kinds.iter().map(|kind| (kind.name.as_str(), &kind.figures));
            for (name, figures) in kinds.chain([(TOTAL, &second.all)]) {
                let latencies = [figures.p50_ms, figures.p99_ms, figures.max_ms]
                    .map(|latency| latency.map_or(String::new(), |ms| format!("{ms:.3}")));
                text.push_str(&format!(
                    "{number},{},{},{},{},{},{}\n",
                    second.second,
                    quoted(name),
                    figures.rate,
                    figures.errors,
                    second.connections,
                    latencies.join(",")
                ));
            }
        }
    }
    text
}

/// In quotes when it would be something else than one value without (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::sample;

    #[test]
    fn a_line_for_each_second_and_kind() {
        let mut result = sample::full();
        for kind in result.repetitions.iter_mut().flat_map(|repetition| &mut repetition.seconds) {
            kind.kinds.iter_mut().take(1).for_each(|kind| kind.name = "find, \"all\"".into());
        }
        let text = text(&result);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 2 * 30 * 3);
        assert_eq!(lines.first().copied(), Some(HEADINGS.trim()));
        assert_eq!(lines.get(1).copied(), Some("1,0,\"find, \"\"all\"\"\",30000,0,64,1.067,4.267,32.000"));
        assert_eq!(lines.get(3).copied(), Some("1,0,total,60000,0,64,1.067,4.800,42.667"));
        assert_eq!(lines.get(1 + 15 * 3).copied(), Some("1,15,\"find, \"\"all\"\"\",0,0,62,,,"));
        assert!(lines.last().is_some_and(|line| line.starts_with("2,29,total,")));
    }
}
