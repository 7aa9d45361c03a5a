//! Documents and commands with generators in them, as trees.

use crate::workload::distribution::Distribution;
use document::Value;

/// A value, or what makes one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Template {
    Constant(Value),
    Document(Vec<(String, Template)>),
    Array(Vec<Template>),
    Generated(Generator),
}

/// What makes values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Generator {
    /// The key of the document that the operation is about.
    Key,
    /// The number of that document, plus this.
    Sequence { start: i64 },
    /// A whole new document of the collection, with the operation's key.
    NewDocument,
    /// A 64-bit integer, both bounds included. Zipfian: the least most often.
    Integer { least: i64, most: i64, zipfian: Option<f64> },
    /// A double, the upper bound excluded.
    Double { least: f64, most: f64 },
    /// Printable characters, as many as the bounds say.
    Text { least: u32, most: u32 },
    /// Random bytes of subtype 0.
    Bytes { length: u32 },
    /// True as often as this share says.
    Boolean { share: f64 },
    /// One of these, in proportion to the weights.
    Choice(Vec<(f64, Template)>),
    /// A random ObjectId with the time of its making.
    ObjectId,
    /// A random UUID (version 4), binary of subtype 4.
    Uuid,
    /// A date between these, in milliseconds since 1970.
    Date { least: i64, most: i64 },
    /// A date this far from the time of its making, in milliseconds.
    FromNow { least: i64, most: i64 },
    /// An array of that many values.
    Array { least: u32, most: u32, of: Box<Template> },
}

/// The longest array that is generated.
pub(crate) const LONGEST_ARRAY: u32 = 1_000;

impl Template {
    /// Nested documents and values in the notation of `doc!`.
    pub(crate) fn constant(value: impl Into<Value>) -> Self {
        Template::Constant(value.into())
    }

    /// A document of these fields.
    pub(crate) fn document<const N: usize>(fields: [(&str, Template); N]) -> Self {
        Template::Document(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Whether this generator occurs anywhere in the tree.
    pub(crate) fn contains(&self, wanted: &dyn Fn(&Generator) -> bool) -> bool {
        match self {
            Template::Constant(_) => false,
            Template::Document(fields) => fields.iter().any(|(_, value)| value.contains(wanted)),
            Template::Array(values) => values.iter().any(|value| value.contains(wanted)),
            Template::Generated(generator) => {
                wanted(generator)
                    || match generator {
                        Generator::Choice(choices) => choices.iter().any(|(_, value)| value.contains(wanted)),
                        Generator::Array { of, .. } => of.contains(wanted),
                        _ => false,
                    }
            }
        }
    }
}

impl Generator {
    /// An integer drawn as this distribution says; only those that need no documents.
    pub(crate) fn integer(least: i64, most: i64, distribution: Distribution) -> Option<Self> {
        match distribution {
            Distribution::Uniform => Some(Generator::Integer { least, most, zipfian: None }),
            Distribution::Zipfian { exponent } => {
                Some(Generator::Integer { least, most, zipfian: Some(exponent) })
            }
            _ => None,
        }
    }
}
