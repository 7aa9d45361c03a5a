"""Windows for what expires, and hidden documents, as pymongo and the command line see them."""

import datetime
import random
import signal
import subprocess
import threading
import time

import pymongo
import pymongo.errors
import pytest

from expiry import QUICK, ago, now
from replica_set import eventually
from server_process import BINARY, Server

SECONDS = 30


def window(begins, ends, **rate):
    """So many hours from now, by the clock of UTC."""
    clock = lambda hours: (now() + datetime.timedelta(hours=hours)).strftime("%H:%M")
    return {"start": clock(begins), "stop": clock(ends), **rate}


OPEN, CLOSED = (-2, 2), (3, 5)


def heddle(client):
    return client.admin.command("serverStatus")["heddle"]


def wait_for_passes(client, count=2):
    passes = lambda: client.admin.command("serverStatus")["metrics"]["ttl"]["passes"]
    before = passes()
    eventually("passes", lambda: passes() >= before + count, SECONDS)


def expired(client, name, count=20, **options):
    collection = client["calendar"][name]
    collection.create_index("at", expireAfterSeconds=60, **options)
    collection.insert_many([{"_id": number, "at": ago(100)} for number in range(count)])
    return collection


def start(tmp_path):
    return Server(tmp_path / "data", *QUICK).wait_until_it_answers()


@pytest.fixture
def server(tmp_path):
    server = start(tmp_path)
    yield server
    if server.process.poll() is None:
        assert server.stop() == 0, server.log.read_text()[-4000:]


def test_what_expires_waits_for_its_window_also_after_a_restart(server, tmp_path):
    with server.client() as client:
        client.admin.command("setCalendar", 1, ttl=window(*CLOSED))
        waits = expired(client, "waits")
        goes = expired(client, "goes", window=window(*OPEN))
        eventually("its own window is open", lambda: goes.estimated_document_count() == 0, SECONDS)
        wait_for_passes(client)
        assert waits.estimated_document_count() == 20
        status = heddle(client)["calendar"]
        assert status["ttl"]["state"] == "waiting" and status["ttl"]["overrides"] == 0
        assert [(index["ns"], index["state"]) for index in status["indexes"]] == [("calendar.goes", "open")]
        assert goes.index_information()["at_1"]["window"]["timezone"] == "UTC"
    assert "Background work waits for its window" in server.log.read_text()
    server.stop(signal.SIGKILL)
    again = start(tmp_path)
    with again.client() as client:
        waits = client["calendar"]["waits"]
        wait_for_passes(client)
        assert waits.estimated_document_count() == 20
        assert client["config"]["settings"].find_one({"_id": "calendar"})["ttl"]["timezone"] == "UTC"
        client.admin.command("setCalendar", 1, ttl=None)
        eventually("there is no calendar", lambda: waits.estimated_document_count() == 0, SECONDS)
    assert again.stop() == 0


def test_what_expires_goes_at_its_rate(server):
    with server.client() as client:
        slow = expired(client, "slow", 10_000, window=window(*OPEN, documentsPerSecond=100))
        eventually("it begins", lambda: slow.estimated_document_count() < 10_000, SECONDS)
        began, before = now(), slow.estimated_document_count()
        eventually("it goes on", lambda: slow.estimated_document_count() <= before - 300, SECONDS)
        seconds = (now() - began).total_seconds()
        assert seconds > 1.9, f"300 documents at 100 a second took {seconds} s"


def test_refusals(server):
    with server.client() as client:
        for refused, code in [({"sort": 1}, 40415), ({"ttl": {"start": "1:00"}}, 2), ({"ttl": {"timezone": "X"}}, 40485)]:
            with pytest.raises(pymongo.errors.OperationFailure) as failure:
                client.admin.command("setCalendar", 1, **refused)
            assert failure.value.code == code, refused
        with pytest.raises(pymongo.errors.OperationFailure) as failure:
            client["calendar"]["c"].create_index("a", window={})
        assert failure.value.code == 67


def test_the_terminal_shows_it(server):
    with server.client() as client:
        client.admin.command("setCalendar", 1, ttl=window(*CLOSED))
        expired(client, "own", window=window(*OPEN, documentsPerSecond=500))
        address = f"mongodb://127.0.0.1:{server.port}"
        drawn = subprocess.run([BINARY, "calendar", "--uri", address], capture_output=True, text=True, timeout=20)
    print(drawn.stdout)
    assert drawn.returncode == 0, drawn.stderr
    lines = drawn.stdout.splitlines()
    assert max(len(line) for line in lines) <= 110
    assert any("ttl calendar.own, index at_1: open until" in line and "500 documents/s" in line for line in lines)
    bars = [line for line in lines if set(line) <= set(" █·")]
    assert [bar.strip()[0] for bar in bars if bar.strip()] == ["·"] + 8 * ["█"]
    for kind in ["compaction", "indexBuilds", "backup", "initialSync", "validate", "out", "keyRotation"]:
        assert f"  {kind}: always, it has no window" in lines


def test_a_backup_waits_for_its_window_unless_it_is_to_be_taken_now(server, tmp_path):
    with server.client() as client:
        client["calendar"]["c"].insert_many([{"text": "x" * 1000} for _ in range(1000)])
        client.admin.command("setCalendar", 1, backup=window(*CLOSED))
        command = [BINARY, "backup", str(tmp_path / "backups"), "--uri", f"mongodb://127.0.0.1:{server.port}"]
        waiting = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        shown = lambda: [op.get("msg") for op in client.admin.command("currentOp")["inprog"] if "heddleBackup" in op.get("command", {})]
        eventually("it waits", lambda: shown() == ["backup: waits for its window in the calendar"], SECONDS)
        assert heddle(client)["calendar"]["backup"]["state"] == "waiting"
        now = subprocess.run([*command, "--now"], capture_output=True, text=True, timeout=60)
        assert now.returncode == 0 and "generation 1:" in now.stdout, now
        client.admin.command("setCalendar", 1, backup=window(*OPEN, bytesPerSecond=1_000_000))
        output, _ = waiting.communicate(timeout=60)
        assert waiting.returncode == 0 and "generation 2:" in output, output


def test_compaction_outside_of_its_window_is_put_off(server):
    with server.client() as client:
        client.admin.command("setCalendar", 1, compaction=window(*CLOSED))
        state = lambda: heddle(client)["calendar"]["compaction"]["state"]
        assert state() == "waiting"
        eventually("it follows", lambda: '"kind":"compaction"' in server.log.read_text(), SECONDS)
        with pytest.raises(pymongo.errors.OperationFailure):
            client.admin.command("setCalendar", 1, compaction=window(*OPEN, documentsPerSecond=1))
        client.admin.command("setCalendar", 1, compaction=None)
        assert state() == "open"


def test_compaction_keeps_to_its_rate(server):
    rate, rounds, documents = 200_000, 6, 2_000
    storage = lambda: client.admin.command("serverStatus")["storage"]
    in_force = lambda: storage()["budget"]["compactionBytesPerSecond"]
    with server.client() as client:
        client.admin.command("setCalendar", 1, compaction={"bytesPerSecond": rate})
        assert heddle(client)["calendar"]["compaction"]["rate"] == {"bytesPerSecond": rate}
        eventually("it follows", lambda: in_force() == rate, SECONDS)
        address = f"mongodb://127.0.0.1:{server.port}"
        drawn = subprocess.run([BINARY, "calendar", "--uri", address], capture_output=True, text=True, timeout=20).stdout
        assert any("compaction: open" in line and f"{rate} bytes/s" in line for line in drawn.splitlines()), drawn
        before, began = storage(), time.monotonic()
        for turn in range(rounds):
            client["calendar"]["things"].insert_many({"_id": number * rounds + turn, "b": random.randbytes(1_000)} for number in range(documents))
            client.admin.command("fsync")
        written = lambda: storage()["compactionBytesWritten"] - before["compactionBytesWritten"]
        assert storage()["flushBytes"] - before["flushBytes"] > rounds * documents * 1_000, "flushes do not wait for it"
        eventually("it compacts", lambda: written() > 0, 60)
        bytes_written = written()
        # Something is handed out ahead.
        most = rate * (time.monotonic() - began) + rate
        assert bytes_written <= most, f"{bytes_written} bytes were written where {most} are the most"
        client.admin.command("setCalendar", 1, compaction=None)
        eventually("it is without a rate", lambda: in_force() == 0 and written() > 2 * documents * 1_000, 60)


def operations(client, command):
    return [operation for operation in client.admin.command("currentOp")["inprog"] if command in operation.get("command", {})]


def test_outputs_and_validate_wait_where_somebody_has_said_so(server):
    with server.client() as client:
        database = client["calendar"]
        database["c"].insert_many([{"_id": number} for number in range(100)])
        database["c"].aggregate([{"$out": "before"}])
        assert database["before"].estimated_document_count() == 100
        client.admin.command("setCalendar", 1, out=window(*CLOSED), validate=window(*CLOSED))
        for stages in ([{"$out": "d"}], [{"$merge": {"into": "d"}}]):
            with pytest.raises(pymongo.errors.ExecutionTimeout):
                database["c"].aggregate(stages, maxTimeMS=300)
        with pytest.raises(pymongo.errors.ExecutionTimeout):
            database.command("validate", "c", maxTimeMS=300)
        assert "d" not in database.list_collection_names()
        results = []

        def run(name, *command, **fields):
            with server.client() as other:
                try:
                    results.append((name, other["calendar"].command(*command, **fields)["ok"]))
                except pymongo.errors.OperationFailure as refused:
                    results.append((name, refused.code))

        threads = {
            "validate": threading.Thread(target=run, args=("validate", "validate", "c")),
            "aggregate": threading.Thread(target=run, args=("aggregate", "aggregate", "c"), kwargs={"pipeline": [{"$out": "d"}], "cursor": {}}),
        }
        for name, kind in [("validate", "validate"), ("aggregate", "out")]:
            threads[name].start()
            shown = lambda: [operation.get("msg") for operation in operations(client, name)]
            eventually("it waits", lambda: shown() == [f"{kind}: waits for its window in the calendar"], SECONDS)
            assert heddle(client)["calendar"][kind]["state"] == "waiting"
        # Reads and writes go on.
        database["c"].insert_one({"_id": 100})
        [waiting] = operations(client, "validate")
        client.admin.command("killOp", op=waiting["opid"])
        threads["validate"].join(SECONDS)
        client.admin.command("setCalendar", 1, out=window(*OPEN))
        threads["aggregate"].join(SECONDS)
        assert results == [("validate", 11601), ("aggregate", 1.0)]
        assert database["d"].estimated_document_count() == 101, "it has begun when its window was open"


def test_a_backup_stands_still_between_its_windows(server, tmp_path):
    with server.client() as client:
        client["calendar"]["c"].insert_many([{"bytes": random.randbytes(10_000)} for _ in range(1_000)])
        client.admin.command("setCalendar", 1, backup=window(*OPEN, bytesPerSecond=1_000_000))
        backups = tmp_path / "backups"
        taking = subprocess.Popen([BINARY, "backup", str(backups), "--uri", server.uri], stdout=subprocess.PIPE, text=True)
        progress = lambda: [(operation.get("msg", ""), operation.get("progress", {}).get("done", 0)) for operation in operations(client, "heddleBackup")]
        eventually("it is under way", lambda: any(done > 0 for _, done in progress()), SECONDS)
        client.admin.command("setCalendar", 1, backup=window(*CLOSED))
        eventually("it stands still", lambda: any("waits for its window" in message for message, _ in progress()), SECONDS)
        [(_, done)] = progress()
        time.sleep(1.5)
        assert [done] == [now for _, now in progress()] and done > 0
        assert heddle(client)["calendar"]["backup"]["state"] == "waiting"
        client.admin.command("setCalendar", 1, backup=None)
        output, _ = taking.communicate(timeout=60)
        assert taking.returncode == 0 and "generation 1:" in output, output
    checked = subprocess.run([BINARY, "check", str(backups)], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0 and "nothing is damaged" in checked.stdout, checked


def test_hidden_is_what_has_expired(server):
    with server.client() as client:
        database = client["calendar"]
        client.admin.command("setCalendar", 1, ttl=window(*CLOSED))
        hidden = database.create_collection("hidden", hideExpired=True)
        hidden.create_index("at", expireAfterSeconds=60)
        hidden.insert_many([{"_id": 1, "at": ago(100)}, {"_id": 2, "at": ago(0)}, {"_id": 3}])
        ids = lambda: [document["_id"] for document in hidden.find(sort=[("_id", 1)])]
        assert ids() == [2, 3]
        assert hidden.find_one(1) is None
        assert hidden.count_documents({}) == hidden.estimated_document_count() == 2
        assert hidden.distinct("_id") == [2, 3]
        assert hidden.delete_many({}).deleted_count == 2
        # What is hidden is in nobody's way.
        hidden.update_one({"_id": 1}, {"$set": {"new": True}}, upsert=True)
        assert hidden.find_one(1) == {"_id": 1, "new": True}
        hidden.insert_one({"_id": 4, "at": ago(100)})
        hidden.insert_one({"_id": 4, "new": True})
        with pytest.raises(pymongo.errors.DuplicateKeyError):
            hidden.insert_one({"_id": 4})
        database.command("collMod", "hidden", hideExpired=False)
        assert ids() == [1, 4]
        assert database.command("validate", "hidden")["valid"]
