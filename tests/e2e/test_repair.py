"""`heddle repair`: what can be read of a damaged directory becomes a new store, and what is lost is told."""

import random
import shutil
import signal

import pymongo.errors
import pytest
from replica_set import FAST, ReplicaSet
from server_process import Server
from test_backup import flip, heddle

DOCUMENTS = 3000


def damage(directory):
    """Flips a bit in the middle of the largest table, which is one of documents; its name."""
    table = max((directory / "engine").glob("*.sst"), key=lambda path: path.stat().st_size)
    flip(table, table.stat().st_size // 2)
    return table.name


def test_a_damaged_directory_is_repaired_with_the_server_stopped(tmp_path):
    data = tmp_path / "data"
    server = Server(data).wait_until_it_answers()
    with server.client() as client:
        documents = [{"_id": number, "n": number, "text": random.randbytes(300).hex()} for number in range(DOCUMENTS)]
        client.test.things.insert_many(documents)
        client.test.things.create_index("n", unique=True)
        client.test.others.insert_one({"_id": "whole"})
    in_use = heddle("repair", "--dbpath", data, check=False)
    assert in_use.returncode == 2 and "in use" in in_use.stderr
    assert server.stop() == 0
    table = damage(data)
    dry = heddle("repair", "--dbpath", data, "--dryRun", check=False)
    assert dry.returncode == 1 and "nothing was changed" in dry.stdout
    done = heddle("repair", "--dbpath", data, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    lost = [line for line in done.stdout.splitlines() if line.startswith("lost: ")]
    assert lost == [line for line in dry.stdout.splitlines() if line.startswith("lost: ")]
    assert lost[0].startswith(f"lost: {table}: a block cannot be read [documents: test.things _id "), lost
    assert lost[0] in (data / "damaged-000001" / "REPAIR").read_text()
    server = Server(data).wait_until_it_answers()
    with server.client() as client:
        found = list(client.test.things.find().sort("n", 1))
        assert lost[1] == f"lost: test.things: {len(found)} documents are there, {DOCUMENTS} were counted"
        assert DOCUMENTS - 100 < len(found) < DOCUMENTS and all(documents[one["_id"]] == one for one in found)
        assert client.test.command("validate", "things")["valid"]
        with pytest.raises(pymongo.errors.DuplicateKeyError):
            client.test.things.insert_one({"n": found[0]["n"]})
        assert client.test.others.find_one() == {"_id": "whole"}
    assert server.stop() == 0
    again = heddle("repair", "--dbpath", data)
    assert "nothing is lost" in again.stdout and "damaged-000002" in again.stdout
    checked = heddle("check", "--dbpath", data / "damaged-000001", check=False)
    assert f"damaged: {table}" in checked.stdout, "the files of before are as they were"
    assert heddle("repair", "--dbpath", tmp_path / "nothing", check=False).returncode == 2


def test_a_member_that_lost_something_copies_from_others_or_leaves_its_set(tmp_path):
    members = ReplicaSet(tmp_path, 3, settings=FAST)
    try:
        with members.client(w="majority") as client:
            client.test.things.insert_many([{"_id": number, "text": random.randbytes(300).hex()} for number in range(DOCUMENTS)])
        member = members.secondaries()[0]
        with members.direct(member) as client:
            client.admin.command("fsync")
        members.kill(member)
        whole = heddle("repair", "--dbpath", member.directory)
        assert "nothing is lost" in whole.stdout
        member = members.restart(member)
        members.wait_until_healthy()
        members.assert_members_are_equal()
        members.kill(member)
        damage(member.directory)
        alone = shutil.copytree(member.directory, tmp_path / "alone")
        refused = heddle("repair", "--dbpath", member.directory, check=False)
        assert refused.returncode == 2 and "copies from another member" in refused.stderr and "lost: " in refused.stdout
        shutil.rmtree(member.directory)
        members.restart(member)
        members.wait_until_healthy()
        members.assert_members_are_equal()
        left = heddle("repair", "--dbpath", alone, "--leaveSet", check=False)
        assert left.returncode == 1 and "belong to no set any more" in left.stdout, left.stdout + left.stderr
    finally:
        members.kill_all()
    server = Server(alone).wait_until_it_answers()
    with server.client() as client:
        assert DOCUMENTS - 100 < client.test.things.count_documents({}) <= DOCUMENTS
        assert client.local["oplog.rs"].count_documents({}) == 0
        client.test.things.insert_one({"_id": "new"})
    server.stop(signal.SIGKILL)
