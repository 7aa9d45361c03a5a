"""What logins and TLS cost: python measure_security.py [requests] [storm] [--connections 1000] [--clients 5000] [--repetitions 5]

`requests`: three servers, in clear, with `--auth`, and with `--auth` and TLS, are loaded with finds and updates of one field in turns;
the tables tell each one's rates and latencies as ratios to the first one's.

`storm`: so many clients come back at once, each of which logs in by SCRAM-SHA-256 over TLS and finds one document, while others, who are
there already, find 1,000 documents a second. What is told: how long it takes until all were served, and the p99 of the others meanwhile
and without a storm, by two servers in turns: in clear, and with logins and TLS. With `--apart` servers have the first half of the
processors and clients the others, where those who come back run only while those who are there do not (SCHED_IDLE): as if they were on
other machines.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
import urllib.parse

import server_process
from access_server import ROOT
from server_process import BINARY, Server
from test_tls import Authority, trusting

RECORDS = "20000"
DATA = ["--records", RECORDS, "--workload", "point-read"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["requests", "storm"])
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--clients", type=int, default=5_000)
    parser.add_argument("--seconds", type=int, default=3, help="of one round of requests")
    parser.add_argument("--repetitions", type=int, default=5)
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
        certificate = authority.issue("server")
        tls = ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", str(certificate)]
        servers = {}
        try:
            for name, arguments, options in (
                ("clear", [], {}), ("auth", ["--auth"], {}), ("auth-tls", ["--auth", *tls], trusting(authority)),
            ):
                server_process.BINARY = given.server
                server = Server(
                    directory / name, "--quiet", *arguments, client_options=options, before=lambda: os.sched_setaffinity(0, of_servers),
                )
                servers[name] = (server, uri(server, authority, "--auth" in arguments, bool(options)))
                server.wait_until_it_answers()
                if "--auth" in arguments:
                    with server.client() as client:
                        client.admin.command("createUser", ROOT[0], pwd=ROOT[1], roles=["root"])
            if "requests" in given.what:
                requests(servers, given)
            if "storm" in given.what:
                names = ("clear", "auth-tls")
                ratios = [[storm(name, servers[name][1], directory, given) for name in names] for _ in range(given.repetitions)]
                for name, of_server in zip(names, zip(*ratios)):
                    print(f"{name}: p99 of the others beside a storm over that without, median {statistics.median(of_server):.1f} times", flush=True)
        finally:
            for server, _ in servers.values():
                server.stop()


def uri(server, authority, logs_in, speaks_tls):
    user = f"{ROOT[0]}:{urllib.parse.quote(ROOT[1], safe='')}@" if logs_in else ""
    tls = f"tls=true&tlsCAFile={urllib.parse.quote(str(authority.certificate), safe='')}" if speaks_tls else ""
    return f"mongodb://{user}127.0.0.1:{server.port}/?{tls}"


def requests(servers, given):
    targets = [f"{name}={address}" for name, (_, address) in servers.items()]
    for workload in ("point-read", "update-only"):
        print(f"\n{workload}, {given.connections} connections, closed loop", flush=True)
        subprocess.run(
            [BINARY, "bench", "server", *targets, "--workload", workload, "--records", RECORDS, "--connections", str(given.connections),
             "--seconds", str(given.seconds), "--warm-up", "1s", "--repetitions", str(given.repetitions)],
            check=True, stderr=subprocess.DEVNULL,
        )


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


if __name__ == "__main__":
    main()
