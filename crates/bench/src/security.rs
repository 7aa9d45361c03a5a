//! How servers are spoken to: in clear or by TLS, as nobody or as a user, as a connection string says it.
//!
//! Source: driver specifications "URI options" and "Authentication".

use crate::error::BenchError;
use access::{LoginIdentity, Mechanism, UserName};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `authMechanism` of who logs in by the certificate that TLS shows.
pub(crate) const BY_CERTIFICATE: &str = "MONGODB-X509";

/// What a connection string says of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SecurityOptions {
    pub(crate) login: Option<LoginOptions>,
    pub(crate) tls: Option<TlsRequest>,
    /// What the servers at these addresses are called in their certificates.
    pub(crate) names: Vec<(SocketAddr, String)>,
}

/// Who logs in.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoginOptions {
    pub(crate) user: String,
    pub(crate) password: String,
    /// The database that has the user.
    pub(crate) source: String,
    /// By its name; none: what the server offers.
    pub(crate) mechanism: Option<String>,
}

impl fmt::Debug for LoginOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.user, self.source)
    }
}

/// How TLS is spoken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TlsRequest {
    /// `tlsCAFile`.
    pub(crate) authorities: Option<PathBuf>,
    /// `tlsCertificateKeyFile`.
    pub(crate) certificate_key: Option<PathBuf>,
    /// `tlsAllowInvalidCertificates`.
    pub(crate) any_certificate: bool,
    /// `tlsAllowInvalidHostnames`.
    pub(crate) any_hostname: bool,
}

/// The same, ready to be used. Copies share what they have computed.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerAccess {
    pub(crate) identity: Option<LoginIdentity>,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    names: Vec<(SocketAddr, String)>,
}

/// A server and how it is spoken to.
#[derive(Debug, Clone)]
pub(crate) struct ServerPlace {
    pub(crate) address: SocketAddr,
    pub(crate) access: ServerAccess,
}

impl From<SocketAddr> for ServerPlace {
    fn from(address: SocketAddr) -> Self {
        ServerPlace { address, access: ServerAccess::default() }
    }
}

impl SecurityOptions {
    /// # Errors
    /// [`BenchError::Usage`] for files that cannot be used, or what this program does not know.
    pub(crate) fn access(&self) -> Result<ServerAccess, BenchError> {
        let identity = self.login.as_ref().map(LoginOptions::identity).transpose()?;
        let tls = self.tls.as_ref().map(TlsRequest::config).transpose()?.map(Arc::new);
        Ok(ServerAccess { identity, tls, names: self.names.clone() })
    }
}

impl LoginOptions {
    fn identity(&self) -> Result<LoginIdentity, BenchError> {
        let mechanism = match self.mechanism.as_deref() {
            None => None,
            Some(BY_CERTIFICATE) => {
                return Ok(LoginIdentity::of_certificate(Some(&*self.user).filter(|user| !user.is_empty())));
            }
            Some(name) => Some(Mechanism::by_name(name).ok_or_else(|| {
                BenchError::Usage(format!("authMechanism={name}: expected SCRAM-SHA-1 or SCRAM-SHA-256"))
            })?),
        };
        Ok(LoginIdentity::of_user(UserName::new(&*self.user, &*self.source), &self.password, mechanism))
    }
}

impl ServerAccess {
    /// What the server at this address is called in its certificate.
    pub(crate) fn name_of(&self, address: SocketAddr) -> ServerName<'static> {
        let named = self.names.iter().find(|(known, _)| *known == address);
        named
            .and_then(|(_, name)| ServerName::try_from(name.clone()).ok())
            .unwrap_or_else(|| ServerName::IpAddress(address.ip().into()))
    }

    pub(crate) fn at(&self, address: SocketAddr) -> ServerPlace {
        ServerPlace { address, access: self.clone() }
    }
}

fn unusable(path: &Path, problem: impl fmt::Display) -> BenchError {
    BenchError::Usage(format!("cannot use {}: {problem}", path.display()))
}

impl TlsRequest {
    /// # Errors
    /// [`BenchError::Usage`].
    pub(crate) fn config(&self) -> Result<ClientConfig, BenchError> {
        let provider = Arc::new(ring::default_provider());
        let usage = |error: &dyn fmt::Display| BenchError::Usage(format!("TLS: {error}"));
        let verifier = self.verifier(&provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| usage(&error))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &self.certificate_key {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let key = PrivateKeyDer::from_pem_file(path).map_err(|error| unusable(path, error))?;
                let chain = certificates(path)?;
                builder.with_client_auth_cert(chain, key).map_err(|error| unusable(path, error))?
            }
        };
        // Each connection of a load is another client's.
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, BenchError> {
        if self.any_certificate {
            return Ok(Arc::new(LenientVerifier { known: None, provider: Arc::clone(provider) }));
        }
        let Some(path) = &self.authorities else {
            let problem = "tlsCAFile is needed: the authorities of this system are not looked for";
            return Err(BenchError::Usage(problem.to_owned()));
        };
        let mut roots = RootCertStore::empty();
        for authority in certificates(path)? {
            roots.add(authority).map_err(|error| unusable(path, error))?;
        }
        let known = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let known = known.build().map_err(|error| unusable(path, error))?;
        match self.any_hostname {
            false => Ok(known),
            true => Ok(Arc::new(LenientVerifier { known: Some(known), provider: Arc::clone(provider) })),
        }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, BenchError> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match found.map_err(|error| unusable(path, error))? {
        none if none.is_empty() => Err(unusable(path, "it holds no certificate")),
        found => Ok(found),
    }
}

/// Takes certificates with another name than the host's, or all where nobody is known who vouches for them:
/// as the connection string asks for it.
#[derive(Debug)]
struct LenientVerifier {
    known: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for LenientVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(known) = &self.known else { return Ok(ServerCertVerified::assertion()) };
        match known.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is looked at last.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
