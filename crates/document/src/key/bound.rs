//! Bounds for scans: where a class of values begins and ends, as values and as key bytes.

use super::{Direction, tag};
use crate::{Array, Document, ElementType, ObjectId, Timestamp, Value};

/// The bytes after the last that begin with `prefix`: the exclusive upper bound of a scan over the prefix.
/// `None` when there are none, because the prefix is empty or all 0xFF.
pub fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xFF)?;
    let mut bytes = prefix.get(..=last)?.to_vec();
    *bytes.last_mut()? += 1;
    Some(bytes)
}

/// The key bytes of all values that compare within one class, as a range of a field's bytes: the lower bound
/// is included, the upper one is not. Both may be put behind a prefix.
pub fn class_range(kind: ElementType, direction: Direction) -> (Vec<u8>, Vec<u8>) {
    let (first, last) = class_tags(kind);
    match direction {
        Direction::Ascending => (vec![first], vec![last + 1]),
        Direction::Descending => (vec![!last], vec![!first + 1]),
    }
}

/// The lowest and the highest tag of a class.
const fn class_tags(kind: ElementType) -> (u8, u8) {
    use ElementType as T;
    let tag = match kind {
        T::Double | T::Int32 | T::Int64 | T::Decimal128 => return (tag::NAN, tag::INFINITY),
        T::Boolean => return (tag::FALSE, tag::TRUE),
        T::String | T::Symbol => tag::STRING,
        T::Document => tag::DOCUMENT,
        T::Array => tag::ARRAY,
        T::Binary => tag::BINARY,
        T::Undefined => tag::UNDEFINED,
        T::ObjectId => tag::OBJECT_ID,
        T::DateTime => tag::DATE_TIME,
        T::Null => tag::NULL,
        T::Regex => tag::REGEX,
        T::DbPointer => tag::DB_POINTER,
        T::JavaScript => tag::JAVASCRIPT,
        T::JavaScriptWithScope => tag::JAVASCRIPT_WITH_SCOPE,
        T::Timestamp => tag::TIMESTAMP,
        T::MinKey => tag::MIN_KEY,
        T::MaxKey => tag::MAX_KEY,
    };
    (tag, tag)
}

/// The values of a class as an interval of values: what a comparison such as `$gt` is limited to.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeBracket {
    /// The lowest value; it belongs to the class.
    pub lower: Value,
    /// The highest value, or the first one above the class.
    pub upper: Value,
    /// Whether `upper` belongs to the class.
    pub upper_inclusive: bool,
}

/// The interval of the class that values of this type compare within.
pub fn type_bracket(kind: ElementType) -> TypeBracket {
    use ElementType as T;
    let lowest_id = Value::ObjectId(ObjectId::from_bytes([0; 12]));
    let highest_id = Value::ObjectId(ObjectId::from_bytes([0xFF; 12]));
    let empty_binary = Value::binary(0, Vec::new());
    let empty_regex = Value::regex("", "");
    let empty_scope = Value::code_with_scope("", Document::new());
    let lowest_pointer = Value::db_pointer("", ObjectId::from_bytes([0; 12]));
    let closed = |lower, upper| TypeBracket { lower, upper, upper_inclusive: true };
    let open = |lower, upper| TypeBracket { lower, upper, upper_inclusive: false };
    let single = |value: Value| TypeBracket { lower: value.clone(), upper: value, upper_inclusive: true };
    match kind {
        T::MinKey => single(Value::MinKey),
        T::Undefined => single(Value::Undefined),
        T::Null => single(Value::Null),
        T::Double | T::Int32 | T::Int64 | T::Decimal128 => {
            closed(Value::Double(f64::NAN), Value::Double(f64::INFINITY))
        }
        T::String | T::Symbol => open(Value::String(String::new()), Value::Document(Document::new())),
        T::Document => open(Value::Document(Document::new()), Value::Array(Array::new())),
        T::Array => open(Value::Array(Array::new()), empty_binary),
        T::Binary => open(empty_binary, lowest_id),
        T::ObjectId => closed(lowest_id, highest_id),
        T::Boolean => closed(Value::Boolean(false), Value::Boolean(true)),
        T::DateTime => closed(Value::DateTime(i64::MIN), Value::DateTime(i64::MAX)),
        T::Timestamp => {
            closed(Value::Timestamp(Timestamp::from_u64(0)), Value::Timestamp(Timestamp::from_u64(u64::MAX)))
        }
        T::Regex => open(empty_regex, lowest_pointer),
        T::DbPointer => open(lowest_pointer, Value::JavaScript("".into())),
        T::JavaScript => open(Value::JavaScript("".into()), empty_scope),
        T::JavaScriptWithScope => open(empty_scope, Value::MaxKey),
        T::MaxKey => single(Value::MaxKey),
    }
}
