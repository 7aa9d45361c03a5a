//! Why a document does not conform: the `errInfo` of `DocumentValidationFailure` (121).
//!
//! Source: MongoDB manual, "Schema Validation: Error Output"; the field names are MongoDB's.

use document::{Document, FieldIndex, RawDocument, RawValue, Value, doc};

use super::check::{duplicate, is_additional};
use super::{Dependency, Extra, Keyword, Rule, Schema};
use crate::environment::Environment;
use crate::error::QueryError;

/// The `errInfo` document for a document that a collection's validator refused.
///
/// A validator that is one `$jsonSchema` is explained keyword by keyword; of any other validator the
/// predicate is shown.
///
/// # Errors
/// When the validator does not parse or a regular expression exceeds its step limit.
pub fn validation_details(
    validator: RawDocument<'_>,
    document: RawDocument<'_>,
    environment: &Environment,
) -> Result<Document, QueryError> {
    let mut details = Document::new();
    match validator.first() {
        Some(first) if first.name() == "$jsonSchema" && validator.iter().count() == 1 => {
            let source = first.value().as_document().unwrap_or_default();
            let schema = Schema::parse(source, environment)?;
            details.push("operatorName", "$jsonSchema");
            describe(&schema, &mut details);
            details.push("schemaRulesNotSatisfied", schema.failures(RawValue::Document(document))?);
        }
        Some(first) => predicate_details(validator, first, document, &mut details),
        None => {}
    }
    let id = document.get("_id").map(RawValue::to_value);
    Ok(doc! { "failingDocumentId": (id.unwrap_or_default()), "details": (details) })
}

fn predicate_details(
    validator: RawDocument<'_>,
    first: document::Element<'_>,
    document: RawDocument<'_>,
    details: &mut Document,
) {
    let operator = match first.value() {
        _ if validator.iter().count() > 1 => "$and",
        _ if first.name().starts_with('$') => first.name(),
        RawValue::Document(inner) => match inner.first() {
            Some(operator) if operator.name().starts_with('$') => operator.name(),
            _ => "$eq",
        },
        _ => "$eq",
    };
    details.push("operatorName", operator);
    details.push("specifiedAs", validator);
    let path = document::FieldPath::parse(first.name()).ok().filter(|_| !first.name().starts_with('$'));
    if let Some(path) = path {
        match path.get(document) {
            Some(value) => {
                details.push("reason", "comparison failed");
                details.push("consideredValue", value.to_value());
            }
            None => details.push("reason", "field was missing"),
        }
    }
}

fn describe(schema: &Schema, into: &mut Document) {
    if let Some(title) = &schema.title {
        into.push("title", title);
    }
    if let Some(description) = &schema.description {
        into.push("description", description);
    }
}

impl Schema {
    /// One document for each keyword that the value does not satisfy.
    pub(super) fn failures(&self, value: RawValue<'_>) -> Result<Vec<Value>, QueryError> {
        let mut failures = Vec::new();
        for keyword in &self.keywords {
            if !keyword.rule.holds(value)? {
                failures.push(Value::Document(keyword.failure(value)?));
            }
        }
        Ok(failures)
    }
}

impl Keyword {
    fn failure(&self, value: RawValue<'_>) -> Result<Document, QueryError> {
        let mut failure = doc! { "operatorName": (self.name) };
        let nested = matches!(
            self.rule,
            Rule::Properties(_)
                | Rule::PatternProperties(_)
                | Rule::AllOf(_)
                | Rule::AnyOf(_)
                | Rule::OneOf(_)
                | Rule::Not(_)
                | Rule::ItemsAt(_)
                | Rule::ItemsFrom(..)
                | Rule::Dependencies(_)
        );
        if !nested {
            failure.push("specifiedAs", Document::from_iter([(self.name, self.specified.clone())]));
        }
        match (&self.rule, value) {
            (Rule::AllOf(schemas) | Rule::AnyOf(schemas), _) => {
                failure.push("schemasNotSatisfied", unsatisfied(schemas, value)?);
            }
            (Rule::OneOf(schemas), _) => one_of(schemas, value, &mut failure)?,
            (Rule::Not(_), _) => failure.push("reason", "child expression matched"),
            (_, RawValue::Document(document)) => self.document_failure(document, &mut failure)?,
            (_, RawValue::Array(array)) => self.array_failure(array, &mut failure)?,
            _ => self.scalar_failure(value, &mut failure),
        }
        Ok(failure)
    }

    fn scalar_failure(&self, value: RawValue<'_>, failure: &mut Document) {
        let reason = match self.rule {
            Rule::Type(_) => "type did not match",
            Rule::Enum(_) => "value was not found in enum",
            Rule::MinLength(_) | Rule::MaxLength(_) => "specified string length was not satisfied",
            Rule::Pattern(_) => "regular expression did not match",
            Rule::MultipleOf(_) => "considered value is not a multiple of the specified value",
            Rule::MinItems(_) | Rule::MaxItems(_) => "array did not match specified length",
            _ => "comparison failed",
        };
        failure.push("reason", reason);
        failure.push("consideredValue", value.to_value());
        if matches!(self.rule, Rule::Type(_)) {
            failure.push("consideredType", value.kind().alias());
        }
    }

    fn array_failure(&self, array: document::RawArray<'_>, failure: &mut Document) -> Result<(), QueryError> {
        match &self.rule {
            Rule::UniqueItems => {
                failure.push("reason", "found a duplicate item");
                failure.push("consideredValue", array.to_values());
                failure.push("duplicatedValue", duplicate(array).map(RawValue::to_value));
            }
            rule @ (Rule::ItemsAt(_) | Rule::ItemsFrom(..)) => {
                let Some(position) = rule.failing_item(array)? else {
                    return Ok(());
                };
                failure.push("reason", "At least one item did not match the sub-schema");
                failure.push("itemIndex", position as i32);
                let schema = match rule {
                    Rule::ItemsAt(schemas) => schemas.get(position),
                    Rule::ItemsFrom(_, Extra::Conforming(schema)) => Some(&**schema),
                    _ => None,
                };
                if let (Some(schema), Some(item)) = (schema, array.get(position)) {
                    failure.push("details", schema.failures(item)?);
                }
            }
            _ => self.scalar_failure(RawValue::Array(array), failure),
        }
        Ok(())
    }

    fn document_failure(&self, document: RawDocument<'_>, failure: &mut Document) -> Result<(), QueryError> {
        match &self.rule {
            Rule::Required(names) => {
                let present = FieldIndex::new(document, names.len());
                let missing = names.iter().filter(|name| !present.contains(name));
                failure.push("missingProperties", missing.map(Value::from).collect::<Vec<_>>());
            }
            Rule::MinProperties(_) | Rule::MaxProperties(_) => {
                failure.push("reason", "specified number of properties was not satisfied");
                failure.push("numberOfProperties", document.iter().count() as i32);
            }
            Rule::Properties(fields) => {
                let mut unsatisfied = Vec::new();
                let present = FieldIndex::new(document, fields.len());
                for (name, schema) in fields {
                    if let Some(value) = present.get(name) {
                        unsatisfied.extend(property_failure(name, schema, value)?);
                    }
                }
                failure.push("propertiesNotSatisfied", unsatisfied);
            }
            Rule::PatternProperties(patterns) => {
                let mut unsatisfied = Vec::new();
                for element in document {
                    for (pattern, schema) in patterns {
                        if pattern.is_match(element.name())? {
                            unsatisfied.extend(property_failure(element.name(), schema, element.value())?);
                        }
                    }
                }
                failure.push("details", unsatisfied);
            }
            Rule::AdditionalProperties { names, patterns, extra } => {
                let mut additional = Vec::new();
                for element in document {
                    if is_additional(element.name(), names, patterns)? && !extra.admits(element.value())? {
                        additional.push(Value::from(element.name()));
                    }
                }
                failure.push("additionalProperties", additional);
            }
            Rule::Dependencies(dependencies) => {
                failure.push("failingDependencies", failing_dependencies(dependencies, document)?);
            }
            _ => self.scalar_failure(RawValue::Document(document), failure),
        }
        Ok(())
    }
}

fn property_failure(name: &str, schema: &Schema, value: RawValue<'_>) -> Result<Option<Value>, QueryError> {
    let failures = schema.failures(value)?;
    if failures.is_empty() {
        return Ok(None);
    }
    let mut failure = doc! { "propertyName": name };
    describe(schema, &mut failure);
    failure.push("details", failures);
    Ok(Some(Value::Document(failure)))
}

fn unsatisfied(schemas: &[Schema], value: RawValue<'_>) -> Result<Vec<Value>, QueryError> {
    let mut found = Vec::new();
    for (index, schema) in schemas.iter().enumerate() {
        let failures = schema.failures(value)?;
        if !failures.is_empty() {
            found.push(Value::Document(doc! { "index": (index as i32), "details": (failures) }));
        }
    }
    Ok(found)
}

fn one_of(schemas: &[Schema], value: RawValue<'_>, failure: &mut Document) -> Result<(), QueryError> {
    let mut matching = Vec::new();
    for (index, schema) in schemas.iter().enumerate() {
        if schema.conforms(value)? {
            matching.push(Value::from(index as i32));
        }
    }
    if matching.is_empty() {
        failure.push("schemasNotSatisfied", unsatisfied(schemas, value)?);
    } else {
        failure.push("reason", "more than one subschema matched");
        failure.push("matchingSchemaIndexes", matching);
    }
    Ok(())
}

fn failing_dependencies(
    dependencies: &[(String, Dependency)],
    document: RawDocument<'_>,
) -> Result<Vec<Value>, QueryError> {
    let mut found = Vec::new();
    let present = FieldIndex::new(document, dependencies.len());
    for (name, dependency) in dependencies {
        if !present.contains(name) || dependency.holds(document)? {
            continue;
        }
        let mut failure = doc! { "conditionalProperty": name };
        match dependency {
            Dependency::Fields(names) => {
                let present = FieldIndex::new(document, names.len());
                let missing = names.iter().filter(|name| !present.contains(name));
                failure.push("missingProperties", missing.map(Value::from).collect::<Vec<_>>());
            }
            Dependency::Conforming(schema) => {
                failure.push("details", schema.failures(RawValue::Document(document))?)
            }
        }
        found.push(Value::Document(failure));
    }
    Ok(found)
}
