//! What can go wrong while measuring.

use std::io;
use thiserror::Error;

/// A measurement that could not be made.
#[derive(Debug, Error)]
pub enum BenchError {
    /// A system call failed.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The server under test or the echo did not come up.
    #[error("the {name} did not accept connections on {address} within {seconds} s")]
    NotUp {
        /// Which server.
        name: String,
        /// Where it was expected.
        address: String,
        /// How long was waited.
        seconds: u64,
    },
    /// The server ended while it was being measured.
    #[error("the {name} ended early: {status}")]
    Died {
        /// Which server.
        name: String,
        /// Its exit status.
        status: String,
    },
    /// A reply that is not a message of the protocol.
    #[error("the server sent {found}, expected {expected}")]
    Protocol {
        /// What a reply has there.
        expected: &'static str,
        /// What came.
        found: String,
    },
    /// No server that the load could go to.
    #[error("cannot reach the target: {problem}")]
    Unreachable {
        /// Which host, and what was in the way.
        problem: String,
    },
    /// The server did not take who logs in, or did not show that it knows the password.
    #[error("login failed: {problem}")]
    NotLoggedIn {
        /// What the server says, or what is wrong with it.
        problem: String,
    },
    /// The server refused to load the data.
    #[error("loading documents failed: {reply}")]
    Load {
        /// The server's reply.
        reply: String,
    },
    /// A file of results could not be written.
    #[error("cannot write {path}: {problem}")]
    Output {
        /// Which file.
        path: String,
        /// What was in the way.
        problem: String,
    },
    /// A program that the measurement needs did not do its part.
    #[error("{program}: {problem}")]
    Program {
        /// Which program.
        program: &'static str,
        /// What was wrong and what to do.
        problem: String,
    },
    /// Ctrl-C.
    #[error("interrupted; what was measured until then is above")]
    Interrupted,
    /// The command line asks for something impossible.
    #[error("{0}")]
    Usage(String),
}

impl BenchError {
    /// The exit status of a program that ends with this error: 2 for a command line that asks for something
    /// impossible, 130 after Ctrl-C as shells count it, 1 for everything else.
    pub const fn exit_status(&self) -> u8 {
        match self {
            BenchError::Usage(_) => 2,
            BenchError::Interrupted => 130,
            _ => 1,
        }
    }

    /// For `map_err`: names the action that failed.
    pub(crate) fn io(action: &'static str) -> impl Fn(io::Error) -> BenchError {
        move |source| BenchError::Io { action, source }
    }
}
