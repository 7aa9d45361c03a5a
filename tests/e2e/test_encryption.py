"""Encryption at rest: nothing of the data in any file, the right key or no start, and all that is done with files besides."""

import base64
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pymongo.errors
import pytest
from replica_set import ReplicaSet, eventually
from server_process import BINARY, Server
from test_backup import backup, flip, heddle

# In every document, also in fields that are indexed and in names; random bytes keep it from being compressed away.
MARKER = "Zx9MarkerOfWhatIsSecret"
DOCUMENTS = 3_000


def make_key(path):
    path.write_text(base64.b64encode(os.urandom(32)).decode() + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def key(tmp_path):
    return make_key(tmp_path / "key")


def encryption(key):
    return ["--enableEncryption", "--encryptionKeyFile", str(key)]


def start(directory, key, *arguments):
    return Server(directory, *encryption(key), *arguments).wait_until_it_answers()


def document(number):
    return {"_id": number, "n": f"{MARKER}{number % 97}", MARKER: random.randbytes(150).hex() + MARKER}


def fill(client, first=0, documents=DOCUMENTS):
    things = client[MARKER].things
    things.insert_many([document(number) for number in range(first, first + documents)])
    things.create_index("n")


def assert_nothing_in_clear(*paths):
    """No file below these has the marker, and those of the engine not even their own words."""
    looked = 0
    for path in paths:
        for file in pathlib.Path(path).rglob("*"):
            if not file.is_file():
                continue
            try:
                content = file.read_bytes()
            except FileNotFoundError:
                continue
            looked += 1
            for word in [MARKER.encode(), b"rocksdb.", b"leveldb.BytewiseComparator"]:
                assert word not in content, f"{file} has {word} in the clear"
    assert looked > 5


def open_files(server):
    """What the server has open and nobody else can: files without a name."""
    for descriptor in pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir():
        try:
            if "/_tmp/" in os.readlink(descriptor):
                yield descriptor.read_bytes()
        except FileNotFoundError:
            continue


def fails_to_start(directory, *arguments):
    """The exit status of a server that does not start, and what it says."""
    command = [BINARY, "serve", "--dbpath", str(directory), "--port", "0", "--nounixsocket", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0, done.stdout
    return done.returncode, done.stderr


def image(directory):
    return {path: path.read_bytes() for path in pathlib.Path(directory).rglob("*") if path.is_file()}


def test_nothing_is_in_the_clear_and_nothing_is_lost_by_a_kill(tmp_path, key):
    data, backups = tmp_path / "data", tmp_path / "backups"
    server = start(data, key)
    with server.client() as client:
        status = client.admin.command("serverStatus")["encryptionAtRest"]
        assert status["encryptionEnabled"] is True and status["encryptionCipherMode"] == "AES256-GCM"
        assert len(status["encryptionKeyId"]) == 16
        fill(client)
        client.admin.command("fsync")
        fill(client, DOCUMENTS)
        things = client[MARKER].things
        client.admin.command("setParameter", 1, internalQueryMaxBlockingSortMemoryUsageBytes=100_000)
        cursor = things.aggregate([{"$sort": {MARKER: 1}}], allowDiskUse=True, batchSize=10)
        ordered = [next(cursor)[MARKER]]
        spilled = list(open_files(server))
        assert sum(map(len, spilled)) > 500_000, "the sort is on the disk"
        assert not any(MARKER.encode() in content for content in spilled)
        ordered += [one[MARKER] for one in cursor]
        assert len(ordered) == 2 * DOCUMENTS and ordered == sorted(ordered)
        client[MARKER].command("compact", "things")
        things.update_many({"_id": {"$lt": 500}}, {"$set": {"more": MARKER}})
        backup(server, backups)
        assert_nothing_in_clear(data, backups)
    assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    assert_nothing_in_clear(data)
    server = start(data, key)
    with server.client() as client:
        things = client[MARKER].things
        assert things.count_documents({}) == 2 * DOCUMENTS and things.count_documents({"more": MARKER}) == 500
        assert things.count_documents({"n": f"{MARKER}5"}) == len([number for number in range(2 * DOCUMENTS) if number % 97 == 5])
        assert client[MARKER].command("validate", "things", full=True)["valid"]
    assert server.stop() == 0
    assert_nothing_in_clear(data)
    assert "nothing is damaged" in heddle("check", "--dbpath", data, "--encryptionKeyFile", key).stdout


def test_without_its_key_nothing_is_opened_and_nothing_is_touched(tmp_path, key):
    data = tmp_path / "data"
    server = start(data, key)
    with server.client() as client:
        fill(client, documents=100)
    assert server.stop() == 0
    before, other = image(data), make_key(tmp_path / "other")
    status, words = fails_to_start(data)
    assert status == 100 and "is encrypted with the key" in words and "--enableEncryption" in words
    status, words = fails_to_start(data, *encryption(other))
    assert status == 100 and "and the key that is given is" in words
    status, words = fails_to_start(data, "--enableEncryption", "--encryptionKeyCommand", "exit 4")
    assert "exit status: 4" in words
    status, words = fails_to_start(data, "--enableEncryption")
    assert status == 2 and "needs security.encryptionKeyFile" in words
    key.chmod(0o640)
    status, words = fails_to_start(data, *encryption(key))
    assert "are too open" in words
    key.chmod(0o600)
    for command in ["check", "repair"]:
        refused = heddle(command, "--dbpath", data, check=False)
        assert refused.returncode != 0 and "is encrypted with the key" in refused.stderr
        refused = heddle(command, "--dbpath", data, "--encryptionKeyFile", other, check=False)
        assert refused.returncode != 0 and "and the key that is given is" in refused.stderr
    assert image(data) == before
    status, words = fails_to_start(data, *encryption(key), "--encryptionCipherMode", "AES256-CBC")
    assert status == 2 and "AES256-GCM" in words
    printed = ["--enableEncryption", "--encryptionKeyCommand", f"cat {key}"]
    server = Server(data, *printed).wait_until_it_answers()
    with server.client() as client:
        assert client[MARKER].things.count_documents({}) == 100
    assert server.stop() == 0


def test_data_that_are_not_encrypted_are_refused_with_a_key(tmp_path, key):
    data = tmp_path / "data"
    server = Server(data).wait_until_it_answers()
    with server.client() as client:
        assert client.admin.command("serverStatus")["encryptionAtRest"] == {"encryptionEnabled": False}
        client.test.things.insert_one({"_id": 1})
    assert server.stop() == 0
    before = image(data)
    status, words = fails_to_start(data, *encryption(key))
    assert status == 100 and "holds data that are not encrypted" in words
    assert image(data) == before


def test_a_backup_is_encrypted_and_restored_with_its_key(tmp_path, key):
    data, backups = tmp_path / "data", tmp_path / "backups"
    server = start(data, key)
    with server.client() as client:
        fill(client)
        backup(server, backups)
        fill(client, DOCUMENTS)
        told = backup(server, backups).stdout
        assert ", 0 shared" not in told, "tables that did not change are links"
    assert server.stop() == 0
    assert_nothing_in_clear(backups)
    refused = heddle("restore", backups, "--dbpath", tmp_path / "without", check=False)
    assert refused.returncode == 1 and "is encrypted with the key" in refused.stderr
    assert not (tmp_path / "without").exists()
    given = ["--encryptionKeyFile", key]
    assert "nothing is damaged" in heddle("check", backups, *given).stdout
    for generation, documents in [(1, DOCUMENTS), (2, 2 * DOCUMENTS)]:
        target = tmp_path / f"restored{generation}"
        heddle("restore", backups, "--generation", generation, "--dbpath", target, *given)
        assert_nothing_in_clear(target)
        again = start(target, key)
        with again.client() as client:
            assert client[MARKER].things.count_documents({}) == documents
            assert client[MARKER].command("validate", "things", full=True)["valid"]
        assert again.stop() == 0
    table = max(backups.glob("generation-000002/engine/*.sst"), key=lambda path: path.stat().st_size)
    flip(table, table.stat().st_size // 2)
    checked = heddle("check", backups, *given, check=False)
    assert checked.returncode == 1 and table.name in checked.stdout


def test_a_flipped_bit_is_found_never_served_and_repaired(tmp_path, key):
    data, given = tmp_path / "data", ["--encryptionKeyFile", key]
    server = start(data, key)
    with server.client() as client:
        fill(client)
        written = {one["_id"]: one for one in client[MARKER].things.find()}
    assert server.stop() == 0
    table = max((data / "engine").glob("*.sst"), key=lambda path: path.stat().st_size)
    flip(table, table.stat().st_size // 2)
    checked = heddle("check", "--dbpath", data, *given, check=False)
    assert checked.returncode == 1 and table.name in checked.stdout, checked.stdout + checked.stderr
    server = start(data, key)
    with server.client() as client:
        with pytest.raises(pymongo.errors.OperationFailure):
            for one in client[MARKER].things.find():
                assert written[one["_id"]] == one
    assert server.stop() == 0
    done = heddle("repair", "--dbpath", data, *given, check=False)
    assert done.returncode == 1 and "lost: " in done.stdout, done.stdout + done.stderr
    assert_nothing_in_clear(data / "engine", data / "damaged-000001" / "engine")
    server = start(data, key)
    with server.client() as client:
        found = list(client[MARKER].things.find())
        assert DOCUMENTS - 200 < len(found) < DOCUMENTS and all(written[one["_id"]] == one for one in found)
    assert server.stop() == 0
    kept = heddle("check", "--dbpath", data / "damaged-000001", *given, check=False)
    assert table.name in kept.stdout, "the files of before are there with their keys"


def test_the_key_is_replaced(tmp_path, key):
    data, new = tmp_path / "data", make_key(tmp_path / "new")
    server = start(data, key)
    with server.client() as client:
        fill(client)
        before = client.admin.command("serverStatus")["encryptionAtRest"]["encryptionKeyId"]
    rotate = ["rotate-key", "--dbpath", data, "--encryptionKeyFile", key, "--newEncryptionKeyFile", new]
    in_use = heddle(*rotate, check=False)
    assert in_use.returncode == 1 and "in use" in in_use.stderr
    assert server.stop() == 0
    assert heddle(*rotate[:5], check=False).returncode == 2
    assert "from now on" in heddle(*rotate).stdout
    assert fails_to_start(data, *encryption(key))[0] == 100
    server = start(data, new)
    with server.client() as client:
        assert client.admin.command("serverStatus")["encryptionAtRest"]["encryptionKeyId"] != before
        assert client[MARKER].things.count_documents({}) == DOCUMENTS
        fill(client, DOCUMENTS)
        client[MARKER].command("compact", "things")
        assert client[MARKER].command("validate", "things", full=True)["valid"]
    assert server.stop() == 0


def test_the_log_of_the_engine_can_be_read_with_the_key(tmp_path, key):
    data = tmp_path / "data"
    told = ["engine-log", "--dbpath", data]
    server = start(data, key)
    running = heddle(*told, "--encryptionKeyFile", key).stdout
    assert "RocksDB version" in running and MARKER not in running
    assert server.stop() == 0
    assert start(data, key).stop() == 0
    both = heddle(*told, "--encryptionKeyFile", key).stdout
    assert both.startswith(running) and both.count("RocksDB version") == 2, "the log of the start before, and the last one"
    refused = heddle(*told, check=False)
    assert refused.returncode == 1 and "encrypted" in refused.stderr and not refused.stdout
    other = make_key(tmp_path / "other")
    assert heddle(*told, "--encryptionKeyFile", other, check=False).returncode == 1


def test_members_copy_from_each_other_with_keys_of_their_own(tmp_path, key):
    """One in the clear, one encrypted, another one with another key: the later ones copy the data of the first."""
    server = start(tmp_path / "member0", key)
    with server.client() as client:
        fill(client)
    assert server.stop() == 0
    members = ReplicaSet(tmp_path, 1, *encryption(key))
    try:
        with members.client() as client:
            assert client[MARKER].things.count_documents({}) == DOCUMENTS
            joined = []
            for name, arguments in [("other", encryption(make_key(tmp_path / "key-of-other"))), ("clear", [])]:
                joined.append(Server(tmp_path / name, "--replSet", members.name, *arguments).wait_until_it_answers())
                members.members.append(joined[-1])
                config = client.admin.command("replSetGetConfig")["config"]
                config["version"] += 1
                host = f"127.0.0.1:{joined[-1].port}"
                config["members"].append({"_id": len(config["members"]), "host": host, "votes": 1, "priority": 0})
                client.admin.command("replSetReconfig", config)
                eventually("the member copies", lambda: "the data are copied" in joined[-1].log.read_text(), 60)
                members.wait_until_healthy()
            client[MARKER].things.insert_one({"_id": "later", "n": MARKER})
        members.assert_members_are_equal()
        assert_nothing_in_clear(tmp_path / "member0", tmp_path / "other")
        assert any(MARKER.encode() in path.read_bytes() for path in (tmp_path / "clear" / "engine").iterdir())
        assert joined[0].stop() == 0
        joined[0].start()
        joined[0].wait_until_it_answers()
    finally:
        members.kill_all()


def test_an_index_build_goes_on_after_a_kill(tmp_path, key):
    data = tmp_path / "data"
    server = start(data, key)
    with server.client() as client:
        for first in range(0, 60_000, 3_000):
            client[MARKER].things.insert_many([document(number) for number in range(first, first + 3_000)])
    seen = False
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", "import sys, pymongo; pymongo.MongoClient(sys.argv[1])[sys.argv[2]].things.create_index([(sys.argv[2], 1)])", server.uri, MARKER],
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and process.poll() is None and not list((data / "index-builds").glob("*/state")):
            time.sleep(0.005)
        time.sleep(random.random() / 5)
        server.stop(signal.SIGKILL)
        process.wait()
        if (data / "index-builds").exists():
            seen = seen or any((data / "index-builds").glob("*/*"))
            assert_nothing_in_clear(data)
        server = start(data, key)
        with server.client() as client:
            eventually("the build ends", lambda: not client.admin.command("currentOp", **{"msg": {"$regex": "^Index Build"}})["inprog"], 60)
            assert client[MARKER].command("validate", "things", full=True)["valid"]
            client[MARKER].things.drop_indexes()
        if seen:
            break
    assert seen, "no kill came in the middle of a build"
    assert server.stop() == 0
