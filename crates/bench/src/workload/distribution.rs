//! Which documents requests are about: YCSB's key distributions.

use crate::workload::keys::{KeySpace, fnv_hash};
use crate::workload::zipf::{YCSB_EXPONENT, Zipf};
use fastrand::Rng;
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// YCSB draws a rank of so many items and hashes it onto the documents
/// (`ScrambledZipfianGenerator.ITEM_COUNT`): how much the hottest document gets (3.8 % of the requests) does
/// not depend on their number.
const SCRAMBLED_RANKS: u64 = 10_000_000_000;
/// Draws that may hit a document that is not there (yet) before one is taken evenly.
const TRIES: u32 = 64;
/// YCSB's `hotspotdatafraction` and `hotspotopnfraction`.
const HOT_DOCUMENTS: f64 = 0.2;
const HOT_REQUESTS: f64 = 0.8;

/// How documents are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Distribution {
    /// Each as often as any other.
    #[default]
    Uniform,
    /// Few are asked for most of the time; which ones is spread over the whole collection.
    Zipfian { exponent: f64 },
    /// Zipfian by age: the youngest most often.
    Latest { exponent: f64 },
    /// A share of the requests goes to a share of the documents, evenly within both parts.
    Hotspot { documents: f64, requests: f64 },
    /// One after the other.
    Sequential,
}

impl fmt::Display for Distribution {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Uniform => formatter.write_str("uniform"),
            Distribution::Zipfian { exponent } if *exponent == YCSB_EXPONENT => {
                formatter.write_str("zipfian")
            }
            Distribution::Zipfian { exponent } => write!(formatter, "zipfian:{exponent}"),
            Distribution::Latest { exponent } if *exponent == YCSB_EXPONENT => formatter.write_str("latest"),
            Distribution::Latest { exponent } => write!(formatter, "latest:{exponent}"),
            Distribution::Hotspot { documents, requests } => {
                write!(formatter, "hotspot:{documents},{requests}")
            }
            Distribution::Sequential => formatter.write_str("sequential"),
        }
    }
}

impl TryFrom<String> for Distribution {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Distribution {
    type Err = String;

    /// `uniform`, `zipfian[:EXPONENT]`, `latest[:EXPONENT]`, `hotspot[:DOCUMENTS,REQUESTS]` or `sequential`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, details) =
            text.split_once(':').map_or((text, None), |(name, details)| (name, Some(details)));
        let exponent = || match details.map(str::parse::<f64>) {
            None => Ok(YCSB_EXPONENT),
            Some(Ok(exponent)) if exponent > 0.0 && exponent <= 10.0 => Ok(exponent),
            Some(_) => Err(format!("'{text}': the exponent is a number above 0 and at most 10")),
        };
        match (name, details) {
            ("uniform", None) => Ok(Distribution::Uniform),
            ("sequential", None) => Ok(Distribution::Sequential),
            ("zipfian", _) => exponent().map(|exponent| Distribution::Zipfian { exponent }),
            ("latest", _) => exponent().map(|exponent| Distribution::Latest { exponent }),
            ("hotspot", None) => {
                Ok(Distribution::Hotspot { documents: HOT_DOCUMENTS, requests: HOT_REQUESTS })
            }
            ("hotspot", Some(details)) => hotspot(details).ok_or_else(|| {
                format!("'{text}': expected two shares between 0 and 1, such as hotspot:0.2,0.8")
            }),
            _ => Err(format!("'{text}' is not uniform, zipfian, latest, hotspot or sequential")),
        }
    }
}

fn hotspot(details: &str) -> Option<Distribution> {
    let share = |text: &str| text.trim().parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    let (documents, requests) = details.split_once(',')?;
    Some(Distribution::Hotspot { documents: share(documents)?, requests: share(requests)? })
}

/// Chooses documents; one for each thread.
#[derive(Debug, Clone)]
pub(crate) struct KeyChooser {
    distribution: Distribution,
    zipf: Zipf,
    /// The number of ordinals that a scrambled rank is hashed onto. Fixed, or every insert would move the hot
    /// documents.
    scrambled_onto: u64,
}

impl KeyChooser {
    /// `grows`: documents are inserted meanwhile. Up to as many as were loaded take part in a zipfian choice
    /// then, as YCSB reserves room for those that it expects.
    pub(crate) fn new(distribution: Distribution, loaded: u64, grows: bool) -> Self {
        let (ranks, exponent) = match distribution {
            Distribution::Zipfian { exponent } => (SCRAMBLED_RANKS, exponent),
            Distribution::Latest { exponent } => (loaded, exponent),
            Distribution::Uniform | Distribution::Hotspot { .. } | Distribution::Sequential => (1, 1.0),
        };
        let scrambled_onto = (if grows { loaded * 2 } else { loaded }).max(1);
        KeyChooser { distribution, zipf: Zipf::new(ranks, exponent), scrambled_onto }
    }

    /// The ordinal of a document that is there and is followed by at least `followers` that were born after
    /// it (0 when there are not as many).
    #[inline]
    pub(crate) fn choose(&mut self, keys: &KeySpace, followers: u64, random: &mut Rng) -> u64 {
        let bound = keys.bound().saturating_sub(followers).max(1);
        for _ in 0..TRIES {
            let ordinal = self.draw(keys, bound, random);
            if ordinal < bound && keys.is_present(ordinal) {
                return ordinal;
            }
        }
        random.u64(..bound)
    }

    #[inline]
    fn draw(&mut self, keys: &KeySpace, bound: u64, random: &mut Rng) -> u64 {
        match self.distribution {
            Distribution::Uniform => random.u64(..bound),
            Distribution::Zipfian { .. } => fnv_hash(self.zipf.draw(random)) % self.scrambled_onto,
            Distribution::Latest { .. } => {
                self.zipf.resize(bound);
                bound - 1 - self.zipf.draw(random)
            }
            Distribution::Hotspot { documents, requests } => {
                let hot = ((bound as f64 * documents) as u64).min(bound);
                if (random.f64() < requests && hot > 0) || hot == bound {
                    random.u64(..hot)
                } else {
                    hot + random.u64(..bound - hot)
                }
            }
            Distribution::Sequential => keys.visit() % bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::chi_square::{fits, fits_not};
    use crate::workload::keys::Lane;

    const DOCUMENTS: u64 = 1_000;
    const DRAWS: u64 = 1_000_000;

    fn counts(text: &str) -> Vec<u64> {
        let keys = KeySpace::new(DOCUMENTS, DOCUMENTS, Lane::ONLY);
        let mut chooser = KeyChooser::new(text.parse().expect("a distribution"), DOCUMENTS, false);
        let mut random = Rng::with_seed(42);
        let mut counts = vec![0; DOCUMENTS as usize];
        for _ in 0..DRAWS {
            counts[chooser.choose(&keys, 0, &mut random) as usize] += 1;
        }
        counts
    }

    /// Weights of the documents when ranks are hashed onto them: the first ranks one by one, the rest, of
    /// which each document gets thousands, evenly.
    fn scrambled(exponent: f64) -> Vec<f64> {
        const ONE_BY_ONE: u64 = 2_000_000;
        let mut weights = vec![0.0; DOCUMENTS as usize];
        for rank in 0..ONE_BY_ONE {
            weights[(fnv_hash(rank) % DOCUMENTS) as usize] += ((rank + 1) as f64).powf(-exponent);
        }
        let integral = |x: f64| x.powf(1.0 - exponent) / (1.0 - exponent);
        let rest = integral(SCRAMBLED_RANKS as f64 + 0.5) - integral(ONE_BY_ONE as f64 + 0.5);
        weights.iter_mut().for_each(|weight| *weight += rest / DOCUMENTS as f64);
        weights
    }

    fn latest(exponent: f64) -> Vec<f64> {
        (1..=DOCUMENTS).rev().map(|age| (age as f64).powf(-exponent)).collect()
    }

    fn hot(documents: f64, requests: f64) -> Vec<f64> {
        let boundary = (DOCUMENTS as f64 * documents) as u64;
        let weight = |ordinal| {
            if ordinal < boundary { requests / documents } else { (1.0 - requests) / (1.0 - documents) }
        };
        (0..DOCUMENTS).map(weight).collect()
    }

    #[test]
    fn uniform_follows_its_definition() {
        fits(&counts("uniform"), &[1.0; DOCUMENTS as usize], "uniform");
        fits_not(&counts("hotspot:0.5,0.52"), &[1.0; DOCUMENTS as usize], "a slight hotspot");
    }

    #[test]
    fn zipfian_follows_its_definition() {
        fits(&counts("zipfian"), &scrambled(0.99), "zipfian");
        fits_not(&counts("zipfian:0.98"), &scrambled(0.99), "zipfian with another constant");
        let hottest = counts("zipfian").into_iter().max().unwrap_or_default();
        let expected = DRAWS as f64 / 26.469_028_201_783_02;
        assert!(
            (hottest as f64 / expected - 1.0).abs() < 0.05,
            "the hottest of YCSB gets 1 / 26.47 and little more: {hottest}"
        );
    }

    #[test]
    fn latest_follows_its_definition() {
        fits(&counts("latest"), &latest(0.99), "latest");
        fits_not(&counts("latest:0.97"), &latest(0.99), "latest with another constant");
    }

    #[test]
    fn hotspot_follows_its_definition() {
        fits(&counts("hotspot"), &hot(0.2, 0.8), "hotspot by default");
        fits(&counts("hotspot:0.01,0.5"), &hot(0.01, 0.5), "hotspot of 1 %");
        fits_not(&counts("hotspot:0.2,0.79"), &hot(0.2, 0.8), "hotspot with another share");
    }

    #[test]
    fn sequential_visits_every_document_in_turn() {
        let keys = KeySpace::new(3, 3, Lane::ONLY);
        let mut chooser = KeyChooser::new(Distribution::Sequential, 3, false);
        let mut random = Rng::with_seed(1);
        let visited: Vec<u64> = (0..7).map(|_| chooser.choose(&keys, 0, &mut random)).collect();
        assert_eq!(visited, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn latest_sees_what_is_acknowledged_and_nothing_else() {
        let keys = KeySpace::new(10, 10, Lane::ONLY);
        let mut chooser = KeyChooser::new("latest".parse().expect("a distribution"), 10, true);
        let mut random = Rng::with_seed(1);
        let mut chosen = |keys: &KeySpace| -> std::collections::BTreeSet<u64> {
            (0..2_000).map(|_| chooser.choose(keys, 0, &mut random)).collect()
        };
        let [first, second] = [keys.issue(), keys.issue()];
        assert_eq!(chosen(&keys).last(), Some(&9), "nothing was acknowledged yet");
        keys.withdraw(first);
        keys.acknowledge(second);
        let chosen = chosen(&keys);
        assert_eq!(chosen.last(), Some(&second), "the youngest document is chosen");
        assert!(!chosen.contains(&first), "a failed insert is not");
    }

    #[test]
    fn inserted_documents_take_part_in_a_zipfian_choice() {
        let keys = KeySpace::new(100, 100, Lane::ONLY);
        for _ in 0..50 {
            keys.acknowledge(keys.issue());
        }
        let mut chooser = KeyChooser::new("zipfian".parse().expect("a distribution"), 100, true);
        let mut random = Rng::with_seed(1);
        let chosen: Vec<u64> = (0..20_000).map(|_| chooser.choose(&keys, 0, &mut random)).collect();
        assert!(chosen.iter().all(|&ordinal| ordinal < 150));
        assert!(chosen.iter().any(|&ordinal| ordinal >= 100));
    }

    #[test]
    fn ranges_begin_where_enough_documents_follow() {
        for name in ["uniform", "zipfian", "latest", "hotspot", "sequential"] {
            let keys = KeySpace::new(100, 100, Lane::ONLY);
            let mut chooser = KeyChooser::new(name.parse().expect("a distribution"), 100, false);
            let mut random = Rng::with_seed(1);
            for _ in 0..1_000 {
                assert!(chooser.choose(&keys, 90, &mut random) < 10, "{name}");
                assert_eq!(
                    chooser.choose(&keys, 100, &mut random),
                    0,
                    "{name}, fewer documents than the range"
                );
            }
        }
    }

    #[test]
    fn names_of_distributions() {
        let check = |text: &str, expect: &str| {
            let found = text.parse::<Distribution>().map_or_else(|error| error, |found| found.to_string());
            assert_eq!(found, expect, "for '{text}'");
        };
        for name in ["uniform", "zipfian", "zipfian:0.5", "latest", "hotspot:0.1,0.9", "sequential"] {
            check(name, name);
        }
        check("hotspot", "hotspot:0.2,0.8");
        check("zipf", "'zipf' is not uniform, zipfian, latest, hotspot or sequential");
        check("zipfian:-1", "'zipfian:-1': the exponent is a number above 0 and at most 10");
        check("hotspot:2,1", "'hotspot:2,1': expected two shares between 0 and 1, such as hotspot:0.2,0.8");
        check("uniform:1", "'uniform:1' is not uniform, zipfian, latest, hotspot or sequential");
    }
}
