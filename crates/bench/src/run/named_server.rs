//! One server that a connection string names, for who speaks to it in another way than this crate.

use crate::error::BenchError;
use crate::run::connection_string::ConnectionString;
use access::LoginIdentity;
use rustls::ClientConfig;

/// A server, and how it is spoken to.
#[derive(Debug, Clone)]
pub struct NamedServer {
    /// `host:port`.
    pub host: String,
    /// Who logs in there; `None`: nobody.
    pub identity: Option<LoginIdentity>,
    /// How TLS is spoken; `None`: not at all.
    pub tls: Option<ClientConfig>,
}

impl NamedServer {
    /// Reads a connection string. What it says of databases, concerns and pools counts for nothing here.
    ///
    /// # Errors
    /// [`BenchError::Usage`]: it is none, names several servers, or files that cannot be used.
    pub fn parse(text: &str) -> Result<Self, BenchError> {
        let found = ConnectionString::parse(text)?;
        let [host] = found.hosts.as_slice() else {
            let problem = "connection string: one server is expected, not several".to_owned();
            return Err(BenchError::Usage(problem));
        };
        let tls = found.security.tls.as_ref().map(|request| request.config()).transpose()?;
        let identity = found.security.access()?.identity;
        Ok(NamedServer { host: host.to_string(), identity, tls })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_is_named() {
        let host = |text: &str| NamedServer::parse(text).map(|server| server.host).ok();
        assert_eq!(host("mongodb://a:1").as_deref(), Some("a:1"));
        assert_eq!(host("mongodb://a").as_deref(), Some("a:27017"));
        assert_eq!(host("mongodb://me:p@a:1/?directConnection=true&w=1").as_deref(), Some("a:1"));
        assert_eq!(host("mongodb://a,b"), None);
        assert_eq!(host("a:1"), None);
        let error = NamedServer::parse("mongodb://a/?tls=true").expect_err("whom to trust?").to_string();
        assert!(error.contains("tlsCAFile is needed"), "{error}");
    }
}
