//! `validate`: does every entry belong to a document, has every document its entries, do the counters agree?

use crate::CatalogError;
use crate::collection::Collection;
use crate::definition::{CollectionDefinition, IndexDefinition};
use crate::index_keys::IndexEntryBuf;
use crate::keys::{self, split_entry};
use crate::waiters::give_way;
use document::key::decode;
use document::key::encode_value;
use document::{RawDocument, RawValue, Value};
use query::checkpoint;
use storage::{Cursor, CursorOptions, Direction, Keyspace, ReadView};

/// Documents or entries checked before others get their turn.
const SLICE: usize = 512;
/// Messages kept of one kind; the rest is counted.
const ERRORS_MAX: usize = 100;

/// The state of one index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexValidation {
    /// The index's name.
    pub name: String,
    /// IndexEntries found.
    pub keys: u64,
    /// What is wrong with it; empty when nothing is.
    pub errors: Vec<String>,
}

/// What `validate` found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ValidationReport {
    /// Documents found.
    pub records: u64,
    /// Documents that are not valid BSON or cannot be where they are.
    pub invalid_documents: u64,
    /// Documents that do not pass the collection's validator.
    pub noncompliant_documents: u64,
    /// Bytes of BSON found.
    pub data_bytes: u64,
    /// Each index, `_id_` first.
    pub indexes: Vec<IndexValidation>,
    /// What is wrong with the collection.
    pub errors: Vec<String>,
    /// What is odd and does no harm.
    pub warnings: Vec<String>,
}

impl ValidationReport {
    /// Whether nothing is wrong.
    pub fn is_valid(&self) -> bool {
        self.errors.is_empty() && self.indexes.iter().all(|index| index.errors.is_empty())
    }

    fn error(&mut self, message: String) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(message);
        }
    }
}

impl Collection {
    /// Checks the collection in the view that `pin` opens when writers are kept out, for as long as it takes;
    /// gives way to others between slices.
    ///
    /// # Errors
    /// Storage errors, the end of the operation; damage is no error, the report tells of it.
    pub async fn validate(&self, pin: impl FnOnce() -> ReadView) -> Result<ValidationReport, CatalogError> {
        let Some(_writers) = self.begin_change().await? else {
            return Err(CatalogError::NamespaceNotFound("the collection was dropped".into()));
        };
        let (view, definition) = (pin(), self.definition());
        let mut report = ValidationReport::default();
        let mut expected = vec![0u64; definition.indexes.len()];
        self.check_documents(&view, &definition, &mut report, &mut expected).await?;
        for (index, expected) in definition.indexes.iter().zip(expected) {
            let checked = self.check_index(&view, index, expected, report.records).await?;
            report.indexes.push(checked);
        }
        let counted = (self.document_count(), self.data_bytes());
        // The owner of the oplog writes meanwhile.
        if !self.is_oplog() && counted != (report.records, report.data_bytes) {
            report.error(format!(
                "counters say {} documents of {} bytes, found {} of {}",
                counted.0, counted.1, report.records, report.data_bytes
            ));
        }
        // What a document is checked with ends early too, and that is no fault of the document.
        checkpoint::look()?;
        Ok(report)
    }

    fn walk(
        &self,
        view: &ReadView,
        keyspace: Keyspace,
        range: storage::KeyRange,
    ) -> Result<Cursor, CatalogError> {
        let options = CursorOptions { fill_cache: false, ..CursorOptions::default() };
        Ok(view.cursor_with(keyspace, range, Direction::Forward, options)?)
    }

    async fn check_documents(
        &self,
        view: &ReadView,
        definition: &CollectionDefinition,
        report: &mut ValidationReport,
        expected: &mut [u64],
    ) -> Result<(), CatalogError> {
        let mut cursor = self.walk(view, Keyspace::Documents, keys::document_range(self.id()))?;
        loop {
            for _ in 0..SLICE {
                let Some((key, value)) = cursor.next()? else { return Ok(()) };
                report.records += 1;
                report.data_bytes += value.len() as u64;
                let document_key = keys::behind_collection(key);
                match check_one(definition, document_key, value) {
                    Ok(document) => {
                        self.check_entries(view, definition, document, document_key, report, expected)?
                    }
                    Err(defect) => {
                        report.invalid_documents += 1;
                        report.error(format!("document {document_key:02x?}: {defect}"));
                    }
                }
            }
            give_way().await;
            checkpoint::look()?;
        }
    }

    /// Document to index: each entry that the document yields exists as it should.
    fn check_entries(
        &self,
        view: &ReadView,
        definition: &CollectionDefinition,
        document: RawDocument<'_>,
        document_key: &[u8],
        report: &mut ValidationReport,
        expected: &mut [u64],
    ) -> Result<(), CatalogError> {
        if let Some(validator) = &definition.validator
            && !validator.matches(document).unwrap_or(false)
        {
            report.noncompliant_documents += 1;
        }
        for (index, expected) in definition.indexes.iter().zip(expected).filter(|(index, _)| !index.clustered)
        {
            let found = match index.generator.entries(document, document_key) {
                Ok(found) => found,
                Err(error) => {
                    report.error(format!("index {}: a document cannot be indexed: {error}", index.spec.name));
                    continue;
                }
            };
            if crate::collection::adds_paths(&index.multikey, &found.multikey) {
                report.error(format!("index {}: holds arrays at paths it does not know of", index.spec.name));
            }
            *expected += found.entries.len() as u64;
            // An index that is being built has them when it is ready.
            for entry in found.entries.iter().filter(|_| index.is_ready()) {
                if view.get(Keyspace::Indexes, &entry.key)?.is_none_or(|value| *value != entry.value) {
                    report.error(format!("index {}: lacks {}", index.spec.name, describe(index, entry)));
                }
            }
        }
        Ok(())
    }

    /// Index to document: each entry belongs to a document that yields it.
    async fn check_index(
        &self,
        view: &ReadView,
        index: &IndexDefinition,
        expected: u64,
        records: u64,
    ) -> Result<IndexValidation, CatalogError> {
        let mut checked = IndexValidation { name: index.spec.name.clone(), keys: 0, errors: Vec::new() };
        if index.clustered {
            checked.keys = records;
            return Ok(checked);
        }
        if !index.is_ready() {
            // What it lacks yet, and what is to go from it, is in its notes.
            return Ok(checked);
        }
        let mut cursor = self.walk(view, Keyspace::Indexes, keys::index_range(self.id(), index.id))?;
        let mut previous: Option<Vec<u8>> = None;
        'walk: loop {
            for _ in 0..SLICE {
                let Some((key, value)) = cursor.next()? else { break 'walk };
                checked.keys += 1;
                if let Err(defect) = self.check_entry(view, index, key, value, &mut previous)?
                    && checked.errors.len() < ERRORS_MAX
                {
                    checked.errors.push(defect);
                }
            }
            give_way().await;
            checkpoint::look()?;
        }
        if checked.keys != expected {
            checked.errors.push(format!("has {} entries, the documents yield {expected}", checked.keys));
        }
        Ok(checked)
    }

    fn check_entry(
        &self,
        view: &ReadView,
        index: &IndexDefinition,
        key: &[u8],
        value: &[u8],
        previous: &mut Option<Vec<u8>>,
    ) -> Result<Result<(), String>, CatalogError> {
        let Some(entry) = split_entry(key, value) else {
            return Ok(Err(format!("entry {key:02x?} is damaged")));
        };
        if let Err(error) = decode(entry.fields, entry.type_bits, &index.spec.directions()) {
            return Ok(Err(format!("entry {key:02x?} cannot be decoded: {error}")));
        }
        if index.spec.unique && index.is_ready() {
            if previous.as_deref() == Some(entry.fields) {
                return Ok(Err(format!("fields {:02x?} occur twice in a unique index", entry.fields)));
            }
            *previous = Some(entry.fields.to_vec());
        }
        let Some(bytes) = view.get(Keyspace::Documents, &keys::row_key(self.id(), entry.document_key))?
        else {
            return Ok(Err(format!("entry {key:02x?} belongs to no document")));
        };
        let entries = index.generator.entries(RawDocument::trusted(&bytes), entry.document_key);
        let yielded =
            entries.is_ok_and(|found| found.entries.iter().any(|own| own.key == key && own.value == value));
        Ok(if yielded { Ok(()) } else { Err(format!("entry {key:02x?} is not what its document yields")) })
    }
}

/// Whether a document is one, and where it belongs.
pub(crate) fn check_one<'v>(
    definition: &CollectionDefinition,
    document_key: &[u8],
    value: &'v [u8],
) -> Result<RawDocument<'v>, String> {
    let document = RawDocument::parse(value).map_err(|error| error.to_string())?;
    if definition.is_oplog() {
        return Ok(document);
    }
    let first = document.first().filter(|element| element.name_bytes() == b"_id");
    let id: RawValue<'_> = first.ok_or("_id is not the first field")?.value();
    if definition.is_capped() {
        return if document_key.len() == 8 { Ok(document) } else { Err("its key is no record id".into()) };
    }
    let mut encoded = Vec::with_capacity(32);
    encode_value(&mut encoded, id);
    if encoded != document_key {
        return Err(format!("its key does not agree with its _id {}", id.quoted()));
    }
    Ok(document)
}

fn describe(index: &IndexDefinition, entry: &IndexEntryBuf) -> String {
    let split = split_entry(&entry.key, &entry.value);
    let values = split.and_then(|split| decode(split.fields, split.type_bits, &index.spec.directions()).ok());
    let fields = Value::Array(values.unwrap_or_default().into()).quoted();
    format!("{fields} of document {:02x?}", split.map(|split| split.document_key).unwrap_or_default())
}
