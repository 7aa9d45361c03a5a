//! Servers on the command line that run already.

use crate::error::BenchError;
use crate::run::{ConnectionString, resolve};
use crate::security::SecurityOptions;
use std::net::SocketAddr;
use std::str::FromStr;

/// Where load goes, and what reports call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) label: String,
    pub(crate) connection_string: String,
}

impl FromStr for Target {
    type Err = String;

    /// `mongodb://…` or `host:port`, or one of them after `name=`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (label, rest) = match text.split_once('=').filter(|(label, _)| !label.contains("://")) {
            Some(("", _)) => return Err(format!("'{text}' has no name before the '='")),
            Some((label, rest)) => (Some(label), rest),
            None => (None, text),
        };
        let connection_string = match rest {
            full if full.contains("://") => full.to_owned(),
            short if short.contains(':') && !short.contains('/') => format!("mongodb://{short}"),
            _ => {
                return Err(format!(
                    "expected host:port or name=host:port, or a connection string, found '{text}'"
                ));
            }
        };
        let label = label.unwrap_or_else(|| hosts(&connection_string)).to_owned();
        Ok(Target { label, connection_string })
    }
}

impl Target {
    /// The address of the first host, and how it is spoken to.
    ///
    /// # Errors
    /// When it has none; when files that the connection string names cannot be used.
    pub(crate) fn server(&self) -> Result<(SocketAddr, SecurityOptions), BenchError> {
        let ConnectionString { hosts, mut security, .. } = ConnectionString::parse(&self.connection_string)?;
        // What cannot be used is told before anything is measured.
        security.access()?;
        let unreachable = |problem| BenchError::Unreachable { problem: format!("{}: {problem}", self.label) };
        let first = hosts.first().ok_or_else(|| unreachable("no host is named".to_owned()))?;
        let address = resolve(first).map_err(unreachable)?;
        if security.tls.is_some() {
            security.names = vec![(address, first.name.clone())];
        }
        Ok((address, security))
    }
}

/// The part of a connection string that names hosts, without user and password.
fn hosts(connection_string: &str) -> &str {
    let rest = connection_string.split_once("://").map_or(connection_string, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_optional_and_passwords_are_no_part_of_them() {
        let check = |text: &str, label: &str, connection_string: &str| {
            let found: Target = text.parse().expect("a target");
            assert_eq!((found.label.as_str(), found.connection_string.as_str()), (label, connection_string));
        };
        check("ours=mongodb://a/", "ours", "mongodb://a/");
        check("mongodb://b:27017/?w=1", "b:27017", "mongodb://b:27017/?w=1");
        check("mongodb://me:secret@b,c", "b,c", "mongodb://me:secret@b,c");
        check("127.0.0.1:27017", "127.0.0.1:27017", "mongodb://127.0.0.1:27017");
        check("ours=localhost:1", "ours", "mongodb://localhost:1");
        check("[::1]:27017", "[::1]:27017", "mongodb://[::1]:27017");
        for wrong in ["localhost", "=mongodb://a/", "=a:1", "a/b:1"] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
        for wrong in ["a:0", "a:65536", ":27017", "mongodb://127.0.0.1/?tls=true"] {
            assert!(wrong.parse::<Target>().expect("its form is right").server().is_err(), "{wrong}");
        }
        let target: Target = "ours=mongodb://me:secret@127.0.0.1:1/".parse().expect("a target");
        let (address, security) = target.server().expect("a user");
        assert_eq!(address, SocketAddr::from(([127, 0, 0, 1], 1)));
        assert_eq!(
            security.login.map(|login| (login.user, login.source)),
            Some(("me".into(), "admin".into()))
        );
    }
}
