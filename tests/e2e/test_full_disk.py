"""A disk that fills up: inserts are refused while there is a reserve, deletes and drops go on, and room comes back by itself."""

import json
import os
import shutil
import signal
import subprocess
import time

import pymongo
import pytest
from pymongo.errors import OperationFailure

OUT_OF_DISK_SPACE = 14031
DISK_MIB = 224
RESERVE_MIB = 24
DOCUMENT_BYTES = 16_000
# Longer than the engine takes to look whether the disk has room again.
PATIENCE_SECONDS = 90


class SmallDisk:
    """A file system of its own: in memory, or in a file."""

    def __init__(self, path, kind):
        path.mkdir()
        self.path = path
        self.data = path / "data"
        self.filler = path / "filler"
        self.servers = []
        if kind == "tmpfs":
            mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(path)]
        else:
            if shutil.which("mkfs.ext4") is None:
                pytest.skip("mkfs.ext4 is not there")
            image = path.parent / "image"
            image.touch()
            os.truncate(image, DISK_MIB * 2**20)
            subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
            mount = ["mount", "-o", "loop", str(image), str(path)]
        mounted = subprocess.run(mount, capture_output=True, text=True)
        if mounted.returncode != 0:
            pytest.skip(f"this user may not mount a small file system: {mounted.stderr.strip()}")

    def free(self):
        volume = os.statvfs(self.path)
        return volume.f_bavail * volume.f_frsize

    def fill(self):
        """Another program takes all there is, and nothing of what the server gives up because of it."""
        left = self.free()
        with open(self.filler, "ab", buffering=0) as file:
            for size in (1 << 20, 4096):
                try:
                    while left > 0:
                        left -= file.write(b"x" * min(size, left))
                except OSError:
                    pass

    def empty(self):
        self.filler.unlink()


@pytest.fixture
def disk(tmp_path, start_server, request):
    small = SmallDisk(tmp_path / "disk", getattr(request, "param", "tmpfs"))
    yield small
    # Servers end before `start_server` does: a mounted file system cannot be left behind.
    for server in small.servers:
        server.process.kill()
        server.process.wait()
    subprocess.run(["umount", str(small.path)], check=True)


@pytest.fixture
def start(disk, start_server):
    log = disk.path.parent / "server.log"

    def start():
        server = start_server(
            "--diskReserveMB", str(RESERVE_MIB), "--cacheSizeMB", "64", "--logpath", str(log), "--logappend",
            directory=disk.data, wait=False,
        )
        disk.servers.append(server)
        server.wait_until_it_answers()
        server.lines = lambda: [json.loads(line) for line in log.read_text().splitlines()]
        return server

    return start


def document(number):
    return {"_id": number, "half": number % 2 + 1, "data": os.urandom(DOCUMENT_BYTES)}


def insert_until_refused(things, first, limit=100_000):
    """Inserts one by one; returns how many were acknowledged."""
    for number in range(first, limit):
        try:
            things.insert_one(document(number))
        except OperationFailure as error:
            assert error.code == OUT_OF_DISK_SPACE, error.details
            return number
    raise AssertionError("the disk never became full")


def eventually(what, attempt):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return attempt()
        except OperationFailure as error:
            assert error.code == OUT_OF_DISK_SPACE, error.details
            assert time.monotonic() < deadline, f"{what} within {PATIENCE_SECONDS} s: {error}"
        time.sleep(0.1)


def state(client):
    return client.admin.command("serverStatus")["heddle"]["disk"]["state"]


def await_state(client, wanted):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while state(client) != wanted:
        assert time.monotonic() < deadline, client.admin.command("serverStatus")["heddle"]["disk"]
        time.sleep(0.05)


def fill_until_full(disk, client, things, first):
    """Another program takes all there is, also what flushes give back, until the server says so. Returns the next number."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while state(client) != "full":
        assert time.monotonic() < deadline, client.admin.command("serverStatus")["heddle"]["disk"]
        disk.fill()
        first = insert_until_refused(things, first)
    return first


def disk_lines(server):
    """The severities of the lines about the disk's state."""
    return [line["s"] for line in server.lines() if line["msg"].startswith("the data disk ")]


def ids(things):
    return sorted(one["_id"] for one in things.find({}, {"_id": 1}))


@pytest.mark.parametrize("disk", ["tmpfs", "ext4"], indirect=True)
def test_inserts_fill_the_disk_and_deletes_make_room(disk, start):
    server = start()
    with server.client() as client:
        things = client.full.things
        things.create_index("half")
        count = insert_until_refused(things, 0)
        assert count * DOCUMENT_BYTES > DISK_MIB * 2**20 / 3, "most of the disk can be used"
        assert state(client) == "low" and (disk.data / "disk-reserve").stat().st_size == RESERVE_MIB * 2**20
        # What grows is refused, each with the same code.
        for refused in (
            lambda: things.update_one({"_id": 0}, {"$set": {"more": "x" * 100}}),
            lambda: things.find_one_and_update({"_id": -1}, {"$set": {"x": 1}}, upsert=True),
            lambda: things.create_index("data"),
            lambda: list(things.aggregate([{"$out": "copy"}])),
            lambda: list(things.aggregate([{"$merge": "copy"}])),
            lambda: client.full.create_collection("other"),
        ):
            with pytest.raises(OperationFailure) as raised:
                refused()
            assert raised.value.code == OUT_OF_DISK_SPACE, raised.value.details
        # Reads go on, and so does what does not grow.
        assert things.count_documents({"half": 2}) == count // 2
        assert things.update_one({"_id": 0}, {"$set": {"half": 2}}).modified_count == 1
        assert things.update_one({"_id": 0}, {"$unset": {"data": 1}}).modified_count == 1
        assert things.delete_many({"half": 2}).deleted_count == count // 2 + 1
        await_state(client, "normal")
        things.insert_one(document(0))
        assert disk_lines(server) in (["W", "I"], ["W", "E", "I"]), disk_lines(server)


def test_a_drop_gives_its_room_back(disk, start):
    with start().client() as client:
        kept, dropped = client.full.kept, client.full.dropped
        kept.insert_many(document(number) for number in range(100))
        insert_until_refused(dropped, 0)
        dropped.drop()
        await_state(client, "normal")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while disk.free() <= DISK_MIB * 2**20 / 2:
            assert time.monotonic() < deadline, disk.free()
            time.sleep(0.05)
        kept.insert_one(document(100))
        assert ids(kept) == list(range(101))


@pytest.mark.parametrize("disk", ["tmpfs", "ext4"], indirect=True)
def test_others_fill_the_disk_and_make_room(disk, start):
    server = start()
    with server.client() as client:
        things = client.full.things
        things.insert_many(document(number) for number in range(1000))
        acknowledged = fill_until_full(disk, client, things, 1000)
        assert ids(things) == list(range(acknowledged)), "reads go on"
        eventually("a delete", lambda: things.delete_one({"_id": 0}))
        eventually("a drop", lambda: client.full.drop_collection("nothing"))
        assert client.admin.command("ping")["ok"] == 1
        disk.empty()
        eventually("an insert", lambda: things.insert_one(document(0)))
        assert ids(things) == list(range(acknowledged))
        assert (disk.data / "disk-reserve").stat().st_size == RESERVE_MIB * 2**20
        lines = disk_lines(server)
        assert lines in (["E", "I"], ["W", "E", "I"]), lines


@pytest.mark.parametrize("disk", ["tmpfs", "ext4"], indirect=True)
def test_start_on_a_full_disk_after_a_kill(disk, start):
    server = start()
    with server.client() as client:
        things = client.full.things
        things.insert_many(document(number) for number in range(1000))
        acknowledged = fill_until_full(disk, client, things, 1000)
        eventually("a delete", lambda: things.delete_one({"_id": 0}))
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    disk.fill()
    server = start()
    with server.client() as client:
        things = client.full.things
        assert ids(things) == list(range(1, acknowledged)), "what was acknowledged is there, and nothing else"
        assert state(client) == "full"
        disk.empty()
        eventually("an insert", lambda: things.insert_one(document(0)))
        assert things.count_documents({}) == acknowledged
    assert server.stop() == 0


def test_a_sort_that_finds_no_room_leaves_nothing(disk, start):
    with start().client() as client:
        things = client.full.things
        client.admin.command("setParameter", 1, internalQueryMaxBlockingSortMemoryUsageBytes=1_000_000)
        things.insert_many({"_id": number, "data": "x" * DOCUMENT_BYTES} for number in range(1000))
        disk.fill()
        with pytest.raises(OperationFailure) as raised:
            list(things.aggregate([{"$sort": {"data": 1, "half": 1}}], allowDiskUse=True))
        assert raised.value.code == OUT_OF_DISK_SPACE, raised.value.details
        spilled = disk.data / "_tmp"
        assert not spilled.exists() or not list(spilled.iterdir())
        disk.empty()
        assert len(list(things.aggregate([{"$sort": {"data": 1, "half": 1}}], allowDiskUse=True))) == 1000


def test_a_build_that_finds_the_disk_full_leaves_no_index_and_no_file(disk, start):
    server = start()
    with server.client() as client:
        things = client.test.things
        for first in range(0, 60_000, 5_000):
            things.insert_many([{"_id": number, "text": os.urandom(100).hex()} for number in range(first, first + 5_000)])
        first = fill_until_full(disk, client, client.test.filling, 0)
        with pytest.raises(OperationFailure) as refused:
            things.create_index("text")
        assert refused.value.code == OUT_OF_DISK_SPACE, refused.value.details
        assert set(things.index_information()) == {"_id_"}
        builds = disk.data / "index-builds"
        assert not builds.exists() or not list(builds.iterdir())
        disk.empty()
        await_state(client, "normal")
        things.create_index("text")
        assert client.test.command("validate", "things", full=True)["valid"]
        # None where the server saw the disk fill before an insert did.
        assert client.test.filling.count_documents({}) == first
