"""Members without a vote that follow a secondary: `replSetSyncFrom`."""

import pymongo
import pymongo.errors
import pytest
from replica_set import ReplicaSet, eventually


@pytest.fixture
def running(tmp_path):
    # Where answers take longer than 5 ms, as on a busy machine, a member would choose a source itself.
    settings = {"chainingAllowed": False}
    started = ReplicaSet(tmp_path, 4, members=[{}, {}, {}, {"votes": 0, "priority": 0}], settings=settings)
    yield started
    started.kill_all()


def source(running, member):
    return running.status(member)["syncSourceHost"]


def host(running, member):
    return running.hosts[running.members.index(member)]


def write(running, first, count=200):
    """So that all members have them."""
    with running.client() as client:
        things = client.test.get_collection("things", write_concern=pymongo.WriteConcern(w=len(running.running())))
        things.insert_many([{"_id": number, "text": "x" * 2_000} for number in range(first, first + count)])


def test_a_member_without_a_vote_follows_a_secondary_and_the_primary_when_that_dies(running):
    follower, primary = running.members[3], running.primary()
    chosen, other = [member for member in running.members[:3] if member is not primary]
    assert source(running, follower) == host(running, primary)
    with running.direct(follower) as client:
        eventually(
            "a source that is known",
            lambda: client.admin.command("replSetSyncFrom", host(running, chosen)),
        )
    eventually("another source", lambda: source(running, follower) == host(running, chosen))
    write(running, 0)

    def seen_by_the_primary():
        return running.status(primary)["members"][3]["syncSourceHost"] == host(running, chosen)

    eventually("word of the source", seen_by_the_primary)
    with running.direct(other) as client, pytest.raises(pymongo.errors.OperationFailure, match="that votes") as refused:
        client.admin.command("replSetSyncFrom", host(running, chosen))
    assert refused.value.code == 115
    with running.direct(follower) as client:
        for wrong, code in [("127.0.0.1:1", 74), (host(running, follower), 72)]:
            with pytest.raises(pymongo.errors.OperationFailure) as refused:
                client.admin.command("replSetSyncFrom", wrong)
            assert refused.value.code == code
    running.kill(chosen)
    write(running, 1_000)
    eventually("the primary as source", lambda: source(running, follower) == host(running, primary))
    chosen = running.restart(chosen)
    running.wait_until_healthy()
    running.assert_members_are_equal()
    with running.direct(follower) as client:
        eventually("a source", lambda: client.admin.command("replSetSyncFrom", host(running, chosen)))
        eventually("a source again", lambda: source(running, follower) == host(running, chosen))
        answer = client.admin.command("replSetSyncFrom", host(running, primary))
        assert answer["prevSyncTarget"] == host(running, chosen)
        eventually("the primary again", lambda: source(running, follower) == host(running, primary))
    write(running, 2_000)
    running.assert_members_are_equal()
