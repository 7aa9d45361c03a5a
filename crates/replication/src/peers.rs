//! The way to the other members: the network, or that of a simulation.

use document::DocumentBuf;
use std::fmt::Debug;
use std::future::{Future, ready};
use std::pin::Pin;
use std::time::Duration;

/// Sends to other members, by their `host:port`.
pub trait Peers: Debug + Send + Sync {
    /// Sends an envelope with messages of Raft. Never blocks; what cannot be delivered is dropped. An
    /// envelope is a command: no longer than [`wire::MAX_COMMAND_SIZE`].
    fn send(&self, host: &str, envelope: DocumentBuf);

    /// Asks a command, which is sent at once, whether the answer is awaited or not; an answer that is dropped
    /// takes back a command that was not sent yet. The answer comes within the limit, and is also `Ok` where
    /// the other member says that the command failed.
    fn ask(&self, host: &str, command: DocumentBuf, limit: Duration) -> Answer;

    /// Lets time pass between questions, for who has a thread of his own: that one sleeps.
    fn pause(&self, time: Duration) -> Delay {
        std::thread::sleep(time);
        Box::pin(ready(()))
    }
}

/// Resolves when the time has passed.
pub type Delay = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What another member answers.
pub type Answer = Pin<Box<dyn Future<Output = Result<DocumentBuf, PeerError>> + Send>>;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// No connection, or one that ended.
    #[error("Error connecting to {host} :: caused by :: {reason}")]
    Unreachable {
        /// Whom it was to reach.
        host: String,
        /// What the system says.
        reason: String,
    },
    /// Nothing came within the time limit.
    #[error("Couldn't get an answer from {host} within the time limit")]
    TimedOut {
        /// Who did not answer.
        host: String,
    },
    /// What came is no answer.
    #[error("expected a reply of the MongoDB protocol from {host}: {reason}")]
    Garbled {
        /// Who sent it.
        host: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It does not take us for who we are, or does not show that it is one of ours.
    #[error("Authentication with {host} failed: {reason}")]
    NotLoggedIn {
        /// Who refuses, or is refused.
        host: String,
        /// Why.
        reason: String,
    },
    /// More questions wait for this member than can be.
    #[error("too many questions wait for {host}")]
    Busy {
        /// Who does not keep up.
        host: String,
    },
    /// This member stops.
    #[error("this member stops")]
    Stopped,
}

impl PeerError {
    /// MongoDB's number for it.
    pub fn code(&self) -> wire::ErrorCode {
        match self {
            PeerError::Unreachable { .. } => wire::ErrorCode::HostUnreachable,
            PeerError::TimedOut { .. } | PeerError::Busy { .. } => wire::ErrorCode::NetworkTimeout,
            PeerError::Garbled { .. } => wire::ErrorCode::ProtocolError,
            PeerError::NotLoggedIn { .. } => wire::ErrorCode::AuthenticationFailed,
            PeerError::Stopped => wire::ErrorCode::ShutdownInProgress,
        }
    }
}
