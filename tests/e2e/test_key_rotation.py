"""Old keys of encryption are left behind while the server runs: table by table, in their window, through kills."""

import datetime
import pathlib
import random
import signal
import struct
import time

from replica_set import eventually
from server_process import Server
from test_backup import backup, heddle
from test_encryption import encryption, make_key

DOCUMENTS = 16_000
SECONDS = 60
BATCH = 1_000


def keys_of(directory):
    """The keys that the files below a directory have."""
    found = set()
    for path in pathlib.Path(directory).rglob("*"):
        try:
            header = path.read_bytes()[:16] if path.is_file() else b""
        except FileNotFoundError:
            continue
        if header.startswith(b"heddle-E"):
            found.add(struct.unpack("<I", header[12:16])[0])
    return found


def known_keys(data):
    return [line.split()[1] for line in (data / "encryption").read_text().splitlines() if line.startswith("key ")]


def text_of(number):
    return random.Random(number).randbytes(1_000).hex()


def fill(server):
    with server.client() as client:
        for first in range(0, DOCUMENTS, BATCH):
            documents = [{"_id": number, "text": text_of(number)} for number in range(first, first + BATCH)]
            client.shop.things.insert_many(documents)
        client.shop.things.create_index("text")


def assert_all_there(client):
    found = {one["_id"]: one["text"] for one in client.shop.things.find()}
    assert found == {number: text_of(number) for number in range(DOCUMENTS)}


def start(data, key):
    """With small tables: their size is a part of the reserve."""
    return Server(data, *encryption(key), "--diskReserveMB", "16").wait_until_it_answers()


def rotated(tmp_path, **calendar):
    """A directory with data of an old key; the new one."""
    data, old, new = tmp_path / "data", make_key(tmp_path / "old"), make_key(tmp_path / "new")
    server = start(data, old)
    fill(server)
    with server.client() as client:
        client.admin.command("setCalendar", 1, **calendar)
        client.shop.command("compact", "things")
    assert server.stop() == 0
    given = ["--encryptionKeyFile", old, "--newEncryptionKeyFile", new]
    assert "from now on" in heddle("rotate-key", "--dbpath", data, *given).stdout
    assert known_keys(data) == ["1", "2"]
    return data, new


def at_rest(client):
    return client.admin.command("serverStatus")["encryptionAtRest"]


def closed_window():
    """One that opens in half a day."""
    begin = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=12)
    return {"start": begin.strftime("%H:00"), "stop": (begin + datetime.timedelta(hours=1)).strftime("%H:00")}


def test_all_files_get_the_new_key_and_the_old_one_is_forgotten(tmp_path):
    data, new = rotated(tmp_path)
    server = start(data, new)
    with server.client() as client:
        eventually("the old key is forgotten", lambda: known_keys(data) == ["2"], SECONDS)
        assert keys_of(data) == {2}
        eventually("nothing is left to tell", lambda: "oldKeys" not in at_rest(client), SECONDS)
        assert_all_there(client)
    assert server.stop() == 0
    assert heddle("check", "--dbpath", data, "--encryptionKeyFile", new).returncode == 0
    server = start(data, new)
    with server.client() as client:
        assert_all_there(client)
    assert server.stop() == 0


def test_it_waits_for_its_window(tmp_path):
    data, new = rotated(tmp_path, keyRotation=closed_window())
    tables = {path.name for path in (data / "engine").glob("*.sst")}
    server = start(data, new)
    with server.client() as client:
        state = lambda: client.admin.command("serverStatus")["heddle"]["calendar"]["keyRotation"]["state"]
        eventually("it waits", lambda: state() == "waiting", SECONDS)
        time.sleep(3)
        assert known_keys(data) == ["1", "2"]
        assert tables <= {path.name for path in (data / "engine").glob("*.sst")}, "nothing is rewritten meanwhile"
        client.admin.command("setCalendar", 1, keyRotation=None)
        eventually("the old key is forgotten", lambda: known_keys(data) == ["2"], SECONDS)
        assert_all_there(client)
    assert server.stop() == 0


def test_kills_in_between_lose_nothing(tmp_path):
    """Killed at random moments until it comes to its end; a backup taken meanwhile has the keys that it needs."""
    # Slow enough to be met in between.
    data, new = rotated(tmp_path, keyRotation={"bytesPerSecond": 2_000_000})
    chance, met = random.Random(7), 0
    for round in range(5):
        server = start(data, new)
        with server.client() as client:
            client.shop.later.insert_one({"_id": round})
            if round == 1:
                backup(server, tmp_path / "backups")
            time.sleep(chance.uniform(0.2, 1.5))
            met += "oldKeys" in at_rest(client)
            server.process.send_signal(signal.SIGKILL)
        server.process.wait(SECONDS)
        assert known_keys(data) in (["1", "2"], ["2"])
    assert met >= 2, "it was met while tables were rewritten"
    server = start(data, new)
    with server.client() as client:
        client.admin.command("setCalendar", 1, keyRotation=None)
        eventually("the old key is forgotten", lambda: known_keys(data) == ["2"], SECONDS)
        assert keys_of(data) == {2}
        assert_all_there(client)
        assert client.shop.later.count_documents({}) == 5
    assert server.stop() == 0
    assert heddle("check", "--dbpath", data, "--encryptionKeyFile", new).returncode == 0
    restored = tmp_path / "restored"
    heddle("restore", tmp_path / "backups", "--dbpath", restored, "--encryptionKeyFile", new)
    server = start(restored, new)
    with server.client() as client:
        eventually("the old key is forgotten there, too", lambda: known_keys(restored) == ["2"], SECONDS)
        assert_all_there(client)
    assert server.stop() == 0
