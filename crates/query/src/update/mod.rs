//! Updates: operators, replacements and pipelines, from one document's bytes to the next.
//!
//! ```text
//!  {$set: {"a.b": 1}, $inc: {n: 2}} ──▶ parse ──▶ tree of modifiers      conflicts are found here
//!                                                   a ─ b: set 1
//!                                                   n: inc 2
//!  document ──▶ splice: untouched top-level fields are copied as bytes,
//!               touched ones are computed (scalars from raw values, the others as a small tree) ──▶ document
//! ```
//!
//! * A *modifier* is one operator applied to one path.
//! * New fields are appended in lexicographic order (numeric names in numeric order), whatever the order in
//!   the update.
//! * An update that gives the same bytes changes nothing: it is reported as unchanged.
//!
//! Source: MongoDB manual, "Update Operators", "Updates with Aggregation Pipeline", "Update Operators
//! Behavior".

mod array;
mod array_filters;
mod bit;
mod id;
mod modifier;
mod operators;
mod path;
mod pipeline;
mod rename;
mod replacement;
mod splice;
mod tree;
mod upsert;
mod walk;

#[cfg(test)]
mod large_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod refusal_tests;
#[cfg(test)]
mod tests;

pub use upsert::{asks_for_key, check_upsert_filter};

pub use operators::operator_names;

use document::quote::element;
use document::{DocumentBuf, MAX_DOCUMENT_SIZE, RawArray, RawDocument, RawValue};

use crate::environment::Environment;
use crate::error::{QueryError, code};
use crate::matcher::MatchDetails;

/// A document must stay below this depth, so that it can be sent in messages.
const MAX_STORED_DEPTH: usize = 180;

/// A parsed update.
#[derive(Debug)]
pub struct Update {
    kind: UpdateKind,
}

#[derive(Debug)]
enum UpdateKind {
    Operators(operators::Operators),
    Replacement(DocumentBuf),
    Pipeline(pipeline::UpdatePipeline),
}

/// What becomes of empty timestamps in the top level of a replacement, `_id` excepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EmptyTimestamps {
    /// They become the current time.
    #[default]
    Replaced,
    /// They stay (`bypassEmptyTsReplacement`): what is restored is stored as it was.
    Kept,
}

impl Update {
    /// Parses the update of one statement: a document of operators, a replacement document, or a pipeline.
    ///
    /// # Errors
    /// `FailedToParse` (9) for unknown modifiers and misplaced array filters, `ConflictingUpdateOperators`
    /// (40) when two modifiers write the same path, and what the operators refuse.
    pub fn parse(
        spec: RawValue<'_>,
        array_filters: Option<RawArray<'_>>,
        environment: &Environment,
    ) -> Result<Self, QueryError> {
        Self::parse_with(spec, array_filters, environment, EmptyTimestamps::Replaced)
    }

    /// As [`Update::parse`], told what becomes of empty timestamps.
    ///
    /// # Errors
    /// As [`Update::parse`].
    pub fn parse_with(
        spec: RawValue<'_>,
        array_filters: Option<RawArray<'_>>,
        environment: &Environment,
        timestamps: EmptyTimestamps,
    ) -> Result<Self, QueryError> {
        let filtered = array_filters.is_some_and(|filters| !filters.is_empty());
        let kind = match spec {
            RawValue::Array(_) if filtered => {
                bail!(failed_to_parse, "arrayFilters may not be specified for pipeline-syle updates")
            }
            RawValue::Array(stages) => {
                UpdateKind::Pipeline(pipeline::UpdatePipeline::parse(stages, environment)?)
            }
            RawValue::Document(document) if is_operators(document) => {
                let filters = array_filters.unwrap_or(RawArray::EMPTY);
                UpdateKind::Operators(operators::Operators::parse(document, filters, environment)?)
            }
            RawValue::Document(_) if filtered => {
                bail!(failed_to_parse, "Cannot specify arrayFilters with replacement-style update")
            }
            RawValue::Document(document) => {
                UpdateKind::Replacement(replacement::parse(document, timestamps)?)
            }
            _ => return Err(neither_document_nor_array()),
        };
        Ok(Update { kind })
    }

    /// Refuses what cannot be an update whatever it says: other types than documents and arrays, and
    /// pipelines with stages that do not exist. A command looks at all of its statements so before it runs
    /// the first.
    ///
    /// # Errors
    /// `FailedToParse` (9), `TypeMismatch` (14) for stages that are no documents, 40323, 40324.
    pub fn check_form(spec: RawValue<'_>) -> Result<(), QueryError> {
        match spec {
            RawValue::Document(_) => Ok(()),
            RawValue::Array(stages) => pipeline::check_names(stages),
            _ => Err(neither_document_nor_array()),
        }
    }

    /// Whether this replaces the whole document; such an update cannot be applied to several documents.
    pub fn is_replacement(&self) -> bool {
        matches!(self.kind, UpdateKind::Replacement(_))
    }

    /// Whether values are computed, for as long as expressions like.
    pub const fn computes(&self) -> bool {
        matches!(self.kind, UpdateKind::Pipeline(_))
    }

    /// Whether the positional `$` is used, so that the matcher must tell which array element matched.
    pub fn needs_match_details(&self) -> bool {
        matches!(&self.kind, UpdateKind::Operators(operators) if operators.uses_position)
    }

    /// The document after the update; `None` when it is the same byte for byte. `is_insert` is set for the
    /// document of an upsert, which `$setOnInsert` waits for.
    ///
    /// # Errors
    /// What the operators refuse: `PathNotViable` (28), `TypeMismatch` (14), `BadValue` (2); `ImmutableField`
    /// (66) when `_id` would change; 17419 when the result is larger than 16 MiB.
    pub fn apply(
        &self,
        document: RawDocument<'_>,
        details: Option<&MatchDetails>,
        is_insert: bool,
    ) -> Result<Option<DocumentBuf>, QueryError> {
        let changed = match &self.kind {
            UpdateKind::Operators(operators) => operators.apply(document, details, is_insert)?,
            UpdateKind::Replacement(replacement) => replacement::apply(document, replacement.as_raw())?,
            UpdateKind::Pipeline(pipeline) => {
                let result = pipeline.apply(document)?;
                replacement::apply(document, result.as_raw())?
            }
        };
        if changed.as_bytes() == document.as_bytes() {
            return Ok(None);
        }
        self.check_result(changed.as_raw())?;
        Ok(Some(changed))
    }

    /// The document that an upsert inserts when nothing matches `filter`: the filter's equalities, updated,
    /// with an `_id` in front.
    ///
    /// # Errors
    /// `NotSingleValueField` (54) when the filter gives a path two values, and as [`Update::apply`].
    pub fn upsert(&self, filter: RawDocument<'_>) -> Result<DocumentBuf, QueryError> {
        let seed = upsert::seed(filter, self.is_replacement())?;
        upsert::with_id(self.apply(seed.as_raw(), None, true)?.unwrap_or(seed))
    }

    fn check_result(&self, document: RawDocument<'_>) -> Result<(), QueryError> {
        if document.as_bytes().len() > MAX_DOCUMENT_SIZE {
            bail!(17419, "Resulting document after update is larger than {MAX_DOCUMENT_SIZE}");
        }
        let may_deepen = !matches!(&self.kind, UpdateKind::Operators(operators) if operators.is_flat);
        if may_deepen && document.exceeds_depth(MAX_STORED_DEPTH) {
            bail!(code::OVERFLOW, "Document exceeds maximum nesting depth of {MAX_STORED_DEPTH}");
        }
        Ok(())
    }
}

fn neither_document_nor_array() -> QueryError {
    QueryError::failed_to_parse("Update argument must be either an object or an array")
}

/// A document whose first field begins with a dollar sign is made of operators.
fn is_operators(document: RawDocument<'_>) -> bool {
    document.first().is_some_and(|first| first.name().starts_with('$'))
}

/// The `_id` of a document as error messages show it: `_id: 1`.
fn describe_id(document: RawDocument<'_>) -> String {
    document.get("_id").map_or_else(|| "no id".to_owned(), |id| element("_id", id))
}
