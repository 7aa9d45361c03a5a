//! Who may do what: SCRAM, users, roles, privileges, and what each command needs of them.
//!
//! ```text
//!   saslStart, saslContinue ─▶ ScramServer ─▶ AccessUser { roles, privileges } ◀─ RoleGraph ◀─ system.roles
//!                                                 ▲            │                     ▲
//!                                   system.users ─┘            ▼                     └─ built-in roles
//!   command ─▶ Requirement (one row per command) ─▶ PrivilegeSet::allows(AccessTarget, Action)
//! ```
//!
//! # Vocabulary
//! An *action* is something that may be done; a *resource pattern* says with what; both together are a
//! *privilege*. A *role* is a named list of privileges and of roles to inherit from. A *target* is what an
//! operation touches. A *requirement* is what a command needs. *Limits* bound what a user has at once.
//!
//! # Invariants
//! - Nothing that is kept gives a password back, and secrets are compared in constant time.
//! - A conversation with an unknown user takes the same steps, gives the same answers and does the same work
//!   as one with a wrong password.
//! - A command without a row is refused to everybody but members: nothing is allowed because it was
//!   forgotten.
//! - What is read of a command is read as its own parser does or more strictly: each field of a name counts,
//!   not the first one.
//!
//! # Not here
//! No storage, no cache and no command (`dispatch`, `commands`). No randomness: who asks brings it.

mod action;
mod builtin;
mod certificate;
mod client_login;
mod limits;
mod member_keys;
mod names;
mod privileges;
mod requirement;
mod resource;
mod restriction;
mod role;
mod saslprep;
mod scram;
mod throttle;
mod user;

pub use action::{Action, ActionSet};
pub use builtin::{builtin_privileges, builtin_roles, is_builtin};
pub use certificate::{CertificateName, certificate_name};
pub use client_login::{LOGIN_NONCE_BYTES, LoginIdentity, LoginRefusal, LoginSteps};
pub use limits::UserLimits;
pub use member_keys::{MemberKeys, MemberUser};
pub use names::{RoleName, UserName};
pub use privileges::{Privilege, PrivilegeSet, add_privilege};
pub use requirement::{AccessRequest, Requirement, requirement_of, requirements};
pub use resource::{AccessTarget, ResourcePattern};
pub use restriction::{AddressRange, LoginEnds, LoginRestriction, login_allowed};
pub use role::{Inherited, RoleDefinition, RoleGraph, check_reach};
pub use saslprep::prepare_password;
pub use scram::{
    Mechanism, ScramChallenge, ScramClient, ScramCredentials, ScramFailure, ScramKeys, ScramProof,
    ScramServer, password_digest,
};
pub use throttle::{FailedLogins, LoginPenalty, RefusedMembers};
pub use user::{AccessUser, UserCredentials};

/// What is no user, role or privilege.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// A field that cannot be.
    #[error("{0}")]
    BadValue(String),
    /// A role that may not be like this.
    #[error("{0}")]
    InvalidRoleModification(String),
}
