"""Who is killed in the middle of work in the background, of a backup, a restore or a repair, loses nothing, with and without power.

power_loss.c kills the process before a change of a name or a sync: of programs each tenth one in turn (`CRASH_EVERY=1`: each one), of servers
any one, as often as `CRASH_TRIALS` says.
"""

import os
import random
import re
import shutil
import subprocess
import time

import power_loss
import pymongo
import pymongo.errors
import pytest
from expiry import QUICK, ago
from server_process import BINARY, Server

DOCUMENTS = 1500
TRIALS = 3
ARGUMENTS = ["--memtableSizeMB", "1", "--setParameter", "enableTestCommands=1"]


def heddle(*arguments):
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return power_loss.build(tmp_path_factory.mktemp("power"))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A data directory with documents, that a server has left that was killed."""
    directory = tmp_path_factory.mktemp("stored") / "data"
    server = Server(directory, *ARGUMENTS).wait_until_it_answers()
    with server.client() as client:
        things = client.test.get_collection("things", write_concern=pymongo.WriteConcern(w=1, j=True))
        things.create_index("n", unique=True)
        insert(things, 0, DOCUMENTS // 2)
        client.admin.command("fsync")
        insert(things, DOCUMENTS // 2, DOCUMENTS)
    power_loss.kill(server)
    return directory


def insert(things, first, end):
    things.insert_many([{"_id": number, "n": number, "a": number % 7, "text": random.randbytes(200).hex()} for number in range(first, end)])


def is_whole(directory, what):
    """The quick look: nothing is damaged, and no document is missing."""
    checked = heddle("check", "--dbpath", directory)
    found = re.search(r"with (\d+) documents: nothing is damaged", checked.stdout)
    assert checked.returncode == 0 and found and int(found[1]) >= DOCUMENTS, f"{what}: {checked.stdout}{checked.stderr}"


def check(directory, also=lambda client: None):
    """A server that starts there has all documents, and all agrees."""
    server = Server(directory, *ARGUMENTS, *QUICK).wait_until_it_answers()
    try:
        with server.client() as client:
            assert [one["_id"] for one in client.test.things.find({}, {"_id": 1}).sort("n", 1)] == list(range(DOCUMENTS))
            for database in client.list_database_names():
                for name in client[database].list_collection_names(filter={"type": "collection"}):
                    told = client[database].command("validate", name)
                    assert told["valid"], f"{name}: {told}"
            also(client)
    finally:
        power_loss.kill(server)


def again_and_again(work, seconds=3):
    """Until the server is gone."""

    def run(server, client):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            work(server, client)

    run.__name__ = work.__name__
    return run


@again_and_again
def flush(server, client):
    client.test.others.insert_one({"at": time.time()})
    client.admin.command("fsync")


def compact(server, client):
    client.admin.command("fsync")
    client.test.command("compact", "things")


def build(server, client):
    client.test.things.create_index([("a", 1), ("n", -1)])


def backup(server, client):
    client.admin.command("heddleBackup", directory=str(server.directory.parent / "backups"))


def expire(server, client):
    client.test.sessions.create_index("at", expireAfterSeconds=1)
    time.sleep(2)


@again_and_again
def change_calendar(server, client):
    for rate in range(20):
        client.admin.command("setCalendar", 1, ttl={"start": "00:00", "stop": f"0{2 + rate % 7}:00"})


@again_and_again
def change_catalog(server, client):
    for number in range(5):
        client.test[f"made{number}"].insert_one({"_id": 1})
        client.test.command("collMod", f"made{number}", validator={"a": {"$exists": True}})
        client.test[f"made{number}"].rename(f"renamed{number}")
        client.test[f"renamed{number}"].drop()


def backups_are_whole(directory):
    backups = directory.parent / "backups"
    for whole in backups.glob("generation-*"):
        told = heddle("check", backups, "--generation", whole.name.removeprefix("generation-"))
        assert told.returncode == 0, told.stdout


def expired_go(client):
    client.test.sessions.create_index("at", expireAfterSeconds=1)
    deadline = time.monotonic() + 30
    while client.test.sessions.count_documents({"_id": {"$lt": 500}}):
        assert time.monotonic() < deadline, "expired documents stay"
        time.sleep(0.1)
    assert client.test.sessions.count_documents({}) == 500, "those that have not expired stay"


@pytest.mark.parametrize("work", [flush, compact, build, backup, expire, change_calendar, change_catalog], ids=lambda work: work.__name__)
def test_a_server_that_is_killed_in_the_middle(library, stored, tmp_path, work):
    chance = random.Random(os.environ.get("CRASH_SEED", work.__name__))
    kills = 0
    for trial in range(int(os.environ.get("CRASH_TRIALS", TRIALS))):
        directory = tmp_path / f"trial{trial}" / "data"
        shutil.copytree(stored, directory)
        disk = power_loss.Disk(library, directory)
        server = disk.server(*ARGUMENTS, *QUICK).wait_until_it_answers()
        with pymongo.MongoClient(server.uri, retryWrites=False, socketTimeoutMS=20_000, serverSelectionTimeoutMS=1_000) as client:
            if work is expire:
                sessions = client.test.get_collection("sessions", write_concern=pymongo.WriteConcern(w=1, j=True))
                sessions.insert_many({"_id": number, "at": ago(-3600 if number >= 500 else 60)} for number in range(1000))
            (disk.mirror / "kill").write_text(str(chance.choice([chance.randint(1, 12), chance.randint(1, 60)])))
            try:
                work(server, client)
                time.sleep(0.2)
            except pymongo.errors.ConnectionFailure:
                pass
        kills += server.process.poll() is not None
        power_loss.kill(server)
        without_power = disk.lose_power(chance, target=directory.parent / "without-power")
        for left in (directory, without_power):
            check(left, expired_go if work is expire else lambda client: None)
        backups_are_whole(directory)
    assert kills > 0, "none was killed in the middle"


def each_kill(disk, command, after, limit=400):
    """Kills a program before its changes in turn, until it comes to its end; how many it makes, about."""
    every = int(os.environ.get("CRASH_EVERY", 10))
    for kill_at in range(random.randint(1, every), limit, every):
        done = disk().run(command, kill_at=kill_at)
        if done.returncode >= 0:
            assert done.returncode in (0, 1), done.stdout + done.stderr
            return kill_at - 1
        after(kill_at)
    raise AssertionError(f"{command} makes more than {limit} changes")


def test_a_repair_that_is_killed_before_any_change(library, stored, tmp_path):
    chance = random.Random(1)
    directory = tmp_path / "data"
    state = {}

    def fresh():
        for old in (directory, tmp_path / "data.durable", tmp_path / "lost"):
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(stored, directory)
        state["disk"] = power_loss.Disk(library, directory)
        return state["disk"]

    def after(kill_at):
        lost = state["disk"].lose_power(chance, target=tmp_path / "lost")
        for left in (directory, lost):
            if (left / "repairing" / "whole").exists():
                refused = heddle("serve", "--dbpath", left, "--port", 1, "--diskReserveMB", 0)
                assert refused.returncode == 100 and "heddle repair" in refused.stderr, refused.stderr
            done = heddle("repair", "--dbpath", left)
            assert done.returncode == 0 and "nothing is lost" in done.stdout, f"change {kill_at}: {done.stdout}{done.stderr}"
            assert not (left / "repairing").exists()
            kept = left / "damaged-000001"
            assert (kept / "engine" / "CURRENT").exists() and (kept / "REPAIR").exists(), f"change {kill_at}: the files of before are gone"
            is_whole(left, f"change {kill_at}")

    kills = each_kill(fresh, [BINARY, "repair", "--dbpath", str(directory)], after)
    assert kills > 20, f"only {kills} changes"
    check(directory)


def test_a_restore_that_is_killed_before_any_change(library, stored, tmp_path):
    chance = random.Random(2)
    backups, directory = tmp_path / "backups", tmp_path / "data"
    server = Server(shutil.copytree(stored, tmp_path / "live"), *ARGUMENTS).wait_until_it_answers()
    with server.client() as client:
        client.admin.command("heddleBackup", directory=str(backups))
    power_loss.kill(server)
    state = {}

    def fresh():
        for old in (directory, tmp_path / "data.durable", tmp_path / "lost"):
            shutil.rmtree(old, ignore_errors=True)
        state["disk"] = power_loss.Disk(library, directory)
        return state["disk"]

    def after(kill_at):
        lost = state["disk"].lose_power(chance, target=tmp_path / "lost")
        for left in (directory, lost):
            done = heddle("restore", backups, "--dbpath", left)
            assert done.returncode == 0 or "is not empty" in done.stderr, f"change {kill_at}: {done.stderr}"
            is_whole(left, f"change {kill_at}")

    kills = each_kill(fresh, [BINARY, "restore", str(backups), "--dbpath", str(directory)], after)
    assert kills > 10, f"only {kills} changes"
    check(directory)
