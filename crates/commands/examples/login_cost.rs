//! Prints what being logged in costs a request inside the server, network excluded: the same requests to a
//! server without `--auth` and to one with it, in turns, on as many threads as there are processors, each
//! with a connection of its own. Two servers of a kind show how far equals are apart.
//!
//! `cargo run --release -p commands --example login_cost [rounds]`
#![expect(
    clippy::indexing_slicing,
    reason = "there is a server, a client and a list of times for each place"
)]

use access::{LoginIdentity, Mechanism, UserName};
use catalog::Catalog;
use commands::{DataNode, ServiceContext};
use dispatch::client::Client;
use dispatch::dispatch;
use dispatch::host::{Detached, Host};
use dispatch::parameters::{Parameter, Parameters, Setting};
use dispatch::request::CommandRequest;
use document::{Document, DocumentBuf, RawDocument, RawValue, Value, doc};
use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::thread;
use std::time::Instant;
use storage::{StorageOptions, Store};

const DOCUMENTS: i32 = 1_000;
const REQUESTS: usize = 100_000;

struct Connected {
    server: Arc<ServiceContext>,
    clients: Vec<Arc<Client>>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(25), |given| given.parse())?;
    let threads = thread::available_parallelism()?.get();
    let kinds = ["clear", "clear again", "with a login", "with a login again"];
    let servers =
        kinds.iter().map(|kind| connect(threads, kind.contains("login"))).collect::<Result<Vec<_>, _>>()?;
    let find = |id: i32| doc! { "find": "c", "filter": { "_id": id }, "limit": 1, "singleBatch": true };
    let ping = |_: i32| doc! { "ping": 1 };
    for (name, request) in [("find by _id", &find as &dyn Fn(i32) -> Document), ("ping", &ping)] {
        let requests: Vec<DocumentBuf> = (0..DOCUMENTS)
            .map(|number| {
                let mut request = request(number * 7919 % DOCUMENTS);
                request.push("$db", "bench");
                request.to_buf()
            })
            .collect();
        let mut told: Vec<Vec<f64>> = vec![Vec::new(); servers.len()];
        for round in 0..rounds {
            for place in 0..servers.len() {
                let place = (place + round) % servers.len();
                told[place].push(measure(&servers[place], &requests));
            }
        }
        let medians: Vec<f64> = told.iter_mut().map(|times| median(times)).collect();
        for (kind, each) in kinds.iter().zip(&medians) {
            println!(
                "{name}, {kind}: {each:.0} ns on each of {threads} threads, {:+.0} ns",
                each - medians[0]
            );
        }
    }
    Ok(())
}

/// A server with documents, and a connection for each thread.
fn connect(threads: usize, logs_in: bool) -> Result<Connected, Box<dyn Error>> {
    let catalog = Catalog::open(Store::in_memory(&StorageOptions::small())?)?;
    let parameters = Arc::new(Parameters::default());
    if logs_in {
        parameters.set(Parameter::Authorization, Setting::Text("enabled".to_owned()))?;
    }
    let server = ServiceContext::new(DataNode::new(catalog, &parameters), parameters, Host::detached())?;
    let new = |number: usize| Arc::new(Client::new(number as i64, "127.0.0.1:1", Arc::new(Detached)));
    let clients: Vec<Arc<Client>> = (1..=threads).map(new).collect();
    let mut reply = Vec::new();
    if logs_in {
        let user = doc! { "createUser": "root", "pwd": "secret", "roles": ["root"], "$db": "admin" };
        run(&server, &clients[0], user.to_buf().as_raw(), &mut reply);
        for client in &clients {
            log_in(&server, client)?;
        }
    }
    let documents: Vec<Value> =
        (0..DOCUMENTS).map(|id| doc! { "_id": id, "text": ("x".repeat(200)) }.into()).collect();
    let insert = doc! { "insert": "c", "documents": documents, "$db": "bench" };
    run(&server, &clients[0], insert.to_buf().as_raw(), &mut reply);
    Ok(Connected { server, clients })
}

fn log_in(server: &Arc<ServiceContext>, client: &Arc<Client>) -> Result<(), Box<dyn Error>> {
    let user = UserName::new("root", "admin");
    let identity = LoginIdentity::of_user(user, "secret", Some(Mechanism::ScramSha256));
    let mut steps = identity.begin(Document::new().to_buf().as_raw(), ambient::random_bytes);
    let mut reply = Vec::new();
    loop {
        run(server, client, steps.command().to_buf().as_raw(), &mut reply);
        if steps.take(RawDocument::trusted(&reply))? {
            return Ok(());
        }
    }
}

/// Nanoseconds that a request takes each of the threads.
fn measure(connected: &Connected, requests: &[DocumentBuf]) -> f64 {
    let began = Instant::now();
    thread::scope(|scope| {
        for client in &connected.clients {
            scope.spawn(|| {
                let mut reply = Vec::new();
                for request in requests.iter().cycle().take(REQUESTS) {
                    run(&connected.server, client, request.as_raw(), &mut reply);
                }
            });
        }
    });
    began.elapsed().as_nanos() as f64 / REQUESTS as f64
}

fn run(server: &Arc<ServiceContext>, client: &Arc<Client>, request: RawDocument<'_>, reply: &mut Vec<u8>) {
    reply.clear();
    {
        let mut future = pin!(dispatch(server, client, CommandRequest::new(request), reply));
        while future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            thread::yield_now();
        }
    }
    let told = RawDocument::trusted(reply);
    assert_eq!(told.get("ok").and_then(RawValue::as_f64), Some(1.0), "{told:?}");
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
