//! `--target`: servers that are given instead of started.

use crate::article::Subject;
use crate::error::BenchError;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// What reports call a server without a name.
const UNNAMED: &str = "given";

/// A server as the command line names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    name: String,
    /// Host and port.
    host: String,
}

/// A server that somebody else has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GivenServer {
    /// Kept for as long as the program runs, so that a subject can be copied.
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    /// Its place on the command line, from 0.
    pub(crate) number: usize,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || Err(format!("expected host:port or name=host:port, found '{text}'"));
        let (name, host) = text.split_once('=').unwrap_or((UNNAMED, text));
        let Some((before, port)) = host.rsplit_once(':') else { return expected() };
        let has_port = port.parse::<u16>().is_ok_and(|port| port > 0);
        if name.is_empty() || before.is_empty() || before.contains('/') || !has_port {
            return expected();
        }
        Ok(Target { name: name.to_owned(), host: host.to_owned() })
    }
}

/// The subjects that these targets are.
///
/// # Errors
/// [`BenchError::Usage`] when two have one name, [`BenchError::Unreachable`] when a host has no address.
pub(crate) fn subjects(targets: &[Target]) -> Result<Vec<Subject>, BenchError> {
    let mut subjects: Vec<Subject> = Vec::new();
    for (number, Target { name, host }) in targets.iter().enumerate() {
        if subjects.iter().any(|subject| subject.name() == name) {
            return Err(BenchError::Usage(format!(
                "--target names '{name}' twice; give each server a name of its own, as in a={host}"
            )));
        }
        let unreachable = |problem: String| BenchError::Unreachable { problem };
        let mut addresses =
            host.to_socket_addrs().map_err(|error| unreachable(format!("{host}: {error}")))?;
        let address = addresses.next().ok_or_else(|| unreachable(format!("{host} has no address")))?;
        subjects.push(Subject::Given(GivenServer { name: name.clone().leak(), address, number }));
    }
    Ok(subjects)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<(&str, &str), ()>) {
        let found = text.parse::<Target>();
        let parts = found.as_ref().map(|target| (target.name.as_str(), target.host.as_str()));
        let parts = parts.map_err(|error| assert!(error.contains("name=host:port"), "{error}"));
        assert_eq!(parts, expect, "for '{text}'");
    }

    #[test]
    fn targets_are_hosts_with_or_without_names() {
        check("127.0.0.1:27017", Ok(("given", "127.0.0.1:27017")));
        check("ours=localhost:1", Ok(("ours", "localhost:1")));
        check("[::1]:27017", Ok(("given", "[::1]:27017")));
        for wrong in ["localhost", "=a:1", "a:0", "a:65536", ":27017", "mongodb://a:27017", "b=mongodb://a:1"]
        {
            check(wrong, Err(()));
        }
    }

    #[test]
    fn every_target_is_a_subject_of_its_own() {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("a target")).collect();
        let two: Vec<Target> = parse(&["127.0.0.1:1", "adaptive=127.0.0.1:2"]);
        let found = subjects(&two).expect("two subjects");
        assert_eq!(found.iter().map(|subject| subject.name()).collect::<Vec<_>>(), ["given", "adaptive"]);
        let address = SocketAddr::from(([127, 0, 0, 1], 2));
        assert_eq!(found[1], Subject::Given(GivenServer { name: "adaptive", address, number: 1 }));
        let twice: Vec<Target> = parse(&["127.0.0.1:1", "127.0.0.1:2"]);
        let error = subjects(&twice).expect_err("two of one name").to_string();
        assert!(error.contains("--target names 'given' twice"), "{error}");
    }
}
