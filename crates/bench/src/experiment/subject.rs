//! What is compared: Heddle under each thread model, bare echoes, and servers that run already; and how it is
//! started.

use super::arguments::Settings;
use super::load::Load;
use crate::chart::{self, Colour};
use crate::error::BenchError;
use crate::run::{LoadMode, load};
use crate::security::SecurityOptions;
use crate::server_process::{ChildServer, Launch};
use crate::target::Target;
use crate::workload::Documents;
use clap::ValueEnum;
use serde::Deserialize;
use std::net::SocketAddr;
use tempfile::TempDir;

/// The arguments of a member of a set: data are to be larger than its cache and memtables together, and reads
/// may be held.
const OF_A_SET: &[&str] =
    &["--replSet=heddle", "--cacheSizeMB=32", "--memtableSizeMB=16", "--setParameter=enableTestCommands=1"];

/// Connections that load documents.
const LOADERS: usize = 4;

/// A row's subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
    /// A replica set whose secondaries show whole batches and never wait for one.
    PublishedViews,
    /// A replica set whose secondary holds reads during each batch, as MongoDB did until 3.6.
    HeldReads,
    /// A server whose engine keeps the settings that it comes with and stalls writes itself.
    EngineDefaults,
    /// A server that runs already.
    #[value(skip)]
    #[serde(skip)]
    Given(GivenServer),
}

/// A server that somebody else has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GivenServer {
    /// Kept for as long as the program runs, so that a subject can be copied.
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    /// Whether TLS is spoken, and who logs in; kept likewise.
    pub(crate) security: &'static SecurityOptions,
    /// Its place on the command line, from 0.
    pub(crate) number: usize,
}

impl Subject {
    /// The name on the command line and in tables, the arguments that make Heddle or an echo this subject,
    /// and the colour of its line in charts: readable on white and on black.
    fn known(self) -> (&'static str, &'static [&'static str], Colour) {
        match self {
            Subject::Synchronous => {
                ("synchronous", &["--serviceExecutor", "synchronous"], (0xbf, 0x87, 0x00))
            }
            Subject::Adaptive => ("adaptive", &["--serviceExecutor", "adaptive"], (0x2f, 0x81, 0xf7)),
            Subject::AdaptiveOneQueue => {
                const ONE: &str = "adaptiveServiceExecutorQueues=1";
                let arguments = &["--serviceExecutor", "adaptive", "--setParameter", ONE];
                ("adaptive-one-queue", arguments, (0x76, 0xa9, 0xe8))
            }
            Subject::Reactor => ("reactor", &["--serviceExecutor", "reactor"], (0xa3, 0x71, 0xf7)),
            Subject::Coroutine => ("coroutine", &["--serviceExecutor", "coroutine"], (0x2d, 0xa4, 0x4e)),
            Subject::Auto => ("auto", &["--serviceExecutor", "auto"], (0xe5, 0x53, 0x4b)),
            Subject::EpollEcho => ("epoll-echo", &["--kind", "epoll"], (0x80, 0x80, 0x80)),
            Subject::ThreadEcho => ("thread-echo", &["--kind", "thread"], (0xa8, 0xa0, 0x90)),
            Subject::PublishedViews => ("published-views", OF_A_SET, (0x2d, 0xa4, 0x4e)),
            Subject::HeldReads => ("held-reads", OF_A_SET, (0xe5, 0x53, 0x4b)),
            Subject::EngineDefaults => ("engine-defaults", &["--engineDefaults"], (0x2f, 0x81, 0xf7)),
            Subject::Given(server) => (server.name, &[], chart::colour(server.number)),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.known().0
    }

    pub(crate) fn colour(self) -> Colour {
        self.known().2
    }

    /// The servers that are given instead of started.
    ///
    /// # Errors
    /// [`BenchError::Usage`] when two have one name, [`BenchError::Unreachable`] when a host has no address.
    pub(crate) fn given(targets: &[Target]) -> Result<Vec<Subject>, BenchError> {
        let mut subjects: Vec<Subject> = Vec::new();
        for (number, target) in targets.iter().enumerate() {
            let name: &'static str = target.label.clone().leak();
            if subjects.iter().any(|subject| subject.name() == name) {
                return Err(BenchError::Usage(format!(
                    "--target names '{name}' twice; give each server a name of its own, as in a=host:port"
                )));
            }
            let (address, security) = target.server()?;
            let security = Box::leak(Box::new(security));
            subjects.push(Subject::Given(GivenServer { name, address, security, number }));
        }
        Ok(subjects)
    }

    const fn is_set(self) -> bool {
        matches!(self, Subject::PublishedViews | Subject::HeldReads)
    }

    /// Whether it is a database and not a bare echo.
    pub(crate) const fn is_database(self) -> bool {
        !matches!(self, Subject::EpollEcho | Subject::ThreadEcho)
    }
}

/// A server, or a bare echo. What was started is ended and removed when dropped.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    /// Whether TLS is spoken to it, and who logs in.
    pub(super) security: SecurityOptions,
    // Before the directory, so that the process has ended when its files go. `None`: somebody else has
    // started it.
    pub(crate) process: Option<ChildServer>,
    /// Of a set.
    pub(super) others: Vec<ChildServer>,
    _directory: Option<TempDir>,
}

impl Served {
    pub(super) fn started(process: ChildServer, directory: Option<TempDir>) -> Self {
        let (address, security, others) = (process.address, SecurityOptions::default(), Vec::new());
        Served { address, security, process: Some(process), others, _directory: directory }
    }

    /// Fails when the server ended while it was measured.
    pub(crate) fn check_alive(&mut self) -> Result<(), BenchError> {
        self.process.iter_mut().chain(&mut self.others).try_for_each(ChildServer::check_alive)
    }
}

impl Settings {
    /// The subject, ready for this load: a database with the documents loaded, or an echo that answers with
    /// replies of the size that the load's have.
    pub(crate) fn serve(&self, subject: Subject, wanted: Load) -> Result<Served, BenchError> {
        if !subject.is_database() {
            return self.serve_echo(subject, self.bytes_of(wanted)?);
        }
        self.serve_loaded(subject, wanted, &[])
    }

    /// A database with documents ten times as large as its cache.
    pub(crate) fn serve_beyond_cache(&self, subject: Subject, wanted: Load) -> Result<Served, BenchError> {
        self.serve_loaded(subject, wanted, &[format!("--cacheSizeMB={}", self.tenth_of_data_mib())])
    }

    /// A tenth of the documents, in MiB.
    pub(crate) fn tenth_of_data_mib(&self) -> u64 {
        (self.stored * self.document_bytes as u64 / 10 / (1 << 20)).max(1)
    }

    fn serve_loaded(&self, subject: Subject, wanted: Load, further: &[String]) -> Result<Served, BenchError> {
        let served = self.serve_empty(subject, further)?;
        let workload = wanted.workload(self.stored, self.document_bytes).build()?;
        let interrupt = &self.rig.interrupt;
        let seed = self.asked.measure.seed;
        let place = served.security.access()?.at(served.address);
        load(&workload, place, LoadMode::Fresh, LOADERS, seed, interrupt, &mut |_| ())?;
        Ok(served)
    }

    /// How long a whole good reply is.
    pub(crate) fn bytes_of(&self, load: Load) -> Result<usize, BenchError> {
        let workload = load.workload(self.stored, self.document_bytes).build()?;
        Ok(load.reply_bytes(self.stored, &Documents::new(&workload, self.asked.measure.seed)))
    }

    /// How long an echo's replies are.
    pub(crate) fn echo_bytes(&self) -> Result<usize, BenchError> {
        self.asked.reply_bytes.map_or_else(|| self.bytes_of(Load::Read), Ok)
    }

    /// A database on a directory of its own, or one that is given, whatever it holds.
    fn serve_empty(&self, subject: Subject, further: &[String]) -> Result<Served, BenchError> {
        if let Subject::Given(server) = subject {
            let GivenServer { address, security, .. } = server;
            let (security, others) = (security.clone(), Vec::new());
            return Ok(Served { address, security, process: None, others, _directory: None });
        }
        let directory = tempfile::Builder::new()
            .prefix("heddle-bench-")
            .tempdir_in(self.data_directory())
            .map_err(BenchError::io("make a directory for a server"))?;
        let (name, arguments, _) = subject.known();
        let start = |data: &str| {
            let path = directory.path().join(data).to_string_lossy().into_owned();
            let words =
                ["serve", "--nounixsocket", "--dbpath", &path].into_iter().chain(arguments.iter().copied());
            let further = further.iter().chain(&self.asked.server).cloned();
            let words = words.map(str::to_owned).chain(further).collect();
            ChildServer::start(&self.rig, Launch::new(&format!("{name} server"), words))
        };
        let first = start("data")?;
        let others = subject.is_set().then(|| Ok::<_, BenchError>([start("second")?, start("third")?]));
        let others = others.transpose()?;
        let served = Served::started(first, Some(directory));
        match others {
            None => Ok(served),
            Some(others) => served.in_a_set(others, subject == Subject::HeldReads, &self.rig.interrupt),
        }
    }

    /// The transport alone under a thread model, or a bare echo.
    pub(crate) fn serve_echo(&self, subject: Subject, reply_bytes: usize) -> Result<Served, BenchError> {
        Ok(Served::started(ChildServer::start(&self.rig, self.echo_launch(subject, reply_bytes))?, None))
    }

    /// How an echo is started.
    pub(crate) fn echo_launch(&self, subject: Subject, reply_bytes: usize) -> Launch {
        let (name, arguments, _) = subject.known();
        let (program, further): (&[&str], &[String]) = if subject.is_database() {
            (&["echo-server", "--nounixsocket"], &self.asked.server)
        } else {
            (&["bench", "echo"], &[])
        };
        let mut words: Vec<String> = program.iter().chain(arguments).map(|&word| word.to_owned()).collect();
        words.extend(["--reply-bytes".to_owned(), reply_bytes.to_string()]);
        words.extend_from_slice(further);
        Launch::new(&format!("{name} echo"), words)
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
        }
    }

    #[test]
    fn every_target_is_a_subject_of_its_own() {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("a target")).collect();
        let two: Vec<Target> = parse(&["127.0.0.1:1", "adaptive=127.0.0.1:2"]);
        let found = Subject::given(&two).expect("two subjects");
        let names: Vec<&str> = found.iter().map(|subject| subject.name()).collect();
        assert_eq!(names, ["127.0.0.1:1", "adaptive"]);
        let address = SocketAddr::from(([127, 0, 0, 1], 2));
        let security: &'static SecurityOptions = Box::leak(Box::default());
        let expect = GivenServer { name: "adaptive", address, security, number: 1 };
        assert_eq!(found[1], Subject::Given(expect));
        let twice: Vec<Target> = parse(&["a=127.0.0.1:1", "a=127.0.0.1:2"]);
        let error = Subject::given(&twice).expect_err("two of one name").to_string();
        assert!(error.contains("--target names 'a' twice"), "{error}");
    }
}
