"""What is left of a connection when it has ended: nothing, also when its last request had to wait."""

import os
import time

import pytest
from bson import Int64
from raw_wire import EXHAUST_ALLOWED, RawConnection

CONNECTIONS = 60


def ask(raw, command, database="admin"):
    raw.send_msg({**command, "$db": database})
    return raw.receive()[3]


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def say_hello(raw):
    version = ask(raw, {"hello": 1})["topologyVersion"]
    return {"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 10, "$db": "admin"}


def wait_in_hello(raw):
    raw.send_msg(say_hello(raw))
    raw.receive()


def stream_hello(raw):
    raw.send_msg(say_hello(raw), flags=EXHAUST_ALLOWED)
    raw.receive()
    raw.receive()


def wait_for_documents(raw):
    cursor = ask(raw, {"find": "log", "tailable": True, "awaitData": True}, "ends")["cursor"]
    ask(raw, {"getMore": Int64(cursor["id"]), "collection": "log", "maxTimeMS": 10}, "ends")


@pytest.mark.parametrize("waits", [wait_in_hello, stream_hello, wait_for_documents])
def test_a_connection_that_waited_leaves_no_descriptor(server, client, waits):
    client.ends.drop_collection("log")
    client.ends.create_collection("log", capped=True, size=4096).insert_one({})
    before = descriptors(server)
    for _ in range(CONNECTIONS):
        with RawConnection(server.port) as raw:
            waits(raw)
    deadline = time.monotonic() + 20
    # Files of the store come and go.
    while (left := descriptors(server) - before) > CONNECTIONS // 2:
        assert time.monotonic() < deadline, f"{left} descriptors are left of {CONNECTIONS} connections"
        time.sleep(0.05)
    client.ends.drop_collection("log")
