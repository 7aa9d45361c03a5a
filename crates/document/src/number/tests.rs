use super::*;
use crate::generate::near_numbers;
use proptest::prelude::*;

fn decimal(text: &str) -> Number {
    Number::Decimal(text.parse().unwrap())
}

/// Type and value, since numbers of different types are equal.
fn show(number: Number) -> String {
    format!("{number:?}")
}

#[track_caller]
fn check(result: Number, expect: Number) {
    assert_eq!(show(result), show(expect));
}

#[test]
fn promotion() {
    use Number::{Double, Int32, Int64};
    check(Int32(1).plus(Int32(2)), Int32(3));
    check(Int32(i32::MAX).plus(Int32(1)), Int64(1 << 31));
    check(Int32(i32::MIN).minus(Int32(1)), Int64(i64::from(i32::MIN) - 1));
    check(Int32(1 << 20).times(Int32(1 << 20)), Int64(1 << 40));
    check(Int32(1).plus(Int64(2)), Int64(3));
    check(Int64(2).times(Double(0.5)), Double(1.0));
    check(Int64(i64::MAX).plus(Int32(1)), Double(I64_LIMIT));
    assert!(Int64(i64::MAX).checked_plus(Int32(1)).is_none());
    assert!(Int64(i64::MIN).checked_minus(Int32(1)).is_none());
    assert!(Int64(i64::MIN).checked_times(Int32(-1)).is_none());
    check(Double(0.1).plus(decimal("0.2")), decimal("0.300000000000000"));
    check(Int32(3).times(decimal("0.10")), decimal("0.30"));
    check(Int32(6).divided_by(Int32(3)), Double(2.0));
    check(Int32(1).divided_by(decimal("4")), decimal("0.25"));
}

#[test]
fn remainders_and_signs() {
    use Number::{Double, Int32, Int64};
    check(Int32(-7).remainder(Int32(3)).unwrap(), Int32(-1));
    check(Int64(i64::MIN).remainder(Int32(-1)).unwrap(), Int64(0));
    check(Double(7.5).remainder(Int32(2)).unwrap(), Double(1.5));
    assert!(Int32(1).remainder(Int64(0)).is_none());
    assert!(Int32(1).remainder(Double(0.0)).unwrap().is_nan());
    check(Int32(i32::MIN).negated(), Int64(1 << 31));
    check(Int64(i64::MIN).negated(), Double(I64_LIMIT));
    check(Double(0.0).negated(), Double(-0.0));
}

#[test]
fn integers_of_numbers() {
    use Number::{Double, Int64};
    assert_eq!(Double(3.0).to_i64_exact(), Some(3));
    assert_eq!(Double(3.5).to_i64_exact(), None);
    assert_eq!(Double(-3.5).to_i64_truncated(), Some(-3));
    assert_eq!(Double(I64_LIMIT).to_i64_truncated(), None);
    assert_eq!(Double(-I64_LIMIT).to_i64_exact(), Some(i64::MIN));
    assert_eq!(Double(f64::NAN).to_i64_saturating(), 0);
    assert_eq!(Double(f64::NEG_INFINITY).to_i64_saturating(), i64::MIN);
    assert_eq!(decimal("1E+30").to_i64_saturating(), i64::MAX);
    assert_eq!(Int64(9).to_i64_saturating(), 9);
}

#[test]
fn truth() {
    for value in [Value::Boolean(false), Value::Null, Value::Undefined, 0.into(), (-0.0).into(), 0i64.into()]
    {
        assert!(!value.truthy() && !value.as_raw_scalar().unwrap().truthy(), "{value:?}");
    }
    for value in [Value::Boolean(true), 1.into(), f64::NAN.into(), "".into(), Value::MinKey] {
        assert!(value.truthy() && value.as_raw_scalar().unwrap().truthy(), "{value:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None,
        ..ProptestConfig::default() })]

    /// The quick ways of comparing agree with the exact one.
    #[test]
    fn quick_comparison_is_exact((left, right) in near_numbers()) {
        let (left, right) = (left.as_number().unwrap(), right.as_number().unwrap());
        prop_assert_eq!(left.compare(right), Exact::of(left).cmp(&Exact::of(right)));
    }

    /// An exact comparison agrees with one of numerals, where those are short enough to be padded.
    #[test]
    fn doubles_against_numerals(mantissa in -1_000_000i64..1_000_000, power in 0u32..20,
        double in -1000.0f64..1000.0) {
        let text = format!("{mantissa}E-{power}");
        let exact = decimal(&text).compare(Number::Double(double));
        // Both to 60 places, as integers.
        let scaled = |numeral: String| -> num_bigint::BigInt {
            let (whole, fraction) = numeral.split_once('.').unwrap_or((&numeral, ""));
            format!("{whole}{fraction:0<1080}").parse().unwrap()
        };
        let plain = num_bigint::BigInt::from(mantissa) * num_bigint::BigInt::from(10u32).pow(1080 - power);
        prop_assert_eq!(exact, plain.cmp(&scaled(format!("{double:.1080}"))));
    }
}
