//! S3: small values. Journaled writes of a thousand clients are where coroutines are to win, because every
//! waiting commit joins the next group without holding a thread; db_bench's patterns, 64 at a time, are where
//! the article found them equal or worse.

use super::findings::{At, RATE, Side};
use super::{Comparison, Experiment, Kind, Load, Statement, Subject, What};

const THOUSAND: &[usize] = &[1_000];
/// Concurrent requests of db_bench in the article.
const CONCURRENT: &[usize] = &[64];

const fn kind(name: &'static str, title: &'static str, clients: &'static [usize], what: What) -> Kind {
    const COMPARISONS: &[Comparison] =
        &[Comparison { heading: "coroutine is times this", base: Some(Subject::Coroutine), inverse: true }];
    Kind { name, title, clients, what, comparisons: COMPARISONS, panels: super::SWEEP }
}

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "s3",
    title: "a storage engine on coroutines",
    about: "The article ran RocksDB with a coroutine per request: behind an RPC server with small values and 1,000 clients on 8 \
            operating-system threads, against a thread pool that could use 64 cores; and under db_bench with 10 million keys and \
            64 concurrent requests. Here documents take the place of keys, and the thread models of one server that of the two \
            programs: coroutine stands for coroutines, the better of synchronous and adaptive for threads.",
    subjects: &Subject::MODELS,
    // db_bench's default size of a value.
    document_bytes: 100,
    kinds: &[
        kind("journaled", "Journaled writes", THOUSAND, What::Closed(Load::Journaled)),
        kind("unsynced", "Unsynced writes", THOUSAND, What::Closed(Load::Update)),
        kind("reads", "Reads", THOUSAND, What::Closed(Load::Read)),
        kind("half", "Half reads, half unsynced writes", THOUSAND, What::Closed(Load::Half)),
        kind("random-read", "Random read", CONCURRENT, What::Closed(Load::Read)),
        kind("random-write-synced", "Random write, synced", CONCURRENT, What::Closed(Load::Journaled)),
        kind("random-write-unsynced", "Random write, unsynced", CONCURRENT, What::Closed(Load::Update)),
        kind("read-while-writing", "Read while writing", CONCURRENT, What::ReadWhileWriting),
    ],
    usual: "journaled,random-read,random-write-synced,random-write-unsynced,read-while-writing",
    published: None,
    statements: &[
        claim("1,000 clients, small values: coroutines over a thread pool", "2 times", "journaled"),
        claim("Random reads", "equal", "random-read"),
        claim("Random writes, each on disk before its reply", "equal", "random-write-synced"),
        claim(
            "Random writes that wait for no disk",
            "coroutines lose, as the processor is the limit",
            "random-write-unsynced",
        ),
        claim("Reads while one client writes", "equal", "read-while-writing"),
    ],
};

const fn claim(claim: &'static str, theirs: &'static str, kind: &'static str) -> Statement {
    const COROUTINES: Side = Side(At::Most, &[Subject::Coroutine]);
    const THREADS: Side = Side(At::Most, &[Subject::Synchronous, Subject::Adaptive]);
    Statement { claim, theirs, kind, column: RATE, ours: COROUTINES, over: Some(THREADS) }
}
