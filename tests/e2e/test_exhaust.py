"""Exhaust cursors: one getMore, and the batches follow each other until the cursor is closed."""

import itertools
import struct
import threading
import time

import bson
import pytest
from bson import Int64
from pymongo.cursor import CursorType
from raw_wire import EXHAUST_ALLOWED, MORE_TO_COME, RawConnection

_numbers = itertools.count()
MEGABYTE = "x" * (1 << 20)


@pytest.fixture
def collection(client):
    collection = client.exhaust[f"c{next(_numbers)}"]
    yield collection
    collection.drop()


@pytest.fixture
def raw(server):
    with RawConnection(server.port, timeout=30) as connection:
        yield connection


def filled(collection, documents, **fields):
    for first in range(0, documents, 40):
        last = min(first + 40, documents)
        collection.insert_many([{"_id": number, **fields} for number in range(first, last)])
    return collection


def ask(raw, command, database="exhaust"):
    raw.send_msg({**command, "$db": database})
    return raw.receive()[3]


def receive(raw):
    """The number of the next message, the flags, what it answers, and its document."""
    length, number, response_to, _ = struct.unpack("<iiii", raw.receive_exactly(16))
    payload = raw.receive_exactly(length - 16)
    (flags,) = struct.unpack_from("<I", payload)
    return number, flags, response_to, bson.decode(payload[5:])


def begin(raw, collection, batch_size=10, flags=EXHAUST_ALLOWED, **find):
    """Opens a cursor and asks for everything that is left of it."""
    cursor = ask(raw, {"find": collection.name, "batchSize": batch_size, **find})["cursor"]
    more = {"getMore": Int64(cursor["id"]), "collection": collection.name, "batchSize": batch_size, "$db": "exhaust"}
    return cursor["id"], raw.send_msg(more, flags=flags)


def open_cursors(client):
    return client.admin.command("serverStatus")["metrics"]["cursor"]["open"]["total"]


def eventually(condition, what):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_one_request_brings_all_batches(raw, collection):
    filled(collection, 95)
    cursor, expected = begin(raw, collection)
    seen, batches = 10, 0
    while True:
        number, flags, response_to, reply = receive(raw)
        assert response_to == expected, "each reply answers the one before"
        assert reply["cursor"]["ns"] == collection.full_name
        seen += len(reply["cursor"]["nextBatch"])
        batches += 1
        if not flags & MORE_TO_COME:
            break
        assert reply["cursor"]["id"] == cursor
        expected = number
    assert (reply["cursor"]["id"], seen, batches) == (0, 95, 9)
    assert ask(raw, {"ping": 1})["ok"] == 1.0, "the connection goes on"


def test_without_the_flag_one_batch_comes(raw, collection):
    filled(collection, 95)
    cursor, _ = begin(raw, collection, flags=0)
    _, flags, _, reply = receive(raw)
    assert not flags & MORE_TO_COME and reply["cursor"]["id"] == cursor and len(reply["cursor"]["nextBatch"]) == 10
    assert ask(raw, {"ping": 1})["ok"] == 1.0, "nothing follows unasked"
    ask(raw, {"killCursors": collection.name, "cursors": [Int64(cursor)]})


def test_an_error_ends_the_stream(raw, collection):
    raw.send_msg({"getMore": Int64(1), "collection": collection.name, "$db": "exhaust"}, flags=EXHAUST_ALLOWED)
    _, flags, _, reply = receive(raw)
    assert not flags & MORE_TO_COME and reply["code"] == 43


@pytest.mark.parametrize("options", [{}, {"compressors": "zlib"}])
def test_driver(server, client, collection, options):
    filled(collection, 500, pad="x" * 1000)
    with server.client(maxPoolSize=1, **options) as one:
        for batch_size in (0, 7, 100):
            cursor = one.exhaust[collection.name].find(cursor_type=CursorType.EXHAUST, batch_size=batch_size)
            assert [document["_id"] for document in cursor] == list(range(500))
            # The pool of one has its connection back.
            assert one.admin.command("ping")["ok"] == 1.0
        limited = one.exhaust[collection.name].find({"_id": {"$gte": 450}}, cursor_type=CursorType.EXHAUST, batch_size=7)
        assert len(list(limited)) == 50


def test_a_driver_that_stops_in_the_middle(server, client, collection):
    filled(collection, 200, pad="x" * 10_000)
    before = open_cursors(client)
    with server.client(maxPoolSize=1) as one:
        for _ in range(3):
            cursor = one.exhaust[collection.name].find(cursor_type=CursorType.EXHAUST, batch_size=5)
            assert [next(cursor)["_id"] for _ in range(12)] == list(range(12))
            cursor.close()
            assert one.admin.command("ping")["ok"] == 1.0
    eventually(lambda: open_cursors(client) <= before, "cursors of streams that nobody reads stay open")


def test_a_killed_cursor_ends_the_stream(raw, client, collection):
    name = f"log{next(_numbers)}"
    log = client.exhaust.create_collection(name, capped=True, size=1 << 20)
    log.insert_many([{"_id": number} for number in range(3)])
    cursor, _ = begin(raw, log, tailable=True, awaitData=True)
    _, flags, _, reply = receive(raw)
    assert flags & MORE_TO_COME and reply["cursor"]["id"] == cursor
    # What is inserted comes unasked.
    log.insert_one({"_id": 3})
    seen = list(reply["cursor"]["nextBatch"])
    while not seen:
        seen += receive(raw)[3]["cursor"]["nextBatch"]
    assert seen == [{"_id": 3}]
    client.exhaust.command({"killCursors": name, "cursors": [Int64(cursor)]})
    while True:
        _, flags, _, reply = receive(raw)
        if not flags & MORE_TO_COME:
            break
    assert reply["ok"] == 0.0 and reply["code"] in (43, 237), reply
    assert ask(raw, {"ping": 1})["ok"] == 1.0, "the connection goes on"
    client.exhaust.drop_collection(name)


def test_a_kill_reaches_a_get_more_that_waits(server, client, collection):
    """Not only between batches: a client that closes its cursor does not wait for the end of the waiting."""
    name = f"log{next(_numbers)}"
    log = client.exhaust.create_collection(name, capped=True, size=1 << 20)
    log.insert_one({})
    with RawConnection(server.port, timeout=30) as raw:
        cursor = ask(raw, {"find": name, "tailable": True, "awaitData": True})["cursor"]["id"]
        raw.send_msg({"getMore": Int64(cursor), "collection": name, "maxTimeMS": 25_000, "$db": "exhaust"})
        waits = {"currentOp": 1, "ns": log.full_name, "op": "getmore"}
        eventually(lambda: client.admin.command(waits)["inprog"], "the getMore does not show in currentOp")
        began = time.monotonic()
        assert client.exhaust.command({"killCursors": name, "cursors": [Int64(cursor)]})["cursorsKilled"] == [cursor]
        reply = raw.receive()[3]
        assert reply["code"] == 237 and time.monotonic() - began < 15, reply
    log.drop()


def test_a_dropped_collection_ends_the_stream(raw, client, collection):
    name = f"log{next(_numbers)}"
    client.exhaust.create_collection(name, capped=True, size=1 << 20).insert_one({})
    begin(raw, client.exhaust[name], tailable=True, awaitData=True)
    assert receive(raw)[1] & MORE_TO_COME
    client.exhaust.drop_collection(name)
    while True:
        _, flags, _, reply = receive(raw)
        if not flags & MORE_TO_COME:
            break
    assert reply["ok"] == 0.0, reply


def resident_bytes(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        (line,) = (line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def test_who_does_not_read_costs_one_batch(server, client, collection):
    """The server makes the next batch when the last one has left: streams that nobody reads neither fill the memory nor hold up others."""
    filled(collection, 160, pad=MEGABYTE)
    list(collection.find({}, {"_id": 1}))
    before, cursors = resident_bytes(server), open_cursors(client)
    silent = [RawConnection(server.port, timeout=30) for _ in range(4)]
    try:
        for raw in silent:
            begin(raw, collection, batch_size=8)
        slowest = 0.0
        for _ in range(40):
            began = time.monotonic()
            client.admin.command("ping")
            assert client.exhaust[collection.name].find_one({"_id": 1}, {"_id": 1})
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.02)
        grown = resident_bytes(server) - before
        assert grown < 4 * (48 << 20), f"{grown >> 20} MiB more for four streams of 160 MiB"
        assert slowest < 5, f"others waited {slowest:.1f} s"
        assert open_cursors(client) == cursors + 4
    finally:
        for raw in silent:
            raw.close()
    eventually(lambda: open_cursors(client) == cursors, "the cursors of closed streams stay open")


def test_streams_of_many_clients(server, client, collection):
    filled(collection, 60, pad="x" * 100_000)
    counts, errors = [], []

    def read():
        try:
            with server.client() as one:
                cursor = one.exhaust[collection.name].find(cursor_type=CursorType.EXHAUST, batch_size=3)
                counts.append(sum(1 for _ in cursor))
        except Exception as error:  # the thread's own failure is the test's
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        began = time.monotonic()
        client.admin.command("ping")
        assert time.monotonic() - began < 5, "a ping waits for streams"
        time.sleep(0.02)
    assert not errors and counts == [60] * 8
