"""A pipeline that stops at a document, at its limit or in its end, goes on behind it: nothing is lost, nothing comes twice."""

import pymongo.errors
import pytest


@pytest.mark.parametrize(
    "rest",
    [
        [{"$limit": 2}],
        [{"$sort": {"_id": 1}}, {"$limit": 2}],
        [{"$limit": 2}, {"$project": {"text": 1}}],
        [{"$sort": {"n": -1}}, {"$limit": 2}],
    ],
    ids=["limit", "sort by index", "project", "sort in memory"],
)
def test_a_limits_last_document_that_does_not_fit_the_batch_comes_in_the_next(collection, rest):
    text = "x" * 9_000_000
    for number in range(3):
        collection.insert_one({"_id": number, "n": -number, "text": text})
    found = collection.aggregate([*rest], allowDiskUse=True)
    assert [document["_id"] for document in found] == [0, 1]


def test_a_limit_on_a_view_keeps_its_last_document(database, collection):
    for number in range(3):
        collection.insert_one({"_id": number, "text": "x" * 9_000_000})
    database.create_collection("limited_view", viewOn=collection.name, pipeline=[{"$match": {"_id": {"$gte": 0}}}])
    assert [document["_id"] for document in database.limited_view.find(limit=2)] == [0, 1]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 100])
def test_items_of_the_last_document_within_a_limit_all_come(collection, batch_size):
    collection.insert_many([{"_id": number, "a": list(range(10 * number, 10 * number + 5))} for number in range(4)])
    pipeline = [{"$limit": 2}, {"$unwind": "$a"}]
    found = [document["a"] for document in collection.aggregate(pipeline, batchSize=batch_size)]
    assert found == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]


def test_items_of_the_last_document_within_a_limit_are_all_merged(database, collection):
    collection.insert_many([{"_id": number, "a": [10 * number, 10 * number + 1, 10 * number + 2]} for number in range(3)])
    target = database["merged_" + collection.name]
    target.drop()
    collection.aggregate(
        [{"$limit": 2}, {"$unwind": "$a"}, {"$project": {"_id": "$a"}}, {"$merge": {"into": target.name}}]
    )
    assert sorted(document["_id"] for document in target.find()) == [0, 1, 2, 10, 11, 12]
    target.drop()


@pytest.mark.parametrize("stages", [[], [{"$sort": {"n": 1}}]], ids=["scan", "sort"])
def test_a_long_merge_ends_by_its_time_limit(database, collection, stages):
    collection.insert_many([{"_id": number, "n": -number} for number in range(40_000)])
    target = database["merged_" + collection.name]
    target.drop()
    with pytest.raises(pymongo.errors.ExecutionTimeout):
        collection.aggregate([*stages, {"$merge": {"into": target.name}}], maxTimeMS=100)
    assert target.count_documents({}) < 40_000
    target.drop()
