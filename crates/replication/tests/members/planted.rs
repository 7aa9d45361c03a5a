//! Faults of the product that are planted from outside: each must be found.

use crate::world::{Event, World};
use catalog::Catalog;
use document::{DocumentBuf, RawValue, Value};
use protobuf::Message as _;
use raft::eraftpb::{self, MessageType};
use replication::oplog::{Applier, OplogEntry};
use replication::retryable::RetryTable;
use replication::{HardState, Log as _, LogOptions, LogWrite, StoreLog};
use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

/// What can be planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A sync is reported that has not been.
    ForgottenSync,
    /// A member that starts does not know for whom it has voted.
    ForgottenVote,
    /// The leader is told that others have what they do not.
    AcknowledgedBeforeMajority,
    /// Readers are shown a part of a batch.
    PublishedEarly,
    /// An operation is applied again when later ones have been.
    AppliedTwice,
    /// A read does not ask whether the leader still is one.
    StaleRead,
    /// What a full disk refuses of who applies is taken for written.
    BelievedFullDisk,
}

/// Raft's messages in an envelope.
pub(crate) fn messages(envelope: &DocumentBuf) -> Vec<eraftpb::Message> {
    let Some(RawValue::Array(messages)) = envelope.as_raw().get("m") else { return Vec::new() };
    let message = |message: RawValue<'_>| match message {
        RawValue::Binary { bytes, .. } => eraftpb::Message::parse_from_bytes(bytes).ok(),
        _ => None,
    };
    messages.iter().filter_map(message).collect()
}

/// Whether somebody gets a vote by it.
pub(crate) fn gives_vote(envelope: &DocumentBuf) -> bool {
    let gives = |message: &eraftpb::Message| {
        message.get_msg_type() == MessageType::MsgRequestVoteResponse && !message.reject
    };
    messages(envelope).iter().any(gives)
}

impl World {
    /// Elections that overlap, and voters that die when they have voted: whoever forgets a vote votes twice.
    pub(crate) fn have_elections(&mut self) {
        self.network.change(&mut self.random);
        self.nodes.iter_mut().for_each(|node| node.dies_with_vote = true);
        if let Some(leader) = self.leader() {
            self.crash(leader);
        }
    }

    /// Tells the leader that the receiver has what it is only being sent.
    pub(crate) fn forge_answer(&mut self, from: usize, envelope: &DocumentBuf) {
        let mut answer = envelope.as_raw().to_document();
        let mut forged = Vec::new();
        for message in messages(envelope) {
            let Some(last) =
                message.entries.last().filter(|_| message.get_msg_type() == MessageType::MsgAppend)
            else {
                continue;
            };
            let mut reply = eraftpb::Message::new();
            reply.set_msg_type(MessageType::MsgAppendResponse);
            (reply.from, reply.to, reply.term, reply.index) =
                (message.to, message.from, message.term, last.index);
            forged.push(Value::binary(0, reply.write_to_bytes().unwrap()));
        }
        if forged.is_empty() {
            return;
        }
        let (sender, receiver) = (answer.get("from").cloned().unwrap(), answer.get("to").cloned().unwrap());
        answer.insert("from", receiver);
        answer.insert("to", sender);
        answer.insert("m", forged);
        self.at(Duration::from_micros(50), from, Event::Deliver(answer.to_buf()));
    }
}

/// The member keeps the term, but not its vote in it.
pub(crate) fn forget_vote(catalog: &Arc<Catalog>) {
    if catalog.collection("local", "oplog.rs").is_none() {
        return;
    }
    let mut log = StoreLog::open(catalog, LogOptions::default()).expect("a whole log");
    let hard_state = Some(HardState { vote: 0, ..log.hard_state() });
    log.write(LogWrite { hard_state, ..LogWrite::default() }).expect("a log in memory");
}

/// Applies some earlier update once more.
pub(crate) fn apply_again(catalog: &Arc<Catalog>, sessions: &RetryTable) {
    let Some(oplog) = catalog.collection("local", "oplog.rs") else { return };
    let view = catalog.store().read_view();
    let (forward, options) = (storage::Direction::Forward, storage::CursorOptions::default());
    let mut cursor = oplog.documents(&view, Default::default(), forward, options).expect("a cursor");
    while let Ok(Some((_, entry))) = cursor.next() {
        if entry.get("op").and_then(RawValue::as_str) == Some("u") {
            let entry = OplogEntry::decode(entry.as_bytes()).expect("an entry");
            let receipts = catalog::Receipts::default();
            let context = catalog::OperationContext::writing(catalog.store(), &receipts);
            let applier = Applier::new(catalog, sessions, context);
            let mut applied = pin!(applier.apply(&entry));
            let _ = applied.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            return;
        }
    }
}
