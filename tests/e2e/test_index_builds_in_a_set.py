"""Index builds while primaries change: an index is on all members or on none, and a build can be begun again."""

import os
import threading

import pymongo
import pymongo.errors
import pytest
from replica_set import eventually



def build_while(running, things, end_primary):
    """Builds an index while the primary ends to be one; what came of the build."""
    outcome = []

    def build():
        try:
            outcome.append(things.create_index("n"))
        except pymongo.errors.PyMongoError as error:
            outcome.append(error)

    builder = threading.Thread(target=build)
    builder.start()
    end_primary(running.primary())
    builder.join()
    return outcome[0]


@pytest.mark.parametrize("how", ["kill", "step down"])
def test_a_build_that_loses_its_primary_leaves_equal_members(running, how):
    def end_primary(primary):
        if how == "kill":
            running.kill(primary)
            running.primary(other_than=primary)
            running.restart(primary)
            return
        with running.direct(primary) as direct:
            direct.admin.command("replSetStepDown", 5, secondaryCatchUpPeriodSecs=5)

    with running.client() as client:
        things = client.built.get_collection("things", write_concern=pymongo.WriteConcern("majority"))
        for first in range(0, 10_000, 1_000):
            things.insert_many([{"_id": number, "n": number % 97, "text": os.urandom(100)} for number in range(first, first + 1_000)])
        for _ in range(3):
            outcome = build_while(running, things, end_primary)
            running.wait_until_healthy()
            # Whoever was not told builds it again: it is there, or it comes.
            assert eventually("the index", lambda: things.create_index("n")) == "n_1", outcome
            running.assert_members_are_equal()
            assert things.count_documents({"n": 5}, hint="n_1") == 104
            things.drop_index("n_1")
            running.assert_members_are_equal()
