"""Tunables of thread models, pool, lane and admission: what they take, what they refuse, what they change."""

import contextlib
import json
import resource
import selectors
import subprocess
import threading
import time

import pymongo
import pytest
from raw_wire import RawConnection, compressed, message
from server_process import BINARY, free_port

BAD_VALUE, TYPE_MISMATCH, ILLEGAL_OPERATION, OVERLOADED = 2, 14, 20, 462

ADAPTIVE = "adaptiveServiceExecutor"
DEFAULTS = {
    f"{ADAPTIVE}ReservedThreads": -1,
    f"{ADAPTIVE}RunTimeMillis": 5000,
    f"{ADAPTIVE}RunTimeJitterMillis": 500,
    f"{ADAPTIVE}StuckThreadTimeoutMillis": 250,
    f"{ADAPTIVE}MaxQueueLatencyMicros": 500,
    f"{ADAPTIVE}IdlePctThreshold": 60,
    f"{ADAPTIVE}RecursionLimit": 8,
    f"{ADAPTIVE}Queues": 0,
    "servicePoolMinThreads": 1,
    "servicePoolMaxThreads": 0,
    "servicePoolIdleMillis": 30000,
    "overloadProtection": True,
    "overloadTargetMillis": 0,
}


def get(client, name):
    return client.admin.command({"getParameter": 1, name: 1})[name]


def set_parameter(client, name, value):
    return client.admin.command({"setParameter": 1, name: value})["was"]


def refused(client, name, value):
    with pytest.raises(pymongo.errors.OperationFailure) as failure:
        set_parameter(client, name, value)
    return failure.value


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_can_be_read_and_changed(client, name):
    default = DEFAULTS[name]
    assert get(client, name) == default
    other = not default if isinstance(default, bool) else {-1: 2}.get(default, default + 1)
    assert set_parameter(client, name, other) == default
    assert get(client, name) == other
    assert set_parameter(client, name, default) == other


@pytest.mark.parametrize(
    "name, value, code, words",
    [
        ("ReservedThreads", 1_000_000, BAD_VALUE, "4096"),
        ("ReservedThreads", 0, BAD_VALUE, "between 1 and 4096"),
        ("ReservedThreads", -2, BAD_VALUE, "greater than or equal to -1"),
        ("RunTimeMillis", 0, BAD_VALUE, "greater than or equal to 1"),
        ("RunTimeMillis", "long", TYPE_MISMATCH, "expected a whole number"),
        ("RunTimeJitterMillis", 5001, BAD_VALUE, "must not exceed the run time"),
        ("StuckThreadTimeoutMillis", 10**12, BAD_VALUE, "less than or equal to"),
        ("MaxQueueLatencyMicros", 251_000, BAD_VALUE, "must not exceed the stuck thread time-out"),
        ("IdlePctThreshold", 101, BAD_VALUE, "less than or equal to 100"),
        ("RecursionLimit", 0, BAD_VALUE, "greater than or equal to 1"),
        ("Queues", 5000, BAD_VALUE, "less than or equal to 1024"),
    ],
)
def test_absurd_values_of_adaptive(client, name, value, code, words):
    error = refused(client, ADAPTIVE + name, value)
    assert error.code == code and words in str(error)
    assert get(client, ADAPTIVE + name) == DEFAULTS[ADAPTIVE + name], "a refused value changes nothing"


@pytest.mark.parametrize(
    "name, value, code",
    [
        ("serviceExecutor", "threads", BAD_VALUE),
        ("serviceExecutor", "10.1.1.1=reactor", BAD_VALUE),
        ("serviceExecutor", "reactor,adaptive", BAD_VALUE),
        ("serviceExecutor", 3, TYPE_MISMATCH),
        ("servicePoolMaxThreads", 10_000, BAD_VALUE),
        ("servicePoolMinThreads", -1, BAD_VALUE),
        ("overloadTargetMillis", -1, BAD_VALUE),
        ("priorityLane", False, ILLEGAL_OPERATION),
        ("sendTimeoutMillis", 5, ILLEGAL_OPERATION),
        ("serviceEventLoops", 1, ILLEGAL_OPERATION),
    ],
)
def test_other_values_that_cannot_be(client, name, value, code):
    before = get(client, name)
    assert refused(client, name, value).code == code
    assert get(client, name) == before


def test_contradicting_options_end_the_start(tmp_path):
    command = [BINARY, "serve", "--nounixsocket", "--port", "0", "--dbpath", str(tmp_path / "data")]
    for options in (
        ["--setParameter", f"{ADAPTIVE}RunTimeMillis=100"],
        ["--serviceExecutor", "10.1.1.1=reactor"],
        ["--serviceExecutor", "fast"],
    ):
        done = subprocess.run(command + options, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr


def executors_of(client):
    return client.admin.command("serverStatus")["network"]["serviceExecutors"]


def test_the_model_of_one_address(start_server):
    running = start_server("--bind_ip", "127.0.0.1,127.0.0.2", "--serviceExecutor", "127.0.0.1=reactor,synchronous")
    with running.client() as client:
        client.test.c.find_one({})
        assert executors_of(client)["reactor"]["clientsInTotal"] >= 1
        assert set_parameter(client, "serviceExecutor", "127.0.0.1=adaptive") == "127.0.0.1=reactor,synchronous"
    with running.client() as client:
        client.test.c.find_one({})
        assert "adaptive" in executors_of(client)


def test_the_model_changes_under_load(start_server):
    running = start_server("--serviceExecutor", "synchronous")
    stop, failures, done = threading.Event(), [], [0] * 6

    def work(position):
        # A new connection now and then, so that every model gets some.
        try:
            while not stop.is_set():
                with running.client(maxPoolSize=1, retryReads=False, retryWrites=False) as client:
                    for number in range(40):
                        client.test.c.update_one({"_id": position}, {"$inc": {"n": 1}}, upsert=True)
                        done[position] += 1
                        client.test.c.find_one({"_id": position})
        except Exception as error:  # noqa: BLE001 - whatever it is, the test fails with it
            failures.append(error)

    workers = [threading.Thread(target=work, args=(position,)) for position in range(len(done))]
    for worker in workers:
        worker.start()
    with running.client() as client:
        for model in ["adaptive", "reactor", "auto", "synchronous", "reactor", "adaptive"]:
            set_parameter(client, "serviceExecutor", model)
            time.sleep(0.7)
        stop.set()
        for worker in workers:
            worker.join()
        assert not failures
        for position, count in enumerate(done):
            assert client.test.c.find_one({"_id": position})["n"] == count, "every acknowledged update, once"
        known = executors_of(client)
    assert {"passthrough", "adaptive", "reactor"} <= set(known)
    messages = [json.loads(line) for line in running.log.read_text().splitlines()]
    changes = [line for line in messages if "service executor" in line["msg"]]
    assert [line["attr"]["now"] for line in changes][:3] == ["adaptive", "reactor", "coroutine"]


def test_slow_lines_tell_where_the_time_went(start_server):
    running = start_server("--slowms", "0")
    with running.client(appname="slowpoke") as client:
        client.shop.things.insert_one({"_id": 1})
        client.shop.things.with_options(write_concern=pymongo.WriteConcern(j=True)).insert_one({"_id": 2})
    assert running.stop() == 0
    lines = [json.loads(line) for line in running.log.read_text().splitlines()]
    slow = [line["attr"] for line in lines if line["msg"] == "Slow query" and line["attr"]["command"] == "insert"]
    assert [attributes["ns"] for attributes in slow] == ["shop.things", "shop.things"]
    for attributes in slow:
        stages = ["acceptWait", "receive", "queue", "parse", "execute", "commitWait", "send"]
        assert all(isinstance(attributes[f"{stage}Micros"], int) for stage in stages), attributes
        assert attributes["appName"] == "slowpoke" and attributes["errorCode"] == 0
        assert 0 <= attributes["workingMillis"] <= attributes["durationMillis"]
        assert attributes["executeMicros"] > 0 and attributes["commitWaitMicros"] > 0 and attributes["sendMicros"] > 0


def test_histograms_of_the_time_of_requests(client):
    def times():
        return client.admin.command("serverStatus")["network"]["requestTimes"]

    before = times()
    assert list(before) == ["acceptWait", "receive", "queue", "parse", "execute", "commitWait", "send", "total"]
    for number in range(20):
        client.histograms.c.replace_one({"_id": number}, {"_id": number}, upsert=True)
    after = times()
    for stage in ["queue", "parse", "execute", "commitWait", "send", "total"]:
        assert after[stage]["count"] >= before[stage]["count"] + 20, stage
        assert after[stage]["totalMicros"] >= before[stage]["totalMicros"], stage
        assert sum(after[stage]["histogram"].values()) == after[stage]["count"], stage


def test_connections_of_the_priority_port_stay_on_the_lane(start_server):
    port = free_port()
    running = start_server("--priorityPort", str(port), "--serviceExecutor", "adaptive")
    with pymongo.MongoClient(f"mongodb://127.0.0.1:{port}/?directConnection=true") as operator:
        operator.test.c.insert_one({"_id": 1})
        assert operator.test.c.find_one({}) == {"_id": 1}
        assert list(operator.test.c.aggregate([{"$match": {}}])) == [{"_id": 1}]
        status = operator.admin.command("serverStatus")
        assert status["connections"]["adminConnections"]["current"] == status["connections"]["current"]
        with running.client() as client:
            client.test.c.find_one({})
            connections = operator.admin.command("serverStatus")["connections"]
            assert connections["adminConnections"]["current"] < connections["current"], "user connections leave the lane"


def test_operators_are_heard_while_every_worker_is_stuck(start_server):
    running = start_server("--serviceExecutor", "reactor", "--setParameter", "servicePoolMaxThreads=2")
    with running.client() as client:
        client.test.c.insert_many({"_id": number, "a": number % 100} for number in range(20_000))
    stop = threading.Event()

    def push():
        with running.client() as pusher:
            while not stop.is_set():
                pusher.test.c.count_documents({"a": {"$mod": [7, 3]}, "b": None})

    pushers = [threading.Thread(target=push) for _ in range(12)]
    for pusher in pushers:
        pusher.start()
    try:
        with RawConnection(running.port) as operator:
            took = []
            for _ in range(100):
                began = time.monotonic()
                operator.send_msg({"ping": 1, "$db": "admin"})
                assert operator.receive()[3]["ok"] == 1.0
                took.append(time.monotonic() - began)
                time.sleep(0.01)
    finally:
        stop.set()
        for pusher in pushers:
            pusher.join()
    # Bounds for a shared machine: the pushers themselves keep all cores busy.
    assert sorted(took)[50] < 0.1, f"pings took {sorted(took)[50:]}"


def flood(port, polite, seconds):
    """Sixty connections, each with one request at a time that takes a while. The replies."""
    replies = []
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(60):
            raw = stack.enter_context(RawConnection(port))
            raw.send_msg({"hello": 1, "$db": "admin", **({"backpressure": "2"} if polite else {})})
            raw.receive()
            selector.register(raw.socket, selectors.EVENT_READ, raw)
            raw.send_bytes(SLOW_TO_PARSE)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for key, _ in selector.select(1):
                replies.append(key.data.receive()[3])
                key.data.send_bytes(SLOW_TO_PARSE)
    return replies


# Far more work for the server than for this client, however the two share the machine: the server's queue never gets short.
SLOW_TO_PARSE = compressed(
    message({"find": "c", "filter": {"_id": {"$in": [7] * 20_000 + [1]}, "no": 1}, "$db": "test"}),
)


def test_an_overloaded_server_refuses_clients_that_understand(start_server):
    options = ["serviceEventLoops=1", "overloadTargetMillis=1"]
    running = start_server("--serviceExecutor", "reactor", *(f"--setParameter={option}" for option in options))
    with running.client() as client:
        client.test.c.insert_one({"_id": 1})
    replies = flood(running.port, polite=True, seconds=3)
    refusals = [reply for reply in replies if not reply["ok"]]
    assert 0 < len(refusals) < len(replies), f"{len(refusals)} of {len(replies)} were refused"
    # A connection whose request was refused does not get the next one through for that.
    assert len(refusals) > 0.6 * len(replies), f"{len(refusals)} of {len(replies)} were refused"
    for reply in refusals:
        assert (reply["code"], reply["codeName"]) == (OVERLOADED, "IngressRequestRateLimitExceeded")
        assert reply["errorLabels"] == ["SystemOverloadedError", "RetryableError"] and reply["baseBackoffMS"] > 0
    assert all(reply["ok"] for reply in flood(running.port, polite=False, seconds=1)), "who does not understand waits"
    with running.client() as client:
        network = client.admin.command("serverStatus")["network"]
        assert network["requestsRefusedUnderOverload"] >= len(refusals)
        admissions = [network["admission"], network["admission"]["pool"], network["admission"]["longPool"]]
        assert sum(one["refused"]["queueingDelay"] for one in admissions) == network["requestsRefusedUnderOverload"]
        assert admissions[2]["refused"]["queueingDelay"] > 0, "long requests wait for their pool, and that is where they queue"
        set_parameter(client, "overloadProtection", False)
        assert client.admin.command("serverStatus")["network"]["admission"]["state"] == "off"
    assert all(reply["ok"] for reply in flood(running.port, polite=True, seconds=1)), "it is switched off"


@pytest.mark.parametrize("descriptors, connections", [(20_000, 19_000), (1_000, 744)])
def test_the_default_limit_follows_the_descriptors(tmp_path, descriptors, connections):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < descriptors:
        pytest.skip(f"this machine allows only {hard} descriptors")
    port = free_port()
    command = [BINARY, "serve", "--nounixsocket", "--port", str(port), "--dbpath", str(tmp_path / "data")]
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, descriptors), descriptors))  # noqa: E731
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=limit)
    try:
        with pymongo.MongoClient(f"mongodb://127.0.0.1:{port}/?directConnection=true") as client:
            figures = client.admin.command("serverStatus")["connections"]
            assert figures["current"] + figures["available"] == connections
            assert set_parameter(client, "maxIncomingConnections", 50) == 0
            figures = client.admin.command("serverStatus")["connections"]
            assert figures["current"] + figures["available"] == 50
    finally:
        process.terminate()
        assert process.wait(20) == 0
