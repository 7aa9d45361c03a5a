//! Deleting documents whose time is over, by a walk over the entries of their TTL index.
//!
//! ```text
//!  step: entries of dates up to (now - expireAfterSeconds), oldest first, from the last one walked over on
//!          └▶ their documents, each once ─▶ latched, looked at again ─▶ deleted in few units
//! ```
//! An entry is in the index because of a date, so that what has no date is never met, and a document with
//! several has one entry for each: the oldest expires it. Nothing here knows when to walk: `commands` does.
//!
//! Source: MongoDB manual, "TTL Indexes", "Expire Data from Collections by Setting TTL".

use crate::collection::Collection;
use crate::definition::{CollectionDefinition, IndexDefinition};
use crate::keys::{INDEX_PREFIX, IndexId};
use crate::read::EncodedRange;
use crate::write::FoundDocuments;
use crate::{Decision, FieldKind, OperationContext, ReadError, WriteError};
use document::key::{KeyBuilder, SortOrder};
use document::{RawDocument, RawValue};
use hashbrown::HashSet;
use query::checkpoint;
use rustc_hash::FxBuildHasher;
use std::sync::Arc;
use storage::{CursorOptions, Direction};

/// Entries of one step at most: a document may have any number of them.
const ENTRIES_MAX: u64 = 8 << 10;
/// Entries between two looks whether the walk is to end: each may be a read of the disk.
const KEYS_PER_LOOK: u64 = 64;
/// Bytes of documents that one step keeps for its units.
const FOUND_BYTES_MAX: usize = 1 << 20;
const MS_PER_SECOND: i64 = 1000;
/// Above whatever goes on after the same value, in either direction (`docs/design/key-encoding.md`).
const BEHIND_VALUE: u8 = 0xFF;

/// Why a step ended early.
#[derive(Debug, thiserror::Error)]
pub enum ExpiryError {
    /// The walk over the index failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A unit was not written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl ExpiryError {
    /// MongoDB's numeric error code.
    pub fn code(&self) -> i32 {
        match self {
            ExpiryError::Read(error) => error.code(),
            ExpiryError::Write(error) => error.code(),
        }
    }
}

/// Where a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiryStep {
    /// The walk goes on with the next step.
    Continues,
    /// No older entry is left in front of it, or the index is none any more that expires documents.
    Ended,
}

/// What a walk has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExpiryFigures {
    /// Entries walked over.
    pub keys: u64,
    /// Documents read.
    pub documents: u64,
    /// Bytes of these documents.
    pub bytes: u64,
    /// Documents deleted.
    pub deleted: u64,
}

/// A walk over what has expired by one index of one collection. It goes on behind its last entry: what it has
/// deleted leaves tombstones that are not walked over again.
#[derive(Debug)]
pub struct ExpiryWalk {
    index: IndexId,
    /// Dates are compared with this moment less `expireAfterSeconds`, in milliseconds since 1970.
    moment_ms: i64,
    /// The last entry walked over: its key behind the index's prefix.
    position: Option<Vec<u8>>,
    found: FoundDocuments,
    /// The keys of the documents in `found`.
    found_keys: HashSet<Vec<u8>, FxBuildHasher>,
    figures: ExpiryFigures,
}

/// The entries of an index whose dates have come.
#[derive(Debug)]
struct DueEntries {
    lower: Vec<u8>,
    /// Not among them any more.
    upper: Vec<u8>,
    /// The walk that meets the oldest one first.
    oldest_first: Direction,
}

impl IndexDefinition {
    /// Whether documents expire by it: it is complete and has `expireAfterSeconds`.
    pub fn is_ttl(&self) -> bool {
        self.is_ready() && self.spec.expire_after_seconds.is_some()
    }

    /// Whether its entries are in the order of one field's dates. A TTL index that has them in another one
    /// expires nothing.
    pub fn orders_dates(&self) -> bool {
        matches!(self.spec.fields.as_slice(), [field] if matches!(field.kind, FieldKind::Ordered(_)))
            && !self.clustered
    }

    fn due(&self, moment_ms: i64) -> Option<DueEntries> {
        let seconds = self.spec.expire_after_seconds.filter(|_| self.is_ttl() && self.orders_dates())?;
        let last_ms = moment_ms.saturating_sub(seconds.saturating_mul(MS_PER_SECOND));
        let direction = self.spec.fields.first()?.kind.direction();
        let key = |date: i64, behind: &[u8]| {
            let mut key = KeyBuilder::with_prefix(&[]);
            key.append(RawValue::DateTime(date), direction);
            [key.key(), behind].concat()
        };
        Some(match direction {
            SortOrder::Ascending => DueEntries {
                lower: key(i64::MIN, &[]),
                upper: key(last_ms, &[BEHIND_VALUE]),
                oldest_first: Direction::Forward,
            },
            SortOrder::Descending => DueEntries {
                lower: key(last_ms, &[]),
                upper: key(i64::MIN, &[BEHIND_VALUE]),
                oldest_first: Direction::Backward,
            },
        })
    }

    /// Whether one of the document's entries is among these.
    fn has_due(&self, due: &DueEntries, document: RawDocument<'_>) -> Result<bool, WriteError> {
        let entries = self.generator.entries(document, &[])?.entries;
        Ok(entries.iter().any(|entry| {
            let fields = entry.key.get(INDEX_PREFIX..).expect("an entry begins with its index's prefix");
            due.lower.as_slice() <= fields && fields < due.upper.as_slice()
        }))
    }
}

/// What of a collection is hidden at one moment: documents that are past their time by one of its TTL
/// indexes, by the definition of when this was made.
#[derive(Debug)]
pub struct HiddenDocuments {
    /// Each index that expires documents, and which of its entries have come.
    indexes: Vec<(Arc<IndexDefinition>, DueEntries)>,
}

impl HiddenDocuments {
    /// Whether the document is one of them. All of it is needed.
    ///
    /// # Errors
    /// What the partial filter of a TTL index says.
    pub fn has(&self, document: RawDocument<'_>) -> Result<bool, WriteError> {
        for (index, due) in &self.indexes {
            let head = index.spec.fields.first().map(|field| field.path.head());
            // Without the field there is no date.
            let has_field = head.is_some_and(|head| document.element(head.as_bytes()).is_some());
            if has_field && index.has_due(due, document)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl CollectionDefinition {
    /// What is hidden at this moment, in milliseconds since 1970; `None` where nothing can be.
    pub fn hidden_at(&self, moment_ms: i64) -> Option<HiddenDocuments> {
        if !self.options.hide_expired {
            return None;
        }
        let due = |index: &Arc<IndexDefinition>| Some((Arc::clone(index), index.due(moment_ms)?));
        let indexes: Vec<_> = self.indexes.iter().filter_map(due).collect();
        (!indexes.is_empty()).then_some(HiddenDocuments { indexes })
    }
}

impl ExpiryWalk {
    /// A walk over what has expired by this index at this moment, in milliseconds since 1970.
    pub fn new(index: IndexId, moment_ms: i64) -> Self {
        ExpiryWalk {
            index,
            moment_ms,
            position: None,
            found: FoundDocuments::default(),
            found_keys: HashSet::default(),
            figures: ExpiryFigures::default(),
        }
    }

    /// The index that is walked.
    pub const fn index(&self) -> IndexId {
        self.index
    }

    /// What it has done so far, also in a step that has failed.
    pub const fn figures(&self) -> ExpiryFigures {
        self.figures
    }

    /// Goes over the next expired documents, at most so many, and deletes those that still are under their
    /// latches: a document that was changed meanwhile, or an `expireAfterSeconds`, is what it is then. On a
    /// thread that may block.
    ///
    /// Drive it to its end: dropped halfway, documents may have been deleted that are not counted.
    ///
    /// # Errors
    /// What reading and writing say, `QueryPlanKilled` of a dropped collection among it, and the operation's
    /// end. Documents may have been deleted before.
    pub async fn step(
        &mut self,
        context: &OperationContext<'_>,
        collection: &Arc<Collection>,
        documents_max: usize,
    ) -> Result<ExpiryStep, ExpiryError> {
        self.found.clear();
        self.found_keys.clear();
        let definition = collection.definition();
        let index = definition.index_by_id(self.index);
        let Some((index, due)) = index.and_then(|index| Some((index, index.due(self.moment_ms)?))) else {
            return Ok(ExpiryStep::Ended);
        };
        let step = self.gather(context, collection, (index, due), documents_max)?;
        drop(definition);
        self.delete_found(context, collection).await?;
        Ok(step)
    }

    fn gather(
        &mut self,
        context: &OperationContext<'_>,
        collection: &Arc<Collection>,
        (index, mut due): (&IndexDefinition, DueEntries),
        documents_max: usize,
    ) -> Result<ExpiryStep, ExpiryError> {
        match (due.oldest_first, &self.position) {
            (_, None) => {}
            (Direction::Forward, Some(position)) => due.lower = [position, [0].as_slice()].concat(),
            (Direction::Backward, Some(position)) => due.upper.clone_from(position),
        }
        // What is written from here on is read again under the latch.
        let as_of = context.view.sequence();
        let range = EncodedRange { lower: Some(&due.lower), upper: Some(&due.upper) };
        let options = CursorOptions { tier: context.tier, fill_cache: false };
        let mut cursor = collection.index_entries(context.view, index, range, due.oldest_first, options)?;
        let keys_max = self.figures.keys + ENTRIES_MAX;
        while self.found.len() < documents_max
            && self.found.byte_len() < FOUND_BYTES_MAX
            && self.figures.keys < keys_max
        {
            let Some(entry) = cursor.next()? else { return Ok(ExpiryStep::Ended) };
            self.figures.keys += 1;
            if self.figures.keys.is_multiple_of(KEYS_PER_LOOK) {
                checkpoint::look().map_err(WriteError::from)?;
            }
            let position = self.position.get_or_insert_default();
            position.clear();
            position.extend_from_slice(entry.fields);
            position.extend_from_slice(entry.document_key);
            if !self.found_keys.insert(entry.document_key.to_vec()) {
                continue;
            }
            // Without one it is deleted already, by one of its older dates or by somebody else.
            let document = collection.fetch(context.view, entry.document_key, context.tier)?;
            let Some(document) = document else { continue };
            self.figures.documents += 1;
            self.figures.bytes += document.len() as u64;
            let seen = Some((RawDocument::trusted(&document), as_of));
            self.found.push(collection, entry.document_key, seen);
        }
        Ok(ExpiryStep::Continues)
    }

    async fn delete_found(
        &mut self,
        context: &OperationContext<'_>,
        collection: &Arc<Collection>,
    ) -> Result<(), WriteError> {
        let (index, moment_ms) = (self.index, self.moment_ms);
        let mut next = 0;
        while next < self.found.len() {
            checkpoint::look()?;
            let mut removed = Vec::with_capacity(self.found.len() - next);
            let decide = |document: Option<RawDocument<'_>>, _| {
                let is_due = match document {
                    Some(document) => is_due(collection, (index, moment_ms), document)?,
                    None => false,
                };
                removed.push(is_due);
                Ok::<_, WriteError>(if is_due { Decision::Remove } else { Decision::Keep })
            };
            let (settled, result) = collection.update_many(context, &self.found, next, decide).await;
            self.figures.deleted += removed.iter().take(settled).filter(|removed| **removed).count() as u64;
            result?;
            assert!(settled > 0, "the removal of a document needs no unit of its own");
            next += settled;
        }
        Ok(())
    }
}

/// Whether a document has expired by what the index is now. Its latch is held, and so is the collection's:
/// nobody changes either.
fn is_due(
    collection: &Collection,
    (index, moment_ms): (IndexId, i64),
    document: RawDocument<'_>,
) -> Result<bool, WriteError> {
    let definition = collection.definition();
    let Some(index) = definition.index_by_id(index) else { return Ok(false) };
    index.due(moment_ms).map_or(Ok(false), |due| index.has_due(&due, document))
}
