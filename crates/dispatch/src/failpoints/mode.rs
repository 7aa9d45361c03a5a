//! When a fail point strikes: `mode` of `configureFailPoint`.

use crate::error::{CommandError, CommandResult};
use document::{RawDocument, RawValue};

/// When a fail point strikes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) enum Mode {
    /// Never.
    #[default]
    Off,
    /// Whenever it is reached.
    AlwaysOn,
    /// So many times more; at least once.
    Times(i32),
    /// Not so many times, and then always.
    Skip(i32),
    /// With this probability.
    Probability(f64),
}

impl Mode {
    /// Reads `"off"`, `"alwaysOn"`, `{times}`, `{skip}` or `{activationProbability}`.
    ///
    /// # Errors
    /// `BadValue` and `TypeMismatch` for everything else.
    pub(crate) fn parse(mode: RawValue<'_>) -> CommandResult<Self> {
        match mode {
            RawValue::String("off") => Ok(Mode::Off),
            RawValue::String("alwaysOn") => Ok(Mode::AlwaysOn),
            RawValue::String(other) => Err(CommandError::bad_value(format!("unknown mode: {other}"))),
            RawValue::Document(document) => Self::parse_document(document),
            _ => Err(CommandError::type_mismatch("'mode' must be a string or JSON object")),
        }
    }

    fn parse_document(mode: RawDocument<'_>) -> CommandResult<Self> {
        if let Some(times) = mode.get("times") {
            return Ok(Mode::Times(count("times", times)?));
        }
        if let Some(skip) = mode.get("skip") {
            return Ok(Mode::Skip(count("skip", skip)?));
        }
        match mode.get("activationProbability") {
            Some(probability) => Ok(Mode::Probability(fraction(probability)?)),
            None => Err(CommandError::bad_value(
                "'mode' must be one of 'off', 'alwaysOn', '{times:n}', '{skip:n}' or \
                '{activationProbability:p}'",
            )),
        }
    }

    /// As `getParameter` shows it.
    pub(super) const fn number(self) -> i32 {
        match self {
            Mode::Off => 0,
            Mode::AlwaysOn => 1,
            Mode::Probability(_) => 2,
            Mode::Times(_) => 3,
            Mode::Skip(_) => 4,
        }
    }

    /// The fail point is reached: whether it strikes. One that has struck for the last time is off.
    pub(super) fn strikes(&mut self) -> bool {
        match self {
            Mode::Off => false,
            Mode::AlwaysOn => true,
            Mode::Times(left) => {
                *left -= 1;
                if *left <= 0 {
                    *self = Mode::Off;
                }
                true
            }
            Mode::Skip(0) => true,
            Mode::Skip(left) => {
                *left -= 1;
                false
            }
            Mode::Probability(probability) => random_fraction() < *probability,
        }
    }
}

fn count(name: &str, value: RawValue<'_>) -> CommandResult<i32> {
    if !value.is_number() {
        let found = value.kind().alias();
        return Err(CommandError::type_mismatch(format!(
            "\"{name}\" had the wrong type. Expected a number, found {found}"
        )));
    }
    let whole = value.as_i64_exact().ok_or_else(|| {
        CommandError::bad_value(format!(
            "Expected field \"{name}\" to have a value exactly representable as a 64-bit integer"
        ))
    })?;
    if whole < 0 {
        return Err(CommandError::bad_value(format!("'{name}' option to 'mode' must be positive")));
    }
    i32::try_from(whole)
        .map_err(|_| CommandError::bad_value(format!("'{name}' option to 'mode' is too large")))
}

fn fraction(value: RawValue<'_>) -> CommandResult<f64> {
    let number = match value {
        RawValue::Double(number) => Some(number),
        RawValue::Decimal128(number) => Some(number.to_f64()),
        other => other.as_i64_exact().map(|number| number as f64),
    };
    let Some(number) = number else {
        return Err(CommandError::type_mismatch(
            "the 'activationProbability' option to 'mode' must be a double between 0 and 1",
        ));
    };
    if (0.0..=1.0).contains(&number) {
        return Ok(number);
    }
    let message = format!("activationProbability must be between 0.0 and 1.0; found {number}");
    Err(CommandError::bad_value(message))
}

/// A number of [0, 1).
fn random_fraction() -> f64 {
    f64::from(u32::from_le_bytes(ambient::random_bytes())) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::{Value, doc};

    #[track_caller]
    fn check(mode: Value, expect: Result<Mode, i32>) {
        assert_eq!(mode.with_raw(Mode::parse).map_err(|error| error.code), expect);
    }

    #[test]
    fn forms() {
        check("off".into(), Ok(Mode::Off));
        check(doc! { "times": 3_i64 }.into(), Ok(Mode::Times(3)));
        check(doc! { "skip": 2.0 }.into(), Ok(Mode::Skip(2)));
        check(doc! { "activationProbability": 1 }.into(), Ok(Mode::Probability(1.0)));
        check("sometimes".into(), Err(2));
        check(1.into(), Err(14));
        check(doc! {}.into(), Err(2));
        check(doc! { "times": "3" }.into(), Err(14));
        check(doc! { "times": (-1) }.into(), Err(2));
        check(doc! { "skip": (1_i64 << 40) }.into(), Err(2));
        check(doc! { "skip": 1.5 }.into(), Err(2));
        check(doc! { "activationProbability": 1.5 }.into(), Err(2));
        check(doc! { "activationProbability": "1" }.into(), Err(14));
    }
}
