//! Counting what the server does: operations by class, commands by name, work per collection.

use crate::figure::narrow;
use access::Mechanism;
use document::{Document, doc};
use hashbrown::HashMap;
use parking_lot::RwLock;
use rustc_hash::FxBuildHasher;
use std::cell::RefCell;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
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

/// Attempts to log in by one mechanism.
#[derive(Debug, Default)]
pub struct LoginCounters {
    /// Begun in a `hello`.
    pub speculative_received: Counter,
    /// Those among them that succeeded.
    pub speculative_successful: Counter,
    /// Begun, however.
    pub received: Counter,
    /// Those that succeeded.
    pub successful: Counter,
}

/// Threads that count at the same time mostly do so in different shards: a cache line that goes to and fro
/// between cores with each request costs more than all the counting.
pub(crate) const SHARDS: usize = 16;

/// The shard of this thread.
#[inline]
pub(crate) fn own_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    OWN.with(|own| *own)
}

/// A counter of all threads. Its parts are added up when it is read.
#[derive(Debug, Default)]
pub struct Counter {
    parts: [Part; SHARDS],
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Part(AtomicU64);

impl Counter {
    /// Adds.
    #[inline]
    pub fn add(&self, number: u64) {
        if let Some(part) = self.parts.get(own_shard()) {
            part.0.fetch_add(number, Ordering::Relaxed);
        }
    }

    /// The sum.
    pub fn get(&self) -> u64 {
        self.parts.iter().map(|part| part.0.load(Ordering::Relaxed)).sum()
    }
}

/// `serverStatus.opcounters` and a few figures of the document layer.
#[derive(Debug, Default)]
pub struct OperationCounters {
    classes: [Counter; 6],
    /// Documents returned by reads.
    pub documents_returned: Counter,
    /// Reads of secondaries that were ended because they took too long.
    pub views_too_old: Counter,
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
    /// Commands that came again, and were answered from what is known of them.
    pub retried_commands: Counter,
    /// Their statements.
    pub retried_statements: Counter,
    /// Rows of sessions written with the data.
    pub session_rows_written: Counter,
    /// Reads that wanted data of some freshness.
    pub fresh_reads: Counter,
    /// Those among them that did not find them at once.
    pub waits_for_fresh_data: Counter,
    /// Those that did not get them.
    pub refused_as_stale: Counter,
    /// `hello` that asked for `saslSupportedMechs`.
    pub mechanisms_asked: Counter,
    /// Attempts to log in, by mechanism.
    pub logins: [LoginCounters; Mechanism::ALL.len()],
    /// Attempts to log in by a certificate.
    pub certificate_logins: LoginCounters,
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

/// How the time of one collection, or of all, is spent: a row of `top`. One pair of counters for each class;
/// sums are made when they are read.
#[derive(Debug, Default)]
pub struct CollectionUsage {
    shards: [UsageShard; USAGE_SHARDS],
}

/// Fewer than others have: there may be many collections.
const USAGE_SHARDS: usize = 8;

#[derive(Debug, Default)]
#[repr(align(64))]
struct UsageShard {
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
        let shard = self.shards.get(own_shard() % USAGE_SHARDS).expect("each thread has a shard");
        let cell = shard.classes.get(class as usize).expect("each class has its place");
        cell.time_us.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
        cell.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Time in microseconds and number of these classes.
    fn sums(&self, classes: &[OperationClass]) -> (i64, i64) {
        let shards = self.shards.iter();
        let cells =
            shards.flat_map(|shard| classes.iter().filter_map(|class| shard.classes.get(*class as usize)));
        cells.fold((0, 0), |(time, count), cell| {
            let (more_time, more) =
                (cell.time_us.load(Ordering::Relaxed), cell.count.load(Ordering::Relaxed));
            (time + more_time as i64, count + more as i64)
        })
    }

    fn sum(&self, classes: &[OperationClass]) -> Document {
        let (time, count) = self.sums(classes);
        doc! { "time": (narrow(time)), "count": (narrow(count)) }
    }

    /// `latencyStats` of `$collStats` and `opLatencies` of `serverStatus`, times in microseconds.
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
            "total": (self.sum(&[Class::Insert, Class::Query, Class::Update, Class::Delete, Class::GetMore,
                Class::Command])),
            "readLock": (self.sum(&[Class::Query, Class::GetMore, Class::Command])),
            "writeLock": (self.sum(&[Class::Insert, Class::Update, Class::Delete])),
            "queries": (self.sum(&[Class::Query])), "getmore": (self.sum(&[Class::GetMore])),
            "insert": (self.sum(&[Class::Insert])), "update": (self.sum(&[Class::Update])),
            "remove": (self.sum(&[Class::Delete])), "commands": (self.sum(&[Class::Command])),
        }
    }
}

/// Rows of `top` at most.
const COLLECTIONS_MAX: usize = 10_000;

/// Collections that a thread finds without asking all threads' map, which costs a lock that everybody takes.
const KNOWN_COLLECTIONS: usize = 8;

thread_local! {
    static KNOWN: RefCell<[Option<KnownCollection>; KNOWN_COLLECTIONS]> = RefCell::default();
}

/// A collection that this thread has counted.
struct KnownCollection {
    /// Of which [`Usage`], and before how many of its collections were forgotten.
    usage: (u64, u64),
    namespace: String,
    counters: Arc<CollectionUsage>,
}

/// The usage of every collection since the start.
#[derive(Debug)]
pub struct Usage {
    /// Guards the map only; the counters are atomic.
    collections: RwLock<HashMap<String, Arc<CollectionUsage>, FxBuildHasher>>,
    /// Tells the usages of several servers in one process apart.
    number: u64,
    forgotten: AtomicU64,
}

impl Default for Usage {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Usage { collections: RwLock::default(), number, forgotten: AtomicU64::new(0) }
    }
}

impl Usage {
    /// Adds one use of `database.collection`. A name that is new here counts when it `exists`: clients may
    /// ask for any number of others.
    pub fn add(
        &self,
        namespace: &str,
        class: OperationClass,
        took: Duration,
        exists: impl FnOnce(&str) -> bool,
    ) {
        let usage = (self.number, self.forgotten.load(Ordering::Acquire));
        KNOWN.with_borrow_mut(|known| {
            let place = FxBuildHasher.hash_one(namespace) as usize % KNOWN_COLLECTIONS;
            let place = known.get_mut(place).expect("a place of the table");
            if let Some(known) = place
                && known.usage == usage
                && known.namespace == namespace
            {
                return known.counters.add(class, took);
            }
            let Some(counters) = self.counters_of(namespace, exists) else { return };
            counters.add(class, took);
            *place = Some(KnownCollection { usage, namespace: namespace.to_owned(), counters });
        });
    }

    /// The counters of a collection; none for one too many, or one that is not there.
    fn counters_of(
        &self,
        namespace: &str,
        exists: impl FnOnce(&str) -> bool,
    ) -> Option<Arc<CollectionUsage>> {
        if let Some(known) = self.collections.read().get(namespace) {
            return Some(Arc::clone(known));
        }
        if !exists(namespace) {
            return None;
        }
        let mut collections = self.collections.write();
        let has_room = collections.len() < COLLECTIONS_MAX;
        has_room.then(|| Arc::clone(collections.entry_ref(namespace).or_default()))
    }

    /// The usage of one collection; an empty one when it was never used.
    pub fn of(&self, namespace: &str) -> Arc<CollectionUsage> {
        self.collections.read().get(namespace).cloned().unwrap_or_default()
    }

    /// Forgets a dropped collection.
    pub fn forget(&self, namespace: &str) {
        self.collections.write().remove(namespace);
        self.forgotten.fetch_add(1, Ordering::Release);
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
            doc! {
                "insert": 3_i64, "query": 0_i64, "update": 0_i64, "delete": 0_i64, "getmore": 0_i64,
                "command": 1_i64
            }
        );
    }

    #[test]
    fn usage_is_per_collection() {
        let usage = Usage::default();
        usage.add("db.a", OperationClass::Insert, Duration::from_micros(7), |_| true);
        usage.add("db.a", OperationClass::Query, Duration::from_micros(5), |_| true);
        let rows = usage.all();
        assert_eq!(rows.len(), 1);
        let row = rows[0].1.to_document();
        assert_eq!(row.get("total"), Some(&doc! { "time": 12, "count": 2 }.into()));
        assert_eq!(row.get("writeLock"), Some(&doc! { "time": 7, "count": 1 }.into()));
        let reads = doc! { "latency": 5_i64, "ops": 1_i64, "queryableEncryptionLatencyMicros": 0_i64 };
        assert_eq!(usage.of("db.a").latencies().get("reads"), Some(&reads.into()));
    }

    #[test]
    fn names_that_nobody_made_are_not_counted() {
        let usage = Usage::default();
        usage.add("db.ghost", OperationClass::Query, Duration::from_micros(5), |_| false);
        assert!(usage.all().is_empty());
    }

    #[test]
    fn every_thread_is_counted() {
        let counter = Counter::default();
        std::thread::scope(|scope| {
            (0..2 * SHARDS).for_each(|_| {
                scope.spawn(|| (0..100).for_each(|_| counter.add(2)));
            });
        });
        assert_eq!(counter.get(), 2 * SHARDS as u64 * 200);
    }

    #[test]
    fn a_forgotten_collection_begins_anew() {
        let (usage, other) = (Usage::default(), Usage::default());
        let queries = |usage: &Usage, namespace: &str| usage.of(namespace).sums(&[OperationClass::Query]).1;
        // More than a thread remembers.
        let names: Vec<_> = (0..3 * KNOWN_COLLECTIONS).map(|number| format!("db.c{number}")).collect();
        for _ in 0..3 {
            for name in &names {
                usage.add(name, OperationClass::Query, Duration::from_micros(5), |_| true);
            }
            other.add("db.c1", OperationClass::Query, Duration::from_micros(5), |_| true);
        }
        assert!(names.iter().all(|name| queries(&usage, name) == 3), "no use is lost");
        usage.forget("db.c1");
        assert_eq!((queries(&usage, "db.c1"), queries(&other, "db.c1")), (0, 3));
        usage.add("db.c1", OperationClass::Query, Duration::ZERO, |_| true);
        assert_eq!((queries(&usage, "db.c1"), queries(&usage, "db.c2")), (1, 3));
    }
}
