"""Who waits when a majority cannot keep up: python measure_flow.py [--way narrow|slow] [--rate 8] [--loaders 4] [--unit 4]

Three members, whose secondaries cannot keep up with what a few clients bring that insert units of some MB: all that members send
each other passes a process that carries so many MB a second in each direction, or the secondaries run for a part of each 20 ms
only. A dozen light clients update small documents at a paced rate; their latency counts from when an update was due, and an
update waits for no other one. Told are their percentiles in milliseconds without loaders, with flow control and without it, in
turns, the medians of all repetitions, and what the loaders got done; the last lines are ratios.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import pathlib
import statistics
import tempfile
import threading
import time

import pymongo

from replica_set import ReplicaSet, eventually

ALONE, HELD, FREE = "no loaders", "flow control", "without"
DOCUMENT_BYTES = 16 << 10
SLOW_PERIOD_SECONDS = 0.02


class Loaders:
    """Clients that insert units of some MB, one after the other."""

    def __init__(self, running, count, unit_bytes):
        self.clients = [running.direct(running.primary()) for _ in range(count)]
        texts = [os.urandom(DOCUMENT_BYTES // 2).hex() for _ in range(unit_bytes // DOCUMENT_BYTES)]
        self.units, self.unit_bytes, self.stopping = 0, unit_bytes, threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(client, texts)) for client in self.clients]
        for thread in self.threads:
            thread.start()

    def _run(self, client, texts):
        while not self.stopping.is_set():
            client.flow.load.insert_many([{"text": text} for text in texts])
            self.units += 1

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        for client in self.clients:
            client.close()


def light(port, clients, rate, seconds):
    """The latencies in seconds of updates that are due at a paced rate."""
    return asyncio.run(update_as_they_are_due(port, clients, rate, seconds))


async def update_as_they_are_due(port, clients, rate, seconds):
    address = f"mongodb://127.0.0.1:{port}/?directConnection=true"
    connected = [pymongo.AsyncMongoClient(address, maxPoolSize=None, socketTimeoutMS=60_000) for _ in range(clients)]
    times, updates = [], []

    async def update(client, number, due):
        await client.flow.light.update_one({"_id": number}, {"$inc": {"count": 1}}, upsert=True)
        times.append(time.monotonic() - due)

    for client in connected:
        await client.admin.command("ping")
    began = time.monotonic()
    for number in range(int(seconds * rate * clients)):
        due = began + number / (rate * clients)
        await asyncio.sleep(max(due - time.monotonic(), 0))
        updates.append(asyncio.create_task(update(connected[number % clients], number % (clients * 100), due)))
    await asyncio.gather(*updates)
    for client in connected:
        await client.close()
    return times


@contextlib.contextmanager
def slowed(running, given):
    """The members of the majority cannot keep up."""
    if given.way == "narrow":
        running.network.narrow(int(given.rate * 1e6))
        yield
        return running.network.narrow(0)
    secondaries, ended = running.secondaries(), threading.Event()

    def stop_and_go():
        while not ended.is_set():
            for member in secondaries:
                running.pause(member)
            time.sleep(SLOW_PERIOD_SECONDS * (1 - given.share))
            for member in secondaries:
                running.resume(member)
            time.sleep(SLOW_PERIOD_SECONDS * given.share)

    thread = threading.Thread(target=stop_and_go)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def one_run(running, pool, how, given):
    primary = running.primary()
    with running.direct(primary) as admin, slowed(running, given):
        admin.admin.command("setParameter", 1, enableFlowControl=how != FREE, flowControlTargetLagSeconds=given.target_lag)
        loaders = Loaders(running, 0 if how == ALONE else given.loaders, int(given.unit * (1 << 20)))
        try:
            time.sleep(given.warm_up)
            before, began = loaders.units, time.monotonic()
            running_light = pool.apply_async(light, (primary.port, given.light, given.light_rate, given.duration))
            figures = []
            while not running_light.ready():
                figures.append(admin.admin.command("serverStatus")["flowControl"])
                running_light.wait(0.5)
            rate = (loaders.units - before) * loaders.unit_bytes / (time.monotonic() - began)
        finally:
            loaders.stop()
        times = sorted(running_light.get())
        eventually("all is applied", lambda: admin.admin.command("serverStatus")["flowControl"]["unappliedBytes"] == 0, 300)
        admin.flow.load.drop()
    assert running.primary() is primary, "another member leads: the figures are of an election"
    at = lambda part: times[int(len(times) * part)] * 1e3
    return {"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "MB/s": rate / 1e6, "figures": figures}


def most(figures, name):
    return max(one.get(name, 0) for one in figures)


def show(how, runs):
    middle = {name: statistics.median(run[name] for run in runs) for name in ("p50", "p90", "p99", "MB/s")}
    told = [f"p50 {middle['p50']:.0f}", f"p90 {middle['p90']:.0f}", f"p99 {middle['p99']:.0f} ms"]
    if how != ALONE:
        told.append(f"loaders {middle['MB/s']:.1f} MB/s")
    print(f"{how:>12}: {', '.join(told)}", flush=True)
    return middle


def measure(running, given):
    runs = {how: [] for how in (ALONE, HELD, FREE)}
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for repetition in range(given.repetitions):
            for how in runs:
                run = one_run(running, pool, how, given)
                runs[how].append(run)
                show(how, [run])
                if how == HELD:
                    last = run["figures"][-1]
                    last["held"] = len(last["held"])
                    print(f"              {json.dumps(last)}", flush=True)
    print(f"== medians of {given.repetitions}")
    middle = {how: show(how, of) for how, of in runs.items()}
    for how, of in runs.items():
        if how != ALONE:
            figures = [one for run in of for one in run["figures"]]
            print(f"{how:>12}: at most {most(figures, 'unansweredBytes') / 1e6:.1f} MB on their way,",
                  f"{most(figures, 'unappliedBytes') / 1e6:.1f} MB and {most(figures, 'lagMillis')} ms behind")
    ratio = lambda name: f"{name} {middle[HELD][name] / middle[FREE][name]:.2f}"
    print(f"flow control / without: {', '.join(map(ratio, ('p50', 'p90', 'p99', 'MB/s')))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=["narrow", "slow"], default="narrow", help="what members of the majority are short of")
    parser.add_argument("--rate", type=float, default=8.0, help="MB a second from each member to each other one, with narrow")
    parser.add_argument("--share", type=float, default=0.25, help="of each 20 ms in which secondaries run, with slow")
    parser.add_argument("--target-lag", type=int, default=10, help="flowControlTargetLagSeconds")
    parser.add_argument("--loaders", type=int, default=4)
    parser.add_argument("--unit", type=float, default=4.0, help="MiB that a loader inserts at once")
    parser.add_argument("--light", type=int, default=12, help="light clients")
    parser.add_argument("--light-rate", type=float, default=20.0, help="updates a second of each")
    parser.add_argument("--warm-up", type=float, default=5.0, help="seconds of load before latencies count")
    parser.add_argument("--duration", type=float, default=10.0, help="seconds of one run")
    parser.add_argument("--repetitions", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        settings = {"electionTimeoutMillis": 10_000}
        running = ReplicaSet(pathlib.Path(directory), 3, "--quiet", settings=settings, can_be_cut=given.way == "narrow")
        try:
            measure(running, given)
        finally:
            running.kill_all()


if __name__ == "__main__":
    main()
