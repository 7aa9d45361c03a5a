"""Memory that was needed once goes back to the system when the server idles."""

import pathlib
import re
import threading
import time

from server_process import Server

MIB = 1 << 20
STRING = 2 * MIB
DOCUMENTS = 150


def anonymous_bytes(running):
    status = pathlib.Path(f"/proc/{running.process.pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) << 10


def processor_seconds(running):
    fields = pathlib.Path(f"/proc/{running.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def group(running, peaks):
    """Groups far more than a usual group may hold."""
    with running.client() as client:
        stages = [
            {"$unwind": "$numbers"},
            {"$group": {"_id": "$numbers", "text": {"$first": {"$concat": ["$text", {"$toString": "$numbers"}]}}}},
            {"$project": {"_id": 1}},
        ]
        assert len(list(client.burst.one.aggregate(stages))) == DOCUMENTS
    peaks.append(anonymous_bytes(running))


def test_a_burst_of_memory_goes_back_when_the_server_idles(tmp_path, monkeypatch):
    # Usually it is a minute. Longer than threads without work stay: those that end look for free memory.
    monkeypatch.setenv("MIMALLOC_PURGE_DELAY", "12000")
    running = Server(
        tmp_path / "data",
        "--setParameter", "clientCursorMonitorFrequencySecs=1",
        "--setParameter", "servicePoolIdleMillis=5000",
        "--setParameter", f"internalDocumentSourceGroupMaxMemoryBytes={4096 * MIB}",
    )
    try:
        running.wait_until_it_answers()
        with running.client() as client:
            client.burst.one.insert_one({"text": "x" * STRING, "numbers": list(range(DOCUMENTS))})
            list(client.burst.one.find())
        before, highest, peaks = anonymous_bytes(running), 0, []
        grouping = threading.Thread(target=group, args=(running, peaks))
        grouping.start()
        while grouping.is_alive():
            highest = max(highest, anonymous_bytes(running))
            grouping.join(0.02)
        assert peaks, "the group failed"
        assert highest > before + 200 * MIB, f"{highest >> 20} MiB after {before >> 20}: no burst"
        deadline = time.monotonic() + 60
        while anonymous_bytes(running) > before + 40 * MIB:
            left = anonymous_bytes(running)
            assert time.monotonic() < deadline, f"{left >> 20} MiB are left of {highest >> 20}; before there were {before >> 20}"
            time.sleep(0.2)
        used = processor_seconds(running)
        time.sleep(3)
        assert processor_seconds(running) - used < 0.3, "a server that idles uses the processor"
        assert running.stop() == 0
    finally:
        running.process.kill()
        running.process.wait()
