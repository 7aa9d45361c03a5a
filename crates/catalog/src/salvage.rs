//! Making a store anew of what can be read of a damaged one.
//!
//! ```text
//!  definitions ─▶ documents, by collection ─▶ lost_and_found.collection-N: those whose definition is gone
//!              ─▶ counters: what was found     indexes: built of the documents, none is taken over
//! ```
//! It writes beside the one door for changes: nobody is told, for nothing changes.

use crate::catalog::Catalog;
use crate::collection::Collection;
use crate::definition::{CollectionDefinition, IndexState};
use crate::keys::{self, CollectionId};
use crate::validate::check_one;
use crate::write::rules::with_leading_id;
use crate::{CatalogError, CollectionOptions, IndexSpec, Namespace, OperationContext, Receipts, Writer};
use document::RawDocument;
use document::key::encode_value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use storage::{DamagedRange, Direction, FileDefect, Keyspace, Salvage, Store, WriteUnit};

/// The database of what has lost its collection.
const LOST_AND_FOUND: &str = "lost_and_found";
/// An index with the keys of a unique one, for as long as some are there twice.
const UNIQUE_TWIN: &str = "repair_twin";
/// Bytes of one unit.
const UNIT_BYTES: usize = 1 << 20;
/// Documents told of by themselves, of one collection.
const TOLD_MAX: usize = 20;
/// Read at once where documents are looked for that have the same key.
const DUPLICATES_AT_ONCE: usize = 1000;

/// What came of a damaged store.
#[derive(Debug, Default)]
pub struct SalvageReport {
    /// The names of collections by their ids.
    pub names: HashMap<CollectionId, String>,
    /// Ranges in which something cannot be read, and why.
    pub ranges: Vec<(DamagedRange, String)>,
    /// Of what else is lost, a sentence for each.
    pub lost: Vec<String>,
    /// What is to be known and is no loss.
    pub notes: Vec<String>,
    /// Collections and views.
    pub collections: u64,
    /// Documents found.
    pub documents: u64,
    /// Indexes that are to be built, and then were; without `_id_`.
    pub indexes: u64,
    /// The data were those of a member of a set.
    pub is_member: bool,
    specs: Vec<(Namespace, Vec<IndexSpec>)>,
}

/// What was found of one collection.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    documents: u64,
    bytes: u64,
    /// Of which newer versions may be lost.
    older: u64,
    damaged: u64,
}

/// Puts what can be read into a new store, or only looks at it. Indexes are built afterwards
/// ([`SalvageReport::build_indexes`]). `say` is told what is read next.
///
/// # Errors
/// What the new store says.
pub fn copy_salvaged(
    salvage: &Salvage,
    into: Option<&Store>,
    say: &mut dyn FnMut(&str),
) -> Result<SalvageReport, CatalogError> {
    let mut report = SalvageReport::default();
    say("reading the catalog");
    let mut copy = Copy { into, ..Copy::default() };
    copy.read_definitions(salvage, &mut report)?;
    let counted = salvage.counters();
    say("reading documents");
    copy.documents(salvage, &mut report)?;
    copy.finish(&mut report)?;
    let is_lost = |defect: &FileDefect| !defect.is_harmless;
    let lost = !report.ranges.is_empty() || salvage.defects().iter().any(is_lost);
    copy.compare(&counted, lost, &mut report);
    Ok(report)
}

#[derive(Default)]
struct Copy<'s> {
    into: Option<&'s Store>,
    /// As the store has noted it.
    next_id: CollectionId,
    unit: WriteUnit,
    definitions: BTreeMap<CollectionId, CollectionDefinition>,
    tallies: BTreeMap<CollectionId, Tally>,
}

impl Copy<'_> {
    fn write(&mut self, at_least: usize) -> Result<(), CatalogError> {
        if let Some(store) = self.into
            && self.unit.byte_len() >= at_least
        {
            store.write_now(std::mem::take(&mut self.unit))?;
        }
        Ok(())
    }

    fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Result<(), CatalogError> {
        if self.into.is_none() {
            return Ok(());
        }
        self.unit.put(keyspace, key, value);
        self.write(UNIT_BYTES)
    }

    /// Reads the records of collections, and copies what others keep beside them.
    fn read_definitions(
        &mut self,
        salvage: &Salvage,
        report: &mut SalvageReport,
    ) -> Result<(), CatalogError> {
        let (mut ranges, mut found) = (Vec::new(), Vec::new());
        salvage.walk::<CatalogError>(
            Keyspace::Meta,
            &mut |(key, value, _)| {
                found.push((key.to_vec(), value.to_vec()));
                Ok(())
            },
            &mut |range, detail| {
                ranges.push((range, detail));
                Ok(())
            },
        )?;
        for (key, value) in found {
            if key == keys::NEXT_ID_KEY {
                self.next_id = value.first_chunk().copied().map_or(0, u32::from_be_bytes);
                continue;
            }
            let Some(id) = keys::record_id(&key) else {
                report.is_member = true;
                self.put(Keyspace::Meta, &key, &value)?;
                continue;
            };
            let record = RawDocument::parse(&value).map_err(|error| error.to_string());
            let definition = record.and_then(CollectionDefinition::from_record);
            match definition {
                Ok(definition) if definition.id == id => self.take_definition(definition, report),
                Ok(_) => report.lost.push(format!("the definition of collection {id}: it is another one's")),
                Err(defect) => report.lost.push(format!("the definition of collection {id}: {defect}")),
            }
        }
        report.ranges.extend(ranges);
        Ok(())
    }

    /// A name stands for one collection: where a dropped one is back, for the newer one.
    fn take_definition(&mut self, definition: CollectionDefinition, report: &mut SalvageReport) {
        let namespace = definition.namespace.clone();
        report.is_member |= definition.is_oplog();
        let same = self.definitions.values().find(|other| other.namespace == namespace).map(|other| other.id);
        if let Some(other) = same {
            let older = other.min(definition.id);
            report.notes.push(format!(
                "there are two collections {namespace}: what is in the older one is in {}",
                found_name(older)
            ));
            if older == definition.id {
                return;
            }
            self.definitions.remove(&older);
        }
        report.names.insert(definition.id, namespace.to_string());
        self.definitions.insert(definition.id, definition);
    }

    fn documents(&mut self, salvage: &Salvage, report: &mut SalvageReport) -> Result<(), CatalogError> {
        let mut ranges = Vec::new();
        let mut told = Vec::new();
        salvage.walk::<CatalogError>(
            Keyspace::Documents,
            &mut |(key, value, is_older)| self.document(key, value, is_older, &mut told),
            &mut |range, detail| {
                ranges.push((range, detail));
                Ok(())
            },
        )?;
        report.ranges.extend(ranges);
        report.lost.extend(told);
        self.write(1)
    }

    fn document(
        &mut self,
        key: &[u8],
        value: &[u8],
        is_older: bool,
        told: &mut Vec<String>,
    ) -> Result<(), CatalogError> {
        let Some(id) = key.first_chunk().map(|id| u32::from_be_bytes(*id)) else {
            told.push(format!("a document's key makes no sense: {key:02x?}"));
            return Ok(());
        };
        let document_key = keys::behind_collection(key);
        let definition = self.definitions.get(&id).filter(|definition| definition.options.view.is_none());
        let kept = match definition {
            Some(definition) => check_one(definition, document_key, value)
                .and_then(|document| entries_by_id(definition, document, document_key))
                .map(|entries| (key.to_vec(), value.to_vec(), entries)),
            None => self.orphan(id, document_key, value),
        };
        let tally = self.tallies.entry(id).or_default();
        let (key, value, entries) = match kept {
            Ok(kept) => kept,
            Err(defect) => {
                tally.damaged += 1;
                if tally.damaged <= TOLD_MAX as u64 {
                    told.push(format!(
                        "a document of collection {id}, {}: {defect}",
                        keys::describe_key(key).1
                    ));
                }
                return Ok(());
            }
        };
        tally.documents += 1;
        tally.bytes += value.len() as u64;
        tally.older += u64::from(is_older);
        if self.into.is_some() {
            self.unit.put(Keyspace::Documents, &key, &value);
            entries.iter().for_each(|(key, value)| self.unit.put(Keyspace::Indexes, key, value));
            self.unit.add_counter(keys::documents_counter(id), 1);
            self.unit.add_counter(keys::bytes_counter(id), value.len() as i64);
            self.write(UNIT_BYTES)?;
        }
        Ok(())
    }

    /// A document of a collection that nobody knows: by its `_id`, in a collection of a name that says so.
    fn orphan(&mut self, id: CollectionId, document_key: &[u8], value: &[u8]) -> Result<SalvagedRow, String> {
        let document = RawDocument::parse(value).map_err(|error| error.to_string())?;
        let value = with_leading_id(document).into_owned();
        let own = RawDocument::trusted(&value).get("_id").ok_or("it has no _id")?;
        let mut encoded = Vec::with_capacity(document_key.len());
        encode_value(&mut encoded, own);
        let key = keys::row_key(id, &encoded);
        if encoded != document_key && self.is_there(&key)? {
            return Err("another one has its _id".to_owned());
        }
        Ok((key, value, Vec::new()))
    }

    fn is_there(&mut self, key: &[u8]) -> Result<bool, String> {
        self.write(1).map_err(|error| error.to_string())?;
        let Some(store) = self.into else { return Ok(false) };
        store.read_view().exists(Keyspace::Documents, key).map_err(|error| error.to_string())
    }

    /// Makes collections of what belongs to none, and writes all definitions, without indexes that are to be
    /// built.
    fn finish(&mut self, report: &mut SalvageReport) -> Result<(), CatalogError> {
        for (&id, tally) in &self.tallies {
            let is_known = self.definitions.get(&id).is_some_and(|known| known.options.view.is_none());
            if is_known || tally.documents == 0 {
                continue;
            }
            self.definitions.remove(&id);
            let namespace = found_name(id);
            let made = {
                let options = CollectionOptions::default();
                CollectionDefinition::new(id, ambient::uuid(), namespace.clone(), options)?
            };
            report.names.insert(id, namespace.to_string());
            report.lost.push(format!(
                "the definition of collection {id}, or it was dropped: its {} documents are in {namespace}",
                tally.documents
            ));
            self.definitions.insert(id, made);
        }
        let definitions = std::mem::take(&mut self.definitions);
        for definition in definitions.values() {
            let mut copy = definition.copy()?;
            let taken = copy.take_indexes(|index| index.id != keys::ID_INDEX);
            let (ready, unfinished): (Vec<_>, Vec<_>) =
                taken.into_iter().partition(|index| index.state == IndexState::Ready);
            for index in unfinished {
                let (name, of) = (&index.spec.name, &definition.namespace);
                report.notes.push(format!("{of}, index {name}: its build had not ended, it is not there"));
            }
            let specs: Vec<IndexSpec> = ready.iter().map(|index| index.spec.clone()).collect();
            report.indexes += specs.len() as u64;
            if !specs.is_empty() {
                report.specs.push((definition.namespace.clone(), specs));
            }
            report.collections += 1;
            self.put(Keyspace::Meta, &keys::record_key(definition.id), copy.to_record().as_bytes())?;
        }
        // Ids are never used again.
        let last = definitions.keys().chain(self.tallies.keys()).copied().max().unwrap_or(0);
        self.definitions = definitions;
        let next = self.next_id.max(last.saturating_add(1));
        self.put(Keyspace::Meta, keys::NEXT_ID_KEY, &next.to_be_bytes())?;
        self.write(1)
    }

    /// Compares what was found with what the counters say.
    fn compare(&self, counted: &HashMap<u64, i64>, is_damaged: bool, report: &mut SalvageReport) {
        for (&id, definition) in &self.definitions {
            let tally = self.tallies.get(&id).copied().unwrap_or_default();
            report.documents += tally.documents;
            let of = &definition.namespace;
            if tally.older > 0 {
                report.notes.push(format!(
                    "{of}: {} documents lie within ranges that are lost: they may be older than what was \
                    there, or had been deleted",
                    tally.older
                ));
            }
            let before =
                counted.get(&keys::documents_counter(id).0).and_then(|count| u64::try_from(*count).ok());
            let Some(before) = before.filter(|_| definition.options.view.is_none()) else { continue };
            let found = tally.documents;
            let line = format!("{of}: {found} documents are there, {before} were counted");
            match found.cmp(&before) {
                std::cmp::Ordering::Equal => {}
                std::cmp::Ordering::Less if is_damaged || tally.damaged > 0 => report.lost.push(line),
                _ => report.notes.push(line),
            }
        }
    }
}

type KeyAndValue = (Vec<u8>, Vec<u8>);
/// A document's key and bytes, and its entries that are not made later.
type SalvagedRow = (Vec<u8>, Vec<u8>, Vec<KeyAndValue>);

/// The entries of `_id_`, where it has any.
fn entries_by_id(
    definition: &CollectionDefinition,
    document: RawDocument<'_>,
    document_key: &[u8],
) -> Result<Vec<KeyAndValue>, String> {
    let index = definition.index_by_id(keys::ID_INDEX).filter(|index| !index.clustered);
    let Some(index) = index else { return Ok(Vec::new()) };
    let found = index.generator.entries(document, document_key).map_err(|error| error.to_string())?;
    Ok(found.entries.into_iter().map(|entry| (entry.key, entry.value)).collect())
}

fn found_name(id: CollectionId) -> Namespace {
    Namespace::new(LOST_AND_FOUND, &format!("collection-{id}"))
}

impl SalvageReport {
    /// Builds all indexes. What a unique index has twice, for an older version is back, goes to
    /// `lost_and_found`; for data that stay those of a member, rules are not looked at, as its log has it.
    ///
    /// # Errors
    /// Storage errors. An index that cannot be built is told of.
    pub async fn build_indexes(
        &mut self,
        store: &Store,
        writer: Writer,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), CatalogError> {
        let catalog = Catalog::open(store.clone())?;
        let receipts = Receipts::default();
        let context = OperationContext { writer, ..OperationContext::writing(store, &receipts) };
        for (namespace, specs) in std::mem::take(&mut self.specs) {
            if catalog.collection(namespace.database(), namespace.collection()).is_none() {
                continue;
            }
            say(&format!("building {} indexes of {namespace}", specs.len()));
            if catalog.create_indexes(&context, &namespace, &specs).await.is_ok() {
                continue;
            }
            for spec in specs {
                self.build_one(&catalog, &context, &namespace, spec).await?;
            }
        }
        Ok(())
    }

    async fn build_one(
        &mut self,
        catalog: &Arc<Catalog>,
        context: &OperationContext<'_>,
        namespace: &Namespace,
        spec: IndexSpec,
    ) -> Result<(), CatalogError> {
        let name = spec.name.clone();
        let error = match catalog.create_indexes(context, namespace, std::slice::from_ref(&spec)).await {
            Ok(_) => return Ok(()),
            Err(CatalogError::Storage(error)) => return Err(error.into()),
            Err(CatalogError::Commit(error)) => return Err(error.into()),
            Err(error) => error,
        };
        let moved = match spec.unique {
            true => move_duplicates(catalog, context, namespace, &spec).await,
            false => Ok(0),
        };
        match moved {
            Ok(moved @ 1..) if catalog.create_indexes(context, namespace, &[spec]).await.is_ok() => {
                let to = catalog.collection(namespace.database(), namespace.collection());
                let to = to.map(|collection| found_name(collection.id()).to_string()).unwrap_or_default();
                self.lost.push(format!(
                    "{namespace}, index {name}: {moved} documents have keys of others and are in {to}"
                ));
            }
            _ => {
                self.indexes = self.indexes.saturating_sub(1);
                self.lost.push(format!("{namespace}, index {name}: it cannot be built and is gone: {error}"));
            }
        }
        Ok(())
    }
}

/// Moves what a unique index would have twice, all but the first, to `lost_and_found`; how many.
async fn move_duplicates(
    catalog: &Arc<Catalog>,
    context: &OperationContext<'_>,
    namespace: &Namespace,
    spec: &IndexSpec,
) -> Result<u64, CatalogError> {
    let Some(collection) = catalog.collection(namespace.database(), namespace.collection()) else {
        return Ok(0);
    };
    let twin = IndexSpec {
        unique: false,
        prepare_unique: false,
        expire_after_seconds: None,
        window: None,
        name: UNIQUE_TWIN.to_owned(),
        ..spec.clone()
    };
    catalog.create_indexes(context, namespace, &[twin]).await?;
    let moved = move_doubles(catalog, context, &collection).await;
    let twin = crate::IndexSelection::Names(vec![UNIQUE_TWIN.to_owned()]);
    catalog.drop_indexes(context, namespace, &twin).await?;
    moved
}

async fn move_doubles(
    catalog: &Arc<Catalog>,
    context: &OperationContext<'_>,
    collection: &Arc<Collection>,
) -> Result<u64, CatalogError> {
    let found = found_name(collection.id());
    let mut moved = 0;
    loop {
        let doubles = doubles(collection, context)?;
        if doubles.is_empty() {
            return Ok(moved);
        }
        let target = catalog.collection_or_create(context, found.database(), found.collection()).await?;
        for document_key in &doubles {
            let key = keys::row_key(collection.id(), document_key);
            if let Some(bytes) = context.view.get(Keyspace::Documents, &key)? {
                target.insert(context, RawDocument::trusted(&bytes)).await?;
                moved += 1;
            }
            collection.delete(context, document_key).await?;
        }
    }
}

/// Some documents whose keys in the twin are those of one before them.
fn doubles(
    collection: &Arc<Collection>,
    context: &OperationContext<'_>,
) -> Result<HashSet<Vec<u8>>, CatalogError> {
    let definition = collection.definition();
    let twin = definition.index(UNIQUE_TWIN).expect("it was made for this");
    let range = keys::index_range(collection.id(), twin.id);
    let mut cursor = context.view.cursor(Keyspace::Indexes, range, Direction::Forward)?;
    let (mut found, mut previous): (HashSet<Vec<u8>>, Option<Vec<u8>>) = Default::default();
    while found.len() < DUPLICATES_AT_ONCE
        && let Some((key, value)) = cursor.next()?
    {
        let entry = keys::whole_entry(key, value)?;
        if previous.as_deref() == Some(entry.fields) {
            found.insert(entry.document_key.to_vec());
        } else {
            previous = Some(entry.fields.to_vec());
        }
    }
    Ok(found)
}
