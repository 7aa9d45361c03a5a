//! Memory and processor time of a server, and processor time that the machine did not get, from `/proc`.

use crate::error::BenchError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::Duration;

/// Raises the soft limit on open files, which bounds the number of connections, to the hard one; answers with the limit that
/// then holds.
pub(crate) fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // A refusal leaves the limit as it is, and the answer says so.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Resident memory of a process in bytes. File pages count only as far as they are mapped; the server's code is part of it.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64, BenchError> {
    let text = read(&format!("/proc/{pid}/smaps_rollup"))?;
    parse_rollup(&text).ok_or(BenchError::Protocol { expected: "a line 'Rss:'", found: text })
}

/// Processor time that a process has used, all threads, ended ones included, user and system.
pub(crate) fn processor_time(pid: u32) -> Result<Duration, BenchError> {
    let text = read(&format!("/proc/{pid}/stat"))?;
    let ticks = parse_stat(&text)
        .ok_or(BenchError::Protocol { expected: "a line of /proc/PID/stat", found: text })?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Processor time of the whole machine since it started, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MachineTime {
    all: u64,
    /// When something was to run and the host of this virtual machine ran somebody else.
    stolen: u64,
}

impl MachineTime {
    /// # Errors
    /// The kernel does not tell.
    pub(crate) fn now() -> Result<Self, BenchError> {
        let text = read("/proc/stat")?;
        parse_machine(&text)
            .ok_or(BenchError::Protocol { expected: "a line 'cpu' of /proc/stat", found: text })
    }

    /// The part of the processor time from here to `later` that the host withheld, 0 to 1.
    pub(crate) fn stolen_until(self, later: Self) -> f64 {
        let all = later.all.saturating_sub(self.all).max(1);
        later.stolen.saturating_sub(self.stolen) as f64 / all as f64
    }
}

/// The first eight figures of the first line; those after it are contained in them.
fn parse_machine(text: &str) -> Option<MachineTime> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|ticks| ticks.parse().ok()).collect();
    let stolen = *ticks.get(7)?;
    Some(MachineTime { all: ticks.iter().sum(), stolen })
}

fn read(path: &str) -> Result<String, BenchError> {
    std::fs::read_to_string(path).map_err(BenchError::io("read a figure of the server's process"))
}

fn parse_rollup(text: &str) -> Option<u64> {
    const BYTES_PER_KIB: u64 = 1024;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * BYTES_PER_KIB)
}

/// `utime` and `stime`, the 14th and 15th field. The second one, a name in brackets, may hold anything.
fn parse_stat(text: &str) -> Option<u64> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_in_the_kernels_text() {
        let rollup = "55d0-7ffd ---p 00000000 00:00 0  [rollup]\nRss:              123456 kB\nPss:  1 kB\n";
        assert_eq!(parse_rollup(rollup), Some(123_456 * 1024));
        let stat = "77 (a) b) (c) S 1 77 77 0 -1 4194560 900 0 0 0 150 25 0 0 20 0 9 0 100 200 300";
        assert_eq!(parse_stat(stat), Some(175));
        assert_eq!(parse_stat("nonsense"), None);
        let machine = |text| parse_machine(text).map(|time| (time.all, time.stolen));
        assert_eq!(machine("cpu  100 20 3 400 50 0 6 21 9 9\ncpu0 1 1 1\n"), Some((600, 21)));
        assert_eq!(machine("cpu  100 20 3 400 50 0 6\n"), None);
        assert_eq!(machine(""), None);
    }

    #[test]
    fn stolen_time_is_a_part_of_all_time() {
        let at = |all, stolen| MachineTime { all, stolen };
        assert_eq!(at(1_000, 50).stolen_until(at(1_400, 150)), 0.25);
        assert_eq!(at(1_000, 50).stolen_until(at(1_000, 50)), 0.0);
    }

    #[test]
    fn this_process_has_figures() {
        let pid = std::process::id();
        assert!(resident_bytes(pid).expect("memory") > 100_000);
        assert!(processor_time(pid).is_ok());
        let machine = MachineTime::now().expect("ticks");
        assert!((0.0..=1.0).contains(&machine.stolen_until(MachineTime::now().expect("ticks"))));
    }
}
