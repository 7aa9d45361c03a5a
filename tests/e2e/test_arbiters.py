"""An arbiter: a process that votes and has no data."""

import pymongo
import pymongo.errors
import pytest
from replica_set import ReplicaSet, eventually

ARBITER = {"arbiterOnly": True}


def has_settled(running, voters):
    status = running.status(running.primary())
    states = {member["state"] for member in status["members"]}
    return status["votingMembersCount"] == voters and states <= {1, 2, 7}


@pytest.fixture
def running(tmp_path):
    started = ReplicaSet(tmp_path, 3, initiate=False)
    hosts = [{"_id": number, "host": host} for number, host in enumerate(started.hosts)]
    hosts[2].update(ARBITER)
    with started.direct(started.members[0]) as client:
        config = {"_id": started.name, "members": hosts, "settings": started.settings}
        client.admin.command("replSetInitiate", config)
    eventually("a set of three that vote", lambda: has_settled(started, 3))
    yield started
    started.kill_all()


def state(running, member):
    return running.status(member)["myState"]


def test_two_copies_and_an_arbiter_lose_nothing(running):
    first, second, arbiter = running.members
    assert state(running, arbiter) == 7
    shown = {member["stateStr"]: member for member in running.status(first)["members"]}
    assert "optime" not in shown["ARBITER"] and "optime" in shown["SECONDARY"]
    with running.client() as client:
        assert set(client.test.command("hello")["arbiters"]) == {running.hosts[2]}
        things = client.test.things
        things.insert_many([{"_id": number} for number in range(100)])
        # The secondary dies: the log of the arbiter counts, and a copy is missing.
        running.kill(second)
        things.insert_many([{"_id": number} for number in range(100, 200)])
        with pytest.raises(pymongo.errors.WTimeoutError):
            things.with_options(write_concern=pymongo.WriteConcern(w=2, wtimeout=500)).insert_one({"_id": 200})
        with running.direct(arbiter) as direct, pytest.raises(pymongo.errors.PyMongoError) as refused:
            direct.test.get_collection("things", read_preference=pymongo.ReadPreference.SECONDARY_PREFERRED).find_one()
        assert refused.value.details["code"] == 13436
        # The primary dies, and the secondary is back: the arbiter alone has the end of the log.
        running.kill(first)
        second = running.restart(second)
        assert running.primary() is second
        assert things.count_documents({}) == 201, "what was acknowledged is there"
        things.insert_one({"_id": 201})
        first = running.restart(first)
        eventually("the first one has caught up", lambda: has_settled(running, 3))
        things.with_options(write_concern=pymongo.WriteConcern(w=2, wtimeout=60_000)).insert_one({"_id": 202})


def test_an_arbiter_is_added_and_restarted(tmp_path):
    running = ReplicaSet(tmp_path, 2)
    try:
        with running.client() as client:
            client.test.things.insert_many([{"_id": number} for number in range(100)])
            arbiter = running._start(tmp_path / "arbiter", None)
            running.members.append(arbiter)
            arbiter.wait_until_it_answers()
            config = client.admin.command("replSetGetConfig")["config"]
            config["version"] += 1
            config["members"].append({"_id": 7, "host": f"127.0.0.1:{arbiter.port}", **ARBITER})
            client.admin.command("replSetReconfig", config)
            eventually("it votes", lambda: has_settled(running, 3))
            running.kill(arbiter)
            arbiter = running.restart(arbiter)
            eventually("it is back", lambda: state(running, arbiter) == 7)
            config = client.admin.command("replSetGetConfig")["config"]
            config["version"] += 1
            config["members"][2]["arbiterOnly"] = False
            with pytest.raises(pymongo.errors.OperationFailure, match="arbiterOnly field"):
                client.admin.command("replSetReconfig", config)
    finally:
        running.kill_all()
