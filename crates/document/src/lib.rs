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
//! *Raw* means borrowed bytes; *trusted* means checked before. An *element* is a field with its type and name; a *value*
//! is what it holds.
//!
//! # Invariants
//! - Reading never panics and never leaves the given bytes, whatever they hold.
//! - What a builder writes, [`RawDocument::parse`] accepts.
//!
//! # Not here
//! No I/O, no query semantics (missing fields, array matching): those belong to `query`.

mod builder;
mod element_type;
mod macros;
mod raw;
mod scalar;
mod validate;
mod value;

pub use builder::{ArrayBuilder, DocumentBuilder};
pub use element_type::ElementType;
pub use raw::{Element, Elements, RawArray, RawDocument, RawValue};
pub use scalar::{Decimal128, ObjectId, Timestamp};
pub use validate::{DocumentError, MAX_DOCUMENT_SIZE, MAX_NESTING_DEPTH};
pub use value::{Document, DocumentBuf, Value};
