//! What happened: the last lines to be read, all of them as one number to be compared.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt::Write;
use std::time::Duration;

const LINES_KEPT: usize = 60;
const LINE_BYTES_SHOWN: usize = 600;

/// The course of a run.
#[derive(Debug, Default)]
pub struct Trace {
    lines: RefCell<VecDeque<String>>,
    /// FNV-1a of all lines.
    hash: Cell<u64>,
    shows_all: bool,
}

impl Trace {
    pub(crate) fn new() -> Trace {
        let shows_all = std::env::var_os("HEDDLE_SIMULATION_TRACE").is_some();
        Trace { hash: Cell::new(0xcbf2_9ce4_8422_2325), shows_all, ..Trace::default() }
    }

    pub(crate) fn note(&self, time: Duration, text: &str) {
        let mut line = String::new();
        let _ = write!(line, "{:>10.3} ms  {text}", time.as_secs_f64() * 1000.0);
        let hash = line
            .bytes()
            .fold(self.hash.get(), |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        self.hash.set(hash);
        line.truncate(line.floor_char_boundary(LINE_BYTES_SHOWN));
        if self.shows_all {
            println!("{line}");
        }
        let mut lines = self.lines.borrow_mut();
        if lines.len() == LINES_KEPT {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash.get()
    }

    pub(crate) fn last_lines(&self) -> String {
        self.lines.borrow().iter().map(|line| format!("{line}\n")).collect()
    }
}
