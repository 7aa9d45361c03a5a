//! Medians, ratios and the table.

use crate::generator::Outcome;
use crate::scenario::Scenario;

/// One scenario in one round.
pub(crate) struct Sample {
    pub(crate) server: Outcome,
    pub(crate) echo: Option<Outcome>,
}

/// All rounds of one scenario.
pub(crate) struct Series {
    pub(crate) scenario: Scenario,
    pub(crate) connections: usize,
    pub(crate) stored: i32,
    pub(crate) samples: Vec<Sample>,
}

/// The middle of the values; 0 when there is none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = values.get(middle).copied().unwrap_or_default();
    if values.len() % 2 == 1 {
        return upper;
    }
    let lower = middle.checked_sub(1).and_then(|index| values.get(index)).copied().unwrap_or_default();
    (lower + upper) / 2.0
}

impl Series {
    fn median_of(&self, figure: impl Fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(figure).collect())
    }

    fn percentile_ms(&self, quantile: f64) -> f64 {
        self.median_of(|sample| sample.server.quantile_ms(quantile))
    }

    fn row(&self) -> String {
        let rate = self.median_of(|sample| sample.server.rate());
        let errors: u64 = self.samples.iter().map(|sample| sample.server.error_count()).sum();
        let longest = self.samples.iter().map(|sample| sample.server.longest_ms()).fold(0.0, f64::max);
        let (echo_rate, ratio) = if self.samples.iter().all(|sample| sample.echo.is_some()) {
            let echo_rate = |sample: &Sample| sample.echo.as_ref().map_or(0.0, Outcome::rate);
            let ratio = self.median_of(|sample| 100.0 * sample.server.rate() / echo_rate(sample));
            (format!("{:.0}", self.median_of(echo_rate)), format!("{ratio:.0} %"))
        } else {
            ("–".to_owned(), "–".to_owned())
        };
        format!(
            "| {} | {} | {rate:.0} | {:.2} M | {echo_rate} | {ratio} | {:.2} | {:.2} | {:.2} | {:.1} | {errors} |",
            self.scenario.name(),
            self.connections,
            rate * self.scenario.documents_per_request(self.stored) as f64 / 1e6,
            self.median_of(|sample| sample.server.mean_ms()),
            self.percentile_ms(0.50),
            self.percentile_ms(0.99),
            longest,
        )
    }
}

/// The table of all series in Markdown, with the errors by name below it.
pub(crate) fn table(all: &[Series]) -> String {
    let mut text = String::from(
        "| scenario | connections | requests/s | documents/s | echo/s | of the echo | mean ms | p50 ms | p99 ms | max ms | errors |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for series in all {
        text.push_str(&series.row());
        text.push('\n');
    }
    for series in all {
        for sample in &series.samples {
            for (what, times) in sample.server.errors() {
                text.push_str(&format!("error in {}: {what} ({times} times)\n", series.scenario.name()));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let check =
            |values: &[f64], expect: f64| assert_eq!(median(values.to_vec()), expect, "for {values:?}");
        check(&[], 0.0);
        check(&[3.0], 3.0);
        check(&[3.0, 1.0], 2.0);
        check(&[9.0, 1.0, 5.0], 5.0);
    }
}
