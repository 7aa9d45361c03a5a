"""Reads that say how old the data may be which they get, and members that answer for it."""

import time

import pymongo
import pymongo.errors
import pytest
from pymongo import ReadPreference
from pymongo.read_preferences import SecondaryPreferred

from replica_set import eventually

STALE = 13436


def direct_to(member):
    """A driver that has been refused takes a member for unknown until its next heartbeat."""
    return member.client(socketTimeoutMS=30_000, heartbeatFrequencyMS=500)


def figures(running, member):
    with running.direct(member) as direct:
        return direct.admin.command("serverStatus")["repl"]["readFreshness"]


def find(direct, freshness=None, **more):
    command = {"find": "things", "filter": {}, "$readPreference": {"mode": "secondary"}, **more}
    if freshness is not None:
        command["$readFreshness"] = freshness
    return direct.fresh.command(command)["cursor"]["firstBatch"]


def refusal(direct, freshness=None, **more):
    with pytest.raises(pymongo.errors.NotPrimaryError) as refused:
        find(direct, freshness, **more)
    assert refused.value.details["code"] == STALE
    return refused.value.details


def test_an_idle_set_is_fresh_and_a_secondary_reads_the_present_when_asked(running):
    for member in running.members:
        eventually("a known age", lambda: figures(running, member).get("stalenessMillis", 60_000) < 5_000)
    with running.client() as client:
        things = client.fresh.get_collection("things", write_concern=pymongo.WriteConcern(1))
        directs = [running.direct(member) for member in running.secondaries()]
        for number in range(15):
            things.insert_one({"_id": number})
            for direct in directs:
                found = find(direct, {"maxStalenessMS": 0, "waitMS": 5_000})
                assert len(found) == number + 1, "what was acknowledged before is seen"
        own = directs[0].fresh.get_collection("things", read_preference=ReadPreference.SECONDARY)
        comment = {"$readFreshness": {"maxStalenessMS": 0, "waitMS": 20_000}}
        assert len(list(own.find({}, comment=comment).batch_size(2))) == 15, "also where a driver makes the command"
        lax = client.fresh.get_collection("things", read_preference=SecondaryPreferred(max_staleness=90))
        assert lax.count_documents({}) == 15
        for direct in directs:
            direct.close()


def test_a_member_that_is_cut_off_refuses_what_it_cannot_answer_for(running):
    with running.client() as client:
        client.fresh.get_collection("things", write_concern=pymongo.WriteConcern(w=3)).insert_one({"_id": 1})
    alone, *others = running.secondaries()
    with direct_to(alone) as direct:
        assert len(find(direct, {"maxStalenessMS": 60_000})) == 1
        for member in [running.primary(), *others]:
            running.pause(member)
        try:
            eventually("old data", lambda: figures(running, alone)["stalenessMillis"] > 1_500)
            told = refusal(direct, {"maxStalenessMS": 1_000})
            assert told["stalenessMS"] > 1_000 == told["maxStalenessMS"]
            assert "topologyVersion" not in told, "by that drivers would take it for old news"
            refusal(direct, comment={"$readFreshness": {"maxStalenessMS": 1_000}})
            began = time.monotonic()
            refusal(direct, {"maxStalenessMS": 1_000, "waitMS": 300})
            assert time.monotonic() - began >= 0.3, "it has waited"
            with pytest.raises(pymongo.errors.ExecutionTimeout):
                find(direct, {"maxStalenessMS": 1_000, "waitMS": 60_000}, maxTimeMS=200)
            assert len(find(direct)) == len(find(direct, {"maxStalenessMS": 10_000_000})) == 1, "who wants less gets it"
            counted = figures(running, alone)
            assert counted["refused"] >= 3 and counted["waited"] >= 4 and counted["reads"] >= 6
        finally:
            for member in running.members:
                running.resume(member)
        assert len(find(direct, {"maxStalenessMS": 1_000, "waitMS": 30_000})) == 1


def test_a_set_may_demand_freshness_of_all_reads(running):
    with running.client() as client:
        client.fresh.get_collection("things", write_concern=pymongo.WriteConcern(w=3)).insert_one({"_id": 1})
        config = client.admin.command("replSetGetConfig")["config"]
        config["version"] += 1
        config["settings"]["readFreshness"] = {"maxStalenessMS": 2_000, "waitMS": 0}
        client.admin.command("replSetReconfig", config)
        shown = client.admin.command("replSetGetConfig")["config"]["settings"]["readFreshness"]
        assert shown == {"maxStalenessMS": 2_000, "waitMS": 0}
    alone, *others = running.secondaries()
    with direct_to(alone) as direct:
        for member in [running.primary(), *others]:
            running.pause(member)
        try:
            eventually("old data", lambda: figures(running, alone)["stalenessMillis"] > 2_500)
            refusal(direct)
            assert len(find(direct, {"maxStalenessMS": 10_000_000})) == 1, "a command knows better"
            assert direct.local.command({"find": "system.replset"})["cursor"]["firstBatch"], "its own data"
        finally:
            for member in running.members:
                running.resume(member)
        eventually("fresh data", lambda: find(direct))
