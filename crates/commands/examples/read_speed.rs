//! Prints what single reads cost inside the server, network excluded: nanoseconds per request or per
//! document.
//!
//! `cargo run --release -p commands --example read_speed [documents]`

use catalog::Catalog;
use commands::{DataNode, ServiceContext};
use dispatch::client::Client;
use dispatch::dispatch;
use dispatch::host::{Detached, Host};
use dispatch::parameters::Parameters;
use dispatch::request::CommandRequest;
use document::{Document, RawDocument, RawValue, doc};
use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Instant;
use storage::{StorageOptions, Store};

const BATCH: usize = 1_000;
const DOCUMENT_PAD_BYTES: usize = 960;

struct Bench {
    server: Arc<ServiceContext>,
    client: Arc<Client>,
    reply: Vec<u8>,
}

impl Bench {
    fn run(&mut self, command: &Document) -> RawDocument<'_> {
        let command = command.to_buf();
        self.run_raw(command.as_raw())
    }

    fn run_raw(&mut self, command: RawDocument<'_>) -> RawDocument<'_> {
        self.reply.clear();
        {
            let Self { server, client, reply } = self;
            let mut future = pin!(dispatch(server, client, CommandRequest::new(command), reply));
            while future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                std::thread::yield_now();
            }
        }
        let reply = RawDocument::trusted(&self.reply);
        assert_eq!(reply.get("ok").and_then(RawValue::as_f64), Some(1.0), "{reply:?}");
        reply
    }

    fn fill(&mut self, documents: usize) {
        let pad = "x".repeat(DOCUMENT_PAD_BYTES);
        for first in (0..documents).step_by(BATCH) {
            let batch = (first..documents.min(first + BATCH))
                .map(|id| doc! { "_id": (id as i32), "k": (id as i32 % 1000), "pad": (pad.as_str()) }.into());
            let batch: Vec<document::Value> = batch.collect();
            self.run(&doc! { "insert": "c", "$db": "bench", "documents": batch });
        }
    }

    /// The best of some rounds, in nanoseconds per unit.
    fn measure(&mut self, name: &str, units: usize, mut round: impl FnMut(&mut Self)) {
        const ROUNDS: usize = 7;
        let best = (0..ROUNDS)
            .map(|_| {
                let began = Instant::now();
                round(self);
                began.elapsed().as_nanos() / units as u128
            })
            .min();
        println!("{name:<44} {:>8} ns", best.unwrap_or(0));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let documents: usize = std::env::args().nth(1).map_or(Ok(100_000), |given| given.parse())?;
    let directory = std::env::temp_dir().join(format!("read-speed-{}", std::process::id()));
    let store = Store::open(&directory, &StorageOptions::default())?;
    let (parameters, catalog) = (Arc::new(Parameters::default()), Catalog::open(store.clone())?);
    let server = ServiceContext::new(DataNode::new(catalog, &parameters), parameters, Host::detached())?;
    let client = Arc::new(Client::new(1, "bench", Arc::new(Detached)));
    let mut bench = Bench { server, client, reply: Vec::new() };
    bench.fill(documents);
    store.flush()?;

    let ping = doc! { "ping": 1, "$db": "admin" }.to_buf();
    bench.measure("ping", 20_000, |bench| {
        (0..20_000).for_each(|_| {
            bench.run_raw(ping.as_raw());
        });
    });
    let by_id: Vec<_> = (0..2_000)
        .map(|number| {
            let id = (number * 7919 % documents) as i32;
            doc! { "find": "c", "filter": { "_id": id }, "limit": 1, "singleBatch": true, "$db": "bench" }
                .to_buf()
        })
        .collect();
    bench.measure("find by _id", by_id.len(), |bench| {
        by_id.iter().for_each(|command| {
            bench.run_raw(command.as_raw());
        });
    });
    let range = doc! {
        "find": "c", "filter": { "_id": { "$gte": 0, "$lt": 2_000 } }, "projection": { "k": 1, "_id": 0 },
        "batchSize": 2_000, "$db": "bench",
    };
    bench.measure("range of 2000, one field, per document", 2_000, |bench| {
        bench.run(&range);
    });
    let nothing = doc! { "find": "c", "filter": { "k": -1 }, "$db": "bench" };
    bench.measure("scan that finds nothing, per document", documents, |bench| {
        bench.run(&nothing);
    });
    bench.run(&doc! {
        "createIndexes": "c", "$db": "bench", "indexes": [{ "key": { "k": 1 }, "name": "k_1" }],
    });
    let by_index =
        doc! { "find": "c", "filter": { "k": { "$lt": 100 } }, "batchSize": 1_000_000, "$db": "bench" };
    bench.measure("index range with fetch, per document", documents / 10, |bench| {
        bench.run(&by_index);
    });
    let counted = doc! { "count": "c", "query": { "k": { "$lt": 500 } }, "$db": "bench" };
    bench.measure("count over an index, per key", documents / 2, |bench| {
        bench.run(&counted);
    });
    drop(bench);
    store.close()?;
    std::fs::remove_dir_all(directory)?;
    Ok(())
}
