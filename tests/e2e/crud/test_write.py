"""Inserts, updates, deletes and findAndModify through pymongo."""

import datetime

import bson
import pytest
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from pymongo import DeleteMany, DeleteOne, InsertOne, ReplaceOne, ReturnDocument, UpdateMany, UpdateOne, WriteConcern
from pymongo.errors import BulkWriteError, DocumentTooLarge, DuplicateKeyError, WriteError


def test_insert_one_and_read_back(collection):
    result = collection.insert_one({"name": "Ada", "born": 1815})
    assert isinstance(result.inserted_id, ObjectId)
    assert collection.find_one({"name": "Ada"}) == {"_id": result.inserted_id, "name": "Ada", "born": 1815}


def test_every_type_round_trips(collection):
    document = {
        "_id": ObjectId(),
        "double": 1.5,
        "string": "grüße\x00zero",
        "object": {"a": {"b": [1, {"c": 2}]}},
        "array": [1, "two", None, [3]],
        "binary": Binary(b"\x00\x01\xff", 5),
        "bool": True,
        "date": datetime.datetime(2024, 2, 29, 12, 30, 15, 123000),
        "null": None,
        "regex": Regex("^a.*b$", "im"),
        "code": Code("function() { return 1; }"),
        "scoped": Code("function() { return x; }", {"x": 1}),
        "int": 2**31 - 1,
        "long": Int64(2**40),
        "timestamp": Timestamp(1700000000, 3),
        "decimal": Decimal128("1234.5600"),
        "min": MinKey(),
        "max": MaxKey(),
    }
    collection.insert_one(document)
    assert collection.find_one({"_id": document["_id"]}) == document


def test_id_is_added_in_front_by_the_server(client, database):
    reply = database.command("insert", "things", documents=[bson.raw_bson.RawBSONDocument(bson.encode({"a": 1}))])
    assert reply["n"] == 1
    stored = database["things"].find_one()
    assert list(stored) == ["_id", "a"]
    assert isinstance(stored["_id"], ObjectId)


def test_empty_timestamps_become_the_current_time(collection):
    """At the top level of inserted documents and replacements, and never in `_id`."""
    empty = Timestamp(0, 0)
    collection.insert_many([{"_id": empty, "at": empty, "inner": {"at": empty}}, {"_id": 1, "at": empty}])
    first, second = collection.find_one({"_id": empty}), collection.find_one({"_id": 1})
    assert first["inner"] == {"at": empty} and empty < first["at"] < second["at"]
    collection.replace_one({"_id": 1}, {"at": empty})
    replaced = collection.find_one({"_id": 1})["at"]
    assert replaced > second["at"]
    collection.update_one({"_id": 1}, {"$currentDate": {"at": {"$type": "timestamp"}}})
    assert collection.find_one({"_id": 1})["at"] > replaced
    collection.update_one({"_id": 1}, {"$set": {"at": empty}})
    assert collection.find_one({"_id": 1})["at"] == empty, "operators store what they are given"


def test_duplicate_key_names_index_and_value(collection):
    collection.insert_one({"_id": 1})
    with pytest.raises(DuplicateKeyError) as caught:
        collection.insert_one({"_id": 1})
    details = caught.value.details
    assert details["code"] == 11000
    assert details["keyPattern"] == {"_id": 1}
    assert details["keyValue"] == {"_id": 1}
    namespace = f"{collection.database.name}.things"
    assert details["errmsg"] == (
        f"E11000 duplicate key error collection: {namespace} index: _id_ dup key: {{ _id: 1 }}"
    )


def test_ids_of_equal_numbers_collide(collection):
    collection.insert_one({"_id": 1})
    for same in (1.0, Int64(1), Decimal128("1.0")):
        with pytest.raises(DuplicateKeyError):
            collection.insert_one({"_id": same})
    assert collection.find_one({"_id": 1.0}) == {"_id": 1}


def test_ordered_insert_stops_at_the_first_error(collection):
    with pytest.raises(BulkWriteError) as caught:
        collection.insert_many([{"_id": 1}, {"_id": 1}, {"_id": 2}])
    assert caught.value.details["nInserted"] == 1
    assert [error["index"] for error in caught.value.details["writeErrors"]] == [1]
    assert collection.count_documents({}) == 1


def test_unordered_insert_goes_on(collection):
    with pytest.raises(BulkWriteError) as caught:
        collection.insert_many([{"_id": 1}, {"_id": 1}, {"_id": 2}, {"_id": 2}, {"_id": 3}], ordered=False)
    assert caught.value.details["nInserted"] == 3
    assert [error["index"] for error in caught.value.details["writeErrors"]] == [1, 3]


@pytest.mark.parametrize("bad", [[1], Regex("a")])
def test_ids_that_are_not_allowed(collection, bad):
    with pytest.raises(WriteError):
        collection.insert_one({"_id": bad})
    assert collection.count_documents({}) == 0


def test_large_documents(collection):
    big = "x" * (15 * 1024 * 1024)
    collection.insert_one({"_id": 1, "big": big})
    assert len(collection.find_one({"_id": 1})["big"]) == len(big)
    with pytest.raises((DocumentTooLarge, WriteError)):
        collection.update_one({"_id": 1}, {"$set": {"more": "x" * (2 * 1024 * 1024)}})
    assert "more" not in collection.find_one({"_id": 1})


def test_bulk_insert_over_several_messages(collection):
    documents = [{"_id": number, "pad": "p" * 500} for number in range(120_000)]
    result = collection.insert_many(documents, ordered=False)
    assert len(result.inserted_ids) == 120_000
    assert collection.count_documents({}) == 120_000
    assert collection.estimated_document_count() == 120_000


def test_update_operators(collection):
    collection.insert_one({"_id": 1, "n": 1, "list": [1, 2, 3], "gone": 1, "old": "name", "low": 5, "high": 5})
    result = collection.update_one(
        {"_id": 1},
        {
            "$set": {"a.b": 1},
            "$inc": {"n": 2},
            "$unset": {"gone": ""},
            "$rename": {"old": "new"},
            "$min": {"low": 3},
            "$max": {"high": 9},
            "$push": {"list": {"$each": [0, 9], "$position": 0, "$slice": 4}},
            "$currentDate": {"at": True},
        },
    )
    assert (result.matched_count, result.modified_count) == (1, 1)
    found = collection.find_one()
    assert isinstance(found.pop("at"), datetime.datetime)
    assert found == {"_id": 1, "n": 3, "list": [0, 9, 1, 2], "low": 3, "high": 9, "a": {"b": 1}, "new": "name"}


def test_no_change_is_not_a_modification(collection):
    collection.insert_one({"_id": 1, "a": 1})
    result = collection.update_one({"_id": 1}, {"$set": {"a": 1}})
    assert (result.matched_count, result.modified_count) == (1, 0)


def test_array_updates(collection):
    collection.insert_one({"_id": 1, "grades": [80, 95, 60], "items": [{"k": 1, "v": 1}, {"k": 2, "v": 2}]})
    collection.update_one({"_id": 1, "grades": 60}, {"$set": {"grades.$": 65}})
    collection.update_one({"_id": 1}, {"$inc": {"grades.$[]": 1}})
    collection.update_one({"_id": 1}, {"$set": {"items.$[item].v": 9}}, array_filters=[{"item.k": 2}])
    collection.update_one({"_id": 1}, {"$addToSet": {"grades": {"$each": [81, 100]}}})
    collection.update_one({"_id": 1}, {"$pull": {"items": {"k": 1}}})
    assert collection.find_one() == {"_id": 1, "grades": [81, 96, 66, 100], "items": [{"k": 2, "v": 9}]}
    collection.update_one({"_id": 1}, {"$pop": {"grades": -1}})
    collection.update_one({"_id": 1}, {"$pullAll": {"grades": [96, 100]}})
    assert collection.find_one()["grades"] == [66]


def test_pipeline_update(collection):
    collection.insert_many([{"_id": 1, "a": 1, "b": 2}, {"_id": 2, "a": 5, "b": 6}])
    result = collection.update_many({}, [{"$set": {"sum": {"$add": ["$a", "$b"]}}}, {"$unset": "b"}])
    assert result.modified_count == 2
    assert list(collection.find().sort("_id", 1)) == [{"_id": 1, "a": 1, "sum": 3}, {"_id": 2, "a": 5, "sum": 11}]


def test_upserts(collection):
    result = collection.update_one({"name": "x", "n": {"$gt": 1}}, {"$set": {"a": 1}, "$setOnInsert": {"b": 2}}, upsert=True)
    assert result.upserted_id is not None
    found = collection.find_one()
    assert found == {"_id": result.upserted_id, "name": "x", "a": 1, "b": 2}
    result = collection.replace_one({"_id": 77}, {"v": 1}, upsert=True)
    assert result.upserted_id == 77
    result = collection.update_many({"name": "x"}, {"$set": {"a": 2}}, upsert=True)
    assert (result.matched_count, result.upserted_id) == (1, None)


@pytest.mark.parametrize(
    ("update", "code"),
    [
        ({"$inc": {"s": 1}}, 14),
        ({"$set": {"_id": 2}}, 66),
        ({"$set": {"s.x": 1}}, 28),
        ({"$set": {"a": 1}, "$inc": {"a": 1}}, 40),
        ({"$frobnicate": {"a": 1}}, 9),
        ({"$push": {"s": 1}}, 2),
        ({"$set": {"list.$[x]": 1}}, 2),
    ],
)
def test_update_errors(collection, update, code):
    collection.insert_one({"_id": 1, "s": "text", "list": [1]})
    before = collection.find_one()
    with pytest.raises(WriteError) as caught:
        collection.update_one({"_id": 1}, update)
    assert caught.value.code == code, caught.value.details
    assert collection.find_one() == before


def test_deletes(collection):
    collection.insert_many([{"_id": number, "even": number % 2 == 0} for number in range(10)])
    assert collection.delete_one({"even": True}).deleted_count == 1
    assert collection.delete_many({"even": True}).deleted_count == 4
    assert collection.delete_many({}).deleted_count == 5
    assert collection.delete_one({}).deleted_count == 0


def test_bulk_write(collection):
    collection.insert_many([{"_id": number, "n": 0} for number in range(5)])
    result = collection.bulk_write(
        [
            InsertOne({"_id": 10}),
            UpdateOne({"_id": 0}, {"$inc": {"n": 1}}),
            UpdateMany({"n": 0}, {"$set": {"n": 7}}),
            ReplaceOne({"_id": 11}, {"fresh": True}, upsert=True),
            DeleteOne({"_id": 1}),
            DeleteMany({"n": 7}),
        ]
    )
    assert result.inserted_count == 1
    assert result.modified_count == 5
    assert result.upserted_ids == {3: 11}
    assert result.deleted_count == 4
    assert sorted(document["_id"] for document in collection.find()) == [0, 10, 11]


def test_find_one_and_modify(collection):
    collection.insert_many([{"_id": 1, "rank": 5}, {"_id": 2, "rank": 3}])
    assert collection.find_one_and_update({}, {"$inc": {"rank": 10}}, sort=[("rank", 1)]) == {"_id": 2, "rank": 3}
    after = collection.find_one_and_update(
        {"_id": 2}, {"$set": {"seen": True}}, return_document=ReturnDocument.AFTER, projection={"_id": 0}
    )
    assert after == {"rank": 13, "seen": True}
    assert collection.find_one_and_replace({"_id": 9}, {"new": 1}, upsert=True) is None
    assert collection.find_one_and_delete({"_id": 9}) == {"_id": 9, "new": 1}
    assert collection.find_one_and_delete({"_id": 9}) is None


def test_unacknowledged_writes_arrive(collection):
    quiet = collection.with_options(write_concern=WriteConcern(w=0))
    for number in range(100):
        quiet.insert_one({"_id": number})
    # A command on the same pool is answered after the writes on its own connection only: wait for the count.
    for _ in range(200):
        if collection.count_documents({}) == 100:
            break
    assert collection.count_documents({}) == 100


@pytest.mark.parametrize("journaled", [True, False])
def test_journaled_writes(collection, journaled):
    careful = collection.with_options(write_concern=WriteConcern(w=1, j=journaled))
    assert careful.insert_one({"_id": 1}).acknowledged
    assert careful.update_one({"_id": 1}, {"$set": {"a": 1}}).modified_count == 1
    assert careful.delete_one({"_id": 1}).deleted_count == 1


def test_validator_refuses(database):
    schema = {"$jsonSchema": {"required": ["name"], "properties": {"name": {"bsonType": "string"}}}}
    database.create_collection("people", validator=schema)
    people = database["people"]
    people.insert_one({"name": "Ada"})
    with pytest.raises(WriteError) as caught:
        people.insert_one({"name": 5})
    assert caught.value.code == 121
    with pytest.raises(WriteError) as caught:
        people.update_one({"name": "Ada"}, {"$unset": {"name": ""}})
    assert caught.value.code == 121
    people.with_options(write_concern=WriteConcern(w=1)).database.command(
        "insert", "people", documents=[{"_id": 2}], bypassDocumentValidation=True
    )
    assert people.count_documents({}) == 2
