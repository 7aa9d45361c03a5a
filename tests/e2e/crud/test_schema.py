"""Databases, collections and indexes through pymongo."""

import threading

import pytest
from pymongo import ASCENDING, DESCENDING, HASHED, IndexModel
from pymongo.errors import CollectionInvalid, DuplicateKeyError, OperationFailure


def test_collections_come_and_go(client, database):
    database.create_collection("one")
    database["two"].insert_one({})
    assert sorted(database.list_collection_names()) == ["one", "two"]
    assert database.name in client.list_database_names()
    with pytest.raises(CollectionInvalid):
        database.create_collection("one")
    with pytest.raises(OperationFailure) as caught:
        database.command("create", "one", capped=True, size=4096)
    assert caught.value.code == 48
    database.drop_collection("one")
    database.drop_collection("never there")
    assert database.list_collection_names() == ["two"]
    client.drop_database(database.name)
    assert database.name not in client.list_database_names()


def test_options_are_kept(database):
    database.create_collection("log", capped=True, size=8192, max=10)
    (info,) = database.list_collections(filter={"name": "log"})
    assert info["type"] == "collection"
    assert info["options"]["capped"] is True
    assert info["options"]["max"] == 10
    assert info["idIndex"]["name"] == "_id_"
    assert database["log"].options()["capped"] is True


def test_rename(database):
    database["a"].insert_one({"_id": 1})
    database["a"].create_index("x")
    database["a"].rename("b")
    assert database["b"].find_one() == {"_id": 1}
    assert "x_1" in database["b"].index_information()
    database["c"].insert_one({"_id": 2})
    with pytest.raises(OperationFailure) as caught:
        database["b"].rename("c")
    assert caught.value.code == 48
    database["b"].rename("c", dropTarget=True)
    assert database["c"].find_one() == {"_id": 1}
    with pytest.raises(OperationFailure) as caught:
        database["none"].rename("other")
    assert caught.value.code == 26


def test_index_kinds_are_stored(collection):
    collection.create_indexes(
        [
            IndexModel([("a", ASCENDING), ("b", DESCENDING)], name="compound"),
            IndexModel("u", unique=True),
            IndexModel("s", sparse=True),
            IndexModel("p", partialFilterExpression={"p": {"$gt": 5}}),
            IndexModel([("h", HASHED)]),
            IndexModel("t", expireAfterSeconds=3600),
        ]
    )
    indexes = {index["name"]: index for index in collection.list_indexes()}
    assert list(indexes["compound"]["key"].items()) == [("a", 1), ("b", -1)]
    assert indexes["u_1"]["unique"] is True
    assert indexes["s_1"]["sparse"] is True
    assert indexes["p_1"]["partialFilterExpression"] == {"p": {"$gt": 5}}
    assert indexes["h_hashed"]["key"] == {"h": "hashed"}
    assert indexes["t_1"]["expireAfterSeconds"] == 3600
    assert all(index["v"] == 2 for index in indexes.values())


def test_index_conflicts(collection):
    collection.create_index("a", name="mine")
    assert collection.create_index("a", name="mine") == "mine"
    with pytest.raises(OperationFailure) as caught:
        collection.create_index("a", name="other")
    assert caught.value.code == 85
    with pytest.raises(OperationFailure) as caught:
        collection.create_index("b", name="mine")
    assert caught.value.code == 86
    with pytest.raises(OperationFailure) as caught:
        collection.create_index([("a", 5), ("b", "nonsense")])
    assert caught.value.code == 67
    with pytest.raises(OperationFailure) as caught:
        collection.drop_index("nothing")
    assert caught.value.code == 27
    with pytest.raises(OperationFailure) as caught:
        collection.drop_index("_id_")
    assert caught.value.code == 72


def test_unique_index_on_existing_data(collection):
    collection.insert_many([{"_id": 1, "u": 1}, {"_id": 2, "u": 2}, {"_id": 3, "u": 1}])
    with pytest.raises(DuplicateKeyError) as caught:
        collection.create_index("u", unique=True)
    assert caught.value.details["keyValue"] == {"u": 1}
    assert list(collection.index_information()) == ["_id_"]
    collection.delete_one({"_id": 3})
    collection.create_index("u", unique=True)
    with pytest.raises(DuplicateKeyError) as caught:
        collection.update_one({"_id": 2}, {"$set": {"u": 1}})
    assert caught.value.details["keyPattern"] == {"u": 1}
    assert collection.find_one({"_id": 2}) == {"_id": 2, "u": 2}


def test_unique_index_under_concurrency(collection):
    collection.create_index("u", unique=True)
    won = []

    def insert(worker):
        for number in range(100):
            try:
                collection.insert_one({"_id": f"{worker}-{number}", "u": number})
                won.append(number)
            except DuplicateKeyError:
                pass

    threads = [threading.Thread(target=insert, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list(range(100))
    assert collection.count_documents({}) == 100


def test_index_is_used_and_kept(collection):
    collection.insert_many([{"_id": number, "a": number % 10, "b": [number, -number]} for number in range(1_000)])
    collection.create_index([("a", 1)])
    collection.create_index([("b", 1)])
    plan = collection.find({"a": 3}).explain()
    assert plan["executionStats"]["totalDocsExamined"] == 100
    assert collection.count_documents({"b": {"$lt": -990}}) == 9
    collection.update_many({"a": 3}, {"$set": {"a": 33}})
    assert collection.count_documents({"a": 3}) == 0
    assert collection.count_documents({"a": 33}) == 100
    collection.delete_many({"a": 33})
    assert collection.find({"a": 33}).explain()["executionStats"]["totalKeysExamined"] == 0
    report = collection.database.validate_collection("things", full=True)
    assert report["valid"] is True
    # The document with b: [0, -0] has one key only: the two are equal.
    assert report["keysPerIndex"]["b_1"] == 2 * 900 - 1


def test_covered_query(collection):
    collection.insert_many([{"_id": number, "a": number, "b": str(number)} for number in range(100)])
    collection.create_index([("a", 1), ("b", 1)])
    found = list(collection.find({"a": {"$gte": 98}}, {"_id": 0, "a": 1, "b": 1}))
    assert found == [{"a": 98, "b": "98"}, {"a": 99, "b": "99"}]
    plan = collection.find({"a": {"$gte": 98}}, {"_id": 0, "a": 1, "b": 1}).explain()
    assert plan["executionStats"]["totalDocsExamined"] == 0


def test_sort_by_index_and_or(collection):
    collection.insert_many([{"_id": number, "a": number % 7, "b": number} for number in range(500)])
    collection.create_index([("a", 1), ("b", -1)])
    collection.create_index("b")
    found = [(document["a"], document["b"]) for document in collection.find({"a": {"$in": [1, 3]}}).sort([("a", 1), ("b", -1)])]
    assert found == sorted(found, key=lambda pair: (pair[0], -pair[1]))
    assert collection.count_documents({"$or": [{"a": 1}, {"b": {"$lt": 10}}]}) == sum(
        1 for number in range(500) if number % 7 == 1 or number < 10
    )
    last = [document["b"] for document in collection.find().sort("b", -1).limit(3)]
    assert last == [499, 498, 497]


def test_coll_mod(database, collection):
    collection.insert_one({"_id": 1})
    collection.create_index("t", expireAfterSeconds=60)
    reply = database.command("collMod", "things", index={"name": "t_1", "expireAfterSeconds": 120})
    assert (reply["expireAfterSeconds_old"], reply["expireAfterSeconds_new"]) == (60, 120)
    database.command("collMod", "things", validator={"a": {"$exists": True}})
    with pytest.raises(OperationFailure) as caught:
        collection.insert_one({"_id": 2})
    assert caught.value.code == 121


def test_stats(database, collection):
    collection.insert_many([{"_id": number, "pad": "x" * 100} for number in range(100)])
    collection.create_index("pad")
    stats = database.command("collStats", "things")
    assert stats["count"] == 100
    assert stats["nindexes"] == 2
    assert stats["size"] == sum(len(document.raw) for document in raw_documents(database))
    stats = database.command("dbStats")
    assert (stats["collections"], stats["objects"], stats["indexes"]) == (1, 100, 2)
    (stage,) = collection.aggregate([{"$collStats": {"count": {}}}])
    assert stage["count"] == 100
    assert sorted(index["name"] for index in collection.aggregate([{"$indexStats": {}}])) == ["_id_", "pad_1"]


def raw_documents(database):
    from bson.codec_options import CodecOptions
    from bson.raw_bson import RawBSONDocument

    return database.get_collection("things", CodecOptions(document_class=RawBSONDocument)).find()


@pytest.mark.parametrize("name", ["", "$bad", ".a", "x" * 300])
def test_bad_collection_names(database, name):
    with pytest.raises(OperationFailure) as caught:
        database.command("create", name)
    assert caught.value.code == 73


def test_bad_database_names(client):
    with pytest.raises(OperationFailure) as caught:
        client.get_database("x" * 70).command("create", "c")
    assert caught.value.code == 73


def test_unknown_options_are_refused(database):
    with pytest.raises(OperationFailure) as caught:
        database.command("create", "c", frobnicate=1)
    assert caught.value.code == 40415
    with pytest.raises(OperationFailure) as caught:
        database.command("createIndexes", "c", indexes=[{"key": {"a": 1}, "name": "a", "frobnicate": 1}])
    assert caught.value.code == 197
