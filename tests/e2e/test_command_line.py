"""The command line as those write it who start `mongod`: no subcommand, flags or a file."""

import subprocess

import pytest
from server_process import BINARY, Server, free_port


def run(*arguments):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=30)


@pytest.fixture
def bare(tmp_path):
    """Starts a server without `serve`."""
    started = []

    def start(*arguments, port=None):
        server = Server(tmp_path / f"data{len(started)}", *arguments, port=port, subcommand=())
        started.append(server)
        return server.wait_until_it_answers()

    yield start
    for server in started:
        server.process.kill()
        server.process.wait()


def test_flags_without_a_subcommand(bare):
    server = bare("--setParameter", "enableTestCommands=1", "-v")
    with server.client() as client:
        options = client.admin.command("getCmdLineOpts")
        assert options["argv"][1:3] == ["--dbpath", str(server.directory)]
        assert options["parsed"]["storage"]["dbPath"] == str(server.directory)
        assert options["parsed"]["net"]["port"] == server.port
    assert server.stop() == 0


@pytest.mark.parametrize("flag", ["-f", "--config"])
def test_a_file_without_a_subcommand(bare, tmp_path, flag):
    file = tmp_path / "mongod.conf"
    file.write_text("net:\n  maxIncomingConnections: 77\n  bindIp: 127.0.0.1\n")
    server = bare(flag, str(file), port=free_port())
    with server.client() as client:
        parsed = client.admin.command("getCmdLineOpts")["parsed"]
        assert parsed["net"]["maxIncomingConnections"] == 77 and parsed["config"] == str(file)
    assert server.stop() == 0


def test_help_and_version():
    described = run("--help")
    assert described.returncode == 0
    for wanted in ("serve", "bench", "parameters", "heddle --dbpath"):
        assert wanted in described.stdout, described.stdout
    assert "--journalCommitInterval" not in described.stdout, "the options are those of serve"
    assert "--dbpath" in run("serve", "--help").stdout
    version = run("--version")
    assert version.returncode == 0 and version.stdout.startswith("heddle ")
    assert run().returncode == 2


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["--port", "1", "serve"], "cannot be used with"),
        (["--nonsense"], "unexpected argument '--nonsense'"),
        (["nonsense"], "unrecognized subcommand 'nonsense'"),
        (["--port", "many"], "port"),
    ],
)
def test_wrong_command_lines_are_refused(arguments, complaint):
    ended = run(*arguments)
    assert ended.returncode == 2 and complaint in ended.stderr, ended.stderr
