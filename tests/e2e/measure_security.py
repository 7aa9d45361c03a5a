"""What logins and TLS cost: python measure_security.py [requests] [storm] [held] [--connections 1000] [--clients 5000] [--repetitions 5]

`requests`: three servers, in clear, with `--auth`, and with `--auth` and TLS, are loaded with finds and updates of one field in turns.
Two processes of one kind differ by some percent for as long as they live, so that each of `--processes` times all are started anew;
what is told of a kind are the ratios of its median rates to those in clear beside it, and the interval that their median lies in
(bootstrap, 95 %). A second server in clear shows how far equals are apart.

`storm`: so many clients come back at once, each of which logs in by SCRAM-SHA-256 over TLS and finds one document, while others, who are
there already, find 1,000 documents a second. What is told: how long it takes until all were served, and the p99 of the others meanwhile
and without a storm, by two servers in turns: in clear, and with logins and TLS. With `--apart` servers have the first half of the
processors and clients the others, where those who come back run only while those who are there do not (SCHED_IDLE): as if they were on
other machines.

`held`: what each of `--held` connections takes that have logged in over TLS and find something now and then.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
import urllib.parse
from random import Random

import server_process
from access_server import ROOT
from server_process import BINARY, Server
from test_tls import Authority, trusting

RECORDS = "20000"
DATA = ["--records", RECORDS, "--workload", "point-read"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["requests", "storm", "held"])
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--clients", type=int, default=5_000)
    parser.add_argument("--held", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=3, help="of one round of requests")
    parser.add_argument("--repetitions", type=int, default=5, help="of a storm, or of a round within the same processes")
    parser.add_argument("--processes", type=int, default=5, help="so many times the servers of requests are started anew")
    parser.add_argument("--apart", action="store_true", help="servers and clients on processors of their own")
    parser.add_argument("--server", default=BINARY, help="another binary for the servers than for the load")
    given = parser.parse_args()
    processors = sorted(os.sched_getaffinity(0))
    half = len(processors) // 2
    assert half > 0 or not given.apart, "one processor cannot be shared out"
    of_servers, of_clients = (processors[:half], processors[half:]) if given.apart else (processors, processors)
    os.sched_setaffinity(0, of_clients)
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        authority = Authority(directory)

        def start(kinds, name):
            return servers_of(kinds, directory / name, authority, given.server, of_servers)

        if "requests" in given.what:
            requests(start, directory, given)
        if "storm" in given.what:
            with start(("clear", "auth-tls"), "storm") as servers:
                ratios = [[storm(name, server.connection_string, directory, given) for name, server in servers.items()] for _ in range(given.repetitions)]
            for name, of_server in zip(servers, zip(*ratios)):
                print(f"{name}: p99 of the others beside a storm over that without, median {statistics.median(of_server):.1f} times", flush=True)
        if "held" in given.what:
            with start(("clear", "auth-tls"), "held") as servers:
                for name, server in servers.items():
                    held(name, server, directory, given)


@contextlib.contextmanager
def servers_of(kinds, directory, authority, binary, processors):
    """New servers on these processors by their kinds (a second one of a kind has a number behind it), each with its `connection_string`."""
    directory.mkdir()
    certificate = authority.issue("server") if any("tls" in kind for kind in kinds) else None
    servers = {}
    try:
        for kind in kinds:
            logs_in, speaks_tls = "auth" in kind, "tls" in kind
            arguments = ["--auth"] * logs_in + ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", str(certificate)] * speaks_tls
            server_process.BINARY = binary
            server = Server(
                directory / kind, "--quiet", *arguments, client_options=trusting(authority) if speaks_tls else {},
                before=lambda: os.sched_setaffinity(0, processors),
            )
            servers[kind] = server
            server.connection_string = uri(server, authority, logs_in, speaks_tls)
            server.wait_until_it_answers()
            if logs_in:
                with server.client() as client:
                    client.admin.command("createUser", ROOT[0], pwd=ROOT[1], roles=["root"])
        yield servers
    finally:
        for server in servers.values():
            server.stop()


def uri(server, authority, logs_in, speaks_tls):
    user = f"{ROOT[0]}:{urllib.parse.quote(ROOT[1], safe='')}@" if logs_in else ""
    tls = f"tls=true&tlsCAFile={urllib.parse.quote(str(authority.certificate), safe='')}" if speaks_tls else ""
    return f"mongodb://{user}127.0.0.1:{server.port}/?{tls}"


def requests(start, directory, given):
    kinds = ("clear", "clear2", "auth", "auth-tls")
    workloads = ("point-read", "update-only")
    rates = {workload: [] for workload in workloads}
    for number in range(given.processes):
        with start(kinds, f"requests{number}") as servers:
            for workload in workloads:
                runs = directory / f"runs-{number}-{workload}"
                subprocess.run(
                    [BINARY, "bench", "server", *(f"{kind}={server.connection_string}" for kind, server in servers.items()), "--workload", workload,
                     "--records", RECORDS, "--connections", str(given.connections), "--seconds", str(given.seconds), "--warm-up", "1s",
                     "--repetitions", str(given.repetitions), "--runs", str(runs)],
                    check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                )
                told = [json.loads(run.read_text())["repetitions"] for run in sorted(runs.iterdir())]
                medians = [statistics.median(one["total"]["operations"] / one["elapsedSeconds"] for one in run) for run in told]
                rates[workload].append(dict(zip(kinds, medians, strict=True)))
                print(f"{workload}: " + ", ".join(f"{kind} {rate:,.0f}/s" for kind, rate in rates[workload][-1].items()), flush=True)
    for workload, rounds in rates.items():
        print(f"{workload}, {given.connections} connections, closed loop, {given.processes} times new processes, over clear:")
        for kind in kinds[1:]:
            ratios = [one[kind] / one["clear"] for one in rounds]
            low, high = interval_of_median(ratios)
            print(f"  {kind}: {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f}; each {min(ratios):.3f} to {max(ratios):.3f})")


def interval_of_median(values, resamples=10_000):
    """What 95 % of the medians of resamples are within."""
    random = Random(1)
    medians = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(resamples))
    return medians[resamples // 40], medians[-resamples // 40]


def load(address, report, *arguments):
    return [BINARY, "bench", "run", address, "--json", str(report), *DATA, *arguments]


def quietly(command, before=None):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=before)


def only_when_idle():
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def storm(name, address, directory, given):
    quietly(load(address, directory / "loaded.json", "--connections", "8", "--operations", "8"))
    warm_up_seconds = 2
    # Those who are there are measured from when the others come, for less long than TLS takes until all of them are served.
    working = ["--connections", "64", "--rate", "1000", "--warm-up", f"{warm_up_seconds}s", "--seconds", "5"]
    quietly(load(address, directory / "alone.json", *working))
    others = subprocess.Popen(load(address, directory / "beside.json", *working), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(warm_up_seconds)
    quietly(load(address, directory / "storm.json", "--connections", str(given.clients), "--operations", str(given.clients),
                 "--operations-per-connection", "1"), before=only_when_idle if given.apart else None)
    assert others.wait() == 0
    alone, beside, served = (json.loads((directory / f"{run}.json").read_text())["repetitions"][0] for run in ("alone", "beside", "storm"))
    meanwhile, usual = (run["total"]["latency"]["p99Ms"] for run in (beside, alone))
    worst, usually_worst = (max(second["p99Ms"] for second in run["seconds"] if second.get("p99Ms") is not None) for run in (beside, alone))
    ratio = meanwhile / usual
    total = served["total"]
    print(f"{name}: {total['operations']} clients were served in {served['elapsedSeconds']:.2f} s (their p50 {total['latency']['p50Ms']:.0f}, "
          f"p99 {total['latency']['p99Ms']:.0f} ms), {len(total['errors'])} kinds of errors; p99 of the others {meanwhile:.1f} ms meanwhile "
          f"({worst:.1f} in their worst second), {usual:.1f} ms without a storm ({usually_worst:.1f}): {ratio:.1f} times", flush=True)
    return ratio


def held(name, server, directory, given):
    def resident(connections):
        """Bytes of the server while so many have found something and wait."""
        report = directory / "held.json"
        load_of_them = subprocess.Popen(
            load(server.connection_string, report, "--connections", str(connections), "--rate", "1000", "--warm-up", f"{connections // 1000 + 1}s",
                 "--seconds", "5"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        most = 0
        while load_of_them.poll() is None:
            status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
            most = max(most, int(status.split("VmRSS:")[1].split()[0]) << 10)
            time.sleep(0.2)
        assert load_of_them.returncode == 0
        total = json.loads(report.read_text())["repetitions"][0]["total"]
        assert not total["errors"], total["errors"]
        return most, total["latency"]["p99Ms"]

    few = 200
    resident(few)
    before, p99_of_few = resident(few)
    after, p99_of_all = resident(given.held)
    print(f"{name}: {given.held} connections found 1,000 documents a second without an error, p99 {p99_of_all:.1f} ms ({few} of them: "
          f"{p99_of_few:.1f}); {(after - before) / (given.held - few):,.0f} bytes of the server's memory for each", flush=True)


if __name__ == "__main__":
    main()
