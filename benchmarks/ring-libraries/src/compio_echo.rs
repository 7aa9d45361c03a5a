//! The echo over compio.

use crate::RingOptions;
use crate::server::{Arrivals, Buffers, RING_ENTRIES};
use compio::BufResult;
use compio::driver::ProactorBuilder;
use compio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use compio::net::{TcpStream, UnixStream};
use compio::runtime::RuntimeBuilder;
use std::io;

/// Serves the streams that arrive, on this thread, until the acceptor ends.
pub(crate) fn run(arrivals: Arrivals, reply_bytes: usize, ring: RingOptions) -> io::Result<()> {
    let mut driver = ProactorBuilder::new();
    driver.capacity(RING_ENTRIES).single_issuer(ring.defer_taskrun).defer_taskrun(ring.defer_taskrun);
    let runtime = RuntimeBuilder::new()
        .with_proactor(driver)
        .build()
        .map_err(|error| io::Error::other(format!("compio cannot make an io_uring: {error}")))?;
    if !runtime.driver_type().is_iouring() {
        return Err(io::Error::other(format!("compio took {:?} and not io_uring", runtime.driver_type())));
    }
    println!("compio on {:?}", runtime.driver_type());
    runtime.block_on(accept(arrivals, reply_bytes))
}

async fn accept(arrivals: Arrivals, reply_bytes: usize) -> io::Result<()> {
    let (streams, bell) = arrivals.split();
    let mut bell = UnixStream::from_std(bell)?;
    let mut rings = Vec::with_capacity(64);
    loop {
        let BufResult(count, buffer) = bell.read(rings).await;
        if count? == 0 {
            return Ok(());
        }
        rings = buffer;
        for stream in streams.try_iter() {
            let stream = TcpStream::from_std(stream)?;
            compio::runtime::spawn(answer(stream, Buffers::new(reply_bytes))).detach();
        }
    }
}

/// Answers the requests of a connection; it ends with the first error, of which the client learns by its end.
async fn answer(mut stream: TcpStream, mut buffers: Buffers) -> io::Result<()> {
    loop {
        while buffers.take_request()? {
            let BufResult(result, reply) = stream.write_all(buffers.reply).await;
            buffers.reply = reply;
            result?;
        }
        buffers.reserve();
        let BufResult(count, received) = stream.append(buffers.received).await;
        buffers.received = received;
        if count? == 0 {
            return Ok(());
        }
    }
}
