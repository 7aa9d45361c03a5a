//! What subcommands that ask a running server have in common.

use clap::Arg;

/// The option that names the server.
pub(crate) const URI: &str = "uri";
const SCHEME: &str = "mongodb://";
const DEFAULT_PORT: u16 = 27_017;

/// That option.
pub(crate) fn uri_argument() -> Arg {
    Arg::new(URI)
        .long(URI)
        .value_name("URI")
        .default_value("mongodb://127.0.0.1:27017")
        .help("The server: mongodb://HOST:PORT")
}

/// It names no single server.
#[derive(Debug, thiserror::Error)]
#[error("expected mongodb://HOST:PORT, found '{0}'")]
pub(crate) struct ServerUriError(String);

/// `host:port` of a connection string.
pub(crate) fn host_of(uri: &str) -> Result<String, ServerUriError> {
    let refused = || ServerUriError(uri.to_owned());
    let rest = uri.strip_prefix(SCHEME).ok_or_else(refused)?;
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    if host.is_empty() || host.contains([',', '@']) {
        return Err(refused());
    }
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Ok(if has_port { host.to_owned() } else { format!("{host}:{DEFAULT_PORT}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_its_connection_string() {
        for (uri, expect) in [
            ("mongodb://a:1", Some("a:1")),
            ("mongodb://a", Some("a:27017")),
            ("mongodb://a:1/?x=y", Some("a:1")),
            ("mongodb://a,b", None),
            ("a:1", None),
        ] {
            assert_eq!(host_of(uri).ok().as_deref(), expect, "{uri}");
        }
    }
}
