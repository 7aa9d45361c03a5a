//! Bounds as bytes: where a cursor starts and ends, and how it leaps over the gaps between.
//!
//! ```text
//!   index {a: 1, b: 1}, a in {1, 5}, b in [3, 7]
//!
//!    lower                                                       upper
//!      │ 1,3 … 1,7 │ 1,8 … ──seek──▶ 5,3 │ 5,3 … 5,7 │ ──done──▶   │
//! ```

use document::Value;
use document::key::{Decoder, KeyBuilder, SortOrder, successor};

use super::{Cut, FieldOrder, IndexBounds, IndexScan, Interval, Intervals, ScanDirection};

/// The keys to visit, all without the bytes that name collection and index.
#[derive(Debug, Clone)]
pub struct KeyScan {
    /// The lowest key that can be wanted, inclusive.
    pub lower: Vec<u8>,
    /// Above the highest key that can be wanted, exclusive; `None`: up to the last key.
    pub upper: Option<Vec<u8>>,
    /// Decides key by key; `None`: every key from `lower` to `upper` is wanted.
    pub checker: Option<BoundsChecker>,
}

/// What to do about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCheck<'c> {
    /// The key is wanted.
    Inside,
    /// It is not; go on with the next one.
    Outside,
    /// It is not, and no key before this one is: seek there. Forward, to the first key not below the bytes;
    /// backward, to the last key not above them.
    Seek(&'c [u8]),
    /// No key from here on is wanted.
    Done,
}

impl KeyScan {
    /// The scan of an index.
    pub fn of_index(scan: &IndexScan) -> Self {
        let fields = &scan.index.fields;
        match &scan.bounds {
            IndexBounds::Fields(bounds) => {
                let fields = fields.iter().map(|field| field.order).zip(bounds).collect::<Vec<_>>();
                Self::of_fields(&fields, scan.direction)
            }
            IndexBounds::Keys { from, to } => {
                let key = |values: &[Value]| {
                    let mut key = KeyBuilder::new();
                    for (value, field) in values.iter().zip(fields) {
                        key.append_owned(value, field.order.key_direction());
                    }
                    key.into_parts().0
                };
                Self {
                    lower: from.as_deref().map(key).unwrap_or_default(),
                    upper: to.as_deref().map(key),
                    checker: None,
                }
            }
        }
    }

    /// The scan of a collection clustered by `_id`.
    pub fn of_ids(ids: &Intervals, direction: ScanDirection) -> Self {
        Self::of_fields(&[(FieldOrder::Ascending, ids)], direction)
    }

    fn of_fields(fields: &[(FieldOrder, &Intervals)], direction: ScanDirection) -> Self {
        let bounded = fields.iter().rposition(|(_, bounds)| !bounds.is_all()).map_or(0, |last| last + 1);
        let fields: Vec<FieldRanges> = fields
            .iter()
            .take(bounded)
            .map(|(order, bounds)| FieldRanges::new(order.key_direction(), bounds))
            .collect();
        let mut lower = Vec::new();
        let points = fields.iter().take_while(|field| field.is_point()).count();
        for field in fields.iter().take(points) {
            lower.extend_from_slice(field.first_lower());
        }
        let upper = match fields.get(points) {
            Some(field) => Some([lower.as_slice(), field.last_upper()].concat()),
            None => successor(&lower),
        };
        // Behind the points, the lowest values of the fields put together, as far as they are whole values.
        append_lowest(&mut lower, fields.split_at(points).1);
        let contiguous =
            points + 1 >= fields.len() && fields.last().is_none_or(|last| last.ranges.len() == 1);
        let checker = (!contiguous).then(|| BoundsChecker { fields, direction, target: Vec::new() });
        Self { lower, upper, checker }
    }
}

fn append_lowest(key: &mut Vec<u8>, fields: &[FieldRanges]) {
    for field in fields {
        key.extend_from_slice(field.first_lower());
        if !field.ranges.first().is_some_and(|range| range.lower_is_value) {
            break;
        }
    }
}

/// Decides which keys lie within bounds on several fields, and where to go on when one does not.
#[derive(Debug, Clone)]
pub struct BoundsChecker {
    fields: Vec<FieldRanges>,
    direction: ScanDirection,
    /// The key last asked for; kept to save an allocation.
    target: Vec<u8>,
}

/// The intervals of one field as bytes, ascending.
#[derive(Debug, Clone)]
struct FieldRanges {
    direction: SortOrder,
    ranges: Vec<FieldRange>,
}

#[derive(Debug, Clone)]
struct FieldRange {
    /// Inclusive.
    lower: Vec<u8>,
    /// Whether `lower` is the encoding of a value, so that further fields may follow it.
    lower_is_value: bool,
    /// Exclusive.
    upper: Vec<u8>,
    is_point: bool,
}

/// Where a field's bytes lie among its ranges.
enum Location {
    Inside,
    /// Between ranges; the position of the range above.
    Gap(usize),
}

impl FieldRanges {
    fn new(direction: SortOrder, intervals: &Intervals) -> Self {
        let mut ranges: Vec<FieldRange> =
            intervals.as_slice().iter().map(|interval| FieldRange::new(interval, direction)).collect();
        if direction == SortOrder::Descending {
            ranges.reverse();
        }
        Self { direction, ranges }
    }

    fn is_point(&self) -> bool {
        matches!(self.ranges.as_slice(), [only] if only.is_point)
    }

    fn first_lower(&self) -> &[u8] {
        self.ranges.first().map_or(&[], |range| &range.lower)
    }

    fn last_upper(&self) -> &[u8] {
        self.ranges.last().map_or(&[], |range| &range.upper)
    }

    fn locate(&self, bytes: &[u8]) -> Location {
        let above = self.ranges.partition_point(|range| range.upper.as_slice() <= bytes);
        match self.ranges.get(above) {
            Some(range) if range.lower.as_slice() <= bytes => Location::Inside,
            _ => Location::Gap(above),
        }
    }
}

impl FieldRange {
    fn new(interval: &Interval, direction: SortOrder) -> Self {
        let encode = |value: &Value| {
            let mut key = KeyBuilder::new();
            key.append_owned(value, direction);
            key.into_parts().0
        };
        let after = |value: &Value| successor(&encode(value)).expect("a value's key does not end all keys");
        // Descending keys turn the interval round: its upper end comes first.
        let (first, last, first_is_value, last_is_value) = match direction {
            SortOrder::Ascending => {
                let Interval { from, to } = interval;
                (from, to, !from.after, !to.after)
            }
            SortOrder::Descending => {
                let Interval { from, to } = interval;
                (to, from, to.after, from.after)
            }
        };
        let bound = |cut: &Cut, is_value: bool| if is_value { encode(&cut.value) } else { after(&cut.value) };
        Self {
            lower: bound(first, first_is_value),
            lower_is_value: first_is_value,
            upper: bound(last, last_is_value),
            is_point: interval.as_point().is_some(),
        }
    }
}

impl BoundsChecker {
    /// The key of the next single value behind this key, where the bounds alone tell it: of one field, walked
    /// forward, whose next range is one value.
    pub fn next_point(&self, behind: &[u8]) -> Option<&[u8]> {
        let ([field], ScanDirection::Forward) = (self.fields.as_slice(), self.direction) else { return None };
        let next = field.ranges.partition_point(|range| range.lower.as_slice() <= behind);
        field.ranges.get(next).filter(|range| range.is_point).map(|range| range.lower.as_slice())
    }

    /// Looks at a key: the index entry's key without the bytes that name collection and index. Keys are to be
    /// shown in the order of the scan.
    pub fn check(&mut self, key: &[u8]) -> KeyCheck<'_> {
        let mut decoder = Decoder::new(key, &[]);
        let mut start = 0;
        for (position, field) in self.fields.iter().enumerate() {
            // Passed over, its document would be missing from the answer.
            if decoder.skip(field.direction).is_err() {
                panic!("field {position} of an index key makes no sense: {key:02x?}");
            }
            let end = key.len() - decoder.rest().len();
            let bytes = key.get(start..end).expect("a decoder goes forward");
            if let Location::Gap(above) = field.locate(bytes) {
                let (before, _) = key.split_at(start);
                let goes_on = match self.direction {
                    ScanDirection::Forward => {
                        aim_forward(&mut self.target, &self.fields, position, above, before)
                    }
                    ScanDirection::Backward => aim_backward(&mut self.target, field, above, before),
                };
                return match goes_on {
                    false => KeyCheck::Done,
                    // The bytes are an exclusive bound of what was left behind.
                    true if self.target == key => KeyCheck::Outside,
                    true => KeyCheck::Seek(&self.target),
                };
            }
            start = end;
        }
        KeyCheck::Inside
    }
}

/// Puts into `target` the lowest key that can be wanted above one whose field at `position` lies below the
/// range `above`; false when there is none.
fn aim_forward(
    target: &mut Vec<u8>,
    fields: &[FieldRanges],
    position: usize,
    above: usize,
    before: &[u8],
) -> bool {
    target.clear();
    let (field, behind) =
        fields.split_at(position).1.split_first().expect("a field of the key was looked at");
    let Some(range) = field.ranges.get(above) else {
        // Nothing more with these leading values: on to the next ones.
        let next = successor(before);
        target.extend_from_slice(next.as_deref().unwrap_or_default());
        return !target.is_empty();
    };
    target.extend_from_slice(before);
    target.extend_from_slice(&range.lower);
    if range.lower_is_value {
        append_lowest(target, behind);
    }
    true
}

/// Puts into `target` what lies just above the highest key that can be wanted below one whose field lies
/// below the range `above`; false when there is none.
fn aim_backward(target: &mut Vec<u8>, field: &FieldRanges, above: usize, before: &[u8]) -> bool {
    target.clear();
    target.extend_from_slice(before);
    match above.checked_sub(1).and_then(|below| field.ranges.get(below)) {
        Some(range) => target.extend_from_slice(&range.upper),
        None if before.is_empty() => return false,
        None => {}
    }
    true
}
