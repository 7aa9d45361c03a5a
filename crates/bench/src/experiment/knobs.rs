//! S4, third part: the knobs that the article turned, one after the other beside a load; each stays as it was
//! turned. A knob that the server does not know is told and left out.

use super::column::{Column, RATE};
use super::findings::Measurement;
use super::load::Load;
use super::measure::Visit;
use super::steady::{LATENCIES, Seconds};
use crate::chart;
use crate::command_client::{CommandClient, is_ok, message_of};
use crate::error::BenchError;
use crate::generator::Outcome;
use crate::result::{Place, Table};
use document::{Document, doc};
use std::time::Duration;

/// Of the most that the server takes.
const SHARE_OF_MOST: f64 = 0.7;
const REPLY_PATIENCE: Duration = Duration::from_secs(60);

const TURNED: Column = Column::other("knobs turned", 0);
const FIRST: [&str; 3] = ["as started mean ms", "as started p99 ms", "as started max ms"];
const LAST: [&str; 3] = ["all turned mean ms", "all turned p99 ms", "all turned max ms"];

/// What is set together.
struct Knob {
    /// What the article did, and its figures.
    article: &'static str,
    /// Names of `setParameter` and values.
    settings: Vec<(&'static str, i64)>,
}

/// What the article began with, as far as a server knows it.
const BEGUN_WITH: [(&str, i64); 4] =
    [("dirtyTarget", 5), ("dirtyTrigger", 20), ("syncdelay", 60), ("journalSizeMB", 2_048)];

/// In the article's order. Sizes follow the data: the article's cache was 110 GB and became 50.
fn knobs(cache_mib: u64) -> Vec<Knob> {
    let knob = |article, settings: &[(&'static str, i64)]| Knob { article, settings: settings.to_vec() };
    let smaller = i64::try_from(cache_mib * 5 / 11).unwrap_or(i64::MAX).max(1);
    vec![
        knob("a smaller cache, 110 → 50 GB", &[("cacheSizeMB", smaller)]),
        knob("dirty target 5 → 3 %", &[("dirtyTarget", 3)]),
        knob("dirty trigger 20 → 25 %", &[("dirtyTrigger", 25)]),
        knob("threads 4 → 8 to 12", &[("backgroundThreadsMax", 12), ("backgroundThreadsMin", 8)]),
        knob("checkpoints every 60 → 25 s", &[("syncdelay", 25)]),
        knob("journal between checkpoints 2 → 1 GB", &[("journalSizeMB", 1_024)]),
        knob("not the article's: the journal's interval", &[("journalCommitInterval", 50)]),
        knob("everything within 5 ms, as the end goal", &[("latencyTargetMs", 5)]),
    ]
}

impl Visit<'_> {
    pub(super) fn knobs(&self) -> Result<Measurement, BenchError> {
        let settings = self.settings;
        let mut served = settings.serve_beyond_cache(self.subject, Load::Writes)?;
        let rate = self.share_of(self.most(&mut served)?, SHARE_OF_MOST);
        let mut fleet = self.open(&served, vec![self.writes(rate)?])?;
        let mut client = CommandClient::connect_within(served.address, REPLY_PATIENCE)?;
        for setting in BEGUN_WITH {
            // What a server does not know it has not, and the row of the knob says so.
            turn(&mut client, &[setting])?;
        }
        let mut told = Told::default();
        let outcome = self.part(&mut fleet, settings.part_of_long(), &mut || ())?;
        told.add("as started", "as started", &outcome);
        for knob in knobs(settings.tenth_of_data_mib()) {
            let words: Vec<String> =
                knob.settings.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            match turn(&mut client, &knob.settings)? {
                Some(refusal) => told.leave_out(&words.join(", "), knob.article, &refusal),
                None => {
                    let outcome = self.part(&mut fleet, settings.part_of_long(), &mut || ())?;
                    told.add(&words.join(", "), knob.article, &outcome);
                }
            }
        }
        served.check_alive()?;
        Ok(told.measurement())
    }
}

/// Turns a knob; what the server has against it.
fn turn(client: &mut CommandClient, settings: &[(&'static str, i64)]) -> Result<Option<String>, BenchError> {
    let mut command: Document = doc! { "setParameter": 1 };
    for (name, value) in settings {
        command.push(*name, *value);
    }
    command.push("$db", "admin");
    let reply = client.command(&command)?;
    Ok((!is_ok(&reply)).then(|| message_of(&reply)))
}

/// What came of each knob.
#[derive(Default)]
struct Told {
    measurement: Measurement,
    rows: Vec<Vec<Place>>,
    seconds: f64,
    turned: usize,
    first: Option<Vec<f64>>,
    last: Vec<f64>,
}

impl Told {
    fn add(&mut self, words: &str, article: &str, outcome: &Outcome) {
        let (latencies, seconds) = (outcome.latencies(), Seconds::from(outcome));
        let values = LATENCIES.map(Column::named).map(|column| (column, column.of(&latencies)));
        let mut row: Vec<Place> = vec![words.into(), format!("{:.0}", outcome.rate()).into()];
        row.extend(values.iter().map(|(column, value)| format!("{value:.*}", column.decimals).into()));
        row.extend([format!("{:.2}", seconds.slowest_of_median()).into(), article.into()]);
        self.rows.push(row);
        let [mean, _, p99, _, longest] = values.map(|(_, value)| value);
        self.last = vec![mean, p99, longest];
        if self.first.is_none() {
            self.first = Some(self.last.clone());
            self.measurement.figures.push((RATE, outcome.rate()));
        } else {
            self.turned += 1;
        }
        // The legend would not hold the names of all: colours tell one from the next.
        let name: &'static str = words.to_owned().leak();
        let traces = seconds.traces(self.seconds, Some((name, chart::colour(self.turned))));
        self.seconds += seconds.0.len() as f64;
        self.measurement = std::mem::take(&mut self.measurement).counting(outcome).tracing(traces);
    }

    fn leave_out(&mut self, words: &str, article: &str, refusal: &str) {
        let mut row: Vec<Place> = vec![words.into()];
        row.extend((0..LATENCIES.len() + 2).map(|_| Place::from("–")));
        let why =
            if refusal.contains("unrecognized parameter") { "the server does not know it" } else { refusal };
        row.push(format!("{article}; left out: {why}").into());
        self.rows.push(row);
    }

    fn measurement(self) -> Measurement {
        let headings = ["setParameter", "requests/s"].into_iter().chain(LATENCIES);
        let mut table = Table::new(headings.chain(["slowest second of median", "what the article did"]));
        table.ends_in_text = true;
        table.rows = self.rows;
        let figures =
            |names: [&'static str; 3], values: Vec<f64>| names.map(Column::named).into_iter().zip(values);
        let mut measurement = self
            .measurement
            .with(figures(FIRST, self.first.unwrap_or_default()))
            .with(figures(LAST, self.last))
            .with([(TURNED, self.turned as f64)]);
        measurement.tables.push(("Each knob stays as it was turned".to_owned(), table));
        measurement
    }
}
