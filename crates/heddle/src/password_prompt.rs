//! Asking for a password at the terminal.
//!
//! What is typed is hidden before the question is shown: whoever answers at once, as a script does, would see
//! the answer otherwise.

use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};

/// What the terminal makes of Ctrl-C where it is no signal.
const CTRL_C: u8 = 3;
/// Bytes read at a time, which are those of one line at most.
const LINE_PART: usize = 256;

/// The terminal of this process, which shows nothing of what is typed as long as this lives.
#[derive(Debug)]
struct HiddenTyping {
    terminal: File,
    before: Termios,
}

impl HiddenTyping {
    fn begin() -> io::Result<Self> {
        let terminal = File::options().read(true).write(true).open("/dev/tty")?;
        let before = tcgetattr(&terminal)?;
        let mut hidden = before.clone();
        // Ctrl-C ends the line instead of the process, which would leave the terminal like this.
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        hidden.special_codes[SpecialCodeIndex::VEOL] = CTRL_C;
        tcsetattr(&terminal, OptionalActions::Now, &hidden)?;
        Ok(HiddenTyping { terminal, before })
    }

    fn ask(&self, question: &str) -> io::Result<String> {
        (&self.terminal).write_all(question.as_bytes())?;
        let mut line = Vec::new();
        let mut part = [0; LINE_PART];
        while !line.ends_with(b"\n") && !line.ends_with(&[CTRL_C]) {
            let read = (&self.terminal).read(&mut part)?;
            line.extend(part.iter().take(read));
            if read == 0 {
                break;
            }
        }
        (&self.terminal).write_all(b"\n")?;
        String::from_utf8(line).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }
}

impl Drop for HiddenTyping {
    fn drop(&mut self) {
        // A terminal that is gone shows nothing.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Shows the question, and reads a line that is not shown.
///
/// # Errors
/// There is no terminal, or what is typed is no UTF-8 or ends before a line does. Ctrl-C is `SIGINT` once
/// the terminal is as it was.
pub(crate) fn ask_for_password(question: &str) -> io::Result<String> {
    let line = HiddenTyping::begin()?.ask(question)?;
    if line.ends_with(char::from(CTRL_C)) {
        kill_process(getpid(), Signal::INT)?;
        return Err(ErrorKind::Interrupted.into());
    }
    let password = line.strip_suffix('\n').ok_or(ErrorKind::UnexpectedEof)?;
    Ok(password.to_owned())
}
