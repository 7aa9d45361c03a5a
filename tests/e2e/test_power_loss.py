"""What a power loss leaves: nothing with `j: true` is lost, and of the rest at most what is younger than the journal interval.

Servers run over a layer that keeps what was synced (power_loss.c), are killed at random moments, and go on with what is durable.
Many rounds: `make power-rounds POWER_ROUNDS=200`.
"""

import random
import threading
import time

import power_loss
import pymongo
import pymongo.errors
import pytest
from replica_set import FAST, ReplicaSet, eventually

INTERVAL_MS = 50
# Beyond the interval: two processors are shared by server, clients and whatever else is tested.
SLACK_SECONDS = 1.0
WRITERS = 4


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return power_loss.build(tmp_path_factory.mktemp("power"))


def client_of(server):
    """One that gives a server up soon that was killed."""
    return pymongo.MongoClient(server.uri, retryWrites=False, socketTimeoutMS=20_000, serverSelectionTimeoutMS=1_000)


class Writer(threading.Thread):
    """Inserts ascending numbers, and counts them in one document; some by `j: true`."""

    def __init__(self, server, number, first, **concern):
        super().__init__()
        self.client = client_of(server)
        concern = pymongo.WriteConcern(**concern)
        self.lists = self.client.power.get_collection("lists", write_concern=concern)
        self.counters = self.client.power.get_collection("counters", write_concern=concern)
        self.number, self.first, self.next = number, first, first
        self.acknowledged = []
        self.padding = "x" * random.choice([10, 300, 3000])

    def run(self):
        try:
            while True:
                one = {"_id": f"{self.number}-{self.next:09}", "writer": self.number, "number": self.next, "text": self.padding}
                self.lists.insert_one(one)
                self.acknowledged.append((time.monotonic(), self.next))
                self.next += 1
                self.counters.update_one({"_id": self.number}, {"$set": {"through": self.next}}, upsert=True)
        except pymongo.errors.PyMongoError:
            pass
        finally:
            self.client.close()


def churn(server, chance, ends):
    """Names come and go: tables are flushed and compacted, collections and indexes made and dropped."""
    with client_of(server) as client:
        database = client.power
        try:
            while not ends.is_set():
                what = chance.choice(["flush", "compact", "index", "collection", "wait"])
                if what == "flush":
                    client.admin.command("fsync")
                elif what == "compact":
                    database.command("compact", "lists")
                elif what == "index":
                    name = database.lists.create_index([("number", chance.choice([1, -1]))])
                    database.lists.drop_index(name)
                elif what == "collection":
                    database[f"made{chance.randrange(3)}"].insert_one({"now": time.time()})
                    database.drop_collection(f"made{chance.randrange(3)}")
                time.sleep(chance.uniform(0, 0.05))
        except pymongo.errors.PyMongoError:
            pass


class Rounds:
    """One server over one disk, whose power is cut again and again."""

    def __init__(self, library, directory, seed, ignores=None):
        self.chance = random.Random(seed)
        self.disk = power_loss.Disk(library, directory, ignores)
        self.expected = {number: -1 for number in range(WRITERS)}
        self.losses = []

    def start(self):
        # A small memtable: flushes come by themselves as well.
        arguments = ["--journalCommitInterval", str(INTERVAL_MS), "--memtableSizeMB", "1"]
        return self.disk.server(*arguments).wait_until_it_answers()

    def round(self):
        """Returns what is missing, a sentence for each."""
        server = self.start()
        try:
            missing = self.look(server)
            writers = [
                Writer(server, number, self.found[number], **({"w": 1, "j": True} if number % 2 else {"w": 1, "j": False}))
                for number in range(WRITERS)
            ]
            ends = threading.Event()
            others = threading.Thread(target=churn, args=(server, random.Random(self.chance.random()), ends))
            threads = [*writers, others]
            for thread in threads:
                thread.start()
            time.sleep(self.chance.uniform(0.05, 0.6))
        finally:
            killed = time.monotonic()
            power_loss.kill(server)
        ends.set()
        for thread in threads:
            thread.join()
        for writer in writers:
            due = killed - INTERVAL_MS / 1000 - SLACK_SECONDS
            certain = [number for when, number in writer.acknowledged if writer.number % 2 or when < due]
            self.expected[writer.number] = max(certain, default=self.found[writer.number] - 1)
        self.disk.lose_power(self.chance)
        return missing

    def look(self, server):
        """Compares what is there with what has to be."""
        missing, self.found = [], {}
        with server.client() as client:
            database = client.power
            for writer, last in self.expected.items():
                numbers = [one["number"] for one in database.lists.find({"writer": writer}, {"number": 1}).sort("_id", 1)]
                self.found[writer] = len(numbers)
                if numbers != list(range(len(numbers))):
                    missing.append(f"writer {writer}: there are holes in {numbers[-5:]}")
                if len(numbers) <= last:
                    missing.append(f"writer {writer}: {last} was acknowledged, {len(numbers) - 1} is the last that is there")
                counter = database.counters.find_one({"_id": writer}) or {"through": 0}
                if not len(numbers) - 1 <= counter["through"] <= len(numbers):
                    missing.append(f"writer {writer}: counted {counter['through']} of {len(numbers)}")
            for name in database.list_collection_names():
                told = database.command("validate", name)
                if not told["valid"]:
                    missing.append(f"{name}: {told}")
        return missing


def run_rounds(rounds, count):
    """The first round in which something is missing, or in which the server does not start, and what."""
    for number in range(count):
        try:
            missing = rounds.round()
        except AssertionError as error:
            missing = [str(error)]
        if missing:
            return number, missing
    return None


def test_what_was_synced_is_there_after_a_power_loss(library, tmp_path, pytestconfig):
    rounds = pytestconfig.getoption("--power-rounds")
    seed = pytestconfig.getoption("--round-seed")
    done = Rounds(library, tmp_path / "data", seed)
    # The last round only looks.
    assert run_rounds(done, rounds + 1) is None, f"seed {seed}"
    assert sum(done.found.values()) > 20 * rounds, f"too little was written: {done.found}"


@pytest.mark.parametrize("ignores", ["journal", "directories", "tables", "manifest"])
def test_a_sync_that_is_left_out_is_found(library, tmp_path, ignores):
    found = run_rounds(Rounds(library, tmp_path / "data", 1, ignores), 8)
    assert found is not None, f"syncs of {ignores} are left out, and nobody sees it"
    print(f"without syncs of {ignores}, round {found[0]}: {found[1][0][:300]}")


def test_a_set_whose_members_lose_power_together_keeps_what_a_majority_has(library, tmp_path, pytestconfig):
    rounds = max(pytestconfig.getoption("--power-rounds") // 5, 2)
    chance = random.Random(pytestconfig.getoption("--round-seed"))
    disks = {}

    class PoweredSet(ReplicaSet):
        def _start(self, directory, port):
            if directory.name not in disks:
                disks[directory.name] = power_loss.Disk(library, directory)
            return disks[directory.name].server("--replSet", self.name, *self.arguments, port=port)

    members = PoweredSet(tmp_path, 3, "--memtableSizeMB", "1", settings=FAST)
    acknowledged = set()
    try:
        for turn in range(rounds):
            ends = threading.Event()

            def write(number):
                with members.client(retryWrites=False, w="majority") as client:
                    for step in range(100_000):
                        if ends.is_set():
                            return
                        try:
                            client.power.lists.insert_one({"_id": f"{turn}-{number}-{step}"})
                            acknowledged.add(f"{turn}-{number}-{step}")
                        except pymongo.errors.PyMongoError:
                            time.sleep(0.05)

            threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
            before = len(acknowledged)
            for thread in threads:
                thread.start()
            eventually("writes", lambda: len(acknowledged) > before + 20)
            time.sleep(chance.uniform(0, 0.5))
            # All of them, or one: who comes back with less than it had must not be counted for what it has lost.
            losers = list(members.members) if turn % 2 == 0 else [chance.choice(members.members)]
            for member in losers:
                member.process.kill()
            for member in losers:
                member.process.wait()
            if len(losers) == 1:
                time.sleep(chance.uniform(0, 1))
            ends.set()
            for member in losers:
                disks[member.directory.name].lose_power(chance)
            for member in losers:
                again = members._start(member.directory, member.port)
                members.members[members.members.index(member)] = again
            for member in members.members:
                member.wait_until_it_answers()
            for thread in threads:
                thread.join()
            members.wait_until_healthy()
            with members.client() as client:
                found = {one["_id"] for one in client.power.lists.find()}
            assert acknowledged <= found, f"turn {turn}: acknowledged and lost: {sorted(acknowledged - found)[:5]}"
        members.assert_members_are_equal()
    finally:
        members.kill_all()
