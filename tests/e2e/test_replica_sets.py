"""Replica sets of three members, as drivers see them."""

import shutil
import threading
import time

import bson
import pymongo
import pymongo.errors
import pytest
from pymongo import ReadPreference
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import Secondary
from pymongo.write_concern import WriteConcern

from replica_set import FAST, Load, ReplicaSet, eventually

TAGS = [{"tags": {"place": "a"}, "priority": 2}, {"tags": {"place": "b"}}, {"tags": {"place": "c"}}]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The set of the tests that leave it as it was."""
    running = ReplicaSet(tmp_path_factory.mktemp("set"), 3, members=TAGS)
    yield running
    statuses = running.stop()
    assert statuses == [0, 0, 0], f"members must end cleanly:\n{running.members[0].log.read_text()[-4000:]}"


@pytest.fixture
def replica_set(tmp_path):
    """Starts sets that end with the test."""
    started = []

    def start(*arguments, **options):
        started.append(ReplicaSet(tmp_path / f"set{len(started)}", *arguments, **options))
        return started[-1]

    (tmp_path / "set0").mkdir()
    yield start
    for one in started:
        one.kill_all()


@pytest.fixture
def client(shared):
    with shared.client() as client:
        yield client


def test_a_driver_discovers_the_members(shared, client):
    client.admin.command("ping")
    eventually("all members", lambda: len(client.nodes) == 3)
    assert {f"{host}:{port}" for host, port in client.nodes} == set(shared.hosts)
    assert client.primary is not None and len(client.secondaries) == 2
    with pymongo.MongoClient(f"mongodb://{shared.hosts[2]}/?replicaSet=rs", serverSelectionTimeoutMS=10_000) as other:
        eventually("all members from one seed", lambda: len(other.nodes) == 3)
        assert other.primary == client.primary


def test_hello_tells_the_set(shared):
    for member, host in zip(shared.members, shared.hosts):
        hello = shared.hello(member)
        assert (hello["setName"], hello["me"], sorted(hello["hosts"])) == ("rs", host, sorted(shared.hosts))
        assert hello["setVersion"] == 1 and hello["primary"] in shared.hosts
        assert hello["secondary"] is not hello["isWritablePrimary"]
        assert hello["lastWrite"]["opTime"]["ts"] >= bson.Timestamp(1, 0)


@pytest.mark.parametrize("concern", [{"w": 1}, {"w": "majority"}, {"w": 2}, {"w": 3}, {"w": 1, "j": True}, {"w": "majority", "j": True}])
def test_writes_of_each_concern_are_acknowledged(client, concern):
    collection = client.concerns.get_collection("written", write_concern=WriteConcern(wtimeout=20_000, **concern))
    written = collection.insert_many([{"n": number} for number in range(20)])
    assert len(written.inserted_ids) == 20
    assert collection.update_many({"_id": {"$in": written.inserted_ids}}, {"$inc": {"n": 1}}).modified_count == 20
    assert collection.delete_many({"_id": {"$in": written.inserted_ids}}).deleted_count == 20


def test_what_all_members_have_is_read_from_each_secondary(shared, client):
    collection = client.read.get_collection("everywhere", write_concern=WriteConcern(w=3, wtimeout=20_000))
    collection.insert_many([{"_id": number, "text": "x" * 100} for number in range(500)])
    collection.create_index("text")
    for member in shared.secondaries():
        with shared.direct(member) as direct:
            own = direct.read.get_collection("everywhere", read_preference=ReadPreference.SECONDARY)
            # An index is there when its entry is applied, which the next write does not wait for.
            eventually("the index", lambda: "text_1" in own.index_information())
            assert own.count_documents({}) == 500
            assert [one["_id"] for one in own.find({"_id": {"$lt": 3}}).sort("_id")] == [0, 1, 2]


def test_secondaries_refuse_writes_and_reads_that_are_not_allowed(shared):
    with shared.direct(shared.secondaries()[0]) as direct:
        with pytest.raises(pymongo.errors.NotPrimaryError) as refused:
            direct.refused.things.insert_one({"_id": 1})
        assert refused.value.details["code"] == 10107
        with pytest.raises(pymongo.errors.NotPrimaryError) as refused:
            direct.refused.command({"find": "things", "$readPreference": {"mode": "primary"}})
        assert refused.value.details["code"] == 13435


def test_causal_sessions_read_their_own_writes_anywhere(client):
    collection = client.causal.get_collection("read", write_concern=WriteConcern(w="majority"))
    elsewhere = client.causal.get_collection("read", read_preference=ReadPreference.SECONDARY, read_concern=ReadConcern("majority"))
    with client.start_session(causal_consistency=True) as session:
        for number in range(50):
            collection.insert_one({"_id": number}, session=session)
            assert elsewhere.find_one({"_id": number}, session=session), f"write {number} is not seen"


@pytest.mark.parametrize("level", ["local", "available", "majority", "linearizable"])
def test_read_concerns_of_the_primary(client, level):
    collection = client.levels.get_collection("read", read_concern=ReadConcern(level))
    collection.insert_one({"level": level})
    assert collection.find_one({"level": level})


def test_tags_choose_members(shared, client):
    collection = client.tags.get_collection("read", write_concern=WriteConcern(w=3, wtimeout=20_000))
    collection.insert_one({"_id": 1})
    for place, host in (("b", shared.hosts[1]), ("c", shared.hosts[2])):
        tagged = collection.with_options(read_preference=Secondary([{"place": place}]))
        cursor = tagged.find({})
        list(cursor)
        assert cursor.address == ("127.0.0.1", int(host.rsplit(":")[-1])) or shared.primary().port == int(host.rsplit(":")[-1])


def test_the_oplog_is_read_and_tailed(shared, client):
    oplog = client.local["oplog.rs"]
    last = oplog.find().sort("$natural", -1).limit(1).next()
    cursor = oplog.find({"ts": {"$gt": last["ts"]}, "ns": "tailed.things"}, cursor_type=pymongo.CursorType.TAILABLE_AWAIT)
    client.tailed.things.insert_one({"_id": 1, "text": "x"})
    entry = eventually("the entry", lambda: next(cursor, None))
    assert (entry["op"], entry["ns"], entry["o"], entry["v"]) == ("i", "tailed.things", {"_id": 1, "text": "x"}, 2)
    assert {"ts", "t", "wall", "ui"} <= set(entry)


def test_members_become_equal(shared, client):
    for number in range(20):
        database = client[f"equal{number % 3}"]
        database[f"collection{number % 5}"].insert_many([{"n": number, "k": k} for k in range(20)])
        database[f"collection{number % 5}"].update_many({"k": {"$lt": 5}}, {"$inc": {"n": 1}, "$push": {"list": number}})
        database[f"collection{number % 5}"].delete_many({"k": 7})
        database[f"collection{number % 5}"].create_index("k")
    client.drop_database("equal2")
    shared.assert_members_are_equal()


# Sets of their own: what is done to them lasts.



def test_kill_9_of_the_primary_loses_and_doubles_nothing(replica_set):
    running = replica_set(3, settings=FAST)
    with running.client() as client:
        load = Load(client, w="majority")
        for _ in range(2):
            load.wait_for_more()
            killed = running.primary()
            running.kill(killed)
            running.primary(other_than=killed)
            load.wait_for_more()
            running.restart(killed)
            running.wait_until_healthy()
        load.stop()
        assert not load.errors, f"{len(load.errors)} operations failed: {load.errors[:3]}"
        load.check()
        running.assert_members_are_equal()


def test_w_1_is_not_lost_either(replica_set):
    running = replica_set(3, settings=FAST)
    with running.client() as client:
        load = Load(client, w=1)
        load.wait_for_more()
        killed = running.primary()
        running.kill(killed)
        load.wait_for_more()
        load.stop()
        running.restart(killed)
        load.check()
        running.assert_members_are_equal()


def test_a_planned_step_down_fails_no_operation(replica_set):
    running = replica_set(3)
    with running.client() as client:
        load = Load(client, w="majority")
        for _ in range(2):
            load.wait_for_more()
            before = running.primary()
            with running.direct(before) as direct:
                direct.admin.command("replSetStepDown", 10, secondaryCatchUpPeriodSecs=10)
            running.primary(other_than=before)
            load.wait_for_more()
        load.stop()
        assert not load.errors, f"{len(load.errors)} operations failed: {load.errors[:3]}"
        load.check()
        running.assert_members_are_equal()


def test_a_member_that_comes_back_catches_up(replica_set):
    running = replica_set(3, settings=FAST)
    away = running.secondaries()[0]
    running.kill(away)
    with running.client() as client:
        collection = client.missed.get_collection("things", write_concern=WriteConcern("majority"))
        collection.insert_many([{"_id": number, "text": "x" * 500} for number in range(3_000)])
        collection.update_many({"_id": {"$lt": 1_000}}, {"$set": {"text": "y"}})
        with pytest.raises(pymongo.errors.WTimeoutError):
            client.missed.get_collection("things", write_concern=WriteConcern(w=3, wtimeout=300)).insert_one({"_id": "late"})
        assert client.missed.things.find_one("late"), "what waits in vain for copies is written"
    running.restart(away)
    running.assert_members_are_equal()


def test_a_whole_set_starts_again_with_its_data(replica_set):
    running = replica_set(3, settings=FAST)
    with running.client() as client:
        client.kept.get_collection("things", write_concern=WriteConcern("majority")).insert_many([{"_id": n} for n in range(200)])
    assert running.stop() == [0, 0, 0]
    for member in list(running.members):
        running.restart(member)
    running.wait_until_healthy()
    with running.client() as client:
        assert client.kept.things.count_documents({}) == 200
        client.kept.things.insert_one({"_id": "later"})
    running.assert_members_are_equal()


def test_a_primary_that_stops_and_goes_on_takes_nothing_back(replica_set):
    running = replica_set(3, settings=FAST)
    with running.client(socketTimeoutMS=5_000) as client:
        load = Load(client, w=1)
        load.wait_for_more()
        stopped = running.primary()
        running.pause(stopped)
        others = [member for member in running.members if member is not stopped]
        eventually("another primary", lambda: any(running.hello(member).get("isWritablePrimary") for member in others))
        load.wait_for_more()
        running.resume(stopped)
        eventually("the old one follows", lambda: running.hello(stopped).get("secondary"))
        load.wait_for_more()
        load.stop()
        load.check()
        running.assert_members_are_equal()


def test_another_election_timeout_acts_at_once_on_all_members(replica_set):
    running = replica_set(3, settings={"electionTimeoutMillis": 60_000})
    killed = running.primary()
    with running.direct(killed) as direct:
        config = direct.admin.command("replSetGetConfig")["config"]
        assert config["settings"]["electionTimeoutMillis"] == 60_000
        config["version"] += 1
        config["settings"]["electionTimeoutMillis"] = 500
        direct.admin.command("replSetReconfig", config)
        config["version"] += 1
        config["settings"]["electionTimeoutMillis"] = 10
        with pytest.raises(pymongo.errors.OperationFailure, match="value must be >= 50"):
            direct.admin.command("replSetReconfig", config)

    def has_it(member):
        with running.direct(member) as direct:
            return direct.admin.command("replSetGetConfig")["config"]["settings"]["electionTimeoutMillis"] == 500

    eventually("the configuration", lambda: all(map(has_it, running.members)))
    running.kill(killed)
    others = [member for member in running.members if member is not killed]
    eventually("another primary", lambda: any(running.hello(member).get("isWritablePrimary") for member in others), 30)


def test_without_a_majority_nothing_is_written(replica_set):
    running = replica_set(3, settings=FAST)
    primary = running.primary()
    for member in running.secondaries():
        running.kill(member)
    eventually("the step-down", lambda: not running.hello(primary).get("isWritablePrimary"))
    with running.direct(primary) as direct, pytest.raises(pymongo.errors.NotPrimaryError):
        direct.refused.things.insert_one({"_id": 1})
    with running.direct(primary) as direct:
        assert direct.refused.get_collection("things", read_preference=ReadPreference.SECONDARY).count_documents({}) == 0


def test_a_survivor_is_forced_to_go_on_and_the_others_come_back_empty(replica_set):
    running = replica_set(3, settings=FAST)
    survivor, *lost = running.members
    with running.client() as client:
        things = client.forced.get_collection("things", write_concern=WriteConcern(w=3))
        things.insert_many([{"_id": number} for number in range(300)])
        things.create_index("n")
    for member in lost:
        running.kill(member)
    eventually("the step-down", lambda: not running.hello(survivor).get("isWritablePrimary"))
    with running.direct(survivor) as direct:
        config = direct.admin.command("replSetGetConfig")["config"]
        config["version"] += 1
        with pytest.raises(pymongo.errors.NotPrimaryError):
            direct.admin.command("replSetReconfig", config)
        eventually("the force", lambda: direct.admin.command("replSetReconfig", config, force=True))
        eventually("a primary", lambda: direct.admin.command("hello")["isWritablePrimary"])
        assert direct.admin.command("replSetGetConfig")["config"]["version"] > 10_000
        assert direct.forced.things.count_documents({}) == 300
        direct.forced.things.insert_one({"_id": "alone"})
    for member in lost:
        shutil.rmtree(member.directory)
        running.restart(member)
    running.wait_until_healthy()
    with running.client() as client:
        assert client.forced.things.count_documents({}) == 301
        client.forced.get_collection("things", write_concern=WriteConcern(w=3, wtimeout=20_000)).insert_one({"_id": "together"})
    running.assert_members_are_equal()
    # The majority is theirs now.
    running.kill(running.primary())
    running.primary()


def test_a_set_of_one_is_a_whole_set(replica_set):
    running = replica_set(1)
    with running.client() as client:
        load = Load(client, w="majority")
        load.wait_for_more(200)
        running.kill(running.members[0])
        running.restart(running.members[0])
        load.wait_for_more(200)
        load.stop()
        assert not load.errors, load.errors[:3]
        load.check()


def test_members_are_added_and_removed(replica_set, tmp_path):
    running = replica_set(3, initiate=False, settings=FAST)
    all_members = running.members
    running.members = all_members[:1]
    running.initiate([{}])
    with running.direct(all_members[0]) as direct:
        direct.grown.things.insert_many([{"_id": number} for number in range(100)])
        for member in all_members[1:]:
            running.members.append(member)
            config = direct.admin.command("replSetGetConfig")["config"]
            config["version"] += 1
            config["members"].append({"_id": len(running.members) - 1, "host": running.hosts[-1]})
            direct.admin.command("replSetReconfig", config)
            running.wait_until_healthy()
        running.assert_members_are_equal()
        config = direct.admin.command("replSetGetConfig")["config"]
        config["version"] += 1
        gone = config["members"].pop()
        direct.admin.command("replSetReconfig", config)
        eventually("the smaller set", lambda: gone["host"] not in direct.admin.command("hello")["hosts"])
        direct.grown.get_collection("things", write_concern=WriteConcern(w=2, wtimeout=20_000)).insert_one({"_id": "later"})


def test_initiate_refuses_what_cannot_be(replica_set):
    running = replica_set(2, initiate=False)
    first = running.members[0]
    hosts = [{"_id": 0, "host": running.hosts[0]}]
    with running.direct(first) as direct:
        with pytest.raises(pymongo.errors.OperationFailure) as unknown:
            direct.admin.command("replSetGetStatus")
        assert unknown.value.code == 94
        dead = hosts + [{"_id": 1, "host": "127.0.0.1:1"}]
        with pytest.raises(pymongo.errors.OperationFailure) as refused:
            direct.admin.command("replSetInitiate", {"_id": "rs", "members": dead})
        assert refused.value.code == 74 and "quorum check failed" in str(refused.value)
        with pytest.raises(pymongo.errors.OperationFailure):
            direct.admin.command("replSetInitiate", {"_id": "other", "members": hosts})
        direct.admin.command("replSetInitiate", {"_id": "rs", "members": hosts})
        with pytest.raises(pymongo.errors.OperationFailure) as again:
            direct.admin.command("replSetInitiate", {"_id": "rs", "members": hosts})
        assert again.value.code == 23


def test_data_of_a_set_are_not_opened_by_another_one(replica_set, start_server):
    running = replica_set(1)
    member = running.members[0]
    assert running.stop() == [0]
    other = start_server("--replSet", "other", directory=member.directory, wait=False)
    assert other.process.wait(30) != 0 and "reported set name of rs" in other.log.read_text()
    alone = start_server(directory=member.directory)
    with alone.client() as client:
        warnings = client.admin.command("getLog", "startupWarnings")["log"]
        assert any("started without --replSet" in line for line in warnings)
