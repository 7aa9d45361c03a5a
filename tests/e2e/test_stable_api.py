"""What `apiStrict` and `apiDeprecationErrors` let through."""

import pytest
from pymongo.errors import OperationFailure

STRICT = {"apiVersion": "1", "apiStrict": True}
IN_VERSION_1 = {
    "abortTransaction", "aggregate", "authenticate", "collMod", "commitTransaction", "count", "create", "createIndexes", "delete",
    "drop", "dropDatabase", "dropIndexes", "endSessions", "explain", "find", "findAndModify", "getMore", "hello", "insert",
    "killCursors", "listCollections", "listDatabases", "listIndexes", "ping", "refreshSessions", "saslContinue", "saslStart", "update",
}


def refused(client, command, database="test"):
    with pytest.raises(OperationFailure) as failure:
        client[database].command(command)
    return failure.value.code, failure.value.details["errmsg"]


def test_members_of_version_1(client):
    commands = client.admin.command("listCommands")["commands"]
    members = {name for name, row in commands.items() if "1" in row["apiVersions"] and not name.startswith("test")}
    assert members == IN_VERSION_1
    code, message = refused(client, {"distinct": "things", "key": "a", **STRICT})
    assert code == 323 and message.startswith("Provided apiStrict:true, but the command distinct is not in API Version 1.")


@pytest.mark.parametrize("stage", ["$currentOp", "$indexStats", "$listLocalSessions", "$listSessions", "$planCacheStats"])
def test_stages_outside_of_the_version(client, stage):
    expect = (323, f"{stage} is not allowed with 'apiStrict: true' in API Version 1")
    target = 1 if stage in ("$currentOp", "$listLocalSessions") else "things"
    pipelines = [
        [{stage: {}}],
        [{"$lookup": {"from": "x", "pipeline": [{stage: {}}], "as": "y"}}],
        [{"$unionWith": {"coll": "x", "pipeline": [{stage: {}}]}}],
        [{"$facet": {"one": [{"$match": {}}], "two": [{stage: {}}]}}],
    ]
    for pipeline in pipelines:
        command = {"aggregate": target if pipeline[0].get(stage) is not None else "things", "pipeline": pipeline, "cursor": {}}
        assert refused(client, {**command, **STRICT}, "admin") == expect
    explain = {"explain": {"aggregate": "things", "pipeline": pipelines[0], "cursor": {}}, **STRICT}
    assert refused(client, explain) == expect


def test_statistics_of_a_collection(client):
    database = client["strict"]
    try:
        database.things.insert_one({})
        count = {"aggregate": "things", "pipeline": [{"$collStats": {"count": {}}}], "cursor": {}, **STRICT}
        assert database.command(count)["cursor"]["firstBatch"][0]["count"] == 1
        sizes = {**count, "pipeline": [{"$collStats": {"count": {}, "storageStats": {}}}]}
        assert refused(client, sizes, "strict") == (323, "only the 'count' option to $collStats is supported in API Version 1")
        union = {**count, "pipeline": [{"$unionWith": "things"}, {"$count": "n"}]}
        assert database.command(union)["cursor"]["firstBatch"] == [{"n": 2}]
    finally:
        client.drop_database("strict")


@pytest.mark.parametrize("command", [
    {"find": "things", "tailable": True}, {"find": "things", "showRecordId": True}, {"find": "things", "returnKey": True},
    {"find": "things", "noCursorTimeout": True}, {"find": "things", "min": {"_id": 1}}, {"aggregate": "things", "pipeline": [], "explain": True},
    {"create": "things", "capped": True}, {"create": "things", "storageEngine": {}},
])
def test_fields_outside_of_the_version(client, command):
    name, field = next(iter(command)), list(command)[-1]
    assert refused(client, {**command, **STRICT}) == (323, f"BSON field '{name}.{field}' is not allowed with apiStrict:true.")


def test_commands_that_test_clients(start_server):
    server = start_server("--setParameter", "enableTestCommands=1", "--setParameter", "acceptApiVersion2=1")
    with server.client() as client:
        assert client.admin.command({"getParameter": 1, "acceptApiVersion2": 1})["acceptApiVersion2"] is True
        run = lambda name, **options: client.admin.command({name: 1, **options})["ok"]
        for name in ("testDeprecation", "testDeprecationInVersion2", "testRemoval", "testVersion2", "testVersions1And2"):
            assert run(name) == 1.0 and run(name, apiVersion="1") == 1.0
        assert run("testVersion2", apiVersion="2", apiStrict=True) == 1.0
        assert run("testDeprecationInVersion2", apiVersion="1", apiDeprecationErrors=True) == 1.0
        code, message = refused(client, {"testVersion2": 1, "apiVersion": "1", "apiStrict": True})
        assert code == 323 and "testVersion2 is not in API Version 1" in message
        assert refused(client, {"testRemoval": 1, "apiVersion": "2", "apiStrict": True})[0] == 323
        for name, version in (("testDeprecation", "1"), ("testDeprecationInVersion2", "2")):
            message = f"Provided apiDeprecationErrors:true, but the command {name} is deprecated in API Version {version}"
            assert refused(client, {name: 1, "apiVersion": version, "apiDeprecationErrors": True}) == (331, message)


def test_version_2_is_for_those_who_want_it(client):
    assert refused(client, {"ping": 1, "apiVersion": "2"}) == (322, 'API version must be "1"')
