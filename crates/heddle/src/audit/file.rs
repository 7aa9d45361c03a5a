//! The thread that writes the lines of the audit log. Whoever hands one over waits until it is written.

use dispatch::host::AuditSink;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Entries that wait at most for the thread, those of connections that have ended not counted.
const QUEUE_ENTRIES: usize = 1024;

/// Where lines go.
#[derive(Debug, Clone)]
pub(super) enum AuditTarget {
    Console,
    File(PathBuf),
}

#[derive(Debug)]
enum AuditEntry {
    Line(String),
    Rotate,
}

#[derive(Debug, Default)]
struct AuditQueue {
    waiting: VecDeque<AuditEntry>,
    /// Entries that were ever handed over, and that were dealt with.
    taken: u64,
    done: u64,
    /// What became of rotations, by the number of the entry.
    rotated: Vec<(u64, Result<Option<String>, String>)>,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct AuditShared {
    queue: Mutex<AuditQueue>,
    /// There is something to write.
    filled: Condvar,
    /// Something was written.
    emptied: Condvar,
}

/// The queue in front of the thread.
#[derive(Debug)]
pub(super) struct AuditWriter {
    shared: Arc<AuditShared>,
}

impl AuditWriter {
    /// Opens the target and starts the thread. When a line cannot be written it calls `failed`, which is not
    /// to return; where it does, the line and all behind it stay unwritten and who hands them over waits.
    pub(super) fn start(
        target: AuditTarget,
        failed: impl Fn(&str, &io::Error) + Send + 'static,
    ) -> io::Result<Self> {
        let output = AuditOutput::open(target)?;
        let shared = Arc::new(AuditShared::default());
        let own = Arc::clone(&shared);
        std::thread::Builder::new().name("audit".into()).stack_size(256 << 10).spawn(move || {
            write_all(output, &own, failed);
        })?;
        Ok(AuditWriter { shared })
    }

    /// Hands an entry over, and returns its number.
    fn hand_over(&self, entry: AuditEntry, waits: bool) -> u64 {
        let mut queue = self.shared.queue.lock();
        while waits && queue.waiting.len() >= QUEUE_ENTRIES {
            self.shared.emptied.wait(&mut queue);
        }
        queue.waiting.push_back(entry);
        queue.taken += 1;
        self.shared.filled.notify_one();
        queue.taken
    }

    /// Waits until the entry of this number is dealt with.
    fn wait_for(&self, number: u64) {
        let mut queue = self.shared.queue.lock();
        while queue.done < number {
            self.shared.emptied.wait(&mut queue);
        }
    }
}

impl AuditSink for AuditWriter {
    fn write(&self, line: &str) {
        let number = self.hand_over(AuditEntry::Line(format!("{line}\n")), true);
        self.wait_for(number);
    }

    fn queue(&self, line: &str) {
        self.hand_over(AuditEntry::Line(format!("{line}\n")), false);
    }

    fn rotate(&self) -> Result<Option<String>, String> {
        let number = self.hand_over(AuditEntry::Rotate, true);
        self.wait_for(number);
        let mut queue = self.shared.queue.lock();
        let position = queue.rotated.iter().position(|(of, _)| *of == number);
        let position = position.expect("a rotation that is done has a result");
        queue.rotated.swap_remove(position).1
    }
}

impl Drop for AuditWriter {
    fn drop(&mut self) {
        self.shared.queue.lock().is_closed = true;
        self.shared.filled.notify_one();
    }
}

/// Writes until nobody can hand over lines any more.
fn write_all(mut output: AuditOutput, shared: &AuditShared, failed: impl Fn(&str, &io::Error)) {
    loop {
        let (entries, first) = {
            let mut queue = shared.queue.lock();
            while queue.waiting.is_empty() {
                if queue.is_closed {
                    return;
                }
                shared.filled.wait(&mut queue);
            }
            (std::mem::take(&mut queue.waiting), queue.done + 1)
        };
        let count = entries.len() as u64;
        let mut rotated = Vec::new();
        let mut text = String::new();
        for (number, entry) in (first..).zip(entries) {
            match entry {
                AuditEntry::Line(line) => text.push_str(&line),
                AuditEntry::Rotate => {
                    if let Err(error) = output.write(&std::mem::take(&mut text)) {
                        return failed(&output.place(), &error);
                    }
                    rotated.push((number, output.rotate()));
                }
            }
        }
        if let Err(error) = output.write(&text) {
            return failed(&output.place(), &error);
        }
        let mut queue = shared.queue.lock();
        queue.done += count;
        queue.rotated.append(&mut rotated);
        shared.emptied.notify_all();
    }
}

/// The open target.
struct AuditOutput {
    target: AuditTarget,
    file: Option<File>,
}

impl AuditOutput {
    fn open(target: AuditTarget) -> io::Result<Self> {
        let file = match &target {
            AuditTarget::Console => None,
            AuditTarget::File(path) => Some(open_file(path)?),
        };
        Ok(AuditOutput { target, file })
    }

    fn place(&self) -> String {
        match &self.target {
            AuditTarget::Console => "console".to_owned(),
            AuditTarget::File(path) => path.display().to_string(),
        }
    }

    /// Writes whole lines. What was written of lines that do not fit is taken back, so that the file ends
    /// with a whole one.
    fn write(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let Some(file) = &mut self.file else {
            let mut console = io::stdout().lock();
            return console.write_all(text.as_bytes()).and_then(|()| console.flush());
        };
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match file.write(rest) {
                Ok(0) => return Err(whole_lines(file, text, rest, io::ErrorKind::WriteZero.into())),
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(whole_lines(file, text, rest, error)),
            }
        }
        Ok(())
    }

    /// The path of the old file; `None` for what is no file.
    fn rotate(&mut self) -> Result<Option<String>, String> {
        let AuditTarget::File(path) = &self.target else { return Ok(None) };
        let refused = |error: io::Error| format!("cannot rotate the audit log {}: {error}", path.display());
        let mut aside = crate::logging::aside(path);
        while aside.exists() {
            // The names differ by milliseconds, and no file goes over another one.
            std::thread::sleep(Duration::from_millis(1));
            aside = crate::logging::aside(path);
        }
        std::fs::rename(path, &aside).map_err(refused)?;
        match open_file(path) {
            Ok(file) => {
                self.file = Some(file);
                Ok(Some(aside.display().to_string()))
            }
            // The old file is still open, and takes what comes under the name it had.
            Err(error) => {
                let back = std::fs::rename(&aside, path);
                Err(back.map_or_else(refused, |()| refused(error)))
            }
        }
    }
}

/// Cuts the file behind the last whole line of what was written of `text`, of which `rest` was not; gives
/// the error back. Where it cannot be cut, the next start begins on a line of its own.
fn whole_lines(file: &File, text: &str, rest: &[u8], error: io::Error) -> io::Error {
    let written = text.len() - rest.len();
    let whole = text.as_bytes().get(..written).unwrap_or_default();
    let whole = whole.iter().rposition(|byte| *byte == b'\n').map_or(0, |position| position + 1);
    let torn = (written - whole) as u64;
    if let Ok(metadata) = file.metadata() {
        let _ = file.set_len(metadata.len().saturating_sub(torn));
    }
    error
}

/// Opens the file, for its owner alone, to be appended to.
fn open_file(path: &Path) -> io::Result<File> {
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot open the audit log {}: {error}", path.display()))
    };
    let mut options = OpenOptions::new();
    let mut file = options.create(true).append(true).read(true).mode(0o600).open(path).map_err(named)?;
    if !ends_whole(&mut file).map_err(named)? {
        file.write_all(b"\n").map_err(named)?;
    }
    Ok(file)
}

/// Whether a file is empty or ends with a line's end: a machine that stopped may have left half a line.
fn ends_whole(file: &mut File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == [b'\n'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn start(path: &Path) -> AuditWriter {
        let target = AuditTarget::File(path.to_owned());
        AuditWriter::start(target, |place, error| panic!("{place}: {error}")).expect("the file opens")
    }

    #[test]
    fn a_line_is_in_the_file_when_the_call_returns() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("audit.json");
        let writer = Arc::new(start(&path));
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let (writer, path) = (Arc::clone(&writer), path.clone());
                std::thread::spawn(move || {
                    for number in 0..200 {
                        let line = format!("<{thread} {number}>");
                        writer.write(&line);
                        let text = std::fs::read_to_string(&path).expect("the file");
                        assert!(text.lines().any(|found| found == line), "{line} is not there");
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("all lines are there"));
        assert_eq!(std::fs::read_to_string(&path).expect("the file").lines().count(), 1600);
        let mode = std::fs::metadata(&path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "for its owner alone");
    }

    #[test]
    fn rotation_keeps_order_and_the_old_file() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("audit.json");
        let writer = start(&path);
        writer.queue("one");
        let aside = writer.rotate().expect("rotated").expect("a file");
        writer.write("two");
        assert_eq!(std::fs::read_to_string(aside).expect("the old file"), "one\n");
        assert_eq!(std::fs::read_to_string(&path).expect("the new file"), "two\n");
    }

    #[test]
    fn half_a_line_is_no_part_of_the_next_one() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("audit.json");
        std::fs::write(&path, "whole\nhal").expect("written");
        start(&path).write("next");
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), "whole\nhal\nnext\n");
    }

    #[test]
    fn what_cannot_be_written_is_told_and_nobody_goes_on() {
        let (told, heard) = std::sync::mpsc::channel();
        let failed = move |place: &str, error: &io::Error| {
            told.send((place.to_owned(), error.kind())).expect("somebody listens");
        };
        let full = AuditTarget::File(PathBuf::from("/dev/full"));
        let writer = AuditWriter::start(full, failed).expect("it opens");
        writer.queue("lost?");
        let (place, kind) = heard.recv().expect("it is told");
        assert_eq!((place.as_str(), kind), ("/dev/full", io::ErrorKind::StorageFull));
        assert_eq!(writer.shared.queue.lock().done, 0, "nobody is told that it was written");
    }

    #[test]
    fn only_whole_lines_stay_of_what_did_not_fit() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("audit.json");
        let mut file = open_file(&path).expect("the file opens");
        file.write_all(b"one\ntwo\nthr").expect("written");
        let text = "two\nthree\n";
        whole_lines(&file, text, b"ee\n", io::ErrorKind::StorageFull.into());
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), "one\ntwo\n");
    }
}
