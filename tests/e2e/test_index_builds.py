"""Index builds on one server: killed at any moment, shown in `currentOp`, ended, and beside writers."""

import random
import signal
import threading
import time

import pymongo
import pymongo.errors
import pytest

DOCUMENTS = 60_000


def fill(things, documents=DOCUMENTS):
    for first in range(0, documents, 5_000):
        things.insert_many([{"_id": number, "n": number % 977, "u": number, "tags": [number % 7, number % 11]} for number in range(first, first + 5_000)])


def assert_whole(client):
    report = client.built.command("validate", "things", full=True)
    assert report["valid"], report


def test_a_build_that_is_killed_leaves_a_whole_index_or_none(start_server, tmp_path):
    random.seed(11)
    directory = tmp_path / "data"
    server = start_server(directory=directory)
    with server.client() as client:
        fill(client.built.things)
        began = time.monotonic()
        client.built.things.create_index("n")
        usual = time.monotonic() - began
        client.built.things.drop_index("n_1")
    outcomes = []
    for _ in range(8):
        stop = threading.Event()

        def write(port=server.port):
            with pymongo.MongoClient("127.0.0.1", port) as client:
                numbers = random.Random(5)
                try:
                    while not stop.is_set():
                        number = numbers.randrange(DOCUMENTS)
                        client.built.things.update_one({"_id": number}, {"$set": {"n": numbers.randrange(977)}})
                except pymongo.errors.PyMongoError:
                    pass

        def build(port=server.port):
            with pymongo.MongoClient("127.0.0.1", port) as client:
                try:
                    indexes = [pymongo.IndexModel("n"), pymongo.IndexModel("u", unique=True), pymongo.IndexModel("tags")]
                    client.built.things.create_indexes(indexes)
                except pymongo.errors.PyMongoError:
                    pass

        threads = [threading.Thread(target=write), threading.Thread(target=build)]
        for thread in threads:
            thread.start()
        time.sleep(random.uniform(0, 3 * usual))
        server.stop(signal.SIGKILL)
        stop.set()
        for thread in threads:
            thread.join()
        server = start_server(directory=directory)
        with server.client() as client:
            names = set(client.built.things.index_information())
            assert names in ({"_id_"}, {"_id_", "n_1", "u_1", "tags_1"}), "all of them or none"
            outcomes.append(len(names) > 1)
            assert_whole(client)
            left = directory / "index-builds"
            assert not left.exists() or not list(left.iterdir()), "files of the build are left"
            assert client.built.things.count_documents({}) == DOCUMENTS
            client.built.things.drop_indexes()
    with server.client() as client:
        client.built.things.create_index("n")
        assert_whole(client)


def test_current_op_shows_how_far_a_build_is_and_kill_op_ends_it(start_server):
    server = start_server()
    with server.client() as client:
        things = client.built.things
        fill(things, 200_000)
        outcome = []

        def build():
            try:
                outcome.append(things.create_indexes([pymongo.IndexModel([("tags", 1), ("n", 1), (f"f{number}", 1)]) for number in range(8)]))
            except pymongo.errors.OperationFailure as error:
                outcome.append(error)

        builder = threading.Thread(target=build)
        builder.start()
        shown = []
        while builder.is_alive():
            operations = [op for op in client.admin.command("currentOp")["inprog"] if "createIndexes" in op.get("command", {})]
            shown += [(op["msg"], op["progress"]) for op in operations if "progress" in op]
            if len(shown) >= 3:
                client.admin.command("killOp", op=operations[0]["opid"]) if operations else None
            time.sleep(0.01)
        builder.join()
        assert shown and all(message.startswith("Index Build: ") for message, _ in shown), shown
        assert all(0 <= progress["done"] and progress["total"] > 0 for message, progress in shown if "scanning" in message), shown
        assert isinstance(outcome[0], pymongo.errors.OperationFailure) and outcome[0].code == 11601, outcome
        assert set(things.index_information()) == {"_id_"}
        assert_whole(client)


def test_a_build_ends_with_its_time_limit(start_server):
    server = start_server()
    with server.client() as client:
        fill(client.built.things)
        with pytest.raises(pymongo.errors.ExecutionTimeout):
            client.built.command("createIndexes", "things", indexes=[{"key": {"n": 1, f"f{number}": 1}, "name": f"f{number}"} for number in range(12)], maxTimeMS=20)
        assert set(client.built.things.index_information()) == {"_id_"}
        assert_whole(client)
