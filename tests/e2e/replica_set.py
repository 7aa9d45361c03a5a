"""Replica sets of real processes on free ports, started and stopped by their process ids."""

import signal
import threading
import time

import pymongo
import pymongo.errors

from fault_network import Network
from server_process import STOP_SECONDS, Server, free_port

PATIENCE_SECONDS = 60
# Settings of sets that are to have another primary soon.
FAST = {"electionTimeoutMillis": 1_000, "heartbeatIntervalMillis": 500}


def eventually(what, found, seconds=PATIENCE_SECONDS, pause=0.05):
    """Waits until `found()` is true, and answers with it."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            result = found()
        except pymongo.errors.PyMongoError as error:
            result, last = None, error
        else:
            last = result
        if result:
            return result
        assert time.monotonic() < deadline, f"{what} does not come: {last!r}"
        time.sleep(pause)


class ReplicaSet:
    """Members on 127.0.0.1. `members` are fields of the configuration, one dictionary for each.

    With `can_be_cut` everybody but `direct` reaches them through `network`, where they have the names "0", "1", ….
    """

    def __init__(self, directory, size=3, *arguments, name="rs", settings=None, members=None, initiate=True, can_be_cut=False,
                 client_options=None):
        self.name = name
        self.client_options = client_options or {}
        self.network = None
        self.arguments = arguments
        self.settings = settings or {}
        ports = {free_port() for _ in range(size)}
        if can_be_cut:
            self.network = Network({str(number): port for number, port in enumerate(sorted(ports))})
        self.members = []
        for number, port in enumerate(sorted(ports)):
            self.members.append(self._start(directory / f"member{number}", port))
            self._introduce(self.members[-1])
        for member in self.members:
            member.wait_until_it_answers()
        if initiate:
            self.initiate(members or [{}] * size)

    def _start(self, directory, port):
        return Server(directory, "--replSet", self.name, *self.arguments, port=port, client_options=self.client_options)

    def _introduce(self, member):
        if self.network:
            self.network.knows(self.name_of(member), member.process.pid)

    def name_of(self, member):
        return str(self.members.index(member))

    def initiate(self, fields, seconds=PATIENCE_SECONDS):
        hosts = [{"_id": number, "host": host, **given} for number, (host, given) in enumerate(zip(self.hosts, fields))]
        config = {"_id": self.name, "members": hosts, "settings": self.settings}
        with self.direct(self.members[0]) as client:
            client.admin.command("replSetInitiate", config)
        self.wait_until_healthy(seconds)

    @property
    def hosts(self):
        ports = self.network.ports.values() if self.network else [member.port for member in self.members]
        return [f"127.0.0.1:{port}" for port in ports]

    @property
    def uri(self):
        return f"mongodb://{','.join(self.hosts)}/?replicaSet={self.name}"

    def client(self, **options):
        options = {"serverSelectionTimeoutMS": 30_000, "heartbeatFrequencyMS": 1_000, **self.client_options, **options}
        return pymongo.MongoClient(self.uri, **options)

    def direct(self, member):
        return member.client(socketTimeoutMS=30_000)

    def hello(self, member):
        with self.direct(member) as client:
            return client.admin.command("hello")

    def status(self, member):
        with self.direct(member) as client:
            return client.admin.command("replSetGetStatus")

    def running(self):
        return [member for member in self.members if member.process.poll() is None]

    def primary(self, other_than=None):
        """The member that takes writes now, once there is one."""

        def found():
            for member in self.running():
                if member is not other_than and self.hello(member).get("isWritablePrimary"):
                    return member
            return None

        return eventually("a primary", found)

    def secondaries(self):
        primary = self.primary()
        return [member for member in self.running() if member is not primary]

    def wait_until_healthy(self, seconds=PATIENCE_SECONDS):
        """Until every member is primary or secondary, all vote that are to, and the primary knows it."""

        def found():
            primary = self.primary()
            status = self.status(primary)
            states = [member["state"] for member in status["members"]]
            own = [self.status(member)["myState"] for member in self.running()]
            with self.direct(primary) as direct:
                config = direct.admin.command("replSetGetConfig")["config"]
            voters = sum(member["votes"] for member in config["members"])
            are_well = sorted(own) == [1] + [2] * (len(self.members) - 1) and sorted(states) == sorted(own)
            return are_well and status["votingMembersCount"] == voters

        eventually("a set that is well", found, seconds)

    def kill(self, member):
        member.process.kill()
        member.process.wait()

    def pause(self, member):
        member.process.send_signal(signal.SIGSTOP)

    def resume(self, member):
        member.process.send_signal(signal.SIGCONT)

    def restart(self, member):
        """Starts a member that has ended, on its data and port."""
        assert member.process.poll() is not None, "it still runs"
        again = self._start(member.directory, member.port)
        self.members[self.members.index(member)] = again
        self._introduce(again)
        return again.wait_until_it_answers()

    def hashes(self, member):
        """What the data of a member are, by database."""
        with member.client() as client:
            names = [name for name in client.list_database_names() if name not in ("local",)]
            return {name: client[name].command("dbHash")["md5"] for name in names}

    def index_keys(self, member):
        """How many documents and keys of each index there are, where `validate` finds nothing wrong."""
        found = {}
        with self.direct(member) as client:
            for name in self.hashes(member):
                for collection in client[name].list_collection_names(filter={"type": "collection"}):
                    told = client[name].command("validate", collection, full=True)
                    assert told["valid"], f"{name}.{collection}: {told}"
                    found[f"{name}.{collection}"] = told["nrecords"], told["keysPerIndex"]
        return found

    def assert_members_are_equal(self, seconds=30):
        """Once they have applied the same."""

        def found():
            applied = [self.status(member)["optimes"]["appliedOpTime"] for member in self.members]
            hashes = [self.hashes(member) for member in self.members]
            return all(one == applied[0] for one in applied) and all(one == hashes[0] for one in hashes)

        def assert_same(what, of):
            values = {host: of(member) for host, member in zip(self.hosts, self.members)}
            assert len({str(value) for value in values.values()}) == 1, f"the members' {what} differ: {values}"

        try:
            eventually("equal members", found, seconds)
        except AssertionError:
            assert_same("data", self.hashes)
            raise
        assert_same("indexes", self.index_keys)

    def stop(self):
        """Ends all members; what did not end in order is told."""
        running = self.running()
        for member in running:
            self.resume(member)
            member.process.send_signal(signal.SIGTERM)
        # A second signal would end them at once.
        return [member.process.wait(STOP_SECONDS) for member in running]

    def kill_all(self):
        if self.network:
            self.network.stop()
        for member in self.members:
            member.process.kill()
            member.process.wait()


class Tally:
    """Numbers of what one writer did in one way."""

    def __init__(self):
        self.acknowledged, self.unknown = set(), set()

    def check(self, what, found):
        """Of what is found, in the order in which it is there."""
        assert len(found) == len(set(found)), f"{what} twice: {sorted(one for one in set(found) if found.count(one) > 1)[:10]}"
        lost = self.acknowledged - set(found)
        assert not lost, f"{what} acknowledged and lost: {sorted(lost)[:10]}"
        extra = set(found) - self.acknowledged - self.unknown
        assert not extra, f"{what} never sent: {sorted(extra)[:10]}"

    def check_count(self, what, count):
        least, most = len(self.acknowledged), len(self.acknowledged) + len(self.unknown)
        assert least <= count <= most, f"{what}: {count}, expected {least} to {most}"


class Load:
    """Clients that write, and what was acknowledged to them: numbers that are inserted once, and counters."""

    # Each with the number of the writer and one that grows.
    def insert(self, writer, number):
        self.lists[writer].insert_one({"_id": f"{writer}-{number}", "writer": writer, "number": number})

    def count(self, writer, _):
        self.counters[writer].update_one({"_id": writer}, {"$inc": {"count": 1}})

    OPERATIONS = ("insert", "count")

    def __init__(self, client, writers=4, database="load", concerns=None, **concern):
        concerns = [pymongo.WriteConcern(**one) for one in concerns or [concern]]
        concerns = [concerns[writer % len(concerns)] for writer in range(writers)]
        self.database = client[database]
        self.lists = [self.database.get_collection("lists", write_concern=concern) for concern in concerns]
        self.counters = [self.database.get_collection("counters", write_concern=concern) for concern in concerns]
        self.tallies = [{operation: Tally() for operation in self.OPERATIONS} for _ in range(writers)]
        self.gaps = [0.0] * writers
        self.errors, self.defects = [], []
        self.stopping = threading.Event()
        self.prepare()
        self.threads = [threading.Thread(target=self._run, args=(writer,)) for writer in range(writers)]
        for thread in self.threads:
            thread.start()

    def prepare(self):
        for writer, counters in enumerate(self.counters):
            counters.update_one({"_id": writer}, {"$set": {"count": 0}}, upsert=True)

    def _run(self, writer):
        number, last = 0, time.monotonic()
        while not self.stopping.is_set():
            number += 1
            for operation in self.OPERATIONS:
                tally = self.tallies[writer][operation]
                try:
                    getattr(self, operation)(writer, number)
                    tally.acknowledged.add(number)
                except AssertionError as error:
                    self.defects.append(error)
                    return
                except pymongo.errors.PyMongoError as error:
                    self.errors.append(error)
                    tally.unknown.add(number)
                    break
            else:
                now = time.monotonic()
                self.gaps[writer], last = max(self.gaps[writer], now - last), now

    def acknowledged_counts(self):
        return [len(tallies["insert"].acknowledged) for tallies in self.tallies]

    def acknowledged_count(self):
        return sum(self.acknowledged_counts())

    def wait_for_more(self, count=50):
        before = self.acknowledged_count()
        eventually("further acknowledged writes", lambda: self.acknowledged_count() >= before + count)

    def wait_for_each(self, count=5):
        """Until every writer has got so many more acknowledged."""
        before = self.acknowledged_counts()
        found = lambda: all(now >= then + count for now, then in zip(self.acknowledged_counts(), before))
        eventually("further acknowledged writes of every writer", found)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def check(self):
        """Nothing that was acknowledged is lost, nothing is there twice."""
        assert not self.defects, self.defects
        for writer, tallies in enumerate(self.tallies):
            found = [one["number"] for one in self.lists[writer].find({"writer": writer}).sort("number")]
            tallies["insert"].check(f"inserts of writer {writer}", found)
            tallies["count"].check_count(f"counter of writer {writer}", self.counters[writer].find_one({"_id": writer})["count"])
