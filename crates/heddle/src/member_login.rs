//! By what the members of a set know each other: `security.keyFile` and `security.clusterAuthMode`.

use crate::key_file::{self, KeyFileError};
use access::{CertificateName, LoginIdentity, certificate_name};
use dispatch::host::MemberProof;
use dispatch::parameters::{Parameter, Parameters};
use transport::{Tls, TlsError};

/// What this member shows others, and believes of them.
#[derive(Debug, Default)]
pub(crate) struct MemberLogin {
    /// Who logs in at other members; `None`: nobody.
    pub(crate) identity: Option<LoginIdentity>,
    /// By what others are known; `None`: whoever reaches this server is believed, or it is no member.
    pub(crate) proof: Option<MemberProof>,
    /// Those are believed, too, that take no login of ours.
    pub(crate) is_optional: bool,
}

/// Why members cannot know each other.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MemberLoginError {
    #[error(transparent)]
    Key(#[from] KeyFileError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(
        "the certificate of net.tls.clusterFile (or certificateKeyFile) has no organisation, unit or domain \
        component, by which members could know each other"
    )]
    NoDomain,
}

impl MemberLogin {
    /// Reads what the options name. That they go together was checked before.
    ///
    /// # Errors
    /// A key or a certificate that cannot be used.
    pub(crate) fn read(parameters: &Parameters, tls: Option<&Tls>) -> Result<Self, MemberLoginError> {
        let mode = parameters.text(Parameter::ClusterAuthMode);
        let keys = key_file::read(&parameters.text(Parameter::KeyFile))?;
        let certificate = match tls {
            Some(tls) if mode != "keyFile" => Some(own_name(tls)?),
            _ => None,
        };
        let by_key = keys.as_ref().map(LoginIdentity::of_member);
        let subject = certificate.as_ref().map(|own| own.subject.as_str());
        let by_certificate = subject.map(|subject| LoginIdentity::of_certificate(Some(subject)));
        let identity = match mode.as_str() {
            "sendX509" | "x509" => by_certificate,
            _ => by_key,
        };
        let keys = keys.filter(|_| mode != "x509");
        let is_known = keys.is_some() || certificate.is_some();
        let proof = is_known.then_some(MemberProof { keys, certificate });
        let is_optional = parameters.is_on(Parameter::TransitionToAuth);
        Ok(MemberLogin { identity, proof, is_optional })
    }
}

fn own_name(tls: &Tls) -> Result<CertificateName, MemberLoginError> {
    let name = certificate_name(&tls.member_certificate()?);
    name.filter(|name| !name.domain.is_empty()).ok_or(MemberLoginError::NoDomain)
}
