"""Commands that drivers, shells and monitors call beside reading and writing."""

import threading
import time
import uuid

import bson
import pytest
from pymongo.errors import AutoReconnect, ExecutionTimeout, OperationFailure


def fails(client, command, code, message=None, database="admin"):
    with pytest.raises(OperationFailure) as failure:
        client[database].command(command)
    assert failure.value.code == code, failure.value
    if message is not None:
        assert failure.value.details["errmsg"] == message


def test_unknown_commands_and_fields(client):
    fails(client, {"nonsense": 1}, 59, "no such command: 'nonsense'")
    fails(client, {"ping": 1, "foo": 1}, 40415, "BSON field 'ping.foo' is an unknown field.")
    fails(client, {"shutdown": 1}, 13, "shutdown may only be run against the admin database.", database="test")


def test_api_versions(server):
    from pymongo.server_api import ServerApi

    with server.client(server_api=ServerApi("1", strict=True)) as client:
        assert client.admin.command("ping")["ok"] == 1.0
        fails(client, {"buildInfo": 1}, 323)
    with server.client() as client:
        fails(client, {"ping": 1, "apiVersion": "2"}, 322)
        fails(client, {"ping": 1, "apiStrict": True}, 322)


def test_transactions_need_a_replica_set(client):
    fails(client, {"ping": 1, "txnNumber": bson.Int64(1), "lsid": {"id": bson.Binary.from_uuid(uuid.uuid4())}}, 20)


def test_parameters(client):
    one = client.admin.command({"getParameter": 1, "cursorTimeoutMillis": 1})
    assert one["cursorTimeoutMillis"] == 600_000
    assert client.admin.command("getParameter", "*")["featureCompatibilityVersion"] == {"version": "7.0"}
    assert client.admin.command({"setParameter": 1, "journalCommitInterval": 50})["was"] == 100
    details = client.admin.command({"getParameter": {"showDetails": True}, "journalCommitInterval": 1})
    assert details["journalCommitInterval"] == {"value": 50, "settableAtRuntime": True, "settableAtStartup": True}
    client.admin.command({"setParameter": 1, "journalCommitInterval": 100})
    fails(client, {"setParameter": 1, "journalCommitInterval": 0}, 2)
    fails(client, {"setParameter": 1, "enableTestCommands": False}, 20)
    fails(client, {"setParameter": 1, "nonsense": 1}, 72)
    fails(client, {"getParameter": 1, "nonsense": 1}, 72)


def test_log_verbosity_changes_while_the_server_runs(client, server):
    def debug_lines():
        return sum('"s":"D1","c":"NETWORK"' in line for line in client.admin.command("getLog", "global")["log"])

    client.admin.command({"setParameter": 1, "logComponentVerbosity": {"network": {"verbosity": 1}}})
    try:
        with server.client() as other:
            other.admin.command("ping")
        assert debug_lines() > 0
    finally:
        client.admin.command({"setParameter": 1, "logComponentVerbosity": {"network": {"verbosity": -1}}})
    before = debug_lines()
    with server.client() as other:
        other.admin.command("ping")
    assert debug_lines() <= before
    fails(client, {"setParameter": 1, "logComponentVerbosity": {"kitchen": {"verbosity": 1}}}, 2)


def test_log_lines(client):
    import json

    log = client.admin.command("getLog", "startupWarnings")
    line = json.loads(log["log"][0])
    assert {"t", "s", "c", "id", "ctx", "msg"} <= set(line) and line["s"] == "W"
    assert client.admin.command("getLog", "*")["names"] == ["global", "startupWarnings"]
    fails(client, {"getLog": "nonsense"}, 96)


def test_sessions(client):
    started = client.admin.command("startSession")
    assert started["timeoutMinutes"] == 30
    session = {"id": started["id"]["id"]}
    for command in ("refreshSessions", "killSessions", "endSessions"):
        assert client.admin.command({command: [session]})["ok"] == 1.0
    fails(client, {"endSessions": 1}, 14)
    place = "KillAllSessionsByPatternCmd.killAllSessionsByPattern"
    for patterns, field in (([{}, 5], "1"), ([{"lsid": 5}], "lsid")):
        message = f"BSON field '{place}.{field}' is the wrong type 'int', expected type 'object'"
        fails(client, {"killAllSessionsByPattern": patterns}, 14, message)
    assert client.admin.command("killAllSessionsByPattern", [{"lsid": session}, {"lsid": None}])["ok"] == 1.0
    with client.start_session() as session:
        assert client.admin.command("ping", session=session)["ok"] == 1.0


def test_max_time_and_kill_op(server, client):
    """A command that is held up shows in currentOp and can be ended."""
    block = {"failCommands": ["ping"], "blockConnection": True, "blockTimeMS": 20_000, "appName": "held"}
    client.admin.command({"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": block})
    try:
        with server.client(appname="held") as held:
            with pytest.raises(ExecutionTimeout):
                held.admin.command("ping", maxTimeMS=100)
            errors = []

            def run():
                try:
                    held.admin.command("ping")
                except OperationFailure as error:
                    errors.append(error.code)

            thread = threading.Thread(target=run)
            thread.start()
            operation = wait_for_operation(client, "held")
            client.admin.command({"killOp": 1, "op": operation["opid"]})
            thread.join(10)
            assert errors == [11601]
    finally:
        client.admin.command({"configureFailPoint": "failCommand", "mode": "off"})


def wait_for_operation(client, application):
    for _ in range(200):
        found = client.admin.command({"currentOp": 1, "appName": application, "command.ping": {"$exists": True}})["inprog"]
        if found:
            return found[0]
        time.sleep(0.02)
    raise AssertionError("the operation never showed in currentOp")


def test_fail_point(server):
    with server.client(appname="failing") as client:
        def fail(mode, **data):
            data = {"failCommands": ["ping"], "appName": "failing", **data}
            return client.admin.command({"configureFailPoint": "failCommand", "mode": mode, "data": data})

        fail({"times": 1}, errorCode=8000, errorLabels=["Labelled"])
        with pytest.raises(OperationFailure) as failure:
            client.admin.command("ping")
        assert failure.value.code == 8000 and failure.value.has_error_label("Labelled")
        assert client.admin.command("ping")["ok"] == 1.0, "only once"
        fail({"times": 1}, closeConnection=True)
        with pytest.raises(AutoReconnect):
            client.admin.command("ping")
        error = {"code": 64, "errmsg": "slow", "codeName": "WriteConcernFailed"}
        fail({"times": 1}, writeConcernError=error, failCommands=["ping", "insert"])
        assert "writeConcernError" not in client.admin.command("ping"), "no command with a write concern"
        insert = {"insert": "fail_point", "documents": [{}]}
        assert client.housekeeping.command(insert)["writeConcernError"]["code"] == 64
        assert "writeConcernError" not in client.housekeeping.command(insert), "only once"


def test_fail_points_are_off_unless_asked_for(start_server):
    with start_server().client() as client:
        fails(client, {"configureFailPoint": "failCommand", "mode": "off"}, 59)


MONGOSTAT = ["asserts", "connections", "extra_info", "globalLock", "mem", "metrics", "network", "opcounters", "storageEngine"]


def test_mongostat_sequence(client):
    """serverStatus twice a second: figures grow."""
    first = client.admin.command({"serverStatus": 1, "recordStats": 0})
    client.admin.command("ping")
    second = client.admin.command({"serverStatus": 1, "recordStats": 0})
    assert set(MONGOSTAT) <= set(second)
    assert (second["process"], second["version"][:4]) == ("mongod", "7.0.")
    assert second["opcounters"]["command"] >= first["opcounters"]["command"] + 2
    assert second["network"]["numRequests"] > first["network"]["numRequests"]
    assert second["mem"]["resident"] > 0 and second["uptimeMillis"] >= first["uptimeMillis"]
    assert second["metrics"]["commands"]["ping"]["total"] > first["metrics"]["commands"]["ping"]["total"]


def test_sections_are_chosen(client):
    status = client.admin.command({"serverStatus": 1, "metrics": 0, "rocksdb": 0})
    assert "metrics" not in status and "rocksdb" not in status and "network" in status
    status = client.admin.command({"serverStatus": 1, "none": 1, "network": 1})
    assert "network" in status and "opcounters" not in status and "uptime" in status


def test_exporter_sequence(client):
    """What the usual exporter asks a standalone."""
    assert client.admin.command({"buildInfo": 1})["versionArray"] == [7, 0, 28, 0]
    assert client.admin.command("getDiagnosticData")["data"]["serverStatus"]["ok"] == 1.0
    assert client.admin.command("getParameter", "*")["ok"] == 1.0
    assert client.admin.command("top")["totals"]["note"] == "all times in microseconds"
    assert client.admin.command("hostInfo")["system"]["numCores"] >= 1
    assert client.admin.command("getCmdLineOpts")["parsed"]["setParameter"]["enableTestCommands"] == "1"
    fails(client, {"replSetGetStatus": 1}, 76, "not running with --replSet")
    fails(client, {"replSetGetConfig": 1}, 76)
    fails(client, {"atlasVersion": 1}, 59)


def test_shell_sequence(client):
    """What a shell asks when it connects."""
    assert client.admin.command({"hello": 1, "helloOk": True})["isWritablePrimary"]
    assert client.admin.command("connectionStatus", showPrivileges=True)["authInfo"]["authenticatedUsers"] == []
    assert client.admin.command("whatsmyuri")["you"].startswith("127.0.0.1:")
    assert "ping" in client.admin.command("listCommands")["commands"]
    assert client.admin.command({"usersInfo": 1})["users"] == []
    fails(client, {"getFreeMonitoringStatus": 1}, 59)


def test_fsync(client):
    assert client.admin.command("fsync")["ok"] == 1.0
    fails(client, {"fsync": 1, "lock": True}, 115)


def test_write_concerns_of_a_standalone(client):
    for concern, code in [({"w": 2}, 2), ({"w": "east"}, 2), ({"w": 51}, 9), ({"x": 1}, 40415)]:
        fails(client, {"create": "never", "writeConcern": concern}, code, database="test")
