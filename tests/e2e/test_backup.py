"""Backups of a server that is written to; what is restored; what is damaged is told and never served."""

import pathlib
import random
import signal
import subprocess
import threading
import time

import pymongo
import pymongo.errors
import pytest
from replica_set import ReplicaSet, eventually
from server_process import BINARY, Server

DATA_CORRUPTION_DETECTED = 301


def heddle(*arguments, check=True):
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert not check or done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done


def backup(server, directory, *arguments, **options):
    return heddle("backup", directory, "--uri", server.uri, *arguments, **options)


@pytest.fixture
def server(tmp_path):
    started = Server(tmp_path / "data").wait_until_it_answers()
    yield started
    if started.process.poll() is None:
        started.stop(signal.SIGKILL)


class Load:
    """Inserts pairs in one statement each, in their order, until it is told to end."""

    def __init__(self, server):
        self.client = server.client()
        self.things = self.client.test.things
        self.things.create_index("n", unique=True)
        self.acknowledged = 0
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ends.is_set():
            number = self.acknowledged
            self.things.insert_one({"_id": number, "n": number, "text": "x" * 300})
            self.acknowledged = number + 1

    def end(self):
        self.ends.set()
        self.thread.join()
        self.client.close()


def restored(tmp_path, backups, name, *arguments):
    heddle("restore", backups, "--dbpath", tmp_path / name, *arguments)
    return Server(tmp_path / name).wait_until_it_answers()


def test_a_backup_under_load_is_a_state_that_there_was(server, tmp_path):
    load, backups, least = Load(server), tmp_path / "backups", []
    try:
        for _ in range(3):
            eventually("the load goes on", lambda: load.acknowledged > (least[-1] if least else 0) + 200)
            least.append(load.acknowledged)
            told = backup(server, backups).stdout
            assert f"generation {len(least)}: " in told
    finally:
        load.end()
    assert ", 0 shared" not in told
    for generation, known in enumerate(least, 1):
        again = restored(tmp_path, backups, f"restored{generation}", "--generation", generation)
        with again.client() as client:
            found = [document["_id"] for document in client.test.things.find(sort=[("n", 1)])]
            assert found == list(range(len(found))), "no document is there without those before it"
            assert known <= len(found) <= load.acknowledged
            assert client.test.command("validate", "things")["valid"]
        assert again.stop() == 0
        assert "nothing is damaged" in heddle("check", "--dbpath", tmp_path / f"restored{generation}").stdout
    assert "nothing is damaged" in heddle("check", backups).stdout
    backup(server, backups, "--keep", 1)
    assert [path.name for path in backups.glob("generation-*")] == ["generation-000004"]


def test_what_cannot_be_backed_up_is_refused(server, tmp_path):
    with server.client() as client:
        with pytest.raises(pymongo.errors.OperationFailure, match="absolute path"):
            client.admin.command("heddleBackup", directory="relative")
        with pytest.raises(pymongo.errors.OperationFailure, match="not be within each other"):
            client.admin.command("heddleBackup", directory=str(tmp_path / "data" / "backups"))
        with pytest.raises(pymongo.errors.OperationFailure, match="admin database"):
            client.test.command("heddleBackup", directory=str(tmp_path / "backups"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").write_text("x")
    assert "not empty" not in backup(server, tmp_path / "backups").stderr
    refused = heddle("restore", tmp_path / "backups", "--dbpath", tmp_path / "full", check=False)
    assert refused.returncode != 0 and "not empty" in refused.stderr
    in_use = heddle("check", "--dbpath", tmp_path / "data", check=False)
    assert in_use.returncode != 0 and "in use" in in_use.stderr


def test_who_is_killed_in_a_backup_or_restore_leaves_nothing_that_looks_whole(tmp_path):
    random.seed(7)
    backups = tmp_path / "backups"
    server = Server(tmp_path / "data").wait_until_it_answers()
    with server.client() as client:
        client.test.things.insert_many({"_id": number, "text": "x" * 2000} for number in range(3000))
    for turn in range(4):
        asking = subprocess.Popen([BINARY, "backup", str(backups), "--uri", server.uri])
        time.sleep(random.uniform(0, 0.3))
        server.stop(signal.SIGKILL)
        asking.wait(60)
        server = Server(tmp_path / "data").wait_until_it_answers()
        assert not (tmp_path / "data" / "backup-checkpoint").exists()
        for whole in backups.glob("generation-*"):
            number = whole.name.removeprefix("generation-")
            assert "nothing is damaged" in heddle("check", backups, "--generation", number).stdout
    backup(server, backups)
    assert list(backups.glob("incomplete-*")) == []
    server.stop()
    target = tmp_path / "restored"
    for turn in range(6):
        restoring = subprocess.Popen([BINARY, "restore", str(backups), "--dbpath", str(target)], stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(0, 0.25))
        restoring.send_signal(signal.SIGKILL)
        restoring.wait()
        if (target / "restoring").exists():
            refused = heddle("serve", "--dbpath", target, "--port", server.port, "--diskReserveMB", 0, check=False)
            assert refused.returncode == 100 and "heddle restore" in refused.stderr
        elif target.exists() and any(target.iterdir()):
            break
    if not target.exists() or (target / "restoring").exists() or not any(target.iterdir()):
        heddle("restore", backups, "--dbpath", target)
    again = Server(target).wait_until_it_answers()
    with again.client() as client:
        assert client.test.things.count_documents({}) == 3000
    again.stop()


def fill(client, first, count=500):
    client.test.things.insert_many({"_id": number, "bytes": random.randbytes(20_000)} for number in range(first, first + count))


def content(server):
    with server.client() as client:
        return {document["_id"]: document["bytes"] for document in client.test.things.find()}


def test_an_interrupted_backup_leaves_nothing_that_looks_whole(server, tmp_path):
    backups = tmp_path / "backups"
    with server.client() as client:
        fill(client, 0)
        backup(server, backups)
        expect = content(server)
        fill(client, 500)
        # Slow enough to be met on its way.
        client.admin.command("setCalendar", 1, backup={"bytesPerSecond": 1_000_000})
        for sign in (signal.SIGINT, signal.SIGTERM):
            command = [BINARY, "backup", str(backups), "--uri", server.uri]
            taking = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            copied = lambda: list(backups.glob("incomplete-*/engine/*.sst"))
            under_way = lambda: [operation for operation in client.admin.command("currentOp")["inprog"] if operation.get("progress", {}).get("done", 0) > 0]
            eventually("it is under way", lambda: copied() and under_way(), 30)
            assert (tmp_path / "data" / "backup-checkpoint").exists()
            taking.send_signal(sign)
            told, refused = taking.communicate(timeout=30)
            assert taking.returncode == 1 and "ending the backup" in told and "interrupted" in refused, (told, refused)
            assert sorted(path.name for path in backups.iterdir()) == ["generation-000001", "lock"]
            assert not (tmp_path / "data" / "backup-checkpoint").exists()
        assert "nothing is damaged" in heddle("check", backups).stdout
        again = restored(tmp_path, backups, "restored")
        assert content(again) == expect, "of before the interrupted ones"
        again.stop()
        client.admin.command("setCalendar", 1, backup=None)
        assert "generation 2:" in backup(server, backups).stdout
        assert sorted(content(server)) == list(range(1_000)), "the server goes on"
    again = restored(tmp_path, backups, "restored2")
    assert content(again) == content(server)
    again.stop()


@pytest.fixture
def other_file_system(tmp_path):
    """One that no file here can be linked to."""
    path = tmp_path / "other"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", str(path)], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"this user may not mount a file system: {mounted.stderr.strip()}")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def test_backup_and_restore_across_file_systems_copy(server, tmp_path, other_file_system):
    here, there = tmp_path / "backups", other_file_system / "backups"
    with server.client() as client:
        client.test.things.create_index("bytes")
        fill(client, 0)
        first = backup(server, there).stdout
        assert "(0 as links), 0 shared" in first, first
        assert "(0 as links)" not in backup(server, here).stdout, "on one file system tables are linked"
        # The next generation shares what is there already.
        fill(client, 500, 50)
        second = backup(server, there).stdout
        assert "generation 2:" in second and "(0 as links)" in second and " 0 shared" not in second, second
        expect = content(server)
    of_first = {number: data for number, data in expect.items() if number < 500}
    for backups, generation, target, expected in [
        (there, 1, tmp_path / "from_there_1", of_first),
        (there, 2, tmp_path / "from_there_2", expect),
        (here, 1, other_file_system / "from_here", of_first),
    ]:
        assert "nothing is damaged" in heddle("check", backups, "--generation", generation).stdout
        heddle("restore", backups, "--dbpath", target, "--generation", generation)
        assert "nothing is damaged" in heddle("check", "--dbpath", target).stdout
        again = Server(target).wait_until_it_answers()
        assert content(again) == expected, target
        with again.client() as client:
            assert client.test.command("validate", "things")["valid"]
            client.test.things.insert_one({"_id": "new"})
        assert again.stop() == 0
        # A backup is nobody's working files.
        assert "nothing is damaged" in heddle("check", backups, "--generation", generation).stdout


def test_a_flipped_byte_is_told_and_never_served(tmp_path):
    server = Server(tmp_path / "data").wait_until_it_answers()
    with server.client() as client:
        documents = [{"_id": number, "text": random.randbytes(300).hex()} for number in range(3000)]
        client.test.things.insert_many(documents)
        client.test.others.insert_one({"_id": "whole"})
    assert server.stop() == 0
    table = max((tmp_path / "data" / "engine").glob("*.sst"), key=lambda path: path.stat().st_size)
    flip(table, table.stat().st_size // 2)
    checked = heddle("check", "--dbpath", tmp_path / "data", check=False)
    assert checked.returncode != 0
    assert f"damaged: {table.name}" in checked.stdout and "test.things _id" in checked.stdout
    server = Server(tmp_path / "data").wait_until_it_answers()
    with server.client() as client:
        refused = 0
        for document in documents:
            try:
                assert client.test.things.find_one({"_id": document["_id"]}) == document
            except pymongo.errors.OperationFailure as error:
                assert error.code == DATA_CORRUPTION_DETECTED and table.name in str(error)
                refused += 1
        assert 0 < refused < 100, "one block"
        with pytest.raises(pymongo.errors.OperationFailure) as told:
            list(client.test.things.find())
        assert told.value.code == DATA_CORRUPTION_DETECTED and told.value.details["codeName"] == "DataCorruptionDetected"
        assert client.test.others.find_one() == {"_id": "whole"}, "the server goes on"
        with pytest.raises(pymongo.errors.OperationFailure, match="damaged and was not backed up"):
            client.admin.command("heddleBackup", directory=str(tmp_path / "backups"))
    assert table.name in server.log.read_text(), "the log names the file"
    server.stop(signal.SIGKILL)


def test_a_members_backup_is_restored_as_a_server_of_no_set(tmp_path):
    replica_set = ReplicaSet(tmp_path)
    try:
        with replica_set.client() as client:
            client.test.things.insert_many([{"_id": number} for number in range(500)])
            client.test.things.update_many({}, {"$set": {"n": 1}})
        members = list(replica_set.members)
        told = []
        for place, member in enumerate(members):
            backup(member, tmp_path / f"backups{place}")
            told.append(heddle("restore", tmp_path / f"backups{place}", "--dbpath", tmp_path / f"restored{place}").stdout)
    finally:
        replica_set.kill_all()
    assert all("belongs to no set now" in line for line in told)
    again = Server(tmp_path / "restored0").wait_until_it_answers()
    with again.client() as client:
        assert client.test.things.count_documents({"n": 1}) == 500
        assert client.test.command("validate", "things")["valid"]
        assert client.local["oplog.rs"].count_documents({}) == 0
        assert client.local["system.replset"].count_documents({}) == 0
    again.stop()


def flip(path: pathlib.Path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 0x10
    path.write_bytes(content)
