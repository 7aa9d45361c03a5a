//! Where a request's time goes, and how often it took how long.
//!
//! Recording happens for each request, so each thread has its own counters ([`Shard`]): it is their only
//! writer, counts with plain additions, and shares no cache line. Who reads adds all shards up. A thread that
//! ends leaves its shard, with what it has counted, to the next thread that begins.

use crate::overload::Served;
use crate::statistics::{Figure, OwnCounter};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

/// The parts of one request's time that the transport sees. A part that has not come yet is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTimes {
    /// From the connection's acceptance to the first look at it; only in the first request.
    pub accept_wait: Duration,
    /// From the first byte of the request to its last.
    pub receive: Duration,
    /// From when the request could have been processed to when it was, and its waiting for a thread of the
    /// elastic pool.
    pub queue: Duration,
    /// The service's work, its other waiting included.
    pub execute: Duration,
    /// Until the kernel had the whole reply.
    pub send: Duration,
}

impl RequestTimes {
    /// The request's whole time in the server.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.accept_wait + self.receive + self.queue + self.execute + self.send
    }
}

/// The parts that have a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestPart {
    AcceptWait,
    Receive,
    Queue,
    Execute,
    Send,
    Total,
}

impl RequestPart {
    const ALL: [Self; 6] =
        [Self::AcceptWait, Self::Receive, Self::Queue, Self::Execute, Self::Send, Self::Total];

    const fn name(self) -> &'static str {
        match self {
            Self::AcceptWait => "acceptWait",
            Self::Receive => "receive",
            Self::Queue => "queue",
            Self::Execute => "execute",
            Self::Send => "send",
            Self::Total => "total",
        }
    }
}

/// Bucket 0 counts less than a microsecond, bucket n from 2^(n-1) to less than 2^n, the last one everything
/// longer (67 s).
const BUCKETS: usize = 28;

/// The buckets' names: their exclusive upper bounds.
static BUCKET_NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let bounds = (0..BUCKETS - 1).map(|bucket| format!("under{}Micros", 1_u64 << bucket));
    bounds.chain(["longer".to_owned()]).collect()
});

#[inline]
fn micros(time: Duration) -> u64 {
    time.as_secs() * 1_000_000 + u64::from(time.subsec_micros())
}

#[inline]
fn bucket_of(micros: u64) -> usize {
    ((u64::BITS - micros.leading_zeros()) as usize).min(BUCKETS - 1)
}

/// The counters of one part; one thread writes them.
#[derive(Default)]
struct PartCounters {
    total_micros: OwnCounter,
    buckets: [OwnCounter; BUCKETS],
}

impl PartCounters {
    #[inline]
    fn record(&self, time: Duration) {
        let micros = micros(time);
        self.total_micros.add(micros as usize);
        if let Some(bucket) = self.buckets.get(bucket_of(micros)) {
            bucket.add(1);
        }
    }
}

/// One thread's counters, on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Shard {
    accept_wait: PartCounters,
    receive: PartCounters,
    queue: PartCounters,
    execute: PartCounters,
    send: PartCounters,
    total: PartCounters,
}

impl Shard {
    const fn part(&self, part: RequestPart) -> &PartCounters {
        match part {
            RequestPart::AcceptWait => &self.accept_wait,
            RequestPart::Receive => &self.receive,
            RequestPart::Queue => &self.queue,
            RequestPart::Execute => &self.execute,
            RequestPart::Send => &self.send,
            RequestPart::Total => &self.total,
        }
    }
}

/// A thread's hold on a shard; dropped when the thread ends.
struct Lease {
    histograms: Weak<TimeHistograms>,
    shard: Arc<Shard>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(histograms) = self.histograms.upgrade() {
            histograms.shards.lock().free.push(Arc::clone(&self.shard));
        }
    }
}

thread_local! {
    /// This thread's shards: one for each server that it records for, which is one outside tests.
    static LEASES: RefCell<Vec<Lease>> = const { RefCell::new(Vec::new()) };
}

#[derive(Default)]
struct Shards {
    all: Vec<Arc<Shard>>,
    /// Those of threads that have ended.
    free: Vec<Arc<Shard>>,
}

/// How long the parts of a server's requests took.
#[derive(Default)]
pub(crate) struct TimeHistograms {
    /// A leaf in the order of locks; taken by threads that record for the first time or end, and by readers.
    shards: Mutex<Shards>,
}

impl TimeHistograms {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Counts a request that is finished.
    pub(crate) fn record(self: &Arc<Self>, times: &RequestTimes) {
        // Fails only while the thread ends and its storage is gone: such a request is not worth a lock.
        let _ = LEASES.try_with(|leases| {
            let mut leases = leases.borrow_mut();
            let known =
                leases.iter().position(|lease| std::ptr::eq(lease.histograms.as_ptr(), &raw const **self));
            let position = known.unwrap_or_else(|| {
                leases.retain(|lease| lease.histograms.strong_count() > 0);
                leases.push(self.lease());
                leases.len() - 1
            });
            if let Some(lease) = leases.get(position) {
                record(&lease.shard, times);
            }
        });
    }

    fn lease(self: &Arc<Self>) -> Lease {
        let mut shards = self.shards.lock();
        let shard = shards.free.pop().unwrap_or_else(|| {
            let shard = Arc::<Shard>::default();
            shards.all.push(Arc::clone(&shard));
            shard
        });
        Lease { histograms: Arc::downgrade(self), shard }
    }

    /// Requests executed so far, and the time that took.
    pub(crate) fn served(&self) -> Served {
        let shards = self.shards.lock().all.clone();
        let execute = Histogram::sum(&shards, RequestPart::Execute);
        Served { requests: execute.count(), time: Duration::from_micros(execute.total_micros) }
    }

    /// One group for each part: `count`, `totalMicros`, upper bounds of percentiles, and the buckets that
    /// are not empty.
    pub(crate) fn statistics(&self) -> Vec<(&'static str, Figure)> {
        let shards = self.shards.lock().all.clone();
        RequestPart::ALL.iter().map(|&part| (part.name(), Histogram::sum(&shards, part).figure())).collect()
    }
}

fn record(shard: &Shard, times: &RequestTimes) {
    if !times.accept_wait.is_zero() {
        shard.accept_wait.record(times.accept_wait);
    }
    shard.receive.record(times.receive);
    shard.queue.record(times.queue);
    shard.execute.record(times.execute);
    shard.send.record(times.send);
    shard.total.record(times.total());
}

/// One part over all shards.
#[derive(Default)]
struct Histogram {
    total_micros: u64,
    buckets: [u64; BUCKETS],
}

impl Histogram {
    fn sum(shards: &[Arc<Shard>], part: RequestPart) -> Self {
        let mut sum = Self::default();
        for shard in shards {
            let counters = shard.part(part);
            sum.total_micros += counters.total_micros.get();
            for (total, own) in sum.buckets.iter_mut().zip(&counters.buckets) {
                *total += own.get();
            }
        }
        sum
    }

    fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Microseconds that this share of the requests did not exceed: the upper bound of the bucket that holds
    /// the last of them.
    fn percentile(&self, permille: u64) -> u64 {
        let rank = (self.count() * permille).div_ceil(1000);
        let mut passed = 0;
        for (bucket, &count) in self.buckets.iter().enumerate() {
            passed += count;
            if passed >= rank {
                return 1 << bucket;
            }
        }
        1 << BUCKETS
    }

    fn figure(&self) -> Figure {
        let count = self.count();
        let mut figures =
            vec![("count", Figure::Count(count)), ("totalMicros", Figure::Count(self.total_micros))];
        if count > 0 {
            let percentiles =
                [("p50Micros", 500), ("p95Micros", 950), ("p99Micros", 990), ("p999Micros", 999)];
            figures
                .extend(percentiles.map(|(name, permille)| (name, Figure::Count(self.percentile(permille)))));
        }
        let buckets = BUCKET_NAMES.iter().zip(self.buckets);
        let filled = buckets.filter(|&(_, count)| count > 0);
        figures.push((
            "histogram",
            Figure::Group(filled.map(|(name, count)| (name.as_str(), Figure::Count(count))).collect()),
        ));
        Figure::Group(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn executed(micros: u64) -> RequestTimes {
        RequestTimes { execute: Duration::from_micros(micros), ..RequestTimes::default() }
    }

    fn get(figures: &[(&'static str, Figure)], path: &[&str]) -> Option<u64> {
        let (first, rest) = path.split_first()?;
        match &figures.iter().find(|(name, _)| name == first)?.1 {
            Figure::Count(count) if rest.is_empty() => Some(*count),
            Figure::Group(inner) => get(inner, rest),
            _ => None,
        }
    }

    #[test]
    fn buckets_begin_at_powers_of_two() {
        for (micros, name) in [
            (0, "under1Micros"),
            (1, "under2Micros"),
            (2, "under4Micros"),
            (3, "under4Micros"),
            (4, "under8Micros"),
            (1023, "under1024Micros"),
            (1024, "under2048Micros"),
            ((1 << 26) - 1, "under67108864Micros"),
            (1 << 26, "longer"),
            (u64::from(u32::MAX) * 1000, "longer"),
        ] {
            let histograms = TimeHistograms::new();
            histograms.record(&executed(micros));
            let statistics = histograms.statistics();
            assert_eq!(
                get(&statistics, &["execute", "histogram", name]),
                Some(1),
                "{micros} µs: {statistics:?}"
            );
            assert_eq!(get(&statistics, &["execute", "totalMicros"]), Some(micros));
        }
    }

    #[test]
    fn percentiles_are_upper_bounds() {
        let histograms = TimeHistograms::new();
        for _ in 0..990 {
            histograms.record(&executed(10));
        }
        for _ in 0..10 {
            histograms.record(&executed(5_000));
        }
        let statistics = histograms.statistics();
        assert_eq!(get(&statistics, &["execute", "p50Micros"]), Some(16));
        assert_eq!(get(&statistics, &["execute", "p99Micros"]), Some(16));
        assert_eq!(get(&statistics, &["execute", "p999Micros"]), Some(8192));
    }

    #[test]
    fn threads_that_end_leave_their_counts_and_their_shard() {
        let histograms = TimeHistograms::new();
        for _ in 0..10 {
            let histograms = Arc::clone(&histograms);
            thread::spawn(move || histograms.record(&executed(1))).join().expect("recording does not panic");
        }
        assert_eq!(
            get(&histograms.statistics(), &["execute", "count"]),
            Some(10),
            "counts of ended threads are lost"
        );
        assert_eq!(histograms.shards.lock().all.len(), 1, "each thread left a shard behind");
    }

    #[test]
    fn servers_do_not_mix() {
        let (first, second) = (TimeHistograms::new(), TimeHistograms::new());
        first.record(&executed(1));
        second.record(&executed(1));
        second.record(&executed(1));
        assert_eq!(get(&first.statistics(), &["execute", "count"]), Some(1));
        assert_eq!(get(&second.statistics(), &["execute", "count"]), Some(2));
    }

    #[test]
    fn only_first_requests_waited_to_be_accepted() {
        let histograms = TimeHistograms::new();
        histograms.record(&executed(1));
        histograms.record(&RequestTimes { accept_wait: Duration::from_millis(2), ..executed(1) });
        assert_eq!(get(&histograms.statistics(), &["acceptWait", "count"]), Some(1));
        assert_eq!(get(&histograms.statistics(), &["total", "count"]), Some(2));
    }
}
