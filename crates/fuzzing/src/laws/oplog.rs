//! Entries of the oplog and deltas: what is read is written back as it was read.

use document::{Document, DocumentBuf, Timestamp, Value, doc};
use replication::oplog::{OplogEntry, delta};

use super::{HOLDS, Met, REFUSED};
use crate::generate;
use crate::source::Source;

pub(super) fn check(bytes: &[u8], met: &mut Met) {
    read_entry(bytes, met);
    let mut source = Source::new(bytes);
    let entry = entry(&mut source).to_buf();
    read_entry(entry.as_bytes(), met);
    let before = generate::stored(&mut source).to_buf();
    let changes = changes(&mut source, 3).to_buf();
    match delta::apply(before.as_raw(), changes.as_raw()) {
        Ok(after) => {
            assert!(DocumentBuf::from_bytes(after.into_bytes()).is_ok(), "a delta makes no document");
            met.note("delta");
        }
        Err(_) => met.note("no delta"),
    }
}

fn read_entry(bytes: &[u8], met: &mut Met) {
    let Ok(entry) = OplogEntry::decode(bytes) else { return met.note(REFUSED) };
    let written = entry.encode();
    let again = OplogEntry::decode(written.as_bytes());
    assert_eq!(again.as_ref().map_err(ToString::to_string), Ok(&entry), "it is written back");
    assert_eq!(again.expect("it is the same").encode(), written, "and again");
    met.note(HOLDS);
}

/// An entry as members write them, of which some fields are not as they are to be.
fn entry(source: &mut Source<'_>) -> Document {
    let mut entry = operation(source, 1);
    let timestamp = Timestamp { time: source.any(), increment: source.any() };
    for (name, value) in [
        ("ts", Value::Timestamp(timestamp)),
        ("t", Value::Int64(source.below(9) as i64)),
        ("v", Value::Int64(2)),
        ("wall", Value::DateTime(source.any())),
    ] {
        entry.push(name, value);
    }
    if source.one_in(2) {
        entry.push("lsid", doc! { "id": (Value::binary(4, source.bytes(16))) });
        entry.push("txnNumber", generate::int(source));
        entry.push("stmtId", generate::int(source));
    }
    generate::spoiled(source, entry)
}

fn operation(source: &mut Source<'_>, depth: usize) -> Document {
    let kind = source.pick(&["i", "u", "d", "n", "c"]);
    let namespace =
        if kind == "c" { "shop.$cmd" } else { source.pick(&["shop.orders", "shop", "", "a.b.c"]) };
    let mut entry = doc! { "op": kind, "ns": namespace };
    if source.one_in(2) {
        entry.push("ui", Value::binary(4, [5; 16]));
    }
    let object = match kind {
        "i" => generate::stored(source),
        "u" if source.one_in(3) => generate::document(source, 2),
        "u" => doc! { "$v": 2, "diff": (changes(source, 2)) },
        "c" => command(source, depth),
        _ => doc! { "_id": (generate::int(source)) },
    };
    entry.push("o", object);
    if kind == "u" || source.one_in(6) {
        entry.push("o2", doc! { "_id": (generate::int(source)) });
    }
    entry
}

fn command(source: &mut Source<'_>, depth: usize) -> Document {
    match source.below(if depth == 0 { 6 } else { 8 }) {
        0 => doc! { "create": "orders", "idIndex": { "v": 2, "key": { "_id": 1 }, "name": "_id_" } },
        1 => doc! { "drop": "orders" },
        2 => doc! { "createIndexes": "orders", "v": 2, "key": { "a": 1 }, "name": "a_1" },
        3 => doc! { "dropIndexes": "orders", "index": "a_1" },
        4 => doc! { "renameCollection": "shop.a", "to": "shop.b" },
        5 => doc! { "collMod": "orders", "hidden": true },
        _ => {
            let parts = (0..source.below(4)).map(|_| operation(source, depth - 1).into());
            doc! { "applyOps": (Value::Array(parts.collect())) }
        }
    }
}

/// A delta, which need not fit anything.
fn changes(source: &mut Source<'_>, depth: usize) -> Document {
    let mut changes = Document::new();
    if depth > 0 && source.one_in(4) {
        changes.push("a", true);
        if source.one_in(2) {
            changes.push("l", generate::int(source));
        }
        for _ in 0..source.below(3) {
            let place = source.pick(&[0, 1, 3, 40, 2_000_000]);
            if source.one_in(3) {
                changes.push(format!("s{place}"), self::changes(source, depth - 1));
            } else {
                changes.push(format!("u{place}"), generate::value(source, 1));
            }
        }
        return changes;
    }
    for kind in ["d", "u", "i"] {
        if source.one_in(2) {
            let mut fields = Document::new();
            for _ in 0..=source.below(2) {
                let name = generate::field(source);
                let value = if kind == "d" { Value::Boolean(false) } else { generate::value(source, 2) };
                fields.push(name, value);
            }
            changes.push(kind, fields);
        }
    }
    if depth > 0 && source.one_in(3) {
        let name = format!("s{}", generate::field(source));
        changes.push(name, self::changes(source, depth - 1));
    }
    changes
}
