//! `arrayFilters`: which elements `$[name]` stands for.

use std::collections::{HashMap, HashSet};

use document::{DocumentBuilder, RawArray, RawDocument, RawValue, Value};

use crate::environment::Environment;
use crate::error::QueryError;
use crate::matcher::Matcher;

/// The array filters of one update, by name.
#[derive(Debug, Default)]
pub(super) struct ArrayFilters {
    /// Its hash has a secret: clients choose the names.
    filters: HashMap<String, Matcher>,
}

impl ArrayFilters {
    pub(super) fn parse(filters: RawArray<'_>, environment: &Environment) -> Result<Self, QueryError> {
        let mut parsed: HashMap<String, Matcher> = HashMap::new();
        for filter in filters.iter() {
            let RawValue::Document(filter) = filter else {
                bail!(type_mismatch, "arrayFilters must be an array of objects");
            };
            let matcher = Matcher::parse(filter, environment)
                .map_err(|error| error.within("Error parsing array filter"))?;
            let name = top_level_name(filter)?;
            if parsed.contains_key(&name) {
                bail!(
                    failed_to_parse,
                    "Found multiple array filters with the same top-level field name {name}"
                );
            }
            parsed.insert(name, matcher);
        }
        Ok(ArrayFilters { filters: parsed })
    }

    /// Refuses a `$[name]` without a filter.
    pub(super) fn check_known(&self, identifier: &str, path: &str) -> Result<(), QueryError> {
        if self.find(identifier).is_some() {
            return Ok(());
        }
        Err(QueryError::bad_value(format!(
            "No array filter found for identifier '{identifier}' in path '{path}'"
        )))
    }

    /// Refuses a filter that no path uses.
    pub(super) fn check_used(
        &self,
        used: &HashSet<String>,
        update: RawDocument<'_>,
    ) -> Result<(), QueryError> {
        // Names are told in their order, whatever that of the table.
        match self.filters.keys().filter(|name| !used.contains(*name)).min() {
            None => Ok(()),
            Some(name) => Err(QueryError::failed_to_parse(format!(
                "The array filter for identifier '{name}' was not used in the update {}",
                update.quoted()
            ))),
        }
    }

    /// Whether the filter of this name matches an array element.
    pub(super) fn matches(&self, identifier: &str, element: &Value) -> Result<bool, QueryError> {
        let matcher = self.find(identifier).expect("an update names only array filters that it has");
        let mut bytes = Vec::new();
        DocumentBuilder::new(&mut bytes).append_value(identifier, element);
        matcher.matches(RawDocument::trusted(&bytes))
    }

    fn find(&self, identifier: &str) -> Option<&Matcher> {
        self.filters.get(identifier)
    }
}

/// The one name that all paths of a filter begin with.
fn top_level_name(filter: RawDocument<'_>) -> Result<String, QueryError> {
    let mut names = Vec::new();
    collect_names(filter, &mut names);
    let Some(first) = names.first().cloned() else {
        bail!(failed_to_parse, "Cannot use an expression without a top-level field name in arrayFilters");
    };
    if let Some(other) = names.iter().find(|name| **name != first) {
        bail!(
            failed_to_parse,
            "Error parsing array filter :: caused by :: Expected a single top-level field name, found \
            '{first}' and '{other}'"
        );
    }
    let well_formed = first.starts_with(|letter: char| letter.is_ascii_lowercase())
        && first.chars().all(|letter| letter.is_ascii_alphanumeric());
    if !well_formed {
        bail!(
            bad_value,
            "Error parsing array filter :: caused by :: The top-level field name must be an alphanumeric \
             string beginning with a lowercase letter, found '{first}'"
        );
    }
    Ok(first)
}

fn collect_names(filter: RawDocument<'_>, names: &mut Vec<String>) {
    for element in filter {
        match element.value() {
            RawValue::Array(clauses) if matches!(element.name(), "$and" | "$or" | "$nor") => {
                clauses
                    .iter()
                    .filter_map(RawValue::as_document)
                    .for_each(|clause| collect_names(clause, names));
            }
            _ if element.name().starts_with('$') => {}
            _ => names.push(element.name().split('.').next().unwrap_or_default().to_owned()),
        }
    }
}
