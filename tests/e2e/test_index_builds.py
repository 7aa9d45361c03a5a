"""Index builds on one server: killed at any moment, shown in `currentOp`, ended, and beside writers."""

import random
import signal
import threading
import time

import pymongo
import pymongo.errors
import pytest
from replica_set import eventually

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
            # It goes on by itself, beside writers.
            for number in range(500):
                client.built.things.update_one({"_id": number * 7}, {"$set": {"n": number % 977}})
            left = directory / "index-builds"
            eventually("the build is over", lambda: not left.exists() or not list(left.iterdir()), 60)
            names = set(client.built.things.index_information())
            assert names in ({"_id_"}, {"_id_", "n_1", "u_1", "tags_1"}), "all of them or none"
            outcomes.append(len(names) > 1)
            assert_whole(client)
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


def resumer(client):
    """The build that goes on in the background."""
    running = client.admin.command({"currentOp": 1, "desc": "IndexBuildResumer"})["inprog"]
    return running[0] if running else None


def test_a_build_goes_on_behind_what_it_has_scanned(limited):  # noqa: F811
    """Little memory, so that runs are on the disk, and a rate that makes it last."""
    server, group = limited(384 << 20)
    documents = 250_000
    with server.client() as client:
        things = client.built.things
        for first in range(0, documents, 10_000):
            things.insert_many([{"_id": number, "n": number * 7919 % documents, "u": f"{number * 7919 % documents:040}"} for number in range(first, first + 10_000)])
        client.admin.command("setCalendar", 1, indexBuilds={"documentsPerSecond": 60_000})

        def build():
            with server.client() as other:
                try:
                    other.built.things.create_indexes([pymongo.IndexModel("n"), pymongo.IndexModel("u", unique=True)])
                except pymongo.errors.PyMongoError:
                    pass

        builder = threading.Thread(target=build)
        builder.start()
        done = lambda: max([op["progress"]["done"] for op in client.admin.command("currentOp")["inprog"] if "progress" in op], default=0)
        eventually("it has scanned half of them", lambda: done() > documents // 2, 60)
        things.update_many({"_id": {"$lt": 1_000}}, {"$inc": {"n": 1_000_000}})
        things.delete_many({"_id": {"$gte": 100_000, "$lt": 100_500}})
    server.stop(signal.SIGKILL)
    builder.join()
    runs = list((server.directory / "index-builds").glob("*/run-*"))
    assert runs, "nothing was written before the crash"
    server.start(before=group.enter)
    server.wait_until_it_answers()
    with server.client() as client:
        things = client.built.things
        shown = eventually("it goes on", lambda: resumer(client), 30)
        assert shown["ns"] == "built.things" and shown["command"]["createIndexes"] == "things", shown
        resumed = int(shown["msg"].split("resumed at document ")[1].split(")")[0])
        assert resumed > documents // 10, shown["msg"]
        things.insert_many([{"_id": documents + number, "n": number, "u": f"new {number}"} for number in range(1_000)])
        eventually("it is done", lambda: not list((server.directory / "index-builds").iterdir()), 120)
        assert_whole(client)
        assert things.count_documents({"n": {"$gte": 1_000_000}}, hint="n_1") == 1_000
        assert things.count_documents({}, hint="u_1") == documents + 500
        with pytest.raises(pymongo.errors.DuplicateKeyError):
            things.insert_one({"u": "new 7"})
    assert "An index build that went on after a restart is done" in server.log.read_text()


def test_a_build_that_ends_with_its_server_goes_on_at_the_next_start(start_server, tmp_path):
    server = start_server("--setParameter", "shutdownTimeoutMillisForSignaledShutdown=100", directory=tmp_path / "data")
    with server.client() as client:
        fill(client.built.things)
        client.admin.command("setCalendar", 1, indexBuilds={"documentsPerSecond": 5_000})

        def build():
            with server.client() as other:
                try:
                    other.built.things.create_index("n")
                except pymongo.errors.PyMongoError:
                    pass

        builder = threading.Thread(target=build)
        builder.start()
        eventually("it runs", lambda: [op for op in client.admin.command("currentOp")["inprog"] if "createIndexes" in op.get("command", {})], 30)
    assert server.stop() == 0
    builder.join()
    assert "An index build goes on at the next start" in server.log.read_text()
    server = start_server(directory=tmp_path / "data")
    with server.client() as client:
        eventually("it goes on", lambda: resumer(client), 30)
        # Nobody has to wait for an index that nobody wants any more.
        client.built.things.drop_index("n_1")
        eventually("it ends", lambda: resumer(client) is None, 30)
        assert set(client.built.things.index_information()) == {"_id_"}
        assert_whole(client)
