//! What the server needs of its surroundings: `heddle` implements these, tests use [`Detached`].

use crate::audit::AuditLog;
use access::{CertificateName, MemberKeys};
use document::Document;
use query::memory::MemoryPool;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The transport's side of one connection.
pub trait ClientLink: Send + Sync + std::fmt::Debug {
    /// Ends the connection: what runs is answered if it can be, nothing more is read.
    fn close(&self);
    /// Whether the client has closed its side, as far as that is known without reading.
    fn is_gone(&self) -> bool {
        false
    }
    /// Whether the thread that runs the connection's operation now may be blocked. False in event loops.
    fn may_block(&self) -> bool {
        true
    }
    /// Whether the operation is where it may block, but is to be short.
    fn runs_briefly(&self) -> bool {
        false
    }
    /// Ready where the operation may block and compute for long. Otherwise it moves there: the task is woken
    /// on such a thread and asks again. It stays there until its request is answered.
    fn poll_offload(&self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
    /// The same for what may block and is short: threads for that go before those that compute for long.
    fn poll_offload_briefly(&self, context: &mut Context<'_>) -> Poll<()> {
        self.poll_offload(context)
    }
    /// Ready when the operation may go on with its reply, which has become large. While clients leave too
    /// many replies unread it waits, and the task is woken.
    fn poll_reply_room(&self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
    /// The address that the client connected to; `None` where there is none.
    fn local_address(&self) -> Option<String> {
        None
    }
    /// The connection's later requests are served where clients' work does not hold them up.
    fn give_thread(&self) {}
    /// The certificate by which the client has made itself known.
    fn certificate(&self) -> PeerCertificate {
        PeerCertificate::InClear
    }
    /// How long the operation has waited for such a thread.
    fn offload_wait(&self) -> Duration {
        Duration::ZERO
    }
}

/// What a connection's TLS says of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerCertificate {
    /// TLS is not spoken.
    InClear,
    /// The client has sent none, or one that is made out to nobody.
    Missing,
    /// To whom it is made out. An authority vouches for it.
    Subject(CertificateName),
}

/// By what other members of the set show that they are such.
#[derive(Debug, Clone, Default)]
pub struct MemberProof {
    /// By one of these keys.
    pub keys: Option<MemberKeys>,
    /// By a certificate like this one, this member's own.
    pub certificate: Option<CertificateName>,
}

/// Figures of the transport, for `serverStatus`.
pub trait TransportFigures: Send + Sync + std::fmt::Debug {
    /// The `connections` section.
    fn connections(&self) -> Document;
    /// The `network` section.
    fn network(&self) -> Document;
    /// The `transportSecurity` section.
    fn transport_security(&self) -> Document;
    /// Reads certificates, keys and lists of revoked ones anew.
    ///
    /// # Errors
    /// The sentence to tell the client; what was in force stays.
    fn rotate_certificates(&self) -> Result<(), String>;
}

/// The log, for `getLog`, `logRotate` and `setParameter`.
pub trait LogControl: Send + Sync + std::fmt::Debug {
    /// All lines ever written and the newest ones kept in memory (`global`).
    fn recent_lines(&self) -> (u64, Vec<String>);
    /// Warnings of the start (`startupWarnings`).
    fn startup_warnings(&self) -> Vec<String>;
    /// Sets the verbosity (0 to 5; −1 inherits) of a component such as `network`; the empty name is the
    /// default one.
    ///
    /// # Errors
    /// The sentence to tell the client when there is no such component.
    fn set_verbosity(&self, component: &str, level: i32) -> Result<(), String>;
    /// Every component with its verbosity, parents before children: `("storage.journal", -1)`. The empty name
    /// is the default.
    fn verbosities(&self) -> Vec<(String, i32)>;
    /// Begins a new log file.
    ///
    /// # Errors
    /// The sentence to tell the client.
    fn rotate(&self) -> Result<(), String>;
    /// How many lines were dropped because the writer could not keep up.
    fn dropped_lines(&self) -> u64;
}

/// Where the lines of the audit log go. A line that cannot be written ends the process: there is no error to
/// pass over.
pub trait AuditSink: Send + Sync + std::fmt::Debug {
    /// Writes a line, which has no end yet, and returns when the system has it. May block.
    fn write(&self, line: &str);
    /// Takes a line that is written soon, where nobody can wait for it.
    fn queue(&self, line: &str);
    /// Moves the file aside, begins a new one and gives the path of the old one; `None` for what is no file.
    /// May block.
    ///
    /// # Errors
    /// The sentence to tell; the old file goes on.
    fn rotate(&self) -> Result<Option<String>, String>;
}

/// The process around the server.
pub trait ProcessControl: Send + Sync + std::fmt::Debug {
    /// Begins the orderly shutdown and returns at once; running operations get `timeout_secs` to finish.
    fn shut_down(&self, timeout_secs: u64);
}

/// Who holds how much of the process's memory, for `serverStatus`.
pub trait MemoryFigures: Send + Sync + std::fmt::Debug {
    /// The section `heddle.memory`; empty where nobody keeps account.
    fn memory(&self) -> Document;
}

/// The machine's size, for `hostInfo`.
#[derive(Debug, Clone, Copy, Default)]
pub struct MachineFacts {
    /// The machine's memory in bytes.
    pub memory_bytes: u64,
    /// What the process may use of it in bytes.
    pub memory_limit_bytes: u64,
    /// Processors of the machine.
    pub processors: usize,
    /// As many threads of the process can run at the same time.
    pub usable_processors: usize,
}

/// All of it.
#[derive(Debug)]
pub struct Host {
    /// The transport's figures.
    pub transport: Box<dyn TransportFigures>,
    /// The log.
    pub log: Box<dyn LogControl>,
    /// The audit log, if there is one.
    pub audit: Option<Arc<AuditLog>>,
    /// The process.
    pub process: Box<dyn ProcessControl>,
    /// The command line, for `getCmdLineOpts`.
    pub arguments: Vec<String>,
    /// The options as parsed: `{net: {port: …}, …}`, for `getCmdLineOpts`.
    pub parsed_options: Document,
    /// The machine's size and what the process may use of it.
    pub machine: MachineFacts,
    /// By what other members are known; `None`: by nothing.
    pub members: Option<MemberProof>,
    /// What sorts, groups and joins of all operations may hold together, and whether requests are refused for
    /// want of memory.
    pub memory_pool: Arc<MemoryPool>,
    /// Who holds how much.
    pub memory: Box<dyn MemoryFigures>,
    /// How many bytes the allocator has from the system.
    pub allocator_bytes: fn() -> u64,
    /// Called now and then in long computations, with the time: threads with more urgent work get the
    /// processor.
    pub let_others_run: fn(Instant),
}

/// No surroundings at all: for tests and tools.
#[derive(Debug, Clone, Copy, Default)]
pub struct Detached;

impl ClientLink for Detached {
    fn close(&self) {}
}

impl TransportFigures for Detached {
    fn connections(&self) -> Document {
        Document::new()
    }
    fn network(&self) -> Document {
        Document::new()
    }
    fn transport_security(&self) -> Document {
        Document::new()
    }
    fn rotate_certificates(&self) -> Result<(), String> {
        Err("no transport".to_owned())
    }
}

impl MemoryFigures for Detached {
    fn memory(&self) -> Document {
        Document::new()
    }
}

impl LogControl for Detached {
    fn recent_lines(&self) -> (u64, Vec<String>) {
        (0, Vec::new())
    }
    fn startup_warnings(&self) -> Vec<String> {
        Vec::new()
    }
    fn set_verbosity(&self, _component: &str, _level: i32) -> Result<(), String> {
        Ok(())
    }
    fn verbosities(&self) -> Vec<(String, i32)> {
        Vec::new()
    }
    fn rotate(&self) -> Result<(), String> {
        Ok(())
    }
    fn dropped_lines(&self) -> u64 {
        0
    }
}

impl ProcessControl for Detached {
    fn shut_down(&self, _timeout_secs: u64) {}
}

impl Host {
    /// A server without surroundings.
    pub fn detached() -> Self {
        Host {
            transport: Box::new(Detached),
            log: Box::new(Detached),
            audit: None,
            process: Box::new(Detached),
            arguments: Vec::new(),
            parsed_options: Document::new(),
            machine: MachineFacts::default(),
            members: None,
            memory_pool: Arc::new(MemoryPool::unlimited()),
            memory: Box::new(Detached),
            allocator_bytes: || 0,
            let_others_run: |_| {},
        }
    }
}
