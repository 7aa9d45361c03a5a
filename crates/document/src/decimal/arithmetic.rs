//! Arithmetic with 34 digits, rounding half to even. The work is libdecnumber's; only the representation
//! differs: it packs three digits into ten bits, BSON stores the coefficient as a binary integer.

use super::Parts;
use crate::Decimal128;
use dec::{Context, Decimal};

type Packed = dec::Decimal128;

/// Three digits each: two more than the result needs, so that the functions below round once, at the end.
const FUNCTION_UNITS: usize = 12;

/// Far beyond the exponents of the format, so that only the last rounding overflows.
const FUNCTION_EXPONENT_LIMIT: isize = 99_999;

impl Decimal128 {
    fn to_packed(self, context: &mut Context<Packed>) -> Packed {
        match self.parts() {
            Parts::Nan => Packed::NAN,
            Parts::Infinity { negative } => signed(context.div(Packed::ONE, Packed::ZERO), negative),
            Parts::Finite { negative, coefficient, exponent } => {
                let mut packed = context.from_u128(coefficient);
                context.set_exponent(&mut packed, exponent);
                signed(packed, negative)
            }
        }
    }

    fn from_packed(packed: Packed) -> Self {
        let negative = packed.is_signed();
        if packed.is_nan() {
            return Decimal128::NAN;
        }
        if packed.is_infinite() {
            return if negative { Decimal128::NEG_INFINITY } else { Decimal128::INFINITY };
        }
        let coefficient = packed.coefficient().unsigned_abs();
        Decimal128::from_parts(Parts::Finite { negative, coefficient, exponent: packed.exponent() })
            .expect("the library keeps to the format")
    }

    fn with_packed(self, other: Self, operation: fn(&mut Context<Packed>, Packed, Packed) -> Packed) -> Self {
        let mut context = Context::<Packed>::default();
        let (left, right) = (self.to_packed(&mut context), other.to_packed(&mut context));
        Decimal128::from_packed(operation(&mut context, left, right))
    }

    fn with_function(
        self,
        function: fn(&mut Context<Decimal<FUNCTION_UNITS>>, &mut Decimal<FUNCTION_UNITS>),
    ) -> Self {
        let mut number = self.to_wide();
        function(&mut function_context(), &mut number);
        Decimal128::from_packed(number.to_decimal128())
    }

    fn to_wide(self) -> Decimal<FUNCTION_UNITS> {
        Decimal::from(self.to_packed(&mut Context::default()))
    }

    /// Sum.
    pub fn plus(self, other: Self) -> Self {
        self.with_packed(other, Context::<Packed>::add)
    }

    /// Difference.
    pub fn minus(self, other: Self) -> Self {
        self.with_packed(other, Context::<Packed>::sub)
    }

    /// Product.
    pub fn times(self, other: Self) -> Self {
        self.with_packed(other, Context::<Packed>::mul)
    }

    /// Quotient; a number divided by zero is an infinity, zero by zero is not a number.
    pub fn divided_by(self, other: Self) -> Self {
        self.with_packed(other, Context::<Packed>::div)
    }

    /// Remainder of the division truncated towards zero; it has the sign of `self`. Exact however large the
    /// quotient is, as C's `fmod` is; a remainder by zero and one of an infinity are not numbers.
    pub fn remainder(self, other: Self) -> Self {
        let (Parts::Finite { negative, coefficient, exponent }, divisor) = (self.parts(), other.parts())
        else {
            return Decimal128::NAN;
        };
        let (divisor, divisor_exponent) = match divisor {
            Parts::Finite { coefficient: 0, .. } | Parts::Nan => return Decimal128::NAN,
            Parts::Infinity { .. } => return self,
            Parts::Finite { coefficient, exponent, .. } => (coefficient, exponent),
        };
        if exponent < divisor_exponent {
            let shift = divisor_exponent.abs_diff(exponent);
            let aligned = 10u128.checked_pow(shift).and_then(|power| divisor.checked_mul(power));
            let rest = aligned.map_or(coefficient, |aligned| coefficient % aligned);
            return Decimal128::finite(negative, rest, exponent);
        }
        // Both factors stay below 10³⁵, so that nothing overflows.
        let mut rest = coefficient % divisor;
        for _ in divisor_exponent..exponent {
            rest = rest * 10 % divisor;
        }
        Decimal128::finite(negative, rest, divisor_exponent)
    }

    /// `self` to the power `other`.
    pub fn power(self, other: Self) -> Self {
        let mut number = self.to_wide();
        function_context().pow(&mut number, &other.to_wide());
        Decimal128::from_packed(number.to_decimal128())
    }

    /// Square root; not a number below zero.
    pub fn square_root(self) -> Self {
        self.with_function(Context::<Decimal<FUNCTION_UNITS>>::sqrt)
    }

    /// e to the power `self`.
    pub fn exponential(self) -> Self {
        self.with_function(Context::<Decimal<FUNCTION_UNITS>>::exp)
    }

    /// Natural logarithm.
    pub fn natural_logarithm(self) -> Self {
        self.with_function(Context::<Decimal<FUNCTION_UNITS>>::ln)
    }

    /// Logarithm to the base ten.
    pub fn decimal_logarithm(self) -> Self {
        self.with_function(Context::<Decimal<FUNCTION_UNITS>>::log10)
    }
}

/// The library computes roots, powers and logarithms only within this range of exponents.
fn function_context() -> Context<Decimal<FUNCTION_UNITS>> {
    let mut context = Context::default();
    let limited = context
        .set_max_exponent(FUNCTION_EXPONENT_LIMIT)
        .and_then(|()| context.set_min_exponent(-FUNCTION_EXPONENT_LIMIT));
    debug_assert!(limited.is_ok(), "the library refuses its own limits");
    context
}

/// Sets the sign bit. The library's own negation computes `0 - number` and so loses the sign of zero.
fn signed(packed: Packed, negative: bool) -> Packed {
    let [first, ref others @ ..] = packed.to_be_bytes();
    let mut bytes = [first & 0x7F | u8::from(negative) << 7; 16];
    for (target, source) in bytes.iter_mut().skip(1).zip(others) {
        *target = *source;
    }
    Packed::from_be_bytes(bytes)
}
