//! What a pipeline may have with `apiStrict`.
//!
//! Source: MongoDB manual, "Stable API".

use crate::error::{CommandError, CommandResult, code};
use crate::generic::GenericArguments;
use document::{RawArray, RawDocument, RawValue};

/// Stages that no API version has.
const OUTSIDE: [&str; 5] =
    ["$currentOp", "$indexStats", "$listLocalSessions", "$listSessions", "$planCacheStats"];

/// Refuses stages that are outside of the API version, also in pipelines within stages.
///
/// # Errors
/// `APIStrictError`.
pub(crate) fn check_strictly(pipeline: RawArray<'_>, generic: &GenericArguments<'_>) -> CommandResult {
    match generic.api_version.filter(|_| generic.api_strict) {
        Some(version) => check_stages(pipeline, version.name()),
        None => Ok(()),
    }
}

fn check_stages(pipeline: RawArray<'_>, version: &str) -> CommandResult {
    for stage in pipeline.iter().filter_map(|stage| stage.as_document()?.first()) {
        let operand = stage.value();
        match stage.name() {
            name if OUTSIDE.contains(&name) => {
                let message =
                    format!("{name} is not allowed with 'apiStrict: true' in API Version {version}");
                return Err(CommandError::new(code::API_STRICT_ERROR, message));
            }
            "$collStats" if !counts_only(operand) => {
                let message =
                    format!("only the 'count' option to $collStats is supported in API Version {version}");
                return Err(CommandError::new(code::API_STRICT_ERROR, message));
            }
            "$lookup" | "$unionWith" => {
                if let Some(RawValue::Array(inner)) =
                    operand.as_document().and_then(|operand| operand.get("pipeline"))
                {
                    check_stages(inner, version)?;
                }
            }
            "$facet" => {
                let branches = operand.as_document().unwrap_or(RawDocument::EMPTY);
                for branch in branches.iter().filter_map(|branch| branch.value().as_array()) {
                    check_stages(branch, version)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn counts_only(operand: RawValue<'_>) -> bool {
    operand.as_document().is_none_or(|operand| operand.iter().all(|option| option.name() == "count"))
}
