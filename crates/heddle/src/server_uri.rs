//! What subcommands that ask a running server have in common.

use crate::password_prompt::ask_for_password;
use bench::{BenchError, NamedServer};
use clap::Arg;
use replication::network::{MemberTls, NetworkOptions, TcpPeers};
use std::io;

/// The option that names the server.
pub(crate) const URI: &str = "uri";

/// That option.
pub(crate) fn uri_argument() -> Arg {
    Arg::new(URI).long(URI).value_name("URI").default_value("mongodb://127.0.0.1:27017").help(
        "The server: mongodb://[USER[:PASSWORD]@]HOST:PORT[/?tls=true&tlsCAFile=FILE&…], as drivers have it. \
        A password that is left out is asked for",
    )
}

/// The server of a connection string.
#[derive(Debug)]
pub(crate) struct ServerUri {
    /// `host:port`.
    pub(crate) host: String,
    options: NetworkOptions,
}

impl ServerUri {
    /// # Errors
    /// It names no single server, or files that cannot be used; there is no terminal to ask for a password.
    pub(crate) fn parse(uri: &str) -> Result<Self, BenchError> {
        let ask = |user: &str| {
            ask_for_password(&format!("Password of {user}: "))
                .map_err(|error| format!("{user} has no password, and it cannot be asked for: {error}"))
        };
        let NamedServer { host, identity, tls } = NamedServer::parse(uri, ask)?;
        let options =
            NetworkOptions { tls: tls.map(MemberTls::new), login: identity, ..NetworkOptions::default() };
        Ok(ServerUri { host, options })
    }

    /// The way there.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn peers(&self) -> io::Result<TcpPeers> {
        TcpPeers::start(self.options.clone())
    }
}
