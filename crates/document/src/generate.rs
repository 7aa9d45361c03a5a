//! Generators of adversarial values for the property tests of this crate.

use crate::decimal::{MAX_COEFFICIENT, MAX_EXPONENT, MIN_EXPONENT, Parts};
use crate::{Decimal128, Document, ObjectId, Timestamp, Value};
use proptest::prelude::*;

/// Integers around which types change their minds.
fn landmark() -> impl Strategy<Value = i64> {
    let landmarks = vec![
        0,
        1,
        10,
        127,
        128,
        255,
        256,
        1 << 31,
        1 << 32,
        1 << 52,
        1 << 53,
        1 << 54,
        1 << 62,
        i64::MAX,
        i64::MIN,
    ];
    (prop::sample::select(landmarks), -3i64..=3, any::<bool>()).prop_map(|(landmark, offset, negate)| {
        let near = landmark.wrapping_add(offset);
        if negate { near.wrapping_neg() } else { near }
    })
}

fn double() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        landmark().prop_map(|integer| integer as f64),
        (landmark(), -60i32..60).prop_map(|(integer, exponent)| integer as f64 * 2f64.powi(exponent)),
        (landmark(), -2i64..=2).prop_map(|(integer, ulps)| {
            f64::from_bits((integer as f64).to_bits().wrapping_add_signed(ulps))
        }),
        prop::sample::select(vec![
            0.0,
            -0.0,
            0.1,
            0.2,
            0.3,
            0.5,
            1.5,
            9_223_372_036_854_775_808.0,
            18_446_744_073_709_551_616.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MIN_POSITIVE,
            5e-324,
            f64::MAX,
            f64::MIN,
            2.225_073_858_507_201e-308,
        ]),
    ]
}

/// Decimal numbers: any parts, numerals of doubles (exact and shortened), integers with trailing zeros.
pub(crate) fn decimal() -> impl Strategy<Value = Decimal128> {
    let parts = |negative, coefficient, exponent| {
        Decimal128::from_parts(Parts::Finite { negative, coefficient, exponent }).unwrap_or_default()
    };
    prop_oneof![
        (any::<bool>(), 0..=MAX_COEFFICIENT, MIN_EXPONENT..=MAX_EXPONENT)
            .prop_map(move |(n, c, e)| parts(n, c, e)),
        (any::<bool>(), 0..=MAX_COEFFICIENT, -60..60).prop_map(move |(n, c, e)| parts(n, c, e)),
        (any::<bool>(), 0u128..100, -20..20).prop_map(move |(n, c, e)| parts(n, c, e)),
        (any::<bool>(), 0u128..3, prop_oneof![Just(MIN_EXPONENT), Just(MAX_EXPONENT), Just(0)])
            .prop_map(move |(n, c, e)| parts(n, c, e)),
        (landmark(), 0u32..15).prop_map(move |(integer, zeros)| {
            parts(integer < 0, u128::from(integer.unsigned_abs()) * 10u128.pow(zeros), -(zeros as i32))
        }),
        (landmark(), 0i32..40).prop_map(move |(integer, zeros)| {
            parts(integer < 0, u128::from(integer.unsigned_abs()), zeros)
        }),
        // A multiple of a power of five over the same power of ten is a binary fraction.
        (any::<bool>(), 0u128..1000, 0u32..40).prop_map(move |(n, c, e)| {
            parts(n, c.saturating_mul(5u128.pow(e)).min(MAX_COEFFICIENT), -(e as i32))
        }),
        double().prop_map(Decimal128::from_f64_widest),
        double().prop_map(Decimal128::from_f64),
        double().prop_map(|double| Decimal128::parse(&double.to_string()).unwrap_or_default()),
        prop::sample::select(vec![Decimal128::NAN, Decimal128::INFINITY, Decimal128::NEG_INFINITY]),
    ]
}

pub(crate) fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        landmark().prop_map(|integer| Value::Int32(integer as i32)),
        landmark().prop_map(Value::Int64),
        any::<i64>().prop_map(Value::Int64),
        double().prop_map(Value::Double),
        decimal().prop_map(Value::Decimal128),
    ]
}

/// Two numbers that are the same or nearly the same in two types.
pub(crate) fn near_numbers() -> impl Strategy<Value = (Value, Value)> {
    let convert = |value: &Value, choice: u8| {
        let number = value.as_number().unwrap_or(crate::Number::Int32(0));
        match choice {
            0 => Value::Double(number.to_f64()),
            1 => Value::Decimal128(Decimal128::from_f64_widest(number.to_f64())),
            2 => Value::Int64(number.to_i64_saturating()),
            3 => Value::Decimal128(number.to_decimal()),
            4 => Value::Double(f64::from_bits(number.to_f64().to_bits().wrapping_add(1))),
            _ => match number.to_decimal().parts() {
                Parts::Finite { negative, coefficient, exponent } => Value::Decimal128(
                    Decimal128::from_parts(Parts::Finite {
                        negative,
                        coefficient: coefficient ^ 1,
                        exponent,
                    })
                    .unwrap_or_default(),
                ),
                _ => Value::Decimal128(Decimal128::INFINITY),
            },
        }
    };
    (number(), 0u8..6).prop_map(move |(value, choice)| {
        let near = convert(&value, choice);
        (value, near)
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::collection::vec(
            prop::sample::select(vec!['\0', '\u{1}', '\u{2}', 'a', 'b', 'ÿ', '\u{10FFFF}']),
            0..5
        )
        .prop_map(String::from_iter),
        "[a-c]{0,3}",
    ]
}

fn cstring() -> impl Strategy<Value = String> {
    text().prop_map(|text| text.replace('\0', ""))
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => number(),
        3 => text().prop_map(Value::String),
        1 => text().prop_map(|symbol| Value::Symbol(symbol.into())),
        // Subtype 2 is left out: its bytes have an inner length.
        1 => (prop::sample::select(vec![0, 1, 5, 255]),
            prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 254, 255]), 0..4))
            .prop_map(|(subtype, bytes)| Value::binary(subtype, bytes)),
        1 => (250usize..260, any::<u8>()).prop_map(|(length, byte)| Value::binary(0, vec![byte; length])),
        1 => any::<[u8; 12]>().prop_map(|bytes| Value::ObjectId(ObjectId::from_bytes(bytes))),
        1 => any::<bool>().prop_map(Value::Boolean),
        1 => prop_oneof![any::<i64>(), landmark()].prop_map(Value::DateTime),
        1 => any::<u64>().prop_map(|bits| Value::Timestamp(Timestamp::from_u64(bits))),
        1 => (cstring(), cstring()).prop_map(|(pattern, options)| Value::regex(pattern, options)),
        1 => (text(), 0u8..3).prop_map(|(namespace, byte)| {
            Value::db_pointer(namespace, ObjectId::from_bytes([byte; 12]))
        }),
        1 => text().prop_map(|code| Value::JavaScript(code.into())),
        1 => prop::sample::select(vec![Value::MinKey, Value::MaxKey, Value::Null, Value::Undefined]),
    ]
}

fn tree_of(values: BoxedStrategy<Value>) -> impl Strategy<Value = Document> {
    prop::collection::vec((cstring(), values), 0..4).prop_map(Document::from_iter)
}

/// Values of all types, nested a few levels.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 12, 4, |inner| {
        let inner = inner.boxed();
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            tree_of(inner.clone()).prop_map(Value::Document),
            (text(), tree_of(inner)).prop_map(|(code, scope)| Value::code_with_scope(code, scope)),
        ]
    })
}

/// Documents of values of all types.
pub(crate) fn document() -> impl Strategy<Value = Document> {
    tree_of(value().boxed())
}
