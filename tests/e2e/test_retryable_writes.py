"""Writes with transaction numbers are done once: repeated by hand, by drivers, and on another primary."""

import threading
import time
import uuid

import bson
import pymongo
import pytest

from raw_wire import RawConnection
from replica_set import ReplicaSet

TEST_COMMANDS = ("--setParameter", "enableTestCommands=1")


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    running = ReplicaSet(tmp_path_factory.mktemp("one"), 1, *TEST_COMMANDS)
    yield running
    running.kill_all()


@pytest.fixture
def three(tmp_path):
    running = ReplicaSet(tmp_path, 3, *TEST_COMMANDS, settings={"electionTimeoutMillis": 2_000})
    yield running
    running.kill_all()


@pytest.fixture
def things(one):
    with one.client() as client:
        client.test.things.drop()
        yield client.test.things


def numbered(command, number=1, session=None):
    session = session or uuid.uuid4()
    lsid = {"id": bson.Binary.from_uuid(session)}
    return {**command, "lsid": lsid, "txnNumber": bson.Int64(number)}


def writes():
    """Commands that do something to `things` once, and would do it again."""
    increment = {"$inc": {"a": 1}}
    return [
        {"insert": "things", "documents": [{"a": 1}, {"a": 2}]},
        {"update": "things", "updates": [{"q": {"_id": 1}, "u": increment}, {"q": {"b": 7}, "u": increment, "upsert": True}]},
        {"delete": "things", "deletes": [{"q": {"a": {"$gte": 5}}, "limit": 1}]},
        {"findAndModify": "things", "query": {"_id": 2}, "update": increment},
        {"findAndModify": "things", "query": {"_id": 3}, "update": increment, "new": True},
        {"findAndModify": "things", "query": {"a": {"$gte": 5}}, "remove": True},
    ]


def run(member, command):
    """Without a driver, which would give it a session of its own."""
    with RawConnection(member.port) as connection:
        connection.send_msg({**command, "$db": "test"})
        return connection.receive()[-1]


def told(reply):
    """The answer without what tells of its time, or that it was given before."""
    hidden = ("$clusterTime", "operationTime", "opTime", "electionId", "retriedStmtIds", "retriedStmtId", "lastErrorObject")
    return {**{name: value for name, value in reply.items() if name not in hidden}, **reply.get("lastErrorObject", {})}


@pytest.mark.parametrize("number", range(len(writes())))
def test_a_repeated_write_is_answered_and_not_done(one, things, number):
    things.insert_many({"_id": one, "a": 5} for one in range(10))
    command = numbered(writes()[number])
    first = run(one.members[0], command)
    assert first["ok"] == 1 and "writeErrors" not in first
    found = list(things.find().sort("_id"))
    again = run(one.members[0], command)
    assert told(again) == told(first)
    assert "retriedStmtIds" in again or "retriedStmtId" in again
    assert list(things.find().sort("_id")) == found


def test_drivers_repeat_what_they_got_no_answer_to(one, things):
    things.insert_one({"_id": 1, "count": 0})
    failures = {"failCommands": ["update", "insert", "findAndModify"], "closeConnection": True}
    for done in range(1, 6):
        things.database.client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=failures)
        things.update_one({"_id": 1}, {"$inc": {"count": 1}})
        assert things.find_one({"_id": 1})["count"] == done


def test_errors_that_are_worth_another_try_say_so(one):
    insert = {"insert": "things", "documents": [{}]}
    failures = {"failCommands": ["insert"], "errorCode": 91}
    with one.client() as client:
        for command, labels in [(insert, None), (numbered(insert), ["RetryableWriteError"])]:
            client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=failures)
            assert run(one.members[0], command).get("errorLabels") == labels


def test_what_cannot_be_done_once_is_refused(one):
    many = {"update": "things", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "multi": True}]}
    assert run(one.members[0], numbered(many))["writeErrors"][0]["code"] == 72
    session = uuid.uuid4()
    insert = {"insert": "things", "documents": [{}]}
    assert run(one.members[0], numbered(insert, 5, session))["ok"] == 1
    assert run(one.members[0], numbered(insert, 4, session))["code"] == 225
    assert run(one.members[0], numbered({"find": "things"}, 6, session))["code"] == 50768


def test_another_primary_knows_what_was_done(three):
    commands = [numbered(command) for command in writes()]
    with three.client() as client:
        client.test.things.insert_many({"_id": one, "a": 5} for one in range(10))
    first = three.primary()
    replies = [run(first, command) for command in commands]
    with three.direct(first) as client:
        found = list(client.test.things.find().sort("_id"))
    three.kill(first)
    second = three.primary(other_than=first)
    again = [run(second, command) for command in commands]
    assert [told(reply) for reply in again] == [told(reply) for reply in replies]
    assert all("retriedStmtIds" in reply or "retriedStmtId" in reply for reply in again)
    with three.direct(second) as client:
        assert list(client.test.things.find().sort("_id")) == found
    three.restart(first)
    three.wait_until_healthy()
    three.assert_members_are_equal()


class Writer(threading.Thread):
    """Writes what shows when it is done twice or not at all, until it is stopped or an answer is wrong."""

    def __init__(self, things, number, stopping):
        super().__init__()
        self.things, self.number, self.stopping = things, number, stopping
        self.rounds, self.error = 0, None
        self.start()

    def run(self):
        try:
            while not self.stopping.is_set():
                self.rounds += 1
                self.round(f"{self.number}-{self.rounds}")
        except (AssertionError, pymongo.errors.PyMongoError) as error:
            self.error = error

    def round(self, name):
        counted = self.things.find_one_and_update(
            {"_id": self.number}, {"$inc": {"count": 1}}, upsert=True, return_document=pymongo.ReturnDocument.AFTER
        )
        assert counted["count"] == self.rounds
        assert self.things.update_one({"name": name}, {"$set": {"a": 1}}, upsert=True).upserted_id
        batch = [pymongo.InsertOne({"name": f"{name}-{number}"}) for number in range(10)]
        batch += [pymongo.UpdateOne({"name": f"{name}+{number}"}, {"$set": {"a": 1}}, upsert=True) for number in range(10)]
        batch.append(pymongo.DeleteOne({"name": f"{name}-0"}))
        done = self.things.bulk_write(batch)
        assert (done.inserted_count, done.upserted_count, done.deleted_count) == (10, 10, 1)


def test_writes_are_done_once_while_primaries_change(three):
    stopping = threading.Event()
    with three.client() as client:
        writers = [Writer(client.test.things, number, stopping) for number in range(3)]
        try:
            for kills in (True, False, True):
                time.sleep(1)
                primary = three.primary()
                if kills:
                    three.kill(primary)
                    three.primary(other_than=primary)
                    three.restart(primary)
                else:
                    with three.direct(primary) as direct:
                        direct.admin.command("replSetStepDown", 10, secondaryCatchUpPeriodSecs=5)
            time.sleep(1)
        finally:
            stopping.set()
            for writer in writers:
                writer.join()
        assert [writer.error for writer in writers] == [None] * len(writers)
        twice = [{"$group": {"_id": "$name", "count": {"$sum": 1}}}, {"$match": {"_id": {"$ne": None}, "count": {"$gt": 1}}}]
        assert list(client.test.things.aggregate(twice)) == []
        # A round: what is counted once for each writer, one upsert, nine inserts that stay, ten upserts.
        assert client.test.things.count_documents({}) == sum(1 + 20 * writer.rounds for writer in writers)
    three.wait_until_healthy()
    three.assert_members_are_equal()
