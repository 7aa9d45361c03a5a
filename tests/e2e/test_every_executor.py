"""The core of what clients do, under every thread model."""

import threading

import pymongo
import pytest
from pymongo import DeleteOne, InsertOne, UpdateOne
from raw_wire import RawConnection

EXECUTORS = ["synchronous", "adaptive", "reactor", "auto"]
STATISTICS = {"synchronous": "passthrough", "auto": "coroutine"}


@pytest.fixture(scope="module", params=EXECUTORS)
def executor(request):
    return request.param


@pytest.fixture(scope="module")
def modelled(executor, tmp_path_factory):
    from server_process import Server

    running = Server(tmp_path_factory.mktemp(executor) / "data", "--serviceExecutor", executor).wait_until_it_answers()
    yield running
    assert running.stop() == 0, f"{executor} must end cleanly:\n{running.log.read_text()[-4000:]}"


@pytest.fixture
def collection(modelled, request):
    with modelled.client() as client:
        collection = client["executors"][request.node.originalname]
        collection.drop()
        yield collection


def test_the_model_serves(modelled, executor):
    with modelled.client() as client:
        client.test.c.find_one({})
        network = client.admin.command("serverStatus")["network"]
    assert client and network["numRequests"] > 0
    expected = STATISTICS.get(executor, executor)
    assert network["serviceExecutorTaskStats"]["executor"] == expected
    assert expected in network["serviceExecutors"]


def test_documents_come_and_go(collection):
    collection.insert_many({"_id": number, "k": number % 10} for number in range(1_000))
    assert collection.find_one({"_id": 7}) == {"_id": 7, "k": 7}
    assert collection.count_documents({"k": 3}) == 100
    assert collection.update_many({"k": 3}, {"$set": {"seen": True}}).modified_count == 100
    assert collection.find_one_and_update({"_id": 5}, {"$inc": {"k": 1}}, return_document=True)["k"] == 6
    assert collection.delete_many({"k": {"$gte": 5}}).deleted_count == 500
    assert collection.estimated_document_count() == 500
    assert sorted(collection.distinct("k")) == [0, 1, 2, 3, 4]


def test_cursors_and_sorts(collection):
    collection.insert_many({"_id": number, "v": -number, "pad": "x" * 200} for number in range(5_000))
    assert [one["_id"] for one in collection.find().batch_size(7).limit(100)] == list(range(100))
    assert [one["_id"] for one in collection.find().sort("v", 1).limit(3)] == [4999, 4998, 4997]
    collection.create_index("v")
    assert [one["_id"] for one in collection.find({"v": {"$gt": -5}}).sort("v", -1)] == [0, 1, 2, 3, 4]
    total = list(collection.aggregate([{"$group": {"_id": None, "sum": {"$sum": "$v"}}}]))
    assert total == [{"_id": None, "sum": -sum(range(5_000))}]


def test_exhaust_cursors(collection):
    collection.insert_many({"_id": number, "pad": "x" * 5_000} for number in range(600))
    for batch_size in (1, 50, 0):
        cursor = collection.find(cursor_type=pymongo.CursorType.EXHAUST, batch_size=batch_size)
        assert [one["_id"] for one in cursor] == list(range(600))
    stopped = collection.find(cursor_type=pymongo.CursorType.EXHAUST, batch_size=5)
    assert next(stopped)["_id"] == 0
    stopped.close()
    assert collection.count_documents({}) == 600


def test_bulk_writes_in_their_order(collection):
    operations = [InsertOne({"_id": number}) for number in range(200)]
    operations += [UpdateOne({"_id": number}, {"$set": {"v": number}}) for number in range(200)]
    operations += [DeleteOne({"_id": number}) for number in range(0, 200, 2)]
    result = collection.bulk_write(operations)
    assert (result.inserted_count, result.modified_count, result.deleted_count) == (200, 200, 100)
    assert [one["v"] for one in collection.find().sort("_id", 1)] == list(range(1, 200, 2))


def test_journaled_writes_and_unique_keys(collection):
    journaled = collection.with_options(write_concern=pymongo.WriteConcern(j=True))
    journaled.create_index("u", unique=True)
    journaled.insert_one({"_id": 1, "u": 1})
    with pytest.raises(pymongo.errors.DuplicateKeyError):
        journaled.insert_one({"_id": 2, "u": 1})
    assert collection.count_documents({}) == 1


def test_counters_that_many_clients_share(modelled, collection):
    collection.insert_one({"_id": "counter", "n": 0})
    failures = []

    def count():
        try:
            with modelled.client() as client:
                own = client["executors"][collection.name]
                for _ in range(100):
                    own.update_one({"_id": "counter"}, {"$inc": {"n": 1}})
        except pymongo.errors.PyMongoError as error:
            failures.append(error)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert collection.find_one({"_id": "counter"})["n"] == 800


def test_pipelined_requests_are_answered_in_order(modelled, collection):
    collection.insert_many({"_id": number} for number in range(3_000))
    with RawConnection(modelled.port, timeout=30) as raw:
        expected = []
        for number in range(300):
            command = {"count": collection.name, "query": {"no": 1}} if number % 50 == 0 else {"find": collection.name, "filter": {"_id": number}}
            expected.append((raw.send_msg({**command, "$db": "executors"}), number))
        for request, number in expected:
            _, _, response_to, reply = raw.receive()
            assert response_to == request and reply["ok"] == 1.0
            if number % 50:
                assert reply["cursor"]["firstBatch"] == [{"_id": number}]


def test_waiting_for_documents_and_being_killed(modelled, collection):
    collection.database.create_collection(collection.name, capped=True, size=100_000)
    collection.insert_one({"_id": 0})
    found = []
    cursor = collection.find(cursor_type=pymongo.CursorType.TAILABLE_AWAIT)
    assert next(cursor) == {"_id": 0}
    waiting = threading.Thread(target=lambda: found.append(next(cursor)))
    waiting.start()
    collection.insert_one({"_id": 1})
    waiting.join(10)
    assert found == [{"_id": 1}]
    cursor.close()
    with modelled.client() as client:
        operations = client.admin.command("currentOp")["inprog"]
    assert operations, "currentOp tells itself at least"
