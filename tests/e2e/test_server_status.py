"""Figures as strict clients decode them: the type of every field, as Go, Java and C# programs declare it.

`whole` is a double without a fraction, which a Go integer takes; a `count` is 32 bits wide while it fits and 64 beyond.
"""

import datetime

import pytest
from bson.int64 import Int64


def whole(value):
    return type(value) is float and value.is_integer()


def double(value):
    return type(value) is float


def long(value):
    return type(value) is Int64


def integer(value):
    return type(value) is int


def count(value):
    return type(value) is int or (type(value) is Int64 and value >= 1 << 31)


def boolean(value):
    return type(value) is bool


def text(value):
    return type(value) is str


def date(value):
    return type(value) is datetime.datetime


def check(document, shape, place=""):
    """Every field of the shape is there with its type. `{"*": type}` speaks of all fields of a document."""
    for name, expect in shape.items():
        for found in document if name == "*" else [name]:
            where = f"{place}.{found}"
            assert found in document, f"{where} is missing"
            value = document[found]
            if isinstance(expect, dict):
                assert isinstance(value, dict), where
                check(value, expect, where)
            else:
                assert expect(value), f"{where} is {value!r} ({type(value).__name__}), not {expect.__name__}"


CLIENTS = {"total": integer, "readers": integer, "writers": integer}
LATENCY = {"latency": long, "ops": long}
TICKETS = {"out": integer, "available": integer, "totalTickets": integer}
OPERATIONS = {name: long for name in ("insert", "query", "update", "delete", "getmore", "command")}

SERVER_STATUS = {
    "host": text, "version": text, "process": text, "pid": long, "uptime": whole, "uptimeMillis": long, "uptimeEstimate": long,
    "localTime": date,
    "asserts": {name: integer for name in ("regular", "warning", "msg", "user", "tripwire", "rollovers")},
    "catalogStats": {
        name: integer for name in ("collections", "capped", "clustered", "timeseries", "views", "internalCollections", "internalViews")
    },
    "connections": {name: integer for name in ("current", "available", "totalCreated", "rejected", "active", "threaded")},
    "extra_info": {
        "note": text, "user_time_us": long, "system_time_us": long, "maximum_resident_set_kb": long, "page_reclaims": long,
        "page_faults": long,
    },
    "globalLock": {"totalTime": long, "currentQueue": CLIENTS, "activeClients": CLIENTS},
    "locks": {},
    "logicalSessionRecordCache": {"activeSessionsCount": integer},
    "network": {name: long for name in ("bytesIn", "bytesOut", "physicalBytesIn", "physicalBytesOut", "numRequests")},
    "opLatencies": {name: LATENCY for name in ("reads", "writes", "commands", "transactions")},
    "opcounters": OPERATIONS, "opcountersRepl": OPERATIONS,
    "security": {"authentication": {"saslSupportedMechsReceived": long, "mechanisms": {"*": {"authenticate": {"received": long, "successful": long}}}}},
    "storageEngine": {"name": text, "supportsCommittedReads": boolean, "persistent": boolean, "readOnly": boolean},
    "tcmalloc": {"generic": {"heap_size": long}},
    "transactions": {
        name: long
        for name in (
            "retriedCommandsCount", "retriedStatementsCount", "transactionsCollectionWriteCount", "currentActive", "currentInactive",
            "currentOpen", "totalAborted", "totalCommitted", "totalStarted", "totalPrepared", "totalPreparedThenCommitted",
            "totalPreparedThenAborted", "currentPrepared",
        )
    },
    "wiredTiger": {
        "cache": {
            "bytes currently in the cache": long, "maximum bytes configured": long, "tracked dirty bytes in the cache": long,
            "bytes read into cache": long, "bytes written from cache": long,
        },
        "transaction": {"transaction checkpoints": long},
        "concurrentTransactions": {"read": TICKETS, "write": TICKETS},
    },
    "mem": {"bits": integer, "resident": integer, "virtual": integer, "supported": boolean},
    "metrics": {
        "commands": {"*": {"failed": long, "total": long}},
        "cursor": {"timedOut": long, "totalOpened": long, "open": {"noTimeout": long, "pinned": long, "total": long}},
        "document": {name: long for name in ("deleted", "inserted", "returned", "updated")},
        "operation": {"scanAndOrder": long, "writeConflicts": long},
        "queryExecutor": {"scanned": long, "scannedObjects": long, "collectionScans": {"nonTailable": long, "total": long}},
        "ttl": {name: long for name in ("deletedDocuments", "invalidTTLIndexSkips", "passes", "subPasses")},
    },
    "ok": whole,
}

COLLECTION = {
    "size": count, "count": count, "avgObjSize": count, "numOrphanDocs": integer, "storageSize": count, "freeStorageSize": count,
    "capped": boolean, "nindexes": integer, "totalIndexSize": count, "totalSize": count, "indexSizes": {"*": count}, "scaleFactor": integer,
}


@pytest.fixture
def database(client):
    database = client["figures"]
    database.things.insert_many({"_id": number, "a": number} for number in range(20))
    database.things.create_index("a")
    yield database
    client.drop_database("figures")


def test_server_status(client, database):
    check(client.admin.command("serverStatus"), SERVER_STATUS, "serverStatus")


def test_statistics(client, database):
    status = database.command("dbStats", freeStorage=1)
    numbers = {name: double for name in ("avgObjSize", "dataSize", "storageSize", "indexSize", "totalSize", "fsUsedSize", "fsTotalSize")}
    free = {name: double for name in ("freeStorageSize", "indexFreeStorageSize", "totalFreeStorageSize")}
    longs = {name: long for name in ("collections", "views", "objects", "indexes", "scaleFactor")}
    check(status, {"db": text, **numbers, **free, **longs}, "dbStats")
    assert not set(free) & set(database.command("dbStats")), "only who asks is told"
    check(database.command("collStats", "things"), {"ns": text, **COLLECTION}, "collStats")
    database.create_collection("ring", capped=True, size=8192, max=10)
    check(database.command("collStats", "ring"), {"max": integer, "maxSize": count}, "collStats")
    [report] = database.things.aggregate([{"$collStats": {"storageStats": {}, "count": {}}}])
    check(report, {"storageStats": COLLECTION, "count": count}, "$collStats")
    validated = database.command("validate", "things")
    figures = {"nInvalidDocuments": long, "nrecords": count, "nIndexes": integer, "keysPerIndex": {"*": count}, "valid": boolean}
    check(validated, figures, "validate")


def test_machine_and_build(client):
    system = {
        "currentTime": date, "hostname": text, "cpuAddrSize": integer, "memSizeMB": long, "memLimitMB": long, "numCores": integer,
        "numCoresAvailableToProcess": integer, "numPhysicalCores": integer, "cpuArch": text, "numaEnabled": boolean,
    }
    os = {"type": text, "name": text, "version": text}
    extra = {"versionString": text, "kernelVersion": text}
    check(client.admin.command("hostInfo"), {"system": system, "os": os, "extra": extra}, "hostInfo")
    pools = ("numClientConnections", "numAScopedConnections", "totalInUse", "totalAvailable", "totalCreated", "totalRefreshing")
    check(client.admin.command("connPoolStats"), {**{name: integer for name in pools}, "hosts": {}}, "connPoolStats")
    build = {"version": text, "gitVersion": text, "bits": integer, "debug": boolean, "maxBsonObjectSize": integer}
    reply = client.admin.command("buildInfo")
    check(reply, build, "buildInfo")
    assert all(integer(number) for number in reply["versionArray"])


def test_top(client, database):
    list(database.things.find())
    totals = client.admin.command("top")["totals"]
    parts = ("total", "readLock", "writeLock", "queries", "getmore", "insert", "update", "remove", "commands")
    check(totals["figures.things"], {name: {"time": count, "count": count} for name in parts}, "top")


def test_latencies_grow_with_the_work(client, database):
    def operations():
        latencies = client.admin.command("serverStatus")["opLatencies"]
        return {name: latencies[name]["ops"] for name in ("reads", "writes", "commands")}

    before = operations()
    list(database.things.find().batch_size(5))
    list(database.things.aggregate([{"$match": {}}]))
    database.things.distinct("a")
    database.things.insert_one({})
    database.things.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}})
    client.admin.command("ping")
    after = operations()
    # The server is shared with monitors, which only run commands.
    grown = {name: after[name] - before[name] for name in before}
    assert grown["reads"] >= 6 and grown["writes"] == 2 and grown["commands"] >= 2


def test_kinds_of_names(client, database):
    before = client.admin.command("serverStatus")["catalogStats"]
    database.create_collection("ring", capped=True, size=8192)
    database.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True})
    database.create_collection("view", viewOn="things")
    after = client.admin.command("serverStatus")["catalogStats"]
    grown = {name: after[name] - before[name] for name in before if after[name] != before[name]}
    assert grown == {"collections": 2, "capped": 1, "clustered": 1, "views": 1}


def test_the_cache_holds_what_was_read(client, database):
    engine = client.admin.command("serverStatus")["wiredTiger"]
    cache = engine["cache"]
    assert 0 < cache["bytes currently in the cache"] <= cache["maximum bytes configured"]
    assert cache["tracked dirty bytes in the cache"] > 0, "what was just inserted is in no table yet"
    flushes = engine["transaction"]["transaction checkpoints"]
    client.admin.command("fsync")
    engine = client.admin.command("serverStatus")["wiredTiger"]
    assert engine["transaction"]["transaction checkpoints"] > flushes, "mongostat's flushes"
    assert client.admin.command("serverStatus")["tcmalloc"]["generic"]["heap_size"] > 1 << 20
