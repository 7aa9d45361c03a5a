//! What the process may use of its machine: memory and processors, less where a control group allows less.
//!
//! The only place that asks the kernel for the machine's size. Control groups are looked up as cgroups(7)
//! describes them, in both versions and where both are mounted side by side; a limit of a group holds for all
//! groups below it, so the smallest one on the way from the process's group to the top counts.

#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Component, Path, PathBuf};

const PROC_GROUPS: &str = "proc/self/cgroup";
const PROC_MOUNTS: &str = "proc/self/mountinfo";
const PROC_MEMORY: &str = "proc/meminfo";
const ONLINE_PROCESSORS: &str = "sys/devices/system/cpu/online";
/// Where control groups are mounted when the list of mounts cannot be read.
const USUAL_PLACE: &str = "sys/fs/cgroup";
/// Version 1 says "no limit" by a number near the largest one.
const NO_LIMIT: u64 = 1 << 60;

/// A limit, and the file that says so.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit<T> {
    pub(crate) value: T,
    pub(crate) file: PathBuf,
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Machine {
    /// The machine's memory in bytes; 0 when the kernel does not say.
    pub(crate) memory: u64,
    /// What the control groups allow in bytes.
    pub(crate) memory_limit: Option<Limit<u64>>,
    /// Processors of the machine.
    pub(crate) processors: usize,
    /// Those that the process may run on.
    pub(crate) allowed_processors: usize,
    /// How many processors' time the control groups allow.
    pub(crate) processor_quota: Option<Limit<f64>>,
}

impl Machine {
    /// The machine that this process runs on.
    pub(crate) fn of_process() -> Self {
        let affinity =
            rustix::thread::sched_getaffinity(None).map_or(1, |processors| processors.count() as usize);
        Self::read(Path::new("/"), affinity)
    }

    /// The machine whose kernel files lie below `root`. `affinity`: processors that the process may run on.
    fn read(root: &Path, affinity: usize) -> Self {
        let groups = ControlGroups::find(root);
        let online = text(&root.join(ONLINE_PROCESSORS)).and_then(|list| count_processors(&list));
        Machine {
            memory: text(&root.join(PROC_MEMORY)).and_then(|text| total_memory(&text)).unwrap_or(0),
            memory_limit: groups.memory_limit(),
            processors: online.unwrap_or(affinity).max(1),
            allowed_processors: affinity.max(1),
            processor_quota: groups.processor_quota(),
        }
    }

    /// Memory that the process may use, in bytes.
    pub(crate) fn usable_memory(&self) -> u64 {
        match &self.memory_limit {
            // A machine that does not tell its size is taken at the group's word.
            Some(limit) if self.memory == 0 || limit.value < self.memory => limit.value,
            _ => self.memory,
        }
    }

    /// Threads that can run at the same time: a part of a processor is worth one.
    pub(crate) fn usable_processors(&self) -> usize {
        let quota = self.processor_quota.as_ref().map_or(f64::INFINITY, |limit| limit.value.ceil());
        (self.allowed_processors as f64).min(quota).max(1.0) as usize
    }
}

/// The process's group in one hierarchy, and the top of what can be seen of it.
#[derive(Debug)]
struct ControlGroup {
    directory: PathBuf,
    top: PathBuf,
}

impl ControlGroup {
    /// The smallest of what the files of this group and of those above it say.
    fn smallest<T: PartialOrd>(
        &self,
        file: &str,
        parse: impl Fn(&Path, &str) -> Option<T>,
    ) -> Option<Limit<T>> {
        let above = self.directory.ancestors().take_while(|directory| directory.starts_with(&self.top));
        let said = above.filter_map(|directory| {
            let file = directory.join(file);
            let value = parse(directory, &text(&file)?)?;
            Some(Limit { value, file })
        });
        said.reduce(|least, one| if one.value < least.value { one } else { least })
    }
}

/// The process's groups.
#[derive(Debug, Default)]
struct ControlGroups {
    /// Version 2.
    unified: Option<ControlGroup>,
    /// Version 1, by controller.
    memory: Option<ControlGroup>,
    processor: Option<ControlGroup>,
}

impl ControlGroups {
    fn find(root: &Path) -> Self {
        let membership = text(&root.join(PROC_GROUPS)).unwrap_or_default();
        let mounts = match text(&root.join(PROC_MOUNTS)) {
            Some(mounts) => mounts.lines().filter_map(|line| Mount::parse(root, line)).collect(),
            None => usual_mounts(root),
        };
        let group = |controller: Option<&str>| {
            let path = membership.lines().find_map(|line| member_path(line, controller))?;
            let mut candidates = mounts.iter().filter(|mount| mount.controls(controller));
            let first = candidates.next()?;
            let best = std::iter::once(first).chain(candidates).find(|mount| path.starts_with(&mount.root));
            Some(best.unwrap_or(first).group(&path))
        };
        ControlGroups { unified: group(None), memory: group(Some("memory")), processor: group(Some("cpu")) }
    }

    fn memory_limit(&self) -> Option<Limit<u64>> {
        let bytes =
            |_: &Path, text: &str| text.trim().parse().ok().filter(|bytes| (1..NO_LIMIT).contains(bytes));
        let of =
            |group: &Option<ControlGroup>, file| group.as_ref().and_then(|group| group.smallest(file, bytes));
        let said = [
            of(&self.unified, "memory.max"),
            of(&self.unified, "memory.high"),
            of(&self.memory, "memory.limit_in_bytes"),
        ];
        said.into_iter().flatten().min_by_key(|limit| limit.value)
    }

    fn processor_quota(&self) -> Option<Limit<f64>> {
        let unified = self.unified.as_ref().and_then(|group| {
            group.smallest("cpu.max", |_, text| {
                let mut words = text.split_whitespace();
                share(words.next()?, words.next()?)
            })
        });
        let first_version = || {
            self.processor.as_ref()?.smallest("cpu.cfs_quota_us", |directory, quota| {
                share(quota, &text_or_empty(&directory.join("cpu.cfs_period_us")))
            })
        };
        unified.or_else(first_version)
    }
}

/// Processors' time, from a quota for each period.
fn share(quota: &str, period: &str) -> Option<f64> {
    let positive = |text: &str| text.trim().parse::<f64>().ok().filter(|number| *number > 0.0);
    Some(positive(quota)? / positive(period)?)
}

/// One mount of control groups.
#[derive(Debug)]
struct Mount {
    /// What of the hierarchy is mounted.
    root: PathBuf,
    place: PathBuf,
    /// Names of controllers; empty for version 2.
    controllers: Vec<String>,
}

impl Mount {
    /// Reads a line of proc_pid_mountinfo(5); `None` when it is about something else.
    fn parse(root: &Path, line: &str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (mounted, place) = (unescaped(mount.next()?), unescaped(mount.next()?));
        let mut system = system.split(' ');
        let controllers = match system.next()? {
            "cgroup2" => Vec::new(),
            "cgroup" => system.nth(1)?.split(',').map(str::to_owned).collect(),
            _ => return None,
        };
        let place = root.join(place.strip_prefix('/').unwrap_or(&place));
        Some(Mount { root: PathBuf::from(mounted), place, controllers })
    }

    fn controls(&self, controller: Option<&str>) -> bool {
        match controller {
            Some(name) => self.controllers.iter().any(|known| known == name),
            None => self.controllers.is_empty(),
        }
    }

    /// The group with this path, as far as it can be seen here.
    fn group(&self, path: &Path) -> ControlGroup {
        let below = path.strip_prefix(&self.root).unwrap_or(Path::new(""));
        let is_inside = below.components().all(|part| matches!(part, Component::Normal(_)));
        let directory = if is_inside { self.place.join(below) } else { self.place.clone() };
        ControlGroup { directory, top: self.place.clone() }
    }
}

fn usual_mounts(root: &Path) -> Vec<Mount> {
    let mount = |below: &str, controllers: &[&str]| Mount {
        root: PathBuf::from("/"),
        place: root.join(USUAL_PLACE).join(below),
        controllers: controllers.iter().map(|name| (*name).to_owned()).collect(),
    };
    vec![mount("", &[]), mount("memory", &["memory"]), mount("cpu", &["cpu"])]
}

/// The path of the process's group, from a line `id:controllers:path`. Version 2 has no controllers there.
fn member_path(line: &str, controller: Option<&str>) -> Option<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let is_its = match controller {
        Some(name) => controllers.split(',').any(|known| known == name),
        None => controllers.is_empty(),
    };
    is_its.then(|| PathBuf::from(path))
}

/// Undoes the octal escapes of spaces and the like.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(part.bytes().skip(3));
            }
            None => {
                bytes.push(b'\\');
                bytes.extend(part.bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `MemTotal:  16 kB` in bytes.
fn total_memory(text: &str) -> Option<u64> {
    const BYTES_PER_KIB: u64 = 1024;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(BYTES_PER_KIB)
}

/// How many there are in a list such as `0-3,8`.
fn count_processors(list: &str) -> Option<usize> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.trim().split(',').map(range).sum()
}

fn text(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok()
}

fn text_or_empty(file: &Path) -> String {
    text(file).unwrap_or_default()
}
