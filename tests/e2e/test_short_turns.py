"""The loops of a secondary take short turns at the processors: reads go in between what is replayed and compacted."""

import ctypes
import platform
import struct
from pathlib import Path

import pymongo
import pytest
from replica_set import ReplicaSet, eventually

ANYWHERE = pymongo.ReadPreference.NEAREST
SHORT_NANOSECONDS = 400_000
SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}.get(platform.machine())


def slice_of(thread):
    """Nanoseconds; 0 where the kernel knows no slices of one's own (before 6.12)."""
    attributes = ctypes.create_string_buffer(56)
    if ctypes.CDLL(None).syscall(SCHED_GETATTR, thread, attributes, len(attributes), 0) != 0:
        return 0
    return struct.unpack_from("<Q", attributes, 24)[0]


def slices(member):
    tasks = Path(f"/proc/{member.process.pid}/task").iterdir()
    loops = [int(task.name) for task in tasks if (task / "comm").read_text().startswith(("ring", "coroutine"))]
    assert loops, "the loops have other names"
    return {slice_of(loop) for loop in loops}


@pytest.mark.skipif(SCHED_GETATTR is None or slice_of(0) == 0, reason="the kernel has no slices of one's own")
def test_a_secondarys_loops_take_short_turns_until_it_is_primary(tmp_path):
    running = ReplicaSet(tmp_path, 2, members=[{}, {"priority": 0.5}])
    usual = {slice_of(0)}
    try:
        primary = running.primary()
        [secondary] = running.secondaries()

        def are(member, expect):
            # Each loop sees it at the end of its next turn: connections that ask for data go round all of them.
            for _ in range(4):
                with running.direct(member) as client:
                    client.get_database("test", read_preference=ANYWHERE).things.find_one({"_id": 1})
            return slices(member) == expect

        eventually("short turns of the secondary", lambda: are(secondary, {SHORT_NANOSECONDS}))
        eventually("usual turns of the primary", lambda: are(primary, usual))
        with running.direct(primary) as client:
            client.admin.command("replSetStepDown", 60)
        running.primary(other_than=primary)
        eventually("usual turns of the new primary", lambda: are(secondary, usual))
        eventually("short turns of the old one", lambda: are(primary, {SHORT_NANOSECONDS}))
    finally:
        running.kill_all()
