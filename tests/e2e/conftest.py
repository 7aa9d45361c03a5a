"""A built server for the end-to-end tests: started on a free port with a directory of its own, stopped by its process id."""

import os
import pathlib
import signal
import socket
import subprocess
import time

import pymongo
import pytest

START_SECONDS = 60
STOP_SECONDS = 30
ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("HEDDLE_BINARY", str(ROOT / "target" / "debug" / "heddle"))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One `heddle serve` process."""

    def __init__(self, directory, *arguments, port=None):
        self.port = port or free_port()
        self.directory = pathlib.Path(directory)
        self.log = self.directory.parent / f"{self.directory.name}-{self.port}.log"
        self.command = [
            BINARY, "serve", "--dbpath", str(self.directory), "--port", str(self.port), "--nounixsocket", *arguments,
        ]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def uri(self):
        return f"mongodb://127.0.0.1:{self.port}/?directConnection=true"

    def client(self, **options):
        return pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=10_000, **options)

    def wait_until_it_answers(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log.read_text()}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    break
            time.sleep(0.02)
        with self.client() as client:
            client.admin.command("ping")
        return self

    def stop(self, how=signal.SIGTERM):
        """Ends the server and returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server did not stop within {STOP_SECONDS} s:\n{self.log.read_text()[-4000:]}")


@pytest.fixture
def start_server(tmp_path):
    """Starts servers that end with the test: `start_server("--flag", …)`."""
    started = []

    def start(*arguments, directory=None, wait=True, port=None):
        server = Server(directory or tmp_path / f"data{len(started)}", *arguments, port=port)
        started.append(server)
        return server.wait_until_it_answers() if wait else server

    yield start
    for server in started:
        server.process.kill()
        server.process.wait()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The server that most tests share."""
    directory = tmp_path_factory.mktemp("server") / "data"
    running = Server(directory, "--setParameter", "enableTestCommands=1").wait_until_it_answers()
    yield running
    assert running.stop() == 0, f"the shared server must end cleanly:\n{running.log.read_text()[-4000:]}"


@pytest.fixture
def client(server):
    with server.client() as client:
        yield client
