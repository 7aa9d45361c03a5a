//! The oplog as everybody but the member sees it.

use super::records::failed;
use super::segments::Limits;
use crate::entry::Index;
use crate::log::LogError;
use catalog::{Catalog, CatalogError, Collection, OperationContext, Receipts};
use document::{Timestamp, doc};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use storage::ReadTier;

/// `local.oplog.rs`.
#[derive(Debug, Clone)]
pub struct Oplog {
    catalog: Arc<Catalog>,
    collection: Arc<Collection>,
    /// Zero: none is given.
    retention_ms: Arc<AtomicU64>,
}

impl Oplog {
    pub(super) fn new(
        catalog: Arc<Catalog>,
        collection: Arc<Collection>,
        retention: Option<Duration>,
    ) -> Self {
        let oplog = Oplog { catalog, collection, retention_ms: Arc::default() };
        oplog.set_retention(retention);
        oplog
    }

    /// Readers see the operations up to this index: all of them are applied. Wakes those who wait for more.
    pub fn show_up_to(&self, index: Index) {
        self.collection.show_records_through(index);
    }

    /// The first operation that readers see whose timestamp is not before this one.
    ///
    /// # Errors
    /// What the store reports.
    pub fn find_timestamp(&self, timestamp: Timestamp) -> Result<Option<Index>, LogError> {
        let view = self.catalog.store().read_view();
        let nearest = self.collection.record_since(&view, timestamp, ReadTier::Any).map_err(failed)?;
        Ok(nearest.filter(|(_, found)| *found >= timestamp).map(|(index, _)| index))
    }

    /// From so many bytes of operations on the oldest go.
    pub fn size_bytes(&self) -> u64 {
        self.collection.definition().options.capped.map_or(0, |limits| limits.size_bytes_max)
    }

    /// Changes that, for good.
    ///
    /// # Errors
    /// What the store reports.
    pub async fn resize(&self, size_bytes: u64) -> Result<(), CatalogError> {
        let receipts = Receipts::default();
        let context = OperationContext::writing(self.catalog.store(), &receipts);
        let namespace = self.collection.definition().namespace.clone();
        let fields = doc! { "cappedSize": (i64::try_from(size_bytes).unwrap_or(i64::MAX)) }.to_buf();
        self.catalog.coll_mod(&context, &namespace, fields.as_raw()).await.map(drop)
    }

    /// What is younger stays, whatever its size.
    pub fn retention(&self) -> Option<Duration> {
        Some(self.retention_ms.load(Ordering::Relaxed)).filter(|ms| *ms > 0).map(Duration::from_millis)
    }

    /// Changes that, until the next start.
    pub fn set_retention(&self, retention: Option<Duration>) {
        let ms = retention.map_or(0, |retention| u64::try_from(retention.as_millis()).unwrap_or(u64::MAX));
        self.retention_ms.store(ms, Ordering::Relaxed);
    }

    pub(super) fn limits(&self) -> Limits {
        Limits { size_bytes: self.size_bytes(), retention: self.retention() }
    }
}
