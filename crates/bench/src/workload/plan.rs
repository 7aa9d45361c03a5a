//! Templates compiled to what writes their bytes.

use crate::workload::distribution::Distribution;
use crate::workload::keys::KeyFormat;
use crate::workload::pattern::Pattern;
use crate::workload::template::{Generator, Template, lengths};
use crate::workload::zipf::Zipf;
use document::{DocumentBuilder, ElementType, Value};
use fastrand::Rng;
use std::sync::Arc;

/// What a plan is written for.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    /// The number of the document that the operation is about.
    pub(crate) number: u64,
    pub(crate) random: &'a mut Rng,
    pub(crate) now: i64,
}

/// What the templates of a collection are compiled with.
#[derive(Debug)]
pub(crate) struct Compiler<'a> {
    pub(crate) key: &'a KeyFormat,
    /// For [`Generator::Document`].
    pub(crate) document: &'a [(String, Template)],
}

/// A compiled document: constant stretches of bytes and what is made in between. Writing it allocates
/// nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    pieces: Vec<Piece>,
    fixed: Option<Fixed>,
}

/// The same where everything that is made has eight bytes: one copy, and these places in it.
#[derive(Debug, Clone)]
struct Fixed {
    bytes: Vec<u8>,
    places: Vec<(usize, Piece)>,
}

#[derive(Debug, Clone)]
enum Piece {
    Bytes(Vec<u8>),
    /// A length field that the matching `Close` fills in.
    Open,
    Close,
    Key(KeyFormat),
    Sequence(i64),
    Integer {
        min: i64,
        max: i64,
    },
    /// The least most often.
    Ranked {
        least: i64,
        zipf: Zipf,
    },
    Double {
        min: f64,
        max: f64,
    },
    Text {
        least: u32,
        most: u32,
    },
    Pattern(Arc<Pattern>),
    Binary {
        length: u32,
    },
    Boolean(f64),
    /// Whole elements, their types and names included, with the upper ends of their parts of 0 to 1.
    Choice(Arc<[(f64, Plan)]>),
    ObjectId,
    Uuid,
    FromNow {
        min: i64,
        max: i64,
    },
    /// The elements of an array, of which the first so many are written.
    Some {
        least: u32,
        elements: Arc<[Plan]>,
    },
}

impl Compiler<'_> {
    /// A plan that writes a whole document.
    pub(crate) fn document(&self, fields: &[(String, Template)]) -> Plan {
        let mut plan = Plan::default();
        self.fields(fields, &mut plan);
        plan.fixed = plan.fixed();
        plan
    }

    fn fields(&self, fields: &[(String, Template)], plan: &mut Plan) {
        plan.pieces.push(Piece::Open);
        for (name, value) in fields {
            self.element(name, value, plan);
        }
        plan.pieces.push(Piece::Close);
    }

    fn element(&self, name: &str, template: &Template, plan: &mut Plan) {
        match template {
            Template::Constant(value) => plan.constant_element(name, value),
            Template::Document(fields) => {
                plan.head(ElementType::Document, name);
                self.fields(fields, plan);
            }
            Template::Array(values) => {
                plan.head(ElementType::Array, name);
                plan.pieces.push(Piece::Open);
                for (index, value) in values.iter().enumerate() {
                    self.element(&index.to_string(), value, plan);
                }
                plan.pieces.push(Piece::Close);
            }
            Template::Generated(generator) => self.generated(name, generator, plan),
        }
    }

    fn generated(&self, name: &str, generator: &Generator, plan: &mut Plan) {
        let bounds = |length, min, max| lengths(length, min, max).unwrap_or_default();
        let (kind, piece) = match *generator {
            Generator::Key {} => (self.key.kind(), Piece::Key(self.key.clone())),
            Generator::Sequence { start } => (ElementType::Int64, Piece::Sequence(start)),
            Generator::Integer { min, max, distribution: Distribution::Zipfian { exponent } } => {
                let ranks = (max.wrapping_sub(min) as u64).saturating_add(1);
                (ElementType::Int64, Piece::Ranked { least: min, zipf: Zipf::new(ranks, exponent) })
            }
            Generator::Integer { min, max, .. } => (ElementType::Int64, Piece::Integer { min, max }),
            Generator::Double { min, max } => (ElementType::Double, Piece::Double { min, max }),
            Generator::String { length, min, max } => {
                let (least, most) = bounds(length, min, max);
                (ElementType::String, Piece::Text { least, most })
            }
            Generator::Pattern { ref text } => (ElementType::String, Piece::Pattern(Arc::new(text.clone()))),
            Generator::Bytes { length } => (ElementType::Binary, Piece::Binary { length }),
            Generator::Boolean { share } => (ElementType::Boolean, Piece::Boolean(share)),
            Generator::ObjectId {} => (ElementType::ObjectId, Piece::ObjectId),
            Generator::Uuid {} => (ElementType::Binary, Piece::Uuid),
            Generator::Date { min, max } => {
                (ElementType::DateTime, Piece::Integer { min: min.0, max: max.0 })
            }
            Generator::FromNow { min, max } => {
                let [min, max] = [min, max].map(|seconds| (seconds * 1_000.0) as i64);
                (ElementType::DateTime, Piece::FromNow { min, max })
            }
            Generator::Document {} => {
                plan.head(ElementType::Document, name);
                return self.fields(self.document, plan);
            }
            Generator::Choice { ref of, ref weights } => {
                return plan.pieces.push(self.choice(name, of, weights.as_deref()));
            }
            Generator::Array { ref of, length, min, max } => {
                plan.head(ElementType::Array, name);
                let (least, most) = bounds(length, min, max);
                let element = |index: u32| {
                    let mut plan = Plan::default();
                    self.element(&index.to_string(), of, &mut plan);
                    plan
                };
                let elements = (0..most).map(element).collect();
                return plan.pieces.extend([Piece::Open, Piece::Some { least, elements }, Piece::Close]);
            }
        };
        plan.head(kind, name);
        plan.pieces.push(piece);
    }

    fn choice(&self, name: &str, of: &[Template], weights: Option<&[f64]>) -> Piece {
        let weight = |index| weights.map_or(1.0, |weights| weights.get(index).copied().unwrap_or_default());
        let whole: f64 = (0..of.len()).map(weight).sum();
        let mut end = 0.0;
        let plans = of.iter().enumerate().map(|(index, template)| {
            let mut plan = Plan::default();
            self.element(name, template, &mut plan);
            end += weight(index) / whole;
            (end, plan)
        });
        Piece::Choice(plans.collect())
    }
}

impl Plan {
    fn head(&mut self, kind: ElementType, name: &str) {
        let bytes = self.bytes();
        bytes.push(kind.code());
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
    }

    fn constant_element(&mut self, name: &str, value: &Value) {
        /// The length field before the elements, which the builder writes.
        const LENGTH_FIELD: usize = 4;
        let mut buffer = Vec::new();
        let mut builder = DocumentBuilder::new(&mut buffer);
        builder.append_value(name, value);
        builder.finish();
        buffer.pop();
        self.bytes().extend_from_slice(buffer.get(LENGTH_FIELD..).unwrap_or_default());
    }

    /// The constant stretch at the end.
    fn bytes(&mut self) -> &mut Vec<u8> {
        if !matches!(self.pieces.last(), Some(Piece::Bytes(_))) {
            self.pieces.push(Piece::Bytes(Vec::new()));
        }
        match self.pieces.last_mut() {
            Some(Piece::Bytes(bytes)) => bytes,
            _ => unreachable!("a stretch of bytes was pushed"),
        }
    }

    fn fixed(&self) -> Option<Fixed> {
        let (mut bytes, mut places, mut open) = (Vec::new(), Vec::new(), Vec::new());
        for piece in &self.pieces {
            match piece {
                Piece::Bytes(stretch) => bytes.extend_from_slice(stretch),
                Piece::Open => {
                    open.push(bytes.len());
                    bytes.extend_from_slice(&[0; 4]);
                }
                Piece::Close => {
                    bytes.push(0);
                    patch_length(&mut bytes, open.pop()?);
                }
                Piece::Key(KeyFormat::Number)
                | Piece::Sequence(_)
                | Piece::Integer { .. }
                | Piece::Double { .. }
                | Piece::FromNow { .. } => {
                    places.push((bytes.len(), piece.clone()));
                    bytes.extend_from_slice(&[0; 8]);
                }
                _ => return None,
            }
        }
        Some(Fixed { bytes, places })
    }

    #[inline]
    pub(crate) fn write(&self, context: &mut Context<'_>, out: &mut Vec<u8>) {
        let Some(Fixed { bytes, places }) = &self.fixed else {
            return write_until_close(&mut self.pieces.iter(), context, out);
        };
        let start = out.len();
        out.extend_from_slice(bytes);
        for (place, piece) in places {
            if let Some(target) = out.get_mut(start + place..start + place + 8) {
                target.copy_from_slice(&piece.eight_bytes(context));
            }
        }
    }
}

/// Writes pieces until the one that closes what the caller opened, or to the end.
fn write_until_close(pieces: &mut std::slice::Iter<'_, Piece>, context: &mut Context<'_>, out: &mut Vec<u8>) {
    while let Some(piece) = pieces.next() {
        match piece {
            Piece::Open => {
                let start = out.len();
                out.extend_from_slice(&[0; 4]);
                write_until_close(pieces, context, out);
                out.push(0);
                patch_length(out, start);
            }
            Piece::Close => return,
            other => other.write(context, out),
        }
    }
}

impl Piece {
    /// What is made where it has eight bytes.
    #[inline]
    fn eight_bytes(&self, context: &mut Context<'_>) -> [u8; 8] {
        let random = &mut *context.random;
        match self {
            Piece::Sequence(start) => start.wrapping_add(context.number as i64).to_le_bytes(),
            Piece::Integer { min, max } => between(random, *min, *max).to_le_bytes(),
            Piece::Double { min, max } => (min + random.f64() * (max - min)).to_le_bytes(),
            Piece::FromNow { min, max } => (context.now + between(random, *min, *max)).to_le_bytes(),
            _ => context.number.to_le_bytes(),
        }
    }

    fn write(&self, context: &mut Context<'_>, out: &mut Vec<u8>) {
        let random = &mut *context.random;
        match self {
            Piece::Bytes(bytes) => out.extend_from_slice(bytes),
            Piece::Open | Piece::Close => {}
            Piece::Key(format) => format.append(context.number, out),
            Piece::Ranked { least, zipf } => {
                out.extend_from_slice(&least.wrapping_add(zipf.draw(random) as i64).to_le_bytes());
            }
            Piece::Text { least, most } => {
                let length = between(random, (*least).into(), (*most).into()) as usize;
                out.extend_from_slice(&(length as u32 + 1).to_le_bytes());
                append_text(length, random, out);
                out.push(0);
            }
            Piece::Pattern(pattern) => {
                let start = out.len();
                out.extend_from_slice(&[0; 4]);
                pattern.append(context.number, random, out);
                out.push(0);
                patch_text_length(out, start);
            }
            Piece::Binary { length } => append_binary(0, *length as usize, random, out),
            Piece::Boolean(share) => out.push((random.f64() < *share).into()),
            Piece::Choice(choices) => {
                let point = random.f64();
                let chosen = choices.iter().find(|(end, _)| point < *end).or(choices.last());
                if let Some((_, plan)) = chosen {
                    plan.write(context, out);
                }
            }
            Piece::ObjectId => {
                let seconds = (context.now / 1_000) as u32;
                out.extend_from_slice(&seconds.to_be_bytes());
                out.extend_from_slice(&random.u64(..).to_le_bytes());
            }
            Piece::Uuid => append_uuid(random, out),
            Piece::Some { least, elements } => {
                let count = between(random, (*least).into(), elements.len() as i64) as usize;
                elements.iter().take(count).for_each(|element| element.write(context, out));
            }
            Piece::Sequence(_) | Piece::Integer { .. } | Piece::Double { .. } | Piece::FromNow { .. } => {
                out.extend_from_slice(&self.eight_bytes(context));
            }
        }
    }
}

/// `least` when the bounds are the wrong way round.
fn between(random: &mut Rng, least: i64, most: i64) -> i64 {
    random.i64(least..=most.max(least))
}

/// Printable ASCII characters, from space to underscore as YCSB's, eight at a time.
fn append_text(length: usize, random: &mut Rng, out: &mut Vec<u8>) {
    /// Six random bits of each byte …
    const BITS: u64 = 0x3F3F_3F3F_3F3F_3F3F;
    /// … counted from the space.
    const SPACE: u64 = 0x2020_2020_2020_2020;
    let mut left = length;
    while left > 0 {
        let eight = ((random.u64(..) & BITS) + SPACE).to_le_bytes();
        let count = left.min(eight.len());
        out.extend_from_slice(eight.get(..count).unwrap_or_default());
        left -= count;
    }
}

fn append_binary(subtype: u8, length: usize, random: &mut Rng, out: &mut Vec<u8>) {
    out.extend_from_slice(&(length as u32).to_le_bytes());
    out.push(subtype);
    let start = out.len();
    out.resize(start + length, 0);
    random.fill(out.get_mut(start..).unwrap_or_default());
}

fn append_uuid(random: &mut Rng, out: &mut Vec<u8>) {
    const LENGTH: usize = 16;
    const SUBTYPE: u8 = 4;
    append_binary(SUBTYPE, LENGTH, random, out);
    let start = out.len() - LENGTH;
    // RFC 9562: the version in the seventh byte, the variant in the ninth.
    for (place, keep, set) in [(6, 0x0F, 0x40), (8, 0x3F, 0x80)] {
        if let Some(byte) = out.get_mut(start + place) {
            *byte = *byte & keep | set;
        }
    }
}

/// Fills in the length field at `start` of a text that reaches to the end: it does not count itself.
fn patch_text_length(out: &mut [u8], start: usize) {
    patch_length(out, start);
    if let Some(field) = out.get_mut(start..start + 4)
        && let Ok(bytes) = <[u8; 4]>::try_from(&*field)
    {
        field.copy_from_slice(&(u32::from_le_bytes(bytes) - 4).to_le_bytes());
    }
}

/// Fills in the length field at `start` of what reaches to the end.
#[inline]
pub(crate) fn patch_length(out: &mut [u8], start: usize) {
    let length = (out.len() - start) as u32;
    if let Some(field) = out.get_mut(start..start + 4) {
        field.copy_from_slice(&length.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::{Document, RawDocument, doc};

    /// Fields as workload files have them.
    fn fields(text: &str) -> Vec<(String, Template)> {
        let Ok(Template::Document(fields)) =
            Template::try_from(toml::Value::Table(text.parse().expect("TOML")))
        else {
            panic!("no fields: {text}")
        };
        fields
    }

    fn write_with(text: &str, number: u64, seed: u64) -> Document {
        let new = fields("_id = { gen = 'key' }");
        let compiler = Compiler { key: &KeyFormat::Number, document: &new };
        let plan = compiler.document(&fields(text));
        let mut out = b"before".to_vec();
        plan.write(
            &mut Context { number, random: &mut Rng::with_seed(seed), now: 1_790_000_000_000 },
            &mut out,
        );
        RawDocument::parse(&out[6..]).expect("a plan writes valid BSON").to_document()
    }

    fn write(text: &str, seed: u64) -> Value {
        write_with(&format!("v = {text}"), 7, seed).get("v").expect("the field").clone()
    }

    #[test]
    fn constants_and_nesting_are_written_as_they_stand() {
        let text = "a = 1\nb = ['x', { c = true }]\nd = { deep = [1, 5_000_000_000] }\n\
            e = 2026-01-01T02:00:00+02:00";
        let midnight = Value::DateTime(1_767_225_600_000);
        let expect = doc! {
            "a": 1, "b": ["x", { "c": true }], "d": { "deep": [1, 5_000_000_000_i64] },
            "e": (midnight.clone()),
        };
        assert_eq!(write_with(text, 7, 1), expect);
        assert_eq!(write("2026-01-01", 1), midnight);
    }

    #[test]
    fn keys_and_documents_are_those_of_the_operation() {
        assert_eq!(write("{ gen = 'key' }", 1), Value::Int64(7));
        assert_eq!(write("{ gen = 'sequence', start = 100 }", 1), Value::Int64(107));
        assert_eq!(write("{ gen = 'document' }", 1), Value::from(doc! { "_id": 7_i64 }));
    }

    fn is_printable(text: &str) -> bool {
        text.bytes().all(|byte| (b' '..=b'_').contains(&byte))
    }

    #[test]
    fn generators_stay_within_their_bounds() {
        let check = |text: &str, in_bounds: &dyn Fn(&Value) -> bool| {
            let values: Vec<Value> =
                (0..200).map(|seed| write(&format!("{{ gen = {text} }}"), seed)).collect();
            assert!(values.iter().all(in_bounds), "{text}: {values:?}");
            assert!(values.iter().any(|value| *value != values[0]), "{text} varies");
        };
        let small = |value: &Value| matches!(value, Value::Int64(5..=9));
        check("'integer', min = 5, max = 9", &small);
        check("'integer', min = 5, max = 9, distribution = 'zipfian'", &small);
        check(
            "'double', min = 0.5, max = 2",
            &|value| matches!(value, Value::Double(number) if (0.5..2.0).contains(number)),
        );
        check(
            "'string', min = 2, max = 4",
            &|value| matches!(value, Value::String(it) if (2..=4).contains(&it.len()) && is_printable(it)),
        );
        check(
            "'bytes', length = 13",
            &|value| matches!(value, Value::Binary(it) if it.subtype == 0 && it.bytes.len() == 13),
        );
        check("'boolean'", &|value| matches!(value, Value::Boolean(_)));
        check("'date', min = 1970-01-01, max = 1970-01-01T00:00:01", &|value| {
            matches!(value, Value::DateTime(0..=1_000))
        });
        check("'fromNow', min = -0.5, max = 1", &|value| {
            matches!(value, Value::DateTime(1_789_999_999_500..=1_790_000_001_000))
        });
        check("'objectId'", &|value| matches!(value, Value::ObjectId(id) if id.seconds() == 1_790_000_000));
        check("'uuid'", &|value| {
            let Value::Binary(binary) = value else { return false };
            let bytes = &binary.bytes;
            binary.subtype == 4 && bytes.len() == 16 && bytes[6] >> 4 == 4 && bytes[8] >> 6 == 2
        });
        check("'array', min = 1, max = 3, of = 1", &|value| {
            let Value::Array(values) = value else { return false };
            (1..=3).contains(&values.len()) && values.iter().all(|value| *value == Value::Int32(1))
        });
        check("'choice', of = [1, 1970-01-01]", &|value| {
            [Value::Int32(1), Value::DateTime(0)].contains(value)
        });
    }

    #[test]
    fn choices_follow_their_weights() {
        let mut counts = [0; 3];
        for seed in 0..20_000 {
            match write("{ gen = 'choice', of = [0, 1, 2], weights = [3, 1, 0] }", seed) {
                Value::Int32(which) => counts[which as usize] += 1,
                other => panic!("{other:?}"),
            }
        }
        crate::workload::chi_square::fits(&counts, &[3.0, 1.0, 0.0], "choices");
    }

    #[test]
    fn what_is_fixed_is_written_as_what_is_not() {
        let text = "_id = { gen = 'key' }\na = { b = [{ gen = 'sequence' }, { gen = 'integer', min = 1, max \
            = 9 }], c = 'x' }";
        let fixed = Compiler { key: &KeyFormat::Number, document: &[] }.document(&fields(text));
        let pieces = Plan { fixed: None, ..fixed.clone() };
        let write = |plan: &Plan| {
            let mut out = b"before".to_vec();
            plan.write(&mut Context { number: 7, random: &mut Rng::with_seed(3), now: 0 }, &mut out);
            out
        };
        assert!(fixed.fixed.is_some());
        assert_eq!(write(&fixed), write(&pieces));
    }

    #[test]
    fn the_same_seed_makes_the_same_document() {
        let text = "{ gen = 'string', min = 1, max = 50 }";
        assert_eq!(write(text, 5), write(text, 5));
        assert_ne!(write(text, 5), write(text, 6));
    }
}
