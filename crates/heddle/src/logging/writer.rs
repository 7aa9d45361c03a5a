//! The thread that writes lines. Whoever logs never waits for it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// Lines that wait at most.
const QUEUE_LINES: usize = 16 * 1024;
/// How long a flush or a rotation waits for the writer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between attempts to get a message into a full queue.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// Where lines go.
#[derive(Debug, Clone)]
pub(crate) enum LogTarget {
    StandardOutput,
    File { path: PathBuf, append: bool },
}

enum Message {
    Line(Arc<str>),
    Flush(SyncSender<()>),
    Rotate(SyncSender<Result<(), String>>),
}

/// The queue in front of the thread.
#[derive(Debug)]
pub(super) struct Writer {
    queue: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl Writer {
    /// Opens the target and starts the thread.
    pub(super) fn start(target: LogTarget) -> io::Result<Self> {
        let sink = Sink::open(target)?;
        let (queue, messages) = sync_channel(QUEUE_LINES);
        let dropped = Arc::new(AtomicU64::new(0));
        std::thread::Builder::new()
            .name("log".into())
            .stack_size(256 << 10)
            .spawn(move || run(sink, &messages))?;
        Ok(Writer { queue, dropped })
    }

    /// Queues a line, or drops and counts it when the queue is full.
    pub(super) fn send(&self, line: Arc<str>) {
        if self.queue.try_send(Message::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lines dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits a bounded time until everything queued is written.
    pub(super) fn flush(&self) {
        let (answer, answered) = sync_channel(1);
        if self.insist(Message::Flush(answer)) {
            let _ = answered.recv_timeout(ANSWER_TIMEOUT);
        }
    }

    /// Moves the file aside and begins a new one.
    pub(super) fn rotate(&self) -> Result<(), String> {
        let (answer, answered) = sync_channel(1);
        let timed_out = || "the log writer does not answer".to_owned();
        if !self.insist(Message::Rotate(answer)) {
            return Err(timed_out());
        }
        answered.recv_timeout(ANSWER_TIMEOUT).unwrap_or_else(|_| Err(timed_out()))
    }

    /// Queues a message that must not be dropped, waiting a bounded time.
    fn insist(&self, mut message: Message) -> bool {
        let until = Instant::now() + ANSWER_TIMEOUT;
        loop {
            match self.queue.try_send(message) {
                Ok(()) => return true,
                Err(TrySendError::Full(back)) if Instant::now() < until => message = back,
                Err(_) => return false,
            }
            std::thread::sleep(RETRY_PAUSE);
        }
    }
}

/// Writes until the last sender is gone.
fn run(mut sink: Sink, messages: &Receiver<Message>) {
    while let Ok(message) = messages.recv() {
        let mut next = Some(message);
        // What waits is written at once, then pushed out.
        while let Some(message) = next {
            sink.take(message);
            next = messages.try_recv().ok();
        }
        sink.flush();
    }
}

/// The open target.
struct Sink {
    target: LogTarget,
    output: io::BufWriter<Box<dyn Write + Send>>,
}

impl Sink {
    fn open(target: LogTarget) -> io::Result<Self> {
        let output: Box<dyn Write + Send> = match &target {
            LogTarget::StandardOutput => Box::new(io::stdout()),
            LogTarget::File { path, append } => {
                if !append && path.exists() {
                    std::fs::rename(path, aside(path))?;
                }
                Box::new(open_file(path)?)
            }
        };
        Ok(Sink { target, output: io::BufWriter::new(output) })
    }

    /// A log that cannot be written has nobody to tell: lines are lost, the server goes on.
    fn take(&mut self, message: Message) {
        match message {
            Message::Line(line) => {
                let _ = self.output.write_all(line.as_bytes());
            }
            Message::Flush(answer) => {
                self.flush();
                let _ = answer.try_send(());
            }
            Message::Rotate(answer) => {
                self.flush();
                let _ = answer.try_send(self.rotate());
            }
        }
    }

    fn flush(&mut self) {
        let _ = self.output.flush();
    }

    fn rotate(&mut self) -> Result<(), String> {
        let LogTarget::File { path, .. } = &self.target else { return Ok(()) };
        let failed = |error: io::Error| format!("cannot rotate the log file {}: {error}", path.display());
        std::fs::rename(path, aside(path)).map_err(failed)?;
        self.output = io::BufWriter::new(Box::new(open_file(path).map_err(failed)?));
        Ok(())
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot open the log file {}: {error}", path.display()))
    })
}

/// `heddle.log.2026-01-31T10-00-00.000`.
pub(crate) fn aside(path: &Path) -> PathBuf {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let text = dispatch::utc_text(i64::try_from(since.as_millis()).unwrap_or(0));
    let stamp = text.trim_end_matches("+00:00").replace(':', "-");
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(stamp);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_reach_the_file_and_rotation_moves_it() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("server.log");
        let writer =
            Writer::start(LogTarget::File { path: path.clone(), append: true }).expect("the file opens");
        writer.send("one\n".into());
        writer.rotate().expect("rotated");
        writer.send("two\n".into());
        writer.flush();
        assert_eq!(std::fs::read_to_string(&path).expect("the new file"), "two\n");
        let files = std::fs::read_dir(directory.path()).expect("listed").count();
        assert_eq!(files, 2, "the old file is kept");
        assert_eq!(writer.dropped(), 0);
    }
}
