//! What a run was made on.

use crate::result::Machine;

impl Machine {
    /// This machine, from `/proc`; what the system does not tell is empty or 0.
    pub(crate) fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let (processors, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
        let kernel = format!(
            "{} {}",
            read("/proc/sys/kernel/ostype").trim(),
            read("/proc/sys/kernel/osrelease").trim()
        );
        Machine {
            // All cores, also when this thread is pinned to some.
            cores: processors.lines().filter(|line| line.starts_with("processor")).count(),
            model: model(&processors).unwrap_or_default(),
            memory_bytes: memory_bytes(&memory).unwrap_or_default(),
            kernel: kernel.trim().to_owned(),
        }
    }

    /// In one line.
    pub(crate) fn line(&self) -> String {
        format!("{} cores ({}), {}", self.cores, self.model, self.kernel)
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

fn memory_bytes(memory: &str) -> Option<u64> {
    const BYTES_PER_KIB: u64 = 1_024;
    let line = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * BYTES_PER_KIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_text_is_understood() {
        let x86 =
            "processor\t: 0\nmodel name\t: A CPU @ 2.0 GHz\nprocessor\t: 1\nmodel name\t: A CPU @ 2.0 GHz\n";
        assert_eq!(model(x86).as_deref(), Some("A CPU @ 2.0 GHz"));
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(model(arm).as_deref(), Some("implementer 0x41, part 0xd0c"));
        assert_eq!(model(""), None);
        assert_eq!(memory_bytes("MemTotal:       8000000 kB\nMemFree: 1 kB\n"), Some(8_192_000_000));
    }

    #[test]
    fn this_machine_has_cores_and_memory() {
        let here = Machine::here();
        assert!(here.cores > 0 && here.memory_bytes > 1 << 20, "{here:?}");
        assert!(here.kernel.starts_with("Linux "), "{here:?}");
    }
}
