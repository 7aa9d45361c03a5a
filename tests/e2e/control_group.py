"""Control groups with a limit on memory, in both versions."""

import os
import pathlib
import uuid


def mounted(kind, controller):
    """Where control groups with this controller are mounted."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ")
        system, _, options = right.split(" ", 2)
        place = pathlib.Path(left.split(" ")[4])
        if kind == system == "cgroup" and controller in options.split(","):
            return place
        if kind == system == "cgroup2" and controller in (place / "cgroup.subtree_control").read_text().split():
            return place
    return None


class Group:
    """A control group of its own, with a limit on memory."""

    def __init__(self, limit):
        second, first = mounted("cgroup2", "memory"), mounted("cgroup", "memory")
        self.directory = (second or first) / f"heddle-test-{uuid.uuid4().hex[:12]}"
        self.names = ("memory.max", "memory.peak") if second else ("memory.limit_in_bytes", "memory.max_usage_in_bytes")
        self.directory.mkdir()
        (self.directory / self.names[0]).write_text(str(limit))

    @property
    def peak(self):
        """The most bytes it has used, cached files included; `None` where the kernel does not tell."""
        file = self.directory / self.names[1]
        return int(file.read_text()) if file.exists() else None

    def enter(self):
        (self.directory / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        self.directory.rmdir()

    @property
    def kills(self):
        """How often the kernel has ended a process of it for want of memory."""
        for name in ("memory.events", "memory.oom_control"):
            file = self.directory / name
            if file.exists():
                counts = dict(line.split() for line in file.read_text().splitlines())
                return int(counts.get("oom_kill", 0))
        return 0
