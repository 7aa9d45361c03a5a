"""Members that stay behind by intention: `secondaryDelaySecs`."""

import time

import pymongo
import pymongo.errors
import pytest
from replica_set import ReplicaSet, eventually

DELAY = 4


@pytest.fixture
def running(tmp_path):
    late = {"priority": 0, "hidden": True, "secondaryDelaySecs": DELAY}
    started = ReplicaSet(tmp_path, 3, members=[{}, {}, late])
    yield started
    started.kill_all()


def seen(running, member):
    with running.direct(member) as client:
        options = {"read_preference": pymongo.ReadPreference.SECONDARY_PREFERRED}
        return client.get_database("test", **options).things.count_documents({})


def test_a_delayed_member_shows_the_past_also_after_a_restart(running):
    late = running.members[2]
    hello = running.hello(late)
    assert hello["secondaryDelaySecs"] == DELAY and hello["hidden"] and hello["passive"]
    with running.client() as client:
        things = client.test.things
        began = time.monotonic()
        things.insert_one({"_id": 1})
        things.with_options(write_concern=pymongo.WriteConcern(w=2)).insert_one({"_id": 2})
        with pytest.raises(pymongo.errors.WTimeoutError):
            things.with_options(write_concern=pymongo.WriteConcern(w=3, wtimeout=500)).insert_one({"_id": 3})
        running.kill(late)
        late = running.restart(late)
        shown = seen(running, late)
        assert shown == 0 or time.monotonic() - began > DELAY - 1, "shown before its time"
        eventually("the past", lambda: seen(running, late) == 3, DELAY * 3)
        assert time.monotonic() - began >= DELAY - 1
        # Once it has come so far it is a copy.
        things.with_options(write_concern=pymongo.WriteConcern(w=3, wtimeout=30_000)).insert_one({"_id": 4})


def test_a_delay_ends_with_the_configuration_that_says_so(running):
    with running.client() as client:
        config = client.admin.command("replSetGetConfig")["config"]

        def reconfigure(delay):
            config["version"] += 1
            config["members"][2]["secondaryDelaySecs"] = delay
            client.admin.command("replSetReconfig", config)

        reconfigure(3600)
        client.test.things.insert_one({"_id": 1})
        late = running.members[2]
        time.sleep(DELAY + 1)
        assert seen(running, late) == 0
        reconfigure(0)
        eventually("a member that is not delayed any more", lambda: seen(running, late) == 1)
    running.assert_members_are_equal()
    with running.direct(late) as client:
        bad = dict(config, version=config["version"] + 1)
        bad["members"] = [*config["members"][:2], dict(config["members"][2], priority=1, secondaryDelaySecs=1)]
        with running.client() as primary, pytest.raises(pymongo.errors.OperationFailure, match="priority must be 0"):
            primary.admin.command("replSetReconfig", bad)
