//! `$redact`.

use std::sync::Arc;

use document::{DocumentBuf, DocumentBuilder, RawArray, RawDocument, RawValue, Value};

use crate::environment::Environment;
use crate::error::QueryError;
use crate::expression::{Expression, ParseScope, Variables};

use super::StagePlan;
use super::chain::{Downstream, Flow, Stage};

pub(super) fn parse(operand: RawValue<'_>, environment: &Environment) -> Result<Vec<StagePlan>, QueryError> {
    let expression = Expression::parse(operand, &ParseScope::new(environment))?;
    Ok(vec![StagePlan::Redact(Arc::new(expression))])
}

pub(super) struct RedactStage {
    pub(super) expression: Arc<Expression>,
    pub(super) variables: Variables,
}

/// What the expression answers for one level of a document.
enum RedactAction {
    Keep,
    Prune,
    Descend,
}

impl RedactStage {
    fn verdict(&mut self, level: RawDocument<'_>) -> Result<RedactAction, QueryError> {
        // `$$KEEP` and its kin evaluate to their names in lower case.
        match self.expression.evaluate(level, &mut self.variables)? {
            Some(Value::String(name)) if name == "keep" => Ok(RedactAction::Keep),
            Some(Value::String(name)) if name == "prune" => Ok(RedactAction::Prune),
            Some(Value::String(name)) if name == "descend" => Ok(RedactAction::Descend),
            _ => Err(QueryError::new(
                17053,
                "$redact's expression should not return anything aside from the variables $$KEEP, \
                $$DESCEND, and $$PRUNE",
            )),
        }
    }

    /// The level as it may be seen; `None` when it may not.
    fn redact(&mut self, level: RawDocument<'_>) -> Result<Option<DocumentBuf>, QueryError> {
        match self.verdict(level)? {
            RedactAction::Keep => Ok(Some(level.to_buf())),
            RedactAction::Prune => Ok(None),
            RedactAction::Descend => {
                let mut bytes = Vec::with_capacity(level.as_bytes().len());
                let mut out = DocumentBuilder::new(&mut bytes);
                for element in level.iter() {
                    match element.value() {
                        RawValue::Document(inner) => {
                            if let Some(seen) = self.redact(inner)? {
                                out.append(element.name(), seen.as_raw());
                            }
                        }
                        RawValue::Array(inner) => {
                            out.append_value(element.name(), &Value::Array(self.redact_array(inner)?.into()));
                        }
                        _ => {
                            out.append_element(element);
                        }
                    }
                }
                out.finish();
                Ok(Some(DocumentBuf::trusted(bytes)))
            }
        }
    }

    fn redact_array(&mut self, array: RawArray<'_>) -> Result<Vec<Value>, QueryError> {
        let mut seen = Vec::new();
        for item in array.iter() {
            match item {
                RawValue::Document(inner) => {
                    seen.extend(self.redact(inner)?.map(|inner| Value::from(&inner)))
                }
                RawValue::Array(inner) => seen.push(Value::Array(self.redact_array(inner)?.into())),
                other => seen.push(other.to_value()),
            }
        }
        Ok(seen)
    }
}

impl Stage for RedactStage {
    fn take(&mut self, document: RawDocument<'_>, out: &mut Downstream<'_>) -> Result<Flow, QueryError> {
        match self.redact(document)? {
            Some(seen) => out.give(seen.as_raw()),
            None => Ok(Flow::More),
        }
    }
}
