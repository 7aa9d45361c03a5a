//! TLS whose records come in whatever pieces: each boundary by itself, and at random.

use crate::support::{ask, command, connect, options, start};
use document::doc;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion, version};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use transport::{Server, ServerOptions, ServiceExecutor, Tls, TlsFiles, TlsMode};

const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sockets/tls.pem");
/// Between two pieces, so that the server mostly reads them one by one.
const PAUSE: Duration = Duration::from_micros(300);
/// Random runs under each thread model.
const RUNS: u64 = 30;

/// Where what a client sends is cut, and how much of what it receives it takes at a time.
enum Cuts {
    /// Nowhere.
    None,
    /// Before this byte of all that is sent.
    At(usize),
    /// Into pieces of so many bytes at most.
    Random(fastrand::Rng, usize),
}

/// A socket that cuts.
struct Pieces {
    socket: TcpStream,
    cuts: Cuts,
    sent: usize,
}

impl Pieces {
    /// The length of the next piece of so many bytes.
    fn next(&mut self, length: usize) -> usize {
        match &mut self.cuts {
            Cuts::At(place) if (self.sent + 1..self.sent + length).contains(place) => *place - self.sent,
            Cuts::None | Cuts::At(_) => length,
            Cuts::Random(random, most) => random.usize(1..=*most).min(length),
        }
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = self.next(rest.len());
            self.socket.write_all(&rest[..length])?;
            self.sent += length;
            rest = &rest[length..];
            if !rest.is_empty() {
                thread::sleep(PAUSE);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Pieces {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let most = match &mut self.cuts {
            Cuts::Random(random, most) => random.usize(1..=*most).min(room.len()),
            _ => room.len(),
        };
        self.socket.read(&mut room[..most])
    }
}

fn client(
    server: &Server,
    version: &'static SupportedProtocolVersion,
    cuts: Cuts,
) -> StreamOwned<ClientConnection, Pieces> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(CERTIFICATE).expect("a certificate")).expect("a root");
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
    let config = builder.expect("a version").with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
    StreamOwned::new(connection, Pieces { socket: connect(server), cuts, sent: 0 })
}

fn start_secured(executor: ServiceExecutor) -> Server {
    let files = TlsFiles {
        certificate_key: CERTIFICATE.into(),
        member_certificate_key: None,
        authorities: None,
        revoked: None,
        without_certificates: true,
        tls_1_2: true,
        tls_1_3: true,
    };
    let tls = Some(Arc::new(Tls::open(TlsMode::Require, files).expect("TLS")));
    start(ServerOptions { tls, ..options(executor) }).0
}

/// A handshake and two requests, of which the second leaves the lane. Gives the bytes that were sent.
fn talk(server: &Server, version: &'static SupportedProtocolVersion, cuts: Cuts) -> usize {
    let mut stream = client(server, version, cuts);
    ask(&mut stream, &command(doc! { "ping": 1 }, 1));
    ask(&mut stream, &command(doc! { "echo": 1 }, 2));
    stream.sock.sent
}

fn every_boundary_is_one_where_records_may_be_cut(executor: ServiceExecutor) {
    let server = start_secured(executor);
    let mut handshakes = 0;
    for version in [&version::TLS13, &version::TLS12] {
        let length = talk(&server, version, Cuts::None);
        for place in 1..length {
            talk(&server, version, Cuts::At(place));
        }
        handshakes += length as u64;
    }
    let figures = server.statistics().tls;
    assert_eq!((figures.tls_1_2 + figures.tls_1_3, figures.failed), (handshakes, 0), "{figures:?}");
}

fn what_is_cut_at_random_arrives_whole(executor: ServiceExecutor) {
    let server = start_secured(executor);
    for seed in 0..RUNS {
        let mut random = fastrand::Rng::with_seed(seed);
        let most = 1 << random.u32(3..15);
        let version = random.choice([&version::TLS13, &version::TLS12]).expect("one of two");
        let mut stream = client(&server, version, Cuts::Random(random.fork(), most));
        for id in 1..=5 {
            // Records have 16 KiB at most: some requests are several of them. Small pieces, little data.
            let bytes = random.usize(0..most * 40);
            let text = "y".repeat(bytes);
            let asked = doc! { "echo": (text.as_str()), "fill": (bytes as i64) };
            let reply = ask(&mut stream, &command(asked, id));
            let filled = reply.get("filled").and_then(document::Value::as_str).map(str::len);
            assert_eq!(filled, Some(bytes), "seed {seed}, request {id} of {bytes} bytes in {most} at most");
        }
    }
    let figures = server.statistics().tls;
    assert_eq!((figures.tls_1_2 + figures.tls_1_3, figures.failed), (RUNS, 0), "{figures:?}");
}

for_each_executor! {
    every_boundary_is_one_where_records_may_be_cut
    what_is_cut_at_random_arrives_whole
}
