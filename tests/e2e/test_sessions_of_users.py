"""With `--auth` each user has sessions of its own: the same `lsid` of two users is two sessions."""

import contextlib
import hashlib
import uuid

import bson
import pymongo
import pytest

from access_server import ROOT, AccessServer, refused
from keyed_set import KeyedSet

SPOOF = "Unauthorized to set user digest in LogicalSessionId"


@pytest.fixture
def access(start_server):
    running = AccessServer(start_server("--auth", "--setParameter", "enableTestCommands=1")).make_root()
    with running.root() as root:
        root.shop.items.insert_many([{"_id": number} for number in range(10)])
    return running


@pytest.fixture
def users(access):
    """Clients of two users, and of root."""
    with access.user("a", ["readWriteAnyDatabase"]) as first, access.user("b", ["readWriteAnyDatabase"]) as second, access.root() as root:
        yield first, second, root


def digest(user, database="admin"):
    return hashlib.sha256(f"{user}@{database}".encode()).digest()


def binary(session):
    return bson.Binary.from_uuid(session)


@contextlib.contextmanager
def named(client, session, **more):
    """A driver's session with an `lsid` that is chosen."""
    with client.start_session() as started:
        started.session_id.clear()
        started.session_id.update({"id": binary(session), **more})
        yield started
        # It is the test's to end.
        started._server_session.dirty = True


def known(client, **operand):
    listed = client.admin.aggregate([{"$listLocalSessions": operand}])
    return {(one["_id"]["id"].as_uuid(), bytes(one["_id"]["uid"])) for one in listed}


def open_cursor(client, session):
    return client.shop.command("find", "items", batchSize=1, session=session)["cursor"]["id"]


def goes_on(client, cursor, session):
    return client.shop.command("getMore", cursor, collection="items", batchSize=1, session=session)["cursor"]["nextBatch"]


def test_the_same_id_of_two_users_is_two_sessions(users):
    first, second, root = users
    both = uuid.uuid4()
    with named(first, both) as of_first, named(second, both) as of_second:
        cursor = open_cursor(first, of_first)
        other = open_cursor(second, of_second)
        assert known(root, allUsers=True) >= {(both, digest("a")), (both, digest("b"))}
        refused(lambda: goes_on(second, cursor, of_second), message=f"cursor id {cursor} was not created by the authenticated user")
        refused(
            lambda: second.shop.command("killCursors", "items", cursors=[cursor], session=of_second),
            message="not authorized to kill cursor on shop.items",
        )
        # Each ends and kills its own.
        for command in ("endSessions", "killSessions"):
            second.admin.command(command, [{"id": binary(both)}])
            refused(lambda: goes_on(second, other, of_second), code=43)
            assert goes_on(first, cursor, of_first)
            other = open_cursor(second, of_second)
        first.admin.command("endSessions", [{"id": binary(both), "uid": digest("a")}])
        refused(lambda: goes_on(first, cursor, of_first), code=43)
        assert goes_on(second, other, of_second)


def test_nobody_names_the_sessions_of_others(users):
    first, second, root = users
    session = uuid.uuid4()
    with named(first, session) as of_first:
        cursor = open_cursor(first, of_first)
        foreign = {"id": binary(session), "uid": digest("a")}
        for command in ("endSessions", "killSessions", "refreshSessions"):
            refused(lambda: second.admin.command(command, [foreign]), message=SPOOF)
        with named(second, session, uid=digest("a")) as spoofed:
            refused(lambda: second.shop.command("ping", session=spoofed), message=SPOOF)
        assert goes_on(first, cursor, of_first)
        refused(lambda: first.admin.command("endSessions", [{"id": binary(session), "uid": b"short"}]), code=12)
        # Who may kill any session names it whole; its bare id is that of an own one.
        root.admin.command("killSessions", [{"id": binary(session)}])
        assert goes_on(first, cursor, of_first)
        root.admin.command("killSessions", [foreign])
        refused(lambda: goes_on(first, cursor, of_first), code=43)


def test_sessions_are_killed_by_their_users(users):
    first, second, root = users
    session = uuid.uuid4()
    with named(first, session) as of_first, named(second, session) as of_second:
        def killed(command, patterns):
            """Whose cursors a kill has ended."""
            cursors = [(first, open_cursor(first, of_first), of_first), (second, open_cursor(second, of_second), of_second)]
            root.admin.command(command, patterns)
            ended = []
            for client, cursor, own in cursors:
                try:
                    goes_on(client, cursor, own)
                except pymongo.errors.CursorNotFound:
                    ended.append(client)
            return ended

        user = lambda name: {"user": name, "db": "admin"}
        assert killed("killAllSessions", [user("a")]) == [first]
        assert killed("killAllSessions", [user("a"), user("b")]) == [first, second]
        assert killed("killAllSessions", [user("nobody")]) == []
        assert killed("killAllSessions", []) == [first, second]
        assert killed("killAllSessionsByPattern", [{"uid": digest("b")}]) == [second]
        assert killed("killAllSessionsByPattern", [{"users": [user("a")]}]) == [first]
        assert killed("killAllSessionsByPattern", [{"lsid": {"id": binary(session), "uid": digest("b")}}]) == [second]
        assert killed("killAllSessionsByPattern", [{"lsid": {"id": binary(session)}}]) == [first, second]
        assert killed("killAllSessionsByPattern", [{"lsid": {"id": binary(uuid.uuid4())}}]) == []
        refused(lambda: root.admin.command("killAllSessions", [{"user": "a"}]), code=40414)
        refused(lambda: first.admin.command("killAllSessions", [user("a")]))


def test_lists_have_the_own_sessions(users):
    first, second, root = users
    mine, theirs = uuid.uuid4(), uuid.uuid4()
    with named(first, mine) as of_first, named(second, theirs) as of_second:
        first.admin.command("ping", session=of_first)
        second.admin.command("ping", session=of_second)
        seen = known(first)
        assert (mine, digest("a")) in seen and {owner for _, owner in seen} == {digest("a")}
        assert (theirs, digest("b")) in known(root, users=[{"user": "b", "db": "admin"}])
        assert known(first, users=[{"user": "a", "db": "admin"}]) >= {(mine, digest("a"))}
        refused(lambda: known(first, allUsers=True))
        refused(lambda: known(first, users=[{"user": "b", "db": "admin"}]))
        started = first.admin.command("startSession")["id"]
        assert list(started) == ["id"] and (started["id"].as_uuid(), digest("a")) in known(first)


def test_strangers_have_no_sessions(access):
    with access.client() as stranger, access.root() as root:
        session = uuid.uuid4()
        with named(stranger, session) as started:
            stranger.admin.command("ping", session=started)
        assert session not in {known_id for known_id, _ in known(root, allUsers=True)}


def test_without_access_control_sessions_are_everybodys(start_server):
    server = start_server()
    nobody = hashlib.sha256(b"").digest()
    session = uuid.uuid4()
    with server.client() as one, server.client() as other:
        one.shop.items.insert_many([{"_id": number} for number in range(10)])
        with named(one, session) as started:
            cursor = open_cursor(one, started)
            assert (session, nobody) in known(one)
        with named(other, session) as again:
            assert goes_on(other, cursor, again)


def test_what_one_user_has_written_is_not_told_to_another(tmp_path):
    running = KeyedSet(tmp_path, 1)
    try:
        (member,) = running.members
        with running.client() as root:
            for name in ("a", "b"):
                root.admin.command("createUser", name, pwd="p", roles=["readWriteAnyDatabase"])
        with running.as_user(member, "a", "p") as first, running.as_user(member, "b", "p") as second, running.client() as root:
            session = uuid.uuid4()
            insert = lambda value: {"insert": "things", "documents": [{"_id": value}], "txnNumber": bson.Int64(1)}
            with named(first, session) as of_first, named(second, session) as of_second:
                assert first.shop.command(insert(1), session=of_first)["n"] == 1
                # The same session, number and statement of another user is another write.
                reply = second.shop.command(insert(2), session=of_second)
                assert reply["n"] == 1 and "retriedStmtIds" not in reply
                again = first.shop.command(insert(1), session=of_first)
                assert again["n"] == 1 and again["retriedStmtIds"] == [0]
            assert sorted(one["_id"] for one in root.shop.things.find()) == [1, 2]
            rows = [row["_id"] for row in root.config.transactions.find({"_id.id": binary(session)})]
            assert {bytes(row["uid"]) for row in rows} == {digest("a"), digest("b")}
            entries = root.local["oplog.rs"].find({"ns": "shop.things", "op": "i"})
            assert {bytes(entry["lsid"]["uid"]) for entry in entries} == {digest("a"), digest("b")}
    finally:
        running.kill_all()


def test_a_set_that_goes_over_to_access_control_does_nothing_twice(tmp_path):
    running = KeyedSet(tmp_path, 1, make_root=False)
    try:
        def starts_again(*own):
            (member,) = running.members
            running.own[member.directory] = own
            assert member.stop() == 0
            running.restart(member)
            running.primary()

        starts_again("--transitionToAuth")
        running.make_root(1)
        session = uuid.uuid4()
        increment = {"update": "things", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"a": 1}}, "upsert": True}], "txnNumber": bson.Int64(1)}
        with running.client() as root, named(root, session) as started:
            assert "retriedStmtIds" not in root.shop.command(increment, session=started)
        # Nobody has to log in yet, and is not taken for who has.
        with running.as_user(running.members[0]) as nobody, named(nobody, session) as started:
            assert "retriedStmtIds" not in nobody.shop.command(increment, session=started)
        starts_again()
        with running.client() as root, named(root, session) as started:
            assert root.shop.command(increment, session=started)["retriedStmtIds"] == [0]
            assert root.shop.things.find_one() == {"_id": 1, "a": 2}
            rows = [row["_id"] for row in root.config.transactions.find({"_id.id": binary(session)})]
        assert {bytes(row["uid"]) for row in rows} == {hashlib.sha256(b"").digest(), digest(ROOT[0])}
    finally:
        running.kill_all()
