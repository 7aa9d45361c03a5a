//! The log: structured JSON lines in MongoDB's shape, written by a thread of their own.
//!
//! ```text
//!   tracing event ─▶ JsonLayer ─▶ one line ─┬─▶ ring of the newest lines (getLog)
//!                    (verbosity by          └─▶ bounded queue ─▶ writer thread ─▶ stdout or file
//!                     component)                (full: the line is dropped and counted)
//! ```
//!
//! Source: MongoDB manual, "Log Messages".

mod layer;
mod line;
mod verbosity;
mod writer;

pub(crate) use verbosity::is_component;
pub(crate) use writer::{LogTarget, aside};

use dispatch::host::LogControl;
use layer::JsonLayer;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tracing_subscriber::layer::SubscriberExt;
use verbosity::Verbosity;
use writer::Writer;

/// How many lines `getLog` can give.
const RING_LINES: usize = 1024;

/// The log of the process.
#[derive(Debug)]
pub(crate) struct Log {
    verbosity: Verbosity,
    writer: Writer,
    recent: Mutex<Recent>,
    lines: AtomicU64,
    started: AtomicBool,
    redacts: AtomicBool,
}

#[derive(Debug, Default)]
struct Recent {
    ring: VecDeque<Arc<str>>,
    startup_warnings: Vec<Arc<str>>,
}

impl Log {
    /// Opens the target and takes every event of the process from now on.
    ///
    /// # Errors
    /// When the file cannot be opened or the system gives no thread.
    pub(crate) fn start(target: LogTarget) -> std::io::Result<Arc<Self>> {
        let log = Arc::new(Log {
            verbosity: Verbosity::default(),
            writer: Writer::start(target)?,
            recent: Mutex::default(),
            lines: AtomicU64::new(0),
            started: AtomicBool::new(false),
            redacts: AtomicBool::new(false),
        });
        let subscriber = tracing_subscriber::registry().with(JsonLayer::new(Arc::clone(&log)));
        if tracing::subscriber::set_global_default(subscriber).is_err() {
            return Err(std::io::Error::other("the log is set up already"));
        }
        Ok(log)
    }

    /// Sets the verbosity of a component; the empty name is the default. False when there is no such
    /// component.
    pub(crate) fn set_level(&self, component: &str, level: i32) -> bool {
        let known = self.verbosity.set(component, level);
        tracing::callsite::rebuild_interest_cache();
        known
    }

    /// Whether values of clients are left out of the lines (`redactClientLogData`).
    fn redacts(&self) -> bool {
        self.redacts.load(Ordering::Relaxed)
    }

    /// Leaves values of clients out of later lines, or puts them in.
    pub(crate) fn set_redaction(&self, redacts: bool) {
        self.redacts.store(redacts, Ordering::Relaxed);
    }

    /// The start is over: warnings from now on are no startup warnings.
    pub(crate) fn started(&self) {
        self.started.store(true, Ordering::Relaxed);
    }

    /// Takes a finished line.
    fn write(&self, line: String, is_warning: bool) {
        let line: Arc<str> = line.into();
        self.lines.fetch_add(1, Ordering::Relaxed);
        let mut recent = self.recent.lock();
        if recent.ring.len() == RING_LINES {
            recent.ring.pop_front();
        }
        recent.ring.push_back(Arc::clone(&line));
        if is_warning && !self.started.load(Ordering::Relaxed) {
            recent.startup_warnings.push(Arc::clone(&line));
        }
        drop(recent);
        self.writer.send(line);
    }

    /// Waits a bounded time until everything is written.
    pub(crate) fn flush(&self) {
        self.writer.flush();
    }

    /// Moves the file aside and begins a new one.
    ///
    /// # Errors
    /// When the log is no file or the writer does not answer.
    pub(crate) fn rotate_file(&self) -> Result<(), String> {
        self.writer.rotate()
    }
}

/// What the commands see of the log.
#[derive(Debug)]
pub(crate) struct LogHandle(pub(crate) Arc<Log>);

impl LogControl for LogHandle {
    fn recent_lines(&self) -> (u64, Vec<String>) {
        let recent = self.0.recent.lock();
        let lines = recent.ring.iter().map(|line| line.trim_end().to_owned()).collect();
        (self.0.lines.load(Ordering::Relaxed), lines)
    }

    fn startup_warnings(&self) -> Vec<String> {
        self.0.recent.lock().startup_warnings.iter().map(|line| line.trim_end().to_owned()).collect()
    }

    fn set_verbosity(&self, component: &str, level: i32) -> Result<(), String> {
        match self.0.set_level(component, level) {
            true => Ok(()),
            false => Err(format!("unknown log component '{component}'")),
        }
    }

    fn verbosities(&self) -> Vec<(String, i32)> {
        self.0.verbosity.all()
    }

    fn rotate(&self) -> Result<(), String> {
        self.0.rotate_file()
    }

    fn dropped_lines(&self) -> u64 {
        self.0.writer.dropped()
    }
}
