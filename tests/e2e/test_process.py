"""The process: starting, refusing to start, ending."""

import json
import signal
import socket
import subprocess
import threading
import time

import pymongo
import pytest
from server_process import BINARY


def refused(*arguments):
    """Starts a server that must refuse. Returns its exit status and its one line of explanation."""
    done = subprocess.run([BINARY, "serve", "--nounixsocket", *arguments], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    lines = done.stderr.strip().splitlines()
    assert done.returncode != 0 and len(lines) == 1, f"{done.returncode}: {done.stderr}"
    assert lines[0].startswith("heddle: ")
    return done.returncode, lines[0]


def test_port_taken(start_server, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, line = refused("--dbpath", str(tmp_path / "other"), "--port", str(port))
    assert status == 48 and "already in use" in line and str(port) in line


def test_directory_locked(start_server):
    running = start_server()
    status, line = refused("--dbpath", str(running.directory), "--port", "0")
    assert status == 100 and "in use" in line and str(running.directory) in line


def test_directory_of_something_else(tmp_path):
    (tmp_path / "letter.txt").write_text("hello")
    status, line = refused("--dbpath", str(tmp_path), "--port", "0")
    assert status == 100 and "not a heddle data directory" in line and "letter.txt" in line


def test_directory_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    status, line = refused("--dbpath", str(tmp_path / "file"), "--port", "0")
    assert status == 100 and "file" in line


def test_directory_of_a_newer_version(start_server):
    ended = start_server()
    assert ended.stop() == 0
    versions = [path for path in ended.directory.iterdir() if path.is_file() and "format" in path.name.lower()]
    assert versions, f"a format version file in {list(ended.directory.iterdir())}"
    text = versions[0].read_text()
    versions[0].write_text(text.replace("1", "99", 1))
    status, line = refused("--dbpath", str(ended.directory), "--port", "0")
    assert status == 100 and "99" in line and "newer" in line


@pytest.mark.parametrize(
    "arguments, expect",
    [
        (["--port", "70000"], "net.port"),
        (["--setParameter", "nonsense=1"], "unknown server parameter 'nonsense'"),
        (["--config", "/nonexistent.yaml"], "/nonexistent.yaml"),
    ],
)
def test_wrong_options(tmp_path, arguments, expect):
    status, line = refused("--dbpath", str(tmp_path / "data"), *arguments)
    assert status == 2 and expect in line


def test_configuration_file(start_server, tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("net:\n  prot: 1\n")
    status, line = refused("--config", str(bad))
    assert status == 2 and "net.prot" in line
    good = tmp_path / "good.yaml"
    good.write_text("setParameter:\n  cursorTimeoutMillis: 1234\nsystemLog:\n  component:\n    network:\n      verbosity: 1\n")
    with start_server("--config", str(good)).client() as client:
        options = client.admin.command("getCmdLineOpts")["parsed"]
        assert options["setParameter"] == {"cursorTimeoutMillis": "1234"}
        assert client.admin.command({"getParameter": 1, "cursorTimeoutMillis": 1})["cursorTimeoutMillis"] == 1234


def test_every_log_line_is_json(start_server):
    running = start_server("-vv")
    with running.client() as client:
        client.admin.command("ping")
    assert running.stop() == 0
    lines = [json.loads(line) for line in running.log.read_text().splitlines()]
    messages = [line["msg"] for line in lines]
    assert "Listening on" in messages and messages[-1] == "Now exiting"
    listening = next(line for line in lines if line["msg"] == "Listening on")
    assert listening["attr"]["port"] == running.port and listening["c"] == "NETWORK" and listening["s"] == "I"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_in_order(start_server, how):
    running = start_server()
    with running.client() as client:
        client.admin.command("ping")
        assert running.stop(how) == 0


def test_shutdown_command(start_server):
    running = start_server()
    with running.client() as client:
        try:
            client.admin.command("shutdown", timeoutSecs=1)
        except pymongo.errors.AutoReconnect:
            pass
    assert running.process.wait(20) == 0


def held_server(start_server):
    """A server with a request that takes half a minute, and the request's outcome."""
    running = start_server("--setParameter", "enableTestCommands=1")
    data = {"failCommands": ["ping"], "blockConnection": True, "blockTimeMS": 30_000, "appName": "held"}
    with running.client() as client:
        client.admin.command({"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": data})
    outcome = []

    def run():
        with running.client(appname="held", retryReads=False) as client:
            try:
                outcome.append(client.admin.command("ping"))
            except pymongo.errors.PyMongoError as error:
                outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    time.sleep(0.5)
    return running, thread, outcome


def test_running_requests_are_waited_for_a_bounded_time(start_server):
    running, thread, outcome = held_server(start_server)
    with running.client() as client:
        client.admin.command({"setParameter": 1, "shutdownTimeoutMillisForSignaledShutdown": 500})
    began = time.monotonic()
    assert running.stop() == 0
    assert 0.4 < time.monotonic() - began < 15
    thread.join(10)
    assert outcome and outcome[0].details["code"] == 11600, "the held request ends with InterruptedAtShutdown"


def test_the_second_signal_ends_it_at_once(start_server):
    running, _, _ = held_server(start_server)
    running.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert running.process.poll() is None, "the held request is waited for"
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(5) == 128 + signal.SIGTERM


def test_connection_limit(start_server):
    running = start_server("--maxConns", "3")
    sockets = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(6)]
    for connection in sockets:
        connection.settimeout(5)
    time.sleep(0.3)
    closed = 0
    for connection in sockets:
        connection.setblocking(False)
        try:
            while connection.recv(4096):
                pass
            closed += 1
        except BlockingIOError:
            pass
        except ConnectionError:
            closed += 1
        connection.close()
    assert closed >= 3, "connections beyond the limit are refused"


def test_unix_socket(start_server, tmp_path):
    directory = tmp_path / "s"
    directory.mkdir()
    running = start_server("--unixSocketPrefix", str(directory))
    # The harness says --nounixsocket; a second server shows the socket.
    assert not list(directory.iterdir())
    assert running.stop() == 0
    command = [part for part in running.command if part != "--nounixsocket"]
    with open(running.log, "ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        path = directory / f"mongodb-{running.port}.sock"
        with pymongo.MongoClient(f"mongodb://{str(path).replace('/', '%2F')}/?directConnection=true") as client:
            assert client.admin.command("ping")["ok"] == 1.0
            assert client.admin.command("whatsmyuri")["you"] == "anonymous unix socket"
        assert oct(path.stat().st_mode & 0o777) == "0o700"
    finally:
        process.terminate()
        assert process.wait(20) == 0
    assert not list(directory.iterdir()), "the socket file is removed"


def test_version_and_help():
    version = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True).stdout
    assert version.startswith("heddle ")
    help_text = subprocess.run([BINARY, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    assert "--dbpath" in help_text and "--setParameter" in help_text
    page = subprocess.run([BINARY, "parameters"], capture_output=True, text=True, check=True).stdout
    assert "cursorTimeoutMillis" in page
