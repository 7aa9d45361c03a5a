"""hello in all its forms, compressors, the streaming monitor."""

import threading
import time

import pymongo
import pymongo.monitoring
import pytest
from raw_wire import EXHAUST_ALLOWED, MORE_TO_COME, OP_REPLY, RawConnection

HELLO_FIELDS = [
    "isWritablePrimary", "topologyVersion", "maxBsonObjectSize", "maxMessageSizeBytes", "maxWriteBatchSize", "localTime",
    "logicalSessionTimeoutMinutes", "connectionId", "minWireVersion", "maxWireVersion", "readOnly", "ok",
]


@pytest.fixture
def raw(server):
    with RawConnection(server.port) as connection:
        yield connection


def ask(raw, command, **options):
    raw.send_msg({**command, "$db": "admin"}, **options)
    return raw.receive()[3]


def test_hello_answers_as_mongodb_7(client):
    hello = client.admin.command("hello")
    assert list(hello) == HELLO_FIELDS
    assert (hello["minWireVersion"], hello["maxWireVersion"]) == (0, 21)
    assert (hello["maxBsonObjectSize"], hello["maxMessageSizeBytes"], hello["maxWriteBatchSize"]) == (16777216, 48000000, 100000)
    assert client.server_info()["version"].startswith("7.0.")


def test_the_old_name_and_form(raw):
    request = raw.send_query("admin.$cmd", {"isMaster": 1, "helloOk": True})
    opcode, flags, response_to, reply = raw.receive()
    assert (opcode, flags & 8, response_to) == (OP_REPLY, 8, request)
    assert reply["helloOk"] is True and reply["ismaster"] is True and reply["ok"] == 1.0


def test_other_commands_in_the_old_form_are_refused(raw):
    raw.send_query("admin.$cmd", {"ping": 1})
    assert raw.receive()[3]["code"] == 352


def test_client_metadata_is_checked_and_kept(raw, client):
    metadata = {"driver": {"name": "raw", "version": "1"}, "os": {"type": "any"}, "application": {"name": "tester"}}
    assert ask(raw, {"hello": 1, "client": metadata})["ok"] == 1.0
    operations = client.admin.command({"currentOp": 1, "$all": True})["inprog"]
    assert "tester" in [operation.get("appName") for operation in operations]
    again = ask(raw, {"hello": 1, "client": metadata})
    assert (again["code"], again["codeName"]) == (186, "ClientMetadataCannotBeMutated")


def test_incomplete_metadata(raw):
    assert ask(raw, {"hello": 1, "client": {"os": {"type": "any"}}})["codeName"] == "ClientMetadataMissingField"


def test_awaitable_hello_waits(raw):
    version = ask(raw, {"hello": 1})["topologyVersion"]
    began = time.monotonic()
    reply = ask(raw, {"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 300})
    assert reply["topologyVersion"] == version and 0.25 < time.monotonic() - began < 5
    assert ask(raw, {"hello": 1, "topologyVersion": version})["code"] == 31368


def test_streaming_hello(raw):
    version = ask(raw, {"hello": 1})["topologyVersion"]
    command = {"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 50, "$db": "admin"}
    raw.send_msg(command, flags=EXHAUST_ALLOWED)
    for _ in range(4):
        _, flags, _, reply = raw.receive()
        assert flags & MORE_TO_COME and reply["ok"] == 1.0


def test_driver_monitor_streams(server):
    class Heartbeats(pymongo.monitoring.ServerHeartbeatListener):
        def __init__(self):
            self.awaited = threading.Event()

        def started(self, event):
            pass

        def succeeded(self, event):
            if event.awaited:
                self.awaited.set()

        def failed(self, event):
            pass

    heartbeats = Heartbeats()
    options = {"heartbeatFrequencyMS": 500, "event_listeners": [heartbeats], "serverMonitoringMode": "stream"}
    with server.client(**options) as client:
        client.admin.command("ping")
        assert heartbeats.awaited.wait(10), "no heartbeat came over the stream"


@pytest.mark.parametrize("compressor", ["snappy", "zlib", "zstd"])
def test_compressors(server, compressor):
    def network(client):
        return client.admin.command("serverStatus")["network"]["compression"][compressor]

    with server.client(compressors=compressor) as client:
        before = network(client)
        reply = client.admin.command({"ping": 1, "comment": "x" * 10_000})
        assert reply["ok"] == 1.0
        after = network(client)
    assert after["decompressor"]["bytesIn"] > before["decompressor"]["bytesIn"], "the request was not compressed"
    assert after["compressor"]["bytesOut"] > before["compressor"]["bytesOut"], "the reply was not compressed"
    grown = after["decompressor"]["bytesOut"] - before["decompressor"]["bytesOut"]
    assert grown > 10_000, "figures count the uncompressed bytes"


def test_compressors_are_negotiated(raw):
    assert ask(raw, {"hello": 1, "compression": ["lz4", "zlib", "snappy"]})["compression"] == ["zlib", "snappy"]


def test_database_names(raw):
    for name in ("with space", "a.b", "", "x" * 64):
        raw.send_msg({"ping": 1, "$db": name})
        reply = raw.receive()[3]
        assert (reply["code"], reply["codeName"]) == (73, "InvalidNamespace"), name
    raw.send_msg({"ping": 1})
    assert raw.receive()[3]["code"] == 40571


def test_fire_and_forget_gets_no_reply(raw):
    raw.send_msg({"ping": 1, "$db": "admin"}, flags=MORE_TO_COME)
    request = raw.send_msg({"ping": 1, "$db": "admin"})
    assert raw.receive()[2] == request, "only the second request is answered"


@pytest.mark.parametrize(
    "data",
    [b"\x05\0\0\0" + b"\0" * 12, b"\xff\xff\xff\x7f" + b"\0" * 12, b"\x10\0\0\0" + b"\0" * 8 + b"\x63\0\0\0"],
    ids=["too short", "too long", "unknown opcode"],
)
def test_bytes_that_are_no_message_close_the_connection(raw, data):
    raw.send_bytes(data)
    assert raw.is_closed()


def test_a_body_that_is_no_document_gets_an_error(raw):
    raw.send(2013, b"\0\0\0\0" + b"\0" + b"\x0c\0\0\0\x02a\0\xff\0\0\0\0")
    reply = raw.receive()[3]
    assert reply["ok"] == 0.0 and reply["code"] in (22, 17, 2)
