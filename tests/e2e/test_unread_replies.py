"""Clients that ask for much and read nothing, many of them at once."""

import pathlib
import re
import time

import pytest
from raw_wire import RawConnection

MIB = 1 << 20
CLIENTS = 32
FIND = {"find": "large", "batchSize": 16_000}
AGGREGATE = {"aggregate": "large", "pipeline": [], "cursor": {"batchSize": 16_000}}
BOUND = 64 * MIB


def anonymous_bytes(running):
    status = pathlib.Path(f"/proc/{running.process.pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) << 10


@pytest.mark.parametrize("executor, command", [("auto", FIND), ("auto", AGGREGATE), ("synchronous", FIND)], ids=["find", "aggregate", "threads"])
def test_replies_that_nobody_reads_do_not_fill_the_memory(start_server, executor, command):
    running = start_server("--serviceExecutor", executor, "--setParameter", f"unreadRepliesMaxBytes={BOUND}")
    with running.client() as client:
        client.unread.large.insert_many([{"_id": i, "text": "x" * (MIB // 64)} for i in range(15 * 64)])
        before = anonymous_bytes(running)
        lazy = [RawConnection(running.port) for _ in range(CLIENTS)]
        for connection in lazy:
            connection.send_msg({**command, "$db": "unread"})
        most, slowest = 0, 0.0
        deadline = time.monotonic() + 60
        while True:
            most = max(most, anonymous_bytes(running) - before)
            began = time.monotonic()
            client.admin.command("ping")
            slowest = max(slowest, time.monotonic() - began)
            unread = client.admin.command("serverStatus")["network"]["unreadReplies"]
            assert unread["maxBytes"] == BOUND
            if unread["connectionsEnded"] >= CLIENTS // 4:
                break
            assert time.monotonic() < deadline, unread
            time.sleep(0.02)
        print(f"{executor}: {most >> 20} MiB more at most; a ping took {slowest * 1000:.0f} ms; {unread}")
        # All of them would be 480 MiB; what grows takes as much again for a moment, which the allocator keeps for a while.
        assert unread["bytes"] <= BOUND
        assert most < 4 * BOUND, f"{most >> 20} MiB"
        # Who reads gets everything meanwhile.
        assert sum(1 for _ in client.unread.large.find()) == 15 * 64
        for connection in lazy:
            connection.socket.close()
    assert running.stop() == 0
