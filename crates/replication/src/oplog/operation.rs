//! What is done: `op ns ui o o2` of an entry, and of each part of an `applyOps`.

use super::{MalformedEntry, OplogCommand, Statement};
use catalog::Namespace;
use document::{DocumentBuf, DocumentBuilder, RawDocument, RawValue};
use uuid::Uuid;

/// BSON's binary subtype of a UUID.
pub(super) const UUID_SUBTYPE: u8 = 4;

/// The collection that an operation is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its name at that time.
    pub namespace: Namespace,
    /// Which one it is, whatever it is called. A view has none: it is a document of `system.views`.
    pub uuid: Option<Uuid>,
}

/// What an update makes of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum OplogUpdate<D = DocumentBuf> {
    /// What `$v: 2` entries have under `diff`.
    Delta(D),
    /// The whole document.
    Replacement(D),
}

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// `i`: there is this document.
    Insert {
        /// Where.
        target: Target,
        /// The document, `_id` included.
        document: DocumentBuf,
    },
    /// `u`: a document is another one.
    Update {
        /// Where.
        target: Target,
        /// `{ _id }`.
        document_key: DocumentBuf,
        /// What it becomes.
        update: OplogUpdate,
    },
    /// `d`: there is no such document.
    Delete {
        /// Where.
        target: Target,
        /// `{ _id }`.
        document_key: DocumentBuf,
    },
    /// `c`.
    Command(OplogCommand),
    /// `n`: nothing but an entry.
    Noop(DocumentBuf),
}

impl Operation {
    /// Writes `op ns ui o o2`, and the statement that it is; of an `applyOps` those of its parts.
    pub(super) fn write(&self, builder: &mut DocumentBuilder<'_>, statements: &[Option<Statement>]) {
        match self {
            Operation::Insert { target, document } => {
                write_insert(builder, target.as_ref(), document.as_raw());
            }
            Operation::Update { target, document_key, update } => {
                let update = match update {
                    OplogUpdate::Delta(delta) => OplogUpdate::Delta(delta.as_raw()),
                    OplogUpdate::Replacement(document) => OplogUpdate::Replacement(document.as_raw()),
                };
                write_update(builder, target.as_ref(), document_key.as_raw(), &update);
            }
            Operation::Delete { target, document_key } => {
                write_delete(builder, target.as_ref(), document_key.as_raw());
            }
            Operation::Command(OplogCommand::ApplyOps(parts)) => {
                return super::command::write_apply_ops(builder, |list| {
                    for (position, part) in parts.iter().enumerate() {
                        let statement = statements.get(position).copied().flatten();
                        part.write(&mut list.start_document(), &[statement]);
                    }
                });
            }
            Operation::Command(command) => command.write(builder),
            Operation::Noop(object) => {
                builder.append("op", "n").append("ns", "").append("o", object);
            }
        }
        if let Some(Some(statement)) = statements.first() {
            statement.append(builder);
        }
    }

    /// Reads `op ns ui o o2`, among other fields.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn read(entry: RawDocument<'_>) -> Result<Self, MalformedEntry> {
        let op = text(entry, "op")?;
        let object = document(entry, "o")?;
        match op {
            "i" => {
                key_of(object)?;
                Ok(Operation::Insert { target: Target::read(entry)?, document: object.to_buf() })
            }
            "u" => {
                let key = document(entry, "o2")?;
                key_of(key)?;
                let update = match object.get("$v").map(RawValue::as_i64_exact) {
                    None => {
                        key_of(object)?;
                        OplogUpdate::Replacement(object.to_buf())
                    }
                    Some(Some(2)) => OplogUpdate::Delta(document(object, "diff")?.to_buf()),
                    Some(_) => return Err(MalformedEntry::new("'$v' of an update is to be 2")),
                };
                let document_key = document_key(key);
                Ok(Operation::Update { target: Target::read(entry)?, document_key, update })
            }
            "d" => {
                key_of(object)?;
                Ok(Operation::Delete { target: Target::read(entry)?, document_key: document_key(object) })
            }
            "c" => Ok(Operation::Command(OplogCommand::read(entry, object)?)),
            "n" => Ok(Operation::Noop(object.to_buf())),
            other => Err(MalformedEntry::new(format!("unknown kind of operation '{other}'"))),
        }
    }
}

impl Target {
    fn as_ref(&self) -> TargetRef<'_> {
        (&self.namespace, self.uuid)
    }

    fn read(entry: RawDocument<'_>) -> Result<Self, MalformedEntry> {
        Ok(Target { namespace: namespace(text(entry, "ns")?)?, uuid: uuid(entry, "ui")? })
    }
}

/// A [`Target`], lent.
pub(super) type TargetRef<'t> = (&'t Namespace, Option<Uuid>);

pub(super) fn write_insert(
    builder: &mut DocumentBuilder<'_>,
    target: TargetRef<'_>,
    document: RawDocument<'_>,
) {
    write_head(builder, "i", target);
    builder.append("o", document);
    write_key(builder.start_document("o2"), document);
}

/// Of the document of this `_id`.
pub(super) fn write_update(
    builder: &mut DocumentBuilder<'_>,
    target: TargetRef<'_>,
    document: RawDocument<'_>,
    update: &OplogUpdate<RawDocument<'_>>,
) {
    write_head(builder, "u", target);
    match update {
        OplogUpdate::Replacement(document) => drop(builder.append("o", *document)),
        OplogUpdate::Delta(delta) => {
            builder.start_document("o").append("$v", 2).append("diff", *delta);
        }
    }
    write_key(builder.start_document("o2"), document);
}

/// Of the document of this `_id`.
pub(super) fn write_delete(
    builder: &mut DocumentBuilder<'_>,
    target: TargetRef<'_>,
    document: RawDocument<'_>,
) {
    write_head(builder, "d", target);
    write_key(builder.start_document("o"), document);
}

/// `{ _id }` of a document, whatever else is in it.
pub(super) fn document_key(document: RawDocument<'_>) -> DocumentBuf {
    let mut bytes = Vec::new();
    write_key(DocumentBuilder::new(&mut bytes), document);
    DocumentBuf::trusted(bytes)
}

fn write_key(mut builder: DocumentBuilder<'_>, document: RawDocument<'_>) {
    builder.append_element(document.element(b"_id").expect("a stored document has an _id"));
}

fn write_head(builder: &mut DocumentBuilder<'_>, op: &str, (namespace, uuid): TargetRef<'_>) {
    builder.append("op", op).append("ns", [namespace.database(), namespace.collection()].join(".").as_str());
    if let Some(uuid) = uuid {
        append_uuid(builder, "ui", uuid);
    }
}

pub(super) fn append_uuid(builder: &mut DocumentBuilder<'_>, name: &str, uuid: Uuid) {
    builder.append(name, RawValue::Binary { subtype: UUID_SUBTYPE, bytes: uuid.as_bytes() });
}

pub(super) fn text<'d>(document: RawDocument<'d>, name: &str) -> Result<&'d str, MalformedEntry> {
    document.get(name).and_then(RawValue::as_str).ok_or_else(|| expected(name, "a string"))
}

pub(super) fn document<'d>(document: RawDocument<'d>, name: &str) -> Result<RawDocument<'d>, MalformedEntry> {
    document.get(name).and_then(RawValue::as_document).ok_or_else(|| expected(name, "a document"))
}

/// A UUID, where there is that field.
pub(super) fn uuid(document: RawDocument<'_>, name: &str) -> Result<Option<Uuid>, MalformedEntry> {
    match document.get(name) {
        None => Ok(None),
        Some(RawValue::Binary { subtype: UUID_SUBTYPE, bytes }) if bytes.len() == 16 => {
            Ok(Uuid::from_slice(bytes).ok())
        }
        Some(_) => Err(expected(name, "a UUID")),
    }
}

pub(super) fn namespace(full: &str) -> Result<Namespace, MalformedEntry> {
    Namespace::parse(full).map_err(|error| MalformedEntry::new(error.to_string()))
}

pub(super) fn expected(name: &str, what: &str) -> MalformedEntry {
    MalformedEntry::new(format!("'{name}' is to be {what}"))
}

fn key_of(document: RawDocument<'_>) -> Result<RawValue<'_>, MalformedEntry> {
    document.get("_id").ok_or_else(|| MalformedEntry::new("a document without _id"))
}
