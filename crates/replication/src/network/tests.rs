//! Members on loopback that are well, dead, silent, slow, gone and back, or talk nonsense.

use super::*;
use document::{RawDocument, doc};
use pollster::block_on;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender as Told, channel};
use wire::{CommandMessage, HEADER_LENGTH, MAX_MESSAGE_SIZE, MessageHeader, MessageRef, OpMsg};

/// Long enough for any machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn options() -> NetworkOptions {
    NetworkOptions {
        untaken_limit: Duration::from_millis(300),
        connect_limit: Duration::from_millis(500),
        greeting_limit: Duration::from_millis(500),
        longest_pause: Duration::from_millis(50),
        ..NetworkOptions::default()
    }
}

pub(super) fn peers(options: NetworkOptions) -> TcpPeers {
    TcpPeers::start(options).expect("a thread")
}

/// A member that answers: every command but `hello` is told, and those that want a reply get it back.
struct TestMember {
    host: String,
    told: Receiver<DocumentBuf>,
    /// Its open connections.
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl TestMember {
    fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").expect("a port"))
    }

    fn on(listener: TcpListener) -> Self {
        let host = listener.local_addr().expect("an address").to_string();
        let (tell, told) = channel();
        let connections: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let opened = Arc::clone(&connections);
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                opened.lock().push(socket.try_clone().expect("a descriptor"));
                let tell = tell.clone();
                std::thread::spawn(move || answer_all(socket, &tell));
            }
        });
        TestMember { host, told, connections }
    }

    fn next(&self) -> DocumentBuf {
        self.told.recv_timeout(PATIENCE).expect("a message comes")
    }

    fn end_connections(&self) {
        for socket in self.connections.lock().drain(..) {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }
}

pub(super) fn read_message(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let mut message = vec![0; HEADER_LENGTH];
    socket.read_exact(&mut message).ok()?;
    let header = MessageHeader::parse(&message, MAX_MESSAGE_SIZE).expect("a header")?;
    message.resize(header.length, 0);
    socket.read_exact(&mut message[HEADER_LENGTH..]).ok()?;
    Some(message)
}

pub(super) fn reply_to(socket: &mut TcpStream, request: i32, body: RawDocument<'_>) {
    let mut reply = CommandMessage::new(body).finish(0);
    reply.seal(1, request);
    let _ = socket.write_all(reply.bytes());
}

fn answer_all(mut socket: TcpStream, tell: &Told<DocumentBuf>) {
    while let Some(message) = read_message(&mut socket) {
        let message = MessageRef::parse(&message, MAX_MESSAGE_SIZE).expect("a message");
        let body = OpMsg::parse(message).expect("OP_MSG").body;
        assert_eq!(message.expects_reply(), !body.contains("envelope"), "only envelopes want no reply");
        if !body.contains("hello") {
            let _ = tell.send(body.to_buf());
        }
        if message.expects_reply() {
            reply_to(&mut socket, message.header().request_id, body);
        }
    }
}

pub(super) fn envelope(number: i32) -> DocumentBuf {
    doc! { "envelope": number, "$db": "admin" }.to_buf()
}

fn large_envelope(number: i32) -> DocumentBuf {
    doc! { "envelope": number, "filler": ("x".repeat(100_000)), "$db": "admin" }.to_buf()
}

pub(super) fn question(number: i32) -> DocumentBuf {
    doc! { "question": number, "$db": "admin" }.to_buf()
}

/// A host that refuses connections.
fn dead_host() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

/// Accepts and never reads.
fn black_hole() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = listener.local_addr().expect("an address").to_string();
    (listener, host)
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn envelopes_come_in_order_and_questions_are_answered() {
    let member = TestMember::start();
    let peers = peers(options());
    for number in 0..500 {
        peers.send(&member.host, envelope(number));
    }
    for number in 0..500 {
        assert_eq!(member.next(), envelope(number));
    }
    peers.send(&member.host, large_envelope(1));
    assert_eq!(member.next(), large_envelope(1));
    let answers: Vec<_> = (0..20).map(|number| peers.ask(&member.host, question(number), PATIENCE)).collect();
    for (number, answer) in answers.into_iter().enumerate() {
        assert_eq!(block_on(answer), Ok(question(number as i32)));
    }
    assert_eq!(member.connections.lock().len(), 2, "one for envelopes and one for questions");
}

#[test]
fn names_are_looked_up_and_an_unknown_one_is_an_error() {
    let member = TestMember::start();
    let peers = peers(options());
    let port = member.host.rsplit_once(':').expect("a port").1;
    assert_eq!(block_on(peers.ask(&format!("localhost:{port}"), question(1), PATIENCE)), Ok(question(1)));
    let error = block_on(peers.ask("", question(1), PATIENCE)).expect_err("nobody has no name");
    assert!(matches!(error, PeerError::Unreachable { .. }), "{error}");
}

#[test]
fn a_dead_member_is_tried_again_until_it_is_back() {
    let host = dead_host();
    let peers = peers(options());
    let error = block_on(peers.ask(&host, question(1), PATIENCE)).expect_err("nobody listens");
    assert!(matches!(&error, PeerError::Unreachable { host: told, .. } if *told == host), "{error}");
    peers.send(&host, envelope(1));
    wait_until("the failure is noticed", || {
        let table = peers.shared.peers.lock();
        table.senders.get(&host).is_some_and(|sender| sender.waiting_bytes() == 0)
    });
    let member = TestMember::on(TcpListener::bind(&host).expect("the port is free"));
    let deadline = Instant::now() + PATIENCE;
    // What was sent while it was dead may be lost.
    loop {
        peers.send(&host, envelope(2));
        match member.told.recv_timeout(Duration::from_millis(20)) {
            Ok(told) => break assert_eq!(told.as_raw().first().expect("a field").name(), "envelope"),
            Err(_) => assert!(Instant::now() < deadline, "it is not found again"),
        }
    }
    assert_eq!(block_on(peers.ask(&host, question(2), PATIENCE)), Ok(question(2)));
}

#[test]
fn who_accepts_and_never_reads_holds_up_nobody() {
    let (_listener, silent) = black_hole();
    let member = TestMember::start();
    let peers = peers(NetworkOptions { greeting_limit: PATIENCE, ..options() });
    let _patient = peers.ask(&silent, question(0), PATIENCE);
    let late = peers.ask(&silent, question(1), Duration::from_millis(100));
    let later = peers.ask(&silent, question(2), Duration::from_millis(50));
    for number in 0..2_000 {
        peers.send(&silent, large_envelope(number));
    }
    peers.send(&member.host, envelope(1));
    assert_eq!(member.next(), envelope(1));
    assert_eq!(block_on(peers.ask(&member.host, question(3), PATIENCE)), Ok(question(3)));
    let timed_out = Err(PeerError::TimedOut { host: silent.clone() });
    assert_eq!(block_on(late), timed_out);
    assert_eq!(block_on(later), timed_out, "also behind one that waits for longer");
}

#[test]
fn who_greets_late_is_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = listener.local_addr().expect("an address").to_string();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            let tell = tell.clone();
            std::thread::spawn(move || {
                let Some(hello) = read_message(&mut socket) else { return };
                std::thread::sleep(Duration::from_secs(4));
                let hello = MessageRef::parse(&hello, MAX_MESSAGE_SIZE).expect("a message");
                reply_to(&mut socket, hello.header().request_id, doc! { "ok": 1.0 }.to_buf().as_raw());
                answer_all(socket, &tell);
            });
        }
    });
    let peers = peers(NetworkOptions::default());
    let deadline = Instant::now() + PATIENCE;
    loop {
        peers.send(&host, envelope(1));
        match told.recv_timeout(Duration::from_millis(100)) {
            Ok(told) => break assert_eq!(told, envelope(1)),
            Err(_) => assert!(Instant::now() < deadline, "it is never reached"),
        }
    }
}

#[test]
fn who_reads_slowly_gets_the_latest() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = listener.local_addr().expect("an address").to_string();
    let peers = peers(NetworkOptions {
        outbox_bytes_max: 1 << 20,
        untaken_limit: PATIENCE,
        greeting_limit: PATIENCE,
        ..options()
    });
    const COUNT: i32 = 500;
    for number in 0..COUNT {
        peers.send(&host, large_envelope(number));
        let table = peers.shared.peers.lock();
        let waiting = table.senders.get(&host).expect("a sender").waiting_bytes();
        assert!(waiting <= 1 << 20, "{waiting} bytes wait");
    }
    let (mut socket, _) = listener.accept().expect("a connection");
    let hello = read_message(&mut socket).expect("a greeting");
    let hello = MessageRef::parse(&hello, MAX_MESSAGE_SIZE).expect("a message");
    reply_to(&mut socket, hello.header().request_id, doc! { "ok": 1.0 }.to_buf().as_raw());
    let mut received = 0;
    loop {
        let message = read_message(&mut socket).expect("the last one comes");
        let message = MessageRef::parse(&message, MAX_MESSAGE_SIZE).expect("a message");
        received += 1;
        let body = OpMsg::parse(message).expect("OP_MSG").body;
        if body.get("envelope") == Some((COUNT - 1).into()) {
            break;
        }
    }
    assert!(received < COUNT, "the oldest ones were dropped");
}

#[test]
fn a_connection_that_ended_is_made_again() {
    let member = TestMember::start();
    let peers = peers(options());
    for number in 0..3 {
        peers.send(&member.host, envelope(number));
        assert_eq!(member.next(), envelope(number));
        assert_eq!(block_on(peers.ask(&member.host, question(number), PATIENCE)), Ok(question(number)));
        assert_eq!(member.next(), question(number));
        member.end_connections();
    }
}

#[test]
fn nonsense_is_an_error_and_ends_the_connection() {
    let garbage: [&[u8]; 4] = [
        b"HTTP/1.0 400 Bad Request\r\n\r\n, and more of it",
        &[0xff; 64],
        // A header that announces all that is allowed, and nothing behind it.
        &[0x00, 0x6c, 0xdc, 0x02, 1, 0, 0, 0, 1, 0, 0, 0, 0xdd, 7, 0, 0],
        b"",
    ];
    for bytes in garbage {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let host = listener.local_addr().expect("an address").to_string();
        let served = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("a connection");
            let hello = read_message(&mut socket).expect("a greeting");
            let request = MessageRef::parse(&hello, MAX_MESSAGE_SIZE).expect("a message").header().request_id;
            reply_to(&mut socket, request, doc! { "ok": 1.0 }.to_buf().as_raw());
            read_message(&mut socket).expect("a question");
            socket.write_all(bytes).expect("it is there");
        });
        let peers = peers(options());
        let error = block_on(peers.ask(&host, question(1), PATIENCE)).expect_err("this is no reply");
        assert!(matches!(error, PeerError::Garbled { .. } | PeerError::Unreachable { .. }), "{error}");
        served.join().expect("served");
    }
}

#[test]
fn an_answer_to_another_request_is_none() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a connection");
        while let Some(message) = read_message(&mut socket) {
            let header = MessageRef::parse(&message, MAX_MESSAGE_SIZE).expect("a message").header();
            reply_to(&mut socket, header.request_id + 1, doc! { "ok": 1.0 }.to_buf().as_raw());
        }
    });
    let error = block_on(peers(options()).ask(&host, question(1), PATIENCE));
    assert!(matches!(error, Err(PeerError::Garbled { .. })), "{error:?}");
}

#[test]
fn more_questions_than_can_wait_are_refused() {
    let (_listener, silent) = black_hole();
    let peers = peers(NetworkOptions { questions_max: 3, ..options() });
    let answers: Vec<_> = (0..10).map(|number| peers.ask(&silent, question(number), PATIENCE)).collect();
    let last = answers.into_iter().next_back().expect("an answer");
    assert_eq!(block_on(last), Err(PeerError::Busy { host: silent }));
}

#[test]
fn stopping_ends_every_thread_and_every_wait() {
    let (_listener, silent) = black_hole();
    let member = TestMember::start();
    let peers = peers(NetworkOptions { untaken_limit: PATIENCE, greeting_limit: PATIENCE, ..options() });
    peers.send(&member.host, envelope(1));
    peers.send(&silent, envelope(1));
    peers.send(&dead_host(), envelope(1));
    let answer = peers.ask(&silent, question(1), PATIENCE);
    assert_eq!(member.next(), envelope(1));
    peers.stop();
    assert!(matches!(block_on(answer), Err(PeerError::Stopped | PeerError::Unreachable { .. })));
    assert_eq!(*peers.shared.threads.running.lock(), 0, "threads are left");
    peers.send(&member.host, envelope(2));
    assert_eq!(block_on(peers.ask(&member.host, question(1), PATIENCE)), Err(PeerError::Stopped));
}

#[test]
fn threads_that_nobody_needs_end_and_begin_again() {
    let member = TestMember::start();
    let peers = peers(NetworkOptions { idle_limit: Duration::from_millis(10), ..options() });
    for number in 0..3 {
        peers.send(&member.host, envelope(number));
        assert_eq!(member.next(), envelope(number));
        assert_eq!(block_on(peers.ask(&member.host, question(number), PATIENCE)), Ok(question(number)));
        assert_eq!(member.next(), question(number));
        wait_until("the threads end", || *peers.shared.threads.running.lock() == 1);
    }
}
