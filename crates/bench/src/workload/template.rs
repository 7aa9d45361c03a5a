//! Documents and commands with generators in them, as trees, and how workload files write them: a table with
//! the key `gen` stands for a generator wherever a value may stand; everything else is a constant.

use crate::workload::distribution::Distribution;
use crate::workload::pattern::Pattern;
use document::{Document, Value};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// Strings and binary values are at most as long as a document.
const LONGEST_TEXT: u32 = 16 * 1024 * 1024;
const LONGEST_ARRAY: u32 = 1_000;

pub(crate) type Fields = Vec<(String, Template)>;

/// A value, or what makes one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Template {
    Constant(Value),
    Document(Fields),
    Array(Vec<Template>),
    Generated(Generator),
}

/// What makes values. Numbers are 64 bits wide.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "gen", rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum Generator {
    /// The key of the document that the operation is about.
    Key {},
    /// The number of that document, plus this.
    Sequence {
        #[serde(default)]
        start: i64,
    },
    /// A whole new document of the collection, with the operation's key.
    Document {},
    /// Both bounds included; uniform, or zipfian: the least most often.
    Integer {
        min: i64,
        max: i64,
        #[serde(default)]
        distribution: Distribution,
    },
    /// The upper bound excluded.
    Double {
        min: f64,
        max: f64,
    },
    /// Printable characters, exactly so many or as many as the bounds say.
    String {
        length: Option<u32>,
        min: Option<u32>,
        max: Option<u32>,
    },
    /// A text with parts in braces that differ, as [`Pattern`] has them.
    Pattern {
        text: Pattern,
    },
    /// Random bytes of subtype 0.
    Bytes {
        length: u32,
    },
    /// True as often as the share says.
    Boolean {
        #[serde(default = "half")]
        share: f64,
    },
    /// One of these, in proportion to the weights.
    Choice {
        #[serde(skip)]
        of: Vec<Template>,
        weights: Option<Vec<f64>>,
    },
    /// A random ObjectId with the time of its making.
    ObjectId {},
    /// A random UUID (version 4), binary of subtype 4.
    Uuid {},
    Date {
        min: Moment,
        max: Moment,
    },
    /// A date so many seconds from the time of its making.
    FromNow {
        min: f64,
        max: f64,
    },
    Array {
        #[serde(skip)]
        of: Box<Template>,
        length: Option<u32>,
        min: Option<u32>,
        max: Option<u32>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Moment(pub(crate) i64);

const fn half() -> f64 {
    0.5
}

/// The least and the most of `length`, or `min` and `max`.
pub(crate) fn lengths(length: Option<u32>, min: Option<u32>, max: Option<u32>) -> Result<(u32, u32), String> {
    match (length, min, max) {
        (Some(length), None, None) => Ok((length, length)),
        (None, Some(min), Some(max)) => Ok((min, max)),
        _ => Err("expected 'length', or 'min' and 'max'".to_owned()),
    }
}

/// Without an offset it is UTC, without a time midnight.
impl TryFrom<String> for Moment {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let in_utc = || text.parse::<DateTime>()?.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp());
        let moment = text.parse::<Timestamp>().or_else(|_| in_utc());
        let moment = moment.map_err(|error| format!("'{text}' is no date: {error}"))?;
        Ok(Moment(moment.as_millisecond()))
    }
}

impl Generator {
    fn read(mut table: toml::Table) -> Result<Self, String> {
        // What is chosen from is taken out first: as part of the whole, dates in it would come as strings.
        let values = table.remove("of").map(Template::try_from).transpose()?;
        let read = Generator::deserialize(toml::Value::Table(table));
        let mut generator = read.map_err(|error| error.message().to_owned())?;
        match (&mut generator, values) {
            (Generator::Choice { of, .. }, Some(Template::Array(values))) => *of = values,
            (Generator::Array { of, .. }, Some(value)) => **of = value,
            (Generator::Choice { .. } | Generator::Array { .. }, _) => {
                return Err("'of' says what the values are; a choice has an array of them".to_owned());
            }
            (_, Some(_)) => return Err("unknown field `of`".to_owned()),
            (_, None) => {}
        }
        generator.check()?;
        Ok(generator)
    }

    fn check(&self) -> Result<(), String> {
        let ordered = |holds: bool| if holds { Ok(()) } else { Err("'max' is below 'min'".to_owned()) };
        let short = |(least, most): (u32, u32), longest: u32| {
            ordered(least <= most)?;
            if most <= longest { Ok(()) } else { Err(format!("a length of at most {longest} is possible")) }
        };
        match self {
            Generator::Integer { min, max, distribution } => match distribution {
                Distribution::Uniform | Distribution::Zipfian { .. } => ordered(min <= max),
                _ => Err("integers are drawn 'uniform' or 'zipfian' (the least most often)".to_owned()),
            },
            Generator::Double { min, max } | Generator::FromNow { min, max } => ordered(min <= max),
            Generator::Date { min, max } => ordered(min <= max),
            Generator::String { length, min, max } => short(lengths(*length, *min, *max)?, LONGEST_TEXT),
            Generator::Array { length, min, max, .. } => short(lengths(*length, *min, *max)?, LONGEST_ARRAY),
            Generator::Bytes { length } => short((0, *length), LONGEST_TEXT),
            Generator::Boolean { share } if !(0.0..=1.0).contains(share) => {
                Err("expected a share from 0 to 1".to_owned())
            }
            Generator::Choice { of, .. } if of.is_empty() => {
                Err("there is nothing to choose from".to_owned())
            }
            Generator::Choice { of, weights: Some(weights) } => {
                let good =
                    weights.iter().all(|weight| *weight >= 0.0) && weights.iter().any(|weight| *weight > 0.0);
                if good && weights.len() == of.len() {
                    return Ok(());
                }
                Err("expected a weight from 0 for each value, and one above 0".to_owned())
            }
            _ => Ok(()),
        }
    }
}

impl Default for Template {
    fn default() -> Self {
        Template::Constant(Value::Null)
    }
}

impl Template {
    /// Nested documents and values in the notation of `doc!`.
    pub(crate) fn constant(value: impl Into<Value>) -> Self {
        Template::Constant(value.into())
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
                        Generator::Choice { of, .. } => of.iter().any(|value| value.contains(wanted)),
                        Generator::Array { of, .. } => of.contains(wanted),
                        _ => false,
                    }
            }
        }
    }

    /// The value of a template without generators.
    pub(crate) fn value(self) -> Option<Value> {
        match self {
            Template::Constant(value) => Some(value),
            Template::Array(values) => {
                values.into_iter().map(Template::value).collect::<Option<Vec<_>>>().map(Value::from)
            }
            Template::Document(fields) => {
                let fields = fields.into_iter().map(|(name, value)| Some((name, value.value()?)));
                fields.collect::<Option<Document>>().map(Value::Document)
            }
            Template::Generated(_) => None,
        }
    }
}

/// Integers are 32 bits wide where they fit.
impl TryFrom<toml::Value> for Template {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Self, String> {
        Ok(match value {
            toml::Value::String(text) => Template::constant(text),
            toml::Value::Integer(wide) => match i32::try_from(wide) {
                Ok(narrow) => Template::constant(narrow),
                Err(_) => Template::constant(wide),
            },
            toml::Value::Float(number) => Template::constant(number),
            toml::Value::Boolean(flag) => Template::constant(flag),
            toml::Value::Datetime(date) => {
                Template::Constant(Value::DateTime(Moment::try_from(date.to_string())?.0))
            }
            toml::Value::Array(values) => {
                let values = values.into_iter().map(Template::try_from);
                Template::Array(values.collect::<Result<_, _>>()?)
            }
            toml::Value::Table(table) if table.contains_key("gen") => {
                Template::Generated(Generator::read(table)?)
            }
            toml::Value::Table(table) => {
                let fields = table.into_iter().map(|(name, value)| Ok((name, Template::try_from(value)?)));
                Template::Document(fields.collect::<Result<_, String>>()?)
            }
        })
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Template::try_from(toml::Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// `#[serde(deserialize_with = …)]`: each field by itself, so that a complaint has its line.
pub(crate) fn fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
    struct Map;
    impl<'de> Visitor<'de> for Map {
        type Value = Fields;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a table")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
            let mut fields = Fields::new();
            while let Some(field) = map.next_entry()? {
                fields.push(field);
            }
            Ok(fields)
        }
    }
    deserializer.deserialize_map(Map)
}
