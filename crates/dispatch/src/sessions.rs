//! Logical sessions: identifiers that clients give to related operations, and the time they live.
//!
//! With `--auth` each user has its own: what a client names is its user's session of that name, and nobody
//! else's.
//!
//! Source: MongoDB manual, "Server Sessions"; driver specification "Driver Sessions".

use crate::error::{CommandError, CommandResult, code};
use document::{DocumentBuilder, RawDocument, RawValue};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use parking_lot::Mutex;
use std::fmt;
use std::time::{Duration, Instant};

/// A session: what clients call it, and whose it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogicalSessionId {
    /// The UUID (`lsid.id`).
    pub id: [u8; 16],
    /// Whose it is.
    pub owner: SessionOwner,
}

/// Who owns sessions: SHA-256 of a user's name (`lsid.uid`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionOwner(pub [u8; 32]);

impl SessionOwner {
    /// Nobody: SHA-256 of no name. Everybody's where there is no access control.
    pub const NOBODY: SessionOwner = SessionOwner([
        0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27,
        0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
    ]);
}

/// Binary subtype of UUIDs.
const UUID_SUBTYPE: u8 = 4;

impl LogicalSessionId {
    /// A new identifier.
    pub fn random(owner: SessionOwner) -> Self {
        LogicalSessionId { id: ambient::uuid().into_bytes(), owner }
    }

    /// The session of this id where there is no access control.
    pub const fn of_nobody(id: [u8; 16]) -> Self {
        LogicalSessionId { id, owner: SessionOwner::NOBODY }
    }

    /// Reads `{id: UUID}`, with the `uid` that a client names, or nobody's.
    ///
    /// # Errors
    /// `IDLMissingField`, `TypeMismatch`, `IDLUnknownField`, `UnsupportedFormat`; `place` is how the message
    /// calls the document.
    pub fn parse(document: RawDocument<'_>, place: &'static str) -> CommandResult<Self> {
        let (mut id, mut owner) = (None, SessionOwner::NOBODY);
        for element in document {
            match (element.name(), element.value()) {
                ("id", RawValue::Binary { subtype: UUID_SUBTYPE, bytes }) => {
                    id = bytes.first_chunk().copied()
                }
                ("id", other) => {
                    return Err(crate::fields::wrong_type(place, "id", other.kind(), &["binData"]));
                }
                ("uid", uid) => owner = parse_owner(uid, place)?,
                ("txnNumber" | "txnUUID", _) => {}
                (name, _) => return Err(crate::fields::unknown_field(place, name)),
            }
        }
        id.map(|id| LogicalSessionId { id, owner }).ok_or_else(|| {
            CommandError::new(
                code::IDL_MISSING_FIELD,
                format!("BSON field '{place}.id' is missing but a required field"),
            )
        })
    }

    /// Writes `id: UUID`, as the owner names it.
    pub fn append_to(&self, document: &mut DocumentBuilder<'_>) {
        document.append("id", RawValue::Binary { subtype: UUID_SUBTYPE, bytes: &self.id });
    }

    /// Writes `id` and `uid`, as others see it.
    pub fn append_whole_to(&self, document: &mut DocumentBuilder<'_>) {
        self.append_to(document);
        document.append("uid", RawValue::Binary { subtype: 0, bytes: &self.owner.0 });
    }
}

/// Reads a `uid`.
///
/// # Errors
/// `TypeMismatch`; `UnsupportedFormat` for what has not the size of a digest.
pub(crate) fn parse_owner(value: RawValue<'_>, place: &'static str) -> CommandResult<SessionOwner> {
    let RawValue::Binary { bytes, .. } = value else {
        return Err(crate::fields::wrong_type(place, "uid", value.kind(), &["binData"]));
    };
    bytes.try_into().map(SessionOwner).map_err(|_| {
        let message = format!("Unsupported SHA256Block hash length: {}", bytes.len());
        CommandError::new(wire::ErrorCode::UnsupportedFormat as i32, message)
    })
}

impl fmt::Display for LogicalSessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        uuid::Uuid::from_bytes(self.id).hyphenated().fmt(formatter)
    }
}

impl fmt::Debug for LogicalSessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

const SHARDS: usize = 32;

#[derive(Debug)]
struct Session {
    last_use: Instant,
    /// The latest transaction number that was used here.
    txn_number: i64,
}

/// The sessions in use.
#[derive(Debug)]
pub struct LogicalSessions {
    /// Each guards its share of the sessions.
    shards: [Mutex<HashMap<LogicalSessionId, Session>>; SHARDS],
    /// Sessions that a share has at most.
    shard_length_max: usize,
}

impl LogicalSessions {
    /// None yet, and about `max` at most: identifiers are random, so that each share has its part of them.
    pub fn new(max: usize) -> Self {
        LogicalSessions {
            shards: std::array::from_fn(|_| Mutex::default()),
            shard_length_max: max.div_ceil(SHARDS),
        }
    }

    /// Notes that a session is in use.
    ///
    /// # Errors
    /// `TooManyLogicalSessions` when it is a new one too many.
    #[inline]
    pub fn touch(&self, id: LogicalSessionId, now: Instant) -> CommandResult {
        let mut shard = self.shard(id).lock();
        let has_room = shard.len() < self.shard_length_max;
        match shard.entry(id) {
            Entry::Occupied(mut known) => known.get_mut().last_use = now,
            Entry::Vacant(new) if has_room => {
                new.insert(Session { last_use: now, txn_number: -1 });
            }
            Entry::Vacant(_) => return Err(too_many(id)),
        }
        Ok(())
    }

    /// A write with this transaction number begins.
    ///
    /// # Errors
    /// A later number that was used before: this one is over.
    pub fn advance(&self, id: LogicalSessionId, txn_number: i64) -> Result<(), i64> {
        let mut shard = self.shard(id).lock();
        // Who has ended its session meanwhile has lost what is kept here, and nothing else.
        let Some(session) = shard.get_mut(&id) else { return Ok(()) };
        if session.txn_number > txn_number {
            return Err(session.txn_number);
        }
        session.txn_number = txn_number;
        Ok(())
    }

    /// Forgets a session. Its cursors and operations are the caller's to end.
    pub fn end(&self, id: LogicalSessionId) -> bool {
        self.shard(id).lock().remove(&id).is_some()
    }

    /// The sessions that nobody used for `timeout`; they are forgotten.
    pub fn expire(&self, now: Instant, timeout: Duration) -> Vec<LogicalSessionId> {
        let mut expired = Vec::new();
        for shard in &self.shards {
            shard.lock().retain(|id, session| {
                let alive = now.saturating_duration_since(session.last_use) < timeout;
                if !alive {
                    expired.push(*id);
                }
                alive
            });
        }
        expired
    }

    /// All sessions.
    pub fn all(&self) -> Vec<LogicalSessionId> {
        self.shards.iter().flat_map(|shard| shard.lock().keys().copied().collect::<Vec<_>>()).collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    #[expect(clippy::indexing_slicing, reason = "the remainder is below the number of shards")]
    fn shard(&self, id: LogicalSessionId) -> &Mutex<HashMap<LogicalSessionId, Session>> {
        &self.shards[usize::from(id.id[15]) % SHARDS]
    }
}

#[cold]
fn too_many(id: LogicalSessionId) -> CommandError {
    let message = format!(
        "Unable to add session ID {id} into the cache because the number of active sessions is too high"
    );
    CommandError::new(code::TOO_MANY_LOGICAL_SESSIONS, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_sessions_expire() {
        let (sessions, start) = (LogicalSessions::new(1000), Instant::now());
        let [old, young] = [(); 2].map(|()| LogicalSessionId::random(SessionOwner::NOBODY));
        sessions.touch(old, start).expect("room");
        sessions.touch(young, start + Duration::from_secs(20)).expect("room");
        assert_eq!(sessions.expire(start + Duration::from_secs(30), Duration::from_secs(30)), [old]);
        assert_eq!(sessions.all(), [young]);
        assert!(sessions.end(young) && !sessions.end(young));
    }

    #[test]
    fn transaction_numbers_do_not_go_back() {
        let (sessions, start) = (LogicalSessions::new(1000), Instant::now());
        let id = LogicalSessionId::random(SessionOwner::NOBODY);
        sessions.touch(id, start).expect("room");
        assert_eq!([3, 3, 2, 4].map(|number| sessions.advance(id, number)), [Ok(()), Ok(()), Err(3), Ok(())]);
        sessions.touch(id, start).expect("it is known");
        assert_eq!(sessions.advance(id, 3), Err(4), "a touch forgets nothing");
    }

    #[test]
    fn their_number_is_bounded() {
        let (sessions, start) = (LogicalSessions::new(2 * SHARDS), Instant::now());
        let [first, second, third] =
            [0, 1, 2].map(|byte| LogicalSessionId::of_nobody([byte * SHARDS as u8; 16]));
        sessions.touch(first, start).expect("room");
        sessions.touch(second, start).expect("room");
        let refused = sessions.touch(third, start).expect_err("a third one of the same share");
        assert_eq!(refused.code, 261);
        sessions.touch(first, start).expect("it is known");
        assert!(sessions.end(second));
        sessions.touch(third, start).expect("room again");
    }

    #[test]
    fn each_owner_has_its_own_session_of_a_name() {
        let (sessions, start) = (LogicalSessions::new(1000), Instant::now());
        let nobodys = LogicalSessionId::of_nobody([1; 16]);
        let owned = LogicalSessionId { owner: SessionOwner([9; 32]), ..nobodys };
        sessions.touch(nobodys, start).expect("room");
        sessions.touch(owned, start).expect("room");
        assert_eq!([nobodys, owned].map(|id| sessions.advance(id, 3)), [Ok(()), Ok(())]);
        assert_eq!(sessions.advance(owned, 5), Ok(()));
        assert_eq!(sessions.advance(nobodys, 4), Ok(()), "another one's number is not its own");
        assert!(sessions.end(owned));
        assert_eq!(sessions.all(), [nobodys]);
        let mut bytes = Vec::new();
        owned.append_whole_to(&mut DocumentBuilder::new(&mut bytes));
        assert_eq!(LogicalSessionId::parse(RawDocument::trusted(&bytes), "lsid").expect("valid"), owned);
        let short = parse_owner(RawValue::Binary { subtype: 0, bytes: &[9; 31] }, "lsid");
        assert_eq!(short.map_err(|error| error.code), Err(wire::ErrorCode::UnsupportedFormat as i32));
    }

    #[test]
    fn identifiers_are_uuids() {
        let text = document::doc_buf! { "id": "x" };
        let error = LogicalSessionId::parse(text.as_raw(), "lsid").expect_err("a string is no UUID");
        assert_eq!(
            &*error.message,
            "BSON field 'lsid.id' is the wrong type 'string', expected type 'binData'"
        );
        let mut bytes = Vec::new();
        let id = LogicalSessionId::random(SessionOwner::NOBODY);
        id.append_to(&mut DocumentBuilder::new(&mut bytes));
        assert_eq!(LogicalSessionId::parse(RawDocument::trusted(&bytes), "lsid").expect("valid"), id);
    }
}
