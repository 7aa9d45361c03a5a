//! Retryable writes: a statement with a transaction number is done once, however often it is sent and to
//! whichever primary.
//!
//! ```text
//!  command ─▶ check_out (one command of a session at a time) ─▶ executed? ─ yes ─▶ answered from the row
//!                                                                  │ no
//!             RetryObserver: entry with lsid, txnNumber, stmtId ◀──┘
//!                            row (and image) in the same unit ─▶ log ─▶ Applier: the same row
//! ```
//! What a session did last is in `config.transactions`, written with the data or not at all, on the primary
//! and by the applier on the others: a new primary knows it. Nobody else writes these documents.
//!
//! Source: MongoDB manual, "Retryable Writes"; driver specification "Retryable Writes".

mod expire;
mod observer;
mod row;

pub use observer::{RetryObserver, WriterRole};

use crate::oplog::Image;
use catalog::{Catalog, CatalogError, Collection, OperationContext, ReadError, WriteError};
use document::{DocumentBuf, DocumentBuilder, RawDocument, RawValue, Value};
use parking_lot::Mutex;
use row::Row;
use std::fmt;
use std::sync::Arc;
use storage::{CursorOptions, Direction, LatchGuard, LatchTable, ReadTier, ReadView};

/// The database of what is kept of sessions, and its collections.
pub const DATABASE: &str = "config";
/// Rows of sessions.
pub const TRANSACTIONS: &str = "transactions";
/// Answers of the latest `findAndModify` of sessions.
pub const IMAGES: &str = "image_collection";

/// Why a session is not checked out.
#[derive(Debug, thiserror::Error)]
pub enum CheckOutError {
    /// A later transaction number is known.
    #[error("a newer retryable write with txnNumber {0} has already started")]
    TooOld(i64),
    /// The collections cannot be made.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The row cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// What is outdated cannot be removed.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Who has which session.
pub struct RetryTable {
    catalog: Arc<Catalog>,
    checked_out: LatchTable,
}

impl RetryTable {
    /// The sessions that this catalog's data tell of.
    pub fn new(catalog: Arc<Catalog>) -> Self {
        RetryTable { catalog, checked_out: LatchTable::new() }
    }

    /// Makes the collections that are missing.
    ///
    /// # Errors
    /// What making a collection refuses.
    pub async fn create(&self, context: &OperationContext<'_>) -> Result<(), CatalogError> {
        for name in [TRANSACTIONS, IMAGES] {
            self.catalog.collection_or_create(context, DATABASE, name).await?;
        }
        Ok(())
    }

    /// Waits until no other command has the session, and has it until the write is dropped. `None` where the
    /// collections are missing.
    ///
    /// # Errors
    /// A number that is too old; [`storage::StorageError::WouldBlock`] where the tier is not enough.
    pub async fn check_out(
        &self,
        (lsid, txn_number): (DocumentBuf, i64),
        context: &OperationContext<'_>,
    ) -> Result<Option<RetryableWrite>, CheckOutError> {
        let guard = self.checked_out.lock(lsid.as_bytes()).await;
        let write = RetryableWrite::open(&self.catalog, (lsid, txn_number), context)?;
        Ok(write.map(|write| RetryableWrite { checked_out: Some(guard), ..write }))
    }
}

impl RetryableWrite {
    /// What is known of a session that is checked out.
    fn open(
        catalog: &Catalog,
        (lsid, txn_number): (DocumentBuf, i64),
        context: &OperationContext<'_>,
    ) -> Result<Option<RetryableWrite>, CheckOutError> {
        let Some(collections) = Collections::of(catalog) else { return Ok(None) };
        let row = collections.rows.get(context.view, RawValue::Document(lsid.as_raw()), context.tier)?;
        let found = row.as_ref().map(|row| RawDocument::trusted(row));
        let mut progress =
            Progress { row_bytes: found.map(|row| row.as_bytes().len()), ..Progress::default() };
        match found.and_then(Row::read) {
            Some((newer, _)) if newer > txn_number => return Err(CheckOutError::TooOld(newer)),
            Some((same, row)) if same == txn_number => progress.row = row,
            Some((older, row)) => {
                progress.row.image_bytes = row.image_bytes;
                if row.others > 0 {
                    progress.outdated =
                        collections.others(lsid.as_raw(), older, context.view, context.tier)?;
                }
            }
            None => {}
        }
        let state = Mutex::new(WriteState { confirmed: progress, ..WriteState::default() });
        Ok(Some(RetryableWrite { collections, lsid, txn_number, state, checked_out: None }))
    }
}

/// The logical session with this id and owner (`uid`), as rows and entries name it.
pub fn lsid(id: [u8; 16], owner: [u8; 32]) -> DocumentBuf {
    let mut bytes = Vec::with_capacity(80);
    DocumentBuilder::new(&mut bytes)
        .append("id", RawValue::Binary { subtype: 4, bytes: &id })
        .append("uid", RawValue::Binary { subtype: 0, bytes: &owner });
    DocumentBuf::trusted(bytes)
}

#[derive(Debug)]
struct Collections {
    rows: Arc<Collection>,
    images: Arc<Collection>,
}

impl Collections {
    fn of(catalog: &Catalog) -> Option<Self> {
        Some(Collections {
            rows: catalog.collection(DATABASE, TRANSACTIONS)?,
            images: catalog.collection(DATABASE, IMAGES)?,
        })
    }

    /// The keys and lengths of the documents that statements of a write have for themselves.
    fn others(
        &self,
        lsid: RawDocument<'_>,
        txn_number: i64,
        view: &ReadView,
        tier: ReadTier,
    ) -> Result<Vec<(Vec<u8>, usize)>, ReadError> {
        let key = |statement| {
            let id = row::other_key(lsid, txn_number, statement);
            Collection::document_key_of_id(id.as_raw().get("_id").expect("a key has an _id"))
        };
        let (lower, upper) = (key(i32::MIN), key(i32::MAX));
        let range = catalog::EncodedRange { lower: Some(&lower), upper: Some(&upper) };
        let options = CursorOptions { tier, ..CursorOptions::default() };
        let mut documents = self.rows.documents(view, range, Direction::Forward, options)?;
        let mut others = Vec::new();
        while let Some((key, document)) = documents.next()? {
            others.push((key.to_vec(), document.as_bytes().len()));
        }
        Ok(others)
    }
}

/// What a session has done, as it is or will be in the store.
#[derive(Debug, Clone, Default)]
struct Progress {
    row: Row,
    /// The length of the stored row; `None` where there is none.
    row_bytes: Option<usize>,
    /// Documents of statements of an older write, which go with the next unit.
    outdated: Vec<(Vec<u8>, usize)>,
}

#[derive(Debug, Default)]
struct WriteState {
    /// What is stored.
    confirmed: Progress,
    /// What will be when the unit that was ended last is applied.
    pending: Option<Progress>,
    /// How often the row was written.
    rows_written: u64,
}

/// A session that a command has checked out for one transaction number.
pub struct RetryableWrite {
    collections: Collections,
    lsid: DocumentBuf,
    txn_number: i64,
    /// One task changes it.
    state: Mutex<WriteState>,
    #[expect(dead_code, reason = "held for its drop")]
    checked_out: Option<LatchGuard>,
}

impl fmt::Debug for RetryTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RetryTable")
    }
}

impl fmt::Debug for RetryableWrite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RetryableWrite {} {:?}", self.txn_number, self.state)
    }
}

/// A statement that was done before.
#[derive(Debug, Clone, PartialEq)]
pub struct Executed {
    /// The `_id` of the document that it inserted because there was none to update.
    pub upserted: Option<Value>,
}

impl RetryableWrite {
    /// What became of a statement, where it was done before.
    ///
    /// # Errors
    /// Storage errors, [`storage::StorageError::WouldBlock`] among them.
    pub fn executed(
        &self,
        statement: i32,
        view: &ReadView,
        tier: ReadTier,
    ) -> Result<Option<Executed>, ReadError> {
        let state = self.state.lock();
        let row = &state.confirmed.row;
        if let Some((_, id)) = row.upserted.as_ref().filter(|(upsert, _)| *upsert == statement) {
            return Ok(Some(Executed { upserted: Some(id.clone()) }));
        }
        if row.others > 0 {
            let key = row::other_key(self.lsid.as_raw(), self.txn_number, statement);
            let id = key.as_raw().get("_id").expect("a key has an _id");
            if let Some(other) = self.collections.rows.get(view, id, tier)? {
                let upserted = RawDocument::trusted(&other).get("upserted").map(RawValue::to_value);
                return Ok(Some(Executed { upserted }));
            }
        }
        Ok(row.has(statement).then_some(Executed { upserted: None }))
    }

    /// How often this command has written the session's row.
    pub fn rows_written(&self) -> u64 {
        self.state.lock().rows_written
    }

    /// The document that this write was answered with.
    ///
    /// # Errors
    /// Storage errors, [`storage::StorageError::WouldBlock`] among them.
    pub fn image(&self, view: &ReadView, tier: ReadTier) -> Result<Option<(Image, DocumentBuf)>, ReadError> {
        let id = RawValue::Document(self.lsid.as_raw());
        let Some(found) = self.collections.images.get(view, id, tier)? else { return Ok(None) };
        let found = RawDocument::trusted(&found);
        if found.get("txnNum").and_then(RawValue::as_i64_exact) != Some(self.txn_number) {
            return Ok(None);
        }
        let kind = found.get("imageKind").and_then(RawValue::as_str).and_then(Image::of_name);
        let image = found.get("image").and_then(RawValue::as_document);
        Ok(kind.zip(image.map(RawDocument::to_buf)))
    }
}
