//! How many members, or which, have an operation: what a write concern asks for.

use super::{MemberConfig, ReplSetConfig};
use crate::set::SetError;
use wire::ErrorCode;

/// `w` of a write concern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Copies {
    /// So many members, whoever they are.
    Members(usize),
    /// As many of those that vote as a majority has, as far as they have data.
    Majority,
    /// What `settings.getLastErrorModes` means by this name.
    Mode(String),
}

impl ReplSetConfig {
    /// Whether these members, all of them together, could be as many copies.
    ///
    /// # Errors
    /// `UnknownReplWriteConcern`, `UnsatisfiableWriteConcern`.
    pub fn check_copies(&self, copies: &Copies) -> Result<(), SetError> {
        if let Copies::Mode(name) = copies
            && self.mode(name).is_none()
        {
            let message = format!("No write concern mode named '{name}' found in replica set configuration");
            return Err(SetError::new(ErrorCode::UnknownReplWriteConcern, message));
        }
        if self.has_copies(copies, |_| true) {
            return Ok(());
        }
        let message = match copies {
            Copies::Mode(name) => format!("Not enough nodes match write concern mode \"{name}\""),
            _ => "Not enough data-bearing nodes".to_owned(),
        };
        Err(SetError::new(ErrorCode::UnsatisfiableWriteConcern, message))
    }

    /// Whether the members that `has` says so of are as many copies.
    pub fn has_copies(&self, copies: &Copies, has: impl Fn(&MemberConfig) -> bool) -> bool {
        let members = || self.members.iter().filter(|member| !member.arbiter_only && has(member));
        match copies {
            Copies::Members(wanted) => members().count() >= *wanted,
            Copies::Majority => members().filter(|member| member.votes).count() >= self.write_majority(),
            Copies::Mode(name) => self.mode(name).is_some_and(|tags| {
                tags.iter().all(|(tag, wanted)| {
                    let tags = members().flat_map(|member| &member.tags);
                    let mut values: Vec<&str> =
                        tags.filter(|(name, _)| name == tag).map(|(_, value)| value.as_str()).collect();
                    values.sort_unstable();
                    values.dedup();
                    values.len() >= *wanted
                })
            }),
        }
    }

    /// `writeMajorityCount`.
    pub fn write_majority(&self) -> usize {
        self.majority().min(self.writable_voters().count())
    }

    fn mode(&self, name: &str) -> Option<&[(String, usize)]> {
        let found = self.settings.modes.iter().find(|(known, _)| known == name);
        found.map(|(_, tags)| tags.as_slice())
    }
}
