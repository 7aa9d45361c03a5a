//! Which keys of a field can belong to documents that pass a predicate.

use document::key::type_bracket;
use document::{ElementType, RawValue, Value};

use super::{Cut, Interval, Intervals};
use crate::matcher::{Comparison, ComparisonOperator, InList, Pattern, Predicate, ValueTest, is_nan};

/// Intervals that hold a key of every document that passes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bounded {
    pub(crate) intervals: Intervals,
    /// Whether every document with a key in the intervals passes, so that nothing is left to check.
    pub(crate) exact: bool,
}

impl Bounded {
    pub(crate) const fn exact(intervals: Intervals) -> Self {
        Self { intervals, exact: true }
    }

    pub(crate) const fn inexact(intervals: Intervals) -> Self {
        Self { intervals, exact: false }
    }
}

/// The intervals of a predicate on an indexed path; `None` when any key may do. `multikey`: some documents
/// have arrays on the path.
pub(crate) fn of_predicate(predicate: &Predicate, multikey: bool) -> Option<Bounded> {
    match predicate {
        Predicate::Compare(comparison) => of_comparison(comparison, multikey),
        Predicate::In(list) => of_list(list, multikey),
        Predicate::Pattern(pattern) => Some(of_pattern(pattern)),
        Predicate::Nothing => Some(Bounded::exact(Intervals::none())),
        Predicate::Remainder(_) => Some(Bounded::inexact(classes(&[ElementType::Double]))),
        Predicate::Bits(_) => Some(Bounded::inexact(classes(&[ElementType::Double, ElementType::Binary]))),
        Predicate::Type(types) if !types.contains(ElementType::Array) => {
            Some(Bounded::inexact(classes(&types.kinds().collect::<Vec<_>>())))
        }
        Predicate::ElementValue(tests) => of_element_tests(tests),
        Predicate::Exists | Predicate::Type(_) | Predicate::Size(_) | Predicate::ElementObject(_) => None,
    }
}

fn classes(kinds: &[ElementType]) -> Intervals {
    Intervals::of(kinds.iter().map(|kind| class(*kind)).collect())
}

/// All values of one type class.
fn class(kind: ElementType) -> Interval {
    let bracket = type_bracket(kind);
    Interval::new(Cut::before(bracket.lower), Cut { value: bracket.upper, after: bracket.upper_inclusive })
}

/// Missing fields are null keys; an empty array is an undefined one.
pub(crate) fn null_points() -> Intervals {
    Intervals::of(vec![Interval::point(Value::Undefined), Interval::point(Value::Null)])
}

fn of_comparison(comparison: &Comparison, multikey: bool) -> Option<Bounded> {
    use ComparisonOperator as O;
    let operator = comparison.operator;
    let operand = comparison.operand.raw();
    let nothing = || Some(Bounded::exact(Intervals::none()));
    let point = |value| Some(Bounded::exact(Intervals::point(value)));
    match operand {
        // Inside arrays the key of an empty array, and of an element without the field, say null where
        // nothing matches.
        RawValue::Null if operator.allows_equal() => {
            Some(Bounded { intervals: null_points(), exact: !multikey })
        }
        RawValue::Null => nothing(),
        RawValue::MinKey => match operator {
            O::Equal | O::LessOrEqual => point(Value::MinKey),
            O::Less => nothing(),
            O::Greater | O::GreaterOrEqual => None,
        },
        RawValue::MaxKey => match operator {
            O::Equal | O::GreaterOrEqual => point(Value::MaxKey),
            O::Greater => nothing(),
            O::Less | O::LessOrEqual => None,
        },
        RawValue::Array(array) => (operator == O::Equal).then(|| {
            // An array is found by its first element's key, or by its own when it is an element.
            let first = array.iter().next().map_or(Value::Undefined, RawValue::to_value);
            let points = vec![Interval::point(first), Interval::point(operand.to_value())];
            Bounded::inexact(Intervals::of(points))
        }),
        _ if is_nan(operand) => {
            if operator.allows_equal() {
                point(operand.to_value())
            } else {
                nothing()
            }
        }
        _ => Some(Bounded::exact(Intervals::of(vec![ordered(operator, operand)]))),
    }
}

/// The part of the operand's class that compares as asked.
fn ordered(operator: ComparisonOperator, operand: RawValue<'_>) -> Interval {
    let value = operand.to_value();
    let Interval { from, to } = class(operand.kind());
    // Not-a-number is the lowest number, but compares with itself only.
    let from = if operand.is_number() { Cut::before(Value::Double(f64::NEG_INFINITY)) } else { from };
    match operator {
        ComparisonOperator::Equal => Interval::point(value),
        ComparisonOperator::Less => Interval::new(from, Cut::before(value)),
        ComparisonOperator::LessOrEqual => Interval::new(from, Cut::after(value)),
        ComparisonOperator::Greater => Interval::new(Cut::after(value), to),
        ComparisonOperator::GreaterOrEqual => Interval::new(Cut::before(value), to),
    }
}

fn of_list(list: &InList, multikey: bool) -> Option<Bounded> {
    let mut union = Bounded::exact(Intervals::none());
    let mut points = Vec::with_capacity(list.values().len());
    for constant in list.values() {
        match constant.raw() {
            RawValue::Null | RawValue::Array(_) => {
                let comparison =
                    Comparison { operator: ComparisonOperator::Equal, operand: constant.clone() };
                let one = of_comparison(&comparison, multikey)?;
                points.extend_from_slice(one.intervals.as_slice());
                union.exact &= one.exact;
            }
            value => points.push(Interval::point(value.to_value())),
        }
    }
    for pattern in list.patterns() {
        let one = of_pattern(pattern);
        points.extend_from_slice(one.intervals.as_slice());
        union.exact &= one.exact;
    }
    union.intervals = Intervals::of(points);
    Some(union)
}

/// Strings that begin with the pattern's literal prefix, and the regular expression itself as a value.
fn of_pattern(pattern: &Pattern) -> Bounded {
    let itself = Interval::point(Value::regex(pattern.pattern(), pattern.options()));
    let prefix = pattern.literal_prefix();
    let after_prefix = prefix.as_ref().and_then(|(prefix, _)| next_text(prefix));
    match (prefix, after_prefix) {
        (Some((prefix, exact)), Some(next)) => {
            let texts = Interval::new(Cut::before(Value::String(prefix)), Cut::before(Value::String(next)));
            Bounded { intervals: Intervals::of(vec![texts, itself]), exact }
        }
        _ => Bounded::inexact(Intervals::of(vec![class(ElementType::String), itself])),
    }
}

/// The first text after all that begin with `prefix`: its last character that has a successor, replaced by
/// it.
fn next_text(prefix: &str) -> Option<String> {
    let mut characters: Vec<char> = prefix.chars().collect();
    while let Some(last) = characters.pop() {
        // The range of characters jumps over the surrogates by itself.
        if let Some(next) = (last..=char::MAX).nth(1) {
            characters.push(next);
            return Some(characters.into_iter().collect());
        }
    }
    None
}

/// `$elemMatch` with operators: all of them hold for one element, so their intervals intersect. Scalars that
/// are no elements have the same keys, therefore never exact.
fn of_element_tests(tests: &[ValueTest]) -> Option<Bounded> {
    let mut found: Option<Intervals> = None;
    for bounded in tests.iter().filter_map(of_element_test) {
        found = Some(match found {
            Some(intervals) => intervals.intersection(&bounded.intervals),
            None => bounded.intervals,
        });
    }
    found.map(Bounded::inexact)
}

/// The intervals of a test of one element; an array that is an element has one key, itself.
fn of_element_test(test: &ValueTest) -> Option<Bounded> {
    match test {
        ValueTest::Is(Predicate::ElementValue(_)) => None,
        ValueTest::Is(predicate) => of_predicate(predicate, false),
        ValueTest::Not(tests) => match tests.as_slice() {
            [only] => {
                let inner = of_element_test(only)?;
                inner.exact.then(|| Bounded::exact(inner.intervals.complement()))
            }
            _ => None,
        },
    }
}
