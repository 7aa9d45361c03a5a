//! What a collection is at one moment: names, options, indexes. Immutable; a change makes a new one.

use crate::index_keys::{KeyGenerator, MultikeyPaths, is_multikey};
use crate::index_spec::same_pattern;
use crate::keys::{CollectionId, ID_INDEX, IndexId, index_prefix, notes_prefix};
use crate::{CatalogError, CollectionOptions, FieldKind, IndexSpec, Namespace};
use document::key::SortOrder;
use document::{Document, DocumentBuf, RawDocument, RawValue, Value};
use query::Environment;
use query::matcher::Matcher;
use query::plan::{FieldOrder, IndexDescription, IndexKeyPart};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use uuid::Uuid;

/// BSON's binary subtype of a UUID.
pub(crate) const UUID_SUBTYPE: u8 = 4;

/// Whether an index can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexState {
    /// Complete.
    Ready,
    /// Writers note what they would do to its entries, a build makes the index of what was there before and
    /// of these notes; not to be read yet.
    Building,
}

/// One index of a collection.
#[derive(Debug)]
pub struct IndexDefinition {
    /// Its id within the collection.
    pub id: IndexId,
    /// What it indexes and how.
    pub spec: IndexSpec,
    /// Whether it can be read.
    pub state: IndexState,
    /// Where arrays were met so far.
    pub multikey: MultikeyPaths,
    /// Whether this is the `_id_` of a collection clustered by `_id`, which has no entries of its own.
    pub clustered: bool,
    pub(crate) generator: KeyGenerator,
    /// Reads that walked the index, over all versions of this definition since the start.
    uses: Arc<AtomicU64>,
}

impl IndexDefinition {
    pub(crate) fn new(
        collection: CollectionId,
        id: IndexId,
        spec: IndexSpec,
        state: IndexState,
        multikey: MultikeyPaths,
        capped: bool,
    ) -> Result<Self, CatalogError> {
        let prefix = match state {
            IndexState::Ready => index_prefix(collection, id),
            IndexState::Building => notes_prefix(collection, id),
        };
        let generator = KeyGenerator::new(&spec, prefix)?;
        let mut multikey = multikey;
        multikey.resize(spec.fields.len(), 0);
        let clustered = id == ID_INDEX && !capped;
        Ok(IndexDefinition { id, state, multikey, clustered, generator, spec, uses: Arc::default() })
    }

    /// Counts a read that walks the index.
    pub fn count_use(&self) {
        self.uses.fetch_add(1, Ordering::Relaxed);
    }

    /// How many reads walked the index since the start.
    pub fn uses(&self) -> u64 {
        self.uses.load(Ordering::Relaxed)
    }

    /// Whether some document has several entries.
    pub fn is_multikey(&self) -> bool {
        is_multikey(&self.multikey)
    }

    /// Whether the index can be read.
    pub fn is_ready(&self) -> bool {
        self.state == IndexState::Ready
    }

    /// The partial filter, parsed.
    pub fn partial_filter(&self) -> Option<&Matcher> {
        self.generator.partial()
    }

    /// The index as the planner sees it.
    fn describe(&self) -> IndexDescription {
        let fields = self.spec.fields.iter().zip(&self.multikey).map(|(field, arrays)| {
            let order = match field.kind {
                FieldKind::Ordered(SortOrder::Ascending) => FieldOrder::Ascending,
                FieldKind::Ordered(SortOrder::Descending) => FieldOrder::Descending,
                FieldKind::Hashed => FieldOrder::Hashed,
            };
            IndexKeyPart::new(field.path.as_str(), order).with_arrays_at(*arrays)
        });
        IndexDescription {
            unique: self.spec.unique,
            sparse: self.spec.sparse,
            hidden: self.spec.hidden,
            partial: self.partial_filter().cloned(),
            clustered: self.clustered,
            collated: self.spec.collation.is_some(),
            ..IndexDescription::new(&self.spec.name, fields.collect())
        }
    }

    /// Whether new writes must keep the keys unique. While the index is built they need not: its build looks
    /// at the keys when all are there.
    pub(crate) fn keeps_unique(&self) -> bool {
        self.is_ready() && self.is_to_be_unique()
    }

    /// Whether keys are unique once the index is ready.
    pub(crate) fn is_to_be_unique(&self) -> bool {
        self.spec.unique || self.spec.prepare_unique
    }

    fn to_record(&self) -> Document {
        let mut record = Document::new();
        record.push("id", i64::from(self.id));
        record.push("spec", self.spec.to_document());
        record.push("state", if self.is_ready() { "ready" } else { "building" });
        let paths = self.multikey.iter().map(|&positions| {
            let set = (0..128i32).filter(|&position| positions >> position & 1 == 1);
            Value::Array(set.map(Value::Int32).collect())
        });
        record.push("multikeyPaths", paths.collect::<Vec<_>>());
        record
    }

    fn from_record(collection: CollectionId, record: RawDocument<'_>, capped: bool) -> Result<Self, String> {
        let id = record.get("id").and_then(RawValue::as_i64_exact).and_then(|id| IndexId::try_from(id).ok());
        let id = id.ok_or("an index has no id")?;
        let spec =
            record.get("spec").and_then(RawValue::as_document).ok_or("an index has no specification")?;
        let state = match record.get("state").and_then(RawValue::as_str) {
            Some("ready") => IndexState::Ready,
            Some("building") => IndexState::Building,
            _ => return Err("an index has no state".into()),
        };
        let paths = record
            .get("multikeyPaths")
            .and_then(RawValue::as_array)
            .ok_or("an index has no multikey paths")?;
        let multikey = paths
            .iter()
            .map(|positions| {
                let positions = positions.as_array().ok_or("an index has a multikey path that is no list")?;
                positions.iter().try_fold(0u128, |set, position| {
                    let position = position.as_i64_exact().and_then(|position| u32::try_from(position).ok());
                    let bit = position.and_then(|position| 1u128.checked_shl(position));
                    // Taken for no array, its documents would be missing from answers.
                    Ok(set | bit.ok_or("an index has a multikey path with no position of a component")?)
                })
            })
            .collect::<Result<_, &str>>()?;
        let spec = IndexSpec::parse(spec).map_err(|error| error.to_string())?;
        IndexDefinition::new(collection, id, spec, state, multikey, capped).map_err(|error| error.to_string())
    }

    /// The same index in another state.
    pub(crate) fn with(
        &self,
        collection: CollectionId,
        spec: IndexSpec,
        state: IndexState,
        multikey: MultikeyPaths,
        capped: bool,
    ) -> Result<Self, CatalogError> {
        let changed = IndexDefinition::new(collection, self.id, spec, state, multikey, capped)?;
        Ok(IndexDefinition { uses: Arc::clone(&self.uses), ..changed })
    }
}

/// A collection or a view at one moment.
#[derive(Debug)]
pub struct CollectionDefinition {
    /// Its id on disk.
    pub id: CollectionId,
    /// Its UUID, which survives renames.
    pub uuid: Uuid,
    /// Its name.
    pub namespace: Namespace,
    /// What it was created with, as changed by `collMod`.
    pub options: CollectionOptions,
    /// Its indexes in the order of their making; `_id_` first. A view has none.
    pub indexes: Vec<Arc<IndexDefinition>>,
    pub(crate) next_index_id: IndexId,
    /// Indexes that have become complete since the start, and the sequence number from which on views have
    /// them whole.
    completed: Vec<(IndexId, u64)>,
    pub(crate) validator: Option<Matcher>,
    /// What the planner is told; made when it is first asked for.
    descriptions: OnceLock<Vec<Arc<IndexDescription>>>,
}

impl CollectionDefinition {
    pub(crate) fn new(
        id: CollectionId,
        uuid: Uuid,
        namespace: Namespace,
        options: CollectionOptions,
    ) -> Result<Self, CatalogError> {
        let mut definition = CollectionDefinition::unindexed(id, uuid, namespace, options)?;
        if definition.options.view.is_none() {
            let spec = IndexSpec { collation: definition.options.collation.clone(), ..IndexSpec::id_index() };
            definition.add_index(spec, IndexState::Ready)?;
        }
        Ok(definition)
    }

    /// One without an index on `_id`.
    pub(crate) fn unindexed(
        id: CollectionId,
        uuid: Uuid,
        namespace: Namespace,
        options: CollectionOptions,
    ) -> Result<Self, CatalogError> {
        let mut definition = CollectionDefinition {
            id,
            uuid,
            namespace,
            options,
            indexes: Vec::new(),
            next_index_id: ID_INDEX,
            completed: Vec::new(),
            validator: None,
            descriptions: OnceLock::new(),
        };
        definition.compile_validator()?;
        Ok(definition)
    }

    /// A copy to be changed. Indexes are shared.
    pub(crate) fn copy(&self) -> Result<Self, CatalogError> {
        let mut copy = CollectionDefinition {
            id: self.id,
            uuid: self.uuid,
            namespace: self.namespace.clone(),
            options: self.options.clone(),
            indexes: self.indexes.clone(),
            next_index_id: self.next_index_id,
            completed: self.completed.clone(),
            validator: None,
            descriptions: OnceLock::new(),
        };
        copy.compile_validator()?;
        Ok(copy)
    }

    /// Notes which indexes were not complete in the definition before.
    pub(crate) fn note_completed(&mut self, before: &CollectionDefinition, sequence: u64) {
        let is_ready =
            |of: &CollectionDefinition, id| of.index_by_id(id).is_some_and(|index| index.is_ready());
        let completed = self.indexes.iter().map(|index| index.id);
        let completed: Vec<IndexId> =
            completed.filter(|&id| is_ready(self, id) && !is_ready(before, id)).collect();
        self.completed.extend(completed.into_iter().map(|id| (id, sequence)));
    }

    /// What of it a view of this sequence number has whole.
    pub(crate) fn as_of(definition: Arc<Self>, sequence: u64) -> Arc<Self> {
        let is_whole =
            |id| !definition.completed.iter().any(|(young, since)| *young == id && *since > sequence);
        if definition.indexes.iter().all(|index| is_whole(index.id)) {
            return definition;
        }
        let indexes = definition.indexes.iter().filter(|index| is_whole(index.id));
        Arc::new(CollectionDefinition {
            id: definition.id,
            uuid: definition.uuid,
            namespace: definition.namespace.clone(),
            options: definition.options.clone(),
            indexes: indexes.cloned().collect(),
            next_index_id: definition.next_index_id,
            completed: Vec::new(),
            // Only writers ask for it, and they write to the newest version.
            validator: None,
            descriptions: OnceLock::new(),
        })
    }

    pub(crate) fn compile_validator(&mut self) -> Result<(), CatalogError> {
        self.validator = match &self.options.validator {
            Some(filter) if !filter.is_empty() => {
                Some(Matcher::parse(filter.as_raw(), &Environment::default())?)
            }
            _ => None,
        };
        Ok(())
    }

    pub(crate) fn add_index(&mut self, spec: IndexSpec, state: IndexState) -> Result<IndexId, CatalogError> {
        let id = self.next_index_id;
        let index = IndexDefinition::new(self.id, id, spec, state, Vec::new(), self.is_capped())?;
        self.indexes.push(Arc::new(index));
        self.descriptions = OnceLock::new();
        self.next_index_id += 1;
        Ok(id)
    }

    /// Takes out the indexes that are meant.
    pub(crate) fn take_indexes(
        &mut self,
        is_meant: impl Fn(&IndexDefinition) -> bool,
    ) -> Vec<Arc<IndexDefinition>> {
        let (taken, kept) = std::mem::take(&mut self.indexes).into_iter().partition(|index| is_meant(index));
        self.indexes = kept;
        self.descriptions = OnceLock::new();
        taken
    }

    /// Replaces one index by a version of itself.
    pub(crate) fn change_index(
        &mut self,
        id: IndexId,
        change: impl FnOnce(&IndexDefinition) -> (IndexSpec, IndexState, MultikeyPaths),
    ) -> Result<(), CatalogError> {
        let (collection, capped) = (self.id, self.is_capped());
        if let Some(index) = self.indexes.iter_mut().find(|index| index.id == id) {
            let (spec, state, multikey) = change(index);
            *index = Arc::new(index.with(collection, spec, state, multikey, capped)?);
            self.descriptions = OnceLock::new();
        }
        Ok(())
    }

    /// The readable indexes as the planner sees them.
    pub fn index_descriptions(&self) -> &[Arc<IndexDescription>] {
        self.descriptions.get_or_init(|| {
            let ready = self.indexes.iter().filter(|index| index.is_ready());
            ready.map(|index| Arc::new(index.describe())).collect()
        })
    }

    /// Whether this is a capped collection.
    pub fn is_capped(&self) -> bool {
        self.options.capped.is_some()
    }

    /// The index of this name.
    pub fn index(&self, name: &str) -> Option<&Arc<IndexDefinition>> {
        self.indexes.iter().find(|index| index.spec.name == name)
    }

    /// The index of this id.
    pub fn index_by_id(&self, id: IndexId) -> Option<&Arc<IndexDefinition>> {
        self.indexes.iter().find(|index| index.id == id)
    }

    /// The indexes with this key pattern.
    pub fn indexes_by_pattern(&self, pattern: &Document) -> Vec<&Arc<IndexDefinition>> {
        self.indexes.iter().filter(|index| same_pattern(&index.spec.key, pattern)).collect()
    }

    /// Indexes with entries of their own: what writers maintain.
    pub(crate) fn stored_indexes(&self) -> impl Iterator<Item = &Arc<IndexDefinition>> {
        self.indexes.iter().filter(|index| !index.clustered)
    }

    /// The record in `Keyspace::Meta`.
    pub(crate) fn to_record(&self) -> DocumentBuf {
        let mut record = Document::new();
        record.push("id", i64::from(self.id));
        record.push("uuid", Value::binary(UUID_SUBTYPE, self.uuid.as_bytes().to_vec()));
        record.push("db", self.namespace.database());
        record.push("name", self.namespace.collection());
        record.push("options", self.options.given());
        record.push("nextIndexId", i64::from(self.next_index_id));
        let indexes = self.indexes.iter().map(|index| Value::Document(index.to_record()));
        record.push("indexes", indexes.collect::<Vec<_>>());
        record.to_buf()
    }

    /// Reads what [`CollectionDefinition::to_record`] wrote; the error tells what is wrong.
    pub(crate) fn from_record(record: RawDocument<'_>) -> Result<Self, String> {
        let number = |name: &str| {
            let number =
                record.get(name).and_then(RawValue::as_i64_exact).and_then(|id| u32::try_from(id).ok());
            number.ok_or_else(|| format!("{name} is missing"))
        };
        let text = |name: &str| {
            record.get(name).and_then(RawValue::as_str).ok_or_else(|| format!("{name} is missing"))
        };
        let Some(RawValue::Binary { bytes, .. }) = record.get("uuid") else {
            return Err("uuid is missing".into());
        };
        let options = record.get("options").and_then(RawValue::as_document).ok_or("options are missing")?;
        let options = CollectionOptions::parse(options).map_err(|error| error.to_string())?;
        let id = number("id")?;
        let indexes = record.get("indexes").and_then(RawValue::as_array).ok_or("indexes are missing")?;
        let capped = options.capped.is_some();
        let indexes = indexes
            .iter()
            .map(|index| {
                let index = index.as_document().ok_or("an index is no document")?;
                IndexDefinition::from_record(id, index, capped).map(Arc::new)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let mut definition = CollectionDefinition {
            id,
            uuid: Uuid::from_slice(bytes).map_err(|error| error.to_string())?,
            namespace: Namespace::new(text("db")?, text("name")?),
            options,
            indexes,
            next_index_id: number("nextIndexId")?,
            completed: Vec::new(),
            validator: None,
            descriptions: OnceLock::new(),
        };
        definition.compile_validator().map_err(|error| error.to_string())?;
        Ok(definition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::doc;

    #[test]
    fn half_a_record_is_none() {
        let options = CollectionOptions::default();
        let definition = CollectionDefinition::new(9, Uuid::nil(), Namespace::new("db", "c"), options)
            .expect("a definition");
        let whole = definition.to_record().as_raw().to_document();
        let names: Vec<String> = whole.iter().map(|(name, _)| name.to_owned()).collect();
        for name in &names {
            let rest: Document = whole
                .iter()
                .filter(|(other, _)| other != name)
                .map(|(name, value)| (name, value.clone()))
                .collect();
            let read = CollectionDefinition::from_record(rest.to_buf().as_raw());
            assert!(read.is_err(), "a collection without its {name} is another one");
        }
    }

    #[test]
    fn a_record_comes_back() {
        let options = doc! { "capped": true, "size": 5000, "validator": { "a": 1 } };
        let options = CollectionOptions::parse(options.to_buf().as_raw()).expect("options");
        let mut definition = CollectionDefinition::new(9, Uuid::nil(), Namespace::new("db", "c.d"), options)
            .expect("a definition");
        let spec = doc! { "key": { "x.y": -1 }, "name": "x", "unique": true };
        let spec = IndexSpec::parse(spec.to_buf().as_raw()).expect("a specification");
        let id = definition.add_index(spec, IndexState::Building).expect("an index");
        definition.change_index(id, |index| (index.spec.clone(), index.state, vec![0b10])).expect("a change");
        let record = definition.to_record();
        let read = CollectionDefinition::from_record(record.as_raw()).expect("a record");
        assert_eq!(read.to_record(), record);
        let index = read.index("x").expect("the index");
        assert_eq!((index.state, &index.multikey), (IndexState::Building, &vec![0b10]));
        assert!(
            !read.index("_id_").expect("the index").clustered,
            "a capped collection stores its _id_ index"
        );
        assert!(read.validator.is_some());
    }
}
