//! Inserting: many documents in one write unit, errors per document.

use super::rules::{check_document, check_only_id, check_validator, with_leading_id};
use super::unique::{ReleasedKeys, UniqueProbe, duplicate, duplicate_id};
use crate::change::Changes;
use crate::collection::{Collection, Writing, adds_paths};
use crate::definition::{CollectionDefinition, IndexDefinition};
use crate::index_keys::{IndexEntries, IndexEntryBuf};
use crate::keys;
use crate::options::CappedLimits;
use crate::waiters::give_way;
use crate::{OperationContext, WriteError};
use document::RawDocument;
use document::key::encode_value;
use hashbrown::HashSet;
use query::{QueryError, checkpoint};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use storage::{Keyspace, LatchTable, ReadTier, StorageError};

/// Documents of one write unit at most: bounds how long latches are held and how long one poll takes.
const UNIT_DOCUMENTS_MAX: usize = 512;
/// Bytes of documents of one write unit at most (one document may be larger).
pub(super) const UNIT_BYTES_MAX: usize = 4 << 20;

/// What became of a list of documents.
#[derive(Debug, Default)]
pub struct InsertReport {
    /// How many were inserted.
    pub inserted: usize,
    /// Positions of those that were not, ascending, and why. After a failure of the store (an error that is
    /// not [`WriteError::is_per_document`]) the documents behind it were not tried: in an unordered list each
    /// of them has that error too.
    pub errors: Vec<(usize, WriteError)>,
}

impl InsertReport {
    /// Where an insert that read from memory only needs the disk: everything in front of this document is
    /// settled, and this one and those behind it are to be inserted again with [`ReadTier::Any`].
    pub fn would_block_at(&self) -> Option<usize> {
        self.errors.iter().find_map(|(position, error)| error.would_block().then_some(*position))
    }

    /// None of these documents was inserted. Those of an unordered list all tell why, since each one without
    /// an error counts as inserted.
    fn fail(&mut self, left: Range<usize>, ordered: bool, error: WriteError) {
        let own: Vec<usize> = self.errors.iter().map(|(position, _)| *position).collect();
        let same = |failure: &WriteError| match failure {
            WriteError::Storage(failure) => Some(WriteError::Storage(failure.clone())),
            WriteError::Commit(failure) => Some(WriteError::Commit(failure.clone())),
            _ => None,
        };
        if !ordered && !error.would_block() {
            let others = left.clone().skip(1).filter(|position| own.binary_search(position).is_err());
            self.errors.extend(others.filter_map(|position| Some((position, same(&error)?))));
        }
        if own.binary_search(&left.start).is_err() {
            self.errors.push((left.start, error));
        }
        self.errors.sort_by_key(|(position, _)| *position);
    }
}

/// A document on its way in.
pub(crate) struct Candidate<'d> {
    position: usize,
    pub(crate) bytes: Cow<'d, [u8]>,
    /// Collection id and document key.
    pub(crate) key: Vec<u8>,
    /// By the position of the index among the stored ones.
    pub(crate) entries: Vec<IndexEntries>,
}

impl Candidate<'_> {
    fn document(&self) -> RawDocument<'_> {
        RawDocument::trusted(&self.bytes)
    }

    fn entries_of(&self, index: usize) -> &[IndexEntryBuf] {
        &self.entries.get(index).expect("a document on its way in has its entries of each index").entries
    }
}

impl Collection {
    /// Inserts documents. `ordered` stops at the first that cannot be inserted, unordered goes on with the
    /// next. `_id` is added where it is missing, and moved to the front.
    ///
    /// Drive it to its end: dropped halfway, documents may have been inserted or not.
    pub async fn insert_many(
        &self,
        context: &OperationContext<'_>,
        documents: &[RawDocument<'_>],
        ordered: bool,
    ) -> InsertReport {
        self.insert_from(context, documents, 0, ordered).await
    }

    /// The same from this document on.
    pub async fn insert_from(
        &self,
        context: &OperationContext<'_>,
        documents: &[RawDocument<'_>],
        first: usize,
        ordered: bool,
    ) -> InsertReport {
        let mut report = InsertReport::default();
        // Up to here each of a unit that was too much for one is inserted by itself.
        let (mut next, mut alone_until) = (first, first);
        while next < documents.len() {
            if next > first {
                give_way().await;
                if let Err(ended) = checkpoint::look() {
                    report.errors.push((next, ended.into()));
                    break;
                }
            }
            let end = match next < alone_until {
                true => next + 1,
                false => unit_end(documents, next, self.definition().options.capped.as_ref()),
            };
            let failures = report.errors.len();
            if let Err(error) = self.insert_unit(context, documents, next..end, ordered, &mut report).await {
                if ordered || error.would_block() {
                    // Nothing of the unit is settled: it failed at its first document, or is done again.
                    report.errors.truncate(failures);
                }
                report.fail(next..documents.len(), ordered, error);
                break;
            }
            if self.is_capped() && end > next + 1 && report.errors.len() > failures {
                report.errors.truncate(failures);
                alone_until = end;
                continue;
            }
            let mut refusals = report.errors.iter().skip(failures);
            if let Some(&(last, _)) = report.errors.last()
                && refusals.any(|(_, error)| self.is_way_to_be_made(context, error))
            {
                // In a box: few come here, and every insert has room for what is in its future.
                Box::pin(self.insert_past_hidden(context, documents, failures, ordered, &mut report)).await;
                if ordered && report.errors.len() == failures {
                    next = last + 1;
                    continue;
                }
            }
            if ordered && report.errors.len() > failures {
                break;
            }
            next = end;
        }
        if report.errors.iter().any(|(_, error)| !error.would_block()) {
            context.receipts.observed();
        }
        report
    }

    /// Inserts one document.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn insert(
        &self,
        context: &OperationContext<'_>,
        document: RawDocument<'_>,
    ) -> Result<(), WriteError> {
        let mut report = self.insert_many(context, &[document], true).await;
        report.errors.pop().map_or(Ok(()), |(_, error)| Err(error))
    }

    pub(super) async fn insert_unit(
        &self,
        context: &OperationContext<'_>,
        documents: &[RawDocument<'_>],
        range: Range<usize>,
        ordered: bool,
        report: &mut InsertReport,
    ) -> Result<(), WriteError> {
        let mut writing = self.begin_write().await?;
        let definition = &*writing.definition;
        let failures = report.errors.len();
        let mut candidates = Vec::with_capacity(range.len());
        for (position, document) in documents.iter().enumerate().skip(range.start).take(range.len()) {
            let ahead = candidates.len() as u64;
            match self.prepare(context, definition, position, *document, ahead) {
                Ok(candidate) => candidates.push(candidate),
                Err(error) => {
                    report.errors.push((position, error));
                    if ordered {
                        break;
                    }
                }
            }
        }
        let refused = self.is_capped() && report.errors.len() > failures;
        let inserted = match refused {
            // None of them: a key may be free when those in front of it have pushed another document out.
            true => Ok(()),
            false => self.insert_candidates(context, &mut writing, candidates, ordered, report).await,
        };
        report.errors.sort_by_key(|(position, _)| *position);
        if ordered {
            report.errors.truncate(1);
        }
        inserted
    }

    fn prepare<'d>(
        &self,
        context: &OperationContext<'_>,
        definition: &CollectionDefinition,
        position: usize,
        document: RawDocument<'d>,
        ahead: u64,
    ) -> Result<Candidate<'d>, WriteError> {
        let bytes = with_leading_id(document);
        let stored = RawDocument::trusted(&bytes);
        let id = check_document(stored)?;
        check_only_id(stored)?;
        if context.keeps_rules() && !context.bypass_validation {
            check_validator(definition, None, stored)?;
        }
        let mut key = Vec::with_capacity(32);
        key.extend_from_slice(&self.id().to_be_bytes());
        match definition.options.capped {
            Some(limits) if context.keeps_rules() && bytes.len() as u64 > limits.size_bytes_max => {
                return Err(WriteError::BadValue("object to insert exceeds cappedMaxSize".into()));
            }
            Some(_) => {
                let record = self.next_record.load(Ordering::Relaxed) + ahead;
                key.extend_from_slice(&record.to_be_bytes());
            }
            None => encode_value(&mut key, id),
        }
        let entries = self.entries(context, definition, stored, keys::behind_collection(&key))?;
        Ok(Candidate { position, key, entries, bytes })
    }

    pub(crate) fn entries(
        &self,
        context: &OperationContext<'_>,
        definition: &CollectionDefinition,
        document: RawDocument<'_>,
        document_key: &[u8],
    ) -> Result<Vec<IndexEntries>, WriteError> {
        let indexes = definition.stored_indexes();
        indexes.map(|index| index.generator.entries_for(context, document, document_key)).collect()
    }

    async fn insert_candidates(
        &self,
        context: &OperationContext<'_>,
        writing: &mut Writing,
        candidates: Vec<Candidate<'_>>,
        ordered: bool,
        report: &mut InsertReport,
    ) -> Result<(), WriteError> {
        let definition = &*Arc::clone(&writing.definition);
        let count = candidates.len();
        let hashes: Vec<u64> = candidates.iter().map(|candidate| LatchTable::hash(&candidate.key)).collect();
        writing.latches.add_keys(checkpoint::wait(self.key_latches.documents.lock_many(hashes)).await?);
        self.lock_unique_keys(writing, definition, &candidates).await?;
        let accepted = self.accept(context, definition, candidates, ordered, report)?;
        if accepted.is_empty() || (self.is_capped() && accepted.len() < count) {
            return Ok(());
        }
        let entries = accepted.iter().map(|candidate| candidate.entries.as_slice());
        self.record_new_paths(context, definition, entries).await?;
        self.commit_inserts(context, writing, definition, &accepted).await?;
        report.inserted += accepted.len();
        Ok(())
    }

    /// Keeps the candidates whose keys are free.
    fn accept<'d>(
        &self,
        context: &OperationContext<'_>,
        definition: &CollectionDefinition,
        candidates: Vec<Candidate<'d>>,
        ordered: bool,
        report: &mut InsertReport,
    ) -> Result<Vec<Candidate<'d>>, WriteError> {
        if !context.keeps_rules() {
            return Ok(candidates);
        }
        let mut check = FreshKeys::new(context, self, definition)?;
        let several = candidates.len() > 1;
        if several {
            check.claimed.reserve(candidates.len());
        }
        let mut accepted = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            match check.check(&candidate) {
                Ok(()) => {
                    if several {
                        check.claim(&candidate);
                    }
                    accepted.push(candidate);
                }
                // Whether its holder is hidden, and goes, is found out where it may block: by the whole unit.
                Err(error) if context.tier != ReadTier::Any && self.is_way_to_be_made(context, &error) => {
                    return Err(StorageError::WouldBlock.into());
                }
                Err(error) if error.is_per_document() => {
                    report.errors.push((candidate.position, error));
                    if ordered {
                        break;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(accepted)
    }

    /// Records the paths at which these entries met arrays for the first time.
    pub(crate) async fn record_new_paths<'e>(
        &self,
        context: &OperationContext<'_>,
        definition: &CollectionDefinition,
        documents: impl Iterator<Item = &'e [IndexEntries]>,
    ) -> Result<(), WriteError> {
        let mut additions: Vec<(keys::IndexId, Vec<u128>)> = Vec::new();
        for entries in documents {
            for (index, entries) in definition.stored_indexes().zip(entries) {
                if adds_paths(&index.multikey, &entries.multikey) {
                    additions.push((index.id, entries.multikey.clone()));
                }
            }
        }
        if additions.is_empty() { Ok(()) } else { self.record_multikey(context, &additions).await }
    }

    async fn lock_unique_keys(
        &self,
        writing: &mut Writing,
        definition: &CollectionDefinition,
        candidates: &[Candidate<'_>],
    ) -> Result<(), QueryError> {
        let hashes = unique_hashes(definition, candidates);
        if !hashes.is_empty() {
            writing.latches.add_keys(checkpoint::wait(self.key_latches.unique_keys.lock_many(hashes)).await?);
        }
        Ok(())
    }

    async fn commit_inserts(
        &self,
        context: &OperationContext<'_>,
        writing: &mut Writing,
        definition: &CollectionDefinition,
        accepted: &[Candidate<'_>],
    ) -> Result<(), WriteError> {
        let bytes: usize = accepted.iter().map(|candidate| candidate.bytes.len()).sum();
        let mut changes = Changes::with_capacity(context, bytes + accepted.len() * 64);
        if definition.is_capped() && context.keeps_rules() {
            self.trim(context, definition, accepted.len() as u64, bytes as u64, &mut changes)?;
        }
        for candidate in accepted {
            let entries = candidate.entries.iter().flat_map(|entries| &entries.entries);
            changes.insert(definition, &candidate.key, (candidate.document(), candidate.position), entries);
        }
        if definition.is_capped() {
            // Before the commit: should this future be dropped in it, the unit has used the ids all the same.
            // A refused unit leaves a gap.
            self.next_record.fetch_add(accepted.len() as u64, Ordering::Relaxed);
        }
        changes.hold(std::mem::take(&mut writing.latches));
        changes.commit(&self.store).await?;
        if definition.is_capped() {
            self.inserted().notify();
        }
        Ok(())
    }

    /// Inserts one document whose latch the caller holds: the upsert of an update by `_id`.
    pub(crate) async fn insert_latched(
        &self,
        context: &OperationContext<'_>,
        writing: &mut Writing,
        document: RawDocument<'_>,
        expected_key: &[u8],
    ) -> Result<(), WriteError> {
        let definition = &*Arc::clone(&writing.definition);
        let candidate = self.prepare(context, definition, 0, document, 0)?;
        if candidate.key != expected_key {
            return Err(WriteError::ImmutableField(
                "the inserted document's _id is not the one looked for".into(),
            ));
        }
        let candidates = vec![candidate];
        self.lock_unique_keys(writing, definition, &candidates).await?;
        let mut report = InsertReport::default();
        let accepted = self.accept(context, definition, candidates, true, &mut report)?;
        if let Some((_, error)) = report.errors.pop() {
            context.receipts.observed();
            return Err(error);
        }
        let entries = accepted.iter().map(|candidate| candidate.entries.as_slice());
        self.record_new_paths(context, definition, entries).await?;
        self.commit_inserts(context, writing, definition, &accepted).await
    }
}

/// Where the write unit that begins at `start` ends. It takes at most half of a capped collection: none of
/// its documents pushes another one of them out.
fn unit_end(documents: &[RawDocument<'_>], start: usize, capped: Option<&CappedLimits>) -> usize {
    let half = |limit: u64| usize::try_from(limit / 2).unwrap_or(usize::MAX);
    let documents_max = capped.and_then(|limits| limits.documents_max).map_or(usize::MAX, half);
    let bytes_max = capped.map_or(usize::MAX, |limits| half(limits.size_bytes_max)).min(UNIT_BYTES_MAX);
    let mut bytes = 0;
    let fitting = documents.iter().skip(start).take(UNIT_DOCUMENTS_MAX.min(documents_max));
    let fitting = fitting.take_while(|document| {
        bytes += document.as_bytes().len();
        bytes <= bytes_max
    });
    start + fitting.count().max(1)
}

fn unique_hashes(definition: &CollectionDefinition, candidates: &[Candidate<'_>]) -> Vec<u64> {
    let mut hashes = Vec::new();
    for (position, _) in definition.stored_indexes().enumerate().filter(|(_, index)| index.keeps_unique()) {
        let entries = candidates.iter().flat_map(|candidate| candidate.entries_of(position));
        hashes.extend(entries.map(|entry| LatchTable::hash(entry.fields())));
    }
    hashes
}

/// Checks that new keys exist neither in the store nor earlier in the same unit.
struct FreshKeys<'c> {
    context: &'c OperationContext<'c>,
    definition: &'c CollectionDefinition,
    probes: Vec<(usize, Arc<IndexDefinition>, UniqueProbe)>,
    claimed: HashSet<Vec<u8>>,
    /// Nothing goes in a unit of inserts.
    released: ReleasedKeys,
}

impl<'c> FreshKeys<'c> {
    fn new(
        context: &'c OperationContext<'c>,
        collection: &'c Collection,
        definition: &'c CollectionDefinition,
    ) -> Result<Self, WriteError> {
        let mut probes = Vec::new();
        for (position, index) in
            definition.stored_indexes().enumerate().filter(|(_, index)| index.keeps_unique())
        {
            let probe = UniqueProbe::new(context, collection.id(), index.id)?;
            probes.push((position, Arc::clone(index), probe));
        }
        Ok(FreshKeys {
            context,
            definition,
            probes,
            claimed: HashSet::default(),
            released: ReleasedKeys::default(),
        })
    }

    fn check(&mut self, candidate: &Candidate<'_>) -> Result<(), WriteError> {
        let is_claimed = self.claimed.contains(&candidate.key);
        let known = is_claimed
            || self.context.view.get_tier(Keyspace::Documents, &candidate.key, self.context.tier)?.is_some();
        if known {
            let id = candidate.document().get("_id").expect("a document on its way in has an _id");
            let holder = (!is_claimed).then(|| keys::behind_collection(&candidate.key).to_vec());
            return Err(duplicate_id(self.definition, id.to_value(), holder));
        }
        for (position, index, probe) in &mut self.probes {
            for entry in candidate.entries_of(*position) {
                if self.claimed.contains(entry.fields()) {
                    return Err(duplicate(self.definition, index, entry, None));
                }
                if let Some(holder) = probe.holder(entry, &self.released)? {
                    return Err(duplicate(self.definition, index, entry, Some(holder)));
                }
            }
        }
        Ok(())
    }

    fn claim(&mut self, candidate: &Candidate<'_>) {
        self.claimed.insert(candidate.key.clone());
        for (position, ..) in &self.probes {
            self.claimed.extend(candidate.entries_of(*position).iter().map(|entry| entry.fields().to_vec()));
        }
    }
}
