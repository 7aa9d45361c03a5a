"""The audit log: each event has its line, in the order of the events, before what caused it is answered."""

import base64
import datetime
import json
import pathlib
import signal
import subprocess
import time
import uuid

import pytest
from pymongo.errors import ConnectionFailure

from access_server import ROOT, AccessServer, log_in, refused
from server_process import BINARY, free_port

EVERYTHING = {"atype", "ts", "uuid", "local", "remote", "users", "roles", "param", "result"}
ROOT_USER = {"user": "root", "db": "admin"}


class Audited(AccessServer):
    """A server with an audit log."""

    def __init__(self, server, path):
        super().__init__(server)
        self.path = path

    def events(self, *kinds):
        """The events so far, of these kinds."""
        text = self.path.read_text()
        events = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        # Behind them a line may have begun that a driver's other connection causes; what waited for its own has it whole.
        deadline = time.monotonic() + 10
        while text and not text.endswith("\n"):
            assert time.monotonic() < deadline, "the log ends with a whole line"
            text = self.path.read_text()
        return [event for event in events if not kinds or event["atype"] in kinds]

    def since(self, call, *kinds):
        """What `call` has caused: it is in the file when the call returns."""
        before = len(self.events(*kinds))
        call()
        return self.events(*kinds)[before:]

    def params(self, call, *kinds):
        return [(event["atype"], event["param"], event["result"]) for event in self.since(call, *kinds)]


@pytest.fixture
def audited(start_server, tmp_path):
    def start(*arguments, auth=True):
        path = tmp_path / "audit.json"
        flags = ["--auth"] if auth else []
        server = start_server(*flags, "--auditDestination", "file", "--auditFormat", "JSON", "--auditPath", str(path), *arguments)
        running = Audited(server, path)
        return running.make_root() if auth else running

    return start


def test_an_event_tells_who_when_and_from_where(audited):
    running = audited()
    with running.root() as root:
        [event] = running.since(lambda: root.shop.create_collection("items"), "createCollection")
        [message] = running.since(lambda: root.admin.command("logApplicationMessage", 'a\n"b"'), "applicationMessage")
    assert set(event) == EVERYTHING
    assert list(event) == ["atype", "ts", "uuid", "local", "remote", "users", "roles", "param", "result"]
    age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(event["ts"]["$date"])
    assert abs(age.total_seconds()) < 60
    assert event["uuid"]["$type"] == "04" and uuid.UUID(bytes=base64.b64decode(event["uuid"]["$binary"])).version == 4
    assert event["uuid"] == message["uuid"], "a connection keeps its uuid"
    assert event["local"] == {"ip": "127.0.0.1", "port": running.server.port}
    assert event["remote"]["ip"] == "127.0.0.1" and event["remote"]["port"] > 0
    assert event["users"] == [ROOT_USER] and event["roles"] == [{"role": "root", "db": "admin"}]
    assert message["param"] == {"msg": 'a\n"b"'} and message["result"] == 0
    assert running.path.stat().st_mode & 0o777 == 0o600, "for its owner alone"


def test_logins_and_logouts(audited):
    running = audited()
    good = {"user": "root", "db": "admin", "mechanism": "SCRAM-SHA-256"}
    logged_in = running.params(lambda: log_in(running, *ROOT), "authenticate")
    assert ("authenticate", good, 0) in logged_in
    for user, password in (("root", "wrong"), ("nobody", "x")):
        failed = running.params(lambda: refused(lambda: log_in(running, user, password), 18), "authenticate")
        assert ("authenticate", {**good, "user": user}, 18) in failed
    with running.client() as client:
        start = {"mechanism": "PLAIN", "payload": b"secret", "db": "admin"}
        unknown = running.params(lambda: refused(lambda: client.admin.command("saslStart", 1, **start), 334), "authenticate")
    assert unknown == [("authenticate", {"user": "", "db": "admin", "mechanism": "PLAIN"}, 334)]
    with running.root(maxPoolSize=1) as root:
        root.admin.command("ping")
        told = running.params(lambda: root.admin.command("logout"), "logout")
    explicit = {"reason": "Explicit logout from admin", "initialUsers": [ROOT_USER], "updatedUsers": []}
    assert ("logout", explicit, 0) in told
    # One for each connection that logged in and did not log out: the first of `make_root` was nobody's.
    logins = sum(event["result"] == 0 for event in running.events("authenticate"))
    implicit = {**explicit, "reason": "Implicit logout due to client connection closure"}
    deadline = time.monotonic() + 10
    while sum(event["param"] == implicit for event in running.events("logout")) < logins - 1:
        assert time.monotonic() < deadline, "a connection that ends is a logout"
        time.sleep(0.02)


def test_logins_that_are_given_up(audited):
    running = audited()
    attempt = {"user": "root", "db": "admin", "mechanism": "SCRAM-SHA-256"}
    start = {"mechanism": "SCRAM-SHA-256", "payload": b"n,,n=root,r=abcdefghijkl"}
    with running.client(maxPoolSize=1) as client:
        begin = lambda: client.admin.command("saslStart", 1, **start)
        assert running.params(begin, "authenticate") == [], "it has not ended"
        assert running.params(begin, "authenticate") == [("authenticate", attempt, 337)], "another one began"
        other = lambda: refused(lambda: client.admin.command("saslContinue", 1, conversationId=7, payload=b""), 17)
        assert running.params(other, "authenticate") == [("authenticate", attempt, 17)]
        assert running.params(begin, "authenticate") == []
        told = len(running.events("authenticate"))
    deadline = time.monotonic() + 10
    while len(running.events("authenticate")) == told:
        assert time.monotonic() < deadline, "a connection that ends gives its login up"
        time.sleep(0.02)
    [last] = running.events("authenticate")[told:]
    assert (last["param"], last["result"], last["users"]) == (attempt, 337, [])


def test_what_clients_tell_of_themselves(audited):
    running = audited(auth=False)
    with running.client(appname="the app") as client:
        events = running.since(lambda: client.admin.command("ping"), "clientMetadata")
    assert events, "the handshake is told"
    for event in events:
        metadata = event["param"]["clientMetadata"]
        assert metadata["application"] == {"name": "the app"} and metadata["driver"]["name"].startswith("PyMongo")
        assert event["param"]["localEndpoint"] == {"ip": "127.0.0.1", "port": running.server.port}


def test_what_is_refused_is_told_and_what_is_allowed_where_it_is_asked_for(audited):
    running = audited()
    with running.user("reader", [{"role": "read", "db": "shop"}]) as reader:
        call = lambda: refused(lambda: reader.shop.items.insert_one({"_id": 1}))
        [event] = running.since(call, "authCheck")
        assert event["result"] == 13 and event["users"] == [{"user": "reader", "db": "admin"}]
        assert event["param"]["command"] == "insert" and event["param"]["ns"] == "shop.items"
        assert event["param"]["args"]["insert"] == "items" and event["param"]["args"]["$db"] == "shop"
        assert running.since(lambda: list(reader.shop.items.find({"a": 5})), "authCheck") == []
        with running.root() as root:
            root.admin.command("setParameter", 1, auditAuthorizationSuccess=True)
            [event] = running.since(lambda: list(reader.shop.items.find({"a": 5})), "authCheck")
            assert event["result"] == 0 and event["param"]["args"]["filter"] == {"a": 5}
            root.admin.command("setParameter", 1, auditAuthorizationSuccess=False)
        secret = lambda: refused(lambda: reader.shop.command("createUser", "x", pwd="hidden-1", roles=[], customData={"a": "hidden-2"}))
        [event] = running.since(secret, "authCheck")
        assert event["param"]["args"]["pwd"] == "xxx"
    with running.client() as stranger:
        [event] = running.since(lambda: refused(lambda: stranger.shop.items.find_one()), "authCheck")
        assert event["users"] == [] and event["param"]["command"] == "find" and event["result"] == 13
    assert "hidden-" not in running.path.read_text()


def test_collections_views_and_indexes(audited):
    running = audited(auth=False)
    with running.client() as client:
        shop = client.shop
        ddl = ["createDatabase", "createCollection", "createIndex", "dropIndex", "dropCollection", "dropDatabase", "renameCollection"]
        told = lambda call: running.params(call, *ddl)
        assert told(lambda: shop.create_collection("a")) == [
            ("createDatabase", {"ns": "shop"}, 0), ("createCollection", {"ns": "shop.a"}, 0),
        ]
        assert told(lambda: shop.create_collection("a", check_exists=False)) == [], "it is there already"
        pipeline = [{"$match": {"x": 1}}]
        view = {"ns": "shop.v", "viewOn": "shop.a", "pipeline": pipeline}
        assert told(lambda: shop.create_collection("v", viewOn="a", pipeline=pipeline)) == [("createCollection", view, 0)]
        for collection, write in (
            ("b", lambda: shop.b.insert_one({"x": 1})),
            ("c", lambda: shop.c.update_one({"x": 1}, {"$set": {"x": 2}}, upsert=True)),
            ("d", lambda: shop.d.find_one_and_update({"x": 1}, {"$set": {"x": 2}}, upsert=True)),
        ):
            assert told(write) == [("createCollection", {"ns": f"shop.{collection}"}, 0)], collection
            assert told(write) == [], collection
        index = {"ns": "shop.b", "indexName": "x_1", "indexSpec": {"name": "x_1", "key": {"x": 1}}}
        built = [("createIndex", {**index, "indexBuildState": state}, 0) for state in ("IndexBuildStarted", "IndexBuildSucceeded")]
        assert told(lambda: shop.b.create_index("x")) == built
        assert told(lambda: shop.b.create_index("x")) == []
        shop.b.insert_one({"x": 1})
        failing = running.params(lambda: refused(lambda: shop.b.create_index("x", unique=True, name="u"), 11000), "createIndex")
        assert [(param["indexBuildState"], result) for _, param, result in failing] == [("IndexBuildStarted", 0), ("IndexBuildAborted", 276)]
        assert told(lambda: shop.b.drop_index("x_1")) == [("dropIndex", {"ns": "shop.b", "indexName": "x_1"}, 0)]
        assert told(lambda: shop.b.rename("e")) == [("renameCollection", {"old": "shop.b", "new": "shop.e"}, 0)]
        assert told(lambda: shop.e.drop()) == [("dropCollection", {"ns": "shop.e"}, 0)]
        assert told(lambda: shop.e.drop()) == [("dropCollection", {"ns": "shop.e"}, 26)]
        assert told(lambda: shop.v.drop()) == [("dropCollection", view, 0)]
        out = told(lambda: list(shop.c.aggregate([{"$out": "o"}])))
        assert [kind for kind, _, _ in out] == ["createCollection", "renameCollection"] and out[1][1]["new"] == "shop.o"
        dropped = told(lambda: client.drop_database("shop"))
        assert dropped == [("dropCollection", {"ns": f"shop.{name}"}, 0) for name in "acdo"] + [("dropDatabase", {"ns": "shop"}, 0)]


def test_users_and_roles(audited):
    running = audited()
    read, write = {"role": "read", "db": "shop"}, {"role": "readWrite", "db": "shop"}
    rule = [{"resource": {"db": "shop", "collection": "a"}, "actions": ["find"]}]
    user, role = {"user": "u", "db": "shop"}, {"role": "r", "db": "shop"}
    with running.root() as root:
        for call, expect in (
            ({"createUser": "u", "pwd": "hidden-1", "roles": ["read"], "customData": {"a": 1}}, {**user, "customData": {"a": 1}, "roles": [read]}),
            ({"updateUser": "u", "pwd": "hidden-2"}, {**user, "passwordChanged": True}),
            ({"updateUser": "u", "roles": [read]}, {**user, "passwordChanged": False, "roles": [read]}),
            ({"grantRolesToUser": "u", "roles": ["readWrite"]}, {**user, "roles": [write]}),
            ({"revokeRolesFromUser": "u", "roles": ["readWrite"]}, {**user, "roles": [write]}),
            ({"createRole": "r", "privileges": rule, "roles": []}, {**role, "roles": [], "privileges": rule}),
            ({"updateRole": "r", "roles": ["read"]}, {**role, "roles": [read]}),
            ({"grantRolesToRole": "r", "roles": ["readWrite"]}, {**role, "roles": [write]}),
            ({"revokeRolesFromRole": "r", "roles": ["readWrite"]}, {**role, "roles": [write]}),
            ({"grantPrivilegesToRole": "r", "privileges": rule}, {**role, "privileges": rule}),
            ({"revokePrivilegesFromRole": "r", "privileges": rule}, {**role, "privileges": rule}),
            ({"dropRole": "r"}, role),
            ({"dropAllRolesFromDatabase": 1}, {"db": "shop"}),
            ({"dropUser": "u"}, user),
            ({"dropAllUsersFromDatabase": 1}, {"db": "shop"}),
        ):
            kind = next(iter(call))
            [(_, param, result)] = running.params(lambda: root.shop.command(call), kind)
            assert (param, result) == (expect, 0), kind
        failed = running.params(lambda: refused(lambda: root.shop.command("dropUser", "nobody"), 11), "dropUser")
        assert failed == [("dropUser", {"user": "nobody", "db": "shop"}, 11)]
    with running.user("restorer", ["restore"]) as restorer:
        document = {"_id": "shop.x", "user": "x", "db": "shop", "credentials": {"a": "hidden-3"}, "roles": []}
        direct = running.params(lambda: restorer.admin["system.users"].insert_one(document), "directAuthMutation")
    assert direct == [("directAuthMutation", {"ns": "admin.system.users", "operation": "insert"}, 0)]
    text = running.path.read_text()
    assert "hidden-" not in text and ROOT[1] not in text


def test_start_and_end_are_told(audited):
    running = audited(auth=False)
    [start] = running.events("startup")
    assert start["param"]["startupOptions"]["auditLog"]["destination"] == "file"
    assert start["users"] == [] and start["remote"] == {"isSystemUser": True}
    assert running.server.stop() == 0
    assert running.events()[-1]["atype"] == "shutdown"


def test_the_filter_is_a_query(audited):
    running = audited("--auditFilter", "{ atype: { $in: [ 'createCollection', \"dropCollection\" ] }, 'param.ns': /^shop\\.b/ }", auth=False)
    with running.client() as client:
        client.shop.a.insert_one({})
        client.shop.b1.insert_one({})
        client.shop.a.drop()
        client.shop.b1.drop()
    told = [(event["atype"], event["param"]["ns"]) for event in running.events()]
    assert told == [("createCollection", "shop.b1"), ("dropCollection", "shop.b1")]


@pytest.mark.parametrize(
    "arguments, reason",
    [
        (["--auditDestination", "syslog"], "syslog"),
        (["--auditDestination", "file"], "auditLog.path"),
        (["--auditDestination", "file", "--auditPath", "x", "--auditFormat", "BSON"], "BSON"),
        (["--auditDestination", "file", "--auditPath", "x", "--auditFilter", "{ a: "], "auditLog.filter"),
        (["--auditDestination", "file", "--auditPath", "x", "--auditFilter", "{ a: { $no: 1 } }"], "unknown operator: $no"),
        (["--auditPath", "x"], "auditLog.path needs auditLog.destination"),
        (["--auditDestination", "file", "--auditPath", "/nowhere/at/all"], "/nowhere/at/all"),
    ],
)
def test_what_cannot_be_audited_is_refused_at_the_start(tmp_path, arguments, reason):
    command = [BINARY, "serve", "--dbpath", str(tmp_path / "data"), "--port", str(free_port()), "--nounixsocket", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert ended.returncode not in (0, None) and reason in ended.stdout + ended.stderr


def test_rotation_keeps_every_event(audited, tmp_path):
    running = audited(auth=False)
    with running.client() as client:
        client.admin.command("logApplicationMessage", "one")
        client.admin.command("logRotate", "audit")
        client.admin.command("logApplicationMessage", "two")
        [rotated, two] = running.events()
        assert rotated["atype"] == "rotateLog" and two["param"] == {"msg": "two"}
        old = pathlib.Path(rotated["param"]["logRotationStatus"]["rotatedLogPath"])
        assert old.parent == tmp_path and old.name.startswith("audit.json.") and '"one"' in old.read_text()
        running.server.process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + 10
        while len(list(tmp_path.glob("audit.json*"))) < 3:
            assert time.monotonic() < deadline, "SIGUSR1 rotates, too"
            time.sleep(0.02)
        client.admin.command("logApplicationMessage", "three")
    messages = []
    for path in sorted(tmp_path.glob("audit.json.*")) + [running.path]:
        events = map(json.loads, path.read_text().splitlines())
        messages += [event["param"]["msg"] for event in events if event["atype"] == "applicationMessage"]
    assert messages == ["one", "two", "three"]


def test_nothing_happens_untold_on_a_full_disk(start_server, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"this user may not mount a small file system: {mounted.stderr.strip()}")
    try:
        path = small / "audit.json"
        server = start_server("--auditDestination", "file", "--auditPath", str(path))
        answered = 0
        with server.client(retryWrites=False, serverSelectionTimeoutMS=2000) as client:
            with pytest.raises(ConnectionFailure):
                for number in range(100_000):
                    client.admin.command("logApplicationMessage", f"{number} " + "x" * 2000)
                    answered = number + 1
        assert server.process.wait(timeout=30) == -signal.SIGABRT
        assert "The audit log cannot be written" in server.log.read_text()
        lines = path.read_text().splitlines()
        messages = [json.loads(line) for line in lines]
        told = [int(event["param"]["msg"].split()[0]) for event in messages if event["atype"] == "applicationMessage"]
        # The last one may be told and not answered: its line went with one that did not fit.
        assert answered > 100 and told in ([*range(answered)], [*range(answered + 1)]), "what was answered is told, and whole"
        path.unlink()
        server.start()
        server.wait_until_it_answers()
        assert json.loads(path.read_text().splitlines()[0])["atype"] == "startup"
        server.process.kill()
        server.process.wait()
    finally:
        subprocess.run(["umount", str(small)], check=True)
