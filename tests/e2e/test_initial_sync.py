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


def fall_behind(running):
    """Writes until the oplog has forgotten what it began with."""
    with running.client() as client:
        for _ in range(6):
            client.test.things.insert_many([{"bytes": os.urandom(1_000)} for _ in range(1_000)])

        def trimmed():
            first = client.local["oplog.rs"].find().sort("$natural", 1).limit(1).next()
            return first["op"] == "i" and first["ns"] == "test.things" or first["op"] == "c" and "applyOps" in first["o"]

        eventually("an oplog that begins later", trimmed)


def test_a_member_that_is_too_far_behind_copies(replica_set):
    running = replica_set(3, "--oplogSize", "1")
    late = running.secondaries()[0]
    running.kill(late)
    fall_behind(running)
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


def join(running, tmp_path, *arguments):
    """A further member, without data, that the set is told of."""
    port = free_port()
    server = Server(tmp_path / "joining", "--replSet", running.name, *arguments, port=port).wait_until_it_answers()
    running.members.append(server)
    with running.client() as client:
        config = client.admin.command("replSetGetConfig")["config"]
        config["version"] += 1
        config["members"].append({"_id": 9, "host": f"127.0.0.1:{port}", "priority": 0, "votes": 0})
        client.admin.command("replSetReconfig", config)
    return server


def test_a_new_member_copies_from_a_secondary_within_the_budget_and_tells_how_far_it_is(replica_set, tmp_path):
    fill(tmp_path / "member0", 1_000, 6_000)
    running = replica_set(2)
    primary = running.hosts[running.members.index(running.primary())]
    # An eighth of the budget: 6 MB take six seconds.
    late = join(running, tmp_path, "--backgroundMBPerSecond", "8")

    def told():
        with running.direct(late) as client:
            status = client.admin.command("replSetGetStatus")["initialSyncStatus"]
            copying = client.admin.command({"currentOp": 1, "desc": "replication-copy"})["inprog"]
            return 0 < status.get("percent", 0) < 100 and copying and (status, copying[0])

    status, operation = eventually("word of the copy", told)
    assert status["syncSourceHost"] in running.hosts and status["syncSourceHost"] != primary
    assert 0 < status["approxTotalBytesCopied"] < status["approxTotalDataSize"]
    assert status["failedInitialSyncAttempts"] == 0 and status["initialSyncAttempts"] == []
    assert status["syncSourceHost"] in operation["msg"] and "%" in operation["msg"]
    assert 0 < operation["progress"]["done"] < operation["progress"]["total"]
    running.wait_until_healthy()
    running.assert_members_are_equal()
    assert copied(late)


def test_the_oplog_is_kept_for_a_member_that_copies_under_load(replica_set, tmp_path):
    fill(tmp_path / "member0", 1_000, 6_000)
    running = replica_set(2, "--oplogSize", "1")
    primary = running.primary()
    # Six seconds, in which twice as much is written as the oplog holds.
    late = join(running, tmp_path, "--backgroundMBPerSecond", "8")
    with running.client() as client:
        kept = []

        def written():
            client.test.things.insert_many([{"bytes": os.urandom(1_000)} for _ in range(25)])
            kept.append(client.admin.command("serverStatus")["repl"]["keptForCopies"])
            return copied(late)

        eventually("a copy under load", written, pause=0.06)
    running.wait_until_healthy()
    running.assert_members_are_equal()
    assert late.log.read_text().count("the data are copied") == 1
    assert max(figures["members"] for figures in kept) >= 1 and kept[-1]["givenUp"] == 0
    assert max(figures["oplogBytes"] for figures in kept) > 1.2 * 2**20
    assert "kept beyond its size" in primary.log.read_text()


def test_a_member_replaces_its_data_by_itself_unless_told_not_to(replica_set):
    running = replica_set(3, "--oplogSize", "1", "--setParameter", "automaticInitialSync=false")
    late = running.secondaries()[0]
    running.kill(late)
    fall_behind(running)
    late = running.restart(late)

    def stale():
        own = [member for member in running.status(late)["members"] if member.get("self")]
        return own[0]["stateStr"] == "RECOVERING" and own[0]["infoMessage"]

    assert "automaticInitialSync" in eventually("a member that says it is too far behind", stale)
    assert not copied(late)
    with running.direct(late) as client:
        client.admin.command("setParameter", 1, automaticInitialSync=True)
    running.wait_until_healthy()
    running.assert_members_are_equal()
    assert copied(late)
