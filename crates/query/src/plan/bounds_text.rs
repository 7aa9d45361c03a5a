//! Intervals as `explain` prints them.

use super::Interval;

/// `[5, 9)`.
pub(crate) fn interval(interval: &Interval) -> String {
    let open = if interval.from.after { '(' } else { '[' };
    let close = if interval.to.after { ']' } else { ')' };
    format!("{open}{}, {}{close}", interval.from.value.quoted(), interval.to.value.quoted())
}

/// `(9, 5]`: an interval met from its upper end.
pub(crate) fn falling_interval(interval: &Interval) -> String {
    let open = if interval.to.after { '[' } else { '(' };
    let close = if interval.from.after { ')' } else { ']' };
    format!("{open}{}, {}{close}", interval.to.value.quoted(), interval.from.value.quoted())
}
