//! Updates given as an aggregation pipeline, of the stages that make one document of one.

use document::{DocumentBuf, Element, RawArray, RawDocument, RawValue, Value};

use crate::aggregate::rewrite::to_bounded;
use crate::environment::Environment;
use crate::error::{QueryError, code};
use crate::expression::{Expression, ParseScope, Variables};
use crate::projection::Projection;

/// The stages in their order.
#[derive(Debug)]
pub(super) struct UpdatePipeline {
    stages: Vec<UpdateStage>,
}

#[derive(Debug)]
enum UpdateStage {
    /// `$addFields`, `$set`, `$unset` and `$project`.
    Project(Projection),
    /// `$replaceRoot` and `$replaceWith`.
    Replace(Expression),
}

impl UpdatePipeline {
    pub(super) fn parse(stages: RawArray<'_>, environment: &Environment) -> Result<Self, QueryError> {
        let stages = stages.iter().map(|stage| UpdateStage::parse(document_of(stage)?, environment));
        Ok(UpdatePipeline { stages: stages.collect::<Result<_, _>>()? })
    }

    /// What the stages make of the document.
    pub(super) fn apply(&self, document: RawDocument<'_>) -> Result<DocumentBuf, QueryError> {
        let mut variables = Variables::new();
        let mut current = document.to_buf();
        for stage in &self.stages {
            current = stage.apply(current.as_raw(), &mut variables)?;
        }
        Ok(current)
    }
}

/// Refuses what is no list of stages, and names of stages that do not exist, whatever the stages say.
pub(super) fn check_names(stages: RawArray<'_>) -> Result<(), QueryError> {
    for stage in stages.iter() {
        let name = only_field(document_of(stage)?)?.name();
        if !STAGES.contains(&name) && !OTHER_STAGES.contains(&name) {
            return Err(unrecognized(name));
        }
    }
    Ok(())
}

fn document_of(stage: RawValue<'_>) -> Result<RawDocument<'_>, QueryError> {
    stage
        .as_document()
        .ok_or_else(|| QueryError::type_mismatch("Each element of the 'pipeline' array must be an object"))
}

fn only_field(stage: RawDocument<'_>) -> Result<Element<'_>, QueryError> {
    let mut fields = stage.iter();
    match (fields.next(), fields.next()) {
        (Some(field), None) => Ok(field),
        _ => Err(QueryError::new(
            40323,
            "A pipeline stage specification object must contain exactly one field.",
        )),
    }
}

fn unrecognized(name: &str) -> QueryError {
    QueryError::new(40324, format!("Unrecognized pipeline stage name: '{name}'"))
}

impl UpdateStage {
    fn parse(stage: RawDocument<'_>, environment: &Environment) -> Result<Self, QueryError> {
        let operator = only_field(stage)?;
        let (name, operand) = (operator.name(), operator.value());
        let scope = ParseScope::new(environment);
        let within = |error: QueryError| error.within(format!("Invalid {name}"));
        match name {
            "$set" | "$addFields" => {
                let spec = object(40272, name, operand)?;
                Ok(UpdateStage::Project(Projection::parse_addition(spec, environment).map_err(within)?))
            }
            "$project" => {
                let spec = object(15969, name, operand)?;
                Ok(UpdateStage::Project(Projection::parse_stage(spec, environment).map_err(within)?))
            }
            "$unset" => {
                Ok(UpdateStage::Project(Projection::excluding(unset_paths(operand)?).map_err(within)?))
            }
            "$replaceWith" => Ok(UpdateStage::Replace(Expression::parse(operand, &scope)?)),
            "$replaceRoot" => {
                let spec = object(40229, name, operand)?;
                let root = spec.get("newRoot").ok_or_else(|| {
                    QueryError::new(40231, "no newRoot specified for the $replaceRoot stage")
                })?;
                Ok(UpdateStage::Replace(Expression::parse(root, &scope)?))
            }
            _ if OTHER_STAGES.contains(&name) => Err(QueryError::new(
                code::INVALID_OPTIONS,
                format!("{name} is not allowed to be used within an update"),
            )),
            _ => Err(unrecognized(name)),
        }
    }

    fn apply(&self, document: RawDocument<'_>, variables: &mut Variables) -> Result<DocumentBuf, QueryError> {
        match self {
            UpdateStage::Project(projection) => projection.project(document, None, variables),
            UpdateStage::Replace(expression) => match expression.evaluate(document, variables)? {
                Some(Value::Document(replaced)) => to_bounded(&replaced),
                other => Err(QueryError::new(
                    40228,
                    format!(
                        "'newRoot' expression must evaluate to an object, but resulting value was of type: {}",
                        other.map_or("missing", |value| value.kind().alias())
                    ),
                )),
            },
        }
    }
}

fn object<'a>(code: i32, name: &str, operand: RawValue<'a>) -> Result<RawDocument<'a>, QueryError> {
    operand.as_document().ok_or_else(|| {
        QueryError::new(
            code,
            format!("{name} specification stage must be an object, got {}", operand.kind().alias()),
        )
    })
}

fn unset_paths(operand: RawValue<'_>) -> Result<Vec<&str>, QueryError> {
    let refusal = || QueryError::new(31002, "$unset specification must be a string or an array");
    match operand {
        RawValue::String(path) => Ok(vec![path]),
        RawValue::Array(paths) if !paths.is_empty() => paths
            .iter()
            .map(|path| {
                path.as_str().ok_or_else(|| {
                    QueryError::new(
                        31120,
                        "$unset specification must be a string or an array containing only string values",
                    )
                })
            })
            .collect(),
        _ => Err(refusal()),
    }
}

/// Stages that make one document of one.
const STAGES: &[&str] = &["$set", "$addFields", "$unset", "$project", "$replaceRoot", "$replaceWith"];

/// Stages that exist but do not make one document of one.
const OTHER_STAGES: &[&str] = &[
    "$bucket",
    "$bucketAuto",
    "$changeStream",
    "$collStats",
    "$count",
    "$currentOp",
    "$densify",
    "$documents",
    "$facet",
    "$fill",
    "$geoNear",
    "$graphLookup",
    "$group",
    "$indexStats",
    "$limit",
    "$listSessions",
    "$lookup",
    "$match",
    "$merge",
    "$out",
    "$redact",
    "$sample",
    "$setWindowFields",
    "$skip",
    "$sort",
    "$sortByCount",
    "$unionWith",
    "$unwind",
];
