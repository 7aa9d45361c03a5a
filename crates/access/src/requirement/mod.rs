//! What each command needs: one row per command.

mod pipeline;
mod table;
mod users;
mod writes;

use crate::action::Action;
use crate::resource::AccessTarget;
use crate::user::AccessUser;
use document::{RawDocument, RawValue};
use wire::DocumentSequence;

pub use table::{requirement_of, requirements};

/// A command that asks to be run.
#[derive(Debug, Clone, Copy)]
pub struct AccessRequest<'a> {
    /// `$db`.
    pub database: &'a str,
    /// The whole command.
    pub command: RawDocument<'a>,
    /// The document sequences of its message.
    pub sequences: &'a [DocumentSequence<'a>],
    /// Who asks.
    pub user: &'a AccessUser,
}

/// What a command needs of who asks for it.
#[derive(Debug, Clone, Copy)]
pub enum Requirement {
    /// Nothing, not even a login.
    Nothing,
    /// A login. What else it needs it asks itself.
    Login,
    /// These actions on the cluster.
    Cluster(&'static [Action]),
    /// An action on the database.
    Database(Action),
    /// An action on the collection that the command names.
    Collection(Action),
    /// To be a member of the deployment, or to be allowed anything.
    Everything,
    /// What it needs depends on what it asks for.
    Asked(fn(&AccessRequest<'_>) -> bool),
}

impl Requirement {
    /// Whether who is not logged in may run the command.
    #[inline]
    pub const fn is_open(&self) -> bool {
        matches!(self, Requirement::Nothing)
    }

    /// Whether members ask for it, and hardly anybody else.
    #[inline]
    pub const fn is_for_members(&self) -> bool {
        matches!(self, Requirement::Everything)
    }

    /// Whether who asks may run the command.
    pub fn is_met(&self, request: &AccessRequest<'_>) -> bool {
        match self {
            Requirement::Nothing | Requirement::Login => true,
            Requirement::Cluster(actions) => {
                actions.iter().all(|action| request.may(AccessTarget::Cluster, *action))
            }
            Requirement::Database(action) => request.may(AccessTarget::Database(request.database), *action),
            Requirement::Collection(action) => request.may_with_collection(*action),
            Requirement::Everything => request.may(AccessTarget::Anything, Action::AnyAction),
            Requirement::Asked(check) => check(request),
        }
    }
}

impl<'a> AccessRequest<'a> {
    fn may(&self, target: AccessTarget<'_>, action: Action) -> bool {
        self.user.may(target, action)
    }

    /// The collection that the command's own field names. What is none will be refused by the command; here
    /// it is a name that only privileges on the whole database are about.
    fn collection(&self) -> &'a str {
        self.command.first().and_then(|first| first.value().as_str()).unwrap_or_default()
    }

    fn may_with_collection(&self, action: Action) -> bool {
        self.may(AccessTarget::Collection(self.database, self.collection()), action)
    }

    /// Every value of a field of this name: a parser may take the last one.
    fn values(&self, name: &'static str) -> impl Iterator<Item = RawValue<'a>> + use<'a> {
        values(self.command, name)
    }

    /// Whether a flag is set, in whatever form.
    fn is_set(&self, name: &'static str) -> bool {
        self.values(name).any(is_true)
    }

    /// The documents of a list that may be a field or a sequence.
    fn listed(&self, name: &'static str) -> impl Iterator<Item = RawDocument<'a>> + use<'a, '_> {
        let arrays = self.values(name).filter_map(RawValue::as_array);
        let in_body = arrays.flat_map(|array| array.iter().filter_map(RawValue::as_document));
        let sequences = self.sequences.iter().filter(move |sequence| sequence.identifier == name);
        in_body.chain(sequences.flat_map(DocumentSequence::iter))
    }
}

fn values<'a>(document: RawDocument<'a>, name: &'static str) -> impl Iterator<Item = RawValue<'a>> + use<'a> {
    document.iter().filter(move |element| element.name_bytes() == name.as_bytes()).map(|found| found.value())
}

/// All but false, zero, null and undefined counts, NaN too.
fn is_true(value: RawValue<'_>) -> bool {
    match value {
        RawValue::Boolean(flag) => flag,
        RawValue::Null | RawValue::Undefined => false,
        number if number.is_number() => number.as_i64_exact() != Some(0),
        _ => true,
    }
}
