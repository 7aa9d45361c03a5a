"""`--auth`: who gets in, and who does not."""

import os
import pathlib
import stat
import time

import pymongo
import pytest
from pymongo.errors import OperationFailure

from access_server import ROOT, AccessServer, log_in, refused
from test_node_clients import HERE, NODE, run

MECHANISMS = ["SCRAM-SHA-1", "SCRAM-SHA-256"]


@pytest.fixture
def access(start_server):
    return AccessServer(start_server("--auth")).make_root()


def test_the_localhost_exception_makes_one_user_and_nothing_else(start_server):
    server = AccessServer(start_server("--auth"))
    with server.client() as client:
        assert client.admin.command("ping")["ok"] == 1
        refused(lambda: client.shop.items.find_one(), message="not authorized on shop to execute command { find:")
        refused(lambda: client.shop.command("createUser", "me", pwd="x", roles=[]), message="not authorized on shop")
        client.admin.command("createUser", "first", pwd="p", roles=["root"])
        refused(lambda: client.admin.command("createUser", "second", pwd="p", roles=[]), message="requires authentication")
        refused(lambda: client.shop.items.find_one(), message="Command find requires authentication")
    assert log_in(server, "first", "p") == [{"user": "first", "db": "admin"}]


def test_the_localhost_exception_can_be_off(start_server):
    server = AccessServer(start_server("--auth", "--setParameter", "enableLocalhostAuthBypass=false"))
    with server.client() as client:
        refused(lambda: client.admin.command("createUser", "first", pwd="p", roles=["root"]))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_both_mechanisms_take_the_password_and_nothing_else(access, mechanism):
    assert log_in(access, *ROOT, authMechanism=mechanism) == [{"user": "root", "db": "admin"}]
    for user, password in (("root", "a root's Password"), ("root", "x"), ("nobody", ROOT[1])):
        failed = refused(lambda: log_in(access, user, password, authMechanism=mechanism), 18)
        assert failed["errmsg"] == "Authentication failed." and failed["codeName"] == "AuthenticationFailed"
    refused(lambda: log_in(access, *ROOT, source="shop", authMechanism=mechanism), 18)


def test_drivers_negotiate_and_begin_in_the_handshake(access):
    with access.root() as root:
        root.admin.command("createUser", "old", pwd="o", roles=[], mechanisms=["SCRAM-SHA-1"])
        logins = lambda: root.admin.command("serverStatus")["security"]["authentication"]["mechanisms"]
        before = logins()
        log_in(access, *ROOT)
        log_in(access, "old", "o")
        after = logins()
    grown = {name: after[name]["authenticate"]["successful"] - before[name]["authenticate"]["successful"] for name in MECHANISMS}
    assert grown == {"SCRAM-SHA-1": 1, "SCRAM-SHA-256": 1}
    assert after["SCRAM-SHA-256"]["speculativeAuthenticate"]["successful"] > before["SCRAM-SHA-256"]["speculativeAuthenticate"]["successful"]
    refused(lambda: log_in(access, "old", "o", authMechanism="SCRAM-SHA-256"), 18)


def test_other_mechanisms_are_refused_by_name(access):
    with access.client() as client:
        for mechanism in ("PLAIN", "GSSAPI", "MONGODB-AWS"):
            start = {"saslStart": 1, "mechanism": mechanism, "payload": b"\0me\0secret"}
            refused(lambda: client["$external"].command(start), 334, f"mechanism {mechanism} which is unknown or not enabled")
        refused(lambda: client["$external"].command({"authenticate": 1, "mechanism": "MONGODB-X509"}), 18)


def test_passwords_that_look_the_same_are_the_same(access):
    with access.root() as root:
        root.admin.command("createUser", "soft", pwd="I\u00adX", roles=[], mechanisms=["SCRAM-SHA-256"])
    assert log_in(access, "soft", "IX") and log_in(access, "soft", "\u2168")
    refused(lambda: log_in(access, "soft", "ix"), 18)


def test_names_may_have_commas_and_equals_signs(access):
    with access.user("a=b,c@d.e", ["readAnyDatabase"]) as client:
        assert client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"] == [{"user": "a=b,c@d.e", "db": "admin"}]


def test_users_are_kept_in_mongodbs_shape_and_outlive_a_restart(access, start_server):
    with access.root() as root:
        root.shop.command("createUser", "u", pwd="p", roles=["read", {"role": "readWrite", "db": "other"}], customData={"a": 1})
        stored = root.admin["system.users"].find_one({"_id": "shop.u"})
        assert list(stored) == ["_id", "userId", "user", "db", "credentials", "customData", "roles"]
        assert stored["roles"] == [{"role": "read", "db": "shop"}, {"role": "readWrite", "db": "other"}]
        assert stored["userId"].subtype == 4
        rounds = {"SCRAM-SHA-1": 10_000, "SCRAM-SHA-256": 15_000}
        for mechanism in MECHANISMS:
            kept = stored["credentials"][mechanism]
            assert list(kept) == ["iterationCount", "salt", "storedKey", "serverKey"] and kept["iterationCount"] == rounds[mechanism]
        told = root.shop.command("usersInfo", "u")["users"]
        assert told == [{**{name: stored[name] for name in ("_id", "userId", "user", "db", "customData", "roles")}, "mechanisms": MECHANISMS}]
        root.admin.command("setParameter", 1, scramSHA256IterationCount=5_000)
        root.shop.command("updateUser", "u", pwd="q")
        told = root.shop.command("usersInfo", "u", showCredentials=True)["users"][0]
        assert told["credentials"]["SCRAM-SHA-256"]["iterationCount"] == 5_000
        refused(lambda: root.admin.command("setParameter", 1, scramSHA256IterationCount=4_999), 2)
    directory = access.server.directory
    assert access.server.stop() == 0
    again = AccessServer(start_server("--auth", directory=directory))
    assert log_in(again, "u", "q", source="shop")
    refused(lambda: log_in(again, "u", "p", source="shop"), 18)
    with again.client() as client:
        refused(lambda: client.admin.command("createUser", "x", pwd="p", roles=[]))


def test_nobody_can_tell_whether_a_user_exists(access):
    def first_answer(client, user):
        start = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": f"n,,n={user},r=abc".encode()}
        answer = client.admin.command(start)
        parts = dict(part.split("=", 1) for part in answer["payload"].decode().split(","))
        return set(answer), len(parts["r"]), parts["s"], parts["i"]

    with access.client(maxPoolSize=1) as client:
        known, unknown = first_answer(client, "root"), first_answer(client, "nobody")
        assert (known[0], known[1], len(known[2]), known[3]) == (unknown[0], unknown[1], len(unknown[2]), unknown[3])
        assert first_answer(client, "nobody")[2] == unknown[2], "a salt is always the same"
        assert first_answer(client, "somebody")[2] != unknown[2], "each has its own"
        mechanisms = [client.admin.command({"hello": 1, "saslSupportedMechs": f"admin.{user}"})["saslSupportedMechs"] for user in ("root", "nobody")]
        assert mechanisms == [MECHANISMS, MECHANISMS]

        times = {"root": [], "nobody": []}
        for _ in range(300):
            for user, taken in times.items():
                begun = time.perf_counter()
                first_answer(client, user)
                taken.append(time.perf_counter() - begun)
    medians = {user: sorted(taken)[len(taken) // 2] for user, taken in times.items()}
    assert 0.6 < medians["root"] / medians["nobody"] < 1.6, medians


def test_a_storm_of_wrong_passwords_is_slowed_and_told(access):
    start = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=root,r=abc"}
    with access.client(maxPoolSize=1) as client:
        def fail():
            begun = client.admin.command(start)
            proof = b"c=biws," + begun["payload"].split(b",")[0] + b",p=" + b"A" * 43 + b"="
            refused(lambda: client.admin.command({"saslContinue": 1, "conversationId": 1, "payload": proof}), 18)

        begun = time.monotonic()
        for _ in range(35):
            fail()
        took = time.monotonic() - begun
    assert took > 0.8, f"35 failures took {took:.2f} s"
    begun = time.monotonic()
    assert log_in(access, *ROOT)
    assert time.monotonic() - begun < 5, "who knows the password does not wait"
    log = access.server.log.read_text()
    assert "Many logins fail from one address" in log and "wrong password" in log
    assert ROOT[1] not in log


def test_from_where_a_user_may_log_in(access):
    with access.root() as root:
        make = lambda name, *ranges, roles=(): root.admin.command(
            "createUser", name, pwd="p", roles=list(roles), authenticationRestrictions=[{"clientSource": [one]} for one in ranges]
        )
        make("here", "10.0.0.0/8", "127.0.0.0/8")
        make("there", "10.0.0.0/8")
        refused(lambda: make("nowhere", "example.com"), 2)
        root.admin.command("createRole", "away", privileges=[], roles=[], authenticationRestrictions=[{"clientSource": ["192.0.2.1"]}])
        root.admin.command("createUser", "heir", pwd="p", roles=["away"])
    assert log_in(access, "here", "p")
    refused(lambda: log_in(access, "there", "p"), 18)
    refused(lambda: log_in(access, "heir", "p"), 18)


def test_at_which_address_a_user_may_log_in(start_server):
    access = AccessServer(start_server("--auth", "--bind_ip", "127.0.0.1,127.0.0.2")).make_root()
    restrictions = [{"clientSource": ["10.0.0.0/8"]}, {"clientSource": ["127.0.0.0/8"], "serverAddress": ["127.0.0.2", "192.0.2.0/24"]}]
    with access.root() as root:
        root.admin.command("createUser", "u", pwd="p", roles=[], authenticationRestrictions=restrictions)
        shown = root.admin.command("usersInfo", "u", showAuthenticationRestrictions=True)["users"][0]
        assert shown["authenticationRestrictions"] == restrictions
        refused(lambda: root.admin.command("updateUser", "u", authenticationRestrictions=[{"serverAddress": ["here"]}]), 2)

    def log_in_at(address):
        options = {"username": "u", "password": "p", "directConnection": True, "serverSelectionTimeoutMS": 10_000}
        with pymongo.MongoClient(address, access.server.port, **options) as client:
            return client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]

    assert log_in_at("127.0.0.2")
    refused(lambda: log_in_at("127.0.0.1"), 18)
    assert "not between these addresses" in access.server.log.read_text()
    with access.root() as root:
        root.admin.command("createRole", "first", privileges=[], roles=[], authenticationRestrictions=[{"serverAddress": ["127.0.0.1"]}])
        root.admin.command("grantRolesToUser", "u", roles=["first"])
    refused(lambda: log_in_at("127.0.0.2"), 18)


def test_logging_out(access):
    with access.root(maxPoolSize=1) as client:
        client.shop.items.insert_one({})
        client.admin.command("logout")
        refused(lambda: client.shop.items.find_one(), message="requires authentication")


def test_users_that_cannot_be(access):
    with access.root() as root:
        make = lambda name="u", database="shop", **options: root[database].command("createUser", name, **{"pwd": "p", "roles": [], **options})
        make()
        refused(make, 51003, 'User "u@shop" already exists')
        refused(lambda: make("v", roles=["nonsense"]), 31, "Could not find role: nonsense@shop")
        refused(lambda: make("v", pwd=""), 2)
        refused(lambda: make("v", mechanisms=["PLAIN"]), 2, "Unknown auth mechanism 'PLAIN'")
        refused(lambda: make("v", mechanisms=["SCRAM-SHA-256"], digestPassword=False), 2, "requires undigested passwords")
        refused(lambda: make("v", "local"), 2, "Cannot create users in the local database")
        refused(lambda: root.shop.command({"createUser": "v", "roles": []}), 2, "Must provide a 'pwd' field")
        refused(lambda: root.shop.command({"createUser": "v", "pwd": "p"}), 40414)
        refused(lambda: root.shop.command("updateUser", "v", pwd="p"), 11, "User 'v@shop' not found")
        refused(lambda: root.shop.command("updateUser", "u"), 2)
        refused(lambda: root.shop.command("dropUser", "v"), 11)
        root.shop.command("updateUser", "u", mechanisms=["SCRAM-SHA-1"])
        refused(lambda: root.shop.command("updateUser", "u", mechanisms=["SCRAM-SHA-256"]), 2, "must be a subset")
        assert root.shop.command("dropAllUsersFromDatabase")["n"] == 1
        assert root.shop.command("usersInfo", 1)["users"] == []
        assert [user["user"] for user in root.admin.command("usersInfo", {"forAllDBs": True})["users"]] == ["root"]


def test_without_auth_users_can_be_made_and_log_in_and_need_not(start_server):
    server = AccessServer(start_server())
    with server.client() as client:
        client.admin.command("createUser", "u", pwd="p", roles=["read"])
        client.shop.items.insert_one({})
        assert client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"] == []
    with server.client("u", "p") as client:
        client.shop.items.insert_one({})
    refused(lambda: log_in(server, "u", "q"), 18)


def test_what_the_server_writes_is_the_owners(start_server, tmp_path):
    os.umask(0o022)
    server = start_server("--logpath", str(tmp_path / "own.log"), directory=tmp_path / "own")
    for path in [tmp_path / "own.log", *pathlib.Path(server.directory).rglob("*"), pathlib.Path(server.directory)]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_node_driver(access, tmp_path):
    uri = f"mongodb://127.0.0.1:{access.server.port}/?directConnection=true"
    run(["node", "--test", "--test-reporter=spec", "access/logins.test.mjs"], uri, tmp_path)


def test_mongosh(start_server, tmp_path):
    server = start_server("--auth")
    shell = str(NODE / "node_modules" / ".bin" / "mongosh")
    script = HERE / "mongosh" / "access" / "users_and_roles.js"
    output = run([shell, "--quiet", "--norc", server.uri, "--file", str(script)], server.uri, tmp_path)
    assert "users and roles: ok" in output, output
