//! Sort patterns: parsing and MongoDB's refusals.

use document::key::SortOrder;
use document::{DocumentBuf, DocumentBuilder, FieldPath, RawDocument, RawValue, quote};

use crate::error::QueryError;
use crate::expression::check_path;

/// The most fields of a compound sort.
pub(crate) const MAX_SORT_FIELDS: usize = 32;

/// One field of a sort pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortPart {
    /// The dotted path whose value counts.
    pub path: FieldPath,
    /// Low or high values first.
    pub direction: SortOrder,
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
    /// 15974, 15975 and 17312 for other values, what [`check_path`] says, `BadValue` (2) for duplicate paths
    /// and more than 32 fields; `CommandNotSupported` (115) for `{$meta: …}`, since there is no text search.
    pub fn parse(spec: RawDocument<'_>) -> Result<Self, QueryError> {
        let mut parts: Vec<SortPart> = Vec::new();
        for element in spec {
            let name = element.name();
            let direction = direction(name, element.value())?;
            check_path(name)?;
            let path = FieldPath::parse(name).map_err(|error| QueryError::bad_value(error.to_string()))?;
            if parts.iter().any(|part| part.path == path) {
                bail!(bad_value, "$sort key must not contain duplicate keys (field: '{name}')");
            }
            if parts.len() == MAX_SORT_FIELDS {
                bail!(bad_value, "too many compound keys");
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
            builder.append(part.path.as_str(), if part.direction == SortOrder::Ascending { 1 } else { -1 });
        }
        builder.finish();
        DocumentBuf::trusted(bytes)
    }
}

fn direction(name: &str, value: RawValue<'_>) -> Result<SortOrder, QueryError> {
    if let RawValue::Document(document) = value {
        if document.first().is_some_and(|first| first.name() == "$meta") {
            bail!(115, "sorting by $meta is not supported: there is no text search");
        }
        bail!(17312, "$meta is the only expression supported by $sort right now");
    }
    let Some(number) = value.as_number() else {
        let key = quote::element(name, value);
        bail!(15974, "Illegal key in $sort specification: {key}");
    };
    // Fractions do not count.
    match number.to_i64_saturating() {
        1 => Ok(SortOrder::Ascending),
        -1 => Ok(SortOrder::Descending),
        _ => {
            Err(QueryError::new(15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending)"))
        }
    }
}
