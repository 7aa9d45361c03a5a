//! The yardstick: a bare thread-per-connection echo, as little server as can be.

use crate::error::BenchError;
use crate::template::{announced_length, encode};
use clap::Args;
use document::{Value, doc};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// Stack of a connection's thread.
const STACK_BYTES: usize = 64 * 1024;
const REQUEST_BYTES: usize = 16 * 1024;

/// `heddle bench echo`.
#[derive(Debug, Args)]
pub struct EchoArguments {
    /// Port on 127.0.0.1
    #[arg(long)]
    port: u16,
    /// Size of every reply, in bytes
    #[arg(long, default_value_t = 1_100)]
    reply_bytes: usize,
}

/// Answers every message with a reply of one size, one thread per connection, until the process is ended.
///
/// # Errors
/// When the port cannot be had.
pub fn serve_echo(arguments: &EchoArguments) -> Result<(), BenchError> {
    let listener = TcpListener::bind(("127.0.0.1", arguments.port)).map_err(BenchError::io("listen"))?;
    let reply = reply_of(arguments.reply_bytes);
    for socket in listener.incoming() {
        let socket = socket.map_err(BenchError::io("accept"))?;
        let reply = reply.clone();
        std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn(move || echo(socket, &reply))
            .map_err(BenchError::io("start a thread"))?;
    }
    Ok(())
}

/// A valid `{ok: 1}` reply, padded to the size asked for.
fn reply_of(bytes: usize) -> Vec<u8> {
    let unpadded = encode(&doc! { "pad": "", "ok": 1.0 }).len();
    let pad = "x".repeat(bytes.saturating_sub(unpadded));
    encode(&doc! { "pad": (Value::String(pad)), "ok": 1.0 })
}

fn echo(mut socket: TcpStream, reply: &[u8]) {
    if socket.set_nodelay(true).is_err() {
        return;
    }
    let mut buffer = vec![0; REQUEST_BYTES];
    let mut filled = 0;
    loop {
        match socket.read(buffer.get_mut(filled..).unwrap_or_default()) {
            Ok(0) | Err(_) => return,
            Ok(count) => filled += count,
        }
        if announced_length(buffer.get(..filled).unwrap_or_default()).is_some_and(|length| length <= filled) {
            filled = 0;
            if socket.write_all(reply).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_have_the_size_asked_for() {
        assert_eq!(reply_of(1_100).len(), 1_100);
        assert_eq!(announced_length(&reply_of(300)), Some(300));
    }
}
