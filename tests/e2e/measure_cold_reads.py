"""Data larger than memory: python measure_cold_reads.py [--documents 2500000] [--limit-mb 1024] [--rounds 2] [BINARY …]

A server in a memory control group (process and page cache together) is loaded once and measured right after; its store is kept
below --directory if that is given, for later calls. Then, in each round: random reads of its table files around the page cache, 1,
16 and 64 at a time; uniform finds by _id with each thread model and each binary in turn; uniform updates. Before each, the caches
of the machine are dropped (root), and the server is started anew on a copy. Told are medians over the rounds, ratios within them,
and what a find or an update read.

`--lists`: one client asks for 500 documents at once, by a list of `_id`s and by an index that leads to them in no order of their own: how
many documents a second it gets.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import tempfile
import time

import disk_reads
import pymongo
import server_process
from control_group import Group
from server_process import Server

MIB = 1 << 20
DEPTHS = (1, 16, 64)
MODELS = ("auto", "synchronous")
# Documents that are asked for in lists of so many.
LISTED, LIST = 20_000, 500


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", nargs="*", default=[server_process.BINARY], help="the first one loads; target/debug/heddle by default")
    parser.add_argument("--documents", type=int, default=2_500_000, help="of 1 KB each")
    parser.add_argument("--limit-mb", type=int, default=1024, help="memory of the control group")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=5, help="of one measurement, after 2 s of warm-up")
    parser.add_argument("--read-bytes", type=int, default=8192, help="of one read of the disk: a block lies on two or three pages")
    parser.add_argument("--directory", help="where the store is made, or found from an earlier call")
    parser.add_argument("--lists", action="store_true", help="lists of documents, instead of single ones")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        directory = given.directory or stack.enter_context(tempfile.TemporaryDirectory())
        Comparison(given, pathlib.Path(directory)).run()


class Comparison:
    """What is measured, and what came of it: a list with a value of each round under each name."""

    def __init__(self, given, directory):
        self.given, self.directory = given, directory
        self.store = directory / "store"
        self.rates = {}

    def run(self):
        self.directory.mkdir(exist_ok=True)
        if not self.store.exists():
            self.load()
        if self.given.lists:
            for _ in range(self.given.rounds):
                for binary in self.given.binaries:
                    self.ask_for_lists(binary)
            self.conclude()
            return
        for _ in range(self.given.rounds):
            files = sorted(self.store.glob("engine/*.sst"))
            for depth in DEPTHS:
                drop_caches()
                rate, latencies = disk_reads.measure(files, self.given.read_bytes, depth, 1)
                median, late = (latencies[int(len(latencies) * share)] * 1000 for share in (0.5, 0.99))
                self.tell(f"disk, {depth} at a time", rate, median, late)
            for binary in self.given.binaries:
                for model in MODELS:
                    self.after_start(binary, f"find {model}", "point-read", "--serviceExecutor", model)
                self.after_start(binary, "update auto", "update-only")
        self.conclude()

    def load(self):
        with self.started(self.given.binaries[0], self.store) as server:
            self.bench(server, "-w", "point-read", "--load", "fresh", "--load-only")
            self.measure(server, f"find right after the load{self.named(self.given.binaries[0])}", "point-read")

    def ask_for_lists(self, binary):
        copy = self.directory / "copy"
        copy_store(self.store, copy)
        ids = random.Random(1).sample(range(self.given.documents), LISTED)
        try:
            with self.started(binary, copy) as server, server.client() as client:
                # Places in an order that is none of the documents: each leads elsewhere.
                things = client.heddle_bench.numbered
                things.create_index("place", sparse=True)
                things.bulk_write([pymongo.UpdateOne({"_id": identity}, {"$set": {"place": place}}) for place, identity in enumerate(ids)])
                client.admin.command("fsync")
                client.heddle_bench.command("compact", "numbered")
            with self.started(binary, copy) as server, server.client() as client:
                drop_caches()
                things = client.heddle_bench.numbered
                for name, ask in (
                    ("lists of _id", lambda first: {"_id": {"$in": ids[first:first + LIST]}}),
                    ("by an index", lambda first: {"place": {"$gte": first, "$lt": first + LIST}}),
                ):
                    half = 0 if name == "lists of _id" else LISTED // 2
                    began, found = time.monotonic(), 0
                    for first in range(half, half + LISTED // 2, LIST):
                        found += len(list(things.find(ask(first), batch_size=LIST + 1)))
                    took = time.monotonic() - began
                    assert found == LISTED // 2, f"{found} documents"
                    self.rates.setdefault(name + self.named(binary), []).append(found / took)
                    print(f"{name + self.named(binary):34} {found / took:9,.0f} documents/s", flush=True)
        finally:
            shutil.rmtree(copy)

    def after_start(self, binary, name, workload, *arguments):
        copy = self.directory / "copy"
        copy_store(self.store, copy)
        drop_caches()
        try:
            with self.started(binary, copy, *arguments) as server:
                self.measure(server, name + self.named(binary), workload)
        finally:
            shutil.rmtree(copy)

    def named(self, binary):
        return f" {binary}" if len(self.given.binaries) > 1 else ""

    @contextlib.contextmanager
    def started(self, binary, directory, *arguments):
        group = Group(self.given.limit_mb * MIB)
        own, server_process.BINARY = server_process.BINARY, binary
        server = Server(directory, "--quiet", *arguments, before=group.enter)
        server_process.BINARY = own
        try:
            yield server.wait_until_it_answers()
        finally:
            server.stop()
            group.remove()

    def measure(self, server, name, workload):
        before = counted(server)
        with tempfile.NamedTemporaryFile() as report:
            length = ["--load", "skip", "--warm-up", "2s", "--duration", f"{self.given.seconds}s"]
            self.bench(server, "-w", workload, *length, "--json", report.name)
            repetition = json.load(open(report.name))["repetitions"][0]
        spent = {what: after - before[what] for what, after in counted(server).items()}
        total, done = repetition["total"], max(spent["requests"], 1)
        slowest = min(second["rate"] for second in repetition["seconds"])
        self.tell(name, total["rate"], total["latency"]["p50Ms"], total["latency"]["p99Ms"])
        print(
            f"    slowest second {slowest:,.0f}; each: {spent['preads'] / done:.2f} reads of files,"
            f" {spent['bytes'] / done / 1024:.1f} KiB from the disk, {spent['missed'] / done:.2f} blocks missed in the cache",
            flush=True,
        )

    def bench(self, server, *arguments):
        command = [self.given.binaries[0], "bench", "run", server.uri, "--distribution", "uniform", "--records", str(self.given.documents)]
        command += ["--document-bytes", "1024", "--connections", str(self.given.connections), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def tell(self, name, rate, median, late):
        self.rates.setdefault(name, []).append(rate)
        print(f"{name:34} {rate:9,.0f}/s  p50 {median:6.3f} ms  p99 {late:6.3f} ms", flush=True)

    def conclude(self):
        print("medians over the rounds")
        for name, rates in self.rates.items():
            print(f"{name:34} {statistics.median(rates):9,.0f}/s")
        for binary in self.given.binaries if self.given.rounds and not self.given.lists else ():
            of = self.named(binary)
            for base in ("find synchronous" + of, f"disk, {DEPTHS[1]} at a time", f"disk, {DEPTHS[2]} at a time"):
                ratios = [rate / other for rate, other in zip(self.rates["find auto" + of], self.rates[base])]
                print(f"find auto{of} ÷ {base}: {statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})")


def counted(server):
    """What the server has read and answered since its start."""
    lines = pathlib.Path(f"/proc/{server.process.pid}/io").read_text().splitlines()
    process = {name: int(value) for name, value in (line.split(": ") for line in lines)}
    with server.client() as client:
        status = client.admin.command("serverStatus")
    operations = status["opcounters"]
    return {
        "requests": operations["query"] + operations["update"],
        "preads": process["syscr"],
        "bytes": process["read_bytes"],
        "missed": status["rocksdb"]["cache"]["misses"],
    }


def copy_store(store, copy):
    """Table files never change: they are linked; everything else is copied."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(store, copy, copy_function=lambda source, target: (os.link if is_table(source) else shutil.copy2)(source, target))


def is_table(file):
    return file.endswith(".sst")


def drop_caches():
    subprocess.run(["sync"], check=True)
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


if __name__ == "__main__":
    main()
