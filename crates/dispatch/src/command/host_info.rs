//! `hostInfo`: the machine.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::host::MachineFacts;
use crate::node::Node;
use document::{DocumentBuilder, RawValue};
use std::fs;
use std::sync::LazyLock;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command { ..Command::diagnostic("hostInfo", "Tells facts about the machine.", Run::Now(run)) }
}

/// Kernel files are read whole; they are small.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The one fact that is in a file on a disk. The others are the kernel's own.
static OS_RELEASE: LazyLock<String> = LazyLock::new(|| read("/etc/os-release"));

/// Reads what `hostInfo` needs from files, so that it touches no disk later.
pub fn read_facts() {
    LazyLock::force(&OS_RELEASE);
}

/// The machine's name.
pub fn host_name() -> String {
    let name = read("/proc/sys/kernel/hostname");
    if name.trim().is_empty() { "localhost".to_owned() } else { name.trim().to_owned() }
}

/// A line such as `MemTotal:  16 kB` in kibibytes.
fn memory_kib(name: &str) -> i64 {
    let text = read("/proc/meminfo");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    const MIB: u64 = 1 << 20;
    context.fields.finish()?;
    let machine = context.server.host.machine;
    let mebibytes = |bytes: u64| (bytes / MIB) as i64;
    let cores = machine.processors as i32;
    let mut system = reply.start_document("system");
    system.append("currentTime", RawValue::DateTime(context.server.now_ms()));
    system.append("hostname", host_name().as_str()).append("cpuAddrSize", 64);
    system.append("memSizeMB", mebibytes(machine.memory_bytes));
    system.append("memLimitMB", mebibytes(machine.memory_limit_bytes));
    system
        .append("numCores", cores)
        .append("numCoresAvailableToProcess", machine.usable_processors as i32)
        .append("numPhysicalCores", cores);
    system.append("cpuArch", std::env::consts::ARCH).append("numaEnabled", false);
    system.finish();
    let release: &str = &OS_RELEASE;
    let of = |name: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or("unknown").trim_matches('"').to_owned()
    };
    let mut os = reply.start_document("os");
    os.append("type", "Linux")
        .append("name", of("NAME").as_str())
        .append("version", of("VERSION_ID").as_str());
    os.finish();
    let mut extra = reply.start_document("extra");
    extra
        .append("versionString", read("/proc/version").trim())
        .append("kernelVersion", read("/proc/sys/kernel/osrelease").trim());
    Ok(())
}

/// Memory and load of the machine, for `getDiagnosticData`.
pub fn write_system_metrics(machine: &MachineFacts, metrics: &mut DocumentBuilder<'_>) {
    let mut memory = metrics.start_document("memory");
    for name in ["MemTotal", "MemFree", "MemAvailable", "Cached", "Dirty", "SwapTotal", "SwapFree"] {
        memory.append(&format!("{name}_kb"), memory_kib(name));
    }
    memory.finish();
    let load = read("/proc/loadavg");
    let mut cpu = metrics.start_document("cpu");
    cpu.append("num_logical_cores", machine.processors as i32);
    if let Some(one_minute) = load.split_whitespace().next().and_then(|number| number.parse::<f64>().ok()) {
        cpu.append("load_1m", one_minute);
    }
}
