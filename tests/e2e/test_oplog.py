"""`local.oplog.rs` as clients read it."""

import threading
import time

import bson
import pymongo
import pymongo.errors
import pytest
from replica_set import ReplicaSet, eventually


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    running = ReplicaSet(tmp_path_factory.mktemp("set"), 1, "--oplogSize", "2")
    with running.client() as client:
        yield client
    assert running.stop() == [0]


@pytest.fixture
def oplog(client):
    return client.local["oplog.rs"]


def latest(oplog):
    return oplog.find().sort("$natural", -1).limit(1).next()


def test_it_has_what_was_done_in_its_order(client, oplog):
    before = latest(oplog)["ts"]
    things = client.oplog_test.things
    things.insert_one({"_id": 1, "a": 1})
    things.update_one({"_id": 1}, {"$set": {"a": 2}})
    things.delete_one({"_id": 1})
    found = list(oplog.find({"ts": {"$gt": before}, "ns": "oplog_test.things"}))
    assert [entry["op"] for entry in found] == ["i", "u", "d"]
    assert found[0]["o"] == {"_id": 1, "a": 1} and found[0]["o2"] == {"_id": 1}
    assert all(entry["v"] == 2 and "wall" in entry and "ui" in entry for entry in found)
    places = [(entry["ts"], entry["t"]) for entry in oplog.find()]
    assert places == sorted(set(places))


def test_a_timestamp_is_sought(client, oplog):
    client.oplog_test.many.insert_many([{"_id": number} for number in range(500)])
    for number in range(20):
        client.oplog_test.many.update_one({"_id": number}, {"$set": {"a": number}})
    since = list(oplog.find().sort("$natural", -1).limit(5))[-1]["ts"]
    explained = client.local.command(
        "explain", {"find": "oplog.rs", "filter": {"ts": {"$gte": since}}}, verbosity="executionStats"
    )["executionStats"]
    assert explained["nReturned"] >= 5 and explained["totalDocsExamined"] < 20


def test_who_tails_it_is_woken(client, oplog):
    cursor = oplog.find(
        {"ts": {"$gt": latest(oplog)["ts"]}, "ns": "oplog_test.tailed"},
        cursor_type=pymongo.CursorType.TAILABLE_AWAIT,
    ).max_await_time_ms(20_000)
    writer = threading.Timer(0.3, lambda: client.oplog_test.tailed.insert_one({"_id": "new"}))
    writer.start()
    began = time.monotonic()
    entry = eventually("the entry", lambda: next(cursor, None), 30)
    writer.join()
    assert entry["o"] == {"_id": "new"} and time.monotonic() - began < 15


def test_its_figures(client, oplog):
    stats = client.local.command("collStats", "oplog.rs")
    assert stats["capped"] is True and stats["maxSize"] == 2 << 20 and stats["nindexes"] == 0
    assert stats["count"] > 0 and stats["size"] > 0
    listed = {one["name"]: one for one in client.local.list_collections()}["oplog.rs"]
    assert listed["options"]["capped"] is True and listed["options"]["size"] == 2 << 20


@pytest.mark.parametrize(
    "command, code",
    [
        ({"insert": "oplog.rs", "documents": [{"a": 1}]}, 73),
        ({"update": "oplog.rs", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]}, 73),
        ({"delete": "oplog.rs", "deletes": [{"q": {}, "limit": 0}]}, 73),
        ({"drop": "oplog.rs"}, 5255000),
        ({"dropDatabase": 1}, 20),
        ({"createIndexes": "oplog.rs", "indexes": [{"key": {"a": 1}, "name": "a"}]}, 67),
    ],
)
def test_clients_do_not_change_it(client, command, code):
    with pytest.raises(pymongo.errors.OperationFailure) as refused:
        client.local.command(command)
    assert refused.value.code == code


def test_the_oldest_go_and_another_size_is_kept(client, oplog):
    first = oplog.find().sort("$natural", 1).limit(1).next()["ts"]
    for number in range(5):
        client.oplog_test.large.insert_many([{"text": "x" * 1_000} for _ in range(1_000)])
    eventually("room", lambda: client.local.command("collStats", "oplog.rs")["size"] < 3 << 20)
    assert oplog.find().sort("$natural", 1).limit(1).next()["ts"] > first
    assert oplog.count_documents({}) > 0
    client.admin.command({"replSetResizeOplog": 1, "size": bson.Int64(990), "minRetentionHours": 2.0})
    assert client.local.command("collStats", "oplog.rs")["maxSize"] == 990 << 20
