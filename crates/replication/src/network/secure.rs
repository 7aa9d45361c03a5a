//! TLS to another member, by `rustls`.

use super::left_until;
use arc_swap::ArcSwap;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

/// How TLS is spoken to the other members. What copies of it are given changes for all of them.
#[derive(Debug, Clone)]
pub struct MemberTls(Arc<ArcSwap<ClientConfig>>);

impl MemberTls {
    /// Whom to trust, and what to show.
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        MemberTls(Arc::new(ArcSwap::from_pointee(config)))
    }

    /// The same for connections that are made from now on.
    pub fn change(&self, config: ClientConfig) {
        self.0.store(Arc::new(config));
    }
}

/// A connection's bytes, in clear or not.
#[derive(Debug)]
pub(super) enum MemberStream {
    Clear(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl MemberStream {
    /// Makes the handshake, until `deadline`. The member's certificate is to have the host's name.
    pub(super) fn secure(
        socket: TcpStream,
        tls: &MemberTls,
        host: &str,
        deadline: Instant,
    ) -> io::Result<Self> {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.parse::<u16>().is_ok() => name,
            _ => host,
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(tls.0.load_full(), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, socket);
        while stream.conn.is_handshaking() {
            let left = left_until(deadline);
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.sock.set_read_timeout(Some(left))?;
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(MemberStream::Tls(Box::new(stream)))
    }

    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            MemberStream::Clear(socket) => socket,
            MemberStream::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for MemberStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            MemberStream::Clear(socket) => socket.read(buffer),
            MemberStream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for MemberStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            MemberStream::Clear(socket) => socket.write(bytes),
            MemberStream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            MemberStream::Clear(socket) => socket.flush(),
            MemberStream::Tls(stream) => stream.flush(),
        }
    }
}
