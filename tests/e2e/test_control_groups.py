"""A server in a control group: its sizes follow the group's limit, and plain work does not exceed it."""

import json
import os
import pathlib
import re
import threading

import pytest

MIB = 1 << 20
DOCUMENT = 8 * 1024
BATCH = 46 * MIB // DOCUMENT
CONNECTIONS = 8


def found(running):
    """What the server says at its start."""
    lines = [json.loads(line) for line in running.log.read_text().splitlines()]
    return next(line["attr"] for line in lines if line["msg"].startswith("Memory and processors"))


def anonymous_bytes(running):
    status = pathlib.Path(f"/proc/{running.process.pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) << 10


def insert(running, number, batches, failures):
    """Inserts documents in batches as long as a driver makes them."""
    try:
        with running.client() as client:
            # What compresses well would not fill anything.
            paddings = [os.urandom(DOCUMENT // 2 - 32).hex() for _ in range(64)]
            collection = client.limits[f"c{number % 2}"]
            for batch in range(batches):
                collection.insert_many([{"p": paddings[i % 64], "n": i, "b": batch} for i in range(BATCH)], ordered=False)
    except Exception as error:  # the test tells it
        failures.append(error)


@pytest.mark.parametrize("limit_mb, batches", [(1024, 1)])
def test_plain_inserts_and_finds_survive_a_small_group(limited, limit_mb, batches):
    running, group = limited(limit_mb * MIB)
    attributes = found(running)
    assert attributes["memoryLimitMb"] == limit_mb and attributes["memoryLimitFile"].startswith(str(group.directory))
    assert attributes["cacheMb"] + 10 * attributes["memtableMb"] < limit_mb * 2 // 3
    with running.client() as client:
        system = client.admin.command("hostInfo")["system"]
        assert system["memLimitMB"] == limit_mb < system["memSizeMB"]
        for number in range(2):
            client.limits[f"c{number}"].create_index("n")
    failures = []
    threads = [
        threading.Thread(target=insert, args=(running, number, batches, failures)) for number in range(CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    peak = 0
    while any(thread.is_alive() for thread in threads):
        threads[0].join(0.1)
        if running.process.poll() is None:
            peak = max(peak, anonymous_bytes(running))
        else:
            break
    for thread in threads:
        thread.join(60)
    assert running.process.poll() is None, f"the server was ended by {running.process.returncode}; {peak >> 20} MiB before"
    assert not failures, failures
    with running.client() as client:
        count = sum(1 for number in range(2) for _ in client.limits[f"c{number}"].find({}, {"n": 1}))
        assert count == CONNECTIONS * batches * BATCH
        assert sum(len(document["p"]) for document in client.limits.c0.find().batch_size(BATCH)) > 0
    print(f"{limit_mb} MiB: {peak >> 20} MiB of anonymous memory at most, {(group.peak or 0) >> 20} with cached files")
    assert peak < limit_mb * MIB * 9 // 10
    assert group.peak is None or group.peak <= limit_mb * MIB
    assert running.stop() == 0
