"""Fail points as drivers' suites set them: on the handshake, on streams, at time limits, around a getMore."""

import contextlib
import itertools
import threading
import time

import pymongo
import pymongo.monitoring
import pytest
from bson import Int64
from pymongo.errors import AutoReconnect, ExecutionTimeout, OperationFailure
from raw_wire import EXHAUST_ALLOWED, MORE_TO_COME, RawConnection

_numbers = itertools.count()


@contextlib.contextmanager
def fail_point(client, name, mode="alwaysOn", **data):
    """Set while the block runs; gives how often it had been entered before."""
    yield client.admin.command({"configureFailPoint": name, "mode": mode, "data": data})["count"]
    client.admin.command({"configureFailPoint": name, "mode": "off"})


@pytest.fixture(autouse=True)
def all_off(client):
    yield
    for name in client.admin.command({"getParameter": "*"}):
        if name.startswith("failpoint."):
            client.admin.command({"configureFailPoint": name.removeprefix("failpoint."), "mode": "off"})


@pytest.fixture
def collection(client):
    """Ten documents, and a name that nobody else uses."""
    collection = client.fail_points[f"c{next(_numbers)}"]
    collection.insert_many([{"_id": number} for number in range(10)])
    yield collection
    collection.drop()


def refusal(database, command):
    with pytest.raises(OperationFailure) as failure:
        database.command(command)
    return failure.value.code, failure.value.details["errmsg"]


def ask(raw, command, database="admin", **options):
    raw.send_msg({**command, "$db": database}, **options)
    return raw.receive()[3]


def metadata(name):
    return {"driver": {"name": "raw", "version": "1"}, "os": {"type": "any"}, "application": {"name": name}}


def test_configuring(client):
    assert refusal(client.admin, {"configureFailPoint": "noSuch", "mode": "off"}) == (266, "noSuch not found")
    assert refusal(client.admin, {"configureFailPoint": "failCommand"})[0] == 20
    assert refusal(client.admin, {"configureFailPoint": "failCommand", "mode": "now"}) == (2, "unknown mode: now")
    wrong = {"configureFailPoint": "failCommand", "mode": "off", "data": 1}
    assert refusal(client.admin, wrong) == (14, "the 'data' option must be a JSON object")
    data = {"failCommands": ["ping"], "errorCode": 91, "appName": "nobody"}
    with fail_point(client, "failCommand", {"times": 3}, **data):
        shown = client.admin.command({"getParameter": 1, "failpoint.failCommand": 1})["failpoint.failCommand"]
        assert (shown["mode"], shown["data"]) == (3, data)
    # A standalone has no transactional writes: it is known and never entered.
    with fail_point(client, "onPrimaryTransactionalWrite", failBeforeCommitExceptionCode=1) as count:
        client.fail_points.c.insert_one({})
    with fail_point(client, "onPrimaryTransactionalWrite") as again:
        assert again == count == 0


def test_the_first_hello_brings_the_name(client, server):
    data = {"failCommands": ["hello", "isMaster"], "errorCode": 91, "appName": "unlucky"}
    with fail_point(client, "failCommand", **data):
        for command in ("hello", "isMaster", "ismaster"):
            with RawConnection(server.port) as raw:
                assert ask(raw, {command: 1, "client": metadata("unlucky")})["code"] == 91
        with RawConnection(server.port) as raw:
            assert ask(raw, {"hello": 1, "client": metadata("lucky")})["ok"] == 1.0
            assert ask(raw, {"ping": 1})["ok"] == 1.0


@pytest.mark.parametrize("leaves_the_lane", [False, True])
def test_close_connection_ends_a_stream(client, server, leaves_the_lane):
    with RawConnection(server.port) as raw:
        version = ask(raw, {"hello": 1, "client": metadata("streams")})["topologyVersion"]
        if leaves_the_lane:
            ask(raw, {"find": "c"}, database="fail_points")
        hello = {"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 50, "$db": "admin"}
        raw.send_msg(hello, flags=EXHAUST_ALLOWED)
        assert raw.receive()[1] & MORE_TO_COME
        with fail_point(client, "failCommand", failCommands=["hello"], closeConnection=True, appName="streams"):
            with pytest.raises((EOFError, ConnectionError)):
                for _ in range(100):
                    assert raw.receive()[1] & MORE_TO_COME, "an answer that ends the stream"


def test_a_monitor_notices_and_recovers(client, server):
    class Heartbeats(pymongo.monitoring.ServerHeartbeatListener):
        def __init__(self):
            self.failed_with, self.streams = None, threading.Event()
            self.failure, self.recovery = threading.Event(), threading.Event()

        def started(self, event):
            pass

        def succeeded(self, event):
            if event.awaited:
                (self.recovery if self.failed_with else self.streams).set()

        def failed(self, event):
            self.failed_with = event.reply
            self.failure.set()

    heartbeats = Heartbeats()
    options = {"heartbeatFrequencyMS": 500, "event_listeners": [heartbeats], "serverMonitoringMode": "stream"}
    with server.client(appname="watched", **options) as watched:
        watched.admin.command("ping")
        assert heartbeats.streams.wait(20)
        # As often as a monitor that tries again at once asks before it gives up.
        data = {"failCommands": ["hello", "isMaster"], "closeConnection": True, "appName": "watched"}
        with fail_point(client, "failCommand", {"times": 4}, **data):
            assert heartbeats.failure.wait(20), "the monitor still waits for a stream that has ended"
            assert isinstance(heartbeats.failed_with, AutoReconnect)
            assert heartbeats.recovery.wait(20), "the monitor does not stream again"


def test_close_connection_goes_before_error_code(client, server):
    data = {"failCommands": ["ping"], "closeConnection": True, "errorCode": 91, "appName": "closes"}
    with fail_point(client, "failCommand", {"times": 1}, **data), RawConnection(server.port) as raw:
        ask(raw, {"hello": 1, "client": metadata("closes")})
        raw.send_msg({"ping": 1, "$db": "admin"})
        assert raw.is_closed()


def test_who_is_meant(client, server, collection):
    database = collection.database
    own = client.admin.command({"currentOp": 1, "$ownOps": True, "command.currentOp": 1})["inprog"][0]["desc"]
    # What no driver retries.
    base = {"failCommands": ["count", "ping"], "errorCode": 4}
    for data, meant in (
        ({}, True),
        ({"namespace": collection.full_name}, True),
        ({"namespace": "fail_points.other"}, False),
        ({"failCommands": []}, False),
        ({"failInternalCommands": True}, True),
        ({"threadName": "conn0"}, False),
        ({"somethingNew": 1}, True),
    ):
        with fail_point(client, "failCommand", **{**base, **data}):
            if meant:
                assert refusal(database, {"count": collection.name}) == (
                    4, "Failing command via 'failCommand' failpoint",
                )
            else:
                assert database.command({"count": collection.name})["n"] == 10
    assert own.startswith("conn")
    with RawConnection(server.port) as raw:
        connection = ask(raw, {"hello": 1})["connectionId"]
        with fail_point(client, "failCommand", **base, threadName=f"conn{connection}"):
            assert ask(raw, {"ping": 1})["code"] == 4
            assert client.admin.command("ping")["ok"] == 1.0


def test_labels_come_with_errors(client, collection):
    error = {"code": 91, "errmsg": "shutting down", "codeName": "ShutdownInProgress"}
    insert = {"insert": collection.name, "documents": [{"_id": 100}]}
    with fail_point(client, "failCommand", failCommands=["insert"], writeConcernError=error, errorLabels=["Labelled"]):
        reply = collection.database.command(insert)
        assert (reply["n"], reply["writeConcernError"], reply["errorLabels"]) == (1, error, ["Labelled"])
    # Also beside the command's own error.
    with fail_point(client, "failCommand", failCommands=["create"], writeConcernError=error):
        with pytest.raises(OperationFailure) as failure:
            collection.database.command({"create": collection.name, "capped": True, "size": 4096})
        assert (failure.value.code, failure.value.details["writeConcernError"]) == (48, error)
    extra = {"failCommands": ["find"], "errorCode": 11000, "errorExtraInfo": {"keyPattern": {"a": 1}, "keyValue": {"a": 2}}}
    with fail_point(client, "failCommand", **extra), pytest.raises(OperationFailure) as failure:
        collection.find_one()
    assert failure.value.details["keyValue"] == {"a": 2}


def test_time_limits(client, collection):
    for number in range(10, 300):
        collection.insert_one({"_id": number})
    begun = collection.find(max_time_ms=60_000).batch_size(50)
    next(begun)
    piped = collection.aggregate([], maxTimeMS=60_000, batchSize=50)
    with fail_point(client, "maxTimeAlwaysTimeOut"):
        for limited in (
            lambda: collection.find_one({}, max_time_ms=60_000),
            lambda: collection.find_one({"_id": 1}, max_time_ms=60_000),
            lambda: list(collection.aggregate([], maxTimeMS=60_000)),
            lambda: collection.count_documents({}, maxTimeMS=60_000),
            lambda: collection.distinct("_id", maxTimeMS=60_000),
            lambda: collection.database.command("create", "unwanted", maxTimeMS=60_000),
            lambda: client.admin.command("ping", maxTimeMS=60_000),
            lambda: list(begun),
            lambda: list(piped),
        ):
            with pytest.raises(ExecutionTimeout) as failure:
                limited()
            assert failure.value.code == 50
        assert collection.find_one({"_id": 1}) == {"_id": 1}, "no limit, no end"
    with pytest.raises(OperationFailure) as failure:
        collection.database.command({"getMore": Int64(begun.cursor_id or 1), "collection": collection.name})
    assert failure.value.code == 43, "the cursor went with its time"
    with fail_point(client, "failCommand", failCommands=["find"], blockConnection=True, blockTimeMS=300):
        with pytest.raises(ExecutionTimeout):
            collection.find_one(max_time_ms=50)
        with fail_point(client, "maxTimeNeverTimeOut"):
            assert collection.find_one(max_time_ms=50)


def test_all_batches_share_one_time_limit(client, collection):
    """What a find was granted, its getMores use up."""
    database, wait = collection.database, "waitWithPinnedCursorDuringGetMoreBatch"
    with client.start_session() as session:
        first = database.command({"find": collection.name, "batchSize": 1, "maxTimeMS": 900}, session=session)["cursor"]
        more = {"getMore": Int64(first["id"]), "collection": collection.name, "batchSize": 1}
        for _ in range(9):
            with fail_point(client, wait, nss=collection.full_name, shouldContinueOnInterrupt=True):
                ended = threading.Timer(0.3, client.admin.command, [{"configureFailPoint": wait, "mode": "off"}])
                ended.start()
                try:
                    database.command(more, session=session)
                except ExecutionTimeout:
                    break
                finally:
                    ended.join()
        else:
            raise AssertionError("nine batches of 300 ms each within a limit of 900 ms")


def test_fail_get_more(client, collection):
    cursor = collection.find().batch_size(2)
    next(cursor)
    with fail_point(client, "failGetMoreAfterCursorCheckout", {"times": 1}, errorCode=4, closeConnection=False):
        with pytest.raises(OperationFailure) as failure:
            list(cursor)
    assert failure.value.code == 4 and "failGetMoreAfterCursorCheckout" in str(failure.value)
    cursor = collection.find().batch_size(2)
    next(cursor)
    with fail_point(client, "failGetMoreAfterCursorCheckout", appName="nobody"):
        assert len(list(cursor)) == 9
    with fail_point(client, "failGetMoreAfterCursorCheckout"), pytest.raises(OperationFailure) as failure:
        list(collection.find().batch_size(2))
    assert failure.value.code == 1


def wait_for_operation(client, name):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = client.admin.command({"currentOp": 1, "failpointMsg": name})["inprog"]
        if found:
            return found[0]
        time.sleep(0.02)
    raise AssertionError(f"no operation waits at {name}")


def in_background(run):
    outcome = []

    def kept():
        try:
            outcome.append(run())
        except OperationFailure as error:
            outcome.append(error.code)

    thread = threading.Thread(target=kept, daemon=True)
    thread.start()
    return thread, outcome


WAITS = [
    "waitInFindBeforeMakingBatch", "waitAfterPinningCursorBeforeGetMoreBatch", "waitWithPinnedCursorDuringGetMoreBatch",
    "waitBeforeUnpinningOrDeletingCursorAfterGetMoreBatch",
]


@pytest.mark.parametrize("name", WAITS)
def test_an_operation_waits_until_it_is_off(client, collection, name):
    with fail_point(client, name, nss=collection.full_name) as before:
        thread, outcome = in_background(lambda: len(list(collection.find().batch_size(6))))
        client.admin.command({"waitForFailPoint": name, "timesEntered": before + 1, "maxTimeMS": 20_000})
        assert wait_for_operation(client, name)["ns"] == collection.full_name
        # Elsewhere nobody waits.
        assert len(list(client.fail_points.elsewhere.find().batch_size(1))) == 0
        assert not outcome, "it does not wait"
    thread.join(20)
    assert outcome == [10]


@pytest.mark.parametrize("option, expect", [("shouldCheckForInterrupt", 11601), ("shouldContinueOnInterrupt", 11601)])
def test_a_kill_reaches_what_waits(client, collection, option, expect):
    name = "waitWithPinnedCursorDuringGetMoreBatch"
    with fail_point(client, name, nss=collection.full_name, **{option: True}):
        thread, outcome = in_background(lambda: len(list(collection.find().batch_size(6))))
        client.admin.command({"killOp": 1, "op": wait_for_operation(client, name)["opid"]})
        thread.join(20)
        assert outcome == [expect]


def test_kill_cursors_reaches_what_waits(client, collection):
    name = "waitWithPinnedCursorDuringGetMoreBatch"
    cursor = collection.find().batch_size(6)
    next(cursor)
    with fail_point(client, name, nss=collection.full_name, shouldContinueOnInterrupt=True):
        thread, outcome = in_background(lambda: len(list(cursor)))
        wait_for_operation(client, name)
        killed = collection.database.command({"killCursors": collection.name, "cursors": [Int64(cursor.cursor_id)]})
        assert killed["cursorsKilled"] == [cursor.cursor_id]
        thread.join(20)
        assert outcome == [237]


def test_a_finished_command_waits_with_its_reply(client, collection):
    name = "waitAfterCommandFinishesExecution"
    with fail_point(client, name, ns=collection.full_name, commands=["insert"]):
        thread, outcome = in_background(lambda: collection.insert_one({"_id": 77}).acknowledged)
        wait_for_operation(client, name)
        assert collection.find_one({"_id": 77}), "it is done, and only its reply waits"
        assert not outcome
    thread.join(20)
    assert outcome == [True]


def test_hello_waits(client, server):
    with fail_point(client, "waitInHello") as before, RawConnection(server.port) as raw:
        raw.send_msg({"hello": 1, "$db": "admin"})
        client.admin.command({"waitForFailPoint": "waitInHello", "timesEntered": before + 1, "maxTimeMS": 20_000})
        client.admin.command({"configureFailPoint": "waitInHello", "mode": "off"})
        assert raw.receive()[3]["ok"] == 1.0


def test_awaiting_can_be_switched_off(client):
    database = client.fail_points
    database.drop_collection("log")
    database.create_collection("log", capped=True, size=4096)
    database.log.insert_one({})
    with fail_point(client, "disableAwaitDataForGetMoreCmd"):
        cursor = database.command({"find": "log", "tailable": True, "awaitData": True})["cursor"]
        began = time.monotonic()
        more = {"getMore": Int64(cursor["id"]), "collection": "log", "maxTimeMS": 30_000}
        assert database.command(more)["cursor"]["nextBatch"] == []
        assert time.monotonic() - began < 15


def test_waiting_for_a_fail_point(client):
    wait = {"waitForFailPoint": "failCommand", "timesEntered": 1 << 30, "maxTimeMS": 100}
    assert refusal(client.admin, wait)[0] == 50
    assert refusal(client.admin, {**wait, "waitForFailPoint": "noSuch"}) == (266, "noSuch not found")
    assert refusal(client.admin, {"waitForFailPoint": "failCommand", "timesEntered": 1})[0] == 40414
    assert client.admin.command({**wait, "timesEntered": 0})["ok"] == 1.0
