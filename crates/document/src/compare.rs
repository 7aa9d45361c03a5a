//! The order of values of all types, as MongoDB sorts them (manual, "Comparison/Sort Order").

use crate::{ElementType, RawDocument, RawValue, Value};
use std::cmp::Ordering;

/// The class within which values of this type compare with each other; classes compare by number. The numbers
/// are MongoDB's, except for the two that would not be above zero there: `MinKey` is 0 and `Undefined` 1.
#[inline]
pub const fn canonical_type(kind: ElementType) -> u8 {
    use ElementType as T;
    match kind {
        T::MinKey => 0,
        T::Undefined => 1,
        T::Null => 5,
        T::Double | T::Int32 | T::Int64 | T::Decimal128 => 10,
        T::String | T::Symbol => 15,
        T::Document => 20,
        T::Array => 25,
        T::Binary => 30,
        T::ObjectId => 35,
        T::Boolean => 40,
        T::DateTime => 45,
        T::Timestamp => 47,
        T::Regex => 50,
        T::DbPointer => 55,
        T::JavaScript => 60,
        T::JavaScriptWithScope => 65,
        T::MaxKey => 127,
    }
}

/// Compares two values: first by class, then within it. Numbers compare exactly across their types.
#[inline]
pub fn compare(left: RawValue<'_>, right: RawValue<'_>) -> Ordering {
    match (left, right) {
        (RawValue::Int32(left), RawValue::Int32(right)) => return left.cmp(&right),
        (RawValue::String(left), RawValue::String(right)) => return left.as_bytes().cmp(right.as_bytes()),
        (RawValue::ObjectId(left), RawValue::ObjectId(right)) => return left.cmp(&right),
        _ => {}
    }
    let (left_class, right_class) = (canonical_type(left.kind()), canonical_type(right.kind()));
    left_class.cmp(&right_class).then_with(|| compare_within_class(left, right))
}

/// Compares two documents field by field: class of the value, name, value; the one that ends first is the
/// lower.
pub fn compare_documents(left: RawDocument<'_>, right: RawDocument<'_>) -> Ordering {
    let (mut lefts, mut rights) = (left.iter(), right.iter());
    loop {
        let (left, right) = match (lefts.next(), rights.next()) {
            (Some(left), Some(right)) => (left, right),
            (left, right) => return left.is_some().cmp(&right.is_some()),
        };
        let order = canonical_type(left.kind())
            .cmp(&canonical_type(right.kind()))
            .then_with(|| left.name_bytes().cmp(right.name_bytes()))
            .then_with(|| compare_within_class(left.value(), right.value()));
        if order.is_ne() {
            return order;
        }
    }
}

fn compare_arrays(left: RawDocument<'_>, right: RawDocument<'_>) -> Ordering {
    left.iter()
        .map(|element| Comparable(element.value()))
        .cmp(right.iter().map(|element| Comparable(element.value())))
}

/// A value with the order of [`compare`], for iterators and collections.
#[derive(Debug, Clone, Copy)]
pub struct Comparable<'a>(pub RawValue<'a>);

impl PartialEq for Comparable<'_> {
    fn eq(&self, other: &Self) -> bool {
        compare(self.0, other.0).is_eq()
    }
}

impl Eq for Comparable<'_> {}

impl PartialOrd for Comparable<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Comparable<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.0, other.0)
    }
}

fn compare_within_class(left: RawValue<'_>, right: RawValue<'_>) -> Ordering {
    use RawValue as V;
    match (left, right) {
        (V::Document(left), V::Document(right)) => compare_documents(left, right),
        (V::Array(left), V::Array(right)) => compare_arrays(left.as_document(), right.as_document()),
        (
            V::JavaScriptWithScope { code: left, scope: left_scope },
            V::JavaScriptWithScope { code: right, scope: right_scope },
        ) => left.cmp(right).then_with(|| compare_documents(left_scope, right_scope)),
        _ => compare_scalars(left, right),
    }
}

/// Compares two values of one class that hold no documents.
fn compare_scalars(left: RawValue<'_>, right: RawValue<'_>) -> Ordering {
    use RawValue as V;
    match (left, right) {
        (V::String(left) | V::Symbol(left), V::String(right) | V::Symbol(right)) => left.cmp(right),
        (V::ObjectId(left), V::ObjectId(right)) => left.cmp(&right),
        (V::Boolean(left), V::Boolean(right)) => left.cmp(&right),
        (V::DateTime(left), V::DateTime(right)) => left.cmp(&right),
        (V::Timestamp(left), V::Timestamp(right)) => left.cmp(&right),
        (V::JavaScript(left), V::JavaScript(right)) => left.cmp(right),
        (
            V::Binary { subtype: left_subtype, bytes: left },
            V::Binary { subtype: right_subtype, bytes: right },
        ) => {
            left.len().cmp(&right.len()).then(left_subtype.cmp(&right_subtype)).then_with(|| left.cmp(right))
        }
        (
            V::Regex { pattern: left, options: left_options },
            V::Regex { pattern: right, options: right_options },
        ) => left.cmp(right).then_with(|| left_options.cmp(right_options)),
        (V::DbPointer { namespace: left, id: left_id }, V::DbPointer { namespace: right, id: right_id }) => {
            left.len().cmp(&right.len()).then_with(|| left.cmp(right)).then_with(|| left_id.cmp(&right_id))
        }
        _ => match (left.as_number(), right.as_number()) {
            (Some(left), Some(right)) => left.compare(right),
            // The classes of one value: null, undefined, the lowest and the highest key.
            _ => Ordering::Equal,
        },
    }
}

impl Value {
    /// Compares as [`compare`] does.
    pub fn compare(&self, other: &Value) -> Ordering {
        canonical_type(self.kind())
            .cmp(&canonical_type(other.kind()))
            .then_with(|| self.compare_within_class(other))
    }

    fn compare_within_class(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Document(left), Value::Document(right)) => left.compare(right),
            (Value::Array(left), Value::Array(right)) => left
                .iter()
                .zip(right.iter())
                .map(|(left, right)| left.compare(right))
                .find(|order| order.is_ne())
                .unwrap_or_else(|| left.len().cmp(&right.len())),
            (Value::JavaScriptWithScope(left), Value::JavaScriptWithScope(right)) => {
                left.code.cmp(&right.code).then_with(|| left.scope.compare(&right.scope))
            }
            _ => match (self.as_raw_scalar(), other.as_raw_scalar()) {
                (Some(left), Some(right)) => compare_scalars(left, right),
                _ => Ordering::Equal,
            },
        }
    }
}

impl crate::Document {
    /// Compares as [`compare_documents`] does.
    pub fn compare(&self, other: &crate::Document) -> Ordering {
        self.iter()
            .zip(other.iter())
            .map(|((left_name, left), (right_name, right))| {
                canonical_type(left.kind())
                    .cmp(&canonical_type(right.kind()))
                    .then_with(|| left_name.cmp(right_name))
                    .then_with(|| left.compare_within_class(right))
            })
            .find(|order| order.is_ne())
            .unwrap_or_else(|| self.len().cmp(&other.len()))
    }
}
