//! How outcomes go from one process to another: histograms and maps as lists of pairs.

use crate::generator::series::Tally;
use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `#[serde(with = …)]` for a histogram of latencies: the values that were seen, and how often.
pub(super) mod latencies {
    use super::*;
    use serde::de::Error;

    pub(crate) fn serialize<S: Serializer>(
        histogram: &Histogram<u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())),
        )
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Histogram<u64>, D::Error> {
        let pairs = Vec::<(u64, u64)>::deserialize(deserializer)?;
        let mut histogram = Tally::histogram().map_err(D::Error::custom)?;
        for (value, count) in pairs {
            histogram.saturating_record_n(value, count);
        }
        Ok(histogram)
    }
}

/// `#[serde(with = …)]` for a map whose keys are no strings.
pub(super) mod pairs {
    use super::*;
    use std::collections::BTreeMap;

    pub(crate) fn serialize<K: Serialize, S: Serializer>(
        map: &BTreeMap<K, u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(crate) fn deserialize<'de, K: Deserialize<'de> + Ord, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<K, u64>, D::Error> {
        Ok(Vec::<(K, u64)>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::generator::outcome::KindOutcome;
    use crate::generator::series::{Second, Tally};
    use crate::generator::traffic::{Failure, FailureKind};

    #[test]
    fn outcomes_survive_the_way() {
        let mut tally = Tally::new("read".to_owned()).expect("a tally");
        for latency in [1, 80, 3_000, 999_999, 60_000_000_000] {
            tally.record(latency * 1_000, true);
        }
        tally.count_failure(
            Failure { kind: FailureKind::Server, code: Some(462), name: "Overloaded".into() },
            7,
        );
        tally.end_second(&mut Second::default());
        let sent = tally.finish();
        let text = serde_json::to_string(&sent).expect("JSON");
        let came: KindOutcome = serde_json::from_str(&text).expect("the same shape");
        assert_eq!(came.latency_us, sent.latency_us);
        assert_eq!((came.operations, &came.errors, &came.seconds), (5, &sent.errors, &sent.seconds));
        assert_eq!(came.errors.values().sum::<u64>(), 7);
    }
}
