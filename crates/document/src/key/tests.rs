use super::*;
use crate::generate::{document, near_numbers, number, value};
use crate::{
    Comparable, Decimal128, Document, ElementType, ObjectId, RawValue, Value, canonical_type, compare,
};
use proptest::prelude::*;
use std::cmp::Ordering;

/// Writes the value into a document and hands over the raw view.
fn with_raw<R>(value: &Value, body: impl FnOnce(RawValue<'_>) -> R) -> R {
    let mut document = Document::new();
    document.push("v", value.clone());
    let bytes = document.to_buf();
    body(bytes.as_raw().get("v").expect("the field written"))
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut owned = Vec::new();
    encode_owned(&mut owned, value);
    let raw = with_raw(value, |raw| {
        let mut key = Vec::new();
        encode_value(&mut key, raw);
        key
    });
    assert_eq!(owned, raw, "owned and raw keys of {value:?} differ");
    owned
}

fn compare_raw(left: &Value, right: &Value) -> Ordering {
    with_raw(left, |left| with_raw(right, |right| compare(left, right)))
}

/// Keys order as values do; equal values have equal keys; no key begins with another.
#[track_caller]
fn check(left: &Value, right: &Value) {
    let order = compare_raw(left, right);
    assert_eq!(order, left.compare(right), "raw and owned comparison of {left:?} and {right:?}");
    assert_eq!(order.reverse(), right.compare(left), "comparison of {left:?} and {right:?} is one-sided");
    let (left_key, right_key) = (encoded(left), encoded(right));
    assert_eq!(left_key.cmp(&right_key), order, "{left:?} {left_key:02x?} and {right:?} {right_key:02x?}");
    let prefix = left_key.starts_with(&right_key) || right_key.starts_with(&left_key);
    assert!(order.is_eq() || !prefix, "key of {left:?} or {right:?} begins with the other");
}

#[track_caller]
fn check_order(values: &[Value]) {
    for (index, left) in values.iter().enumerate() {
        for (other_index, right) in values.iter().enumerate() {
            assert_eq!(left.compare(right), index.cmp(&other_index), "{left:?} and {right:?}");
            check(left, right);
        }
    }
}

#[track_caller]
fn check_equal(values: &[Value]) {
    for left in values {
        for right in values {
            assert_eq!(left.compare(right), Ordering::Equal, "{left:?} and {right:?}");
            check(left, right);
            assert_eq!(GroupKey::of(left), GroupKey::of(right));
            assert_eq!(hash64(left.as_raw_scalar().unwrap()), hash64(right.as_raw_scalar().unwrap()));
        }
    }
}

/// Whether two values are the same to the bit, except that not-a-number is one value.
fn identical(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Double(left), Value::Double(right)) => {
            left.to_bits() == right.to_bits() || left.is_nan() && right.is_nan()
        }
        (Value::Decimal128(left), Value::Decimal128(right)) => {
            left == right || left.is_nan() && right.is_nan()
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right.iter()).all(|(left, right)| identical(left, right))
        }
        (Value::Document(left), Value::Document(right)) => identical_documents(left, right),
        (Value::JavaScriptWithScope(left), Value::JavaScriptWithScope(right)) => {
            left.code == right.code && identical_documents(&left.scope, &right.scope)
        }
        _ => left == right,
    }
}

fn identical_documents(left: &Document, right: &Document) -> bool {
    left.len() == right.len()
        && left.iter().zip(right.iter()).all(|(left, right)| left.0 == right.0 && identical(left.1, right.1))
}

fn decimal(text: &str) -> Value {
    Value::Decimal128(text.parse().unwrap())
}

#[test]
fn types_in_order() {
    let empty = Document::new;
    check_order(&[
        Value::MinKey,
        Value::Undefined,
        Value::Null,
        Value::Double(f64::NAN),
        Value::Double(f64::NEG_INFINITY),
        Value::Int32(-1),
        Value::Int64(0),
        decimal("0.5"),
        Value::Double(f64::INFINITY),
        Value::String(String::new()),
        Value::Symbol("a".into()),
        Value::String("a\0".into()),
        Value::String("ab".into()),
        Value::Document(empty()),
        Value::Array(crate::Array::new()),
        Value::Array(vec![Value::MinKey].into()),
        Value::Array(vec![1.into()].into()),
        Value::Array(vec![1.into(), Value::Null].into()),
        Value::Array(vec![2.into()].into()),
        Value::binary(5, vec![9]),
        Value::binary(0, vec![0, 0]),
        Value::binary(1, vec![0, 0]),
        Value::binary(0, vec![0; 255]),
        Value::ObjectId(ObjectId::from_bytes([0; 12])),
        Value::Boolean(false),
        Value::Boolean(true),
        Value::DateTime(-1),
        Value::DateTime(0),
        Value::Timestamp(crate::Timestamp { time: 0, increment: 0 }),
        Value::regex("a", "i"),
        Value::regex("ab", ""),
        Value::db_pointer("z", ObjectId::from_bytes([9; 12])),
        Value::db_pointer("aa", ObjectId::from_bytes([0; 12])),
        Value::JavaScript("z".into()),
        Value::code_with_scope("a", empty()),
        Value::MaxKey,
    ]);
}

#[test]
fn documents_in_order() {
    let document = |fields: &[(&str, Value)]| Value::Document(fields.iter().cloned().collect());
    check_order(&[
        document(&[]),
        document(&[("z", Value::Null)]),
        document(&[("a", 1.into())]),
        document(&[("a", 1.into()), ("", 1.into())]),
        document(&[("a", 2.5.into())]),
        document(&[("b", 0.into())]),
        document(&[("a", "".into())]),
    ]);
}

#[test]
fn numbers_in_order() {
    check_order(&[
        Value::Double(f64::NAN),
        decimal("-Infinity"),
        decimal("-9.999999999999999999999999999999999E+6144"),
        Value::Double(f64::MIN),
        Value::Double(-9_223_372_036_854_777_856.0),
        Value::Int64(i64::MIN),
        Value::Int64(i64::MIN + 1),
        Value::Int64(-(1 << 53) - 1),
        Value::Double(-9_007_199_254_740_992.0),
        Value::Double(-1.5),
        Value::Double(-0.1),
        decimal("-0.1"),
        Value::Double(-5e-324),
        decimal("-1E-6176"),
        Value::Double(-0.0),
        decimal("1E-6176"),
        decimal("1E-400"),
        Value::Double(5e-324),
        decimal("1E-10"),
        decimal("0.1"),
        Value::Double(0.1),
        decimal("0.1000000000000000055511151231257828"),
        decimal("0.2999999999999999999999999999999999"),
        decimal("0.3"),
        decimal("0.3000000000000000000000000000000001"),
        Value::Int32(1),
        decimal("1.000000000000000000000000000000001"),
        Value::Double(1.0 + f64::EPSILON),
        Value::Double(9_007_199_254_740_992.0),
        Value::Int64((1 << 53) + 1),
        Value::Int64(i64::MAX),
        decimal("9223372036854775807.5"),
        Value::Double(9_223_372_036_854_775_808.0),
        decimal("9223372036854775809"),
        decimal("18446744073709551615"),
        Value::Double(18_446_744_073_709_551_616.0),
        decimal("18446744073709551617"),
        decimal("1E+300"),
        Value::Double(1e300),
        Value::Double(f64::MAX),
        decimal("1E+6144"),
        Value::Double(f64::INFINITY),
    ]);
}

#[test]
fn equal_numbers() {
    check_equal(&[
        0.into(),
        0i64.into(),
        0.0.into(),
        (-0.0).into(),
        decimal("0"),
        decimal("-0E+10"),
        decimal("0.000"),
    ]);
    check_equal(&[1.into(), 1i64.into(), 1.0.into(), decimal("1"), decimal("1.00"), decimal("10E-1")]);
    check_equal(&[0.5.into(), decimal("0.5"), decimal("0.50000")]);
    check_equal(&[i64::MIN.into(), (i64::MIN as f64).into(), decimal("-9223372036854775808")]);
    check_equal(&[f64::NAN.into(), (-f64::NAN).into(), Value::Decimal128(Decimal128::NAN)]);
    check_equal(&[1e22.into(), decimal("1E+22"), decimal("10000000000000000000000")]);
    check_equal(&[decimal("0.1"), decimal("0.10"), decimal("1000E-4")]);
    check_equal(&[decimal("1E+6144"), decimal("1.000E+6144")]);
    check_equal(&["a".into(), Value::Symbol("a".into())]);
}

#[test]
fn short_keys() {
    assert_eq!(encoded(&5.into()).len(), 2);
    assert_eq!(encoded(&1_000_000.into()).len(), 3);
    assert_eq!(encoded(&ObjectId::from_bytes([1; 12]).into()).len(), 13);
    assert_eq!(encoded(&"abc".into()).len(), 5);
    assert!(encoded(&0.3.into()).len() <= 11);
    assert_eq!(encoded(&decimal("19.99")).len(), 1 + 9 + 2 + 2 + 1);
}

/// The format is stored: these bytes must never change.
#[test]
fn format_is_fixed() {
    let hex = |value: Value| encoded(&value).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(0.into()), "54");
    assert_eq!(hex(1.into()), "5600");
    assert_eq!(hex(5.into()), "5840");
    assert_eq!(hex((-5).into()), "50bf");
    assert_eq!(hex(0.5.into()), "557fff00");
    assert_eq!(hex(300.into()), "5e2c");
    assert_eq!(hex("a\0\u{1}b".into()), "a0610101010262".to_owned() + "00");
    assert_eq!(hex(true.into()), "b5");
    assert_eq!(hex(Value::DateTime(1)), "b88000000000000001");
    assert_eq!(hex(Value::Array(vec![Value::Null].into())), "a80c00");
    assert_eq!(hex(Value::Document([("a", Value::Null)].into_iter().collect())), "a40661000c00");
    assert_eq!(hex(Value::binary(4, vec![7])), "ac010407");
}

#[test]
fn usual_types_need_no_type_bits() {
    let mut builder = KeyBuilder::new();
    builder.append(RawValue::Int32(7), SortOrder::Ascending);
    builder.append(RawValue::String("x"), SortOrder::Descending);
    builder.append(RawValue::Boolean(true), SortOrder::Ascending);
    assert_eq!(builder.type_bits(), b"");
    builder.append(RawValue::Double(7.0), SortOrder::Ascending);
    assert_eq!(builder.type_bits(), [0, 0, 2]);
    builder.clear();
    assert_eq!((builder.key(), builder.type_bits()), (&b""[..], &b""[..]));
}

#[test]
fn without_type_bits_the_narrowest_type() {
    for (value, expect) in [
        (Value::Double(7.0), Value::Int32(7)),
        (Value::Double(-0.0), Value::Int32(0)),
        (decimal("5000000000"), Value::Int64(5_000_000_000)),
        (decimal("0.50"), Value::Double(0.5)),
        (decimal("0.10"), decimal("0.1")),
        (decimal("1E+400"), decimal("1E+400")),
        (decimal("18446744073709551615"), decimal("18446744073709551615")),
        (Value::Symbol("s".into()), Value::String("s".into())),
    ] {
        assert_eq!(decode(&encoded(&value), &[], &[SortOrder::Ascending]), Ok(vec![expect]));
    }
}

#[test]
fn successors() {
    assert_eq!(successor(&[1, 2]), Some(vec![1, 3]));
    assert_eq!(successor(&[1, 0xFF, 0xFF]), Some(vec![2]));
    assert_eq!(successor(&[0xFF]), None);
    assert_eq!(successor(&[]), None);
}

#[test]
fn hashes_cut_off_fractions() {
    assert_eq!(hash64(RawValue::Double(2.3)), hash64(RawValue::Int32(2)));
    assert_eq!(hash64(RawValue::Double(f64::NAN)), hash64(RawValue::Int32(0)));
    assert_ne!(hash64(RawValue::Int32(3)), hash64(RawValue::Int32(2)));
    assert_ne!(hash64(RawValue::String("3")), hash64(RawValue::Int32(3)));
    // Stored in hashed indexes: must never change.
    assert_eq!(stable_hash(b""), 0xefd0_1f60_ba99_2926);
}

#[test]
fn damaged_keys_are_errors() {
    let one = [SortOrder::Ascending];
    assert_eq!(decode(&[], &[], &one), Err(KeyError::Truncated));
    assert_eq!(decode(&[0x02], &[], &one), Err(KeyError::Malformed));
    assert_eq!(decode(&[0xA0, b'a'], &[], &one), Err(KeyError::Truncated));
    assert_eq!(decode(&[0xA0, 1, 9, 0], &[], &one), Err(KeyError::Malformed));
    let deep = vec![0xA8; 5000];
    assert_eq!(decode(&deep, &[], &one), Err(KeyError::Malformed));
}

fn directions() -> impl Strategy<Value = Vec<SortOrder>> {
    prop::collection::vec(prop::sample::select(vec![SortOrder::Ascending, SortOrder::Descending]), 3)
}

fn compound(values: &[Value], directions: &[SortOrder]) -> (Vec<u8>, Vec<u8>) {
    let mut builder = KeyBuilder::new();
    for (value, &direction) in values.iter().zip(directions) {
        with_raw(value, |raw| builder.append(raw, direction));
    }
    builder.into_parts()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None,
        ..ProptestConfig::default() })]

    #[test]
    fn keys_order_as_values(left in value(), right in value()) {
        check(&left, &right);
    }

    #[test]
    fn keys_order_as_numbers(left in number(), right in number()) {
        check(&left, &right);
    }

    #[test]
    fn keys_order_as_near_numbers((left, right) in near_numbers()) {
        check(&left, &right);
    }

    #[test]
    fn comparison_is_transitive(values in prop::collection::vec(number(), 3)) {
        let mut sorted = values;
        sorted.sort_by(Value::compare);
        for pair in sorted.windows(2) {
            prop_assert!(encoded(&pair[0]) <= encoded(&pair[1]), "{:?}", pair);
        }
    }

    #[test]
    fn numbers_come_back(value in number()) {
        let (key, types) = compound(std::slice::from_ref(&value), &[SortOrder::Ascending]);
        let decoded = decode(&key, &types, &[SortOrder::Ascending]).expect("a key just written");
        prop_assert!(identical(&decoded[0], &value), "{:?} became {:?}", value, decoded[0]);
        let untyped = decode(&key, &[], &[SortOrder::Ascending]).expect("a key just written");
        prop_assert_eq!(untyped[0].compare(&value), Ordering::Equal, "{:?} became {:?}", value, untyped[0]);
    }

    #[test]
    fn compound_keys_come_back(values in prop::collection::vec(value(), 3), directions in directions()) {
        let (key, types) = compound(&values, &directions);
        let decoded = decode(&key, &types, &directions).expect("a key just written");
        for (decoded, value) in decoded.iter().zip(&values) {
            prop_assert!(identical(decoded, value), "{:?} became {:?}", value, decoded);
        }
    }

    #[test]
    fn compound_keys_order(
        lefts in prop::collection::vec(value(), 3),
        others in prop::collection::vec(value(), 3),
        shared in 0usize..4,
        directions in directions(),
    ) {
        let shared = shared.min(3);
        let rights: Vec<Value> = lefts[..shared].iter().chain(&others[shared..]).cloned().collect();
        let order = lefts
            .iter()
            .zip(&rights)
            .zip(&directions)
            .map(|((left, right), direction)| match direction {
                SortOrder::Ascending => left.compare(right),
                SortOrder::Descending => right.compare(left),
            })
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal);
        prop_assert_eq!(compound(&lefts, &directions).0.cmp(&compound(&rights, &directions).0), order);
    }

    #[test]
    fn classes_are_ranges(value in value()) {
        let key = encoded(&value);
        let inverted: Vec<u8> = key.iter().map(|byte| !byte).collect();
        for kind in ElementType::ALL {
            let inside = canonical_type(kind) == canonical_type(value.kind());
            let bracket = type_bracket(kind);
            let below_upper = value.compare(&bracket.upper).is_lt()
                || bracket.upper_inclusive && value.compare(&bracket.upper).is_eq();
            prop_assert_eq!(bracket.lower.compare(&value).is_le() && below_upper, inside, "{:?} in {:?}",
                value, kind);
        }
        for byte in [key[0], inverted[0]] {
            prop_assert!(byte > BELOW && byte < ABOVE);
        }
    }

    #[test]
    fn any_bytes_as_key(key in prop::collection::vec(any::<u8>(), 0..60),
        types in prop::collection::vec(0u8..7, 0..8)) {
        for directions in [[SortOrder::Ascending; 2], [SortOrder::Descending; 2]] {
            let _ = decode(&key, &types, &directions);
        }
    }

    #[test]
    fn documents_order_as_values(left in document(), right in document()) {
        let (left_bytes, right_bytes) = (left.to_buf(), right.to_buf());
        let order = crate::compare_documents(left_bytes.as_raw(), right_bytes.as_raw());
        prop_assert_eq!(order, left.compare(&right));
        let [left, right] = [left_bytes.as_raw(), right_bytes.as_raw()].map(RawValue::Document);
        prop_assert_eq!(order, Comparable(left).cmp(&Comparable(right)));
    }
}
