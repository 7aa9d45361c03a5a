//! Counting what the server does: operations by class, commands by name, work per collection.

use document::{Document, doc};
use hashbrown::HashMap;
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The classes of `serverStatus.opcounters`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationClass {
    /// `insert`, by document.
    Insert,
    /// `find`, `aggregate`'s reads count as commands.
    Query,
    /// `update`, by statement.
    Update,
    /// `delete`, by statement.
    Delete,
    /// `getMore`.
    GetMore,
    /// Everything else.
    Command,
}

/// A counter on a cache line of its own, so that threads on different classes do not disturb each other.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds.
    #[inline]
    pub fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    /// The sum.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// `serverStatus.opcounters` and a few figures of the document layer.
#[derive(Debug, Default)]
pub struct OperationCounters {
    classes: [Counter; 6],
    /// Documents returned by reads.
    pub documents_returned: Counter,
    /// Documents inserted.
    pub documents_inserted: Counter,
    /// Documents updated.
    pub documents_updated: Counter,
    /// Documents deleted.
    pub documents_deleted: Counter,
    /// Index keys looked at.
    pub keys_scanned: Counter,
    /// Documents looked at.
    pub documents_scanned: Counter,
    /// Sorts in memory.
    pub sorts: Counter,
    /// Collection scans.
    pub collection_scans: Counter,
    /// Errors that the user's input caused.
    pub user_asserts: Counter,
    /// Errors that are the server's fault.
    pub regular_asserts: Counter,
    /// Commands refused because the server was overloaded.
    pub refused_under_overload: Counter,
}

impl OperationCounters {
    /// Counts operations of a class.
    #[inline]
    pub fn count(&self, class: OperationClass, number: u64) {
        if let Some(counter) = self.classes.get(class as usize) {
            counter.add(number);
        }
    }

    /// Operations of a class so far.
    pub fn of(&self, class: OperationClass) -> u64 {
        self.classes.get(class as usize).map_or(0, Counter::get)
    }

    /// The section of `serverStatus`.
    pub fn to_document(&self) -> Document {
        let of = |class| self.of(class) as i64;
        doc! {
            "insert": (of(OperationClass::Insert)), "query": (of(OperationClass::Query)),
            "update": (of(OperationClass::Update)), "delete": (of(OperationClass::Delete)),
            "getmore": (of(OperationClass::GetMore)), "command": (of(OperationClass::Command)),
        }
    }
}

/// How the time of one collection is spent: a row of `top`. One pair of counters for each class; sums are made when they are read.
#[derive(Debug, Default)]
pub struct CollectionUsage {
    classes: [TimeAndCount; 6],
}

#[derive(Debug, Default)]
struct TimeAndCount {
    time_us: AtomicU64,
    count: AtomicU64,
}

impl CollectionUsage {
    /// Adds one use.
    pub fn add(&self, class: OperationClass, took: Duration) {
        if let Some(cell) = self.classes.get(class as usize) {
            cell.time_us.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
            cell.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Time in microseconds and number of these classes.
    fn sums(&self, classes: &[OperationClass]) -> (i64, i64) {
        let cells = classes.iter().filter_map(|class| self.classes.get(*class as usize));
        cells.fold((0, 0), |(time, count), cell| {
            let (more_time, more) =
                (cell.time_us.load(Ordering::Relaxed), cell.count.load(Ordering::Relaxed));
            (time + more_time as i64, count + more as i64)
        })
    }

    fn sum(&self, classes: &[OperationClass]) -> Document {
        let (time, count) = self.sums(classes);
        doc! { "time": time, "count": count }
    }

    /// The `latencyStats` of `$collStats`, times in microseconds.
    pub fn latencies(&self) -> Document {
        use OperationClass as Class;
        let of = |classes: &[Class]| {
            let (latency, ops) = self.sums(classes);
            doc! { "latency": latency, "ops": ops, "queryableEncryptionLatencyMicros": 0_i64 }
        };
        doc! {
            "reads": (of(&[Class::Query, Class::GetMore])),
            "writes": (of(&[Class::Insert, Class::Update, Class::Delete])),
            "commands": (of(&[Class::Command])), "transactions": (of(&[])),
        }
    }

    /// The row of `top`, times in microseconds.
    pub fn to_document(&self) -> Document {
        use OperationClass as Class;
        doc! {
            "total": (self.sum(&[Class::Insert, Class::Query, Class::Update, Class::Delete, Class::GetMore, Class::Command])),
            "readLock": (self.sum(&[Class::Query, Class::GetMore, Class::Command])),
            "writeLock": (self.sum(&[Class::Insert, Class::Update, Class::Delete])),
            "queries": (self.sum(&[Class::Query])), "getmore": (self.sum(&[Class::GetMore])),
            "insert": (self.sum(&[Class::Insert])), "update": (self.sum(&[Class::Update])),
            "remove": (self.sum(&[Class::Delete])), "commands": (self.sum(&[Class::Command])),
        }
    }
}

/// Rows of `top` at most: names come from clients, who may invent any number of them.
const COLLECTIONS_MAX: usize = 10_000;

/// The usage of every collection since the start.
#[derive(Debug, Default)]
pub struct Usage {
    /// Guards the map only; the counters are atomic.
    collections: RwLock<HashMap<String, Arc<CollectionUsage>, rustc_hash::FxBuildHasher>>,
}

impl Usage {
    /// Adds one use of `database.collection`.
    pub fn add(&self, namespace: &str, class: OperationClass, took: Duration) {
        if let Some(known) = self.collections.read().get(namespace) {
            return known.add(class, took);
        }
        let mut collections = self.collections.write();
        if collections.len() < COLLECTIONS_MAX {
            collections.entry_ref(namespace).or_default().add(class, took);
        }
    }

    /// The usage of one collection; an empty one when it was never used.
    pub fn of(&self, namespace: &str) -> Arc<CollectionUsage> {
        self.collections.read().get(namespace).cloned().unwrap_or_default()
    }

    /// Forgets a dropped collection.
    pub fn forget(&self, namespace: &str) {
        self.collections.write().remove(namespace);
    }

    /// All rows, by name.
    pub fn all(&self) -> Vec<(String, Arc<CollectionUsage>)> {
        let mut rows: Vec<_> =
            self.collections.read().iter().map(|(name, usage)| (name.clone(), usage.clone())).collect();
        rows.sort_by(|(one, _), (other, _)| one.cmp(other));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_class() {
        let counters = OperationCounters::default();
        counters.count(OperationClass::Insert, 3);
        counters.count(OperationClass::Command, 1);
        assert_eq!(
            counters.to_document(),
            doc! { "insert": 3_i64, "query": 0_i64, "update": 0_i64, "delete": 0_i64, "getmore": 0_i64, "command": 1_i64 }
        );
    }

    #[test]
    fn usage_is_per_collection() {
        let usage = Usage::default();
        usage.add("db.a", OperationClass::Insert, Duration::from_micros(7));
        usage.add("db.a", OperationClass::Query, Duration::from_micros(5));
        let rows = usage.all();
        assert_eq!(rows.len(), 1);
        let row = rows[0].1.to_document();
        assert_eq!(row.get("total"), Some(&doc! { "time": 12_i64, "count": 2_i64 }.into()));
        assert_eq!(row.get("writeLock"), Some(&doc! { "time": 7_i64, "count": 1_i64 }.into()));
        let reads = doc! { "latency": 5_i64, "ops": 1_i64, "queryableEncryptionLatencyMicros": 0_i64 };
        assert_eq!(usage.of("db.a").latencies().get("reads"), Some(&reads.into()));
    }
}
