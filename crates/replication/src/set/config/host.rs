//! Where a member listens: `host:port`.

use crate::set::SetError;
use wire::ErrorCode;

/// The port that is meant where none is told.
const DEFAULT_PORT: u16 = 27_017;

/// A host with its port told, and an address of version 6 in brackets: equal members have equal hosts.
///
/// # Errors
/// An empty host, or no port behind the colon.
pub fn normal_host(text: &str) -> Result<String, SetError> {
    let text = text.trim();
    let failed = |message: String| Err(SetError::new(ErrorCode::FailedToParse, message));
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => {
                return failed(format!("Missing ']' in IPv6 address parsing HostAndPort from \"{text}\""));
            }
        },
        // More than one colon: an address of version 6 without a port.
        None => match text.split_once(':') {
            Some((_, rest)) if rest.contains(':') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return failed(format!("Empty host component parsing HostAndPort from \"{text}\""));
    }
    let port = match port.map(str::parse::<u16>) {
        None => DEFAULT_PORT,
        Some(Ok(port)) if port > 0 => port,
        Some(_) => return failed(format!("Port number out of range parsing HostAndPort from \"{text}\"")),
    };
    Ok(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

/// Whether a [`normal_host`] is reached on its own machine only.
pub(super) fn is_local(host: &str) -> bool {
    host.starts_with("localhost:") || host.starts_with("127.") || host.starts_with("[::1]:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_one_form() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(normal_host(text).ok().as_deref(), expected, "{text}");
        };
        check("db1", Some("db1:27017"));
        check(" db1:27018 ", Some("db1:27018"));
        check("::1", Some("[::1]:27017"));
        check("[::1]:7", Some("[::1]:7"));
        for text in ["", ":27017", "a:", "a:b", "a:0", "a:65536", "[::1"] {
            check(text, None);
        }
        assert!(is_local("127.0.0.1:27017") && is_local("[::1]:1") && !is_local("localhosts:1"));
    }
}
