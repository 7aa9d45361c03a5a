//! `limits`: how much of a server one user may have at once. A user has its own, and those of each of its
//! roles and of the roles that these inherit from: the smallest of each kind holds.

use crate::AccessError;
use document::{Document, RawDocument, RawValue, Value};

/// What one user may have at once; `None`: as much as there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UserLimits {
    /// Connections that are logged in. `maxConnections`.
    pub connections: Option<u32>,
    /// Operations that run. `maxOperations`.
    pub operations: Option<u32>,
    /// Mebibytes that sorts, groups and joins hold, those of open cursors too. `maxMemoryMB`.
    pub memory_mb: Option<u32>,
}

/// The field that has them.
const FIELD: &str = "limits";
/// No limit is larger, so that each is shown as the number that it was set to.
const MOST: u32 = i32::MAX as u32;

impl UserLimits {
    /// Reads `{maxConnections, maxOperations, maxMemoryMB}`, each of which may be missing.
    ///
    /// # Errors
    /// Unknown fields; what is no whole number from 1 on.
    pub fn parse(limits: RawDocument<'_>) -> Result<Self, AccessError> {
        let mut parsed = UserLimits::default();
        for element in limits {
            let name = element.name();
            let place = match name {
                "maxConnections" => &mut parsed.connections,
                "maxOperations" => &mut parsed.operations,
                "maxMemoryMB" => &mut parsed.memory_mb,
                _ => return Err(AccessError::BadValue(format!("Unknown field '{name}' in {FIELD}"))),
            };
            let number = element.value().as_i64_exact().and_then(|number| u32::try_from(number).ok());
            let Some(number) = number.filter(|number| (1..=MOST).contains(number)) else {
                let message = format!("'{FIELD}.{name}' has to be a whole number from 1 to {MOST}");
                return Err(AccessError::BadValue(message));
            };
            *place = Some(number);
        }
        Ok(parsed)
    }

    /// The limits in a stored document.
    pub(crate) fn stored(document: RawDocument<'_>) -> Result<Self, AccessError> {
        match document.get(FIELD) {
            None | Some(RawValue::Null) => Ok(UserLimits::default()),
            Some(RawValue::Document(limits)) => UserLimits::parse(limits),
            Some(_) => Err(AccessError::BadValue(format!("'{FIELD}' has to be an object"))),
        }
    }

    /// As they are stored and shown.
    pub fn to_document(&self) -> Document {
        let fields = [
            ("maxConnections", self.connections),
            ("maxOperations", self.operations),
            ("maxMemoryMB", self.memory_mb),
        ];
        let shown = |limit: u32| Value::Int32(limit.cast_signed());
        fields.into_iter().filter_map(|(name, limit)| Some((name, shown(limit?)))).collect()
    }

    /// Whether nothing is limited.
    pub const fn is_empty(&self) -> bool {
        self.connections.is_none() && self.operations.is_none() && self.memory_mb.is_none()
    }

    /// The smaller one of each kind.
    #[must_use]
    pub fn strictest(self, other: Self) -> Self {
        let smaller = |one: Option<u32>, other: Option<u32>| one.into_iter().chain(other).min();
        UserLimits {
            connections: smaller(self.connections, other.connections),
            operations: smaller(self.operations, other.operations),
            memory_mb: smaller(self.memory_mb, other.memory_mb),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::doc;

    fn parse(limits: Document) -> Result<UserLimits, String> {
        UserLimits::parse(limits.to_buf().as_raw()).map_err(|error| error.to_string())
    }

    #[test]
    fn limits_are_whole_numbers_from_one_on() {
        let all = doc! { "maxConnections": 5, "maxOperations": 2, "maxMemoryMB": 256 };
        let parsed = parse(all.clone()).expect("limits");
        assert_eq!(parsed.to_document(), all);
        assert_eq!(parse(doc! { "maxOperations": 2.0 }).map(|limits| limits.operations), Ok(Some(2)));
        assert!(parse(doc! {}).expect("none").is_empty());
        assert_eq!(parse(doc! { "maxCursors": 1 }), Err("Unknown field 'maxCursors' in limits".to_owned()));
        assert!(
            parse(doc! { "maxOperations": 0 }).is_err() && parse(doc! { "maxOperations": (-1) }).is_err()
        );
        assert!(parse(doc! { "maxMemoryMB": 1.5 }).is_err() && parse(doc! { "maxMemoryMB": "1" }).is_err());
        assert!(parse(doc! { "maxMemoryMB": (1i64 << 31) }).is_err());
    }

    #[test]
    fn the_smallest_of_each_kind_holds() {
        let one = UserLimits { connections: Some(5), operations: None, memory_mb: Some(64) };
        let other = UserLimits { connections: Some(7), operations: Some(1), memory_mb: Some(16) };
        let both = UserLimits { connections: Some(5), operations: Some(1), memory_mb: Some(16) };
        assert_eq!((one.strictest(other), other.strictest(one)), (both, both));
        assert_eq!(one.strictest(UserLimits::default()), one);
    }
}
