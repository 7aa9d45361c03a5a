//! The operators that stand where a field name would stand.

use std::sync::Arc;

use document::RawValue;

use super::parse::{self, OperatorPlace};
use super::{ExpressionTest, MatchNode, SchemaTest};
use crate::error::{QueryError, code};
use crate::expression::{Expression, ParseScope};
use crate::schema::Schema;

/// One operator of the top level of a filter.
pub struct TopOperator {
    /// With its `$`.
    pub name: &'static str,
    /// One line for the manual.
    pub purpose: &'static str,
    /// Builds the node.
    pub(crate) parse: fn(&'static str, RawValue<'_>, OperatorPlace<'_>) -> Result<MatchNode, QueryError>,
}

/// Every operator of the top level, alphabetically.
pub fn top_operators() -> &'static [TopOperator] {
    TABLE
}

pub(crate) fn top_operator(name: &str) -> Option<&'static TopOperator> {
    TABLE.iter().find(|operator| operator.name == name)
}

const TABLE: &[TopOperator] = &[
    TopOperator { name: "$alwaysFalse", purpose: "no document matches", parse: always },
    TopOperator { name: "$alwaysTrue", purpose: "every document matches", parse: always },
    TopOperator { name: "$and", purpose: "all of the filters match", parse: and },
    TopOperator { name: "$comment", purpose: "a remark, ignored", parse: comment },
    TopOperator { name: "$expr", purpose: "an aggregation expression is true", parse: expression },
    TopOperator { name: "$jsonSchema", purpose: "the document conforms to a JSON schema", parse: schema },
    TopOperator { name: "$nor", purpose: "none of the filters matches", parse: nor },
    TopOperator { name: "$or", purpose: "one of the filters matches", parse: or },
    TopOperator { name: "$text", purpose: "text search; needs a text index, so it is refused", parse: text },
    TopOperator { name: "$where", purpose: "JavaScript; refused", parse: javascript },
];

fn and(name: &'static str, value: RawValue<'_>, place: OperatorPlace<'_>) -> Result<MatchNode, QueryError> {
    branches(name, value, place).map(MatchNode::all)
}

fn or(name: &'static str, value: RawValue<'_>, place: OperatorPlace<'_>) -> Result<MatchNode, QueryError> {
    let mut children = branches(name, value, place)?;
    Ok(if children.len() == 1 { children.swap_remove(0) } else { MatchNode::Or(children) })
}

fn nor(name: &'static str, value: RawValue<'_>, place: OperatorPlace<'_>) -> Result<MatchNode, QueryError> {
    branches(name, value, place).map(MatchNode::Nor)
}

fn branches(name: &str, value: RawValue<'_>, place: OperatorPlace<'_>) -> Result<Vec<MatchNode>, QueryError> {
    let RawValue::Array(array) = value else {
        bail!(bad_value, "{name} must be an array");
    };
    if array.is_empty() {
        bail!(bad_value, "$and/$or/$nor must be a nonempty array");
    }
    array
        .iter()
        .map(|branch| match branch {
            RawValue::Document(filter) => parse::document(filter, place),
            _ => Err(QueryError::bad_value("$or/$and/$nor entries need to be full objects")),
        })
        .collect()
}

fn always(name: &'static str, value: RawValue<'_>, _: OperatorPlace<'_>) -> Result<MatchNode, QueryError> {
    match value.as_i64_exact() {
        Some(1) => Ok(MatchNode::Always(name == "$alwaysTrue")),
        _ => Err(QueryError::failed_to_parse(format!("{name} must be an integer value of 1"))),
    }
}

fn comment(_: &'static str, _: RawValue<'_>, _: OperatorPlace<'_>) -> Result<MatchNode, QueryError> {
    Ok(MatchNode::Always(true))
}

fn expression(
    _: &'static str,
    value: RawValue<'_>,
    place: OperatorPlace<'_>,
) -> Result<MatchNode, QueryError> {
    outermost_only("$expr", place)?;
    let expression = Expression::parse(value, &ParseScope::of_filter(place.environment))?;
    Ok(MatchNode::Expression(Arc::new(ExpressionTest { expression, source: value.to_value() })))
}

fn schema(_: &'static str, value: RawValue<'_>, place: OperatorPlace<'_>) -> Result<MatchNode, QueryError> {
    let RawValue::Document(source) = value else {
        bail!(type_mismatch, "$jsonSchema must be an object");
    };
    let schema = Schema::parse(source, place.environment)?;
    Ok(MatchNode::Schema(Arc::new(SchemaTest { schema, source: source.to_document() })))
}

fn text(_: &'static str, _: RawValue<'_>, place: OperatorPlace<'_>) -> Result<MatchNode, QueryError> {
    outermost_only("$text", place)?;
    Err(QueryError::new(code::INDEX_NOT_FOUND, "text index required for $text query"))
}

fn javascript(_: &'static str, _: RawValue<'_>, _: OperatorPlace<'_>) -> Result<MatchNode, QueryError> {
    Err(QueryError::bad_value(
        "$where is not allowed in this context: this server runs no JavaScript; use $expr instead",
    ))
}

fn outermost_only(name: &str, place: OperatorPlace<'_>) -> Result<(), QueryError> {
    if place.nested {
        bail!(bad_value, "{name} can only be applied to the top-level document");
    }
    Ok(())
}
