"""Documents a second of index builds: python measure_index_build.py [--documents 2000000] [--rounds 3] BINARY [BINARY …]

Each binary has its own data of the same documents. In each round every binary builds each index once, in turn, and drops it.
Told are the documents a second (the median of the rounds), and for each further binary its ratio to the first one. A
name that is no `heddle` but a `mongod` is started as such.
"""

import argparse
import pathlib
import statistics
import subprocess
import tempfile
import time

import pymongo

import server_process

INDEXES = {
    "int": dict(keys="n"),
    "compound": dict(keys=[("n", 1), ("text", -1)]),
    "multikey": dict(keys="tags"),
    "unique": dict(keys="u", unique=True),
}
BATCH = 10_000


class Measured:
    """One binary with its data."""

    def __init__(self, binary, directory):
        self.binary = binary
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        self.port = server_process.free_port()
        if pathlib.Path(binary).name.startswith("mongod"):
            command = [binary, "--dbpath", str(self.directory), "--port", str(self.port), "--bind_ip", "127.0.0.1"]
        else:
            command = [binary, "serve", "--dbpath", str(self.directory), "--port", str(self.port), "--nounixsocket"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = pymongo.MongoClient(f"mongodb://127.0.0.1:{self.port}", serverSelectionTimeoutMS=60_000)
        self.things = self.client.measured.things

    def load(self, documents):
        for first in range(0, documents, BATCH):
            self.things.insert_many(
                [
                    {"_id": number, "n": number * 7919 % 1_000_003, "u": number * 48_271 % 2_147_483_647, "text": f"text {number % 977:05}",
                     "tags": [number % 13, number % 101, number % 1009], "filler": "x" * 60}
                    for number in range(first, min(first + BATCH, documents))
                ],
                ordered=False,
            )
        self.client.admin.command("fsync")

    def build(self, index):
        began = time.monotonic()
        name = self.things.create_index(**index)
        took = time.monotonic() - began
        self.things.drop_index(name)
        return took

    def end(self):
        self.client.close()
        self.process.terminate()
        self.process.wait(60)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", nargs="+")
    parser.add_argument("--documents", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        measured = []
        try:
            for number, binary in enumerate(arguments.binaries):
                measured.append(Measured(binary, f"{directory}/{number}"))
                measured[-1].load(arguments.documents)
            took = {(number, name): [] for number in range(len(measured)) for name in INDEXES}
            for _ in range(arguments.rounds):
                for name, index in INDEXES.items():
                    for number, one in enumerate(measured):
                        took[number, name].append(one.build(index))
            for name in INDEXES:
                rates = [arguments.documents / statistics.median(took[number, name]) for number in range(len(measured))]
                ratios = "".join(f"  {rate:12,.0f} ({rate / rates[0]:.2f} times)" for rate in rates[1:])
                print(f"{name:10} {rates[0]:12,.0f} documents/s{ratios}", flush=True)
        finally:
            for one in measured:
                one.end()


if __name__ == "__main__":
    main()
