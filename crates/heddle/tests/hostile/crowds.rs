//! Very many at once: malformed messages, connections that send a byte now and then, finds that nobody waits
//! for.

use crate::server::{Client, Outcome, command_message, connect};
use crate::shapes::COLLECTION;
use crate::{PATIENCE, Trial};
use document::doc;
use fastrand::Rng;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;
use wire::Compressor;

/// How many of each.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    malformed: usize,
    slow: usize,
    pipelined: usize,
}

impl Sizes {
    /// What a busy machine does in seconds.
    pub(crate) fn short() -> Self {
        Sizes { malformed: 20_000, slow: 1_000, pipelined: 50_000 }
    }

    pub(crate) fn long() -> Self {
        Sizes { malformed: 250_000, slow: 10_000, pipelined: 600_000 }
    }
}

const THREADS: usize = 4;

fn find() -> Vec<u8> {
    command_message(&doc! { "find": COLLECTION, "filter": { "_id": 1 } })
}

/// Sends the crowds one after the other; what each cost the others is the trial's to judge.
pub(crate) fn send_all(trial: &mut Trial, seed: u64) {
    let (address, sizes) = (trial.server.address, trial.form.crowds);
    trial.crowd("malformed messages", sizes.malformed, || send_malformed(address, sizes.malformed, seed));
    trial.crowd("slow connections", sizes.slow, || send_slowly(address, sizes.slow));
    trial.crowd("pipelined finds", sizes.pipelined, || pipeline(address, sizes.pipelined));
}

/// Valid messages with some of their bytes changed, five on each connection, which then closes its sending
/// half: the server must come to an end with each, whatever it understood.
fn send_malformed(address: SocketAddr, count: usize, seed: u64) {
    const ON_ONE_CONNECTION: usize = 5;
    let plain = [
        find(),
        command_message(
            &doc! { "insert": "malformed", "documents": [{ "_id": 1, "a": [1, { "b": "text" }] }] },
        ),
        command_message(
            &doc! { "update": "malformed", "updates": [{ "q": { "a": 1 }, "u": { "$set": { "b": 2 } } }] },
        ),
        command_message(
            &doc! { "aggregate": "malformed", "pipeline": [{ "$match": { "a": 1 } }], "cursor": {} },
        ),
        command_message(
            &doc! { "hello": 1, "client": { "driver": { "name": "d" } }, "compression": ["zlib"] },
        ),
    ];
    let compressed = plain.iter().flat_map(|message| {
        let message = wire::Message::from_bytes(message.clone(), wire::MAX_MESSAGE_SIZE).expect("a message");
        Compressor::NEGOTIABLE.map(|by| wire::compress_message(&message, by, Vec::new()).expect("memory"))
    });
    let mut valid: Vec<Vec<u8>> = compressed.map(wire::Message::into_bytes).collect();
    valid.extend(plain);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (valid, mut random) = (&valid, Rng::with_seed(seed ^ thread as u64));
            scope.spawn(move || {
                for _ in 0..count / THREADS / ON_ONE_CONNECTION {
                    let bytes: Vec<u8> =
                        (0..ON_ONE_CONNECTION).flat_map(|_| malformed(&mut random, valid)).collect();
                    let mut socket = connect(address, PATIENCE);
                    // The server may have closed the connection before it has taken all.
                    let _ = socket.write_all(&bytes);
                    let _ = socket.shutdown(Shutdown::Write);
                    let end = socket.read_to_end(&mut Vec::new());
                    let timed_out = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
                    assert!(!end.as_ref().is_err_and(timed_out), "a connection was left open: {bytes:x?}");
                }
            });
        }
    });
}

fn malformed(random: &mut Rng, valid: &[Vec<u8>]) -> Vec<u8> {
    const HEADER: usize = 16;
    let mut bytes = valid.get(random.usize(..valid.len())).expect("within").clone();
    // A broken header ends the connection, so that most of the changes are behind it.
    let from = if random.usize(..8) == 0 { 0 } else { HEADER };
    for _ in 0..1 + random.usize(..4) {
        let position = from + random.usize(..bytes.len() - from);
        *bytes.get_mut(position).expect("within") = random.usize(..256) as u8;
    }
    if random.usize(..16) == 0 {
        bytes.truncate(random.usize(..bytes.len()));
    }
    bytes
}

/// Connections whose requests come a few bytes at a time; each is answered in the end.
fn send_slowly(address: SocketAddr, count: usize) {
    const PIECE: usize = 8;
    const PAUSE: Duration = Duration::from_millis(50);
    let (request, mut sockets) = (find(), Vec::with_capacity(count));
    sockets.resize_with(count, || connect(address, PATIENCE));
    for piece in request.chunks(PIECE) {
        for socket in &mut sockets {
            socket.write_all(piece).expect("the connection is open");
        }
        thread::sleep(PAUSE);
    }
    for socket in &mut sockets {
        skip_reply(socket);
    }
}

/// Connections that send their requests whether they are answered or not; all of them are answered.
fn pipeline(address: SocketAddr, count: usize) {
    const AT_ONCE: usize = 100;
    let rounds = count / THREADS / AT_ONCE;
    let requests = find().repeat(AT_ONCE);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let mut sending = connect(address, PATIENCE);
            let mut receiving = sending.try_clone().expect("a second handle");
            let requests = &requests;
            scope.spawn(move || {
                for _ in 0..rounds {
                    sending.write_all(requests).expect("the connection is open");
                }
            });
            scope.spawn(move || (0..rounds * AT_ONCE).for_each(|_| skip_reply(&mut receiving)));
        }
    });
}

fn skip_reply(socket: &mut TcpStream) {
    let mut length = [0; 4];
    socket.read_exact(&mut length).expect("a reply");
    let mut rest = vec![0; u32::from_le_bytes(length) as usize - length.len()];
    socket.read_exact(&mut rest).expect("the rest of the reply");
}

/// Whether a service has ever panicked.
pub(crate) fn nothing_panicked(trial: &Trial) {
    let mut client = trial.server.client();
    let status = crate::run(&mut client, doc! { "serverStatus": 1, "$db": "admin" });
    let panicked = status
        .get("connections")
        .and_then(|connections| {
            connections.as_document()?.get("closedBecause")?.as_document()?.get("panicked")
        })
        .expect("a figure");
    assert_eq!(panicked, &document::Value::Int64(0), "connections ended by a panic");
    let alive = Client::connect(trial.server.address, PATIENCE).send(&find());
    assert!(matches!(alive, Outcome::Answered(0)), "{alive:?}");
}
