//! Parsing schemas.

use std::collections::HashSet;

use document::{ElementType, Number, RawDocument, RawValue};

use super::{Dependency, Extra, Keyword, Rule, Schema};
use crate::error::QueryError;
use crate::matcher::{Pattern, TypeSet};

/// How one keyword's operand is read; the schema around it is needed where keywords speak of each other.
type ParseKeyword = fn(&'static str, RawValue<'_>, RawDocument<'_>) -> Result<Option<Rule>, QueryError>;

/// Every keyword, in MongoDB's order of checking.
const KEYWORDS: &[(&str, ParseKeyword)] = &[
    ("type", json_type),
    ("bsonType", bson_type),
    ("enum", |name, value, _| enumeration(name, value).map(Some)),
    ("minimum", |name, value, around| bound(name, value, around, "exclusiveMinimum")),
    ("maximum", |name, value, around| bound(name, value, around, "exclusiveMaximum")),
    ("exclusiveMinimum", |name, value, around| exclusive(name, value, around, "minimum")),
    ("exclusiveMaximum", |name, value, around| exclusive(name, value, around, "maximum")),
    ("multipleOf", |name, value, _| multiple(name, value).map(Some)),
    ("minLength", |name, value, _| Ok(Some(Rule::MinLength(count(name, value)?)))),
    ("maxLength", |name, value, _| Ok(Some(Rule::MaxLength(count(name, value)?)))),
    ("pattern", |name, value, _| Ok(Some(Rule::Pattern(Pattern::compile(string(name, value)?, "")?)))),
    ("minItems", |name, value, _| Ok(Some(Rule::MinItems(count(name, value)?)))),
    ("maxItems", |name, value, _| Ok(Some(Rule::MaxItems(count(name, value)?)))),
    ("uniqueItems", |name, value, _| Ok(boolean(name, value)?.then_some(Rule::UniqueItems))),
    ("items", items),
    ("additionalItems", additional_items),
    ("minProperties", |name, value, _| Ok(Some(Rule::MinProperties(count(name, value)?)))),
    ("maxProperties", |name, value, _| Ok(Some(Rule::MaxProperties(count(name, value)?)))),
    ("required", |name, value, _| Ok(Some(Rule::Required(names(name, value)?)))),
    ("properties", properties),
    ("patternProperties", pattern_properties),
    ("additionalProperties", additional_properties),
    ("dependencies", dependencies),
    ("allOf", |name, value, _| Ok(Some(Rule::AllOf(schemas(name, value)?)))),
    ("anyOf", |name, value, _| Ok(Some(Rule::AnyOf(schemas(name, value)?)))),
    ("oneOf", |name, value, _| Ok(Some(Rule::OneOf(schemas(name, value)?)))),
    ("not", |name, value, _| Ok(Some(Rule::Not(Box::new(schema(object(name, value)?)?))))),
];

/// Keywords of JSON Schema that MongoDB knows of and refuses.
const UNSUPPORTED: &[&str] =
    &["$ref", "$schema", "default", "definitions", "format", "id", "encrypt", "encryptMetadata"];

pub(super) fn schema(source: RawDocument<'_>) -> Result<Schema, QueryError> {
    let mut parsed = Schema::default();
    for element in source {
        match element.name() {
            "title" => parsed.title = Some(string("title", element.value())?.to_owned()),
            "description" => parsed.description = Some(string("description", element.value())?.to_owned()),
            name if KEYWORDS.iter().any(|(known, _)| *known == name) => {}
            name if UNSUPPORTED.contains(&name) => {
                bail!(failed_to_parse, "$jsonSchema keyword '{name}' is not currently supported")
            }
            name => bail!(failed_to_parse, "Unknown $jsonSchema keyword: {name}"),
        }
    }
    if source.contains("type") && source.contains("bsonType") {
        bail!(failed_to_parse, "Cannot specify both $jsonSchema keywords 'type' and 'bsonType'");
    }
    for (name, parse) in KEYWORDS {
        if let Some(value) = source.get(name)
            && let Some(rule) = parse(name, value, source)?
        {
            parsed.keywords.push(Keyword { name, specified: value.to_value(), rule });
        }
    }
    Ok(parsed)
}

fn mismatch(name: &str, expected: &str) -> QueryError {
    QueryError::type_mismatch(format!("$jsonSchema keyword '{name}' must be {expected}"))
}

fn string<'a>(name: &str, value: RawValue<'a>) -> Result<&'a str, QueryError> {
    value.as_str().ok_or_else(|| mismatch(name, "a string"))
}

fn boolean(name: &str, value: RawValue<'_>) -> Result<bool, QueryError> {
    value.as_bool().ok_or_else(|| mismatch(name, "a boolean"))
}

fn object<'a>(name: &str, value: RawValue<'a>) -> Result<RawDocument<'a>, QueryError> {
    value.as_document().ok_or_else(|| mismatch(name, "an object"))
}

fn number(name: &str, value: RawValue<'_>) -> Result<Number, QueryError> {
    value.as_number().ok_or_else(|| mismatch(name, "a number"))
}

fn count(name: &str, value: RawValue<'_>) -> Result<u64, QueryError> {
    let number = number(name, value)?;
    number.to_i64_exact().and_then(|count| u64::try_from(count).ok()).ok_or_else(|| {
        QueryError::failed_to_parse(format!("$jsonSchema keyword '{name}' must be a non-negative integer"))
    })
}

fn names(name: &str, value: RawValue<'_>) -> Result<Vec<String>, QueryError> {
    let array = value.as_array().ok_or_else(|| mismatch(name, "an array"))?;
    if array.is_empty() {
        bail!(failed_to_parse, "$jsonSchema keyword '{name}' cannot be an empty array");
    }
    let (mut names, mut known) = (Vec::new(), HashSet::new());
    for value in array.iter() {
        let field = value.as_str().ok_or_else(|| {
            QueryError::type_mismatch(format!("$jsonSchema keyword '{name}' must be an array of strings"))
        })?;
        if !known.insert(field) {
            bail!(failed_to_parse, "$jsonSchema keyword '{name}' array cannot contain duplicate values");
        }
        names.push(field.to_owned());
    }
    Ok(names)
}

fn schemas(name: &str, value: RawValue<'_>) -> Result<Vec<Schema>, QueryError> {
    let array = value.as_array().ok_or_else(|| mismatch(name, "an array"))?;
    if array.is_empty() {
        bail!(bad_value, "$jsonSchema keyword '{name}' must be a non-empty array");
    }
    array
        .iter()
        .map(|value| {
            let source = value
                .as_document()
                .ok_or_else(|| mismatch(name, "an array of objects, but found an element of another type"));
            schema(source?)
        })
        .collect()
}

/// Adds every alias of a string or an array of strings to a set.
fn types(
    name: &str,
    value: RawValue<'_>,
    mut add: impl FnMut(&str) -> Result<(), QueryError>,
) -> Result<(), QueryError> {
    match value {
        RawValue::String(alias) => add(alias),
        RawValue::Array(array) if array.is_empty() => Err(QueryError::failed_to_parse(format!(
            "$jsonSchema keyword '{name}' must name at least one type"
        ))),
        RawValue::Array(array) => array.iter().try_for_each(|value| add(string(name, value)?)),
        _ => Err(mismatch(name, "either a string or an array of strings")),
    }
}

fn bson_type(
    name: &'static str,
    value: RawValue<'_>,
    _: RawDocument<'_>,
) -> Result<Option<Rule>, QueryError> {
    let mut set = TypeSet::default();
    types(name, value, |alias| set.add(RawValue::String(alias)))?;
    Ok(Some(Rule::Type(set)))
}

fn json_type(
    name: &'static str,
    value: RawValue<'_>,
    _: RawDocument<'_>,
) -> Result<Option<Rule>, QueryError> {
    let mut set = TypeSet::default();
    types(name, value, |alias| match alias {
        "boolean" => set.add(RawValue::String("bool")),
        "object" | "array" | "number" | "string" | "null" => set.add(RawValue::String(alias)),
        "integer" => {
            Err(QueryError::failed_to_parse("$jsonSchema type 'integer' is not currently supported."))
        }
        _ => Err(QueryError::bad_value(format!("Unknown type name alias: {alias}"))),
    })?;
    Ok(Some(Rule::Type(set)))
}

fn enumeration(name: &str, value: RawValue<'_>) -> Result<Rule, QueryError> {
    let values = value.as_array().ok_or_else(|| mismatch(name, "an array"))?.to_values();
    if values.is_empty() {
        bail!(failed_to_parse, "$jsonSchema keyword 'enum' cannot be an empty array");
    }
    let mut sorted: Vec<&document::Value> = values.iter().collect();
    sorted.sort_by(|one, other| one.compare(other));
    if sorted.windows(2).any(|pair| matches!(pair, [one, other] if one.compare(other).is_eq())) {
        bail!(failed_to_parse, "$jsonSchema keyword 'enum' array cannot contain duplicate values");
    }
    Ok(Rule::Enum(values))
}

/// `minimum` and `maximum`, which their `exclusive…` companion makes strict.
fn bound(
    name: &'static str,
    value: RawValue<'_>,
    around: RawDocument<'_>,
    companion: &str,
) -> Result<Option<Rule>, QueryError> {
    let limit = number(name, value)?;
    let exclusive = around.get(companion).and_then(RawValue::as_bool).unwrap_or(false);
    Ok(Some(if name == "minimum" {
        Rule::Minimum { limit, exclusive }
    } else {
        Rule::Maximum { limit, exclusive }
    }))
}

fn exclusive(
    name: &'static str,
    value: RawValue<'_>,
    around: RawDocument<'_>,
    companion: &str,
) -> Result<Option<Rule>, QueryError> {
    boolean(name, value)?;
    if !around.contains(companion) {
        bail!(failed_to_parse, "$jsonSchema keyword '{companion}' must be a present if {name} is present");
    }
    Ok(None)
}

fn multiple(name: &str, value: RawValue<'_>) -> Result<Rule, QueryError> {
    let number = number(name, value)?;
    if number.is_zero() || number.is_negative() || !number.is_finite() {
        bail!(failed_to_parse, "$jsonSchema keyword '{name}' must have a positive value");
    }
    Ok(Rule::MultipleOf(number))
}

fn items(name: &'static str, value: RawValue<'_>, _: RawDocument<'_>) -> Result<Option<Rule>, QueryError> {
    match value {
        RawValue::Document(source) => {
            Ok(Some(Rule::ItemsFrom(0, Extra::Conforming(Box::new(schema(source)?)))))
        }
        RawValue::Array(array) if array.is_empty() => Ok(Some(Rule::ItemsAt(Vec::new()))),
        RawValue::Array(_) => Ok(Some(Rule::ItemsAt(schemas(name, value)?))),
        _ => Err(mismatch(name, "an array or an object")),
    }
}

fn extra(name: &str, value: RawValue<'_>) -> Result<Option<Extra>, QueryError> {
    match value {
        RawValue::Boolean(true) => Ok(None),
        RawValue::Boolean(false) => Ok(Some(Extra::Forbidden)),
        RawValue::Document(source) => Ok(Some(Extra::Conforming(Box::new(schema(source)?)))),
        _ => Err(mismatch(name, "an object or a boolean")),
    }
}

fn additional_items(
    name: &'static str,
    value: RawValue<'_>,
    around: RawDocument<'_>,
) -> Result<Option<Rule>, QueryError> {
    let extra = extra(name, value)?;
    // It speaks only of what follows positional schemas.
    let Some(RawValue::Array(positional)) = around.get("items") else {
        return Ok(None);
    };
    Ok(extra.map(|extra| Rule::ItemsFrom(positional.len(), extra)))
}

fn properties(
    name: &'static str,
    value: RawValue<'_>,
    _: RawDocument<'_>,
) -> Result<Option<Rule>, QueryError> {
    let mut fields = Vec::new();
    for element in object(name, value)? {
        let source = element.value().as_document().ok_or_else(|| {
            QueryError::type_mismatch(format!(
                "Nested schema for $jsonSchema property '{}' must be an object",
                element.name()
            ))
        })?;
        fields.push((element.name().to_owned(), schema(source)?));
    }
    Ok(Some(Rule::Properties(fields)))
}

fn pattern_properties(
    name: &'static str,
    value: RawValue<'_>,
    _: RawDocument<'_>,
) -> Result<Option<Rule>, QueryError> {
    let mut patterns = Vec::new();
    for element in object(name, value)? {
        let source = object(name, element.value())?;
        patterns.push((Pattern::compile(element.name(), "")?, schema(source)?));
    }
    Ok(Some(Rule::PatternProperties(patterns)))
}

fn additional_properties(
    name: &'static str,
    value: RawValue<'_>,
    around: RawDocument<'_>,
) -> Result<Option<Rule>, QueryError> {
    let Some(extra) = extra(name, value)? else {
        return Ok(None);
    };
    let fields = |keyword: &str| around.get(keyword).and_then(RawValue::as_document).unwrap_or_default();
    let names = fields("properties").iter().map(|element| element.name().to_owned()).collect();
    let patterns = fields("patternProperties").iter().map(|element| Pattern::compile(element.name(), ""));
    Ok(Some(Rule::AdditionalProperties { names, patterns: patterns.collect::<Result<_, _>>()?, extra }))
}

fn dependencies(
    name: &'static str,
    value: RawValue<'_>,
    _: RawDocument<'_>,
) -> Result<Option<Rule>, QueryError> {
    let mut found = Vec::new();
    for element in object(name, value)? {
        let dependency = match element.kind() {
            ElementType::Array => Dependency::Fields(names(name, element.value())?),
            _ => Dependency::Conforming(schema(object(name, element.value())?)?),
        };
        found.push((element.name().to_owned(), dependency));
    }
    Ok(Some(Rule::Dependencies(found)))
}
