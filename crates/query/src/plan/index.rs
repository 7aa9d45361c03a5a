//! What the planner knows about an index.

use document::{Document, Value};

use crate::matcher::{MatchPath, Matcher};

/// How one field of an index is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldOrder {
    /// `1`.
    Ascending,
    /// `-1`.
    Descending,
    /// `"hashed"`: the field's hash, ascending.
    Hashed,
}

impl FieldOrder {
    /// The direction of the field's key bytes.
    pub const fn key_direction(self) -> document::key::SortOrder {
        match self {
            FieldOrder::Ascending | FieldOrder::Hashed => document::key::SortOrder::Ascending,
            FieldOrder::Descending => document::key::SortOrder::Descending,
        }
    }
}

/// One field of an index.
#[derive(Debug, Clone)]
pub struct IndexKeyPart {
    /// The indexed path.
    pub path: MatchPath,
    /// How it is stored.
    pub order: FieldOrder,
    /// Numbers of components (1: the first component alone) at which some indexed document holds an array,
    /// empty arrays and arrays of one element included; ascending. Empty: the field has exactly one key per
    /// document.
    pub multikey: Vec<usize>,
}

impl IndexKeyPart {
    /// A field without arrays.
    pub fn new(path: &str, order: FieldOrder) -> Self {
        Self { path: MatchPath::new(path), order, multikey: Vec::new() }
    }

    /// The same field with arrays at these components: bit 0 stands for the first one.
    #[must_use]
    pub fn with_arrays_at(self, positions: u128) -> Self {
        let multikey = (0..u128::BITS).filter(|bit| positions >> bit & 1 == 1).map(|bit| bit as usize + 1);
        Self { multikey: multikey.collect(), ..self }
    }

    /// Whether arrays were met at these components and no others: bit 0 stands for the first one.
    pub fn has_arrays_at(&self, positions: u128) -> bool {
        let met = |component: &usize| positions >> (component - 1) & 1 == 1;
        self.multikey.len() == positions.count_ones() as usize && self.multikey.iter().all(met)
    }

    /// Whether arrays were met on the path.
    pub const fn is_multikey(&self) -> bool {
        !self.multikey.is_empty()
    }
}

/// An index as the planner sees it.
#[derive(Debug, Clone)]
pub struct IndexDescription {
    /// The index's name.
    pub name: String,
    /// The fields in order.
    pub fields: Vec<IndexKeyPart>,
    /// No two documents share a key.
    pub unique: bool,
    /// Documents that have none of the fields are left out.
    pub sparse: bool,
    /// Kept up to date, but never used.
    pub hidden: bool,
    /// Only documents that pass are in the index.
    pub partial: Option<Matcher>,
    /// The collection itself is stored in this order; the key is the whole `_id` and nothing has to be
    /// fetched.
    pub clustered: bool,
    /// The index compares strings by a collation other than the simple binary one; such an index is not used.
    pub collated: bool,
}

impl IndexDescription {
    /// A plain index over these fields.
    pub fn new(name: &str, fields: Vec<IndexKeyPart>) -> Self {
        Self {
            name: name.to_owned(),
            fields,
            unique: false,
            sparse: false,
            hidden: false,
            partial: None,
            clustered: false,
            collated: false,
        }
    }

    /// The key pattern: `{a: 1, b: -1, c: "hashed"}`.
    pub fn key_pattern(&self) -> Document {
        self.fields
            .iter()
            .map(|field| {
                let order = match field.order {
                    FieldOrder::Ascending => Value::Int32(1),
                    FieldOrder::Descending => Value::Int32(-1),
                    FieldOrder::Hashed => Value::String("hashed".to_owned()),
                };
                (field.path.dotted(), order)
            })
            .collect()
    }

    /// The directions of the fields' key bytes.
    pub fn key_directions(&self) -> Vec<document::key::SortOrder> {
        self.fields.iter().map(|field| field.order.key_direction()).collect()
    }

    /// Whether a document may have several keys, so that a scan can meet it more than once.
    pub fn is_multikey(&self) -> bool {
        self.fields.iter().any(IndexKeyPart::is_multikey)
    }

    /// Whether documents may be missing from the index.
    pub const fn is_incomplete(&self) -> bool {
        self.sparse || self.partial.is_some()
    }
}
