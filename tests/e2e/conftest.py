"""Built servers for the end-to-end tests."""

import pytest

from control_group import Group
from replica_set import FAST, ReplicaSet
from server_process import Server


def pytest_addoption(parser):
    parser.addoption("--rounds", type=int, default=50, help="rounds of faults in test_fault_rounds.py")
    parser.addoption("--power-rounds", type=int, default=10, help="power losses in test_power_loss.py")
    parser.addoption("--round-seed", type=int, default=1, help="where their random choices come from")


@pytest.fixture
def start_server(tmp_path):
    """Starts servers that end with the test: `start_server("--flag", …)`."""
    started = []

    def start(*arguments, directory=None, wait=True, port=None, client_options=None):
        directory = directory or tmp_path / f"data{len(started)}"
        server = Server(directory, *arguments, port=port, client_options=client_options)
        started.append(server)
        return server.wait_until_it_answers() if wait else server

    yield start
    for server in started:
        server.process.kill()
        server.process.wait()


@pytest.fixture
def limited(tmp_path):
    """Starts servers in groups with a limit: `limited(bytes, "--flag", …)`."""
    started = []

    def start(limit, *arguments):
        try:
            group = Group(limit)
        except (OSError, TypeError) as error:
            pytest.skip(f"no control group with a limit on memory can be made here: {error!r}")
        running = Server(tmp_path / f"data{len(started)}", *arguments, before=group.enter)
        started.append((running, group))
        return running.wait_until_it_answers(), group

    yield start
    for running, group in started:
        running.process.kill()
        running.process.wait()
        group.remove()


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


@pytest.fixture
def running(tmp_path):
    """A replica set of three."""
    members = ReplicaSet(tmp_path, 3, settings=FAST)
    yield members
    members.kill_all()
