//! What is compared: Heddle under each thread model, bare echoes, and servers that are given.

use crate::article::target::GivenServer;
use crate::chart;
use clap::ValueEnum;

/// A row's subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Subject {
    /// A thread per connection.
    Synchronous,
    /// Elastic workers over task queues.
    Adaptive,
    /// The same with one queue.
    AdaptiveOneQueue,
    /// An event loop per core and a worker pool.
    Reactor,
    /// A ring per core.
    Coroutine,
    /// Whichever model the server picks.
    Auto,
    /// A bare echo on one epoll.
    EpollEcho,
    /// A bare echo with a thread per connection.
    ThreadEcho,
    /// A server that runs already.
    #[value(skip)]
    Given(GivenServer),
}

impl Subject {
    /// Every thread model.
    pub(crate) const MODELS: [Subject; 5] =
        [Subject::Synchronous, Subject::Adaptive, Subject::Reactor, Subject::Coroutine, Subject::Auto];

    /// The name on the command line and in tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Subject::Synchronous => "synchronous",
            Subject::Adaptive => "adaptive",
            Subject::AdaptiveOneQueue => "adaptive-one-queue",
            Subject::Reactor => "reactor",
            Subject::Coroutine => "coroutine",
            Subject::Auto => "auto",
            Subject::EpollEcho => "epoll-echo",
            Subject::ThreadEcho => "thread-echo",
            Subject::Given(server) => server.name,
        }
    }

    /// The arguments that make Heddle this subject; `None` for what is not Heddle started anew.
    pub(crate) const fn executor_arguments(self) -> Option<&'static [&'static str]> {
        Some(match self {
            Subject::Synchronous => &["--serviceExecutor", "synchronous"],
            Subject::Adaptive => &["--serviceExecutor", "adaptive"],
            Subject::AdaptiveOneQueue => {
                &["--serviceExecutor", "adaptive", "--setParameter", "adaptiveServiceExecutorQueues=1"]
            }
            Subject::Reactor => &["--serviceExecutor", "reactor"],
            Subject::Coroutine => &["--serviceExecutor", "coroutine"],
            Subject::Auto => &["--serviceExecutor", "auto"],
            Subject::EpollEcho | Subject::ThreadEcho | Subject::Given(_) => return None,
        })
    }

    /// The value of `--kind` of `bench echo`.
    pub(crate) const fn echo_kind(self) -> Option<&'static str> {
        match self {
            Subject::EpollEcho => Some("epoll"),
            Subject::ThreadEcho => Some("thread"),
            _ => None,
        }
    }

    /// Whether it is a database and not a bare echo.
    pub(crate) const fn is_database(self) -> bool {
        self.echo_kind().is_none()
    }

    /// Red, green and blue of its line in charts: readable on white and on black.
    pub(crate) fn colour(self) -> (u8, u8, u8) {
        match self {
            Subject::Synchronous => (0xbf, 0x87, 0x00),
            Subject::Adaptive => (0x2f, 0x81, 0xf7),
            Subject::AdaptiveOneQueue => (0x76, 0xa9, 0xe8),
            Subject::Reactor => (0xa3, 0x71, 0xf7),
            Subject::Coroutine => (0x2d, 0xa4, 0x4e),
            Subject::Auto => (0xe5, 0x53, 0x4b),
            Subject::EpollEcho => (0x80, 0x80, 0x80),
            Subject::ThreadEcho => (0xa8, 0xa0, 0x90),
            Subject::Given(server) => chart::colour(server.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for subject in Subject::value_variants() {
            let value = subject.to_possible_value().expect("none is hidden");
            assert_eq!(value.get_name(), subject.name());
            assert_eq!(subject.executor_arguments().is_some(), subject.is_database(), "{subject:?}");
        }
    }
}
