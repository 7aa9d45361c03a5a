//! The server as its clients and its operating system see it.

use crate::shapes::{DATABASE, Shape};
use document::{Document, RawDocument, doc};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wire::{CommandMessage, MAX_MESSAGE_SIZE, MessageRef, OpCode, decompress_message, peek_command};

/// What came of one request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The reply's error code; 0 for `ok: 1`.
    Answered(i32),
    /// The server closed the connection.
    Closed,
    /// Nothing came.
    Silent,
}

/// A connection.
pub(crate) struct Client {
    socket: TcpStream,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr, patience: Duration) -> Self {
        Client { socket: connect(address, patience) }
    }

    pub(crate) fn send(&mut self, message: &[u8]) -> Outcome {
        match self.exchange(message) {
            Ok(code) => Outcome::Answered(code),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Outcome::Silent
            }
            Err(_) => Outcome::Closed,
        }
    }

    fn exchange(&mut self, message: &[u8]) -> io::Result<i32> {
        self.socket.write_all(message)?;
        let mut length = [0; 4];
        self.socket.read_exact(&mut length)?;
        let mut bytes = length.to_vec();
        let rest = u64::try_from(i32::from_le_bytes(length)).unwrap_or(0).saturating_sub(4);
        (&self.socket).take(rest).read_to_end(&mut bytes)?;
        let message = MessageRef::parse(&bytes, MAX_MESSAGE_SIZE).expect("a reply is a message");
        let inflated = (message.header().opcode == OpCode::Compressed).then(|| {
            decompress_message(message, MAX_MESSAGE_SIZE, Vec::new()).expect("a compressed reply").0
        });
        let message = match &inflated {
            Some(inflated) => inflated.as_ref(MAX_MESSAGE_SIZE).expect("a reply is a message"),
            None => message,
        };
        let reply: RawDocument<'_> = peek_command(message).expect("a reply has a body");
        let code = reply.get("code").and_then(|code| code.as_i64_exact()).unwrap_or(0);
        Ok(i32::try_from(code).unwrap_or(-1))
    }
}

/// A socket that gives up after so long.
pub(crate) fn connect(address: SocketAddr, patience: Duration) -> TcpStream {
    let socket = TcpStream::connect(address).expect("the server accepts a connection");
    socket.set_nodelay(true).expect("no delay");
    socket.set_read_timeout(Some(patience)).expect("a time-out");
    socket.set_write_timeout(Some(patience)).expect("a time-out");
    socket
}

/// A command on the database of the trial.
pub(crate) fn command_message(command: &Document) -> Vec<u8> {
    let mut command = command.clone();
    command.push("$db", DATABASE);
    CommandMessage::new(command.to_buf().as_raw()).finish(1).into_bytes()
}

pub(crate) fn message(shape: &Shape) -> Vec<u8> {
    let mut message = CommandMessage::new(shape.command.to_buf().as_raw());
    if let Some((name, documents)) = &shape.sequence {
        let documents: Vec<_> = documents.iter().map(Document::to_buf).collect();
        message = message.sequence(name, documents.iter().map(|document| document.as_raw()));
    }
    message.finish(1).into_bytes()
}

/// Processor time that a process has used so far.
pub(crate) fn processor_time(pid: u32) -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the server runs");
    let behind_name = stat.rsplit_once(')').expect("a name in parentheses").1;
    let mut fields = behind_name.split_whitespace().skip(11);
    let mut ticks = || -> u32 { fields.next().expect("a field").parse().expect("a number") };
    TICK * (ticks() + ticks())
}

/// The most memory that a process has had so far, in bytes.
pub(crate) fn most_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the server runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a high water mark");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

/// Asks `ping` all the time on a connection of its own.
pub(crate) struct Pinger {
    slowest: Arc<Mutex<Duration>>,
    /// When the ping that is under way began.
    asked: Arc<Mutex<Option<Instant>>>,
    stop: Arc<AtomicBool>,
}

impl Pinger {
    pub(crate) fn start(address: SocketAddr) -> Self {
        const PAUSE: Duration = Duration::from_millis(5);
        let pinger = Pinger { slowest: Arc::default(), asked: Arc::default(), stop: Arc::default() };
        let (slowest, asked, stop) =
            (Arc::clone(&pinger.slowest), Arc::clone(&pinger.asked), Arc::clone(&pinger.stop));
        let ping =
            CommandMessage::new(doc! { "ping": 1, "$db": "admin" }.to_buf().as_raw()).finish(1).into_bytes();
        thread::spawn(move || {
            let mut client = Client::connect(address, Duration::from_secs(60));
            while !stop.load(Ordering::Relaxed) {
                let began = Instant::now();
                *asked.lock().expect("no panic inside") = Some(began);
                if !matches!(client.send(&ping), Outcome::Answered(0)) {
                    return;
                }
                *asked.lock().expect("no panic inside") = None;
                let mut slowest = slowest.lock().expect("no panic inside");
                *slowest = (*slowest).max(began.elapsed());
                drop(slowest);
                thread::sleep(PAUSE);
            }
        });
        pinger
    }

    /// The slowest answer since the last call.
    pub(crate) fn take_slowest(&self) -> Duration {
        let waiting =
            self.asked.lock().expect("no panic inside").map_or(Duration::ZERO, |asked| asked.elapsed());
        let slowest = std::mem::take(&mut *self.slowest.lock().expect("no panic inside"));
        slowest.max(waiting)
    }
}

impl Drop for Pinger {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
