//! Kinds of figures.

use crate::generator::{Latencies, Outcome};
use crate::result::median;
use serde::{Deserialize, Deserializer};

/// What a column's figure is of what a group of connections saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    /// Good requests a second.
    Rate,
    /// Documents that they looked at, in millions a second.
    Documents,
    Mean,
    /// The latency that so many of a thousand requests did not exceed.
    PerMille(u16),
    Longest,
    /// Connections that were open when the load began.
    Connected,
    /// Requests that were answered.
    Answered,
    /// Figured out otherwise.
    Other,
}

/// A kind of figure. Its name is its heading and tells what it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) decimals: usize,
    figure: Figure,
}

impl<'de> Deserialize<'de> for Column {
    /// The name is kept for as long as the program runs, so that a column can be copied.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Column::named(String::deserialize(deserializer)?.leak()))
    }
}

pub(crate) const RATE: Column = Column { name: "requests/s", decimals: 0, figure: Figure::Rate };
#[cfg(test)]
pub(crate) const P99: Column = Column { name: "p99 ms", decimals: 2, figure: Figure::PerMille(990) };
#[cfg(test)]
pub(crate) const LONGEST: Column = Column { name: "max ms", decimals: 1, figure: Figure::Longest };
pub(crate) const CONNECTED: Column = Column { name: "connected", decimals: 0, figure: Figure::Connected };
/// Share of a core that the generator used; near 100 it is itself the limit.
pub(crate) const GENERATOR: Column = Column::other("generator %", 0);
/// Share of the machine's processor time that its host withheld while the cell was measured: where it is
/// high, its figures are low.
pub(crate) const STOLEN: Column = Column::other("stolen %", 1);
/// Connections of the row.
pub(crate) const CONNECTIONS: Column = Column::other("connections", 0);
/// Failed requests of all rounds.
pub(crate) const ERRORS: Column = Column::other("errors", 0);
/// Failed requests of all requests in all rounds.
pub(crate) const FAILED: Column = Column::other("% failed", 1);
/// First-level data misses of all data references.
pub(crate) const MISSES: Column = Column::other("% missed", 3);

/// How the names of figures begin that have no decimals and are no rates.
const COUNTS: [&str; 4] = ["% of", "seconds ", "deleted ", "left "];

impl Column {
    pub(crate) const fn other(name: &'static str, decimals: usize) -> Self {
        Column { name, decimals, figure: Figure::Other }
    }

    /// What a name says: its words tell of which figure it is.
    pub(crate) fn named(name: &'static str) -> Self {
        let known = [CONNECTED, GENERATOR, STOLEN, CONNECTIONS, ERRORS, FAILED, MISSES];
        if let Some(known) = known.into_iter().find(|known| known.name == name) {
            return known;
        }
        let mut words = name.split(' ').filter(|_| name.ends_with(" ms"));
        let latency = words.find_map(|word| match word {
            "mean" => Some((Figure::Mean, 2)),
            "max" => Some((Figure::Longest, 1)),
            "p50" => Some((Figure::PerMille(500), 2)),
            "p95" => Some((Figure::PerMille(950), 2)),
            "p99" => Some((Figure::PerMille(990), 2)),
            "p99.9" => Some((Figure::PerMille(999), 2)),
            _ => None,
        });
        let (figure, decimals) = latency.unwrap_or(match name {
            "M documents/s" => (Figure::Documents, 2),
            _ if name.ends_with("/s") => (Figure::Rate, 0),
            _ if name.ends_with(" replies") => (Figure::Answered, 0),
            _ if COUNTS.iter().any(|of| name.starts_with(of)) => (Figure::Other, 0),
            _ => (Figure::Other, 2),
        });
        Column { name, decimals, figure }
    }

    /// Latencies differ by powers of ten.
    pub(crate) fn is_latency(self) -> bool {
        self.name.ends_with(" ms")
    }

    /// The figure of these latencies.
    pub(crate) fn of(self, latencies: &Latencies) -> f64 {
        match self.figure {
            Figure::Mean => latencies.mean_ms(),
            Figure::PerMille(share) => latencies.quantile_ms(f64::from(share) / 1_000.0),
            Figure::Longest => latencies.longest_ms(),
            Figure::Answered => latencies.count() as f64,
            Figure::Rate | Figure::Documents | Figure::Connected | Figure::Other => f64::NAN,
        }
    }

    /// The figure of what a group saw whose every request looks at so many documents.
    pub(crate) fn of_group(self, outcome: &Outcome, latencies: &Latencies, documents: u64) -> f64 {
        match self.figure {
            Figure::Rate => outcome.rate(),
            Figure::Documents => outcome.rate() * documents as f64 / 1e6,
            Figure::Connected => outcome.connected as f64,
            _ => self.of(latencies),
        }
    }

    /// One figure of several rounds': their median, but the worst of what must not be forgotten.
    pub(crate) fn over_rounds(self, values: impl Iterator<Item = f64>) -> Option<f64> {
        match self.figure {
            Figure::Longest => values.reduce(f64::max),
            Figure::Connected => values.reduce(f64::min),
            _ => Some(values.collect::<Vec<f64>>()).filter(|some| !some.is_empty()).map(median),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_of_what_they_are() {
        let check = |name, figure, decimals| {
            let found = Column::named(name);
            assert_eq!((found.figure, found.decimals), (figure, decimals), "{name}");
        };
        check("paced p99 beside slow ms", Figure::PerMille(990), 2);
        check("update max ms", Figure::Longest, 1);
        check("slow/s", Figure::Rate, 0);
        check("monitor replies", Figure::Answered, 0);
        check("times alone", Figure::Other, 2);
        check("% of the echo", Figure::Other, 0);
        check("seconds under half", Figure::Other, 0);
        assert_eq!(["requests/s", "p99 ms", "max ms"].map(Column::named), [RATE, P99, LONGEST]);
    }
}
