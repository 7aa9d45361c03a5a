"""A real `heddle serve` process: started on a free port with a directory of its own, stopped by its process id."""

import os
import pathlib
import random
import signal
import socket
import subprocess
import time

import pymongo

START_SECONDS = 60
STOP_SECONDS = 30
ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("HEDDLE_BINARY", str(ROOT / "target" / "debug" / "heddle"))


# Below those that the system gives to connections (ip_local_port_range): a port there may be some connection's while its server is down.
PORTS = range(12_000, 32_000)
given_ports = set()


def free_port(count=1):
    """The first of so many free ports in a row, none of which was given before."""
    while True:
        first = random.choice(PORTS)
        ports = range(first, first + count)
        if given_ports.isdisjoint(ports) and all(is_free(port) for port in ports):
            given_ports.update(ports)
            return first


def is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Server:
    """One `heddle serve` process. `before` is called in it before it becomes one; clients get `client_options`."""

    def __init__(self, directory, *arguments, port=None, before=None, subcommand=("serve",), client_options=None):
        self.client_options = client_options or {}
        self.port = port or free_port()
        self.directory = pathlib.Path(directory)
        self.log = self.directory.parent / f"{self.directory.name}-{self.port}.log"
        self.command = [
            BINARY, *subcommand, "--dbpath", str(self.directory), "--port", str(self.port), "--nounixsocket", *arguments,
        ]
        if "--diskReserveMB" not in arguments:
            # Directories of ended servers are kept for a while, and there are many of them.
            self.command += ["--diskReserveMB", "0"]
        self.start(before)

    def start(self, before=None):
        """Starts the process, also once more after its end."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=before)

    @property
    def uri(self):
        return f"mongodb://127.0.0.1:{self.port}/?directConnection=true"

    def client(self, **options):
        return pymongo.MongoClient(self.uri, **{"serverSelectionTimeoutMS": 10_000, **self.client_options, **options})

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
