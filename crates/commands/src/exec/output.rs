//! From a document to its place in the reply: projection, `returnKey`, `showRecordId`.

use super::scan::Located;
use crate::cursors::Batch;
use crate::error::CommandResult;
use document::DocumentBuilder;
use document::key::{Decoder, SortOrder};
use query::expression::Variables;
use query::matcher::Matcher;
use query::plan::{Access, Plan};
use query::projection::Projection;

/// How documents are shown. Nothing is copied but the shown fields, straight into the reply.
#[derive(Debug, Default)]
pub(crate) struct ResultShape {
    /// `None`: documents as they are.
    pub(crate) projection: Option<Projection>,
    /// The filter, when the projection asks which array element matched.
    pub(crate) positional: Option<Matcher>,
    /// Show the keys of the index entries instead of documents.
    pub(crate) return_key: Option<ReturnKey>,
    /// Append `$recordId`.
    pub(crate) show_record_id: bool,
    variables: Variables,
}

/// What `returnKey` shows of the index that the plan walks.
#[derive(Debug, Default)]
pub(crate) enum ReturnKey {
    /// It walks none.
    #[default]
    Nothing,
    /// The documents themselves, in the order of their `_id`.
    Id,
    /// The entries of an index with these fields.
    Fields(Vec<(String, SortOrder)>),
}

impl ReturnKey {
    /// The keys of what a plan walks. `by_id`: a scan of the collection stands for one of the index of `_id`.
    pub(crate) fn of(plan: &Plan, by_id: bool) -> Self {
        match &plan.access {
            Access::IndexScan(scan) if plan.sort_provided => {
                let fields = scan.index.fields.iter();
                let named = fields.map(|field| (field.path.dotted().to_owned(), field.order.key_direction()));
                ReturnKey::Fields(named.collect())
            }
            Access::IdLookup { .. } | Access::CollectionScan { ids: Some(_), .. } => ReturnKey::Id,
            Access::CollectionScan { ids: None, .. } if by_id => ReturnKey::Id,
            _ => ReturnKey::Nothing,
        }
    }

    fn write(&self, located: &Located<'_>, out: &mut DocumentBuilder<'_>) {
        match (self, located.entry) {
            (ReturnKey::Id, _) => {
                if let Some(id) = located.document.element(b"_id") {
                    out.append_element(id);
                }
            }
            (ReturnKey::Fields(fields), Some((key, type_bits))) => {
                let mut decoder = Decoder::new(key, type_bits);
                for (name, direction) in fields {
                    if let Ok(value) = decoder.next(*direction) {
                        out.append_value(name, &value);
                    }
                }
            }
            _ => {}
        }
    }
}

impl ResultShape {
    /// Shows documents through this projection.
    pub(crate) fn new(projection: Option<Projection>, matcher: &Matcher) -> Self {
        let projection = projection.filter(|projection| !projection.is_identity());
        let positional = projection.as_ref().is_some_and(Projection::is_positional).then(|| matcher.clone());
        ResultShape { projection, positional, ..ResultShape::default() }
    }

    /// Whether showing a document may take long.
    pub(crate) fn computes(&self) -> bool {
        self.projection.as_ref().is_some_and(Projection::computes)
    }

    /// Appends a document to the batch. False when it does not fit.
    ///
    /// # Errors
    /// What the projection's expressions say.
    #[inline]
    pub(crate) fn push(&mut self, batch: &mut Batch<'_>, located: &Located<'_>) -> CommandResult<bool> {
        if self.projection.is_none() && self.return_key.is_none() && !self.show_record_id {
            return Ok(batch.push(located.document));
        }
        batch.push_with(|out| self.write(located, out))
    }

    /// Writes the fields that are shown.
    ///
    /// # Errors
    /// What the projection's expressions say.
    pub(crate) fn write(&mut self, located: &Located<'_>, out: &mut DocumentBuilder<'_>) -> CommandResult {
        match (&self.return_key, &self.projection) {
            (Some(key), _) => key.write(located, out),
            (None, None) => {
                out.append_all(located.document);
            }
            (None, Some(projection)) => {
                let details = match &self.positional {
                    Some(matcher) => matcher.matches_positional(located.document)?,
                    None => None,
                };
                projection.project_into(located.document, details.as_ref(), &mut self.variables, out)?;
            }
        }
        if self.show_record_id {
            append_record_id(located, out);
        }
        Ok(())
    }
}

/// Documents of capped collections have numbers. The others are stored by `_id`: its value is what clustered
/// collections show.
fn append_record_id(located: &Located<'_>, out: &mut DocumentBuilder<'_>) {
    /// Bytes of a record number; keys of values are never that short and begin with a higher byte.
    const RECORD_NUMBER_BYTES: usize = 8;
    match located.document_key.first_chunk::<RECORD_NUMBER_BYTES>() {
        Some(number @ [0, ..]) if located.document_key.len() == RECORD_NUMBER_BYTES => {
            out.append("$recordId", i64::from_be_bytes(*number));
        }
        _ => {
            if let Some(id) = located.document.get("_id") {
                out.append("$recordId", id);
            }
        }
    }
}
