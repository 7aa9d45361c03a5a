//! What the kernel tells in `/proc` of processes and of the machine, and the limit on open files.

use crate::error::BenchError;
use crate::result::Machine;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::Duration;

/// Raises the soft limit on open files, which bounds the number of connections, to the hard one; answers with
/// the limit that then holds.
pub(crate) fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // A refusal leaves the limit as it is, and the answer says so.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Resident memory of a process in bytes. File pages count only as far as they are mapped; the server's code
/// is part of it.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64, BenchError> {
    let text = read(&format!("/proc/{pid}/smaps_rollup"))?;
    bytes_of(&text, "Rss:").ok_or(BenchError::Protocol { expected: "a line 'Rss:'", found: text })
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

/// The kibibytes of this line, in bytes.
fn bytes_of(text: &str, line: &str) -> Option<u64> {
    const BYTES_PER_KIB: u64 = 1024;
    let line = text.lines().find_map(|known| known.strip_prefix(line))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * BYTES_PER_KIB)
}

impl Machine {
    /// This machine; what the system does not tell is empty or 0.
    pub(crate) fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let (processors, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
        let (system, release) = (read("/proc/sys/kernel/ostype"), read("/proc/sys/kernel/osrelease"));
        Machine {
            // All cores, also when this thread is pinned to some.
            cores: processors.lines().filter(|line| line.starts_with("processor")).count(),
            model: model(&processors).unwrap_or_default(),
            memory_bytes: bytes_of(&memory, "MemTotal:").unwrap_or_default(),
            kernel: format!("{} {}", system.trim(), release.trim()).trim().to_owned(),
        }
    }
}

/// `model name` on x86; ARM has none, and tells of the maker and part in numbers only.
fn model(processors: &str) -> Option<String> {
    let value = |name: &str| {
        let line = processors.lines().find(|line| line.starts_with(name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    value("model name")
        .or_else(|| Some(format!("implementer {}, part {}", value("CPU implementer")?, value("CPU part")?)))
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
        assert_eq!(bytes_of(rollup, "Rss:"), Some(123_456 * 1024));
        assert_eq!(bytes_of("MemTotal:       8000000 kB\nMemFree: 1 kB\n", "MemTotal:"), Some(8_192_000_000));
        let x86 =
            "processor\t: 0\nmodel name\t: A CPU @ 2.0 GHz\nprocessor\t: 1\nmodel name\t: A CPU @ 2.0 GHz\n";
        assert_eq!(model(x86).as_deref(), Some("A CPU @ 2.0 GHz"));
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(model(arm).as_deref(), Some("implementer 0x41, part 0xd0c"));
        assert_eq!(model(""), None);
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
    fn this_process_and_this_machine_have_figures() {
        let pid = std::process::id();
        assert!(resident_bytes(pid).expect("memory") > 100_000);
        assert!(processor_time(pid).is_ok());
        let here = Machine::here();
        assert!(
            here.cores > 0 && here.memory_bytes > 1 << 20 && here.kernel.starts_with("Linux "),
            "{here:?}"
        );
        let machine = MachineTime::now().expect("ticks");
        assert!((0.0..=1.0).contains(&machine.stolen_until(MachineTime::now().expect("ticks"))));
    }
}
