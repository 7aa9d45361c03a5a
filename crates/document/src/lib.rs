//! BSON at rest: raw access, comparison order, field paths, order-preserving key encoding.
//!
//! ```text
//!   bytes ──parse──▶ RawDocument ──iter──▶ Element ──value──▶ RawValue      (borrowed, nothing copied)
//!     ▲                   │ to_document                           │ to_value
//!     │                   ▼                                       ▼
//!   DocumentBuf ◀─to_buf─ Document ◀──────────────────────────── Value      (owned trees)
//!     ▲
//!     └──────── DocumentBuilder / ArrayBuilder write into any Vec<u8>
//! ```
//!
//! # Vocabulary
//! *Raw* means borrowed bytes; *trusted* means checked before. An *element* is a field with its type and
//! name; a *value* is what it holds. The *canonical type* of a value is the class of types it compares with
//! ([`canonical_type`]). A *key* is bytes that sort as the values they encode ([`key`]); *type bits* are what
//! a key does not tell about its values' types. A *path* is a dotted name that leads through documents and
//! arrays ([`path`]). Messages *quote* values ([`quote`]), logs print them as JSON ([`json`]).
//!
//! # Invariants
//! - Reading never panics and never leaves the given bytes, whatever they hold.
//! - What a builder writes, [`RawDocument::parse`] accepts.
//! - Numbers compare exactly across their four types; equal values have equal keys, and keys order as values
//!   do.
//!
//! # Not here
//! No I/O, no query semantics (what a missing field matches, which array elements count): paths report what
//! they find, and `query` judges it.

mod builder;
mod compare;
mod date;
pub mod decimal;
mod element_type;
mod field_index;
#[cfg(test)]
mod generate;
pub mod json;
pub mod key;
mod macros;
pub mod number;
pub mod path;
#[cfg(test)]
mod properties;
pub mod quote;
mod raw;
mod scalar;
mod shared;
mod timestamp;
mod validate;
mod value;

pub use builder::{ArrayBuilder, DocumentBuilder};
pub use compare::{Comparable, canonical_type, compare, compare_documents};
pub use date::civil_from_days;
pub use element_type::ElementType;
pub use field_index::{FieldIndex, Fieldwise};
pub use number::Number;
pub use path::FieldPath;
pub use raw::{Element, Elements, RawArray, RawDocument, RawValue};
pub use scalar::{Decimal128, ObjectId, Timestamp};
pub use shared::{Array, Measure, Values};
pub use validate::{DocumentError, MAX_DOCUMENT_SIZE, MAX_NESTING_DEPTH};
pub use value::{Binary, CodeWithScope, DbPointer, Document, DocumentBuf, Regex, Value};
