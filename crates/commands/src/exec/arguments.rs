//! Arguments that several reading and writing commands share: `let`, `collation`, `hint`.

use crate::error::{CommandError, CommandResult, code};
use crate::server::ServiceContext;
use document::{RawDocument, RawValue};
use query::Environment;
use query::expression::{Expression, ParseScope, Variables, check_variable_name};
use query::plan::{Hint, ScanDirection};
use query::sort::SortPattern;
use std::sync::Arc;

/// The clock and the evaluated `let` variables of a command.
///
/// # Errors
/// Names that variables cannot have; expressions that are malformed or fail.
pub(crate) fn environment(
    server: &ServiceContext,
    variables: Option<RawDocument<'_>>,
) -> CommandResult<Environment> {
    let mut environment = Environment::at(server.now_ms());
    for element in variables.unwrap_or_default() {
        check_variable_name(element.name())?;
        let expression = Expression::parse(element.value(), &ParseScope::new(&environment))?;
        let value = expression.evaluate(RawDocument::EMPTY, &mut Variables::new())?;
        if let Some(value) = value {
            environment.bind(element.name().to_owned(), value);
        }
    }
    Ok(environment)
}

/// Refuses every collation but the simple one: strings compare by their bytes here.
///
/// # Errors
/// `CommandNotSupported`; `FailedToParse` without a locale.
pub(crate) fn check_collation(collation: Option<RawDocument<'_>>) -> CommandResult {
    let Some(collation) = collation.filter(|collation| !collation.is_empty()) else { return Ok(()) };
    match collation.get("locale") {
        Some(RawValue::String("simple")) => Ok(()),
        Some(RawValue::String(locale)) => Err(CommandError::new(
            code::COMMAND_NOT_SUPPORTED,
            format!("collation with locale '{locale}' is not supported: only {{locale: \"simple\"}} is"),
        )),
        Some(other) => Err(crate::fields::wrong_type("collation", "locale", other.kind(), &["string"])),
        None => Err(CommandError::new(
            code::IDL_MISSING_FIELD,
            "BSON field 'collation.locale' is missing but a required field",
        )),
    }
}

/// Reads a `hint` field.
///
/// # Errors
/// `FailedToParse` for what is no hint.
pub(crate) fn parse_hint(hint: Option<RawValue<'_>>) -> CommandResult<Option<Hint>> {
    match hint {
        None | Some(RawValue::Null | RawValue::Undefined) => Ok(None),
        Some(value) => Ok(Hint::parse(value)?),
    }
}

/// Reads a `sort` field. `{$natural: ±1}` is a hint in the clothes of a sort.
///
/// # Errors
/// What the sort's parser refuses; `BadValue` for `$natural` beside other fields.
pub(crate) fn parse_sort(sort: RawDocument<'_>) -> CommandResult<(Arc<SortPattern>, Option<Hint>)> {
    let Some(natural) = sort.get("$natural") else {
        return Ok((Arc::new(SortPattern::parse(sort)?), None));
    };
    if sort.iter().nth(1).is_some() {
        return Err(CommandError::bad_value("$natural sort cannot be set to a value other than -1 or 1."));
    }
    let direction = match natural.as_i64_exact() {
        Some(1) => ScanDirection::Forward,
        Some(-1) => ScanDirection::Backward,
        _ => {
            return Err(CommandError::bad_value(
                "$natural sort cannot be set to a value other than -1 or 1.",
            ));
        }
    };
    Ok((Arc::default(), Some(Hint::Natural(direction))))
}
