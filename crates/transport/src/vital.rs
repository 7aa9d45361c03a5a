//! Threads that the process cannot do without: event loops, listeners, the sweeper, those that start others.
//!
//! When one of them panics, what it stands for would go on as if nothing had happened: connections that
//! nobody polls, a port that nobody accepts on. So the process ends, and what supervises it starts it again;
//! acknowledged writes are in the journal.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What the log's thread gets to write down where it was.
const FOR_THE_LOG: Duration = Duration::from_millis(200);

/// Starts such a thread.
///
/// # Errors
/// The system has no thread left.
pub(crate) fn spawn(
    name: impl Into<String>,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.into()).spawn(|| {
        if catch_unwind(AssertUnwindSafe(body)).is_err() {
            let thread = thread::current().name().unwrap_or("?").to_owned();
            tracing::error!(target: "network", thread, "a thread that the server needs has panicked: the \
                process ends");
            thread::sleep(FOR_THE_LOG);
            std::process::abort();
        }
    })
}

/// Waits for its end, which is no panic. For its own end no thread waits: whoever owns a thread may be
/// dropped by a task that it runs.
pub(crate) fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != thread::current().id() {
        let _ = thread.join();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    const DIES: &str = "HEDDLE_TEST_VITAL_THREAD_DIES";

    #[test]
    fn a_panic_ends_the_process() {
        if std::env::var_os(DIES).is_some() {
            let thread = super::spawn("vital", || panic!("made to panic")).expect("a thread");
            super::join(thread);
            return;
        }
        let program = std::env::current_exe().expect("this test's program");
        let ended = Command::new(program)
            .args(["--exact", "vital::tests::a_panic_ends_the_process"])
            .env(DIES, "1")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("it runs");
        assert_eq!(ended.signal(), Some(libc::SIGABRT), "{ended}");
    }
}
