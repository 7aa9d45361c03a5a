//! What a member keeps for itself beside its log: who it is, up to where its data are, who belongs to the
//! set.

use super::records::failed;
use crate::entry::{LogIndex, LogPosition, MemberId};
use crate::log::{Checkpoint, LogError};
use crate::membership::Membership;
use document::{DocumentBuf, DocumentBuilder, ObjectId, RawDocument, RawValue, doc};
use storage::{Keyspace, ReadView, Store, WriteUnit};

const IDENTITY: &[u8] = b"ri";
const APPLIED: &[u8] = b"ra";
const SET_STATE: &[u8] = b"rc";
const DISK: &[u8] = b"rd";
const BEGUN: &[u8] = b"rb";

/// An applied mark has about so many bytes.
const MARK_BYTES: usize = 256;

/// Who a member is. It belongs to the same set as long as the disk is the same; a member that was removed and
/// added again gets another number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name of the set, `--replSet`.
    pub set_name: String,
    /// Tells this set from others of its name: `settings.replicaSetId`.
    pub set_id: ObjectId,
    /// Its own number in the consensus.
    pub number: MemberId,
    /// Of what all members have begun with.
    pub genesis: u64,
    /// The set began with data that this member did not have: it begins with a copy.
    pub needs_copy: bool,
    /// Up to there this member alone has decided what is in the log, and who had a vote does not count:
    /// the set was forced to go on without its majority.
    pub forced_through: LogIndex,
    /// It votes and has no data. A disk stays what it is: where nothing was applied nobody may look for data.
    pub is_arbiter: bool,
}

impl Identity {
    /// Whether data of this place are from before the member was forced to go on alone.
    pub(crate) fn is_forced_after(&self, index: LogIndex) -> bool {
        self.forced_through > 0 && index <= self.forced_through
    }
}

/// Reads and writes these; writes go into a unit of the caller's.
#[derive(Debug, Clone)]
pub struct LocalState {
    store: Store,
}

impl LocalState {
    /// Of the member whose store this is.
    pub fn new(store: Store) -> Self {
        LocalState { store }
    }

    fn read(&self, key: &[u8]) -> Result<Option<DocumentBuf>, LogError> {
        Self::read_in(&self.store.read_view(), key)
    }

    fn read_in(view: &ReadView, key: &[u8]) -> Result<Option<DocumentBuf>, LogError> {
        let found = view.get(Keyspace::Meta, key).map_err(failed)?;
        let parsed = found.map(|bytes| RawDocument::parse(&bytes).map(RawDocument::to_buf));
        parsed.transpose().map_err(failed)
    }

    /// Who this member is; `None` before it belongs to a set.
    ///
    /// # Errors
    /// Damage; what the store reports.
    pub fn identity(&self) -> Result<Option<Identity>, LogError> {
        self.read(IDENTITY)?.map(|document| decode_identity(document.as_raw())).transpose()
    }

    /// Stores who this member is.
    pub fn put_identity(unit: &mut WriteUnit, identity: &Identity) {
        let document = doc! {
            "set": (identity.set_name.as_str()), "setId": (identity.set_id),
            "number": (number(identity.number)), "genesis": (number(identity.genesis)),
            "needsCopy": (identity.needs_copy), "forcedThrough": (number(identity.forced_through)),
            "arbiter": (identity.is_arbiter),
        };
        unit.put(Keyspace::Meta, IDENTITY, document.to_buf().as_bytes());
    }

    /// What tells this disk from every other one; `None` before it was written.
    ///
    /// # Errors
    /// Damage; what the store reports.
    pub fn disk(&self) -> Result<Option<ObjectId>, LogError> {
        let decode = |document: DocumentBuf| match document.as_raw().get("disk") {
            Some(RawValue::ObjectId(disk)) => Ok(disk),
            _ => Err(failed("the name of the member's disk is damaged")),
        };
        self.read(DISK)?.map(decode).transpose()
    }

    /// Stores that.
    pub fn put_disk(unit: &mut WriteUnit, disk: ObjectId) {
        unit.put(Keyspace::Meta, DISK, doc! { "disk": disk }.to_buf().as_bytes());
    }

    /// Up to where the log is applied in the data.
    ///
    /// # Errors
    /// Damage; what the store reports.
    pub fn applied(&self) -> Result<Option<Checkpoint>, LogError> {
        Self::applied_in(&self.store.read_view())
    }

    /// Up to where it is applied in a view.
    ///
    /// # Errors
    /// As above.
    pub fn applied_in(view: &ReadView) -> Result<Option<Checkpoint>, LogError> {
        Self::read_in(view, APPLIED)?.map(|document| decode_checkpoint(document.as_raw())).transpose()
    }

    /// Stores that, in the unit that applies the last of it.
    pub fn put_applied(unit: &mut WriteUnit, applied: &Checkpoint) {
        let Checkpoint { position, timestamp, membership } = applied;
        let mut bytes = Vec::with_capacity(MARK_BYTES);
        let mut document = DocumentBuilder::new(&mut bytes);
        document.append("t", number(position.term)).append("index", number(position.index));
        document.append("ts", *timestamp);
        let Membership { voters, learners, voters_outgoing, learners_next } = membership;
        for (name, members) in [
            ("voters", voters),
            ("learners", learners),
            ("votersOutgoing", voters_outgoing),
            ("learnersNext", learners_next),
        ] {
            let mut list = document.start_array(name);
            for member in members {
                list.push(number(*member));
            }
        }
        document.finish();
        unit.put(Keyspace::Meta, APPLIED, &bytes);
    }

    /// Up to where a batch was begun: before the mark is there, a part of it may be in the data.
    ///
    /// # Errors
    /// Damage; what the store reports.
    pub fn begun(&self) -> Result<LogIndex, LogError> {
        let begun = self.read(BEGUN)?;
        Ok(begun.map(|begun| counted(begun.as_raw().get("index"), "index")).transpose()?.unwrap_or(0))
    }

    /// Stores that, before anything of the batch.
    pub fn put_begun(unit: &mut WriteUnit, through: LogIndex) {
        unit.put(Keyspace::Meta, BEGUN, doc! { "index": (number(through)) }.to_buf().as_bytes());
    }

    /// The state of the set as it was applied last: its configuration and the numbers of its members.
    ///
    /// # Errors
    /// Damage; what the store reports.
    pub fn set_state(&self) -> Result<Option<DocumentBuf>, LogError> {
        self.read(SET_STATE)
    }

    /// Stores that.
    pub fn put_set_state(unit: &mut WriteUnit, state: RawDocument<'_>) {
        unit.put(Keyspace::Meta, SET_STATE, state.as_bytes());
    }
}

/// Counted from 1: none comes near the sign.
fn number(number: u64) -> i64 {
    i64::try_from(number).expect("a number that is counted")
}

fn counted(value: Option<RawValue<'_>>, name: &str) -> Result<u64, LogError> {
    let number = value.and_then(RawValue::as_i64_exact).and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| failed(format!("the local state of the member has no '{name}'")))
}

fn decode_identity(document: RawDocument<'_>) -> Result<Identity, LogError> {
    let fields = (document.get("set"), document.get("setId"), document.get("needsCopy"));
    let (Some(RawValue::String(set)), Some(RawValue::ObjectId(set_id)), Some(RawValue::Boolean(needs_copy))) =
        fields
    else {
        return Err(failed("the identity of the member is damaged"));
    };
    // What older members have not written is not there; what is there is whole.
    let forced_through = match document.get("forcedThrough") {
        None => 0,
        given => counted(given, "forcedThrough")?,
    };
    let is_arbiter = match document.get("arbiter") {
        None => false,
        Some(RawValue::Boolean(is_arbiter)) => is_arbiter,
        Some(_) => return Err(failed("the identity of the member is damaged")),
    };
    Ok(Identity {
        set_name: set.to_owned(),
        set_id,
        number: counted(document.get("number"), "number")?,
        genesis: counted(document.get("genesis"), "genesis")?,
        needs_copy,
        forced_through,
        is_arbiter,
    })
}

fn decode_checkpoint(document: RawDocument<'_>) -> Result<Checkpoint, LogError> {
    let members = |name: &str| {
        let list = document.get(name).and_then(RawValue::as_array);
        let list = list.ok_or_else(|| failed(format!("the applied mark has no '{name}'")))?;
        list.iter().map(|member| counted(Some(member), name)).collect::<Result<Vec<_>, _>>()
    };
    let Some(RawValue::Timestamp(timestamp)) = document.get("ts") else {
        return Err(failed("the applied mark has no 'ts'"));
    };
    let position = LogPosition {
        term: counted(document.get("t"), "t")?,
        index: counted(document.get("index"), "index")?,
    };
    let membership = Membership {
        voters: members("voters")?,
        learners: members("learners")?,
        voters_outgoing: members("votersOutgoing")?,
        learners_next: members("learnersNext")?,
    };
    Ok(Checkpoint { position, timestamp, membership })
}
