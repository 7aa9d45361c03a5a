//! Messages of members, and configurations of sets: what is read is written back as it was read.

use document::{Document, ObjectId, Value, doc};
use replication::RaftMessage;
use replication::set::ReplSetConfig;

use super::{HOLDS, Met, REFUSED};
use crate::generate;
use crate::source::Source;

pub(super) fn check(bytes: &[u8], met: &mut Met) {
    read_message(bytes, met);
    let mut source = Source::new(bytes);
    let mut message = Vec::new();
    fields(&mut source, &MESSAGE, &mut message);
    read_message(&message, met);
    let config = config(&mut source).to_buf();
    let Ok(read) = ReplSetConfig::parse(config.as_raw()) else { return met.note("no configuration") };
    let shown = read.to_document().to_buf();
    let again = ReplSetConfig::parse(shown.as_raw());
    assert_eq!(again.as_ref().map_err(ToString::to_string), Ok(&read), "of {config:?} is shown {shown:?}");
    met.note("configuration");
}

fn read_message(bytes: &[u8], met: &mut Met) {
    let Ok(message) = RaftMessage::decode(bytes) else { return met.note(REFUSED) };
    let again = RaftMessage::decode(&message.encode()).expect("it is written back");
    // As text: fields that nobody knows are kept apart by how they came, and not shown.
    assert_eq!(format!("{again:?}"), format!("{message:?}"), "it is written back");
    assert!(message.from() > 0 && message.to() > 0, "from and to nobody");
    met.note(HOLDS);
}

/// The fields of a message of protobuf: a number, and for bytes what is within.
struct Fields(&'static [(u64, Kind)]);

#[derive(Clone, Copy)]
enum Kind {
    Number,
    Bytes,
    Message(&'static Fields),
}

use Kind::{Bytes, Message, Number};

/// As `eraftpb.proto` of the crate `raft-proto` has them.
static MESSAGE: Fields = Fields(&[
    (1, Number),
    (2, Number),
    (3, Number),
    (4, Number),
    (5, Number),
    (6, Number),
    (7, Message(&ENTRY)),
    (8, Number),
    (9, Message(&SNAPSHOT)),
    (10, Number),
    (11, Number),
    (12, Bytes),
    (13, Number),
    (14, Number),
    (15, Number),
]);
static ENTRY: Fields = Fields(&[(1, Number), (2, Number), (3, Number), (4, Bytes), (5, Number), (6, Bytes)]);
static SNAPSHOT: Fields = Fields(&[(1, Bytes), (2, Message(&METADATA))]);
static METADATA: Fields = Fields(&[(1, Message(&CONF_STATE)), (2, Number), (3, Number)]);
static CONF_STATE: Fields = Fields(&[(1, Number), (2, Number), (3, Number), (4, Number), (5, Number)]);

/// Mostly as they are to be, each in a while of another kind or with another number.
fn fields(source: &mut Source<'_>, fields: &Fields, out: &mut Vec<u8>) {
    const NUMBER: u64 = 0;
    const BYTES: u64 = 2;
    for (place, (number, kind)) in fields.0.iter().enumerate() {
        // Who sends it and who is to have it has to be there.
        let is_there = place < 3 || source.one_in(2);
        for _ in 0..usize::from(is_there) + usize::from(source.one_in(8)) {
            let number = if source.one_in(64) { source.any::<u8>().into() } else { *number };
            if source.one_in(64) {
                varint(number << 3 | u64::from(source.any::<u8>() % 8), out);
                out.extend_from_slice(source.bytes(12));
                continue;
            }
            match kind {
                Number => {
                    varint(number << 3 | NUMBER, out);
                    let value = if source.one_in(8) { source.any() } else { source.below(20) as u64 };
                    varint(value, out);
                }
                Bytes => {
                    varint(number << 3 | BYTES, out);
                    let bytes = source.bytes(20);
                    varint(bytes.len() as u64, out);
                    out.extend_from_slice(bytes);
                }
                Message(inner) => {
                    let mut within = Vec::new();
                    self::fields(source, inner, &mut within);
                    varint(number << 3 | BYTES, out);
                    varint(within.len() as u64, out);
                    out.extend_from_slice(&within);
                }
            }
        }
    }
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// What `replSetInitiate` and `replSetReconfig` are given, of which some fields are not as they are to be.
fn config(source: &mut Source<'_>) -> Document {
    let members: Vec<Value> = (0..=source.below(4)).map(|id| member(source, id).into()).collect();
    let mut config = doc! { "_id": "rs", "version": (source.below(3) as i32 + 1), "members": members };
    if source.one_in(4) {
        config.push("term", generate::int(source));
    }
    if source.one_in(4) {
        config.push("protocolVersion", 1_i64);
        config.push("writeConcernMajorityJournalDefault", source.one_in(2));
    }
    if source.one_in(2) {
        config.push("settings", settings(source));
    }
    generate::spoiled(source, config)
}

fn member(source: &mut Source<'_>, id: usize) -> Document {
    let hosts = ["a:1", "b:27017", "c", "[::1]:5", "D.example:65535", "e:0", "", "127.0.0.1:99999"];
    let host = if source.one_in(16) { source.pick(&hosts) } else { hosts[id % 5] };
    let mut member = doc! { "_id": (id as i32), "host": host };
    let others: [(&str, Value); 7] = [
        ("priority", source.pick(&[0.0, 0.5, 1.0, 1000.0, -1.0, f64::NAN]).into()),
        ("votes", Value::Int32(source.below(2) as i32)),
        ("hidden", source.one_in(2).into()),
        ("arbiterOnly", source.one_in(2).into()),
        ("secondaryDelaySecs", generate::int(source)),
        ("tags", doc! { "dc": "east", "rack": (generate::text(source)) }.into()),
        ("buildIndexes", true.into()),
    ];
    for (name, value) in others {
        if source.one_in(6) {
            member.push(name, value);
        }
    }
    generate::spoiled(source, member)
}

fn settings(source: &mut Source<'_>) -> Document {
    let mut settings = Document::new();
    for name in [
        "chainingAllowed",
        "heartbeatIntervalMillis",
        "heartbeatTimeoutSecs",
        "electionTimeoutMillis",
        "catchUpTimeoutMillis",
        "catchUpTakeoverDelayMillis",
    ] {
        if source.one_in(4) {
            let is_truth = name == "chainingAllowed";
            settings.push(name, if is_truth { source.one_in(2).into() } else { generate::int(source) });
        }
    }
    if source.one_in(4) {
        let wanted = doc! { (source.pick(&["dc", "rack", ""])): (generate::int(source)) };
        settings.push("getLastErrorModes", doc! { (source.pick(&["two", "majority", ""])): wanted });
    }
    if source.one_in(4) {
        let freshness = doc! { "maxStalenessMS": (generate::int(source)), "waitMS": (generate::int(source)) };
        settings.push("readFreshness", freshness);
    }
    if source.one_in(8) {
        settings.push("replicaSetId", ObjectId::from_bytes(source.any()));
    }
    generate::spoiled(source, settings)
}
