//! Bounds for scans: where a class of values begins and ends, as values and as key bytes.

use crate::{Array, Document, ElementType, ObjectId, Timestamp, Value};

/// The bytes after the last that begin with `prefix`: the exclusive upper bound of a scan over the prefix.
/// `None` when there are none, because the prefix is empty or all 0xFF.
pub fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xFF)?;
    let mut bytes = prefix.get(..=last)?.to_vec();
    *bytes.last_mut()? += 1;
    Some(bytes)
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
