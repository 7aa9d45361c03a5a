"""Members of a set whose disks are full: writes go on where there is room, nobody ends, and nothing that was acknowledged is lost."""

import os
import subprocess
import time

import pymongo
import pytest
from pymongo.errors import OperationFailure
from replica_set import FAST, Load, ReplicaSet, eventually
from test_full_disk import OUT_OF_DISK_SPACE, SmallDisk


class Disks:
    """Small file systems, one for each member that is to have one."""

    def __init__(self, directory):
        self.directory = directory
        self.disks = []

    def of(self, number):
        disk = SmallDisk(self.directory / f"disk{number}", "tmpfs")
        self.disks.append(disk)
        (self.directory / f"member{number}").symlink_to(disk.path)
        return disk


@pytest.fixture
def disks(tmp_path):
    small = Disks(tmp_path)
    yield small
    for disk in small.disks:
        subprocess.run(["umount", str(disk.path)], check=True)


@pytest.fixture
def replica_set(disks, tmp_path):
    started = []

    def start(size, **options):
        started.append(ReplicaSet(tmp_path, size, "--diskReserveMB", "24", "--cacheSizeMB", "64", **options))
        return started[-1]

    yield start
    for one in started:
        one.kill_all()


def disk_state(running, member):
    with running.direct(member) as direct:
        return direct.admin.command("serverStatus")["heddle"]["disk"]["state"]


def write_until(collection, reached, first=0, bytes_each=16_000):
    """Inserts until something has come about; how many documents there are."""
    deadline = time.monotonic() + 60
    while True:
        for number in range(first, first + 50):
            collection.insert_one({"_id": number, "data": os.urandom(bytes_each)})
        first += 50
        if reached():
            return first
        assert time.monotonic() < deadline


def insert_more_than_fits(things, first):
    """More than any memtable or reserve of a small member holds."""
    things.insert_many([{"_id": number, "data": os.urandom(16_000)} for number in range(first, first + 2_000)])


def test_a_secondary_without_room_stalls_and_catches_up(disks, replica_set):
    disk = disks.of(2)
    running = replica_set(3, settings=FAST, members=[{}, {}, {"priority": 0}])
    small = running.members[2]
    with running.client() as client:
        things = client.full.get_collection("things", write_concern=pymongo.WriteConcern("majority"))
        first = write_until(things, lambda: True)
        disk.fill()
        first = write_until(things, lambda: disk_state(running, small) == "full" and (disk.fill() or True) and disk.free() < 1 << 20, first)
        insert_more_than_fits(things, first)
        assert small.process.poll() is None, "it has ended"
        with running.direct(small) as direct:
            assert direct.full.get_collection("things", read_preference=pymongo.ReadPreference.SECONDARY).find_one({"_id": 0})
        things.delete_many({"_id": {"$gte": first}})
        disk.empty()
        running.wait_until_healthy()
        running.assert_members_are_equal()
    assert small.process.poll() is None


def test_a_member_that_waits_for_room_can_be_stopped(disks, replica_set):
    disk = disks.of(2)
    running = replica_set(3, settings=FAST, members=[{}, {}, {"priority": 0}])
    small = running.members[2]
    with running.client() as client:
        things = client.full.get_collection("things", write_concern=pymongo.WriteConcern("majority"))
        disk.fill()
        first = write_until(things, lambda: (disk.fill() or True) and disk_state(running, small) == "full")
        insert_more_than_fits(things, first)
        assert small.stop() is not None
        things.delete_many({"_id": {"$gte": first}})
        disk.empty()
        running.restart(small)
        running.wait_until_healthy()
        running.assert_members_are_equal()


def test_a_primary_without_room_hands_over(disks, replica_set):
    disk = disks.of(0)
    running = replica_set(3, settings=FAST)
    small = running.members[0]
    with running.client() as client:
        load = Load(client, w="majority")
        load.wait_for_more()
        assert running.primary() is small
        disk.fill()
        eventually("another primary", lambda: running.primary() is not small)
        load.wait_for_more(200)
        disk.empty()
        running.wait_until_healthy()
        load.wait_for_more()
        load.stop()
        refused = [error for error in load.errors if getattr(error, "code", None) != OUT_OF_DISK_SPACE]
        assert not refused, refused[:3]
        load.check()
        running.assert_members_are_equal()


def test_where_nobody_has_room_writes_are_refused_and_deletes_go_on(disks, replica_set):
    small = [disks.of(number) for number in range(3)]
    running = replica_set(3, settings=FAST)
    with running.client() as client:
        things = client.full.get_collection("things", write_concern=pymongo.WriteConcern("majority"))
        first = write_until(things, lambda: True)
        for disk in small:
            # To what is beside the reserve: nothing may grow.
            with open(disk.filler, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, disk.free() - (16 << 20))
        with pytest.raises(OperationFailure) as refused:
            write_until(things, lambda: False, first)
        assert refused.value.code == OUT_OF_DISK_SPACE, refused.value.details
        with pytest.raises(OperationFailure) as refused:
            things.create_index("data")
        assert refused.value.code == OUT_OF_DISK_SPACE, refused.value.details
        assert things.delete_many({"_id": {"$lt": 25}}).deleted_count == 25
        for disk in small:
            disk.empty()
        eventually("room", lambda: all(disk_state(running, member) == "normal" for member in running.members))
        write_until(things, lambda: things.count_documents({}) > first, 1_000_000)
        things.create_index("data")
        running.wait_until_healthy()
        running.assert_members_are_equal()
