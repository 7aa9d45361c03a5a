"""Flow control: who brings the most waits first when a majority of the members cannot keep up."""

import os
import threading
import time

import pymongo
import pytest

from replica_set import ReplicaSet, eventually

STOPPED_SECONDS = 0.09
RUNNING_SECONDS = 0.01


@pytest.fixture
def slow_set(tmp_path):
    """Three members, the secondaries of which run for a tenth of the time."""
    replica_set = ReplicaSet(tmp_path, 3, settings={"electionTimeoutMillis": 10_000})
    secondaries = replica_set.secondaries()
    ended = threading.Event()

    def slow_down():
        while not ended.is_set():
            for member in secondaries:
                replica_set.pause(member)
            time.sleep(STOPPED_SECONDS)
            for member in secondaries:
                replica_set.resume(member)
            time.sleep(RUNNING_SECONDS)

    thread = threading.Thread(target=slow_down)
    yield replica_set, thread
    ended.set()
    if thread.ident:
        thread.join()
    replica_set.kill_all()


class Client:
    """One connection that writes as fast as it can."""

    def __init__(self, replica_set, write):
        self.client = replica_set.direct(replica_set.primary())
        self.id = self.client.admin.command("hello")["connectionId"]
        self.times, self.ends = [], False
        self.thread = threading.Thread(target=self._run, args=(write,))
        self.thread.start()

    def _run(self, write):
        while not self.ends:
            began = time.monotonic()
            write(self.client)
            self.times.append(time.monotonic() - began)

    def stop(self):
        self.ends = True
        self.thread.join()
        self.client.close()

    def median(self):
        return sorted(self.times)[len(self.times) // 2]


def load(client):
    text = os.urandom(8_000).hex()
    client.flow.load.insert_many([{"text": text} for _ in range(250)])


def count(client):
    client.flow.counters.update_one({"_id": 1}, {"$inc": {"n": 1}}, upsert=True)


def test_who_loads_waits_and_is_told(slow_set):
    replica_set, slow_down = slow_set
    with replica_set.direct(replica_set.primary()) as admin:

        def flow():
            return admin.admin.command("serverStatus")["flowControl"]

        before = flow()
        assert before["enabled"] and not before["isLagged"] and before["held"] == [] and "windowBytes" not in before
        slow_down.start()
        loaders = [Client(replica_set, load) for _ in range(4)]
        light = Client(replica_set, count)
        try:
            loading = {loader.id for loader in loaders}
            held = eventually("who loads is held", lambda: [one for one in flow()["held"] if one["connectionId"] in loading])
            assert all(one["bytes"] > 1_000_000 for one in held), held
            assert flow()["heldTotal"] > 0
            known = len(light.times)
            eventually("the other one goes on", lambda: len(light.times) > known + 10)
            admin.admin.command("setParameter", 1, enableFlowControl=False)
            eventually("nobody is held", lambda: not flow()["held"])
            assert not flow()["enabled"] and flow()["timeAcquiringMicros"] > 0
        finally:
            for client in [*loaders, light]:
                client.stop()
        assert light.median() < min(loader.median() for loader in loaders), "who brings little does not wait as long"


def test_the_target_is_a_parameter(slow_set):
    replica_set, _ = slow_set
    with replica_set.direct(replica_set.primary()) as admin:
        told = admin.admin.command("getParameter", 1, enableFlowControl=1, flowControlTargetLagSeconds=1)
        assert (told["enableFlowControl"], told["flowControlTargetLagSeconds"]) == (True, 10)
        assert admin.admin.command("setParameter", 1, flowControlTargetLagSeconds=3)["was"] == 10
        with pytest.raises(pymongo.errors.OperationFailure):
            admin.admin.command("setParameter", 1, flowControlTargetLagSeconds=0)
        metrics = admin.admin.command("serverStatus")["metrics"]["repl"]
        assert metrics["buffer"]["count"] >= 0 and metrics["buffer"]["maxSizeBytes"] > 0
        assert metrics["network"]["bytes"] > 0 and metrics["network"]["messagesDropped"] == 0
