"""What writes in a replica set cost: python measure_writes.py [--members 1] [--connections 64 1000] [--before BINARY] [--majority]

A standalone (or with --before a set of another binary) and a set run side by side and are loaded with updates of one field of documents
of 1 KB, in turns. The last table of each number of connections tells the set's rate as a ratio; below it is the share of all processors
that each process took during one more run on the set.
"""

import argparse
import os
import pathlib
import resource
import subprocess
import tempfile
import time

import server_process
from replica_set import ReplicaSet
from server_process import Server

TICKS = os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--connections", type=int, nargs="+", default=[64, 1000])
    parser.add_argument("--before", help="another server, whose set is compared with instead of a standalone")
    parser.add_argument("--majority", action="store_true", help="ask for w: majority instead of w: 1")
    parser.add_argument("--duration", type=int, default=3, help="seconds of one round")
    parser.add_argument("--repetitions", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        running = []
        for name in ("base", "set"):
            (directory / name).mkdir()
        try:
            base = started(given.before, lambda: begin_base(directory / "base", given), running)
            ours = started(None, lambda: ReplicaSet(directory / "set", given.members, "--quiet"), running)
            for connections in given.connections:
                one_load(base, ours, connections, given)
        finally:
            for one in running:
                one.kill_all() if isinstance(one, ReplicaSet) else one.stop()


def started(binary, start, running):
    own = server_process.BINARY
    server_process.BINARY = binary or own
    try:
        running.append(start())
    finally:
        server_process.BINARY = own
    return running[-1]


def begin_base(directory, given):
    if given.before:
        return ReplicaSet(directory, given.members, "--quiet", name="before")
    return Server(directory / "alone", "--quiet").wait_until_it_answers()


def address(one):
    return (one.primary() if isinstance(one, ReplicaSet) else one).uri


def one_load(base, ours, connections, given):
    load = ["-w", "update-only", "--connections", str(connections), "--warm-up", "1s", "--duration", f"{given.duration}s"]
    if given.majority:
        load += ["--write-concern", "majority"]
    name = "before" if given.before else "alone"
    print(f"== {connections} connections", flush=True)
    targets = [f"{name}={address(base)}", f"set={address(ours)}"]
    bench("server", *targets, "--repetitions", str(given.repetitions), *load)
    primary = ours.primary()
    began, before, own = time.monotonic(), [used(member) for member in ours.members], used_by_children()
    bench("run", primary.uri, "--load", "resume", *load, stdout=subprocess.DEVNULL)
    # The generator counts as a child that has ended, the members as such that run.
    all_time = (time.monotonic() - began) * os.cpu_count()
    for member, earlier in zip(ours.members, before):
        what = "primary" if member is primary else "secondary"
        print(f"{what} {(used(member) - earlier) / all_time:.0%} of the processors")
    print(f"generator {(used_by_children() - own) / all_time:.0%}", flush=True)


def bench(*arguments, **options):
    subprocess.run([server_process.BINARY, "bench", *arguments], check=True, **options)


def used(server):
    """Seconds of processors that a process has taken."""
    fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def used_by_children():
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


if __name__ == "__main__":
    main()
