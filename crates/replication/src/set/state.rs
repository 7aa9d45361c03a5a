//! What all members know of their set, and how it travels: as an operation that changes no data.
//!
//! ```text
//!  { op: "n", o: { msg: "Reconfig set", config: <as rs.conf() shows it>, numbers: { <_id>: <number> }, next,
//!                  disks: { <_id>: <of which disk the number is> }, leaving: { <number>: <host> } } }
//! ```
//! A number belongs to one disk for ever: what was promised under it is on that disk, and nowhere else.

use crate::entry::MemberId;
use crate::set::{ReplSetConfig, SetError};
use document::{Document, DocumentBuf, ObjectId, RawDocument, RawValue, Value};
use std::collections::BTreeMap;
use wire::ErrorCode;

/// The number of the member that initiates a set, which is its only voter at first.
pub(crate) const FIRST_NUMBER: MemberId = 1;

/// The configuration, and under which numbers its members vote.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SetState {
    pub(crate) config: ReplSetConfig,
    /// By `_id`.
    numbers: BTreeMap<i32, MemberId>,
    /// By `_id`, as soon as a member has told it. Who has not belongs to no majority.
    disks: BTreeMap<i32, ObjectId>,
    /// Where those are that the configuration does not have any more and the consensus may still have: until
    /// it has not, their votes may be needed.
    leaving: BTreeMap<MemberId, String>,
    /// Never given before.
    next: MemberId,
}

impl SetState {
    /// Of a new set; `own` is the `_id` of the member that initiates it, with this disk.
    pub(crate) fn initial(config: ReplSetConfig, own: i32, disk: ObjectId) -> Self {
        let (numbers, disks) = (BTreeMap::from([(own, FIRST_NUMBER)]), BTreeMap::from([(own, disk)]));
        let leaving = BTreeMap::new();
        SetState { config, numbers, disks, leaving, next: FIRST_NUMBER + 1 }.with_numbers()
    }

    /// With another configuration, whose new members get numbers; `members` are those of the consensus.
    pub(crate) fn with_config(&self, config: ReplSetConfig, members: &[MemberId]) -> Self {
        let mut state = self.clone();
        for member in self.config.members.iter().filter(|member| config.member(member.id).is_none()) {
            state.leaving.insert(self.number(member.id), member.host.clone());
        }
        state.leaving.retain(|number, _| members.contains(number));
        SetState { config, ..state }.with_numbers()
    }

    /// With another configuration, for a set that goes on from one member alone: what the others have
    /// promised, and to whom their numbers belonged, counts no more.
    pub(crate) fn forced(&self, config: ReplSetConfig, own: i32) -> Self {
        let mut state = SetState { config, ..self.clone() };
        state.numbers.retain(|id, _| *id == own);
        state.disks.retain(|id, _| *id == own);
        state.leaving.clear();
        state.with_numbers()
    }

    fn with_numbers(mut self) -> Self {
        let config = &self.config;
        self.numbers.retain(|id, _| config.member(*id).is_some());
        self.disks.retain(|id, _| config.member(*id).is_some());
        for member in &config.members {
            self.numbers.entry(member.id).or_insert_with(|| {
                let number = self.next;
                self.next += 1;
                number
            });
        }
        self
    }

    /// With what a member has told of its disk; `None` where that changes nothing, or cannot be: the disk is
    /// that of another member, whose files were copied or whose host has two names.
    pub(crate) fn with_disk(&self, id: i32, disk: ObjectId) -> Option<Self> {
        if self.config.member(id).is_none() || self.disks.values().any(|known| *known == disk) {
            return None;
        }
        let mut state = self.clone();
        if state.disks.insert(id, disk).is_some() {
            // What was promised under the number is on the disk that is gone.
            state.numbers.remove(&id);
        }
        Some(state.with_numbers())
    }

    /// The disk to which a number was given.
    pub(crate) fn disk(&self, number: MemberId) -> Option<ObjectId> {
        let (id, _) = self.numbers.iter().find(|(_, known)| **known == number)?;
        self.disks.get(id).copied()
    }

    /// Under which number the member of this `_id` votes.
    pub(crate) fn number(&self, id: i32) -> MemberId {
        *self.numbers.get(&id).expect("every member of the configuration has a number")
    }

    /// The place in `config.members` of the member with this number.
    pub(crate) fn place(&self, number: MemberId) -> Option<usize> {
        self.config.members.iter().position(|member| self.numbers.get(&member.id) == Some(&number))
    }

    /// The member with this number and the one that is a server at one of these hosts, where these are two:
    /// the server's directory is a copy of the other one's.
    pub(crate) fn owner_of_copy(&self, number: MemberId, hosts: &[String]) -> Option<(&str, &str)> {
        let owner =
            self.config.members.get(self.place(number)?).filter(|owner| !hosts.contains(&owner.host))?;
        let own = self.config.members.iter().find(|member| hosts.contains(&member.host))?;
        Some((&owner.host, &own.host))
    }

    /// Where the member with this number is.
    pub(crate) fn host(&self, number: MemberId) -> Option<&str> {
        let configured = self.place(number).and_then(|place| self.config.members.get(place));
        configured.map(|member| &member.host).or_else(|| self.leaving.get(&number)).map(String::as_str)
    }

    /// Whether the member with this number is an arbiter.
    pub(crate) fn is_arbiter(&self, number: MemberId) -> bool {
        let member = self.place(number).and_then(|place| self.config.members.get(place));
        member.is_some_and(|member| member.arbiter_only)
    }

    /// Who is not in the configuration any more, and may still be in the consensus.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = MemberId> {
        self.leaving.keys().copied()
    }

    /// What the operation says.
    pub(crate) fn to_note(&self) -> DocumentBuf {
        let mut note = Document::new();
        note.push("msg", "Reconfig set");
        note.push("version", self.config.version);
        note.push("config", self.config.to_document());
        let numbers = self.numbers.iter();
        let numbers = numbers.map(|(id, number)| (id.to_string(), Value::from(*number as i64)));
        note.push("numbers", numbers.collect::<Document>());
        note.push("next", self.next as i64);
        let disks = self.disks.iter().map(|(id, disk)| (id.to_string(), Value::from(*disk)));
        note.push("disks", disks.collect::<Document>());
        let leaving = self.leaving.iter();
        let leaving = leaving.map(|(number, host)| (number.to_string(), Value::from(host.as_str())));
        note.push("leaving", leaving.collect::<Document>());
        note.to_buf()
    }

    /// Reads what an operation says; `None` where it says something else.
    pub(crate) fn of_note(note: RawDocument<'_>) -> Option<Result<Self, SetError>> {
        let (config, numbers) = (note.get("config")?.as_document()?, note.get("numbers")?.as_document()?);
        Some(Self::read(note, config, numbers))
    }

    fn read(
        note: RawDocument<'_>,
        config: RawDocument<'_>,
        numbers: RawDocument<'_>,
    ) -> Result<Self, SetError> {
        let damaged =
            || SetError::new(ErrorCode::InvalidReplicaSetConfig, "malformed state of the replica set");
        let whole =
            |value: RawValue<'_>| value.as_i64_exact().filter(|number| *number > 0).map(i64::unsigned_abs);
        let config = ReplSetConfig::parse(config)?;
        let mut by_id = BTreeMap::new();
        for element in numbers {
            let id = element.name().parse().map_err(|_| damaged())?;
            by_id.insert(id, whole(element.value()).ok_or_else(damaged)?);
        }
        let next = note.get("next").and_then(whole).ok_or_else(damaged)?;
        let mut disks = BTreeMap::new();
        for element in note.get("disks").and_then(RawValue::as_document).into_iter().flatten() {
            let RawValue::ObjectId(disk) = element.value() else { return Err(damaged()) };
            disks.insert(element.name().parse().map_err(|_| damaged())?, disk);
        }
        let mut leaving = BTreeMap::new();
        for element in note.get("leaving").and_then(RawValue::as_document).into_iter().flatten() {
            let host = element.value().as_str().ok_or_else(damaged)?.to_owned();
            leaving.insert(element.name().parse().map_err(|_| damaged())?, host);
        }
        let are_all = config.members.iter().all(|member| by_id.contains_key(&member.id));
        let are_given = by_id.values().all(|number| *number < next);
        if !are_all || !are_given {
            return Err(damaged());
        }
        Ok(SetState { config, numbers: by_id, disks, leaving, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::doc;

    fn config(members: &[i32]) -> ReplSetConfig {
        let members =
            members.iter().map(|id| Value::from(doc! { "_id": (*id), "host": (format!("h{id}:1")) }));
        let members: Vec<Value> = members.collect();
        let config = doc! { "_id": "rs", "version": 1, "members": (members) };
        ReplSetConfig::parse(config.to_buf().as_raw()).unwrap()
    }

    #[test]
    fn numbers_are_given_once() {
        let state = SetState::initial(config(&[5, 6]), 6, disk(6));
        assert_eq!((state.number(6), state.number(5)), (1, 2));
        let without = state.with_config(config(&[6]), &[]);
        assert_eq!(without.place(2), None);
        let again = without.with_config(config(&[5, 6]), &[]);
        assert_eq!((again.number(6), again.number(5)), (1, 3), "who comes back is another voter");
        assert_eq!(again.place(3), Some(0));
    }

    fn disk(number: u8) -> ObjectId {
        ObjectId::from_bytes([number; 12])
    }

    #[test]
    fn a_number_belongs_to_one_disk() {
        let state = SetState::initial(config(&[0, 1]), 0, disk(7));
        assert_eq!((state.disk(1), state.disk(2)), (Some(disk(7)), None));
        let state = state.with_disk(1, disk(8)).unwrap();
        assert_eq!((state.number(1), state.disk(2)), (2, Some(disk(8))), "its first disk, the first number");
        assert_eq!(state.with_disk(1, disk(8)), None, "known");
        assert_eq!(state.with_disk(1, disk(7)), None, "of another member");
        assert_eq!(state.with_disk(9, disk(9)), None, "of nobody");
        let state = state.with_disk(1, disk(9)).unwrap();
        assert_eq!((state.number(1), state.disk(2), state.disk(3)), (3, None, Some(disk(9))));
        // Removed and added with its data: another number for the same disk.
        let state = state.with_config(config(&[0]), &[]).with_config(config(&[0, 1]), &[]);
        assert_eq!((state.number(1), state.disk(4)), (4, None));
        assert_eq!(state.with_disk(1, disk(9)).unwrap().disk(4), Some(disk(9)));
    }

    #[test]
    fn who_is_removed_is_reached_as_long_as_its_vote_counts() {
        let state = SetState::initial(config(&[0, 1, 2]), 0, disk(0));
        let without = state.with_config(config(&[0, 1]), &[1, 2, 3]);
        assert_eq!((without.place(3), without.host(3)), (None, Some("h2:1")));
        assert_eq!(without.leaving().collect::<Vec<_>>(), [3]);
        let later = without.with_config(config(&[0]), &[1, 2]);
        assert_eq!((later.host(3), later.host(2)), (None, Some("h1:1")));
    }

    #[test]
    fn a_state_survives_its_note() {
        let state = SetState::initial(config(&[0, 1, 2, 3]), 0, disk(0)).with_disk(2, disk(2)).unwrap();
        let state = state.with_config(config(&[0, 1, 2]), &[1, 2, 3, 4]);
        assert_eq!(SetState::of_note(state.to_note().as_raw()), Some(Ok(state)));
        assert_eq!(SetState::of_note(doc! { "msg": "new primary" }.to_buf().as_raw()), None);
    }
}
