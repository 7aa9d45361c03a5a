"""Bytes on the disk per byte of documents: python measure_compression.py [--megabytes 200] [--corpora events orders] BINARY [BINARY …]

Each binary stores the same documents of each corpus (`heddle bench run --workload events`, `orders`, `repositories`: made by rules from a
seed), once alone and all in turns. Told are the bytes of its table files over those of the documents, after a compaction to
the bottom; how long load and compaction took, and the processor time of doing it again; and finds by `_id` a second from 16 connections with a cache of --cache-mb, so that most
of them read the disk's blocks. A name that is no `heddle` but a `mongod` is started as such, and has its own compression.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

import cramjam
import pymongo

import server_process
from measure_recovery import blocks

CORPORA = ["events", "orders", "repositories"]
CONNECTIONS = 16
LEAF_PAGE_BYTES = 32 * 1024
ALLOCATION_BYTES = 4 * 1024


class Stored:
    """One binary with one corpus."""

    def __init__(self, binary, directory, given):
        self.binary, self.given = binary, given
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        self.port = server_process.free_port()
        self.is_ours = not pathlib.Path(binary).name.startswith("mongod")
        if self.is_ours:
            command = [binary, "serve", "--nounixsocket", "--diskReserveMB", "0", "--cacheSizeMB", str(given.cache_mb)]
        else:
            command = [binary, "--bind_ip", "127.0.0.1", "--wiredTigerCacheSizeGB", str(max(0.25, given.cache_mb / 1024))]
        command += ["--dbpath", str(self.directory), "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = pymongo.MongoClient(f"mongodb://127.0.0.1:{self.port}", serverSelectionTimeoutMS=60_000)
        self.client.admin.command("ping")

    def bench(self, *arguments):
        loader = self.binary if self.is_ours else server_process.BINARY
        command = [loader, "bench", "run", *arguments, f"mongodb://127.0.0.1:{self.port}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def load(self, corpus, documents):
        began = time.monotonic()
        self.bench("--workload", corpus, "--records", str(documents), "--load-only")
        loaded, self.corpus = time.monotonic(), corpus
        self.client.admin.command("fsync")
        if self.is_ours:
            self.client.heddle_bench.command("compact", corpus)
        compacted, before = time.monotonic(), self.compaction_seconds()
        if self.is_ours:
            # Once more: how much of the first one was done before, nobody knows.
            self.client.heddle_bench.command("compact", corpus, force=True)
        return loaded - began, compacted - loaded, self.compaction_seconds() - before

    def compaction_seconds(self):
        """Processor time of the engine's threads for compaction so far."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        names_and_figures = [(task / "stat").read_text().rpartition(")") for task in tasks.iterdir()]
        ticks = sum(sum(map(int, figures.split()[11:13])) for name, _, figures in names_and_figures if "(rocksdb:low" in name)
        return ticks / os.sysconf("SC_CLK_TCK")

    def bytes_of_documents(self):
        return self.client.heddle_bench.command("collStats", self.corpus)["size"]

    def bytes_on_disk(self):
        if self.is_ours:
            return blocks(self.directory / "engine", ".sst")
        return self.client.heddle_bench.command("collStats", self.corpus)["storageSize"]

    def bytes_as_snappy_pages(self):
        """As the module's text says."""
        page, total = bytearray(), 0
        for batch in self.client.heddle_bench[self.corpus].find_raw_batches(batch_size=1_000):
            page += batch
            while len(page) >= LEAF_PAGE_BYTES:
                total += allocated(page[:LEAF_PAGE_BYTES])
                del page[:LEAF_PAGE_BYTES]
        return total + (allocated(page) if page else 0)

    def finds(self, documents):
        """A second, and their 99th percentile in milliseconds."""
        report = self.directory.parent / "finds.json"
        self.bench(
            "--workload", self.corpus, "--mix", "read=1", "--records", str(documents), "--load", "skip", "--connections", str(CONNECTIONS),
            "--duration", f"{self.given.seconds}s", "--json", str(report),
        )
        (reads,) = [kind for kind in json.loads(report.read_text())["repetitions"][0]["kinds"] if kind["name"] == "read"]
        return reads["rate"], reads["latency"]["p99Ms"]

    def end(self):
        self.client.close()
        self.process.terminate()
        self.process.wait(60)


def allocated(page):
    compressed = min(len(page), len(cramjam.snappy.compress_raw(bytes(page))))
    return -(-compressed // ALLOCATION_BYTES) * ALLOCATION_BYTES


def average_bytes(given, corpus, directory):
    """Of a thousand documents."""
    sample = Stored(given.binaries[0], f"{directory}/sample-{corpus}", given)
    try:
        sample.load(corpus, 1_000)
        return sample.bytes_of_documents() / 1_000
    finally:
        sample.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", nargs="*", default=[server_process.BINARY])
    parser.add_argument("--megabytes", type=int, default=200, help="of documents of each corpus")
    parser.add_argument("--corpora", nargs="+", default=CORPORA, choices=CORPORA)
    parser.add_argument("--cache-mb", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=5, help="of finds")
    parser.add_argument("--directory", default=None)
    given = parser.parse_args()
    print(f"{'corpus':14} {'binary':>6} {'documents':>10} {'bytes each':>10} {'on disk':>8} {'snappy':>8} {'load':>8} {'compact':>8} {'again':>9} {'finds/s':>9} {'p99':>9}")
    for corpus in given.corpora:
        with tempfile.TemporaryDirectory(dir=given.directory) as directory:
            average = average_bytes(given, corpus, directory)
            documents = int(given.megabytes * 2**20 / average)
            for number, binary in enumerate(given.binaries):
                stored = Stored(binary, f"{directory}/{number}", given)
                try:
                    load, compact, processor = stored.load(corpus, documents)
                    share = stored.bytes_on_disk() / stored.bytes_of_documents()
                    snappy = stored.bytes_as_snappy_pages() / stored.bytes_of_documents()
                    rate, p99 = stored.finds(documents)
                finally:
                    stored.end()
                print(
                    f"{corpus:14} {number + 1:>6} {documents:>10,} {average:>10.0f} {share:>8.3f} {snappy:>8.3f} {load:>6.1f} s {compact:>6.1f} s "
                    f"{processor:>7.2f} s {rate:>9,.0f} {p99:>6.2f} ms", flush=True,
                )


if __name__ == "__main__":
    main()
