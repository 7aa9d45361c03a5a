//! TLS over a socket that does not block.

use mio::net::TcpStream;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::io::{self, Read, Write};
use std::sync::Arc;

/// The state of a connection that speaks TLS, without its socket. What is sent before the handshake is done
/// goes out behind it.
#[derive(Debug)]
pub(crate) struct SecuredSocket(ClientConnection);

impl SecuredSocket {
    /// Begins; nothing is sent yet.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub(crate) fn new(config: &Arc<ClientConfig>, name: ServerName<'static>) -> io::Result<Self> {
        let mut connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        // A whole request is taken at once, as long as it may be.
        connection.set_buffer_limit(None);
        Ok(SecuredSocket(connection))
    }

    /// Takes all of these bytes, and sends what the socket takes.
    ///
    /// # Errors
    /// Those of the socket.
    pub(crate) fn send(&mut self, socket: &TcpStream, bytes: &[u8]) -> io::Result<()> {
        self.0.writer().write_all(bytes)?;
        self.flush(socket)
    }

    /// Sends what has been taken before, as far as the socket takes it.
    ///
    /// # Errors
    /// Those of the socket.
    pub(crate) fn flush(&mut self, mut socket: &TcpStream) -> io::Result<()> {
        while self.0.wants_write() {
            match self.0.write_tls(&mut socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Receives plain bytes; none at the connection's end.
    ///
    /// # Errors
    /// `WouldBlock`, and those of the socket and of the handshake.
    pub(crate) fn receive(&mut self, mut socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                received => return received,
            }
            if self.0.read_tls(&mut socket)? == 0 {
                return Ok(0);
            }
            let processed = self.0.process_new_packets();
            // Also what tells the server why it goes no further.
            self.flush(socket)?;
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }
}
