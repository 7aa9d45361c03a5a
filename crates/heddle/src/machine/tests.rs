use super::*;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
const V2_MOUNT: &str = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
const V1_MOUNTS: &str = "24 1 0:22 / /proc rw shared:2 - proc proc rw\n\
    31 30 0:27 / /sys/fs/cgroup/memory rw shared:5 - cgroup cgroup rw,memory\n\
    32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:6 - cgroup cgroup rw,cpu,cpuacct";

/// Kernel files of a machine with 8 processors and 16 GiB.
struct Kernel(TempDir);

impl Kernel {
    fn new(files: &[(&str, &str)]) -> Self {
        let kernel = Kernel(tempfile::tempdir().expect("a directory"));
        kernel.write("proc/meminfo", "MemFree: 1 kB\nMemTotal:       16777216 kB\n");
        kernel.write("sys/devices/system/cpu/online", "0-7\n");
        files.iter().for_each(|(file, text)| kernel.write(file, text));
        kernel
    }

    fn write(&self, file: &str, text: &str) {
        let file = self.0.path().join(file);
        fs::create_dir_all(file.parent().expect("it has a directory")).expect("a directory");
        fs::write(file, text).expect("a file");
    }

    fn machine(&self) -> Machine {
        Machine::read(self.0.path(), 8)
    }
}

/// What is found: the memory limit in MiB with its file, and the quota.
#[track_caller]
fn check(files: &[(&str, &str)], memory: Option<(u64, &str)>, quota: Option<f64>) {
    let kernel = Kernel::new(files);
    let machine = kernel.machine();
    let memory = memory.map(|(mib, file)| Limit { value: mib * MIB, file: kernel.0.path().join(file) });
    assert_eq!(machine.memory_limit, memory);
    assert_eq!(machine.processor_quota.map(|limit| limit.value), quota);
}

#[test]
fn a_machine_without_groups_may_be_used_whole() {
    let machine = Kernel::new(&[]).machine();
    let expect = Machine {
        memory: 16_384 * MIB,
        memory_limit: None,
        processors: 8,
        allowed_processors: 8,
        processor_quota: None,
    };
    assert_eq!(machine, expect);
    assert_eq!((machine.usable_memory(), machine.usable_processors()), (16_384 * MIB, 8));
}

#[test]
fn the_second_version_limits_memory_and_processors() {
    let group = |path: &'static str| [("proc/self/cgroup", path), ("proc/self/mountinfo", V2_MOUNT)];
    let [membership, mounts] = group("0::/app\n");
    check(
        &[
            membership,
            mounts,
            ("sys/fs/cgroup/app/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/app/memory.high", "max\n"),
            ("sys/fs/cgroup/app/cpu.max", "150000 100000\n"),
        ],
        Some((1_024, "sys/fs/cgroup/app/memory.max")),
        Some(1.5),
    );
    // A container sees its own group as the top.
    let [membership, mounts] = group("0::/\n");
    check(
        &[
            membership,
            mounts,
            ("sys/fs/cgroup/memory.max", "2147483648\n"),
            ("sys/fs/cgroup/memory.high", "536870912\n"),
            ("sys/fs/cgroup/cpu.max", "max 100000\n"),
        ],
        Some((512, "sys/fs/cgroup/memory.high")),
        None,
    );
}

#[test]
fn the_smallest_limit_on_the_way_to_the_top_counts() {
    let all = [
        ("proc/self/cgroup", "0::/pod/box/inner\n"),
        ("proc/self/mountinfo", V2_MOUNT),
        ("sys/fs/cgroup/pod/memory.max", "1073741824"),
        ("sys/fs/cgroup/pod/cpu.max", "400000 100000"),
        ("sys/fs/cgroup/pod/box/memory.max", "max"),
        ("sys/fs/cgroup/pod/box/cpu.max", "200000 100000"),
        ("sys/fs/cgroup/pod/box/inner/memory.max", "4294967296"),
        ("sys/fs/cgroup/pod/box/inner/cpu.max", "800000 100000"),
        // Groups of others.
        ("sys/fs/cgroup/memory/memory.max", "1000000"),
        ("sys/fs/cgroup/pod/other/memory.max", "1000000"),
        // Above what is mounted there are no groups.
        ("sys/memory.max", "1000000"),
    ];
    check(&all, Some((1_024, "sys/fs/cgroup/pod/memory.max")), Some(2.0));
}

#[test]
fn the_first_version_limits_memory_and_processors() {
    let all = [
        ("proc/self/cgroup", "9:name=systemd:/\n4:memory:/box/inner\n2:cpu,cpuacct:/box\n1:cpuset:/\n"),
        ("proc/self/mountinfo", V1_MOUNTS),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "536870912\n"),
        ("sys/fs/cgroup/memory/box/inner/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "300000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n"),
    ];
    check(&all, Some((512, "sys/fs/cgroup/memory/box/memory.limit_in_bytes")), Some(3.0));
}

/// A container without a view of its own: the list of groups has the whole path, and only its end is mounted.
#[test]
fn a_part_of_a_hierarchy_may_be_mounted() {
    let mounts = "31 30 0:27 /docker/ab /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        40 30 0:27 /other /elsewhere rw - cgroup cgroup rw,memory";
    for membership in ["4:memory:/docker/ab", "4:memory:/docker/ab/.", "4:memory:/../somewhere/else"] {
        check(
            &[
                ("proc/self/cgroup", membership),
                ("proc/self/mountinfo", mounts),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456"),
                ("elsewhere/memory.limit_in_bytes", "1048576"),
            ],
            Some((256, "sys/fs/cgroup/memory/memory.limit_in_bytes")),
            None,
        );
    }
}

#[test]
fn both_versions_side_by_side() {
    let mounts = format!("{V1_MOUNTS}\n33 30 0:29 / /sys/fs/cgroup/un\\040ified rw - cgroup2 cgroup2 rw");
    let all = [
        ("proc/self/cgroup", "4:memory:/a\n2:cpu,cpuacct:/a\n0::/b\n"),
        ("proc/self/mountinfo", mounts.as_str()),
        ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2147483648"),
        ("sys/fs/cgroup/un ified/b/memory.max", "1073741824"),
        ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "50000"),
        ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000"),
    ];
    check(&all, Some((1_024, "sys/fs/cgroup/un ified/b/memory.max")), Some(0.5));
}

#[test]
fn without_a_list_of_mounts_the_usual_places_are_looked_at() {
    let second = [("proc/self/cgroup", "0::/box\n"), ("sys/fs/cgroup/box/memory.max", "1073741824")];
    check(&second, Some((1_024, "sys/fs/cgroup/box/memory.max")), None);
    let first =
        [("proc/self/cgroup", "4:memory:/\n"), ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824")];
    check(&first, Some((1_024, "sys/fs/cgroup/memory/memory.limit_in_bytes")), None);
}

#[test]
fn odd_texts_are_no_limits() {
    for text in ["", "\n", "0", "-1", "lots", "99999999999999999999999", "1e9", "\u{fffd}"] {
        check(
            &[
                ("proc/self/cgroup", "0::/box\nnonsense\n:::\n"),
                (
                    "proc/self/mountinfo",
                    "nonsense\n - \n1 2 3 - cgroup2\n30 24 0:26 / /sys/fs/cgroup rw - cgroup2 x rw",
                ),
                ("sys/fs/cgroup/box/memory.max", text),
                ("sys/fs/cgroup/box/cpu.max", text),
            ],
            None,
            None,
        );
    }
    for quota in ["100000", "100000 0", "0 100000", "-1 100000", "nan 1", "max"] {
        let files = [
            ("proc/self/cgroup", "0::/"),
            ("proc/self/mountinfo", V2_MOUNT),
            ("sys/fs/cgroup/cpu.max", quota),
        ];
        check(&files, None, None);
    }
}

#[test]
fn a_limit_beyond_the_machine_is_none() {
    let kernel = Kernel::new(&[
        ("proc/self/cgroup", "0::/"),
        ("proc/self/mountinfo", V2_MOUNT),
        ("sys/fs/cgroup/memory.max", "109951162777600"),
        ("sys/fs/cgroup/cpu.max", "6400000 100000"),
    ]);
    let machine = kernel.machine();
    assert_eq!((machine.usable_memory(), machine.usable_processors()), (16_384 * MIB, 8));
    kernel.write("proc/meminfo", "nothing");
    assert_eq!(kernel.machine().usable_memory(), 104_857_600 * MIB, "the group alone says a size");
}

#[test]
fn parts_of_processors_are_worth_one() {
    for (quota, expect) in [("50000", 1), ("100000", 1), ("110000", 2), ("250000", 3), ("900000", 8)] {
        let quota_file = format!("{quota} 100000");
        let kernel = Kernel::new(&[
            ("proc/self/cgroup", "0::/"),
            ("proc/self/mountinfo", V2_MOUNT),
            ("sys/fs/cgroup/cpu.max", quota_file.as_str()),
        ]);
        assert_eq!(kernel.machine().usable_processors(), expect, "{quota} of 100000 µs");
    }
}

#[test]
fn processors_are_counted_in_lists() {
    for (list, expect) in [
        ("0", Some(1)),
        ("0-3\n", Some(4)),
        ("0-3,8,10-11", Some(7)),
        ("", None),
        ("3-1", None),
        ("a-b", None),
    ] {
        assert_eq!(count_processors(list), expect, "{list:?}");
    }
}

#[test]
fn this_machine_tells_its_size() {
    let machine = Machine::of_process();
    assert!(machine.memory > 0 && machine.usable_memory() <= machine.memory, "{machine:?}");
    assert!((1..=machine.processors).contains(&machine.usable_processors()), "{machine:?}");
}
