//! The server's side of one TLS connection, without its socket.

use super::{Tls, TlsFacts};
use crate::ReceiveBuffer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus, WriteTraffic};
use rustls::{Error, ProtocolVersion};
use std::io;
use std::sync::Arc;

/// The header of a record, in bytes.
const RECORD_HEADER: usize = 5;
/// The most plain bytes in one record.
const RECORD_PLAIN: usize = 16 * 1024;
/// More than a record adds to what is in it.
const RECORD_OVERHEAD: usize = 64;

/// See the module. Bytes go in by [`TlsConnection::received`] and come out by [`TlsConnection::advance`].
pub(crate) struct TlsConnection {
    tls: Arc<Tls>,
    state: UnbufferedServerConnection,
    /// What was received and not opened yet: less than a record while it waits for more.
    pub(super) received: ReceiveBuffer,
    /// What is to be sent before anything else.
    pending: Vec<u8>,
    is_open: bool,
    /// All whole records that were received were looked at. What is left may be a message of the handshake
    /// that goes on in the next record: `rustls` knows how much of it there is, and wants to be shown it.
    is_waiting: bool,
    /// Nothing is sent any more but what tells why.
    is_broken: bool,
}

/// What a connection needs next.
#[derive(Debug)]
pub(super) enum Step {
    /// These bytes are to be sent, then it goes on.
    Send(Vec<u8>),
    /// So many plain bytes were appended to the buffer that was given.
    Received(usize),
    /// More bytes are to be received first.
    Receive,
    /// The client has said that it sends nothing more.
    Closed,
}

/// A handshake or a record that is not in order. What is to be sent tells the client why.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) error: io::Error,
    pub(super) alert: Vec<u8>,
}

fn invalid(error: &Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {error}"))
}

impl TlsConnection {
    pub(super) fn new(tls: &Arc<Tls>, received: ReceiveBuffer) -> io::Result<Self> {
        let state =
            UnbufferedServerConnection::new(tls.config.load_full()).map_err(|error| invalid(&error))?;
        Ok(Self {
            tls: Arc::clone(tls),
            state,
            received,
            pending: Vec::new(),
            is_open: false,
            is_waiting: false,
            is_broken: false,
        })
    }

    /// Whether the handshake is not over: what comes next may compute for long.
    pub(super) const fn is_handshaking(&self) -> bool {
        !self.is_open
    }

    /// What the handshake has shown; `None`: it is not over.
    pub(super) fn facts(&self) -> Option<TlsFacts> {
        self.is_open.then(|| TlsFacts {
            version: match self.state.protocol_version() {
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
                other => unreachable!("a handshake ended with {other:?}, which is not offered"),
            },
            client_certificate: self
                .state
                .peer_certificates()
                .and_then(|chain| chain.first())
                .map(|certificate| certificate.to_vec()),
        })
    }

    /// Goes on with what was received. Plain bytes are appended to `plain`.
    pub(super) fn advance(&mut self, plain: &mut ReceiveBuffer) -> Result<Step, Broken> {
        self.is_waiting = false;
        loop {
            let UnbufferedStatus { mut discard, state } =
                self.state.process_tls_records(self.received.filled_mut());
            let step = match state {
                Err(error) => Err(error),
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    let mut count = 0;
                    let mut failed = None;
                    while let Some(record) = traffic.next_record() {
                        match record {
                            Ok(record) => {
                                discard += record.discard;
                                count += record.payload.len();
                                plain.extend(record.payload);
                            }
                            Err(error) => failed = Some(error),
                        }
                    }
                    match failed {
                        None if count == 0 => Ok(None),
                        None => Ok(Some(Step::Received(count))),
                        Some(error) => Err(error),
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    append(&mut self.pending, |room| data.encode(room));
                    Ok(None)
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    let pending = std::mem::take(&mut self.pending);
                    Ok((!pending.is_empty()).then_some(Step::Send(pending)))
                }
                Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => {
                    Ok(Some(Step::Receive))
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Ok(Some(Step::Closed)),
                Ok(other) => unreachable!("early data are not offered: {other:?}"),
            };
            self.received.consume(discard);
            if self.received.filled().is_empty() {
                self.received.release();
            }
            if !self.is_open && !self.state.is_handshaking() {
                self.is_open = true;
                self.tls.count_handshake(self.state.protocol_version());
            }
            match step {
                Ok(None) => {}
                Ok(Some(step)) => {
                    if matches!(step, Step::Receive) {
                        self.is_waiting = true;
                        self.want_record();
                    }
                    return Ok(step);
                }
                Err(error) => return Err(self.broken(&error)),
            }
        }
    }

    /// Room for the whole record that has begun to come.
    fn want_record(&mut self) {
        let wanted = match self.received.filled() {
            &[_, _, _, high, low, ..] => RECORD_HEADER + usize::from(u16::from_be_bytes([high, low])),
            _ => RECORD_HEADER,
        };
        self.received.want(wanted);
    }

    fn broken(&mut self, error: &Error) -> Broken {
        if !self.is_open {
            self.tls.counters.failed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        self.is_broken = true;
        let mut alert = std::mem::take(&mut self.pending);
        // Once: what is left would be found to be wrong again.
        if let UnbufferedStatus { state: Ok(ConnectionState::EncodeTlsData(mut data)), .. } =
            self.state.process_tls_records(self.received.filled_mut())
        {
            append(&mut alert, |room| data.encode(room));
        }
        Broken { error: invalid(error), alert }
    }

    /// The bytes that carry these.
    ///
    /// # Errors
    /// The connection is closed for sending.
    pub(super) fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let size = plain.len() + (plain.len() / RECORD_PLAIN + 1) * RECORD_OVERHEAD;
        self.with_traffic(out, |traffic, out| {
            let begin = out.len();
            out.resize(begin + size, 0);
            let room = out.get_mut(begin..).expect("it was made");
            match traffic.encrypt(plain, room) {
                Ok(count) => out.truncate(begin + count),
                Err(EncryptError::InsufficientSize(size)) => {
                    unreachable!("{} bytes need room for {}", plain.len(), size.required_size)
                }
                Err(error @ EncryptError::EncryptExhausted) => return Err(io::Error::other(error)),
            }
            Ok(())
        })
    }

    /// The bytes that tell the client that nothing more comes.
    ///
    /// # Errors
    /// The connection is closed for sending, or was never open.
    pub(super) fn seal_end(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.with_traffic(out, |traffic, out| {
            let begin = out.len();
            out.resize(begin + 2 * RECORD_OVERHEAD, 0);
            let room = out.get_mut(begin..).expect("it was made");
            let count = traffic.queue_close_notify(room).map_err(io::Error::other)?;
            out.truncate(begin + count);
            Ok(())
        })
    }

    /// What is to be sent before plain bytes is appended first.
    fn with_traffic(
        &mut self,
        out: &mut Vec<u8>,
        act: impl FnOnce(
            &mut WriteTraffic<'_, rustls::server::ServerConnectionData>,
            &mut Vec<u8>,
        ) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.is_broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        out.append(&mut self.pending);
        loop {
            // Records that were not looked at would have to be read first.
            let looked_at = if self.is_waiting { self.received.filled_mut() } else { &mut [] };
            match self.state.process_tls_records(looked_at).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => return act(&mut traffic, out),
                Ok(ConnectionState::EncodeTlsData(mut data)) => append(out, |room| data.encode(room)),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                // Told once; sending goes on.
                Ok(ConnectionState::PeerClosed) => {}
                Ok(_) => return Err(io::ErrorKind::BrokenPipe.into()),
                Err(error) => return Err(invalid(&error)),
            }
        }
    }
}

/// Appends what `encode` writes into room that is large enough.
fn append(out: &mut Vec<u8>, mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>) {
    let begin = out.len();
    let count = match encode(&mut []) {
        Ok(count) => count,
        Err(EncodeError::InsufficientSize(size)) => {
            out.resize(begin + size.required_size, 0);
            let room = out.get_mut(begin..).expect("it was made");
            encode(room).expect("there is as much room as was asked for")
        }
        Err(EncodeError::AlreadyEncoded) => unreachable!("each piece is encoded once"),
    };
    out.truncate(begin + count);
}
