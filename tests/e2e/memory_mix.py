"""A random mix that makes a server hold memory in every way it can: finds, updates, inserts, large batches, groups, sorts, thousands of
open cursors, large replies that are read slowly."""

import collections
import os
import pathlib
import random
import socket
import struct
import threading
import time

import bson
import pymongo
from pymongo.errors import AutoReconnect, BulkWriteError, OperationFailure

MIB = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
# What a server that runs out of memory may answer, and a cursor that nobody used for long.
REFUSALS = {43, 146, 292, 462}
SEEDS = 1000
# Clients that hold the open cursors.
HOLDERS = 4


def resident_bytes(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


class Mix:
    """Clients of one server until `stop` is called. `counts` has what was done by kind, `errors` what was refused by kind and code."""

    def __init__(self, server, documents, cursors, slow_readers=8, seed=1):
        self.server = server
        self.documents = documents
        self.cursors = cursors
        self.slow_readers = slow_readers
        self.seed = seed
        self.counts = collections.Counter()
        self.errors = collections.Counter()
        self.unexpected = []
        self.held = []
        self.open_cursors_max = 0
        self.stopping = threading.Event()
        self.threads = []

    def load(self):
        """The documents, made by the server itself."""
        with self.server.client() as client:
            seeds, each = client.mix.seeds, self.documents // SEEDS
            seeds.insert_many([{"_id": number} for number in range(SEEDS)])
            number = {"$add": [{"$multiply": ["$_id", each]}, "$r"]}
            client.mix.seeds.aggregate(
                [
                    {"$set": {"r": {"$range": [0, each]}}},
                    {"$unwind": "$r"},
                    {"$project": {"_id": number}},
                    # A number that jumps about: in the order of `k` neighbours are far apart.
                    {"$set": {"k": {"$mod": [{"$multiply": ["$_id", 7_368_787]}, 15_485_863]}, "g": {"$mod": ["$_id", 1000]}, "n": 0}},
                    {"$out": "small"},
                ],
                allowDiskUse=True,
            )
            assert client.mix.small.estimated_document_count() == SEEDS * each
            client.mix.large.insert_many([{"_id": number, "p": os.urandom(MIB // 2)} for number in range(64)])

    def start(self):
        kinds = [self.find, self.find, self.update, self.insert, self.insert_large, self.group, self.sort]
        kinds += [self.hold_cursors] * HOLDERS
        kinds += [self.read_slowly] * self.slow_readers
        for number, kind in enumerate(kinds):
            thread = threading.Thread(target=self.run, args=(kind, random.Random(self.seed * 1000 + number)), daemon=True)
            thread.start()
            self.threads.append(thread)
        return self

    def stop(self, patience=60):
        self.stopping.set()
        deadline = time.monotonic() + patience
        for thread in self.threads:
            thread.join(max(0, deadline - time.monotonic()))
        return [thread for thread in self.threads if thread.is_alive()]

    def run(self, kind, rng):
        name = kind.__name__
        with self.server.client(maxPoolSize=4, retryReads=False, retryWrites=False) as client:
            while not self.stopping.is_set() and self.server.process.poll() is None:
                try:
                    kind(client, rng)
                    self.counts[name] += 1
                except (OperationFailure, BulkWriteError) as error:
                    self.refused(name, error)
                    time.sleep(0.1)
                except (AutoReconnect, OSError) as error:
                    self.errors[name, type(error).__name__] += 1
                    time.sleep(0.1)
                except Exception as error:  # the caller tells it
                    self.unexpected.append((name, repr(error)))
                    return

    def refused(self, name, error):
        self.errors[name, error.code] += 1
        if error.code not in REFUSALS:
            self.unexpected.append((name, str(error)[:300]))

    def find(self, client, rng):
        small = client.mix.small
        for _ in range(100):
            small.find_one({"_id": rng.randrange(self.documents)})
        first = rng.randrange(self.documents)
        list(small.find({"_id": {"$gte": first, "$lt": first + 1000}}))

    def update(self, client, rng):
        small = client.mix.small
        for _ in range(100):
            small.update_one({"_id": rng.randrange(self.documents)}, {"$inc": {"n": 1}})
        first = rng.randrange(self.documents)
        small.update_many({"_id": {"$gte": first, "$lt": first + 500}}, {"$inc": {"n": 1}})

    def insert(self, client, rng):
        log = client.mix.log
        log.insert_many([{"n": rng.random(), "p": rng.randbytes(400)} for _ in range(500)], ordered=False)
        if rng.random() < 0.002:
            log.drop()

    def insert_large(self, client, rng):
        """As much as a message may have."""
        batches = client.mix.batches
        padding = rng.randbytes(8000)
        batches.insert_many([{"n": number, "p": padding} for number in range(5500)], ordered=False)
        if rng.random() < 0.1:
            batches.drop()
        time.sleep(rng.random())

    def group(self, client, rng):
        by = rng.choice(["$k", "$_id", "$g", {"$mod": ["$k", 100_000]}])
        stages = [{"$group": {"_id": by, "count": {"$sum": 1}, "last": {"$max": "$_id"}, "some": {"$push": "$n"}}}]
        if rng.random() < 0.3:
            stages += [{"$sort": {"last": -1}}]
        disk = rng.random() < 0.9
        with client.mix.small.aggregate(stages, allowDiskUse=disk, batchSize=10_000) as cursor:
            for number, _ in enumerate(cursor):
                if number > 200_000 or self.stopping.is_set():
                    break

    def sort(self, client, rng):
        order = rng.choice([[("k", 1)], [("g", 1), ("k", -1)], [("n", -1), ("k", 1)]])
        with client.mix.small.find({}, sort=order, batch_size=10_000, allow_disk_use=rng.random() < 0.9) as cursor:
            for number, _ in enumerate(cursor):
                if number > 200_000 or self.stopping.is_set():
                    break

    def hold_cursors(self, client, rng):
        """Opens cursors until there are so many, goes on with some and closes some."""
        held = []
        self.held.append(held)
        try:
            while not self.stopping.is_set():
                self.change_cursors(client.mix, rng, held)
                self.counts["cursor"] += 1
        finally:
            held.clear()

    def change_cursors(self, database, rng, held):
        try:
            if len(held) < self.cursors // HOLDERS:
                held.append(self.open_cursor(database, rng))
                self.open_cursors_max = max(self.open_cursors_max, sum(map(len, self.held)))
            else:
                time.sleep(0.01)
                chosen = rng.randrange(len(held))
                if rng.random() < 0.5:
                    database.command({"getMore": held[chosen][1], "collection": held[chosen][0], "batchSize": 20})
                else:
                    name, cursor = held.pop(chosen)
                    database.command({"killCursors": name, "cursors": [cursor]})
        except OperationFailure as error:
            self.refused("hold_cursors", error)
            if error.code == 43:
                held.pop(chosen)
            else:
                time.sleep(0.05)

    def open_cursor(self, database, rng):
        """Plain ones, sorts of some thousand documents, groups of them."""
        first = rng.randrange(self.documents)
        documents = {"_id": {"$gte": first, "$lt": first + rng.choice([100, 1000, 5000])}}
        kind = rng.random()
        if kind < 0.85:
            command = {"find": "small", "filter": documents, "batchSize": 2}
        elif kind < 0.95:
            command = {"find": "small", "filter": documents, "sort": {"k": 1}, "batchSize": 2}
        else:
            stages = [{"$match": documents}, {"$group": {"_id": "$k", "all": {"$push": "$$ROOT"}}}]
            command = {"aggregate": "small", "pipeline": stages, "cursor": {"batchSize": 2}}
        reply = database.command(command)["cursor"]
        return "small", reply["id"] or self.open_plain(database)

    def open_plain(self, database):
        return database.command({"find": "small", "batchSize": 2})["cursor"]["id"]

    def read_slowly(self, _client, rng):
        """Asks for a reply of the largest size and takes it bit by bit."""
        body = bson.encode({"find": "large", "filter": {}, "batchSize": 64, "$db": "mix"})
        message = struct.pack("<iiii", 21 + len(body), 1, 0, 2013) + struct.pack("<I", 0) + b"\x00" + body
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=90) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            connection.sendall(message)
            header = connection.recv(4, socket.MSG_WAITALL)
            left = struct.unpack("<i", header)[0] - 4 if len(header) == 4 else 1
            until = time.monotonic() + rng.uniform(2, 20)
            while left > 0 and not self.stopping.is_set():
                taken = len(connection.recv(min(left, 1 << 15)))
                if taken == 0:
                    raise OSError("the server ended the connection")
                left -= taken
                if time.monotonic() < until:
                    time.sleep(0.05)


class Watch:
    """Samples the resident size of a server; the kernel's own maximum is taken in as well."""

    def __init__(self, server, limit, every=1.0):
        self.server, self.limit, self.every = server, limit, every
        self.samples = []
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stopping.wait(self.every):
            try:
                self.samples.append(resident_bytes(self.server.process.pid))
            except (OSError, ValueError, IndexError):
                return

    @property
    def most(self):
        """The most so far, between samples as well."""
        most = max(self.samples, default=0)
        try:
            status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
        except OSError:
            return most
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                most = max(most, int(line.split()[1]) << 10)
        return most

    def stop(self):
        self.stopping.set()
        self.thread.join()
        return self.most


class Parts:
    """Asks a server what its memory consists of, and keeps the answer with the largest resident size."""

    def __init__(self, server, every=0.3):
        self.server, self.every = server, every
        self.latest = self.largest = None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        with self.server.client(maxPoolSize=1) as client:
            while not self.stopping.wait(self.every):
                try:
                    self.latest = client.admin.command("serverStatus")["heddle"]["memory"]
                except pymongo.errors.PyMongoError:
                    continue
                largest = self.largest
                if largest is None or self.latest["residentBytes"] > largest["residentBytes"]:
                    self.largest = self.latest

    def take_largest(self):
        """The largest since the last call."""
        largest, self.largest = self.largest, None
        return largest

    def stop(self):
        self.stopping.set()
        self.thread.join()


def memory_section(server):
    with pymongo.MongoClient(server.uri, serverSelectionTimeoutMS=30_000) as client:
        return client.admin.command("serverStatus")["heddle"]["memory"]
