//! Servers under test: given ones, or child processes on free ports with a directory of their own.

use crate::error::BenchError;
use crate::scenario::{COLLECTION, DATABASE, document};
use crate::template::{announced_length, encode, reply_body};
use document::{Document, RawValue, Value, doc};
use std::io::{Read, Write};
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

/// Sends one command over a connection of its own and returns the reply.
fn command(socket: &mut TcpStream, command: &Document) -> Result<Document, BenchError> {
    socket.write_all(&encode(command)).map_err(BenchError::io("send a command"))?;
    let mut head = [0; 4];
    socket.read_exact(&mut head).map_err(BenchError::io("receive a reply"))?;
    let length = announced_length(&head).unwrap_or_default();
    let mut reply = vec![0; length.max(head.len())];
    let (start, rest) = reply.split_at_mut(head.len());
    start.copy_from_slice(&head);
    socket.read_exact(rest).map_err(BenchError::io("receive a reply"))?;
    Ok(reply_body(&reply)?.to_document())
}

/// Fills the collection anew with `stored` documents of `size` bytes, ids from 0. Returns how long it took.
pub(crate) fn load(address: SocketAddr, stored: i32, size: usize) -> Result<Duration, BenchError> {
    let mut socket = TcpStream::connect(address).map_err(BenchError::io("connect"))?;
    socket.set_nodelay(true).map_err(BenchError::io("set TCP_NODELAY"))?;
    command(&mut socket, &doc! { "dropDatabase": 1, "$db": DATABASE })?;
    let begun = Instant::now();
    for first in (0..stored).step_by(LOAD_BATCH as usize) {
        let last = stored.min(first + LOAD_BATCH);
        let documents: Vec<Value> = (first..last).map(|id| document(id, size).into()).collect();
        let reply =
            command(&mut socket, &doc! { "insert": COLLECTION, "documents": documents, "$db": DATABASE })?;
        let inserted = reply.get("n").map(|count| count.with_raw(|raw| raw == RawValue::Int32(last - first)));
        if inserted != Some(true) {
            return Err(BenchError::Load { reply: format!("{reply:?}") });
        }
    }
    Ok(begun.elapsed())
}
