//! Tells the log of a statement, and the session's row with it.

use super::row::encode_image;
use super::{Progress, RetryableWrite};
use crate::oplog::{self, Image, Statement, StatementOrigin};
use catalog::{Change, ChangeObserver};
use document::{DocumentBuf, RawValue, Value};
use parking_lot::Mutex;
use storage::WriteUnit;

/// Who writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriterRole {
    /// The primary: its units get entries.
    Primary,
    /// The applier of an entry that was made at this time, in milliseconds since 1970.
    Applier {
        /// `wall` of the entry.
        wall: i64,
    },
}

/// The statements whose changes are observed.
#[derive(Debug, Clone, Copy)]
enum Statements<'s> {
    /// Each document that comes is one of these, by its position.
    Inserts(&'s [i32]),
    /// One document changes.
    One(Statement),
    /// One document goes.
    Removal(Statement),
}

/// Observes the units of statements of a retryable write.
#[derive(Debug)]
pub struct RetryObserver<'w> {
    write: &'w RetryableWrite,
    statements: Statements<'w>,
    role: WriterRole,
    /// What has been told of the unit.
    noted: Mutex<Vec<Noted>>,
}

/// A statement that is done in the unit.
#[derive(Debug)]
struct Noted {
    statement: i32,
    upserted: Option<Value>,
    image: Option<(Image, DocumentBuf)>,
}

impl<'w> RetryObserver<'w> {
    fn new(write: &'w RetryableWrite, statements: Statements<'w>, role: WriterRole) -> Self {
        RetryObserver { write, statements, role, noted: Mutex::default() }
    }

    /// For documents that are inserted: the statements, by the documents' positions.
    pub fn of_inserts(write: &'w RetryableWrite, ids: &'w [i32], role: WriterRole) -> Self {
        RetryObserver::new(write, Statements::Inserts(ids), role)
    }

    /// For one document that is updated or, if there is none, inserted.
    pub fn of_update(write: &'w RetryableWrite, id: i32, image: Option<Image>, role: WriterRole) -> Self {
        let statement = Statement { id, upserts: false, image };
        RetryObserver::new(write, Statements::One(statement), role)
    }

    /// For one document that is removed.
    pub fn of_removal(write: &'w RetryableWrite, id: i32, image: Option<Image>, role: WriterRole) -> Self {
        let statement = Statement { id, upserts: false, image };
        RetryObserver::new(write, Statements::Removal(statement), role)
    }

    /// The statement that a change is; others only follow from it, as what leaves a full capped collection.
    fn statement_of(&self, change: &Change<'_>) -> Option<Statement> {
        match (change, self.statements) {
            (Change::Insert { position, .. }, Statements::Inserts(ids)) => {
                Some(Statement { id: *ids.get(*position)?, upserts: false, image: None })
            }
            (Change::Insert { .. }, Statements::One(statement)) => {
                Some(Statement { upserts: true, ..statement })
            }
            (Change::Update { .. }, Statements::One(statement))
            | (Change::Delete { .. }, Statements::Removal(statement)) => Some(statement),
            _ => None,
        }
    }
}

impl ChangeObserver for RetryObserver<'_> {
    fn observe(&self, change: Change<'_>, unit: &mut WriteUnit) {
        if !oplog::is_logged(&change) {
            return;
        }
        let statement = self.statement_of(&change);
        if self.role == WriterRole::Primary {
            oplog::append_parts(change, statement, unit.entries_mut());
        }
        self.noted.lock().extend(statement.map(|statement| Noted::of(statement, change)));
    }

    fn begin_unit(&self) {
        self.noted.lock().clear();
    }

    fn end_unit(&self, unit: &mut WriteUnit) {
        let noted = std::mem::take(&mut *self.noted.lock());
        let mut state = self.write.state.lock();
        let wall = match self.role {
            WriterRole::Primary => oplog::wall(),
            WriterRole::Applier { wall } => wall,
        };
        if self.role == WriterRole::Primary {
            let origin = StatementOrigin {
                lsid: self.write.lsid.clone(),
                txn_number: self.write.txn_number,
                is_first: state.confirmed.row.is_empty(),
                statements: Vec::new(),
            };
            oplog::end_unit(unit, Some(&origin), wall);
        }
        // What was pending was refused, or it would be confirmed.
        state.pending = match noted.is_empty() {
            true => None,
            false => Some(self.write.put(&state.confirmed, noted, wall, unit)),
        };
    }

    fn committed(&self) {
        let mut state = self.write.state.lock();
        if let Some(pending) = state.pending.take() {
            state.confirmed = pending;
            state.rows_written += 1;
        }
    }
}

impl Noted {
    fn of(statement: Statement, change: Change<'_>) -> Self {
        let (upserted, image) = match (change, statement.image) {
            (Change::Insert { document, .. }, image) => {
                let id = document.get("_id").map(RawValue::to_value).filter(|_| statement.upserts);
                (id, image.filter(|image| *image == Image::After).map(|image| (image, document)))
            }
            (Change::Update { before, .. }, Some(Image::Before)) => (None, Some((Image::Before, before))),
            (Change::Update { after, .. }, Some(Image::After)) => (None, Some((Image::After, after))),
            (Change::Delete { document, .. }, Some(image)) => (None, Some((image, document))),
            _ => (None, None),
        };
        let image = image.map(|(kind, image)| (kind, image.to_buf()));
        Noted { statement: statement.id, upserted, image }
    }
}

impl RetryableWrite {
    /// Puts into a unit what is kept of statements that are done by it.
    fn put(&self, confirmed: &Progress, noted: Vec<Noted>, wall: i64, unit: &mut WriteUnit) -> Progress {
        let (rows, lsid) = (&self.collections.rows, self.lsid.as_raw());
        for (key, bytes) in &confirmed.outdated {
            rows.remove_beside(unit, key, *bytes);
        }
        let mut row = confirmed.row.clone();
        for Noted { statement, upserted, image } in noted {
            if let Some(other) = row.note(statement, upserted) {
                rows.put_beside(unit, None, other.encode(lsid, self.txn_number).as_raw());
            }
            if let Some((kind, image)) = image {
                let image = encode_image(lsid, self.txn_number, kind, image.as_raw());
                self.collections.images.put_beside(unit, row.image_bytes, image.as_raw());
                row.image_bytes = Some(image.len());
            }
        }
        let encoded = row.encode(lsid, self.txn_number, wall);
        rows.put_beside(unit, confirmed.row_bytes, encoded.as_raw());
        Progress { row, row_bytes: Some(encoded.len()), outdated: Vec::new() }
    }
}
