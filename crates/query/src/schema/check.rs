//! Checking values against keywords.

use std::cmp::Ordering;
use std::collections::HashSet;

use document::{Comparable, FieldIndex, Number, RawArray, RawDocument, RawValue};

use super::{Dependency, Extra, Rule, Schema};
use crate::checkpoint;
use crate::error::QueryError;
use crate::matcher::Pattern;

impl Schema {
    /// Whether the value satisfies every keyword.
    pub(super) fn conforms(&self, value: RawValue<'_>) -> Result<bool, QueryError> {
        for keyword in &self.keywords {
            checkpoint::pass(1)?;
            if !keyword.rule.holds(value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Extra {
    pub(super) fn admits(&self, value: RawValue<'_>) -> Result<bool, QueryError> {
        match self {
            Extra::Forbidden => Ok(false),
            Extra::Conforming(schema) => schema.conforms(value),
        }
    }
}

impl Dependency {
    pub(super) fn holds(&self, document: RawDocument<'_>) -> Result<bool, QueryError> {
        match self {
            Dependency::Fields(names) => Ok(has_all(document, names)),
            Dependency::Conforming(schema) => schema.conforms(RawValue::Document(document)),
        }
    }
}

impl Rule {
    pub(super) fn holds(&self, value: RawValue<'_>) -> Result<bool, QueryError> {
        match self {
            Rule::Type(set) => return Ok(set.contains(value.kind())),
            Rule::Enum(allowed) => {
                checkpoint::pass(allowed.len())?;
                let equal = |allowed: &document::Value| {
                    allowed.with_raw(|allowed| document::compare(allowed, value).is_eq())
                };
                return Ok(allowed.iter().any(equal));
            }
            Rule::AllOf(schemas) => return Ok(count_conforming(schemas, value)? == schemas.len()),
            Rule::AnyOf(schemas) => return Ok(count_conforming(schemas, value)? > 0),
            Rule::OneOf(schemas) => return Ok(count_conforming(schemas, value)? == 1),
            Rule::Not(schema) => return Ok(!schema.conforms(value)?),
            _ => {}
        }
        match value {
            RawValue::String(text) => self.holds_for_string(text),
            RawValue::Array(array) => self.holds_for_array(array),
            RawValue::Document(document) => self.holds_for_document(document),
            other => Ok(other.as_number().is_none_or(|number| self.holds_for_number(number))),
        }
    }

    fn holds_for_number(&self, number: Number) -> bool {
        match self {
            Rule::Minimum { limit, exclusive } => match number.compare(*limit) {
                Ordering::Less => false,
                Ordering::Equal => !exclusive,
                Ordering::Greater => true,
            },
            Rule::Maximum { limit, exclusive } => match number.compare(*limit) {
                Ordering::Less => true,
                Ordering::Equal => !exclusive,
                Ordering::Greater => false,
            },
            Rule::MultipleOf(divisor) => number.remainder(*divisor).is_some_and(Number::is_zero),
            _ => true,
        }
    }

    fn holds_for_string(&self, text: &str) -> Result<bool, QueryError> {
        match self {
            Rule::MinLength(limit) => Ok(text.chars().count() as u64 >= *limit),
            Rule::MaxLength(limit) => Ok(text.chars().count() as u64 <= *limit),
            Rule::Pattern(pattern) => pattern.is_match(text),
            _ => Ok(true),
        }
    }

    fn holds_for_array(&self, array: RawArray<'_>) -> Result<bool, QueryError> {
        match self {
            Rule::MinItems(limit) => Ok(array.len() as u64 >= *limit),
            Rule::MaxItems(limit) => Ok(array.len() as u64 <= *limit),
            Rule::UniqueItems => Ok(duplicate(array).is_none()),
            _ => Ok(self.failing_item(array)?.is_none()),
        }
    }

    /// The position of the first element that `items` or `additionalItems` refuses.
    pub(super) fn failing_item(&self, array: RawArray<'_>) -> Result<Option<usize>, QueryError> {
        for (position, item) in array.iter().enumerate() {
            let admitted = match self {
                Rule::ItemsAt(schemas) => match schemas.get(position) {
                    Some(schema) => schema.conforms(item)?,
                    None => return Ok(None),
                },
                Rule::ItemsFrom(from, extra) if position >= *from => extra.admits(item)?,
                _ => true,
            };
            if !admitted {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }

    fn holds_for_document(&self, document: RawDocument<'_>) -> Result<bool, QueryError> {
        match self {
            Rule::MinProperties(limit) => Ok(document.iter().count() as u64 >= *limit),
            Rule::MaxProperties(limit) => Ok(document.iter().count() as u64 <= *limit),
            Rule::Required(names) => Ok(has_all(document, names)),
            Rule::Properties(fields) => {
                let present = FieldIndex::new(document, fields.len());
                for (name, schema) in fields {
                    if let Some(value) = present.get(name)
                        && !schema.conforms(value)?
                    {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Rule::PatternProperties(patterns) => {
                for element in document {
                    for (pattern, schema) in patterns {
                        checkpoint::pass(1)?;
                        if pattern.is_match(element.name())? && !schema.conforms(element.value())? {
                            return Ok(false);
                        }
                    }
                }
                Ok(true)
            }
            Rule::AdditionalProperties { names, patterns, extra } => {
                for element in document {
                    if is_additional(element.name(), names, patterns)? && !extra.admits(element.value())? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Rule::Dependencies(dependencies) => {
                let present = FieldIndex::new(document, dependencies.len());
                for (name, dependency) in dependencies {
                    checkpoint::pass_bytes(document.as_bytes().len())?;
                    if present.contains(name) && !dependency.holds(document)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(true),
        }
    }
}

fn has_all(document: RawDocument<'_>, names: &[String]) -> bool {
    let present = FieldIndex::new(document, names.len());
    names.iter().all(|name| present.contains(name))
}

fn count_conforming(schemas: &[Schema], value: RawValue<'_>) -> Result<usize, QueryError> {
    schemas.iter().try_fold(0, |count, schema| Ok(count + usize::from(schema.conforms(value)?)))
}

/// Whether neither `properties` nor `patternProperties` names the field.
pub(super) fn is_additional(
    name: &str,
    names: &HashSet<String>,
    patterns: &[Pattern],
) -> Result<bool, QueryError> {
    if names.contains(name) {
        return Ok(false);
    }
    for pattern in patterns {
        checkpoint::pass(1)?;
        if pattern.is_match(name)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A value that the array holds twice.
pub(super) fn duplicate(array: RawArray<'_>) -> Option<RawValue<'_>> {
    let mut values: Vec<_> = array.iter().map(Comparable).collect();
    values.sort();
    values.windows(2).find_map(|pair| match pair {
        [first, second] if first == second => Some(first.0),
        _ => None,
    })
}
