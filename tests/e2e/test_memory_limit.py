"""`memoryLimitMB`: the process stays within it whatever its clients do, and tells who holds how much."""

import threading
import time

import pytest
from memory_mix import MIB, REFUSALS, Mix, Parts, Watch, memory_section
from pymongo.errors import OperationFailure
from replica_set import FAST, ReplicaSet

LIMIT_MB = 512


def test_a_mix_that_wants_more_stays_within_the_limit(limited):
    running, group = limited(LIMIT_MB * MIB, "--memoryLimitMB", str(LIMIT_MB))
    watch = Watch(running, LIMIT_MB * MIB, every=0.1)
    mix = Mix(running, documents=100_000, cursors=1_000, slow_readers=4)
    mix.load()
    mix.start()
    end = time.monotonic() + 15
    while time.monotonic() < end and running.process.poll() is None and not mix.unexpected:
        time.sleep(0.2)
    stuck = mix.stop(patience=30)
    most = watch.stop()
    assert running.process.poll() is None, f"the server was ended by {running.process.returncode}; {most >> 20} MiB before"
    assert not mix.unexpected and not stuck, (mix.unexpected, stuck)
    section = memory_section(running)
    print(f"{most >> 20} MiB at most; done {dict(mix.counts)}, refused {dict(mix.errors)}; {section}")
    assert most <= LIMIT_MB * MIB, section
    assert group.kills == 0
    assert section["limitBytes"] == LIMIT_MB * MIB >= section["residentBytesMax"] > section["limitBytes"] // 4
    for kind in ("find", "update", "insert", "insert_large", "group", "sort", "cursor"):
        assert mix.counts[kind] > 0, f"no {kind} was done: {mix.counts}, {mix.errors}"
    parts = section["parts"]
    assert parts["blockCache"] + parts["rowCache"] <= section["bounds"]["cachesAtBest"] * 5 // 4
    assert parts["memtables"] > 0 and parts["cursors"] > 0
    assert running.stop() == 0


@pytest.fixture
def small(start_server):
    return start_server("--memoryLimitMB", "300")


def test_the_limit_changes_while_the_server_runs(small):
    with small.client() as client:
        admin = client.admin

        def set_limit(mebibytes):
            admin.command("setParameter", 1, memoryLimitMB=mebibytes)

        assert admin.command("getParameter", 1, memoryLimitMB=1)["memoryLimitMB"] == 300
        before = memory_section(small)
        assert before["limitBytes"] == 300 * MIB and before["bounds"]["sortsAndGroups"] == 300 * MIB // 8
        set_limit(1000)
        after = memory_section(small)
        assert after["limitBytes"] == 1000 * MIB and after["bounds"]["sortsAndGroups"] == 1000 * MIB // 8
        assert after["bounds"]["cachesAtBest"] > before["bounds"]["cachesAtBest"]
        network = admin.command("serverStatus")["network"]
        assert network["largeRequests"]["maxBytes"] == 1000 * MIB // 8
        assert network["unreadReplies"]["maxBytes"] == 1000 * MIB // 16
        set_limit(300)
        assert memory_section(small)["limitBytes"] == 300 * MIB


def test_memtables_follow_the_limit_unless_their_size_is_given(start_server):
    running = start_server("--memoryLimitMB", "2048")
    with running.client() as client:
        admin = client.admin

        def bound_of_memtables(expect):
            deadline = time.monotonic() + 10
            while (bound := memory_section(running)["bounds"]["memtables"]) != expect and time.monotonic() < deadline:
                time.sleep(0.1)
            return bound

        def memtable():
            return admin.command("serverStatus")["storage"]["knobs"]["memtableBytes"]["value"]

        assert (memtable(), bound_of_memtables(320 * MIB)) == (32 * MIB, 320 * MIB)
        admin.command("setParameter", 1, memoryLimitMB=512)
        assert (memtable(), bound_of_memtables(80 * MIB)) == (8 * MIB, 80 * MIB)
        admin.command("setParameter", 1, memtableSizeMB=12)
        assert (memtable(), bound_of_memtables(120 * MIB)) == (12 * MIB, 120 * MIB)
        admin.command("setParameter", 1, memoryLimitMB=2048)
        assert (memtable(), bound_of_memtables(120 * MIB)) == (12 * MIB, 120 * MIB), "its size is given now"
        admin.command("setParameter", 1, memtableSizeMB=64)
        with pytest.raises(OperationFailure) as refused:
            admin.command("setParameter", 1, memoryLimitMB=512)
        assert "memtables of 64 MiB need at least 1280 MiB, and the process may use 512" in str(refused.value)
        assert admin.command("getParameter", 1, memoryLimitMB=1)["memoryLimitMB"] == 2048
        assert memory_section(running)["limitBytes"] == 2048 * MIB
        with pytest.raises(OperationFailure) as refused:
            admin.command("setParameter", 1, memtableSizeMB=128)
        assert "memtables of 128 MiB need at least 2560 MiB" in str(refused.value)
        assert memtable() == 64 * MIB


def test_many_sorts_share_what_there_is(small):
    """Twelve sorts of 12 MB each are more than all sorts may hold together: who may not use the disk is refused, the others use it."""
    with small.client() as client:
        collection = client.memory.sorts
        collection.insert_many([{"_id": number, "k": -number, "p": "x" * 10_000} for number in range(1200)])
    outcomes = []

    def sort(disk):
        try:
            with small.client() as own:
                # The cursor keeps what it has sorted until the others have sorted as well.
                cursor = own.memory.sorts.find({}, sort=[("k", 1)], batch_size=2, allow_disk_use=disk)
                next(cursor)
                ready.wait(60)
                outcomes.append((disk, sum(1 for _ in cursor) + 1))
        except OperationFailure as error:
            ready.wait(60)
            outcomes.append((disk, error.code))

    ready = threading.Barrier(12)
    threads = [threading.Thread(target=sort, args=(number % 2 == 0,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(outcomes) == 12
    with_disk = [outcome for disk, outcome in outcomes if disk]
    assert all(outcome == 1200 or outcome in REFUSALS for outcome in with_disk), outcomes
    assert with_disk.count(1200) >= 3, outcomes
    assert any(outcome == 292 for disk, outcome in outcomes if not disk), outcomes
    section = memory_section(small)
    assert section["measures"]["spilledSooner"] > 0, section
    assert section["parts"]["sortsAndGroups"] == 0, section


def test_what_index_builds_hold_is_told_and_bounded(small):
    """Two builds at a time of entries of some megabytes each."""
    with small.client() as client:
        for name in ("one", "other"):
            documents = [{"_id": number, "s": f"{number * 7919 % 100_003:0>150}"} for number in range(40_000)]
            client.memory[name].insert_many(documents)
        assert memory_section(small)["parts"]["indexBuilds"] == 0
        # Half or a quarter of it while memory is short, as it may be right after so many inserts.
        whole = 300 * MIB // 16
        assert memory_section(small)["bounds"]["indexBuilds"] in (whole, whole // 2, whole // 4)
        held = Parts(small, every=0.01)
        threads = [threading.Thread(target=build, args=(small, name)) for name in ("one", "other")]
        for thread in threads:
            thread.start()
        most = 0
        while any(thread.is_alive() for thread in threads):
            most = max(most, held.latest["parts"]["indexBuilds"] if held.latest else 0)
            time.sleep(0.005)
        held.stop()
        # What is lent, and the room that vectors have while they grow.
        assert MIB < most <= 2 * whole, most
        assert memory_section(small)["parts"]["indexBuilds"] == 0
        for name in ("one", "other"):
            assert client.memory.command("validate", name)["valid"]


def build(server, name):
    with server.client() as own:
        own.memory[name].create_index("s")


def test_what_members_keep_for_each_other_is_told_and_bounded(tmp_path):
    members = ReplicaSet(tmp_path, 1, "--memoryLimitMB", "4096", settings=FAST)
    try:
        primary = members.primary()
        with members.direct(primary) as client:

            def buffer_max():
                return client.admin.command("serverStatus")["metrics"]["repl"]["buffer"]["maxSizeBytes"]

            client.memory.things.insert_many([{"_id": number, "p": "x" * 1000} for number in range(2000)])
            # The end of the log, for members that keep up.
            assert memory_section(primary)["parts"]["replication"] > 2_000_000
            assert buffer_max() == 64 * MIB
            client.admin.command("setParameter", 1, memoryLimitMB=2048)
            assert buffer_max() == 32 * MIB
            client.admin.command("setParameter", 1, memoryLimitMB=4096)
            assert buffer_max() == 64 * MIB
    finally:
        members.kill_all()
