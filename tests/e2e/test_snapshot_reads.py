"""Read concern `snapshot`, as drivers' sessions use it and by hand, on each member of a set."""


import pymongo
import pymongo.errors
import pytest
from pymongo import ReadPreference

from replica_set import ReplicaSet, eventually


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    replica_set = ReplicaSet(tmp_path_factory.mktemp("set"), 3)
    yield replica_set
    replica_set.stop()


def at(direct, command, moment):
    concern = {"level": "snapshot", "atClusterTime": moment}
    return direct.past.command({**command, "readConcern": concern, "$readPreference": {"mode": "secondaryPreferred"}, "maxTimeMS": 30_000})


@pytest.mark.parametrize("preference", [ReadPreference.PRIMARY, ReadPreference.SECONDARY, ReadPreference.NEAREST])
def test_a_snapshot_session_sees_one_moment(running, preference):
    with running.client() as client:
        client.past.drop_collection("things")
        writes = client.past.get_collection("things", write_concern=pymongo.WriteConcern(w=3, wtimeout=30_000))
        writes.insert_many([{"_id": number, "n": 0} for number in range(50)])
        writes.create_index("n")
        writes.update_many({}, {"$set": {"n": 1}})
        # Copies are on the members' disks; what they show follows.
        for member in running.members:
            with running.direct(member) as direct:
                own = direct.past.get_collection("things", read_preference=ReadPreference.SECONDARY_PREFERRED)
                eventually("the update", lambda: own.count_documents({"n": 1}) == 50)
        reads = client.past.get_collection("things", read_preference=preference)
        with client.start_session(snapshot=True) as session:
            assert reads.find_one({"_id": 3}, session=session)["n"] == 1
            writes.update_many({"_id": {"$lt": 20}}, {"$inc": {"n": 1}})
            writes.delete_many({"_id": {"$gte": 40}})
            assert [one["n"] for one in reads.find({}, session=session).batch_size(7)] == [1] * 50
            assert len(list(reads.find({"n": 1}, session=session).hint("n_1"))) == 50
            assert reads.distinct("n", session=session) == [1]
            summed = reads.aggregate([{"$group": {"_id": None, "sum": {"$sum": "$n"}, "count": {"$sum": 1}}}], session=session).next()
            assert (summed["sum"], summed["count"]) == (50, 50)
            with pytest.raises(pymongo.errors.OperationFailure) as refused:
                client.past.command({"count": "things", "readConcern": {"level": "snapshot"}})
            assert refused.value.code == 72
        with client.start_session(snapshot=True) as session:
            assert sorted(reads.distinct("n", session=session)) == [1, 2]


def test_each_member_shows_the_times_of_the_primary(running):
    with running.client() as client:
        client.past.drop_collection("counted")
        counted = client.past.get_collection("counted", write_concern=pymongo.WriteConcern(w=1))
        counted.insert_one({"_id": 1, "n": 0})
        moments = []
        for _ in range(60):
            reply = client.past.command("update", "counted", updates=[{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}])
            moments.append(reply["operationTime"])
        for member in running.members:
            with running.direct(member) as direct:
                for expected, moment in list(enumerate(moments, 1))[::7]:
                    cursor = at(direct, {"find": "counted"}, moment)["cursor"]
                    assert cursor["atClusterTime"] == moment
                    assert cursor["firstBatch"] == [{"_id": 1, "n": expected}], f"{member.port} at {moment}"


def test_the_window_is_a_parameter(running):
    member = running.secondaries()[0]
    with running.client() as client, running.direct(member) as direct:
        client.past.drop_collection("window")
        client.past.get_collection("window", write_concern=pymongo.WriteConcern(w=3)).insert_one({"_id": 1})
        moment = client.past.command("ping")["operationTime"]
        assert len(at(direct, {"find": "window"}, moment)["cursor"]["firstBatch"]) == 1
        told = direct.admin.command({"setParameter": 1, "minSnapshotHistoryWindowInSeconds": 1})
        assert told["was"] == 300

        def is_too_old():
            # What was asked for lately stays for a while: another time is asked for each time.
            nonlocal moment
            moment = type(moment)(moment.time - 1, moment.inc)
            try:
                at(direct, {"find": "window"}, moment)
            except pymongo.errors.OperationFailure as error:
                return error.code == 239
            return False

        eventually("a past that is gone", is_too_old)
        status = direct.admin.command("serverStatus")["wiredTiger"]["snapshot-window-settings"]
        assert status["minimum target snapshot window size in seconds"] == 1
        direct.admin.command({"setParameter": 1, "minSnapshotHistoryWindowInSeconds": 300})
