//! Starting what is measured.

use crate::article::{Settings, Subject};
use crate::dataset;
use crate::error::BenchError;
use crate::scenario::Scenario;
use crate::server_process::{ChildServer, Launch};
use std::net::SocketAddr;
use tempfile::TempDir;

/// A server with its documents, or a bare echo. What was started is ended and removed when dropped.
#[derive(Debug)]
pub(crate) struct Served {
    address: SocketAddr,
    // Before the directory, so that the process has ended when its files go.
    process: Option<ChildServer>,
    _directory: Option<TempDir>,
}

impl Served {
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process; `None` for a server that somebody else has started.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(ChildServer::pid)
    }

    /// Fails when the server ended while it was measured.
    pub(crate) fn check_alive(&mut self) -> Result<(), BenchError> {
        self.process.as_mut().map_or(Ok(()), ChildServer::check_alive)
    }

    const fn started(process: ChildServer, directory: Option<TempDir>) -> Self {
        Served { address: process.address, process: Some(process), _directory: directory }
    }
}

impl Settings {
    /// The subject, ready for this scenario: a database with the documents loaded, or an echo that answers with replies of the
    /// size that the scenario's have.
    pub(crate) fn serve(&self, subject: Subject, scenario: Scenario) -> Result<Served, BenchError> {
        if !subject.is_database() {
            return self.serve_echo(subject, scenario.reply_bytes(self.stored, self.document_bytes));
        }
        let served = self.serve_empty(subject)?;
        dataset::load(served.address, self.stored, self.document_bytes, &self.rig.interrupt)?;
        Ok(served)
    }

    /// The subject without documents: a database on a directory of its own, or one that is given, whatever it holds.
    pub(crate) fn serve_empty(&self, subject: Subject) -> Result<Served, BenchError> {
        let executor = match (subject, subject.executor_arguments()) {
            (Subject::Given(server), _) => {
                return Ok(Served { address: server.address, process: None, _directory: None });
            }
            (_, Some(executor)) => executor,
            (_, None) => return Err(BenchError::Usage(format!("{} holds no documents", subject.name()))),
        };
        let directory = tempfile::Builder::new()
            .prefix("heddle-bench-")
            .tempdir_in(&self.data_directory)
            .map_err(BenchError::io("make a directory for a server"))?;
        let path = directory.path().join("data").to_string_lossy().into_owned();
        let mut words = vec!["serve".to_owned(), "--nounixsocket".to_owned(), "--dbpath".to_owned(), path];
        words.extend(executor.iter().map(|&word| word.to_owned()));
        words.extend_from_slice(&self.server_arguments);
        let launch = Launch::new(&format!("{} server", subject.name()), words);
        Ok(Served::started(ChildServer::start(&self.rig, launch)?, Some(directory)))
    }

    /// The transport alone under a thread model, or a bare echo.
    pub(crate) fn serve_echo(&self, subject: Subject, reply_bytes: usize) -> Result<Served, BenchError> {
        let launch = echo_launch(subject, reply_bytes, &self.server_arguments);
        Ok(Served::started(ChildServer::start(&self.rig, launch)?, None))
    }
}

/// How an echo is started.
pub(crate) fn echo_launch(subject: Subject, reply_bytes: usize, further: &[String]) -> Launch {
    let reply_bytes = reply_bytes.to_string();
    let words: Vec<&str> = match (subject.executor_arguments(), subject.echo_kind()) {
        (Some(executor), _) => {
            let fixed = ["echo-server", "--nounixsocket", "--reply-bytes", &reply_bytes];
            fixed
                .into_iter()
                .chain(executor.iter().copied())
                .chain(further.iter().map(String::as_str))
                .collect()
        }
        (None, kind) => {
            vec!["bench", "echo", "--reply-bytes", &reply_bytes, "--kind", kind.unwrap_or("epoll")]
        }
    };
    let words = words.into_iter().map(str::to_owned).collect();
    Launch::new(&format!("{} echo", subject.name()), words)
}
