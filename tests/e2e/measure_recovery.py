"""Recovery, space and amplification: python measure_recovery.py [recovery] [space] [amplification] [--documents 1000000] [--directory DIR]

recovery       inserts and updates from 64 connections as fast as they go, `kill -9`, and a start: how long until it answers, beside the
               bytes of journal that were there to replay and the bound that the journal's size is. Once per --server, the arguments
               of the server, such as --server="--memtableSizeMB 16"; every write that was acknowledged to one further client is looked for.
space          documents that all expire at once, deleted at --rate a second while nothing else is done: bytes of tables before, when
               the last one was gone, and when nine tenths of the room were back, each with its second.
amplification  inserts, then as many updates of whole documents, of --document-bytes: bytes that the process wrote per byte of
               documents, and bytes on the disk per byte of documents, once nothing is flushed or compacted any more.

Files are counted by the blocks that they take. The texts of documents are random letters and figures, which compress to
three quarters.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time

import pymongo
from pymongo.errors import PyMongoError

import server_process
from server_process import Server

MIB = 2**20
CONNECTIONS = 64
# Until flush and compaction have nothing to do: no bytes for so long.
QUIET_SECONDS = 5
PATIENCE_SECONDS = 600

EXPIRING = """
collection = "expiring"
[document]
at = { gen = "fromNow", min = -3600, max = -60 }
text = { gen = "string", length = LENGTH }
[[indexes]]
key = { at = 1 }
expireAfterSeconds = 31536000
[[operations]]
name = "read"
command = { find = "expiring", filter = { _id = { gen = "key" } }, limit = 1 }
"""


def bench(server, *arguments):
    command = [server_process.BINARY, "bench", "run", *arguments, f"mongodb://127.0.0.1:{server.port}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def completed(process):
    if process.wait() != 0:
        raise SystemExit(f"the load ended with {process.returncode}: {process.args}")


def blocks(directory, ending=""):
    """Bytes that files take on the disk; of a file that goes meanwhile none."""
    total = 0
    for path in pathlib.Path(directory).rglob(f"*{ending}"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            pass
    return total


def written(server):
    """Bytes that the process has sent towards the disk since its start."""
    lines = pathlib.Path(f"/proc/{server.process.pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["write_bytes"])


def settle(server):
    """Waits until nothing is written any more; returns how much was written in all."""
    deadline, last, since = time.monotonic() + PATIENCE_SECONDS, written(server), time.monotonic()
    while time.monotonic() - since < QUIET_SECONDS:
        if time.monotonic() > deadline:
            raise SystemExit(f"the server still writes after {PATIENCE_SECONDS} s")
        time.sleep(0.25)
        now = written(server)
        if now != last:
            last, since = now, time.monotonic()
    return last


def mib(count):
    return f"{count / MIB:,.0f} MiB"


def started(directory, name, *arguments):
    return Server(pathlib.Path(directory) / name, *arguments).wait_until_it_answers()


class Acknowledged(threading.Thread):
    """A client that inserts one document after the other and remembers the last one that was acknowledged."""

    def __init__(self, server):
        super().__init__()
        self.client = server.client(retryWrites=False)
        self.last = -1

    def run(self):
        try:
            while True:
                self.client.watched.things.insert_one({"_id": self.last + 1})
                self.last += 1
        except PyMongoError:
            self.client.close()


def recovery(given, directory):
    print(f"\nrecovery after kill -9, {CONNECTIONS} connections that insert and update documents of {given.document_bytes} bytes")
    print(f"{'server':32} {'to replay':>12} {'unflushed':>12} {'it answers after':>17} {'a start without':>16}")
    for number, arguments in enumerate(given.server or [""]):
        name = f"recovery-{number}"
        server = started(directory, name, *arguments.split())
        client = Acknowledged(server)
        load = bench(
            server, "--mix", "insert=1,update=1", "--records", str(given.documents // 10), "--document-bytes", str(given.document_bytes),
            "--connections", str(CONNECTIONS), "--duration", "600s",
        )
        try:
            client.start()
            time.sleep(given.seconds)
            with server.client() as asked:
                unflushed = asked.admin.command("serverStatus")["rocksdb"]["memtables"]["unflushed bytes"]
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
        finally:
            load.terminate()
            load.wait()
            server.process.kill()
        client.join()
        replayed = sum(path.stat().st_size for path in (server.directory / "engine").glob("*.log"))
        times = []
        # The second start finds a journal that a clean end has left.
        for _ in range(2):
            began = time.monotonic()
            again = started(directory, name, *arguments.split())
            times.append(time.monotonic() - began)
            with again.client() as asked:
                found = asked.watched.things.estimated_document_count()
            assert found >= client.last + 1, f"{found} documents, {client.last + 1} were acknowledged"
            assert again.stop() == 0
        print(
            f"{arguments or 'as it comes':32} {mib(replayed):>12} {mib(unflushed):>12} {times[0]:>15.2f} s {times[1]:>14.2f} s", flush=True,
        )
    print("the journal's size bounds what is to replay: 1 GiB by default, less on a small disk, 64 KiB or more per memtable of 4 keyspaces")


def clock(minutes):
    moment = time.gmtime(time.time() + 60 * minutes)
    return f"{moment.tm_hour:02}:{moment.tm_min:02}"


def space(given, directory):
    server = started(directory, "space", "--setParameter", "ttlMonitorSleepSecs=1")
    try:
        workload = pathlib.Path(directory) / "expiring.toml"
        workload.write_text(EXPIRING.replace("LENGTH", str(max(1, given.document_bytes - 60))))
        completed(bench(server, "--file", str(workload), "--records", str(given.documents), "--load-only"))
        engine = server.directory / "engine"
        with server.client() as client:
            client.heddle_bench.command("compact", "expiring")
            settle(server)
            client.admin.command("setCalendar", ttl={"start": clock(-60), "stop": clock(60), "documentsPerSecond": given.rate})
            before, things = blocks(engine, ".sst"), client.heddle_bench.expiring
            began, samples, gone = time.monotonic(), [], None
            client.heddle_bench.command("collMod", "expiring", index={"name": "at_1", "expireAfterSeconds": 0})
            needed = given.documents / given.rate
            while time.monotonic() < began + 2 * needed + given.patience:
                at, left = time.monotonic() - began, things.estimated_document_count()
                samples.append((at, blocks(engine, ".sst"), blocks(engine, ".log")))
                if left == 0 and gone is None:
                    gone = samples[-1]
                if gone and samples[-1][1] <= before / 10:
                    break
                time.sleep(0.25)
        print(f"\nroom of {given.documents:,} expired documents of {given.document_bytes} bytes, deleted at {given.rate:,} a second")
        print(f"tables before: {mib(before)}; the most meanwhile: {mib(max(size for _, size, _ in samples))}")
        if gone is None:
            print(f"after {samples[-1][0]:.0f} s {left:,} documents are left")
            return
        print(f"all gone after {gone[0]:.1f} s (by the rate: {needed:.1f} s); tables then: {mib(gone[1])}, journal: {mib(gone[2])}")
        at, size, journal = samples[-1]
        back = f"nine tenths of the room were back {at - gone[0]:.1f} s later"
        verdict = back if size <= before / 10 else f"not nine tenths of the room were back within {at - gone[0]:.0f} s of it"
        print(f"{verdict}; tables: {mib(size)}, journal: {mib(journal)}")
    finally:
        server.stop()


def amplification(given, directory):
    server = started(directory, "amplification")
    try:
        engine, documents, size = server.directory / "engine", given.documents, given.document_bytes
        print(f"\namplification, {documents:,} documents of {size} bytes")
        print(f"{'':10} {'documents':>14} {'written':>14} {'per byte':>9} {'on the disk':>14} {'per byte':>9}")
        shape = ("--records", str(documents), "--document-bytes", str(size))
        before = settle(server)
        completed(bench(server, "--mix", "update=1", *shape, "--load-only"))
        for name in ("inserts", "updates"):
            if name == "updates":
                update = ("--mix", "update=1", *shape, "--load", "skip", "--operations", str(documents))
                completed(bench(server, *update, "--connections", str(CONNECTIONS), "--warm-up", "0"))
            after, on_disk, user = settle(server), blocks(engine, ".sst"), documents * size
            wrote, before = after - before, after
            print(
                f"{name:10} {mib(user):>14} {mib(wrote):>14} {wrote / user:>9.2f} {mib(on_disk):>14} {on_disk / user:>9.2f}", flush=True,
            )
        with server.client() as client:
            status = client.admin.command("serverStatus")["rocksdb"]
        print(f"journal, of it: {mib(status['journal']['bytes'])}; still in memtables: {mib(status['memtables']['unflushed bytes'])}")
    finally:
        server.stop()


PARTS = {"recovery": recovery, "space": space, "amplification": amplification}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[], help="all of them by default")
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--document-bytes", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=20, help="recovery: of load before the kill")
    parser.add_argument("--rate", type=int, default=50_000, help="space: documents that the window lets go in a second")
    parser.add_argument("--patience", type=float, default=60, help="space: seconds in which room is to be back, beside twice the rate's")
    parser.add_argument("--server", action="append", help="recovery: arguments of a server; may be repeated")
    parser.add_argument("--directory", default=None)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        for name in given.parts or PARTS:
            PARTS[name](given, directory)


if __name__ == "__main__":
    main()
