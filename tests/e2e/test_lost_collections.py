"""Cursors whose collection was dropped or renamed, and what `top` tells of it."""

import pytest
from bson.int64 import Int64
from pymongo.errors import OperationFailure


@pytest.fixture
def database(client):
    database = client["lost"]
    for name in ("things", "others"):
        database[name].insert_many({"_id": number} for number in range(10))
    yield database
    for name in ("lost", "lost_too"):
        client.drop_database(name)


def open_cursor(database, name="things", **options):
    reply = database.command({"find": name, "batchSize": 2, **options})
    return reply["cursor"]["id"]


def next_batch(database, cursor, name="things"):
    with pytest.raises(OperationFailure) as failure:
        database.command({"getMore": Int64(cursor), "collection": name})
    return failure.value.code, failure.value.details["errmsg"]


def uuid_of(database, name="things"):
    [described] = database.command({"listCollections": 1, "filter": {"name": name}})["cursor"]["firstBatch"]
    return described["info"]["uuid"].as_uuid() if hasattr(described["info"]["uuid"], "as_uuid") else described["info"]["uuid"]


PREFIX = "Executor error during getMore :: caused by :: "


def check_told_once(database, cursors, message):
    for cursor in cursors:
        assert next_batch(database, cursor) == (175, PREFIX + message)
        assert next_batch(database, cursor) == (43, f"cursor id {cursor} not found"), "it is closed then"


def test_a_dropped_collection(database):
    aggregate = {"aggregate": "things", "pipeline": [{"$match": {}}], "cursor": {"batchSize": 2}}
    cursors = [open_cursor(database), open_cursor(database, sort={"x": 1}), database.command(aggregate)["cursor"]["id"]]
    other, uuid = open_cursor(database, "others"), uuid_of(database)
    database.things.drop()
    check_told_once(database, cursors, f"collection dropped. UUID {uuid}")
    assert len(database.command({"getMore": Int64(other), "collection": "others"})["cursor"]["nextBatch"]) == 8


def test_a_dropped_database(client, database):
    cursors, uuid = [open_cursor(database), open_cursor(database)], uuid_of(database)
    client.drop_database("lost")
    check_told_once(database, cursors, f"collection dropped. UUID {uuid}")


def test_a_renamed_collection(client, database):
    cursors, uuid = [open_cursor(database)], uuid_of(database)
    database.things.rename("renamed")
    check_told_once(database, cursors, f"collection renamed from 'lost.things' to 'lost.renamed'. UUID {uuid}")
    cursors, uuid = [open_cursor(database, "others")], uuid_of(database, "others")
    client.admin.command({"renameCollection": "lost.renamed", "to": "lost.others", "dropTarget": True})
    assert next_batch(database, cursors[0], "others") == (175, f"{PREFIX}collection dropped. UUID {uuid}")


def test_a_collection_of_the_same_name_is_another_one(database):
    cursor = open_cursor(database)
    database.things.drop()
    database.things.insert_many({"_id": number} for number in range(10))
    assert next_batch(database, cursor)[0] == 175


def test_top_tells_of_what_is_there(client, database):
    def told():
        return {name for name in client.admin.command("top")["totals"] if name.startswith("lost")}

    list(database.things.find())
    list(database.ghost.find())
    database.command({"count": "spectre"})
    database.command({"explain": {"find": "phantom"}})
    assert told() == {"lost.things", "lost.others"}
    database.things.rename("renamed")
    database.others.drop()
    list(database.renamed.find())
    assert told() == {"lost.renamed"}
    client.drop_database("lost")
    assert told() == set()


def test_cursors_of_lists_name_their_fields_in_order(database):
    database.things.create_index("a")
    for command in ({"listCollections": 1}, {"listIndexes": "things"}):
        reply = database.command(command)
        assert list(reply["cursor"]) == ["id", "ns", "firstBatch"] and len(reply["cursor"]["firstBatch"]) == 2
        reply = database.command({**command, "cursor": {"batchSize": 1}})
        assert reply["cursor"]["id"] != 0 and len(reply["cursor"]["firstBatch"]) == 1
        name = reply["cursor"]["ns"].split(".", 1)[1]
        more = database.command({"getMore": Int64(reply["cursor"]["id"]), "collection": name})
        assert len(more["cursor"]["nextBatch"]) == 1 and more["cursor"]["id"] == 0
    for command in ({"find": "things"}, {"aggregate": "things", "pipeline": [], "cursor": {}}, {"aggregate": "things", "pipeline": [{"$out": "copy"}], "cursor": {}}):
        assert list(database.command(command)["cursor"]) == ["firstBatch", "id", "ns"]


@pytest.mark.parametrize("command", ["find", "insert", "update", "delete", "drop", "create", "createIndexes", "dropIndexes", "listIndexes"])
def test_names_that_cannot_be(client, command):
    rest = {"insert": {"documents": [{}]}, "update": {"updates": [{"q": {}, "u": {}}]}, "delete": {"deletes": [{"q": {}, "limit": 1}]}}
    rest |= {"createIndexes": {"indexes": [{"key": {"a": 1}, "name": "a"}]}, "dropIndexes": {"index": "*"}}

    def refused(name):
        with pytest.raises(OperationFailure) as failure:
            client.lost.command({command: name, **rest.get(command, {})})
        return failure.value.code, failure.value.details["errmsg"]

    assert refused("") == (73, "Invalid namespace specified 'lost.'")
    assert refused(".a") == (73, "Collection names cannot start with '.': .a")
    assert refused(7) == (2, "collection name has invalid type int")


def test_a_name_that_is_taken(database):
    uuid = uuid_of(database)
    assert database.command({"create": "things"})["ok"] == 1.0, "the same again is no change"
    with pytest.raises(OperationFailure) as failure:
        database.command({"create": "things", "validationLevel": "off"})
    message = f'namespace lost.things already exists, but with different options: {{ uuid: UUID("{uuid}") }}'
    assert (failure.value.code, failure.value.details["errmsg"]) == (48, message)
    uuid = database.command({"create": "ring", "capped": True, "size": 4096}) and uuid_of(database, "ring")
    with pytest.raises(OperationFailure) as failure:
        database.command({"create": "ring"})
    message = f'namespace lost.ring already exists, but with different options: {{ uuid: UUID("{uuid}"), capped: true, size: 4096 }}'
    assert failure.value.details["errmsg"] == message


def test_clustered_collections(client, database):
    database.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True})
    database.create_collection("named", clusteredIndex={"key": {"_id": 1}, "unique": True, "name": "by id"})
    for name, index in (("clustered", "_id_"), ("named", "by id")):
        specification = {"v": 2, "key": {"_id": 1}, "name": index, "unique": True}
        [described] = database.command({"listCollections": 1, "filter": {"name": name}})["cursor"]["firstBatch"]
        assert described["options"] == {"clusteredIndex": specification} and "idIndex" not in described
        assert database.command("listIndexes", name)["cursor"]["firstBatch"] == [{**specification, "clustered": True}]
        # What a dump has of it makes the same collection again.
        database.command({"create": f"{name}_again", **described["options"]})
        statistics = database.command("collStats", name)
        assert statistics["clustered"] is True and statistics["nindexes"] == 0 and statistics["indexSizes"] == {}
    for wrong, code in (({"key": {"_id": 1}}, 5979700), ({"key": {"a": 1}, "unique": True}, 197), ({"key": {"_id": 1}, "unique": True, "x": 1}, 40415)):
        with pytest.raises(OperationFailure) as failure:
            database.command({"create": "wrong", "clusteredIndex": wrong})
        assert failure.value.code == code
