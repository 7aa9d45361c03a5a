"""`--keyFile`: members of a set that know each other, and users of a set."""

import subprocess
import time

import pymongo
import pytest
from pymongo.errors import OperationFailure

from access_server import ROOT, AccessServer, log_in, refused
from keyed_set import KEY, KeyedSet
from replica_set import Load, ReplicaSet, eventually
from server_process import BINARY, free_port

# Nothing is found because somebody has looked again.
RARELY = ("--setParameter", "clientCursorMonitorFrequencySecs=86400")
OTHER_KEY = "YW5vdGhlciBrZXkgdGhhbiB0aGUgb3RoZXJz"


@pytest.fixture
def keyed(tmp_path):
    started = []

    def start(*arguments, **options):
        (tmp_path / f"set{len(started)}").mkdir()
        started.append(KeyedSet(tmp_path / f"set{len(started)}", 3, *arguments, **options))
        return started[-1]

    yield start
    for one in started:
        one.kill_all()


def test_users_of_a_set_log_in_everywhere_and_lose_what_they_lose(keyed):
    running = keyed(*RARELY)
    secondary = running.secondaries()[0]
    with running.client() as root, running.as_user(secondary) as nobody:
        assert nobody.admin.command("hello")["secondary"], "drivers look at members before they log in"
        for command in ({"find": "things"}, {"replSetGetStatus": 1}, {"replSetHeartbeat": "rs"}):
            refused(lambda: nobody.admin.command(command), message="requires authentication")
        # Known to the secondary as somebody who does not exist.
        refused(lambda: log_in_at(running, secondary, "me", "mine"), 18)
        everywhere = {"writeConcern": {"w": 3, "wtimeout": 60_000}}
        root.admin.command("createUser", "me", pwd="mine", roles=["readAnyDatabase"], **everywhere)
        root.shop.things.with_options(write_concern=pymongo.WriteConcern(w=3)).insert_one({"_id": 1})
        for member in running.members:
            eventually("a login", lambda: log_in_at(running, member, "me", "mine"))
        with running.as_user(secondary, "me", "mine", readPreference="secondaryPreferred") as me:
            assert me.shop.things.find_one() == {"_id": 1}
            root.admin.command("revokeRolesFromUser", "me", roles=["readAnyDatabase"], **everywhere)
            eventually("a refusal", lambda: is_refused(lambda: me.shop.things.find_one()), 10)
            root.admin.command("grantRolesToUser", "me", roles=["readAnyDatabase"], **everywhere)
            eventually("a permission", lambda: me.shop.things.find_one(), 10)
            root.admin.command("dropUser", "me", **everywhere)
            eventually("a refusal", lambda: is_refused(lambda: me.shop.things.find_one()), 10)


def log_in_at(running, member, user, password):
    with running.as_user(member, user, password) as client:
        return client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]


def is_refused(call):
    try:
        call()
    except OperationFailure as failure:
        assert failure.code == 13, failure.details
        return True
    return False


def test_a_set_goes_over_to_access_control_member_by_member(keyed):
    running = keyed(key="", make_root=False)
    load = Load(running.client(w="majority", serverSelectionTimeoutMS=60_000))
    try:
        for member in list(running.members):
            running.write_key(member.directory, KEY)
            running.own[member.directory] = ["--transitionToAuth"]
            assert member.stop() == 0
            running.restart(member)
            running.wait_until_healthy()
            load.wait_for_each()
    finally:
        load.stop()
    load.check()
    primary = running.primary()
    running.make_root(3)
    assert log_in_at(running, primary, *ROOT)
    with running.as_user(primary) as nobody:
        assert nobody.admin.command("replSetGetStatus")["ok"] == 1, "nobody has to log in yet"
        assert nobody.admin.command("serverStatus")["security"]["authentication"]["mechanisms"]["SCRAM-SHA-256"]["authenticate"]["successful"] > 1
    load = Load(running.client(w="majority", serverSelectionTimeoutMS=60_000), database="later")
    try:
        for member in list(running.members):
            running.own[member.directory] = []
            assert member.stop() == 0
            running.restart(member)
            running.wait_until_healthy()
            load.wait_for_each()
    finally:
        load.stop()
    load.check()
    for member in running.members:
        with running.as_user(member) as nobody:
            refused(lambda: nobody.admin.command("replSetGetStatus"), message="requires authentication")
    running.assert_members_are_equal()


def test_clients_that_are_logged_in_go_on_with_the_next_primary(keyed):
    running = keyed()
    load = Load(running.client(w="majority", retryWrites=True, serverSelectionTimeoutMS=60_000))
    try:
        load.wait_for_each()
        killed = running.primary()
        running.kill(killed)
        running.primary(other_than=killed)
        load.wait_for_each()
        running.restart(killed)
        running.wait_until_healthy()
    finally:
        load.stop()
    load.check()
    running.assert_members_are_equal()


@pytest.mark.parametrize("key", [OTHER_KEY, ""], ids=["another key", "no key"])
def test_a_member_without_the_key_stays_out_and_nothing_is_lost(keyed, key):
    running = keyed()
    primary, stranger, third = running.primary(), *running.secondaries()
    load = Load(running.client(w="majority", serverSelectionTimeoutMS=60_000))
    try:
        load.wait_for_each()
        running.kill(stranger)
        running.write_key(stranger.directory, key)
        started = running._start(stranger.directory, stranger.port)
        running.members[running.members.index(stranger)] = started
        running._introduce(started)
        # Not believed by either of the others, and it believes neither.
        for member in (primary, third):
            running.told(member, "Another member of the set is refused")
        running.told(started, "Another member of the set is refused")
        running.told(primary, f"127.0.0.1:{started.port} failed: Authentication failed.")
        load.wait_for_each()
        host = f"127.0.0.1:{started.port}"
        health = lambda: next(one["health"] for one in running.status(primary)["members"] if one["name"] == host)
        eventually("a member that is away", lambda: health() == 0)
        status = running.status(primary)
        # Alone it has no majority, and what it says to the others counts for nothing.
        time.sleep(3)
        assert running.primary() is primary and running.status(primary)["term"] == status["term"]
        assert member_lines(primary, "Another member of the set is refused") <= 2, "once a minute"
        running.kill(started)
        running.write_key(started.directory, KEY)
        running.restart(started)
        running.wait_until_healthy()
        load.wait_for_each()
    finally:
        load.stop()
    load.check()
    running.assert_members_are_equal()


def member_lines(member, text):
    return sum(text in line for line in member.log.read_text().splitlines())


def test_no_set_begins_with_a_member_of_another_key(tmp_path):
    running = ReplicaSet(tmp_path, 0, initiate=False)
    try:
        keys = [tmp_path / "a.key", tmp_path / "b.key"]
        for key, text in zip(keys, (KEY, OTHER_KEY)):
            key.write_text(text)
            key.chmod(0o400)
        for number, key in enumerate(keys):
            running.arguments = ("--keyFile", str(key))
            member = running._start(tmp_path / f"member{number}", free_port())
            running.members.append(member.wait_until_it_answers())
        hosts = [{"_id": number, "host": host} for number, host in enumerate(running.hosts)]
        with running.direct(running.members[0]) as client:
            with pytest.raises(OperationFailure) as failure:
                client.admin.command("replSetInitiate", {"_id": "rs", "members": hosts})
        assert "failed: Authentication failed." in failure.value.details["errmsg"], failure.value.details
    finally:
        running.kill_all()


def test_keys_change_member_by_member(keyed):
    running = keyed()
    new = "dGhlIG5leHQga2V5IG9mIHRoZSBzZXQ="
    load = Load(running.client(w="majority", serverSelectionTimeoutMS=60_000))
    try:
        for text in (f"- {KEY.strip()}\n- {new}\n", f"- {new}\n- {KEY.strip()}\n", new):
            for member in list(running.members):
                assert member.stop() == 0
                running.write_key(member.directory, text)
                running.restart(member)
                running.wait_until_healthy()
            load.wait_for_each()
    finally:
        load.stop()
    load.check()
    with running.as_user(running.primary(), "__system", KEY.strip(), authSource="local") as client:
        refused(lambda: client.admin.command("ping"), 18)


def test_who_has_the_key_may_do_everything_and_nobody_else_is_a_member(keyed, start_server):
    running = keyed()
    primary = running.primary()
    with running.as_user(primary, "__system", KEY.strip(), authSource="local") as system:
        told = system.admin.command("connectionStatus")["authInfo"]
        assert told["authenticatedUsers"] == [{"user": "__system", "db": "local"}]
        assert told["authenticatedUserRoles"] == [{"role": "__system", "db": "admin"}]
        system.shop.things.insert_one({"_id": 1})
        assert system.admin.command("replSetHeartbeat", "rs")["ok"] == 1
    for options in ({"password": OTHER_KEY}, {"password": KEY.strip(), "authSource": "admin"},
                    {"password": KEY.strip(), "authMechanism": "SCRAM-SHA-1"}):
        with running.as_user(primary, "__system", **{"authSource": "local", **options}) as client:
            refused(lambda: client.admin.command("ping"), 18)
    with running.client() as root:
        root.admin.command("createUser", "most", pwd="p", roles=["root"])
        refused(lambda: root.local.command("createUser", "__system", pwd="p", roles=[]), 2)
    with running.as_user(primary, "most", "p") as most:
        refused(lambda: most.admin.command("replSetHeartbeat", "rs"), 13)
    # A server that stands alone has no members, whatever somebody has written into its users.
    alone = AccessServer(start_server("--auth")).make_root()
    refused(lambda: log_in(alone, "__system", KEY.strip(), source="local"), 18)


def test_the_localhost_exception_of_a_set(tmp_path):
    running = KeyedSet(tmp_path, 3, members=[{}, {}, {"arbiterOnly": True}], make_root=False)
    try:
        arbiter = running.members[2]
        with running.as_user(running.primary()) as client:
            assert client.admin.command("replSetGetStatus")["ok"] == 1
            refused(lambda: client.shop.things.find_one(), message="not authorized on shop")
            refused(lambda: client.admin.command("replSetHeartbeat", "rs"), 13)
            running.make_root(2)
            refused(lambda: client.admin.command("replSetGetStatus"), message="requires authentication")
        with running.as_user(running.members[1]) as client:
            eventually("the end of the exception", lambda: needs_login(client))
        # It never has users: who comes from its machine may look, and nothing else.
        with running.as_user(arbiter) as client:
            assert client.admin.command("replSetGetStatus")["myState"] == 7
            refused(lambda: client.admin.command("serverStatus"), 13)
            refused(lambda: client.admin.command("shutdown"), 13)
        with running.as_user(arbiter, *ROOT) as client:
            refused(lambda: client.admin.command("ping"), 18)
    finally:
        running.kill_all()


def needs_login(client):
    try:
        client.admin.command("replSetGetStatus")
    except OperationFailure as failure:
        return failure.code == 13
    return False


@pytest.mark.parametrize("text, mode, expect", [
    (KEY, 0o640, "permissions on KEY are too open"),
    (KEY, 0o604, "permissions on KEY are too open"),
    ("short", 0o600, "security key in KEY has length 5, must be between 6 and 1024 chars"),
    ("no key, not at all", 0o600, "invalid char in key file KEY: ,"),
    (None, None, "Error reading file KEY: No such file"),
])
def test_key_files_that_cannot_be(tmp_path, text, mode, expect):
    path = tmp_path / "key"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    command = [BINARY, "serve", "--keyFile", str(path), "--replSet", "rs", "--dbpath", str(tmp_path / "data"), "--port", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and expect.replace("KEY", str(path)) in done.stdout + done.stderr, done
    assert not (tmp_path / "data").exists() and (text or "?") not in done.stdout + done.stderr


def test_a_member_with_auth_needs_a_key(tmp_path):
    command = [BINARY, "serve", "--auth", "--replSet", "rs", "--dbpath", str(tmp_path / "data"), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    expect = "security.keyFile is required when authorization is enabled with replica sets"
    assert done.returncode == 2 and expect in done.stdout + done.stderr


def test_a_key_turns_access_control_on(start_server, tmp_path):
    path = tmp_path / "key"
    path.write_text(KEY)
    path.chmod(0o600)
    server = AccessServer(start_server("--keyFile", str(path))).make_root()
    with server.client() as client:
        refused(lambda: client.shop.things.find_one(), message="requires authentication")
    with server.root() as root:
        assert root.admin.command("getCmdLineOpts")["parsed"]["security"]["keyFile"] == str(path)
