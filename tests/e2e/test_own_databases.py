"""`admin`, `config` and `local`: the databases that the server keeps for itself."""

import datetime
import os

import pytest
from pymongo.errors import OperationFailure


def names(client):
    return [entry["name"] for entry in client.admin.command("listDatabases")["databases"]]


def refused(client, database, command):
    with pytest.raises(OperationFailure) as failure:
        client[database].command(command)
    return failure.value.code, failure.value.details["errmsg"]


def test_they_are_there_from_the_start(start_server):
    server = start_server()
    with server.client() as client:
        reply = client.admin.command("listDatabases")
        assert [entry["name"] for entry in reply["databases"]] == ["admin", "config", "local"]
        assert all(entry["empty"] is False for entry in reply["databases"])
        assert [entry["sizeOnDisk"] > 0 for entry in reply["databases"]] == [True, False, True], "no session is stored"
        assert client.admin.list_collection_names() == ["system.version"]
        assert client.config.list_collection_names() == ["system.sessions"]
        assert client.local.list_collection_names() == ["startup_log"]
        assert client.admin["system.version"].find_one() == {"_id": "featureCompatibilityVersion", "version": "7.0"}
        sessions = client.config["system.sessions"].index_information()
        assert sessions["lsidTTLIndex"]["key"] == [("lastUse", 1)] and sessions["lsidTTLIndex"]["expireAfterSeconds"] == 1800


def test_every_start_is_noted(start_server, tmp_path):
    directory = tmp_path / "data"
    server = start_server(directory=directory)
    with server.client() as client:
        [first] = client.local.startup_log.find()
        options = client.local.command("listCollections")["cursor"]["firstBatch"][0]["options"]
        assert (options["capped"], options["size"]) == (True, 10 << 20)
    assert first["_id"].startswith(first["hostname"] + "-") and first["pid"] == server.process.pid
    assert abs(datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - first["startTime"]) < datetime.timedelta(minutes=10)
    assert first["startTimeLocal"].startswith(first["startTime"].strftime("%a %b"))
    assert first["cmdLine"]["net"]["port"] == server.port and first["cmdLine"]["storage"]["dbPath"] == os.fspath(directory)
    assert first["buildinfo"]["version"].startswith("7.0.")
    assert server.stop() == 0
    server = start_server(directory=directory)
    with server.client() as client:
        starts = list(client.local.startup_log.find())
        assert starts[0] == first and len(starts) == 2 and starts[1]["pid"] == server.process.pid
        assert client.admin["system.version"].count_documents({}) == 1


def test_what_cannot_be_dropped(start_server):
    with start_server().client() as client:
        assert refused(client, "admin", {"dropDatabase": 1}) == (20, "Dropping the 'admin' database is prohibited.")
        message = "can't drop system collection admin.system.version"
        assert refused(client, "admin", {"drop": "system.version"}) == (20, message)
        assert refused(client, "other", {"dropDatabase": 2}) == (5255100, "Have to pass 1 as db parameter")
        # As on a standalone elsewhere, the other two may go.
        assert client.local.command("dropDatabase")["dropped"] == "local"
        client.config.drop_collection("system.sessions")
        assert names(client) == ["admin"]
