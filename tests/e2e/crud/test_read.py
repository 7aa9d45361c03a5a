"""Queries, projections, sorts and cursors through pymongo."""

import re
import time

import pytest
from bson import Int64, MaxKey, MinKey
from pymongo import ASCENDING, DESCENDING, CursorType
from pymongo.errors import CursorNotFound, ExecutionTimeout, OperationFailure


def ids(cursor):
    return [document["_id"] for document in cursor]


@pytest.fixture
def people(collection):
    collection.insert_many(
        [
            {"_id": 1, "name": "Ada", "age": 36, "tags": ["a", "b"], "address": {"city": "London", "zip": 1}},
            {"_id": 2, "name": "Alan", "age": 41, "tags": ["b"], "address": {"city": "Wilmslow"}},
            {"_id": 3, "name": "Grace", "age": 85, "tags": [], "scores": [{"k": 1, "v": 5}, {"k": 2, "v": 9}]},
            {"_id": 4, "name": "Edsger", "age": None, "tags": ["c", "a", "d"]},
            {"_id": 5, "name": "Barbara", "scores": [{"k": 1, "v": 9}, {"k": 2, "v": 5}]},
        ]
    )
    return collection


@pytest.mark.parametrize(
    ("query", "expect"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"age": 36}, [1]),
        ({"age": {"$gt": 36}}, [2, 3]),
        ({"age": {"$gte": 36, "$lt": 85}}, [1, 2]),
        ({"age": None}, [4, 5]),
        ({"age": {"$exists": False}}, [5]),
        ({"age": {"$ne": 36}}, [2, 3, 4, 5]),
        ({"age": {"$in": [36, 85, None]}}, [1, 3, 4, 5]),
        ({"age": {"$nin": [36, None]}}, [2, 3]),
        ({"age": {"$type": "null"}}, [4]),
        ({"age": {"$not": {"$gt": 40}}}, [1, 4, 5]),
        ({"tags": "a"}, [1, 4]),
        ({"tags": ["b"]}, [2]),
        ({"tags": {"$all": ["a", "b"]}}, [1]),
        ({"tags": {"$size": 0}}, [3]),
        ({"tags.0": "a"}, [1]),
        ({"address.city": "London"}, [1]),
        ({"address": {"city": "Wilmslow"}}, [2]),
        ({"scores.v": 9}, [3, 5]),
        ({"scores": {"$elemMatch": {"k": 1, "v": 9}}}, [5]),
        ({"name": re.compile("^A")}, [1, 2]),
        ({"name": {"$regex": "a$", "$options": "i"}}, [1, 5]),
        ({"name": {"$in": [re.compile("^Gr"), "Ada"]}}, [1, 3]),
        ({"age": {"$mod": [5, 1]}}, [1, 2]),
        ({"$or": [{"age": 36}, {"name": "Grace"}]}, [1, 3]),
        ({"$nor": [{"age": 36}, {"name": "Grace"}]}, [2, 4, 5]),
        ({"$and": [{"age": {"$gt": 1}}, {"tags": "b"}]}, [1, 2]),
        ({"$expr": {"$gt": ["$age", 40]}}, [2, 3]),
        ({"$comment": "why", "_id": {"$lte": 2}}, [1, 2]),
    ],
)
def test_filters(people, query, expect):
    assert ids(people.find(query).sort("_id", 1)) == expect
    assert people.count_documents(query) == len(expect)


@pytest.mark.parametrize(
    ("projection", "expect"),
    [
        ({"name": 1}, {"_id": 1, "name": "Ada"}),
        ({"name": 1, "_id": 0}, {"name": "Ada"}),
        ({"tags": 0, "address": 0, "age": 0}, {"_id": 1, "name": "Ada"}),
        ({"address.city": 1}, {"_id": 1, "address": {"city": "London"}}),
        ({"tags": {"$slice": -1}, "name": 1, "_id": 0}, {"name": "Ada", "tags": ["b"]}),
        ({"_id": 0, "next": {"$add": ["$age", 1]}}, {"next": 37}),
    ],
)
def test_projections(people, projection, expect):
    assert people.find_one({"_id": 1}, projection) == expect


def test_array_projections(people):
    assert people.find_one({"_id": 3}, {"scores": {"$elemMatch": {"v": 9}}, "_id": 0}) == {"scores": [{"k": 2, "v": 9}]}
    assert people.find_one({"scores.v": 9, "_id": 3}, {"scores.$": 1, "_id": 0}) == {"scores": [{"k": 2, "v": 9}]}


def test_sort_orders_types_as_mongodb_does(collection):
    values = [MinKey(), None, -5, 0.5, Int64(7), "a", "b", {"x": 1}, [0.25], b"bin", True, MaxKey()]
    collection.insert_many([{"_id": number, "v": value} for number, value in enumerate(values)])
    # An array sorts by its smallest element, here between 0 and 0.5.
    assert ids(collection.find().sort("v", ASCENDING)) == [0, 1, 2, 8, 3, 4, 5, 6, 7, 9, 10, 11]
    assert ids(collection.find().sort("v", DESCENDING)) == [11, 10, 9, 7, 6, 5, 4, 3, 8, 2, 1, 0]


def test_sort_skip_limit(people):
    assert ids(people.find().sort([("age", -1), ("_id", 1)]).skip(1).limit(2)) == [2, 1]
    assert ids(people.find().sort("_id", -1).limit(-2)) == [5, 4]


def test_cursor_over_several_batches(collection):
    collection.insert_many([{"_id": number} for number in range(1_000)])
    assert ids(collection.find(batch_size=7)) == list(range(1_000))
    cursor = collection.find(batch_size=10).sort("_id", -1)
    assert next(cursor)["_id"] == 999
    assert cursor.cursor_id != 0
    cursor.close()
    raw = collection.database.command("find", "things", batchSize=2)["cursor"]
    assert len(raw["firstBatch"]) == 2
    killed = collection.database.command("killCursors", "things", cursors=[raw["id"], Int64(12345)])
    assert killed["cursorsKilled"] == [raw["id"]]
    assert killed["cursorsNotFound"] == [12345]
    with pytest.raises(OperationFailure) as caught:
        collection.database.command("getMore", raw["id"], collection="things")
    assert caught.value.code == 43


def test_batches_stay_under_the_message_limit(collection):
    for number in range(30):
        collection.insert_one({"_id": number, "pad": "x" * 1_000_000})
    assert ids(collection.find()) == list(range(30))


def test_cursor_sees_writes_between_batches_without_duplicates(collection):
    collection.insert_many([{"_id": number, "v": 0} for number in range(0, 200, 2)])
    seen = []
    for document in collection.find(batch_size=10).sort("_id", 1):
        seen.append(document["_id"])
        if document["_id"] == 50:
            collection.delete_one({"_id": 100})
            collection.insert_one({"_id": 151})
    assert seen == sorted(set(seen))
    assert 100 not in seen and 151 in seen


def test_distinct_and_counts(people):
    assert sorted(people.distinct("tags")) == ["a", "b", "c", "d"]
    assert people.distinct("address.city", {"age": {"$lt": 40}}) == ["London"]
    assert people.count_documents({"age": {"$gt": 1}}, skip=1, limit=5) == 2
    assert people.estimated_document_count() == 5


def test_let_and_comment(people):
    assert ids(people.find({"$expr": {"$eq": ["$name", "$$who"]}}, let={"who": "Ada"}, comment="by name")) == [1]


def test_hint_and_explain(people):
    people.create_index("age")
    assert ids(people.find({"age": {"$gt": 0}}).hint("age_1")) == [1, 2, 3]
    assert ids(people.find({"age": {"$gt": 0}}).hint([("$natural", -1)])) == [3, 2, 1]
    with pytest.raises(OperationFailure) as caught:
        list(people.find().hint("nothing"))
    assert caught.value.code == 2
    plan = people.find({"age": {"$gt": 0}}).explain()
    assert plan["queryPlanner"]["winningPlan"]["stage"] == "FETCH"
    assert plan["queryPlanner"]["winningPlan"]["inputStage"]["indexName"] == "age_1"
    assert plan["executionStats"]["nReturned"] == 3
    assert plan["executionStats"]["totalKeysExamined"] == 3


def test_max_time(people):
    people.database.client.admin.command("ping")
    slow = {"$expr": {"$gt": [{"$size": {"$filter": {"input": {"$range": [0, 2_000_000]}, "cond": {"$gt": ["$$this", 5]}}}}, 0]}}
    with pytest.raises(ExecutionTimeout) as caught:
        list(people.find(slow).max_time_ms(1))
    assert caught.value.code == 50


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"a": {"$foo": 1}}, 2),
        ({"$foo": 1}, 2),
        ({"a": {"$in": 1}}, 2),
        ({"$or": []}, 2),
        ({"a": {"$regex": "("}}, 51091),
        ({"a": {"$mod": [0, 1]}}, 2),
        ({"a": {"$size": -1}}, 2),
        ({"$expr": {"$foo": 1}}, 168),
    ],
)
def test_query_errors(people, query, code):
    with pytest.raises(OperationFailure) as caught:
        list(people.find(query))
    assert caught.value.code == code, caught.value.details


def test_tailable_cursor_on_a_capped_collection(database):
    capped = database.create_collection("log", capped=True, size=100_000, max=5)
    capped.insert_many([{"_id": number} for number in range(8)])
    assert ids(capped.find()) == [3, 4, 5, 6, 7]
    assert ids(capped.find().sort("$natural", -1)) == [7, 6, 5, 4, 3]
    cursor = capped.find(cursor_type=CursorType.TAILABLE)
    assert ids(cursor) == [3, 4, 5, 6, 7]
    assert cursor.alive
    capped.insert_one({"_id": 8})
    assert ids(cursor) == [8]
    with pytest.raises(OperationFailure):
        list(database["plain"].insert_one({}) and database["plain"].find(cursor_type=CursorType.TAILABLE))


def test_await_data_waits(database):
    capped = database.create_collection("log", capped=True, size=100_000)
    capped.insert_one({"_id": 1})
    cursor = capped.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(300)
    assert ids(cursor) == [1]
    begun = time.monotonic()
    assert ids(cursor) == []
    assert 0.2 < time.monotonic() - begun < 5


def test_cursors_die_with_their_collection(collection):
    collection.insert_many([{"_id": number} for number in range(100)])
    cursor = collection.find(batch_size=10)
    next(cursor)
    collection.drop()
    with pytest.raises((CursorNotFound, OperationFailure)):
        list(cursor)
