//! Intervals of values of one field, and their algebra.

use std::cmp::Ordering;

use document::Value;

/// A place between values: just before or just after one.
#[derive(Debug, Clone, PartialEq)]
pub struct Cut {
    /// The value.
    pub value: Value,
    /// Just after the value, not just before it.
    pub after: bool,
}

impl Cut {
    /// The place just before `value`.
    pub const fn before(value: Value) -> Self {
        Self { value, after: false }
    }

    /// The place just after `value`.
    pub const fn after(value: Value) -> Self {
        Self { value, after: true }
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.value.compare(&other.value).then(self.after.cmp(&other.after))
    }

    fn min<'c>(&'c self, other: &'c Self) -> &'c Self {
        if self.compare(other).is_le() { self } else { other }
    }

    fn max<'c>(&'c self, other: &'c Self) -> &'c Self {
        if self.compare(other).is_ge() { self } else { other }
    }
}

/// The values between two cuts.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Where it begins: an inclusive lower end is the cut before it.
    pub from: Cut,
    /// Where it ends: an inclusive upper end is the cut after it.
    pub to: Cut,
}

impl Interval {
    /// One value.
    pub fn point(value: Value) -> Self {
        Self { from: Cut::before(value.clone()), to: Cut::after(value) }
    }

    /// The values between two cuts; the cuts must not be the wrong way round.
    pub const fn new(from: Cut, to: Cut) -> Self {
        Self { from, to }
    }

    /// The value, when there is only one.
    pub fn as_point(&self) -> Option<&Value> {
        let single = !self.from.after && self.to.after && self.from.value.compare(&self.to.value).is_eq();
        single.then_some(&self.from.value)
    }

    fn is_empty(&self) -> bool {
        self.from.compare(&self.to).is_ge()
    }
}

/// Disjoint intervals in ascending order; intervals that touch are one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Intervals {
    list: Vec<Interval>,
}

impl Intervals {
    /// No value.
    pub const fn none() -> Self {
        Self { list: Vec::new() }
    }

    /// All values.
    pub fn all() -> Self {
        Self { list: vec![Interval::new(Cut::before(Value::MinKey), Cut::after(Value::MaxKey))] }
    }

    /// One value.
    pub fn point(value: Value) -> Self {
        Self { list: vec![Interval::point(value)] }
    }

    /// Any intervals, in any order.
    pub fn of(mut list: Vec<Interval>) -> Self {
        list.retain(|interval| !interval.is_empty());
        list.sort_by(|left, right| left.from.compare(&right.from));
        let mut merged: Vec<Interval> = Vec::with_capacity(list.len());
        for interval in list {
            match merged.last_mut() {
                Some(last) if interval.from.compare(&last.to).is_le() => {
                    if interval.to.compare(&last.to).is_gt() {
                        last.to = interval.to;
                    }
                }
                _ => merged.push(interval),
            }
        }
        Self { list: merged }
    }

    /// The intervals in ascending order.
    pub fn as_slice(&self) -> &[Interval] {
        &self.list
    }

    /// Whether no value is in.
    pub fn is_none(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether every value is in.
    pub fn is_all(&self) -> bool {
        match self.list.as_slice() {
            [only] => {
                !only.from.after
                    && only.from.value == Value::MinKey
                    && only.to.after
                    && only.to.value == Value::MaxKey
            }
            _ => false,
        }
    }

    /// The value, when there is only one.
    pub fn as_point(&self) -> Option<&Value> {
        match self.list.as_slice() {
            [only] => only.as_point(),
            _ => None,
        }
    }

    /// Whether there are single values only.
    pub fn are_points(&self) -> bool {
        !self.list.is_empty() && self.list.iter().all(|interval| interval.as_point().is_some())
    }

    /// The values in any of the parts.
    pub fn union_of(parts: impl IntoIterator<Item = Self>) -> Self {
        Self::of(parts.into_iter().flat_map(|part| part.list).collect())
    }

    /// The values in all of the parts. They are taken in pairs, so that no part is walked over once for each
    /// of the others.
    pub fn intersection_of(mut parts: Vec<Self>) -> Self {
        while parts.len() > 1 {
            let pairs = parts.chunks(2).map(|pair| match pair {
                [left, right] => left.intersection(right),
                [alone] => alone.clone(),
                _ => unreachable!("chunks of two"),
            });
            parts = pairs.collect();
        }
        parts.pop().unwrap_or_else(Self::all)
    }

    /// The values in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut list = Vec::new();
        let (mut lefts, mut rights) = (self.list.iter().peekable(), other.list.iter().peekable());
        while let (Some(left), Some(right)) = (lefts.peek(), rights.peek()) {
            let (from, to) = (left.from.max(&right.from), left.to.min(&right.to));
            if from.compare(to).is_lt() {
                list.push(Interval::new(from.clone(), to.clone()));
            }
            if left.to.compare(&right.to).is_le() {
                lefts.next();
            } else {
                rights.next();
            }
        }
        Self { list }
    }

    /// The values not in.
    #[must_use]
    pub fn complement(&self) -> Self {
        let mut list = Vec::new();
        let mut from = Cut::before(Value::MinKey);
        for interval in &self.list {
            list.push(Interval::new(from, interval.from.clone()));
            from = interval.to.clone();
        }
        list.push(Interval::new(from, Cut::after(Value::MaxKey)));
        Self::of(list)
    }

    /// Whether `value` is in.
    pub fn contains(&self, value: &Value) -> bool {
        let before = Cut::before(value.clone());
        self.list
            .iter()
            .any(|interval| interval.from.compare(&before).is_le() && interval.to.compare(&before).is_gt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: i32, from_after: bool, to: i32, to_after: bool) -> Interval {
        Interval::new(
            Cut { value: from.into(), after: from_after },
            Cut { value: to.into(), after: to_after },
        )
    }

    fn check(found: &Intervals, expect: &str) {
        let texts: Vec<String> = found.as_slice().iter().map(crate::plan::bounds_text::interval).collect();
        assert_eq!(texts.join(" "), expect);
    }

    #[test]
    fn touching_intervals_are_one() {
        check(&Intervals::of(vec![range(5, false, 7, false), range(1, false, 5, false)]), "[1, 7)");
        check(&Intervals::of(vec![range(5, true, 7, false), range(1, false, 5, false)]), "[1, 5) (5, 7)");
        check(&Intervals::of(vec![range(1, false, 9, true), range(2, false, 3, true)]), "[1, 9]");
        check(&Intervals::of(vec![range(3, false, 3, false), range(4, false, 1, true)]), "");
    }

    #[test]
    fn intersections_and_complements() {
        let left = Intervals::of(vec![range(1, false, 5, true), range(7, false, 9, true)]);
        let right = Intervals::of(vec![range(5, false, 8, false)]);
        check(&left.intersection(&right), "[5, 5] [7, 8)");
        check(&left.complement(), "[MinKey, 1) (5, 7) (9, MaxKey]");
        check(&left.complement().complement(), "[1, 5] [7, 9]");
        check(&Intervals::all().complement(), "");
        check(&Intervals::none().complement(), "[MinKey, MaxKey]");
        assert!(Intervals::none().complement().is_all());
    }

    #[test]
    fn points() {
        assert!(Intervals::point(5.into()).as_point().is_some());
        assert!(Intervals::of(vec![range(1, false, 1, true), range(2, false, 2, true)]).are_points());
        assert!(!Intervals::of(vec![range(1, false, 2, true)]).are_points());
        let holed = Intervals::point(5.into()).complement();
        assert!(holed.contains(&4.into()) && !holed.contains(&5.into()) && holed.contains(&Value::Null));
    }
}
