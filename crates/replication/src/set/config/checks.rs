//! What makes a configuration a good one, and a good successor of another.

use super::fields::invalid;
use super::host::is_local;
use super::{MemberConfig, ReplSetConfig};
use crate::set::SetError;
use wire::ErrorCode;

/// The most members of a set.
pub const MEMBERS_MAX: usize = 50;
/// The most members that vote.
pub const VOTERS_MAX: usize = 7;
/// The term of a configuration that nobody was elected to give.
pub(super) const INITIAL_TERM: i64 = 1;

impl ReplSetConfig {
    /// Checks what a configuration says by itself.
    pub(super) fn check(&self) -> Result<(), SetError> {
        let members = self.members.len();
        if !(1..=MEMBERS_MAX).contains(&members) {
            return Err(invalid(format!(
                "Replica set configuration contains {members} members, but must have at least 1 and no more \
                 than  {MEMBERS_MAX}"
            )));
        }
        self.check_different()?;
        let local = self.members.iter().filter(|member| is_local(&member.host)).count();
        if local != 0 && local != members {
            return Err(invalid(format!(
                "Either all host names in a replica set configuration must be localhost references, or none \
                 must be; found {local} out of {members}"
            )));
        }
        let voters = self.voters().count();
        if !(1..=VOTERS_MAX).contains(&voters) {
            return Err(invalid(format!(
                "Replica set configuration contains {voters} voting members, but must be at least 1 and no \
                 more than {VOTERS_MAX}"
            )));
        }
        if self.members.iter().filter(|member| member.arbiter_only).count() > 1 {
            return Err(invalid("Multiple arbiters are not allowed"));
        }
        if !self.members.iter().any(MemberConfig::is_electable) {
            return Err(invalid(
                "Replica set configuration must contain at least one non-arbiter member with priority > 0",
            ));
        }
        let tags = || self.members.iter().flat_map(|member| &member.tags).map(|(tag, _)| tag);
        let wanted = self.settings.modes.iter().flat_map(|(_, wanted)| wanted);
        match wanted.map(|(tag, _)| tag).find(|tag| !tags().any(|known| known == *tag)) {
            None => Ok(()),
            Some(tag) => Err(invalid(format!("No replica set tag key {tag} in config"))),
        }
    }

    fn check_different(&self) -> Result<(), SetError> {
        for (second, member) in self.members.iter().enumerate() {
            for (first, other) in self.members.iter().enumerate().take(second) {
                let twice = |field: &str, value: &dyn std::fmt::Display| {
                    Err(invalid(format!(
                        "Found two member configurations with same {field} field, members.{first}.{field} == \
                         members.{second}.{field} == {value}"
                    )))
                };
                if member.id == other.id {
                    return twice("_id", &member.id);
                }
                if member.host == other.host {
                    return twice("host", &member.host);
                }
            }
        }
        Ok(())
    }

    /// Checks the first configuration of the set `set_name`, but for the member that gives it.
    ///
    /// # Errors
    /// `InvalidReplicaSetConfig`.
    pub fn check_initiate(&self, set_name: &str) -> Result<(), SetError> {
        if self.set_name != set_name {
            return Err(invalid(format!(
                "Attempting to initiate a replica set with name {}, but command line reports {set_name}; \
                rejecting",
                self.set_name
            )));
        }
        if self.version != 1 {
            return Err(invalid(format!(
                "Configuration used to initiate a replica set must  have version 1, but found {}",
                self.version
            )));
        }
        if !matches!(self.term, None | Some(INITIAL_TERM)) {
            return Err(invalid(format!(
                "Configuration used to initiate a replica set must have term {INITIAL_TERM}, but found {}",
                self.term.unwrap_or_default()
            )));
        }
        if self.settings.set_id.is_some() {
            return Err(invalid(format!(
                "replica set configuration cannot contain 'replicaSetId' field when called from \
                replSetInitiate: {}",
                self.to_document().quoted()
            )));
        }
        Ok(())
    }

    /// The configuration that follows this one when an operator asks for `asked` on the member `own`, in this
    /// term. With `force` more than one vote may change, and the version grows by `jump`
    /// beside, so that it is the latest one wherever else something was changed.
    ///
    /// # Errors
    /// `NewReplicaSetConfigurationIncompatible`, `InvalidReplicaSetConfig`.
    pub fn successor(
        &self,
        mut asked: ReplSetConfig,
        own: i32,
        term: i64,
        force: Option<u16>,
    ) -> Result<ReplSetConfig, SetError> {
        if asked.set_name != self.set_name {
            return Err(invalid(format!(
                "Attempting to reconfigure a replica set with name {}, but command line reports {}; \
                rejecting",
                asked.set_name, self.set_name
            )));
        }
        asked.term = Some(term);
        asked.settings.set_id = asked.settings.set_id.or(self.settings.set_id);
        if let Some(jump) = force {
            asked.version = asked.version.max(self.version) + i64::from(jump.max(1));
        }
        let incompatible =
            |message: String| Err(SetError::new(ErrorCode::NewReplicaSetConfigurationIncompatible, message));
        if asked.version <= self.version {
            return incompatible(format!(
                "New replica set configuration version and term must be greater than old, but {} is not \
                 greater than {} for replica set {}",
                asked.version_and_term(),
                self.version_and_term(),
                self.set_name
            ));
        }
        if let (Some(old), Some(new)) = (self.settings.set_id, asked.settings.set_id)
            && old != new
        {
            return incompatible(format!(
                "New and old configurations differ in replica set ID; old was {old}, and new is {new}"
            ));
        }
        for member in &asked.members {
            if let Some(old) = self.members.iter().find(|old| old.host == member.host && old.id != member.id)
            {
                return incompatible(format!(
                    "New and old configurations both have members with host of {} but in the new \
                     configuration the _id field is {} and in the old configuration it is {} for replica \
                     set {}",
                    member.host, member.id, old.id, self.set_name
                ));
            }
        }
        for member in &asked.members {
            if self.member(member.id).is_some_and(|old| old.arbiter_only != member.arbiter_only) {
                return incompatible(format!(
                    "New and old configurations differ in the setting of the arbiterOnly field for member \
                     {}; to make this change, remove then re-add the member",
                    member.host
                ));
            }
        }
        if force.is_none() && self.votes_changed(&asked) > 1 {
            return incompatible(
                "Non force replica set reconfig can only add or remove at most 1 voting member.".to_owned(),
            );
        }
        if force.is_none() {
            asked.own_electable(own)?;
        }
        Ok(asked)
    }

    /// How many members have a vote in one of the two only.
    fn votes_changed(&self, other: &ReplSetConfig) -> usize {
        let lacks = |config: &ReplSetConfig, member: &MemberConfig| {
            !config.voters().any(|voter| voter.id == member.id)
        };
        self.voters().filter(|voter| lacks(other, voter)).count()
            + other.voters().filter(|voter| lacks(self, voter)).count()
    }

    /// Checks that the member `own`, which gives this configuration, can lead under it.
    ///
    /// # Errors
    /// `NodeNotFound`, `NodeNotElectable`.
    pub(crate) fn own_electable(&self, own: i32) -> Result<(), SetError> {
        let own = self.member(own).ok_or_else(|| self.not_found())?;
        if own.is_electable() {
            return Ok(());
        }
        let message = format!(
            "This node, {}, with _id {} is not electable under the new configuration with {} for replica \
            set {}",
            own.host,
            own.id,
            self.version_and_term(),
            self.set_name
        );
        Err(SetError::new(ErrorCode::NodeNotElectable, message))
    }

    /// The one member whose host is among those of a server.
    ///
    /// # Errors
    /// `NodeNotFound`; `InvalidReplicaSetConfig` when there are several.
    pub fn own_member(&self, own_hosts: &[String]) -> Result<&MemberConfig, SetError> {
        let own = || self.members.iter().filter(|member| own_hosts.contains(&member.host));
        match (own().next(), own().nth(1)) {
            (Some(own), None) => Ok(own),
            (None, _) => Err(self.not_found()),
            (Some(first), Some(second)) => Err(invalid(format!(
                "The hosts {} and {} all map to this node {}",
                first.host,
                second.host,
                self.described()
            ))),
        }
    }

    fn not_found(&self) -> SetError {
        let message = format!("No host described {} maps to this node", self.described());
        SetError::new(ErrorCode::NodeNotFound, message)
    }

    fn described(&self) -> String {
        format!("in new configuration with {} for replica set {}", self.version_and_term(), self.set_name)
    }

    pub(super) fn version_and_term(&self) -> String {
        format!("{{version: {}, term: {}}}", self.version, self.term.unwrap_or(-1))
    }
}
