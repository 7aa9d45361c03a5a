"""What encryption at rest costs: python measure_encryption.py [writes] [reads] [scan] [--documents 200000] [--repetitions 5]

Two servers, in the clear and encrypted, do the same in turns; each line has the medians of both and their ratio.

`writes`: inserts without waiting for the disk, then with `j: true`. `reads`: documents by `_id` in a random order, with a cache that holds
few of them, so that blocks come from the kernel's files. `scan`: everything, from the first document to the last, likewise.
"""

import argparse
import base64
import os
import pathlib
import random
import statistics
import tempfile
import threading
import time

import server_process
from server_process import BINARY, Server

CLIENTS = 8


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["writes", "reads", "scan"])
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--reads", type=int, default=20_000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--server", default=BINARY, help="another binary")
    given = parser.parse_args()
    server_process.BINARY = given.server
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        key = directory / "key"
        key.write_text(base64.b64encode(os.urandom(32)).decode())
        key.chmod(0o600)
        servers = {}
        try:
            for name, arguments in (("clear", []), ("encrypted", ["--enableEncryption", "--encryptionKeyFile", str(key)])):
                small = ["--cacheSizeMB", "32", "--rowCachePercent", "0"]
                servers[name] = Server(directory / name, "--quiet", *small, *arguments).wait_until_it_answers()
            for server in servers.values():
                fill(server, given.documents)
            measures = {"writes": [inserts, journaled], "reads": [finds], "scan": [scan]}
            for measure in [measure for what in given.what for measure in measures[what]]:
                compare(measure, servers, given)
            bytes_of = {name: sum(path.stat().st_size for path in (directory / name).rglob("*.sst")) for name in servers}
            print(f"bytes of tables: clear {bytes_of['clear']:,}, encrypted {bytes_of['encrypted']:,}, "
                  f"ratio {bytes_of['encrypted'] / bytes_of['clear']:.3f}")
        finally:
            for server in servers.values():
                server.stop()


def compare(measure, servers, given):
    rates = {name: [] for name in servers}
    for repetition in range(given.repetitions):
        for name in list(servers) if repetition % 2 == 0 else reversed(list(servers)):
            rates[name].append(measure(servers[name], given, repetition))
    clear, encrypted = (statistics.median(rates[name]) for name in ("clear", "encrypted"))
    ratios = [b / a for a, b in zip(rates["clear"], rates["encrypted"], strict=True)]
    print(f"{measure.__name__}: clear {clear:,.0f}/s, encrypted {encrypted:,.0f}/s, ratio {encrypted / clear:.3f} "
          f"(of each pair {min(ratios):.3f} to {max(ratios):.3f})", flush=True)


def document(number):
    return {"_id": number, "group": number % 977, "bytes": random.randbytes(200), "text": "as found in many documents " * 8}


def fill(server, documents):
    with server.client() as client:
        for first in range(0, documents, 1_000):
            client.test.things.insert_many([document(number) for number in range(first, min(first + 1_000, documents))])
        client.admin.command("fsync")
        client.test.command("compact", "things")


def in_parallel(work, count):
    """So many of `work(number)` by a few clients; how many a second."""
    threads = [threading.Thread(target=lambda part=part: [work(number) for number in range(part, count, CLIENTS)]) for part in range(CLIENTS)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count / (time.monotonic() - began)


def inserts(server, given, repetition):
    with server.client() as client:
        target = client.test[f"inserts{repetition}"]
        batches = max(1, given.documents // 5_000)
        made = [[{"_id": batch * 1_000 + number, "bytes": random.randbytes(500)} for number in range(1_000)] for batch in range(batches)]
        return in_parallel(lambda batch: target.insert_many(made[batch]), batches) * 1_000


def journaled(server, given, repetition):
    with server.client(journal=True) as client:
        target = client.test[f"journaled{repetition}"]
        return in_parallel(lambda number: target.insert_one({"_id": number, "bytes": random.randbytes(500)}), given.reads // 10)


def finds(server, given, repetition):
    order = random.Random(repetition)
    numbers = [order.randrange(given.documents) for _ in range(given.reads)]
    with server.client() as client:
        return in_parallel(lambda place: client.test.things.find_one(numbers[place]), given.reads)


def scan(server, given, _):
    with server.client() as client:
        began = time.monotonic()
        assert client.test.things.count_documents({"group": {"$gte": 0}}) == given.documents
        return given.documents / (time.monotonic() - began)


if __name__ == "__main__":
    main()
