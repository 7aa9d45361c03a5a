"""The commands that backup tools, monitors, exporters and graphical clients send, in their order, with the fields they read.

The tools themselves are not here; each test says whose sequence it is. Options are written as the tools send them.
"""

import datetime
import itertools

import bson
import pytest
from bson import Int64
from pymongo.errors import OperationFailure

_numbers = itertools.count()
PRIMARY = {"mode": "primary"}


@pytest.fixture
def shop(client):
    """A database with a plain collection, an index, a capped collection and a view."""
    database = client[f"tools_{next(_numbers)}"]
    database.orders.insert_many([{"_id": number, "item": f"item{number}", "price": number / 2} for number in range(250)])
    database.command(
        "createIndexes", "orders", indexes=[{"key": {"item": 1, "price": -1}, "name": "by_item", "unique": True}],
    )
    database.command("create", "recent", capped=True, size=8192, max=10)
    database.recent.insert_one({"_id": 1})
    database.command("create", "cheap", viewOn="orders", pipeline=[{"$match": {"price": {"$lt": 1}}}])
    yield database
    client.drop_database(database.name)


def fails(database, command, code):
    with pytest.raises(OperationFailure) as failure:
        database.command(command)
    assert failure.value.code == code, failure.value
    return failure.value.details


def first_batch(database, command):
    reply = database.command(command)
    assert reply["ok"] == 1.0 and reply["cursor"]["id"] == 0
    return reply["cursor"]["firstBatch"]


def read_all(database, command):
    """Every document of a cursor, by the raw getMore."""
    cursor = database.command(command)["cursor"]
    documents = list(cursor["firstBatch"])
    name = cursor["ns"].split(".", 1)[1]
    batches = 1
    while cursor["id"]:
        cursor = database.command({"getMore": Int64(cursor["id"]), "collection": name})["cursor"]
        documents += cursor["nextBatch"]
        batches += 1
    return documents, batches


# --- mongodump and mongorestore ---------------------------------------------------------------------


def tools_connect(client):
    """What the Go tools ask after connecting: version, kind of node, feature version."""
    build = client.admin.command({"buildInfo": 1})
    assert build["version"] == ".".join(str(part) for part in build["versionArray"][:3])
    node = client.admin.command({"isMaster": 1})
    assert node["ismaster"] is True
    assert not {"setName", "hosts", "msg"} & set(node), "neither a replica set member nor a router"
    feature = client.admin.command({"getParameter": 1, "featureCompatibilityVersion": 1, "$readPreference": PRIMARY})
    assert feature["featureCompatibilityVersion"] == {"version": "7.0"}


def test_mongodump(client, shop):
    tools_connect(client)
    assert client.admin.command("serverStatus")["storageEngine"]["name"] == "rocksdb"
    names = client.admin.command({"listDatabases": 1, "nameOnly": True, "$readPreference": PRIMARY})
    assert {"name": shop.name} in names["databases"] and "totalSize" not in names
    # Users, roles and their schema version: a server without authentication has none.
    for collection in ("system.users", "system.roles"):
        assert first_batch(client.admin, {"listCollections": 1, "filter": {"name": collection}, "cursor": {}}) == []
    assert first_batch(client.admin, {"find": "system.version", "filter": {"_id": "authSchema"}, "limit": 1, "singleBatch": True}) == []

    listed = {entry["name"]: entry for entry in first_batch(shop, {"listCollections": 1, "filter": {}, "cursor": {}})}
    assert set(listed) == {"orders", "recent", "cheap"}
    assert [listed[name]["type"] for name in ("orders", "recent", "cheap")] == ["collection", "collection", "view"]
    assert listed["orders"]["info"]["readOnly"] is False and isinstance(listed["orders"]["info"]["uuid"], (bson.Binary, bytes))
    assert {key: listed["recent"]["options"][key] for key in ("capped", "size", "max")} == {"capped": True, "size": 8192, "max": 10}
    assert listed["cheap"]["options"] == {"viewOn": "orders", "pipeline": [{"$match": {"price": {"$lt": 1}}}]}

    indexes = first_batch(shop, {"listIndexes": "orders", "cursor": {}})
    assert indexes[0] == {"v": 2, "key": {"_id": 1}, "name": "_id_"}
    assert indexes[1] == {"v": 2, "key": {"item": 1, "price": -1}, "name": "by_item", "unique": True}
    assert shop.command({"count": "orders", "query": {}})["n"] == 250
    dump = {"find": "orders", "filter": {}, "hint": {"_id": 1}, "noCursorTimeout": True, "$readPreference": PRIMARY}
    documents, batches = read_all(shop, dump)
    assert [document["_id"] for document in documents] == list(range(250)) and batches >= 2
    # --forceTableScan, --query with a read preference, and views as collections.
    assert len(read_all(shop, {"find": "orders", "filter": {}, "hint": {"$natural": 1}})[0]) == 250
    assert len(read_all(shop, {"find": "orders", "filter": {"price": {"$gte": 100}}, "$readPreference": {"mode": "secondaryPreferred"}})[0]) == 50
    assert len(read_all(shop, {"find": "cheap", "filter": {}})[0]) == 2


def test_mongodump_with_oplog_finds_no_replica_set(client):
    """`--oplog` looks for the oplog's last entry; a standalone has neither a set name nor an oplog."""
    assert "setName" not in client.admin.command({"hello": 1})
    last = {"find": "oplog.rs", "filter": {}, "sort": {"$natural": -1}, "limit": 1, "singleBatch": True}
    assert first_batch(client.local, last) == []
    assert first_batch(client.local, {"listCollections": 1, "filter": {"name": "oplog.rs"}, "cursor": {}}) == []
    assert fails(client.admin, {"replSetGetStatus": 1}, 76)["codeName"] == "NoReplicationEnabled"
    watch = {"aggregate": 1, "pipeline": [{"$changeStream": {"allChangesForCluster": True}}], "cursor": {}}
    assert fails(client.admin, watch, 40573)["errmsg"] == "The $changeStream stage is only supported on replica sets"
    tail = {"find": "oplog.rs", "filter": {"ts": {"$gte": bson.Timestamp(1, 1)}}, "tailable": True, "oplogReplay": True, "awaitData": True}
    assert client.local.command(tail)["cursor"]["id"] == 0, "a tailable cursor on nothing is exhausted at once"


def test_mongorestore(client, shop):
    tools_connect(client)
    target = client[f"{shop.name}_restored"]
    source = {entry["name"]: entry for entry in first_batch(shop, {"listCollections": 1, "cursor": {}})}
    concern = {"w": "majority"}
    try:
        assert first_batch(target, {"listCollections": 1, "filter": {"name": "orders"}, "nameOnly": True, "cursor": {}}) == []
        for name in ("orders", "recent"):
            create = {"create": name, **source[name]["options"], "idIndex": source[name]["idIndex"]}
            assert target.command(create)["ok"] == 1.0
        assert target.command({"create": "cheap", **source["cheap"]["options"]})["ok"] == 1.0
        documents, _ = read_all(shop, {"find": "orders"})
        for start in range(0, 250, 100):
            batch = {
                "insert": "orders", "documents": documents[start:start + 100], "ordered": False,
                "bypassDocumentValidation": True, "writeConcern": concern,
            }
            assert target.command(batch)["n"] == min(100, 250 - start)
        again = target.command({"insert": "orders", "documents": documents[:2], "ordered": False, "writeConcern": concern})
        assert again["n"] == 0 and [error["code"] for error in again["writeErrors"]] == [11000, 11000]
        indexes = [
            {"key": {"item": 1, "price": -1}, "name": "by_item", "unique": True, "ns": f"{target.name}.orders"},
            {"v": 2, "key": {"price": 1.0}, "name": "price_1", "background": True, "safe": None},
        ]
        build = {"createIndexes": "orders", "indexes": indexes, "ignoreUnknownIndexOptions": True, "writeConcern": concern}
        built = target.command(build)
        assert (built["numIndexesBefore"], built["numIndexesAfter"]) == (1, 3)
        assert fails(target, {"createIndexes": "orders", "indexes": indexes}, 197)["codeName"] == "InvalidIndexSpecificationOption"
        assert target.command({"count": "orders"})["n"] == 250
        assert len(read_all(target, {"find": "cheap"})[0]) == 2
        # --drop
        assert target.command({"drop": "orders", "writeConcern": concern})["ns"] == f"{target.name}.orders"
        # --oplogReplay
        assert client.admin.command({"applyOps": []})["applied"] == 0
    finally:
        client.drop_database(target.name)


# --- mongoexport and mongoimport --------------------------------------------------------------------


def test_mongoexport(client, shop):
    tools_connect(client)
    assert first_batch(shop, {"listCollections": 1, "filter": {"name": "orders"}, "cursor": {}})[0]["type"] == "collection"
    counted = [{"$match": {"price": {"$gt": 100}}}, {"$group": {"_id": 1, "n": {"$sum": 1}}}]
    assert first_batch(shop, {"aggregate": "orders", "pipeline": counted, "cursor": {}}) == [{"_id": 1, "n": 49}]
    export = {
        "find": "orders", "filter": {"price": {"$gt": 100}}, "sort": {"item": 1}, "projection": {"_id": 1, "item": 1},
        "skip": 9, "limit": 20, "noCursorTimeout": True,
    }
    documents, _ = read_all(shop, export)
    assert len(documents) == 20 and set(documents[0]) == {"_id", "item"}
    assert [document["item"] for document in documents] == sorted(document["item"] for document in documents)
    # With neither sort nor query the tool asks for the order of _id.
    assert read_all(shop, {"find": "orders", "filter": {}, "hint": {"_id": 1}})[0][0]["_id"] == 0


def test_mongoimport(client, shop):
    tools_connect(client)
    concern = {"w": "majority"}
    lines = [{"_id": number, "item": f"line{number}"} for number in range(3)]
    assert shop.command({"insert": "lines", "documents": lines, "ordered": False, "writeConcern": concern})["n"] == 3
    # --mode=upsert replaces, --mode=merge sets, --mode=delete removes; each as one batch.
    upsert = [{"q": {"_id": number}, "u": {"_id": number, "item": "new"}, "upsert": True} for number in (2, 3)]
    replaced = shop.command({"update": "lines", "updates": upsert, "ordered": False, "writeConcern": concern})
    assert (replaced["n"], replaced["nModified"], replaced["upserted"]) == (2, 1, [{"index": 1, "_id": 3}])
    merge = [{"q": {"_id": 1}, "u": {"$set": {"price": 1.5}}, "upsert": True}]
    assert shop.command({"update": "lines", "updates": merge, "ordered": False, "writeConcern": concern})["nModified"] == 1
    assert shop.lines.find_one({"_id": 1}) == {"_id": 1, "item": "line1", "price": 1.5}
    delete = [{"q": {"_id": 0}, "limit": 1}]
    assert shop.command({"delete": "lines", "deletes": delete, "ordered": False, "writeConcern": concern})["n"] == 1
    assert shop.command({"drop": "lines"})["nIndexesWas"] == 1


# --- mongostat and mongotop -------------------------------------------------------------------------


def test_mongostat_reads_its_columns(client, shop):
    """The columns: opcounters, queues and active clients, network, connections, memory, faults."""
    before = client.admin.command({"serverStatus": 1, "recordStats": 0})
    shop.orders.find_one({"_id": 1})
    shop.orders.insert_one({"_id": "stat", "item": "stat"})
    shop.orders.update_one({"_id": "stat"}, {"$set": {"price": 1}})
    shop.orders.delete_one({"_id": "stat"})
    list(shop.orders.find({}, batch_size=100))
    after = client.admin.command({"serverStatus": 1, "recordStats": 0})
    grown = {name: after["opcounters"][name] - before["opcounters"][name] for name in ("insert", "query", "update", "delete", "getmore")}
    assert grown == {"insert": 1, "query": 2, "update": 1, "delete": 1, "getmore": 2}
    assert set(after["opcountersRepl"]) >= {"insert", "query", "update", "delete", "getmore", "command"}
    assert {"total", "readers", "writers"} <= set(after["globalLock"]["currentQueue"])
    clients = after["globalLock"]["activeClients"]
    assert clients["total"] == clients["readers"] + clients["writers"] and after["globalLock"]["totalTime"] > before["globalLock"]["totalTime"]
    assert after["network"]["bytesIn"] > before["network"]["bytesIn"] and after["network"]["bytesOut"] > before["network"]["bytesOut"]
    assert after["connections"]["current"] >= 1 and after["connections"]["available"] > 0
    assert after["mem"]["bits"] == 64 and after["mem"]["virtual"] >= after["mem"]["resident"] > 0
    assert after["extra_info"]["page_faults"] >= 0 and after["asserts"]["user"] >= 0
    assert isinstance(after["localTime"], datetime.datetime) and after["host"] and after["pid"] > 0
    assert "repl" not in after, "the column of a replica set's member stays empty"


def test_mongotop(client, shop):
    namespace = f"{shop.name}.orders"
    before = client.admin.command({"top": 1})["totals"]
    list(shop.orders.find())
    shop.orders.insert_one({"_id": "top", "item": "top"})
    after = client.admin.command({"top": 1})["totals"]
    assert after.pop("note") and namespace in after
    for usage in after.values():
        for part in ("total", "readLock", "writeLock", "queries", "getmore", "insert", "update", "remove", "commands"):
            assert set(usage[part]) == {"time", "count"}, part
    grown = {part: after[namespace][part]["count"] - before[namespace][part]["count"] for part in ("queries", "getmore", "insert", "total")}
    assert grown["queries"] == 1 and grown["getmore"] >= 1 and grown["insert"] == 1
    assert grown["total"] >= 3 and after[namespace]["total"]["time"] > before[namespace]["total"]["time"]


# --- exporters --------------------------------------------------------------------------------------


def test_exporter_of_the_server(client):
    """The general, diagnostic-data and replica-set collectors of the usual Prometheus exporter."""
    assert client.admin.command({"ping": 1})["ok"] == 1.0
    assert client.admin.command({"buildInfo": 1})["ok"] == 1.0 and client.admin.command({"isMaster": 1})["ismaster"]
    diagnostic = client.admin.command({"getDiagnosticData": 1})["data"]
    status = diagnostic["serverStatus"]
    for path in (
        "asserts.user", "connections.current", "connections.totalCreated", "globalLock.activeClients.readers", "mem.resident",
        "metrics.cursor.open.total", "metrics.cursor.timedOut", "metrics.document.returned", "metrics.operation.scanAndOrder",
        "metrics.queryExecutor.scanned", "metrics.queryExecutor.scannedObjects", "metrics.getLastError.wtime.num",
        "metrics.ttl.passes", "network.numRequests", "opcounters.query", "uptime", "storageEngine.name",
    ):
        value = status
        for part in path.split("."):
            assert part in value, f"{path} of serverStatus"
            value = value[part]
    assert diagnostic["start"] <= diagnostic["end"] and "systemMetrics" in diagnostic
    for command in ("replSetGetStatus", "replSetGetConfig"):
        assert fails(client.admin, {command: 1}, 76)["codeName"] == "NoReplicationEnabled"
    options = client.admin.command({"getCmdLineOpts": 1})
    assert options["argv"][1] == "serve" and options["parsed"]["storage"]["dbPath"]
    host = client.admin.command({"hostInfo": 1})
    assert host["system"]["memSizeMB"] > 0 and host["os"]["type"] == "Linux" and host["extra"]["kernelVersion"]
    pools = client.admin.command({"connPoolStats": 1})
    assert {"totalInUse", "totalAvailable", "totalCreated"} <= set(pools)
    operations = client.admin.command({"currentOp": True, "active": True, "microsecs_running": {"$exists": True}})["inprog"]
    assert any(operation["command"].get("currentOp") for operation in operations)
    assert all({"opid", "op", "ns", "microsecs_running", "client", "desc"} <= set(operation) for operation in operations)


def test_exporter_of_databases_and_collections(client, shop):
    listed = {entry["name"]: entry for entry in client.admin.command({"listDatabases": 1, "filter": {"name": shop.name}})["databases"]}
    assert listed[shop.name]["sizeOnDisk"] >= 0 and listed[shop.name]["empty"] is False
    figures = shop.command({"dbStats": 1, "scale": 1, "freeStorage": 1})
    assert (figures["db"], figures["collections"], figures["views"], figures["objects"], figures["indexes"]) == (shop.name, 2, 1, 251, 3)
    assert {"avgObjSize", "dataSize", "storageSize", "indexSize", "totalSize"} <= set(figures)
    assert 0 < figures["fsUsedSize"] <= figures["fsTotalSize"]

    list(shop.orders.find({"price": {"$gt": 3}}))
    stages = [{"$collStats": {"latencyStats": {"histograms": True}, "storageStats": {"scale": 1}, "count": {}}}]
    [report] = first_batch(shop, {"aggregate": "orders", "pipeline": stages, "cursor": {}})
    assert report["ns"] == f"{shop.name}.orders" and report["host"] and report["count"] == 250
    assert {"size", "count", "avgObjSize", "storageSize", "nindexes", "totalIndexSize", "indexSizes", "capped", "scaleFactor"} <= set(report["storageStats"])
    for kind in ("reads", "writes", "commands"):
        assert {"latency", "ops"} <= set(report["latencyStats"][kind])
    assert report["latencyStats"]["reads"]["ops"] >= 1 and report["latencyStats"]["reads"]["latency"] > 0
    assert report["latencyStats"]["writes"]["ops"] >= 1
    for item in ("item1", "item2"):
        shop.orders.find_one({"item": item})
    usage = first_batch(shop, {"aggregate": "orders", "pipeline": [{"$indexStats": {}}], "cursor": {}})
    assert {entry["name"]: entry["accesses"]["ops"] for entry in usage} == {"_id_": 0, "by_item": 2}
    for entry in usage:
        assert isinstance(entry["accesses"]["since"], datetime.datetime) and entry["key"] and entry["host"]
    classic = shop.command({"collStats": "orders", "scale": 1024})
    assert (classic["ns"], classic["count"], classic["nindexes"], classic["scaleFactor"]) == (f"{shop.name}.orders", 250, 2, 1024)
    # The profiler's entries are counted; there are none.
    assert shop.command({"count": "system.profile", "query": {}})["n"] == 0
    assert shop.command({"profile": -1})["was"] == 0


def test_agent_reads_operations_by_aggregation(client):
    """What agents that follow slow operations send."""
    stages = [{"$currentOp": {"allUsers": True, "idleConnections": True, "idleCursors": True}}, {"$match": {"type": "op"}}]
    # Monitors of clients that other tests closed are among them until their hello has waited long enough.
    operations = first_batch(client.admin, {"aggregate": 1, "pipeline": stages, "cursor": {"batchSize": 10_000}})
    assert any(operation["active"] and operation["command"].get("aggregate") == 1 for operation in operations)
    assert client.admin.command({"serverStatus": 1, "tcmalloc": 0, "locks": 1})["ok"] == 1.0
    assert client.admin.command({"getParameter": 1, "logLevel": 1})["logLevel"] == 0
    assert "global" in client.admin.command({"getLog": "*"})["names"]


# --- graphical clients and shells ---------------------------------------------------------------------


def test_client_opens_an_instance(client):
    """Start of mongosh and Compass: who am I, what is this server, what is on it."""
    hello = client.admin.command({"hello": 1, "helloOk": True})
    assert hello["isWritablePrimary"] and hello["maxWireVersion"] == 21
    status = client.admin.command({"connectionStatus": 1, "showPrivileges": True})["authInfo"]
    assert status == {"authenticatedUsers": [], "authenticatedUserRoles": [], "authenticatedUserPrivileges": []}
    feature = client.admin.command({"getParameter": 1, "featureCompatibilityVersion": 1})
    assert feature["featureCompatibilityVersion"]["version"] == "7.0"
    fails(client.admin, {"atlasVersion": 1}, 59)
    build = client.admin.command({"buildInfo": 1})
    assert build["modules"] == [] and {"gitVersion", "bits", "debug", "storageEngines", "maxBsonObjectSize"} <= set(build)
    assert client.admin.command({"getCmdLineOpts": 1})["ok"] == 1.0 and client.admin.command({"hostInfo": 1})["ok"] == 1.0
    warnings = client.admin.command({"getLog": "startupWarnings"})
    assert warnings["totalLinesWritten"] == len(warnings["log"])
    local = [{"$match": {"managedClusterType": "atlasCliLocalDevCluster"}}, {"$group": {"_id": 1, "n": {"$sum": 1}}}]
    assert first_batch(client.admin, {"aggregate": "atlascli", "pipeline": local, "cursor": {}}) == []
    names = client.admin.command({"listDatabases": 1, "nameOnly": True, "authorizedDatabases": True})["databases"]
    assert all(set(entry) == {"name"} for entry in names)


STORAGE_SUMMARY = [
    {"$collStats": {"storageStats": {}}},
    {"$group": {
        "_id": None, "capped": {"$first": "$storageStats.capped"}, "count": {"$sum": "$storageStats.count"},
        "size": {"$sum": {"$toDouble": "$storageStats.size"}}, "storageSize": {"$sum": {"$toDouble": "$storageStats.storageSize"}},
        "totalIndexSize": {"$sum": {"$toDouble": "$storageStats.totalIndexSize"}},
        "freeStorageSize": {"$sum": {"$toDouble": "$storageStats.freeStorageSize"}},
        "unscaledCollSize": {"$sum": {"$multiply": [{"$toDouble": "$storageStats.avgObjSize"}, {"$toDouble": "$storageStats.count"}]}},
        "nindexes": {"$max": "$storageStats.nindexes"},
    }},
    {"$addFields": {"avgObjSize": {"$cond": [{"$ne": ["$count", 0]}, {"$divide": ["$unscaledCollSize", {"$toDouble": "$count"}]}, 0]}}},
]


def test_client_opens_a_database(client, shop):
    listed = first_batch(shop, {"listCollections": 1, "filter": {}, "nameOnly": True, "authorizedCollections": True, "cursor": {}})
    assert sorted((entry["name"], entry["type"]) for entry in listed) == [("cheap", "view"), ("orders", "collection"), ("recent", "collection")]
    [one] = first_batch(shop, {"listCollections": 1, "filter": {"name": "recent"}, "cursor": {}})
    assert one["options"]["capped"] is True and one["idIndex"]["name"] == "_id_"
    views = {"listCollections": 1, "filter": {"type": "view"}, "cursor": {}}
    assert [entry["name"] for entry in first_batch(shop, views)] == ["cheap"]
    assert first_batch(shop, {"listCollections": 1, "filter": {"type": "timeseries"}, "cursor": {}}) == []
    [summary] = first_batch(shop, {"aggregate": "orders", "pipeline": STORAGE_SUMMARY, "cursor": {}})
    assert (summary["count"], summary["nindexes"], summary["capped"]) == (250, 2, False) and summary["avgObjSize"] > 20
    assert fails(shop, {"collStats": "cheap"}, 166)["codeName"] == "CommandNotSupportedOnView"
    on_view = {"aggregate": "cheap", "pipeline": STORAGE_SUMMARY, "cursor": {}}
    assert fails(shop, on_view, 166)["codeName"] == "CommandNotSupportedOnView"
    latencies = {"aggregate": "cheap", "pipeline": [{"$collStats": {"latencyStats": {}}}], "cursor": {}}
    assert first_batch(shop, latencies)[0]["ns"] == f"{shop.name}.cheap"


def test_client_opens_a_collection(client, shop):
    """Documents, schema, explain plan and indexes of one collection."""
    page = {"find": "orders", "filter": {}, "limit": 21, "maxTimeMS": 60_000, "$readPreference": {"mode": "secondaryPreferred"}}
    assert len(first_batch(shop, page)) == 21
    counted = [{"$match": {}}, {"$skip": 0}, {"$group": {"_id": 1, "n": {"$sum": 1}}}]
    count = {"aggregate": "orders", "pipeline": counted, "cursor": {}, "hint": "_id_", "maxTimeMS": 5_000}
    assert first_batch(shop, count) == [{"_id": 1, "n": 250}]
    sample = {"aggregate": "orders", "pipeline": [{"$match": {}}, {"$sample": {"size": 100}}], "cursor": {}, "allowDiskUse": True}
    documents, _ = read_all(shop, {**sample, "maxTimeMS": 10_000})
    assert len({document["_id"] for document in documents}) == 100

    indexed = shop.command(
        {"explain": {"find": "orders", "filter": {"item": "item7"}, "sort": {"price": 1}}, "verbosity": "executionStats"},
    )
    assert indexed["explainVersion"] == "1" and indexed["serverInfo"]["version"].startswith("7.0.")
    planner = indexed["queryPlanner"]
    assert planner["namespace"] == f"{shop.name}.orders" and planner["rejectedPlans"] == []
    stages = []
    stage = planner["winningPlan"]
    while stage:
        stages.append(stage["stage"])
        stage = stage.get("inputStage")
    assert stages[-1] == "IXSCAN" and "FETCH" in stages
    figures = indexed["executionStats"]
    assert figures["executionSuccess"] and (figures["nReturned"], figures["totalKeysExamined"], figures["totalDocsExamined"]) == (1, 1, 1)
    whole = shop.command({"explain": {"find": "orders", "filter": {"price": 3}}, "verbosity": "allPlansExecution"})
    assert whole["queryPlanner"]["winningPlan"]["stage"] == "COLLSCAN"
    assert whole["executionStats"]["totalDocsExamined"] == 250 and whole["executionStats"]["allPlansExecution"] == []
    pipeline = {"aggregate": "orders", "pipeline": [{"$match": {"item": "item7"}}, {"$count": "n"}], "cursor": {}}
    explained = shop.command({"explain": pipeline, "verbosity": "queryPlanner"})
    assert explained["ok"] == 1.0 and ("stages" in explained or "queryPlanner" in explained)

    assert [index["name"] for index in first_batch(shop, {"listIndexes": "orders", "cursor": {}})] == ["_id_", "by_item"]
    sizes = shop.command({"collStats": "orders"})["indexSizes"]
    assert set(sizes) == {"_id_", "by_item"}
    progress = [
        {"$currentOp": {"allUsers": True, "localOps": False}},
        {"$match": {"type": "op", "op": "command", "$or": [{"command.createIndexes": {"$exists": True}}, {"msg": {"$regex": "^Index Build"}}]}},
        {"$project": {"ns": 1, "progress": {"$cond": [{"$gt": ["$progress.total", 0]}, {"$divide": ["$progress.done", "$progress.total"]}, 0]}}},
    ]
    assert first_batch(client.admin, {"aggregate": 1, "pipeline": progress, "cursor": {}}) == []


def test_client_edits_a_document(shop):
    """An edit replaces the document only while the fields shown are unchanged."""
    edit = {
        "findAndModify": "orders", "query": {"_id": 7, "item": "item7"}, "update": {"$set": {"item": "edited"}, "$unset": {"price": True}},
        "new": True, "upsert": False,
    }
    reply = shop.command(edit)
    assert reply["value"] == {"_id": 7, "item": "edited"}
    assert reply["lastErrorObject"] == {"n": 1, "updatedExisting": True}
    stale = shop.command(edit)
    assert stale["value"] is None and stale["lastErrorObject"] == {"n": 0, "updatedExisting": False}


def test_client_validates_and_renames(client, shop):
    rules = {"collMod": "orders", "validator": {"$jsonSchema": {"required": ["item"]}}, "validationAction": "error", "validationLevel": "moderate"}
    assert shop.command(rules)["ok"] == 1.0
    [listed] = first_batch(shop, {"listCollections": 1, "filter": {"name": "orders"}, "cursor": {}})
    assert listed["options"]["validationLevel"] == "moderate" and listed["options"]["validator"] == rules["validator"]
    refused = shop.command({"insert": "orders", "documents": [{"_id": "bare"}]})
    [error] = refused["writeErrors"]
    assert error["code"] == 121 and error["errInfo"]["failingDocumentId"] == "bare"
    [rule] = error["errInfo"]["details"]["schemaRulesNotSatisfied"]
    assert rule["operatorName"] == "required" and rule["missingProperties"] == ["item"]
    assert shop.command({"collMod": "orders", "index": {"name": "by_item", "hidden": True}})["hidden_new"] is True
    moved = {"renameCollection": f"{shop.name}.recent", "to": f"{shop.name}.latest", "dropTarget": False}
    assert client.admin.command(moved)["ok"] == 1.0
