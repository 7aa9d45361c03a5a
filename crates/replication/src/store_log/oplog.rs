//! The oplog as everybody but the member sees it.

use super::next_operation;
use super::records::{self, failed};
use super::segments::Limits;
use crate::entry::{LogEntry, LogIndex};
use crate::log::LogError;
use catalog::{Catalog, CatalogError, Collection, OperationContext, Receipts};
use document::{Timestamp, doc};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use storage::{Direction, ReadTier};

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
    pub fn show_up_to(&self, index: LogIndex) {
        self.collection.show_records_through(index);
    }

    /// The first operation that readers see whose timestamp is not before this one.
    ///
    /// # Errors
    /// What the store reports.
    pub fn find_timestamp(&self, timestamp: Timestamp) -> Result<Option<LogIndex>, LogError> {
        let view = self.catalog.store().read_view();
        let nearest = self.collection.record_since(&view, timestamp, ReadTier::Any).map_err(failed)?;
        Ok(nearest.filter(|(_, found)| *found >= timestamp).map(|(index, _)| index))
    }

    /// Entries from the store, from `first` to before `end`; fewer where they have more bytes, but always
    /// one.
    pub(crate) fn entries(
        &self,
        first: LogIndex,
        end: LogIndex,
        bytes_max: u64,
    ) -> Result<Vec<LogEntry>, LogError> {
        let view = self.catalog.store().read_view();
        let mut others = records::entries(&view, first..end)?.into_iter().peekable();
        let mut operations =
            self.collection.records(&view, first..end, Direction::Forward).map_err(failed)?;
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for index in first..end {
            let other = others.next_if(|other| other.position.index == index);
            let entry = match other {
                Some(other) => other,
                None => next_operation(&mut operations, index)?,
            };
            bytes += entry.size();
            if bytes > bytes_max && !entries.is_empty() {
                break;
            }
            entries.push(entry);
        }
        Ok(entries)
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
