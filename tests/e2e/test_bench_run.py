"""`heddle bench run` beside an independent client: what it says it did is what the server saw."""

import json
import pathlib
import signal
import socket
import statistics
import subprocess
import threading
import time

import pytest
import raw_wire
from server_process import BINARY, ROOT, free_port

# How long any measurement here may take, however busy the machine is.
PATIENCE_SECONDS = 180


def bench(*arguments):
    return subprocess.run(
        [BINARY, "bench", "run", *arguments], capture_output=True, text=True, timeout=PATIENCE_SECONDS, stdin=subprocess.DEVNULL
    )


def measure(server, tmp_path, *arguments):
    """Runs a measurement that must succeed and returns its result."""
    report = tmp_path / "result.json"
    done = bench(f"mongodb://127.0.0.1:{server.port}", "--json", str(report), *arguments)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    return json.loads(report.read_text())


def total(result):
    return sum(repetition["total"]["operations"] for repetition in result["repetitions"])


def of_kind(result, name):
    return sum(kind["operations"] for repetition in result["repetitions"] for kind in repetition["kinds"] if kind["name"] == name)


def errors(result):
    return [error for repetition in result["repetitions"] for error in repetition["total"]["errors"]]


def opcounters(client):
    return client.admin.command("serverStatus")["opcounters"]


@pytest.fixture
def own_server(start_server):
    """A server whose counters nobody else moves."""
    return start_server()


@pytest.mark.parametrize("threads, processes", [(1, 1), (2, 1), (1, 2)])
def test_counts_are_the_servers_own(own_server, tmp_path, threads, processes):
    arguments = ["--workload", "f", "--records", "2000", "--connections", "8"]
    with own_server.client() as client:
        first = measure(own_server, tmp_path, *arguments, "--operations", "10")
        assert first["loadPhase"]["documents"] == 2000
        before = opcounters(client)
        spread = ["--threads", str(threads), "--processes", str(processes)]
        result = measure(own_server, tmp_path, *arguments, *spread, "--operations", "6000", "--load", "skip")
        after = opcounters(client)
    assert errors(result) == [] and total(result) == 6000
    both = of_kind(result, "read-modify-write")
    reads = of_kind(result, "read") + both
    assert after["update"] - before["update"] == both
    # One more: the load phase looks at the size of a document.
    assert after["query"] - before["query"] == reads + 1, "every read and the first half of every read-modify-write"
    assert after["insert"] == before["insert"]


def test_documents_are_those_of_ycsb(own_server, tmp_path):
    result = measure(own_server, tmp_path, "--workload", "d", "--records", "3000", "--operations", "2000", "--connections", "4")
    assert errors(result) == []
    with own_server.client() as client:
        users = client.heddle_bench.usertable
        inserted = of_kind(result, "insert")
        assert inserted > 0 and users.count_documents({}) == 3000 + inserted
        first = users.find_one({"_id": "user6284781860667377211"})
        assert list(first) == ["_id"] + [f"field{number}" for number in range(10)]
        assert all(isinstance(value, str) and len(value) == 100 for name, value in first.items() if name != "_id")


def test_a_load_is_resumed(own_server, tmp_path):
    """Documents that are missing are inserted again, and none of the others is touched."""
    arguments = ["--workload", "point-read", "--records", "5000", "--operations", "100"]
    measure(own_server, tmp_path, *arguments)
    with own_server.client() as client:
        numbered = client.heddle_bench.numbered
        numbered.update_one({"_id": 7}, {"$set": {"mark": 1}})
        numbered.delete_many({"_id": {"$gte": 1200, "$lt": 3700}})
        result = measure(own_server, tmp_path, *arguments)
        assert result["loadPhase"]["documents"] == 2500 and result["loadPhase"]["alreadyThere"] == 2500
        assert errors(result) == []
        assert [document["_id"] for document in numbered.find({}, {"_id": 1}).sort("_id", 1)] == list(range(5000))
        assert numbered.find_one({"_id": 7})["mark"] == 1


def test_latencies_are_those_another_client_sees(own_server, tmp_path):
    """The same finds over one connection, in turns, so that a busy machine is as busy for all. A driver does more for each find
    than we do, so that our median must not be above the driver's. A bare socket in Python does about as much: our median
    cannot be below half of its quickest exchange unless part of the time is not counted."""
    arguments = ["--workload", "point-read", "--records", "2000", "--connections", "1", "--distribution", "uniform"]
    measure(own_server, tmp_path, *arguments, "--operations", "100")
    ours, drivers, bare = [], [], []
    with own_server.client(maxPoolSize=1) as client, socket.create_connection(("127.0.0.1", own_server.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(PATIENCE_SECONDS)
        numbered = client.heddle_bench.numbered
        for turn in range(3):
            result = measure(own_server, tmp_path, *arguments, "--operations", "3000", "--load", "skip", "--seed", str(turn + 1))
            ours.append(result["repetitions"][0]["total"]["latency"]["p50Ms"])
            for number in range(2000):
                drivers.append(timed(lambda: numbered.find_one({"_id": number})))
            for number in range(2000):
                command = {"find": "numbered", "filter": {"_id": number}, "limit": 1, "singleBatch": True, "$db": "heddle_bench"}
                message = raw_wire.message(command)
                bare.append(timed(lambda: exchange(connection, message)))
    ours, drivers, bare = statistics.median(ours), statistics.median(drivers), min(bare)
    assert bare / 2 <= ours <= drivers, f"{ours} ms here, {drivers} ms through the driver, at least {bare} ms over a bare socket"


def timed(request):
    """Milliseconds of a request that must find something."""
    begun = time.perf_counter()
    found = request()
    took = (time.perf_counter() - begun) * 1000
    assert found
    return took


def exchange(connection, message):
    """Sends a message and reads the whole reply."""
    connection.sendall(message)
    reply = connection.recv(65536)
    while len(reply) < int.from_bytes(reply[:4], "little"):
        reply += connection.recv(65536)
    return reply


def test_a_workload_file_and_ttl(own_server, tmp_path):
    example = ROOT / "docs" / "bench-workload.toml"
    result = measure(own_server, tmp_path, "--file", str(example), "--records", "1000", "--operations", "1500")
    assert errors(result) == [], "the documented example runs on a real server"
    measure(own_server, tmp_path, "--workload", "ttl-insert", "--operations", "50", "--ttl", "1h")
    with own_server.client() as client:
        indexes = client.shop.orders.index_information()
        assert indexes["customer_1_placed_-1"]["key"] == [("customer", 1), ("placed", -1)]
        expiring = client.heddle_bench.expiring
        assert expiring.index_information()["expireAt_1"]["expireAfterSeconds"] == 0
        assert expiring.count_documents({}) == 50


def test_an_interrupt_ends_with_results(own_server, tmp_path):
    report = tmp_path / "result.json"
    command = [BINARY, "bench", "run", f"mongodb://127.0.0.1:{own_server.port}", "--workload", "c", "--records", "1000"]
    command += ["--duration", "1h", "--warm-up", "0", "--json", str(report)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watchdog = threading.Timer(PATIENCE_SECONDS, process.kill)
    watchdog.start()
    try:
        # The lines of progress go to standard error; one with a median means that something was measured.
        assert any("p50" in line for line in process.stderr), "progress is told"
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate()
    finally:
        watchdog.cancel()
        process.kill()
    assert process.returncode == 130
    assert "read" in output, "the table is printed"
    result = json.loads(report.read_text())
    assert result["interrupted"] and total(result) > 0


@pytest.mark.parametrize(
    "arguments, expect",
    [
        (["localhost:1"], "mongodb://"),
        (["mongodb+srv://cluster.example"], "mongodb+srv"),
        (["mongodb://me:secret@127.0.0.1/?authMechanism=PLAIN"], "expected SCRAM-SHA-1, SCRAM-SHA-256 or MONGODB-X509"),
        (["mongodb://me:se@cret@127.0.0.1/"], "user and password"),
        (["--workload", "z"], "unknown workload 'z'"),
        (["--connections", "0"], "--connections"),
        (["--rate", "0"], "--rate"),
        (["--duration", "-1"], "--duration"),
        (["--file", str(pathlib.Path(__file__))], "test_bench_run.py:1:"),
    ],
)
def test_wrong_options(arguments, expect):
    done = bench(*arguments)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 2 and len(lines) == 1 and expect in lines[0], f"{done.returncode}: {done.stderr}"
    assert "secret" not in done.stderr


def test_nobody_listens():
    port = free_port()
    done = bench(f"mongodb://127.0.0.1:{port}", "--workload", "c")
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 1 and len(lines) == 1 and str(port) in lines[0], f"{done.returncode}: {done.stderr}"
