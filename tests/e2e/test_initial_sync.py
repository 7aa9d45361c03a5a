"""Members that get the data of another one by a copy of its files."""

import os

import pytest
from replica_set import ReplicaSet, eventually
from server_process import Server, free_port


@pytest.fixture
def replica_set(tmp_path):
    started = []

    def start(*arguments, **options):
        started.append(ReplicaSet(tmp_path, *arguments, **options))
        return started[-1]

    yield start
    for one in started:
        one.kill_all()


def fill(directory, documents, size):
    """Data of a server that was no member."""
    server = Server(directory, port=free_port()).wait_until_it_answers()
    with server.client() as client:
        collection = client.before.things
        for first in range(0, documents, 100):
            collection.insert_many(
                [{"_id": number, "n": number % 7, "bytes": os.urandom(size)} for number in range(first, first + 100)]
            )
        collection.create_index("n")
    assert server.stop() == 0


def copied(member):
    return "the data are copied" in member.log.read_text()


def test_members_copy_what_a_set_began_with(replica_set, tmp_path):
    fill(tmp_path / "member0", 2_000, 500)
    running = replica_set(3)
    running.assert_members_are_equal()
    assert not copied(running.members[0]) and copied(running.members[1]) and copied(running.members[2])
    with running.client() as client:
        assert client.before.things.find({"n": 3}).hint("n_1").to_list() != []
        client.before.things.insert_one({"_id": "later"})
    running.assert_members_are_equal()
    for member in running.members:
        assert not (member.directory / "initial-sync").exists()
    assert running.stop() == [0, 0, 0]


def test_a_member_that_is_too_far_behind_copies(replica_set):
    running = replica_set(3, "--oplogSize", "1")
    late = running.secondaries()[0]
    running.kill(late)
    with running.client() as client:
        for _ in range(6):
            client.test.things.insert_many([{"bytes": os.urandom(1_000)} for _ in range(1_000)])

        def trimmed():
            first = client.local["oplog.rs"].find().sort("$natural", 1).limit(1).next()
            return first["op"] == "i" and first["ns"] == "test.things" or first["op"] == "c" and "applyOps" in first["o"]

        eventually("an oplog that begins later", trimmed)
    late = running.restart(late)
    running.wait_until_healthy()
    running.assert_members_are_equal()
    assert copied(late)


def test_both_ends_may_die(replica_set, tmp_path):
    fill(tmp_path / "member0", 1_000, 60_000)
    running = replica_set(2, initiate=False)
    config = {"_id": "rs", "members": [{"_id": number, "host": host} for number, host in enumerate(running.hosts)]}
    source, member = running.members
    with running.direct(source) as client:
        client.admin.command("replSetInitiate", config)
    plan = member.directory / "initial-sync" / "plan"
    eventually("a copy that was begun", plan.exists)
    running.kill(member)
    running.kill(source)
    running.restart(source)
    running.restart(member)
    running.wait_until_healthy()
    running.assert_members_are_equal()
    assert copied(running.members[1])
