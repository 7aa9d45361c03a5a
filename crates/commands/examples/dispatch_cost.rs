//! What dispatch alone costs: `cargo run --release -p commands --example dispatch_cost`.

use catalog::Catalog;
use commands::{DataNode, ServiceContext};
use dispatch::client::Client;
use dispatch::dispatch;
use dispatch::host::{Detached, Host};
use dispatch::parameters::Parameters;
use dispatch::request::CommandRequest;
use document::{Document, RawValue, doc};
use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Instant;
use storage::{StorageOptions, Store};

const RUNS: u32 = 2_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let catalog = Catalog::open(Store::in_memory(&StorageOptions::small())?)?;
    let parameters = Arc::new(Parameters::default());
    let server = ServiceContext::new(DataNode::new(catalog, &parameters), parameters, Host::detached())?;
    let client = Arc::new(Client::new(1, "example", Arc::new(Detached)));
    let session = document::Value::binary(4, vec![7; 16]);
    let cases = [
        ("ping", doc! { "ping": 1, "$db": "admin" }),
        ("ping with lsid", doc! { "ping": 1, "lsid": { "id": session }, "$db": "admin" }),
        ("unknown command", doc! { "nonsense": 1, "$db": "admin" }),
    ];
    for (name, command) in cases {
        measure(&server, &client, name, &command);
    }
    Ok(())
}

fn measure(server: &Arc<ServiceContext>, client: &Arc<Client>, name: &str, command: &Document) {
    let command = command.to_buf();
    let mut reply = Vec::new();
    let mut task = Context::from_waker(Waker::noop());
    let began = Instant::now();
    for _ in 0..RUNS {
        reply.clear();
        let request = CommandRequest::new(command.as_raw());
        let ready = pin!(dispatch(server, client, request, &mut reply)).poll(&mut task).is_ready();
        assert!(ready, "the command has nothing to wait for");
    }
    let each = began.elapsed().as_nanos() / u128::from(RUNS);
    let reply = document::RawDocument::trusted(&reply);
    let ok = reply.get("ok").unwrap_or(RawValue::Null);
    println!("{name}: {each} ns, ok: {ok:?}");
}
