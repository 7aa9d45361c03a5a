"""Commands whose subject a standalone without users does not have: they answer, and say so in MongoDB's words."""

import bson
import pymongo
import pytest
from pymongo.errors import OperationFailure


def fails(client, command, code, message=None, database="admin"):
    with pytest.raises(OperationFailure) as failure:
        client[database].command(command)
    details = failure.value.details
    assert (failure.value.code, details["codeName"]) == code, details
    if message is not None:
        assert details["errmsg"] == message
    return details


def answer(client, command, database="admin"):
    reply = client[database].command(command)
    assert reply.pop("ok") == 1.0
    return reply


REPLICA_SET = [
    "replSetAbortPrimaryCatchUp", "replSetFreeze", "replSetGetConfig", "replSetGetRBID", "replSetGetStatus", "replSetMaintenance",
    "replSetReconfig", "replSetStepDown", "replSetStepUp", "replSetSyncFrom",
]


@pytest.mark.parametrize("name", REPLICA_SET)
def test_there_is_no_replica_set(client, name):
    fails(client, {name: 1, "whatever": True}, (76, "NoReplicationEnabled"), "not running with --replSet")
    fails(client, {name: 1}, (13, "Unauthorized"), database="test")


def test_a_replica_set_cannot_be_begun(client):
    message = "This node was not started with replication enabled."
    fails(client, {"replSetInitiate": {"_id": "rs", "members": []}}, (76, "NoReplicationEnabled"), message)
    fails(client, {"replSetResizeOplog": 1, "size": 990.0}, (26, "NamespaceNotFound"), "oplog does not exist")
    for name in ("getDefaultRWConcern", "setDefaultRWConcern"):
        fails(client, {name: 1}, (51300, "Location51300"), f"'{name}' is not supported on standalone nodes.")
    for name in ("commitTransaction", "abortTransaction"):
        fails(client, {name: 1}, (125, "CommandFailed"), f"{name} must be run within a transaction")
        numbered = {name: 1, "txnNumber": bson.Int64(1), "autocommit": False, "lsid": {"id": bson.Binary(b"0" * 16, 4)}}
        fails(client, numbered, (20, "IllegalOperation"))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256", "DEFAULT"])
def test_a_password_is_refused_in_words_that_drivers_know(server, mechanism):
    options = {"username": "me", "password": "secret", "authMechanism": mechanism, "serverSelectionTimeoutMS": 10_000}
    with pymongo.MongoClient("127.0.0.1", server.port, **options) as client, pytest.raises(OperationFailure) as failure:
        client.admin.command("ping")
    assert failure.value.code == 18 and failure.value.details["errmsg"] == "Authentication failed."
    assert failure.value.details["codeName"] == "AuthenticationFailed"


def test_logging_in_by_hand(server):
    # A conversation is a connection's.
    with server.client(maxPoolSize=1) as client:
        log_in_by_hand(client)


def log_in_by_hand(client):
    start = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=me,r=abc"}
    before = answer(client, {"serverStatus": 1})["security"]["authentication"]["mechanisms"]["SCRAM-SHA-256"]
    begun = answer(client, start)
    assert begun["conversationId"] == 1 and begun["payload"].startswith(b"r=abc"), "nobody is told that there is no such user"
    proof = b"c=biws," + begun["payload"].split(b",")[0] + b",p=" + b"A" * 43 + b"="
    fails(client, {"saslContinue": 1, "conversationId": 1, "payload": proof}, (18, "AuthenticationFailed"), "Authentication failed.")
    after = answer(client, {"serverStatus": 1})["security"]["authentication"]["mechanisms"]["SCRAM-SHA-256"]
    assert after["authenticate"] == {"received": before["authenticate"]["received"] + 1, "successful": 0}
    unknown = {**start, "mechanism": "PLAIN"}
    message = "Received authentication for mechanism PLAIN which is unknown or not enabled"
    fails(client, unknown, (334, "MechanismUnavailable"), message)
    fails(client, {"saslStart": 1, "mechanism": "PLAIN"}, (40414, "Location40414"))
    fails(client, {"saslContinue": 1, "conversationId": 1, "payload": b""}, (17, "ProtocolError"), "No SASL session state found")
    fails(client, {"authenticate": 1, "mechanism": "MONGODB-X509"}, (18, "AuthenticationFailed"), database="$external")
    assert answer(client, {"logout": 1}, "test") == {}


def test_a_handshake_that_asks_for_mechanisms(client):
    hello = {"hello": 1, "saslSupportedMechs": "admin.me", "speculativeAuthenticate": {"saslStart": 1, "mechanism": "SCRAM-SHA-256"}}
    reply = answer(client, hello)
    assert reply["isWritablePrimary"] and "speculativeAuthenticate" not in reply, "what cannot be begun so is passed over"
    assert reply["saslSupportedMechs"] == ["SCRAM-SHA-1", "SCRAM-SHA-256"], "as of a user that exists"


def test_users_and_roles(client):
    for ask in (1, "me", {"user": "me", "db": "test"}, ["me", {"user": "me", "db": "test"}], {"forAllDBs": True}):
        options = {"showPrivileges": True, "showCredentials": True, "showCustomData": False}
        assert answer(client, {"usersInfo": ask, **options}, "test") == {"users": []}
    assert answer(client, {"usersInfo": 1, "filter": {"roles.role": "read"}}) == {"users": []}
    for ask in (1, "mine", {"role": "mine", "db": "test"}, ["mine"]):
        assert answer(client, {"rolesInfo": ask, "showPrivileges": True}, "test") == {"roles": []}
    fails(client, {"usersInfo": 1, "nonsense": 1}, (40415, "Location40415"))
    fails(client, {"usersInfo": True}, (14, "TypeMismatch"))
    assert answer(client, {"dropAllUsersFromDatabase": 1, "writeConcern": {"w": 1}}, "test") == {"n": 0}
    assert answer(client, {"dropAllRolesFromDatabase": 1}, "test") == {"n": 0}
    fails(client, {"dropUser": "me"}, (11, "UserNotFound"), "User 'me@test' not found", database="test")


def test_parameters_of_others(client):
    asked = {"getParameter": 1, "authSchemaVersion": 1, "ingressConnectionEstablishmentRateLimiterEnabled": 1, "acceptApiVersion2": 1}
    reply = answer(client, asked)
    assert reply["authSchemaVersion"] == 5 and reply["acceptApiVersion2"] is False
    assert reply["ingressConnectionEstablishmentRateLimiterEnabled"] is False


def test_parameters_of_what_is_not_there(client):
    """They are told, and what suites put back after a test is taken; what would have to do something is not."""
    family = {
        "ingressConnectionEstablishmentBurstCapacitySecs": 1.7976931348623157e308,
        "ingressConnectionEstablishmentMaxQueueDepth": 0,
        "ingressConnectionEstablishmentRateLimiterEnabled": False,
        "ingressConnectionEstablishmentRatePerSec": 2**31 - 1,
    }
    assert answer(client, {"getParameter": 1, **dict.fromkeys(family, 1)}) == family
    name = "ingressConnectionEstablishmentMaxQueueDepth"
    details = answer(client, {"getParameter": {"showDetails": True}, name: 1})
    assert details[name] == {"value": 0, "settableAtRuntime": False, "settableAtStartup": True}
    for name, value in family.items():
        assert answer(client, {"setParameter": 1, name: value}) == {"was": value}
        other = not value if isinstance(value, bool) else 20
        fails(client, {"setParameter": 1, name: other}, (2, "BadValue"))


def test_feature_version(client):
    fails(client, {"setFeatureCompatibilityVersion": "7.0"}, (7369100, "Location7369100"))
    assert answer(client, {"setFeatureCompatibilityVersion": "7.0", "confirm": True, "writeConcern": {"w": "majority"}}) == {}
    fails(client, {"setFeatureCompatibilityVersion": "6.0", "confirm": True}, (2, "BadValue"))


def test_help_is_a_field_of_every_command(client):
    commands = answer(client, {"listCommands": 1})["commands"]
    for name, row in commands.items():
        assert answer(client, {name: 1, "help": True}, "test") == {"help": f"help for: {name} {row['help']}"}
    assert client.test.command({"ping": 1, "help": False}) == {"ok": 1.0}


def test_plans_are_not_cached(client):
    shape = {"query": {"a": 1}, "sort": {"a": 1}, "projection": {}}
    assert answer(client, {"planCacheClear": "things", **shape}, "test") == {}
    assert answer(client, {"planCacheClearFilters": "things"}, "test") == {}
    assert answer(client, {"planCacheListFilters": "things"}, "test") == {"filters": []}


def test_small_replies(client):
    assert answer(client, {"killCursors": "things", "cursors": []}, "test") == {
        "cursorsKilled": [], "cursorsNotFound": [], "cursorsAlive": [], "cursorsUnknown": [],
    }
    fails(client, {"getLog": "nonsense"}, (96, "OperationFailed"), "No log named 'nonsense'")


def test_null_counts_as_not_given(client):
    database = client["nulls"]
    generic = {"maxTimeMS": None, "readConcern": None, "comment": None, "lsid": None, "$readPreference": None}
    try:
        options = {"capped": None, "size": None, "max": None, "validator": None, "validationLevel": None, "collation": None}
        options |= {"viewOn": None, "pipeline": None, "timeseries": None, "clusteredIndex": None, "expireAfterSeconds": None}
        assert database.command({"create": "things", **options, "writeConcern": None})["ok"] == 1.0
        assert database.command({"listCollections": 1, "cursor": {}})["cursor"]["firstBatch"][0]["options"] == {}
        documents = [{"_id": 1}]
        assert database.command({"insert": "things", "documents": documents, "ordered": None, "writeConcern": None})["n"] == 1
        find = {"find": "things", "filter": None, "sort": None, "projection": None, "hint": None, "limit": None, "skip": None}
        find |= {"batchSize": None, "singleBatch": None, "min": None, "max": None, "let": None, "collation": None, **generic}
        assert database.command(find)["cursor"]["firstBatch"] == documents
        count = {"count": "things", "query": None, "limit": None, "skip": None, "hint": None, **generic}
        assert database.command(count)["n"] == 1
        assert database.command({"distinct": "things", "key": "_id", "query": None, "hint": None, **generic})["values"] == [1]
        aggregate = {"aggregate": "things", "pipeline": [], "cursor": {"batchSize": None}, "hint": None, "let": None, **generic}
        aggregate |= {"explain": None, "allowDiskUse": None, "bypassDocumentValidation": None, "collation": None}
        assert database.command(aggregate)["cursor"]["firstBatch"] == documents
        update = {"q": {}, "u": {"$set": {"a": 1}}, "multi": None, "upsert": None, "hint": None, "collation": None, "arrayFilters": None}
        assert database.command({"update": "things", "updates": [update], "let": None})["nModified"] == 1
        modify = {"findAndModify": "things", "query": None, "sort": None, "remove": True, "upsert": None, "new": None, "fields": None}
        assert database.command({**modify, "hint": None, "maxTimeMS": None})["value"] == {"_id": 1, "a": 1}
        assert database.command({"listIndexes": "things", "cursor": None})["ok"] == 1.0
        assert database.command({"collMod": "things", "validator": None, "index": None})["ok"] == 1.0
    finally:
        client.drop_database("nulls")


def test_sizes_and_compaction(client):
    database = client["sizes"]
    try:
        database.things.insert_many({"_id": number, "text": "x" * 100} for number in range(1000))
        size = answer(client, {"dataSize": "sizes.things"}, "sizes")
        assert (size["numObjects"], size["estimate"]) == (1000, False) and size["size"] > 100_000
        assert answer(client, {"dataSize": "sizes.absent"}, "sizes")["size"] == 0
        fails(client, {"dataSize": "sizes.things", "keyPattern": {"_id": 1}, "min": {"_id": 0}, "max": {"_id": 9}}, (115, "CommandNotSupported"))
        database.things.delete_many({})
        assert answer(client, {"compact": "things", "force": True}, "sizes")["bytesFreed"] >= 0
        fails(client, {"compact": "absent"}, (26, "NamespaceNotFound"), database="sizes")
    finally:
        client.drop_database("sizes")


def test_indexes_are_built_anew(client):
    database = client["rebuilt"]
    try:
        things = database.things
        things.insert_many({"_id": number, "a": number % 7, "b": number} for number in range(500))
        things.create_index([("a", 1), ("b", -1)], name="by_a")
        things.create_index("b", unique=True)
        before = things.index_information()
        reply = answer(client, {"reIndex": "things"}, "rebuilt")
        assert (reply["nIndexesWas"], reply["nIndexes"]) == (3, 3)
        assert [index["name"] for index in reply["indexes"]] == ["_id_", "by_a", "b_1"]
        assert things.index_information() == before
        assert len(list(things.find({"a": 3}, hint="by_a"))) == len(list(things.find({"a": 3}, hint={"$natural": 1})))
        with pytest.raises(pymongo.errors.DuplicateKeyError):
            things.insert_one({"_id": 500, "b": 1})
        validated = answer(client, {"validate": "things"}, "rebuilt")
        assert validated["valid"] and validated["keysPerIndex"] == {"_id_": 500, "by_a": 500, "b_1": 500}
        fails(client, {"reIndex": "absent"}, (26, "NamespaceNotFound"), "collection does not exist", database="rebuilt")
    finally:
        client.drop_database("rebuilt")
