"""`_mergeAuthzCollections` as mongorestore uses it: users and roles that were dumped are there again, and log in."""

import json

import pytest

from access_server import ROOT, AccessServer, log_in, refused

ROLE = {"role": "clerk", "db": "shop"}
GRANTS = [{"resource": {"db": "shop", "collection": "items"}, "actions": ["find"]}]


@pytest.fixture
def access(start_server):
    running = AccessServer(start_server("--auth")).make_root()
    with running.root() as root:
        root.shop.command("createRole", "clerk", privileges=GRANTS, roles=[], limits={"maxOperations": 5})
        root.shop.command("createUser", "clerk", pwd="p", roles=["clerk"], customData={"desk": 7})
        root.bank.command("createUser", "teller", pwd="q", roles=["read"])
        root.admin.command("createUser", "restorer", pwd="r", roles=["restore"])
        root.shop.items.insert_one({"_id": 1})
    yield running


def dumped(access):
    """What mongodump has of users and roles."""
    with access.root() as root:
        return list(root.admin["system.users"].find()), list(root.admin["system.roles"].find())


def bring(access, users, roles, drop=False, db="", login=("restorer", "r")):
    """What mongorestore sends."""
    with access.client(*login) as client:
        admin = client.admin
        assert admin.command({"getParameter": 1, "authSchemaVersion": 1})["authSchemaVersion"] == 5
        command = {"_mergeAuthzCollections": 1, "tempUsersCollection": "", "tempRolesCollection": "", "drop": drop, "db": db, "writeConcern": {"w": 1}}
        for name, field, documents in [("tempusers", "tempUsersCollection", users), ("temproles", "tempRolesCollection", roles)]:
            if documents:
                admin.command("drop", name)
                admin[name].insert_many(documents)
                command[field] = f"admin.{name}"
        assert admin.command(command)["ok"] == 1
        for name in ("tempusers", "temproles"):
            admin.command("drop", name)


def names(access):
    with access.root() as root:
        return sorted(user["_id"] for user in root.admin.command("usersInfo", {"forAllDBs": True})["users"])


def warnings(access):
    lines = [json.loads(line) for line in access.server.log.read_text().splitlines() if "_mergeAuthzCollections command" in line]
    return [(line["id"], line["attr"].get("user", line["attr"].get("role"))) for line in lines]


def test_users_that_were_lost_are_there_again(access):
    users, roles = dumped(access)
    with access.root() as root:
        root.shop.command("dropAllUsersFromDatabase")
        root.shop.command("dropAllRolesFromDatabase")
        root.bank.command("updateUser", "teller", pwd="another")
    refused(lambda: log_in(access, "clerk", "p", source="shop"), 18)
    bring(access, users, roles)
    with access.client("clerk", "p", "shop") as client:
        assert client.shop.items.find_one() == {"_id": 1}
        refused(lambda: client.shop.items.insert_one({}))
    assert dumped(access)[1] == roles
    assert [user for user in dumped(access)[0] if user["db"] == "shop"] == [user for user in users if user["db"] == "shop"]
    # Who is there already stays as it is, and that is told.
    assert log_in(access, "teller", "another", source="bank")
    assert (20511, "teller@bank") in warnings(access) and (20511, "clerk@shop") not in warnings(access)


def test_with_drop_they_are_replaced_and_the_others_go(access):
    users, roles = dumped(access)
    with access.root() as root:
        root.bank.command("updateUser", "teller", pwd="another")
        root.admin.command("createUser", "new", pwd="n", roles=[])
        root.shop.command("createRole", "new", privileges=[], roles=[])
    bring(access, users, roles, drop=True)
    assert dumped(access) == (users, roles)
    assert log_in(access, "teller", "q", source="bank") and log_in(access, *ROOT)
    refused(lambda: log_in(access, "new", "n"), 18)
    assert warnings(access) == []


def test_of_one_database(access):
    users, roles = dumped(access)
    with access.root() as root:
        for database in ("shop", "bank"):
            root[database].command("dropAllUsersFromDatabase")
        root.shop.command("createUser", "new", pwd="n", roles=[])
        root.bank.command("createUser", "new", pwd="n", roles=[])
    bring(access, users, roles, db="shop", drop=True)
    assert names(access) == ["admin.restorer", "admin.root", "bank.new", "shop.clerk"]


def test_what_cannot_be_is_left_out_and_told(access):
    users, roles = dumped(access)
    wrong_users = [{"_id": "x", "user": "x"}, {"_id": "shop.y", "user": "y", "db": "shop", "roles": [], "limits": {"maxOperations": 0}}]
    good = {"_id": "somewhere else", "user": "z", "db": "shop", "roles": [ROLE], "credentials": users[0]["credentials"]}
    wrong_roles = [{"_id": "a", "role": "a", "db": "shop", "privileges": [{"resource": {}, "actions": ["nonsense"]}], "roles": []},
                   {"_id": "shop.read", "role": "read", "db": "shop", "privileges": [], "roles": []}]
    bring(access, [*wrong_users, good], wrong_roles)
    assert names(access) == ["admin.restorer", "admin.root", "bank.teller", "shop.clerk", "shop.z"]
    assert dumped(access)[1] == roles
    stored = next(user for user in dumped(access)[0] if user["user"] == "z")
    assert stored["_id"] == "shop.z" and stored["userId"]
    assert sorted(warnings(access)) == [(20511, "x"), (20511, "y"), (20513, "a"), (20513, "read")]


def test_the_first_users_may_be_restored_ones(access, start_server):
    users, roles = dumped(access)
    # Without access control, as a directory is filled before it is used.
    server = start_server()
    with server.client() as client:
        client.admin.tempusers.insert_many(users)
        client.admin.temproles.insert_many(roles)
        command = {"_mergeAuthzCollections": 1, "tempUsersCollection": "admin.tempusers", "tempRolesCollection": "admin.temproles", "drop": False, "db": ""}
        client.admin.command(command)
        assert client.admin["system.version"].count_documents({"_id": "heddleLoginSecret"}) == 1
    assert server.stop() == 0
    again = AccessServer(start_server("--auth", directory=server.directory))
    assert log_in(again, *ROOT) and log_in(again, "clerk", "p", source="shop")


def test_who_may_not(access):
    users, _ = dumped(access)
    with access.user("admin", ["userAdminAnyDatabase"]) as client, access.client("restorer", "r") as restorer, access.root() as root:
        root.admin.tempusers.insert_many(users)
        root.shop.private.insert_one({})
        command = {"_mergeAuthzCollections": 1, "tempUsersCollection": "admin.tempusers", "db": "", "drop": False}
        refused(lambda: client.admin.command(command))
        refused(lambda: restorer.admin.command({**command, "tempUsersCollection": "shop.private"}))
        refused(lambda: restorer.admin.command({**command, "tempUsersCollection": "", "tempRolesCollection": ""}), code=2)
        refused(lambda: restorer.admin.command({"_mergeAuthzCollections": 1, "tempUsersCollection": "admin.tempusers"}), code=40414)
        refused(lambda: restorer.shop.command(command), code=13)
    with access.client("teller", "q", "bank") as client:
        refused(lambda: client.admin.command(command))
