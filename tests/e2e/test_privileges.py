"""`--auth`: who may do what, and from when on."""

import bson
import bson.raw_bson
import pymongo
import pytest
from pymongo.errors import OperationFailure

from access_server import ROOT, AccessServer, refused


@pytest.fixture
def access(start_server):
    running = AccessServer(start_server("--auth")).make_root()
    with running.root() as root:
        root.shop.items.insert_many([{"_id": number} for number in range(10)])
        root.shop.other.insert_one({"_id": "secret"})
        root.bank.accounts.insert_one({"_id": 1})
    return running


def test_a_change_of_roles_takes_effect_on_open_connections(access):
    with access.root() as root, access.user("u", ["read"], "shop", ) as client:
        items = client.shop.items
        assert items.count_documents({}) == 10
        refused(lambda: items.insert_one({}), message="not authorized on shop to execute command { insert:")
        root.shop.command("grantRolesToUser", "u", roles=["readWrite"])
        items.insert_one({})
        root.shop.command("revokeRolesFromUser", "u", roles=["read", "readWrite"])
        refused(items.find_one)
        assert client.admin.command("connectionStatus")["authInfo"]["authenticatedUserRoles"] == []
        root.shop.command("createRole", "mine", privileges=[{"resource": {"db": "shop", "collection": "items"}, "actions": ["find"]}], roles=[])
        root.shop.command("updateUser", "u", roles=["mine"])
        assert items.find_one()
        refused(client.shop.other.find_one)
        root.shop.command("revokePrivilegesFromRole", "mine", privileges=[{"resource": {"db": "shop", "collection": "items"}, "actions": ["find"]}])
        refused(items.find_one)
        root.shop.command("grantRolesToRole", "mine", roles=["read"])
        assert items.find_one() and client.shop.other.find_one()
        root.shop.command("dropRole", "mine")
        refused(items.find_one)


def test_who_is_removed_is_logged_out_and_stays_so(access):
    with access.root() as root, access.user("u", ["read"], "shop") as client:
        assert client.shop.items.find_one()
        root.shop.command("dropUser", "u")
        refused(client.shop.items.find_one, message="Command find requires authentication")
    with access.root() as root, access.user("u", ["read"], "shop") as client:
        assert client.shop.items.find_one()
        root.shop.command("dropUser", "u")
        root.shop.command("createUser", "u", pwd="another", roles=["read"])
        refused(client.shop.items.find_one, message="requires authentication")


def test_users_that_are_written_as_documents_count_after_a_while(access):
    with access.root() as root, access.user("u", ["read"], "shop") as client, access.user("r", ["restore"]) as restore:
        root.admin.command("setParameter", 1, clientCursorMonitorFrequencySecs=1)
        assert client.shop.items.find_one()
        restore.admin["system.users"].update_one({"_id": "shop.u"}, {"$set": {"roles": []}})
        import time
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                client.shop.items.find_one()
            except OperationFailure as failure:
                assert failure.code == 13
                return
            time.sleep(0.2)
        pytest.fail("the roles that were taken are still there after 10 s")


READ_ITEMS = [{"resource": {"db": "shop", "collection": "items"}, "actions": ["find"]}]


@pytest.fixture
def reader(access):
    """May read `shop.items`, and nothing else."""
    with access.root() as root:
        root.shop.command("createRole", "reader", privileges=READ_ITEMS, roles=[])
        root.shop.command("create", "view", viewOn="other", pipeline=[])
    with access.user("reader", ["reader"], "shop") as client:
        yield client.shop


PIPELINES = {
    "a collection": [{"$match": {}}],
    "a join": [{"$lookup": {"from": "other", "localField": "a", "foreignField": "a", "as": "b"}}],
    "a join by a pipeline": [{"$lookup": {"from": "other", "pipeline": [], "as": "b"}}],
    "a join within a join": [{"$lookup": {"from": "items", "pipeline": [{"$lookup": {"from": "other", "pipeline": [], "as": "c"}}], "as": "b"}}],
    "a union": [{"$unionWith": "other"}],
    "a union by a pipeline": [{"$unionWith": {"coll": "other", "pipeline": []}}],
    "a union within documents": [{"$unionWith": {"pipeline": [{"$documents": []}, {"$unionWith": "other"}]}}],
    "a facet": [{"$facet": {"a": [{"$match": {}}], "b": [{"$unionWith": "other"}]}}],
    "an output": [{"$out": "written"}],
    "an output elsewhere": [{"$out": {"db": "bank", "coll": "written"}}],
    "a merge": [{"$merge": "written"}],
    "a merge elsewhere": [{"$merge": {"into": {"db": "bank", "coll": "accounts"}}}],
    "statistics": [{"$collStats": {"count": {}}}],
    "indexes": [{"$indexStats": {}}],
}


@pytest.mark.parametrize("what", PIPELINES)
def test_every_collection_that_a_pipeline_touches_is_asked_for(reader, what):
    pipeline = PIPELINES[what]
    if what == "a collection":
        assert len(list(reader.items.aggregate(pipeline))) == 10
    else:
        refused(lambda: list(reader.items.aggregate(pipeline)), message="not authorized on shop to execute command { aggregate:")
    refused(lambda: list(reader.other.aggregate(pipeline)))
    explained = {"explain": {"aggregate": "items", "pipeline": pipeline, "cursor": {}}}
    if what == "a collection":
        reader.command(explained)
    else:
        refused(lambda: reader.command(explained))


def test_what_is_allowed_by_pieces_is_allowed(access):
    privileges = [
        {"resource": {"db": "shop", "collection": "items"}, "actions": ["find"]},
        {"resource": {"db": "shop", "collection": "written"}, "actions": ["insert", "remove"]},
        {"resource": {"db": "shop", "collection": "merged"}, "actions": ["insert"]},
    ]
    with access.root() as root:
        root.admin.command("createRole", "pieces", privileges=privileges, roles=[])
    with access.user("p", ["pieces"]) as client:
        items = client.shop.items
        items.aggregate([{"$unionWith": "items"}, {"$limit": 10}, {"$out": "written"}])
        items.aggregate([{"$merge": {"into": "merged", "whenMatched": "keepExisting"}}])
        refused(lambda: items.aggregate([{"$merge": {"into": "merged"}}]))
        refused(lambda: client.shop.written.find_one())
        refused(lambda: items.aggregate([{"$out": "written"}], bypassDocumentValidation=True))


def test_views_show_what_their_reader_could_not_see_and_no_view_is_made_of_that(access, reader):
    refused(reader.view.find_one)
    with access.root() as root:
        root.shop.command("grantPrivilegesToRole", "reader", privileges=[
            {"resource": {"db": "shop", "collection": "view"}, "actions": ["find"]},
            {"resource": {"db": "shop", "collection": "mine"}, "actions": ["find", "createCollection", "collMod"]},
        ])
    assert reader.view.find_one() == {"_id": "secret"}
    refused(reader.other.find_one)
    refused(lambda: reader.command("create", "mine", viewOn="other", pipeline=[]))
    refused(lambda: reader.command("create", "mine", viewOn="items", pipeline=[{"$unionWith": "other"}]))
    reader.command("create", "mine", viewOn="items", pipeline=[])
    refused(lambda: reader.command("collMod", "mine", viewOn="other", pipeline=[]))
    refused(lambda: reader.command("collMod", "mine", viewOn="items", pipeline=[{"$unionWith": "other"}]))
    refused(lambda: reader.command("collMod", "mine", pipeline=[{"$unionWith": "other"}]))


def test_writes_need_what_they_do(access):
    def role(name, *actions):
        with access.root() as root:
            root.shop.command("createRole", name, privileges=[{"resource": {"db": "shop", "collection": "items"}, "actions": list(actions)}], roles=[])
        return access.user(name, [name], "shop")

    with role("updater", "update") as client:
        items = client.shop.items
        items.update_one({"_id": 1}, {"$set": {"a": 1}})
        refused(lambda: items.update_one({"_id": 1}, {"$set": {"a": 1}}, upsert=True))
        refused(lambda: client.shop.command("update", "items", updates=[{"q": {"_id": 50}, "u": {"a": 1}, "upsert": 1}]))
        refused(lambda: items.find_one_and_update({"_id": 1}, {"$set": {"a": 1}}))
        refused(lambda: items.delete_one({"_id": 1}))
        refused(lambda: client.shop.command("update", "items", updates=[], bypassDocumentValidation=True))
    with role("finder", "update", "find") as client:
        items = client.shop.items
        assert items.find_one_and_update({"_id": 1}, {"$set": {"a": 2}})
        refused(lambda: items.find_one_and_update({"_id": 1}, {"$set": {"a": 2}}, upsert=True))
        refused(lambda: items.find_one_and_delete({"_id": 1}))
    with role("inserter", "insert") as client:
        client.shop.items.insert_one({"_id": 77})
        client.shop.items.insert_one({"_id": 78})
        refused(lambda: client.shop.new.insert_one({}))


def test_lists_show_what_may_be_seen(access, reader):
    listed = lambda **options: [one["name"] for one in reader.client.admin.command("listDatabases", nameOnly=True, **options)["databases"]]
    assert listed() == ["shop"] and listed(authorizedDatabases=True) == ["shop"]
    refused(lambda: listed(authorizedDatabases=False))
    names = lambda **options: sorted(one["name"] for one in reader.command("listCollections", **options)["cursor"]["firstBatch"])
    assert names(nameOnly=True, authorizedCollections=True) == ["items"]
    refused(names)
    refused(lambda: names(authorizedCollections=True))
    refused(lambda: reader.client.bank.command("listCollections", nameOnly=True, authorizedCollections=True))
    with access.user("all", ["read"], "shop") as client:
        assert client.shop.list_collection_names() == ["items", "other", "view"] or len(client.shop.list_collection_names()) == 3
    with access.user("any", ["readAnyDatabase"]) as client:
        assert {"admin", "bank", "shop"} <= set(client.list_database_names())


def test_cursors_and_operations_of_others(access):
    with access.user("a", ["read"], "shop") as first, access.user("b", ["read"], "shop") as second, access.root() as root:
        cursor = first.shop.command("find", "items", batchSize=1)["cursor"]["id"]
        refused(lambda: second.shop.command("getMore", cursor, collection="items"), message=f"cursor id {cursor} was not created by the authenticated user")
        refused(lambda: second.shop.command("killCursors", "items", cursors=[cursor]))
        assert first.shop.command("getMore", cursor, collection="items", batchSize=1)["cursor"]["nextBatch"]
        assert root.shop.command("killCursors", "items", cursors=[cursor])["cursorsKilled"] == [cursor]
        cursor = first.shop.command("find", "items", batchSize=1)["cursor"]["id"]
        assert first.shop.command("killCursors", "items", cursors=[cursor])["cursorsKilled"] == [cursor]
        refused(lambda: first.admin.command("killOp", op=1), message="not authorized on admin")
        refused(lambda: first.admin.command("currentOp"))
        refused(lambda: list(first.admin.aggregate([{"$currentOp": {"allUsers": True}}])))
        own = first.admin.command({"currentOp": 1, "$ownOps": True, "$all": True})["inprog"]
        assert own and {user["user"] for one in own for user in one["effectiveUsers"]} == {"a"}
        own = list(first.admin.aggregate([{"$currentOp": {"idleConnections": True}}]))
        assert own and {user["user"] for one in own for user in one["effectiveUsers"]} == {"a"}
        everybody = root.admin.command({"currentOp": 1, "$all": True})["inprog"]
        assert {"a", "b", "root"} <= {user["user"] for one in everybody for user in one.get("effectiveUsers", [])}


def test_everybody_may_look_at_themselves(access):
    with access.user("u", ["read"], "shop") as client:
        assert client.shop.command("usersInfo", "u")["users"][0]["user"] == "u"
        assert client.shop.command("usersInfo", {"user": "u", "db": "shop"}, showPrivileges=True)["users"][0]["inheritedPrivileges"]
        refused(lambda: client.shop.command("usersInfo", 1))
        refused(lambda: client.admin.command("usersInfo", "root"))
        assert client.shop.command("rolesInfo", "read")["roles"][0]["isBuiltin"]
        refused(lambda: client.shop.command("rolesInfo", "readWrite"))
        refused(lambda: client.shop.command("updateUser", "u", pwd="new"))


def test_nobody_grants_beyond_their_reach(access):
    with access.user("admin", ["userAdmin"], "shop") as client:
        shop = client.shop
        shop.command("createUser", "clerk", pwd="p", roles=["readWrite"])
        refused(lambda: shop.command("createUser", "thief", pwd="p", roles=[{"role": "read", "db": "bank"}]))
        refused(lambda: shop.command("grantRolesToUser", "clerk", roles=[{"role": "root", "db": "admin"}]))
        refused(lambda: shop.command("updateUser", "clerk", roles=["read"]), message="not authorized on shop")
        refused(lambda: shop.command("createRole", "r", privileges=[{"resource": {"cluster": True}, "actions": ["shutdown"]}], roles=[]))
        refused(lambda: client.bank.command("createUser", "clerk", pwd="p", roles=[]))
        assert [user["user"] for user in shop.command("usersInfo", 1)["users"]] == ["admin", "clerk"]
    details = None
    with access.user("nobody", []) as client:
        details = refused(lambda: client.admin.command("createUser", "x", pwd="hidden", roles=[]))
    assert 'pwd: "xxx"' in details["errmsg"] and "hidden" not in details["errmsg"]


def test_roles_that_cannot_be(access):
    with access.root() as root:
        shop = root.shop
        make = lambda name, privileges=(), roles=(), database=shop: database.command("createRole", name, privileges=list(privileges), roles=list(roles))
        cluster = {"resource": {"cluster": True}, "actions": ["top"]}
        refused(lambda: make("r", [cluster]), message="cannot be granted privileges that target other databases", code=49)
        refused(lambda: make("r", roles=[{"role": "read", "db": "bank"}]), 49)
        make("r", [cluster], database=root.admin)
        refused(lambda: make("r", [{"resource": {"db": "shop", "collection": ""}, "actions": ["nonsense"]}]), 2, "Unrecognized action privilege string: nonsense")
        refused(lambda: make("r", [{"resource": {"db": "shop"}, "actions": ["find"]}]), 2)
        refused(lambda: make("read"), 2)
        refused(lambda: make("r", roles=["gone"]), 31)
        make("a")
        refused(lambda: make("a"), 51002, 'Role "a@shop" already exists')
        make("b", roles=["a"])
        refused(lambda: shop.command("grantRolesToRole", "a", roles=["b"]), 49, "would introduce a cycle")
        refused(lambda: shop.command("updateRole", "gone", roles=[]), 31)
        refused(lambda: shop.command("dropRole", "read"), 49)
        told = shop.command("rolesInfo", "b", showPrivileges=True)["roles"][0]
        assert (told["roles"], told["inheritedRoles"], told["isBuiltin"]) == ([{"role": "a", "db": "shop"}], [{"role": "a", "db": "shop"}], False)
        shop.command("dropRole", "a")
        assert shop.command("rolesInfo", "b")["roles"][0]["roles"] == []
        assert shop.command("dropAllRolesFromDatabase")["n"] == 1


def joined(*parts):
    """A document with the fields of all of these, one behind the other."""
    body = b"".join(bson.encode(part)[4:-1] for part in parts) + b"\0"
    return bson.raw_bson.RawBSONDocument((len(body) + 4).to_bytes(4, "little") + body)


def test_a_field_given_twice_is_no_way_around(access, reader):
    def run(client, stage):
        return client.command({"aggregate": "items", "pipeline": [stage], "cursor": {}})

    refused(lambda: run(reader, {"$lookup": joined({"from": "items", "pipeline": [], "as": "b"}, {"from": "other"})}))
    actions = ["find", "insert", "remove"]
    mine = [{"resource": {"db": "shop", "collection": name}, "actions": actions} for name in ("items", "accounts")]
    with access.root() as root:
        root.admin.command("createRole", "mine", privileges=mine, roles=[])
        root.shop.accounts.insert_one({"_id": 1, "kept": True})
        elsewhere = joined({"db": "shop", "coll": "accounts"}, {"db": "bank"})
        changed = joined({"into": "accounts", "whenMatched": "keepExisting"}, {"whenMatched": "replace"})
        twice = joined({"into": "accounts", "whenMatched": "fail"}, {"into": {"db": "bank", "coll": "accounts"}})
        with access.user("m", ["mine"]) as client:
            for stage in ({"$out": elsewhere}, {"$merge": {"into": elsewhere, "whenMatched": "fail"}}, {"$merge": changed}, {"$merge": twice}):
                with pytest.raises(OperationFailure) as failure:
                    run(client.shop, stage)
                assert failure.value.code in (13, 40413), failure.value
        assert list(root.bank.accounts.find()) == [{"_id": 1}]
        assert root.shop.accounts.find_one(1) == {"_id": 1, "kept": True}
