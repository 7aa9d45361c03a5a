//! A service for tests, and a client without a driver.

use document::{Document, doc};
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use transport::{
    NextRequest, Replies, RequestMessage, Server, ServerOptions, Service, ServiceExecutor, Session,
};
use wire::{
    CommandMessage, MAX_MESSAGE_SIZE, Message, MessageRef, OpMsg, OpMsgFlags, decompress_message,
    parse_reply, peek_command,
};

/// `{sleep: ms}` answers later, on a thread that may block; `{fill: n}` with n bytes; `{hold: 1}` blocks
/// whatever thread it is on until [`Echo::release`]; `{stream: n}` counts down to 0 in an exhaust stream;
/// `{close: n}` does the same and closes the connection instead of sending the last reply; `{panic: 1}`
/// panics; everything else is answered at once. All replies carry `ok`, `calls`, `lane` and whether the
/// request began where it may block, `onPool`. `ping` is diagnostic.
#[derive(Default)]
pub(crate) struct Echo {
    pub(crate) calls: AtomicUsize,
    pub(crate) opened: AtomicUsize,
    pub(crate) closed: AtomicUsize,
    pub(crate) held: AtomicUsize,
    /// Kept for good by a service that forgets nobody.
    pub(crate) sessions: Mutex<Vec<Arc<Session>>>,
    /// Threads that were told that they rest.
    pub(crate) rests: AtomicUsize,
    released: Mutex<bool>,
    release: Condvar,
}

impl Echo {
    /// Ends every `hold`, now and later.
    pub(crate) fn release(&self) {
        *self.released.lock().expect("no panic inside") = true;
        self.release.notify_all();
    }

    fn hold(&self) {
        self.held.fetch_add(1, Ordering::SeqCst);
        let mut released = self.released.lock().expect("no panic inside");
        while !*released {
            released = self.release.wait(released).expect("no panic inside");
        }
    }
}

impl Service for Echo {
    fn opened(&self, session: &Arc<Session>) {
        self.opened.fetch_add(1, Ordering::SeqCst);
        self.sessions.lock().expect("no panic inside").push(Arc::clone(session));
    }

    fn thread_rests(&self) {
        self.rests.fetch_add(1, Ordering::SeqCst);
    }

    async fn call(&self, session: &Arc<Session>, mut request: RequestMessage<'_>) -> Replies {
        let calls = self.calls.fetch_add(1, Ordering::SeqCst);
        let on_pool = session.may_block();
        let Ok(parsed) = OpMsg::parse(request.message()) else { return Replies::none().then_close() };
        let amount = |name| parsed.body.get(name).and_then(|value| value.as_i64_exact()).map(|n| n as u64);
        if request.overload().is_some() {
            let mut reply = request.reply();
            reply.body().append("ok", 0.0).append("code", 462);
            return Replies::one(reply.finish()).as_refused();
        }
        if let Some(milliseconds) = amount("sleep") {
            poll_fn(|context| session.poll_offload(context)).await;
            assert!(session.may_block(), "an offloaded request may block");
            thread::sleep(Duration::from_millis(milliseconds));
        }
        if let Some(milliseconds) = amount("compute") {
            thread::sleep(Duration::from_millis(milliseconds));
        }
        if amount("member").is_some() {
            session.give_thread();
        }
        if amount("hold").is_some() {
            self.hold();
        }
        assert!(amount("panic").is_none(), "the test asked for it");
        if amount("close") == Some(0) {
            return Replies::none().then_close();
        }
        let mut reply = request.reply();
        let mut body = reply.body();
        body.append("ok", 1.0).append("calls", calls as i64);
        body.append("lane", session.is_on_lane()).append("onPool", on_pool);
        if let Some(bytes) = amount("fill") {
            body.append("filled", "x".repeat(bytes as usize).as_str());
        }
        body.finish();
        let reply = reply.finish();
        let left = |name| amount(name).filter(|left| *left > 0).map(|left| (name, left as i64 - 1));
        match left("stream").or_else(|| left("close")) {
            Some((name, left)) => {
                let next = doc! { name: left }.to_buf();
                let next = CommandMessage::new(next.as_raw()).flags(OpMsgFlags::EXHAUST_ALLOWED).finish(0);
                Replies::exhaust(reply, NextRequest::New(next))
            }
            None => Replies::one(reply),
        }
    }

    fn is_diagnostic(&self, message: MessageRef<'_>) -> bool {
        let first = peek_command(message).and_then(|command| command.first());
        first.is_some_and(|first| first.name() == "ping")
    }

    fn closed(&self, _session: &Arc<Session>) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) fn options(executor: ServiceExecutor) -> ServerOptions {
    ServerOptions { port: 0, unix_socket_prefix: None, executor, ..ServerOptions::default() }
}

pub(crate) fn start(options: ServerOptions) -> (Server, Arc<Echo>) {
    let service = Arc::new(Echo::default());
    let server = Server::start(options, Arc::clone(&service)).expect("a free port");
    (server, service)
}

pub(crate) fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.tcp_addresses()[0]).expect("the server accepts");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    stream.set_nodelay(true).expect("no delay");
    stream
}

pub(crate) fn command(command: Document, id: i32) -> Message {
    CommandMessage::new(command.to_buf().as_raw()).finish(id)
}

/// Reads one reply: which request it answers, and its body.
pub(crate) fn read_reply(stream: &mut impl Read) -> io::Result<(i32, Document)> {
    let (response_to, _, body) = read_message(stream)?;
    Ok((response_to, body))
}

/// Reads one reply: which request it answers, whether more follow, and its body.
pub(crate) fn read_message(stream: &mut impl Read) -> io::Result<(i32, bool, Document)> {
    let bytes = read_bytes(stream)?;
    let message = MessageRef::parse(&bytes, MAX_MESSAGE_SIZE).expect("a message");
    let body = parse_reply(message).expect("a reply").to_document();
    Ok((message.header().response_to, !message.expects_reply(), body))
}

/// Reads one compressed reply: which request it answers, and its body.
pub(crate) fn read_compressed(stream: &mut impl Read) -> (i32, Document) {
    let bytes = read_bytes(stream).expect("a reply");
    let message = MessageRef::parse(&bytes, MAX_MESSAGE_SIZE).expect("a message");
    let (inner, _) = decompress_message(message, MAX_MESSAGE_SIZE, Vec::new()).expect("a compressed message");
    let inner = inner.as_ref(MAX_MESSAGE_SIZE).expect("a message");
    (message.header().response_to, parse_reply(inner).expect("a reply").to_document())
}

fn read_bytes(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 16];
    stream.read_exact(&mut bytes)?;
    let length = i32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
    bytes.resize(length as usize, 0);
    stream.read_exact(&mut bytes[16..])?;
    Ok(bytes)
}

pub(crate) fn ask(stream: &mut (impl Read + Write), request: &Message) -> Document {
    stream.write_all(request.bytes()).expect("the server reads");
    let (response_to, body) = read_reply(stream).expect("the server answers");
    assert_eq!(response_to, request.request_id(), "the reply belongs to another request");
    body
}

/// Makes closing send a reset.
pub(crate) fn reset_on_close(stream: TcpStream) -> socket2::Socket {
    let socket = socket2::Socket::from(stream);
    socket.set_linger(Some(Duration::ZERO)).expect("linger");
    socket
}

/// Waits for something that happens on another thread.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not happen within 20 s");
        thread::sleep(Duration::from_millis(1));
    }
}
