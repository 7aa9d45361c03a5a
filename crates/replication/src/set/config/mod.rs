//! The configuration of a set: who belongs to it, who votes, who should be primary.
//!
//! Source: MongoDB manual, "Replica Set Configuration" and "replSetReconfig".

mod checks;
mod copies;
mod fields;
mod host;
mod member;
mod settings;
#[cfg(test)]
mod tests;

use super::SetError;
use document::{Document, RawDocument, RawValue, Value};
use fields::{Fields, invalid};

pub use checks::{MEMBERS_MAX, VOTERS_MAX};
pub use copies::Copies;
pub use host::normal_host;
pub use member::MemberConfig;
pub use settings::{DefaultReadFreshness, Mode, Settings};

/// What `rs.conf()` tells, checked by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplSetConfig {
    /// `_id`.
    pub set_name: String,
    /// `version`: grows with each change.
    pub version: i64,
    /// `term` of the primary that gave it; `None` in what an operator writes.
    pub term: Option<i64>,
    /// `members`.
    pub members: Vec<MemberConfig>,
    /// `writeConcernMajorityJournalDefault`.
    pub majority_is_journaled: bool,
    /// `settings`.
    pub settings: Settings,
}

impl ReplSetConfig {
    /// Reads a configuration and checks what it says by itself.
    ///
    /// # Errors
    /// `InvalidReplicaSetConfig`.
    pub fn parse(document: RawDocument<'_>) -> Result<Self, SetError> {
        let mut fields = Fields::new("ReplSetConfig", document)?;
        let set_name = fields.text("_id")?.ok_or_else(|| fields.missing("_id"))?;
        if set_name.is_empty() {
            return Err(invalid("Replica set configuration must have non-empty _id field"));
        }
        const NUMBER_MAX: i64 = i32::MAX as i64;
        let version = fields.exact("version", 1..=NUMBER_MAX)?.ok_or_else(|| fields.missing("version"))?;
        let term = fields.exact("term", -1..=i64::MAX)?.filter(|term| *term >= 0);
        let config = ReplSetConfig {
            set_name: set_name.to_owned(),
            version,
            term,
            members: members(&mut fields)?,
            majority_is_journaled: fields.truth("writeConcernMajorityJournalDefault")?.unwrap_or(true),
            settings: fields.document("settings")?.map_or(Ok(Settings::default()), Settings::parse)?,
        };
        fields.whole("protocolVersion", 1..=1)?;
        if fields.truth("configsvr")?.unwrap_or(false) {
            return Err(invalid(
                "Nodes being used for config servers must be started with the --configsvr flag",
            ));
        }
        fields.finish()?;
        config.check()?;
        Ok(config)
    }

    /// As `rs.conf()` shows it.
    pub fn to_document(&self) -> Document {
        let mut document = Document::new();
        document.push("_id", self.set_name.as_str());
        document.push("version", settings::small(self.version));
        if let Some(term) = self.term {
            document.push("term", settings::small(term));
        }
        let members = self.members.iter().map(|member| Value::from(member.to_document()));
        document.push("members", members.collect::<Vec<_>>());
        document.push("protocolVersion", 1_i64);
        document.push("writeConcernMajorityJournalDefault", self.majority_is_journaled);
        document.push("settings", self.settings.to_document());
        document
    }

    /// The members that vote.
    pub fn voters(&self) -> impl Iterator<Item = &MemberConfig> {
        self.members.iter().filter(|member| member.votes)
    }

    /// The members that do not.
    pub fn learners(&self) -> impl Iterator<Item = &MemberConfig> {
        self.members.iter().filter(|member| !member.votes)
    }

    /// How many of those that vote are a majority.
    pub fn majority(&self) -> usize {
        self.voters().count() / 2 + 1
    }

    /// Those that vote and have data.
    pub fn writable_voters(&self) -> impl Iterator<Item = &MemberConfig> {
        self.voters().filter(|member| !member.arbiter_only)
    }

    /// The member of this `_id`.
    pub fn member(&self, id: i32) -> Option<&MemberConfig> {
        self.members.iter().find(|member| member.id == id)
    }
}

fn members(fields: &mut Fields<'_>) -> Result<Vec<MemberConfig>, SetError> {
    let members = match fields.take("members") {
        None => return Err(fields.missing("members")),
        Some(RawValue::Array(members)) => members,
        Some(other) => return Err(fields.wrong_type("members", other, "type 'array'")),
    };
    let member = |(place, value): (usize, RawValue<'_>)| match value {
        RawValue::Document(member) => MemberConfig::parse(member),
        other => Err(fields.wrong_type(&format!("members.{place}"), other, "type 'object'")),
    };
    // One more than there may be is enough to refuse them.
    members.iter().enumerate().take(MEMBERS_MAX + 1).map(member).collect()
}
