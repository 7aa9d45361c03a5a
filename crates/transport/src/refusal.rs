//! Telling clients over the connection limit that they are over it.
//!
//! One thread takes refused connections one by one, waits shortly for the first request and answers it with
//! an error. What comes while its queue is full is closed at once: refusing must stay cheaper than serving.

use socket2::Socket;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;
use wire::{ErrorCode, MAX_MESSAGE_SIZE, MessageHeader, OpCode, ReplyBuilder, ReplyFormat};

const QUEUE_LENGTH: usize = 64;
/// Clients speak first and at once; one that does not is closed without an answer.
const PATIENCE: Duration = Duration::from_millis(50);
const FIRST_REQUEST_BYTES: usize = 16 * 1024;

/// The queue of the refusing thread; the thread ends when it is dropped.
#[derive(Clone)]
pub(crate) struct Refusal {
    queue: SyncSender<Refused>,
}

struct Refused {
    socket: Socket,
    limit: usize,
}

impl Refusal {
    pub(crate) fn start() -> std::io::Result<Self> {
        let (queue, refused) = sync_channel(QUEUE_LENGTH);
        thread::Builder::new()
            .name("refusal".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || answer_all(&refused))?;
        Ok(Self { queue })
    }

    /// Refuses a connection; never waits.
    pub(crate) fn refuse(&self, socket: Socket, limit: usize) {
        // A full queue drops the socket, which closes it.
        let _ = self.queue.try_send(Refused { socket, limit });
    }
}

fn answer_all(refused: &Receiver<Refused>) {
    while let Ok(Refused { socket, limit }) = refused.recv() {
        if let Err(error) = answer(&socket, limit) {
            tracing::debug!(target: "network", %error, "a refused client was not told why");
        }
    }
}

fn answer(mut socket: &Socket, limit: usize) -> std::io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let mut request = vec![0; FIRST_REQUEST_BYTES];
    let count = socket.read(&mut request)?;
    let Ok(Some(header)) = MessageHeader::parse(request.get(..count).unwrap_or_default(), MAX_MESSAGE_SIZE)
    else {
        return Ok(());
    };
    let format = match header.opcode {
        OpCode::Query => ReplyFormat::Legacy,
        _ => ReplyFormat::Msg { checksum: false },
    };
    let message = format!("connection refused because too many connections are open: the limit is {limit}");
    let code = ErrorCode::ResourceExhausted.code();
    let mut reply = ReplyBuilder::error(Vec::new(), format, code, &message);
    reply.seal(1, header.request_id);
    socket.write_all(reply.bytes())?;
    socket.shutdown(Shutdown::Write)
}
