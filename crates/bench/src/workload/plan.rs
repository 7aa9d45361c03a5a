//! Templates compiled to what writes their bytes.

use crate::workload::keys::KeyFormat;
use crate::workload::random::Random;
use crate::workload::template::{Generator, LONGEST_ARRAY, Template};
use crate::workload::zipf::Zipf;
use document::{DocumentBuilder, ElementType, Value};
use std::sync::Arc;

/// What a plan is written for.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    /// The number of the document that the operation is about.
    pub(crate) number: u64,
    pub(crate) random: &'a mut Random,
    /// Milliseconds since 1970.
    pub(crate) now: i64,
}

/// What the templates of a collection are compiled with.
#[derive(Debug)]
pub(crate) struct Compiler<'a> {
    pub(crate) key: &'a KeyFormat,
    /// For [`Generator::NewDocument`].
    pub(crate) document: &'a [(String, Template)],
}

/// A compiled document: constant stretches of bytes and what is made in between. Writing it allocates nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    pieces: Vec<Piece>,
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
        least: i64,
        most: i64,
        zipf: Option<Zipf>,
    },
    Double {
        least: f64,
        most: f64,
    },
    Text {
        least: u32,
        most: u32,
    },
    Bytes0 {
        length: u32,
    },
    Boolean(f64),
    /// Whole elements, their types and names included, with the upper ends of their parts of 0 to 1.
    Choice(Arc<[(f64, Plan)]>),
    ObjectId,
    Uuid,
    Date {
        least: i64,
        most: i64,
    },
    FromNow {
        least: i64,
        most: i64,
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
        let (kind, piece) = match *generator {
            Generator::Key => (self.key.kind(), Piece::Key(self.key.clone())),
            Generator::Sequence { start } => (ElementType::Int64, Piece::Sequence(start)),
            Generator::Integer { least, most, zipfian } => {
                let ranks = (most.wrapping_sub(least) as u64).saturating_add(1);
                let zipf = zipfian.map(|exponent| Zipf::new(ranks, exponent));
                (ElementType::Int64, Piece::Integer { least, most, zipf })
            }
            Generator::Double { least, most } => (ElementType::Double, Piece::Double { least, most }),
            Generator::Text { least, most } => (ElementType::String, Piece::Text { least, most }),
            Generator::Bytes { length } => (ElementType::Binary, Piece::Bytes0 { length }),
            Generator::Boolean { share } => (ElementType::Boolean, Piece::Boolean(share)),
            Generator::ObjectId => (ElementType::ObjectId, Piece::ObjectId),
            Generator::Uuid => (ElementType::Binary, Piece::Uuid),
            Generator::Date { least, most } => (ElementType::DateTime, Piece::Date { least, most }),
            Generator::FromNow { least, most } => (ElementType::DateTime, Piece::FromNow { least, most }),
            Generator::NewDocument => {
                plan.head(ElementType::Document, name);
                return self.fields(self.document, plan);
            }
            Generator::Choice(ref choices) => return plan.pieces.push(self.choice(name, choices)),
            Generator::Array { least, most, ref of } => {
                plan.head(ElementType::Array, name);
                let element = |index: u32| {
                    let mut plan = Plan::default();
                    self.element(&index.to_string(), of, &mut plan);
                    plan
                };
                let elements = (0..most.min(LONGEST_ARRAY)).map(element).collect();
                return plan.pieces.extend([Piece::Open, Piece::Some { least, elements }, Piece::Close]);
            }
        };
        plan.head(kind, name);
        plan.pieces.push(piece);
    }

    fn choice(&self, name: &str, choices: &[(f64, Template)]) -> Piece {
        let whole: f64 = choices.iter().map(|(weight, _)| weight).sum();
        let mut end = 0.0;
        let plans = choices.iter().map(|(weight, template)| {
            let mut plan = Plan::default();
            self.element(name, template, &mut plan);
            end += weight / whole;
            (end, plan)
        });
        Piece::Choice(plans.collect())
    }
}

impl Plan {
    /// The head of an element: its type and name.
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

    /// Appends the document.
    pub(crate) fn write(&self, context: &mut Context<'_>, out: &mut Vec<u8>) {
        let mut pieces = self.pieces.iter();
        write_until_close(&mut pieces, context, out);
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
    fn write(&self, context: &mut Context<'_>, out: &mut Vec<u8>) {
        let random = &mut *context.random;
        match self {
            Piece::Bytes(bytes) => out.extend_from_slice(bytes),
            Piece::Open | Piece::Close => {}
            Piece::Key(format) => format.append(context.number, out),
            Piece::Sequence(start) => {
                out.extend_from_slice(&start.wrapping_add(context.number as i64).to_le_bytes());
            }
            Piece::Integer { least, most, zipf: None } => {
                out.extend_from_slice(&random.between(*least, *most).to_le_bytes());
            }
            Piece::Integer { least, zipf: Some(zipf), .. } => {
                out.extend_from_slice(&least.wrapping_add(zipf.draw(random) as i64).to_le_bytes());
            }
            Piece::Double { least, most } => {
                out.extend_from_slice(&(least + random.unit() * (most - least)).to_le_bytes());
            }
            Piece::Text { least, most } => {
                let length = random.between((*least).into(), (*most).into()) as usize;
                out.extend_from_slice(&(length as u32 + 1).to_le_bytes());
                random.append_text(length, out);
                out.push(0);
            }
            Piece::Bytes0 { length } => append_binary(0, *length as usize, random, out),
            Piece::Boolean(share) => out.push((random.unit() < *share).into()),
            Piece::Choice(choices) => {
                let point = random.unit();
                let chosen = choices.iter().find(|(end, _)| point < *end).or(choices.last());
                if let Some((_, plan)) = chosen {
                    plan.write(context, out);
                }
            }
            Piece::ObjectId => {
                let seconds = (context.now / 1_000) as u32;
                out.extend_from_slice(&seconds.to_be_bytes());
                out.extend_from_slice(&random.bits().to_le_bytes());
            }
            Piece::Uuid => append_uuid(random, out),
            Piece::Date { least, most } => {
                out.extend_from_slice(&random.between(*least, *most).to_le_bytes());
            }
            Piece::FromNow { least, most } => {
                out.extend_from_slice(&(context.now + random.between(*least, *most)).to_le_bytes());
            }
            Piece::Some { least, elements } => {
                let count = random.between((*least).into(), elements.len() as i64) as usize;
                elements.iter().take(count).for_each(|element| element.write(context, out));
            }
        }
    }
}

fn append_binary(subtype: u8, length: usize, random: &mut Random, out: &mut Vec<u8>) {
    out.extend_from_slice(&(length as u32).to_le_bytes());
    out.push(subtype);
    let mut left = length;
    while left > 0 {
        let eight = random.bits().to_le_bytes();
        let count = left.min(eight.len());
        out.extend_from_slice(eight.get(..count).unwrap_or_default());
        left -= count;
    }
}

fn append_uuid(random: &mut Random, out: &mut Vec<u8>) {
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

    fn write_with(fields: &[(String, Template)], number: u64, seed: u64) -> Document {
        let new = [("_id".to_owned(), Template::Generated(Generator::Key))];
        let compiler = Compiler { key: &KeyFormat::Number, document: &new };
        let plan = compiler.document(fields);
        let mut out = b"before".to_vec();
        plan.write(&mut Context { number, random: &mut Random::new(seed), now: 1_790_000_000_000 }, &mut out);
        RawDocument::parse(&out[6..]).expect("a plan writes valid BSON").to_document()
    }

    fn write(template: Template) -> Value {
        write_with(&[("v".to_owned(), template)], 7, 1).get("v").expect("the field").clone()
    }

    #[test]
    fn constants_and_nesting_are_written_as_they_stand() {
        let template = Template::document([
            ("a", Template::constant(1)),
            (
                "b",
                Template::Array(vec![
                    Template::constant("x"),
                    Template::document([("c", Template::constant(true))]),
                ]),
            ),
            ("d", Template::constant(doc! { "deep": [1, 2] })),
        ]);
        let expect = doc! { "a": 1, "b": ["x", { "c": true }], "d": { "deep": [1, 2] } };
        assert_eq!(write(template), Value::from(expect));
    }

    #[test]
    fn keys_and_documents_are_those_of_the_operation() {
        assert_eq!(write(Template::Generated(Generator::Key)), Value::Int64(7));
        assert_eq!(write(Template::Generated(Generator::Sequence { start: 100 })), Value::Int64(107));
        assert_eq!(write(Template::Generated(Generator::NewDocument)), Value::from(doc! { "_id": 7_i64 }));
    }

    fn in_bounds(generator: &Generator, value: &Value) -> bool {
        match (generator, value) {
            (Generator::Integer { .. }, Value::Int64(number)) => (5..=9).contains(number),
            (Generator::Double { .. }, Value::Double(number)) => (0.5..1.5).contains(number),
            (Generator::Text { .. }, Value::String(text)) => (2..=4).contains(&text.len()),
            (Generator::Bytes { .. }, Value::Binary(binary)) => {
                binary.subtype == 0 && binary.bytes.len() == 13
            }
            (Generator::Boolean { .. }, Value::Boolean(_)) => true,
            (Generator::Date { .. }, Value::DateTime(date)) => (10..=20).contains(date),
            (Generator::FromNow { .. }, Value::DateTime(date)) => {
                (1_790_000_000_500..=1_790_000_001_000).contains(date)
            }
            (Generator::ObjectId, Value::ObjectId(id)) => id.seconds() == 1_790_000_000,
            (Generator::Uuid, Value::Binary(binary)) => {
                let bytes = &binary.bytes;
                binary.subtype == 4 && bytes.len() == 16 && bytes[6] >> 4 == 4 && bytes[8] >> 6 == 2
            }
            (Generator::Array { .. }, Value::Array(values)) => {
                (1..=3).contains(&values.len()) && values.iter().all(|value| *value == Value::Int32(1))
            }
            (Generator::Choice(_), value) => [Value::Int32(1), Value::from("two")].contains(value),
            _ => false,
        }
    }

    #[test]
    fn generators_stay_within_their_bounds() {
        let one = || Box::new(Template::constant(1));
        for generator in [
            Generator::Integer { least: 5, most: 9, zipfian: None },
            Generator::Integer { least: 5, most: 9, zipfian: Some(0.99) },
            Generator::Double { least: 0.5, most: 1.5 },
            Generator::Text { least: 2, most: 4 },
            Generator::Bytes { length: 13 },
            Generator::Boolean { share: 0.5 },
            Generator::Date { least: 10, most: 20 },
            Generator::FromNow { least: 500, most: 1_000 },
            Generator::ObjectId,
            Generator::Uuid,
            Generator::Array { least: 1, most: 3, of: one() },
            Generator::Choice(vec![(1.0, *one()), (1.0, Template::constant("two"))]),
        ] {
            let fields = [("v".to_owned(), Template::Generated(generator.clone()))];
            let values: Vec<Value> = (0..200)
                .map(|seed| write_with(&fields, 7, seed).get("v").expect("the field").clone())
                .collect();
            assert!(values.iter().all(|value| in_bounds(&generator, value)), "{generator:?}: {values:?}");
            assert!(values.iter().any(|value| *value != values[0]), "{generator:?} varies");
        }
    }

    #[test]
    fn choices_follow_their_weights() {
        let choices =
            vec![(3.0, Template::constant(0)), (1.0, Template::constant(1)), (0.0, Template::constant(2))];
        let fields = [("v".to_owned(), Template::Generated(Generator::Choice(choices)))];
        let mut counts = [0; 3];
        for seed in 0..20_000 {
            match write_with(&fields, 0, seed).get("v") {
                Some(Value::Int32(which)) => counts[*which as usize] += 1,
                other => panic!("{other:?}"),
            }
        }
        crate::workload::chi_square::fits(&counts, &[3.0, 1.0, 0.0], "choices");
    }

    #[test]
    fn the_same_seed_makes_the_same_document() {
        let fields = [("v".to_owned(), Template::Generated(Generator::Text { least: 1, most: 50 }))];
        assert_eq!(write_with(&fields, 1, 5), write_with(&fields, 1, 5));
        assert_ne!(write_with(&fields, 1, 5), write_with(&fields, 1, 6));
    }
}
