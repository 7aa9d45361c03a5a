//! Sort patterns: parsing and MongoDB's refusals.

use document::key::Direction;
use document::{DocumentBuf, DocumentBuilder, FieldPath, RawDocument, RawValue, quote};

use crate::error::QueryError;

/// The most fields of a compound sort.
pub(crate) const MAX_SORT_FIELDS: usize = 32;

/// One field of a sort pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortPart {
    /// The dotted path whose value counts.
    pub path: FieldPath,
    /// Low or high values first.
    pub direction: Direction,
}

/// A parsed sort specification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SortPattern {
    pub(super) parts: Vec<SortPart>,
}

impl SortPattern {
    /// Parses `{path: 1 | -1, …}`; an empty specification sorts nothing.
    ///
    /// # Errors
    /// `BadValue` (2) for other values, duplicate paths and more than 32 fields; `CommandNotSupported` (115) for
    /// `{$meta: …}`, since there is no text search.
    pub fn parse(spec: RawDocument<'_>) -> Result<Self, QueryError> {
        let mut parts: Vec<SortPart> = Vec::new();
        for element in spec {
            let name = element.name();
            if name.starts_with('$') {
                return Err(QueryError::new(
                    16410,
                    "FieldPath field names may not start with '$'. Consider using $getField or $setField.",
                ));
            }
            let path = FieldPath::parse(name)
                .map_err(|error| QueryError::new(path_code(name), error.to_string()))?;
            let direction = direction(name, element.value())?;
            if parts.iter().any(|part| part.path == path) {
                return Err(QueryError::bad_value(format!(
                    "$sort key must not contain duplicate keys (field: '{name}')"
                )));
            }
            if parts.len() == MAX_SORT_FIELDS {
                return Err(QueryError::bad_value("too many compound keys"));
            }
            parts.push(SortPart { path, direction });
        }
        Ok(SortPattern { parts })
    }

    /// The fields, most significant first.
    pub fn parts(&self) -> &[SortPart] {
        &self.parts
    }

    /// Whether nothing is sorted.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The specification that this pattern was parsed from, with its directions as `1` and `-1`.
    pub fn to_spec(&self) -> DocumentBuf {
        let mut bytes = Vec::new();
        let mut builder = DocumentBuilder::new(&mut bytes);
        for part in &self.parts {
            builder.append(part.path.as_str(), if part.direction == Direction::Ascending { 1 } else { -1 });
        }
        builder.finish();
        DocumentBuf::trusted(bytes)
    }
}

fn path_code(name: &str) -> i32 {
    match name {
        "" => 40352,
        _ if name.ends_with('.') => 40353,
        _ => 15998,
    }
}

fn direction(name: &str, value: RawValue<'_>) -> Result<Direction, QueryError> {
    if let RawValue::Document(document) = value {
        if document.contains("$meta") {
            return Err(QueryError::new(115, "sorting by $meta is not supported: there is no text search"));
        }
        return Err(QueryError::bad_value(format!(
            "$meta is the only expression supported by $sort right now: {}",
            quote::element(name, value)
        )));
    }
    match value.as_number().map(|number| number.to_f64()) {
        Some(1.0) => Ok(Direction::Ascending),
        Some(-1.0) => Ok(Direction::Descending),
        Some(_) => {
            Err(QueryError::new(15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending)"))
        }
        None => Err(QueryError::bad_value(format!(
            "Illegal key in $sort specification: {}",
            quote::element(name, value)
        ))),
    }
}
