//! Where a request's time goes: its spans, their histograms, and the log line of a slow one.
//!
//! ```text
//!  accept ─▶ receive ─▶ queue ─▶ parse ─▶ execute ─▶ commit ─▶ send
//!  └────── the transport ─────┘  └──── this crate ─────────┘   └ the transport
//! ```

use crate::counters::{SHARDS, own_shard};
use document::{Document, Value, doc};
use std::array;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The spans in the order in which a request passes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Span {
    /// From the acceptance of the connection to the first look at it; a connection's first request has it.
    AcceptWait,
    /// From the first byte of the request to its last.
    Receive,
    /// From when it could have been worked on to when it was, and its waiting for a thread that may block.
    Queue,
    /// Reading the message and its arguments.
    Parse,
    /// The command itself, without its waits for commits.
    Execute,
    /// From handing over a write to its being applied, or journaled when that was asked for.
    CommitWait,
    /// Until the kernel had the whole reply.
    Send,
}

const SPANS: [Span; 7] =
    [Span::AcceptWait, Span::Receive, Span::Queue, Span::Parse, Span::Execute, Span::CommitWait, Span::Send];

/// The names of the spans in statistics.
pub const SPAN_NAMES: [&str; SPANS.len()] =
    ["acceptWait", "receive", "queue", "parse", "execute", "commitWait", "send"];

/// What one request took in each span; zero in those it did not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpanTimes {
    times: [Duration; SPANS.len()],
}

impl SpanTimes {
    /// The same with one more span.
    #[must_use]
    pub fn with(mut self, span: Span, took: Duration) -> Self {
        if let Some(slot) = self.times.get_mut(span as usize) {
            *slot = took;
        }
        self
    }

    /// What a span took.
    pub fn of(&self, span: Span) -> Duration {
        *self.times.get(span as usize).expect("each span has its place")
    }
}

/// Bucket `n` counts what took less than 2^n microseconds and, but for the first, at least half of that; the
/// last one counts everything longer.
const BUCKETS: usize = 28;
/// What percentiles are told of, in thousandths.
const PERCENTILES: [(&str, u64); 4] =
    [("p50Micros", 500), ("p95Micros", 950), ("p99Micros", 990), ("p999Micros", 999)];
#[derive(Debug)]
struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    nanoseconds: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: array::from_fn(|_| AtomicU64::new(0)), nanoseconds: AtomicU64::new(0) }
    }
}

/// The histograms that a few threads share.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    spans: [Histogram; SPANS.len()],
}

/// Histograms of all requests' spans.
#[derive(Debug)]
pub struct SpanHistograms {
    shards: Box<[Shard]>,
}

impl Default for SpanHistograms {
    fn default() -> Self {
        SpanHistograms { shards: (0..SHARDS).map(|_| Shard::default()).collect() }
    }
}

impl SpanHistograms {
    /// Counts what a request took in some spans.
    #[inline]
    pub fn record<const N: usize>(&self, times: [(Span, Duration); N]) {
        let shard = self.shards.get(own_shard()).expect("each thread has a shard");
        for (span, took) in times {
            shard.spans.get(span as usize).expect("each span has its place").record(took);
        }
    }

    /// The spans of this crate as the transport tells its own: count, sum, upper bounds of percentiles, and
    /// the buckets that are not empty:
    /// `{execute: {count, totalMicros, p50Micros, …, histogram: {under64Micros: 7, …}}, …}`.
    pub fn to_document(&self) -> Document {
        const OWN: [Span; 3] = [Span::Parse, Span::Execute, Span::CommitWait];
        let named = SPANS.iter().zip(SPAN_NAMES).filter(|(span, _)| OWN.contains(span));
        named.map(|(span, name)| (name, Value::Document(self.span(*span)))).collect()
    }

    fn span(&self, span: Span) -> Document {
        let shards = self.shards.iter().filter_map(|shard| shard.spans.get(span as usize));
        let (mut counts, mut nanoseconds) = ([0_u64; BUCKETS], 0_u64);
        for histogram in shards {
            for (count, bucket) in counts.iter_mut().zip(&histogram.buckets) {
                *count += bucket.load(Ordering::Relaxed);
            }
            nanoseconds += histogram.nanoseconds.load(Ordering::Relaxed);
        }
        let count: u64 = counts.iter().sum();
        let mut document = doc! { "count": (count as i64), "totalMicros": ((nanoseconds / 1_000) as i64) };
        if count > 0 {
            document
                .extend(PERCENTILES.map(|(name, share)| (name, Value::Int64(percentile(&counts, share)))));
        }
        let filled = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let buckets: Document =
            filled.map(|(bucket, count)| (bucket_name(bucket), Value::Int64(*count as i64))).collect();
        document.push("histogram", buckets);
        document
    }
}

/// Microseconds that this share of all did not exceed: the upper bound of the bucket with the last of them.
fn percentile(counts: &[u64], thousandths: u64) -> i64 {
    let rank = (counts.iter().sum::<u64>() * thousandths).div_ceil(1_000);
    let mut passed = 0;
    let last = counts.iter().position(|count| {
        passed += count;
        passed >= rank
    });
    1 << last.unwrap_or(BUCKETS)
}

fn bucket_name(bucket: usize) -> String {
    if bucket + 1 == BUCKETS { "longer".to_owned() } else { format!("under{}Micros", 1_u64 << bucket) }
}

impl Histogram {
    #[inline]
    fn record(&self, took: Duration) {
        const NANOS_PER_SECOND: u64 = 1_000_000_000;
        let seconds = took.as_secs().saturating_mul(NANOS_PER_SECOND);
        let nanoseconds = seconds.saturating_add(u64::from(took.subsec_nanos()));
        let bucket = (nanoseconds / 1_000).checked_ilog2().map_or(0, |exponent| exponent as usize + 1);
        if let Some(bucket) = self.buckets.get(bucket.min(BUCKETS - 1)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

/// A command that worked for longer than `slowOpThresholdMs`, to be logged once its reply is sent.
#[derive(Debug, Clone)]
pub struct SlowOperation {
    /// `conn7`.
    pub client: String,
    /// The client's address.
    pub remote: String,
    /// `client.application.name`.
    pub application: Option<String>,
    /// What it worked on.
    pub namespace: String,
    /// The canonical command name.
    pub command: &'static str,
    /// What it ended with; 0: it went well.
    pub error_code: i32,
    /// What each span took.
    pub times: SpanTimes,
    /// From the first look at the command to its reply.
    pub duration: Duration,
    /// That without waiting for a thread: where many wait, none of them is slow for that.
    pub working: Duration,
}

impl SlowOperation {
    /// Writes the log line, with the time that sending took. Durations are in microseconds.
    pub fn log(&self, send: Duration) {
        let micros = |span| self.times.of(span).as_micros() as u64;
        tracing::info!(
            target: "COMMAND",
            id = 51_803,
            ctx = %self.client,
            r#type = "command",
            ns = %self.namespace,
            app_name = self.application.as_deref().unwrap_or_default(),
            command = self.command,
            remote = %self.remote,
            error_code = self.error_code,
            accept_wait_micros = micros(Span::AcceptWait),
            receive_micros = micros(Span::Receive),
            queue_micros = micros(Span::Queue),
            parse_micros = micros(Span::Parse),
            execute_micros = micros(Span::Execute),
            commit_wait_micros = micros(Span::CommitWait),
            send_micros = send.as_micros() as u64,
            working_millis = self.working.as_millis() as u64,
            duration_millis = self.duration.as_millis() as u64,
            "Slow query"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(took: &[Duration], expect: Document) {
        let histograms = SpanHistograms::default();
        for took in took {
            histograms.record([(Span::Execute, *took)]);
        }
        assert_eq!(histograms.to_document().get("execute"), Some(&expect.into()));
    }

    #[test]
    fn spans_are_in_their_places() {
        for (position, span) in SPANS.iter().enumerate() {
            assert_eq!(*span as usize, position);
        }
        let times = SpanTimes::default().with(Span::Send, Duration::from_secs(1));
        assert_eq!((times.of(Span::Send), times.of(Span::Queue)), (Duration::from_secs(1), Duration::ZERO));
    }

    #[test]
    fn buckets_double() {
        let micros = Duration::from_micros;
        check(&[], doc! { "count": 0_i64, "totalMicros": 0_i64, "histogram": {} });
        let some = [Duration::from_nanos(700), micros(1), micros(2), micros(3), micros(4), micros(1023)];
        check(
            &some,
            doc! {
                "count": 6_i64, "totalMicros": 1033_i64, "p50Micros": 4_i64, "p95Micros": 1024_i64,
                "p99Micros": 1024_i64, "p999Micros": 1024_i64, "histogram": {
                    "under1Micros": 1_i64, "under2Micros": 1_i64, "under4Micros": 2_i64,
                    "under8Micros": 1_i64, "under1024Micros": 1_i64,
                },
            },
        );
        let longest = 1_i64 << 27;
        check(
            &[Duration::from_secs(3600)],
            doc! {
                "count": 1_i64, "totalMicros": 3_600_000_000_i64, "p50Micros": longest, "p95Micros": longest,
                "p99Micros": longest, "p999Micros": longest, "histogram": { "longer": 1_i64 },
            },
        );
    }

    #[test]
    fn threads_add_to_one_sum() {
        let histograms = SpanHistograms::default();
        std::thread::scope(|scope| {
            for _ in 0..SHARDS + 1 {
                scope.spawn(|| histograms.record([(Span::Parse, Duration::from_micros(5))]));
            }
        });
        let parse = histograms.to_document().get("parse").cloned();
        let Some(Value::Document(parse)) = parse else { panic!("a document") };
        assert_eq!(parse.get("count"), Some(&Value::Int64(SHARDS as i64 + 1)));
    }
}
