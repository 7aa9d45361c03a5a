//! Values, documents, names and paths.

use document::{Array, Decimal128, Document, ObjectId, Timestamp, Value};

use crate::source::Source;

/// The names of fields. Few, so that what is generated speaks of what is there.
const FIELDS: &[&str] = &["a", "b", "c", "d"];
const ODD_FIELDS: &[&str] = &["", "0", "1", "_id", "a.b", "$a", "é", "$$", "a\u{301}", "x y"];
const PATHS: &[&str] =
    &["a", "b", "c", "a.b", "a.c", "b.a", "a.0", "a.b.c", "a.0.b", "a.1", "_id", "a.b.0", "c.d", "_id.a"];
const ODD_PATHS: &[&str] =
    &["", ".", "a.", ".a", "a..b", "$a", "a.$b", "00", "a.00", "a.-1", "a.1000000", "é.b"];
const TEXTS: &[&str] =
    &["", "a", "ab", "abc", "b", "A", "aé", "ß", "0", "-1", "1.5", "true", "2024-02-29", "\n", "a.b"];
const DECIMALS: &[&str] = &[
    "0",
    "-0",
    "1",
    "1.0",
    "1.50",
    "-3",
    "NaN",
    "Infinity",
    "-Infinity",
    "1E6144",
    "1E-6176",
    "0E+10",
    "9999999999999999999999999999999999",
    "0.1",
    "9223372036854775807",
    "9223372036854775808",
];
const DOUBLES: &[f64] = &[
    0.0,
    -0.0,
    1.0,
    1.5,
    -2.5,
    0.1,
    1e300,
    -1e300,
    5e-324,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    9_007_199_254_740_993.0,
    9.3e18,
    -9.3e18,
    2_147_483_648.0,
];
const INTEGERS: &[i64] = &[
    i64::MAX,
    i64::MIN,
    i64::MAX - 1,
    1 << 53,
    (1 << 53) + 1,
    1 << 31,
    (1 << 31) - 1,
    -(1 << 31),
    1 << 62,
    0,
    86_400_000,
];

pub(crate) fn field(source: &mut Source<'_>) -> String {
    let odd = source.one_in(24);
    source.pick(if odd { ODD_FIELDS } else { FIELDS }).to_owned()
}

pub(crate) fn path(source: &mut Source<'_>) -> String {
    let odd = source.one_in(24);
    source.pick(if odd { ODD_PATHS } else { PATHS }).to_owned()
}

pub(crate) fn text(source: &mut Source<'_>) -> String {
    match source.one_in(8) {
        true => String::from_utf8_lossy(source.bytes(12)).into_owned(),
        false => source.pick(TEXTS).to_owned(),
    }
}

/// Mostly a small number.
pub(crate) fn int(source: &mut Source<'_>) -> Value {
    match source.below(16) {
        0..=11 => Value::Int32(source.below(6) as i32 - 1),
        12 => Value::Int64(source.below(6) as i64 - 1),
        13 => Value::Double(source.below(6) as f64 - 1.0),
        14 => Value::Int64(source.pick(INTEGERS)),
        _ => number(source),
    }
}

fn number(source: &mut Source<'_>) -> Value {
    match source.below(8) {
        0 => Value::Int32(source.any()),
        1 => Value::Int64(source.any()),
        2 => Value::Double(f64::from_bits(source.any())),
        3 | 4 => Value::Double(source.pick(DOUBLES)),
        5 => Value::Int64(source.pick(INTEGERS)),
        _ => {
            let written = source.pick(DECIMALS);
            Value::Decimal128(written.parse::<Decimal128>().expect("the list has numbers"))
        }
    }
}

fn object_id(source: &mut Source<'_>) -> ObjectId {
    let mut bytes = [0; 12];
    bytes[11] = source.below(4) as u8;
    ObjectId::from_bytes(bytes)
}

fn scalar(source: &mut Source<'_>) -> Value {
    match source.below(32) {
        0..=9 => int(source),
        10..=12 => number(source),
        13..=16 => Value::String(text(source)),
        17 | 18 => Value::Null,
        19 | 20 => Value::Boolean(source.one_in(2)),
        21 => Value::DateTime(source.below(5) as i64 * 86_399_000),
        22 => Value::DateTime(source.any()),
        23 => Value::Undefined,
        24 => Value::ObjectId(object_id(source)),
        25 => Value::Timestamp(Timestamp { time: source.below(3) as u32, increment: source.below(3) as u32 }),
        26 => Value::binary(source.pick(&[0, 3, 4, 5, 128]), source.bytes(17)),
        27 => Value::regex(super::pattern(source), super::regex_options(source)),
        28 => Value::Symbol(text(source).into()),
        29 => Value::JavaScript(text(source).into()),
        _ => rare(source),
    }
}

/// What hardly anybody stores.
fn rare(source: &mut Source<'_>) -> Value {
    match source.below(6) {
        0 => Value::MinKey,
        1 => Value::MaxKey,
        2 => Value::db_pointer(text(source), object_id(source)),
        3 => Value::code_with_scope(text(source), Document::new()),
        4 => Value::Document(Document::new()),
        _ => Value::Array(Array::default()),
    }
}

/// A value that documents may have, nested at most so deep.
pub(crate) fn value(source: &mut Source<'_>, depth: usize) -> Value {
    match source.below(if depth == 0 { 5 } else { 8 }) {
        0..=4 => scalar(source),
        5 | 6 => Value::Array((0..source.below(4)).map(|_| value(source, depth - 1)).collect()),
        _ => Value::Document(document(source, depth - 1)),
    }
}

/// What is compared with: often what documents have at their leaves.
pub(crate) fn operand(source: &mut Source<'_>) -> Value {
    if source.one_in(4) { value(source, 2) } else { int(source) }
}

/// Fields with different names.
pub(crate) fn document(source: &mut Source<'_>, depth: usize) -> Document {
    let mut document = Document::new();
    for _ in 0..source.below(4) {
        let name = field(source);
        document.insert(name, value(source, depth));
    }
    document
}

/// A document with an `_id`.
pub(crate) fn stored(source: &mut Source<'_>) -> Document {
    let mut document = Document::new();
    document.push("_id", int(source));
    for name in FIELDS {
        if !source.one_in(3) {
            document.push(*name, value(source, 3));
        }
    }
    document
}

/// One field in a while is another value, or is not there.
pub(crate) fn spoiled(source: &mut Source<'_>, mut document: Document) -> Document {
    if !document.is_empty() && source.one_in(4) {
        let place = source.below(document.len());
        let name = document.iter().nth(place).map(|(name, _)| name.to_owned()).expect("it has as many");
        match source.one_in(2) {
            true => drop(document.remove(&name)),
            false => drop(document.insert(name, value(source, 2))),
        }
    }
    document
}
