//! What the libraries' servers have in common: one thread accepts and hands the connections round among the
//! runtimes.

use crate::message::{self, HEADER_BYTES};
use crate::{Library, RingOptions, compio_echo, monoio_echo};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Submission entries of a library's ring; it has room for twice as many completions, which is as many as
/// Heddle's.
pub(crate) const RING_ENTRIES: u32 = 4096;
/// Capacity of a connection's buffer for requests.
const RECEIVE_BYTES: usize = 16 * 1024;

/// The acceptor's end of the way to a runtime. Every stream is followed by a byte on the bell, because a
/// runtime can wait for a socket but not for a channel of the standard library.
struct Handover {
    streams: Sender<TcpStream>,
    bell: UnixStream,
}

impl Handover {
    fn pass(&self, stream: TcpStream) -> io::Result<()> {
        self.streams.send(stream).map_err(|_| io::Error::other("a runtime has ended"))?;
        io::Write::write_all(&mut &self.bell, &[1])
    }
}

/// A runtime's end of the way from the acceptor.
pub(crate) struct Arrivals {
    streams: Receiver<TcpStream>,
    bell: UnixStream,
}

impl Arrivals {
    /// The streams that have come, and the bell to wait for.
    pub(crate) fn split(self) -> (Receiver<TcpStream>, UnixStream) {
        (self.streams, self.bell)
    }
}

fn handover() -> io::Result<(Handover, Arrivals)> {
    let (sender, receiver) = channel();
    let (acceptors, runtimes) = UnixStream::pair()?;
    Ok((Handover { streams: sender, bell: acceptors }, Arrivals { streams: receiver, bell: runtimes }))
}

/// What a connection's task keeps.
pub(crate) struct Buffers {
    pub(crate) received: Vec<u8>,
    pub(crate) reply: Vec<u8>,
}

impl Buffers {
    pub(crate) fn new(reply_bytes: usize) -> Self {
        Buffers { received: Vec::with_capacity(RECEIVE_BYTES), reply: message::op_msg(reply_bytes, 1) }
    }

    /// Takes the first request out, if all of it is there, and makes the reply its answer.
    pub(crate) fn take_request(&mut self) -> io::Result<bool> {
        let Some(request) = message::first(&self.received)? else { return Ok(false) };
        message::answer_to(&mut self.reply, request.id);
        self.received.drain(..request.bytes);
        Ok(true)
    }

    /// Makes room for more of a request.
    pub(crate) fn reserve(&mut self) {
        if self.received.len() + HEADER_BYTES > self.received.capacity() {
            self.received.reserve(RECEIVE_BYTES);
        }
    }
}

/// Serves until the process is ended or a thread fails.
pub(crate) fn serve(
    library: Library,
    address: SocketAddr,
    reply_bytes: usize,
    ring: RingOptions,
) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    let cores = thread::available_parallelism()?.get();
    let mut runtimes = Vec::with_capacity(cores);
    for index in 0..cores {
        let (handover, arrivals) = handover()?;
        thread::Builder::new().name(format!("runtime-{index}")).spawn(move || {
            let result = match library {
                Library::Monoio => monoio_echo::run(arrivals, reply_bytes, ring),
                Library::Compio => compio_echo::run(arrivals, reply_bytes, ring),
            };
            if let Err(error) = result {
                eprintln!("ring-libraries: a runtime failed: {error}");
                std::process::exit(1);
            }
        })?;
        runtimes.push(handover);
    }
    for runtime in runtimes.iter().cycle() {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        runtime.pass(stream)?;
    }
    Ok(())
}
