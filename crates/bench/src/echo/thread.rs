//! The echo with a blocking thread per connection.

use crate::error::BenchError;
use crate::message::announced_length;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// Stack of a connection's thread.
const STACK_BYTES: usize = 64 * 1024;
const REQUEST_BYTES: usize = 16 * 1024;

pub(crate) fn serve(listener: &TcpListener, reply: &[u8]) -> Result<(), BenchError> {
    for socket in listener.incoming() {
        let socket = socket.map_err(BenchError::io("accept"))?;
        let mut reply = reply.to_vec();
        std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn(move || echo(socket, &mut reply))
            .map_err(BenchError::io("start a thread"))?;
    }
    Ok(())
}

fn echo(mut socket: TcpStream, reply: &mut [u8]) {
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
            super::address(reply, &buffer);
            filled = 0;
            if socket.write_all(reply).is_err() {
                return;
            }
        }
    }
}
