"""The binary's own tools at servers that want logins and TLS: `bench`, `backup`, `calendar`, `cluster`."""

import json
import os
import pty
import signal
import stat
import subprocess
import termios
import urllib.parse

import pymongo
import pytest

from access_server import ROOT
from keyed_set import KeyedSet
from server_process import BINARY, free_port
from test_cluster import start_cluster  # noqa: F401, a fixture
from test_tls import Authority, trusting

PATIENCE_SECONDS = 180
QUICK = ["--workload", "a", "--records", "500", "--connections", "16", "--operations", "400"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def certificates(authority):
    """Of a server, and of a client."""
    return authority.issue("server"), authority.issue("client")


@pytest.fixture
def secured(start_server, authority, certificates):
    """A server that takes nothing but TLS with certificates of both sides, and a login."""
    server, client = certificates
    options = trusting(authority, tlsCertificateKeyFile=str(client))
    started = start_server("--auth", "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", str(server),
                           "--tlsCAFile", str(authority.certificate), client_options=options)
    with started.client() as first:
        first.admin.command("createUser", ROOT[0], pwd=ROOT[1], roles=["root"])
    started.client_options |= {"username": ROOT[0], "password": ROOT[1]}
    return started


def uri(server, authority, certificates, user=ROOT[0], password=ROOT[1], host="127.0.0.1", **options):
    options = {"tls": "true", "tlsCAFile": authority.certificate, "tlsCertificateKeyFile": certificates[1], **options}
    query = urllib.parse.urlencode({name: str(value) for name, value in options.items()})
    return f"mongodb://{user}:{urllib.parse.quote(password, safe='')}@{host}:{server.port}/?{query}"


def heddle(*arguments):
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_SECONDS,
                          stdin=subprocess.DEVNULL)


def succeeds(*arguments):
    done = heddle(*arguments)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done


def fails(message, *arguments):
    done = heddle(*arguments)
    said = done.stdout + done.stderr
    assert done.returncode != 0 and message in said and ROOT[1] not in said, said
    return said


@pytest.mark.parametrize("options", [{}, {"authMechanism": "SCRAM-SHA-1"}, {"authMechanism": "SCRAM-SHA-256", "authSource": "admin"}],
                         ids=["what is offered", "SHA-1", "SHA-256"])
def test_a_load_logs_in_by_tls(secured, authority, certificates, tmp_path, options):
    report = tmp_path / "result.json"
    # Long documents come in many records.
    succeeds("bench", "run", uri(secured, authority, certificates, **options), "--json", report, *QUICK, "--document-bytes", "50000")
    result = json.loads(report.read_text())
    total = result["repetitions"][0]["total"]
    assert total["operations"] == 400 and total["errors"] == [], total
    assert result["repetitions"][0]["connections"]["opened"] == 16
    assert "root@127.0.0.1" in result["target"]["connectionString"]
    assert urllib.parse.quote(ROOT[1], safe="") not in report.read_text() and ROOT[1] not in report.read_text()
    with secured.client() as client:
        assert client.admin.command("serverStatus")["transportSecurity"]["refusedInClear"] == 0


def test_processes_and_short_connections_of_a_load_log_in(secured, authority, certificates, tmp_path):
    report = tmp_path / "result.json"
    succeeds("bench", "run", uri(secured, authority, certificates), "--json", report, "--workload", "c", "--records", "100",
             "--connections", "8", "--operations", "200", "--operations-per-connection", "5", "--processes", "2",
             "--compressors", "zstd")
    total = json.loads(report.read_text())["repetitions"][0]["total"]
    assert total["operations"] == 200 and total["errors"] == [], total


def test_loads_that_are_not_let_in_say_why(secured, authority, certificates, tmp_path):
    address = lambda **options: uri(secured, authority, certificates, **options)
    fails("login failed: Authentication failed.", "bench", "run", address(password="wrong"), *QUICK)
    stranger = Authority(tmp_path, "strangers")
    fails("invalid peer certificate: UnknownIssuer", "bench", "run", address(tlsCAFile=stranger.certificate), *QUICK)
    fails("cannot use /nowhere", "bench", "run", address(tlsCAFile="/nowhere"), *QUICK)
    fails("go with tls=true", "bench", "run", address(tls="false"), *QUICK)
    fails("expected SCRAM-SHA-1, SCRAM-SHA-256 or MONGODB-X509", "bench", "run", address(authMechanism="PLAIN"), *QUICK)


def test_certificates_need_not_be_right_where_that_is_said(start_server, authority, certificates, tmp_path):
    stranger = Authority(tmp_path, "strangers")
    server = start_server("--tlsMode", "requireTLS", "--tlsCertificateKeyFile", str(certificates[0]), "--bind_ip", "127.0.0.1,127.0.0.2",
                          client_options=trusting(authority))
    at = lambda host, **options: f"mongodb://{host}:{server.port}/?tls=true&" + urllib.parse.urlencode(options)
    succeeds("calendar", "--uri", at("127.0.0.1", tlsAllowInvalidCertificates="true"))
    succeeds("calendar", "--uri", at("127.0.0.2", tlsCAFile=authority.certificate, tlsAllowInvalidHostnames="true"))
    fails("certificate", "calendar", "--uri", at("127.0.0.2", tlsCAFile=authority.certificate))
    fails("certificate", "calendar", "--uri", at("127.0.0.2", tlsCAFile=stranger.certificate, tlsAllowInvalidHostnames="true"))
    fails("tlsCAFile is needed", "calendar", "--uri", at("127.0.0.1"))


def test_servers_are_compared_with_and_without(secured, start_server, authority, certificates):
    plain = start_server()
    compared = succeeds("bench", "server", f"plain=mongodb://127.0.0.1:{plain.port}", f"secured={uri(secured, authority, certificates)}",
                        "--repetitions", "1", *QUICK)
    assert "plain" in compared.stdout and "secured" in compared.stdout, compared.stdout


@pytest.mark.parametrize("experiment", [("raw", "--kinds", "find,update"), ("article", "s1", "--kinds", "ycsb-a")], ids=["raw", "article"])
def test_experiments_log_in_at_servers_that_run_already(secured, authority, certificates, experiment):
    quick = ["--scale", "0.01", "--connections", "4", "--rounds", "1", "--seconds", "0.3", "--warm-up", "0.1"]
    target = lambda **options: f"secured={uri(secured, authority, certificates, **options)}"
    done = succeeds("bench", *experiment, *quick, "--target", target())
    assert "secured" in done.stdout and ROOT[1] not in done.stdout + done.stderr, done.stdout
    with secured.client() as client:
        assert client.heddle_bench.list_collection_names(), "it has loaded its documents"
        assert client.admin.command("serverStatus")["transportSecurity"]["refusedInClear"] == 0
    fails("Authentication failed", "bench", *experiment, *quick, "--target", target(password="wrong"))
    fails("cannot use /nowhere", "bench", *experiment, *quick, "--target", target(tlsCAFile="/nowhere"))


def test_a_backup_logs_in(secured, authority, certificates, tmp_path):
    with secured.client() as client:
        client.shop.things.insert_many([{"_id": number} for number in range(100)])
        client.admin.command("createUser", "keeper", pwd="k", roles=["backup"])
        client.admin.command("createUser", "reader", pwd="r", roles=["read"])
    kept = tmp_path / "backups"
    address = lambda **options: uri(secured, authority, certificates, **options)
    done = succeeds("backup", kept, "--uri", address(user="keeper", password="k"))
    assert "generation" in done.stdout
    fails("not authorized on admin to execute command", "backup", kept, "--uri", address(user="reader", password="r"))
    fails("Authentication failed", "backup", kept, "--uri", address(password="wrong"))
    fails("requires authentication", "backup", kept, "--uri", address().replace("root:" + urllib.parse.quote(ROOT[1], safe="") + "@", ""))
    succeeds("restore", kept, "--dbpath", tmp_path / "restored")


def test_the_calendar_is_drawn_for_who_may_see_it(secured, authority, certificates):
    assert "48 hours" in succeeds("calendar", "--uri", uri(secured, authority, certificates)).stdout
    fails("Authentication failed", "calendar", "--uri", uri(secured, authority, certificates, password="wrong"))


def test_a_load_on_a_set_logs_in_at_its_members(tmp_path):
    running = KeyedSet(tmp_path, 3)
    try:
        login = f"{ROOT[0]}:{urllib.parse.quote(ROOT[1], safe='')}"
        report = tmp_path / "result.json"
        succeeds("bench", "run", f"mongodb://{login}@{running.hosts[0]}/?replicaSet=rs&readPreference=secondary&authSource=admin",
                 "--json", report, *QUICK)
        total = json.loads(report.read_text())["repetitions"][0]["total"]
        assert total["operations"] == 400 and total["errors"] == [], total
    finally:
        running.kill_all()


def test_a_cluster_with_logins(start_cluster, tmp_path):  # noqa: F811
    port = free_port(3)
    arguments = ["--auth", "--members", "3", "--port", str(port), "--dbpath", str(tmp_path / "kept")]
    cluster = start_cluster(*arguments)
    cluster.wait_for("PRIMARY")
    cluster.wait_for("SECONDARY", 2)
    key = tmp_path / "kept" / "keyFile"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and str(key) in cluster.output.read_text()
    text = key.read_text()
    assert text.strip() not in cluster.output.read_text()
    primary = next(line.split()[0] for line in cluster.lines() if "PRIMARY" in line)
    with pymongo.MongoClient(f"mongodb://{primary}/?directConnection=true") as client:
        with pytest.raises(pymongo.errors.OperationFailure):
            client.tried.things.find_one()
        client.admin.command("createUser", "me", pwd="mine", roles=["root"], writeConcern={"w": 3, "wtimeout": 30_000})
    login = {"username": "me", "password": "mine", "serverSelectionTimeoutMS": 20_000}
    with pymongo.MongoClient(cluster.uri(), **login) as client:
        client.tried.things.insert_one({"_id": 1})
    cluster.process.send_signal(signal.SIGINT)
    assert cluster.process.wait(60) == 0
    again = start_cluster(*arguments)
    again.wait_for("PRIMARY")
    with pymongo.MongoClient(again.uri(), **login) as client:
        assert client.tried.things.find_one() == {"_id": 1}
    assert key.read_text() == text, "the key stays"


def test_a_cluster_with_a_key_of_ones_own(start_cluster, tmp_path):  # noqa: F811
    key = tmp_path / "mine.key"
    key.write_text("bXkgb3duIGtleQ==")
    key.chmod(0o644)
    cluster = start_cluster("--keyFile", str(key), "--members", "1", "--port", str(free_port()))
    assert cluster.process.wait(60) == 1
    assert f"permissions on {key} are too open" in cluster.output.read_text()
    key.chmod(0o400)
    cluster = start_cluster("--keyFile", str(key), "--members", "1", "--port", str(free_port()))
    cluster.wait_for("PRIMARY")
    with pymongo.MongoClient(cluster.uri(), username="__system", password="bXkgb3duIGtleQ==", authSource="local",
                             serverSelectionTimeoutMS=20_000) as client:
        assert client.admin.command("replSetGetStatus")["ok"] == 1


def is_shown(terminal):
    """Whether a terminal shows what is typed."""
    return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)


def at_a_terminal(typed, *arguments):
    """What the program shows at a terminal of its own where this is typed, and its exit status."""
    child, terminal = pty.fork()
    if child == 0:
        # Tests that run in the background of a script have it ignored.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execv(BINARY, [BINARY, *map(str, arguments)])
    shown, shown_meanwhile = b"", None
    try:
        while not shown.endswith(b": "):
            shown += os.read(terminal, 4096)
        shown_meanwhile = is_shown(terminal)
        os.write(terminal, typed.encode())
        while piece := os.read(terminal, 4096):
            shown += piece
    except OSError:
        # So a terminal ends whose other side is closed.
        pass
    finally:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        shown_again = is_shown(terminal)
        os.close(terminal)
    assert shown_meanwhile is False and shown_again, f"hidden before the question is asked, and as it was afterwards: {shown}"
    return shown.decode(), status


def test_a_password_that_is_left_out_is_asked_for(start_server):
    server = start_server("--auth")
    with server.client() as first:
        first.admin.command("createUser", ROOT[0], pwd=ROOT[1], roles=["root"])
    calendar = ["calendar", "--uri", f"mongodb://{ROOT[0]}@127.0.0.1:{server.port}"]
    shown, status = at_a_terminal(f"{ROOT[1]}\n", *calendar)
    assert status == 0 and shown.startswith(f"Password of {ROOT[0]}: ") and ROOT[1] not in shown and "ttl" in shown.lower(), shown
    shown, status = at_a_terminal("wrong\n", *calendar)
    assert status != 0 and "Authentication failed" in shown, shown
    shown, status = at_a_terminal("half of it\x03", *calendar)
    assert status == -signal.SIGINT and "half" not in shown, shown
    without = subprocess.run([BINARY, *calendar], capture_output=True, text=True, stdin=subprocess.DEVNULL, start_new_session=True,
                             timeout=PATIENCE_SECONDS)
    assert without.returncode != 0 and "cannot be asked for" in without.stderr, without
