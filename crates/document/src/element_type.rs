//! BSON element types and their names.

/// The type of a BSON element; the discriminant is the type byte (bsonspec.org, "BSON types").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the specification's own")]
pub enum ElementType {
    Double = 0x01,
    String = 0x02,
    Document = 0x03,
    Array = 0x04,
    Binary = 0x05,
    Undefined = 0x06,
    ObjectId = 0x07,
    Boolean = 0x08,
    DateTime = 0x09,
    Null = 0x0A,
    Regex = 0x0B,
    DbPointer = 0x0C,
    JavaScript = 0x0D,
    Symbol = 0x0E,
    JavaScriptWithScope = 0x0F,
    Int32 = 0x10,
    Timestamp = 0x11,
    Int64 = 0x12,
    Decimal128 = 0x13,
    MinKey = 0xFF,
    MaxKey = 0x7F,
}

impl ElementType {
    /// Every type, in the order of their codes.
    pub const ALL: [ElementType; 21] = {
        use ElementType as T;
        [
            T::Double,
            T::String,
            T::Document,
            T::Array,
            T::Binary,
            T::Undefined,
            T::ObjectId,
            T::Boolean,
            T::DateTime,
            T::Null,
            T::Regex,
            T::DbPointer,
            T::JavaScript,
            T::Symbol,
            T::JavaScriptWithScope,
            T::Int32,
            T::Timestamp,
            T::Int64,
            T::Decimal128,
            T::MaxKey,
            T::MinKey,
        ]
    };

    /// The type with this type byte, or `None` for a byte that BSON does not use.
    #[inline]
    pub const fn from_code(code: u8) -> Option<Self> {
        use ElementType as T;
        Some(match code {
            0x01 => T::Double,
            0x02 => T::String,
            0x03 => T::Document,
            0x04 => T::Array,
            0x05 => T::Binary,
            0x06 => T::Undefined,
            0x07 => T::ObjectId,
            0x08 => T::Boolean,
            0x09 => T::DateTime,
            0x0A => T::Null,
            0x0B => T::Regex,
            0x0C => T::DbPointer,
            0x0D => T::JavaScript,
            0x0E => T::Symbol,
            0x0F => T::JavaScriptWithScope,
            0x10 => T::Int32,
            0x11 => T::Timestamp,
            0x12 => T::Int64,
            0x13 => T::Decimal128,
            0x7F => T::MaxKey,
            0xFF => T::MinKey,
            _ => return None,
        })
    }

    /// The type byte.
    #[inline]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The number `$type` uses: the type byte, but −1 for `MinKey`.
    pub const fn query_code(self) -> i32 {
        match self {
            ElementType::MinKey => -1,
            other => other as i32,
        }
    }

    /// The alias that `$type` accepts and error messages print (MongoDB manual, "BSON Types").
    pub const fn alias(self) -> &'static str {
        use ElementType as T;
        match self {
            T::Double => "double",
            T::String => "string",
            T::Document => "object",
            T::Array => "array",
            T::Binary => "binData",
            T::Undefined => "undefined",
            T::ObjectId => "objectId",
            T::Boolean => "bool",
            T::DateTime => "date",
            T::Null => "null",
            T::Regex => "regex",
            T::DbPointer => "dbPointer",
            T::JavaScript => "javascript",
            T::Symbol => "symbol",
            T::JavaScriptWithScope => "javascriptWithScope",
            T::Int32 => "int",
            T::Timestamp => "timestamp",
            T::Int64 => "long",
            T::Decimal128 => "decimal",
            T::MinKey => "minKey",
            T::MaxKey => "maxKey",
        }
    }

    /// The type that `$type` means by this alias; `number` is not a single type and is not known here.
    pub fn from_alias(alias: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.alias() == alias)
    }

    /// Whether the four numeric types include this one.
    pub const fn is_number(self) -> bool {
        matches!(
            self,
            ElementType::Double | ElementType::Int32 | ElementType::Int64 | ElementType::Decimal128
        )
    }
}
