"""mongodump, mongorestore, mongoimport, mongostat and mongotop by what they send and how strictly they read the answers.

The tools themselves do not run here. Their command sequences are recorded, as they send them to a server of this version, and what
they decode into whole numbers must be whole numbers.
"""

import datetime
import itertools
import threading
import time

import bson
import pytest
from bson import Int64
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument

from replica_set import ReplicaSet, eventually

_numbers = itertools.count()
RAW = CodecOptions(document_class=RawBSONDocument)
CONCERN = {"w": "majority"}

EVERY_TYPE = {
    "double": 1.5, "nan": float("nan"), "string": "text\u0000with a zero \U0001f9f5", "document": {"b": 1, "a": {}}, "array": [1, [2], {}],
    "binary": bson.Binary(b"\0\1", 0), "uuid": bson.Binary(b"u" * 16, 4), "user": bson.Binary(b"", 128), "id": bson.ObjectId("0" * 24),
    "yes": True, "no": False, "date": datetime.datetime(1969, 12, 31, 23, 59, 59, 999000), "null": None,
    "regex": bson.Regex("^a/b$", "im"), "code": bson.Code("f()"), "scoped": bson.Code("g()", {"x": 1}), "int": 7,
    "timestamp": bson.Timestamp(5, 6), "empty timestamp": bson.Timestamp(0, 0), "long": Int64(1 << 40), "decimal": bson.Decimal128("2.50"),
    "minimum": bson.MinKey(), "maximum": bson.MaxKey(), "": "an empty name",
}


def commands_of(database, codec_options=None):
    """Runs commands and reads cursors to their ends, as the tools do."""

    def documents(command):
        cursor = database.command(command, codec_options=codec_options or CodecOptions())["cursor"]
        found = list(cursor["firstBatch"])
        name = cursor["ns"].split(".", 1)[1]
        while cursor["id"]:
            more = {"getMore": Int64(cursor["id"]), "collection": name}
            cursor = database.command(more, codec_options=codec_options or CodecOptions())["cursor"]
            found += cursor["nextBatch"]
        return found

    return documents


@pytest.fixture
def source(client):
    """A database with what a dump has to carry: types, indexes, options, a capped collection, views."""
    database = client[f"dumped_{next(_numbers)}"]
    database.types.insert_one({"_id": 0, **EVERY_TYPE})
    # Every type as _id that can be one.
    ids = [value for name, value in EVERY_TYPE.items() if name not in ("array", "regex", "nan")]
    database.types.insert_many([{"_id": {"of": value}} for value in ids])
    rules = {"$jsonSchema": {"required": ["n"]}}
    database.create_collection("ruled", validator=rules, validationLevel="moderate", validationAction="warn")
    database.ruled.insert_many([{"_id": number, "n": number, "pad": "x" * 200} for number in range(500)])
    indexes = [
        {"v": 2, "key": {"n": -1, "pad": 1}, "name": "both", "unique": True},
        {"v": 2, "key": {"pad": 1}, "name": "partial", "partialFilterExpression": {"n": {"$gt": 3}}},
        {"v": 2, "key": {"n": 1}, "name": "sparse", "sparse": True, "hidden": True},
        {"v": 2, "key": {"at": 1}, "name": "ttl", "expireAfterSeconds": 3600},
        {"v": 2, "key": {"n": "hashed"}, "name": "hashed"},
    ]
    database.command("createIndexes", "ruled", indexes=indexes)
    database.create_collection("recent", capped=True, size=8192, max=10)
    database.recent.insert_many([{"_id": number} for number in (3, 1, 2)])
    database.create_collection("few", viewOn="ruled", pipeline=[{"$match": {"n": {"$lt": 3}}}])
    database.create_collection("fewer", viewOn="few", pipeline=[{"$match": {"n": {"$lt": 1}}}])
    yield database
    client.drop_database(database.name)


def dump(database, of=None):
    """What mongodump writes: for each collection its metadata and the very bytes of its documents."""
    commands, raw = commands_of(database), commands_of(database, RAW)
    dumped = {}
    for entry in commands({"listCollections": 1, "filter": {"name": of} if of else {}, "cursor": {}}):
        name, view = entry["name"], entry["type"] == "view"
        if name.startswith("system."):
            continue
        metadata = {"options": entry["options"], "indexes": [] if view else commands({"listIndexes": name, "cursor": {}})}
        hint = {} if "capped" in entry["options"] else {"hint": {"_id": 1}}
        find = {"find": name, "filter": {}, "noCursorTimeout": True, **hint, "$readPreference": {"mode": "primary"}}
        dumped[name] = metadata, [] if view else [document.raw for document in raw(find)]
    return dumped


def restore(database, dumped):
    """What mongorestore sends to a server of this version."""
    for name, (metadata, documents) in dumped.items():
        id_index = [index for index in metadata["indexes"] if index["name"] == "_id_"]
        create = {"create": name, **metadata["options"], **({"idIndex": id_index[0]} if id_index else {})}
        assert database.command(create)["ok"] == 1.0
        for first in range(0, len(documents), 100):
            batch = [RawBSONDocument(raw) for raw in documents[first:first + 100]]
            insert = {
                "insert": name, "documents": batch, "ordered": "capped" in metadata["options"], "writeConcern": CONCERN,
                "bypassDocumentValidation": True, "bypassEmptyTsReplacement": True,
            }
            reply = database.command(insert)
            assert reply["n"] == len(batch) and "writeErrors" not in reply, reply
        rest = [index for index in metadata["indexes"] if index["name"] != "_id_"]
        if rest:
            build = {"createIndexes": name, "indexes": rest, "ignoreUnknownIndexOptions": True, "writeConcern": CONCERN}
            assert database.command(build)["numIndexesAfter"] == len(metadata["indexes"])


def test_dump_and_restore_give_the_same_database(client, source):
    dumped = dump(source)
    assert set(dumped) == {"types", "ruled", "recent", "few", "fewer"}
    assert len(dumped["ruled"][0]["indexes"]) == 6 and len(dumped["ruled"][1]) == 500
    target = client[f"{source.name}_restored"]
    try:
        restore(target, dumped)
        again = dump(target)
        for name in dumped:
            assert again[name][0] == dumped[name][0], f"options or indexes of {name}"
            assert again[name][1] == dumped[name][1], f"bytes of the documents of {name}"
        assert [document["_id"] for document in target.recent.find()] == [3, 1, 2], "a capped collection keeps its order"
        assert len(list(target.few.find())) == 3 and len(list(target.fewer.find())) == 1
        # --drop restores over what is there.
        for name in dumped:
            target.command({"drop": name, "writeConcern": CONCERN})
        restore(target, dumped)
        assert dump(target) == again
    finally:
        client.drop_database(target.name)


# --- mongodump --oplog and mongorestore --oplogReplay -------------------------------------------------


def newest(local):
    return local["oplog.rs"].find().sort("$natural", -1).limit(1).next()["ts"]


def oplog_start(set_client):
    """Where the entries of a dump begin: at the oldest transaction that is open, or now."""
    assert set_client.admin.command("isMaster")["hosts"], "by which the tool knows a set"
    now = newest(set_client.local)
    is_open = {"state": {"$in": ["prepared", "inProgress"]}}
    oldest = {"find": "transactions", "filter": is_open, "sort": {"startOpTime": 1}, "limit": 1, "singleBatch": True}
    assert set_client.config.command(oldest)["cursor"]["firstBatch"] == []
    return now


def dump_oplog(set_client, start):
    local = set_client.local
    end = newest(local)
    oldest = local["oplog.rs"].find().sort("$natural", 1).limit(1).next()["ts"]
    assert oldest <= start, "what happened while it was dumped is still there"
    between = {"$and": [{"ts": {"$gte": start}}, {"ts": {"$lte": end}}]}
    return commands_of(local)({"find": "oplog.rs", "filter": between, "oplogReplay": True, "noCursorTimeout": True})


def replay(client, entries):
    """As the tool does it: without UUIDs, and what was done together one by one."""
    for entry in entries:
        if entry["op"] == "n" or entry["ns"].startswith("config."):
            continue
        if entry["op"] == "c" and "applyOps" in entry["o"] and "lsid" in entry:
            replay(client, entry["o"]["applyOps"])
            continue
        entry.pop("ui", None)
        done = client.admin.command({"applyOps": [entry]})
        assert done["results"] == [True], done


def changing(database, is_dumped, stopping):
    """What a dump meets: documents that come, change and go, and collections that do once it has begun."""
    number = 0
    while not stopping.is_set():
        number += 1
        database.things.insert_many([{"_id": number * 10 + place, "n": 0, "list": [1]} for place in range(5)])
        database.things.update_one({"_id": number * 5}, {"$inc": {"n": 1}, "$push": {"list": number}}, upsert=True)
        database.things.update_many({"n": 0, "_id": {"$lt": 60}}, {"$set": {"n": number, "text": "x" * 40}})
        database.things.replace_one({"_id": number * 10}, {"whole": number})
        database.things.delete_one({"_id": number * 10 + 3})
        database.counters.find_one_and_update({"_id": number % 7}, {"$inc": {"count": 1}}, upsert=True)
        if is_dumped.is_set() and number % 20 == 0:
            database.create_collection(f"made{number}").insert_one({"_id": number})
            database[f"made{number}"].rename(f"renamed{number}")
        if is_dumped.is_set() and number % 40 == 0:
            database[f"renamed{number}"].drop()


def test_dump_with_the_oplog_is_of_one_moment(client, tmp_path):
    running = ReplicaSet(tmp_path, 1)
    target = client[f"at_once_{next(_numbers)}"]
    try:
        with running.client() as source:
            database, is_dumped, stopping = source[target.name], threading.Event(), threading.Event()
            database.things.insert_many([{"_id": -number, "n": 1} for number in range(1, 400)])
            thread = threading.Thread(target=changing, args=(database, is_dumped, stopping))
            thread.start()
            try:
                eventually("some changes", lambda: database.counters.count_documents({}) == 7)
                start, dumped = oplog_start(source), {}
                is_dumped.set()
                for name in ("counters", "things"):
                    dumped |= dump(database, name)
                    # What is dumped next is of another time.
                    eventually("further changes", lambda: len(database.list_collection_names()) > 2 * len(dumped) + 2)
            finally:
                stopping.set()
                thread.join()
            entries = dump_oplog(source, start)
            assert len(entries) > 100
            expected = dump(database)
        restore(target, dumped)
        replay(client, entries)
        assert {name: documents for name, (_, documents) in dump(target).items()} == {
            name: documents for name, (_, documents) in expected.items()
        }
    finally:
        client.drop_database(target.name)
        running.kill_all()


def test_import_modes(client):
    database = client[f"imported_{next(_numbers)}"]
    try:
        lines = [{"_id": number, "item": f"item{number}", "price": number} for number in range(5)]
        common = {"ordered": False, "writeConcern": CONCERN, "bypassEmptyTsReplacement": True}
        insert = {"insert": "lines", "documents": lines, "bypassDocumentValidation": False, **common}
        assert database.command(insert)["n"] == 5
        again = database.command(insert)
        assert again["n"] == 0 and [error["code"] for error in again["writeErrors"]] == [11000] * 5
        # upsert replaces by the fields of --upsertFields, merge sets, delete removes; each as one batch.
        upsert = [{"q": {"item": f"item{number}"}, "u": {"item": f"item{number}", "new": True}, "upsert": True} for number in (4, 5)]
        replaced = database.command({"update": "lines", "updates": upsert, **common})
        assert (replaced["n"], replaced["nModified"], len(replaced["upserted"])) == (2, 1, 1)
        assert database.lines.find_one({"item": "item4"}) == {"_id": 4, "item": "item4", "new": True}
        merge = [{"q": {"_id": 1}, "u": {"$set": {"at": bson.Timestamp(0, 0)}}, "upsert": True}]
        assert database.command({"update": "lines", "updates": merge, **common})["nModified"] == 1
        delete = {"delete": "lines", "deletes": [{"q": {"_id": 0}, "limit": 1}], "ordered": False, "writeConcern": CONCERN}
        assert database.command(delete)["n"] == 1
        merged = database.lines.find_one({"_id": 1})
        assert (merged["item"], merged["price"]) == ("item1", 1), "merging keeps what it does not name"
        # --drop
        assert database.command({"drop": "lines", "writeConcern": CONCERN})["ok"] == 1.0
    finally:
        client.drop_database(database.name)


# --- mongostat and mongotop -------------------------------------------------------------------------

# What mongostat decodes into 64-bit integers, and refuses the whole answer when it is a fraction or something else.
WHOLE = {
    "": ("pid", "uptime", "uptimeMillis", "uptimeEstimate"),
    "asserts": None,
    "extra_info": ("page_faults",),
    "connections": ("current", "available", "totalCreated"),
    "globalLock": ("totalTime",),
    "globalLock.currentQueue": ("total", "readers", "writers"),
    "globalLock.activeClients": ("total", "readers", "writers"),
    "network": ("bytesIn", "bytesOut", "numRequests"),
    "opcounters": ("insert", "query", "update", "delete", "getmore", "command"),
    "opcountersRepl": ("insert", "query", "update", "delete", "getmore", "command"),
    "mem": ("bits", "resident", "virtual"),
    "wiredTiger.transaction": ("transaction checkpoints",),
    "wiredTiger.concurrentTransactions.read": ("out",),
    "wiredTiger.concurrentTransactions.write": ("out",),
    "wiredTiger.cache": ("tracked dirty bytes in the cache", "bytes currently in the cache", "maximum bytes configured"),
}


def is_whole(value):
    """Go decodes a double into an integer too, unless it has a fraction."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and float(value).is_integer()


def part(status, path):
    for name in path.split(".") if path else ():
        status = status.get(name, {})
    return status


def poll(client):
    """One sample of mongostat, checked as it decodes it."""
    status = client.admin.command({"serverStatus": 1, "recordStats": 0})
    for path, names in WHOLE.items():
        found = part(status, path)
        for name in names or found:
            assert name in found, f"{path}.{name} is missing"
            assert is_whole(found[name]), f"{path}.{name} is {found[name]!r}"
    assert isinstance(status["localTime"], datetime.datetime)
    assert all(isinstance(status[name], str) for name in ("host", "version", "process"))
    return status


def test_mongostat_polls_while_a_load_runs(client, server):
    done, inserted = threading.Event(), []

    def load():
        with server.client() as own:
            while not done.is_set():
                own.tools_load.lines.insert_one({})
                inserted.append(1)

    before = poll(client)
    thread = threading.Thread(target=load)
    thread.start()
    polls = []
    try:
        for _ in range(4):
            time.sleep(0.2)
            polls.append(poll(client))
    finally:
        done.set()
        thread.join()
        client.drop_database("tools_load")
    after = poll(client)
    counts = [status["opcounters"]["insert"] for status in (before, *polls, after)]
    assert counts == sorted(counts) and counts[-2] > counts[0], "inserts are counted while they happen"
    assert counts[-1] - counts[0] == len(inserted)
    assert all(one["uptimeMillis"] < other["uptimeMillis"] for one, other in itertools.pairwise(polls))
    assert all(one["network"]["bytesIn"] < other["network"]["bytesIn"] for one, other in itertools.pairwise(polls))
    assert abs(after["uptime"] * 1000 - after["uptimeMillis"]) <= 1000


def test_mongotop_reads_whole_numbers(client):
    client.tools_top.lines.insert_one({"_id": 1})
    first = client.admin.command({"top": 1})["totals"]
    for _ in range(5):
        list(client.tools_top.lines.find())
    client.tools_top.lines.insert_many([{"_id": number} for number in range(2, 5)])
    second = client.admin.command({"top": 1})["totals"]
    for namespace, usage in second.items():
        if namespace == "note":
            continue
        for name in ("total", "readLock", "writeLock"):
            assert is_whole(usage[name]["time"]) and is_whole(usage[name]["count"]), f"{namespace} {name}"
    one, other = first["tools_top.lines"], second["tools_top.lines"]
    assert other["readLock"]["count"] - one["readLock"]["count"] == 5
    assert other["writeLock"]["count"] - one["writeLock"]["count"] == 1
    assert other["total"]["time"] >= one["total"]["time"] > 0
    client.drop_database("tools_top")


def test_mongostat_counts_flushes(client):
    def flushes():
        return client.admin.command({"serverStatus": 1})["wiredTiger"]["transaction"]["transaction checkpoints"]

    client.tools_flush.lines.insert_one({})
    before = flushes()
    client.admin.command("fsync")
    assert flushes() > before
    client.drop_database("tools_flush")
