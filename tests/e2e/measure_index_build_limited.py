"""Index builds of more data than memory: python measure_index_build_limited.py [--documents 1500000] [--limit-mib 1024] BINARY

The server is in a control group with a limit on memory, page cache included, and has data of about 1 KB a document that do not compress. Told
are for each index the documents a second, the most memory that the process had for itself meanwhile, and the bytes of sorted
runs on the disk; then what is left to do after a `kill -9` half way through the scan for all of them at once.
"""

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pymongo

import server_process
from control_group import Group

INDEXES = {
    "int": dict(keys="n"),
    "compound": dict(keys=[("n", 1), ("text", -1)]),
    "unique": dict(keys="u", unique=True),
}
BATCH = 5_000


class Limited:
    """A server in a group."""

    def __init__(self, binary, directory, limit):
        self.group = Group(limit)
        self.directory = pathlib.Path(directory) / "data"
        self.port = server_process.free_port()
        self.command = [binary, "serve", "--dbpath", str(self.directory), "--port", str(self.port), "--nounixsocket"]
        self.log = open(pathlib.Path(directory) / "log", "wb")
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log, preexec_fn=self.group.enter)
        self.client = pymongo.MongoClient(f"mongodb://127.0.0.1:{self.port}", serverSelectionTimeoutMS=60_000)
        self.things = self.client.measured.things
        self.client.admin.command("ping")

    def own_memory(self):
        """Bytes that are resident and no file's."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+)", status)[1]) << 10

    def build_files(self):
        return sum(file.stat().st_size for file in self.directory.glob("index-builds/*/run-*"))

    def end(self):
        self.client.close()
        self.process.kill()
        self.process.wait()
        self.group.remove()
        self.log.close()


def load(things, documents):
    for first in range(0, documents, BATCH):
        things.insert_many(
            [
                {"_id": number, "n": number * 7919 % 1_000_003, "u": number * 48_271 % 2_147_483_647, "text": f"text {number % 977:05}",
                 "filler": os.urandom(900)}
                for number in range(first, min(first + BATCH, documents))
            ],
            ordered=False,
        )


def watched(server, work):
    """Seconds that it took, the most memory of the process, the most bytes of runs."""
    memory, runs, stop = [0], [0], threading.Event()

    def watch():
        while not stop.wait(0.1):
            try:
                memory.append(server.own_memory())
                runs.append(server.build_files())
            except OSError:
                pass

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.monotonic()
    try:
        work()
    finally:
        took = time.monotonic() - began
        stop.set()
        watcher.join()
    return took, max(memory), max(runs)


def mib(size):
    return f"{size / (1 << 20):,.0f} MiB"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--documents", type=int, default=1_500_000)
    parser.add_argument("--limit-mib", type=int, default=1024)
    parser.add_argument("--directory", default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        server = Limited(arguments.binary, directory, arguments.limit_mib << 20)
        try:
            load(server.things, arguments.documents)
            server.client.admin.command("fsync")
            size = server.client.measured.command("dbStats")["dataSize"]
            print(f"{arguments.documents:,} documents, {mib(size)}, within {arguments.limit_mib:,} MiB; before: {mib(server.own_memory())}", flush=True)
            for name, index in INDEXES.items():
                took, memory, runs = watched(server, lambda index=index: server.things.create_index(**index))
                print(f"{name:10} {arguments.documents / took:12,.0f} documents/s, at most {mib(memory)}, runs {mib(runs)}", flush=True)
                server.things.drop_index("_".join(f"{key}_{way}" for key, way in ([(index["keys"], 1)] if isinstance(index["keys"], str) else index["keys"])))
            after_a_kill(server, arguments.documents)
        finally:
            server.end()


def after_a_kill(server, documents):
    def build():
        try:
            with pymongo.MongoClient("127.0.0.1", server.port) as client:
                client.measured.things.create_indexes([pymongo.IndexModel(**index) for index in INDEXES.values()])
        except pymongo.errors.PyMongoError:
            pass

    began = time.monotonic()
    builder = threading.Thread(target=build)
    builder.start()
    done = 0
    while done < documents // 2:
        operations = server.client.admin.command("currentOp")["inprog"]
        done = max([op["progress"]["done"] for op in operations if "scanning" in op.get("msg", "")], default=0)
        if not builder.is_alive():
            sys.exit("the build was over before half of it was seen")
        time.sleep(0.01)
    scanned = time.monotonic() - began
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    builder.join()
    began = time.monotonic()
    server.start()
    resumed = ""
    while any((server.directory / "index-builds").iterdir()):
        operations = server.client.admin.command({"currentOp": 1, "desc": "IndexBuildResumer"})["inprog"]
        resumed = next((op["msg"] for op in operations if "scanning" in op["msg"]), resumed)
        time.sleep(0.05)
    took = time.monotonic() - began
    at = re.search(r"resumed at document (\d+)", resumed)
    print(f"kill -9 after {scanned:.1f} s and {done:,} documents: resumed at {int(at[1]) if at else 0:,}, ready {took:.1f} s after the start", flush=True)
    server.things.find_one({"n": 5}, hint=[("n", 1), ("text", -1)])


if __name__ == "__main__":
    main()
