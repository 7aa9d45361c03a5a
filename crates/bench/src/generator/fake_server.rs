//! A server under a test's control: it does on every request what the test says.

use crate::message::{announced_length, encode};
use document::Document;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Reply(Document),
    /// These bytes as they are.
    Bytes(Vec<u8>),
    /// These bytes, then the end of the connection.
    Last(Vec<u8>),
    Silence,
}

/// A request as the server sees it: the whole message and its number among all, from 0.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) message: Vec<u8>,
    pub(crate) number: u64,
}

impl Seen {
    pub(crate) fn id(&self) -> i32 {
        i32::from_le_bytes(*self.message[4..].first_chunk().expect("a header"))
    }

    pub(crate) fn reply(&self, document: &Document) -> Vec<u8> {
        reply_to(self.id(), document)
    }
}

pub(crate) fn reply_to(id: i32, document: &Document) -> Vec<u8> {
    let mut reply = encode(document);
    reply[8..12].copy_from_slice(&id.to_le_bytes());
    reply
}

type Behaviour = Arc<dyn Fn(&Seen) -> Answer + Send + Sync>;

/// Ends with its last value; [`FakeServer::die`] ends it before.
pub(crate) struct FakeServer {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    behaviour: Behaviour,
    listening: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    dead: AtomicBool,
    requests: AtomicU64,
    accepted: AtomicU64,
    sockets: Mutex<Vec<TcpStream>>,
}

impl FakeServer {
    pub(crate) fn start(behaviour: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let mut server =
            FakeServer { address, shared: Arc::default(), behaviour: Arc::new(behaviour), listening: None };
        server.listen(listener);
        server
    }

    fn listen(&mut self, listener: TcpListener) {
        self.shared.dead.store(false, Ordering::SeqCst);
        let (shared, behaviour) = (Arc::clone(&self.shared), Arc::clone(&self.behaviour));
        self.listening = Some(std::thread::spawn(move || {
            for socket in listener.incoming() {
                let socket = socket.expect("a connection");
                if shared.dead.load(Ordering::SeqCst) {
                    return;
                }
                shared.accepted.fetch_add(1, Ordering::SeqCst);
                shared.sockets.lock().unwrap().push(socket.try_clone().expect("a descriptor"));
                let (shared, behaviour) = (Arc::clone(&shared), Arc::clone(&behaviour));
                std::thread::spawn(move || serve(socket, &shared, &behaviour));
            }
        }));
    }

    pub(crate) fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Ends all connections and listens no more.
    pub(crate) fn die(&mut self) {
        self.shared.dead.store(true, Ordering::SeqCst);
        if let Some(listening) = self.listening.take() {
            // One connection that the listening thread sees and does not take.
            let _ = TcpStream::connect(self.address);
            listening.join().expect("the listening thread ends");
        }
        for socket in self.shared.sockets.lock().unwrap().drain(..) {
            // It may have ended already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn come_back(&mut self) {
        let listener = TcpListener::bind(self.address).expect("the same port");
        self.listen(listener);
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.die();
    }
}

fn serve(mut socket: TcpStream, shared: &Shared, behaviour: &Behaviour) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        while let Some(length) = announced_length(&bytes).filter(|&length| length <= bytes.len()) {
            let message = bytes.drain(..length).collect();
            let seen = Seen { message, number: shared.requests.fetch_add(1, Ordering::SeqCst) };
            let (answer, last) = match behaviour(&seen) {
                Answer::Reply(document) => (seen.reply(&document), false),
                Answer::Bytes(answer) => (answer, false),
                Answer::Last(answer) => (answer, true),
                Answer::Silence => (Vec::new(), false),
            };
            if socket.write_all(&answer).is_err() {
                return;
            }
            if last {
                let _ = socket.shutdown(Shutdown::Both);
                return;
            }
        }
        match socket.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}
