//! One member of a configuration.

use super::fields::{Fields, invalid};
use super::host::normal_host;
use crate::set::SetError;
use document::{Document, RawDocument, RawValue, Value, doc};
use std::time::Duration;

/// One of `members`.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberConfig {
    /// `_id`: this member, whatever its host.
    pub id: i32,
    /// `host`, with its port.
    pub host: String,
    /// `hidden`: clients are not told of it.
    pub hidden: bool,
    /// `priority`: who should be primary; 0 never is.
    pub priority: f64,
    /// `tags`: what read preferences and write concern modes choose by.
    pub tags: Vec<(String, String)>,
    /// `secondaryDelaySecs`: how far it stays behind.
    pub delay: Duration,
    /// `votes`: it votes and counts for majorities.
    pub votes: bool,
    /// `arbiterOnly`: it votes and has no data.
    pub arbiter_only: bool,
}

/// The greatest `priority`.
const PRIORITY_MAX: f64 = 1000.0;
/// The greatest `secondaryDelaySecs`: a leap year.
const DELAY_SECONDS_MAX: i64 = 366 * 24 * 60 * 60;

impl MemberConfig {
    pub(super) fn parse(document: RawDocument<'_>) -> Result<Self, SetError> {
        Self::read(document).map_err(|error| {
            invalid(format!("member: {} :: caused by :: {}", document.quoted(), error.message))
        })
    }

    fn read(document: RawDocument<'_>) -> Result<Self, SetError> {
        let mut fields = Fields::new("MemberConfig", document)?;
        let host = fields.text("host")?.ok_or_else(|| fields.missing("host"))?;
        let arbiter_only = fields.truth("arbiterOnly")?.unwrap_or(false);
        // Of an arbiter 1 is what nobody has said.
        let priority = fields.share("priority", PRIORITY_MAX)?.unwrap_or(1.0);
        let member = MemberConfig {
            id: id(&mut fields)?,
            host: normal_host(host)?,
            hidden: fields.truth("hidden")?.unwrap_or(false),
            priority: if arbiter_only && priority == 1.0 { 0.0 } else { priority },
            tags: tags(fields.document("tags")?)?,
            delay: fields.whole("secondaryDelaySecs", 0..=DELAY_SECONDS_MAX)?.map_or(Duration::ZERO, seconds),
            votes: fields.whole("votes", 0..=1)?.unwrap_or(1) == 1,
            arbiter_only,
        };
        if !fields.truth("buildIndexes")?.unwrap_or(true) {
            return Err(invalid("buildIndexes: false is not supported: every member has all indexes"));
        }
        if fields.document("horizons")?.is_some_and(|horizons| horizons.first().is_some()) {
            return Err(invalid("horizons are not supported: clients reach a member at its host"));
        }
        fields.finish()?;
        member.check_arbiter()?;
        member.check_priority()?;
        Ok(member)
    }

    fn check_arbiter(&self) -> Result<(), SetError> {
        if !self.arbiter_only {
            return Ok(());
        }
        match (self.votes, self.tags.is_empty(), self.delay.is_zero()) {
            (false, ..) => Err(invalid("Arbiter must vote (cannot have 0 votes)")),
            (_, false, _) => Err(invalid("Cannot set tags on arbiters.")),
            (.., false) => Err(invalid("an arbiter has no data: secondaryDelaySecs must be 0")),
            _ => Ok(()),
        }
    }

    /// Who cannot be primary must not be told to want it.
    fn check_priority(&self) -> Result<(), SetError> {
        let reasons = [
            (!self.votes, "non-voting (votes:0)"),
            (self.arbiter_only, "arbiterOnly=true"),
            (!self.delay.is_zero(), "secondaryDelaySecs is used"),
            (self.hidden, "hidden=true"),
        ];
        match reasons.iter().find(|(holds, _)| *holds && self.is_electable()) {
            None => Ok(()),
            Some((_, reason)) => Err(invalid(format!("priority must be 0 when {reason}"))),
        }
    }

    /// Whether it may be primary.
    pub fn is_electable(&self) -> bool {
        self.priority > 0.0
    }

    pub(super) fn to_document(&self) -> Document {
        let tags = self.tags.iter().map(|(name, value)| (name.as_str(), Value::from(value.as_str())));
        doc! {
            "_id": (self.id), "host": (self.host.as_str()), "arbiterOnly": (self.arbiter_only),
            "buildIndexes": true, "hidden": (self.hidden), "priority": (self.priority),
            "tags": (tags.collect::<Document>()), "secondaryDelaySecs": (self.delay.as_secs() as i64),
            "votes": (i32::from(self.votes)),
        }
    }
}

fn seconds(number: i64) -> Duration {
    Duration::from_secs(number.unsigned_abs())
}

fn id(fields: &mut Fields<'_>) -> Result<i32, SetError> {
    let number = fields.whole("_id", i64::MIN..=i64::MAX)?.ok_or_else(|| fields.missing("_id"))?;
    let id = i32::try_from(number).ok().filter(|id| *id >= 0);
    id.ok_or_else(|| invalid(format!("_id field value of {number} is out of range.")))
}

fn tags(document: Option<RawDocument<'_>>) -> Result<Vec<(String, String)>, SetError> {
    let mut tags = Vec::new();
    for element in document.into_iter().flatten() {
        let RawValue::String(value) = element.value() else {
            let found = element.value().kind().alias();
            let name = element.name();
            return Err(invalid(format!("tags.{name} field has non-string value of type {found}")));
        };
        tags.push((element.name().to_owned(), value.to_owned()));
    }
    Ok(tags)
}
