//! Batches: their size, their errors and their reply.

use crate::error::{CommandError, CommandResult, code};
use crate::fields::DocumentList;
use catalog::WriteError;
use document::{Document, DocumentBuf, DocumentBuilder, MAX_DOCUMENT_SIZE, RawDocument, Value, doc};
use smallvec::SmallVec;

/// The bytes of messages in one reply, at most; later errors keep their code and lose their message.
const ERROR_BYTES_MAX: usize = MAX_DOCUMENT_SIZE / 2;

/// The statements or documents of a batch.
pub(crate) type Documents<'a> = SmallVec<[RawDocument<'a>; 4]>;

/// The documents of a list, which all must be documents.
///
/// # Errors
/// `TypeMismatch` for other array elements.
pub(crate) fn documents_of<'a>(field: &str, list: DocumentList<'a>) -> CommandResult<Documents<'a>> {
    match list {
        DocumentList::Sequence(sequence) => Ok(sequence.iter().collect()),
        DocumentList::Array(array) => array
            .iter()
            .enumerate()
            .map(|(position, value)| {
                value.as_document().ok_or_else(|| {
                    let found = value.kind().alias();
                    CommandError::type_mismatch(format!(
                        "BSON field '{field}.{position}' is the wrong type '{found}', expected type 'object'"
                    ))
                })
            })
            .collect(),
    }
}

/// A batch has 1 to 100,000 statements.
///
/// # Errors
/// `InvalidLength`.
pub(crate) fn check_batch_size(size: usize) -> CommandResult {
    if (1..=wire::MAX_WRITE_BATCH_SIZE).contains(&size) {
        return Ok(());
    }
    let message = format!(
        "Write batch sizes must be between 1 and {}. Got {size} operations.",
        wire::MAX_WRITE_BATCH_SIZE
    );
    Err(CommandError::new(code::INVALID_LENGTH, message))
}

/// The figures of a batch, as they grow.
#[derive(Debug, Default)]
pub(crate) struct BatchReply {
    /// Documents inserted, matched (or upserted) or deleted.
    pub(crate) count: u64,
    /// Documents changed, by updates.
    pub(crate) modified: Option<u64>,
    /// `{index, _id}` of upserts.
    upserted: Vec<Document>,
    errors: Vec<Document>,
    error_bytes: usize,
}

impl BatchReply {
    /// The figures of a batch of updates.
    pub(crate) fn of_updates() -> Self {
        BatchReply { modified: Some(0), ..BatchReply::default() }
    }

    /// A statement inserted a document with this `_id`.
    pub(crate) fn upserted(&mut self, statement: usize, id: Value) {
        self.upserted.push(doc! { "index": (statement as i32), "_id": id });
    }

    /// A statement that was done when the command came before.
    pub(crate) fn repeated(&mut self, statement: usize, upserted: Option<Value>) {
        self.count += 1;
        match (upserted, &mut self.modified) {
            (Some(id), _) => self.upserted(statement, id),
            (None, Some(modified)) => *modified += 1,
            (None, None) => {}
        }
    }

    /// A statement failed.
    ///
    /// # Errors
    /// The error itself when it concerns the whole command: kills, time limits, shutdown, closed connections,
    /// a member that is not the primary.
    pub(crate) fn failed(&mut self, statement: usize, error: CommandError) -> CommandResult {
        let interrupts = [
            code::INTERRUPTED,
            code::INTERRUPTED_AT_SHUTDOWN,
            code::MAX_TIME_EXPIRED,
            code::CURSOR_KILLED,
            wire::ErrorCode::ClientDisconnect as i32,
            wire::ErrorCode::NotWritablePrimary as i32,
            wire::ErrorCode::InterruptedDueToReplStateChange as i32,
        ];
        if error.closes_connection || interrupts.contains(&error.code) {
            return Err(error);
        }
        let mut described = doc! { "index": (statement as i32), "code": (error.code) };
        if let Some(extra) = error.extra {
            described.extend(*extra);
        }
        let room = ERROR_BYTES_MAX.saturating_sub(self.error_bytes);
        let end = error.message.floor_char_boundary(room);
        described.push("errmsg", error.message.split_at(end).0);
        self.error_bytes += end;
        self.errors.push(described);
        Ok(())
    }

    /// A document was refused by the catalog.
    ///
    /// # Errors
    /// As [`BatchReply::failed`].
    pub(crate) fn refused(&mut self, statement: usize, error: WriteError) -> CommandResult {
        self.failed(statement, error.into())
    }

    /// Whether a statement failed.
    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Appends the fields of the reply.
    pub(crate) fn write(&self, reply: &mut DocumentBuilder<'_>) {
        let count = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
        reply.append("n", count(self.count));
        if !self.upserted.is_empty() {
            write_all(reply, "upserted", &self.upserted);
        }
        if let Some(modified) = self.modified {
            reply.append("nModified", count(modified));
        }
        if !self.errors.is_empty() {
            write_all(reply, "writeErrors", &self.errors);
        }
    }
}

fn write_all(reply: &mut DocumentBuilder<'_>, name: &str, documents: &[Document]) {
    let mut array = reply.start_array(name);
    for document in documents {
        let document: DocumentBuf = document.to_buf();
        array.push(&document);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(reply: &BatchReply, expect: Document) {
        let mut bytes = Vec::new();
        let mut builder = DocumentBuilder::new(&mut bytes);
        reply.write(&mut builder);
        builder.finish();
        assert_eq!(RawDocument::trusted(&bytes).to_document(), expect);
    }

    #[test]
    fn what_ends_a_primarys_time_ends_the_command() {
        for refusal in [storage::CommitError::NotPrimary, storage::CommitError::SteppedDown] {
            let mut reply = BatchReply::of_updates();
            let refused = WriteError::Commit(refusal);
            let code = refused.code();
            let told = reply.refused(0, refused).expect_err("drivers look for it outside of writeErrors");
            assert_eq!(told.code, code);
            assert!(!reply.has_errors());
        }
    }

    #[test]
    fn replies_have_mongodbs_order() {
        check(&BatchReply { count: 2, ..BatchReply::default() }, doc! { "n": 2 });
        let mut reply = BatchReply::of_updates();
        reply.count = 1;
        reply.upserted(3, Value::Int32(7));
        reply.failed(4, CommandError::bad_value("no")).expect("a statement's error");
        check(
            &reply,
            doc! {
                "n": 1, "upserted": [{ "index": 3, "_id": 7 }], "nModified": 0,
                "writeErrors": [{ "index": 4, "code": 2, "errmsg": "no" }],
            },
        );
    }

    #[test]
    fn messages_leave_room_for_the_reply() {
        let mut reply = BatchReply::default();
        for position in 0..3 {
            let message = "ü".repeat(ERROR_BYTES_MAX / 4 + 1);
            reply.failed(position, CommandError::bad_value(message)).expect("a statement's error");
        }
        let lengths =
            reply.errors.iter().map(|error| error.get("errmsg").and_then(Value::as_str).map(str::len));
        let half = ERROR_BYTES_MAX / 2;
        assert_eq!(lengths.collect::<Vec<_>>(), [Some(half + 2), Some(half - 2), Some(0)]);
    }

    #[test]
    fn interruptions_end_the_command() {
        for reason in [code::INTERRUPTED, wire::ErrorCode::ClientDisconnect as i32] {
            let ended = CommandError::new(reason, "operation was interrupted");
            assert_eq!(BatchReply::default().failed(0, ended).expect_err("ends all").code, reason);
        }
    }

    #[test]
    fn batches_are_bounded() {
        assert_eq!(check_batch_size(0).expect_err("empty").code, 16);
        assert!(check_batch_size(100_000).is_ok());
        assert_eq!(check_batch_size(100_001).expect_err("too many").code, 16);
    }
}
