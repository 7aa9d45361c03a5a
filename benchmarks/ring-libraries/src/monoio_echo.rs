//! The echo over monoio.

use crate::RingOptions;
use crate::server::{Arrivals, Buffers, RING_ENTRIES};
use monoio::buf::SliceMut;
use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use monoio::net::{TcpStream, UnixStream};
use monoio::{IoUringDriver, RuntimeBuilder};
use std::io;

/// Serves the streams that arrive, on this thread, until the acceptor ends.
pub(crate) fn run(arrivals: Arrivals, reply_bytes: usize, ring: RingOptions) -> io::Result<()> {
    let mut rings = io_uring::IoUring::builder();
    if ring.defer_taskrun {
        rings.setup_single_issuer().setup_defer_taskrun();
    }
    let mut runtime = RuntimeBuilder::<IoUringDriver>::new()
        .with_entries(RING_ENTRIES)
        .uring_builder(rings)
        .build()
        .map_err(|error| io::Error::other(format!("monoio cannot make an io_uring: {error}")))?;
    println!("monoio on io_uring");
    runtime.block_on(accept(arrivals, reply_bytes))
}

async fn accept(arrivals: Arrivals, reply_bytes: usize) -> io::Result<()> {
    let (streams, bell) = arrivals.split();
    let mut bell = UnixStream::from_std(bell)?;
    let mut rings = Vec::with_capacity(64);
    loop {
        let (count, buffer) = bell.read(rings).await;
        if count? == 0 {
            return Ok(());
        }
        rings = buffer;
        for stream in streams.try_iter() {
            monoio::spawn(answer(TcpStream::from_std(stream)?, Buffers::new(reply_bytes)));
        }
    }
}

/// Answers the requests of a connection; it ends with the first error, of which the client learns by its end.
async fn answer(mut stream: TcpStream, mut buffers: Buffers) -> io::Result<()> {
    loop {
        while buffers.take_request()? {
            let (result, reply) = stream.write_all(buffers.reply).await;
            buffers.reply = reply;
            result?;
        }
        buffers.reserve();
        let (begin, end) = (buffers.received.len(), buffers.received.capacity());
        let (count, rest) = stream.read(SliceMut::new(buffers.received, begin, end)).await;
        buffers.received = rest.into_inner();
        if count? == 0 {
            return Ok(());
        }
    }
}
