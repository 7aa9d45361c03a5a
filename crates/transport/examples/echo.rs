//! What the connection loop costs, beside a bare thread-per-connection echo.
//!
//! ```text
//! cargo run --release -p transport --example echo -- bare 27100        a bare echo server
//! cargo run --release -p transport --example echo -- transport 27101   the same through the transport
//! cargo run --release -p transport --example echo -- client 27101 4     the rate that 4 clients see
//! cargo run --release -p transport --example echo -- compare 4 1000    both in turns: clients, reply bytes
//! ```
//! A client sends any OP_MSG and gets a message of the reply size (default 1,000 bytes). `compare` prints the
//! median rate of interleaved rounds and the difference in nanoseconds of one core's time.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use transport::{Replies, RequestMessage, Server, ServerOptions, Service, Session};
use wire::{CommandMessage, MessageRef, OpMsg, ReplyBuilder, ReplyFormat};

const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_millis(700);

struct Echo {
    text: String,
}

impl Service for Echo {
    async fn call(&self, _session: &Arc<Session>, mut request: RequestMessage<'_>) -> Replies {
        if OpMsg::parse(request.message()).is_err() {
            return Replies::none().then_close();
        }
        let mut reply = request.reply();
        reply.body().append("ok", 1.0).append("text", self.text.as_str());
        Replies::one(reply.finish())
    }
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| {
        arguments.get(index).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let reply_bytes = number(2, 1000);
    match arguments.first().map(String::as_str) {
        Some("bare") => bare(TcpListener::bind(("127.0.0.1", number(1, 27100) as u16))?, reply_bytes),
        Some("transport") => {
            let _server = start_transport(number(1, 27101) as u16, reply_bytes)?;
            loop {
                thread::park();
            }
        }
        Some("client") => {
            let rate = measure(number(1, 27101) as u16, number(2, 1))?;
            println!("{rate:.0}/s");
            Ok(())
        }
        Some("compare") => compare(number(1, 1), reply_bytes),
        _ => Err(io::Error::other(
            "usage: echo bare PORT [BYTES] | transport PORT [BYTES] | client PORT CLIENTS | compare CLIENTS \
            [BYTES]",
        )),
    }
}

fn start_transport(port: u16, reply_bytes: usize) -> io::Result<Server> {
    let yield_after_requests = std::env::var("YIELD").ok().and_then(|text| text.parse().ok()).unwrap_or(16);
    let options =
        ServerOptions { port, unix_socket_prefix: None, yield_after_requests, ..ServerOptions::default() };
    let service = Arc::new(Echo { text: "x".repeat(reply_bytes) });
    Server::start(options, service).map_err(io::Error::other)
}

/// A loop of read and write on a thread per connection, with nothing else in it.
fn bare(listener: TcpListener, reply_bytes: usize) -> io::Result<()> {
    let mut reply = ReplyBuilder::new(Vec::new(), ReplyFormat::Msg { checksum: false });
    reply.body().append("ok", 1.0).append("text", "x".repeat(reply_bytes).as_str());
    let reply: Arc<[u8]> = reply.finish().into_bytes().into();
    loop {
        let (mut stream, _) = listener.accept()?;
        let reply = Arc::clone(&reply);
        thread::spawn(move || {
            let mut buffer = [0; 16 * 1024];
            let _ = stream.set_nodelay(true);
            while stream.read(&mut buffer).is_ok_and(|count| count > 0) {
                if stream.write_all(&reply).is_err() {
                    return;
                }
            }
        });
    }
}

fn compare(clients: usize, reply_bytes: usize) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let bare_port = listener.local_addr()?.port();
    thread::spawn(move || bare(listener, reply_bytes));
    let server = start_transport(0, reply_bytes)?;
    let transport_port = server.tcp_addresses().first().map_or(0, std::net::SocketAddr::port);
    let mut bare_rates = Vec::new();
    let mut transport_rates = Vec::new();
    for round in 0..ROUNDS {
        let ports = if round % 2 == 0 { [bare_port, transport_port] } else { [transport_port, bare_port] };
        for port in ports {
            let rate = measure(port, clients)?;
            if port == bare_port { bare_rates.push(rate) } else { transport_rates.push(rate) }
        }
    }
    let (bare, transport) = (median(bare_rates), median(transport_rates));
    println!("{clients} clients, replies of {reply_bytes} bytes, medians of {ROUNDS} rounds");
    println!("bare      {bare:>9.0}/s");
    println!("transport {transport:>9.0}/s   ratio {:.3}", transport / bare);
    let cores = thread::available_parallelism().map_or(1, usize::from).min(clients.max(1)) as f64;
    println!("difference {:.0} ns of a core for each request", (1.0 / transport - 1.0 / bare) * cores * 1e9);
    Ok(())
}

/// Requests answered in a second, from clients on threads of this process.
fn measure(port: u16, clients: usize) -> io::Result<f64> {
    let stop = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let threads: Vec<_> = (0..clients)
        .map(|_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || client(port, &stop))
        })
        .collect();
    thread::sleep(ROUND);
    stop.store(true, Ordering::Relaxed);
    let mut total = 0;
    for thread in threads {
        total += thread.join().map_err(|_| io::Error::other("a client panicked"))??;
    }
    Ok(total as f64 / started.elapsed().as_secs_f64())
}

fn client(port: u16, stop: &AtomicBool) -> io::Result<u64> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    let command =
        document::doc! { "find": "collection", "filter": { "_id": 1234 }, "limit": 1, "$db": "test" };
    let request = CommandMessage::new(command.to_buf().as_raw()).finish(1);
    let mut buffer = vec![0; 1024 * 1024];
    let mut answered = 0;
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(request.bytes())?;
        let mut held = 0;
        loop {
            held += stream.read(buffer.get_mut(held..).unwrap_or_default())?;
            let received = buffer.get(..held).unwrap_or_default();
            if matches!(MessageRef::split_first(received, buffer.len()), Ok(Some(_))) {
                break;
            }
        }
        answered += 1;
    }
    Ok(answered)
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(0.0)
}
