//! What members send each other: messages of the consensus, with what tells whether they are for this set and
//! disk.

use crate::entry::{LogIndex, MemberId};
use crate::message::RaftMessage;
use crate::set::arbiter::ArbiterWord;
use crate::set::chain::ChainWord;
use crate::set::freshness::{Claim, Stamps};
use document::{DocumentBuf, DocumentBuilder, ObjectId, RawDocument, RawValue};

/// Bytes of messages in one envelope, unless one alone has more.
const BYTES_MAX: usize = 8 << 20;

/// Of the name of a set, and of a name and a port: what is longer is nobody's, and would be kept.
const NAME_BYTES_MAX: usize = 1 << 10;

/// Who sends or receives an envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) number: MemberId,
    pub(crate) host: String,
}

/// Messages from one member to another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Envelope {
    pub(crate) set_name: String,
    pub(crate) set_id: ObjectId,
    pub(crate) from: Address,
    pub(crate) to: Address,
    /// Whether the set had data before it was initiated, which are not in its log.
    pub(crate) needs_copy: bool,
    /// The disk to which the receiver's number was given: who has it may take the number.
    pub(crate) disk: Option<ObjectId>,
    /// Whether the sender wants to be primary where it may.
    pub(crate) electable: bool,
    /// By which the receiver knows how old its data may be.
    pub(crate) stamps: Stamps,
    /// Up to where the sender has applied the log.
    pub(crate) applied: Option<LogIndex>,
    pub(crate) chain: ChainWord,
    /// Where the receiver is an arbiter.
    pub(crate) arbiter: Option<ArbiterWord>,
    pub(crate) messages: Vec<RaftMessage>,
}

/// An entry fits into a command with all that is beside it.
const _: () = assert!(storage::ENTRY_BYTES_MAX + (4 << 10) <= wire::MAX_COMMAND_SIZE);

/// The name of the command.
pub(crate) const COMMAND: &str = "_heddleConsensus";

impl Envelope {
    /// As commands, each short enough for one message of the wire.
    pub(crate) fn encode(&self) -> Vec<DocumentBuf> {
        let messages: Vec<Vec<u8>> = self.messages.iter().map(RaftMessage::encode).collect();
        let mut commands = Vec::new();
        let mut rest = messages.as_slice();
        loop {
            let mut bytes = 0;
            let fits = |message: &&Vec<u8>| {
                bytes += message.len();
                bytes <= BYTES_MAX
            };
            let count = rest.iter().take_while(fits).count().max(1).min(rest.len());
            let (now, later) = rest.split_at(count);
            commands.push(self.command(now));
            rest = later;
            if rest.is_empty() {
                return commands;
            }
        }
    }

    fn command(&self, messages: &[Vec<u8>]) -> DocumentBuf {
        let mut bytes =
            Vec::with_capacity(512 + messages.iter().map(|message| message.len() + 16).sum::<usize>());
        let mut builder = DocumentBuilder::new(&mut bytes);
        builder.append(COMMAND, 1).append("$db", "admin").append("set", self.set_name.as_str());
        builder.append("setId", self.set_id);
        for (field, address) in [("from", &self.from), ("to", &self.to)] {
            let mut to = builder.start_document(field);
            to.append("number", address.number as i64).append("host", address.host.as_str());
        }
        builder.append("needsCopy", self.needs_copy);
        if let Some(disk) = self.disk {
            builder.append("disk", disk);
        }
        builder.append("electable", self.electable);
        if let Some(applied) = self.applied {
            builder.append("applied", applied as i64);
        }
        let Stamps { term, stamp, echo, asks, claim } = self.stamps;
        builder.append("term", term as i64).append("stamp", stamp).append("echo", echo).append("asks", asks);
        if let Some(Claim { committed, age_us }) = claim {
            builder.append("committed", committed as i64).append("age", age_us);
        }
        self.chain.write(&mut builder);
        if let Some(word) = &self.arbiter {
            word.write(&mut builder);
        }
        let mut array = builder.start_array("m");
        for message in messages {
            array.push(RawValue::Binary { subtype: 0, bytes: message });
        }
        drop(array);
        builder.finish();
        DocumentBuf::trusted(bytes)
    }

    /// Reads a command of another member; what is wrong with it otherwise.
    pub(crate) fn decode(command: RawDocument<'_>) -> Result<Self, String> {
        let malformed = |field: &str| format!("malformed '{field}' of {COMMAND}");
        let text = |document: RawDocument<'_>, field: &str| {
            let text = document.get(field).and_then(RawValue::as_str);
            let text = text.filter(|text| text.len() <= NAME_BYTES_MAX).map(str::to_owned);
            text.ok_or_else(|| malformed(field))
        };
        let truth = |field: &str| match command.get(field) {
            Some(RawValue::Boolean(truth)) => Ok(truth),
            _ => Err(malformed(field)),
        };
        let number = |field: &str| {
            let number = command.get(field).and_then(RawValue::as_i64_exact);
            number.filter(|number| *number >= 0).ok_or_else(|| malformed(field))
        };
        let claim = match command.contains("committed") {
            true => Some(Claim { committed: number("committed")?.unsigned_abs(), age_us: number("age")? }),
            false => None,
        };
        let stamps = Stamps {
            term: number("term")?.unsigned_abs(),
            stamp: number("stamp")?,
            echo: number("echo")?,
            asks: truth("asks")?,
            claim,
        };
        let address = |field: &str| -> Result<Address, String> {
            let address =
                command.get(field).and_then(RawValue::as_document).ok_or_else(|| malformed(field))?;
            let number = address.get("number").and_then(RawValue::as_i64_exact);
            let number = number.filter(|number| *number > 0).ok_or_else(|| malformed(field))?;
            Ok(Address { number: number.unsigned_abs(), host: text(address, "host")? })
        };
        let Some(RawValue::ObjectId(set_id)) = command.get("setId") else { return Err(malformed("setId")) };
        let Some(RawValue::Array(messages)) = command.get("m") else { return Err(malformed("m")) };
        let message = |message: RawValue<'_>| match message {
            RawValue::Binary { bytes, .. } => RaftMessage::decode(bytes).map_err(|error| error.to_string()),
            _ => Err(malformed("m")),
        };
        Ok(Envelope {
            set_name: text(command, "set")?,
            set_id,
            from: address("from")?,
            to: address("to")?,
            needs_copy: truth("needsCopy")?,
            disk: match command.get("disk") {
                None => None,
                Some(RawValue::ObjectId(disk)) => Some(disk),
                Some(_) => return Err(malformed("disk")),
            },
            electable: truth("electable")?,
            stamps,
            applied: command.get("applied").and_then(RawValue::as_i64_exact).map(i64::unsigned_abs),
            chain: ChainWord::read(command),
            arbiter: ArbiterWord::read(command),
            messages: messages.iter().map(message).collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raft::eraftpb;

    fn envelope(sizes: &[usize]) -> Envelope {
        let message = |size: &usize| {
            let mut message = eraftpb::Message::new();
            message.set_msg_type(eraftpb::MessageType::MsgHeartbeat);
            (message.from, message.to) = (1, 2);
            message.context = vec![7; *size].into();
            RaftMessage(message)
        };
        let address = |number, host: &str| Address { number, host: host.to_owned() };
        Envelope {
            set_name: "rs".to_owned(),
            set_id: ObjectId::from_bytes([3; 12]),
            from: address(1, "a:1"),
            to: address(2, "b:1"),
            needs_copy: false,
            disk: Some(ObjectId::from_bytes([4; 12])),
            electable: true,
            stamps: Stamps { claim: Some(Claim { committed: 9, age_us: 3 }), stamp: 8, ..Stamps::default() },
            applied: Some(3),
            chain: ChainWord::default(),
            arbiter: Some(ArbiterWord { trims_through: 3, state: None }),
            messages: sizes.iter().map(message).collect(),
        }
    }

    #[test]
    fn an_envelope_survives_its_bytes() {
        for sizes in [&[][..], &[3], &[0, 100, 5]] {
            let envelope = envelope(sizes);
            let [command] = &envelope.encode()[..] else { panic!("one command for {sizes:?}") };
            assert_eq!(Envelope::decode(command.as_raw()), Ok(envelope));
        }
    }

    #[test]
    fn long_envelopes_are_cut() {
        let sizes = [5 << 20, 2 << 20, 2 << 20, 9 << 20, 1];
        let commands = envelope(&sizes).encode();
        let decoded = commands.iter().map(|command| Envelope::decode(command.as_raw()).unwrap());
        let counts: Vec<usize> = decoded.map(|envelope| envelope.messages.len()).collect();
        assert_eq!(counts, [2, 1, 1, 1]);
    }

    #[test]
    fn what_is_no_envelope_is_refused() {
        let whole = envelope(&[1]).encode().remove(0);
        for field in ["set", "setId", "from", "to", "needsCopy", "electable", "m", "stamp", "age"] {
            let rest: document::Document = whole
                .as_raw()
                .into_iter()
                .filter(|element| element.name() != field)
                .map(|element| (element.name(), element.value().to_value()))
                .collect();
            assert!(Envelope::decode(rest.to_buf().as_raw()).is_err(), "without {field}");
        }
        let (mut host, mut name) = (envelope(&[1]), envelope(&[1]));
        host.from.host = "x".repeat(NAME_BYTES_MAX + 1);
        name.set_name = "x".repeat(NAME_BYTES_MAX + 1);
        assert!([host, name].iter().all(|long| Envelope::decode(long.encode()[0].as_raw()).is_err()));
    }
}
