//! Prints what updates cost inside the server, network excluded, when a loop commits a turn of them as one
//! group.
//!
//! `cargo run --release -p commands --example update_speed [documents [updates [phase…]]]`, where a phase is
//! the number of updates in a turn, with `j` behind it for journaled ones (`256 256j`).

use catalog::Catalog;
use commands::{DataNode, ServiceContext};
use dispatch::client::Client;
use dispatch::dispatch;
use dispatch::host::{Detached, Host};
use dispatch::parameters::Parameters;
use dispatch::request::CommandRequest;
use document::{Document, DocumentBuf, RawDocument, RawValue, Value, doc};
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};
use storage::{StorageOptions, Store};

const BATCH: usize = 1_000;
const TEXT_FIELDS: usize = 9;
const TEXT_BYTES: usize = 96;

/// The processor time of the whole process and of this thread.
fn processor_time() -> (Duration, Duration) {
    let read = |path: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0_u64)
    };
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let all = threads.map(|thread| read(&format!("{}/schedstat", thread.path().display()))).sum();
    (Duration::from_nanos(all), Duration::from_nanos(read("/proc/thread-self/schedstat")))
}

struct Unpark {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        // One system call per sleep, however many tasks are woken.
        if !self.woken.swap(true, Ordering::SeqCst) {
            self.thread.unpark();
        }
    }
}

struct Loop {
    server: Arc<ServiceContext>,
    store: Store,
    connections: Vec<Arc<Client>>,
    unpark: Arc<Unpark>,
}

impl Loop {
    /// Runs one command on each connection, as a loop does: polls all, ends the turn, sleeps while nothing is
    /// ready.
    fn turn(&mut self, commands: &[DocumentBuf], replies: &mut [Vec<u8>]) {
        let waker = Waker::from(Arc::clone(&self.unpark));
        let mut tasks: Vec<Option<Pin<Box<dyn Future<Output = ()> + '_>>>> =
            Vec::with_capacity(commands.len());
        for ((client, command), reply) in self.connections.iter().zip(commands).zip(replies.iter_mut()) {
            reply.clear();
            let run = dispatch(&self.server, client, CommandRequest::new(command.as_raw()), reply);
            tasks.push(Some(Box::pin(async {
                run.await;
            })));
        }
        loop {
            self.unpark.woken.store(false, Ordering::SeqCst);
            let mut waiting = 0;
            for place in &mut tasks {
                let ready = place
                    .as_mut()
                    .map(|task| task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
                match ready {
                    Some(true) => *place = None,
                    Some(false) => waiting += 1,
                    None => {}
                }
            }
            if waiting == 0 {
                break;
            }
            self.store.turn_ended();
            while !self.unpark.woken.load(Ordering::SeqCst) {
                std::thread::park();
            }
        }
        drop(tasks);
        for reply in replies.iter().take(commands.len()) {
            let reply = RawDocument::trusted(reply);
            assert_eq!(reply.get("ok").and_then(RawValue::as_f64), Some(1.0), "{reply:?}");
        }
    }

    fn fill(&mut self, documents: usize) {
        for first in (0..documents).step_by(BATCH) {
            let batch: Vec<Value> =
                (first..documents.min(first + BATCH)).map(|id| example(id).into()).collect();
            self.turn(
                &[doc! { "insert": "c", "$db": "bench", "documents": batch }.to_buf()],
                &mut [Vec::new()],
            );
        }
    }
}

fn example(id: usize) -> Document {
    let mut document = doc! { "_id": (id as i32), "number": (id as i32) };
    for field in 0..TEXT_FIELDS {
        let letter = char::from(b'a' + ((id + field) % 26) as u8);
        document
            .push(format!("field_{field}"), Value::String(std::iter::repeat_n(letter, TEXT_BYTES).collect()));
    }
    document
}

fn update(id: usize, number: usize, journaled: bool) -> DocumentBuf {
    doc! {
        "update": "c",
        "updates": [{ "q": { "_id": (id as i32) }, "u": { "$set": { "number": (number as i32) } } }],
        "writeConcern": { "w": 1, "j": journaled }, "$db": "bench",
    }
    .to_buf()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let documents: usize = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let updates: usize = arguments.next().map_or(Ok(200_000), |text| text.parse())?;
    let mut phases: Vec<String> = arguments.collect();
    if phases.is_empty() {
        phases = ["1", "32", "256", "256j"].map(String::from).to_vec();
    }
    let directory = std::env::temp_dir().join(format!("update-speed-{}", std::process::id()));
    let store = Store::open(&directory, &StorageOptions::default())?;
    let catalog = Catalog::open(store.clone())?;
    let parameters = Arc::new(Parameters::default());
    let server = ServiceContext::new(DataNode::new(catalog, &parameters), parameters, Host::detached())?;
    let connections = (1..=1024).map(|id| Arc::new(Client::new(id, "example", Arc::new(Detached))));
    let unpark = Arc::new(Unpark { thread: std::thread::current(), woken: AtomicBool::new(false) });
    let mut event_loop = Loop { server, store: store.clone(), connections: connections.collect(), unpark };
    storage::defer_commits();
    event_loop.fill(documents);
    for (position, phase) in phases.iter().enumerate() {
        let journaled = phase.ends_with('j');
        let turn: usize = phase.trim_end_matches('j').parse()?;
        let mut replies = vec![Vec::new(); turn];
        let commands: Vec<DocumentBuf> = (0..updates)
            .map(|number| {
                update(number.wrapping_mul(7919) % documents, number + (position + 1) * updates, journaled)
            })
            .collect();
        let (began, before) = (Instant::now(), processor_time());
        for commands in commands.chunks(turn) {
            event_loop.turn(commands, &mut replies);
        }
        let (elapsed, after) = (began.elapsed(), processor_time());
        let each = |time: Duration| time.as_nanos() / updates as u128;
        println!(
            "{phase:>5} in a turn: {:>6} ns each, processor {:>6} ns, of this thread {:>6} ns",
            each(elapsed),
            each(after.0.saturating_sub(before.0)),
            each(after.1.saturating_sub(before.1)),
        );
    }
    let commits = store.statistics().commit;
    let mean = |total: u64, count: u64| total / count.max(1);
    println!(
        "{} groups of {} units and {} µs on average, {} syncs of {} µs",
        commits.groups,
        mean(commits.commits, commits.groups),
        mean(commits.write_us, commits.groups),
        commits.journal_syncs,
        mean(commits.journal_sync_us, commits.journal_syncs),
    );
    store.close()?;
    drop((event_loop, store));
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
