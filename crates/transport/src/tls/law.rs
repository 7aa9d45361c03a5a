//! What holds of a connection whose records come in whatever pieces, one bit of them damaged perhaps: what
//! arrives is what was sent, as far as it goes, and all of it where nothing is damaged. For fuzzers and
//! tests.

use super::connection::{Step, TlsConnection};
use super::{Tls, TlsFiles, TlsMode};
use crate::ReceiveBuffer;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, version};
use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};

const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sockets/tls.pem");
/// More steps than any conversation takes.
const STEPS_MAX: usize = 1_000_000;
const MESSAGES_MAX: usize = 4;

static SERVER: LazyLock<Arc<Tls>> = LazyLock::new(|| {
    let files = TlsFiles {
        certificate_key: CERTIFICATE.into(),
        member_certificate_key: None,
        authorities: None,
        revoked: None,
        without_certificates: true,
        tls_1_2: true,
        tls_1_3: true,
    };
    Arc::new(Tls::open(TlsMode::Require, files).expect("the files are there"))
});

static CLIENTS: LazyLock<[Arc<ClientConfig>; 2]> = LazyLock::new(|| {
    [&version::TLS13, &version::TLS12].map(|version| {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(CERTIFICATE).expect("a certificate")).expect("a root");
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
        Arc::new(builder.expect("a version").with_root_certificates(roots).with_no_client_auth())
    })
});

/// One direction of the wire.
#[derive(Default)]
struct Wire {
    waiting: Vec<u8>,
    carried: usize,
    /// This bit is turned.
    damaged_bit: Option<usize>,
}

impl Wire {
    /// The next piece of so many bytes at most.
    fn carry(&mut self, most: usize) -> Vec<u8> {
        let rest = self.waiting.split_off(most.min(self.waiting.len()));
        let mut piece = std::mem::replace(&mut self.waiting, rest);
        let place = self.damaged_bit.and_then(|bit| (bit / 8).checked_sub(self.carried));
        if let (Some(place), Some(bit)) = (place, self.damaged_bit)
            && let Some(byte) = piece.get_mut(place)
        {
            *byte ^= 1 << (bit % 8);
        }
        self.carried += piece.len();
        piece
    }
}

struct Conversation {
    client: ClientConnection,
    server: TlsConnection,
    to_server: Wire,
    to_client: Wire,
    sent: Vec<u8>,
    server_has: ReceiveBuffer,
    client_has: Vec<u8>,
    /// What the server has sent back.
    echoed: usize,
}

/// Lets a client and a server talk as the choices say, and panics where they do not understand each other.
/// How many bytes arrived.
pub fn check(choices: &[u8]) -> usize {
    let mut choices = choices.iter().copied();
    let mut next = || choices.next().unwrap_or(u8::MAX);
    let kind = next();
    let [tls_13, tls_12] = &*CLIENTS;
    let config = if kind & 1 == 0 { tls_13 } else { tls_12 };
    let name = ServerName::try_from("localhost").expect("a name");
    let mut talk = Conversation {
        client: ClientConnection::new(Arc::clone(config), name).expect("a client"),
        server: TlsConnection::new(&SERVER, ReceiveBuffer::new()).expect("a server"),
        to_server: Wire::default(),
        to_client: Wire::default(),
        sent: Vec::new(),
        server_has: ReceiveBuffer::new(),
        client_has: Vec::new(),
        echoed: 0,
    };
    talk.client.set_buffer_limit(None);
    let is_damaged = kind & 2 != 0;
    if is_damaged {
        let bit = usize::from(next()) << 8 | usize::from(next());
        let wire = if kind & 4 == 0 { &mut talk.to_server } else { &mut talk.to_client };
        wire.damaged_bit = Some(bit);
    }
    let mut lengths: Vec<usize> =
        (0..usize::from(kind >> 4) % (MESSAGES_MAX + 1)).map(|_| usize::from(next()) * 257 + 1).collect();
    for _ in 0..STEPS_MAX {
        let is_idle = talk.client_has.len() == talk.sent.len() && !talk.client.is_handshaking();
        if is_idle {
            let Some(length) = lengths.pop() else { return talk.end(talk.sent.len()) };
            let message: Vec<u8> = (0..length).map(|place| (place % 251) as u8).collect();
            talk.client.writer().write_all(&message).expect("it is kept until it is sent");
            talk.sent.extend(message);
        }
        let (there, back) = (piece_of(next()), piece_of(next()));
        let goes_on = talk.step(there, back);
        let has = talk.server_has.filled();
        assert!(talk.sent.starts_with(has), "the server has other bytes than were sent");
        assert!(talk.sent.starts_with(&talk.client_has), "the client has other bytes than were sent");
        if goes_on.is_none() {
            assert!(is_damaged, "nothing was damaged, and they part");
            return talk.end(talk.client_has.len());
        }
    }
    panic!("they do not come to an end")
}

/// Few bytes, or all there are.
fn piece_of(choice: u8) -> usize {
    if choice < 192 { usize::from(choice) + 1 } else { usize::MAX }
}

impl Conversation {
    /// The server says that nothing more comes, wherever they are. Gives how much arrived.
    fn end(&mut self, arrived: usize) -> usize {
        let _ = self.server.seal_end(&mut self.to_client.waiting);
        arrived
    }

    /// Carries a piece in each direction. `None`: they do not understand each other any more, or wait for
    /// ever, because what came says that more comes.
    fn step(&mut self, there: usize, back: usize) -> Option<()> {
        let wire = &mut self.to_server.waiting;
        while self.client.wants_write() {
            self.client.write_tls(wire).expect("a vector takes everything");
        }
        let is_silent = self.to_server.waiting.is_empty() && self.to_client.waiting.is_empty();
        self.server.received.extend(&self.to_server.carry(there));
        loop {
            match self.server.advance(&mut self.server_has) {
                Ok(Step::Send(bytes)) => self.to_client.waiting.extend(bytes),
                Ok(Step::Received(_)) => {}
                Ok(Step::Receive) => break,
                Ok(Step::Closed) | Err(_) => return None,
            }
        }
        let new = self.server_has.filled().get(self.echoed..).expect("it only grows");
        if !new.is_empty() {
            self.echoed += new.len();
            self.server.seal(new, &mut self.to_client.waiting).ok()?;
        }
        let piece = self.to_client.carry(back);
        let mut rest = &piece[..];
        while !rest.is_empty() {
            self.client.read_tls(&mut rest).ok()?;
            let state = self.client.process_new_packets().ok()?;
            let begin = self.client_has.len();
            self.client_has.resize(begin + state.plaintext_bytes_to_read(), 0);
            let room = self.client_has.get_mut(begin..).expect("it was made");
            self.client.reader().read_exact(room).expect("there is as much as was told");
        }
        let is_stuck = is_silent && self.to_client.waiting.is_empty() && !self.client.wants_write();
        (!is_stuck).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    /// A message of the handshake that is cut, and a record behind it that is none, or an end: `rustls`
    /// counts what it was shown of the first, and panicked where that was not shown again.
    #[test]
    fn a_handshake_in_pieces_that_breaks_off_is_an_error() {
        for kind in [0xf2, 0xf3] {
            for bit in 0..400u16 {
                let [high, low] = bit.to_be_bytes();
                check(&[kind, high, low]);
            }
        }
    }

    #[test]
    fn what_arrives_is_what_was_sent_however_it_is_cut_and_damaged() {
        let (mut whole, mut cut) = (0, 0);
        for seed in 0..300u64 {
            let mut random = fastrand::Rng::with_seed(seed);
            let choices: Vec<u8> = (0..400).map(|_| random.u8(..)).collect();
            match check(&choices) {
                0 => cut += 1,
                _ => whole += 1,
            }
        }
        assert!(whole > 100 && cut > 20, "{whole} arrived, and {cut} did not");
    }
}
