//! The passwords of new and changed users.

use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use crate::parameters::Parameter;
use access::{Mechanism, ScramCredentials, password_digest, prepare_password};
use document::{Document, RawValue};

/// What a command says of a password.
#[derive(Debug, Default)]
pub(super) struct Password {
    /// The password, or its digest.
    text: Option<String>,
    /// The client has digested it.
    is_digested: bool,
    /// By what it is to be checked; `None` for all that can be.
    mechanisms: Option<Vec<Mechanism>>,
}

impl Password {
    /// Takes `pwd`, `digestPassword` and `mechanisms`.
    ///
    /// # Errors
    /// Values that cannot be.
    pub(super) fn take(context: &mut CommandContext<'_>) -> CommandResult<Self> {
        let fields = &mut context.fields;
        let text = fields.string("pwd")?.map(str::to_owned);
        let is_digested = !fields.flexible_boolean("digestPassword")?.unwrap_or(true);
        let mechanisms = match fields.array("mechanisms")? {
            Some(list) if list.is_empty() => {
                return Err(CommandError::bad_value("mechanisms field must not be empty"));
            }
            Some(list) => Some(list.iter().map(mechanism).collect::<CommandResult<Vec<_>>>()?),
            None => None,
        };
        if text.as_ref().is_some_and(String::is_empty) {
            return Err(CommandError::bad_value("Password cannot be empty"));
        }
        let wants_sha_256 = mechanisms.as_ref().is_some_and(|list| list.contains(&Mechanism::ScramSha256));
        if is_digested && wants_sha_256 {
            return Err(CommandError::bad_value("Use of SCRAM-SHA-256 requires undigested passwords"));
        }
        Ok(Password { text, is_digested, mechanisms })
    }

    /// Whether there is one.
    pub(super) const fn is_given(&self) -> bool {
        self.text.is_some()
    }

    /// By what it is to be checked, if that was said.
    pub(super) fn mechanisms(&self) -> Option<&[Mechanism]> {
        self.mechanisms.as_deref()
    }

    /// What is stored of the password. Takes some ten milliseconds: not on an event loop.
    ///
    /// # Errors
    /// Characters that no password may have.
    pub(super) fn credentials(&self, context: &CommandContext<'_>, user: &str) -> CommandResult<Document> {
        let mut stored = Document::new();
        let Some(text) = &self.text else { return Ok(stored) };
        let chosen = match &self.mechanisms {
            Some(chosen) => chosen.as_slice(),
            None if self.is_digested => &[Mechanism::ScramSha1],
            None => &Mechanism::ALL,
        };
        for mechanism in Mechanism::ALL.into_iter().filter(|mechanism| chosen.contains(mechanism)) {
            let (password, parameter) = match mechanism {
                Mechanism::ScramSha1 if self.is_digested => (text.clone(), Parameter::ScramIterations),
                Mechanism::ScramSha1 => (password_digest(user, text), Parameter::ScramIterations),
                Mechanism::ScramSha256 => {
                    let prepared = prepare_password(text).map_err(crate::access::refused)?;
                    (prepared, Parameter::ScramSha256Iterations)
                }
            };
            let iterations = context.server.parameters.integer(parameter);
            let iterations = u32::try_from(iterations).expect("the table bounds iterations");
            let random = ambient::random_bytes::<32>();
            let salt = random.get(..mechanism.salt_length()).expect("salts are shorter");
            let credentials = ScramCredentials::new(mechanism, &password, salt, iterations);
            stored.push(mechanism.name(), credentials.to_document());
        }
        Ok(stored)
    }
}

fn mechanism(value: RawValue<'_>) -> CommandResult<Mechanism> {
    let name = value.as_str().unwrap_or_default();
    Mechanism::by_name(name)
        .ok_or_else(|| CommandError::bad_value(format!("Unknown auth mechanism '{name}'")))
}
