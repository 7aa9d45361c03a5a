//! TLS by `rustls`: what a server is given, and the [`SecuredStream`] that all thread models use.
//!
//! A connection's first bytes tell whether it speaks TLS. The handshake runs where it may compute, never on
//! an event loop; what comes afterwards is opened and sealed where the connection is. A connection that waits
//! holds the state of its session and no buffer.

mod connection;
#[cfg(any(test, fuzzing))]
pub mod law;
mod stream;

pub(crate) use stream::{Secured, SecuredStream};

use arc_swap::ArcSwap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, pem};
use rustls::server::{ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::{ClientConfig, ProtocolVersion, RootCertStore, ServerConfig, SupportedProtocolVersion, version};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;

/// Sessions of TLS 1.2 that can be resumed; those of 1.3 are held by their clients, in tickets.
const RESUMABLE_SESSIONS: usize = 4096;

/// Who may speak in clear: `net.tls.mode`, without `disabled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// Clients may do either.
    Allow,
    /// The same for clients; members of a set speak TLS to each other where they can.
    Prefer,
    /// Connections in clear are closed, but for those on a Unix socket.
    Require,
}

/// The files of [`Tls`], all in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's certificate, those between it and its authority, and its private key:
    /// `net.tls.certificateKeyFile`.
    pub certificate_key: PathBuf,
    /// The same for what is shown to other members of a set: `net.tls.clusterFile`. `None`: that one.
    pub member_certificate_key: Option<PathBuf>,
    /// Authorities of clients' certificates: `net.tls.CAFile`. `None`: clients are not asked for one.
    pub authorities: Option<PathBuf>,
    /// Certificates that are revoked: `net.tls.CRLFile`.
    pub revoked: Option<PathBuf>,
    /// Whether a client without a certificate is let in where [`TlsFiles::authorities`] is given:
    /// `net.tls.allowConnectionsWithoutCertificates`.
    pub without_certificates: bool,
    /// Whether TLS 1.2 is spoken as well as 1.3: `net.tls.disabledProtocols`.
    pub tls_1_2: bool,
    /// The same for TLS 1.3.
    pub tls_1_3: bool,
}

impl TlsFiles {
    fn shown_to_members(&self) -> &Path {
        self.member_certificate_key.as_ref().unwrap_or(&self.certificate_key)
    }
}

/// Why TLS cannot be spoken with these files.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read, or holds no PEM.
    #[error("cannot read {what} from {}: {error}", path.display())]
    File {
        /// What was to be in it.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What was wrong.
        error: pem::Error,
    },
    /// A file that holds nothing of the kind.
    #[error("{} holds no {what}", path.display())]
    Missing {
        /// What was to be in it.
        what: &'static str,
        /// Where.
        path: PathBuf,
    },
    /// The private key is encrypted.
    #[error("the private key in {} is encrypted; give one that is not, in a file that its owner alone may \
        read", path.display())]
    EncryptedKey {
        /// Where.
        path: PathBuf,
    },
    /// Certificate and key do not fit, or cannot be used.
    #[error("cannot use {}: {error}", path.display())]
    Unusable {
        /// Where.
        path: PathBuf,
        /// What was wrong.
        error: String,
    },
    /// Nobody to trust among the members.
    #[error("net.tls.CAFile is needed for a member of a replica set that speaks TLS to the others")]
    NoAuthorities,
    /// Every version is switched off.
    #[error("net.tls.disabledProtocols leaves no version of TLS")]
    NoVersion,
}

/// How a server speaks TLS. The files can be read anew while it runs.
#[derive(Debug)]
pub struct Tls {
    mode: TlsMode,
    files: TlsFiles,
    config: ArcSwap<ServerConfig>,
    counters: TlsCounters,
}

/// Handshakes by version.
#[derive(Debug, Default)]
struct TlsCounters {
    tls_1_2: AtomicU64,
    tls_1_3: AtomicU64,
    failed: AtomicU64,
    timed_out: AtomicU64,
    refused: AtomicU64,
}

/// `serverStatus().transportSecurity` and what belongs to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsStatistics {
    /// Handshakes that ended with TLS 1.2.
    pub tls_1_2: u64,
    /// Handshakes that ended with TLS 1.3.
    pub tls_1_3: u64,
    /// Handshakes that failed.
    pub failed: u64,
    /// Handshakes that took too long.
    pub timed_out: u64,
    /// Connections in clear that were closed.
    pub refused: u64,
}

/// What a connection's handshake has shown.
#[derive(Debug, Clone)]
pub struct TlsFacts {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The client's certificate in DER, which an authority of [`TlsFiles::authorities`] vouches for. `None`:
    /// it sent none.
    pub client_certificate: Option<Vec<u8>>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn open(mode: TlsMode, files: TlsFiles) -> Result<Self, TlsError> {
        let config = ArcSwap::from_pointee(config(&files)?);
        Ok(Self { mode, files, config, counters: TlsCounters::default() })
    }

    /// Reads the files anew, for connections that come from now on.
    ///
    /// # Errors
    /// [`TlsError`]; what was in force stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.config.store(Arc::new(config(&self.files)?));
        Ok(())
    }

    /// How the server speaks TLS to other members: it trusts [`TlsFiles::authorities`] and shows its
    /// certificate for them. `None`: it speaks to them in clear.
    ///
    /// # Errors
    /// [`TlsError`]; there must be authorities.
    pub fn member_config(&self) -> Result<Option<ClientConfig>, TlsError> {
        if self.mode == TlsMode::Allow {
            return Ok(None);
        }
        let authorities = self.files.authorities.as_ref().ok_or(TlsError::NoAuthorities)?;
        let path = self.files.shown_to_members();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions(&self.files)?)
            .map_err(|error| unusable(path, &error))?;
        let config = builder
            .with_root_certificates(roots(authorities)?)
            .with_client_auth_cert(certificates("a certificate", path)?, private_key(path)?)
            .map_err(|error| unusable(path, &error))?;
        Ok(Some(config))
    }

    /// The certificate that the server shows to other members, in DER.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn member_certificate(&self) -> Result<Vec<u8>, TlsError> {
        let chain = certificates("a certificate", self.files.shown_to_members())?;
        Ok(chain.first().expect("there is one").to_vec())
    }

    /// Who may speak in clear.
    #[must_use]
    pub const fn mode(&self) -> TlsMode {
        self.mode
    }

    /// Figures of all connections so far.
    #[must_use]
    pub fn statistics(&self) -> TlsStatistics {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TlsStatistics {
            tls_1_2: count(&self.counters.tls_1_2),
            tls_1_3: count(&self.counters.tls_1_3),
            failed: count(&self.counters.failed),
            timed_out: count(&self.counters.timed_out),
            refused: count(&self.counters.refused),
        }
    }

    pub(crate) fn count_timed_out(&self, handshakes: u64) {
        self.counters.timed_out.fetch_add(handshakes, Ordering::Relaxed);
    }

    fn count_handshake(&self, version: Option<ProtocolVersion>) {
        let counter = match version {
            Some(ProtocolVersion::TLSv1_2) => &self.counters.tls_1_2,
            Some(ProtocolVersion::TLSv1_3) => &self.counters.tls_1_3,
            _ => unreachable!("a handshake ended with {version:?}, which is not offered"),
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn unusable(path: &Path, error: &dyn ToString) -> TlsError {
    TlsError::Unusable { path: path.into(), error: error.to_string() }
}

fn versions(files: &TlsFiles) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    let all = [(files.tls_1_3, &version::TLS13), (files.tls_1_2, &version::TLS12)];
    let chosen: Vec<_> = all.into_iter().filter_map(|(is_on, version)| is_on.then_some(version)).collect();
    if chosen.is_empty() { Err(TlsError::NoVersion) } else { Ok(chosen) }
}

fn roots(authorities: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("an authority's certificate", authorities)? {
        roots.add(certificate).map_err(|error| unusable(authorities, &error))?;
    }
    Ok(roots)
}

fn config(files: &TlsFiles) -> Result<ServerConfig, TlsError> {
    let path = files.certificate_key.as_path();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions(files)?)
        .map_err(|error| unusable(path, &error))?;
    let builder = match &files.authorities {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let roots = Arc::new(roots(authorities)?);
            let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            if let Some(revoked) = &files.revoked {
                verifier = verifier.with_crls(revocations(revoked)?);
            }
            if files.without_certificates {
                verifier = verifier.allow_unauthenticated();
            }
            builder.with_client_cert_verifier(
                verifier
                    .build()
                    .map_err(|error| unusable(files.revoked.as_ref().unwrap_or(authorities), &error))?,
            )
        }
    };
    let chain = certificates("a certificate", path)?;
    let mut config =
        builder.with_single_cert(chain, private_key(path)?).map_err(|error| unusable(path, &error))?;
    config.session_storage = ServerSessionMemoryCache::new(RESUMABLE_SESSIONS);
    config.ticketer = rustls::crypto::ring::Ticketer::new().map_err(|error| unusable(path, &error))?;
    // One is enough for a driver that comes back; each costs a message and memory on both sides.
    config.send_tls13_tickets = 1;
    Ok(config)
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let file = |error| TlsError::File { what, path: path.into(), error };
    let found = CertificateDer::pem_file_iter(path).map_err(file)?.collect::<Result<Vec<_>, _>>();
    let found = found.map_err(file)?;
    match found.is_empty() {
        true => Err(TlsError::Missing { what, path: path.into() }),
        false => Ok(found),
    }
}

fn revocations(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let what = "a list of revoked certificates";
    let file = |error| TlsError::File { what, path: path.into(), error };
    let found = CertificateRevocationListDer::pem_file_iter(path).map_err(file)?;
    let found = found.collect::<Result<Vec<_>, _>>().map_err(file)?;
    match found.is_empty() {
        true => Err(TlsError::Missing { what, path: path.into() }),
        false => Ok(found),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    const ENCRYPTED: [&str; 2] = ["BEGIN ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED"];
    let what = "a private key";
    let text = std::fs::read(path).map_err(|error| TlsError::File {
        what,
        path: path.into(),
        error: pem::Error::Io(error),
    })?;
    if ENCRYPTED.iter().any(|mark| memchr::memmem::find(&text, mark.as_bytes()).is_some()) {
        return Err(TlsError::EncryptedKey { path: path.into() });
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::Missing { what, path: path.into() },
        error => TlsError::File { what, path: path.into(), error },
    })
}
