"""What a new member costs a set: python measure_join.py [--gigabytes 5] [--rate 500] [--kill] [--directory …]

A set of two is filled; a generator asks the primary for half reads and half updates at a paced rate, and an empty third member
is added. Told are the time until it is a secondary and how fast the copy was, and the 99th percentile of the operations before
and meanwhile, whose ratio is what the copy costs clients. With --kill both ends are killed in the middle of the copy,
the new member first. At the end all three have the same data.
"""

import argparse
import json
import pathlib
import signal
import subprocess
import tempfile
import time

import pymongo

from replica_set import ReplicaSet, eventually
from server_process import BINARY, Server

DOCUMENT_BYTES = 1024
JOIN_SECONDS = 3600


class Generator:
    """`heddle bench run` until it is told to end."""

    def __init__(self, uri, report, rate, seconds=JOIN_SECONDS):
        self.report = report
        command = [BINARY, "bench", "run", uri, "--workload", "a", "--load", "skip", "--distribution", "uniform", "--rate", str(rate)]
        command += ["--connections", "32", "--records", str(documents_of(uri)), "--document-bytes", str(DOCUMENT_BYTES)]
        command += ["--warm-up", "2s", "--duration", f"{seconds}s", "--json", str(report)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        assert self.process.wait(60) in (0, 130), "the generator fails"
        return json.loads(self.report.read_text())["repetitions"][0]["total"]


def documents_of(uri):
    with pymongo.MongoClient(uri) as client:
        return client.heddle_bench.usertable.estimated_document_count()


def fill(directory, gigabytes):
    server = Server(directory).wait_until_it_answers()
    command = [BINARY, "bench", "run", f"mongodb://127.0.0.1:{server.port}", "--workload", "a", "--load-only"]
    command += ["--records", str(int(gigabytes * (1 << 30) / DOCUMENT_BYTES)), "--document-bytes", str(DOCUMENT_BYTES)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with server.client() as client:
        stats = client.heddle_bench.command("collStats", "usertable")
    assert server.stop() == 0
    return stats["count"], stats["size"], stats["storageSize"]


def copying(running, member):
    """How far the copy is that the member makes, if it makes one."""
    try:
        return running.status(member).get("initialSyncStatus")
    except pymongo.errors.PyMongoError:
        return None


def wait_for_percent(running, member, percent):
    eventually(f"{percent} % of a copy", lambda: (copying(running, member) or {}).get("percent", 0) >= percent, JOIN_SECONDS, 0.2)


def kill_both(running, number):
    for percent, end in ((20, lambda status: running.members[number]), (60, lambda status: source_of(running, status))):
        wait_for_percent(running, running.members[number], percent)
        status = copying(running, running.members[number])
        killed = end(status)
        place = running.members.index(killed)
        print(f"kill -9 of member {place} at {status['percent']:.0f} %")
        running.kill(killed)
        time.sleep(1)
        running.restart(killed)


def source_of(running, status):
    return running.members[running.hosts.index(status["syncSourceHost"])]


def join(running, number, kills):
    """Adds the member; returns the seconds until it is a secondary, and what its copy told last."""
    began, last = time.monotonic(), {}
    with running.direct(running.primary()) as direct:
        config = direct.admin.command("replSetGetConfig")["config"]
        config["version"] += 1
        config["members"].append({"_id": number, "host": f"127.0.0.1:{running.members[number].port}"})
        direct.admin.command("replSetReconfig", config)
    if kills:
        kill_both(running, number)

    def is_there():
        status = copying(running, running.members[number])
        last.update(status or {})
        return running.status(running.members[number])["myState"] == 2

    # Who looks more often costs more than what is measured.
    eventually("a new secondary", is_there, JOIN_SECONDS, 1)
    return time.monotonic() - began, last


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--rate", type=int, default=500, help="operations a second")
    parser.add_argument("--before", type=int, default=30, help="seconds of load before the member is added")
    parser.add_argument("--kill", action="store_true", help="kill both ends in the middle of the copy")
    parser.add_argument("--directory", help="where the data go; a temporary one by default")
    given = parser.parse_args()
    if given.directory:
        pathlib.Path(given.directory).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        measure(pathlib.Path(directory), given)


def measure(directory, given):
    began = time.monotonic()
    count, size, storage = fill(directory / "member0", given.gigabytes)
    print(f"{count:,} documents, {size / 1e9:.2f} GB, {storage / 1e9:.2f} GB on the disk, filled in {time.monotonic() - began:.0f} s", flush=True)
    running = ReplicaSet(directory, 3, initiate=False)
    try:
        members, running.members = running.members, running.members[:2]
        began = time.monotonic()
        running.initiate([{"priority": 2}, {}], JOIN_SECONDS)
        print(f"second member, without load: {time.monotonic() - began:.1f} s", flush=True)
        running.members = members
        uri = f"mongodb://127.0.0.1:{running.primary().port}/?directConnection=true"
        before = Generator(uri, directory / "before.json", given.rate, given.before)
        before.process.wait()
        before = before.end()
        load = Generator(uri, directory / "meanwhile.json", given.rate)
        time.sleep(3)
        seconds, last = join(running, 2, given.kill)
        meanwhile = load.end()
        copied = last.get("approxTotalBytesCopied", 0)
        rate = copied / max(last.get("totalInitialSyncElapsedMillis", 0), 1) / 1000
        print(f"third member, under load: a secondary after {seconds:.1f} s, {copied / 1e9:.2f} GB copied at {rate:.0f} MB/s")
        for when, total in (("before", before), ("meanwhile", meanwhile)):
            latency = total["latency"]
            print(f"{when}: {total['rate']:.0f} operations/s, p50 {latency['p50Ms']:.2f} ms, p99 {latency['p99Ms']:.2f} ms, errors {total['errors']}")
        print(f"p99 meanwhile / before: {meanwhile['latency']['p99Ms'] / before['latency']['p99Ms']:.2f}")
        running.wait_until_healthy(JOIN_SECONDS)
        running.assert_members_are_equal(JOIN_SECONDS)
        print("the members are equal")
    finally:
        running.kill_all()


if __name__ == "__main__":
    main()
