//! Logging in by the certificate that a client has shown at the beginning of TLS: `authenticate`, and a
//! speculative `hello`.
//!
//! The user is in `$external` and is called what the certificate is made out to. That the client has the key
//! of the certificate, and that an authority vouches for it, TLS has found out before. Where members of a set
//! know each other by certificates, one with the same organisation, unit and domain as this member's own is
//! that of another member.
//!
//! Source: driver specification "Authentication", "MONGODB-X509"; messages of MongoDB 7.0.

use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult, code};
use crate::fields::Fields;
use crate::host::PeerCertificate;
use crate::login::{Succeeded, failed, succeed};
use crate::node::Node;
use access::{CertificateName, UserName};
use document::DocumentBuilder;
use std::sync::Arc;

/// The mechanism, as clients name it.
pub(crate) const MECHANISM: &str = "MONGODB-X509";
/// The database of users who are known elsewhere.
const EXTERNAL: &str = "$external";

/// What `authenticate` asks for.
#[derive(Debug)]
pub(crate) struct CertificateLogin<'a> {
    /// Whom the client takes itself for, if it says so.
    user: Option<&'a str>,
    database: &'a str,
    is_speculative: bool,
}

impl<'a> CertificateLogin<'a> {
    /// Takes the fields of `authenticate`, in a command of this database or within a `hello`.
    ///
    /// # Errors
    /// `MechanismUnavailable`; fields that cannot be.
    pub(crate) fn take(
        fields: &mut Fields<'a>,
        database: &'a str,
        is_speculative: bool,
    ) -> CommandResult<Self> {
        let mechanism = fields.string("mechanism")?.unwrap_or(MECHANISM);
        let user = fields.string("user")?;
        // Within a hello drivers leave it out.
        let database = if is_speculative { EXTERNAL } else { database };
        let database = fields.string("db")?.unwrap_or(database);
        fields.ignore(&["authenticate"]);
        fields.finish()?;
        if mechanism != MECHANISM {
            let message = format!("unsupported mechanism {mechanism}: use saslStart");
            return Err(CommandError::new(code::MECHANISM_UNAVAILABLE, message));
        }
        Ok(CertificateLogin { user, database, is_speculative })
    }
}

/// Logs in. On a thread that may block.
///
/// # Errors
/// `AuthenticationFailed`, and why, where that tells nothing of the users there are; storage errors.
pub(crate) async fn log_in<N: Node>(
    context: &CommandContext<'_, N>,
    login: &CertificateLogin<'_>,
    reply: &mut DocumentBuilder<'_>,
) -> CommandResult {
    let counters = &context.server.counters.certificate_logins;
    counters.received.add(1);
    if login.is_speculative {
        counters.speculative_received.add(1);
    }
    let certificate = match certificate(context, login) {
        Ok(certificate) => certificate,
        Err(message) => {
            let name = UserName::new(login.user.unwrap_or_default(), login.database);
            failed(context, (MECHANISM, &name), message).await;
            return Err(CommandError::new(code::AUTHENTICATION_FAILED, message));
        }
    };
    let name = UserName::new(&*certificate.subject, EXTERNAL);
    let user = match context.server.access.member_of_certificate(&certificate) {
        Some(member) => Some(Arc::clone(&member.user)),
        None => context.server.node.read_user(&name)?,
    };
    let Some(user) = user.filter(|user| user.may_log_in(context.client.ends())) else {
        return Err(failed(context, (MECHANISM, &name), "no such user, or not between these addresses").await);
    };
    let succeeded = Succeeded { mechanism: MECHANISM, is_speculative: login.is_speculative, counters };
    succeed(context, &user, &succeeded).await?;
    reply.append("dbname", EXTERNAL).append("user", name.user.as_str());
    Ok(())
}

/// Who the client is.
fn certificate<N: Node>(
    context: &CommandContext<'_, N>,
    login: &CertificateLogin<'_>,
) -> Result<CertificateName, &'static str> {
    if login.database != EXTERNAL {
        return Err("X.509 authentication must always use the $external database.");
    }
    match context.client.link.certificate() {
        PeerCertificate::InClear => Err("SSL support is required for the MONGODB-X509 mechanism."),
        PeerCertificate::Missing => Err("No verified subject name available from client"),
        PeerCertificate::Subject(name) if login.user.is_none_or(|user| user == name.subject) => Ok(name),
        PeerCertificate::Subject(_) => Err("There is no x.509 client certificate matching the user."),
    }
}
