use super::*;
use crate::generate::decimal;
use proptest::prelude::*;

/// Text reads as these parts, and the number prints as `canonical`.
#[track_caller]
fn check_text(text: &str, canonical: &str) -> Decimal128 {
    let number = Decimal128::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(number.to_string(), canonical, "{text}");
    assert_eq!(Decimal128::parse(canonical), Ok(number), "{canonical}");
    number
}

#[track_caller]
fn check_same(text: &str) -> Decimal128 {
    check_text(text, text)
}

fn number(text: &str) -> Decimal128 {
    text.parse().unwrap()
}

fn from_hex(hex: &str) -> Decimal128 {
    let mut bytes = [0; 16];
    for (byte, position) in bytes.iter_mut().zip((0..32).step_by(2)) {
        *byte = u8::from_str_radix(&hex[position..position + 2], 16).unwrap();
    }
    Decimal128::from_bytes(bytes)
}

/// Encodings from the BSON Decimal128 specification's test corpus.
#[test]
fn specification_bytes() {
    for (hex, text) in [
        ("00000000000000000000000000004030", "0"),
        ("000000000000000000000000000040B0", "-0"),
        ("0000000000000000000000000000FA30", "0E+93"),
        ("01000000000000000000000000004030", "1"),
        ("010000000000000000000000000040B0", "-1"),
        ("01000000000000000000000000003E30", "0.1"),
        ("0A000000000000000000000000003E30", "1.0"),
        ("D2040000000000000000000000002A30", "1.234E-8"),
        ("D2040000000000000000000000003430", "0.001234"),
        ("40EF5A07000000000000000000002A30", "0.00123400000"),
        ("15CD5B07000000000000000000002030", "1.23456789E-8"),
        ("F2AF967ED05C82DE3297FF6FDE3CFC2F", "0.1234567890123456789012345678901234"),
        ("FFFFFFFF638E8D37C087ADBE09EDFF5F", "9.999999999999999999999999999999999E+6144"),
        ("01000000000000000000000000000000", "1E-6176"),
        ("000000000A5BC138938D44C64D31FE5F", "1.000000000000000000000000000000000E+6144"),
        ("00000000000000000000000000000078", "Infinity"),
        ("000000000000000000000000000000F8", "-Infinity"),
        ("0000000000000000000000000000007C", "NaN"),
        ("000000000000000000000000000000FC", "NaN"),
        ("1200000000000000000000000000007E", "NaN"),
        // A coefficient beyond the limit reads as zero.
        ("00000000000000000000000000000060", "0E-6176"),
    ] {
        assert_eq!(from_hex(hex).to_string(), text, "{hex}");
    }
}

#[test]
fn specification_text() {
    check_same("0.000001234");
    check_same("1.234E-7");
    check_same("1E+3");
    check_same("1.05E+3");
    check_same("-1.0");
    check_same("123.456");
    check_same("0E-6176");
    check_same("-0E+6111");
    check_text("1000e-3", "1.000");
    check_text("+12", "12");
    check_text(".5", "0.5");
    check_text("5.", "5");
    check_text("001.20", "1.20");
    check_text("1e6112", "1.0E+6112");
    check_text("1E6144", "1.000000000000000000000000000000000E+6144");
    check_text("0E8000", "0E+6111");
    check_text("0E-8000", "0E-6176");
    check_text("1E-7000", "0E-6176");
    check_text("10E-6177", "1E-6176");
    check_text("15E-6177", "2E-6176");
    check_text("25E-6177", "2E-6176");
    check_text("5E-6177", "0E-6176");
    check_text("6E-6177", "1E-6176");
    check_text("9.9999999999999999999999999999999994", "9.999999999999999999999999999999999");
    check_text("9.9999999999999999999999999999999996", "10.00000000000000000000000000000000");
    check_text("12345678901234567890123456789012345", "1.234567890123456789012345678901234E+34");
    check_text("12345678901234567890123456789012355", "1.234567890123456789012345678901236E+34");
    check_text("123456789012345678901234567890123450001", "1.234567890123456789012345678901235E+38");
    check_text("inf", "Infinity");
    check_text("-iNfInItY", "-Infinity");
    check_text("nAn", "NaN");
}

#[test]
fn malformed_text() {
    for text in
        ["", "-", ".", "1.2.3", "1e", "1e+", "e5", "0x1", " 1", "1 ", "infinit", "1e1.5", "--1", "1_0", "٣"]
    {
        assert_eq!(Decimal128::parse(text), Err(ParseDecimalError::Malformed), "{text:?}");
    }
    for text in ["1E6145", "1e99999999999", "-10E+6144", "9.9999999999999999999999999999999996E+6144"] {
        assert_eq!(Decimal128::parse(text), Err(ParseDecimalError::Overflow), "{text:?}");
    }
}

#[test]
fn doubles() {
    assert_eq!(Decimal128::from_f64(0.1).to_string(), "0.100000000000000");
    assert_eq!(Decimal128::from_f64(2.5).to_string(), "2.50000000000000");
    assert_eq!(Decimal128::from_f64(-0.0).to_string(), "-0");
    assert_eq!(Decimal128::from_f64(1e300).to_string(), "1.00000000000000E+300");
    assert_eq!(Decimal128::from_f64_widest(0.1).to_string(), "0.1000000000000000055511151231257827");
    for (number, expect) in [(13.5, "13.5"), (-0.25, "-0.25"), (1000.0, "1000"), (0.0, "0")] {
        assert_eq!(Decimal128::from_f64_widest(number).to_string(), expect);
    }
    assert_eq!(Decimal128::from_f64(f64::NEG_INFINITY), Decimal128::NEG_INFINITY);
    assert_eq!(number("0.1").to_f64(), 0.1);
    assert_eq!(number("1E+400").to_f64(), f64::INFINITY);
    assert_eq!(number("-1E-400").to_f64().to_bits(), (-0.0f64).to_bits());
    assert!(Decimal128::NAN.to_f64().is_nan());
}

#[test]
fn integers() {
    assert_eq!(number("12.00").to_i64_exact(), Some(12));
    assert_eq!(number("12.5").to_i64_exact(), None);
    assert_eq!(number("-12.9").to_i64_truncated(), Some(-12));
    assert_eq!(number("9223372036854775807").to_i64_exact(), Some(i64::MAX));
    assert_eq!(number("-9223372036854775808").to_i64_exact(), Some(i64::MIN));
    assert_eq!(number("9223372036854775808").to_i64_exact(), None);
    assert_eq!(number("1E+6000").to_i64_truncated(), None);
    assert_eq!(number("0E+6000").to_i64_exact(), Some(0));
    assert_eq!(number("1E-6000").to_i64_truncated(), Some(0));
    assert_eq!(Decimal128::INFINITY.to_i64_truncated(), None);
}

#[test]
fn rounding() {
    #[track_caller]
    fn check(text: &str, places: i32, expect: [&str; 4]) {
        let modes =
            [RoundingMode::HalfEven, RoundingMode::Truncate, RoundingMode::Floor, RoundingMode::Ceiling];
        assert_eq!(modes.map(|mode| number(text).round_to_place(places, mode).to_string()), expect);
    }
    check("2.5", 0, ["2", "2", "2", "3"]);
    check("3.5", 0, ["4", "3", "3", "4"]);
    check("-2.51", 0, ["-3", "-2", "-3", "-2"]);
    check("2.345", 2, ["2.34", "2.34", "2.34", "2.35"]);
    check("1234", -2, ["1.2E+3", "1.2E+3", "1.2E+3", "1.3E+3"]);
    check("7", 3, ["7", "7", "7", "7"]);
    check("9.9", 0, ["10", "9", "9", "10"]);
    check("1E-6176", 0, ["0", "0", "0", "1"]);
    check("-1E-6176", 0, ["-0", "-0", "-1", "-0"]);
    check("Infinity", 0, ["Infinity"; 4]);
}

#[test]
fn arithmetic() {
    #[track_caller]
    fn check(operation: fn(Decimal128, Decimal128) -> Decimal128, left: &str, right: &str, expect: &str) {
        assert_eq!(operation(number(left), number(right)).to_string(), expect, "{left}, {right}");
    }
    check(Decimal128::plus, "0.1", "0.2", "0.3");
    check(Decimal128::plus, "1E+6144", "9E+6144", "Infinity");
    check(Decimal128::plus, "Infinity", "-Infinity", "NaN");
    check(Decimal128::plus, "-0", "-0", "-0");
    check(Decimal128::minus, "1.10", "1.1", "0.00");
    check(Decimal128::times, "1.20", "3", "3.60");
    check(Decimal128::times, "-0", "3", "-0");
    check(Decimal128::divided_by, "1", "3", "0.3333333333333333333333333333333333");
    check(Decimal128::divided_by, "1", "0", "Infinity");
    check(Decimal128::divided_by, "0", "0", "NaN");
    check(Decimal128::divided_by, "10", "4", "2.5");
    check(Decimal128::remainder, "7.5", "2", "1.5");
    check(Decimal128::remainder, "-7.5", "2", "-1.5");
    check(Decimal128::remainder, "7", "-0.75", "0.25");
    check(Decimal128::remainder, "1E+6000", "7", &(powmod(10, 6000, 7)).to_string());
    check(Decimal128::remainder, "3", "1E+6000", "3");
    check(Decimal128::remainder, "3", "Infinity", "3");
    check(Decimal128::remainder, "3", "0", "NaN");
    check(Decimal128::remainder, "Infinity", "3", "NaN");
    check(Decimal128::power, "2", "10", "1024");
    check(Decimal128::power, "2", "0.5", "1.414213562373095048801688724209698");
    assert_eq!(number("2").square_root().to_string(), "1.414213562373095048801688724209698");
    assert_eq!(number("-2").square_root(), Decimal128::NAN);
    assert_eq!(number("1").exponential().to_string(), "2.718281828459045235360287471352662");
    assert_eq!(number("10").natural_logarithm().to_string(), "2.302585092994045684017991454684364");
    assert_eq!(number("1000").decimal_logarithm().to_string(), "3");
    assert_eq!(number("0").natural_logarithm(), Decimal128::NEG_INFINITY);
    assert_eq!(number("1.500").reduced().to_string(), "1.5");
    assert_eq!(number("-0.00").reduced().to_string(), "-0");
}

fn powmod(base: u32, exponent: u32, modulus: u32) -> u32 {
    (0..exponent).fold(1, |rest, _| rest * base % modulus)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None,
        ..ProptestConfig::default() })]

    #[test]
    fn text_comes_back(number in decimal()) {
        prop_assert_eq!(Decimal128::parse(&number.to_string()), Ok(number));
    }

    #[test]
    fn any_text(text in "[-+0-9.eEinfa]{0,12}") {
        if let Ok(number) = Decimal128::parse(&text) {
            prop_assert_eq!(Decimal128::parse(&number.to_string()), Ok(number));
        }
    }

    #[test]
    fn any_bits(bits in any::<[u8; 16]>()) {
        let number = Decimal128::from_bytes(bits);
        let text = number.to_string();
        prop_assert_eq!(Decimal128::parse(&text).map(|number| number.to_string()), Ok(text));
        prop_assert_eq!(number.negated().negated(), number);
    }

    #[test]
    fn doubles_come_back(double in any::<f64>()) {
        let back = Decimal128::from_f64_widest(double).to_f64();
        prop_assert!(back == double || back.is_nan() && double.is_nan());
    }

    #[test]
    fn the_neutral_elements(number in decimal()) {
        if number.is_finite() {
            let number_itself = crate::Number::Decimal(number);
            let compare = |left: Decimal128| crate::Number::Decimal(left).compare(number_itself);
            prop_assert!(compare(number.times(Decimal128::ONE)).is_eq());
            prop_assert!(compare(number.divided_by(Decimal128::ONE)).is_eq());
            prop_assert!(compare(number.plus(Decimal128::ZERO)).is_eq());
            prop_assert!(number.minus(number).is_zero());
            prop_assert!(compare(number.reduced()).is_eq());
        }
    }

    #[test]
    fn remainders_are_below_the_divisor(left in decimal(), right in decimal()) {
        if left.is_finite() && right.is_finite() && !right.is_zero() {
            let rest = left.remainder(right);
            prop_assert!(crate::Number::Decimal(rest.absolute()) < crate::Number::Decimal(right.absolute()));
        }
    }
}
