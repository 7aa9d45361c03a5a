//! The elements of `updates` and `deletes`, read but not yet compiled. All of them are read before the first
//! one runs: what is malformed here fails the command, what is refused later concerns one statement.

use crate::error::{CommandError, CommandResult};
use crate::exec::{StatementFilter, check_collation, parse_hint};
use crate::fields::{Fields, wrong_type};
use document::{RawArray, RawDocument, RawValue};
use query::Environment;
use query::plan::Hint;
use query::sort::SortPattern;
use query::update::Update;
use std::sync::Arc;

/// Which documents a statement concerns, as the client wrote it.
#[derive(Debug)]
pub(crate) struct Selection<'a> {
    filter: RawDocument<'a>,
    sort: Option<RawDocument<'a>>,
    hint: Option<Hint>,
    collation: Option<RawDocument<'a>>,
}

impl<'a> Selection<'a> {
    /// Takes `hint` and `collation` of a statement with this filter.
    ///
    /// # Errors
    /// Wrong types; hints that are none.
    pub(crate) fn take(
        fields: &mut Fields<'a>,
        filter: RawDocument<'a>,
        sort: Option<RawDocument<'a>>,
    ) -> CommandResult<Self> {
        let hint = fields.any("hint").filter(|hint| !matches!(hint, RawValue::Null | RawValue::Undefined));
        Ok(Selection { filter, sort, hint: parse_hint(hint)?, collation: fields.document("collation")? })
    }

    /// The filter, which must be well-formed whether or not there is a collection.
    ///
    /// # Errors
    /// Malformed filters and sorts, collations that are not supported.
    pub(crate) fn compile<'f>(&self, environment: &'f Environment) -> CommandResult<StatementFilter<'f>>
    where
        'a: 'f,
    {
        check_collation(self.collation)?;
        let sort = self.sort.map(SortPattern::parse).transpose()?.unwrap_or_default();
        let filter = StatementFilter::new(self.filter, environment, self.hint.clone(), Arc::new(sort));
        if !filter.is_id_lookup() {
            filter.matcher()?;
        }
        Ok(filter)
    }
}

/// One element of `updates`.
#[derive(Debug)]
pub(crate) struct UpdateStatement<'a> {
    pub(crate) selection: Selection<'a>,
    pub(crate) update: RawValue<'a>,
    pub(crate) constants: Option<RawDocument<'a>>,
    pub(crate) array_filters: Option<RawArray<'a>>,
    pub(crate) multi: bool,
    pub(crate) upsert: bool,
}

impl<'a> UpdateStatement<'a> {
    /// Reads one element of `updates`.
    ///
    /// # Errors
    /// Unknown and missing fields, wrong types, stages that do not exist.
    pub(crate) fn parse(statement: RawDocument<'a>) -> CommandResult<Self> {
        let mut fields = Fields::nested("update.updates", statement)?;
        let filter = fields.document("q")?;
        let update = fields.any("u");
        let selection = Selection::take(&mut fields, filter.unwrap_or_default(), None)?;
        let constants = fields.document("c")?;
        let array_filters = array_filters("update.updates", &mut fields)?;
        let multi = fields.boolean("multi")?.unwrap_or(false);
        let upsert = fields.boolean("upsert")?.unwrap_or(false);
        fields.ignore(&["upsertSupplied", "sampleId", "allowShardKeyUpdatesWithoutFullShardKeyInQuery"]);
        fields.finish()?;
        filter.ok_or_else(|| fields.missing("q"))?;
        let update = update.ok_or_else(|| fields.missing("u"))?;
        Update::check_form(update)?;
        Ok(UpdateStatement { selection, update, constants, array_filters, multi, upsert })
    }
}

/// One element of `deletes`.
#[derive(Debug)]
pub(crate) struct DeleteStatement<'a> {
    pub(crate) selection: Selection<'a>,
    /// One document goes, not all that match.
    pub(crate) one: bool,
}

impl<'a> DeleteStatement<'a> {
    /// Reads one element of `deletes`.
    ///
    /// # Errors
    /// Unknown and missing fields, wrong types, limits other than 0 and 1.
    pub(crate) fn parse(statement: RawDocument<'a>) -> CommandResult<Self> {
        let mut fields = Fields::nested("delete.deletes", statement)?;
        let filter = fields.document("q")?;
        let selection = Selection::take(&mut fields, filter.unwrap_or_default(), None)?;
        let limit =
            fields.any("limit").filter(|limit| !matches!(limit, RawValue::Null | RawValue::Undefined));
        fields.ignore(&["sampleId"]);
        fields.finish()?;
        filter.ok_or_else(|| fields.missing("q"))?;
        let limit = limit.ok_or_else(|| fields.missing("limit"))?;
        let one = match limit.as_f64() {
            Some(0.0) => false,
            Some(1.0) => true,
            Some(other) => {
                let message = format!("The limit field in delete objects must be 0 or 1. Got {other}");
                return Err(CommandError::failed_to_parse(message));
            }
            None => {
                let numbers = ["long", "int", "decimal", "double"];
                return Err(fields.wrong_type("limit", limit.kind(), &numbers));
            }
        };
        Ok(DeleteStatement { selection, one })
    }
}

/// Takes `arrayFilters`, which all must be documents.
///
/// # Errors
/// `TypeMismatch`.
pub(crate) fn array_filters<'a>(
    command: &str,
    fields: &mut Fields<'a>,
) -> CommandResult<Option<RawArray<'a>>> {
    let filters = fields.array("arrayFilters")?;
    for (position, filter) in filters.unwrap_or(RawArray::EMPTY).iter().enumerate() {
        if filter.as_document().is_none() {
            let name = format!("arrayFilters.{position}");
            return Err(wrong_type(command, &name, filter.kind(), &["object"]));
        }
    }
    Ok(filters)
}
