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
    /// `ask` is for the password of a user who is named without one.
    ///
    /// # Errors
    /// [`BenchError::Usage`]: it is none, names several servers, or files that cannot be used; nobody tells
    /// the password.
    pub fn parse(text: &str, ask: impl FnOnce(&str) -> Result<String, String>) -> Result<Self, BenchError> {
        let found = ConnectionString::parse_or_ask(text, ask)?;
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
        let parse = |text: &str| NamedServer::parse(text, |_| Err("nobody tells".to_owned()));
        let host = |text: &str| parse(text).map(|server| server.host).ok();
        assert_eq!(host("mongodb://a:1").as_deref(), Some("a:1"));
        assert_eq!(host("mongodb://a").as_deref(), Some("a:27017"));
        assert_eq!(host("mongodb://me:p@a:1/?directConnection=true&w=1").as_deref(), Some("a:1"));
        assert_eq!(host("mongodb://a,b"), None);
        assert_eq!(host("a:1"), None);
        let error = parse("mongodb://a/?tls=true").expect_err("whom to trust?").to_string();
        assert!(error.contains("tlsCAFile is needed"), "{error}");
    }

    #[test]
    fn a_password_is_asked_for_where_there_is_none() {
        let asked = |text: &str| {
            let mut user = None;
            let ask = |name: &str| {
                user = Some(name.to_owned());
                Ok("p@:/".to_owned())
            };
            let is_read = NamedServer::parse(text, ask).is_ok_and(|server| server.identity.is_some());
            (user, is_read)
        };
        assert_eq!(asked("mongodb://m%40e@a:1"), (Some("m@e".to_owned()), true));
        assert_eq!(asked("mongodb://me:p@a:1"), (None, true));
        assert_eq!(asked("mongodb://me:@a:1"), (None, true), "it is empty");
        assert_eq!(asked("mongodb://a:1"), (None, false), "nobody logs in");
        assert_eq!(asked("mongodb://@a:1"), (None, false), "there is no name");
    }
}
