"""How far the times of logins tell whether a user exists: `measure_login_timing.py [--seconds 60] [--server BINARY]`.

Logins of a user that exists and of others that do not, with a wrong password, one after the other in random order, slowly
enough that none waits for the slope of failures. Prints both distributions of each step, and what two tests of whether they
are one say of them (Mann-Whitney, Kolmogorov-Smirnov). A p far below 0.01 in run after run is a difference that somebody can find.

With `--starts N` only first steps are made, which cost nobody a failure, N of a user that exists and N of one that does not, as fast
as they go: differences that are small beside their noise show there.
"""

import argparse
import base64
import math
import os
import pathlib
import random
import statistics
import tempfile
import time

import server_process
from access_server import AccessServer

# Each failure costs an address 100 ms; at this rate none is left over.
PAUSE_SECONDS = 0.11
PROOF = base64.b64encode(bytes(32)).decode()


def log_in(client, user):
    """The seconds that each of the two steps took."""
    nonce = base64.b64encode(os.urandom(18)).decode()
    began = time.perf_counter()
    first = client.admin.command("saslStart", 1, mechanism="SCRAM-SHA-256", payload=f"n,,n={user},r={nonce}".encode())
    between = time.perf_counter()
    both = first["payload"].decode().split(",")[0]
    last = f"c=biws,{both},p={PROOF}".encode()
    try:
        client.admin.command("saslContinue", 1, conversationId=first["conversationId"], payload=last)
        raise AssertionError("a wrong password was taken")
    except server_process.pymongo.errors.OperationFailure as failure:
        assert failure.code == 18, failure.details
    return between - began, time.perf_counter() - between


def start(client, user):
    """The seconds of the first step alone."""
    began = time.perf_counter()
    client.admin.command("saslStart", 1, mechanism="SCRAM-SHA-256", payload=f"n,,n={user},r=fyko+d2lbbFgONRv9qkxdawL".encode())
    return (time.perf_counter() - began,)


def normal_tail(score):
    return math.erfc(abs(score) / math.sqrt(2))


def mann_whitney(one, other):
    """The two-sided p of the rank-sum test, by its normal approximation; times have no ties to speak of."""
    ranked = sorted([(value, 0) for value in one] + [(value, 1) for value in other])
    ranks = sum(rank for rank, (_, of) in enumerate(ranked, 1) if of == 0)
    wins = ranks - len(one) * (len(one) + 1) / 2
    mean = len(one) * len(other) / 2
    deviation = math.sqrt(mean * (len(one) + len(other) + 1) / 6)
    return normal_tail((wins - mean) / deviation)


def kolmogorov_smirnov(one, other):
    """The greatest distance of the two distributions, and its p."""
    ranked = sorted([(value, 0) for value in one] + [(value, 1) for value in other])
    seen, distance = [0, 0], 0.0
    for _, of in ranked:
        seen[of] += 1
        distance = max(distance, abs(seen[0] / len(one) - seen[1] / len(other)))
    scaled = distance * math.sqrt(len(one) * len(other) / (len(one) + len(other)))
    p = 2 * sum((-1) ** (k - 1) * math.exp(-2 * (k * scaled) ** 2) for k in range(1, 101))
    return distance, min(max(p, 0.0), 1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--starts", type=int, help="so many first steps of each, instead of whole logins")
    parser.add_argument("--server", default=server_process.BINARY)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    server_process.BINARY = arguments.server
    chosen = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as directory:
        server = server_process.Server(pathlib.Path(directory) / "data", "--auth").wait_until_it_answers()
        try:
            access = AccessServer(server).make_root()
            times = {"known": ([], []), "unknown": ([], [])}
            with access.client(maxPoolSize=1) as client:
                for _ in range(2 * (arguments.starts or 0)):
                    kind = chosen.choice(["known", "unknown"])
                    for step, took in zip(times[kind], start(client, "root" if kind == "known" else "toor")):
                        step.append(took)
                until = time.monotonic() + (0 if arguments.starts else arguments.seconds)
                while time.monotonic() < until:
                    kind = chosen.choice(["known", "unknown"])
                    user = "root" if kind == "known" else f"u{chosen.randrange(10_000)}"
                    for step, took in zip(times[kind], log_in(client, user)):
                        step.append(took)
                    time.sleep(PAUSE_SECONDS)
        finally:
            server.stop()
    for position, step in enumerate(["saslStart"] if arguments.starts else ["saslStart", "saslContinue"]):
        samples = {kind: [1e6 * took for took in times[kind][position]] for kind in times}
        for kind, sample in samples.items():
            quartiles = statistics.quantiles(sample, n=4)
            shown = ", ".join(f"{value:.0f}" for value in quartiles)
            print(f"{step:12} {kind:7} {len(sample):5} logins, quartiles {shown} µs")
        distance, p = kolmogorov_smirnov(*samples.values())
        print(f"{step:12} Mann-Whitney p {mann_whitney(*samples.values()):.3f}; distance {distance:.3f}, p {p:.3f}")


if __name__ == "__main__":
    main()
