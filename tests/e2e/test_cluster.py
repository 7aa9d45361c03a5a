"""`heddle cluster`: a replica set with one command."""

import os
import re
import signal
import subprocess
import time

import pymongo
import pytest

from replica_set import eventually
from server_process import BINARY, free_port


class Cluster:
    def __init__(self, output, *arguments):
        self.output = output
        with open(output, "ab") as file:
            self.process = subprocess.Popen([BINARY, "cluster", *arguments], stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def lines(self):
        return self.output.read_text().splitlines()

    def wait_for(self, pattern, count=1):
        def found():
            assert self.process.poll() is None, f"it ended:\n{self.output.read_text()}"
            return len([line for line in self.lines() if re.search(pattern, line)]) >= count

        eventually(f"{pattern!r}", found)

    def uri(self):
        return next(line.split()[-1] for line in self.lines() if "mongodb://" in line)


@pytest.fixture
def start_cluster(tmp_path):
    started = []

    def start(*arguments):
        started.append(Cluster(tmp_path / f"cluster{len(started)}.txt", *arguments))
        return started[-1]

    yield start
    for cluster in started:
        if cluster.process.poll() is None:
            cluster.process.send_signal(signal.SIGTERM)
            cluster.process.wait(60)


def is_over(port):
    try:
        with pymongo.MongoClient(f"mongodb://127.0.0.1:{port}/?directConnection=true", serverSelectionTimeoutMS=200) as client:
            client.admin.command("ping")
        return False
    except pymongo.errors.ServerSelectionTimeoutError:
        return True


def test_three_members_with_one_command(start_cluster, tmp_path):
    port = free_port(3)
    arguments = ["--members", "3", "--port", str(port), "--dbpath", str(tmp_path / "kept")]
    cluster = start_cluster(*arguments)
    cluster.wait_for("PRIMARY")
    cluster.wait_for("SECONDARY", 2)
    with pymongo.MongoClient(cluster.uri(), serverSelectionTimeoutMS=20_000) as client:
        client.tried.things.insert_one({"_id": 1})
        killed = client.primary[1]
        eventually("three members", lambda: len(client.nodes) == 3)
        pid = pymongo.MongoClient(f"mongodb://127.0.0.1:{killed}/?directConnection=true").admin.command("serverStatus")["pid"]
        os.kill(pid, signal.SIGKILL)
        cluster.wait_for(f"{killed}.*ended")
        client.tried.things.insert_one({"_id": 2})
        cluster.wait_for(f"{killed}.*SECONDARY")
    cluster.process.send_signal(signal.SIGINT)
    assert cluster.process.wait(60) == 0
    assert all(is_over(port + place) for place in range(3))
    again = start_cluster(*arguments)
    again.wait_for("PRIMARY")
    with pymongo.MongoClient(again.uri(), serverSelectionTimeoutMS=20_000) as client:
        assert [one["_id"] for one in client.tried.things.find().sort("_id")] == [1, 2]


def test_members_end_with_a_cluster_that_is_killed(start_cluster):
    port = free_port()
    cluster = start_cluster("--members", "1", "--port", str(port))
    cluster.wait_for("PRIMARY")
    cluster.process.kill()
    cluster.process.wait()
    eventually("the member's end", lambda: is_over(port))


def test_what_cannot_start_is_told_and_nothing_starts(start_cluster, start_server, tmp_path):
    port = free_port(2)
    start_server(port=port + 1)
    cluster = start_cluster("--members", "2", "--port", str(port), "--dbpath", str(tmp_path / "none"))
    assert cluster.process.wait(60) == 1
    assert f"port {port + 1} cannot be had" in cluster.output.read_text()
    assert not (tmp_path / "none").exists()
