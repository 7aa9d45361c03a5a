//! Messages between members, as bytes.

use crate::entry::{MemberId, Term};
use protobuf::Message as _;
use protobuf::wire_format::WireType;
use raft::eraftpb::{self, MessageType};

/// What one member tells another one. It may be lost, delayed, doubled and overtaken.
#[derive(Debug, Clone, PartialEq)]
pub struct RaftMessage(pub(crate) eraftpb::Message);

/// An answer to who wants to be elected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Vote {
    pub(crate) term: Term,
    pub(crate) is_granted: bool,
}

/// Bytes that are no message.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected a message between members of a replica set: {0}")]
pub struct MessageError(&'static str);

impl RaftMessage {
    /// Who sent it.
    pub fn from(&self) -> MemberId {
        self.0.from
    }

    /// Who is to have it.
    pub fn to(&self) -> MemberId {
        self.0.to
    }

    /// Whether its sender hands the leadership over to its receiver.
    pub(crate) fn hands_over(&self) -> bool {
        self.0.get_msg_type() == MessageType::MsgTimeoutNow
    }

    /// The vote that it gives or refuses.
    pub(crate) fn vote(&self) -> Option<Vote> {
        let is_vote = self.0.get_msg_type() == MessageType::MsgRequestVoteResponse;
        is_vote.then_some(Vote { term: self.0.term, is_granted: !self.0.reject })
    }

    /// Whether it brings a follower's log forward.
    pub(crate) fn appends(&self) -> bool {
        self.0.get_msg_type() == MessageType::MsgAppend
    }

    /// Whether it says that the leader's log does not go back to the receiver's.
    pub(crate) fn offers_place(&self) -> bool {
        self.0.get_msg_type() == MessageType::MsgSnapshot
    }

    /// Whether there are entries in it.
    pub(crate) fn has_entries(&self) -> bool {
        !self.0.entries.is_empty()
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        self.0.write_to_bytes().expect("every field of a message is set")
    }

    /// Reads a message of the network.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        without_groups(bytes, &MESSAGE)?;
        let message = eraftpb::Message::parse_from_bytes(bytes).map_err(|_| MessageError("malformed"))?;
        if !is_between_members(message.get_msg_type()) {
            return Err(MessageError("not of a kind that members send"));
        }
        if message.from == 0 || message.to == 0 {
            return Err(MessageError("no sender or no receiver"));
        }
        Ok(RaftMessage(message))
    }
}

/// The others are a member's own steps, or are asked of the leader by other ways.
fn is_between_members(kind: MessageType) -> bool {
    use MessageType::{
        MsgAppend, MsgAppendResponse, MsgHeartbeat, MsgHeartbeatResponse, MsgRequestPreVote,
        MsgRequestPreVoteResponse, MsgRequestVote, MsgRequestVoteResponse, MsgSnapshot, MsgTimeoutNow,
        MsgTransferLeader,
    };
    matches!(
        kind,
        MsgAppend
            | MsgAppendResponse
            | MsgHeartbeat
            | MsgHeartbeatResponse
            | MsgRequestPreVote
            | MsgRequestPreVoteResponse
            | MsgRequestVote
            | MsgRequestVoteResponse
            | MsgSnapshot
            | MsgTimeoutNow
            | MsgTransferLeader
    )
}

/// Whether an entry's data are a change of the members.
pub(crate) fn is_change(data: &[u8]) -> bool {
    let change =
        without_groups(data, &CHANGE).ok().and_then(|()| eraftpb::ConfChangeV2::parse_from_bytes(data).ok());
    change.is_some_and(|change| {
        change.changes.iter().all(|step| i64::try_from(step.node_id).is_ok_and(|number| number > 0))
    })
}

/// The fields of a message that are messages themselves.
struct Nested(&'static [(u32, Nested)]);

const PLAIN: Nested = Nested(&[]);
const CHANGE: Nested = Nested(&[(2, PLAIN)]);
const MESSAGE: Nested = Nested(&[(7, PLAIN), (9, Nested(&[(2, Nested(&[(1, PLAIN)]))]))]);

/// Refuses what the decoder would follow as deep as a sender likes: groups within groups (RUSTSEC-2024-0437).
/// No message here has any.
fn without_groups(bytes: &[u8], nested: &Nested) -> Result<(), MessageError> {
    let malformed = |_| MessageError("malformed");
    let mut stream = protobuf::CodedInputStream::from_bytes(bytes);
    while !stream.eof().map_err(malformed)? {
        let (field, kind) = stream.read_tag_unpack().map_err(malformed)?;
        match kind {
            WireType::WireTypeVarint => stream.read_raw_varint64().map(drop).map_err(malformed)?,
            WireType::WireTypeFixed64 => stream.skip_raw_bytes(8).map_err(malformed)?,
            WireType::WireTypeFixed32 => stream.skip_raw_bytes(4).map_err(malformed)?,
            WireType::WireTypeLengthDelimited => {
                let length = stream.read_raw_varint32().map_err(malformed)?;
                let from = stream.pos() as usize;
                stream.skip_raw_bytes(length).map_err(malformed)?;
                if let Some((_, inner)) = nested.0.iter().find(|(known, _)| *known == field) {
                    let inside = bytes.get(from..stream.pos() as usize).ok_or(MessageError("malformed"))?;
                    without_groups(inside, inner)?;
                }
            }
            WireType::WireTypeStartGroup | WireType::WireTypeEndGroup => {
                return Err(MessageError("groups are not used"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> RaftMessage {
        let mut message = eraftpb::Message::new();
        message.set_msg_type(MessageType::MsgAppend);
        (message.from, message.to, message.term) = (1, 2, 7);
        let mut entry = eraftpb::Entry::new();
        entry.data = b"data".as_slice().into();
        message.mut_entries().push(entry);
        message.mut_snapshot().mut_metadata().mut_conf_state().voters = vec![1, 2, 3];
        RaftMessage(message)
    }

    #[test]
    fn a_message_survives_its_bytes() {
        assert_eq!(RaftMessage::decode(&sample().encode()), Ok(sample()));
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error() {
        let bytes = sample().encode();
        for end in 0..bytes.len() {
            let _ = RaftMessage::decode(&bytes[..end]);
        }
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..20_000 {
            let mut bytes = bytes.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            let _ = RaftMessage::decode(&bytes);
        }
    }

    #[test]
    fn groups_without_end_are_refused() {
        // Field 100, a group, again and again: the decoder would call itself for each.
        let groups = [0xa3, 0x06].repeat(500_000);
        assert_eq!(RaftMessage::decode(&groups), Err(MessageError("groups are not used")));
        let mut inside = Vec::new();
        let mut stream = protobuf::CodedOutputStream::vec(&mut inside);
        stream.write_bytes(7, &groups).unwrap();
        stream.flush().unwrap();
        assert_eq!(RaftMessage::decode(&inside), Err(MessageError("groups are not used")));
    }

    #[test]
    fn what_members_do_not_send_is_refused() {
        let mut message = sample();
        message.0.set_msg_type(MessageType::MsgPropose);
        assert!(RaftMessage::decode(&message.encode()).is_err());
        message.0.set_msg_type(MessageType::MsgHeartbeat);
        message.0.from = 0;
        assert!(RaftMessage::decode(&message.encode()).is_err());
    }
}
