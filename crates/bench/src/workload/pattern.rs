//! Texts as people and programs write them: constant parts, and in braces what differs.
//!
//! `{word}`, `{words:3-8}` (of a vocabulary, few of them most often), `{digits:6}`, `{hex:40}`, and
//! `{number}`, the document's. With a mark, as in `{word#owner}`, what is made is the same wherever the mark
//! stands in a document.

use crate::workload::keys::fnv_hash;
use crate::workload::zipf::Zipf;
use fastrand::Rng;
use std::sync::LazyLock;

/// How uneven natural language is.
const EXPONENT: f64 = 0.99;
/// Texts of patterns are no longer than a document's other texts.
const MOST: u32 = 10_000;
static VOCABULARY: LazyLock<Vec<&str>> =
    LazyLock::new(|| include_str!("corpora/words.txt").split_whitespace().collect());
static RANKS: LazyLock<Zipf> = LazyLock::new(|| Zipf::new(VOCABULARY.len() as u64, EXPONENT));

/// A text with parts that differ from document to document.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Pattern(Vec<Part>);

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Constant(String),
    Made { kind: Made, least: u32, most: u32, mark: Option<u64> },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Made {
    Words,
    Digits,
    Hex,
    Number,
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text.as_str();
        while let Some((before, behind)) = rest.split_once('{') {
            let (within, after) =
                behind.split_once('}').ok_or(format!("a brace of '{text}' is not closed"))?;
            parts.push(Part::Constant(before.to_owned()));
            parts.push(Part::read(within)?);
            rest = after;
        }
        parts.push(Part::Constant(rest.to_owned()));
        parts.retain(|part| !matches!(part, Part::Constant(text) if text.is_empty()));
        Ok(Pattern(parts))
    }
}

impl Part {
    fn read(text: &str) -> Result<Self, String> {
        let (text, mark) = text.split_once('#').map_or((text, None), |(text, mark)| (text, Some(mark)));
        let (name, size) = text.split_once(':').unwrap_or((text, "1"));
        let kind = match name {
            "word" | "words" => Made::Words,
            "digits" => Made::Digits,
            "hex" => Made::Hex,
            "number" => Made::Number,
            _ => return Err(format!("'{{{name}}}' is not word, words, digits, hex or number")),
        };
        let (least, most) = size.split_once('-').unwrap_or((size, size));
        let number = |text: &str| text.parse().ok().filter(|number| *number <= MOST);
        let (Some(least), Some(most)) = (number(least), number(most)) else {
            return Err(format!("'{size}' is no number up to {MOST}, nor two of them as in 3-8"));
        };
        if most < least {
            return Err(format!("'{size}' ends before it begins"));
        }
        let hash = |mark: &str| {
            mark.bytes().fold(0_u64, |sum, byte| fnv_hash(sum.wrapping_mul(257) ^ u64::from(byte)))
        };
        Ok(Part::Made { kind, least, most, mark: mark.map(hash) })
    }

    fn append(&self, number: u64, random: &mut Rng, out: &mut Vec<u8>) {
        match self {
            Part::Constant(text) => out.extend_from_slice(text.as_bytes()),
            Part::Made { kind, least, most, mark: None } => kind.append(*least..=*most, number, random, out),
            Part::Made { kind, least, most, mark: Some(mark) } => {
                let mut own = Rng::with_seed(fnv_hash(mark ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
                kind.append(*least..=*most, number, &mut own, out);
            }
        }
    }
}

impl Made {
    fn append(self, size: std::ops::RangeInclusive<u32>, number: u64, random: &mut Rng, out: &mut Vec<u8>) {
        if self == Made::Number {
            return out.extend_from_slice(number.to_string().as_bytes());
        }
        let size = random.u32(size);
        for place in 0..size {
            match self {
                Made::Words => {
                    if place > 0 {
                        out.push(b' ');
                    }
                    let word = VOCABULARY.get(RANKS.draw(random) as usize).copied().unwrap_or_default();
                    out.extend_from_slice(word.as_bytes());
                }
                Made::Digits => out.push(b'0' + random.u8(0..10)),
                Made::Hex => out.push(b"0123456789abcdef".get(random.usize(0..16)).copied().unwrap_or(b'0')),
                Made::Number => {}
            }
        }
    }
}

impl Pattern {
    /// Appends the text for this document.
    pub(crate) fn append(&self, number: u64, random: &mut Rng, out: &mut Vec<u8>) {
        self.0.iter().for_each(|part| part.append(number, random, out));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pattern: &str, number: u64, seed: u64) -> String {
        let pattern = Pattern::try_from(pattern.to_owned()).expect("a pattern");
        let mut out = Vec::new();
        pattern.append(number, &mut Rng::with_seed(seed), &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn what_is_in_braces_differs() {
        assert_eq!(text("issue {number} of {number}", 12, 1), "issue 12 of 12");
        let found = text("{digits:3}-{hex:40}", 1, 1);
        assert_eq!((found.len(), found.find('-')), (44, Some(3)));
        assert_ne!(found, text("{digits:3}-{hex:40}", 1, 2));
        let words = text("{words:3-8}", 1, 5);
        assert!((3..=8).contains(&words.split(' ').count()), "{words}");
    }

    #[test]
    fn marks_repeat_within_a_document_and_not_in_the_next_one() {
        let owner = |number, seed| text("{words:4#owner}|{words:4#owner}|{words:4#other}", number, seed);
        let first = owner(1, 1);
        let parts: Vec<&str> = first.split('|').collect();
        assert_eq!(parts[0], parts[1]);
        assert_ne!(parts[0], parts[2]);
        assert_eq!(first, owner(1, 2), "whatever else was drawn");
        assert_ne!(first, owner(2, 1));
    }

    #[test]
    fn nonsense_is_refused() {
        for (pattern, expect) in [
            ("{word", "is not closed"),
            ("{verb}", "is not word, words, digits, hex or number"),
            ("{hex:x}", "is no number"),
            ("{words:9-3}", "ends before it begins"),
        ] {
            let error = Pattern::try_from(pattern.to_owned()).expect_err(pattern);
            assert!(error.contains(expect), "{pattern}: {error}");
        }
    }
}
