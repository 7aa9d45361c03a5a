"""Replica sets of real processes on free ports, started and stopped by their process ids."""

import signal
import threading
import time

import pymongo
import pymongo.errors

from server_process import STOP_SECONDS, Server, free_port

PATIENCE_SECONDS = 60


def eventually(what, found, seconds=PATIENCE_SECONDS):
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
        time.sleep(0.05)


class ReplicaSet:
    """Members on 127.0.0.1. `members` are fields of the configuration, one dictionary for each."""

    def __init__(self, directory, size=3, *arguments, name="rs", settings=None, members=None, initiate=True):
        self.name = name
        self.arguments = arguments
        self.settings = settings or {}
        ports = set()
        while len(ports) < size:
            ports.add(free_port())
        self.members = []
        for number, port in enumerate(sorted(ports)):
            self.members.append(self._start(directory / f"member{number}", port))
        for member in self.members:
            member.wait_until_it_answers()
        if initiate:
            self.initiate(members or [{}] * size)

    def _start(self, directory, port):
        return Server(directory, "--replSet", self.name, *self.arguments, port=port)

    def initiate(self, fields):
        hosts = [{"_id": number, "host": host, **given} for number, (host, given) in enumerate(zip(self.hosts, fields))]
        config = {"_id": self.name, "members": hosts, "settings": self.settings}
        with self.direct(self.members[0]) as client:
            client.admin.command("replSetInitiate", config)
        self.wait_until_healthy()

    @property
    def hosts(self):
        return [f"127.0.0.1:{member.port}" for member in self.members]

    @property
    def uri(self):
        return f"mongodb://{','.join(self.hosts)}/?replicaSet={self.name}"

    def client(self, **options):
        options = {"serverSelectionTimeoutMS": 30_000, "heartbeatFrequencyMS": 1_000, **options}
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

    def wait_until_healthy(self):
        """Until every member is primary or secondary, and the primary knows it."""

        def found():
            states = [member["state"] for member in self.status(self.primary())["members"]]
            own = [self.status(member)["myState"] for member in self.running()]
            return sorted(own) == [1] + [2] * (len(self.members) - 1) and sorted(states) == sorted(own)

        eventually("a set that is well", found)

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
        return again.wait_until_it_answers()

    def hashes(self, member):
        """What the data of a member are, by database."""
        with self.direct(member) as client:
            names = [name for name in client.list_database_names() if name not in ("local",)]
            return {name: client[name].command("dbHash")["md5"] for name in names}

    def assert_members_are_equal(self):
        """Once they have applied the same."""

        def found():
            applied = [self.status(member)["optimes"]["appliedOpTime"] for member in self.members]
            hashes = [self.hashes(member) for member in self.members]
            return all(one == applied[0] for one in applied) and all(one == hashes[0] for one in hashes)

        try:
            eventually("equal members", found, 30)
        except AssertionError as error:
            found = {host: self.hashes(member) for host, member in zip(self.hosts, self.members)}
            raise AssertionError(f"the members differ: {found}") from error

    def stop(self):
        """Ends all members; what did not end in order is told."""
        running = self.running()
        for member in running:
            self.resume(member)
            member.process.send_signal(signal.SIGTERM)
        # A second signal would end them at once.
        return [member.process.wait(STOP_SECONDS) for member in running]

    def kill_all(self):
        for member in self.members:
            member.process.kill()
            member.process.wait()


class Load:
    """Clients that write, and what was acknowledged to them: numbers that are inserted once, and counters."""

    def __init__(self, client, writers=4, **concern):
        self.lists = client.load.get_collection("lists", write_concern=pymongo.WriteConcern(**concern))
        self.counters = client.load.get_collection("counters", write_concern=pymongo.WriteConcern(**concern))
        self.acknowledged = [set() for _ in range(writers)]
        self.counted = [0] * writers
        self.unknown = [set() for _ in range(writers)]
        self.uncounted = [0] * writers
        self.gaps = [0.0] * writers
        self.errors = []
        self.stopping = threading.Event()
        for writer in range(writers):
            self.counters.update_one({"_id": writer}, {"$set": {"count": 0}}, upsert=True)
        self.threads = [threading.Thread(target=self._run, args=(writer,)) for writer in range(writers)]
        for thread in self.threads:
            thread.start()

    def _run(self, writer):
        number, last = 0, time.monotonic()
        while not self.stopping.is_set():
            number += 1
            try:
                self.lists.insert_one({"_id": f"{writer}-{number}", "writer": writer, "number": number})
                self.acknowledged[writer].add(number)
            except pymongo.errors.PyMongoError as error:
                self.errors.append(error)
                self.unknown[writer].add(number)
                continue
            try:
                self.counters.update_one({"_id": writer}, {"$inc": {"count": 1}})
                self.counted[writer] += 1
            except pymongo.errors.PyMongoError as error:
                self.errors.append(error)
                self.uncounted[writer] += 1
            now = time.monotonic()
            self.gaps[writer], last = max(self.gaps[writer], now - last), now

    def acknowledged_count(self):
        return sum(map(len, self.acknowledged))

    def wait_for_more(self, count=50):
        before = self.acknowledged_count()
        eventually("further acknowledged writes", lambda: self.acknowledged_count() >= before + count)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def check(self):
        """Nothing that was acknowledged is lost, nothing is there twice."""
        for writer, acknowledged in enumerate(self.acknowledged):
            found = [one["number"] for one in self.lists.find({"writer": writer})]
            assert len(found) == len(set(found))
            lost = acknowledged - set(found)
            assert not lost, f"acknowledged and lost: {sorted(lost)[:10]} of writer {writer}"
            extra = set(found) - acknowledged - self.unknown[writer]
            assert not extra, f"never sent: {sorted(extra)[:10]}"
            count = self.counters.find_one({"_id": writer})["count"]
            least, most = self.counted[writer], self.counted[writer] + self.uncounted[writer]
            assert least <= count <= most, f"counter of writer {writer}: {count}, expected {least} to {most}"
