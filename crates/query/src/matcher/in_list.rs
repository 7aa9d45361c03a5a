//! The operand of `$in`.

use std::cmp::Ordering;

use document::{RawValue, compare};

use super::{Constant, Pattern, Verdict};
use crate::checkpoint;

/// The values of `$in`: sorted, so that a look-up is a binary search, and the regular expressions beside
/// them.
#[derive(Debug, Clone, PartialEq)]
pub struct InList {
    values: Vec<Constant>,
    patterns: Vec<Pattern>,
    has_null: bool,
}

impl InList {
    /// Sorts the values and drops duplicates.
    pub fn new(mut values: Vec<Constant>, patterns: Vec<Pattern>) -> Self {
        values.sort_by(|left, right| compare(left.raw(), right.raw()));
        values.dedup();
        let has_null = values.iter().any(|value| value.raw() == RawValue::Null);
        Self { values, patterns, has_null }
    }

    /// The values in their order, without duplicates.
    pub fn values(&self) -> &[Constant] {
        &self.values
    }

    /// The regular expressions.
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    pub(crate) fn holds(&self, value: Option<RawValue<'_>>) -> Verdict {
        let value = match value {
            None | Some(RawValue::Undefined) => return Ok(self.has_null),
            Some(value) => value,
        };
        if self.contains(value) {
            return Ok(true);
        }
        for pattern in &self.patterns {
            checkpoint::pass(1).map_err(Box::new)?;
            if pattern.holds(value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn contains(&self, value: RawValue<'_>) -> bool {
        self.values.binary_search_by(|constant| compare(constant.raw(), value)).is_ok()
    }

    /// Whether every value and pattern of this list is in `other`.
    pub fn is_subset_of(&self, other: &InList) -> bool {
        self.values.iter().all(|value| other.contains(value.raw()))
            && self.patterns.iter().all(|pattern| other.patterns.contains(pattern))
    }
}

impl PartialOrd for Constant {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(compare(self.raw(), other.raw()))
    }
}
