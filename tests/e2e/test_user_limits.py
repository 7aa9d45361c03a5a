"""`limits` of users and roles: how many connections, operations and bytes one user has at once."""

import contextlib
import json
import threading
import time

import pymongo
import pytest
from pymongo.errors import OperationFailure

from access_server import ROOT, AccessServer, refused

TOO_MANY = 365


@pytest.fixture
def access(start_server):
    return AccessServer(start_server("--auth", "--setParameter", "enableTestCommands=1")).make_root()


@pytest.fixture
def root(access):
    with access.root() as client:
        yield client


@contextlib.contextmanager
def connected(access, name, database="admin"):
    """One connection, logged in."""
    options = {"maxPoolSize": 1, "retryReads": False, "retryWrites": False}
    with access.client(name, f"{name}'s", database, **options) as client:
        client.admin.command("ping")
        yield client


def limits_of(root):
    return root.admin.command("serverStatus")["security"]["userLimits"]


def of_user(root, name):
    users = [user for user in limits_of(root)["users"] if user["user"] == name]
    return users[0] if users else None


def eventually(check, seconds=10):
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.02)


def make(root, name, **limits):
    root.admin.command("createUser", name, pwd=f"{name}'s", roles=["readWriteAnyDatabase"], limits=limits)


def test_limits_are_kept_shown_and_checked(root):
    admin = root.admin
    make(root, "u", maxConnections=3, maxMemoryMB=64)
    shown = lambda **options: admin.command("usersInfo", "u", **options)["users"][0]
    assert shown()["limits"] == {"maxConnections": 3, "maxMemoryMB": 64}
    admin.command("updateUser", "u", limits={"maxOperations": 2})
    assert shown()["limits"] == {"maxOperations": 2}, "they are replaced as a whole"
    admin.command("createRole", "inner", privileges=[], roles=[], limits={"maxConnections": 9, "maxOperations": 5})
    admin.command("createRole", "outer", privileges=[], roles=["inner"], limits={"maxConnections": 8})
    role = admin.command("rolesInfo", "outer", showPrivileges=True)["roles"][0]
    assert (role["limits"], role["inheritedLimits"]) == ({"maxConnections": 8}, {"maxConnections": 8, "maxOperations": 5})
    admin.command("grantRolesToUser", "u", roles=["outer"])
    assert shown(showPrivileges=True)["inheritedLimits"] == {"maxConnections": 8, "maxOperations": 5}
    admin.command("updateRole", "outer", limits={})
    assert "limits" not in admin.command("rolesInfo", "outer")["roles"][0]
    admin.command("updateUser", "u", limits={})
    assert "limits" not in shown()
    for wrong in ({"maxCursors": 1}, {"maxOperations": 0}, {"maxOperations": "many"}, {"maxConnections": 1.5}):
        refused(lambda: admin.command("updateUser", "u", limits=wrong), code=2)
    refused(lambda: admin.command("updateUser", "u", limits=3), code=14)


def test_who_may_set_limits(access, root):
    make(root, "u", maxOperations=1)
    grants = [{"resource": {"db": "admin", "collection": ""}, "actions": ["changeOwnCustomData", "changeOwnPassword", "createUser"]}]
    root.admin.command("createRole", "own", privileges=grants, roles=[])
    root.admin.command("grantRolesToUser", "u", roles=["own"])
    with connected(access, "u") as client:
        client.admin.command("updateUser", "u", customData={"a": 1})
        refused(lambda: client.admin.command("updateUser", "u", limits={}))
        refused(lambda: client.admin.command("createUser", "v", pwd="p", roles=[], limits={"maxOperations": 1}))


def test_the_login_that_would_be_one_connection_too_many_is_refused(access, root):
    make(root, "u", maxConnections=2)
    with connected(access, "u") as first, connected(access, "u"):
        with pytest.raises(OperationFailure) as failure, connected(access, "u"):
            pass
        assert failure.value.code == TOO_MANY
        assert "user u@admin has as many connections as it may have (2, limits.maxConnections)" in str(failure.value)
        shown = of_user(root, "u")
        assert (shown["connections"], shown["atLimit"], shown["connectionsRefused"]) == (2, ["maxConnections"], 1)
        # Another user is not held up, and whoever logs out makes room.
        make(root, "other", maxConnections=1)
        with connected(access, "other"):
            pass
        first.admin.command("logout")
        with connected(access, "u"):
            pass
    eventually(lambda: of_user(root, "u")["connections"] == 0)
    root.admin.command("updateUser", "u", limits={})
    with connected(access, "u"), connected(access, "u"), connected(access, "u"):
        pass
    assert limits_of(root)["connectionsRefused"] == 1, "what was refused is counted on"


def test_the_smallest_limit_of_a_user_and_its_roles_holds(access, root):
    make(root, "u", maxConnections=3)
    root.admin.command("createRole", "narrow", privileges=[], roles=[], limits={"maxConnections": 1})
    with connected(access, "u"), connected(access, "u"):
        root.admin.command("grantRolesToUser", "u", roles=["narrow"])
        with pytest.raises(OperationFailure) as failure, connected(access, "u"):
            pass
        assert "(1, limits.maxConnections)" in str(failure.value)


@contextlib.contextmanager
def held_finds(root):
    """While the block runs no find of `held.c` goes on."""
    point = {"configureFailPoint": "waitInFindBeforeMakingBatch"}
    data = {"nss": "held.c", "shouldCheckForInterrupt": True}
    root.admin.command({**point, "mode": "alwaysOn", "data": data})
    try:
        yield
    finally:
        root.admin.command({**point, "mode": "off"})


def in_thread(call):
    outcome = []

    def run():
        try:
            outcome.append(call())
        except OperationFailure as failure:
            outcome.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


@pytest.mark.parametrize("executor", ["synchronous", "reactor", "auto"])
def test_operations_beyond_the_limit_wait_and_hold_up_nobody_else(start_server, executor):
    access = AccessServer(start_server("--auth", "--serviceExecutor", executor, "--setParameter", "enableTestCommands=1")).make_root()
    with access.root() as root, contextlib.ExitStack() as stack:
        root.held.c.insert_one({"_id": 1})
        make(root, "u", maxOperations=2)
        make(root, "other", maxOperations=1)
        clients = [stack.enter_context(connected(access, "u")) for _ in range(6)]
        find = lambda client: lambda: list(client.held.c.find({"_id": {"$gt": 0}}))
        with held_finds(root):
            running = [in_thread(find(client)) for client in clients]
            eventually(lambda: of_user(root, "u")["operationsWaiting"] == 4)
            assert (of_user(root, "u")["operations"], of_user(root, "u")["atLimit"]) == (2, ["maxOperations"])
            # Others go on, on however few threads, and so do this user's diagnostics.
            with connected(access, "other") as other:
                assert other.held.d.find_one() is None
            with connected(access, "u") as seventh:
                seventh.admin.command("ping")
                waited = time.monotonic()
                with pytest.raises(pymongo.errors.ExecutionTimeout):
                    seventh.held.d.find_one(max_time_ms=200)
                assert time.monotonic() - waited >= 0.2
        for thread, outcome in running:
            thread.join(20)
            assert outcome == [[{"_id": 1}]]
        assert of_user(root, "u")["operationsWaiting"] == of_user(root, "u")["operations"] == 0
        assert of_user(root, "u")["operationsDelayed"] == 5


def test_a_limit_that_goes_lets_those_go_on_that_wait(access, root):
    root.held.c.insert_one({"_id": 1})
    make(root, "u", maxOperations=1)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(access, "u")) for _ in range(3)]
        with held_finds(root):
            first, _ = in_thread(lambda: list(clients[0].held.c.find()))
            eventually(lambda: of_user(root, "u")["operations"] == 1)
            second, outcome = in_thread(lambda: clients[1].other.c.find_one())
            eventually(lambda: of_user(root, "u")["operationsWaiting"] == 1)
            root.admin.command("updateUser", "u", limits={})
            # Its next request finds that out, and the one that waits hears of it.
            assert clients[2].other.c.find_one() is None
            second.join(10)
            assert outcome == [None]
        first.join(10)


def test_sorts_and_cursors_of_a_user_have_its_memory_and_no_more(access, root):
    filler = "x" * 1000
    root.shop.items.insert_many([{"_id": number, "a": number % 977, "filler": filler} for number in range(20_000)])
    make(root, "u", maxMemoryMB=8)
    sort = [{"$sort": {"a": 1, "filler": 1}}]
    with connected(access, "u") as client:
        items = client.shop.items
        assert len(list(items.aggregate(sort, allowDiskUse=True))) == 20_000, "it spills"
        assert of_user(root, "u")["memoryGaveWay"] > 0
        with pytest.raises(OperationFailure) as failure:
            list(items.aggregate(sort, allowDiskUse=False))
        assert failure.value.code == 292
        # What is larger than the limit for one operation is so for several: their cursors stay open.
        small = [{"$limit": 1500}, *sort]
        held = [items.aggregate(small, allowDiskUse=True, batchSize=1) for _ in range(12)]
        assert all(next(cursor)["a"] == 0 for cursor in held)
        used = of_user(root, "u")["memoryBytes"]
        assert 0 < used < 12 << 20, "twelve sorts of 3 MB hold no more than the user may, by half"
        with access.root() as unlimited:
            assert len(list(unlimited.shop.items.aggregate(sort, allowDiskUse=False))) == 20_000
        for cursor in held:
            assert len(list(cursor)) == 1499
        assert of_user(root, "u")["memoryBytes"] == 0
        root.admin.command("updateUser", "u", limits={})
        assert len(list(items.aggregate(sort, allowDiskUse=False))) == 20_000


def test_the_log_tells_once_of_a_user_at_its_limits(access, root):
    root.admin.command("setParameter", 1, clientCursorMonitorFrequencySecs=1)
    make(root, "u", maxConnections=1)
    with connected(access, "u"):
        for _ in range(3):
            with pytest.raises(OperationFailure), connected(access, "u"):
                pass

        def lines():
            log = access.server.log.read_text().splitlines()
            return [json.loads(line) for line in log if "A user is held to its limits" in line]

        eventually(lines)
        told = lines()
        time.sleep(2.5)
        with pytest.raises(OperationFailure), connected(access, "u"):
            pass
        time.sleep(2.5)
        assert lines() == told and len(told) == 1
        attributes = told[0]["attr"]
        assert (attributes["user"], attributes["maxConnections"]) == ("u@admin", 1)
        assert 1 <= attributes["connectionsRefused"] <= 3


def test_limits_hold_for_nobody_without_access_control(start_server):
    server = start_server()
    with server.client() as client:
        client.admin.command("createUser", "u", pwd="u's", roles=["root"], limits={"maxConnections": 1})
        with server.client(username="u", password="u's") as one, server.client(username="u", password="u's") as other:
            one.admin.command("ping")
            other.admin.command("ping")
