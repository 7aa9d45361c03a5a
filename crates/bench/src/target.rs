//! Servers under test: given ones, or child processes on free ports with a directory of their own.

use crate::command_client::CommandClient;
use crate::error::BenchError;
use crate::scenario::{COLLECTION, DATABASE, document};
use document::{RawValue, Value, doc};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_SECONDS: u64 = 30;
/// Documents in one insert of the load phase.
const LOAD_BATCH: i32 = 1_000;

/// A child process that is a server; ended when dropped.
pub(crate) struct ChildServer {
    child: Child,
    name: &'static str,
    pub(crate) address: SocketAddr,
}

impl ChildServer {
    /// Starts this program again with `arguments` and `--port`, and waits until it accepts connections.
    pub(crate) fn start(name: &'static str, arguments: &[&str]) -> Result<Self, BenchError> {
        let address = free_address()?;
        let program = std::env::current_exe().map_err(BenchError::io("find this program's file"))?;
        let child = Command::new(program)
            .args(arguments)
            .args(["--port", &address.port().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(BenchError::io("start a server"))?;
        let mut server = ChildServer { child, name, address };
        server.wait_until_up()?;
        Ok(server)
    }

    fn wait_until_up(&mut self) -> Result<(), BenchError> {
        let begun = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            self.check_alive()?;
            if begun.elapsed() > Duration::from_secs(START_SECONDS) {
                let address = self.address.to_string();
                return Err(BenchError::NotUp { name: self.name, address, seconds: START_SECONDS });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Fails when the process has ended.
    pub(crate) fn check_alive(&mut self) -> Result<(), BenchError> {
        match self.child.try_wait().map_err(BenchError::io("look after a server"))? {
            Some(status) => Err(BenchError::Died { name: self.name, status: status.to_string() }),
            None => Ok(()),
        }
    }
}

impl Drop for ChildServer {
    fn drop(&mut self) {
        // The process may have ended by itself; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_address() -> Result<SocketAddr, BenchError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(BenchError::io("find a free port"))
}

/// Fills the collection anew with `stored` documents of `size` bytes, ids from 0. Returns how long it took.
pub(crate) fn load(address: SocketAddr, stored: i32, size: usize) -> Result<Duration, BenchError> {
    let mut client = CommandClient::connect(address)?;
    client.command(&doc! { "dropDatabase": 1, "$db": DATABASE })?;
    let begun = Instant::now();
    for first in (0..stored).step_by(LOAD_BATCH as usize) {
        let last = stored.min(first + LOAD_BATCH);
        let documents: Vec<Value> = (first..last).map(|id| document(id, size).into()).collect();
        let reply =
            client.command(&doc! { "insert": COLLECTION, "documents": documents, "$db": DATABASE })?;
        let inserted = reply.get("n").map(|count| count.with_raw(|raw| raw == RawValue::Int32(last - first)));
        if inserted != Some(true) {
            return Err(BenchError::Load { reply: format!("{reply:?}") });
        }
    }
    Ok(begun.elapsed())
}
