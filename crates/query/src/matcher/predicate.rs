//! Tests of single values.

use std::cmp::Ordering;

use document::{ElementType, RawDocument, RawValue, canonical_type, compare};

use super::evaluate::Subject;
use super::{BitTest, Constant, InList, LeafArrays, MatchDetails, MatchNode, Pattern, TypeSet, Verdict};
use crate::integer::truncated;

/// The comparison operators that are not negations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ComparisonOperator {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl ComparisonOperator {
    /// The operator's name in a filter.
    pub const fn name(self) -> &'static str {
        match self {
            ComparisonOperator::Equal => "$eq",
            ComparisonOperator::Less => "$lt",
            ComparisonOperator::LessOrEqual => "$lte",
            ComparisonOperator::Greater => "$gt",
            ComparisonOperator::GreaterOrEqual => "$gte",
        }
    }

    /// Whether equal values satisfy it.
    pub const fn allows_equal(self) -> bool {
        !matches!(self, ComparisonOperator::Less | ComparisonOperator::Greater)
    }

    #[inline]
    const fn accepts(self, ordering: Ordering) -> bool {
        match self {
            ComparisonOperator::Equal => ordering.is_eq(),
            ComparisonOperator::Less => ordering.is_lt(),
            ComparisonOperator::LessOrEqual => ordering.is_le(),
            ComparisonOperator::Greater => ordering.is_gt(),
            ComparisonOperator::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

/// `$eq`, `$lt`, `$lte`, `$gt`, `$gte`: only values of the operand's type class compare (type bracketing).
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The operator.
    pub operator: ComparisonOperator,
    /// The right side.
    pub operand: Constant,
}

impl Comparison {
    /// Whether the value compares as asked; `None` is a missing value.
    #[inline]
    pub(crate) fn holds(&self, value: Option<RawValue<'_>>) -> bool {
        let operand = self.operand.raw();
        match (value, operand) {
            (Some(RawValue::String(left)), RawValue::String(right)) => {
                self.operator.accepts(left.as_bytes().cmp(right.as_bytes()))
            }
            (Some(RawValue::Int32(left)), RawValue::Int32(right)) => self.operator.accepts(left.cmp(&right)),
            (Some(RawValue::Int64(left)), RawValue::Int64(right)) => self.operator.accepts(left.cmp(&right)),
            (Some(RawValue::ObjectId(left)), RawValue::ObjectId(right)) => {
                self.operator.accepts(left.cmp(&right))
            }
            _ => self.holds_across(value, operand),
        }
    }

    fn holds_across(&self, value: Option<RawValue<'_>>, operand: RawValue<'_>) -> bool {
        let absent = matches!(value, None | Some(RawValue::Null | RawValue::Undefined));
        match operand {
            RawValue::Null => return absent && self.operator.allows_equal(),
            RawValue::MinKey | RawValue::MaxKey => return self.holds_extreme(value, operand.kind()),
            _ => {}
        }
        let Some(value) = value else {
            return false;
        };
        if canonical_type(value.kind()) != canonical_type(operand.kind()) {
            return false;
        }
        match (is_nan(value), is_nan(operand)) {
            (false, false) => self.operator.accepts(compare(value, operand)),
            (left, right) => left && right && self.operator.allows_equal(),
        }
    }

    /// MinKey and MaxKey compare with every type, even with nothing.
    fn holds_extreme(&self, value: Option<RawValue<'_>>, operand: ElementType) -> bool {
        if value.is_some_and(|value| value.kind() == operand) {
            return self.operator.allows_equal();
        }
        match self.operator {
            ComparisonOperator::Equal => false,
            ComparisonOperator::Less | ComparisonOperator::LessOrEqual => operand == ElementType::MaxKey,
            ComparisonOperator::Greater | ComparisonOperator::GreaterOrEqual => {
                operand == ElementType::MinKey
            }
        }
    }
}

/// Whether the value is a number, and not one.
pub(crate) fn is_nan(value: RawValue<'_>) -> bool {
    match value {
        RawValue::Double(number) => number.is_nan(),
        RawValue::Decimal128(number) => number.is_nan(),
        _ => false,
    }
}

/// `$mod`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remainder {
    /// Never zero.
    pub divisor: i64,
    /// What must be left; its sign follows the dividend's.
    pub remainder: i64,
}

impl Remainder {
    fn holds(self, value: RawValue<'_>) -> bool {
        truncated(value).is_some_and(|dividend| dividend.wrapping_rem(self.divisor) == self.remainder)
    }
}

/// A test of one value that a path reaches.
#[derive(Debug, Clone)]
pub enum Predicate {
    /// `$eq`, `$lt`, `$lte`, `$gt`, `$gte`.
    Compare(Comparison),
    /// `$in`.
    In(InList),
    /// `$regex`.
    Pattern(Pattern),
    /// `$mod`.
    Remainder(Remainder),
    /// `$exists: true`.
    Exists,
    /// `$type`.
    Type(TypeSet),
    /// `$size`: exactly this many elements.
    Size(i64),
    /// `$bitsAllSet` and its kin.
    Bits(BitTest),
    /// `$elemMatch` with operators: one element passes all.
    ElementValue(Vec<ValueTest>),
    /// `$elemMatch` with a filter: one element that is a document (or array) passes.
    ElementObject(Box<MatchNode>),
    /// Nothing passes (`$all: []`).
    Nothing,
}

/// A test of a value by itself, as inside `$elemMatch` and `$pull`.
#[derive(Debug, Clone)]
pub enum ValueTest {
    /// The predicate holds.
    Is(Predicate),
    /// Not all of these hold.
    Not(Vec<ValueTest>),
}

impl Predicate {
    /// What this predicate wants of an array at the end of its path.
    #[inline]
    pub(crate) const fn leaf_arrays(&self) -> LeafArrays {
        match self {
            Predicate::Size(_)
            | Predicate::ElementValue(_)
            | Predicate::ElementObject(_)
            | Predicate::Exists
            | Predicate::Nothing => LeafArrays::Whole,
            _ => LeafArrays::Expand,
        }
    }

    /// About how many plain comparisons a value is worth.
    pub(crate) fn weight(&self) -> u32 {
        const PATTERN: u32 = 32;
        match self {
            Predicate::Pattern(_) => PATTERN,
            Predicate::In(list) => u32::try_from(list.patterns().len())
                .unwrap_or(u32::MAX)
                .saturating_mul(PATTERN)
                .saturating_add(1),
            Predicate::ElementValue(tests) => weight_of(tests),
            Predicate::ElementObject(filter) => filter.weight(),
            _ => 1,
        }
    }

    /// Whether it holds for this value itself; `None` is a missing value. `$elemMatch` notes in `details`
    /// which element passed.
    pub(crate) fn holds(&self, value: Option<RawValue<'_>>, details: Option<&mut MatchDetails>) -> Verdict {
        if let Predicate::Compare(comparison) = self {
            return Ok(comparison.holds(value));
        }
        if let Predicate::In(list) = self {
            return list.holds(value);
        }
        let Some(value) = value else {
            return Ok(false);
        };
        match self {
            Predicate::Pattern(pattern) => pattern.holds(value),
            Predicate::Remainder(remainder) => Ok(remainder.holds(value)),
            Predicate::Exists => Ok(true),
            Predicate::Type(types) => Ok(types.contains(value.kind())),
            Predicate::Bits(test) => Ok(test.holds(value)),
            Predicate::Size(size) => Ok(value.as_array().is_some_and(|array| array.len() as i64 == *size)),
            Predicate::ElementValue(tests) => {
                element_holds(value, details, |element| all_hold(tests, Some(element)))
            }
            Predicate::ElementObject(filter) => element_holds(value, details, |element| {
                as_nested(element).map_or(Ok(false), |nested| filter.matches(Subject::of(nested), None))
            }),
            Predicate::Compare(_) | Predicate::In(_) | Predicate::Nothing => Ok(false),
        }
    }
}

/// An array inside an array counts as a document whose fields are named by position.
fn as_nested(element: RawValue<'_>) -> Option<RawDocument<'_>> {
    match element {
        RawValue::Document(document) => Some(document),
        RawValue::Array(array) => Some(array.as_document()),
        _ => None,
    }
}

fn element_holds<'a>(
    value: RawValue<'a>,
    details: Option<&mut MatchDetails>,
    test: impl Fn(RawValue<'a>) -> Verdict,
) -> Verdict {
    let Some(array) = value.as_array() else {
        return Ok(false);
    };
    for (position, element) in array.iter().enumerate() {
        if test(element)? {
            if let Some(details) = details {
                details.array_index = Some(position);
            }
            return Ok(true);
        }
    }
    Ok(false)
}

fn weight_of(tests: &[ValueTest]) -> u32 {
    tests.iter().fold(0, |sum: u32, test| {
        sum.saturating_add(match test {
            ValueTest::Is(predicate) => predicate.weight(),
            ValueTest::Not(inner) => weight_of(inner),
        })
    })
}

impl ValueTest {
    pub(crate) fn holds(&self, value: Option<RawValue<'_>>) -> Verdict {
        match self {
            ValueTest::Is(predicate) => predicate.holds(value, None),
            ValueTest::Not(tests) => Ok(!all_hold(tests, value)?),
        }
    }
}

/// Whether the value passes every test.
pub(crate) fn all_hold(tests: &[ValueTest], value: Option<RawValue<'_>>) -> Verdict {
    for test in tests {
        if !test.holds(value)? {
            return Ok(false);
        }
    }
    Ok(true)
}
