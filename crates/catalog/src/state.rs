//! The catalog's snapshot: which names exist. Immutable; a change makes a new one.

use crate::collection::Collection;
use crate::definition::CollectionDefinition;
use crate::namespace::{Namespace, NamespaceRef};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// What a name stands for.
#[derive(Debug, Clone)]
pub enum CatalogEntry {
    /// A collection.
    Collection(Arc<Collection>),
    /// A view; its options say of what.
    View(Arc<CollectionDefinition>),
}

impl CatalogEntry {
    /// The definition of this moment.
    pub fn definition(&self) -> Arc<CollectionDefinition> {
        match self {
            CatalogEntry::Collection(collection) => collection.definition(),
            CatalogEntry::View(definition) => Arc::clone(definition),
        }
    }
}

/// Every name at one moment.
#[derive(Debug, Clone, Default)]
pub struct CatalogState {
    names: HashMap<Namespace, CatalogEntry, FxBuildHasher>,
    /// Counted when it is first asked for, once for each version of the state.
    counts: OnceLock<NameCounts>,
}

/// How many names there are of each kind. What the server keeps for itself is counted apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NameCounts {
    /// Collections of clients.
    pub collections: u64,
    /// Those of them that are capped.
    pub capped: u64,
    /// Those of them that were created with `clusteredIndex`.
    pub clustered: u64,
    /// Views.
    pub views: u64,
    /// Collections of the server.
    pub internal: u64,
}

impl CatalogState {
    /// What a name stands for. Allocates nothing.
    #[inline]
    pub fn get(&self, database: &str, collection: &str) -> Option<&CatalogEntry> {
        self.names.get(&NamespaceRef { database, collection })
    }

    /// All databases with something in them, sorted.
    pub fn databases(&self) -> Vec<String> {
        let names: BTreeSet<&str> = self.names.keys().map(Namespace::database).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// The entries of a database, sorted by name.
    pub fn entries(&self, database: &str) -> Vec<(Namespace, CatalogEntry)> {
        let of_database = self.names.iter().filter(|(namespace, _)| namespace.database() == database);
        let mut entries: Vec<_> = of_database.map(|(name, entry)| (name.clone(), entry.clone())).collect();
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        entries
    }

    /// How many names there are of each kind.
    pub fn counts(&self) -> NameCounts {
        *self.counts.get_or_init(|| {
            let mut counts = NameCounts::default();
            for (namespace, entry) in &self.names {
                match entry {
                    CatalogEntry::View(_) => counts.views += 1,
                    CatalogEntry::Collection(_) if namespace.is_internal() => counts.internal += 1,
                    CatalogEntry::Collection(collection) => {
                        counts.collections += 1;
                        counts.capped += u64::from(collection.is_capped());
                        let is_clustered = collection.definition().options.clustered_index().is_some();
                        counts.clustered += u64::from(is_clustered);
                    }
                }
            }
            counts
        })
    }

    /// All collections, in no order.
    pub fn collections(&self) -> impl Iterator<Item = &Arc<Collection>> {
        self.names.values().filter_map(|entry| match entry {
            CatalogEntry::Collection(collection) => Some(collection),
            CatalogEntry::View(_) => None,
        })
    }

    /// The existing spelling of a database whose name differs from `name` only in upper and lower case.
    pub(crate) fn database_differing_in_case(&self, name: &str) -> Option<&str> {
        let mut databases = self.names.keys().map(Namespace::database);
        databases.find(|existing| *existing != name && existing.eq_ignore_ascii_case(name))
    }

    pub(crate) fn insert(&mut self, namespace: Namespace, entry: CatalogEntry) {
        self.counts = OnceLock::new();
        self.names.insert(namespace, entry);
    }

    pub(crate) fn remove(&mut self, namespace: &Namespace) {
        self.counts = OnceLock::new();
        self.names.remove(namespace);
    }
}
