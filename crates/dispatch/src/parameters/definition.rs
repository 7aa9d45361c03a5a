//! What is said about one tunable, in one place.

use crate::error::code;
use document::{RawValue, Value};
use query::CodedError;
use std::fmt;

/// One tunable: flags, the YAML file, `getParameter`, `setParameter` and `docs/configuration.md` are made
/// from it.
#[derive(Debug)]
pub struct Definition {
    /// The name in `getParameter` and `setParameter`, or the path in the YAML file for pure start options.
    pub name: &'static str,
    /// What it does, in a sentence or two.
    pub meaning: &'static str,
    /// The unit of its value; empty for none.
    pub unit: &'static str,
    /// Type, range and default.
    pub kind: Kind,
    /// The command-line flag without dashes.
    pub flag: Option<&'static str>,
    /// The path in the YAML file, e.g. `net.port`. Those without one are under `setParameter`.
    pub yaml: Option<&'static str>,
    /// Whether it can be read by `getParameter`.
    pub is_server_parameter: bool,
    /// Whether `setParameter` changes it while the server runs.
    pub changes_at_runtime: bool,
}

/// Type, range and default of a tunable.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// On or off.
    Boolean {
        /// Without being told.
        default: bool,
    },
    /// A whole number within bounds.
    Integer {
        /// Without being told.
        default: i64,
        /// The smallest allowed.
        min: i64,
        /// The largest allowed.
        max: i64,
    },
    /// Any text.
    Text {
        /// Without being told.
        default: &'static str,
    },
    /// One of several words.
    Choice {
        /// Without being told.
        default: &'static str,
        /// The words.
        allowed: &'static [&'static str],
    },
    /// Text of a form of its own.
    Form {
        /// Without being told.
        default: &'static str,
        /// The form in a few words.
        form: &'static str,
        /// Says what is wrong with a text.
        check: fn(&str) -> Result<(), String>,
    },
}

/// The value of a tunable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// Of a [`Kind::Boolean`].
    Boolean(bool),
    /// Of a [`Kind::Integer`].
    Integer(i64),
    /// Of a [`Kind::Text`], [`Kind::Choice`] or [`Kind::Form`].
    Text(String),
}

/// A value that a tunable does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// Of another type.
    #[error("invalid value for parameter {name}: expected {expected}, found {found}")]
    WrongType {
        /// The tunable.
        name: &'static str,
        /// Its type.
        expected: &'static str,
        /// What came.
        found: String,
    },
    /// Outside the bounds.
    #[error("invalid value for parameter {name}: {found} is not {relation} {bound}")]
    OutOfRange {
        /// The tunable.
        name: &'static str,
        /// What came.
        found: i64,
        /// How the bound relates.
        relation: &'static str,
        /// The bound.
        bound: i64,
    },
    /// None of the allowed words.
    #[error("invalid value for parameter {name}: '{found}' is none of: {allowed}")]
    NotAllowed {
        /// The tunable.
        name: &'static str,
        /// What came.
        found: String,
        /// The words.
        allowed: String,
    },
    /// It cannot change while the server runs.
    #[error("not allowed to change [{name}] at runtime")]
    OnlyAtStartup {
        /// The tunable.
        name: &'static str,
    },
    /// Whoever watches the tunable refused the value.
    #[error("invalid value for parameter {name}: {reason}")]
    Refused {
        /// The tunable.
        name: &'static str,
        /// The reason.
        reason: String,
    },
}

impl CodedError for SettingError {
    fn code(&self) -> i32 {
        match self {
            SettingError::WrongType { .. } => code::TYPE_MISMATCH,
            SettingError::OnlyAtStartup { .. } => code::ILLEGAL_OPERATION,
            SettingError::OutOfRange { .. }
            | SettingError::NotAllowed { .. }
            | SettingError::Refused { .. } => code::BAD_VALUE,
        }
    }
}

impl Definition {
    /// The value without being told.
    pub fn default_setting(&self) -> Setting {
        match self.kind {
            Kind::Boolean { default } => Setting::Boolean(default),
            Kind::Integer { default, .. } => Setting::Integer(default),
            Kind::Text { default } | Kind::Choice { default, .. } | Kind::Form { default, .. } => {
                Setting::Text(default.to_owned())
            }
        }
    }

    /// The type as messages call it.
    pub const fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Boolean { .. } => "true or false",
            Kind::Integer { .. } => "a whole number",
            Kind::Text { .. } | Kind::Choice { .. } | Kind::Form { .. } => "text",
        }
    }

    /// Reads a value from text: flags, YAML scalars.
    ///
    /// # Errors
    /// Text of the wrong form, values out of range.
    pub fn parse(&self, text: &str) -> Result<Setting, SettingError> {
        let wrong = || self.wrong_type(format!("'{text}'"));
        let setting = match self.kind {
            Kind::Boolean { .. } => match text {
                "true" | "1" | "yes" | "on" => Setting::Boolean(true),
                "false" | "0" | "no" | "off" => Setting::Boolean(false),
                _ => return Err(wrong()),
            },
            Kind::Integer { .. } => Setting::Integer(text.trim().parse().map_err(|_| wrong())?),
            Kind::Text { .. } | Kind::Choice { .. } | Kind::Form { .. } => Setting::Text(text.to_owned()),
        };
        self.validate(setting)
    }

    /// Reads a value from BSON: `setParameter`.
    ///
    /// # Errors
    /// Values of another type, values out of range.
    pub fn convert(&self, value: RawValue<'_>) -> Result<Setting, SettingError> {
        let wrong = || self.wrong_type(value.kind().alias().to_owned());
        let setting = match (self.kind, value) {
            (Kind::Boolean { .. }, RawValue::Boolean(flag)) => Setting::Boolean(flag),
            (Kind::Boolean { .. }, number) if number.is_number() => {
                Setting::Boolean(crate::fields::integer(number).is_some_and(|number| number != 0))
            }
            (Kind::Integer { .. }, number) => {
                Setting::Integer(crate::fields::integer(number).ok_or_else(wrong)?)
            }
            (Kind::Text { .. } | Kind::Choice { .. } | Kind::Form { .. }, RawValue::String(text)) => {
                Setting::Text(text.to_owned())
            }
            _ => return Err(wrong()),
        };
        self.validate(setting)
    }

    fn wrong_type(&self, found: String) -> SettingError {
        SettingError::WrongType { name: self.name, expected: self.type_name(), found }
    }

    /// Checks bounds and words.
    ///
    /// # Errors
    /// Values out of range.
    pub fn validate(&self, setting: Setting) -> Result<Setting, SettingError> {
        let name = self.name;
        match (self.kind, &setting) {
            (Kind::Integer { min, .. }, Setting::Integer(found)) if *found < min => {
                Err(SettingError::OutOfRange {
                    name,
                    found: *found,
                    relation: "greater than or equal to",
                    bound: min,
                })
            }
            (Kind::Integer { max, .. }, Setting::Integer(found)) if *found > max => {
                Err(SettingError::OutOfRange {
                    name,
                    found: *found,
                    relation: "less than or equal to",
                    bound: max,
                })
            }
            (Kind::Choice { allowed, .. }, Setting::Text(found)) if !allowed.contains(&found.as_str()) => {
                Err(SettingError::NotAllowed { name, found: found.clone(), allowed: allowed.join(", ") })
            }
            (Kind::Form { check, .. }, Setting::Text(found)) => match check(found) {
                Ok(()) => Ok(setting),
                Err(reason) => Err(SettingError::Refused { name, reason }),
            },
            _ => Ok(setting),
        }
    }
}

impl From<&Setting> for Value {
    fn from(setting: &Setting) -> Self {
        match setting {
            Setting::Boolean(flag) => Value::Boolean(*flag),
            Setting::Integer(number) => i32::try_from(*number).map_or(Value::Int64(*number), Value::Int32),
            Setting::Text(text) => Value::String(text.clone()),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Boolean(flag) => flag.fmt(formatter),
            Setting::Integer(number) => number.fmt(formatter),
            Setting::Text(text) => text.fmt(formatter),
        }
    }
}
