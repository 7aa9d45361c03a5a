"""Documents that expire by TTL indexes, as pymongo sees them."""

import datetime
import json
import threading
import time

import pymongo
import pymongo.errors
import pytest
from pymongo import ASCENDING, DESCENDING

from expiry import QUICK, ago, now
from replica_set import FAST, ReplicaSet, eventually
from server_process import Server

SECONDS = 30


def status(client, *names):
    figures = client.admin.command("serverStatus")
    for name in names:
        figures = figures[name]
    return figures


def ttl(client):
    return status(client, "metrics", "ttl")


def wait_for_passes(client, count=2, seconds=SECONDS):
    """Until a pass has ended that began after this: one that runs may have begun before."""
    before = ttl(client)["passes"]
    eventually("passes", lambda: ttl(client)["passes"] >= before + count, seconds)


def ids(collection):
    return [document["_id"] for document in collection.find(sort=[("_id", 1)])]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A client of a server whose monitor sleeps for a second only."""
    server = Server(tmp_path_factory.mktemp("ttl") / "data", *QUICK).wait_until_it_answers()
    with server.client() as client:
        yield client
    assert server.stop() == 0, server.log.read_text()[-4000:]


@pytest.mark.parametrize("direction", [ASCENDING, DESCENDING])
def test_what_goes_and_what_stays(quick, direction):
    collection = quick["ttl"][f"kinds{direction}"]
    collection.create_index([("at", direction)], expireAfterSeconds=60)
    goes = [ago(61), ago(10**6), datetime.datetime(1, 1, 1), [ago(0), ago(61)], ["text", ago(100)]]
    stays = [ago(0), ago(-3600), [ago(0), ago(10)], [], None, 0, "1970-01-01", {"at": ago(100)}, float("nan"), True]
    collection.insert_many([{"_id": f"goes{number}", "at": at} for number, at in enumerate(goes)])
    collection.insert_many([{"_id": f"stays{number}", "at": at} for number, at in enumerate(stays)])
    collection.insert_one({"_id": "without"})
    wait_for_passes(quick)
    assert ids(collection) == sorted([f"stays{number}" for number in range(len(stays))] + ["without"])
    assert quick["ttl"].command("validate", collection.name, full=True)["valid"]


def test_a_date_as_the_time_itself(quick):
    collection = quick["ttl"]["clock"]
    collection.create_index("at", expireAfterSeconds=0)
    soon = now() + datetime.timedelta(seconds=3)
    collection.insert_many([{"_id": "soon", "at": soon}, {"_id": "late", "at": ago(-600)}])
    wait_for_passes(quick, 1)
    if now() < soon:
        assert "soon" in ids(collection)
    eventually("the time has come", lambda: ids(collection) == ["late"])
    assert now() > soon


def test_a_partial_index(quick):
    collection = quick["ttl"]["partial"]
    collection.create_index("at", expireAfterSeconds=1, partialFilterExpression={"state": "done"})
    collection.insert_many([{"_id": number, "at": ago(60), "state": "done" if number % 2 else "open"} for number in range(10)])
    wait_for_passes(quick)
    assert ids(collection) == [0, 2, 4, 6, 8]
    collection.update_one({"_id": 4}, {"$set": {"state": "done"}})
    wait_for_passes(quick)
    assert ids(collection) == [0, 2, 6, 8]


def test_a_sparse_and_a_unique_index(quick):
    collection = quick["ttl"]["unique"]
    collection.create_index("at", expireAfterSeconds=1, unique=True, sparse=True)
    at = ago(60)
    collection.insert_many([{"_id": 0, "at": at}, {"_id": 1}, {"_id": 2}])
    wait_for_passes(quick)
    assert ids(collection) == [1, 2]
    collection.insert_one({"_id": 3, "at": at})


def test_coll_mod_works_at_once(quick):
    database = quick["ttl"]
    collection = database["changed"]
    collection.create_index("at", expireAfterSeconds=3600)
    collection.create_index("other")
    collection.insert_many([{"_id": 0, "at": ago(600), "other": ago(5)}, {"_id": 1, "at": ago(10), "other": ago(100)}, {"_id": 2, "other": ago(-60)}])
    wait_for_passes(quick)
    assert ids(collection) == [0, 1, 2]
    reply = database.command("collMod", "changed", index={"keyPattern": {"at": 1}, "expireAfterSeconds": 60})
    assert (reply["expireAfterSeconds_old"], reply["expireAfterSeconds_new"]) == (3600, 60)
    wait_for_passes(quick)
    assert ids(collection) == [1, 2]
    reply = database.command("collMod", "changed", index={"name": "other_1", "expireAfterSeconds": 50})
    assert "expireAfterSeconds_old" not in reply and reply["expireAfterSeconds_new"] == 50
    wait_for_passes(quick)
    assert ids(collection) == [2]
    assert collection.index_information()["other_1"]["expireAfterSeconds"] == 50


def test_what_is_refused(quick):
    database = quick["ttl"]
    database.create_collection("capped", capped=True, size=10_000)

    def refuses(code, make):
        with pytest.raises(pymongo.errors.OperationFailure) as raised:
            make()
        assert raised.value.code == code, raised.value

    refuses(67, lambda: database["refused"].create_index([("a", 1), ("b", 1)], expireAfterSeconds=1))
    refuses(67, lambda: database["refused"].create_index("a", expireAfterSeconds=-1))
    refuses(67, lambda: database["refused"].create_index("a", expireAfterSeconds=2**31))
    refuses(67, lambda: database["refused"].create_index("a", expireAfterSeconds="1"))
    refuses(197, lambda: database["refused"].create_index("_id", expireAfterSeconds=1))
    refuses(67, lambda: database["capped"].create_index("a", expireAfterSeconds=1))
    database["capped"].create_index("a")
    refuses(72, lambda: database.command("collMod", "capped", index={"keyPattern": {"a": 1}, "expireAfterSeconds": 1}))
    database["refused"].create_index([("a", 1), ("b", 1)])
    refuses(72, lambda: database.command("collMod", "refused", index={"keyPattern": {"a": 1, "b": 1}, "expireAfterSeconds": 1}))
    refuses(72, lambda: database.command("collMod", "refused", index={"keyPattern": {"_id": 1}, "expireAfterSeconds": 1}))
    database["refused"].create_index("never", expireAfterSeconds=2**31 - 1)


def test_nothing_but_what_expires_is_looked_at(quick):
    """It is no scan, and what is deleted is walked over once."""
    collection = quick["ttl"]["large"]
    collection.create_index("at", expireAfterSeconds=3600)
    collection.insert_many([{"at": ago(0)} for _ in range(20_000)])
    quick.admin.command("setParameter", 1, ttlIndexDeleteTargetDocs=100)
    wait_for_passes(quick)
    before, work = status(quick), status(quick, "heddle", "ttl")
    collection.insert_many([{"at": ago(3700 + number)} for number in range(1_000)])
    eventually("they are gone", lambda: collection.count_documents({}) == 20_000)
    wait_for_passes(quick)
    after, worked = status(quick), status(quick, "heddle", "ttl")
    quick.admin.command("setParameter", 1, ttlIndexDeleteTargetDocs=50_000)
    assert after["metrics"]["ttl"]["deletedDocuments"] - before["metrics"]["ttl"]["deletedDocuments"] == 1_000
    assert worked["examinedKeys"] - work["examinedKeys"] == 1_000
    assert worked["examinedDocuments"] - work["examinedDocuments"] == 1_000
    # No client has deleted anything.
    assert after["opcounters"]["delete"] == before["opcounters"]["delete"]
    assert after["metrics"]["document"]["deleted"] == before["metrics"]["document"]["deleted"]


def test_a_large_index_does_not_keep_a_small_one_waiting(quick):
    quick.admin.command("setParameter", 1, ttlIndexDeleteTargetDocs=500)
    large, small = quick["ttl"]["backlog"], quick["ttl"]["small"]
    quick.admin.command("setParameter", 1, ttlMonitorEnabled=False)
    large.create_index("at", expireAfterSeconds=1)
    small.create_index("at", expireAfterSeconds=1)
    for _ in range(4):
        large.insert_many([{"at": ago(60)} for _ in range(10_000)])
    small.insert_many([{"at": ago(60)} for _ in range(10)])
    quick.admin.command("setParameter", 1, ttlMonitorEnabled=True)
    eventually("the small one is done", lambda: small.count_documents({}) == 0, pause=0.01)
    assert large.count_documents({}) > 0, "the large one was done first"
    eventually("the large one is done", lambda: large.count_documents({}) == 0)
    quick.admin.command("setParameter", 1, ttlIndexDeleteTargetDocs=50_000)


def test_parameters(start_server):
    server = start_server()
    with server.client() as client:
        defaults = {
            "ttlIndexDeleteTargetDocs": 50_000, "ttlIndexDeleteTargetTimeMS": 1_000, "ttlMonitorBatchDeletes": True,
            "ttlMonitorEnabled": True, "ttlMonitorSleepSecs": 60, "ttlMonitorSubPassTargetSecs": 60,
        }
        told = client.admin.command({"getParameter": 1, **dict.fromkeys(defaults, 1)})
        assert {name: told[name] for name in defaults} == defaults
        with pytest.raises(pymongo.errors.OperationFailure):
            client.admin.command("setParameter", 1, ttlMonitorSleepSecs=0)
        collection = client["ttl"]["c"]
        collection.create_index("at", expireAfterSeconds=1)
        collection.insert_one({"at": ago(60)})
        # The monitor, which sleeps for a minute, hears of it.
        client.admin.command("setParameter", 1, ttlMonitorSleepSecs=1)
        eventually("it is gone", lambda: collection.count_documents({}) == 0, 10)
        client.admin.command("setParameter", 1, ttlMonitorEnabled=False)
        time.sleep(0.1)
        collection.insert_one({"at": ago(60)})
        passes = ttl(client)["passes"]
        time.sleep(2.5)
        assert (collection.count_documents({}), ttl(client)["passes"]) == (1, passes)
        client.admin.command("setParameter", 1, ttlMonitorEnabled=True)
        eventually("it is gone", lambda: collection.count_documents({}) == 0, 10)
    assert server.stop() == 0
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]
    told = [line["attr"] for line in lines if line["id"] == 5479208]
    assert [line["numDeleted"] for line in told] == [1, 1], told


def test_what_is_dropped_in_the_middle(quick):
    """Collections and indexes come and go while passes run."""
    quick.admin.command("setParameter", 1, ttlIndexDeleteTargetDocs=50)
    database = quick["ttl_dropped"]
    ended = time.monotonic() + 6

    def come_and_go(number):
        collection = database[f"c{number}"]
        while time.monotonic() < ended:
            collection.insert_many([{"at": ago(60)} for _ in range(400)])
            collection.create_index("at", expireAfterSeconds=1)
            time.sleep(0.2)
            if number % 2:
                collection.drop_index("at_1")
            else:
                collection.drop()

    threads = [threading.Thread(target=come_and_go, args=(number,)) for number in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    wait_for_passes(quick)
    for name in database.list_collection_names():
        assert database.command("validate", name, full=True)["valid"], name
    assert status(quick, "asserts")["regular"] == 0
    quick.admin.command("setParameter", 1, ttlIndexDeleteTargetDocs=50_000)


def fill(collection, count):
    at = ago(60)
    for first in range(0, count, 10_000):
        collection.insert_many([{"_id": number, "at": at, "text": "x" * 50} for number in range(first, first + 10_000)])


def test_killed_in_the_middle_of_a_pass(start_server):
    """What was deleted is deleted, and the rest goes after the next start."""
    count = 200_000
    server = start_server("--setParameter", "ttlMonitorEnabled=false", *QUICK)
    with server.client() as client:
        collection = client["ttl"]["c"]
        collection.create_index("at", expireAfterSeconds=1)
        fill(collection, count)
        collection.insert_many([{"_id": count + number, "at": ago(-3600)} for number in range(100)])
        client.admin.command("fsync")
        client.admin.command("setParameter", 1, ttlMonitorEnabled=True)
        eventually("it deletes", lambda: 0 < ttl(client)["deletedDocuments"] < count, pause=0.005)
        server.process.kill()
        server.process.wait()
    again = start_server(*QUICK, "--setParameter", "ttlMonitorEnabled=false", directory=server.directory)
    with again.client() as client:
        collection = client["ttl"]["c"]
        left = collection.count_documents({})
        assert 100 < left < count + 100, f"{left} are left: the kill was not in the middle"
        assert client["ttl"].command("validate", "c", full=True)["valid"]
        client.admin.command("setParameter", 1, ttlMonitorEnabled=True)
        eventually("the rest goes", lambda: collection.count_documents({}) == 100, 120)
        assert client["ttl"].command("validate", "c", full=True)["valid"]
        assert ttl(client)["deletedDocuments"] == left - 100


def test_a_stop_in_the_middle_of_a_pass(start_server):
    server = start_server("--setParameter", "ttlMonitorEnabled=false", *QUICK)
    with server.client() as client:
        collection = client["ttl"]["c"]
        collection.create_index("at", expireAfterSeconds=1)
        fill(collection, 100_000)
        client.admin.command("setParameter", 1, ttlMonitorEnabled=True)
        eventually("it deletes", lambda: ttl(client)["deletedDocuments"] > 0, pause=0.005)
    asked = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - asked < 10


@pytest.fixture
def expiring(tmp_path):
    """A replica set of three whose monitors sleep for a second."""
    members = ReplicaSet(tmp_path, 3, *QUICK, settings=FAST)
    yield members
    members.kill_all()


def test_only_the_primary_deletes(expiring):
    with expiring.client() as client:
        collection = client["ttl"]["c"]
        collection.create_index("at", expireAfterSeconds=1)
        collection.insert_many([{"_id": number, "at": ago(60 if number % 2 else -600)} for number in range(2_000)])
        eventually("the odd ones are gone", lambda: collection.count_documents({}) == 1_000)
        log = client["local"]["oplog.rs"]
        inner = [operation for entry in log.find({"op": "c", "o.applyOps": {"$exists": True}}) for operation in entry["o"]["applyOps"]]
        deleted = [operation for operation in [*inner, *log.find({"op": "d"})] if operation["op"] == "d" and operation["ns"] == "ttl.c"]
        assert sorted(operation["o"]["_id"] for operation in deleted) == list(range(1, 2_000, 2))
    expiring.assert_members_are_equal()
    for member in expiring.secondaries():
        with expiring.direct(member) as direct:
            assert ttl(direct)["deletedDocuments"] == 0 and ttl(direct)["passes"] == 0
            assert ids(direct["ttl"].get_collection("c", read_preference=pymongo.ReadPreference.SECONDARY)) == list(range(0, 2_000, 2))
    # What is a member's expires nowhere else: its data would be others than those of the set.
    away = expiring.secondaries()[0]
    assert away.stop() == 0
    alone = Server(away.directory, *QUICK).wait_until_it_answers()
    try:
        with alone.client() as client:
            client["ttl"]["c"].insert_one({"_id": "expired", "at": ago(60)})
            time.sleep(3)
            assert client["ttl"]["c"].count_documents({}) == 1_001 and ttl(client)["passes"] == 0
    finally:
        alone.process.kill()
        alone.process.wait()


def test_steps_down_in_the_middle_of_a_pass(expiring):
    count = 60_000
    with expiring.client() as client:
        client_of_all = client["ttl"]["c"]
        client_of_all.create_index("at", expireAfterSeconds=1)
        for member in expiring.members:
            with expiring.direct(member) as direct:
                direct.admin.command("setParameter", 1, ttlMonitorEnabled=False)
        fill(client_of_all, count)
        for member in expiring.members:
            with expiring.direct(member) as direct:
                direct.admin.command("setParameter", 1, ttlMonitorEnabled=True)
        first = expiring.primary()
        with expiring.direct(first) as direct:
            eventually("it deletes", lambda: 0 < ttl(direct)["deletedDocuments"] < count, pause=0.005)
            direct.admin.command("replSetStepDown", 30, secondaryCatchUpPeriodSecs=10)
            deleted = ttl(direct)["deletedDocuments"]
            second = expiring.primary(other_than=first)
            eventually("the next one goes on", lambda: client_of_all.count_documents({}) == 0, 120)
            assert deleted < count and ttl(direct)["deletedDocuments"] <= deleted + 2_048
            assert status(direct, "asserts")["regular"] == 0
        with expiring.direct(second) as direct:
            assert ttl(direct)["deletedDocuments"] > 0
    expiring.assert_members_are_equal()
    expiring.index_keys(second)
