//! The yardsticks: bare echo servers, as little server as can be, on a thread per connection or on one epoll.

mod epoll;
mod thread;

use crate::error::BenchError;
use crate::message::encode;
use clap::{Args, ValueEnum};
use document::{Value, doc};
use std::net::TcpListener;

/// How the echo waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EchoKind {
    /// A blocking thread per connection: the ceiling of `synchronous`.
    Thread,
    /// One thread, one epoll: the ceiling of everything else on one core.
    Epoll,
}

/// `heddle bench echo`.
#[derive(Debug, Args)]
pub struct EchoArguments {
    /// Port on 127.0.0.1
    #[arg(long)]
    port: u16,
    /// Size of every reply, in bytes
    #[arg(long, default_value_t = 1_100)]
    reply_bytes: usize,
    /// How it waits for requests
    #[arg(long, value_enum, default_value = "thread")]
    kind: EchoKind,
}

/// Answers every message with a reply of one size until the process is ended.
pub(crate) fn serve_echo(arguments: &EchoArguments) -> Result<(), BenchError> {
    crate::process::raise_descriptor_limit();
    let listener = listen(arguments.port)?;
    let reply = reply_of(arguments.reply_bytes);
    match arguments.kind {
        EchoKind::Thread => thread::serve(&listener, &reply),
        EchoKind::Epoll => epoll::serve(listener, reply),
    }
}

/// With the backlog of the server, so that as many connections can come at once.
fn listen(port: u16) -> Result<TcpListener, BenchError> {
    const BACKLOG: i32 = 4_096;
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let open = || {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(TcpListener::from(socket))
    };
    open().map_err(BenchError::io("listen"))
}

/// A valid `{ok: 1}` reply, padded to the size asked for.
fn reply_of(bytes: usize) -> Vec<u8> {
    let unpadded = encode(&doc! { "pad": "", "ok": 1.0 }).len();
    let pad = "x".repeat(bytes.saturating_sub(unpadded));
    encode(&doc! { "pad": (Value::String(pad)), "ok": 1.0 })
}

/// Makes the reply one to this request: `responseTo` is the request's id.
fn address(reply: &mut [u8], request: &[u8]) {
    if let (Some(response_to), Some(id)) = (reply.get_mut(8..12), request.get(4..8)) {
        response_to.copy_from_slice(id);
    }
}

/// An epoll echo on a thread of its own, which ends with the test's process.
#[cfg(test)]
pub(crate) struct EchoInTest {
    pub(crate) address: std::net::SocketAddr,
}

#[cfg(test)]
impl EchoInTest {
    pub(crate) fn start(reply_bytes: usize) -> Self {
        let listener = listen(0).expect("a free port");
        let address = listener.local_addr().expect("its address");
        std::thread::spawn(move || epoll::serve(listener, reply_of(reply_bytes)));
        EchoInTest { address }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::announced_length;

    #[test]
    fn replies_have_the_size_asked_for() {
        assert_eq!(reply_of(1_100).len(), 1_100);
        assert_eq!(announced_length(&reply_of(300)), Some(300));
    }
}
