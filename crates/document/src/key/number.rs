//! Numbers in keys: the exact form of [`crate::number::exact`] as bytes.

use super::decode::{KeyError, Reader};
use super::{tag, type_bits};
use crate::decimal::{MAX_DIGITS, MAX_EXPONENT, MIN_EXPONENT, Parts};
use crate::number::Number;
use crate::number::exact::{Exact, Magnitude, Tail};
use crate::{Decimal128, Value};

/// Added to exponents that follow a tag, so that they are above zero and order as bytes.
const EXPONENT_BIAS: i32 = 0x8000;

/// Fraction bits per byte; the lowest bit tells whether more follows.
const GROUP_BITS: u32 = 7;

/// Bytes that hold all 63 fraction bits.
const GROUPS: usize = 9;

/// Pairs of digits in a tail.
const TAIL_PAIRS: u32 = MAX_DIGITS / 2;

/// The longest number: tag, exponent, groups, tail with its power and end.
const LONGEST: usize = 1 + 2 + GROUPS + 2 + TAIL_PAIRS as usize + 1;

/// Appends a number's key.
#[inline]
pub(super) fn append(key: &mut Vec<u8>, number: Number) {
    match Exact::of(number) {
        Exact::Nan => key.push(tag::NAN),
        Exact::NegativeInfinity => key.push(tag::NEGATIVE_INFINITY),
        Exact::Negative(std::cmp::Reverse(magnitude)) => append_magnitude(key, magnitude, true),
        Exact::Zero => key.push(tag::ZERO),
        Exact::Positive(magnitude) => append_magnitude(key, magnitude, false),
        Exact::Infinity => key.push(tag::INFINITY),
    }
}

#[inline]
fn append_magnitude(key: &mut Vec<u8>, magnitude: Magnitude, negative: bool) {
    let Magnitude { exponent, mantissa, tail } = magnitude;
    key.reserve(LONGEST);
    match (exponent, negative) {
        (0..tag::TAGGED_EXPONENTS, false) => key.push(tag::POSITIVE_ONE + exponent as u8),
        (0..tag::TAGGED_EXPONENTS, true) => key.push(tag::NEGATIVE_ONE - exponent as u8),
        (..0, false) => key.push(tag::POSITIVE_TINY),
        (..0, true) => key.push(tag::NEGATIVE_TINY),
        (_, false) => key.push(tag::POSITIVE_HUGE),
        (_, true) => key.push(tag::NEGATIVE_HUGE),
    }
    let start = key.len();
    if !(0..tag::TAGGED_EXPONENTS).contains(&exponent) {
        append_exponent(key, exponent);
    }
    let mut fraction = mantissa << 1;
    for _ in 0..GROUPS {
        let group = (fraction >> (u64::BITS - GROUP_BITS)) as u8;
        fraction <<= GROUP_BITS;
        let more = fraction != 0 || tail.is_some();
        key.push(group << 1 | u8::from(more));
        if !more {
            break;
        }
    }
    if let Some(tail) = tail {
        append_tail(key, tail);
    }
    if negative {
        key.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
    }
}

fn append_exponent(key: &mut Vec<u8>, exponent: i32) {
    key.extend_from_slice(&((exponent + EXPONENT_BIAS) as u16).to_be_bytes());
}

fn append_tail(key: &mut Vec<u8>, tail: Tail) {
    append_exponent(key, tail.power);
    let mut rest = tail.coefficient;
    let mut unit = 100u128.pow(TAIL_PAIRS - 1);
    while rest != 0 {
        key.push((rest / unit) as u8 + 1);
        rest %= unit;
        unit /= 100;
    }
    key.push(tag::END);
}

/// Appends a number's type code.
#[inline]
pub(super) fn append_type(types: &mut Vec<u8>, number: Number) {
    match number {
        Number::Int32(_) => types.push(type_bits::INT32),
        Number::Int64(_) => types.push(type_bits::INT64),
        Number::Double(0.0) if number.is_negative() => types.push(type_bits::DOUBLE_NEGATIVE_ZERO),
        Number::Double(_) => types.push(type_bits::DOUBLE),
        Number::Decimal(decimal) => match decimal.parts() {
            Parts::Finite { negative, coefficient, exponent } => {
                let negative_zero = negative && coefficient == 0;
                types.push(if negative_zero { type_bits::DECIMAL_NEGATIVE_ZERO } else { type_bits::DECIMAL });
                types.extend_from_slice(&((exponent - MIN_EXPONENT) as u16).to_be_bytes());
            }
            _ => types.push(type_bits::DECIMAL),
        },
    }
}

/// Whether a value that begins with this tag is a number.
pub(super) const fn is_number(tag: u8) -> bool {
    tag >= tag::NAN && tag <= tag::INFINITY
}

/// Reads what follows a number's tag.
pub(super) fn read(reader: &mut Reader<'_>, tag: u8) -> Result<Exact, KeyError> {
    let (negative, exponent) = match tag {
        tag::NAN => return Ok(Exact::Nan),
        tag::NEGATIVE_INFINITY => return Ok(Exact::NegativeInfinity),
        tag::ZERO => return Ok(Exact::Zero),
        tag::INFINITY => return Ok(Exact::Infinity),
        tag::NEGATIVE_HUGE | tag::NEGATIVE_TINY => (true, None),
        tag::POSITIVE_HUGE | tag::POSITIVE_TINY => (false, None),
        _ if tag < tag::ZERO => (true, Some(i32::from(tag::NEGATIVE_ONE) - i32::from(tag))),
        _ => (false, Some(i32::from(tag) - i32::from(tag::POSITIVE_ONE))),
    };
    let outer = reader.mask;
    if negative {
        reader.mask = !outer;
    }
    let magnitude = read_magnitude(reader, exponent);
    reader.mask = outer;
    let magnitude = magnitude?;
    Ok(if negative { Exact::Negative(std::cmp::Reverse(magnitude)) } else { Exact::Positive(magnitude) })
}

fn read_magnitude(reader: &mut Reader<'_>, exponent: Option<i32>) -> Result<Magnitude, KeyError> {
    let exponent = match exponent {
        Some(exponent) => exponent,
        None => read_exponent(reader)?,
    };
    let (mut fraction, mut groups, mut more) = (0u64, 0, true);
    while more && groups < GROUPS {
        let byte = reader.byte()?;
        fraction = fraction << GROUP_BITS | u64::from(byte >> 1);
        more = byte & 1 == 1;
        groups += 1;
    }
    fraction <<= GROUP_BITS as usize * (GROUPS - groups);
    let tail = if more { Some(read_tail(reader)?) } else { None };
    Ok(Magnitude { exponent, mantissa: fraction | 1 << 63, tail })
}

fn read_exponent(reader: &mut Reader<'_>) -> Result<i32, KeyError> {
    Ok(i32::from(u16::from_be_bytes(reader.array()?)) - EXPONENT_BIAS)
}

fn read_tail(reader: &mut Reader<'_>) -> Result<Tail, KeyError> {
    let power = read_exponent(reader)?;
    let mut coefficient = 0u128;
    let mut pairs = 0;
    loop {
        match reader.byte()? {
            tag::END => break,
            pair @ 1..=100 if pairs < TAIL_PAIRS => coefficient = coefficient * 100 + u128::from(pair - 1),
            _ => return Err(KeyError::Malformed),
        }
        pairs += 1;
    }
    Ok(Tail { power, coefficient: coefficient * 100u128.pow(TAIL_PAIRS - pairs) })
}

/// The type code of the next number, with what belongs to it.
pub(super) struct NumberType {
    code: u8,
    exponent: i32,
}

impl NumberType {
    /// Reads the code for a number of this exact form.
    pub(super) fn read(types: &mut std::slice::Iter<'_, u8>, exact: Exact) -> NumberType {
        let code = types.next().copied().unwrap_or(type_bits::INT32);
        let finite = !matches!(exact, Exact::Nan | Exact::NegativeInfinity | Exact::Infinity);
        let mut exponent = 0;
        if finite && matches!(code, type_bits::DECIMAL | type_bits::DECIMAL_NEGATIVE_ZERO) {
            let mut next = || types.next().copied().unwrap_or_default();
            exponent = i32::from(u16::from_be_bytes([next(), next()])) + MIN_EXPONENT;
        }
        NumberType { code, exponent }
    }
}

/// The number of this exact form and type.
pub(super) fn to_value(exact: Exact, kind: NumberType) -> Result<Value, KeyError> {
    match kind.code {
        type_bits::INT32 => Ok(narrowest(exact)),
        type_bits::INT64 => integer(exact).map(Value::Int64).ok_or(KeyError::Malformed),
        type_bits::DOUBLE => double(exact).map(Value::Double).ok_or(KeyError::Malformed),
        type_bits::DOUBLE_NEGATIVE_ZERO if exact == Exact::Zero => Ok(Value::Double(-0.0)),
        type_bits::DECIMAL_NEGATIVE_ZERO if exact == Exact::Zero => decimal_of(true, 0, kind.exponent),
        type_bits::DECIMAL => decimal(exact, kind.exponent),
        _ => Err(KeyError::Malformed),
    }
}

/// The value of the narrowest type: what a number without type bits reads as.
fn narrowest(exact: Exact) -> Value {
    if let Some(integer) = integer(exact) {
        return i32::try_from(integer).map_or(Value::Int64(integer), Value::Int32);
    }
    if let Some(double) = double(exact) {
        return Value::Double(double);
    }
    let (negative, magnitude) = match exact {
        Exact::Negative(std::cmp::Reverse(magnitude)) => (true, magnitude),
        Exact::Positive(magnitude) => (false, magnitude),
        _ => return Value::Double(f64::NAN),
    };
    let number = match magnitude.tail {
        Some(tail) => reduced_tail(negative, tail),
        // A binary fraction beyond the doubles. It is a decimal number, which has no more powers than this.
        None => (-i32::from(u8::MAX)..=i32::from(u8::MAX)).find_map(|exponent| {
            let coefficient = binary_coefficient(magnitude, exponent)?;
            Decimal128::from_parts(Parts::Finite { negative, coefficient, exponent })
        }),
    };
    Value::Decimal128(number.map_or(Decimal128::NAN, Decimal128::reduced))
}

/// The number with the fewest digits, which for the smallest numbers is the only way to write them.
fn reduced_tail(negative: bool, tail: Tail) -> Option<Decimal128> {
    let Tail { mut power, mut coefficient } = tail;
    power -= MAX_DIGITS as i32 - 1;
    while coefficient != 0 && coefficient % 10 == 0 {
        coefficient /= 10;
        power += 1;
    }
    let surplus = power - power.min(MAX_EXPONENT);
    let coefficient = coefficient.checked_mul(10u128.checked_pow(surplus.unsigned_abs())?)?;
    Decimal128::from_parts(Parts::Finite { negative, coefficient, exponent: power - surplus })
}

fn integer(exact: Exact) -> Option<i64> {
    let magnitude = match exact {
        Exact::Zero => return Some(0),
        Exact::Positive(magnitude) | Exact::Negative(std::cmp::Reverse(magnitude)) => magnitude,
        _ => return None,
    };
    let fraction_bits = u32::try_from(63 - magnitude.exponent).ok().filter(|bits| *bits < u64::BITS)?;
    if magnitude.tail.is_some() || magnitude.mantissa.trailing_zeros() < fraction_bits {
        return None;
    }
    let integer = i128::from(magnitude.mantissa >> fraction_bits);
    i64::try_from(if matches!(exact, Exact::Negative(_)) { -integer } else { integer }).ok()
}

fn double(exact: Exact) -> Option<f64> {
    let magnitude = match exact {
        Exact::Nan => return Some(f64::NAN),
        Exact::NegativeInfinity => return Some(f64::NEG_INFINITY),
        Exact::Infinity => return Some(f64::INFINITY),
        Exact::Zero => return Some(0.0),
        Exact::Positive(magnitude) | Exact::Negative(std::cmp::Reverse(magnitude)) => magnitude,
    };
    if magnitude.tail.is_some() || magnitude.exponent > f64::MAX_EXP - 1 {
        return None;
    }
    let fraction_bits = f64::MANTISSA_DIGITS - 1;
    let lowest_normal = f64::MIN_EXP - 1;
    // A subnormal has no hidden bit and is shifted further the smaller it is.
    let missing = u32::try_from(lowest_normal - magnitude.exponent).unwrap_or(0);
    let shift = (u64::BITS - 1 - fraction_bits).checked_add(missing).filter(|bits| *bits < u64::BITS)?;
    if magnitude.mantissa.trailing_zeros() < shift {
        return None;
    }
    let significand = magnitude.mantissa >> shift;
    let bits = if missing > 0 {
        significand
    } else {
        let biased = (magnitude.exponent - lowest_normal + 1) as u64;
        biased << fraction_bits | significand & ((1 << fraction_bits) - 1)
    };
    let double = f64::from_bits(bits);
    Some(if matches!(exact, Exact::Negative(_)) { -double } else { double })
}

fn decimal(exact: Exact, exponent: i32) -> Result<Value, KeyError> {
    let (negative, magnitude) = match exact {
        Exact::Nan => return Ok(Value::Decimal128(Decimal128::NAN)),
        Exact::NegativeInfinity => return Ok(Value::Decimal128(Decimal128::NEG_INFINITY)),
        Exact::Infinity => return Ok(Value::Decimal128(Decimal128::INFINITY)),
        Exact::Zero => return decimal_of(false, 0, exponent),
        Exact::Negative(std::cmp::Reverse(magnitude)) => (true, magnitude),
        Exact::Positive(magnitude) => (false, magnitude),
    };
    let coefficient = match magnitude.tail {
        Some(tail) => tail_coefficient(tail, exponent),
        None => binary_coefficient(magnitude, exponent),
    };
    decimal_of(negative, coefficient.ok_or(KeyError::Malformed)?, exponent)
}

fn decimal_of(negative: bool, coefficient: u128, exponent: i32) -> Result<Value, KeyError> {
    Decimal128::from_parts(Parts::Finite { negative, coefficient, exponent })
        .map(Value::Decimal128)
        .ok_or(KeyError::Malformed)
}

fn tail_coefficient(tail: Tail, exponent: i32) -> Option<u128> {
    let surplus = exponent - (tail.power - (MAX_DIGITS as i32 - 1));
    let divisor = 10u128.checked_pow(u32::try_from(surplus).ok()?)?;
    tail.coefficient.is_multiple_of(divisor).then(|| tail.coefficient / divisor)
}

/// The coefficient with which a binary fraction is written with this power of ten.
fn binary_coefficient(magnitude: Magnitude, exponent: i32) -> Option<u128> {
    let zeros = magnitude.mantissa.trailing_zeros();
    let odd = u128::from(magnitude.mantissa >> zeros);
    let twos = magnitude.exponent - 63 + zeros as i32 - exponent;
    let fives = 5u128.checked_pow(exponent.unsigned_abs())?;
    let coefficient = if exponent < 0 {
        odd.checked_mul(fives)?
    } else if odd % fives == 0 {
        odd / fives
    } else {
        return None;
    };
    coefficient.checked_mul(1u128.checked_shl(u32::try_from(twos).ok()?)?)
}
