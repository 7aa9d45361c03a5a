"""`memoryLimitMB`: the process stays within it whatever its clients do, and tells who holds how much."""

import threading
import time

import pytest
from memory_mix import MIB, REFUSALS, Mix, Watch, memory_section
from pymongo.errors import OperationFailure

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


def test_a_limit_below_the_memtables_of_the_start_is_refused(start_server):
    running = start_server("--memoryLimitMB", "2048", "--memtableSizeMB", "64")
    with running.client() as client:
        with pytest.raises(OperationFailure) as refused:
            client.admin.command("setParameter", 1, memoryLimitMB=512)
        assert "the memtables of this start need at least" in str(refused.value)
        assert client.admin.command("getParameter", 1, memoryLimitMB=1)["memoryLimitMB"] == 2048
        assert memory_section(running)["limitBytes"] == 2048 * MIB


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
