"""The real Node driver and the real mongosh against the shared server and a set."""

import os
import pathlib
import subprocess

import pytest

from replica_set import ReplicaSet

HERE = pathlib.Path(__file__).resolve().parent
NODE = HERE / "node"
LIMIT_SECONDS = 300


def run(command, uri, home):
    first = os.environ.get("NODE_PATH_FIRST", "")
    environment = {
        **os.environ,
        "PATH": f"{first}:{os.environ['PATH']}",
        "HEDDLE_URI": uri,
        "HOME": str(home),
    }
    done = subprocess.run(
        command, cwd=NODE, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout[-8000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.mark.parametrize("script", sorted(path.name for path in NODE.glob("*.test.mjs")))
def test_node_driver(server, script):
    run(["node", "--test", "--test-reporter=spec", script], server.uri, server.directory.parent)


@pytest.mark.parametrize("script", sorted(path.name for path in (HERE / "mongosh").glob("*.js")))
def test_mongosh(server, script):
    shell = str(NODE / "node_modules" / ".bin" / "mongosh")
    output = run([shell, "--quiet", "--norc", server.uri, "--file", str(HERE / "mongosh" / script)], server.uri, server.directory.parent)
    assert f"{script.removesuffix('.js').replace('_', ' ')}: ok" in output, output


@pytest.fixture
def replica_set(tmp_path):
    running = ReplicaSet(tmp_path, 3, members=[{"tags": {"place": place}} for place in "abc"])
    yield running
    running.kill_all()


def test_node_driver_with_a_replica_set(replica_set, tmp_path):
    run(["node", "--test", "--test-reporter=spec", "sets/replica_set.test.mjs"], replica_set.uri, tmp_path)


def test_mongosh_with_a_replica_set(replica_set, start_server, tmp_path, monkeypatch):
    script = HERE / "mongosh" / "sets" / "replica_set.js"
    shell = str(NODE / "node_modules" / ".bin" / "mongosh")
    monkeypatch.setenv("HEDDLE_SPARE", f"127.0.0.1:{start_server('--replSet', 'rs').port}")
    output = run([shell, "--quiet", "--norc", replica_set.uri, "--file", str(script)], replica_set.uri, tmp_path)
    assert "replica set: ok" in output, output
