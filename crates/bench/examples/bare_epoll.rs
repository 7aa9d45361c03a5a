//! The least that a load generator can be: one thread, one epoll, a fixed request on every connection again
//! and again; no histogram, no look at the reply. Its rate against `heddle bench echo` is the ceiling of the
//! generator's on a machine.
//!
//! `bare_epoll ADDRESS CONNECTIONS SECONDS [REQUEST_BYTES]`

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const OP_MSG: i32 = 2013;
const READ_BYTES: usize = 64 * 1024;
const EVENTS: usize = 128;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, connections, seconds, rest @ ..] = words.as_slice() else {
        return Err("expected ADDRESS CONNECTIONS SECONDS [REQUEST_BYTES]".into());
    };
    let (address, connections): (SocketAddr, usize) = (address.parse()?, connections.parse()?);
    let duration = Duration::from_secs_f64(seconds.parse()?);
    let request = request(rest.first().map_or(Ok(100), |bytes| bytes.parse())?);
    let mut poll = Poll::new()?;
    let mut sockets = Vec::with_capacity(connections);
    for index in 0..connections {
        let socket = std::net::TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let mut socket = TcpStream::from_std(socket);
        poll.registry().register(&mut socket, Token(index), Interest::READABLE)?;
        sockets.push((socket, 0));
    }
    let begun = Instant::now();
    for (socket, _) in &mut sockets {
        socket.write_all(&request)?;
    }
    let replies = exchange(&mut poll, &mut sockets, &request, begun + duration)?;
    println!("{:.0} pairs/s at {connections} connections", replies as f64 / begun.elapsed().as_secs_f64());
    Ok(())
}

/// Sends until the time has come; returns the number of replies.
fn exchange(
    poll: &mut Poll,
    sockets: &mut [(TcpStream, usize)],
    request: &[u8],
    end: Instant,
) -> Result<u64, Box<dyn Error>> {
    let mut events = Events::with_capacity(EVENTS);
    let mut buffer = vec![0; READ_BYTES];
    let mut replies = 0;
    while Instant::now() < end {
        poll.poll(&mut events, Some(Duration::from_millis(100)))?;
        for event in &events {
            let Some((socket, missing)) = sockets.get_mut(event.token().0) else { continue };
            let count = match socket.read(&mut buffer) {
                Ok(0) => return Err("the server closed a connection".into()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error.into()),
            };
            if *missing == 0 {
                *missing = buffer.first_chunk().map_or(count, |length| u32::from_le_bytes(*length) as usize);
            }
            *missing = missing.saturating_sub(count);
            if *missing == 0 {
                replies += 1;
                socket.write_all(request)?;
            }
        }
    }
    Ok(replies)
}

/// An OP_MSG of this size with an empty body.
fn request(bytes: usize) -> Vec<u8> {
    const SMALLEST: usize = 26;
    let mut request = Vec::with_capacity(bytes.max(SMALLEST));
    for field in [bytes.max(SMALLEST) as i32, 1, 0, OP_MSG, 0] {
        request.extend_from_slice(&field.to_le_bytes());
    }
    request.extend_from_slice(&[0, 5, 0, 0, 0, 0]);
    request.resize(bytes.max(SMALLEST), 0);
    request
}
